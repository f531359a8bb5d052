"""Free storage: the layout and swizzle of one buffer that serve all its writers and readers, at the least cost.

What is searched: the canonical layouts, with either axis contiguous, under each swizzle that descriptors and boxes
have; and, where neither asks for one of those, whole rows under any Swizzle<B,M,S>. Each handoff is made anew over
each of them, its reader by new fields and its writer as `derive` finds it, and counts only if it is proved. The cost is
the wavefronts of all threads' accesses; TMA and the tensor core have none to count.

>>> from layoutlab.catalogue import sP
>>> found = free_storage([sP(kv=64)])
>>> print(found.served[0].name, found.served[0].wavefronts, found.served[0].layout)
k contiguous, swizzle 128 B 128 S<3,4,3> o 0 o (128,64):(64,1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.descriptors import Major, SwizzleMode, pattern_of
from layoutlab.cost import Access, suggest_swizzle
from layoutlab.derive.boxes import boxes_over
from layoutlab.derive.core import EXIT_STATUS, Unsupported, Verdict, unproved, with_writer
from layoutlab.derive.readers import descriptor_reader, with_reader
from layoutlab.derive.threads import best, matrices, needed, vectors
from layoutlab.errors import LayoutError
from layoutlab.handoff.accesses import accesses_of
from layoutlab.handoff.boxes import tma_load, tma_store
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.matrices import ldmatrix
from layoutlab.handoff.places import Modes
from layoutlab.handoff.reader import umma_a, umma_b, wgmma_a
from layoutlab.handoff.storage import Smem, smem
from layoutlab.handoff.strided import modes_layout
from layoutlab.handoff.writer import Writer
from layoutlab.swizzle import ComposedLayout, Swizzle

MODES: tuple[SwizzleMode, ...] = (128, 64, 32, 0, "128_32b")
DESCRIPTORS = (umma_a, umma_b, wgmma_a)


@dataclass(frozen=True)
class Served:
    """One buffer that serves: its layout, the handoffs over it, all proved, and their wavefronts."""

    name: str
    layout: str
    handoffs: tuple[Handoff, ...]
    wavefronts: int
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Freed:
    """The buffers that serve, the cheapest first, and what blocks each of the others."""

    asked: tuple[Handoff, ...]
    verdict: Verdict
    served: tuple[Served, ...]
    blocked: Mapping[str, str]

    @property
    def exit_status(self) -> int:
        """0 found, 1 there is none, 3 this kind is not searched."""
        return EXIT_STATUS[self.verdict]


@dataclass(frozen=True)
class Buffer:
    """A layout to try, by the coordinates of the first handoff's tile, in elements; the swizzle counts bytes."""

    name: str
    modes: tuple[Modes, ...]
    swizzle: Swizzle | None
    mode: SwizzleMode | None  # None: no unit but threads has this swizzle
    major: Literal["first", "last"]  # which axis is contiguous

    def over(self, h: Handoff, axes: Sequence[int]) -> Smem:
        """As the storage of a handoff whose coordinates are these of the first one's."""
        outer = modes_layout(*(self.modes[i] for i in axes))
        layout = outer if self.swizzle is None else ComposedLayout(self.swizzle, 0, outer)
        return smem(layout, over=h.tile, align_bytes=1024)


def free_storage(handoffs: Sequence[Handoff]) -> Freed:
    """The buffers that serve all of these handoffs of one tile, the cheapest first.

    Raises LayoutError for no handoffs, and for tiles that are not one buffer's.
    """
    asked = tuple(handoffs)
    if not asked:
        raise LayoutError("no handoff: a buffer is searched for at least one")
    axes = [_axes_of(asked[0], h) for h in asked]
    try:
        for h in asked:
            _refuse_unsearched(h)
    except Unsupported as error:
        return Freed(asked, "unsupported", (), {"": str(error)})
    served, blocked = list[tuple[tuple[int, int], Served]](), dict[str, str]()
    for buffer in _buffers(asked, axes, blocked):
        try:
            found = _serving(buffer, asked, axes)
        except LayoutError as error:
            blocked[buffer.name] = str(error)
            continue
        width = pattern_of(buffer.mode).width if buffer.mode is not None else 0
        served.append(((found.wavefronts, -width), found))
    served.sort(key=lambda entry: entry[0])
    return Freed(asked, "derived" if served else "none", tuple(s for _, s in served), blocked)


