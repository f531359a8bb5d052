"""Datapaths: in which lane and column of Tensor Memory tcgen05.mma keeps each element of D, and takes each of A.

    D, cta_group 1, M 128      row m in lane m
    D, cta_group 1, M 64       row m in lane m % 16 + 32 (m / 16): half of each warp's lanes
    D, cta_group 2, M 256      CTA m / 128, lane m % 128
    D, cta_group 2, M 128      CTA m / 64; lanes 0-63 hold the first N / 2 columns, lanes 64-127 the others
    D, .ws, M 128, 64, 32      the whole N in 1, 2 or 4 bands of 128, 64 or 32 lanes
    A                          lane as D's rows, 32 bits of K to a column: two 16-bit, four 8-bit elements

>>> accumulator(128, 128, cta_group=2)(m=70, n=65)
{'cta': 1, 'lane': 70, 'column': 1}
>>> print(accumulator_layout(128, 128, cta_group=2))          # of one CTA, in the DSL's Tensor Memory addresses
(64,(64,2)):(65536,(1,4194304))
>>> print(operand_layout(128, 32, bits=8))
(128,32):(262144,1)

A Tensor Memory pointer counts elements of its type: a lane is 65536 32-bit columns, so 65536 * 32 / bits of them.
Sources: PTX ISA, tcgen05 "Data path layout organization", layouts A, B, D to G; CUTLASS
include/cute/atom/mma_traits_sm100_frag.hpp. Dense instructions: with a sparse A, M 128 of two CTAs is laid out as M 64.
"""

from __future__ import annotations

from layoutlab.atoms.tmem import COLUMNS, LANES, WORD_BITS
from layoutlab.digits import Map, beside, strided_over
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.symbol import at_most

LANE_COLUMNS = 1 << 16  # columns from one lane to the next in an address: lane in bits 16-31
_MIN_COLUMNS = 32

_Mode = tuple[int, int, int, int]  # extent; steps in CTA, lane, column


def accumulator(m: int, n: int, cta_group: int = 1, *, ws: bool = False) -> Map:
    """(m, n) -> (cta, lane, column) of accumulator D, 32 bits to an element; lane and column from D's own address.

    >>> accumulator(64, 32)(m=17, n=3)
    {'cta': 0, 'lane': 33, 'column': 3}
    >>> accumulator(32, 64, ws=True)(m=1, n=33)
    {'cta': 0, 'lane': 65, 'column': 1}

    16-bit accumulators stand one to a column too, in its low half. Raises LayoutError for shapes that do not exist.
    """
    rows, columns = _accumulator_modes(m, n, cta_group, ws)
    return _map(("cta", "lane", "column"), {"m": rows, "n": columns})


def operand_a(m: int, k: int, bits: int = 16, cta_group: int = 1) -> Map:
    """(m, k) -> (cta, lane, bit) of operand A in Tensor Memory: `bit` counts along the lane from A's own address.

    >>> operand_a(128, 16)(m=3, k=5)
    {'cta': 0, 'lane': 3, 'bit': 80}
    >>> operand_a(64, 16, bits=32)(m=16, k=1)
    {'cta': 0, 'lane': 32, 'bit': 32}

    bits is 8, 16 or 32; k counts all K steps of the tile, one after the other. With cta_group 2 and M 128 each CTA's
    64 rows are needed twice, in lanes 64-127 too; `operand_copies` says how many copies there are.
    """
    if bits not in (8, 16, 32):
        raise LayoutError(f"A in Tensor Memory has 8-, 16- or 32-bit elements, not {bits}-bit ones")
    if k * bits % 256:
        raise LayoutError(f"A in Tensor Memory comes in K steps of 32 bytes, {256 // bits} elements: not {k}")
    rows = _rows(m, cta_group, ws=False)
    return _map(("cta", "lane", "bit"), {"m": rows, "k": [(k, 0, 0, bits)]})


def operand_copies(m: int, cta_group: int = 1) -> int:
    """How often A must stand in Tensor Memory: twice, 64 lanes apart, for M 128 of two CTAs, else once.

    >>> operand_copies(128, cta_group=2), operand_copies(256, cta_group=2)
    (2, 1)
    """
    _rows(m, cta_group, ws=False)
    return 2 if (m, cta_group) == (128, 2) else 1


