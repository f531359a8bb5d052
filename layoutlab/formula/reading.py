"""Reading: printed formulas taken apart again, to be computed on numbers, arrays or another prover's terms.

What is computed is what was printed: nothing of the tables that it was printed from comes along.

>>> found = read_definitions('''
...     write(t, v) = swizzle(128*t + 2*(v % 64) + 16384*(v // 64))
...     swizzle(x)  = x ^ (x >> 3 & 112)
... ''')
>>> found("write", t=1, v=0)
144
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from layoutlab.errors import LayoutError

Operators = Mapping[type[ast.AST], Callable[..., Any]]

PYTHON: Operators = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.RShift: operator.rshift,
    ast.LShift: operator.lshift,
    ast.USub: operator.neg,
}
"""What each sign means for numbers and for numpy arrays."""

PLACES = re.compile(r"(write|read|location)(_\w+)?|swizzle(_[wr])?")
"""Names of formulas of places, and of what they are made of: every other one is a coordinate's."""

_LINE = re.compile(r"^\s*([A-Za-z_]\w*)\(([\w, ]*)\)\s*=\s*(.*?)\s*(?:#.*)?$")


@dataclass(frozen=True)
class Definition:
    """name(parameters) = body."""

    name: str
    parameters: tuple[str, ...]
    body: ast.expr

    @property
    def unknowns(self) -> frozenset[str]:
        """The names in the body that are no parameters and no functions: symbols."""
        called = {id(node.func) for node in ast.walk(self.body) if isinstance(node, ast.Call)}
        names = {node.id for node in ast.walk(self.body) if isinstance(node, ast.Name) and id(node) not in called}
        return frozenset(names - set(self.parameters))


@dataclass(frozen=True)
class Definitions:
    """Several definitions, which may call each other."""

    found: Mapping[str, Definition]

    def __call__(self, name: str, operators: Operators = PYTHON, /, **values: Any) -> Any:
        """The value of a definition: `values` for its parameters and for the symbols."""
        if name not in self.found:
            raise LayoutError(f"no formula is called {name}: there are {', '.join(self.found)}")
        return self.evaluated(self.found[name].body, values, operators)

    def evaluated(self, node: ast.expr, values: Mapping[str, Any], operators: Operators) -> Any:
        """The value of an expression that may call the definitions."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in operators:
            return operators[type(node.op)](
                self.evaluated(node.left, values, operators), self.evaluated(node.right, values, operators)
            )
        if isinstance(node, ast.UnaryOp) and type(node.op) in operators:
            return operators[type(node.op)](self.evaluated(node.operand, values, operators))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.found:
            called = self.found[node.func.id]
            given = [self.evaluated(argument, values, operators) for argument in node.args]
            return self(called.name, operators, **{**values, **dict(zip(called.parameters, given, strict=True))})
        raise LayoutError(f"{ast.unparse(node)} is no part of a formula, or has no value")


def read_definitions(text: str) -> Definitions:
    """Every line `name(a, b) = expression` of a text; other lines are passed over.

    Raises LayoutError for a definition whose right side is no expression.
    """
    found = dict[str, Definition]()
    for line in text.splitlines():
        if match := _LINE.match(line):
            name, parameters, body = match.groups()
            found[name] = Definition(name, tuple(p.strip() for p in parameters.split(",") if p.strip()), read(body))
    return Definitions(found)


def read(text: str) -> ast.expr:
    """One expression.

    >>> ast.unparse(read("2*(k % 64)"))
    '2 * (k % 64)'
    """
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise LayoutError(f"{text} is no formula: {error.msg}") from None
