"""Maps of digits against enumeration: what a table says is true, and what it cannot say is refused."""

from __future__ import annotations

import random
from itertools import product as every
from math import prod
from typing import Any

import pytest
import strategies as some
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from layoutlab import Layout, LayoutError, Swizzle
from layoutlab.digits import Map, aligned, beside, strided, strided_over, unravel

EXAMPLES = settings(max_examples=100, deadline=None)
EXTENTS = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 6, 8, 12])
STEPS = st.sampled_from([0, 1, 1, 2, 3, 4, 8, 16, 24, 32, 64, -1, -4, -16])


def table(m: Map) -> dict[tuple[int, ...], dict[str, int]]:
    """The map by enumeration, in counting order: the last axis fastest."""
    return {at: m(**dict(zip(m.axes, at, strict=True))) for at in every(*map(range, m.extents.values()))}


@st.composite
def modes(draw: Any, axes: str = "ab", steps: st.SearchStrategy[int] = STEPS) -> dict[str, list[tuple[int, int]]]:
    found = {}
    for axis in axes:
        extents = draw(st.lists(EXTENTS, min_size=1, max_size=2))
        if prod(extents) > (16 if len(axes) > 1 else 64):
            extents.pop()
        found[axis] = [(s, draw(steps)) for s in extents]
    return found


@st.composite
def maps(draw: Any, axes: str = "ab", out: str = "x") -> Map:
    """A strided map, perhaps with an offset, perhaps swizzled where a table can hold that."""
    m = strided_over(draw(modes(axes)), out).plus(out, draw(st.sampled_from([0, 0, 1, 5, 64])))
    try:
        swizzle = draw(some.swizzles())
        return m.swizzled(out, swizzle.bits, swizzle.base, swizzle.shift)
    except LayoutError:
        return m


# -- making maps ------------------------------------------------------------------------------------------------------


@given(some.layouts(), st.sampled_from([1, 2, 16]))
@EXAMPLES
def test_a_layouts_map_is_the_layout(a: Layout, unit: int) -> None:
    assert a.map("byte", "i", unit=unit).extents == {"i": a.size()}
    assert [a.map("byte", "i", unit=unit)(i=i)["byte"] for i in range(a.size())] == [
        unit * a(i) for i in range(a.size())
    ]


@given(some.layouts())
@EXAMPLES
def test_a_layouts_map_by_mode_is_the_layout(a: Layout) -> None:
    names = [f"axis{i}" for i in range(a.rank())]
    m = a.map("byte", *names)
    for at in every(*(range(mode.size()) for mode in a)):
        assert m(**dict(zip(names, at, strict=True))) == {"byte": a(at if a.depth() else at[0])}


def test_arrays_are_evaluated_at_once() -> None:
    import numpy as np

    m = strided("byte", m=[(8, 8)], k=[(6, 1)]).swizzled("byte", 1, 3, 2)
    whole = m(m=np.arange(8)[:, None], k=np.arange(6)[None])["byte"]
    assert whole.shape == (8, 6)
    assert [int(v) for v in whole.ravel()] == [v["byte"] for v in table(m).values()]


