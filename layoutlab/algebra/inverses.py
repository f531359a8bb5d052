"""Inverses: from locations back to coordinates, and what two layouts have in common.

>>> tile = Layout((4, 8), (8, 1))  # row-major
>>> right_inverse(tile), coalesce(composition(tile, right_inverse(tile)))
((8,4):(4,1), 32:1)
>>> back = left_inverse(Layout((4, 2), (1, 16)))
>>> back, [back(location) for location in (0, 1, 2, 3, 16, 17, 18, 19)]
((16,2):(1,4), [0, 1, 2, 3, 4, 5, 6, 7])
"""

from __future__ import annotations

from math import gcd
from operator import itemgetter
from typing import Any

from layoutlab.algebra.compose import composition, composition_of_layouts
from layoutlab.algebra.structure import L, coalesce, layout_of, of_runs
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, to_text
from layoutlab.layout import Layout, runs
from layoutlab.swizzle import ComposedLayout, Swizzle

Run = tuple[int, int, int]
"""(stride, extent, weight): the weight is what one step along the run adds to the flat index."""


def right_inverse(layout: L) -> L:
    """The layout R with layout(R(i)) = i for i below its size: where the locations 0, 1, 2, ... are.

    >>> right_inverse(Layout((2, 4, 6), (4, 1, 8)))
    (4,2,6):(2,1,8)
    >>> right_inverse(Layout((8, 4), (Basis(1, (1,)), Basis(1, (0,)))))  # of a coordinate, the index that has it
    (4,8):(8,1)

    R stops at the first location that no mode goes on to: `1:0` at the least. Of a swizzled layout with offset 0, R is
    swizzled too.
    """
    if isinstance(layout, ComposedLayout):
        return _swizzled_inverse(layout, right_inverse(layout.outer))
    result = _inverse_by_coordinate(layout, _right) if layout.coordinate_valued() else _right(_runs_of(layout))
    _check_right_inverse(layout, result)
    return result


def left_inverse(layout: L) -> L:
    """The layout K with K(layout(i)) = i for every index i: of a location, the index that goes there.

    >>> left_inverse(Layout(4, 2)), left_inverse(Layout(((2, 2), (2, 2)), ((1, 4), (8, 32))))
    ((2,4):(0,1), (4,8,2):(1,2,8))
    >>> left_inverse(Layout((4, 2), (0, 1)))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: (4,2):(0,1) has no left inverse: indices 0 and 1 both go to 0

    Refuses layouts that send two indices to one location, negative strides, and strides that do not divide each other,
    for which no layout of the form above exists.
    """
    if isinstance(layout, ComposedLayout):
        return _swizzled_inverse(layout, left_inverse(layout.outer))
    try:
        by_coordinate = layout.coordinate_valued()
        result = _inverse_by_coordinate(layout, _left) if by_coordinate else _left(_runs_of(layout))
    except LayoutError as why:
        raise LayoutError(f"{layout} has no left inverse: {_collision(layout) or why}") from None
    _check_left_inverse(layout, result)
    return result


def _right(found: list[Run]) -> Layout:
    parts, current = list[tuple[Any, Any]](), 1
    for stride, extent, weight in found:
        if stride == current:
            parts.append((extent, weight))
            current *= extent
    return coalesce(of_runs(parts))


