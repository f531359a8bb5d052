"""The TMA boxes that a reader needs, or that a writer's tile can be stored by: from where the elements lie alone.

>>> from layoutlab.catalogue import sV
>>> from layoutlab.handoff.buffer import storage_of
>>> found = boxes_over(storage_of(sV().reader))
>>> print(found.box, found.swizzle, found.starts_bytes)
{'n': 64, 'k': 128} 128 (0, 16384)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from layoutlab.atoms.descriptors import SwizzleMode, pattern_of
from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Modes
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.strided import Strided, along, mode_of, strided_form
from layoutlab.handoff.tile import Tile

BOX_LIMIT = 256
"""Elements that a box has along one dimension at most (PTX ISA, "Tensors")."""


@dataclass(frozen=True)
class Box:
    """A box, its swizzle and where each box starts."""

    box: Mapping[str, int]
    swizzle: SwizzleMode
    starts_bytes: tuple[int, ...]


def boxes_over(storage: Smem, contiguous: str | None = None) -> Box:
    """The fewest boxes that fill the buffer; raises LayoutError with the reason where boxes do not.

    `contiguous` names the coordinate along which the tensor in global memory is contiguous, where that is known.
    """
    tile, places = storage.tile, strided_form(storage.places)
    mode = mode_of(places.swizzle)
    if places.shift and mode:
        raise LayoutError("TMA swizzles addresses, and the reader's swizzle counts rows from its base")
    if mode is None or mode == "128_32b":
        moved = "128 bytes in chunks of 32" if mode else f"{places.swizzle}"
        raise LayoutError(f"TMA swizzles 16-byte chunks by 32, 64 or 128 bytes, and the buffer is swizzled by {moved}")
    inner, extent = _contiguous(tile, places)
    if contiguous not in (None, inner):
        raise LayoutError(
            f"TMA does not transpose: {contiguous} is contiguous in global memory, and {inner} would be in the buffer"
        )
    width = pattern_of(mode).width * 8 // tile.bits
    if mode and extent > width:
        extent = width
    pitch = width * tile.bits if mode else extent * tile.bits
    box, left = {inner: extent}, dict(tile.extents)
    if left[inner] % extent:
        raise LayoutError(f"boxes of {extent} {inner} do not divide {tile}")
    others = [axis for axis in tile.extents if axis != inner]
    while others:
        axis = next((a for a in others if places.steps(a) and places.steps(a)[0][1] == pitch), None)
        if axis is None:
            for a in others:
                box[a] = 1
            break
        count = _run(places.modes[axis], pitch, tile.extents[axis])
        box[axis] = count
        pitch *= count
        others.remove(axis)
    return Box(box, mode, _starts(tile, places, box))


def refuse_gaps(found: Box, tile: Tile) -> None:
    """Refuses boxes that CuTe DSL does not make of the buffer's layout: it takes what lies together for a box."""
    inner, extent = next(iter(found.box.items()))
    width = pattern_of(found.swizzle).width
    if found.swizzle and extent * tile.bits < 8 * width and tile.size != extent:
        raise LayoutError(
            f"rows of {extent} {inner} are {extent * tile.bits // 8} bytes, {width} apart under a swizzle of {width} "
            f"bytes: TMA has such a box, but make_tiled_tma_atom makes one of each row"
        )


def _contiguous(tile: Tile, places: Strided) -> tuple[str, int]:
    """The axis whose elements lie side by side, and how many do."""
    for axis in tile.extents:
        steps = places.steps(axis)
        if steps and steps[0][1] == tile.bits:
            return axis, steps[0][0]
    apart = {axis: places.steps(axis)[0][1] // 8 for axis in tile.extents if places.steps(axis)}
    shown = ", ".join(f"{axis} steps by {step} bytes" for axis, step in apart.items())
    raise LayoutError(f"a box's first dimension is contiguous, and none of the tile's is: {shown}")


def _run(modes: Modes, pitch: int, extent: int) -> int:
    """How many rows of one box lie `pitch` apart: at most what a box may have, and a divisor of the extent."""
    count = next(e for e, _ in modes if e > 1)
    while count > BOX_LIMIT or extent % count:
        count = max(d for d in range(1, count) if count % d == 0)
    return count


def _starts(tile: Tile, places: Strided, box: Mapping[str, int]) -> tuple[int, ...]:
    """The first byte of each box, the box's first dimension counting fastest."""
    counts = [range(tile.extents[axis] // extent) for axis, extent in box.items()]
    found = list[int]()
    for at in product(*reversed(counts)):
        index = dict(zip(box, reversed(at), strict=True))
        bit = places.base + sum(int(along(places.modes[a], i * box[a])) for a, i in index.items())
        found.append(bit // 8)
    return tuple(found)
