"""Text: what a table of digits says, as arithmetic that Python reads too.

A digit, or several that follow each other with steps that do, is `k // 16 % 4`; an xor of bits is
`((k // 8 % 2) ^ (m % 2))`; a swizzle of the whole sum is a function of its own:

>>> print(swizzle_text(Swizzle(3, 4, 3, unit_bits=8)))
x ^ (x >> 3 & 112)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from layoutlab.digits import ONE, Map, Term
from layoutlab.swizzle import Swizzle
from layoutlab.symbol import Sym


class Run(NamedTuple):
    """Digits of an axis that follow each other: index // weight % extent, and what one step adds to each map."""

    axis: str
    weight: int
    extent: int
    steps: tuple[int, ...]


def runs(axis: str, maps: Sequence[tuple[Map, str]]) -> list[Run]:
    """The digits of an axis of several maps of the same digits, put together where all of their steps follow.

    >>> from layoutlab.digits import strided
    >>> runs("k", [(strided("byte", k=[(16, 2), (4, 32), (2, 16384)]), "byte")])
    [Run(axis='k', weight=1, extent=64, steps=(2,)), Run(axis='k', weight=64, extent=2, steps=(16384,))]

    Digits that add nothing to any of them are left out.
    """
    found, weight = list[Run](), 1
    for radix in maps[0][0].axes[axis]:
        term = frozenset(((axis, weight, radix),))
        steps = tuple(m.rows[out].get(term, 0) for m, out in maps)
        last = found[-1] if found else None
        if last and last.weight * last.extent == weight and tuple(s * last.extent for s in last.steps) == steps:
            found[-1] = last._replace(extent=last.extent * radix)
        elif any(s != 0 for s in steps):
            found.append(Run(axis, weight, radix, steps))
        weight = weight * radix
    return found


def sum_of(m: Map, out: str) -> str:
    """An output of a map as a sum."""
    parts = list[tuple[int, str]]()
    for axis in m.axes:
        parts += [(run.steps[0], part_of(m, run)) for run in runs(axis, [(m, out)])]
    parts += [(step, bits_text(m, term)) for term, step in m.rows[out].items() if len(term) > 1]
    return parts_text(parts, m.rows[out].get(ONE, 0))


def parts_text(parts: Sequence[tuple[int, str]], constant: int) -> str:
    """A constant and multiples of parts as one sum.

    >>> parts_text([(128, "m"), (-2, "k % 4")], 16)
    '16 + 128*m - 2*(k % 4)'
    """
    text = _number(constant) if constant != 0 else ""
    for step, part in parts:
        minus = isinstance(step, int) and step < 0
        size = -step if minus else step
        alone = size == 1 and len(parts) == 1 and not text and not minus
        shown = part if alone or part.isidentifier() or part.startswith("((") else f"({part})"
        product = shown if size == 1 else f"{_factor(size)}*{shown}"
        text = f"{text} {'-' if minus else '+'} {product}" if text else f"{'-' if minus else ''}{product}"
    return text or "0"


def part_of(m: Map, run: Run) -> str:
    """index // weight % extent, without the parts that do nothing."""
    return _part(m.extents, run.axis, run.weight, run.extent)


def bits_text(m: Map, term: Term) -> str:
    """The digit, or the xor of bits, that a term is."""
    parts = [_part(m.extents, axis, weight, radix) for axis, weight, radix in sorted(term, key=str)]
    return parts[0] if len(parts) == 1 else "(" + " ^ ".join(f"({part})" for part in parts) + ")"


def swizzle_text(swizzle: Swizzle, name: str = "x") -> str:
    """A swizzle of a number, in its own unit."""
    mask = (1 << swizzle.bits) - 1 << max(swizzle.base, swizzle.base - swizzle.shift)
    move = f"{name} >> {swizzle.shift}" if swizzle.shift >= 0 else f"{name} << {-swizzle.shift}"
    return f"{name} ^ ({move} & {mask})"


def _part(extents: Mapping[str, int], axis: str, weight: int, extent: int) -> str:
    high = axis if weight == 1 else f"{axis} // {_number(weight, bracket=True)}"
    return high if weight * extent == extents[axis] else f"{high} % {_number(extent, bracket=True)}"


def polynomial(value: int | Sym) -> str:
    """A number, or a symbol's terms with the constant last.

    >>> polynomial(128 * Sym("n") - 16)
    '128*n - 16'
    """
    if not isinstance(value, Sym):
        return str(value)
    constant = dict(value.terms).get((), 0)
    text = str(value - constant).replace("+", " + ").replace("-", " - ")
    text = f"-{text[3:]}" if text.startswith(" - ") else text
    return text + (f" + {constant}" if constant > 0 else f" - {-constant}" if constant else "")


def _number(value: int | Sym, bracket: bool = False) -> str:
    text = polynomial(value)
    return f"({text})" if bracket and not text.isidentifier() and not text.isdecimal() else text


def _factor(value: int | Sym) -> str:
    return f"({polynomial(value)})" if isinstance(value, Sym) and len(value.terms) > 1 else str(value)
