"""Tables of symbols against the tables of numbers that they stand for, at every value tried."""

from __future__ import annotations

import random
from itertools import product as every
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab import LayoutError, Sym
from layoutlab.digits import ONE, Map, strided_over
from layoutlab.symbol import UnknownRemainder, assuming, at_most

EXAMPLES = settings(max_examples=150, deadline=None)
N, M = Sym("n"), Sym("m")
VALUES = [(n, m) for n in (1, 2, 3, 4) for m in (1, 2, 5)]


def number(value: int | Sym, n: int, m: int) -> int:
    found = value.at(n=n, m=m) if isinstance(value, Sym) else value
    assert isinstance(found, int)
    return found


def evaluated(table: Map, index: dict[str, int], n: int, m: int) -> dict[str, int]:
    """What a symbolic table says at numbers, straight from its definition."""
    found = {}
    for out, row in table.rows.items():
        total = 0
        for term, step in row.items():
            digits = [index[a] // number(w, n, m) % number(r, n, m) for a, w, r in term]
            total += number(step, n, m) * (1 if term == ONE else sum(digits) % 2 if len(digits) > 1 else digits[0])
        found[out] = total
    return found


EXTENTS = [2, 4, 8, 16, 3, N, 2 * N, 4 * N, M, 8 * M, 2 * N + 1]


@st.composite
def tilings(draw: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Modes of one axis, fastest first, with the extent of the whole; strides any, of symbols too."""
    steps = st.sampled_from([1, 2, 4, 8, 3]), st.sampled_from([1, 1, N, M, N * M])
    count = draw(st.integers(1, 3))
    modes = [(draw(st.sampled_from(EXTENTS)), draw(steps[0]) * draw(steps[1])) for _ in range(count)]
    return modes, prod((e for e, _ in modes), start=1)


def drawn(rng: random.Random) -> list[tuple[Any, Any]]:
    """The same without hypothesis, where it counts how many are not refused."""
    steps = [1, 1, N, M, N * M]
    return [(rng.choice(EXTENTS), rng.choice([1, 2, 4, 8, 3]) * rng.choice(steps)) for _ in range(rng.randint(1, 3))]


def test_a_composition_is_right_at_every_value_or_refused() -> None:
    rng, held, refused = random.Random(3), 0, 0
    for _ in range(300):
        modes = drawn(rng)
        whole, low = (prod((e for e, _ in part), start=1) for part in (modes, modes[: rng.randint(0, len(modes))]))
        with assuming(n=1, m=1):
            try:
                outer = strided_over({"k": modes}, "x")
                inner = strided_over({"t": [(low, 1)], "v": [(whole // low, low)]}, "k")
                both = outer.after(inner)
            except LayoutError:
                refused += 1
                continue
        held += 1
        for n, m in VALUES:
            extents = {a: number(prod(r, start=1), n, m) for a, r in both.axes.items()}
            if prod(extents.values()) > 200:
                continue
            for at in every(*map(range, extents.values())):
                index = dict(zip(extents, at, strict=True))
                rest, expected = evaluated(inner, index, n, m)["k"], 0
                for extent, stride in modes:
                    rest, digit = divmod(rest, number(extent, n, m))
                    expected += digit * number(stride, n, m)
                assert evaluated(both, index, n, m) == {"x": expected}
    assert held >= 100 and refused >= 20


@given(tilings())
@EXAMPLES
def test_what_is_said_of_a_table_of_symbols_is_so_at_every_value(tiling: tuple[list[tuple[Any, Any]], Any]) -> None:
    modes, _ = tiling
    table = strided_over({"k": modes}, "x")
    try:
        with assuming(n=1, m=1):
            low, high = table.bounds("x")
            collision, size = table.collision(), table.image_size()
    except LayoutError:
        return
    for n, m in VALUES:
        extent = number(prod(table.axes["k"], start=1), n, m)
        if extent > 400:
            continue
        reached = [evaluated(table, {"k": k}, n, m)["x"] for k in range(extent)]
        assert (min(reached), max(reached)) == (number(low, n, m), number(high, n, m))
        assert len(set(reached)) == number(size, n, m)
        if collision is None:
            assert len(set(reached)) == extent


@given(st.integers(0, 3), st.integers(3, 7), st.integers(1, 2))
@EXAMPLES
def test_a_swizzle_of_symbols_is_right_at_every_value_or_refused(base: int, shift_at: int, bits: int) -> None:
    table = strided_over({"k": [(8, 1), (8, 8 * M)], "t": [(2 * N, 64 * M)]}, "x")
    try:
        with assuming(n=1, m=1):
            swizzled = table.swizzled("x", bits, base, shift_at - base if shift_at - base >= bits else bits)
    except LayoutError:
        return
    raise AssertionError(f"{swizzled}: steps of m are no bits of a pattern, unless they are multiples of it")


def test_a_swizzle_takes_steps_that_are_multiples_of_its_pattern() -> None:
    table = strided_over({"k": [(8, 1), (8, 8), (N, 64 * M)]}, "x").plus("x", 128 * N)
    with assuming(n=1, m=1):
        swizzled = table.swizzled("x", 2, 0, 3)
        with pytest.raises(LayoutError, match=r"the remainder of 128.n by 256 is not known"):
            table.swizzled("x", 3, 2, 3)
    for n, m in VALUES:
        for k in range(64 * n):
            x = k % 64 + k // 64 * 64 * m + 128 * n
            assert evaluated(swizzled, {"k": k}, n, m) == {"x": x ^ (x >> 3 & 3)}


POLYNOMIALS = st.tuples(*[st.integers(-4, 4)] * 4).map(lambda c: c[0] + c[1] * N + c[2] * M + c[3] * N * M)


@given(POLYNOMIALS, POLYNOMIALS, st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=400, deadline=None)
def test_comparisons_hold_for_all_values_or_are_refused(p: Any, q: Any, n_least: int, m_least: int) -> None:
    for name, holds in (("<", int.__lt__), ("<=", int.__le__), (">", int.__gt__), (">=", int.__ge__)):
        with assuming(n=n_least, m=m_least):
            try:
                said = {"<": lambda: p < q, "<=": lambda: p <= q, ">": lambda: p > q, ">=": lambda: p >= q}[name]()
            except LayoutError:
                continue
        for n, m in every(range(n_least, n_least + 6), range(m_least, m_least + 6)):
            assert holds(number(p, n, m), number(q, n, m)) == said


@given(POLYNOMIALS, st.integers(-8, 8), st.integers(1, 8))
@EXAMPLES
def test_conditions_and_remainders_hold_for_all_values(p: Any, limit: int, by: int) -> None:
    with assuming(n=0, m=1) as assumed:
        fits = at_most(p, limit, "so it is")
        try:
            remainder = p % by
        except LayoutError:
            remainder = None
    for n, m in every(range(6), range(1, 6)):
        value = number(p, n, m)
        assert (value <= limit) == (all(c.holds(n=n, m=m) for c in assumed.conditions) and fits)
        assert remainder is None or value % by == remainder


@given(POLYNOMIALS, st.integers(-8, 8).filter(bool))
@EXAMPLES
def test_a_quotient_is_rounded_as_that_of_every_value_is_or_refused(p: Any, by: int) -> None:
    with assuming(n=0, m=1):
        try:
            quotient = p // by
        except UnknownRemainder as error:
            assert error.unknowns
            assert len({number(p, n, m) % by for n, m in every(range(9), range(1, 9))}) > 1
            return
    for n, m in every(range(4), range(1, 5)):
        assert number(quotient, n, m) == number(p, n, m) // by


def test_nothing_is_compared_where_nothing_is_assumed() -> None:
    with pytest.raises(LayoutError, match=r"whether 4.n is less than 8.n is not known"):
        _ = 4 * N < 8 * N
    with pytest.raises(LayoutError, match="whether n is at most 4 is not known"):
        at_most(N, 4, "")


def test_code_that_is_not_this_library_may_not_branch() -> None:
    with assuming(n=1, m=1):
        assert N * 2 == 2 * N and N != N + 1 and 2 * N + 1 != 0
        with pytest.raises(
            LayoutError, match=r"whether 64.n is 64 is not known: code for all values cannot branch on it"
        ):
            _ = 64 * N == 64
        with pytest.raises(LayoutError, match="whether n is m is not known"):
            _ = N != M
        with pytest.raises(LayoutError, match="cannot branch"):
            bool(N - 1)
        with pytest.raises(LayoutError, match="n is a symbol and a number is needed here"):
            range(N)  # type: ignore[call-overload]
    assert (64 * N == 64) is False  # where nothing is assumed, the polynomials are compared
