"""Composition: the layout R with R(i) = A(B(i)), or the proof that there is none.

>>> composition(Layout((6, 2), (8, 3)), Layout((4, 3), (3, 1)))
((2,2),3):((24,3),8)

R's shape refines B's: each extent of B becomes an extent or a tuple of them. Such an R is settled by A and B, so it is
computed, not searched. A layout is a sum over its leaves, so leaf s:d of B gives the leaf function c -> A(c d). A leaf
function that is a layout is one in one way only: its first extent is the number of steps for which it is linear, which
has to divide s, and the rest is the same question for the steps after. What is left to ask is whether A adds up over
the leaves. Writing A with as few runs as there are, of weights 1 = N0 | N1 | ... and strides r0, r1, ...

    A(x) = r0 x + sum over k > 0 of j_k floor(x / N_k),        j_k = r_k - r_(k-1) N_k / N_(k-1)   (never 0)

so A(sum of c_i d_i) is the sum of c_i A(d_i) plus j_k times the carries into digit k, floor(sum of c_i (d_i mod N_k) /
N_k). No carry at the far corner is none anywhere, and a carry into one digit alone refutes. Where carries into several
digits might cancel, the indices are enumerated, up to a bound that a refusal names.

A goes on for ever in its last mode (CuTe's natural extension, `Layout.extended`), so that B may leave A's domain:
R(i) = A.extended(B(i)). Where CuTe DSL returns something else, R does not exist or that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product as every
from typing import Any, TypeAlias, overload

from layoutlab.algebra.structure import AnyLayout, layout_of, of_runs
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, Int, IntTuple, add, compact_col_major, flatten, map_leaves, product, to_text
from layoutlab.layout import Layout, follows
from layoutlab.swizzle import ComposedLayout, Swizzle

Tiler: TypeAlias = "Layout | IntTuple | tuple[Tiler, ...] | None"
Path = tuple[int, ...]
Vector = dict[Path, Int]
"""A location or a coordinate: the amount in each coordinate, () for a plain number; no amount is zero."""
Leaf = tuple[Any, Any]
"""(extent, step), the step an integer or a symbol."""

ENUMERATED = 1 << 16
"""How many indices are tried where carries might cancel."""


@overload
def composition(lhs: Layout, rhs: Tiler) -> Layout: ...
@overload
def composition(lhs: Swizzle | ComposedLayout, rhs: Tiler) -> ComposedLayout: ...
@overload
def composition(lhs: AnyLayout | Swizzle, rhs: ComposedLayout) -> ComposedLayout: ...
def composition(lhs: AnyLayout | Swizzle, rhs: Tiler | ComposedLayout) -> AnyLayout:
    """`lhs` after `rhs`: the layout R with the shape of `rhs`, refined, and R(i) = lhs(rhs(i)).

    >>> composition(Layout((8, 6), (6, 1)), Layout((8, 3, 2), (1, 8, 24)))
    (8,3,2):(6,1,3)
    >>> composition(Layout((4, (2, 4))), (2, (2, None)))  # a tuple composes mode by mode; None keeps a mode
    (2,(2,4)):(1,(4,8))
    >>> composition(Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: (4,6,8):(2,3,5) o 6:3 is no layout: its values 0,6,7,8,9,15 leave the first stride \
after 2 steps, and 2 does not divide 3 (in the part 3:6)

    `rhs` may give coordinates (`1@0`), which pick modes of `lhs`; `lhs` may give coordinates or be composed already. A
    swizzled `rhs` is taken where `lhs` moves the swizzle's bits as bits.
    """
    if isinstance(rhs, ComposedLayout):
        return _after_composed(lhs, rhs)
    if isinstance(lhs, Swizzle):
        return ComposedLayout(lhs, 0, rhs if isinstance(rhs, Layout) else Layout(rhs))  # type: ignore[arg-type]
    if isinstance(lhs, ComposedLayout):
        return lhs.with_outer(composition(lhs.outer, rhs))
    return by_mode(composition_of_layouts, lhs, rhs)


def by_mode(operation: Any, layout: Layout, tiler: Tiler) -> Layout:
    """An operation with a layout, or with each of a tuple of them on its own mode; modes past the tuple are kept."""
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        if len(tiler) > layout.rank():
            raise LayoutError(f"tiler {to_text(tiler)} has {len(tiler)} modes, layout {layout} has {layout.rank()}")
        parts = list(layout)
        tiled = [by_mode(operation, part, t) for part, t in zip(parts, tiler, strict=False)]
        return layout_of([*tiled, *parts[len(tiler) :]])
    result: Layout = operation(layout, tiler if isinstance(tiler, Layout) else Layout(tiler))
    return result


def composition_of_layouts(a: Layout, b: Layout) -> Layout:
    """The composition of two layouts, none of them composed itself."""
    try:
        systems = {path: Digits(_at(a, path)) for path in _paths(b)}
        leaves = [(path, systems[path].split(s, step)) for s, d in b.leaves() for path, step in [_path_and_step(d)]]
        for path, system in systems.items():
            system.check_sum([leaf for p, parts in leaves if p == path for leaf in parts])
    except NoLayout as why:
        raise LayoutError(f"{a} o {b} is no layout: {_first_values(a, b)}{why}") from None
    except NotKnown as why:
        raise LayoutError(f"whether {a} o {b} is a layout is not known: {why}") from None
    parts = iter(of_runs([(n, systems[path].stride(n, step)) for n, step in found]) for path, found in leaves)
    modes = map_leaves(lambda _: next(parts), b.shape)
    result = Layout(map_leaves(lambda m: m.shape, modes), map_leaves(lambda m: m.stride, modes))
    _check(a, b, result)
    return result


class NoLayout(LayoutError):
    """Why a function is no layout; the operation that meets it adds which function."""


class NotKnown(LayoutError):
    """Why it is not known whether a function is a layout."""


@dataclass(frozen=True)
class Digits:
    """A layout as a function of one number: the runs that it counts in, the last one without an end.

    >>> Digits(Layout((4, 6, 8), (2, 3, 5))).split(4, 3)
    [(2, 3), (2, 6)]
    """

    layout: Layout

    @cached_property
    def runs(self) -> list[tuple[Any, Any]]:
        """(extent, stride), merged where one goes on where the other ends; the last extent does not count."""
        *inner, last = self.layout.leaves() or [(1, 0)]
        found: list[tuple[Any, Any]] = []
        for s, d in [*(leaf for leaf in inner if leaf[0] != 1), last]:
            if found and follows(found[-1], d):
                found[-1] = (found[-1][0] * s, found[-1][1])
            else:
                found.append((s, d))
        return found

    @cached_property
    def jumps(self) -> list[tuple[Any, Vector]]:
        """(N_k, j_k) for each run after the first."""
        found, weight = list[tuple[Any, Vector]](), 1
        for (extent, below), (_, stride) in zip(self.runs, self.runs[1:], strict=False):
            weight = weight * extent
            found.append((weight, _sum([(1, _vector(stride)), (-extent, _vector(below))])))
        return found

    def __call__(self, x: Any) -> Vector:
        """The value at a number."""
        terms = list[tuple[Any, Vector]]()
        for extent, stride in self.runs[:-1]:
            terms.append((x % extent, _vector(stride)))
            x = x // extent
        return _sum([*terms, (x, _vector(self.runs[-1][1]))])

    def stride(self, extent: Any, step: Any) -> Any:
        """The stride of a leaf along which the layout is linear."""
        value = self(step)
        if len(value) > 1:
            if extent == 1:
                return 0
            raise NoLayout(f"move {len(value)} coordinates at once for each step of {step}, which no stride does")
        return next((v if path == () else Basis(v, path) for path, v in value.items()), 0)

    def split(self, extent: Any, step: Any) -> list[Leaf]:
        """A leaf taken apart where the layout stops being linear along it; refuses where the parts do not divide."""
        found, left, whole = list[Leaf](), extent, f"{extent}:{step}"
        while True:
            linear = None if left == 1 else self.linear(left, step)
            if linear is None:
                return [*found, (left, step)]
            try:
                divides = left % linear == 0
            except LayoutError:
                raise NotKnown(f"{whole} would be split after {linear} steps, which may not divide {left}") from None
            if not divides:
                part = "" if left == extent else f" (in the part {left}:{step})"
                raise NoLayout(
                    f"leave the first stride after {linear} steps, and {linear} does not divide {left}{part}"
                )
            found.append((linear, step))
            left, step = left // linear, step * linear

    def linear(self, extent: Any, step: Any) -> int | None:
        """The first c at which A(c step) is not c A(step); None when there is none below the extent.

        Carries into several digits may cancel. They repeat after the largest weight, so that is as far as to look.
        """
        moves = [(n, j, rest) for n, j in self.jumps if (rest := self._rest(step, n)) != 0]
        if not moves:
            return None
        known = isinstance(extent, int)
        first = min(-(-n // rest) for n, _, rest in moves)
        if known and first >= extent:
            return None
        if self.layout.symbolic():
            return int(first)
        period = max(n for n, _, _ in moves) + 1
        end = min(extent, period) if known else period
        for c in range(first, min(end, first + ENUMERATED)):
            if _sum((c * rest // n, j) for n, j, rest in moves):
                return c
        if end <= first + ENUMERATED:
            return None
        raise NotKnown(f"carries cancel for more than {ENUMERATED} steps of {step}, too many to try them all")

    def check_sum(self, leaves: Sequence[Leaf]) -> None:
        """Refuses leaves, each linear by itself, over which the layout does not add up."""
        moving = [leaf for leaf in leaves if leaf[0] != 1 and any(self._rest(leaf[1], n) != 0 for n, _ in self.jumps)]
        if len(moving) < 2:
            return
        carries = [(n, j, carry) for n, j in self.jumps if (carry := self._carry(leaves, n)) != 0]
        if not carries:
            return
        wrong = len(carries) == 1 or self.layout.symbolic() or bool(_sum((c, j) for _, j, c in carries))
        count = product(tuple(s for s, _ in moving))
        if not wrong and (not isinstance(count, int) or count > ENUMERATED):
            raise NotKnown(f"carries into {len(carries)} modes may cancel, and {count} indices are too many to try")
        if wrong or any(self._carried(coord, moving) for coord in every(*(range(s) for s, _ in moving))):
            text = " and ".join(f"{s}:{d}" for s, d in moving)
            raise NoLayout(f"do not add up: together {text} carry past the extent {carries[0][0]}")

    def _rest(self, step: Any, weight: Any) -> Any:
        try:
            return step % weight
        except LayoutError:
            raise NotKnown(f"a step of {step} may or may not cross the extent {weight}") from None

    def _carry(self, leaves: Sequence[Leaf], weight: Any) -> Any:
        reach = sum((s - 1) * rest for s, d in leaves if s != 1 and (rest := self._rest(d, weight)) != 0)
        return reach // weight if reach != 0 else 0

    def _carried(self, coord: Iterable[int], leaves: Sequence[Leaf]) -> Vector:
        at = list(zip(coord, leaves, strict=True))
        return _sum((sum(c * (d % n) for c, (_, d) in at) // n, j) for n, j in self.jumps)


# -- coordinates ------------------------------------------------------------------------------------------------------


def _vector(stride: Any) -> Vector:
    if isinstance(stride, Basis):
        return {stride.path: stride.value} if stride.value != 0 else {}
    return {(): stride} if stride != 0 else {}


def _sum(terms: Iterable[tuple[Any, Vector]]) -> Vector:
    total: Vector = {}
    for factor, vector in terms:
        for path, value in vector.items():
            total[path] = total.get(path, 0) + factor * value
    return {path: value for path, value in total.items() if value != 0}


def _path_and_step(stride: Any) -> tuple[Path, Any]:
    return (stride.path, stride.value) if isinstance(stride, Basis) else ((), stride)


def _paths(b: Layout) -> list[Path]:
    """The modes that a layout's values pick; a stride of 0 picks none of its own."""
    paths = sorted({path for s, d in b.leaves() for path, step in [_path_and_step(d)]})
    moving = sorted({path for s, d in b.leaves() for path, step in [_path_and_step(d)] if step != 0 and s != 1})
    for shorter in moving:
        for longer in moving:
            if shorter != longer and longer[: len(shorter)] == shorter:
                raise LayoutError(f"layout {b} gives numbers and coordinates of one mode: {to_text(b.stride)}")
    return paths


def _at(a: Layout, path: Path) -> Layout:
    try:
        return a[path]
    except LayoutError:
        text = "@".join(str(mode) for mode in reversed(path))
        raise LayoutError(f"layout {a} has no mode {text}, which the inner layout moves") from None


# -- swizzles ---------------------------------------------------------------------------------------------------------


def _after_composed(lhs: AnyLayout | Swizzle, rhs: ComposedLayout) -> ComposedLayout:
    if isinstance(lhs, ComposedLayout):
        if rhs.inner is not None:
            raise LayoutError(f"{lhs} o {rhs} would have two inner functions; a composed layout has one")
        _check_offset(lhs.outer, rhs)
        offset = add(lhs.offset, evaluate(lhs.outer, rhs.offset))
        return ComposedLayout(lhs.inner, offset, composition_of_layouts(lhs.outer, rhs.outer), lhs.element_bits)
    if rhs.inner is None:
        return ComposedLayout(lhs, rhs.offset, rhs.outer, rhs.element_bits)
    if isinstance(lhs, Swizzle):
        raise LayoutError(f"{lhs} o {rhs} would have two inner functions; a composed layout has one")
    if isinstance(rhs.inner, Layout):
        _check_inside(rhs, rhs.inner.size())
        return ComposedLayout(composition_of_layouts(lhs, rhs.inner), rhs.offset, rhs.outer, rhs.element_bits)
    _check_inside(rhs, lhs.size())
    _check_offset(lhs, rhs)
    swizzle = moved(rhs.element_swizzle(), lhs)
    return ComposedLayout(swizzle, evaluate(lhs, rhs.offset), composition_of_layouts(lhs, rhs.outer))


def _check_offset(a: Layout, b: ComposedLayout) -> None:
    """Refuses an offset that carries into b's values: a composed layout adds the two."""
    if not isinstance(b.offset, int):
        raise LayoutError(f"{b} has the offset {to_text(b.offset)}: only a number goes through {a}")
    try:
        parts = [part for s, d in b.outer.leaves() for part in Digits(a).split(s, d)]
        Digits(a).check_sum([(2, b.offset), *parts])
    except (NoLayout, NotKnown) as why:
        raise LayoutError(f"{a} o {b} is no composed layout: its values {why}") from None


def _check_inside(b: ComposedLayout, size: Any) -> None:
    reach = [(s - 1) * d for s, d in b.outer.leaves() if not isinstance(d, Basis)]
    numbers = [b.offset, size, *reach]
    if len(reach) < len(b.outer.leaves()) or not all(isinstance(x, int) for x in numbers):
        raise LayoutError(f"whether the values of {b} stay inside 0..{size} is not known")
    low, high = b.offset + sum(min(0, r) for r in reach), b.offset + sum(max(0, r) for r in reach)
    if low < 0 or high >= size:
        raise LayoutError(f"the values {low}..{high} of {b} leave 0..{size - 1}, where the outer function is known")


def moved(swizzle: Swizzle, layout: Layout) -> Swizzle:
    """The swizzle T with T(layout(x)) = layout(swizzle(x)): the swizzle's bits where the layout puts them.

    >>> moved(Swizzle(2, 0, 3), Layout((8, 8), (8, 1)))
    S<2,0,-3>

    Refuses where the layout does not move these bits as bits, or tears them apart.
    """
    if not swizzle.bits:
        return swizzle
    why = f"{swizzle} cannot go through {layout}"
    low, high = swizzle.base, swizzle.base + abs(swizzle.shift)
    to = [layout.extended(1 << bit) for bit in (low, high)]
    if not all(isinstance(x, int) and x > 0 and x & (x - 1) == 0 for x in to):
        raise LayoutError(f"{why}: it moves bits {low} and {high} to {to_text(tuple(to))}, which are no single bits")
    at = [x.bit_length() - 1 for x in to]
    shift = (at[1] - at[0]) * (1 if swizzle.shift >= 0 else -1)
    result = Swizzle(swizzle.bits, min(at), shift)
    identity = Layout(layout.size()).map("x", "i")
    as_map = layout.map("y", "x")
    try:
        through = as_map.after(identity.swizzled("x", swizzle.bits, swizzle.base, swizzle.shift))
        same = through == layout.map("y", "i").swizzled("y", result.bits, result.base, result.shift)
    except LayoutError as error:
        raise LayoutError(f"{why}: {error}") from None
    if not same:
        raise LayoutError(f"{why}: {result} behind it is another function")
    return result


# -- post-condition ---------------------------------------------------------------------------------------------------


def evaluate(a: Layout, location: Any) -> Any:
    """A layout at a number or coordinate that another function gave: past its last mode too, missing entries being 0.

    >>> evaluate(Layout((4, 2), (1, 16)), 9), evaluate(Layout((4, 2), (1, 16)), (3,))
    (33, 3)
    """
    if not isinstance(location, tuple):
        return a.extended(location)
    total: Any = 0
    for mode, part in enumerate(location):
        total = add(total, evaluate(a[mode], part)) if part != 0 else total
    return total


def _check(a: Layout, b: Layout, result: Layout) -> None:
    """The law at the far corner, at the end of each leaf and at the first indices: a fault here is layoutlab's own."""
    size = b.size()
    if a.symbolic() or b.symbolic() or not isinstance(size, int):
        return
    ends = [w * (s - 1) for w, s in zip(flatten(compact_col_major(b.shape)), flatten(b.shape), strict=True)]
    last = size - 1
    for i in {*range(min(last, 8) + 1), *ends, last, last // 2, last // 3}:
        want, got = evaluate(a, b(i)), result(i)
        if amounts(want) != amounts(got):
            raise LayoutError(f"{a} o {b} was computed as {result}, which gives {got} at {i}: a fault of layoutlab")


def amounts(value: Any, path: Path = ()) -> dict[Path, Any]:
    """What a number or coordinate adds in each coordinate, zeros left out.

    >>> amounts(5), amounts((0, (3, 0)))
    ({(): 5}, {(1, 0): 3})
    """
    if isinstance(value, tuple):
        return {k: v for i, part in enumerate(value) for k, v in amounts(part, (*path, i)).items()}
    return {path: value} if getattr(value, "ndim", 0) or value != 0 else {}


def _first_values(a: Layout, b: Layout) -> str:
    count = b.size()
    if a.symbolic() or b.symbolic() or not isinstance(count, int):
        return "its values "
    shown = ",".join(to_text(evaluate(a, b(i))) for i in range(min(count, 8)))
    return f"its values {shown}{',... ' if count > 8 else ' '}"