def accumulator_layout(m: int, n: int, cta_group: int = 1, *, ws: bool = False, bits: int = 32) -> Layout:
    """(m, n) of one CTA -> Tensor Memory address in elements of `bits`, as CuTe prints an accumulator fragment.

    >>> print(accumulator_layout(64, 32)); print(accumulator_layout(128, 64, bits=16))
    ((16,4),32):((65536,2097152),1)
    (128,64):(131072,2)
    """
    rows, columns = _accumulator_modes(m, n, cta_group, ws)
    return _addresses([mode for mode in rows if not mode[1]], columns, bits, WORD_BITS // bits)


def operand_layout(m: int, k: int, bits: int = 16, cta_group: int = 1) -> Layout:
    """(m, k) of one CTA -> Tensor Memory address of A in elements of `bits`; rows that stand twice are counted twice.

    >>> print(operand_layout(128, 16))
    (128,16):(131072,1)
    """
    operand_a(m, k, bits, cta_group)
    rows = [mode for mode in _rows(m, cta_group, ws=False) if not mode[1]]
    if operand_copies(m, cta_group) == 2:
        rows = [(LANES, 0, 1, 0)]
    return _addresses(rows, [(k, 0, 0, 1)], bits, 1)


def _addresses(rows: list[_Mode], columns: list[_Mode], bits: int, column_elements: int) -> Layout:
    lane = LANE_COLUMNS * WORD_BITS // bits
    groups = [
        [(extent, lanes * lane + column * column_elements) for extent, _, lanes, column in group if extent > 1]
        for group in (rows, columns)
    ]
    shape, stride = (
        tuple(group[0][i] if len(group) == 1 else tuple(mode[i] for mode in group) for group in groups) for i in (0, 1)
    )
    return Layout(shape, stride)


def _accumulator_modes(m: int, n: int, cta_group: int, ws: bool) -> tuple[list[_Mode], list[_Mode]]:
    rows = _rows(m, cta_group, ws)
    step = 8 if (m, cta_group) == (64, 1) else 16
    if ws:
        if n not in (64, 128, 256):
            raise LayoutError(f"tcgen05.mma.ws has N 64, 128 and 256, not {n}")
    elif n % step or not step <= n or not at_most(n, 256, "an accumulator has up to 256 columns"):
        raise LayoutError(f"N is {n}: with cta_group {cta_group} and M {m} it is a multiple of {step}, up to 256")
    bands = LANES // m if ws else 2 if (m, cta_group) == (128, 2) else 1
    return rows, [(n // bands, 0, 0, 1), (bands, 0, LANES // bands, 0)]


def _rows(m: int, cta_group: int, ws: bool) -> list[_Mode]:
    if ws:
        if cta_group != 1 or m not in (32, 64, 128):
            raise LayoutError(f"tcgen05.mma.ws has M 32, 64 and 128 in one CTA, not {m} with cta_group {cta_group}")
        return [(m, 0, 1, 0)]
    if cta_group == 1 and m == 64:
        return [(16, 0, 1, 0), (4, 0, 32, 0)]
    if cta_group == 1 and m == 128:
        return [(m, 0, 1, 0)]
    if cta_group == 2 and m in (128, 256):
        return [(m // 2, 0, 1, 0), (2, 1, 0, 0)]
    raise LayoutError(f"M is {m}: cta_group 1 has 64 and 128, cta_group 2 has 128 and 256, not {m} with {cta_group}")


def _map(outputs: tuple[str, str, str], axes: dict[str, list[_Mode]]) -> Map:
    return beside(
        *(
            strided_over({axis: [(mode[0], mode[1 + i]) for mode in modes] for axis, modes in axes.items()}, out)
            for i, out in enumerate(outputs)
        )
    )


# -- columns ----------------------------------------------------------------------------------------------------------


def allocation(columns: int) -> int:
    """Columns that tcgen05.alloc has to be asked for to have this many: a power of two, 32 to 512.

    >>> allocation(1), allocation(65), allocation(512)
    (32, 128, 512)
    """
    if not 0 < columns <= COLUMNS:
        raise LayoutError(f"{columns} columns: Tensor Memory has {COLUMNS}, and an allocation at least one")
    return max(_MIN_COLUMNS, 1 << (columns - 1).bit_length())


def check_allocation(columns: int) -> None:
    """Refuses what tcgen05.alloc does not take.

    >>> check_allocation(96)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: tcgen05.alloc takes a power of two from 32 to 512 columns, not 96: ask for 128
    """
    if not 0 < columns <= COLUMNS or allocation(columns) != columns:
        right = f": ask for {allocation(columns)}" if 0 < columns <= COLUMNS else ""
        raise LayoutError(f"tcgen05.alloc takes a power of two from 32 to 512 columns, not {columns}{right}")


def pointer_step(columns: int, bits: int) -> int:
    """Elements of `bits` by which a typed Tensor Memory pointer moves to go `columns` columns on.

    >>> pointer_step(32, bits=16), pointer_step(32, bits=32)
    (64, 32)
    """
    return columns * WORD_BITS // bits


def columns_of(elements: int, bits: int) -> int:
    """Columns that a pointer step of `elements` elements of `bits` is; refuses a step into the middle of a column.

    >>> columns_of(32, bits=16)                     # an offset meant in columns, used as elements: half as far
    16
    """
    if elements * bits % WORD_BITS:
        raise LayoutError(f"{elements} elements of {bits} bits end inside a 32-bit column of Tensor Memory")
    return elements * bits // WORD_BITS
