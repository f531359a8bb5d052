"""ldmatrix and stmatrix: 8x8 matrices of 16 bits between shared memory and the registers of a warp.

Thread t of the first 8, 16 or 32 gives the address of row t % 8 of matrix t / 8; every row is 16 bytes. The registers
hold the matrices as mma.sync's operands want them: register i is matrix i, thread t has elements 2 (t % 4) and the one
after it of row t / 4, or with .trans of column t / 4.

>>> print(matrix_copy("ldmatrix", 4).registers)
(32,(2,4)):(2,(1,64))
>>> print(matrix_copy("ldmatrix", 4, trans=True).registers)
((4,8),(2,4)):((16,1),(8,64))
>>> print(matrix_copy("stmatrix", 2).rows)                    # lanes 16-31 repeat the addresses that are read
((16,2),8):((8,0),1)

Both layouts give the element number, row-major in its matrix, 64 to a matrix. The 8-bit forms of SM100 are rows of the
same table. Sources: PTX ISA, "ldmatrix", "stmatrix"; CUTLASS include/cute/atom/copy_traits_sm75.hpp (SM75_U32x*_LDSM_N,
SM75_U16x*_LDSM_T), copy_traits_sm90.hpp (SM90_U32x*_STSM_N), copy_traits_sm100.hpp (SM100_U8x*_LDSM_T, _STSM_T,
SM100_SU4_DU8x16, SM100_SU6_DU8x16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.modes import thread_value
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout

Instruction = Literal["ldmatrix", "stmatrix"]


@dataclass(frozen=True)
class _Form:
    """A matrix shape: rows that threads address, elements of a row, and where the registers' values lie in a matrix."""

    rows: int
    columns: int
    threads: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]  # matrices that one instruction may move
    bits: int = 16
    arch: str = "sm_75"


# (instruction, shape, transposed) -> form; a value's number is its element, row-major in its matrix.
_FORMS: dict[tuple[str, str, bool], _Form] = {
    ("ldmatrix", "m8n8", False): _Form(8, 8, ((32, 2),), ((2, 1),), (1, 2, 4)),
    ("ldmatrix", "m8n8", True): _Form(8, 8, ((4, 16), (8, 1)), ((2, 8),), (1, 2, 4)),
    ("stmatrix", "m8n8", False): _Form(8, 8, ((32, 2),), ((2, 1),), (1, 2, 4), arch="sm_90"),
    ("stmatrix", "m8n8", True): _Form(8, 8, ((4, 16), (8, 1)), ((2, 8),), (1, 2, 4), arch="sm_90"),
    ("ldmatrix", "m16n16", True): _Form(16, 16, ((4, 64), (8, 1)), ((4, 16), (2, 8)), (1, 2), 8, "sm_100a"),
    ("ldmatrix", "m8n16", False): _Form(8, 16, ((32, 4),), ((4, 1),), (1, 2, 4), 8, "sm_100a"),
    ("stmatrix", "m16n8", True): _Form(8, 16, ((4, 32), (8, 1)), ((2, 16), (2, 8)), (1, 2, 4), 8, "sm_100a"),
}


@dataclass(frozen=True)
class MatrixCopy:
    """One ldmatrix or stmatrix.

    >>> copy = matrix_copy("stmatrix", 4)
    >>> copy.registers.size(), copy.bits, str(copy)
    (256, 16, 'stmatrix.m8n8.x4')

    rows is (thread, element of the row) -> element number: the addresses. registers is (thread, value) -> element
    number. m8n16 reads rows of packed 4- or 6-bit elements, 16 of them padded to 16 bytes, and leaves them one to a
    byte.
    """

    instruction: Instruction
    shape: str
    count: int
    trans: bool
    rows: Layout
    registers: Layout
    bits: int
    arch: str

    def __str__(self) -> str:
        return f"{self.instruction}.{self.shape}.x{self.count}" + (".trans" if self.trans else "")


def matrix_copy(instruction: Instruction, count: int, trans: bool = False, shape: str = "m8n8") -> MatrixCopy:
    """The instruction that moves `count` matrices.

    >>> matrix_copy("ldmatrix", 3)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: ldmatrix.m8n8 moves 1, 2 or 4 matrices, not 3
    >>> matrix_copy("stmatrix", 1, shape="m16n16")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: there is no stmatrix.m16n16: stmatrix has m8n8, m8n8.trans, m16n8.trans
    """
    form = _FORMS.get((instruction, shape, trans))
    if form is None:
        names = [s + (".trans" if t else "") for i, s, t in _FORMS if i == instruction]
        asked = shape + (".trans" if trans else "")
        raise LayoutError(f"there is no {instruction}.{asked}: {instruction} has {', '.join(names)}")
    if count not in form.counts:
        allowed = " or ".join([", ".join(map(str, form.counts[:-1])), str(form.counts[-1])])
        raise LayoutError(f"{instruction}.{shape} moves {allowed} matrices, not {count}")
    size, addressed = form.rows * form.columns, form.rows * count
    lanes = [(addressed, form.columns), (32 // addressed, 0)]
    rows = thread_value(lanes, [(form.columns, 1)])
    registers = thread_value(list(form.threads), [*form.values, (count, size)])
    return MatrixCopy(instruction, shape, count, trans, rows, registers, form.bits, form.arch)
