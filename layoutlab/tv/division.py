"""Division: a tensor cut into tiles, and the part of each tile that one thread has.

>>> cut = divided(Layout((128, 64)), (Layout(128), Layout(16)), "copy")
>>> cut.tile, cut.rest
((128,16):(1,128), (1,4):(0,2048))
>>> divided(Layout((128, 56)), (Layout(128), Layout(16)), "copy")
Traceback (most recent call last):
layoutlab.errors.LayoutError: the copy's tile of 16 in mode 1 does not divide the tensor's 56: 4 tiles span 64; \
8 divides both

CuTe rounds the number of tiles up and leaves what lies past the end to the caller's predicates. Here the tile divides
the tensor, or the partition is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, TypeAlias

from layoutlab.algebra import composition, zipped_divide
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import add
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout
from layoutlab.text.records import Tensor, Tiler

Partitioned: TypeAlias = "Layout | ComposedLayout | Tensor"
"""What may be partitioned: a layout of memory, a swizzled one, a coordinate tensor, a printed tensor."""


@dataclass(frozen=True)
class Division:
    """A tensor as its tile and the places of the tiles; each with a mode for each mode of the tiler."""

    tile: Layout
    rest: Layout


def divided(layout: Layout, tiler: Tiler, who: str) -> Division:
    """The layout cut by a tiler that divides each of its modes; `who` is named where it does not."""
    if isinstance(tiler, tuple) and len(tiler) > layout.rank():
        raise LayoutError(f"the {who}'s tile has {len(tiler)} modes, the tensor {layout} has {layout.rank()}")
    cut = zipped_divide(layout, tiler)
    tile, rest = cut[0], cut[1]
    if isinstance(tiler, tuple):
        for mode in range(len(tiler)):
            check_divides(who, mode, tile[mode].size(), rest[mode].size(), layout[mode].size())
    else:
        check_divides(who, 0, tile.size(), rest.size(), layout.size())
        rest = make_layout(rest)
    return Division(tile, rest)


def check_divides(who: str, mode: int, tile: Any, count: Any, extent: Any) -> None:
    """Refuses tiles that reach past the end of a mode; sizes that are symbols are the caller's to divide."""
    if not all(isinstance(x, int) for x in (tile, count, extent)) or tile * count == extent:
        return
    fits = gcd(tile, extent)
    raise LayoutError(
        f"the {who}'s tile of {tile} in mode {mode} does not divide the tensor's {extent}: {count} tiles span "
        f"{tile * count}; {fits} divides both"
    )


def outer_of(tensor: Partitioned) -> Layout:
    """The layout of the coordinates, without swizzle and offset."""
    if isinstance(tensor, Tensor):
        tensor = tensor.layout
    return tensor.outer if isinstance(tensor, ComposedLayout) else tensor


def moved_to(tensor: Partitioned, offset: Any, layout: Layout) -> ComposedLayout:
    """A part of a tensor: another layout of coordinates, from another first location."""
    if isinstance(tensor, Tensor):
        tensor = tensor.swizzled_layout()
    if isinstance(tensor, ComposedLayout):
        return ComposedLayout(tensor.inner, add(tensor.offset, offset), layout, tensor.element_bits)
    return ComposedLayout(None, offset, layout)


def thread_part(tensor: Partitioned, thread: Any, threads: Layout, values: Layout, rest: Layout) -> ComposedLayout:
    """(values, rest...) of one thread, from where its first value is."""
    return moved_to(tensor, threads(thread), make_layout(values, *rest))


def zipped(pairs: Layout) -> Layout:
    """((a, b), (c, d)) as ((a, c), (b, d))."""
    return make_layout(*(make_layout(pairs[0][i], pairs[1][i]) for i in range(pairs[0].rank())))


def in_mode(layout: Layout, mode: int, inner: Any) -> Layout:
    """One mode composed with an inner layout, the others kept."""
    return make_layout(*(composition(part, inner) if i == mode else part for i, part in enumerate(layout)))
