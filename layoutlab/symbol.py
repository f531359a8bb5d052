"""Symbols: sizes and strides that are not known yet, as integer polynomials of named unknowns.

A layout that was traced with dynamic extents prints `?` where the number is known at run time only. Such an entry can
be carried, added, multiplied and divided exactly; whatever would need its value is refused with the reason.

>>> n = Sym("N")
>>> 4 * n + 8, (4 * n + 8) // 4
(8+4*N, 2+N)

Where it is known how small the unknowns may be, two polynomials are compared for all values at once, or refused:

>>> with assuming(N=1):
...     64 * n >= 64, n < 64 * n + 1
(True, True)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import gcd
from numbers import Number
from types import FrameType
from typing import NamedTuple, TypeVar

from layoutlab.errors import LayoutError


class UnknownRemainder(LayoutError):
    """A remainder that differs among the values of its unknowns: it is known again for each residue of them."""

    def __init__(self, value: Sym, divisor: int | Sym, what: str = "remainder") -> None:
        super().__init__(f"the {what} of {value} by {divisor} is not known")
        adding = [m for m, c in value.terms if not isinstance(divisor, int) or not divisor or c % divisor]
        self.unknowns = frozenset(name for monomial in adding for name in monomial)
        """The unknowns on which the remainder depends."""


Monomial = tuple[str, ...]
"""The unknowns multiplied together, sorted; () is the constant."""


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Sym:
    """An integer polynomial of unknowns; `?` is an unknown without a name, a different one wherever it stands.

    >>> Sym("N") * Sym("M") == Sym("M") * Sym("N")
    True
    >>> Sym("N") % 4
    Traceback (most recent call last):
    layoutlab.symbol.UnknownRemainder: the remainder of N by 4 is not known
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
        if not isinstance(other, (int, Sym)):
            return NotImplemented
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
        if not isinstance(other, (int, Sym)):
            return NotImplemented
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
        """The exact quotient; refuses where it is not known to be one.

        Of all values, as `assuming` has them, it is rounded down as that of numbers is, and refused where what is
        rounded away differs among them: (8 + 64 N) // 16 is 4 N.
        """
        if isinstance(other, int) and other and _ASSUMED.get() is not None:
            if any(c % other for m, c in self.terms if m):
                raise _refused(UnknownRemainder(self, other, "quotient"))
            return _simplest({m: c // other for m, c in self.terms})
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
        """The remainder, where it is the same for all values: (8 + 64 N) % 16 is 8."""
        if isinstance(other, int) and other and all(c % other == 0 for m, c in self.terms if m):
            return dict(self.terms).get((), 0) % other
        try:
            _ = self // other
        except LayoutError:
            raise _refused(UnknownRemainder(self, other)) from None
        return 0

    def __rmod__(self, other: int) -> int:
        if other == 0:
            return 0
        raise LayoutError(f"the remainder of {other} by {self} is not known")

    # -- questions that code may ask ----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Whether the two are the same polynomial.

        Code that branches on it has to know for all values: where `assuming` says what they are, a handoff that asks
        whether 64*n is 64 is refused. This library's own modules ask for the polynomial and are right either way.
        """
        if not isinstance(other, (int, Sym)):
            if isinstance(other, Number) and _ASSUMED.get() is not None and not _asked_by_library():
                why = f"whether {self} is {other} is not known: a symbol is compared with whole numbers"
                raise _refused(LayoutError(why))
            return NotImplemented
        if isinstance(other, Sym) and self.terms == other.terms:
            return True
        if _ASSUMED.get() is not None and not _asked_by_library() and _may_be_zero(self - other):
            why = f"whether {self} is {other} is not known: code for all values cannot branch on it"
            raise _refused(LayoutError(why))
        return False

    def __hash__(self) -> int:
        """Of the polynomial; refused where code asks a dict or a set for it, which would miss the number that it is."""
        if _ASSUMED.get() is not None and not _asked_by_library():
            why = f"{self} is looked up among keys, and which of them it is differs: code for all values cannot do so"
            raise _refused(LayoutError(why))
        return hash(self.terms)

    def __bool__(self) -> bool:
        if _ASSUMED.get() is not None and not _asked_by_library() and _may_be_zero(self):
            why = f"whether {self} is 0 is not known: code for all values cannot branch on it"
            raise _refused(LayoutError(why))
        return True

    def __index__(self) -> int:
        why = f"{self} is a symbol and a number is needed here: where its count makes a list, give a layout instead, "
        raise _refused(LayoutError(why + f'as starts_bytes="(4,{self}):(32,16384)"'))

    # -- order --------------------------------------------------------------------------------------------------------

    def __lt__(self, other: int | Sym) -> bool:
        return _less(self, other, 1) if isinstance(other, (int, Sym)) else NotImplemented

    def __le__(self, other: int | Sym) -> bool:
        return _less(self, other, 0) if isinstance(other, (int, Sym)) else NotImplemented

    def __gt__(self, other: int | Sym) -> bool:
        return _less(other, self, 1) if isinstance(other, (int, Sym)) else NotImplemented

    def __ge__(self, other: int | Sym) -> bool:
        return _less(other, self, 0) if isinstance(other, (int, Sym)) else NotImplemented

    def __abs__(self) -> int | Sym:
        return self if self >= 0 else -self

    @property
    def content(self) -> int:
        """The greatest number that divides every coefficient."""
        return gcd(*(c for _, c in self.terms))

    def __str__(self) -> str:
        def text(monomial: Monomial, c: int) -> str:
            names = "*".join(monomial)
            return str(c) if not monomial else names if c == 1 else f"-{names}" if c == -1 else f"{c}*{names}"

        return "+".join(text(m, c) for m, c in self.terms).replace("+-", "-")

    __repr__ = __str__


def known(value: int | Sym) -> bool:
    """Whether a number is one, or a symbol of which `assuming` says how small it may be.

    >>> known(Sym("N"))
    False
    >>> with assuming(N=1):
    ...     known(8 * Sym("N"))
    True
    """
    assumed = _ASSUMED.get()
    return not isinstance(value, Sym) or (assumed is not None and value.unknowns <= assumed.least.keys())


def known_equal(a: int | Sym, b: int | Sym) -> bool:
    """Whether two entries are the same number whatever the unknowns are; two that print `?` are not known to be.

    >>> known_equal(2 * Sym("N"), Sym("N") * 2), known_equal(Sym("?"), Sym("?"))
    (True, False)
    """
    return a == b and not (isinstance(a, Sym) and a.anonymous)


class Span(NamedTuple):
    """The numbers from `start` up to `stop`, where one of them is a symbol or there are none of them."""

    start: int | Sym
    stop: int | Sym


def span(start: int | Sym, stop: int | Sym) -> range | Span:
    """range(start, stop), of symbols too; as a buffer it may hold nothing, and does not end before it starts.

    >>> span(0, 8), span(0, 8 * Sym("N"))
    (range(0, 8), Span(start=0, stop=8*N))
    """
    if isinstance(start, int) and isinstance(stop, int) and start < stop:
        return range(start, stop)
    return Span(start, stop)


@dataclass(frozen=True)
class Condition:
    """What has to be so of unknowns: `value` is at most `limit`; `why` says what sets the limit."""

    value: int | Sym
    limit: int
    why: str

    def holds(self, **values: int) -> bool:
        """Whether it is so for these numbers."""
        value = self.value.at(**values) if isinstance(self.value, Sym) else self.value
        if isinstance(value, Sym):
            raise LayoutError(f"whether {self} is not known: {', '.join(sorted(value.unknowns))} have no value")
        return value <= self.limit

    def implies(self, other: Condition) -> bool:
        """Whether the other one holds wherever this one does, because some multiple of this one says more than it.

        >>> n = Sym("N")
        >>> with assuming(N=1):
        ...     others = [Condition(k * n, limit, "") for k, limit in ((4, 64), (16, 64), (16, 128))]
        ...     [Condition(8 * n, 64, "").implies(other) for other in others]
        [True, False, True]
        """
        return any(
            (room := _least((self.value - self.limit) * times - (other.value - other.limit) * parts)) is not None
            and room >= 0
            for times, parts in self._multiples(other)
        )

    def _multiples(self, other: Condition) -> set[tuple[int, int]]:
        """(a, b) such that a / b times this one may say more: by limits, or by what stands before the same unknowns."""
        pairs = [(1, 1), (other.limit, self.limit)]
        mine, theirs = dict(_terms(self.value)), dict(_terms(other.value))
        pairs += [(theirs[monomial], c) for monomial, c in mine.items() if monomial in theirs]
        return {(a, b) for a, b in pairs if a > 0 and b > 0}

    def __str__(self) -> str:
        return f"{self.value} <= {self.limit}"


@dataclass(frozen=True)
class Assumed:
    """How small each unknown may be, and the conditions that were asked for meanwhile."""

    least: Mapping[str, int]
    conditions: list[Condition] = field(default_factory=list)
    refused: list[LayoutError] = field(default_factory=list)
    """What code outside of this library was told instead of an answer: it may have caught that and gone on."""


_ASSUMED: ContextVar[Assumed | None] = ContextVar("assumed", default=None)


@contextmanager
def assuming(**least: int) -> Iterator[Assumed]:
    """A context in which each unknown is a whole number of at least this; comparisons are then of all its values.

    >>> with assuming(N=1) as assumed:
    ...     at_most(64 * Sym("N"), 256, "a box has 256 rows")
    True
    >>> print(*assumed.conditions)
    64*N <= 256
    """
    assumed = Assumed(dict(least))
    token = _ASSUMED.set(assumed)
    try:
        yield assumed
    finally:
        _ASSUMED.reset(token)


def at_most(value: int | Sym, limit: int, why: str) -> bool:
    """Whether a number is at most a limit; where a symbol may or may not be, that becomes a condition and is taken to
    be so.

    Raises LayoutError for a symbol outside of `assuming`.
    """
    if isinstance(value, int):
        return value <= limit
    assumed = _ASSUMED.get()
    if assumed is not None:
        low, high = _least(value - limit), _least(limit - value)
        if low is not None and low > 0:
            return False
        if high is None or high < 0:
            condition = Condition(value, limit, why)
            if condition not in assumed.conditions:
                assumed.conditions.append(condition)
        return True
    raise LayoutError(f"whether {value} is at most {limit} is not known")


def _least(value: int | Sym) -> int | None:
    """The least value of a polynomial in which every unknown only adds, counted from its least value on; None
    where one takes away."""
    if isinstance(value, int):
        return value
    assumed = _ASSUMED.get()
    if assumed is None or not value.unknowns <= assumed.least.keys():
        return None
    total: int | Sym = 0
    for monomial, coefficient in value.terms:
        product: int | Sym = coefficient
        for name in monomial:
            product = product * (Sym(name) + assumed.least[name])  # x = its least value + what it is more
        total = total + product
    if any(c < 0 for monomial, c in _terms(total) if monomial):
        return None
    return dict(_terms(total)).get((), 0)


def _less(a: int | Sym, b: int | Sym, by: int) -> bool:
    """Whether b is at least `by` more than a, for all values; refuses where that differs among them."""
    more, less = _least(b - a), _least(a - b)
    if more is not None and more >= by:
        return True
    if less is not None and less > -by:
        return False
    raise _refused(LayoutError(f"whether {a} is {'less than' if by else 'at most'} {b} is not known"))


def at_least_values(value: int | Sym) -> int | Sym:
    """The polynomial with each unknown at the least value that is assumed of it."""
    assumed = _ASSUMED.get()
    return value.at(**assumed.least) if isinstance(value, Sym) and assumed else value


def _may_be_zero(value: int | Sym) -> bool:
    more, less = _least(value), _least(-value)
    return not ((more is not None and more > 0) or (less is not None and less > 0))


def _asked_by_library() -> bool:
    """Whether the code that compares is a module of this library and no handoff: those are held to a user's rules."""
    return _of_library(sys._getframe(2))


def _of_library(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module.startswith("layoutlab.") and not module.startswith(HANDOFFS)


_Error = TypeVar("_Error", bound=LayoutError)


def _refused(error: _Error) -> _Error:
    """The error, kept in mind where a handoff's own code is told it."""
    assumed, frame = _ASSUMED.get(), sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    if assumed is not None and not _of_library(frame):
        assumed.refused.append(error)
    return error


HANDOFFS = ("layoutlab.catalogue.", "layoutlab.kernels.")


def _terms(value: int | Sym) -> tuple[tuple[Monomial, int], ...]:
    return value.terms if isinstance(value, Sym) else (((), value),)


def _simplest(terms: Mapping[Monomial, int]) -> int | Sym:
    kept = {m: c for m, c in terms.items() if c}
    return kept.get((), 0) if not kept.keys() - {()} else Sym(terms=kept)
