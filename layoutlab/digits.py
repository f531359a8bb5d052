"""Maps: what each digit of an index adds to each output.

An index axis (thread, value, m, k) is read in a mixed radix, fastest digit first: bits where its extent is even, a
larger radix where it is not. An output (byte, lane, column, m, k) is then a sum of steps, one for each digit. For the
row-major 4x4 tile of 2-byte elements, with m and k of two bits each:

    digit   k bit 0   k bit 1   m bit 0   m bit 1
    byte         +2        +4        +8       +16

A swizzle moves no steps: it replaces a bit by the xor of several, so the sum is over *terms*, each one digit or the xor
of several bits. Swizzling bit 1 of the byte with bit 3 turns the table into

    term    k bit 0 ^ m bit 0   k bit 1   m bit 0   m bit 1
    byte                   +2        +4        +8       +16

Xors of different sets of bits are linearly independent functions, and so are digits of other radices. So over the same
digits **equal tables are equal functions**: a proof is one comparison, whatever the number of elements, and where two
tables differ the first index at which the functions differ is read off, one digit at a time.

What a table cannot hold is refused with `LayoutError`, never guessed: a sum that carries from one digit into another,
and two splits of an axis that no common radix refines. Such maps are left to enumeration (`layoutlab.arbiter`).

A radix, a weight and a step may also be a symbol (`layoutlab.symbol.Sym`): then a table says what the function is for
every value of it, and equal tables are equal functions for all of them. What would depend on the value is refused.

>>> owner = beside(strided("m", t=[(128, 1)]), strided("k", v=[(32, 1), (4, 32)]))  # (T128,V128) -> (m,k)
>>> flat = strided("byte", 2, m=[(128, 64)], k=[(16, 1), (4, 16), (2, 8192)]).after(owner)
>>> write = flat.swizzled("byte", 3, 4, 3)
>>> read = strided("byte", m=[(8, 128), (16, 1024)], k=[(16, 2), (4, 32), (2, 16384)]).swizzled("byte", 3, 4, 3)
>>> write == read.after(owner)
True
>>> flat.first_difference(read.after(owner)), flat(t=1, v=0), read(m=1, k=0)  # a writer that forgot the swizzle
({'t': 1, 'v': 0}, {'byte': 128}, {'byte': 144})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, cmp_to_key, reduce
from itertools import pairwise
from math import prod
from operator import xor
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.symbol import Sym

Digit = tuple[str, int, int]
"""(axis, weight, radix): ("k", 8, 2) is bit 3 of k, ("k", 32, 3) a ternary digit."""

Term = frozenset[Digit]
"""One digit, or the xor of several bits."""

ONE: Term = frozenset()
"""The constant 1: its step is the base of a row."""

Row = dict[Term, int]
"""term -> step; no step is zero."""


@dataclass(frozen=True, eq=False)
class Map:
    """A function from index axes to named outputs, as a table of steps.

    `axes` gives each axis its radices, fastest first; the axes stand slowest first, the order in which a reader counts.
    `rows` gives each output its terms and steps, in the output's own unit (the name says which).

    >>> Map({"m": (2, 2), "k": (3,)}, {"byte": {ONE: 64}})(m=3, k=2)
    {'byte': 64}
    """

    axes: Mapping[str, tuple[int, ...]]
    rows: Mapping[str, Row]

    # -- what the table says ------------------------------------------------------------------------------------------

    @cached_property
    def digits(self) -> tuple[Digit, ...]:
        """All digits, slowest first.

        >>> strided("byte", m=[(2, 1)], k=[(6, 2)]).digits
        (('m', 1, 2), ('k', 2, 3), ('k', 1, 2))
        """
        return tuple(d for axis in self.axes for d in reversed(self._axis_digits(axis)))

    @cached_property
    def extents(self) -> dict[str, int]:
        """The number of indices on each axis, slowest axis first."""
        return {axis: prod(radices) for axis, radices in self.axes.items()}

    @property
    def size(self) -> int:
        """The number of indices in all."""
        return prod(self.extents.values())

    def __call__(self, **index: Any) -> dict[str, Any]:
        """The outputs at an index: integers, or numpy arrays that broadcast against each other.

        >>> strided("byte", 2, m=[(128, 64)], k=[(64, 1)])(m=1, k=3)
        {'byte': 134}
        """
        if index.keys() != self.axes.keys():
            raise LayoutError(f"this map takes {', '.join(self.axes)}; it was given {', '.join(index) or 'nothing'}")
        value = {d: index[d[0]] // d[1] % d[2] for d in self.digits}
        return {
            out: sum((s * _parity(value[d] for d in t) if t else s for t, s in row.items()), 0)
            for out, row in self.rows.items()
        }

    def __eq__(self, other: object) -> bool:
        """Whether the two are the same function; refuses where no common radix refines both."""
        if not isinstance(other, Map):
            return NotImplemented
        mine, theirs = aligned(self, other)
        return mine.rows == theirs.rows

    __hash__ = None  # type: ignore[assignment]

    # -- making maps of maps ------------------------------------------------------------------------------------------

    def after(self, inner: Map) -> Map:
        """The composition: `inner` first, its outputs being the axes of this map.

        >>> row_major = strided("byte", m=[(4, 8)], k=[(8, 1)])
        >>> print(row_major.after(beside(strided("m", t=[(4, 1)]), strided("k", v=[(8, 1)]))))
        byte = v[1] + 2 v[2] + 4 v[4] + 8 t[1] + 16 t[2]

        Refuses a carry between digits, and a value outside of an axis.
        """
        if inner.rows.keys() != self.axes.keys():
            raise LayoutError(
                f"the inner map gives {', '.join(inner.rows)}, the outer one takes {', '.join(self.axes)}"
            )
        outer = self
        for axis in self.axes:
            outer, inner = _meet(outer, inner, axis)
        source: dict[tuple[str, int], tuple[Term, int]] = {}
        for axis in self.axes:
            source.update(((axis, weight), value) for weight, value in _sources(outer, inner, axis).items())
        return Map(inner.axes, {out: _through(row, source) for out, row in outer.rows.items()})

    def swizzled(self, out: str, bits: int, base: int, shift: int) -> Map:
        """Swizzle<bits, base, shift> applied to the output `out`, counted in that output's unit.

        >>> print(strided("byte", m=[(8, 128)], k=[(8, 16)]).swizzled("byte", 3, 4, 3))
        byte = 16 (k[1]^m[1]) + 32 (k[2]^m[2]) + 64 (k[4]^m[4]) + 128 m[1] + 256 m[2] + 512 m[4]

        Refuses where a bit that the swizzle reads or changes is no xor of index bits: a carry crosses it.
        """
        if not bits:
            return self
        step, (low, high) = abs(shift), (base, base + bits + abs(shift))
        value, rest = _binary(self.rows[out], low, high, f"{out}, Swizzle<{bits},{base},{shift}>")
        target, source = (base, base + step) if shift >= 0 else (base + step, base)
        for i in range(bits):
            (term, one), (other, flip) = value.get(target + i, (ONE, 0)), value.get(source + i, (ONE, 0))
            value[target + i] = (term ^ other, one ^ flip)
        return self._with(out, [*rest, *(e for i, (t, one) in value.items() for e in _affine(t, 1 << i, one))])

    def plus(self, out: str, offset: int) -> Map:
        """The map with a constant added to one output.

        >>> strided("byte", m=[(4, 8)]).plus("byte", 512)(m=3)
        {'byte': 536}
        """
        return self._with(out, [*self.rows[out].items(), (ONE, offset)])

    def times(self, out: str, factor: int, name: str | None = None) -> Map:
        """The map with one output multiplied, and renamed if it now has another unit.

        >>> strided("byte", m=[(4, 8)]).times("byte", 8, "bit")(m=3)
        {'bit': 192}
        """
        scaled = {t: s * factor for t, s in self.rows[out].items()} if factor else {}
        return Map(
            self.axes, {(name or o if o == out else o): (scaled if o == out else r) for o, r in self.rows.items()}
        )

    def only(self, *outputs: str) -> Map:
        """The map with just these outputs, in this order."""
        return Map(self.axes, {out: self.rows[out] for out in outputs})

    def over(self, *axes: str) -> Map:
        """The same function with its axes in another order of counting, slowest first."""
        return Map({axis: self.axes[axis] for axis in axes}, self.rows)

    def _with(self, out: str, entries: Iterable[tuple[Term, int]]) -> Map:
        return Map(self.axes, {**self.rows, out: _row(entries)})

    # -- questions ----------------------------------------------------------------------------------------------------

    def first_difference(self, other: Map) -> dict[str, int] | None:
        """The first index, in counting order, at which the two differ; None when they are the same function.

        >>> a, b = strided("byte", m=[(4, 8)], k=[(6, 1)]), strided("byte", m=[(4, 8)], k=[(3, 1), (2, 4)])
        >>> a.first_difference(b)
        {'m': 0, 'k': 3}
        """
        mine, theirs = aligned(self, other)
        delta = [_row([*r.items(), *((t, -s) for t, s in theirs.rows[out].items())]) for out, r in mine.rows.items()]
        delta = [row for row in delta if row]
        if not delta:
            return None
        at = dict.fromkeys(mine.axes, 0)
        for d in mine.digits:
            zero = [row for row in (_fixed(row, d, 0) for row in delta) if row]
            at[d[0]] += 0 if zero else d[1]
            delta = zero or [_fixed(row, d, 1) for row in delta]
        return at

    def bounds(self, out: str) -> tuple[int, int]:
        """(lowest, highest) value that the steps of an output allow; exact unless two xors share a bit.

        >>> strided("byte", m=[(4, 8)], k=[(6, -1)]).bounds("byte")
        (-5, 24)
        """
        reach = [(s * (_radix(t) - 1) if t else 0, s if not t else 0) for t, s in self.rows[out].items()]
        base = sum(b for _, b in reach)
        # `r >= 0` and not `max(0, r)`: of a symbol it may be known that it is not negative, and not whether it is 0
        return base + sum(0 if r >= 0 else r for r, _ in reach), base + sum(r if r >= 0 else 0 for r, _ in reach)

    def collision(self) -> dict[str, int] | None:
        """An index other than 0 with the outputs of index 0; None when there is none, so that the map is injective.

        >>> strided("byte", m=[(4, 8)], k=[(8, 1)]).collision() is None
        True
        >>> strided("byte", m=[(4, 8)], k=[(8, 0)]).collision()
        {'m': 0, 'k': 1}

        Refuses outputs whose steps overlap: the rule reads each term off the value of its output.
        """
        terms = [t for out in self.rows for t in self._separated(out)]
        free = {d for d in self.digits if d[2] != 2} - {d for t in terms for d in t}
        for d in reversed(self.digits):
            if d in free:
                return {axis: d[1] if axis == d[0] else 0 for axis in self.axes}
        kernel = _kernel([d for d in reversed(self.digits) if d[2] == 2], [t for t in terms if _radix(t) == 2])
        if kernel is None:
            return None
        return {axis: sum(d[1] for d in kernel if d[0] == axis) for axis in self.axes}

    def image_size(self) -> int:
        """How many different values the outputs take together.

        >>> strided("byte", m=[(4, 8)], k=[(6, 0)]).image_size()
        4

        Refuses outputs whose steps overlap, as `collision` does.
        """
        terms = {t for out in self.rows for t in self._separated(out)}
        plain = prod(_radix(t) for t in terms if _radix(t) != 2)
        return plain * (1 << len(_echelon([t for t in terms if _radix(t) == 2])))

    def _separated(self, out: str) -> list[Term]:
        """The terms of an output, each of which can be read off its value: no sum of smaller steps reaches a step."""
        reached, terms = 0, []
        sizes: dict[int, list[Term]] = {}
        for term, signed in self.rows[out].items():
            if term:
                sizes.setdefault(abs(signed), []).append(term)
        for step, term in ((size, term) for size in ascending(sizes) for term in sizes[size]):
            if reached >= step:
                raise LayoutError(f"{out}: steps up to {step} overlap, so a value does not tell its digits")
            reached += step * (_radix(term) - 1)
            terms.append(term)
        return terms

    # -- digits of one axis -------------------------------------------------------------------------------------------

    def _axis_digits(self, axis: str) -> list[Digit]:
        digits, weight = [], 1
        for radix in self.axes[axis]:
            digits.append((axis, weight, radix))
            weight *= radix
        return digits

    def breaks(self, axis: str) -> set[int]:
        """The weights at which the digits of an axis have to be split: elsewhere the map is linear.

        >>> sorted(strided("byte", k=[(16, 1), (4, 16), (2, 8192)]).breaks("k"))
        [64]
        """
        digits = self._axis_digits(axis)
        mixed = {d for row in self.rows.values() for t in row if len(t) > 1 for d in t}
        found = {w for d in digits if d in mixed for w in (d[1], d[1] * 2)}
        for row in self.rows.values():
            for below, d in pairwise(digits):
                if row.get(frozenset((d,)), 0) != row.get(frozenset((below,)), 0) * below[2]:
                    found.add(d[1])
        return found - {1, self.extents[axis]}

    def refined(self, axis: str, breaks: Iterable[int]) -> Map:
        """The same function with an axis split at these weights too; refuses when they form no chain of divisors.

        >>> strided("byte", k=[(12, 1)]).refined("k", [3]).axes["k"]
        (3, 2, 2)
        """
        needed = self.breaks(axis)
        radices = _chain({*needed, *breaks}, self.extents[axis], axis)
        if radices == self.axes[axis]:
            return self
        edges = ascending({1, *needed})
        new = Map({**self.axes, axis: radices}, self.rows)
        fresh = new._axis_digits(axis)

        def respread(row: Row) -> Row:
            kept = [(t, s) for t, s in row.items() if len(t) != 1 or next(iter(t))[0] != axis]
            step = {d[1]: row.get(frozenset((d,)), 0) for d in self._axis_digits(axis)}
            lower = {d: [e for e in edges if e <= d[1]][-1] for d in fresh}
            return _row([*kept, *((frozenset((d,)), step[lower[d]] * (d[1] // lower[d])) for d in fresh)])

        return Map(new.axes, {out: respread(row) for out, row in self.rows.items()})

    def __str__(self) -> str:
        return "\n".join(f"{out} = {_format_row(row)}" for out, row in self.rows.items())


# -- making maps ------------------------------------------------------------------------------------------------------


Mode = Iterable[tuple[int, int]]
"""(extent, stride) of each digit group of an axis, fastest first."""


def strided(out: str, unit: int = 1, **modes: Mode) -> Map:
    """The map of a strided layout: each axis a list of (extent, stride), fastest first, strides times `unit`.

    >>> strided("byte", 2, m=[(128, 64)], k=[(16, 1), (4, 16), (2, 8192)])(m=1, k=64)
    {'byte': 16512}
    """
    return strided_over(modes, out, unit)


def strided_over(modes: Mapping[str, Mode], out: str, unit: int = 1) -> Map:
    """`strided` for axes whose names are data."""
    axes: dict[str, tuple[int, ...]] = {}
    entries: list[tuple[Term, int]] = []
    for axis, mode in modes.items():
        weight, radices = 1, list[int]()
        for extent, stride in mode:
            step = stride * unit
            for radix in _factors(extent):
                entries.append((frozenset(((axis, weight, radix),)), step))
                radices.append(radix)
                weight, step = weight * radix, step * radix
        axes[axis] = tuple(radices)
    return Map(axes, {out: _row(entries)})


def beside(*maps: Map) -> Map:
    """Several maps' outputs side by side; an axis that two of them have is one axis.

    >>> beside(strided("m", t=[(4, 1)]), strided("k", t=[(4, 0)], v=[(2, 1)]))(t=3, v=1)
    {'m': 3, 'k': 1}
    """
    axes: dict[str, tuple[int, ...]] = {}
    for m in maps:
        axes |= {axis: m.axes[axis] for axis in m.axes if axis not in axes}
    for axis in axes:
        maps = _same_digits(maps, axis)
    for m in maps:
        axes |= m.axes
    return Map(axes, {out: row for m in maps for out, row in m.rows.items()})


def unravel(axis: str, **extents: int) -> Map:
    """A flat index taken apart into coordinates, the first one fastest.

    >>> unravel("coordinate", m=128, k=64)(coordinate=128 * 5 + 7)
    {'m': 7, 'k': 5}
    """
    weight, parts = 1, list[Map]()
    for name, extent in extents.items():
        mode = [(weight, 0), (extent, 1), (prod(extents.values()) // (weight * extent), 0)]
        parts.append(strided_over({axis: mode}, name))
        weight *= extent
    return beside(*parts)


def aligned(a: Map, b: Map) -> tuple[Map, Map]:
    """The two maps over the same digits; refuses different axes or outputs, or splits that no common radix refines."""
    if a.axes == b.axes and a.rows.keys() == b.rows.keys():
        return a, b
    if a.extents != b.extents or a.rows.keys() != b.rows.keys():
        raise LayoutError(f"{_signature(a)} and {_signature(b)} cannot be compared")
    for axis in a.axes:
        a, b = _same_digits((a, b), axis)
    return a, b.over(*a.axes)


# -- rows -------------------------------------------------------------------------------------------------------------


def _row(entries: Iterable[tuple[Term, int]]) -> Row:
    total: Row = {}
    for term, step in entries:
        total[term] = total.get(term, 0) + step
    return {t: s for t, s in total.items() if s}


def _radix(term: Term) -> int:
    return next(iter(term))[2]


def _parity(bits: Iterator[Any]) -> Any:
    return reduce(xor, bits)


def _affine(term: Term, step: int, one: int) -> list[tuple[Term, int]]:
    """step * (term ^ one), for a binary term."""
    if not one:
        return [(term, step)] if term else []
    return [(ONE, step), (term, -step)] if term else [(ONE, step)]


def _fixed(row: Row, digit: Digit, value: int) -> Row:
    """The row with one digit set to 0 or 1."""
    return _row(
        entry
        for term, step in row.items()
        for entry in (_affine(term - {digit}, step, value) if digit in term else [(term, step)])
    )


def _binary(row: Row, low: int, high: int, what: str) -> tuple[dict[int, tuple[Term, int]], list[tuple[Term, int]]]:
    """Bits low..high-1 of a row's value as xors, and the entries that add to other bits only."""
    base, value, rest, below = row.get(ONE, 0), dict[int, tuple[Term, int]](), list[tuple[Term, int]](), 0
    if isinstance(base, Sym):  # what varies in it has to leave the pattern alone; the remainder is known, or refused
        rest.append((ONE, base - (known := base % (1 << high))))
        base = known
    for term, step in row.items():
        if not term:
            continue
        size = abs(step)
        if size % (1 << high) == 0:
            rest.append((term, step))
        elif isinstance(size, Sym) or isinstance(_radix(term), Sym):
            raise LayoutError(f"{what}: what the step {step} of {_radix(term)} values adds to the pattern is not known")
        elif size * (_radix(term) - 1) < 1 << low and step > 0:
            below += step * (_radix(term) - 1)
            rest.append((term, step))
        elif _radix(term) == 2 and size & (size - 1) == 0 and size.bit_length() - 1 not in value:
            value[size.bit_length() - 1] = (term, int(step < 0))
            base += min(step, 0)
        else:
            raise LayoutError(f"{what}: the step {step} is no single bit of the pattern, a carry crosses it")
    below += sum(1 << i for i in value if i < low)
    if below + base % (1 << low) >= 1 << low:
        raise LayoutError(f"{what}: offsets below the pattern reach {below + base % (1 << low)} and carry into it")
    for i in range(low, high):
        if base >> i & 1:
            if i in value:
                raise LayoutError(f"{what}: the base {base} and an index bit both set bit {i}, a carry")
            value[i] = (ONE, 1)
    inside = ((1 << high) - (1 << low)) & base
    rest += [(ONE, base - inside)]
    for i in [i for i in value if i < low]:
        term, one = value.pop(i)
        rest += _affine(term, 1 << i, one)
    return value, rest


