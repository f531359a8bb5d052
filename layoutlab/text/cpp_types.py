"""C++ types: layouts as source code and compilers' messages spell them.

>>> s = Scanner("cute::Layout<cute::tuple<cute::C<8>, cute::C<64>>, cute::tuple<cute::C<64>, cute::C<1>>>")
>>> read_type(s)
(8,64):(64,1)
>>> read_type(Scanner("Layout<Shape<_8,_64>, Stride<_64,_1>>{}"))
(8,64):(64,1)
"""

from __future__ import annotations

from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym
from layoutlab.text.scanner import Scanner

_NAMES = r"(?:Layout|ComposedLayout)\s*<|cute::(?:Swizzle|tuple|C|Int|constant|ScaledBasis|_-?[0-9])"
_OPENING = rf"(?:const\s+)?(?:{_NAMES}|cute::(?:Layout|ComposedLayout)\s*<)"
_TUPLE = r"(?:tuple|Shape|Stride|Coord|Step|Tile|ArithmeticTuple)\s*(?=<)"
_STATIC = r"(?:C|Int|constant)\s*<\s*(?:[a-z ]+,)?\s*(?:\((?:[a-z ]+)\)\s*)?(-?[0-9]{1,20})[uUlL]*\s*>"
_SHORT = r"_(-?[0-9]{1,20})(?![A-Za-z0-9_])"
_RUNTIME = r"(?:(?:un)?signed |long )*(?:int|long|unsigned|u?int(?:32|64)_t|size_t)(?![A-Za-z0-9_<])"


def opens_type(s: Scanner) -> bool:
    """Whether a C++ type of CuTe comes next."""
    return s.peek(_OPENING)


def read_type(s: Scanner) -> Any:
    """The layout, swizzle, tuple or number that a C++ type stands for; run-time integers are unknowns."""
    start = s.skip()
    value = _type(s)
    s.match(r"(?:const)?\s*&?\s*(?:\{\s*\}|\(\s*\))?")
    if isinstance(value, _ElementBits):
        raise s.refused("smem_ptr_flag_bits stands inside of a ComposedLayout only", start)
    return value


class _ElementBits(int):
    """smem_ptr_flag_bits<16>: the width of the elements under a swizzle of bytes."""


def _type(s: Scanner) -> Any:
    start = s.skip()
    s.match(r"(?:const\s+)?(?:cute::)?")
    if s.match(_TUPLE):
        return tuple(_arguments(s))
    if found := s.match(_STATIC) or s.match(_SHORT):
        return int(found[1])
    if found := s.match(r"(Layout|ComposedLayout|Swizzle|ScaledBasis|smem_ptr_flag_bits)\s*(?=<)"):
        arguments = _arguments(s)
        try:
            return _made(found[1], arguments)
        except LayoutError as e:
            raise s.refused(e, start) from None
    if s.match(_RUNTIME):
        return Sym("?")
    if found := s.match(r"-?[0-9]{1,20}(?![0-9])"):
        return int(found[0])
    if s.match(r"Underscore(?![A-Za-z0-9_])|_(?![A-Za-z0-9_])"):
        return None
    s.fail("a type of CuTe's, such as Layout<Shape<_8,_64>,Stride<_64,_1>>")


def _arguments(s: Scanner) -> list[Any]:
    s.expect("<")
    s.deeper()
    found: list[Any] = []
    while not s.take(">"):
        found.append(_type(s))
        if not s.take(",") and not s.at(">"):
            s.fail("',' or '>'")
    s.depth -= 1
    return found


def _made(name: str, arguments: list[Any]) -> Any:
    ints = [a for a in arguments if isinstance(a, int)]
    if name == "Layout" and 1 <= len(arguments) <= 2:
        return Layout(*arguments)
    if name == "Swizzle" and len(ints) == len(arguments) and 2 <= len(ints) <= 3 and max(map(abs, ints)) < 1000:
        return Swizzle(ints[0], ints[1], ints[2] if len(ints) == 3 else ints[0])
    if name == "smem_ptr_flag_bits" and len(ints) == 1:
        return _ElementBits(ints[0])
    if name == "ScaledBasis" and len(arguments) > 1 and len(ints) >= len(arguments) - 1:
        if len(ints) > 9 or not all(0 <= mode < 1000 for mode in arguments[1:]):
            raise LayoutError("a ScaledBasis names modes below 1000, at most 8 deep")
        return Basis(arguments[0], tuple(arguments[1:]))
    if name == "ComposedLayout" and len(arguments) == 3 and isinstance(arguments[2], Layout):
        return _composed(*arguments)
    raise LayoutError(f"{name}<...> has {len(arguments)} arguments that do not make one")


def _composed(inner: Any, offset: Any, outer: Layout) -> ComposedLayout:
    if isinstance(offset, _ElementBits) and isinstance(inner, Swizzle):
        return ComposedLayout(Swizzle(inner.bits, inner.base, inner.shift, 8), 0, outer, int(offset))
    if (
        not isinstance(inner, (Swizzle, Layout))
        or isinstance(offset, (_ElementBits, Layout, Swizzle))
        or offset is None
    ):
        raise LayoutError("ComposedLayout<A,O,B> is of a swizzle or layout, an offset, and a layout")
    return ComposedLayout(inner, offset, outer)
