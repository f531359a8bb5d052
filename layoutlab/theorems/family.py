"""Family: the values of a handoff's symbolic settings for which one proof holds, and how all of them are shared out.

A setting that may be any multiple of 64 is first `kv = 64*n_kv`, n_kv being any number from 1 on. Where the proof needs
a remainder that differs among these (is a row of 64 n_kv bytes a whole number of 128?), the family is split into its
even and its odd half, `128*n_kv` and `128*n_kv + 64`, and each is proved by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as every
from math import lcm
from typing import Any

from layoutlab.formula import polynomial
from layoutlab.symbol import Condition, Monomial, Sym


@dataclass(frozen=True)
class Residue:
    """The values of one setting: remainder + unit * n, for every n from the least on that gives at least `first`.

    >>> kv = Residue("kv", 128, 64, first=64)
    >>> kv.value(), kv.least, str(kv), [str(half) for half in kv.halves()]
    (64+128*n_kv, 0, 'kv % 128 == 64', ['kv % 256 == 64', 'kv % 256 == 192'])
    """

    name: str
    unit: int
    remainder: int
    first: int

    @property
    def unknown(self) -> str:
        """The name of n."""
        return f"n_{self.name}"

    @property
    def least(self) -> int:
        """The least n."""
        return max(0, -(-(self.first - self.remainder) // self.unit))

    def value(self) -> int | Sym:
        """The setting as a polynomial of n."""
        return self.unit * Sym(self.unknown) + self.remainder

    def at(self, n: int) -> int:
        """The setting for one n."""
        return self.unit * n + self.remainder

    def halves(self) -> tuple[Residue, Residue]:
        """The even n and the odd n."""
        both = (self.remainder, self.remainder + self.unit)
        first, second = (Residue(self.name, 2 * self.unit, r, self.first) for r in both)
        return first, second

    def __str__(self) -> str:
        return f"{self.name} % {self.unit} == {self.remainder}"


@dataclass(frozen=True)
class Family:
    """Values for each symbolic setting."""

    residues: Mapping[str, Residue]

    @property
    def least(self) -> dict[str, int]:
        """The least value of each unknown."""
        return {r.unknown: r.least for r in self.residues.values()}

    def values(self) -> dict[str, int | Sym]:
        """The settings as symbols."""
        return {name: r.value() for name, r in self.residues.items()}

    def split(self, unknowns: frozenset[str]) -> list[Family]:
        """Two halves by the first of these unknowns; nothing where none is of a setting."""
        for name, residue in self.residues.items():
            if residue.unknown in unknowns:
                return [Family({**self.residues, name: half}) for half in residue.halves()]
        return []

    def instances(self, more: int) -> Iterator[dict[str, int]]:
        """Numbers for the unknowns, smallest sum first, up to so much more than the least of all."""
        for total in range(more + 1):
            for steps in every(range(total + 1), repeat=len(self.residues)):
                if sum(steps) == total:
                    yield {r.unknown: r.least + s for r, s in zip(self.residues.values(), steps, strict=True)}

    def settings(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """The settings for such numbers."""
        return {name: r.at(numbers[r.unknown]) for name, r in self.residues.items()}

    def spoken(self, condition: Condition) -> str:
        """A condition in the settings themselves, without fractions, and with nothing taken away.

        >>> kv = Family({"kv": Residue("kv", 128, 64, first=64)})
        >>> kv.spoken(Condition(16384 * Sym("n_kv") + 8192, 233472, "")), kv.spoken(Condition(-Sym("n_kv"), 0, ""))
        ('128*kv <= 233472', '64 <= kv')
        """
        difference = condition.value - condition.limit
        total: dict[Monomial, Fraction] = {}
        for monomial, coefficient in difference.terms if isinstance(difference, Sym) else (((), difference),):
            product: dict[Monomial, Fraction] = {(): Fraction(coefficient)}
            for unknown in monomial:
                r = next(r for r in self.residues.values() if r.unknown == unknown)  # n = (setting - remainder) / unit
                factor: dict[Monomial, Fraction] = {(r.name,): Fraction(1, r.unit), (): Fraction(-r.remainder, r.unit)}
                product = _product(product, factor)
            for names, c in product.items():
                total[names] = total.get(names, Fraction(0)) + c
        scale = lcm(*(c.denominator for c in total.values()))
        sides = [{m: int(sign * c * scale) for m, c in total.items() if sign * c > 0} for sign in (1, -1)]
        return " <= ".join(
            polynomial(Sym(terms=side)) if side.keys() - {()} else str(side.get((), 0)) for side in sides
        )

    def json(self) -> dict[str, Any]:
        """By setting: the unit, the remainder and the least value."""
        return {
            name: {"multiple_of": r.unit, "remainder": r.remainder, "least": r.at(r.least)}
            for name, r in self.residues.items()
        }

    def __str__(self) -> str:
        return ", ".join(map(str, self.residues.values()))


def _product(a: Mapping[Monomial, Fraction], b: Mapping[Monomial, Fraction]) -> dict[Monomial, Fraction]:
    found: dict[Monomial, Fraction] = {}
    for mine, c in a.items():
        for theirs, d in b.items():
            names = tuple(sorted(mine + theirs))
            found[names] = found.get(names, Fraction(0)) + c * d
    return found
