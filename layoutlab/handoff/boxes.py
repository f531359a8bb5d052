"""TMA as a writer and as a reader of shared memory: a tile in boxes, each dense from its start, its rows swizzled.

>>> from layoutlab.handoff.storage import smem
>>> Q = Tile("Q", m=128, k=128, bits=16)
>>> sQ = smem("S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))", over=Q, align_bytes=1024)
>>> writer = tma_load(sQ, box={"k": 64, "m": 128}, swizzle=128)
>>> writer.write.at(t=1, v=64 + 3)["bit"] // 8, writer.owner.places.at(t=1, v=64 + 3)     # box 1, its second row
(16534, {'m': 1, 'k': 67})

A box's first dimension is the tensor's contiguous one. The boxes start where the storage has their first elements, as a
kernel's partition gives them, or where it is said; everything else is TMA's own rule, so a wrong box or swizzle is
found out. Source: PTX ISA, "Tensors"; `layoutlab.atoms.tma`, held against an H200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from layoutlab.atoms.descriptors import SwizzleMode, pattern_of
from layoutlab.atoms.operand import as_modes
from layoutlab.atoms.tma import CHUNK, SMEM_ALIGN, TensorMap
from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Modes, Places, split_at, strided_places
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.starts import Starts, count_of, starts_of
from layoutlab.handoff.storage import Gmem, Smem
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.writer import Owner, Writer
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import Swizzle
from layoutlab.symbol import Sym


@dataclass(frozen=True)
class Boxes:
    """A tile cut into boxes: extents by axis, contiguous dimension first; where each box starts, in bytes.

    `tensor` gives the extents of the global tensor from the tile's origin on, where they end inside of the tile.
    """

    tile: Tile
    box: Mapping[str, int]
    swizzle: SwizzleMode
    starts_bytes: Starts
    tensor: Mapping[str, int]
    origin: int = 0
    """What is added to starts that are a layout."""

    @property
    def counts(self) -> dict[str, int]:
        """Boxes along each axis, in the order of the box's dimensions."""
        return {axis: -(-self.tile.extents[axis] // extent) for axis, extent in self.box.items()}

    @property
    def row_bits(self) -> int:
        """From one row of the box to the next: the swizzle's whole width, where there is one."""
        return pattern_of(self.swizzle).width * 8 if self.swizzle else next(iter(self.box.values())) * self.tile.bits

    def owner(self) -> Places:
        """(box, element of the box) -> coordinates; boxes and elements count the box's first dimension fastest."""
        parts, box_weight, element_weight = dict[str, Places](), 1, 1
        boxes, elements = prod(self.counts.values()), prod(self.box.values())
        for axis, extent in self.box.items():
            count = self.counts[axis]
            t: Modes = [(box_weight, 0), (count, extent), (boxes // (box_weight * count), 0)]
            v: Modes = [(element_weight, 0), (extent, 1), (elements // (element_weight * extent), 0)]
            parts[axis] = strided_places({"t": t, "v": v}, axis)
            box_weight, element_weight = box_weight * count, element_weight * extent
        first, *more = (parts[axis] for axis in self.tile.extents)
        for part in more:
            first = first.beside(part)
        return first

    def owner_layout(self) -> Layout:
        """(box, element) -> flat coordinate of the tile."""
        weight, weights = 1, dict[str, int]()
        for axis, extent in self.tile.extents.items():
            weights[axis], weight = weight, weight * extent
        shape = (tuple(self.counts.values()), tuple(self.box.values()))
        stride = (tuple(self.box[a] * weights[a] for a in self.box), tuple(weights[a] for a in self.box))
        return Layout(shape, stride)

    def write(self) -> Places:
        """(box, element) -> bit of shared memory."""
        inner, outer = self._inside()
        starts = [(n, 8 * stride) for n, stride in self._start_modes()]
        return self._placed(strided_places({"t": starts, "v": [inner, *outer.values()]}, "bit"))

    def read(self) -> Places:
        """Coordinates -> bit of shared memory."""
        inner, outer = self._inside()
        inside = dict(zip(self.box, [inner, *outer.values()], strict=True))
        modes, weight = dict[str, Modes](), 1
        if isinstance(self.starts_bytes, Layout):
            modes = self._modes_of_symbols(inside, self.starts_bytes)
            return self._placed(strided_places({axis: modes[axis] for axis in self.tile.extents}, "bit"))
        for axis, count in self.counts.items():
            along = as_modes([self._numbers[i * weight] for i in range(count)])
            extent, step = inside[axis]  # one box may go on past the tile; the tile's elements are asked for
            modes[axis] = [(min(extent, self.tile.extents[axis]), step), *((n, 8 * stride) for n, stride in along)]
            weight *= count
        grid = as_modes(self._numbers)
        if prod(n for n, _ in grid) != weight or not self._separable():
            raise LayoutError(f"the starts {self.starts_bytes} are no sum of steps along {', '.join(self.counts)}")
        return self._placed(strided_places({axis: modes[axis] for axis in self.tile.extents}, "bit"))

    def _modes_of_symbols(self, inside: Mapping[str, tuple[int, int]], starts: Layout) -> dict[str, Modes]:
        """The same where starts are a layout, with a mode for each dimension of the box."""
        modes = dict[str, Modes]()
        for axis, along in zip(self.box, starts, strict=True):
            if self.tile.extents[axis] % self.box[axis]:
                raise LayoutError(f"boxes of {self.box[axis]} along {axis} do not make up {self.tile.extents[axis]}")
            modes[axis] = [inside[axis], *((n, 8 * stride) for n, stride in along.leaves())]
        return modes

    def _separable(self) -> bool:
        """Whether a box's start is a sum of what each axis adds."""
        weight, total = 1, [0] * len(self._numbers)
        for count in self.counts.values():
            for i in range(len(total)):
                total[i] += self._numbers[i // weight % count * weight] - self._numbers[0]
            weight *= count
        return total == [start - self._numbers[0] for start in self._numbers]

    def _start_modes(self) -> list[tuple[int, int]]:
        return self.starts_bytes.leaves() if isinstance(self.starts_bytes, Layout) else as_modes(self.starts_bytes)

    @property
    def first_byte(self) -> int:
        """Where the first box starts."""
        return self.origin if isinstance(self.starts_bytes, Layout) else self.starts_bytes[0]

    def _inside(self) -> tuple[tuple[int, int], dict[str, tuple[int, int]]]:
        """(extent, bits) of the box's first dimension, and of the others by axis."""
        (_, extent), *rest = self.box.items()
        pitch, outer = self.row_bits, dict[str, tuple[int, int]]()
        for axis, count in rest:
            outer[axis], pitch = (count, pitch), pitch * count
        return (extent, self.tile.bits), outer

    def _placed(self, linear: Places) -> Places:
        pattern = pattern_of(self.swizzle)
        swizzle = Swizzle(pattern.bits, pattern.low + 3, 7 - pattern.low, unit_bits=1)
        return linear.moved(8 * self.first_byte).swizzled(swizzle)

    def rules(self) -> list[Rule]:
        """What the driver and the instruction ask for."""
        symbolic = isinstance(self.starts_bytes, Layout)
        listing = [self.origin, *(d for _, d in self._start_modes())] if symbolic else [*self._numbers]
        odd = next((s for s in listing if s % SMEM_ALIGN), None)
        misplaced = None if odd is None else f"a box starts at byte {odd} of shared memory, which 128 does not divide"
        (axis, inner), *_ = self.box.items()
        apart = inner * (self.counts[axis] - 1) * self.tile.bits // 8
        off = f"boxes along {axis} start {inner * self.tile.bits // 8} bytes apart, which 16 does not divide"
        return [
            Rule("the driver takes the box", self._refusal()),
            Rule("boxes start at multiples of 128 bytes of shared memory", misplaced),
            Rule("along the contiguous dimension boxes start at multiples of 16 bytes", off if apart % CHUNK else None),
        ]

    @property
    def _numbers(self) -> tuple[int, ...]:
        if isinstance(self.starts_bytes, Layout):
            raise LayoutError(f"the starts {self.starts_bytes} are as many as a symbol says")
        return self.starts_bytes

    def _refusal(self) -> str | None:
        """Why cuTensorMapEncodeTiled would not take this box, over a tensor that suits it."""
        extents = [self.tile.extents[axis] for axis in self.box]
        dims = [-(-extent * self.tile.bits // 128) * 128 // self.tile.bits for extent in extents[:-1]] + extents[-1:]
        strides, pitch = list[int](), self.tile.bits // 8
        for dim in dims[:-1]:
            pitch *= dim
            strides.append(pitch)
        try:
            TensorMap(tuple(dims), tuple(strides), tuple(self.box.values()), self.tile.bits, self.swizzle)
        except LayoutError as error:
            return str(error)
        return None

    def spoken(self) -> str:
        """The boxes and their starts, in words."""
        sizes = " x ".join(f"{axis} {extent}" for axis, extent in self.box.items())
        swizzle = f", swizzle of {self.swizzle} bytes" if self.swizzle else ", no swizzle"
        if isinstance(self.starts_bytes, Layout):
            return f"boxes of {sizes}{swizzle}, at byte {self.origin} and those of {self.starts_bytes} on"
        count = len(self.starts_bytes)
        shown = ", ".join(map(str, self.starts_bytes[:4])) + (f", ... {self.starts_bytes[-1]}" if count > 4 else "")
        boxes = f"boxes of {sizes}" if count > 1 else f"a box of {sizes}"
        return f"{boxes}{swizzle}, at byte{'s' if count > 1 else ''} {shown}"

    def beyond(self) -> str:
        """Which coordinates lie outside of the tensor; nothing where none do."""
        parts = [
            f"{axis}={end} to {self.tile.extents[axis] - 1}"
            for axis, end in self.tensor.items()
            if end < self.tile.extents[axis]
        ]
        return " and ".join(parts)

    def zeros(self) -> int:
        """How many elements of the tile lie outside of the tensor."""
        if not self.tensor:
            return 0
        return self.tile.size - prod(min(e, self.tensor.get(a, e)) for a, e in self.tile.extents.items())

    def code(self, storage: str) -> str:
        """The arguments that make these boxes."""
        starts = "" if isinstance(self.starts_bytes, Layout) else f"starts_bytes={list(self.starts_bytes)}, "
        tensor = f", tensor={dict(self.tensor)}" if self.tensor else ""
        return f"{storage}, box={dict(self.box)}, {starts}swizzle={self.swizzle!r}{tensor}"


def _boxes(
    storage: Smem | Tile,
    box: Mapping[str, int],
    swizzle: SwizzleMode,
    starts_bytes: Sequence[int] | Layout | None,
    tensor: Mapping[str, int] | None,
) -> Boxes:
    tile = storage if isinstance(storage, Tile) else storage.tile
    if set(box) != set(tile.extents) or any(not isinstance(e, (int, Sym)) or not e >= 1 for e in box.values()):
        raise LayoutError(f"a box of {tile} has an extent for each of {', '.join(tile.extents)}, not {dict(box)}")
    for axis, end in (tensor or {}).items():
        if axis not in tile.extents:
            raise LayoutError(f"the tensor ends along {' or '.join(tile.extents)}, which {tile} has, not along {axis}")
        if end < 1:
            raise LayoutError(f"the tensor ends at {axis}={end} of {tile}: a TMA tensor has an extent of at least 1")
    made = Boxes(tile, dict(box), swizzle, (0,), dict(tensor or {}))
    count = prod(made.counts.values())
    if starts_bytes is None:
        if isinstance(storage, Tile):
            raise LayoutError("a reading TMA needs starts_bytes, or the storage that says them")
        if not isinstance(count, int) or isinstance(storage.base_bytes, Sym) or storage.tile.symbolic:
            origin = storage.base_bytes + storage.offset * tile.bits // 8
            return Boxes(tile, dict(box), swizzle, _starts_of_symbols(storage, made), dict(tensor or {}), origin)
        starts_bytes = _starts(storage, made)
    starts = starts_of(starts_bytes)
    if (given := count_of(starts)) != count:
        raise LayoutError(f"{tile} in boxes of {dict(box)} has {count} of them; {given} starts were given")
    return Boxes(tile, dict(box), swizzle, starts, dict(tensor or {}))


def _count(tile: Tile, box: Mapping[str, int]) -> int:
    """How many boxes a tile takes."""
    return prod(-(-tile.extents[axis] // extent) for axis, extent in box.items() if extent > 0)


def _starts_of_symbols(storage: Smem, boxes: Boxes) -> Layout:
    """How much further the storage has each box's first element, a mode for each dimension of the box."""
    parts = list[Layout]()
    for axis, extent in boxes.box.items():
        _, along = split_at(storage.modes[axis], extent, boxes.counts[axis])
        modes = [(n, d * storage.tile.bits // 8) for n, d in along] or [(1, 0)]
        parts.append(Layout(tuple(n for n, _ in modes), tuple(d for _, d in modes)))
    return make_layout(*parts)


def _starts(storage: Smem, boxes: Boxes) -> list[int]:
    """Where the storage has each box's first element, before the swizzle."""
    starts = list[int]()
    for i in range(prod(boxes.counts.values())):
        at, rest = dict[str, int](), i
        for axis, count in boxes.counts.items():
            rest, index = divmod(rest, count)
            at[axis] = index * boxes.box[axis]
        element = storage.offset + storage.element.at(**{axis: at[axis] for axis in storage.tile.extents})["element"]
        starts.append(storage.base_bytes + element * storage.tile.bits // 8)
    return starts


def tma_load(
    storage: Smem,
    *,
    box: Mapping[str, int],
    swizzle: SwizzleMode = 0,
    starts_bytes: Sequence[int] | None = None,
    tensor: Mapping[str, int] | None = None,
) -> Writer:
    """A writer by TMA: boxes of the tile go to shared memory, dense and swizzled; out of bounds they bring zeros.

    >>> from layoutlab.handoff.storage import smem
    >>> K = Tile("K", n=64, k=64, bits=16)
    >>> writer = tma_load(smem("S<3,4,3> o 0 o (64,64):(64,1)", over=K), box={"k": 64, "n": 64}, swizzle=128,
    ...                   tensor={"n": 40})
    >>> print(writer.spoken())
    TMA: a box of k 64 x n 64, swizzle of 128 bytes, at byte 0; n=40 to 63 lies outside of the tensor: zeros

    box: elements by coordinate, the tensor's contiguous one first. starts_bytes: absolute, a byte for each box, the
    box's first dimension counting fastest; by default where the storage has the boxes' first elements. tensor: where
    the tensor ends, counted from the tile's origin. Raises LayoutError for a box of other coordinates.
    """
    boxes = _boxes(storage, box, swizzle, starts_bytes, tensor)
    outside = boxes.beyond()
    zeros = f"; {outside} lies outside of the tensor: zeros" if outside else ""
    who = "box element {v}" if prod(boxes.counts.values()) == 1 else "box {t} element {v}"
    owner = Owner(
        boxes.tile, boxes.owner(), boxes.owner_layout(), "modelled: TMA boxes", "", rules=boxes.rules, who=who
    )
    code = f"ll.tma_load({boxes.code(storage.name)})"
    write = boxes.write()
    route = boxes.spoken() + zeros
    given = {"storage": storage, "box": box, "swizzle": swizzle, "starts_bytes": starts_bytes, "tensor": tensor}
    how: dict[str, Any] = {"unit": "TMA", "zeros": boxes.zeros(), "make": tma_load, "given": given}
    return Writer(owner, storage, write, boxes.tile.bits, route, code, "modelled: TMA load", "smem", **how)


def tma_write(storage: Gmem, *, box: Mapping[str, int]) -> Writer:
    """A writer to global memory by TMA: boxes of the tile, by the strides of the tensor.

    >>> from layoutlab.handoff.storage import gmem
    >>> O = Tile("O", m=100, n=128, bits=16)
    >>> tma_write(gmem("(100,128):(512,1)", over=O), box={"n": 64, "m": 128}).write.at(t=1, v=64)["bit"] // 8
    1152

    The tile is what lies inside of the tensor: of a box that goes on the rest is not written. What a store reads from
    shared memory is `tma_store`'s. Raises LayoutError for a tensor whose strides no tensor map holds.
    """
    tile = storage.tile
    _boxes(
        tile, box, 0, None if set(box) != set(tile.extents) else Layout(_count(tile, box), 0), None
    )  # refuses others
    # Boxes that go on past the tile write what lies inside: counted in parts that divide both.
    inside = {axis: e if tile.extents[axis] % e == 0 else gcd(e, tile.extents[axis]) for axis, e in box.items()}
    inside = {axis: tile.extents[axis] if box[axis] > tile.extents[axis] else e for axis, e in inside.items()}
    boxes = _boxes(tile, inside, 0, Layout(_count(tile, inside), 0), None)
    modes = {axis: [m for m in mode if m[0] != 1] for axis, mode in storage.modes.items()}
    if any(len(mode) > 1 for mode in modes.values()):
        raise LayoutError(f"{storage.layout}: a tensor map has one stride for each dimension")
    places = boxes.owner()
    write = storage.places.after(places)
    inner, *outer = [modes[axis][0][1] * tile.bits // 8 if modes[axis] else 0 for axis in box]
    wrong = f"the contiguous dimension has a stride of {inner} bytes, not of one element"
    odd = next((stride for stride in outer if stride % CHUNK), None)
    misfit = None if odd is None else f"a stride of {odd} bytes, which 16 does not divide"
    rules = [
        Rule("the box's first dimension is contiguous", wrong if inner != tile.bits // 8 else None),
        Rule("the tensor's strides are multiples of 16 bytes", misfit),
        Rule(
            "the tensor starts at a multiple of 16 bytes",
            f"it starts at byte {storage.base_bytes}" if storage.base_bytes % CHUNK else None,
        ),
    ]
    part = "box" if all(e in (box[a], tile.extents[a]) for a, e in inside.items()) else "part of a box"
    who = f"{part} {{t}} element {{v}}" if prod(boxes.counts.values()) != 1 else "box element {v}"
    owner = Owner(tile, places, boxes.owner_layout(), "modelled: TMA boxes", "", rules=lambda: rules, who=who)
    route = f"boxes of {' x '.join(f'{axis} {extent}' for axis, extent in box.items())}"
    code = f"ll.tma_write({storage.name}, box={dict(box)})"
    return Writer(owner, storage, write, tile.bits, route, code, "modelled: TMA store", "gmem", unit="TMA")


def tma_store(
    storage: Smem | Tile,
    *,
    box: Mapping[str, int],
    swizzle: SwizzleMode = 0,
    starts_bytes: Sequence[int] | None = None,
    tensor: Mapping[str, int] | None = None,
) -> Reader:
    """A reader by TMA: boxes of the tile are taken from shared memory and stored to global memory.

    >>> C = Tile("C", m=128, n=64, bits=16)
    >>> tma_store(C, box={"n": 32, "m": 128}, starts_bytes=[0, 8192], swizzle=64).read.at(m=2, n=33)["bit"] // 8
    8338

    The arguments are those of `tma_load`; given a tile instead of a storage, starts_bytes have to be said.
    """
    boxes = _boxes(storage, box, swizzle, starts_bytes, tensor)
    code = f"ll.tma_store({boxes.code(boxes.tile.name)})"
    outside = boxes.beyond()
    skipped = f"; {outside} lies outside of the tensor: not stored" if outside else ""
    text = boxes.spoken() + skipped
    given = {"storage": storage, "box": box, "swizzle": swizzle, "starts_bytes": starts_bytes, "tensor": tensor}
    how: dict[str, Any] = {"rules": boxes.rules, "make": tma_store, "given": given}
    return Reader(boxes.tile, boxes.read(), "the TMA store", text, "modelled: TMA store", code, **how)
