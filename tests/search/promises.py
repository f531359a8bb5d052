"""What the documents promise of each operation, tried index by index.

A promise is held against a result only where the documents state it: at indices whose values are indices of the layout
that takes them. Where several results keep a promise, all of them are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from plain import L, S, compatible, leaves, product, read, to_text


def composition(a: L | S, b: L | tuple, r: L | S) -> str | None:
    """compatible(B, R), and R(i) = A(B(i)) for all i, here where B(i) is an index of A."""
    if isinstance(b, tuple) and isinstance(a, L):
        return _by_mode(composition, L(a.shape[: len(b)], a.stride[: len(b)]), b, _first(r, len(b)))
    if isinstance(b, (tuple, int)):
        return _by_mode(composition, a, b, r)
    shape = r.shape if isinstance(r, L) else r.outer.shape
    if not compatible(b.shape, shape):
        return f"shape {to_text(shape)} is not compatible with {to_text(b.shape)}"
    for i in range(b.size()):
        if 0 <= b(i) < a.size() and r(i) != a(b(i)):
            return f"R({i}) = {r(i)}, A(B({i})) = A({b(i)}) = {a(b(i))}"
    return None


def _first(r: Any, count: int) -> Any:
    """The modes that a tiler has: the documents do not say what becomes of the others."""
    return L(r.shape[:count], r.stride[:count]) if isinstance(r, L) and isinstance(r.shape, tuple) else r


def _by_mode(law: Callable[..., str | None], a: Any, b: Any, r: Any) -> str | None:
    if isinstance(b, int):
        return law(a, L(b), r)
    if not (isinstance(a, L) and isinstance(r, L)):
        return None
    modes, found = a.modes(), r.modes()
    if len(modes) == 1 and not law(modes[0], b[0], r):
        return None  # a tuple of one mode, or the mode
    if len(found) != len(modes):
        return f"{len(found)} modes instead of {len(modes)}"
    for i, (mode, tile, result) in enumerate(zip(modes, b, found, strict=False)):
        if tile is not None and (wrong := law(mode, tile, result)):
            return f"mode {i}: {wrong}"
    for i in range(len(b), len(modes)):
        if modes[i].values() != found[i].values():
            return f"mode {i} is {found[i]}, and was {modes[i]}"
    return None


def same_function(a: L | S, r: L | S) -> str | None:
    if a.size() != r.size():
        return f"size {r.size()} instead of {a.size()}"
    return next((f"R({i}) = {r(i)}, A({i}) = {a(i)}" for i in range(a.size()) if a(i) != r(i)), None)


def coalesce(a: L | S, r: L | S, target_profile: Any = None) -> str | None:
    """size(R) = size(A), depth(R) <= 1, R(i) = A(i)."""
    shape = r.shape if isinstance(r, L) else r.outer.shape
    if target_profile is None and isinstance(shape, tuple) and any(isinstance(s, tuple) for s in shape):
        return f"{r} is nested"
    return same_function(a, r)


def completes(a: L, target: int, r: L) -> str | None:
    """R ordered and disjoint from A, (A, R) injective, cosize((A, R)) >= M."""
    places, copies = a.once().values(), r.values()
    if any(x >= y for x, y in pairwise(copies)):
        return f"R = {copies} is not ordered"
    if clash := sorted({*places} & {*copies[1:]}):
        return f"A and R both go to {clash[0]}"
    sums = Counter(x + y for x in places for y in copies)
    if twice := sorted(k for k, n in sums.items() if n > 1):
        return f"{twice[0]} is A(c) + R(c') for {sums[twice[0]]} pairs (c, c')"
    return f"cosize((A, R)) = {max(sums) + 1}, less than {target}" if max(sums) + 1 < target else None


def complement(a: L, target: int, r: L) -> str | None:
    """And each k < M is the sum of one location of A and one of R, as CuTe DSL and tensor-layouts promise."""
    sums = Counter(x + y for x in a.once().values() for y in r.values())
    return completes(a, target, r) or next(
        (f"{k} is A(c) + R(c') for {sums[k]} pairs (c, c')" for k in range(target) if sums[k] != 1), None
    )


def logical_divide(a: L, b: L | tuple, r: L) -> str | None:
    """Two modes, the first one A o B; both together all elements of A, once each where the tiles come out even."""
    if isinstance(b, (tuple, int)):
        return _by_mode(logical_divide, a, b, r)
    modes = r.modes()
    if len(modes) != 2:
        return f"{len(modes)} modes instead of 2"
    if wrong := composition(a, b, modes[0]):
        return f"the tile: {wrong}"
    return _all_of(a, r)


def _all_of(a: L, r: L) -> str | None:
    """The elements that are A's, as often; more where a last tile reaches past the end."""
    lost = Counter(a.values()) - Counter(r.values())
    if lost:
        return f"the element at {min(lost)} is in no tile"
    extra = Counter(r.values()) - Counter(a.values())
    return f"the element at {min(extra)} is in a tile too often" if r.size() == a.size() and extra else None


