"""Layouts and their laws in plain Python: what CuTe's documents promise of each operation, tried index by index.

Nothing of layoutlab is imported, so that a law broken here is broken whatever layoutlab thinks. A promise is held
against a result only where the documents state it: at indices whose values are indices of the layout that takes them.

`broken` gives what is wrong with a result; `rule` the documented rule that the operands already break, if any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Nested = Any
"""An integer, or a tuple of such."""


def leaves(x: Nested) -> list[int]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]


def product(x: Nested) -> int:
    total = 1
    for leaf in leaves(x):
        total *= leaf
    return total


@dataclass(frozen=True)
class L:
    """Shape and stride. At an index: colexicographic digits times strides, the last digit without a bound.

    >>> [L((2, 3), (3, 1))(i) for i in range(7)]
    [0, 3, 1, 4, 2, 5, 3]
    """

    shape: Nested
    stride: Nested = None

    def __post_init__(self) -> None:
        if self.stride is None:
            object.__setattr__(self, "stride", _compact(self.shape, 1)[0])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def __call__(self, index: int) -> int:
        total, pairs = 0, self.pairs
        for extent, stride in pairs[:-1]:
            total += index % extent * stride
            index //= extent
        return total + index * (pairs[-1][1] if pairs else 0)

    def size(self) -> int:
        return product(self.shape)

    def values(self) -> list[int]:
        return [self(i) for i in range(self.size())]

    def modes(self) -> list[L]:
        if not isinstance(self.shape, tuple):
            return [self]
        return [L(s, d) for s, d in zip(self.shape, self.stride, strict=True)]

    def once(self) -> L:
        """Without what repeats (stride 0) and what does not count (extent 1)."""
        kept = [(s, d) for s, d in self.pairs if s != 1 and d != 0] or [(1, 0)]
        return L(tuple(s for s, _ in kept), tuple(d for _, d in kept))

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"


@dataclass(frozen=True)
class S:
    """A swizzle behind an offset and a layout."""

    bits: int
    base: int
    shift: int
    offset: int
    outer: L

    def __call__(self, index: int) -> int:
        return self.swizzle(self.offset + self.outer(index))

    def swizzle(self, x: int) -> int:
        mask = ((1 << self.bits) - 1) << (self.base + max(0, self.shift))
        return x ^ ((x & mask) >> self.shift if self.shift >= 0 else (x & mask) << -self.shift)

    def size(self) -> int:
        return self.outer.size()

    def values(self) -> list[int]:
        return [self(i) for i in range(self.size())]

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}> o {self.offset} o {self.outer}"


@dataclass(frozen=True)
class Chain:
    """Functions one after the other, the last one first: swizzles, offsets, and the layout that gives the indices."""

    parts: tuple[Any, ...]
    outer: L

    def __call__(self, index: int) -> int:
        at = self.outer(index)
        for part in reversed(self.parts):
            at = part + at if isinstance(part, int) else part.swizzle(at) if isinstance(part, S) else part(at)
        return at

    def size(self) -> int:
        return self.outer.size()

    def values(self) -> list[int]:
        return [self(i) for i in range(self.size())]


def _text(x: Nested) -> str:
    return f"({','.join(map(_text, x))})" if isinstance(x, tuple) else str(x)


def _compact(shape: Nested, step: int) -> tuple[Nested, int]:
    if not isinstance(shape, tuple):
        return step, step * shape
    strides = []
    for part in shape:
        stride, step = _compact(part, step)
        strides.append(stride)
    return tuple(strides), step


def read(text: str) -> Any:
    """A printed layout, swizzled layout, tuple or number; None where it is none of these.

    >>> str(read("(2, 3) : (6, 3)")), str(read("S<1,0,2> o 0 o (4):(1)")), read("32")
    ('(2,3):(6,3)', 'S<1,0,2> o 0 o (4):(1)', 32)
    """
    text = text.replace(" ", "").replace("Sw<", "S<")
    try:
        if "Swizzle" in text:
            *parts, last = _chain(text)
            if isinstance(last, L):
                return Chain(tuple(parts), last)
            return Chain((*parts, last), L(parts[0].size(), 1)) if isinstance(parts[0], L) else None
        if text.startswith("S<"):
            head, _, rest = text[2:].replace(">", "").partition("o")  # the DSL forgets > after a negative shift
            offset, _, outer = rest.rpartition("o")
            found = read(outer)
            return S(*map(int, head.split(",")), int(offset), found) if isinstance(found, L) else None
        shape, colon, stride = text.partition(":")
        return L(_nested(shape), _nested(stride)) if colon else _nested(shape)
    except (ValueError, TypeError):
        return None


def _chain(text: str) -> list[Any]:
    """The functions of `(Swizzle(2,0,2))o{5}o((4,8):(8,1))`, as tensor-layouts prints them."""
    found, depth, start = list[Any](), 0, 0
    for i, c in enumerate(text + "o"):
        depth += (c in "({") - (c in ")}")
        if c == "o" and depth == 0:
            part, start = text[start:i], i + 1
            if part[0] == "{":
                found.append(int(part[1:-1]))
            elif part.startswith("(Swizzle"):
                found.append(S(*_nested(part[8:-1]), 0, L(1, 0)))
            elif "Swizzle" in part:
                found.extend(_chain(part[1:-1]))
            else:
                found.append(read(part[1:-1]))
    return found


def _nested(text: str) -> Nested:
    stack: list[list[Any]] = [[]]
    number = ""
    for c in text + ",":
        if c == "(":
            stack.append([])
        elif c in ",)":
            if number:
                stack[-1].append(int(number))
                number = ""
            if c == ")":
                done = tuple(stack.pop())
                stack[-1].append(done)
        else:
            number += c
    (found,) = stack[0]
    return found


def compatible(a: Nested, b: Nested) -> bool:
    """Whether each coordinate of shape a is one of shape b: b refines a."""
    if not isinstance(a, tuple):
        return product(b) == a
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))


# -- rules ------------------------------------------------------------------------------------------------------------

ALGEBRA, HEADER = "CUTLASS media/docs/cpp/cute/02_layout_algebra.md", "CUTLASS include/cute/layout.hpp"
DIVIDES = f"the strides and extents of B divide those of A and are divided by them ({ALGEBRA}, Computing Composition)"
INJECTIVE_B = f"B is injective ({ALGEBRA}, Computing Composition)"
INJECTIVE = f"the layout to complement is injective ({HEADER}, 'Non-injective Layout detected in complement')"
POSITIVE = f"strides are positive ({ALGEBRA}, Complement; coordinates count from 0)"
INVERTIBLE = "a left inverse is one of an injective layout (pycute's test_left_inverse.py)"
SIZES = f"both layouts have as many elements ({HEADER} asks of a common layout what also holds past the end of one)"
STRIDE_ONE = f"one mode has stride 1, and the strides of the others are multiples ({HEADER}, Upcast, Downcast)"
POWERS = f"the widths are a power of two apart ({HEADER}: a swizzle moves bits of an address)"
TILES = f"the atom divides the shape ({HEADER}, 'block shape does not divide the target shape')"


def rule(library: str, operation: str, args: tuple[Any, ...]) -> str | None:
    """The documented rule that the operands break; None where the documents ask for no more than they are."""
    if operation == "composition":
        return _composes(*args)
    if operation == "complement":
        return _completes(args[0])
    if operation.endswith("_divide"):
        return _divided(*args)
    if operation.endswith("_product"):
        return _multiplied(*args)
    if operation == "left_inverse" and library == "pycute":
        return None if len({*args[0].values()}) == args[0].size() else INVERTIBLE
    if operation.startswith("max_common"):
        return None if args[0].size() == args[1].size() else SIZES
    if operation == "recast_layout":
        return _recasts(*args)
    if operation == "tile_to_shape":
        sizes = [m.size() for m in args[0].modes()]
        return None if all(product(t) % n == 0 for n, t in zip(sizes, args[1], strict=False)) else TILES
    return None


def _divided(a: L, tile: Any) -> str | None:
    if isinstance(tile, tuple):
        found = (_divided(m, t) for m, t in zip(a.modes(), tile, strict=False))
        return next((why for why in found if why), None)
    tile = L(tile) if isinstance(tile, int) else tile
    if not (why := _completes(tile)) and gaps(tile, 1) is None:
        return None
    return why or _composes(a, tile) or _composes(a, _complement(tile, a.size()))


def _multiplied(a: L, b: Any) -> str | None:
    b = L(b) if isinstance(b, int) else b
    if not isinstance(b, L):
        return None
    if any(d < 0 and s > 1 for s, d in b.pairs):
        return POSITIVE
    if not (why := _completes(a)) and gaps(a, 1) is None:
        return None
    return why or _composes(_complement(a, a.size() * (max(b.values()) + 1)), b)


def _recasts(new: int, old: int, a: L | S) -> str | None:
    whole = a.outer if isinstance(a, S) else a
    if isinstance(a, S) and max(new, old) % min(new, old):
        return POWERS
    if any(d < 0 and s > 1 for s, d in whole.pairs):
        return POSITIVE
    pairs = [(s, d) for s, d in whole.pairs if s > 1]
    others = [d for _, d in pairs if d != 1]
    unit = max(1, new // old)
    return None if len(others) == len(pairs) - 1 and all(d % unit == 0 for d in others) else STRIDE_ONE


def _completes(a: L) -> str | None:
    if any(d < 0 and s > 1 for s, d in a.pairs):
        return POSITIVE
    values = a.once().values()
    return INJECTIVE if len(set(values)) < len(values) else None


def _complement(a: L, target: int) -> L:
    """The complement where there is one, by the documented definition: gap and extent of each mode, by stride."""
    pairs, filled = list[tuple[int, int]](), 1
    for extent, stride in sorted(a.once().pairs, key=lambda pair: pair[1]):
        pairs.append((max(1, stride // filled), filled))
        filled = max(1, stride) * extent
    pairs.append((-(-target // filled), filled))
    return L(tuple(s for s, _ in pairs), tuple(d for _, d in pairs))


def _composes(a: L | S, b: Any) -> str | None:
    if isinstance(b, int):
        return _composes(a, L(b))
    a = a.outer if isinstance(a, S) else a
    if isinstance(b, tuple):
        found = (_composes(m, t) for m, t in zip(a.modes(), b, strict=False) if t is not None)
        return next((why for why in found if why), None)
    if any(d < 0 and s > 1 for s, d in b.pairs):
        return POSITIVE
    values = b.once().values()
    if len(set(values)) < len(values):
        return INJECTIVE_B
    extents = [s for s, _ in merged(a)[:-1]]
    return None if all(_divides(extents, s, d) for s, d in b.once().pairs if s > 1) else DIVIDES


def merged(a: L) -> list[tuple[int, int]]:
    """The modes of a layout, neighbours that go on where the one before ends being one."""
    found = list[tuple[int, int]]()
    for s, d in a.pairs:
        if s == 1:
            continue
        if found and found[-1][0] * found[-1][1] == d:
            found[-1] = (found[-1][0] * s, found[-1][1])
        else:
            found.append((s, d))
    return found or [(1, 0)]


def _divides(extents: list[int], extent: int, stride: int) -> bool:
    """Whether extents can be divided by a stride, and what is left cut to an extent."""
    for s in extents:
        if s % stride and stride % s:
            return False
        left, stride = max(1, s // stride), -(-stride // s)
        if left % extent and extent % left:
            return False
        extent = -(-extent // left)
    return True


# -- laws -------------------------------------------------------------------------------------------------------------


def composition(a: L | S, b: L | tuple, r: L | S) -> str | None:
    """compatible(B, R), and R(i) = A(B(i)) for all i, here where B(i) is an index of A."""
    if isinstance(b, tuple) and isinstance(a, L):
        return _by_mode(composition, L(a.shape[: len(b)], a.stride[: len(b)]), b, _first(r, len(b)))
    if isinstance(b, (tuple, int)):
        return _by_mode(composition, a, b, r)
    shape = r.shape if isinstance(r, L) else r.outer.shape
    if not compatible(b.shape, shape):
        return f"shape {_text(shape)} is not compatible with {_text(b.shape)}"
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
            return f"{r} has not the modes of a divide by {_text(tile)}"
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


def gaps(a: L, count: int) -> list[int] | None:
    """Where copies of a layout go so that 0, 1, 2, ... fill up: each at the first gap; None when two would overlap."""
    places, filled, found, gap = a.once().values(), set[int](), list[int](), 0
    if min(places) < 0 or len(set(places)) < len(places):
        return None
    while len(found) < count or gap <= 2 * max(places):
        copy = {gap + p for p in places}
        if copy & filled:
            return None
        filled |= copy
        found.append(gap)
        while gap in filled:
            gap += 1
    return found


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
    taken = Counter(x + p for x in numbered.values() for p in a.once().values())
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
        return f"{r} has not the shape {_text(shape)}"
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
        return f"shape {_text(r.shape)}"
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


def index(coord: Nested, into: L) -> int:
    """The location at a coordinate that is nested as far as it likes."""
    if not isinstance(coord, tuple):
        return into(coord)
    return sum(index(c, mode) for c, mode in zip(coord, into.modes(), strict=True))


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