def _axes_of(first: Handoff, h: Handoff) -> tuple[int, ...]:
    """Which of the first handoff's coordinates each of this one's is: by name, else by extent."""
    mine, theirs = h.tile.extents, first.tile.extents
    if len(mine) != 2:
        raise LayoutError(f"{h.tile} has {len(mine)} coordinates: a buffer of rows and columns is searched")
    if h.tile.bits != first.tile.bits:
        raise LayoutError(f"{first.name} hands over {first.tile} and {h.name} {h.tile}: one buffer has one width")
    if set(mine) == set(theirs) and all(mine[axis] == theirs[axis] for axis in mine):
        return tuple(list(theirs).index(axis) for axis in mine)
    shape = tuple(theirs.values())
    if tuple(mine.values()) == shape:
        return (0, 1)
    if tuple(mine.values()) == shape[::-1]:
        return (1, 0)
    raise LayoutError(f"{first.name} hands over {first.tile} and {h.name} {h.tile}: they are not of one buffer")


def _refuse_unsearched(h: Handoff) -> None:
    if h.reader.space != "smem" or h.writer.space != "smem":
        where = h.reader.space if h.reader.space != "smem" else h.writer.space
        raise Unsupported(f"{h.name} hands over {where}: --free storage searches shared memory")
    if h.reader.make not in (*DESCRIPTORS, ldmatrix, tma_store):
        raise Unsupported(
            f"{h.name}'s reader is {h.reader.source}: with a free buffer nothing is left of it; give the instruction "
            f"that reads, umma_a, umma_b, wgmma_a, ldmatrix or tma_store"
        )
    if h.writer.unit != "TMA" and not h.writer.owner.threaded:
        raise Unsupported(f"{h.name} is written by {h.writer.spoken()}: threads and TMA write a buffer that is free")


# -- what is tried ----------------------------------------------------------------------------------------------------


def _buffers(asked: Sequence[Handoff], axes: Sequence[tuple[int, ...]], blocked: dict[str, str]) -> Iterator[Buffer]:
    tile = asked[0].tile
    ways: tuple[Literal["last", "first"], ...] = ("last", "first")
    for way in ways:
        for mode in MODES:
            name = f"{_axis(asked[0], way)} contiguous, {f'swizzle {mode} B' if mode else 'no swizzle'}"
            try:
                yield _canonical(name, tile.shape, tile.bits, mode, way)
            except LayoutError as error:
                blocked[name] = str(error)
    if any(h.reader.make in DESCRIPTORS or h.reader.make is tma_store or h.writer.unit == "TMA" for h in asked):
        return
    for way in ways:
        yield from _whole_rows(asked, axes, way)


def _axis(h: Handoff, way: str) -> str:
    return list(h.tile.extents)[-1 if way == "last" else 0]


