"""Nested tuples of integers: shapes, strides and coordinates.

Everything counts colexicographically, as CuTe does: the first mode is the fastest.

>>> idx2crd(7, ((2, 3), 4))
((1, 0), 1)
>>> crd2idx(((1, 0), 1), ((2, 3), 4))
7

An entry may also be a symbol (`layoutlab.symbol.Sym`) and, in a stride, a coordinate basis (`Basis`, printed `1@0`).
Where a coordinate is taken, numpy arrays may stand for integers: they give arrays of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from operator import mul
from typing import Any, TypeAlias

from layoutlab.errors import LayoutError
from layoutlab.symbol import Sym

Int: TypeAlias = "int | Sym"
IntTuple: TypeAlias = "int | Sym | Basis | tuple[IntTuple, ...]"
Coord: TypeAlias = Any
"""An integer, a numpy array of integers, or a nested tuple of them."""


@dataclass(frozen=True)
class Basis:
    """A stride that moves one coordinate: `32@1` adds 32 to coordinate 1, `1@1@0` 1 to coordinate 1 of coordinate 0.

    >>> str(Basis(32, (1,))), str(Basis(1, (0, 1)))
    ('32@1', '1@1@0')

    `path` stands outermost first; the printed form, as in CuTe, innermost first.
    """

    value: Int
    path: tuple[int, ...]

    def __str__(self) -> str:
        return "@".join([str(self.value), *(str(mode) for mode in reversed(self.path))])

    __repr__ = __str__

    def __mul__(self, factor: Int) -> Basis:
        return Basis(self.value * factor, self.path)

    __rmul__ = __mul__


# -- structure --------------------------------------------------------------------------------------------------------


def flatten(t: IntTuple) -> tuple[Any, ...]:
    """The leaves, in order.

    >>> flatten(((2, 3), 4)), flatten(5)
    ((2, 3, 4), (5,))
    """
    return tuple(_leaves(t))


def _leaves(t: IntTuple) -> Iterator[Any]:
    if isinstance(t, tuple):
        for entry in t:
            yield from _leaves(entry)
    else:
        yield t


def unflatten(leaves: Iterable[Any], profile: IntTuple) -> Any:
    """Leaves put back into the nesting of `profile`.

    >>> unflatten([2, 3, 4], ((0, 0), 0))
    ((2, 3), 4)
    """
    source = iter(leaves)

    def build(p: IntTuple) -> Any:
        return tuple(build(entry) for entry in p) if isinstance(p, tuple) else next(source)

    return build(profile)


def map_leaves(f: Callable[..., Any], *tuples: IntTuple) -> Any:
    """`f` applied to the leaves of congruent tuples."""
    if isinstance(tuples[0], tuple):
        return tuple(map_leaves(f, *entries) for entries in zip(*tuples, strict=True))
    return f(*tuples)


def rank(t: IntTuple) -> int:
    """The number of modes; 1 for an integer."""
    return len(t) if isinstance(t, tuple) else 1


def depth(t: IntTuple) -> int:
    """The levels of nesting; 0 for an integer.

    >>> depth(5), depth((2, 3)), depth(((2, 3), 4))
    (0, 1, 2)
    """
    return 1 + max((depth(entry) for entry in t), default=0) if isinstance(t, tuple) else 0


def modes(t: IntTuple) -> tuple[IntTuple, ...]:
    """The modes as a tuple; an integer is its own one mode."""
    return t if isinstance(t, tuple) else (t,)


def product(t: IntTuple) -> Int:
    """The product of the leaves: the size of a shape.

    >>> product(((2, 3), 4))
    24
    """
    return reduce(mul, flatten(t), 1)


size = product


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether the two have the same nesting.

    >>> congruent(((2, 3), 4), ((1, 2), 8)), congruent((2, 3), 6)
    (True, False)
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether `a`'s nesting ends where `b`'s does or before: each leaf of `a` may stand for a tuple of `b`."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_congruent, a, b))
    return True


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Whether every coordinate into shape `a` is one into shape `b`.

    >>> compatible(24, (4, 6)), compatible((4, 6), ((2, 2), 6)), compatible((4, 6), 24)
    (True, True, False)
    """
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))
    return a == product(b)


def check_shape(shape: IntTuple) -> IntTuple:
    """The shape itself; refuses leaves that are no positive integers or symbols.

    >>> check_shape((4, 0))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: shape (4,0) has the extent 0: extents are positive integers
    """
    for leaf in _leaves(shape):
        if isinstance(leaf, bool) or not isinstance(leaf, (int, Sym)) or (isinstance(leaf, int) and leaf < 1):
            raise LayoutError(f"shape {to_text(shape)} has the extent {leaf}: extents are positive integers")
    return shape


def to_text(t: Any) -> str:
    """As CuTe prints it, without blanks.

    >>> to_text(((2, 3), 4)), to_text((5,))
    ('((2,3),4)', '(5)')
    """
    return f"({','.join(to_text(entry) for entry in t)})" if isinstance(t, tuple) else str(t)


# -- coordinates ------------------------------------------------------------------------------------------------------


def compact_col_major(shape: IntTuple, first: Int = 1) -> Any:
    """The strides of the shape laid out without gaps, first mode fastest; 0 for an extent of 1, as in CuTe.

    >>> compact_col_major(((2, 3), 1, 4))
    ((1, 2), 0, 6)
    """
    strides, step = [], first
    for leaf in _leaves(shape):
        strides.append(0 if leaf == 1 else step)
        step = step * leaf
    return unflatten(strides, shape)


