"""Operands: the map by which a matrix instruction reads a tile through descriptors, and the descriptors of a layout.

`operand_map` is the reader's side, (m, k) -> bit of shared memory, from descriptor fields and the ISA alone.
`descriptor_of` is the writer's side: which fields describe a CuTe layout, or why none do.

>>> P = ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, Layout((128, (64, 2)), (64, (1, 8192))), element_bits=16)
>>> found = descriptor_of(P, element_bits=16)
>>> found.descriptor.sbo, found.descriptor.sbo >> 4, found.starts_bytes
(1024, 64, (0, 32, 64, 96, 16384, 16416, 16448, 16480))
>>> found.steps_units                                               # what a kernel adds to the word's start field
(2, 2, 2, 1018, 2, 2, 2)

Sources: PTX ISA, "Canonical layouts"; CUTLASS include/cute/arch/mma_sm100_desc.hpp (make_umma_desc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from layoutlab.atoms.descriptors import CORE_BYTES, Major, SmemDescriptor, SwizzleMode, pattern_of
from layoutlab.digits import Map, strided_over
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

SHOWN = 8  # starts that a sentence lists
K_BYTES = 32  # of K that one instruction takes from each row; dense kinds


def k_per_instruction(element_bits: int, *, padded: bool = False) -> int:
    """Elements of K in one dense matrix instruction: 32 bytes of shared memory.

    >>> [k_per_instruction(b) for b in (4, 8, 16, 32)], k_per_instruction(6, padded=True)
    ([64, 32, 16, 8], 32)
    """
    return K_BYTES if padded else K_BYTES * 8 // element_bits


def operand_map(
    desc: SmemDescriptor,
    rows: int,
    element_bits: int = 16,
    major: Major = "K",
    starts_bytes: Sequence[int] = (0,),
    axes: tuple[str, str] = ("m", "k"),
    *,
    padded: bool = False,
) -> Map:
    """(m, k) -> bit of shared memory, for one instruction a K step: descriptor `desc` moved by each of `starts_bytes`.

    >>> read = operand_map(SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128), 128, starts_bytes=[0, 32, 64, 96])
    >>> read.extents, read(m=1, k=16)
    ({'m': 128, 'k': 64}, {'bit': 1408})

    Units: bits, absolute addresses. Raises LayoutError for starts that are no sum of strides and for an address whose
    swizzle carries; `SmemDescriptor.bit_addresses` holds for those too.
    """
    linear = linear_operand_map(desc, rows, element_bits, major, starts_bytes, axes, padded=padded)
    pattern = pattern_of(desc.swizzle)
    if not pattern.bits:
        return linear
    # Counting rows from base_offset on: the swizzle of an address that much lower, put back where it was.
    moved = desc.base_offset * 1024
    return linear.plus("bit", -moved).swizzled("bit", pattern.bits, pattern.low + 3, 7 - pattern.low).plus("bit", moved)


def linear_operand_map(
    desc: SmemDescriptor,
    rows: int,
    element_bits: int = 16,
    major: Major = "K",
    starts_bytes: Sequence[int] | Layout = (0,),
    axes: tuple[str, str] = ("m", "k"),
    *,
    padded: bool = False,
    row_starts: Sequence[int] | Layout = (0,),
) -> Map:
    """`operand_map` before the swizzle: (m, k) -> bit of the address that the instruction then swizzles.

    >>> linear_operand_map(SmemDescriptor(start=512, lbo=0, sbo=1024, swizzle=128), 128)(m=1, k=0)
    {'bit': 5120}

    `row_starts` are those of several instructions, each of as many of the rows. Starts may be a layout too.
    """
    (first, k_starts), (first_row, more_rows) = (_starts(starts) for starts in (starts_bytes, row_starts))
    rows = _whole(rows, prod(extent for extent, _ in more_rows), "rows")
    pattern = pattern_of(desc.swizzle)
    per_step = k_per_instruction(element_bits, padded=padded)
    chunk = desc.elements_a_chunk(element_bits, major, padded=padded)
    near = [(chunk, element_bits)]
    groups, width = pattern.rows, pattern.width * 8
    row_name, k_name = axes
    if major == "K":
        along = desc.lbo * 8 if desc.swizzle == 0 else CORE_BYTES * 8
        row_modes = [(groups, width), (_whole(rows, groups, "rows"), desc.sbo * 8)]
        k_modes = [*near, (per_step // chunk, along)]
    elif desc.swizzle == 0:
        row_modes = [*near, (_whole(rows, chunk, "rows"), desc.sbo * 8)]
        k_modes = [(8, CORE_BYTES * 8), (_whole(per_step, 8, "ks"), desc.lbo * 8)]
    else:
        across = pattern.width // CORE_BYTES  # chunks of an atom
        row_modes = [*near, (across, CORE_BYTES * 8), (_whole(rows, chunk * across, "rows"), desc.lbo * 8)]
        k_modes = [(groups, width), (_whole(per_step, groups, "ks"), desc.sbo * 8)]
    k_modes += [(extent, stride * 8) for extent, stride in k_starts]
    row_modes += [(extent, stride * 8) for extent, stride in more_rows]
    table = strided_over({row_name: row_modes, k_name: k_modes}, "bit")
    return table.plus("bit", 8 * (desc.start + first + first_row))


def _starts(starts: Sequence[int] | Layout) -> tuple[int, list[tuple[int, int]]]:
    """The first start, and the modes by which the others are further."""
    return (0, starts.leaves()) if isinstance(starts, Layout) else (starts[0], as_modes(starts))


def as_modes(values: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers, less the first one, as the values of a strided layout: (extent, stride), fastest first.

    >>> as_modes([0, 32, 64, 96, 16384, 16416, 16448, 16480])
    [(4, 32), (2, 16384)]

    Raises LayoutError where no strides give them.
    """
    if not values:
        raise LayoutError("no starts: one for each K step is needed")
    rest = [v - values[0] for v in values]
    modes, weight = list[tuple[int, int]](), 1
    while weight < len(rest):
        stride, extent = rest[weight], 1
        while weight * (extent + 1) <= len(rest) and rest[weight * extent] == extent * stride:
            extent += 1
        while len(rest) // weight % extent:
            extent -= 1
        if extent == 1:
            break
        modes.append((extent, stride))
        weight *= extent
    if rest != [_value(i, modes) for i in range(len(rest))]:
        shown = ", ".join(map(str, values[:SHOWN])) + (", ..." if len(values) > SHOWN else "")
        raise LayoutError(f"the starts {shown} are no sum of strides")
    return modes


