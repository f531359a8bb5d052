"""Threads that store to shared memory: the tiled copy, the coordinates and the matrices that a reader needs.

The reader after the owner is the map that the store must have: (thread, value) -> bit of shared memory. Without the
swizzle, which rides on the pointer, it is a layout of element offsets, and that is what `make_cotiled_copy` takes.

    reader o owner  ->  needed: (T,V) -> offset     in the order in which threads hold their values
                    ->  order:  V -> V              values that lie side by side in memory first
                    ->  atom_layout_tv, the width of one store, or stmatrix where the threads lie as it has them

>>> from layoutlab.catalogue import sP
>>> found = needed(sP().writer.owner, sP().reader)
>>> print(found.storage.layout, found.offsets())
S<3,4,3> o 0 o (128,(64,2)):(64,(1,8192)) (128,(64,2)):(64,(1,8192))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from layoutlab.algebra import coalesce, composition
from layoutlab.errors import LayoutError
from layoutlab.handoff.buffer import storage_of
from layoutlab.handoff.matrices import stmatrix
from layoutlab.handoff.places import Places
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.report import store_wavefronts
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.strided import Strided, along, in_elements, modes_layout, strided_form
from layoutlab.handoff.writer import Owner, Writer, owned, store
from layoutlab.layout import Layout, make_layout

LANES, ROW_BITS, REGISTER_BITS, WAVEFRONT_BITS = 32, 128, 32, 1024
Digit = tuple[int, int, int]
"""Weight in its axis, extent, and step in bits."""


@dataclass(frozen=True)
class Needed:
    """Where each thread's values have to go: the buffer that the reader reads, and (T,V) -> bit before its swizzle."""

    owner: Owner
    reader: Reader
    storage: Smem
    flat: Layout
    """(T,V) -> flat coordinate of the tile."""

    @property
    def bits(self) -> int:
        """Of an element."""
        return self.owner.tile.bits

    @cached_property
    def tv(self) -> Strided:
        """(T,V) -> bit of memory before the swizzle, as steps; raises LayoutError where it has none.

        A store by coordinates does without.
        """
        bits = self.bits
        before = self.storage.element.scaled(bits, "bit", self.storage.offset * bits)
        return strided_form(before.after(self.owner.places))

    @property
    def strided(self) -> bool:
        """Whether the places of threads and values are steps."""
        try:
            return bool(self.tv.modes)
        except LayoutError:
            return False

    def offsets(self, order: Layout | None = None) -> Layout:
        """(T,V) -> element offset from the buffer's start, the values in another order where one is given."""
        t, v = (in_elements(self.tv.steps(axis), self.bits, f"the store along {axis}") for axis in ("t", "v"))
        layout = modes_layout(t, v)
        return layout if order is None else make_layout(layout[0], composition(layout[1], order))

    def holder(self, order: Layout | None = None) -> Owner:
        """The owner with its values in another order."""
        if order is None:
            return self.owner
        flat = make_layout(self.flat[0], composition(self.flat[1], order))
        other = owned(flat, self.owner.tile, first_thread=self.owner.first_thread)
        return replace(other, source=self.owner.source, rules=self.owner.rules, load=self.owner.load)

    def digits(self, axis: str) -> list[Digit]:
        """The parts of an axis, fastest first."""
        found, weight = list[Digit](), 1
        for extent, step in self.tv.modes[axis]:
            if extent > 1:
                found.append((weight, extent, step))
            weight *= extent
        return found


def needed(owner: Owner, reader: Reader) -> Needed:
    """Reader after owner; raises LayoutError with the reason where no buffer or no layout is that."""
    storage = storage_of(reader)
    for axis, extent in owner.tile.extents.items():
        low, high = _bounds(owner.places, axis)
        if low < 0 or high >= extent:
            raise LayoutError(
                f"the threads hold {axis}={low} to {high}, and {owner.tile} ends at {axis}={extent - 1}: an owner "
                f"of the tile alone is needed"
            )
    return Needed(owner, reader, storage, _flat(owner))


def _bounds(places: Places, axis: str) -> tuple[int, int]:
    try:
        return places.table.bounds(axis)
    except LayoutError:
        from layoutlab.arbiter import value_bounds

        return value_bounds(places.axes, lambda **index: places.at(**index)[axis])


def _flat(owner: Owner) -> Layout:
    """(T,V) -> flat coordinate, read off the owner's places."""
    weights, weight = dict[str, int](), 1
    for axis, extent in owner.tile.extents.items():
        weights[axis], weight = weight, weight * extent

    def at(**index: Any) -> dict[str, Any]:
        where = owner.places.at(**index)
        return {"bit": sum(where[axis] * weights[axis] for axis in weights)}

    places = Places(owner.places.axes, ("bit",), lambda: owner.places.table, at)
    found = strided_form(replace(places, before=places))
    if found.base:
        raise LayoutError(f"the owner starts at element {found.base} of {owner.tile}, which no layout does")
    return modes_layout(found.steps("t"), found.steps("v"))