def _left(found: list[Run]) -> Layout:
    parts, below = list[tuple[Any, Any]](), (1, 1, 0)
    for stride, extent, weight in found:
        low, filled, before = below
        if stride <= 0:
            raise LayoutError(f"the stride {stride} does not go up")
        if stride % low or stride < low * filled:
            raise LayoutError(
                f"the strides {low} and {stride} do not nest: {low}:{filled} reaches past or beside {stride}"
            )
        parts.append((stride // low, before))
        below = (stride, extent, weight)
    parts.append(below[1:])
    return coalesce(of_runs(parts))


def _runs_of(layout: Layout) -> list[Run]:
    """The runs of a layout of numbers, by ascending stride."""
    found, weight = list[Run](), 1
    for extent, stride in runs(layout):
        if not isinstance(extent, int) or not isinstance(stride, int):
            raise LayoutError(f"layout {layout} has the run {to_text((extent, stride))}: an inverse needs numbers")
        found.append((stride, extent, weight))
        weight *= extent
    return sorted(found, key=itemgetter(0))


def _inverse_by_coordinate(layout: Layout, invert: Any) -> Layout:
    """An inverse for each coordinate that the layout gives, as its modes, nested as the coordinates are."""
    found, weight = dict[tuple[int, ...], list[Run]](), 1
    for extent, stride in runs(layout):
        path, step = (stride.path, stride.value) if isinstance(stride, Basis) else ((), stride)
        if not isinstance(extent, int) or not isinstance(step, int) or (path == () and step != 0):
            raise LayoutError(f"layout {layout} has the run {to_text((extent, stride))}: an inverse needs coordinates")
        found.setdefault(path, []).append((step, extent, weight))
        weight *= extent
    if invert is _left and () in found:
        raise LayoutError("a stride of 0 repeats every coordinate")

    def nested(prefix: tuple[int, ...]) -> Layout:
        if prefix in found and prefix:
            return invert(sorted(found[prefix], key=itemgetter(0)))  # type: ignore[no-any-return]
        below = {path[len(prefix)] for path in found if path[: len(prefix)] == prefix and len(path) > len(prefix)}
        return layout_of([nested((*prefix, i)) for i in range(max(below) + 1)]) if below else Layout(1)

    return nested(())


def _swizzled_inverse(layout: ComposedLayout, inverse: Layout) -> ComposedLayout:
    """A swizzle is its own inverse, so the inverse of S o 0 o A is A's inverse after S, that is T o 0 o A's inverse."""
    if not isinstance(layout.inner, Swizzle) or layout.offset != 0:
        raise LayoutError(f"the inverse of {layout} is known for a swizzle with offset 0 only")
    swizzle = layout.element_swizzle()
    if abs(swizzle.shift) < swizzle.bits:
        raise LayoutError(f"{swizzle} is not its own inverse")
    return composition(inverse, ComposedLayout(swizzle, 0, Layout(inverse.size()), layout.element_bits))


def _collision(layout: Layout) -> str | None:
    """Two indices with one location, looked for among the first 4096."""
    size, seen = layout.size(), dict[Any, int]()
    if layout.symbolic() or not isinstance(size, int):
        return None
    for i in range(min(size, 4096)):
        at = layout(i)
        if at in seen:
            return f"indices {seen[at]} and {i} both go to {to_text(at)}"
        seen[at] = i
    return None


def _check_right_inverse(layout: Layout, result: Layout) -> None:
    if not layout.coordinate_valued() and coalesce(composition_of_layouts(layout, result)) != coalesce(
        Layout(result.size())
    ):
        raise LayoutError(f"the right inverse of {layout} was computed as {result}: a fault of layoutlab")


def _check_left_inverse(layout: Layout, result: Layout) -> None:
    if coalesce(composition_of_layouts(result, layout)) != coalesce(Layout(layout.size())):
        raise LayoutError(f"the left inverse of {layout} was computed as {result}: a fault of layoutlab")


# -- what two layouts have in common ----------------------------------------------------------------------------------


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The longest layout R found with a(R(i)) = i = b(R(i)): the indices whose locations are 0, 1, 2, ... in both.

    >>> max_common_layout(Layout((4, 8), (8, 1)), Layout((4, 8), (16, 1)))
    8:4
    >>> max_common_layout(Layout((6, 8), (1, 10)), Layout((4, 12), (1, 10)))
    4:1
    """
    found = list[tuple[Any, Any]]()
    for extent, stride in right_inverse(b).leaves():
        low, high = 1, extent
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if _counts_up(a, of_runs([*found, (middle, stride)])) else (low, middle - 1)
        found.append((low, stride))
        if low < extent:
            break
    return coalesce(of_runs(found))


def _counts_up(a: Layout, indices: Layout) -> bool:
    """Whether a(indices(i)) = i, all indices being a's own."""
    reach, size = indices.cosize(), a.size()
    if not isinstance(reach, int) or not isinstance(size, int) or reach > size:
        return False
    try:
        return coalesce(composition_of_layouts(a, indices)) == coalesce(Layout(indices.size()))
    except LayoutError:
        return False


def max_common_vector(a: Layout | ComposedLayout, b: Layout | ComposedLayout) -> int:
    """How many elements, contiguous in both layouts and at the same indices, one vector access can move.

    >>> max_common_vector(Layout((4, 8)), Layout((4, 8), (1, 100)))
    4
    >>> max_common_vector(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 8))), Layout((64, 8)))
    8

    A swizzle keeps blocks of 2**base elements together; an offset has to keep them aligned.
    """
    plain = [x.outer if isinstance(x, ComposedLayout) else x for x in (a, b)]
    common = max_common_layout(*plain)
    vector = common.size()
    if not isinstance(vector, int):
        raise LayoutError(f"the common vector of {a} and {b} is not known")
    for x in (a, b):
        if isinstance(x, ComposedLayout):
            if not isinstance(x.offset, int) or isinstance(x.inner, Layout):
                raise LayoutError(f"{x} has no vectors: it is no swizzle of locations")
            block = 1 << x.element_swizzle().base if isinstance(x.inner, Swizzle) and x.inner.bits else 0
            vector = gcd(vector, block, x.offset)
    return vector
