"""Ownership: do the threads that store a tile hold the elements that their copy takes them to hold?

Each thread's set of elements is compared, not their order: the registers' order may be changed on the way (a retile, a
conversion of pairs), the thread cannot.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff import Owner, Tile, Writer, owned
from layoutlab.handoff.copies import copy_coordinates
from layoutlab.layout import Layout
from layoutlab.text import Tensor, parse
from layoutlab.tracing.record import Access


def misplaced(load: Access, writer: Writer) -> str | None:
    """The first thread that stores an element which another thread loaded, in words; "" if none does.

    None where the two see tiles of different extents, or cannot be read: then nothing is said of the registers.
    """
    tile = writer.tile
    try:
        held = _elements(_owner_of(load, tile))
        stored = _elements(writer.owner)
    except LayoutError:
        return None
    if held is None or stored is None or len(held) != len(stored):
        return None
    swapped = [{(k, m) for m, k in elements} for elements in held]
    if stored == held or (tile.shape[0] == tile.shape[1] and stored == swapped):
        return ""
    thread, element = next((t, min(s - h)) for t, (s, h) in enumerate(zip(stored, held, strict=True)) if s - h)
    holder = next((t for t, elements in enumerate(held) if element in elements), None)
    names = ", ".join(f"{axis}={value}" for axis, value in zip(tile.extents, element, strict=True))
    whose = "no thread loaded" if holder is None else f"T{holder} loaded"
    return f"T{thread} stores ({names}), which {whose} from Tensor Memory"


def _owner_of(load: Access, tile: Tile) -> Owner:
    """Who holds what after a load, as (t, v) -> coordinate of the tile."""
    tensor = parse(load.tensor)
    if not isinstance(tensor, Tensor) or not isinstance(tensor.layout, Layout) or tensor.layout.symbolic():
        raise LayoutError("the load's tensor says no tile")
    shapes = [tuple(int(part.size()) for part in modes) for modes in _matrices(tensor.layout)]
    if tile.shape not in shapes:
        raise LayoutError("the load's tile is not the store's")
    tv, tiler = parse(load.texts["registers"]), parse(load.texts["tiler"])
    threads, values = int(tv[0].size()), int(tv[1].size())
    return owned(copy_coordinates(_copy(tv, tiler), tile, threads, values), tile)


def _copy(tv: Layout, tiler: Any) -> Any:
    return SimpleNamespace(tv=tv, tiler=tiler)


def _matrices(layout: Layout) -> list[tuple[Layout, Layout]]:
    """An accumulator's ((M,N),1,1), or a matrix and behind it what repeats it: an epilogue's sub-tiles, stages."""
    modes = [*layout]
    found = [(modes[0], modes[1])] if len(modes) >= 2 else []
    if modes[0].rank() == 2 and all(mode.size() == 1 for mode in modes[1:]):
        found.append((modes[0][0], modes[0][1]))
    return found


def _elements(owner: Owner) -> list[set[tuple[int, ...]]] | None:
    """Of each thread the coordinates that it holds; None for too many of them."""
    import numpy as np

    axes = owner.places.axes
    threads, values = axes["t"], axes["v"]
    if threads * values > 1 << 20:
        return None
    t, v = np.divmod(np.arange(threads * values), values)
    where = owner.places.at(t=t, v=v)
    rows = np.stack([np.broadcast_to(where[axis], t.shape) for axis in owner.tile.extents], axis=1)
    return [set(map(tuple, rows[i * values : (i + 1) * values].tolist())) for i in range(threads)]
