"""Maps of bits, as linear algebra over {0, 1}: which indices share a location, which locations are reached.

Where every digit is a bit and no two steps share a bit, each index bit flips a fixed set of output bits:

>>> from layoutlab.digits import strided
>>> swizzled = strided("byte", m=[(8, 128)], k=[(8, 16)]).swizzled("byte", 3, 4, 3)
>>> view = Linear.of(swizzled)
>>> [(name, f"{vector:b}") for (name, _, _), vector in zip(view.digits[2:4], view.vectors[2:4])]  # k[4] and m[1]
[('k', '1000000'), ('m', '10010000')]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from layoutlab.digits import Digit, Map
from layoutlab.errors import LayoutError

WIDTH = 64
"""Bits kept for one output."""


@dataclass(frozen=True)
class Linear:
    """index bits -> output bits: the constant, and what each digit flips, the fastest digit first."""

    axes: tuple[str, ...]
    digits: tuple[Digit, ...]
    vectors: tuple[int, ...]
    constant: int

    @classmethod
    def of(cls, m: Map) -> Linear:
        """The view of a map; raises LayoutError where it has none: a digit that is no bit, or steps that share bits."""
        digits = tuple(reversed(m.digits))
        flips, constant = dict.fromkeys(digits, 0), 0
        if other := next((d for d in digits if d[2] != 2), None):
            raise LayoutError(f"{other[0]} has a digit of {other[2]} values, which is no bit")
        for shift, (out, row) in enumerate(m.rows.items()):
            base, taken, inverted = row.get(frozenset(), 0), 0, 0
            for term, step in row.items():
                if not term:
                    continue
                size = abs(step)
                if taken & size:
                    raise LayoutError(f"{out}: the step {_amount(m, out, step)} shares a bit with another one")
                taken |= size
                if step < 0:  # base - step * x is (base - step) + step * (1 - x)
                    base, inverted = base + step, inverted | size
                for d in term:
                    flips[d] ^= size << WIDTH * shift
            if base < 0 or base & taken or (base | taken) >> WIDTH:
                raise LayoutError(f"{out}: the base {_amount(m, out, base)} carries into the steps")
            constant ^= (base ^ inverted) << WIDTH * shift
        return cls(tuple(m.axes), digits, tuple(flips[d] for d in digits), constant)

    def index(self, mask: int) -> dict[str, int]:
        """The index whose bits, the fastest digit lowest, are `mask`."""
        at = dict.fromkeys(self.axes, 0)
        for i, (axis, weight, _) in enumerate(self.digits):
            at[axis] += weight * (mask >> i & 1)
        return at

    def dependencies(self) -> Iterator[int]:
        """A basis of the index bits that flip nothing together; each mask's top bit is as low as can be."""
        span = Span()
        for i, vector in enumerate(self.vectors):
            if combination := span.add(vector, 1 << i):
                yield combination

    def flipped(self, mask: int) -> int:
        """The output bits that flipping these index bits flips."""
        out = 0
        for i, vector in enumerate(self.vectors):
            out ^= vector if mask >> i & 1 else 0
        return out

    def rank(self) -> int:
        """The number of independent vectors: 2**rank different outputs are reached."""
        return len(self.vectors) - sum(1 for _ in self.dependencies())


def _amount(m: Map, out: str, count: int) -> str:
    """A step or base with its unit: columns of a lane or bytes, where bits are counted and they are whole ones."""
    if out != "bit":
        return str(count)
    size, word = (32, "column") if "lane" in m.rows else (8, "byte")
    if count % size:
        return f"of {count} bits"
    return f"of {count // size} {word}{'s' if abs(count) != size else ''}"


class Span:
    """Vectors over {0, 1}, each kept with the indices that it came from.

    >>> span = Span()
    >>> span.add(0b011, 1), span.add(0b110, 2), span.add(0b101, 4)  # the third is the sum of the two
    (0, 0, 7)
    """

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, int]] = {}  # top bit -> vector, indices

    def reduce(self, vector: int, indices: int = 0) -> tuple[int, int]:
        """What is left of a vector, and the indices used."""
        while vector and (row := self._rows.get(vector.bit_length())):
            vector, indices = vector ^ row[0], indices ^ row[1]
        return vector, indices

    def add(self, vector: int, indices: int) -> int:
        """Takes a vector in; when it is a sum of those there already, the indices that sum to nothing."""
        vector, indices = self.reduce(vector, indices)
        if not vector:
            return indices
        self._rows[vector.bit_length()] = (vector, indices)
        return 0


def first_outside(reached: Linear, wanted: Linear) -> dict[str, int] | None:
    """The first index, in counting order, whose `wanted` output is none of the `reached` ones; None when all are."""
    span = Span()
    for i, vector in enumerate(reached.vectors):
        span.add(vector, 1 << i)
    if span.reduce(wanted.constant ^ reached.constant)[0]:
        return wanted.index(0)
    for i, vector in enumerate(wanted.vectors):
        if span.reduce(vector)[0]:
            return wanted.index(1 << i)
    return None


def equal_points(a: Linear, b: Linear) -> int:
    """At how many indices the two, of the same digits, give the same output."""
    vectors = tuple(x ^ y for x, y in zip(a.vectors, b.vectors, strict=True))
    difference = Linear(a.axes, a.digits, vectors, a.constant ^ b.constant)
    span = Span()
    for i, vector in enumerate(difference.vectors):
        span.add(vector, 1 << i)
    return 0 if span.reduce(difference.constant)[0] else 1 << len(a.digits) - difference.rank()