def _value(index: int, modes: Sequence[tuple[int, int]]) -> int:
    total = 0
    for extent, stride in modes:
        total, index = total + index % extent * stride, index // extent
    return total


def _whole(extent: int, part: int, what: str) -> int:
    if extent % part:
        raise LayoutError(f"{extent} {what} are no whole number of {part}")
    return extent // part


def canonical_layout(
    rows: int, ks: int, element_bits: int = 16, major: Major = "K", swizzle: SwizzleMode = 128
) -> Layout | ComposedLayout:
    """The compact layout of a (rows, k) tile that descriptors read: swizzle atoms beside each other, rows first.

    >>> print(canonical_layout(128, 128))
    S<3,4,3>[8b] o 0 o [16b]((8,16),(64,2)):((64,512),(1,8192))
    >>> print(canonical_layout(64, 32, major="MN", swizzle=0))
    ((8,8),(8,4)):((1,64),(8,512))

    Counts elements of `element_bits`. Raises LayoutError where the tile is no whole number of atoms.
    """
    pattern = pattern_of(swizzle)
    wide = pattern.width * 8 // element_bits  # elements of an atom's contiguous side
    if major == "K":
        down, along = _whole(rows, pattern.rows, "rows"), _whole(ks, wide, "ks")
        outer = Layout(((pattern.rows, down), (wide, along)), ((wide, pattern.rows * wide), (1, rows * wide)))
    else:
        along, down = _whole(rows, wide, "rows"), _whole(ks, pattern.rows, "ks")
        # Without a swizzle rows are next to each other first, with one the ks of a row of atoms are.
        next_along, next_down = (8 * wide, 8 * rows) if swizzle == 0 else (wide * ks, pattern.rows * wide)
        outer = Layout(((wide, along), (pattern.rows, down)), ((1, next_along), (wide, next_down)))
    if swizzle == 0:
        return outer
    return ComposedLayout(Swizzle(pattern.bits, pattern.low, 7 - pattern.low, 8), 0, outer, element_bits)


