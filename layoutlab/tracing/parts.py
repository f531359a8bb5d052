"""Parts: copies that each write a piece of a tile (a slice at a coordinate that is known), judged together.

A piece belongs to the reader's tile if it lies in its bytes and its elements are the tile's, shifted by one (m, k):
then each copy is placed, and what is left to ask is whether the pieces cover the tile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutlab.handoff import Owner, Tile
from layoutlab.tracing.record import Access
from layoutlab.tracing.sides import Side


@dataclass(frozen=True)
class Covered:
    """Which accesses write a part, the first element that they leave out, and the first that is elsewhere, in words."""

    writers: tuple[int, ...]
    missed: str
    misplaced: str


def covered(
    reader: Side, writers: Sequence[tuple[int, Side]], owner: Callable[[Access, Tile], Owner]
) -> Covered | None:
    """How pieces fill the reader's tile; None where there are none, `owner` says which elements a copy writes."""
    columns = reader.extents[1]
    places = _places(reader)
    order = np.argsort(places.ravel())
    sorted_places = places.ravel()[order]
    filled = np.zeros(places.shape, bool)
    used, misplaced = list[int](), ""
    for number, side in writers:
        if not _smaller(side, reader):
            continue
        mine = _places(side)
        at = np.minimum(np.searchsorted(sorted_places, mine.ravel()), places.size - 1)
        if (sorted_places[at] != mine.ravel()).any():
            continue
        m, k = np.divmod(order[at].reshape(mine.shape), columns)
        i, j = np.indices(mine.shape)
        strange = (m - i != m[0, 0]) | (k - j != k[0, 0])
        if strange.any():
            x, y = (int(v) for v in np.unravel_index(int(strange.argmax()), strange.shape))
            misplaced = misplaced or (
                f"({x}, {y}) of the part from ({int(m[0, 0])}, {int(k[0, 0])}) on is written where "
                f"({int(m[x, y])}, {int(k[x, y])}) is read"
            )
            used += [] if number in used else [number]
            continue
        written = _written(side, owner)
        filled[m[written], k[written]] = True
        used += [] if number in used else [number]
    if not used:
        return None
    missed = "" if filled.all() else "(m={}, k={})".format(*np.unravel_index(int(filled.argmin()), filled.shape))
    return Covered(tuple(used), missed, misplaced)


def _smaller(side: Side, reader: Side) -> bool:
    inside = all(a <= b for a, b in zip(side.extents, reader.extents, strict=True))
    return side.bits == reader.bits and inside and side.extents != reader.extents


def _tile(side: Side) -> Tile:
    m, k = side.extents
    return Tile(re.sub(r"\W", "_", side.access.tensor_name or "tile"), m=m, k=k, bits=side.bits)


def _places(side: Side) -> Any:
    """(m, k) -> bit."""
    tile = _tile(side)
    m, k = np.indices(side.extents)
    return np.broadcast_to(side.storage(tile).places.at(m=m, k=k)["bit"], side.extents)


def _written(side: Side, owner: Callable[[Access, Tile], Owner]) -> Any:
    """Which elements of a piece its copy writes."""
    found = np.ones(side.extents, bool)
    if side.access.kind == "tma":
        return found
    held = owner(side.access, _tile(side)).places
    t, v = (x.ravel() for x in np.indices((held.axes["t"], held.axes["v"])))
    where = held.at(t=t, v=v)
    found[...] = False
    found[np.broadcast_to(where["m"], t.shape), np.broadcast_to(where["k"], t.shape)] = True
    return found
