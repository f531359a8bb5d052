"""Arguments for the search: those of the comparisons, and by-mode tilers, swizzled layouts and profiles beside them."""

from __future__ import annotations

from typing import Any

import operands
import strategies as some
from hypothesis import strategies as st
from plain import L, S

from layoutlab import ComposedLayout, Layout

SMALL = st.sampled_from([1, 2, 2, 3, 4, 6, 8])
STEPS = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12])


def plain(x: Any) -> Any:
    """The argument without layoutlab in it."""
    if isinstance(x, Layout):
        return L(x.shape, x.stride)
    if isinstance(x, ComposedLayout):
        s: Any = x.inner
        return S(s.bits, s.base, s.shift, x.offset, plain(x.outer))
    return tuple(map(plain, x)) if isinstance(x, tuple) else x


@st.composite
def tuned(draw: Any, rank: int = 3) -> L:
    """Few small modes with steps that often divide each other, and often do not."""
    n = draw(st.integers(1, rank))
    shape, stride = (tuple(draw(st.lists(x, min_size=n, max_size=n))) for x in (SMALL, STEPS))
    return L(shape[0], stride[0]) if n == 1 and draw(st.booleans()) else L(shape, stride)


@st.composite
def swizzled(draw: Any, outer: Any) -> S:
    bits = draw(st.integers(0, 2))
    shift = draw(st.integers(max(1, bits), 3)) * draw(st.sampled_from([1, 1, -1]))
    return S(bits, draw(st.integers(0, 2)), shift, draw(st.sampled_from([0, 0, 0, 1, 2, 4, 8])), draw(outer))


@st.composite
def calls(draw: Any, operation: str) -> tuple[Any, ...]:
    """Arguments of one operation."""
    extra = wide(operation)
    if operation == "nullspace" or (extra is not None and draw(st.booleans())):
        return draw(extra)
    return plain(draw(operands.calls(operation))[1])


def wide(operation: str) -> Any:
    """A strategy of the arguments that `operands` does not make; None where it makes all."""
    whole = some.bijective(64).map(plain)
    pair = st.tuples(tuned(), tuned(2))
    if operation in ("composition", "logical_divide"):
        by_mode = st.tuples(tuned().filter(lambda a: isinstance(a.shape, tuple)), tilers())
        by_mode = by_mode.filter(lambda p: len(p[1]) <= len(p[0].shape))
        behind = st.tuples(swizzled(whole), tuned(2))
        return st.one_of(pair, by_mode, behind, carrying()) if operation == "composition" else st.one_of(pair, by_mode)
    if operation == "logical_product":
        return st.one_of(pair, st.tuples(tuned(), SMALL))
    if operation in ("blocked_product", "raked_product", "max_common_layout"):
        return pair
    if operation == "max_common_vector":
        either = st.one_of(tuned(), whole, swizzled(whole))
        return st.tuples(either, either)
    if operation == "complement":
        return st.tuples(tuned(), st.integers(1, 64))
    if operation in ("coalesce", "right_inverse", "left_inverse", "nullspace", "filter"):
        return st.tuples(st.one_of(tuned(), swizzled(whole)) if operation.endswith("inverse") else tuned())
    if operation == "recast_layout":
        widths = st.sampled_from([(16, 8), (8, 16), (32, 8), (8, 32), (4, 8), (8, 4), (6, 8), (8, 6)])
        return st.tuples(widths, st.one_of(tuned(), swizzled(whole))).map(lambda x: (*x[0], x[1]))
    if operation == "make_ordered_layout":
        rank = st.integers(1, 3)
        return rank.flatmap(lambda n: st.tuples(*[st.lists(SMALL, min_size=n, max_size=n).map(tuple)] * 2))
    if operation == "tile_to_shape":
        return ragged()
    return None


@st.composite
def carrying(draw: Any) -> tuple[L, L]:
    """Two modes, and two leaves each of which divides the first of them; together they may leave it."""
    extent = draw(st.sampled_from([4, 6, 8, 12]))
    steps = draw(st.lists(st.sampled_from([d for d in range(1, extent) if extent % d == 0]), min_size=2, max_size=2))
    extents = tuple(
        draw(st.sampled_from([e for e in range(1, 1 + extent // d) if extent // d % e == 0])) for d in steps
    )
    return L((extent, draw(SMALL)), (1, draw(STEPS))), L(extents, tuple(steps))


@st.composite
def tilers(draw: Any) -> tuple[Any, ...]:
    one = st.one_of(SMALL, st.tuples(SMALL, STEPS).map(lambda p: L(*p)))
    return tuple(draw(st.lists(one, min_size=1, max_size=3)))


@st.composite
def ragged(draw: Any) -> tuple[Any, ...]:
    """An atom of any strides and a shape that it may not divide."""
    atom = draw(tuned().filter(lambda a: isinstance(a.shape, tuple)))
    rank = len(atom.shape)
    shape = tuple(draw(st.integers(1, 12)) for _ in range(rank))
    return atom, shape, tuple(draw(st.permutations(range(rank))))