def test_unravel_counts_the_first_coordinate_fastest() -> None:
    m = unravel("i", m=12, k=5)
    assert [m(i=i) for i in range(60)] == [{"m": i % 12, "k": i // 12} for i in range(60)]


@given(maps("ab", "x"), maps("bc", "y"))
@EXAMPLES
def test_beside(left: Map, right: Map) -> None:
    try:
        both = beside(left, right)
    except LayoutError as refusal:
        assert "axis b" in str(refusal)
        assert left.extents["b"] != right.extents["b"] or "no radix refines" in str(refusal)
        return
    for (a, b, c), value in table(both.over("a", "b", "c")).items():
        assert value == left(a=a, b=b) | right(b=b, c=c)


@given(maps(), st.integers(-3, 3), st.integers(-100, 100))
@EXAMPLES
def test_times_plus_only_over(m: Map, factor: int, offset: int) -> None:
    changed = m.times("x", factor, "y").plus("y", offset)
    assert {at: v["y"] for at, v in table(changed).items()} == {
        at: factor * v["x"] + offset for at, v in table(m).items()
    }
    assert {(a, b): v for (b, a), v in table(m.over("b", "a")).items()} == table(m)
    two = beside(m, changed)
    assert table(two.only("y")) == table(changed)


# -- composition ------------------------------------------------------------------------------------------------------


def test_after_is_composition_or_a_refusal() -> None:
    """Random pairs: what is answered is right, and most of what has no carry is answered."""
    rng, answered, refused, inside = random.Random(7), 0, 0, 0
    for _ in range(1500):
        radices = [rng.choice([2, 2, 3, 4, 6]) for _ in range(rng.randint(1, 4))]
        weights = [1]
        for r in radices:
            weights.append(weights[-1] * r)
        outer = strided_over({"x": [(r, rng.choice([1, 2, 3, 8, 16, 0, -4])) for r in radices]}, "y")
        picked = rng.sample(range(len(radices)), rng.randint(1, len(radices)))
        clean = rng.random() < 0.6
        mode = [(radices[i] if clean else rng.choice([2, 3, 4]), weights[i]) for i in picked]
        inner = strided_over({"i": mode}, "x").plus("x", 0 if clean else rng.choice([0, 0, 1, 3]))
        values = [v["x"] for v in table(inner).values()]
        fits = min(values) >= 0 and max(values) < weights[-1]
        try:
            composed = outer.after(inner)
        except LayoutError:
            refused += 1
            assert not clean, (outer, inner)
            continue
        answered += 1
        inside += fits
        assert fits, (outer, inner)
        assert [v["y"] for v in table(composed).values()] == [outer(x=x)["y"] for x in values]
    assert answered > 800 and refused > 50 and inside == answered


@given(maps("ab", "x"), some.swizzles())
@EXAMPLES
def test_after_a_swizzle(inner: Map, swizzle: Swizzle) -> None:
    values = [v["x"] for v in table(inner).values()]
    assume(min(values) >= 0)
    size = 1 << max(values).bit_length() + 8
    outer = strided("y", x=[(size, 1)])
    try:
        swizzled = outer.swizzled("y", swizzle.bits, swizzle.base, swizzle.shift).after(inner)
    except LayoutError:
        return
    assert [v["y"] for v in table(swizzled).values()] == [swizzle(x) for x in values]


# -- swizzles ---------------------------------------------------------------------------------------------------------

ALL = [
    (bits, base, shift)
    for bits in range(4)
    for base in range(4)
    for shift in range(-5, 6)
    if abs(shift) >= bits and (bits or not shift)
]


@pytest.mark.parametrize("swizzle", ALL, ids=lambda s: "S<{},{},{}>".format(*s))
def test_every_swizzle_of_a_range_of_bits(swizzle: tuple[int, int, int]) -> None:
    """Compact and strided maps of bits, with offsets below, in and above the pattern: all of them are held, or refused
    where the offset carries.
    """
    bits, base, shift = swizzle
    top = base + bits + abs(shift)
    reference = Swizzle(*swizzle)
    answered = 0
    for modes, offset in every(
        ([(1 << top + 1, 1)], [(1 << base + 1, 1), (3, 1 << top)], [(4, 1 << base), (4, 1 << max(top - 2, base + 2))]),
        (0, 1, 1 << base, 1 << top, (1 << top) + (1 << top + 1), 5 << base),
    ):
        m = strided("x", i=modes).plus("x", offset)
        try:
            found = m.swizzled("x", *swizzle)
        except LayoutError as refusal:
            assert offset and "carry" in str(refusal), (modes, offset, refusal)
            continue
        answered += 1
        assert [v["x"] for v in table(found).values()] == [reference(v["x"]) for v in table(m).values()]
    assert answered >= 5


@given(maps(), some.swizzles())
@EXAMPLES
def test_swizzled_is_the_swizzle_or_a_refusal(m: Map, swizzle: Swizzle) -> None:
    try:
        found = m.swizzled("x", swizzle.bits, swizzle.base, swizzle.shift)
    except LayoutError as refusal:
        assert "carry" in str(refusal) or "carries" in str(refusal)
        return
    assert [v["x"] for v in table(found).values()] == [swizzle(v["x"]) for v in table(m).values()]


def test_a_step_down_below_the_pattern_is_held_where_it_does_not_carry() -> None:
    m = strided("x", i=[(2, -1)], j=[(2, 8)]).plus("x", 5)
    held = m.swizzled("x", 1, 1, 1)
    assert [v["x"] for v in table(held).values()] == [Swizzle(1, 1, 1)(v["x"]) for v in table(m).values()]


@given(modes(steps=st.sampled_from([1, 2, 4, 8, 16, 32])), some.swizzles())
@EXAMPLES
def test_bits_in_different_places_are_always_held(found: dict[str, list[tuple[int, int]]], swizzle: Swizzle) -> None:
    m = strided_over(found, "x")
    bits = [abs(s) for t, s in m.rows["x"].items()]
    assume(len(set(bits)) == len(bits) and all(r == 2 for radices in m.axes.values() for r in radices))
    held = m.swizzled("x", swizzle.bits, swizzle.base, swizzle.shift)
    assert [v["x"] for v in table(held).values()] == [swizzle(v["x"]) for v in table(m).values()]


# -- equality and differences -----------------------------------------------------------------------------------------


@given(modes(), maps(), st.data())
@EXAMPLES
def test_first_difference_is_the_first_in_counting_order(
    found: dict[str, list[tuple[int, int]]], a: Map, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(["split", "step", "offset", "swizzle"]))
    if kind == "split":  # the same extents in other radices
        b = strided_over({axis: [(e, data.draw(STEPS))] for axis, e in a.extents.items()}, "x")
    elif kind == "offset":
        b = a.plus("x", data.draw(st.integers(-1, 1)))
    elif kind == "swizzle":
        try:
            b = a.swizzled("x", 1, 0, data.draw(st.integers(1, 4)))
        except LayoutError:
            return
    else:
        digit = data.draw(st.sampled_from(a.digits)) if a.digits else None
        b = Map(a.axes, {"x": {**a.rows["x"], frozenset((digit,)): 7}}) if digit else a
    try:
        first = a.first_difference(b)
        equal = a == b
    except LayoutError as refusal:
        assert "no radix refines" in str(refusal)
        return
    wrong = [at for at, v in table(a).items() if v != b(**dict(zip(a.axes, at, strict=True)))]
    assert equal == (not wrong)
    assert first == (dict(zip(a.axes, wrong[0], strict=True)) if wrong else None)


@given(maps(), st.data())
@EXAMPLES
def test_refined_and_aligned_keep_the_function(m: Map, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from(list(m.axes)))
    extent = m.extents[axis]
    breaks = data.draw(st.sets(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]), max_size=3))
    try:
        finer = m.refined(axis, breaks)
    except LayoutError as refusal:
        assert "no radix refines" in str(refusal)
        return
    assert table(finer) == table(m) and finer.extents == m.extents
    left, right = aligned(m, finer)
    assert left.axes == right.axes and left.rows == right.rows and table(left) == table(m)


