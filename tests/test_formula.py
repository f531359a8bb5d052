"""Formulas against the layouts that they are of, on every index."""

from __future__ import annotations

import itertools

import pytest

from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, Sym
from layoutlab.cli import main
from layoutlab.formula import formula, of_layout

LAYOUTS = [
    Layout((4, 8), (8, 1)),
    Layout(((2, 3), (4, 5)), ((60, 1), (3, 12))),
    Layout(12, 5),
    Layout((6, 4), (-1, 0)),
    Layout(((4, 2), 3), ((1, 8), 100)),
    ComposedLayout(Swizzle(2, 1, 2), 0, Layout((8, 8), (8, 1))),
    ComposedLayout(Swizzle(2, 0, 3), 32, Layout((4, 8), (8, 1))),
    ComposedLayout(Swizzle(2, 0, -3), 0, Layout((8, 8), (8, 1))),
    ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, Layout((8, 64), (64, 1)), element_bits=16),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_formula_gives_every_location(layout: Layout | ComposedLayout) -> None:
    m, out = of_layout(layout)
    expression = formula(m, out)
    symbols = {s.name: s for s in expression.free_symbols}
    tested = 0
    for index in itertools.product(*(range(0, n, 1 + n // 16) for n in m.extents.values())):
        values = {symbols[name]: i for name, i in zip(m.axes, index, strict=True) if name in symbols}
        assert expression.subs(values) == layout(*index)
        tested += 1
    assert tested >= 12


def test_a_wrong_formula_is_seen() -> None:
    m, out = of_layout(Layout((4, 8), (8, 1)))
    wrong = formula(m.plus(out, 1), out)
    assert wrong.subs({s: 0 for s in wrong.free_symbols}) != Layout((4, 8), (8, 1))(0, 0)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--formula", "logical_divide(16:1, 4:2)"]) == 0
    assert capsys.readouterr().out == "(4,(2,2)):(2,(1,8))   (i, j) -> 2*i + Mod(j, 2) + 8*floor(j/2)\n"


def test_what_has_no_formula_is_refused() -> None:
    with pytest.raises(LayoutError, match="a table of digits needs numbers"):
        of_layout(Layout((4, 2), (1, Sym("N"))))
    assert main(["eval", "--formula", "(3,4)"]) == 1
