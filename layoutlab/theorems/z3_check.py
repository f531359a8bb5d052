"""Another prover: z3 reads the printed report and looks for a (t, v) whose write and read differ.

Nothing but the text is given to it: the definitions, what is said of the symbols, and the conditions. Numbers are bits
to it, so it needs nothing of digits, tables or polynomials.

>>> text = '''
...   for 0 <= t < 128, 0 <= v < 64
...   m(t, v) = t
...   k(t, v) = v
...   write(t, v) = 128*t + 2*v
...   read(m, k)  = swizzle(128*m + 2*k)
...   swizzle(x)  = x ^ (x >> 3 & 112)
... '''
>>> found = ask(text)
>>> found.answer, found.differs
('sat', True)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.formula.reading import PLACES, PYTHON, Definition, Definitions, Operators, read, read_definitions

SECONDS = 60
"""How long z3 may look for a difference."""
NEAR = 16
"""Symbols without a condition that bounds them are looked at up to so much above their least value."""
SPARE_BITS = 2

_FOR = re.compile(r"^\s*for (0 <= .*)$")
_RANGE = re.compile(r"0 <= (\w+) < (.+)$")
_LEAST = re.compile(r"^\s*(\w+) = (.*), (\w+) >= (\d+)$")
_IF = re.compile(r"^\s*if (.+) <= (.+?)\s*(?:#.*)?$")
_OWNER = re.compile(r"^(?!write|read|swizzle|location)")


@dataclass(frozen=True)
class Found:
    """What z3 answered: `unsat`, no (t, v) differs; `sat`, this one does; `unknown`, it ran out of time; `none`, no
    (t, v) and no symbols meet the bounds and conditions, so that nothing is stated."""

    answer: str
    at: Mapping[str, int]
    seconds: float
    bounded: bool
    """Whether symbols were looked at only near their least values, since no condition bounds them."""

    @property
    def differs(self) -> bool:
        """Whether there is a (t, v) that is written elsewhere than it is read."""
        return self.answer == "sat"

    def __str__(self) -> str:
        took = f"{self.seconds:.1f} s"
        if self.answer == "unsat":
            near = f", of symbols up to {NEAR} above their least values" if self.bounded else ""
            return f"z3: no (t, v) is written elsewhere than it is read{near} ({took})"
        if self.answer == "sat":
            return f"z3: written elsewhere than read at {', '.join(f'{n}={x}' for n, x in self.at.items())} ({took})"
        if self.answer == "none":
            return f"z3: no (t, v) of any symbols meets the conditions, so nothing is stated ({took})"
        return f"z3: no answer in {took}"


@dataclass(frozen=True)
class Stated:
    """What a report says of one family: the definitions, and the bounds of everything that is a number."""

    definitions: Definitions
    ends: Mapping[str, ast.expr]  # t < 128*n_m
    least: Mapping[str, int]
    settings: Mapping[str, ast.expr]  # kv = 64*n_kv
    conditions: tuple[tuple[ast.expr, ast.expr], ...]
    """What is at most what; nothing is taken away on either side."""

    @property
    def owner(self) -> list[Definition]:
        """The coordinates of (t, v), in the order of the reader's."""
        return [d for name, d in self.definitions.found.items() if not PLACES.fullmatch(name)]

    @property
    def symbols(self) -> dict[str, int]:
        """The symbols that occur, and the least value of each."""
        bodies = [d.body for d in self.definitions.found.values()]
        names = set().union(*map(_names, [*bodies, *self.ends.values()]))
        asked = set().union(*(_names(side) for sides in self.conditions for side in sides))
        names |= set().union(*(_names(body) for name, body in self.settings.items() if name in asked)) | asked
        return {name: least for name, least in self.least.items() if name in names}

    def valued(self, numbers: Mapping[str, Any], operators: Operators = PYTHON) -> dict[str, Any]:
        """The symbols, and the settings that they stand for."""
        known = {
            name: self.definitions.evaluated(body, numbers, operators)
            for name, body in self.settings.items()
            if _names(body) <= numbers.keys()
        }
        return {**known, **numbers}

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """The names of what is written and read, output by output."""
        names = self.definitions.found
        return [(n, n.replace("write", "read", 1)) for n in names if PLACES.fullmatch(n) and n.startswith("write")]


def stated(text: str) -> list[Stated]:
    """The families of a report; refuses a text without formulas."""
    found = list[Stated]()
    least, settings, conditions = dict[str, int](), dict[str, ast.expr](), list[tuple[ast.expr, ast.expr]]()
    block, ends = list[str](), dict[str, ast.expr]()

    def close() -> None:
        if ends:
            definitions = read_definitions("\n".join(block))
            found.append(Stated(definitions, dict(ends), dict(least), dict(settings), tuple(conditions)))
            for gathered in (least, settings, conditions, block, ends):
                gathered.clear()

    for line in text.splitlines():
        if line.startswith("where "):
            close()
        if match := _LEAST.match(line):
            least[match[3]] = int(match[4])
            settings[match[1]] = read(match[2])
        elif match := _FOR.match(line):
            parts = [_RANGE.match(part) for part in match[1].split(", ")]
            ends.update((p[1], read(p[2])) for p in parts if p)
        elif match := _IF.match(line):
            conditions.append((read(match[1]), read(match[2])))
        block.append(line)
    close()
    if not found:
        raise LayoutError("the report has no formulas that another prover could be given")
    return found


def ask(text: str, **at: int) -> Found:
    """z3's answer about a report of one family; `at` fixes some of the numbers."""
    (one,) = stated(text)
    return answer(one, **at)