# -- vectors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vector:
    """Stores of one width: the writer, the order of the values that it needs, and what the warps' stores cost."""

    writer: Writer
    bits: int
    order: Layout | None  # new place of a value -> its place as it is held; None: as held
    counts: tuple[int, ...]

    @property
    def least(self) -> int:
        """Wavefronts that a store of this width takes at least."""
        return max(1, LANES * self.bits // WAVEFRONT_BITS)

    @property
    def free(self) -> bool:
        """Whether no store has a bank conflict."""
        return max(self.counts) <= self.least

    @property
    def wavefronts(self) -> int:
        """Of all stores of all warps."""
        return sum(self.counts)


def vectors(need: Needed) -> list[Vector]:
    """The store of each width that is possible, the widest first."""
    threads = need.owner.places.axes["t"]
    if threads < LANES:
        raise LayoutError(f"stores are a warp's, and {threads} threads are less than its {LANES}")
    widths = [bits for bits in (128, 64, 32, 16, 8) if bits >= need.bits]
    if not need.strided:
        widths = [bits for bits in widths if bits == need.bits]  # neighbours in memory are not looked for
    return [made for bits in widths if (made := _vector(need, bits)) is not None]


def best(found: Sequence[Vector]) -> Vector:
    """The widest of those without conflicts; where all have some, the one of the fewest wavefronts."""
    if not found:
        raise LayoutError("no store moves an element: 8 to 128 bits are possible")
    return next((vector for vector in found if vector.free), min(found, key=lambda v: (v.wavefronts, -v.bits)))


def _vector(need: Needed, bits: int) -> Vector | None:
    order = bits == need.bits or neighbours_first(need, bits // need.bits)
    if order is False:
        return None
    kept = order if isinstance(order, Layout) else None
    writer = store(need.holder(kept), need.storage, bits=bits)
    if writer.vector_rule().fault:
        return None
    warps = writer.write.axes["t"] // LANES
    counts = [c for warp in range(warps) for c in store_wavefronts(writer, bits, warp)]
    return Vector(writer, bits, kept, tuple(counts)) if counts else None


def neighbours_first(need: Needed, count: int) -> Layout | bool:
    """The order of values that puts `count` neighbours in memory side by side; True as held, False where none does."""
    chain, rest, reach = list[Digit](), list(need.digits("v")), 1
    while reach < count:
        digit = next((d for d in rest if d[1] > 1 and d[2] == reach * need.bits), None)
        if digit is None:
            return False
        weight, extent, step = digit
        take = min(extent, count // reach)
        if extent % take or count % (reach * take):
            return False
        rest[rest.index(digit)] = (weight * take, extent // take, step * take)
        chain.append((weight, take, step))
        reach *= take
    return _ordered(need, [*chain, *rest])


def _ordered(need: Needed, digits: Sequence[Digit]) -> Layout | bool:
    """The order that these digits of the values are, one after the other; True where it is the one that they have."""
    kept = [(extent, weight) for weight, extent, _ in digits if extent > 1] or [(1, 0)]
    values = need.owner.places.axes["v"]
    if prod(extent for extent, _ in kept) != values:
        return False
    order = coalesce(modes_layout(kept)[0])
    return True if all(order(v) == v for v in range(values)) else order


# -- stmatrix ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrices:
    """stmatrix: how many matrices at a time, turned or not, and the writer with its values in their order."""

    writer: Writer
    count: int
    trans: bool
    order: Layout | None
    counts: tuple[int, ...]

    @property
    def name(self) -> str:
        """stmatrix.x4.trans."""
        return f"stmatrix.x{self.count}" + (".trans" if self.trans else "")

    @property
    def wavefronts(self) -> int:
        """Of all warps."""
        return sum(self.counts)


def matrices(need: Needed) -> Matrices:
    """The stmatrix of most matrices that stores what is needed; raises LayoutError with the reason where none does."""
    if need.bits not in (8, 16):
        raise LayoutError(f"stmatrix moves 8- and 16-bit elements, not {need.bits}-bit ones")
    if need.owner.places.axes["t"] % LANES:
        raise LayoutError(f"stmatrix is a warp's, and {need.owner.places.axes['t']} threads are no whole number of 32")
    reasons = list[str]()
    for trans in (False, True):
        try:
            return next(_matrices(need, trans))
        except LayoutError as error:
            reasons.append(str(error))
        except StopIteration:
            reasons.append(f"{'with' if trans else 'without'} .trans no count of matrices divides a thread's values")
    raise LayoutError("; ".join(reasons))


def _matrices(need: Needed, trans: bool) -> Iterator[Matrices]:
    lanes, bits = _lane_steps(need), need.bits
    if trans:
        if bits != 16:
            raise LayoutError(f".trans turns 16-bit elements, not {bits}-bit ones")
        inside = [(2, lanes[2]), (3, lanes[3]), (4, lanes[4])]
        wanted = [16, 32, 64]
    else:
        inside, wanted = [(0, lanes[0]), (1, lanes[1])], [REGISTER_BITS, 2 * REGISTER_BITS]
    for (i, step), right in zip(inside, wanted, strict=True):
        if step != right:
            much = f"{step // 8} bytes" if step % 8 == 0 else f"{step} bits"
            raise LayoutError(
                f"{'stmatrix.trans' if trans else 'stmatrix'} wants T{1 << i}'s values {right // 8} bytes behind "
                f"T0's, in one row of 16 bytes, and the reader has them {much} on"
            )
    pair, rest = _register(need, trans)
    others = [step for i, step in enumerate(lanes) if i not in {i for i, _ in inside}]
    rows = [pair[0][2], lanes[0], lanes[1]] if trans else others
    apart = [*rows, *(step for _, _, step in rest), *(s for _, _, s in need.digits("t")[-1:] if s % ROW_BITS)]
    if odd := next((step for step in apart if step % ROW_BITS), None):
        raise LayoutError(f"rows start at multiples of 16 bytes, and the reader has one {odd // 8} bytes on")
    for count in (4, 2, 1):
        made = _made(need, trans, count, pair, rest)
        if made is not None:
            yield made


def _lane_steps(need: Needed) -> list[int]:
    """What each bit of the lane adds, in bits."""
    places = need.tv.modes["t"]
    steps = [int(along(places, 1 << i)) for i in range(5)]
    if any(along(places, lane) != sum(s for i, s in enumerate(steps) if lane >> i & 1) for lane in range(LANES)):
        raise LayoutError("the lanes of a warp are no digits of 2 along the buffer")
    return steps


def _register(need: Needed, trans: bool) -> tuple[list[Digit], list[Digit]]:
    """The digits of the values in one register of 32 bits, and the others, in the order in which they are held."""
    rest, chain, reach, count = list(need.digits("v")), list[Digit](), 1, REGISTER_BITS // need.bits
    if trans:
        digit = next((d for d in rest if d[1] % 2 == 0), None)
        if digit is None:
            raise LayoutError("a register of stmatrix.trans holds two rows' elements, and a thread has one value")
        weight, extent, step = digit
        rest[rest.index(digit)] = (2 * weight, extent // 2, 2 * step)
        return [(weight, 2, step)], [d for d in rest if d[1] > 1]
    while reach < count:
        digit = next((d for d in rest if d[2] == reach * need.bits and d[1] % 2 == 0), None)
        if digit is None:
            raise LayoutError(
                f"stmatrix takes {count} neighbours of K in a register, and a thread holds no value {reach} on from "
                f"its first one in memory"
            )
        weight, extent, step = digit
        rest[rest.index(digit)] = (2 * weight, extent // 2, 2 * step)
        chain.append((weight, 2, step))
        reach *= 2
    return chain, [d for d in rest if d[1] > 1]


def _made(need: Needed, trans: bool, count: int, register: list[Digit], rest: list[Digit]) -> Matrices | None:
    chosen, left = list[Digit](), list(rest)
    while 1 << len(chosen) < count:
        digit = next((d for d in left if d[1] % 2 == 0), None)
        if digit is None:
            return None
        weight, extent, step = digit
        left[left.index(digit)] = (2 * weight, extent // 2, 2 * step)
        chosen.append((weight, 2, step))
    order = _ordered(need, [*register, *chosen, *left])
    if order is False:
        return None
    kept = order if isinstance(order, Layout) else None
    owner = need.holder(kept)
    rows = _rows(need, trans, register, chosen, [d for d in left if d[1] > 1])
    try:
        writer = stmatrix(owner, need.storage, rows=rows, count=count, trans=trans)
    except LayoutError:
        return None
    from layoutlab.handoff.accesses import stored_matrices

    group = stored_matrices(writer)
    counts = [a.swizzled(group.swizzle) for warp in range(group.warps) for a in group.of_warp(warp)]
    return Matrices(writer, count, trans, kept, tuple(counts))


def _rows(need: Needed, trans: bool, register: list[Digit], chosen: list[Digit], left: list[Digit]) -> Layout:
    """(thread, instruction) -> flat coordinate of the row that the lane points at."""
    t, v = need.flat[0], need.flat[1]
    of_value = [(2, int(v(weight))) for weight, _, _ in chosen]
    if trans:
        rows = [(2, int(v(register[0][0]))), (2, int(t(1))), (2, int(t(2)))]
    else:
        rows = [(2, int(t(1 << i))) for i in (2, 3, 4)]
    warps = need.owner.places.axes["t"] // LANES
    lanes = [*rows, *of_value, *[(2, 0)] * (2 - len(of_value))]
    above = _above(t, warps)
    instructions = [(extent, int(v(weight))) for weight, extent, _ in left]
    return modes_layout([*lanes, *above], instructions)


def _above(threads: Layout, warps: int) -> list[tuple[int, int]]:
    """What the warps add to the flat coordinate."""
    from layoutlab.atoms.operand import as_modes

    return as_modes([int(threads(LANES * warp)) for warp in range(warps)])
