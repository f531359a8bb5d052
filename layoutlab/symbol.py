"""Symbols: sizes and strides that are not known yet, as integer polynomials of named unknowns.

A layout that was traced with dynamic extents prints `?` where the number is known at run time only. Such an entry can
be carried, added, multiplied and divided exactly; whatever would need its value is refused with the reason.

>>> n = Sym("N")
>>> 4 * n + 8, (4 * n + 8) // 4
(8+4*N, 2+N)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layoutlab.errors import LayoutError

Monomial = tuple[str, ...]
"""The unknowns multiplied together, sorted; () is the constant."""


@dataclass(frozen=True, init=False, repr=False)
class Sym:
    """An integer polynomial of unknowns; `?` is an unknown without a name, a different one wherever it stands.

    >>> Sym("N") * Sym("M") == Sym("M") * Sym("N")
    True
    >>> Sym("N") % 4
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: the remainder of N by 4 is not known
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, name: str = "?", terms: Mapping[Monomial, int] | None = None) -> None:
        chosen = {(name,): 1} if terms is None else {m: c for m, c in terms.items() if c}
        object.__setattr__(self, "terms", tuple(sorted(chosen.items())))

    @property
    def unknowns(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    @property
    def anonymous(self) -> bool:
        """Whether some unknown has no name, so that two that print alike may differ."""
        return any(name.startswith("?") for name in self.unknowns)

    def at(self, **values: int) -> int | Sym:
        """The polynomial with numbers for some unknowns.

        >>> (4 * Sym("N") + 8).at(N=3)
        20
        """
        total: int | Sym = 0
        for monomial, coefficient in self.terms:
            product: int | Sym = coefficient
            for name in monomial:
                product = product * (values[name] if name in values else Sym(name))
            total = total + product
        return total

    def __add__(self, other: int | Sym) -> int | Sym:
        if self.anonymous and isinstance(other, Sym) and other.anonymous:
            return Sym()
        terms = dict(self.terms)
        for monomial, coefficient in _terms(other):
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _simplest(terms)

    __radd__ = __add__

    def __neg__(self) -> int | Sym:
        return self * -1

    def __sub__(self, other: int | Sym) -> int | Sym:
        return self + (-other)

    def __rsub__(self, other: int | Sym) -> int | Sym:
        return (-self) + other

    def __mul__(self, other: int | Sym) -> int | Sym:
        if self.anonymous and isinstance(other, Sym) and other.anonymous:
            return Sym()
        terms: dict[Monomial, int] = {}
        for mine, a in self.terms:
            for theirs, b in _terms(other):
                monomial = tuple(sorted(mine + theirs))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _simplest(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: int | Sym) -> int | Sym:
        """The exact quotient; refuses where it is not known to be one."""
        if isinstance(other, Sym) and other.anonymous:
            raise LayoutError(f"the quotient of {self} by {other} is not known")
        if self == other:
            return 1
        divisor = _terms(other)
        if len(divisor) != 1:
            raise LayoutError(f"the quotient of {self} by {other} is not known")
        (by, coefficient), *_ = divisor
        terms: dict[Monomial, int] = {}
        for monomial, c in self.terms:
            left = list(monomial)
            for name in by:
                if name not in left:
                    raise LayoutError(f"the quotient of {self} by {other} is not known")
                left.remove(name)
            if not coefficient or c % coefficient:
                raise LayoutError(f"the quotient of {self} by {other} is not known")
            terms[tuple(left)] = c // coefficient
        return _simplest(terms)

    def __rfloordiv__(self, other: int) -> int:
        if other == 0:
            return 0
        raise LayoutError(f"the quotient of {other} by {self} is not known")

    def __mod__(self, other: int | Sym) -> int:
        try:
            _ = self // other
        except LayoutError:
            raise LayoutError(f"the remainder of {self} by {other} is not known") from None
        return 0

    def __rmod__(self, other: int) -> int:
        if other == 0:
            return 0
        raise LayoutError(f"the remainder of {other} by {self} is not known")

    def __str__(self) -> str:
        def text(monomial: Monomial, c: int) -> str:
            names = "*".join(monomial)
            return str(c) if not monomial else names if c == 1 else f"-{names}" if c == -1 else f"{c}*{names}"

        return "+".join(text(m, c) for m, c in self.terms).replace("+-", "-")

    __repr__ = __str__


def known_equal(a: int | Sym, b: int | Sym) -> bool:
    """Whether two entries are the same number whatever the unknowns are; two that print `?` are not known to be.

    >>> known_equal(2 * Sym("N"), Sym("N") * 2), known_equal(Sym("?"), Sym("?"))
    (True, False)
    """
    return a == b and not (isinstance(a, Sym) and a.anonymous)


def _terms(value: int | Sym) -> tuple[tuple[Monomial, int], ...]:
    return value.terms if isinstance(value, Sym) else (((), value),)


def _simplest(terms: Mapping[Monomial, int]) -> int | Sym:
    kept = {m: c for m, c in terms.items() if c}
    return kept.get((), 0) if not kept.keys() - {()} else Sym(terms=kept)