def answer(one: Stated, **at: int) -> Found:
    """z3's answer: is there a (t, v) that is written elsewhere than it is read?"""
    z3 = _z3()
    start = perf_counter()
    bounds, bounded = _bounds(one)
    width = _width(one, bounds)
    numbers = {
        name: z3.ZeroExt(width - bits, z3.BitVec(name, bits))
        for name, bits in ((name, max(1, high.bit_length())) for name, high in bounds.items())
    }
    operators = _bits(z3)

    def value(node: ast.expr) -> Any:
        return one.definitions.evaluated(node, numbers, operators)

    solver = z3.Solver()
    solver.set("timeout", SECONDS * 1000)
    for name, least in one.symbols.items():
        solver.add(z3.UGE(numbers[name], least), z3.ULE(numbers[name], bounds[name]))
    for name, end in one.ends.items():
        solver.add(z3.ULT(numbers[name], value(end)))
    settings = one.valued(numbers, operators)
    for sides in one.conditions:
        left, right = (_term(z3, one.definitions.evaluated(side, settings, operators), width) for side in sides)
        solver.add(z3.ULE(left, right))
    for name, number in at.items():
        solver.add(numbers[name] == number)
    if str(solver.check()) == "unsat":
        return Found("none", {}, perf_counter() - start, bounded)
    coordinates = [one.definitions(d.name, operators, **numbers) for d in one.owner]
    different = list[Any]()
    for writes, reads in one.outputs:
        asked = one.definitions.found[reads]
        given = dict(zip(asked.parameters, coordinates, strict=True))
        here = one.definitions(writes, operators, **numbers)
        there = one.definitions(reads, operators, **{**numbers, **given})
        different.append(_term(z3, here, width) != _term(z3, there, width))
    solver.add(z3.Or(different))
    said = str(solver.check())
    model = solver.model() if said == "sat" else None
    where = {name: model.eval(term, model_completion=True).as_long() for name, term in numbers.items()} if model else {}
    return Found(said, where, perf_counter() - start, bounded)


def _z3() -> Any:
    try:
        import z3
    except ImportError:
        raise LayoutError("--check z3 needs z3: pip install 'layoutlab[z3]'") from None
    return z3


def _term(z3: Any, value: Any, width: int) -> Any:
    return z3.BitVecVal(value, width) if isinstance(value, int) else value


def _bounds(one: Stated) -> tuple[dict[str, int], bool]:
    """The highest value of everything: what a condition allows, or some above the least; and whether it was that.

    Where a symbol is a factor of a term that only adds, and the other factors are at least 1, the term's limit is one
    of the symbol too.
    """
    bounds, near = dict[str, int](), False
    for name, least in one.symbols.items():
        allowed = [
            limit.value // factor
            for node, limit in one.conditions
            if isinstance(limit, ast.Constant) and isinstance(limit.value, int)
            for factor in _factors_of(one, node, name)
        ]
        near = near or not allowed
        bounds[name] = min(allowed) if allowed else least + NEAR
    highest = {name: one.definitions.evaluated(end, bounds, PYTHON) for name, end in one.ends.items()}
    return {**bounds, **highest}, near


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _factors_of(one: Stated, node: ast.expr, name: str) -> list[int]:
    """How many times the symbol a sum is at least; nothing where it has none of it."""

    def at(number: int) -> int:
        return int(one.definitions.evaluated(node, one.valued({**one.least, name: number}), PYTHON))

    more = at(1) - at(0)  # a symbol is a factor of a term once at most, and the others are at least so great
    return [more] if more >= 1 else []


def _width(one: Stated, bounds: Mapping[str, int]) -> int:
    """Bits enough for the greatest number that any part of the formulas can be."""
    highest, operators = 1, {**PYTHON, ast.Sub: lambda a, b: a, ast.Mod: lambda a, b: a, ast.FloorDiv: lambda a, b: a}

    def noted(operation: Callable[..., int]) -> Callable[..., int]:
        def call(*values: int) -> int:
            nonlocal highest
            result = operation(*values)
            highest = max(highest, result, *values)
            return result

        return call

    grown = {sign: noted(operation) for sign, operation in {**operators, **_GROWING}.items()}
    coordinates = [one.definitions(d.name, grown, **bounds) for d in one.owner]
    for writes, reads in one.outputs:
        one.definitions(writes, grown, **bounds)
        given = dict(zip(one.definitions.found[reads].parameters, coordinates, strict=True))
        one.definitions(reads, grown, **{**bounds, **given})
    for node in (*one.ends.values(), *(side for sides in one.conditions for side in sides)):
        highest = max(highest, one.definitions.evaluated(node, one.valued(bounds, grown), grown))
    return max(highest, *bounds.values()).bit_length() + SPARE_BITS


_GROWING: Operators = {ast.BitXor: lambda a, b: a + b, ast.BitAnd: lambda a, b: b, ast.USub: lambda a: a}
"""What the greatest result of an operation on numbers up to these is at most."""


def _bits(z3: Any) -> Operators:
    """What each sign means for bits; a division by a power of two is a shift."""

    def divided(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return z3.LShR(a, b.bit_length() - 1) if isinstance(b, int) and b & b - 1 == 0 else z3.UDiv(a, b)

    def remainder(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return a & b - 1 if isinstance(b, int) and b & b - 1 == 0 else z3.URem(a, b)

    def shifted(a: Any, b: int) -> Any:
        return a >> b if isinstance(a, int) else z3.LShR(a, b)

    return {**PYTHON, ast.FloorDiv: divided, ast.Mod: remainder, ast.RShift: shifted}