def gathered(inner: Callable[[L], tuple[list[L], list[L]]]) -> Callable[..., str | None]:
    """A divide by a shape whose modes are regrouped: tile modes and rest modes say which element each coordinate is."""

    def law(a: L, tile: tuple, r: L) -> str | None:
        parts = a.modes()
        try:
            tiles, rests = inner(r)
        except (ValueError, IndexError):
            return f"{r} has not the modes of a divide"
        extra = parts[len(tile) :]
        if len(tiles) != len(tile) or len(rests) != len(parts):
            return f"{r} has not the modes of a divide by {to_text(tile)}"
        for mode, (part, extent, t, rest) in enumerate(zip(parts, tile, tiles, rests, strict=False)):
            if t.size() != extent or rest.size() != -(-part.size() // extent):
                return f"mode {mode}: {rest.size()} tiles of {t.size()}"
            for j in range(rest.size()):
                for i in range(extent):
                    if i + extent * j < part.size() and t(i) + rest(j) != part(i + extent * j):
                        return f"mode {mode}: element {i} of tile {j} is at {t(i) + rest(j)}"
        wrong = [x for x, y in zip(extra, rests[len(tile) :], strict=True) if x.values() != y.values()]
        return f"mode {wrong[0]} was changed" if wrong else None

    return law


def _zipped(r: L) -> tuple[list[L], list[L]]:
    tile, rest = r.modes()
    return tile.modes(), rest.modes()


def _tiled(r: L) -> tuple[list[L], list[L]]:
    tile, *rest = r.modes()
    return tile.modes(), rest


def flat_divide(a: L, tile: tuple, r: L) -> str | None:
    modes = r.modes()
    return gathered(lambda _: (modes[: len(tile)], modes[len(tile) :]))(a, tile, r)


def logical_product(a: L, b: L, r: L) -> str | None:
    """Two modes, A and one compatible with B: copies of A that do not overlap, in the order that B numbers them."""
    if isinstance(b, tuple):
        return _by_mode(logical_product, a, b, r)
    b = L(b) if isinstance(b, int) else b
    modes = r.modes()
    if len(modes) != 2 or not compatible(a.shape, modes[0].shape) or not compatible(b.shape, modes[1].shape):
        return f"{r} is no pair of modes compatible with {a} and {b}"
    return same_function(a, modes[0]) or _copies(a, b, modes[1].values())


def _copies(a: L, b: L, at: list[int]) -> str | None:
    numbered = dict[int, int]()
    for number, place in zip(b.values(), at, strict=True):
        if numbered.setdefault(number, place) != place:
            return f"copy {number} is at {numbered[number]} and at {place}"
    for (n, x), (m, y) in pairwise(sorted(numbered.items())):
        if x >= y:
            return f"copy {n} is at {x}, copy {m} at {y}"
    taken = Counter(x + p for x in numbered.values() for p in {*a.values()})
    clash = sorted(location for location, count in taken.items() if count > 1)
    return f"two copies go to {clash[0]}" if clash else None


def blocked(block_first: bool) -> Callable[..., str | None]:
    """A product whose mode i pairs mode i of A with mode i of B."""

    def law(a: L, b: L, r: L) -> str | None:
        rank = max(len(a.modes()), len(b.modes()))
        inner, outer = ([m.size() for m in x.modes()] + [1] * (rank - len(x.modes())) for x in (a, b))
        modes = r.modes()
        if len(modes) != rank or any(m.size() != i * o for m, i, o in zip(modes, inner, outer, strict=True)):
            return f"{r} has not the modes of a product"

        def value(at: int, copy: int) -> int:
            total = 0
            for i, o, mode in zip(inner, outer, modes, strict=True):
                x, y = at % i, copy % o
                total += mode(x + i * y if block_first else y + o * x)
                at, copy = at // i, copy // o
            return total

        at = [value(0, j) for j in range(b.size())]
        for j in range(b.size()):
            for i in range(a.size()):
                if value(i, j) != at[j] + a(i):
                    return f"element {i} of copy {j} is at {value(i, j)}, not at {at[j]} + {a(i)}"
        return _copies(a, b, at)

    return law


def right_inverse(a: L | S, r: L | S) -> str | None:
    """A(R(i)) = i."""
    return next((f"A(R({i})) = A({r(i)}) = {a(r(i))}" for i in range(r.size()) if a(r(i)) != i), None)


def left_inverse(a: L | S, r: L | S) -> str | None:
    """A(R(A(i))) = A(i); and R(A(i)) = i where A is injective."""
    values = a.values()
    for i, location in enumerate(values):
        if len(set(values)) == len(values) and r(location) != i:
            return f"R(A({i})) = R({location}) = {r(location)}"
        if a(r(location)) != location:
            return f"A(R(A({i}))) = {a(r(location))}, A({i}) = {location}"
    return None


def common(a: L | S, b: L | S) -> int:
    """How many locations 0, 1, 2, ... have one index in both."""
    where = {a(i): i for i in reversed(range(a.size()))}
    count = 0
    both = {(a(i), i) for i in range(a.size())} & {(b(i), i) for i in range(b.size())}
    found = {location for location, _ in both}
    while count in found and where:
        count += 1
    return count


def max_common_vector(a: L | S, b: L | S, r: int) -> str | None:
    """The locations below R have one index in both."""
    most = common(a, b)
    return f"{r} elements, of which only {most} have one index in both" if r > most else None


def max_common_layout(a: L, b: L, r: L) -> str | None:
    """A(R(i)) = i = B(R(i)), R(i) being an index of both."""
    for i in range(r.size()):
        at = r(i)
        if not 0 <= at < min(a.size(), b.size()):
            return f"R({i}) = {at} is no index of both"
        if a(at) != i or b(at) != i:
            return f"R({i}) = {at} goes to {a(at)} and {b(at)}"
    return None


def recast_layout(new: int, old: int, a: L | S, r: L | S) -> str | None:
    """The same bits of memory, each as often; and a swizzle that moves each bit of memory as before."""
    if isinstance(a, S) and isinstance(r, S):
        for bit in range(1 << 14):
            was, now = (w * x.swizzle(bit // w) + bit % w for x, w in ((a, old), (r, new)))
            if was != now:
                return f"bit {bit} of memory goes to {now}, it went to {was}"
    before, after = (Counter(v * w + bit for v in x.values() for bit in range(w)) for x, w in ((a, old), (r, new)))
    lost, extra = sorted(before - after), sorted(after - before)
    return f"bit {lost[0]} is lost" if lost else f"bit {extra[0]} is no bit of it" if extra else None


def tile_to_shape(atom: L, shape: tuple, order: Any, r: L) -> str | None:
    """The modes of the shape asked for; the atom at its beginning; copies that do not overlap."""
    modes = r.modes()
    if [m.size() for m in modes] != [product(s) for s in shape]:
        return f"{r} has not the shape {to_text(shape)}"
    inner = [m.size() for m in atom.modes()] + [1] * (len(shape) - len(atom.modes()))
    for i in range(atom.size()):
        at, total = i, 0
        for extent, mode in zip(inner, modes, strict=True):
            total, at = total + mode(at % extent), at // extent
        if total != atom(i):
            return f"element {i} of the atom is at {total}"
    most = max(Counter(atom.values()).values())
    crowd = [v for v, n in Counter(r.values()).items() if n > most]
    return f"copies overlap at {min(crowd)}" if crowd else None


def nullspace(a: L, r: L) -> str | None:
    """Every index of A whose location is 0 by a stride of 0, once each."""
    wanted = sorted(i for i in range(a.size()) if all(d == 0 or digit == 0 for digit, d in _digits(i, a)))
    return None if sorted(r.values()) == wanted else f"{sorted(r.values())} instead of {wanted}"


def _digits(index: int, a: L) -> Iterator[tuple[int, int]]:
    for s, d in a.pairs:
        yield index % s, d
        index //= s


def make_ordered_layout(shape: tuple, order: tuple, r: L) -> str | None:
    """The shape, each location once, and strides that ascend with the order."""
    if r.shape != shape:
        return f"shape {to_text(r.shape)}"
    if sorted(r.values()) != list(range(r.size())):
        return "its locations are not 0, 1, 2, ... once each"
    by_order = [d for o, (s, d) in sorted(zip(leaves(order), r.pairs, strict=True)) if s != 1]
    return None if by_order == sorted(by_order) else f"the strides {by_order} do not ascend with the order"


def filter(a: L, r: L) -> str | None:
    """The same locations; no stride of 0 left beside others."""
    if {*a.values()} != {*r.values()}:
        return "it has other locations"
    return "a stride of 0 is left" if r.size() != 1 and any(d == 0 for _, d in r.pairs) else None


def filter_zeros(a: L, r: L) -> str | None:
    return None if {*a.values()} == {*r.values()} and len(a.pairs) == len(r.pairs) else "it has other locations"


LAWS: dict[str, Callable[..., str | None]] = {
    "coalesce": coalesce,
    "flatten": coalesce,
    "filter": filter,
    "filter_zeros": filter_zeros,
    "composition": composition,
    "complement": complement,
    "logical_divide": logical_divide,
    "zipped_divide": gathered(_zipped),
    "tiled_divide": gathered(_tiled),
    "flat_divide": flat_divide,
    "logical_product": logical_product,
    "zipped_product": logical_product,
    "blocked_product": blocked(True),
    "raked_product": blocked(False),
    "right_inverse": right_inverse,
    "left_inverse": left_inverse,
    "max_common_layout": max_common_layout,
    "max_common_vector": max_common_vector,
    "recast_layout": recast_layout,
    "tile_to_shape": tile_to_shape,
    "nullspace": nullspace,
    "make_ordered_layout": make_ordered_layout,
}


def broken(library: str, operation: str, args: tuple[Any, ...], text: str) -> str | None:
    """What is wrong with a printed result by the operation's law; None where it keeps the law."""
    result = read(text)
    if result is None or (isinstance(result, L) and any(s < 1 for s in leaves(result.shape))):
        return f"{text} is no layout"
    if isinstance(result, int) != (operation == "max_common_vector"):
        return f"{text} is no result of {operation}"
    if (library, operation) == ("pycute", "complement"):
        return completes(*args, result)
    return LAWS[operation](*args, result)
