"""The law of each operation, by enumeration: whether a result is right, whoever computed it.

Each takes the operation's arguments and a result, and says what is wrong with it, or None. They share no code with the
algebra: they only call layouts on indices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from layoutlab import ComposedLayout, Layout
from layoutlab.int_tuple import compatible, product

AnyLayout = Layout | ComposedLayout


def values(x: AnyLayout) -> list[Any]:
    return [flat(x(i)) for i in range(x.size())]


def flat(value: Any) -> Any:
    """A coordinate without trailing zeros, so that (1,) and (1,0) are one."""
    if not isinstance(value, tuple):
        return value
    parts = [flat(v) for v in value]
    while parts and parts[-1] in (0, ()):
        parts.pop()
    return tuple(parts) or 0


def at(a: Layout, location: Any) -> Any:
    """A layout at a location that another function gave, its last mode going on for ever."""
    if not isinstance(location, tuple):
        return a.extended(location)
    total: Any = 0
    for mode, part in enumerate(location):
        if part != 0:
            value = at(a[mode], part)
            total = value if isinstance(total, int) and total == 0 else _added(total, value)
    return total


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, tuple) and isinstance(b, tuple):
        n = max(len(a), len(b))
        a, b = (x + (0,) * (n - len(x)) for x in (a, b))
        return tuple(map(_added, a, b))
    return b if isinstance(a, int) and a == 0 else a if isinstance(b, int) and b == 0 else a + b


def composition(a: Layout, b: Layout, r: Layout) -> str | None:
    if not compatible(b.shape, r.shape):
        return f"shape {r.shape} does not refine {b.shape}"
    for i in range(b.size()):
        if flat(r(i)) != flat(at(a, b(i))):
            return f"R({i}) = {r(i)}, A(B({i})) = {at(a, b(i))}"
    return None


def same_function(a: AnyLayout, r: AnyLayout) -> str | None:
    return None if a.size() == r.size() and values(a) == values(r) else f"{values(r)} is not {values(a)}"


def coalesce(a: Layout, r: Layout) -> str | None:
    if any(
        d1 == s0 * d0 or s0 == 1 or s1 == 1
        for (s0, d0), (s1, d1) in pairwise(r.leaves())
        if isinstance(d0, int) and isinstance(d1, int)
    ):
        return f"{r} can be shorter"
    return same_function(a, r)


def complement(a: Layout, target: int, r: Layout) -> str | None:
    mine = sorted(set(values(a)))
    sums = sorted(x + y for x in mine for y in values(r))
    if sums != list(range(len(sums))):
        return f"the sums {sums} are not 0, 1, 2, ..."
    if len(sums) < target:
        return f"{len(sums)} locations do not cover {target}"
    strides = [d for s, d in r.leaves() if s != 1]
    return None if strides == sorted(strides) else f"{r} is not ordered"


def logical_divide(a: Layout, tile: Layout, r: Layout) -> str | None:
    if r.rank() != 2 or r[0].size() != tile.size():
        return f"{r} is no pair (tile, rest)"
    if wrong := composition(without_ones(a), tile, r[0]):
        return f"mode 0: {wrong}"
    wanted, got = Counter(values(a)), Counter(values(r))
    missing = wanted - got
    if missing and len(set(values(tile))) == tile.size() and len(set(values(a))) == a.size():
        return f"{dict(missing)} is left out"
    return None


def without_ones(a: Layout) -> Layout:
    """The layout without modes of extent 1, so that the last mode that goes on is one that counts."""
    leaves = [leaf for leaf in a.leaves() if leaf[0] != 1] or [(1, 0)]
    return Layout(tuple(s for s, _ in leaves), tuple(d for _, d in leaves))


def logical_product(a: Layout, times: Layout, r: Layout) -> str | None:
    if r.rank() != 2 or r[1].size() != times.size():
        return f"{r} is no pair (block, repetitions)"
    if wrong := same_function(a, r[0]):
        return f"mode 0: {wrong}"
    distinct = len(set(values(a))) * len(set(values(times)))
    if len(set(values(r))) != distinct:
        return f"{len(set(values(r)))} locations instead of {distinct}: blocks overlap"
    order = sorted(range(times.size()), key=times)
    steps = values(r[1])
    return None if [steps[i] for i in order] == sorted(steps) else "repetitions are out of order"


def right_inverse(a: Layout, r: Layout) -> str | None:
    for i in range(r.size()):
        if at(a, r(i)) != i:
            return f"A(R({i})) = {at(a, r(i))}"
    return None


def left_inverse(a: Layout, r: Layout) -> str | None:
    for i in range(a.size()):
        if at(r, a(i)) != i:
            return f"K(A({i})) = {at(r, a(i))}"
    return None


def bits(a: AnyLayout, width: int) -> Counter[int]:
    return Counter(location * width + bit for location in values(a) for bit in range(width))


def recast_layout(new: int, old: int, a: AnyLayout, r: AnyLayout) -> str | None:
    return None if bits(a, old) == bits(r, new) else f"{r} of {new}-bit elements has other bits"


def max_common_layout(a: Layout, b: Layout, r: Layout) -> str | None:
    for i in range(r.size()):
        if not at(a, r(i)) == i == at(b, r(i)):
            return f"at {i}: {at(a, r(i))}, {at(b, r(i))}"
    return None


def tile_to_shape(atom: Layout, shape: Any, order: Any, r: Layout) -> str | None:
    if tuple(m.size() for m in r) != tuple(product(s) for s in shape):
        return f"{r} has not the shape {shape}"
    inside = {values(atom).count(v) for v in values(atom)}
    places = len(set(values(r)))
    wanted = len(set(values(atom))) * (r.size() // atom.size())
    return None if inside and places == wanted else f"{places} locations instead of {wanted}"


LAWS: dict[str, Callable[..., str | None]] = {
    "composition": composition,
    "coalesce": coalesce,
    "complement": complement,
    "logical_divide": logical_divide,
    "logical_product": logical_product,
    "right_inverse": right_inverse,
    "left_inverse": left_inverse,
    "recast_layout": recast_layout,
    "max_common_layout": max_common_layout,
}