# -- questions --------------------------------------------------------------------------------------------------------


@given(maps())
@EXAMPLES
def test_bounds_hold(m: Map) -> None:
    values = [v["x"] for v in table(m).values()]
    low, high = m.bounds("x")
    assert low <= min(values) and max(values) <= high
    bits = [d for t in m.rows["x"] for d in t]
    if len(set(bits)) == len(bits):
        assert (low, high) == (min(values), max(values))


@given(maps())
@EXAMPLES
def test_collisions_and_image_size(m: Map) -> None:
    values = [v["x"] for v in table(m).values()]
    try:
        found, count = m.collision(), m.image_size()
    except LayoutError as refusal:
        assert "overlap" in str(refusal)
        return
    assert count == len(set(values))
    assert (found is None) == (count == len(values))
    if found is not None:
        assert any(found.values()) and m(**found) == m(**dict.fromkeys(m.axes, 0))


@given(some.bijective(), some.swizzles())
@EXAMPLES
def test_a_permutation_has_no_collision(a: Layout, swizzle: Swizzle) -> None:
    m = a.map("x", "i")
    assert m.collision() is None and m.image_size() == a.size()
    try:
        swizzled = m.swizzled("x", swizzle.bits, swizzle.base, swizzle.shift)
    except LayoutError:
        return
    assert swizzled.collision() is None


