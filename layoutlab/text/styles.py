"""Printing: the same value as CuTe DSL, C++ or pycute prints it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym

Style: TypeAlias = Literal["dsl", "c++", "pycute"]


def to_text(x: Any, style: Style = "dsl") -> str:
    """The text of a layout, composed layout, swizzle, integer or tuple in one of three styles.

    >>> x = ComposedLayout(Swizzle(3, 4, 3, 8), 0, Layout((8, 64), (64, 1)), 16)
    >>> to_text(x), to_text(x, "pycute")
    ('S<3,3,3> o 0 o (8,64):(64,1)', 'SW_3_3_3 o 0 o (8, 64):(64, 1)')
    >>> to_text(x, "c++")
    'Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)'

    Units: only C++ has a text for a swizzle that counts other units than the layout under it. DSL and pycute get the
    same function in the layout's units; where those are not known the swizzle is refused. `str(x)` keeps everything.
    C++ prints compile-time numbers with an underscore: here all numbers are taken for such. Records print by `str`.
    """
    if style not in _STYLES:
        raise LayoutError(f"style {style!r} is none of {', '.join(_STYLES)}")
    return _STYLES[style].text(x)


def _unknown(number: Sym) -> str:
    """`8*?` as `?{div=8}`, other polynomials as they are."""
    (monomial, factor), *more = number.terms
    if not more and len(monomial) == 1 and monomial[0].startswith("?") and factor > 1:
        return f"{monomial[0]}{{div={factor}}}"
    return str(number)


@dataclass(frozen=True)
class _Printer:
    integer: Callable[[int], str]
    comma: str
    closing: Callable[[int], str]
    swizzle: Callable[[Swizzle], str]
    slice_: str
    keeps_unit: bool = False

    def text(self, x: Any) -> str:
        if isinstance(x, tuple):
            return f"({self.comma.join(map(self.text, x))}{self.closing(len(x))}"
        if isinstance(x, Layout):
            return f"{self.text(x.shape)}:{self.text(x.stride)}"
        if isinstance(x, ComposedLayout):
            return " o ".join(self._parts(x))
        if isinstance(x, Swizzle):
            return self._unitless(x)
        if isinstance(x, Basis):
            return "@".join([self.text(x.value), *(str(mode) for mode in reversed(x.path))])
        if isinstance(x, Sym):
            return _unknown(x)
        if x is None:
            return self.slice_
        return self.integer(x) if isinstance(x, int) else str(x)

    def _unitless(self, x: Swizzle) -> str:
        if x.unit_bits is not None:
            raise LayoutError(f"{x} says what it counts, for which this style has no text: str() keeps it")
        return self.swizzle(x)

    def _parts(self, x: ComposedLayout) -> list[str]:
        outer, offset = self.text(x.outer), self.text(x.offset)
        if x.inner is None:
            return [offset, outer]
        if isinstance(x.inner, Layout):
            return [self.text(x.inner), offset, outer]
        if x.inner.unit_bits is None:
            return [self.swizzle(x.inner), offset, outer]
        if self.keeps_unit and x.inner.unit_bits == 8 and x.element_bits is not None and x.offset == 0:
            return [self.swizzle(x.inner), f"smem_ptr[{x.element_bits}b](unset)", outer]
        return [self.swizzle(x.element_swizzle()), offset, outer]


def _angles(name: str) -> Callable[[Swizzle], str]:
    return lambda x: f"{name}<{x.bits},{x.base},{x.shift}>"


_STYLES = {
    "dsl": _Printer(str, ",", lambda n: ")", _angles("S"), "_"),
    "c++": _Printer(lambda n: f"_{n}", ",", lambda n: ")", _angles("Sw"), "_", keeps_unit=True),
    "pycute": _Printer(
        str, ", ", lambda n: ",)" if n == 1 else ")", lambda x: f"SW_{x.bits}_{x.base}_{x.shift}", "None"
    ),
}