# -- from a layout to fields ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """The descriptors that read a tile: the first one, and how many bytes further on each K step's start is."""

    descriptor: SmemDescriptor
    major: Major
    starts_bytes: tuple[int, ...]

    @property
    def steps_units(self) -> tuple[int, ...]:
        """Between one K step and the next, in the 16-byte units of the word."""
        return tuple((b - a) // CORE_BYTES for a, b in pairwise(self.starts_bytes))


def descriptor_of(layout: Layout | ComposedLayout, element_bits: int = 16, start: int = 0) -> Operand:
    """The descriptor fields that read a (rows, k) tile stored so, K- or MN-major as its contiguous mode says.

    >>> descriptor_of(Layout((8, 64), (64, 1)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: (8,64):(64,1) is K-major with rows 128 bytes apart and no swizzle: no canonical ...

    layout is (rows, k), or ((rows, k), 1, steps) as an MMA partitions it; it counts elements of `element_bits`; its
    swizzle, if any, is one of the hardware's and says what it counts (a swizzle without a unit is taken as CuTe
    prints shared-memory layouts: bytes). start is the byte address of the tile. The fields found are read back
    through `operand_map` and compared element by element with the layout, so a wrong answer cannot leave. Raises
    LayoutError with the reason and, where there is one, the canonical layout that is nearest.
    """
    outer, mode = _taken_apart(layout, element_bits)
    rows, ks = (_count(outer[i]) for i in (0, 1))
    per_step = k_per_instruction(element_bits)
    if ks % per_step:
        raise LayoutError(f"{layout} has {ks} ks: an instruction takes {per_step} of {element_bits} bits at a time")
    _refuse_many_to_one(layout, outer)
    at = outer  # element offsets, before the swizzle
    major: Major = "K" if at(0, 1) == 1 else "MN"
    if major == "MN" and at(1, 0) != 1:
        raise LayoutError(f"{layout}: neither rows nor ks are contiguous, and an instruction reads 16 bytes at a time")
    starts = tuple(int(at(0, k)) * element_bits // 8 for k in range(0, ks, per_step))
    desc = _fields(layout, outer, mode, major, element_bits, start)
    try:
        read = operand_map(desc, rows, element_bits, major, starts)
    except LayoutError as error:
        raise LayoutError(f"{layout}, {major}-major: {error}") from None
    written = _written(layout, outer, mode, element_bits, start)
    if different := written.first_difference(read):
        m, k = different["m"], different["k"]
        raise LayoutError(
            f"{layout} is no canonical {major}-major layout: with {_nearest(desc)} the element (m={m}, k={k}) "
            f"is read at byte {read(m=m, k=k)['bit'] // 8} and lies at byte {written(m=m, k=k)['bit'] // 8}"
            + _canonical(rows, ks, element_bits, major, mode)
        )
    return Operand(desc, major, starts)


def _taken_apart(layout: Layout | ComposedLayout, element_bits: int) -> tuple[Layout, SwizzleMode]:
    """The unswizzled layout of rank 2 and the descriptor's swizzle mode."""
    outer = _rows_and_ks(layout.outer if isinstance(layout, ComposedLayout) else layout)
    if not isinstance(layout, ComposedLayout) or layout.inner is None:
        return outer, 0
    if not isinstance(layout.inner, Swizzle) or layout.offset != 0:
        raise LayoutError(f"{layout}: an operand is a swizzle over a layout from 0")
    return outer, swizzle_mode(layout.inner)


def swizzle_mode(swizzle: Swizzle | None) -> SwizzleMode:
    """The mode of a descriptor that swizzles so; a swizzle without a unit counts bytes, as CuTe prints it.

    >>> swizzle_mode(Swizzle(2, 4, 3)), swizzle_mode(Swizzle(3, 3, 3, unit_bits=16)), swizzle_mode(None)
    (64, 128, 0)
    """
    if swizzle is None:
        return 0
    counted = swizzle if swizzle.unit_bits else Swizzle(*_bms(swizzle), unit_bits=8)
    b, m, s = _bms(counted.counted_in(8))
    modes: dict[tuple[int, int, int], SwizzleMode] = {
        (1, 4, 3): 32,
        (2, 4, 3): 64,
        (3, 4, 3): 128,
        (2, 5, 2): "128_32b",
    }
    if b == 0:
        return 0
    if (b, m, s) not in modes:
        raise LayoutError(
            f"{counted} is S<{b},{m},{s}> on bytes: descriptors have S<1,4,3>, S<2,4,3>, S<3,4,3> and S<2,5,2> on bytes"
        )
    return modes[b, m, s]


def _rows_and_ks(layout: Layout) -> Layout:
    """(rows, k) as it is; or ((rows, k), 1, steps...) of one instruction's rows, as an MMA partitions an operand."""
    if layout.rank() == 2:
        return layout
    if layout.rank() < 3 or layout[0].rank() != 2:
        raise LayoutError(f"{layout} has {layout.rank()} modes: an operand is (rows, k), or ((rows, k), 1, steps)")
    if _count(layout[1]) != 1:
        raise LayoutError(f"{layout} has rows of {_count(layout[1])} instructions: take one, layout[:, i]")
    rows, inside, *steps = layout[0][0], layout[0][1], *(layout[i] for i in range(2, layout.rank()))
    ks = [inside, *(step for step in steps if _count(step) > 1)]
    shape, stride = (tuple(getattr(k, part) for k in ks) for part in ("shape", "stride"))
    return Layout((rows.shape, shape), (rows.stride, stride))


def _count(layout: Layout) -> int:
    size = layout.size()
    if not isinstance(size, int):
        raise LayoutError(f"{layout} has a symbolic size: descriptor fields are numbers")
    return size


def _bms(swizzle: Swizzle) -> tuple[int, int, int]:
    return swizzle.bits, swizzle.base, swizzle.shift


def _refuse_many_to_one(layout: Layout | ComposedLayout, outer: Layout) -> None:
    import numpy as np

    size = _count(outer)
    places = len(np.unique(outer(np.arange(size))))
    if places == size:
        return
    reached, hint = 1, ""
    for extent, stride in sorted(((e, d) for e, d in outer.leaves() if e > 1), key=lambda mode: mode[1]):
        if stride < reached and not hint:
            hint = f"; the stride {stride} falls among the {reached} places before it, {reached} is right"
        reached = stride * (extent - 1) + reached
    raise LayoutError(f"{layout} is not injective: {size} elements in {places} places{hint}")


def _fields(
    layout: Layout | ComposedLayout, outer: Layout, mode: SwizzleMode, major: Major, element_bits: int, start: int
) -> SmemDescriptor:
    """The only fields that can be right, read off the layout at the corners of the canonical form; 0 where unread."""
    rows, ks, pattern = _count(outer[0]), k_per_instruction(element_bits), pattern_of(mode)
    chunk = CORE_BYTES * 8 // element_bits

    def byte(m: int, k: int) -> int:
        inside = m < rows and k < ks
        return int(outer(m, k)) * element_bits // 8 if inside else 0

    if major == "K":
        apart = byte(1, 0)
        if apart != pattern.width:
            _refuse_row_pitch(layout, (rows, _count(outer[1])), apart, mode, element_bits)
        lbo, sbo = (byte(0, chunk) if mode == 0 else 0), byte(8, 0)
    elif mode == 0:
        lbo, sbo = byte(0, 8), byte(chunk, 0)
    else:
        lbo, sbo = byte(pattern.width * 8 // element_bits, 0), byte(0, pattern.rows)
    return SmemDescriptor(start, lbo, sbo, mode)


def _refuse_row_pitch(
    layout: Layout | ComposedLayout, tile: tuple[int, int], apart: int, mode: SwizzleMode, element_bits: int
) -> None:
    width = pattern_of(mode).width
    have = f"swizzle {mode}" if mode else "no swizzle"
    right = {32: "Swizzle<1,4,3>", 64: "Swizzle<2,4,3>", 128: "Swizzle<3,4,3>"}.get(apart)
    rule = f"Without a swizzle rows are {width} bytes apart" if mode == 0 else f"With it rows are {width} bytes apart"
    hint = f"; {apart} bytes apart they need {right} on bytes" if right else ""
    raise LayoutError(
        f"{layout} is K-major with rows {apart} bytes apart and {have}: no canonical layout. {rule}{hint}"
        + _canonical(*tile, element_bits, "K", mode)
    )


def _written(layout: Layout | ComposedLayout, outer: Layout, mode: SwizzleMode, element_bits: int, start: int) -> Map:
    """(m, k) -> bit where the layout puts the element, the swizzle acting on the absolute address."""
    linear = outer.map("bit", "m", "k", unit=element_bits).plus("bit", 8 * start)
    pattern = pattern_of(mode)
    return linear.swizzled("bit", pattern.bits, pattern.low + 3, 7 - pattern.low)


def _canonical(rows: int, ks: int, element_bits: int, major: Major, mode: SwizzleMode) -> str:
    """The layout of this tile that would be read with this swizzle, if it has one."""
    try:
        return f"; canonical is {canonical_layout(rows, ks, element_bits, major, mode)}"
    except LayoutError:
        return ""


def _nearest(desc: SmemDescriptor) -> str:
    return f"lbo {desc.lbo}, sbo {desc.sbo} and swizzle {desc.swizzle}"
