"""Arguments that are no layout, shape or number at all: every public function of the algebra refuses in a sentence."""

from __future__ import annotations

from inspect import Parameter, isfunction, signature
from itertools import product as every
from typing import Any

import numpy as np
import pytest

from layoutlab import Layout, LayoutError, Swizzle, algebra
from layoutlab.algebra import structure
from layoutlab.algebra.kinds import asking

FUNCTIONS = sorted(name for name in algebra.__all__ if isfunction(getattr(algebra, name)))
ANYTHING = ["4:2", 3.5, None, [4, 2], {}, Layout(4, 2), 7, (2, 3), Swizzle(1, 0, 1), True]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_of_any_kind_give_a_result_or_a_sentence(name: str) -> None:
    function = getattr(algebra, name)
    parameters = signature(function).parameters.values()
    least = sum(p.default is Parameter.empty for p in parameters)
    refused = 0
    for args in every(ANYTHING, repeat=least):
        try:
            function(*args)
        except LayoutError as why:
            refused += 1
            assert len(str(why).split()) > 4, why
    assert refused > 0 or name == "slice_and_offset" or least == 0
    with pytest.raises(LayoutError, match=f"^{name}: "):
        function(*[object()] * least)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: algebra.coalesce((4, 2)), r"layout is \(4,2\), which is no layout; Layout\(\(4,2\)\), in text"),
        (lambda: algebra.composition(Layout(4), [2]), r"rhs is \[2\], which is no tiler; "),
        (lambda: algebra.size("(4,2)"), r"x is '\(4,2\)', which is no layout or shape of numbers"),
        (
            lambda: algebra.select(Layout((4, 2)), mode="0"),
            r"mode is '0', which is no list of numbers; \[0,1\], is one",
        ),
        (lambda: algebra.crd2idx((1, None), Layout((4, 2))), r"coord is \(1, None\), which is no coordinate of"),
        (lambda: algebra.recast_layout(16.0, 8, Layout(4)), r"new_bits is 16.0, which is no number; 4, is one"),
    ],
)
def test_the_sentence_says_which_argument_and_what_would_be_right(call: Any, sentence: str) -> None:
    with pytest.raises(LayoutError, match=sentence):
        call()


def test_what_was_taken_is_taken_still() -> None:
    assert algebra.crd2idx(np.arange(3), Layout(4, 2)).tolist() == [0, 2, 4]
    assert algebra.crd2idx((np.int64(1), 2), Layout((4, 8))) == 9
    assert algebra.slice_((None, 1), Layout((4, 2))) == Layout((4,), (1,))
    assert str(algebra.composition(Swizzle(1, 0, 1), (2, 2))) == "S<1,0,1> o 0 o (2,2):(1,2)"
    assert algebra.logical_divide(Layout((4, 8)), (Layout(2, 2), None)).shape == ((2, 2), 8)


def test_the_functions_that_ask_nothing_fall_over() -> None:
    """The planted fault: without the asking there is no sentence; and a kind without a meaning is an error at once."""
    with pytest.raises(AttributeError):
        structure.coalesce("4:2")  # type: ignore[type-var]

    def of_what(x: Any) -> Any:
        return x

    of_what.__annotations__["x"] = "Tensor"
    of_what.__signature__ = signature(of_what)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="Tensor"):
        asking(of_what)
