"""Formulas: a table of digits as sympy expressions, for people to read.

>>> from layoutlab.layout import Layout
>>> print(formula(Layout((4, 8), (8, 1)).map("element", "i", "j"), "element"))
8*i + j

sympy prints and evaluates; it is no judge of equality, since it holds no xor and leaves true identities of div and mod
as they are: the digits decide.
"""

from __future__ import annotations

from typing import Any

from layoutlab.digits import ONE, Map, Term
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

MODE_NAMES = "ijklmnpqrs"


def formula(m: Map, out: str) -> Any:
    """An output of a map as a sympy expression of its axes; `xor` is of bits.

    >>> from layoutlab.digits import strided
    >>> print(formula(strided("byte", m=[(4, 8)], k=[(4, 2)]).swizzled("byte", 1, 1, 2), "byte"))
    8*m + 2*xor(Mod(k, 2), Mod(m, 2)) + 4*floor(k/2)

    Units: those of the output. Source: the digits of the map.
    """
    import sympy

    row = m.rows[out]
    total = sympy.Integer(row.get(ONE, 0))
    for axis in m.axes:
        for weight, extent, step in _runs(m, axis, {t: s for t, s in row.items() if len(t) == 1}):
            total += step * _part(axis, weight, extent, m.extents[axis])
    for term, step in row.items():
        if len(term) > 1:
            total += step * _xor(*(_part(a, w, r, m.extents[a]) for a, w, r in sorted(term)))
    return total


def of_layout(layout: Layout | ComposedLayout) -> tuple[Map, str]:
    """The map of a layout over its modes, i, j, k and so on, and the name of its output.

    >>> from layoutlab.swizzle import Swizzle
    >>> m, out = of_layout(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
    >>> m(i=1, j=0)
    {'element': 72}

    Raises LayoutError for symbols, coordinate strides and what no table of digits holds.
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    if outer.rank() > len(MODE_NAMES):
        raise LayoutError(f"{layout} has {outer.rank()} modes; a formula names {len(MODE_NAMES)} at most")
    m = outer.map("element", *MODE_NAMES[: outer.rank()])
    if isinstance(layout, ComposedLayout):
        if not isinstance(layout.offset, int) or not isinstance(layout.inner, Swizzle):
            raise LayoutError(f"{layout} has no formula: only swizzles of an integer offset have one")
        swizzle = layout.element_swizzle()
        m = m.plus("element", layout.offset).swizzled("element", swizzle.bits, swizzle.base, swizzle.shift)
    return m, "element"


def _runs(m: Map, axis: str, steps: dict[Term, int]) -> list[tuple[int, int, int]]:
    """(weight, extent, step) of digits that follow each other with no break between them."""
    runs: list[tuple[int, int, int]] = []
    for d in (d for d in reversed(m.digits) if d[0] == axis):
        step = steps.get(frozenset((d,)), 0)
        if runs and step and runs[-1][2] * runs[-1][1] == step and runs[-1][0] * runs[-1][1] == d[1]:
            runs[-1] = (runs[-1][0], runs[-1][1] * d[2], runs[-1][2])
        elif step:
            runs.append((d[1], d[2], step))
    return runs


def _part(axis: str, weight: int, extent: int, whole: int) -> Any:
    """index // weight % extent, without the parts that do nothing."""
    import sympy

    index = sympy.Symbol(axis, integer=True, nonnegative=True)
    high = sympy.floor(index / weight) if weight > 1 else index
    return sympy.Mod(high, extent) if weight * extent < whole else high


def _xor(*bits: Any) -> Any:
    import sympy

    class xor(sympy.Function):  # type: ignore[misc]
        """The exclusive or of bits; evaluated where all are numbers."""

        @classmethod
        def eval(cls, *args: Any) -> Any:
            if all(a.is_Integer for a in args):
                return sympy.Integer(sum(int(a) for a in args) % 2)
            return None

    return xor(*bits)
