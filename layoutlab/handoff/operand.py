"""An MMA operand's shared-memory layout, as CuTe's `make_smem_layout_a` builds it, and its descriptors.

>>> a = SmemOperand(rows=128, k=128, bits=16)
>>> print(a.swizzle_bytes, a.layout, a.matrix())
128 ((128,16),1,(4,2)):((64,1),0,(16,8192)) (128,(16,(4,2))):(64,(1,(16,8192)))
>>> a.starts_bytes
(0, 32, 64, 96, 16384, 16416, 16448, 16480)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.descriptors import Major, SmemDescriptor
from layoutlab.atoms.operand import K_BYTES
from layoutlab.errors import LayoutError
from layoutlab.handoff.starts import Starts, starts_of
from layoutlab.layout import Layout
from layoutlab.swizzle import Swizzle


@dataclass(frozen=True)
class SmemOperand:
    """An operand of `rows` x `k` elements in the widest swizzle atom whose row divides the tile's.

    K-major, atoms of 8 rows are stacked along the rows first, then along k. Where a row holds several atoms, k has
    three parts: k0 inside an instruction, k1 inside the atom, k2 the atom. MN-major, atoms of 8 ks are stacked along k
    first, then along the rows. Source: PTX ISA, tcgen05 canonical layouts; CUTLASS `sm100_smem_selector` for the choice
    of the atom.

    >>> v = SmemOperand(rows=128, k=64, bits=16, major="MN")
    >>> print(v.layout, v.descriptor().lbo, v.descriptor().sbo, v.starts_bytes)
    (((64,2),16),1,4):(((1,4096),64),0,1024) 8192 1024 (0, 2048, 4096, 6144)
    """

    rows: int
    k: int
    bits: int
    major: Major = "K"

    def __post_init__(self) -> None:
        if self.major == "MN" and (self.rows * self.bits % (8 * K_BYTES) or self.k % self._k0):
            raise LayoutError(
                f"an MN-major operand of {self.rows} x {self.k} {self.bits}-bit elements "
                f"is not made of {K_BYTES} bytes of rows and {self._k0} of K"
            )
        if self.rows % 8 or self.k * self.bits % (8 * K_BYTES) or 8 * K_BYTES % self.bits:
            raise LayoutError(
                f"an operand of {self.rows} x {self.k} {self.bits}-bit elements "
                f"is not made of 8 rows and {K_BYTES} bytes of K"
            )

    @property
    def swizzle_bytes(self) -> Literal[32, 64, 128]:
        """The width of the atom's row."""
        row = (self.k if self.major == "K" else self.rows) * self.bits // 8
        return 128 if row % 128 == 0 else 64 if row % 64 == 0 else 32

    @property
    def swizzle(self) -> Swizzle:
        """The atom's swizzle, as CuTe prints it beside a pointer: of byte addresses."""
        return Swizzle(self.swizzle_bytes.bit_length() - 5, 4, 3)

    @property
    def k_parts(self) -> tuple[int, int, int]:
        """Extents of k0, k1, k2."""
        if self.major == "MN":
            return self._k0, self.k // self._k0, 1
        return self._k0, self.atom // self._k0, self.k // self.atom

    @property
    def _k0(self) -> int:
        return 8 * K_BYTES // self.bits

    @property
    def atom(self) -> int:
        """Elements of the atom's row."""
        return 8 * self.swizzle_bytes // self.bits

    @property
    def layout(self) -> Layout:
        """((rows,k0),1,(k1,k2)) -> element, before the swizzle; a k2 of one atom is left out, as CuTe leaves it out."""
        k0, k1, k2 = self.k_parts
        atom = self.atom
        if self.major == "MN":
            rows = self._mn_rows()
            return Layout(((rows.shape, k0), 1, k1), ((rows.stride, atom), 0, k0 * atom))
        rest, stride = ((k1, k2), (k0, self.rows * atom)) if k2 != 1 else (k1, k0)
        return Layout(((self.rows, k0), 1, rest), ((atom, 1), 0, stride))

    def matrix(self, order: str = "012") -> Layout:
        """The same buffer as (m, k): k taken apart as k0, k1, k2, or, wrongly, with k2 before k1 ("021")."""
        k0, k1, k2 = self.k_parts
        atom = self.atom
        if self.major == "MN":
            rows = self._mn_rows()
            return Layout((rows.shape, self.k), (rows.stride, atom))
        if k2 == 1:
            if order != "012":
                raise LayoutError(
                    f"k_order={order} needs a k of three parts, and {self.k} elements of {self.bits} bits lie in one "
                    f"swizzle atom of {self.swizzle_bytes} bytes: there is no k2"
                )
            return Layout((self.rows, (k0, k1)), (atom, (1, k0)))
        if order == "021":
            return Layout((self.rows, (k0, (k2, k1))), (atom, (1, (self.rows * atom, k0))))
        return Layout((self.rows, (k0, (k1, k2))), (atom, (1, (k0, self.rows * atom))))

    def _mn_rows(self) -> Layout:
        blocks = self.rows // self.atom
        return Layout((self.atom, blocks), (1, self.atom * self.k)) if blocks != 1 else Layout(self.atom)

    @property
    def bytes(self) -> int:
        """The bytes of one stage."""
        return self.rows * self.k * self.bits // 8

    @property
    def box(self) -> tuple[int, int]:
        """The box of a TMA load that fills it, contiguous elements first: a row of the atom, and all of the others."""
        return (self.atom, self.rows if self.major == "K" else self.k)

    def descriptor(self, start: int = 0) -> SmemDescriptor:
        """The descriptor of the first K step: 8 rows (or ks) of the atom lie `sbo` bytes before the next 8, and
        MN-major, atoms side by side `lbo` bytes apart."""
        lbo = self.k * self.swizzle_bytes if self.major == "MN" and self.rows != self.atom else 0
        return SmemDescriptor(start=start, lbo=lbo, sbo=8 * self.swizzle_bytes, swizzle=self.swizzle_bytes)

    @property
    def starts(self) -> Layout:
        """How much further each K step starts: 32 bytes inside an atom, a whole column of atoms at the next."""
        k0, k1, k2 = self.k_parts
        if self.major == "MN":
            return Layout(k1, k0 * self.swizzle_bytes)
        return Layout((k1, k2), (K_BYTES, self.rows * self.swizzle_bytes))

    @property
    def starts_bytes(self) -> Starts:
        """The same as numbers, where they can be counted."""
        return starts_of(self.starts)
