"""Structure: the same function over another nesting of its coordinates, or a part of it.

>>> tile = Layout(((4, 2), (2, 8)), ((1, 64), (4, 8)))
>>> coalesce(tile), flatten(tile), group_modes(flatten(tile), 1, 3)
((4,2,16):(1,64,4), (4,2,2,8):(1,64,4,8), (4,(2,2),8):(1,(64,4),8))
>>> slice_(tile, (None, (1, None))), slice_and_offset((None, (1, None)), tile)[1]
(((4,2),8):((1,64),8), 4)

A swizzled layout or a coordinate tensor (`ComposedLayout`) may stand wherever only the coordinates change: the
operation acts on its outer layout, the inner function stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from layoutlab import int_tuple
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Coord, IntTuple, add, crd2crd, map_leaves, modes, product, to_text
from layoutlab.layout import Layout, make_layout, runs
from layoutlab.swizzle import ComposedLayout

AnyLayout: TypeAlias = "Layout | ComposedLayout"
L = TypeVar("L", Layout, ComposedLayout)
Mode: TypeAlias = "int | Sequence[int] | None"
Index: TypeAlias = Coord
"""A coordinate in which no mode is left open."""


def on_outer(layout: L, f: Callable[[Layout], Layout]) -> L:
    """`f` applied to a layout, or to the outer layout of a composed one."""
    return layout.with_outer(f(layout.outer)) if isinstance(layout, ComposedLayout) else f(layout)


def layout_of(parts: Sequence[Layout]) -> Layout:
    """The layout whose modes these are; no modes give the layout of one coordinate, `():()`."""
    return make_layout(*parts) if parts else Layout((), ())


# -- questions --------------------------------------------------------------------------------------------------------


def shape(x: AnyLayout | IntTuple, mode: Mode = None) -> Any:
    """The shape of a layout, of a mode of it, or of a mode of a mode.

    >>> shape(Layout((4, (2, 8))), mode=1), shape(Layout((4, (2, 8))), mode=[1, 0])
    ((2, 8), 2)
    """
    found: Any = x.shape if isinstance(x, (Layout, ComposedLayout)) else x
    for m in [mode] if isinstance(mode, int) else mode or ():
        if not 0 <= m < int_tuple.rank(found):
            raise LayoutError(f"shape {to_text(found)} has {int_tuple.rank(found)} modes, there is no mode {m}")
        found = modes(found)[m]
    return found


def size(x: AnyLayout | IntTuple, mode: Mode = None) -> Any:
    """The number of coordinates of a layout or shape, or of one of its modes.

    >>> size(Layout((4, (2, 8)))), size((4, (2, 8)), mode=1), size((4, (2, 8)), mode=[1, 1])
    (64, 16, 8)
    """
    return product(shape(x, mode))


def rank(x: AnyLayout | IntTuple, mode: Mode = None) -> int:
    """The number of modes.

    >>> rank(Layout((4, (2, 8, 3)))), rank(Layout((4, (2, 8, 3))), mode=1)
    (2, 3)
    """
    return int_tuple.rank(shape(x, mode))


def depth(x: AnyLayout | IntTuple, mode: Mode = None) -> int:
    """The levels of nesting.

    >>> depth(Layout((4, (2, 8)))), depth(Layout(4))
    (2, 0)
    """
    return int_tuple.depth(shape(x, mode))


def cosize(x: AnyLayout, mode: Mode = None) -> Any:
    """The number of locations from the lowest to the highest, both counted, of a layout or of one of its modes.

    >>> cosize(Layout((4, 2), (1, 16))), cosize(Layout((4, 2), (1, 16)), mode=0)
    (20, 4)
    """
    shape(x, mode)
    return x.cosize() if mode is None else x[(mode,) if isinstance(mode, int) else tuple(mode)].cosize()


def crd2idx(coord: Index, into: AnyLayout | IntTuple) -> Any:
    """The location of a coordinate in a layout, or its flat index in a shape.

    >>> crd2idx((1, (1, 2)), Layout((4, (2, 8)), (100, (10, 1)))), crd2idx((1, 3), (4, (2, 8)))
    (112, 13)
    """
    if isinstance(into, (Layout, ComposedLayout)):
        return into(coord)
    return Layout(into)(coord)


def idx2crd(index: Index, into: AnyLayout | IntTuple) -> Any:
    """The coordinate of a flat index, nested as the shape is; entries of a tuple are taken apart mode by mode.

    >>> idx2crd(13, (4, (2, 8))), idx2crd((1, 5), (4, (2, 8)))
    ((1, (1, 1)), (1, (1, 2)))
    """
    return crd2crd(index, shape(into))


# -- nesting ----------------------------------------------------------------------------------------------------------


def coalesce(layout: L, target_profile: IntTuple | None = None) -> L:
    """The same function of flat indices with as few modes as there can be; by mode where a tuple profile is given.

    >>> coalesce(Layout(((2, 4), (3, 1)), ((1, 2), (8, 9))))
    24:1
    >>> coalesce(Layout(((2, 4), (3, 1)), ((1, 2), (8, 9))), target_profile=(1, 1))
    (8,3):(1,8)
    """
    return on_outer(layout, lambda outer: _coalesced(outer, target_profile))


def _coalesced(layout: Layout, profile: IntTuple | None) -> Layout:
    if isinstance(profile, tuple):
        if len(profile) > layout.rank():
            raise LayoutError(f"profile {to_text(profile)} has more modes than layout {layout}")
        parts = list(layout)
        return layout_of([*map(_coalesced, parts, profile), *parts[len(profile) :]])
    return of_runs(runs(layout))


def of_runs(pairs: Sequence[tuple[Any, Any]]) -> Layout:
    """The flat layout of (extent, stride) pairs: `1:0` for none, no parentheses around one."""
    if len(pairs) < 2:
        return Layout(*pairs[0]) if pairs else Layout(1, 0)
    return Layout(tuple(s for s, _ in pairs), tuple(d for _, d in pairs))


@overload
def flatten(x: Layout) -> Layout: ...
@overload
def flatten(x: ComposedLayout) -> ComposedLayout: ...
@overload
def flatten(x: IntTuple) -> tuple[Any, ...]: ...
def flatten(x: AnyLayout | IntTuple) -> Any:
    """The layout without nesting, each leaf a mode; the leaves of a tuple.

    >>> flatten(Layout(((2, 3), (4, (5, 6)))))
    (2,3,4,5,6):(1,2,6,24,120)
    """
    if isinstance(x, ComposedLayout):
        return x.with_outer(flatten(x.outer))
    if isinstance(x, Layout):
        return layout_of([Layout(*pair) for pair in x.leaves()]) if x.depth() else x
    return int_tuple.flatten(x)


def group_modes(layout: L, begin: int, end: int | None = None) -> L:
    """Modes begin..end-1 as one nested mode.

    >>> group_modes(Layout((2, 3, 4, 5)), 1, 3)
    (2,(3,4),5):(1,(2,6),24)
    """
    end = layout.rank() if end is None else end
    if not 0 <= begin < end <= layout.rank():
        raise LayoutError(f"layout {layout} has {layout.rank()} modes, modes {begin} to {end} cannot be grouped")

    def grouped(outer: Layout) -> Layout:
        parts: list[Layout] = [*outer]
        return layout_of([*parts[:begin], layout_of(parts[begin:end]), *parts[end:]])

    return on_outer(layout, grouped)


def select(layout: L, mode: Sequence[int]) -> L:
    """The modes named, in that order.

    >>> select(Layout((2, 3, 4, 5)), mode=[2, 0])
    (4,2):(6,1)
    """
    return on_outer(layout, lambda outer: layout_of([outer[m] for m in mode]))


def append(layout: L, mode: Layout, up_to_rank: int | None = None) -> L:
    """The layout with a mode more at its end, or with as many as bring it to a rank.

    >>> append(Layout((2, 3)), Layout(4, 8)), append(Layout(2), Layout(4, 8), 3)
    ((2,3,4):(1,2,8), (2,4,4):(1,8,8))
    """
    return on_outer(layout, lambda outer: layout_of([*outer, *[mode] * _missing(outer, up_to_rank)]))


def prepend(layout: L, mode: Layout, up_to_rank: int | None = None) -> L:
    """The layout with a mode more at its beginning, or with as many as bring it to a rank.

    >>> prepend(Layout((2, 3)), Layout(4, 8))
    (4,2,3):(8,1,2)
    """
    return on_outer(layout, lambda outer: layout_of([*[mode] * _missing(outer, up_to_rank), *outer]))


def append_ones(layout: L, up_to_rank: int | None = None) -> L:
    """The layout with modes of extent 1 at its end.

    >>> append_ones(Layout((2, 3)), 4)
    (2,3,1,1):(1,2,0,0)
    """
    return append(layout, Layout(1), up_to_rank)


def prepend_ones(layout: L, up_to_rank: int | None = None) -> L:
    """The layout with modes of extent 1 at its beginning.

    >>> prepend_ones(Layout((2, 3)), 3)
    (1,2,3):(0,1,2)
    """
    return prepend(layout, Layout(1), up_to_rank)


def _missing(layout: Layout, up_to_rank: int | None) -> int:
    if up_to_rank is not None and up_to_rank < layout.rank():
        raise LayoutError(f"layout {layout} has {layout.rank()} modes already, more than {up_to_rank}")
    return 1 if up_to_rank is None else up_to_rank - layout.rank()


# -- slices -----------------------------------------------------------------------------------------------------------


def slice_(x: AnyLayout | IntTuple | Coord, coord: Coord | AnyLayout) -> Any:
    """The modes where the coordinate has None, the others being fixed; a composed layout takes the offset along.

    >>> slice_(Layout((4, (2, 8))), (None, (0, None))), slice_(Layout((4, (2, 8))), (1, None))
    ((4,8):(1,8), ((2,8)):((4,8)))
    >>> slice_(ComposedLayout(None, (0, 0), Layout(8, 2)), None)
    (0,0) o 8:2
    >>> slice_((4, (2, 8)), (None, (1, None)))
    (4, 8)

    The offset of a plain layout's slice is lost; `slice_and_offset` gives it. C++'s order, the coordinate first, is
    taken too where the other argument is a layout.
    """
    if isinstance(coord, (Layout, ComposedLayout)):
        if isinstance(x, (Layout, ComposedLayout)):
            raise LayoutError(f"slice_ of {x} at {coord}: the second argument is a coordinate, such as (_,3)")
        return slice_(coord, x)
    if _has_none(x):
        raise LayoutError(f"slice_: {to_text(x)} has a '_' and is no shape; the layout or shape comes first, then it")
    if isinstance(x, Layout):
        return _kept(x, coord)
    if isinstance(x, ComposedLayout):
        return slice_and_offset(coord, x)[0]
    return x if coord is None else tuple(_paired(coord, x, keep_none=True))


def slice_and_offset(coord: Coord, layout: AnyLayout) -> tuple[Any, Any]:
    """The slice at a coordinate, and the location of its first element; a composed layout keeps that inside: 0.

    >>> slice_and_offset((None, (1, None)), Layout((4, (2, 8))))
    ((4,8):(1,8), 4)
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    kept = _kept(outer, coord)
    offset = outer(_zeros_for_none(coord, outer.shape))
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, add(layout.offset, offset), kept, layout.element_bits), 0
    return kept, offset


