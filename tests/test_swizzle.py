"""Swizzles bit by bit, their unit, and what is composed with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strategies as some
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle

EXAMPLES = settings(max_examples=150, deadline=None)


def bit_by_bit(s: Swizzle, x: int) -> int:
    """CuTe's definition with one bit at a time: bit base + i (above, if the shift is negative) ^= the other one."""
    out = x
    for i in range(s.bits):
        low, high = s.base + i, s.base + abs(s.shift) + i
        target, source = (low, high) if s.shift >= 0 else (high, low)
        out ^= (x >> source & 1) << target
    return out


@given(some.swizzles(), st.integers(0, 1 << 40))
@EXAMPLES
def test_a_swizzle_is_its_bits_and_its_own_inverse(s: Swizzle, x: int) -> None:
    assert s(x) == bit_by_bit(s, x)
    assert s(s(x)) == x
    assert s(np.array([x, x + 1])).tolist() == [bit_by_bit(s, x), bit_by_bit(s, x + 1)]


@given(some.swizzles(), st.sampled_from([1, 8, 16, 32]), st.sampled_from([1, 4, 8, 16, 32, 64]))
@EXAMPLES
def test_another_unit_is_the_same_function_of_bits(s: Swizzle, unit: int, other: int) -> None:
    s = Swizzle(s.bits, s.base, s.shift, unit)
    try:
        counted = s.counted_in(other)
    except LayoutError as refusal:
        assert "changes bits inside" in str(refusal)
        assert s.bits and s.base + (unit.bit_length() - other.bit_length()) < 0
        return
    for bit in range(0, 1 << 14, 3):
        assert unit * s(bit // unit) + bit % unit == other * counted(bit // other) + bit % other


@given(some.swizzled())
@EXAMPLES
def test_a_composed_layout_is_inner_of_offset_plus_outer(a: ComposedLayout) -> None:
    assert isinstance(a.inner, Swizzle) and isinstance(a.offset, int)
    expected = [bit_by_bit(a.inner, a.offset + a.outer(i)) for i in range(a.size())]
    assert [a(i) for i in range(a.size())] == expected
    assert a(np.arange(a.size())).tolist() == expected
    assert (a.shape, a.rank(), a.depth(), a.size()) == (a.outer.shape, a.outer.rank(), a.outer.depth(), a.outer.size())


@given(some.swizzled(), st.sampled_from([8, 16, 32]))
@EXAMPLES
def test_a_byte_swizzle_over_elements_swizzles_bytes(a: ComposedLayout, bits: int) -> None:
    assert isinstance(a.inner, Swizzle)
    assume(a.inner.base >= (bits // 8).bit_length() - 1)
    in_bytes = ComposedLayout(Swizzle(a.inner.bits, a.inner.base, a.inner.shift, 8), a.offset, a.outer, bits)
    width = bits // 8
    for i in range(a.size()):
        assert width * in_bytes(i) == bit_by_bit(a.inner, width * (a.offset + a.outer(i)))


def test_layouts_and_coordinates_inside() -> None:
    inner = ComposedLayout(Layout((4, 2), (1, 16)), 2, Layout(6))
    assert [inner(i) for i in range(6)] == [2, 3, 16, 17, 18, 19]
    tensor = ComposedLayout(None, (2, 0), Layout((4, 2), (1, 0)))
    assert str(tensor) == "(2,0) o (4,2):(1,0)"


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (lambda: Swizzle(-1, 0, 3), "the number of bits and the base are not negative"),
        (lambda: Swizzle(3, -1, 3), "the number of bits and the base are not negative"),
        (lambda: Swizzle(3, 4, 2), "S<3,4,2>: a shift of 2 makes the 3 bits overlap their own sources"),
        (lambda: Swizzle(3, 4, 3, unit_bits=0), "a unit is at least one bit wide"),
        (lambda: Swizzle(3, 4, 3).counted_in(16), "does not say what it counts"),
        (lambda: Swizzle(3, 3, 3, unit_bits=8).counted_in(6), "6 and 8 bits are not a power of two apart"),
        (lambda: Swizzle(3, 3, 3, unit_bits=8).counted_in(24), "24 and 8 bits are not a power of two apart"),
        (lambda: Swizzle(3, 4, 3, unit_bits=1).counted_in(32), "it would need the base -1"),
        (lambda: ComposedLayout(None, 0, Layout(8)).element_swizzle(), "has no swizzle"),
        (
            lambda: ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, Layout(8))(1),
            "S<3,4,3>[8b] counts 8-bit units and the layout 8:1 elements of unknown width",
        ),
    ],
)
def test_refusals(refused: Any, text: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        refused()
    assert text in str(refusal.value)