def _canonical(
    name: str, shape: tuple[int, ...], bits: int, mode: SwizzleMode, way: Literal["first", "last"]
) -> Buffer:
    """Atoms of 8 rows of the swizzle's width, stacked along the rows first."""
    pattern = pattern_of(mode)
    along, across = (shape[1], shape[0]) if way == "last" else (shape[0], shape[1])
    wide, row = pattern.width * 8 // bits, along * bits // 8
    if along % wide:
        fits = [other for other in (128, 64, 32) if row % other == 0 and other < pattern.width]
        use = f"; use SW{fits[0]}" if fits else ""
        raise LayoutError(
            f"{along} columns and SW{pattern.width}: a row of {row} bytes isn't a multiple of {pattern.width}{use}"
        )
    if across % pattern.rows:
        raise LayoutError(f"{across} rows are no whole number of the atom's {pattern.rows}")
    rows = [(pattern.rows, wide), (across // pattern.rows, pattern.rows * wide)]
    columns = [(wide, 1), (along // wide, across * wide)]
    modes = (rows, columns) if way == "last" else (columns, rows)
    swizzle = Swizzle(pattern.bits, pattern.low, 7 - pattern.low) if mode else None
    return Buffer(name, tuple(modes), swizzle, mode, way)


def _whole_rows(
    asked: Sequence[Handoff], axes: Sequence[tuple[int, ...]], way: Literal["first", "last"]
) -> Iterator[Buffer]:
    """Rows one behind the other, under the elementary swizzle of fewest wavefronts over all accesses."""
    shape = asked[0].tile.shape
    modes: tuple[Modes, ...] = (
        ([(shape[0], shape[1])], [(shape[1], 1)]) if way == "last" else ([(shape[0], 1)], [(shape[1], shape[0])])
    )
    plain = Buffer(f"whole rows, {_axis(asked[0], way)} contiguous, no swizzle", modes, None, None, way)
    yield plain
    try:
        accesses = [a for h in _made(plain, asked, axes) for a in _of_first_warp(h)]
        best_swizzle = suggest_swizzle(accesses).swizzle
    except LayoutError:  # what blocks whole rows blocks them under any swizzle
        return
    if best_swizzle.bits:
        swizzle = Swizzle(best_swizzle.bits, best_swizzle.base, best_swizzle.shift)
        yield Buffer(f"whole rows, {_axis(asked[0], way)} contiguous, {swizzle}", modes, swizzle, None, way)


def _of_first_warp(h: Handoff) -> list[Access]:
    return [access for group in accesses_of(h) for access in group.of_warp(0)]


# -- whether it serves ------------------------------------------------------------------------------------------------


def _serving(buffer: Buffer, asked: Sequence[Handoff], axes: Sequence[tuple[int, ...]]) -> Served:
    made = _made(buffer, asked, axes)
    parts, written = list[tuple[str, int]](), set[str]()
    for h in made:
        if refused := unproved(h):
            raise LayoutError(f"{h.name}: {refused}")
        for group in accesses_of(h):
            label = f"{h.writer.owner.layout} {group.name}"
            if group.name != "ldmatrix" and label in written:
                continue  # one writer of several handoffs
            written.add(label)
            count = sum(a.swizzled(group.swizzle) for w in range(group.warps) for a in group.of_warp(w))
            parts.append((f"{h.name} {group.op if group.name != 'store' else f'{8 * group.width}-bit stores'}", count))
    storage = made[0].writer.storage
    return Served(buffer.name, str(storage), tuple(made), sum(count for _, count in parts), tuple(parts))


def _made(buffer: Buffer, asked: Sequence[Handoff], axes: Sequence[tuple[int, ...]]) -> list[Handoff]:
    """The handoffs over the buffer: readers by their new fields, writers as they are derived for those."""
    found = list[Handoff]()
    for h, mine in zip(asked, axes, strict=True):
        try:
            over = _read(buffer, h, buffer.over(h, mine), mine)
            made = with_writer(over, _written(over, buffer.over(h, mine)))
        except LayoutError as error:
            raise LayoutError(f"{h.name}: {error}") from error
        found.append(made.named(h.name, h.doc, h.params, h.settings) if h.settings else made)
    return found


def _read(buffer: Buffer, h: Handoff, storage: Smem, axes: Sequence[int]) -> Handoff:
    if h.reader.make in DESCRIPTORS:
        if buffer.mode is None:
            raise LayoutError(f"descriptors have no {buffer.swizzle}")
        contiguous = 1 if buffer.major == "last" else 0
        major: Major = "K" if axes[1] == contiguous else "MN"
        return with_reader(h, descriptor_reader(h, storage.places, buffer.mode, major, 0)[0])
    if h.reader.make is ldmatrix:
        return with_reader(h, h.reader.again(storage=storage))
    box = boxes_over(storage, next(iter(h.reader.given["box"])))
    tensor = h.reader.given.get("tensor")
    made = tma_store(storage, box=box.box, swizzle=box.swizzle, starts_bytes=box.starts_bytes, tensor=tensor)
    return with_reader(h, made)


def _written(h: Handoff, storage: Smem) -> Writer:
    if h.writer.unit == "TMA":
        box, tensor = boxes_over(storage, next(iter(h.writer.given["box"]))), h.writer.given.get("tensor")
        return tma_load(storage, box=box.box, swizzle=box.swizzle, starts_bytes=box.starts_bytes, tensor=tensor)
    need = needed(h.writer.owner, h.reader)
    vector = best(vectors(need))
    try:
        turned = matrices(need)
    except LayoutError:
        return vector.writer
    return turned.writer if turned.wavefronts < vector.wavefronts else vector.writer