def dice(x: AnyLayout | IntTuple, coord: Coord) -> Any:
    """The modes where the coordinate has no None: what `slice_` leaves out.

    >>> dice(Layout((4, (2, 8))), (None, (0, None)))
    (2):(4)
    """
    if isinstance(x, ComposedLayout):
        return x.with_outer(dice(x.outer, coord))
    if isinstance(x, Layout):
        pairs = zip(_paired(coord, x.shape, False), _paired(coord, x.stride, False), strict=True)
        return layout_of([Layout(s, d) for s, d in pairs])
    return tuple(_paired(coord, x, keep_none=False))


def domain_offset(coord: Index, layout: AnyLayout) -> ComposedLayout:
    """The layout seen from a coordinate: index 0 of the result is `coord` of the layout.

    >>> domain_offset((1, 2), Layout((4, 8)))
    9 o (4,8):(1,4)

    A coordinate outside of the layout is refused; that the last elements leave it is the caller's to mask.
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.inner, add(layout.offset, layout.outer(coord)), layout.outer, layout.element_bits)
    return ComposedLayout(None, layout(coord), layout)


def _has_none(x: Any) -> bool:
    return any(map(_has_none, x)) if isinstance(x, tuple) else x is None


def _kept(layout: Layout, coord: Coord) -> Layout:
    if coord is None:
        return layout
    _zeros_for_none(coord, layout.shape)
    pairs = zip(_paired(coord, layout.shape, True), _paired(coord, layout.stride, True), strict=True)
    return layout_of([Layout(s, d) for s, d in pairs])


def _paired(coord: Coord, t: IntTuple, keep_none: bool) -> list[Any]:
    """The parts of a tuple that stand against None (or, on request, against a number)."""
    if not isinstance(coord, tuple):
        return [t] if (coord is None) == keep_none else []
    if not isinstance(t, tuple) or len(coord) != len(t):
        raise LayoutError(f"coordinate {to_text(coord)} does not fit {to_text(t)}")
    return [part for c, entry in zip(coord, t, strict=True) for part in _paired(c, entry, keep_none)]


def _zeros_for_none(coord: Coord, of: IntTuple) -> Any:
    if isinstance(coord, tuple):
        if not isinstance(of, tuple) or len(coord) != len(of):
            raise LayoutError(f"coordinate {to_text(coord)} does not fit shape {to_text(of)}")
        return tuple(map(_zeros_for_none, coord, of))
    return 0 if coord is None else coord


# -- strides ----------------------------------------------------------------------------------------------------------


def filter_zeros(layout: Layout, target_profile: IntTuple | None = None) -> Layout:
    """The layout with extent 1 where the stride is 0, in the same nesting.

    >>> filter_zeros(Layout(((4, 2), 3), ((0, 1), 0)))
    ((1,2),1):((0,1),0)

    With a profile, the extents go where the profile is 0.
    """
    zero = layout.stride if target_profile is None else target_profile
    return Layout(map_leaves(lambda s, d: 1 if d == 0 else s, layout.shape, zero), layout.stride)


def filter(layout: L) -> L:  # CuTe's name
    """The layout without stride 0 and extent 1, coalesced: one coordinate for each repetition of a location.

    >>> filter(Layout((4, 1, 2), (0, 3, 1)))
    2:1
    """
    return on_outer(layout, lambda outer: coalesce(filter_zeros(outer)))


def make_ordered_layout(of: IntTuple, order: IntTuple) -> Layout:
    """The compact layout whose modes are traversed by ascending order number.

    >>> make_ordered_layout((4, (2, 3), 8), (2, (1, 0), 3)), make_ordered_layout((4, (2, 3), 8), (2, 1, 0))
    ((4,(2,3),8):(6,(3,1),24), (4,(2,3),8):(48,(8,16),1))

    A number may order a whole nested mode, which is then compact in itself. Refuses two modes of one number: neither
    would come first (CuTe DSL gives both the same stride).
    """
    ranked = _ordered_modes(of, order)
    numbers = [n for n, mode in ranked if product(mode) != 1]
    if len(set(numbers)) < len(numbers):
        raise LayoutError(f"order {to_text(order)} gives two modes of shape {to_text(of)} the same number")
    step, first = _ONE, dict[int, Any]()
    for place in sorted(range(len(ranked)), key=lambda i: ranked[i][0]):
        first[place], step = step, step * product(ranked[place][1])
    strides = iter([int_tuple.compact_col_major(mode, first[i]) for i, (_, mode) in enumerate(ranked)])

    def nested(o: IntTuple) -> Any:
        return tuple(map(nested, o)) if isinstance(o, tuple) else next(strides)

    return Layout(of, nested(order))


_ONE: Any = 1


def _ordered_modes(of: IntTuple, order: IntTuple) -> list[tuple[int, IntTuple]]:
    if isinstance(order, tuple):
        if not isinstance(of, tuple) or len(of) != len(order):
            raise LayoutError(f"order {to_text(order)} does not fit shape {to_text(of)}")
        return [pair for s, o in zip(of, order, strict=True) for pair in _ordered_modes(s, o)]
    if not isinstance(order, int):
        raise LayoutError(f"order {to_text(order)} is no integer")
    return [(order, of)]