def compact_row_major(shape: IntTuple) -> Any:
    """The strides of the shape laid out without gaps, last mode fastest; 0 for an extent of 1.

    >>> compact_row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = list[Int](), 1
    for leaf in reversed(flatten(shape)):
        strides.append(0 if leaf == 1 else step)
        step = step * leaf
    return unflatten(reversed(strides), shape)


def idx2crd(index: Coord, shape: IntTuple) -> Any:
    """The coordinate of a flat index, nested as the shape is.

    >>> idx2crd(5, (2, 3))
    (1, 2)

    The last leaf takes what is left, so an index past the end gives a coordinate past the last extent.
    """
    parts, last = [], max(0, len(flatten(shape)) - 1)
    for i, extent in enumerate(_leaves(shape)):
        if i == last:
            parts.append(index)
        else:
            parts.append(index % extent)
            index = index // extent
    return unflatten(parts, shape)


def crd2crd(coord: Coord, shape: IntTuple) -> Any:
    """A coordinate with every integer that stands for a tuple taken apart, so that it is congruent with the shape.

    >>> crd2crd((5, 1), ((2, 3), 4))
    ((1, 2), 1)
    """
    if not isinstance(shape, tuple):
        if isinstance(coord, tuple):
            if len(coord) == 1:
                return crd2crd(coord[0], shape)
            raise LayoutError(
                f"coordinate {to_text(coord)} has {len(coord)} entries where the shape has the extent {shape}"
            )
        return coord
    if not isinstance(coord, tuple):
        return idx2crd(coord, shape)
    if len(coord) != len(shape):
        raise LayoutError(
            f"coordinate {to_text(coord)} has {len(coord)} entries, shape {to_text(shape)} has {len(shape)}"
        )
    return tuple(crd2crd(c, s) for c, s in zip(coord, shape, strict=True))


def crd2idx(coord: Coord, shape: IntTuple, stride: IntTuple | None = None) -> Any:
    """The index of a coordinate: with strides, the location; without, the flat index.

    >>> crd2idx((1, 2), (2, 3)), crd2idx((1, 2), (2, 3), (3, 1))
    (5, 5)

    Strides that are coordinate bases give a coordinate.
    """
    strides = flatten(compact_col_major(shape) if stride is None else stride)
    return weighted_sum(flatten(crd2crd(coord, shape)), strides)


def weighted_sum(coords: Iterable[Any], strides: Iterable[Any]) -> Any:
    """The sum of coordinate times stride; a coordinate tuple where a stride is a basis."""
    total: Any = 0
    for c, d in zip(coords, strides, strict=True):
        total = add(total, _at(c * d.value, d.path) if isinstance(d, Basis) else c * d)
    return total


def _at(value: Any, path: tuple[int, ...]) -> Any:
    for mode in reversed(path):
        value = (*(0,) * mode, value)
    return value


def add(a: Any, b: Any) -> Any:
    """The sum of two numbers or of two coordinates; 0 and missing trailing entries add nothing.

    >>> add((1, 2), (0, 3, 4)), add(0, (5, 6))
    ((1, 5, 4), (5, 6))
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(add(x, y) for x, y in zip_longest(a, b, fillvalue=0))
    if isinstance(a, tuple) or isinstance(b, tuple):
        number, coord = (b, a) if isinstance(a, tuple) else (a, b)
        if isinstance(number, int) and number == 0:
            return coord
        if len(coord) == 1:
            return (add(coord[0], number),)
        raise LayoutError(f"{to_text(a)} and {to_text(b)} cannot be added: one is a number, the other a coordinate")
    return a + b


def check_coord(coord: Coord, shape: IntTuple) -> None:
    """Refuses a coordinate, congruent with the shape, that lies outside of it; symbols are taken on trust."""
    for c, extent in zip(_leaves(coord), _leaves(shape), strict=True):
        if isinstance(c, Sym) or isinstance(extent, Sym):
            continue
        low, high = (c.min(), c.max()) if getattr(c, "ndim", 0) and c.size else (c, c)
        if getattr(c, "size", 1) and (low < 0 or high >= extent):
            worst = low if low < 0 else high
            raise LayoutError(f"coordinate {worst} lies outside of the extent {extent} of shape {to_text(shape)}")


# -- arithmetic on shapes ---------------------------------------------------------------------------------------------


def ceil_div(a: IntTuple, b: IntTuple) -> Any:
    """The quotient rounded up, by mode where both are tuples.

    >>> ceil_div(10, 4), ceil_div((10, 8), (4, 4))
    (3, (3, 2))
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(b) > len(a):
            raise LayoutError(f"{to_text(b)} has more modes than {to_text(a)}")
        return tuple(ceil_div(x, y) for x, y in zip(a, b, strict=False)) + a[len(b) :]
    if isinstance(a, tuple) or isinstance(b, tuple):
        return ceil_div(product(a), product(b))
    return a // b if isinstance(a, Sym) or isinstance(b, Sym) else -(-a // b)  # type: ignore[operator]


def shape_div(a: IntTuple, b: IntTuple) -> Any:
    """`a` with `b` elements divided away, first mode first; refuses where neither divides the other.

    >>> shape_div((4, 6), 8)
    (1, 3)
    >>> shape_div((4, 6), 3)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: neither of 4 and 3 divides the other
    """
    if isinstance(a, tuple):
        if isinstance(b, tuple):
            return tuple(shape_div(x, y) for x, y in zip(a, b, strict=True))
        parts = []
        for entry in a:
            parts.append(shape_div(entry, b))
            b = shape_div(b, product(entry))
        return tuple(parts)
    if isinstance(b, tuple):
        return shape_div(a, product(b))
    if a == b:
        return 1
    if a % b == 0:  # type: ignore[operator]
        return a // b  # type: ignore[operator]
    if b % a == 0:  # type: ignore[operator]
        return 1
    raise LayoutError(f"neither of {a} and {b} divides the other")
