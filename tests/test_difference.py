"""What sets two maps apart: random maps, changed in one known way, are explained by that way."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings

from layoutlab.digits import Digit, Map, strided, strided_over
from layoutlab.errors import LayoutError
from layoutlab.handoff.difference import Form, explain, form
from layoutlab.swizzle import Swizzle

ELEMENT = 16
SWIZZLES = [Swizzle(b, 7, 3, 1) for b in (1, 2, 3)]


@st.composite
def forms(draw: st.DrawFn) -> Form:
    """A tile's map, compact, its digits in any order; swizzled or not."""
    bits = draw(st.lists(st.sampled_from([2, 2, 2, 2, 3, 5]), min_size=6, max_size=11))
    cut = draw(st.integers(1, len(bits) - 1))
    order, steps, step = draw(st.permutations(range(len(bits)))), [0] * len(bits), ELEMENT
    for i in order:
        steps[i], step = step, step * bits[i]
    pairs = list(zip(bits, steps, strict=True))
    m = strided_over({"m": pairs[:cut], "k": pairs[cut:]}, "bit")
    return form(m, draw(st.sampled_from([None, *SWIZZLES])))


def kinds(wrote: Form, wanted: Form) -> list[str]:
    return [d.kind for d in explain(wrote, wanted)]


def stepped(f: Form, steps: dict[Digit, int]) -> Form:
    return replace(f, steps={**f.steps, **steps})


@settings(max_examples=300, deadline=None)
@given(forms())
def test_nothing_sets_a_map_apart_from_itself(f: Form) -> None:
    assert explain(f, f) == []


@settings(max_examples=300, deadline=None)
@given(forms(), st.integers(1, 4096))
def test_a_constant_is_an_offset(f: Form, by: int) -> None:
    spoken = f"{by} bytes" if by > 1 else "1 byte"
    (found,) = explain(replace(f, base=f.base + 8 * by), f)
    assert found.kind == "offset" and found.text == f"an offset: everything is written {spoken} too high"
    (found,) = explain(f, replace(f, base=f.base + 8 * by))
    assert found.text == f"an offset: everything is written {spoken} too low"


@settings(max_examples=300, deadline=None)
@given(forms(), st.data())
def test_exchanged_steps_are_an_order(f: Form, data: st.DataObject) -> None:
    digits = sorted(f.steps)
    one, two = data.draw(st.sampled_from(digits)), data.draw(st.sampled_from(digits))
    assume(one[2] == two[2] and one != two)
    changed = stepped(f, {one: f.steps[two], two: f.steps[one]})
    (found,) = explain(changed, f)
    assert found.kind == "order"
    assert {one[0], two[0]} == {word.removesuffix(" is") for word in ("m is", "k is") if word in found.text}


@settings(max_examples=300, deadline=None)
@given(forms(), st.data())
def test_a_missing_bit_is_a_narrower_tile(f: Form, data: st.DataObject) -> None:
    digit = data.draw(st.sampled_from(sorted(f.steps)))
    assume(sum(d[0] == digit[0] for d in f.steps) > 1)
    (found,) = explain(stepped(f, {digit: 0}), f)
    assert found.kind == "narrow" and f"steps of {digit[1]} along {digit[0]} move nothing" in found.text
    top = digit[1] * digit[2] == prod(f.axes[digit[0]])
    assert (f"as if its tile ended at {digit[0]}={digit[1] - 1}" in found.text) == top


@settings(max_examples=300, deadline=None)
@given(forms(), st.sampled_from([2, 3, 8, 16]))
def test_every_step_multiplied_is_a_unit(f: Form, by: int) -> None:
    (found,) = explain(stepped(f, {d: s * by for d, s in f.steps.items()}), f)
    assert found.kind == "unit" and f"every step is written {by} times as far" in found.text
    (found,) = explain(f, stepped(f, {d: s * by for d, s in f.steps.items()}))
    assert found.kind == "unit" and f"1/{by}" in found.text


@settings(max_examples=300, deadline=None)
@given(forms(), st.sampled_from("mk"), st.sampled_from([2, 3, 8]))
def test_the_steps_of_one_axis_multiplied_are_a_stride(f: Form, axis: str, by: int) -> None:
    steps = {d: s * by for d, s in f.steps.items() if d[0] == axis}
    found = explain(stepped(f, steps), f)
    assert len(found) == 1
    assert found[0].kind == "stride" and found[0].text.endswith(f"{by} times as far")
    assert f"a stride: {axis} is written as" in found[0].text


@settings(max_examples=300, deadline=None)
@given(forms(), st.sampled_from([None, *SWIZZLES]), st.sampled_from([None, *SWIZZLES]))
def test_another_pattern_is_a_swizzle(f: Form, one: Swizzle | None, two: Swizzle | None) -> None:
    patterns = [
        frozenset((s.base + i, s.base + i + s.shift) for i in range(s.bits)) if s else frozenset() for s in (one, two)
    ]
    a, b = (replace(f, pattern=p) for p in patterns)
    assert kinds(a, b) == ([] if one == two else ["swizzle"])


@settings(max_examples=200, deadline=None)
@given(forms(), st.data())
def test_several_changes_are_each_named(f: Form, data: st.DataObject) -> None:
    digit = data.draw(st.sampled_from(sorted(f.steps)))
    other = replace(stepped(f, {digit: 0}), base=f.base + 64, pattern=f.pattern ^ {(20, 23)})
    assert kinds(other, f) == ["narrow", "swizzle", "offset"]


def test_a_pattern_in_larger_units_is_named_so() -> None:
    tile = strided("bit", 16, m=[(128, 64)], k=[(64, 1)])
    (found,) = explain(form(tile, Swizzle(3, 8, 3, 1)), form(tile, Swizzle(3, 7, 3, 1)))
    assert found.text.endswith("the same pattern 1 bit higher, so its units are 2 times as large")


# -- maps that were swizzled before they are looked at ----------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.permutations(range(11)), st.sampled_from(SWIZZLES), st.integers(1, 10))
def test_a_finished_map_is_taken_apart_into_its_stages(order: list[int], swizzle: Swizzle, cut: int) -> None:
    pairs = [(2, ELEMENT << i) for i in order]
    plain = strided_over({"m": pairs[:cut], "k": pairs[cut:]}, "bit")
    finished = form(plain.swizzled("bit", swizzle.bits, swizzle.base, swizzle.shift))
    staged = form(plain, swizzle)
    assert finished.steps == staged.steps and finished.pattern == staged.pattern
    assert kinds(form(plain), finished) == ["swizzle"]


def test_a_constant_that_one_swizzle_sees_is_a_base() -> None:
    tile = strided("bit", 8, m=[(4, 128)], k=[(128, 1)])
    base = 8 * 512  # above the tile: no carry
    absolute = tile.plus("bit", base).swizzled("bit", 3, 7, 3)
    relative = tile.swizzled("bit", 3, 7, 3).plus("bit", base)
    (found,) = explain(form(relative), form(absolute))
    assert found.kind == "base" and found.text.endswith("it flips byte bits 6")
    (staged,) = explain(form(tile, Swizzle(3, 7, 3, 1), base), form(tile.plus("bit", base), Swizzle(3, 7, 3, 1)))
    assert staged.kind == "base" and "the writer swizzles offsets from its base, byte 512" in staged.text


def test_a_row_that_no_swizzle_makes_is_refused() -> None:
    a, b = ("m", 1, 2), ("k", 1, 2)
    with pytest.raises(LayoutError, match="belong at one bit"):
        form(Map({"m": (2,), "k": (2,)}, {"bit": {frozenset((a, b)): 16}}))