# -- composition ------------------------------------------------------------------------------------------------------


def _meet(outer: Map, inner: Map, axis: str) -> tuple[Map, Map]:
    """Both maps refined until each term of the inner row is one digit of the outer axis."""
    extent = outer.extents[axis]
    marks = {
        m for t, s in inner.rows[axis].items() if t for m in (abs(s), abs(s) * _radix(t)) if m != extent and m <= extent
    }
    if not marks <= {w for _, w, _ in outer._axis_digits(axis)}:
        outer = outer.refined(axis, marks - {1})
    weights = [w for _, w, _ in outer._axis_digits(axis)]
    wanted: dict[str, set[int]] = {}
    for term, step in inner.rows[axis].items():
        if term and _radix(term) != 2:
            (name, weight, radix) = next(iter(term))
            cuts = {weight * (w // step) for w in weights if _falls_inside(w, step, radix)}
            wanted.setdefault(name, set()).update(cuts)
    for name, cuts in wanted.items():
        if cuts:
            inner = inner.refined(name, cuts | {w for _, w, _ in inner._axis_digits(name)} - {1})
    return outer, inner


def _sources(outer: Map, inner: Map, axis: str) -> dict[int, tuple[Term, int]]:
    """For each digit of the outer axis, by weight: the inner term that it is, and the constant added to it."""
    radix = {w: r for _, w, r in outer._axis_digits(axis)}
    base, found = inner.rows[axis].get(ONE, 0), dict[int, tuple[Term, int]]()
    for term, step in inner.rows[axis].items():
        if not term:
            continue
        weight = abs(step)
        if weight not in radix or _radix(term) > radix[weight] or weight in found or (step < 0 and _radix(term) != 2):
            why = f"{axis} moves by {step} for {_format_term(term)}"
            if weight >= outer.extents[axis]:
                raise LayoutError(f"{why}, which leaves its extent {outer.extents[axis]}")
            raise LayoutError(f"{why}, and another digit moves it too or none takes that step: a carry")
        found[weight] = (term, int(step < 0))
        base += min(step, 0)
    if not 0 <= base < outer.extents[axis]:
        raise LayoutError(f"{axis} starts at {base}, outside of 0..{outer.extents[axis] - 1}")
    for weight, r in radix.items():
        if constant := base // weight % r:
            if weight in found:
                raise LayoutError(f"{axis} starts at {base}, which carries with {_format_term(found[weight][0])}")
            found[weight] = (ONE, constant)
    return found


def _through(row: Row, source: Mapping[tuple[str, int], tuple[Term, int]]) -> Row:
    """A row of the outer map with each of its digits replaced by its source."""
    entries: list[tuple[Term, int]] = []
    for term, step in row.items():
        if not term:
            entries.append((ONE, step))
        elif _radix(term) != 2:
            inner, constant = source.get(next(iter(term))[:2], (ONE, 0))
            entries.append((inner, step) if inner else (ONE, step * constant))
        else:
            parts = [source.get(d[:2], (ONE, 0)) for d in term]
            entries += _affine(reduce(xor, (t for t, _ in parts)), step, reduce(xor, (c for _, c in parts)))
    return _row(entries)


# -- splitting axes ---------------------------------------------------------------------------------------------------


def _factors(extent: int) -> list[int]:
    """The radices of an extent: its bits, then the odd rest; none for 1. Of a symbol, the bits of all its values."""
    known = extent.content if isinstance(extent, Sym) else extent
    bits = (known & -known).bit_length() - 1
    rest = extent // (1 << bits)
    return [2] * bits + ([rest] if rest != 1 else [])


def ascending(values: Iterable[int]) -> list[int]:
    """Numbers in order; of symbols, refused where the order differs among their values."""
    found = list(values)
    if not any(isinstance(value, Sym) for value in found):
        return sorted(found)
    return sorted(found, key=cmp_to_key(_order))


def _order(a: int, b: int) -> int:
    """-1 where a is never the greater one, 1 where b never is."""
    if a == b:
        return 0
    try:
        return -1 if a <= b else 1
    except LayoutError:
        return 1 if b <= a else -1


def _falls_inside(weight: int, step: int, radix: int) -> bool:
    """Whether a digit of this step and radix has to be cut, since the outer axis has a digit that starts inside."""
    if not isinstance(weight, Sym) and not isinstance(step, Sym) and not isinstance(radix, Sym):
        return step > 0 and step < weight < step * radix and weight % step == 0
    try:
        part = 0 if weight % step else weight // step
        return part not in (0, 1, radix) and radix % part == 0
    except LayoutError:
        return False  # the digit stays whole: where that is a carry, it is refused as one


def _chain(breaks: set[int], extent: int, axis: str) -> tuple[int, ...]:
    edges = [1, *ascending(breaks - {1, extent}), extent]
    for low, high in pairwise(edges):
        if high % low:
            raise LayoutError(f"axis {axis} of {extent} would be split at {low} and at {high}, which no radix refines")
    return tuple(radix for low, high in pairwise(edges) for radix in _factors(high // low))


def _same_digits(maps: tuple[Map, ...], axis: str) -> tuple[Map, ...]:
    having = [m for m in maps if axis in m.axes]
    if all(m.axes[axis] == having[0].axes[axis] for m in having):
        return maps
    if len({m.extents[axis] for m in having}) > 1:
        raise LayoutError(f"axis {axis} has extents {', '.join(str(m.extents[axis]) for m in having)}")
    breaks = set().union(*(m.breaks(axis) for m in having))
    return tuple(m.refined(axis, breaks) if axis in m.axes else m for m in maps)


# -- ranks ------------------------------------------------------------------------------------------------------------


def _echelon(terms: Iterable[Term]) -> dict[Digit, Term]:
    """Xors reduced to independent ones, each under a pivot digit that no other has."""
    pivots: dict[Digit, Term] = {}
    for term in terms:
        for pivot, row in pivots.items():
            if pivot in term:
                term = term ^ row
        if term:
            new = min(term)
            pivots = {p: (r ^ term if new in r else r) for p, r in pivots.items()} | {new: term}
    return pivots


def _kernel(digits: list[Digit], terms: list[Term]) -> set[Digit] | None:
    """A set of bits that changes none of the xors when flipped together; None when there is none."""
    pivots = _echelon(terms)
    for d in digits:
        if d not in pivots:
            return {d} | {p for p, row in pivots.items() if d in row}
    return None


# -- printing ---------------------------------------------------------------------------------------------------------


def _format_term(term: Term) -> str:
    names = "^".join(f"{axis}[{weight}]" for axis, weight, _ in sorted(term))
    return f"({names})" if len(term) > 1 else names


def _format_row(row: Row) -> str:
    def order(entry: tuple[Term, int]) -> tuple[bool, Any, str]:
        symbolic = isinstance(entry[1], Sym)
        return symbolic, str(entry[1]) if symbolic else abs(entry[1]), _format_term(entry[0])

    parts = [
        f"{step}" if not term else f"{'' if step == 1 else f'{step} '}{_format_term(term)}"
        for term, step in sorted(row.items(), key=order)
    ]
    return " + ".join(parts) or "0"


def _signature(m: Map) -> str:
    axes = ",".join(f"{axis}:{extent}" for axis, extent in m.extents.items())
    return f"({axes}) -> ({','.join(m.rows)})"
