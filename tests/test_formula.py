"""Formulas against the layouts that they are of, on every index."""

from __future__ import annotations

import itertools

import pytest

from layoutlab import Basis, ComposedLayout, Layout, LayoutError, Swizzle, Sym, make_identity_layout
from layoutlab.cli import main
from layoutlab.formula import formula, of_layout, spoken

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
    ComposedLayout(Swizzle(2, 1, 2), 6, Layout((8, 8), (8, 1))),  # the offset carries: no table of bits holds it
    ComposedLayout(Swizzle(2, 0, 3), 0, Layout((6, 7), (9, 5))),  # as strides that are no bits do
    ComposedLayout(Layout((4, 8), (8, 1)), 0, Layout((4, 4), (1, 8))),
    Layout(((4, 8, 4), (2, 2, 8)), ((256, 1, 16), (128, 8, 1024))),  # (thread, value)
    Layout(((32, 4), 64), ((Basis(1, (0,)), Basis(32, (0,))), Basis(1, (1,)))),
    make_identity_layout((4, 6)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_formula_gives_every_location(layout: Layout | ComposedLayout) -> None:
    m, _ = of_layout(layout)
    found = [expression for _, expression in spoken(layout)]
    tested = 0
    for index in itertools.product(*(range(0, n, 1 + n // 16) for n in m.extents.values())):
        values = dict(zip(m.axes, index, strict=True))
        here = tuple(e.subs({s: values[s.name] for s in e.free_symbols}) for e in found)
        expected = layout(*index)
        assert here == (expected if isinstance(expected, tuple) else (expected,))
        tested += 1
    assert tested >= 12


def test_a_wrong_formula_is_seen() -> None:
    m, _ = of_layout(Layout((4, 8), (8, 1)))
    wrong = formula(m.plus("element", 1), "element")
    assert wrong.subs({s: 0 for s in wrong.free_symbols}) != Layout((4, 8), (8, 1))(0, 0)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--formula", "logical_divide(16:1, 4:2)"]) == 0
    assert capsys.readouterr().out == "(4,(2,2)):(2,(1,8))   (i, j) -> 2*i + Mod(j, 2) + 8*floor(j/2)\n"


def test_the_command_speaks_of_coordinates_and_of_swizzles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--formula", "((32,4),64):((1@0,32@0),1@1)"]) == 0
    assert capsys.readouterr().out.endswith("(i, j) -> (i, j)\n")
    assert main(["eval", "--formula", "S<2,1,2> o 6 o (8,8):(8,1)"]) == 0
    assert capsys.readouterr().out.endswith("(i, j) -> S<2,1,2>(8*i + j + 6)\n")


def test_what_has_no_formula_is_refused() -> None:
    with pytest.raises(LayoutError, match="a table of digits needs numbers"):
        of_layout(Layout((4, 2), (1, Sym("N"))))
    assert main(["eval", "--formula", "(3,4)"]) == 1
