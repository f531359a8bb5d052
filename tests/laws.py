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
    sums = sorted(x + y for x in values(once(a)) for y in values(r))
    if sums != list(range(len(sums))):
        return f"the sums {sums} are not 0, 1, 2, ..."
    if len(sums) < target:
        return f"{len(sums)} locations do not cover {target}"
    strides = [d for s, d in r.leaves() if s != 1]
    return None if strides == sorted(strides) else f"{r} is not ordered"


def once(a: Layout) -> Layout:
    """The layout without the repetitions that a stride of 0 makes."""
    return Layout(tuple(1 if d == 0 else s for s, d in a.leaves()), tuple(d for _, d in a.leaves()))


def gaps(a: Layout, count: int) -> list[int] | None:
    """Where copies of a layout go so that 0, 1, 2, ... fill up: each at the first gap; None when two would overlap.

    What happens within twice the last place, a copy more than the last gap, happens again and again further on.
    """
    places, filled, found, gap = values(once(a)), set[int](), list[int](), 0
    if min(places) < 0 or len(set(places)) < len(places):
        return None
    while len(found) < count or gap <= 2 * max(places):
        copy = {gap + p for p in places}
        if copy & filled:
            return None
        filled |= copy
        found.append(gap)
        while gap in filled:
            filled.discard(gap)
            gap += 1
    return found


def has_complement(a: Layout) -> bool:
    return gaps(a, 1) is not None


def logical_divide(a: Layout, tile: Layout, r: Layout) -> str | None:
    if r.rank() != 2 or r[0].size() != tile.size():
        return f"{r} is no pair (tile, rest)"
    if not has_complement(tile):
        return f"copies of {tile} fill no range"
    free = [g for g in gaps(tile, r[1].size()) or () if g < a.size() or g == 0]
    if r[1].size() < len(free):
        return f"{r[1].size()} tiles, at {free} more begin"
    whole, n = without_ones(a), tile.size()
    for j, gap in enumerate((gaps(tile, r[1].size()) or [])[: r[1].size()]):
        for i in range(n):
            if r(i + n * j) != whole.extended(gap + tile(i)):
                return f"element {i} of tile {j} is {r(i + n * j)}, not {whole.extended(gap + tile(i))}"
    return None


def without_ones(a: Layout) -> Layout:
    """The layout without modes of extent 1, so that the last mode that goes on is one that counts."""
    leaves = [leaf for leaf in a.leaves() if leaf[0] != 1] or a.leaves()[-1:]
    return Layout(tuple(s for s, _ in leaves), tuple(d for _, d in leaves))


def product_of(a: Layout, times: Layout, r: Layout) -> str | None:
    """Of a product that counts the block first: a copy of it for each repetition, in order, without overlap."""
    return _product(a, times, values(r))


def blocked_product(a: Layout, times: Layout, r: Layout) -> str | None:
    return _product(a, times, _by_mode_pairs(a, times, r, block_first=True))


def raked_product(a: Layout, times: Layout, r: Layout) -> str | None:
    return _product(a, times, _by_mode_pairs(a, times, r, block_first=False))


def _by_mode_pairs(a: Layout, times: Layout, r: Layout, block_first: bool) -> list[int]:
    """The values of a product with paired modes, the block's indices first."""
    rank = max(a.rank(), times.rank())
    inner, outer = ([m.size() for m in x] + [1] * (rank - x.rank()) for x in (a, times))
    if r.rank() != rank or any(m.size() != i * o for m, i, o in zip(r, inner, outer, strict=True)):
        return []
    found = []
    for t in range(times.size()):
        for b in range(a.size()):
            at = []
            rest_b, rest_t = b, t
            for i, o in zip(inner, outer, strict=True):
                at.append(rest_b % i + i * (rest_t % o) if block_first else rest_t % o + o * (rest_b % i))
                rest_b, rest_t = rest_b // i, rest_t // o
            found.append(r(tuple(at) if r.depth() else at[0]))
    return found


def _product(a: Layout, times: Layout, f: list[int]) -> str | None:
    n = a.size()
    if len(f) != n * times.size():
        return f"{len(f)} coordinates instead of {n * times.size()}"
    block, places = values(a), f[::n]
    free = gaps(a, times.cosize())
    if free is None:
        return f"copies of {a} fill no range"
    if places != [free[times(j)] for j in range(times.size())]:
        return f"the copies are at {places}, not at the gaps that {times} numbers"
    return None if f == [x + y for y in places for x in block] else "it is no block at places"


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
    """The same bits, as often; and a swizzle that moves each bit of memory as the old one does."""
    if isinstance(a, ComposedLayout) and isinstance(r, ComposedLayout):
        for bit in range(1 << 14):
            before, after = (w * x.element_swizzle()(bit // w) + bit % w for x, w in ((a, old), (r, new)))
            if before != after:
                return f"bit {bit} goes to {after}, it went to {before}"
    return None if bits(a, old) == bits(r, new) else f"{r} of {new}-bit elements has other bits"


def max_common_layout(a: Layout, b: Layout, r: Layout) -> str | None:
    for i in range(r.size()):
        if r(i) >= min(a.size(), b.size()) or not a(r(i)) == i == b(r(i)):
            return f"{r(i)} is no index of both, or goes elsewhere than to {i}"
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
    "flatten": same_function,
    "complement": complement,
    "logical_divide": logical_divide,
    "logical_product": product_of,
    "zipped_product": product_of,
    "tiled_product": product_of,
    "flat_product": product_of,
    "blocked_product": blocked_product,
    "raked_product": raked_product,
    "right_inverse": right_inverse,
    "left_inverse": left_inverse,
    "max_common_layout": max_common_layout,
    "tile_to_shape": tile_to_shape,
    "recast_layout": recast_layout,
}
