"""Layout: a function of coordinates in every form, printed and refused as it should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab import Basis, Layout, LayoutError, Sym, idx2crd, make_identity_layout, make_layout
from layoutlab.layout import runs

EXAMPLES = settings(max_examples=150, deadline=None)


def by_hand(a: Layout, index: int) -> int:
    """The location of a flat index: the leaves counted down, the first one fastest."""
    total = 0
    for extent, stride in a.leaves():
        total += index % extent * stride
        index //= extent
    return total


@given(some.layouts())
@EXAMPLES
def test_every_form_of_a_coordinate_is_the_same_place(a: Layout) -> None:
    for i in range(a.size()):
        by_mode = tuple(i // w % m.size() for w, m in zip(weights(a), a, strict=True))
        assert a(i) == by_hand(a, i) == a(idx2crd(i, a.shape)) == a(*by_mode) == a(by_mode if a.depth() else i)
    assert a(np.arange(a.size())).tolist() == [by_hand(a, i) for i in range(a.size())]


def weights(a: Layout) -> list[int]:
    found, w = [], 1
    for mode in a:
        found.append(w)
        w *= mode.size()
    return found


@given(some.layouts(), st.integers(0, 500))
@EXAMPLES
def test_extended_goes_on_in_the_last_mode(a: Layout, index: int) -> None:
    *inner, (_, last) = a.leaves()
    total, rest = 0, index
    for extent, stride in inner:
        total, rest = total + rest % extent * stride, rest // extent
    assert a.extended(index) == total + rest * last
    if index < a.size():
        assert a.extended(index) == a(index)


@given(some.layouts())
@EXAMPLES
def test_cosize_is_the_span_of_the_locations(a: Layout) -> None:
    values = [a(i) for i in range(a.size())]
    assert a.cosize() == max(values) - min(values) + 1


@given(some.layouts(), some.layouts())
@EXAMPLES
def test_runs_are_equal_for_equal_functions_only(a: Layout, b: Layout) -> None:
    same = a.size() == b.size() and all(a(i) == b(i) for i in range(a.size()))
    assert (runs(a) == runs(b)) == same


@given(some.layouts())
@EXAMPLES
def test_modes_add_up(a: Layout) -> None:
    for i in range(0, a.size(), 7):
        parts = [m(i // w % m.size()) for w, m in zip(weights(a), a, strict=True)]
        assert sum(parts) == a(i)
    assert make_layout(*a) == (a if a.depth() else make_layout(a))
    assert len(a) == a.rank() and a[-1] == a[a.rank() - 1]


def test_identity_layouts_give_the_coordinate() -> None:
    a = make_identity_layout((3, (2, 4)))
    assert str(a) == "(3,(2,4)):(1@0,(1@0@1,1@1@1))"
    assert [a(i) for i in range(24)] == [idx2crd(i, a.shape) for i in range(24)]
    assert make_identity_layout(8)(5) == 5
    assert Layout((4, 8), (Basis(1, (1,)), Basis(32, (0,))))(3, 2) == (64, 3)


def test_printing() -> None:
    assert str(Layout(((4, 2), 1), ((1, 16), 0))) == "((4,2),1):((1,16),0)"
    assert str(Layout((4,))) == "(4):(1)" and str(Layout(4)) == "4:1" and str(Layout(())) == "():()"
    assert str(Layout((Sym("N"), 4), (1, 2 * Sym("N")))) == "(N,4):(1,2*N)"
    assert str(Layout((4, 8), (-1, Basis(2, (0, 1))))) == "(4,8):(-1,2@1@0)"


def test_symbols_are_carried() -> None:
    n = Sym("N")
    a = Layout((4, n))
    assert a.size() == 4 * n and a.cosize() == 4 * n and a(3, 2) == 11 and a.symbolic()
    assert runs(a) == ((4 * n, 1),)
    unknown = Layout((Sym(), Sym()), (1, Sym()))
    assert len(runs(unknown)) == 2, "two unknowns are not known to go on where one another end"


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (lambda: Layout((4, 2), (1,)), "shape (4,2) and stride (1) are nested differently"),
        (lambda: Layout((4, (2, 3)), (1, 4)), "shape (4,(2,3)) and stride (1,4) are nested differently"),
        (lambda: Layout((4, 0)), "shape (4,0) has the extent 0: extents are positive integers"),
        (lambda: Layout((4, -1)), "shape (4,-1) has the extent -1: extents are positive integers"),
        (lambda: Layout(4, 1.5), "stride 1.5 has the entry 1.5: strides are integers, bases or symbols"),
        (lambda: Layout("4", 1), "extents are positive integers"),
        (lambda: Layout((4, 2))(8), "lies outside of the extent 2 of shape (4,2)"),
        (lambda: Layout((4, 2))(4, 0), "coordinate 4 lies outside of the extent 4 of shape (4,2)"),
        (lambda: Layout((4, 2))(-1, 0), "coordinate -1 lies outside of the extent 4 of shape (4,2)"),
        (lambda: Layout((4, 2))(np.arange(9)), "lies outside of the extent 2 of shape (4,2)"),
        (lambda: Layout((4, 2))(1, 1, 1), "coordinate (1,1,1) has 3 entries, shape (4,2) has 2"),
        (lambda: Layout((4, 2))[2], "layout (4,2):(1,4) has 2 modes, there is no mode 2"),
        (lambda: make_identity_layout((4, 2)).cosize(), "has no cosize: its values are coordinates"),
        (lambda: Layout((4, Sym("N"))).map("x", "i"), "a table of digits needs numbers"),
    ],
)
def test_refusals(refused: Any, text: str) -> None:
    with pytest.raises(LayoutError) as refusal:
        refused()
    assert text in str(refusal.value)


def test_make_layout_takes_strides_by_position_and_refuses_mixes() -> None:
    assert make_layout((8, 64), (64, 1)) == make_layout((8, 64), stride=(64, 1)) == Layout((8, 64), (64, 1))
    for arguments, stride in [
        (((8, 64), (64, 1)), (64, 1)),
        (((8, 64), (64, 1), (1, 1)), None),
        (((8, 64), Layout(4)), None),
        ((Layout(4), (8, 64)), None),
        ((Layout(4), Layout(8)), (1, 4)),
    ]:
        with pytest.raises(LayoutError, match="is neither a shape with its strides"):
            make_layout(*arguments, stride=stride)
