"""Expressions: calls of layout functions on the texts of layouts, read and evaluated without Python's own evaluation.

>>> evaluate("composition((6,2):(8,2), (4,3):(3,1))")
((2,2),3):((24,2),8)
>>> evaluate("((6,2):(8,2))(3,1)"), evaluate("size(make_layout((4,2), stride=(2,1)))")
(26, 8)

    expression  operand o operand ...  then any number of (arguments) or [mode]
    operand     name(expression, ..., name=expression)  shape:stride  swizzle  number  symbol  _  (expression, ...)
                'name'  for the instructions and types that some functions take

A bracket around one layout only groups it; `(8:1,)`, with a comma, is a tuple of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import ceil_div, compatible, congruent, product, shape_div, weakly_congruent
from layoutlab.layout import Layout, make_identity_layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.text import parse
from layoutlab.text.grammar import Part, assembled, layout_of, read_part, read_term, take_o
from layoutlab.text.records import Tensor, tiler_text
from layoutlab.text.scanner import Scanner

_CALL = r"(?!U?[Ii]nt\d+\()([A-Za-z_][A-Za-z0-9_]*)(?=\()"
_QUOTED = r"'([^'\n]*)'|\"([^\"\n]*)\""
_KEYWORD = r"([A-Za-z_][A-Za-z0-9_]*)\s*="
_OTHER_PART = (
    r"cute::|(?:Composed)?Layout<|Swizzle\b|Sw?<|SW_|Layout\(|ComposedLayout\(|ArithTuple\(|\[|ptr\b|[gsrt]mem_"
)


def evaluate(text: str) -> Any:
    """The value of an expression.

    >>> evaluate("composition(4:2, 4:1")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: expected ',' or ')' at column 21, the text ends
      composition(4:2, 4:1
                          ^

    Raises LayoutError for text that is no expression, and what the functions raise; `read` does the first part only.
    """
    return read(text).value()


def value_of(text: str) -> Any:
    """What a text stands for, a printed thing or an expression: where a user may give either.

    >>> value_of("4:1"), value_of("coalesce((2,4):(1,2))"), value_of("((4,2):(2,1))[1]")
    (4:1, 8:1, 2:1)
    """
    called = Scanner(text).match(_CALL)
    if called is not None and called[1] in functions():
        return evaluate(text)
    try:
        return parse(text)
    except LayoutError as unread:
        try:
            return evaluate(text)
        except LayoutError:
            raise unread from None


def read(text: str) -> Node:
    """The expression, read and its names looked up but nothing computed; raises LayoutError with the place."""
    s = Scanner(text)
    if s.at_end():
        s.fail("an expression, such as composition((6,2):(8,2), (4,3):(3,1))")
    node = _expression(s)
    if not s.at_end():
        s.fail("the end of the expression")
    return node


_offered: dict[str, Callable[..., Any]] = {}


def offer(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Makes functions of the layers below this one callable in expressions."""
    _offered.update(functions)


def functions() -> dict[str, Callable[..., Any]]:
    """The functions that an expression may call, by name: the algebra's, those that make layouts, and of tuples.

    What `offer` was given comes on top of these.
    """
    from layoutlab import algebra

    public = {name: getattr(algebra, name) for name in algebra.__all__}
    calls = {name: f for name, f in public.items() if callable(f) and not isinstance(f, type)}
    more = (make_layout, make_identity_layout, congruent, weakly_congruent, compatible, ceil_div, shape_div, product)
    return dict(sorted(({f.__name__: f for f in more} | {"stride": _stride} | calls | _offered).items()))


def unit_assumed(node: Node) -> Swizzle | None:
    """A swizzle whose unit the text does not say and that the expression applies; None where there is none.

    >>> unit_assumed(read("(S<3,4,3> o 0 o (8,64):(64,1))(1,0)")), unit_assumed(read("S<3,4,3> o 0 o (8,64):(64,1)"))
    (S<3,4,3>, None)
    """
    inside: list[Node] = []
    if isinstance(node, Applied):
        inside = [node.target, *node.arguments]
    elif isinstance(node, Call):
        inside = [*node.arguments, *node.keywords.values()]
    elif isinstance(node, Tuple):
        inside = [*node.entries]
    elif isinstance(node, Mode):
        inside = [node.target]
    if isinstance(node, Applied) or (isinstance(node, Call) and node.name in _APPLYING):
        for part in inside:
            known = part.value()
            swizzle = known.inner if isinstance(known, ComposedLayout) else None
            if isinstance(swizzle, Swizzle) and swizzle.unit_bits is None and swizzle.bits:
                return swizzle
    return next((found for part in inside if (found := unit_assumed(part)) is not None), None)


_APPLYING = ("crd2idx", "compare", "functionally_equal", "as_digits", "max_common_vector")
"""The functions whose result is of the swizzled locations, and no layout that keeps the swizzle."""


# -- reading ----------------------------------------------------------------------------------------------------------


def _expression(s: Scanner) -> Node:
    start = s.skip()
    parts = [_operand(s)]
    while take_o(s):
        parts.append(_operand(s))
    if len(parts) == 1 and parts[0].element_bits is None:
        node = parts[0].node
    elif all(isinstance(p.node, Literal) for p in parts):
        node = Literal(_join(s, parts))
    else:
        node = Composed(s, tuple(parts))
    return _postfix(s, start, node)


def _postfix(s: Scanner, start: int, node: Node) -> Node:
    levels = 0
    while s.at("(") or s.at("["):
        s.deeper()
        levels += 1
        if s.take("["):
            modes = [_expression(s)]
            while s.take(","):
                modes.append(_expression(s))
            s.expect("]")
            node = Mode(node, tuple(modes))
        else:
            arguments, keywords = _arguments(s)
            if keywords:
                raise s.refused("a layout is called at a coordinate, without names", start)
            node = Applied(node, arguments)
    s.depth -= levels
    return node


@dataclass(frozen=True)
class _Operand:
    node: Node
    start: int
    element_bits: int | None = None


def _operand(s: Scanner) -> _Operand:
    start = s.skip()
    width = None
    if found := s.match(r"\[\s*([0-9]{1,9})\s*b\s*\]"):
        width = int(found[1])
    elif s.peek(_OTHER_PART):
        part = read_part(s)
        return _Operand(Literal(part.value), start, part.element_bits)
    shape = _term(s)
    if not s.take(":"):
        return _Operand(shape, start, width)
    stride = _term(s)
    if isinstance(shape, Literal) and isinstance(stride, Literal):
        return _Operand(Literal(layout_of(s, start, shape.value(), stride.value())), start, width)
    return _Operand(Strided(s, start, shape, stride), start, width)


def _term(s: Scanner) -> Node:
    start = s.skip()
    if found := s.match(_CALL):
        return _call(s, start, found[1])
    if s.at("("):
        return _tuple(s)
    if found := s.match(_QUOTED):
        return Literal(found[1] or found[2] or "")
    return Literal(read_term(s))


def _tuple(s: Scanner) -> Node:
    s.expect("(")
    s.deeper()
    entries: list[Node] = []
    comma = False
    while not s.take(")"):
        entries.append(_expression(s))
        comma = s.take(",")
        if not comma and not s.at(")"):
            s.fail("',' or ')'")
    s.depth -= 1
    node = Tuple(tuple(entries), grouping=len(entries) == 1 and not comma)
    return Literal(node.value()) if all(isinstance(e, Literal) for e in entries) else node


def _call(s: Scanner, start: int, name: str) -> Node:
    known = functions()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise s.refused(f"there is no function {name!r}{hint} at {s.place(start)}", start)
    s.deeper()
    arguments, keywords = _arguments(s)
    s.depth -= 1
    node = Call(name, known[name], arguments, keywords)
    if why := node.mismatch():
        raise s.refused(why, start)
    return node


def _arguments(s: Scanner) -> tuple[tuple[Node, ...], dict[str, Node]]:
    s.expect("(")
    arguments: list[Node] = []
    keywords: dict[str, Node] = {}
    while not s.take(")"):
        start = s.skip()
        if found := s.match(_KEYWORD):
            if found[1] in keywords:
                raise s.refused(f"{found[1]} is given twice", start)
            keywords[found[1]] = _expression(s)
        elif keywords:
            raise s.refused("an argument without a name stands after one with a name", start)
        else:
            arguments.append(_expression(s))
        if not s.take(",") and not s.at(")"):
            s.fail("',' or ')'")
    return tuple(arguments), keywords


def _join(s: Scanner, parts: list[_Operand]) -> Any:
    return assembled(s, [Part(p.node.value(), p.start, p.element_bits) for p in parts])


# -- evaluating -------------------------------------------------------------------------------------------------------


class Node:
    """A part of an expression; `value` computes it."""

    def value(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Literal(Node):
    """A value that the text spells."""

    known: Any

    def value(self) -> Any:
        return self.known


@dataclass(frozen=True)
class Tuple(Node):
    """A bracket: a tuple, or one layout grouped."""

    entries: tuple[Node, ...]
    grouping: bool

    def value(self) -> Any:
        found = tuple(e.value() for e in self.entries)
        return found[0] if self.grouping and isinstance(found[0], (Layout, ComposedLayout, Swizzle)) else found


@dataclass(frozen=True)
class Strided(Node):
    """shape:stride with something to compute inside."""

    scanner: Scanner
    start: int
    shape: Node
    stride: Node

    def value(self) -> Any:
        return layout_of(self.scanner, self.start, self.shape.value(), self.stride.value())


@dataclass(frozen=True)
class Composed(Node):
    """Operands joined by `o` with something to compute inside."""

    scanner: Scanner
    parts: tuple[_Operand, ...]

    def value(self) -> Any:
        return _join(self.scanner, list(self.parts))


@dataclass(frozen=True)
class Call(Node):
    """A function's result."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Node, ...]
    keywords: Mapping[str, Node]

    def mismatch(self) -> str | None:
        """Why the function does not take so many arguments or these names; None where it does."""
        from inspect import signature

        taken = signature(self.function)
        try:
            taken.bind(*self.arguments, **self.keywords)
        except TypeError as e:
            names = ", ".join(
                str(p).split(":")[0] if p.default is p.empty else p.name for p in taken.parameters.values()
            )
            return f"{self.name}({names}): {e}"
        return None

    def value(self) -> Any:
        arguments = [a.value() for a in self.arguments]
        keywords = {name: k.value() for name, k in self.keywords.items()}
        try:
            return self.function(*arguments, **keywords)
        except LayoutError:
            raise
        except (TypeError, AttributeError, IndexError, ValueError) as e:
            shown = ", ".join([*map(kind_of, arguments), *(f"{n}={kind_of(v)}" for n, v in keywords.items())])
            raise LayoutError(f"{self.name} does not take ({shown})") from e


@dataclass(frozen=True)
class Applied(Node):
    """A layout called at a coordinate, or sliced where the coordinate has a `_`."""

    target: Node
    arguments: tuple[Node, ...]

    def value(self) -> Any:
        target, coordinate = self.target.value(), tuple(a.value() for a in self.arguments)
        if isinstance(target, Tensor):
            target = target.swizzled_layout()
        if not isinstance(target, (Layout, ComposedLayout, Swizzle)):
            raise LayoutError(f"{tiler_text(target)} is {kind_of(target)}: only layouts and swizzles are called")
        if not coordinate:
            raise LayoutError(f"{target} was called without a coordinate")
        if _has_slice(coordinate) and not isinstance(target, Swizzle):
            return functions()["slice_"](target, coordinate if len(coordinate) > 1 else coordinate[0])
        try:
            return target(*coordinate)
        except TypeError as e:
            raise LayoutError(f"{tiler_text(coordinate)} is no coordinate of {target}") from e


@dataclass(frozen=True)
class Mode(Node):
    """A mode of a layout or a tuple, `L[1]` or `L[1,0]`."""

    target: Node
    modes: tuple[Node, ...]

    def value(self) -> Any:
        value = self.target.value()
        for mode in (m.value() for m in self.modes):
            if not isinstance(mode, int):
                raise LayoutError(f"{tiler_text(mode)} is no number of a mode")
            if isinstance(value, tuple) and not -len(value) <= mode < len(value):
                raise LayoutError(f"{tiler_text(value)} has {len(value)} entries, there is no entry {mode}")
            if not isinstance(value, (tuple, Layout, ComposedLayout)):
                raise LayoutError(f"{tiler_text(value)} is {kind_of(value)}: it has no modes")
            value = value[mode]
        return value


def kind_of(value: Any) -> str:
    """What a value is, in words for an error.

    >>> kind_of((4, 2)), kind_of(Layout(4)), kind_of(3)
    ('a tuple', 'a layout', 'a number')
    """
    kinds = {int: "a number", tuple: "a tuple", Layout: "a layout", ComposedLayout: "a composed layout"}
    return "'_'" if value is None else kinds.get(type(value), f"a {type(value).__name__}")


def _has_slice(coordinate: Any) -> bool:
    return any(map(_has_slice, coordinate)) if isinstance(coordinate, tuple) else coordinate is None


def _stride(layout: Layout) -> Any:
    """The strides of a layout."""
    return layout.stride
