"""A tiled copy, as CuTe DSL prints it, as the coordinates that each thread's values go to.

    Tiler MN:        ((128,32):(32,1),1:0,1:0)
    TV Layout tiled: ((32,4),(32,1)):((128,1),(4,0))

The thread-value layout gives a flat index of the tiler, the tiler a coordinate of its tile, and the copy walks on over
the rest of the tensor, step by step.
"""

from __future__ import annotations

from typing import Any

from layoutlab.algebra import complement, composition, cosize, size
from layoutlab.errors import LayoutError
from layoutlab.handoff.tile import Tile
from layoutlab.layout import Layout, make_layout
from layoutlab.text import TiledCopy


def copy_coordinates(copy: TiledCopy, tile: Tile, threads: int, values: int) -> Layout:
    """(T, V) -> flat coordinate of the tile, for `threads` threads that hold `values` values each.

    A copy of one thread is used by all of them alike, each moving the values that it holds to the first places. Raises
    LayoutError for a tiler that is none of this tile.
    """
    tiler = [_layout(entry) for entry in (copy.tiler if isinstance(copy.tiler, tuple) else (copy.tiler,))]
    while len(tiler) > 1 and size(tiler[-1]) == 1:
        tiler.pop()
    if len(tiler) == 1:  # one mode over the whole tile: an accumulator's ((M,N),1,1)
        cut, rest = tiler[0], complement(tiler[0], tile.size)
    elif len(tiler) == len(tile.extents):
        parts, rests, weight = list[Layout](), list[Layout](), 1
        for entry, extent in zip(tiler, tile.shape, strict=True):
            parts.append(composition(Layout(tile.size, weight), entry) if weight > 1 else entry)
            rests.append(composition(Layout(tile.size, weight), complement(entry, extent)))
            weight *= extent
        cut, rest = make_layout(*parts), make_layout(*rests)
    else:
        raise LayoutError(f"the tiler {copy.tiler} has {len(tiler)} modes, {tile} has {len(tile.extents)}")
    one = composition(cut, copy.tv)
    who, what = one[0], make_layout(one[1], rest)
    if size(who) == 1 < threads:  # all of them use the one thread's part, each for the values that it holds
        who, what = Layout(threads, 0), composition(what, Layout(min(values, size(what))))
    found = make_layout(who, what)
    shape = tuple(cosize(entry) for entry in tiler)
    fits = all(n <= extent for n, extent in zip(shape[:-1], tile.shape, strict=False))
    if not fits or cosize(found) > tile.size:
        raise LayoutError(f"the copy moves a tile of {' x '.join(map(str, shape))}, which leaves {tile}")
    return found


def _layout(entry: Any) -> Layout:
    if isinstance(entry, Layout):
        return entry
    if isinstance(entry, int):
        return Layout(entry)
    raise LayoutError(f"the tiler entry {entry} is no layout")
