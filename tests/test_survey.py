"""Survey: coverage, collisions and vectors, each held against counting by hand."""

from __future__ import annotations

from itertools import product as cartesian
from math import prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, survey
from layoutlab.survey import Coverage, Undecided, coverage, injective, locations, span, vector

extents = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@st.composite
def layouts(draw: st.DrawFn, low: int = -6) -> Layout:
    shape = tuple(draw(extents))
    return Layout(shape, tuple(draw(st.integers(low, 24)) for _ in shape))


@given(layouts())
def test_locations_are_the_values_in_counting_order(layout: Layout) -> None:
    found = locations(layout)
    assert found == [layout(i) for i in range(prod(layout.shape))]  # type: ignore[arg-type]
    assert span(layout) == (min(found), max(found))


def by_hand(values: list[int], size: int) -> Coverage:
    inside = {v for v in values if 0 <= v < size}
    missed = [v for v in range(size) if v not in inside]
    doubled = [(values.index(v), i) for i, v in enumerate(values) if v in values[:i]]
    outside = [i for i, v in enumerate(values) if not 0 <= v < size]
    return Coverage(
        len(values), len(inside), next(iter(missed), None), next(iter(doubled), None), next(iter(outside), None)
    )


@given(layouts(), st.integers(1, 60))
def test_coverage_is_what_counting_gives(layout: Layout, size: int) -> None:
    values = [layout(i) for i in range(prod(layout.shape))]  # type: ignore[arg-type]
    assert coverage(layout, size) == by_hand(values, size)
    assert injective(layout) == by_hand(values, size).doubled


@given(layouts(low=0), st.integers(1, 200))
def test_coverage_without_enumeration_is_the_same_where_it_decides(layout: Layout, size: int) -> None:
    values = [layout(i) for i in range(prod(layout.shape))]  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "LIMIT", 0)
        try:
            found = coverage(layout, size)
        except Undecided:
            assume(False)
    assert found == by_hand(values, size)


def test_a_terabyte_layout_is_surveyed_by_its_steps() -> None:
    compact = Layout((1 << 20, 1 << 20))
    assert coverage(compact, 1 << 40).exact and injective(compact) is None
    with_hole = Layout((1 << 20, 1 << 20), (1, (1 << 20) + 1))
    assert coverage(with_hole, 1 << 41).missed == 1 << 20
    assert coverage(Layout((1 << 20, 1 << 20, 2), (1, 1 << 20, 0)), 1 << 40).doubled == (0, 1 << 40)


def test_what_steps_do_not_tell_is_undecided() -> None:
    with pytest.raises(Undecided):
        coverage(Layout((1 << 20, 1 << 20), (3, 5)), 1 << 40)
    with pytest.raises(Undecided):
        injective(Layout((1 << 20, 1 << 20), (3, 5)))
    with pytest.raises(Undecided):
        locations(Layout(1 << 21))


def test_symbols_and_coordinates_have_no_locations() -> None:
    from layoutlab import parse

    for text, why in (("(N,4):(4,1)", "not known"), ("(4,8):(1@0,1@1)", "gives coordinates")):
        with pytest.raises(LayoutError, match=why):
            locations(parse(text))


def runs_hold(x: Layout | ComposedLayout, width: int, along: tuple[int, ...]) -> bool:
    """Whether blocks of `width` coordinates along the leaves lie side by side from a multiple of `width` on."""
    shape = x.shape
    assert isinstance(shape, tuple)
    others = [range(s) if i not in along else [0] for i, s in enumerate(shape)]
    inner = [range(shape[i]) for i in reversed(along)]
    for rest in cartesian(*others):
        places = []
        for digits in cartesian(*inner):
            coord = list(rest)
            for i, c in zip(reversed(along), digits, strict=True):
                coord[i] = c
            places.append(x(tuple(coord)))
        for start in range(0, len(places), width):
            block = places[start : start + width]
            if block[0] % width or block != list(range(block[0], block[0] + width)):
                return False
    return True


powers = st.sampled_from([1, 2, 3, 4, 6, 8])


@given(st.lists(powers, min_size=1, max_size=3), st.data())
def test_vectors_are_contiguous_and_aligned(shape: list[int], data: st.DataObject) -> None:
    layout = Layout(tuple(shape), tuple(data.draw(st.sampled_from([0, 1, 2, 4, 8, 12, 16, 32])) for _ in shape))
    found = vector(layout)
    assert found.elements == 1 or runs_hold(layout, found.elements, found.along)
    swizzled = ComposedLayout(
        Swizzle(2, data.draw(st.integers(0, 3)), 2), data.draw(st.sampled_from([0, 4, 8])), layout
    )
    found = vector(swizzled)
    assert found.elements == 1 or runs_hold(swizzled, found.elements, found.along)


def test_the_check_of_vectors_sees_a_wrong_one() -> None:
    assert runs_hold(Layout((8, 8), (8, 1)), 8, (1,))
    assert not runs_hold(Layout((8, 8), (9, 1)), 8, (1,))


def test_vectors_as_wide_as_they_can_be() -> None:
    assert vector(Layout((8, 64), (64, 1))).elements == 64
    assert vector(Layout((8, 64), (72, 1))).elements == 8
    assert vector(ComposedLayout(Swizzle(3, 4, 3, 8), 0, Layout((8, 64), (64, 1)), 16)).elements == 8
    assert vector(Layout((8, 64), (1, 9))).elements == 1
