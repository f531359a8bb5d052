"""Family: the values of a handoff's symbolic settings for which one proof holds, and how all of them are shared out.

A setting that may be any multiple of 64 is first `kv = 64*n_kv`, n_kv being any number from 1 on. Where the proof needs
a remainder that differs among these (is a row of 64 n_kv bytes a whole number of 128?), the family is split into its
even and its odd half, `128*n_kv` and `128*n_kv + 64`, and each is proved by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from layoutlab.symbol import Sym


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
            for steps in product(range(total + 1), repeat=len(self.residues)):
                if sum(steps) == total:
                    yield {r.unknown: r.least + s for r, s in zip(self.residues.values(), steps, strict=True)}

    def settings(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """The settings for such numbers."""
        return {name: r.at(numbers[r.unknown]) for name, r in self.residues.items()}

    def json(self) -> dict[str, Any]:
        """By setting: the unit, the remainder and the least value."""
        return {
            name: {"multiple_of": r.unit, "remainder": r.remainder, "least": r.at(r.least)}
            for name, r in self.residues.items()
        }

    def __str__(self) -> str:
        return ", ".join(map(str, self.residues.values()))