def test_two_outputs_tell_indices_apart_together() -> None:
    both = beside(strided("m", t=[(4, 1), (8, 0)]), strided("k", t=[(4, 0), (8, 1)]))
    assert both.collision() is None and both.image_size() == 32
    assert both.only("m").collision() == {"t": 4} and both.only("m").image_size() == 4


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (lambda: strided("x", i=[(4, 1)])(j=1), "this map takes i; it was given j"),
        (lambda: strided("x", i=[(4, 1)])(), "this map takes i; it was given nothing"),
        (
            lambda: strided("x", i=[(4, 1)]).after(strided("y", t=[(4, 1)])),
            "the inner map gives y, the outer one takes i",
        ),
        (
            lambda: strided("x", i=[(4, 1)]).after(strided("i", t=[(8, 1)])),
            "i moves by 4 for t[4], which leaves its extent 4",
        ),
        (
            lambda: strided("x", i=[(4, 1)]).after(strided("i", t=[(2, 1)]).plus("i", 4)),
            "i starts at 4, outside of 0..3",
        ),
        (lambda: strided("x", i=[(4, 1)]).after(strided("i", t=[(2, 1)], v=[(2, 1)])), "a carry"),
        (lambda: strided("x", i=[(4, 1)]).after(strided("i", t=[(2, 1)]).plus("i", 1)), "which carries with t[1]"),
        (
            lambda: strided("x", i=[(6, 4)]).swizzled("x", 1, 2, 2),
            "is no single bit of the pattern, a carry crosses it",
        ),
        (lambda: strided("x", i=[(4, 1)]).plus("x", 1).swizzled("x", 1, 2, 2), "offsets below the pattern reach 4"),
        (
            lambda: strided("x", i=[(2, -1)]).swizzled("x", 1, 1, 1),
            "offsets below the pattern reach 2 and carry into it",
        ),
        (lambda: strided("x", i=[(2, 4)]).plus("x", 4).swizzled("x", 1, 2, 2), "both set bit 2, a carry"),
        (lambda: strided("x", i=[(4, 1)]).first_difference(strided("x", i=[(8, 1)])), "cannot be compared"),
        (lambda: strided("x", i=[(4, 1)]) == strided("y", i=[(4, 1)]), "cannot be compared"),
        (lambda: beside(strided("x", i=[(4, 1)]), strided("y", i=[(8, 1)])), "axis i has extents 4, 8"),
        (
            lambda: strided("x", i=[(2, 1), (3, 5)]) == strided("x", i=[(3, 1), (2, 5)]),
            "axis i of 6 would be split at 2 and at 3, which no radix refines",
        ),
        (lambda: strided("x", i=[(4, 2), (2, 3)]).collision(), "overlap, so a value does not tell its digits"),
        (lambda: Layout((4, 2)).map("x", "a", "b", "c"), "has 2 modes, 3 axes were named: a, b, c"),
    ],
)
def test_what_a_table_cannot_hold_is_refused(refused: Any, text: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        refused()
    assert text in str(refusal.value)


@pytest.mark.parametrize("out", ["x"])
def test_a_wrong_table_is_seen(out: str) -> None:
    """The planted faults: a step, a term, a base off by one is another function, and enumeration says so too."""
    right = strided(out, i=[(8, 16)], j=[(8, 2)]).swizzled(out, 2, 1, 3)
    rows = right.rows[out]
    for term in rows:
        wrong = Map(right.axes, {out: {**rows, term: rows[term] + 1}})
        assert wrong != right and table(wrong) != table(right)
        fewer = Map(right.axes, {out: {t: s for t, s in rows.items() if t != term}})
        first = right.first_difference(fewer)
        assert first is not None and right(**first) != fewer(**first)
