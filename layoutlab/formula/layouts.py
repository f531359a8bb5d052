"""Formulas: a table of digits as sympy expressions, for people to read.

>>> from layoutlab.layout import Layout
>>> print(formula(Layout((4, 8), (8, 1)).map("element", "i", "j"), "element"))
8*i + j

sympy prints and evaluates; it is no judge of equality, since it holds no xor and leaves true identities of div and mod
as they are: the digits decide.
"""

from __future__ import annotations

from typing import Any

from layoutlab.digits import ONE, Map, Term, beside, strided_over
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis
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


def of_layout(layout: Layout | ComposedLayout) -> tuple[Map, Swizzle | None]:
    """The map of a layout over its modes, i, j, k and so on, and the swizzle of it where no table holds that.

    >>> m, swizzle = of_layout(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
    >>> m(i=1, j=0), swizzle
    ({'element': 72}, None)

    The output is `element`, or `c0`, `c1` and so on of a layout that gives coordinates. Raises LayoutError for symbols.
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    if outer.rank() > len(MODE_NAMES):
        raise LayoutError(f"{layout} has {outer.rank()} modes; a formula names {len(MODE_NAMES)} at most")
    names = MODE_NAMES[: outer.rank()]
    if not isinstance(layout, ComposedLayout):
        return (_coordinates(layout, names) if layout.coordinate_valued() else layout.map("element", *names)), None
    if not isinstance(layout.offset, int):
        raise LayoutError(f"{layout} has no formula: it starts at {layout.offset}")
    if isinstance(layout.inner, Layout):  # a layout of places, read at the places of another one
        inner, inside = layout.inner.map("element", "x"), outer.map("x", *names).plus("x", layout.offset)
        return inner.after(inside), None
    m = outer.map("element", *names).plus("element", layout.offset)
    if layout.inner is None:
        return m, None
    swizzle = layout.element_swizzle()
    try:
        return m.swizzled("element", swizzle.bits, swizzle.base, swizzle.shift), None
    except LayoutError:
        return m, swizzle


def _coordinates(layout: Layout, names: str) -> Map:
    """A layout of coordinates as one output for each."""
    count = 1 + max(d.path[0] for _, d in layout.leaves() if isinstance(d, Basis))
    parts = list[Map]()
    for i in range(count):
        modes = {
            name: [(extent, _share(stride, i, layout)) for extent, stride in part.leaves()]
            for name, part in zip(names, layout, strict=True)
        }
        parts.append(strided_over(modes, f"c{i}"))
    return beside(*parts)


def _share(stride: Any, coordinate: int, layout: Layout) -> int:
    """What a stride adds to one coordinate."""
    if stride == 0:
        return 0
    if not isinstance(stride, Basis) or len(stride.path) != 1 or not isinstance(stride.value, int):
        raise LayoutError(f"{layout} has the stride {stride}, which is no step of one coordinate")
    return stride.value if stride.path[0] == coordinate else 0


def spoken(layout: Layout | ComposedLayout) -> list[tuple[str, Any]]:
    """The outputs of a layout, each with its sympy expression.

    >>> spoken(Layout((4, 8), (Basis(1, (1,)), Basis(2, (0,)))))
    [('c0', 2*j), ('c1', i)]
    """
    m, swizzle = of_layout(layout)
    found = {out: formula(m, out) for out in m.rows}
    if swizzle is not None:
        found = {out: _function(swizzle)(expression) for out, expression in found.items()}
    return list(found.items())


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


def _function(swizzle: Swizzle) -> Any:
    """A swizzle as a function of sympy's, evaluated where its argument is a number."""
    import sympy

    def value(cls: Any, x: Any) -> Any:
        return sympy.Integer(swizzle(int(x))) if x.is_Integer else None

    return type(f"S<{swizzle.bits},{swizzle.base},{swizzle.shift}>", (sympy.Function,), {"eval": classmethod(value)})
