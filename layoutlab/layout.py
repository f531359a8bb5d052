"""Layout: a shape and a stride, called like the function it is.

>>> tile = Layout((2, 3), (3, 1))  # row-major
>>> tile(1, 2), tile(5), [tile(i) for i in range(6)]
(5, 5, [0, 3, 1, 4, 2, 5])
>>> print(tile)
(2,3):(3,1)

A coordinate into shape (2,3) is nested as the shape is, (1, 2), or flat, 5: flat indices count colexicographically, the
first mode fastest. Strides are integers, coordinate bases (`1@0`: the layout then gives coordinates) or symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layoutlab.digits import Map, strided_over
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import (
    Basis,
    Coord,
    Int,
    IntTuple,
    check_coord,
    check_shape,
    compact_col_major,
    congruent,
    crd2crd,
    depth,
    flatten,
    modes,
    product,
    rank,
    to_text,
    weighted_sum,
)
from layoutlab.symbol import Sym, known, known_equal


@dataclass(frozen=True, init=False, repr=False)
class Layout:
    """A function from the coordinates of `shape` to locations: the sum of coordinates times strides.

    >>> Layout(((4, 8), 2))
    ((4,8),2):((1,4),32)
    >>> Layout((4, 2), ((1, 2), 4))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: shape (4,2) and stride ((1,2),4) are nested differently

    Without strides the layout is compact, first mode fastest. Locations have no unit of their own: they count what the
    strides count (elements, bytes, threads, or coordinates where a stride is a basis).
    """

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: IntTuple, stride: IntTuple | None = None) -> None:
        check_shape(shape)
        stride = compact_col_major(shape) if stride is None else stride
        if not congruent(shape, stride):
            raise LayoutError(f"shape {to_text(shape)} and stride {to_text(stride)} are nested differently")
        for leaf in flatten(stride):
            if isinstance(leaf, bool) or not isinstance(leaf, (int, Sym, Basis)):
                raise LayoutError(
                    f"stride {to_text(stride)} has the entry {leaf!r}: strides are integers, bases or symbols"
                )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    # -- the function -------------------------------------------------------------------------------------------------

    def __call__(self, *coord: Coord) -> Any:
        """The location of a coordinate: flat, by mode or nested; of a whole numpy array of coordinates at once.

        >>> layout = Layout((4, (2, 2)), (1, (8, 4)))
        >>> layout(3, (1, 0)), layout(3, 1), layout(7)
        (11, 11, 11)
        >>> import numpy as np
        >>> layout(np.arange(16)).tolist()
        [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]

        Refuses a coordinate outside of the shape; `extended` goes on past the last mode.
        """
        full = crd2crd(_one(coord), self.shape)
        check_coord(full, self.shape)
        return weighted_sum(flatten(full), flatten(self.stride))

    def extended(self, *coord: Coord) -> Any:
        """The location with the last mode going on for ever: CuTe's natural extension, in which laws are stated.

        >>> Layout((4, 2), (2, 1)).extended(8)
        2
        """
        return weighted_sum(flatten(crd2crd(_one(coord), self.shape)), flatten(self.stride))

    def map(self, out: str, *axes: str, unit: int = 1) -> Map:
        """The layout as a table of digits: one axis for each mode, or one flat axis; the axes are given slowest first
        in the order of the modes.

        >>> print(Layout((4, 8), (8, 1)).map("byte", "m", "k", unit=2))
        byte = 2 k[1] + 4 k[2] + 8 k[4] + 16 m[1] + 32 m[2]

        Units: `unit` is how much of the output one step of a stride is. Refuses symbols and bases, whose values are no
        numbers.
        """
        parts = [self] if len(axes) == 1 else list(self)
        if len(parts) != len(axes):
            raise LayoutError(f"layout {self} has {len(parts)} modes, {len(axes)} axes were named: {', '.join(axes)}")
        return strided_over({axis: _pairs(part) for axis, part in zip(axes, parts, strict=True)}, out, unit)

    # -- structure ----------------------------------------------------------------------------------------------------

    def __getitem__(self, mode: int | tuple[int, ...]) -> Layout:
        """Mode `mode` as a layout; a tuple goes down level by level.

        >>> Layout(((4, 8), 2))[0], Layout(((4, 8), 2))[0, 1]
        ((4,8):(1,4), 8:4)
        """
        if isinstance(mode, tuple):
            return self[mode[0]][mode[1:]] if mode else self
        shapes, strides = modes(self.shape), modes(self.stride)
        if not -len(shapes) <= mode < len(shapes):
            raise LayoutError(f"layout {self} has {len(shapes)} modes, there is no mode {mode}")
        return Layout(shapes[mode], strides[mode])

    def __iter__(self) -> Iterator[Layout]:
        """The modes, each as a layout."""
        return (Layout(s, d) for s, d in zip(modes(self.shape), modes(self.stride), strict=True))

    def __len__(self) -> int:
        return self.rank()

    def rank(self) -> int:
        """The number of modes; 1 where the shape is an integer."""
        return rank(self.shape)

    def depth(self) -> int:
        """The levels of nesting; 0 where the shape is an integer."""
        return depth(self.shape)

    def size(self) -> Int:
        """The number of coordinates."""
        return product(self.shape)

    def cosize(self) -> Int:
        """The number of locations from the lowest to the highest, both counted.

        >>> Layout((4, 2), (1, 16)).cosize(), Layout((4, 2), (1, -4)).cosize()
        (20, 8)
        """
        total: Int = 1
        for s, d in self.leaves():
            total = total + (s - 1) * _magnitude(d)
        return total

    def leaves(self) -> list[tuple[Any, Any]]:
        """(extent, stride) of each leaf, in order."""
        return list(zip(flatten(self.shape), flatten(self.stride), strict=True))

    def unknown(self) -> bool:
        """Whether an extent or a stride is a symbol of which nothing is assumed (`layoutlab.symbol.assuming`)."""
        entries = [entry.value if isinstance(entry, Basis) else entry for leaf in self.leaves() for entry in leaf]
        return not all(known(entry) for entry in entries)

    def symbolic(self) -> bool:
        """Whether some extent or stride is a symbol."""
        return any(isinstance(getattr(x, "value", x), Sym) for leaf in self.leaves() for x in leaf)

    def coordinate_valued(self) -> bool:
        """Whether some stride is a basis, so that the layout gives coordinates."""
        return any(isinstance(d, Basis) for _, d in self.leaves())

    def __str__(self) -> str:
        return f"{to_text(self.shape)}:{to_text(self.stride)}"

    __repr__ = __str__


def make_layout(shape: IntTuple | Layout, *more: Layout | IntTuple, stride: IntTuple | None = None) -> Layout:
    """A layout from a shape and strides, or of several layouts as its modes.

    >>> make_layout((4, 2), stride=(2, 1)), make_layout(Layout(4), Layout(2, 16))
    ((4,2):(2,1), (4,2):(1,16))
    >>> make_layout((4, 2), (2, 1))  # as in C++, where strides have no name
    (4,2):(2,1)

    Refuses a mix of layouts and tuples, and strides that are given twice or beside layouts.
    """
    parts = [part for part in (shape, *more) if isinstance(part, Layout)]
    if not parts and len(more) <= 1 and (stride is None or not more):
        tuples: list[Any] = [shape, *more]
        return Layout(*tuples) if more else Layout(tuples[0], stride)
    if len(parts) <= len(more) or stride is not None:
        given = ", ".join([*map(to_text, (shape, *more)), *([] if stride is None else [f"stride={to_text(stride)}"])])
        raise LayoutError(
            f"make_layout({given}) is neither a shape with its strides, make_layout((4,2), (2,1)), nor layouts alone, "
            "make_layout(4:1, 2:16)"
        )
    return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def make_identity_layout(shape: IntTuple) -> Layout:
    """The layout that gives every coordinate itself.

    >>> make_identity_layout((128, (2, 32)))
    (128,(2,32)):(1@0,(1@0@1,1@1@1))
    """

    def bases(s: IntTuple, path: tuple[int, ...]) -> Any:
        return tuple(bases(e, (*path, i)) for i, e in enumerate(s)) if isinstance(s, tuple) else Basis(1, path)

    return Layout(shape, bases(shape, ()) if isinstance(shape, tuple) else 1)


def runs(a: Layout) -> tuple[tuple[int, Any], ...]:
    """(extent, stride) runs of a layout with nothing left to merge: equal for layouts that are equal on flat indices.

    >>> runs(Layout(((4, 2), 1), ((1, 4), 7)))
    ((8, 1),)
    """
    found: list[tuple[Any, Any]] = []
    for s, d in a.leaves():
        if s == 1:
            continue
        if found and follows(found[-1], d):
            found[-1] = (found[-1][0] * s, found[-1][1])
        else:
            found.append((s, d))
    return tuple(found)


def follows(run: tuple[Any, Any], stride: Any) -> bool:
    """Whether a stride goes on where a run of (extent, stride) ends."""
    extent, step = run
    if isinstance(step, Basis) or isinstance(stride, Basis):
        same = isinstance(step, Basis) and isinstance(stride, Basis) and step.path == stride.path
        return bool(same and known_equal(step.value * extent, stride.value))
    return known_equal(step * extent, stride)


def _one(coord: tuple[Coord, ...]) -> Coord:
    return coord[0] if len(coord) == 1 else coord


def _magnitude(stride: Any) -> Any:
    if isinstance(stride, Basis):
        raise LayoutError("a layout with coordinate strides has no cosize: its values are coordinates")
    return abs(stride) if isinstance(stride, int) else stride


def _pairs(part: Layout) -> list[tuple[int, int]]:
    for leaf in part.leaves():
        if not all(isinstance(x, int) for x in leaf):
            raise LayoutError(f"layout {part} has the entry {to_text(leaf)}: a table of digits needs numbers")
    return part.leaves()
