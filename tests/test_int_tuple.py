"""Nested integers against a second way of counting: coordinates in a list, the first mode fastest."""

from __future__ import annotations

from itertools import product as every
from typing import Any

import numpy as np
import pytest
import strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab import LayoutError, Sym
from layoutlab import int_tuple as t
from layoutlab.symbol import known_equal

SHAPES = st.recursive(st.integers(1, 5), lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)
EXAMPLES = settings(max_examples=150, deadline=None)


def coordinates(shape: Any) -> list[Any]:
    """All coordinates in colexicographic order, by nested loops: the last mode outermost."""
    if not isinstance(shape, tuple):
        return list(range(shape))
    return [tuple(reversed(c)) for c in every(*(coordinates(s) for s in reversed(shape)))]


@given(SHAPES)
@EXAMPLES
def test_indices_and_coordinates_count_colexicographically(shape: Any) -> None:
    listed = coordinates(shape)
    assert t.product(shape) == len(listed)
    for index, coord in enumerate(listed):
        assert t.idx2crd(index, shape) == coord and t.crd2idx(coord, shape) == index
        assert t.crd2crd(index, shape) == coord == t.crd2crd(coord, shape)


@given(SHAPES)
@EXAMPLES
def test_arrays_count_as_integers_do(shape: Any) -> None:
    n = t.product(shape)
    assert t.crd2idx(t.idx2crd(np.arange(n), shape), shape).tolist() == list(range(n))


@given(SHAPES, SHAPES)
@EXAMPLES
def test_compatible_is_every_coordinate_of_one_being_one_of_the_other(a: Any, b: Any) -> None:
    def fits(a: Any, b: Any) -> bool:
        try:
            return [t.crd2idx(c, b) for c in coordinates(a)] == list(range(t.product(b)))
        except LayoutError:
            return False

    if t.compatible(a, b):
        assert fits(a, b)
    assert t.compatible(a, a) and t.congruent(a, a) and t.weakly_congruent(a, a)
    if t.congruent(a, b):
        assert t.weakly_congruent(a, b) and t.depth(a) == t.depth(b)
        assert len(t.flatten(a)) == len(t.flatten(b))


@given(SHAPES)
@EXAMPLES
def test_flatten_unflatten_and_text(shape: Any) -> None:
    assert t.unflatten(t.flatten(shape), shape) == shape
    assert t.map_leaves(lambda x: x, shape) == shape
    assert t.to_text(shape) == str(shape).replace(" ", "").replace(",)", ")")
    assert len(t.modes(shape)) == t.rank(shape)


@given(SHAPES)
@EXAMPLES
def test_compact_strides_fill_without_gaps(shape: Any) -> None:
    n = t.product(shape)
    for strides in (t.compact_col_major(shape), t.compact_row_major(shape)):
        assert sorted(t.crd2idx(c, shape, strides) for c in coordinates(shape)) == list(range(n))
    assert [t.crd2idx(c, shape, t.compact_col_major(shape)) for c in coordinates(shape)] == list(range(n))


@given(st.integers(1, 400), st.integers(1, 60))
@EXAMPLES
def test_ceil_div(a: int, b: int) -> None:
    q = t.ceil_div(a, b)
    assert (q - 1) * b < a <= q * b
    assert t.ceil_div((a, b), (b, 1)) == (q, b)


@given(SHAPES, st.integers(1, 40))
@EXAMPLES
def test_shape_div_divides_the_elements_away(shape: Any, by: int) -> None:
    try:
        left = t.shape_div(shape, by)
    except LayoutError as refusal:
        assert "divides the other" in str(refusal)
        return
    n = t.product(shape)
    assert t.congruent(left, shape) and t.product(left) == (n // by if n % by == 0 else 1)


@given(some.layouts())
@EXAMPLES
def test_bases_give_coordinates(a: Any) -> None:
    bases = t.map_leaves(lambda s: t.Basis(1, (1, 0)), a.shape)
    for c in coordinates(a.shape)[:20]:
        flat = t.flatten(c)
        assert t.crd2idx(c, a.shape, bases) == (0, (sum(flat),)) or sum(flat) == 0


def test_sums_of_coordinates() -> None:
    assert t.add((1, (2, 3)), (0, (0, 4), 5)) == (1, (2, 7), 5)
    assert t.add(0, (1, 2)) == (1, 2) == t.add((1, 2), 0)
    with pytest.raises(LayoutError, match="one is a number, the other a coordinate"):
        t.add(3, (1, 2))


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (lambda: t.check_shape((4, 0)), "shape (4,0) has the extent 0: extents are positive integers"),
        (lambda: t.check_shape((4, -2)), "shape (4,-2) has the extent -2: extents are positive integers"),
        (lambda: t.check_shape((4, True)), "has the extent True"),
        (lambda: t.check_shape((4, 2.0)), "has the extent 2.0"),
        (lambda: t.crd2crd((1, 2, 3), (4, 4)), "coordinate (1,2,3) has 3 entries, shape (4,4) has 2"),
        (lambda: t.crd2crd((1, (2, 3)), (4, 4)), "coordinate (2,3) has 2 entries where the shape has the extent 4"),
        (lambda: t.check_coord((1, 4), (4, 4)), "coordinate 4 lies outside of the extent 4 of shape (4,4)"),
        (lambda: t.check_coord((np.array([0, -1]), 0), (4, 4)), "coordinate -1 lies outside of the extent 4"),
        (lambda: t.ceil_div((4,), (2, 2)), "(2,2) has more modes than (4)"),
    ],
)
def test_refusals(refused: Any, text: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        refused()
    assert text in str(refusal.value)


# -- symbols ----------------------------------------------------------------------------------------------------------

POLYNOMIALS = st.tuples(*[st.integers(-4, 4)] * 4).map(
    lambda c: c[0] + c[1] * Sym("N") + c[2] * Sym("M") + c[3] * Sym("N") * Sym("M")
)


def at(p: Any, n: int, m: int) -> int:
    value = p.at(N=n, M=m) if isinstance(p, Sym) else p
    assert isinstance(value, int)
    return value


@given(POLYNOMIALS, POLYNOMIALS, st.integers(-5, 5), st.integers(-5, 5))
@EXAMPLES
def test_symbols_compute_as_their_values_do(p: Any, q: Any, n: int, m: int) -> None:
    assert at(p + q, n, m) == at(p, n, m) + at(q, n, m)
    assert at(p - q, n, m) == at(p, n, m) - at(q, n, m)
    assert at(p * q, n, m) == at(p, n, m) * at(q, n, m)
    assert (p == q) == (p - q == 0)


@given(POLYNOMIALS, st.integers(1, 6))
@EXAMPLES
def test_symbols_divide_exactly_or_not_at_all(p: Any, by: int) -> None:
    if isinstance(p, Sym):
        assert (by * p) // by == p and (by * p) % by == 0
        try:
            quotient = p // by
        except LayoutError as refusal:
            assert "is not known" in str(refusal)
        else:
            assert quotient * by == p


def test_two_unknowns_without_a_name_are_not_the_same() -> None:
    a, b = Sym(), Sym()
    assert str(a - b) == "?" == str(a * b) and not known_equal(a, b)
    with pytest.raises(LayoutError, match="the quotient of"):
        a // b
    assert known_equal(Sym("N"), Sym("N")) and str(4 * a) == "4*?" and (4 * a) // 4 == a
