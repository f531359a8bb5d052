"""Difference: what sets two maps apart, in one plain sentence for each thing that does.

Both maps are brought to one form, location = swizzle(base + sum(step * digit)) + shift, and compared part by part:

    another shift, or another base           an offset
    the same steps, given to other digits    an order
    every step times one factor              a unit
    a digit that moves nothing               a narrower tile
    other steps                              a stride
    other parities                           a swizzle
    a base that one swizzle alone sees       a base

>>> from layoutlab.digits import strided
>>> read = strided("bit", 8, m=[(8, 128)], k=[(128, 1)])
>>> print(*explain(form(read.plus("bit", 64)), form(read)))
an offset: everything is written 8 bytes too high
>>> print(*explain(form(read), form(read.swizzled("bit", 3, 7, 3))))
a swizzle: the reader xors bits 4, 5, 6 of the byte address with 7, 8, 9, the writer xors none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Literal, NamedTuple

from layoutlab.digits import ONE, Digit, Map, Term
from layoutlab.errors import LayoutError
from layoutlab.swizzle import Swizzle

Kind = Literal["offset", "order", "unit", "narrow", "stride", "swizzle", "base"]
Names = Mapping[Digit, Digit]
"""What to call a digit: where a thread or value digit is a digit of a coordinate, that one."""


class Unit(NamedTuple):
    """What the sentences count in: its plural, and how much of the output it is."""

    word: str
    size: int


BYTES, COLUMNS, LANES = Unit("bytes", 8), Unit("columns", 32), Unit("lanes", 1)
BITS, THREADS = Unit("bits", 1), Unit("threads", 1)

BYTE_BIT = 3
"""Bits of an address in bits that lie below the byte."""


@dataclass(frozen=True)
class Difference:
    """One thing that sets the maps apart: its kind, and the sentence for it."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Form:
    """swizzle(base + sum(step * digit)) + shift, in bits.

    `pattern` says which bits the swizzle xors with which, (target, source). `flips` are target bits that a constant
    flips, in a map that was swizzled before it was looked at.
    """

    axes: Mapping[str, tuple[int, ...]]
    steps: Mapping[Digit, int]
    base: int = 0
    pattern: frozenset[tuple[int, int]] = frozenset()
    shift: int = 0
    flips: frozenset[int] = frozenset()


def form(m: Map, swizzle: Swizzle | None = None, shift: int = 0, out: str = "bit") -> Form:
    """The form of one output: of one that the swizzle and the shift are still to come to, or of a finished one.

    >>> from layoutlab.digits import strided
    >>> sorted(form(strided("bit", m=[(8, 128)], k=[(8, 16)]).swizzled("bit", 3, 4, 3)).pattern)
    [(4, 7), (5, 8), (6, 9)]

    A finished map's xors are taken apart: a bit belongs where its highest step is, in lower parities it is a source.
    Raises LayoutError where a row is no such sum.
    """
    row = m.rows[out]
    if swizzle is not None and swizzle.bits:
        bits = range(swizzle.base, swizzle.base + swizzle.bits)
        pairs = ((i, i + swizzle.shift) if swizzle.shift > 0 else (i - swizzle.shift, i) for i in bits)
        return Form(m.axes, _steps(m, row), row.get(ONE, 0), frozenset(pairs), shift)
    mixed = {d for term in row if len(term) > 1 for d in term}
    if mixed:  # where there are xors, a bit that steps down is one that a constant flips
        mixed |= {d for term, step in row.items() if step < 0 for d in term if d[2] == 2}
    parities = {term: step for term, step in row.items() if term & mixed}
    homes = {d: max(abs(s) for t, s in parities.items() if d in t) for d in mixed}
    if len({*homes.values()}) < len(homes):
        raise LayoutError("two digits of a parity belong at one bit")
    pattern = frozenset((_bit(s), _bit(homes[d])) for t, s in parities.items() for d in t if homes[d] != abs(s))
    flipped = [abs(s) for s in parities.values() if s < 0]
    steps = _steps(m, {t: s for t, s in row.items() if t not in parities}) | homes
    return Form(m.axes, steps, row.get(ONE, 0) - sum(flipped), pattern, shift, frozenset(map(_bit, flipped)))


def _steps(m: Map, row: Mapping[Term, int]) -> dict[Digit, int]:
    if any(len(term) > 1 for term in row):
        raise LayoutError("a map that is swizzled twice")
    return {d: row.get(frozenset((d,)), 0) for d in m.digits}


def _bit(step: int) -> int:
    if abs(step) & abs(step) - 1:
        raise LayoutError(f"the parity at {abs(step)} is no bit")
    return abs(step).bit_length() - 1


def explain(wrote: Form, wanted: Form, names: Names | None = None, unit: Unit = BYTES) -> list[Difference]:
    """Everything that sets what is written apart from what is read; nothing where the forms are the same.

    Both forms need the same digits (`aligned` before `form`). `names` says what to call digits, `unit` what to
    count in.
    """
    names = names or {d: d for d in wrote.steps}
    return [*_of_steps(wrote, wanted, names, unit), *_of_patterns(wrote, wanted), *_of_constants(wrote, wanted, unit)]


# -- steps ------------------------------------------------------------------------------------------------------------


def _of_steps(wrote: Form, wanted: Form, names: Names, unit: Unit) -> list[Difference]:
    other = [d for d in wrote.steps if wrote.steps[d] != wanted.steps[d]]
    if not other:
        return []
    if (times := _factor(wrote, wanted, list(wrote.steps))) and len(wrote.steps) > 1:
        return [Difference("unit", f"a unit: every step is written {_times(times)} as far as it is read")]
    still = [d for d in other if wrote.steps[d] == 0]
    found = [_narrow(axis, digits, wrote, names) for axis, digits in _by_axis(still, names).items()]
    moved = [d for d in other if d not in still]
    if not moved:
        return found
    lists = _lists(moved, wrote, wanted, names, unit)
    if sorted(wrote.steps[d] for d in moved) == sorted(wanted.steps[d] for d in moved):
        return [*found, Difference("order", f"an order: {lists}")]
    return [*found, Difference("stride", f"a stride: {lists}{_far(moved, wrote, wanted, names)}")]


def _far(moved: Sequence[Digit], wrote: Form, wanted: Form, names: Names) -> str:
    """The factor between the steps that differ, where there is one and they are an axis, or all of it from some step
    on."""
    axes = _by_axis(moved, names)
    factor = _factor(wrote, wanted, moved)
    if factor is None:
        return ""
    parts = list[str]()
    for axis, digits in axes.items():
        every = sorted((names[d][1], d) for d in wrote.steps if names[d][0] == axis)
        if {d for _, d in every[-len(digits) :]} != set(digits):
            return ""
        start = min(names[d][1] for d in digits)
        parts.append("" if len(digits) == len(every) else f"steps of {start} and more along {axis} go ")
    return f", {' and '.join(filter(None, parts))}{_times(factor)} as far"


def _factor(wrote: Form, wanted: Form, digits: Sequence[Digit]) -> Fraction | None:
    """The one factor between all these steps, if there is one."""
    pairs = [(wrote.steps[d], wanted.steps[d]) for d in digits if wrote.steps[d] or wanted.steps[d]]
    if any(not w or not r for w, r in pairs):
        return None
    ratios = {Fraction(w, r) for w, r in pairs}
    return ratios.pop() if len(ratios) == 1 else None


def _times(factor: Fraction) -> str:
    return f"{factor} times" if factor.denominator == 1 else f"1/{1 / factor}" if factor.numerator == 1 else f"{factor}"


def _narrow(axis: str, digits: list[Digit], wrote: Form, names: Names) -> Difference:
    all_of_it = [names[d] for d in wrote.steps if names[d][0] == axis]
    weights = sorted(names[d][1] for d in digits)
    if len(digits) == len(all_of_it):
        all_of_them = prod(d[2] for d in all_of_it)
        text = f"{axis} moves nothing of what is written: all {all_of_them} of {axis} land on the same places"
        return Difference("narrow", f"a narrower tile: {text}")
    steps = ", ".join(map(str, weights))
    top = sorted(d[1] for d in all_of_it)[-len(digits) :]
    end = f", as if its tile ended at {axis}={weights[0] - 1}" if weights == top else ""
    return Difference("narrow", f"a narrower tile: steps of {steps} along {axis} move nothing of what is written{end}")


def _by_axis(digits: Sequence[Digit], names: Names) -> dict[str, list[Digit]]:
    axes: dict[str, list[Digit]] = {}
    for d in digits:
        axes.setdefault(names[d][0], []).append(d)
    return dict(sorted(axes.items(), key=lambda item: item[0] not in ("m", "t")))


def _lists(digits: Sequence[Digit], wrote: Form, wanted: Form, names: Names, unit: Unit) -> str:
    """The axes that differ, as CuTe writes their steps."""
    shown, axes = [], _by_axis(digits, names)
    every = [form.steps[d] for d in wrote.steps if names[d][0] in axes for form in (wrote, wanted)]
    word, scale = unit if all(s % unit.size == 0 for s in every) else ("bits", 1)
    for axis in axes:
        mine = sorted((names[d][1], d) for d in wrote.steps if names[d][0] == axis)
        one, two = ([(d[2], form.steps[d] // scale) for _, d in mine] for form in (wrote, wanted))
        shown.append(f"{axis} is written as {_as_layout(one)} and read as {_as_layout(two)}")
    return f"{'; '.join(shown)} {word}"


def _as_layout(digits: list[tuple[int, int]]) -> str:
    merged: list[tuple[int, int]] = []
    for radix, step in digits:
        if merged and step == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * radix, merged[-1][1])
        else:
            merged.append((radix, step))
    if len(merged) == 1:
        return f"{merged[0][0]}:{merged[0][1]}"
    return f"({','.join(str(r) for r, _ in merged)}):({','.join(str(s) for _, s in merged)})"


# -- swizzles ---------------------------------------------------------------------------------------------------------


def _of_patterns(wrote: Form, wanted: Form) -> list[Difference]:
    if wrote.pattern == wanted.pattern:
        return []
    higher = {low - other for (low, _), (other, _) in zip(sorted(wrote.pattern), sorted(wanted.pattern), strict=False)}
    unit = ""
    if len(higher) == 1 and wrote.pattern == {(low + (by := min(higher)), high + by) for low, high in wanted.pattern}:
        unit = f": the same pattern {_bits(by)}, so its units are {_times(Fraction(2) ** by)} as large"
    text = f"a swizzle: the reader xors {_xors(wanted)}, the writer xors {_xors(wrote)}{unit}"
    return [Difference("swizzle", text)]


def _bits(by: int) -> str:
    return f"{abs(by)} bit{'s' if abs(by) > 1 else ''} {'higher' if by > 0 else 'lower'}"


def _xors(form: Form) -> str:
    if not form.pattern:
        return "none"
    in_bytes = all(low >= BYTE_BIT and high >= BYTE_BIT for low, high in form.pattern)
    by, what = (BYTE_BIT, "byte") if in_bytes else (0, "bit")
    pairs = sorted((low - by, high - by) for low, high in form.pattern)
    targets, sources = (", ".join(str(pair[i]) for pair in pairs) for i in (0, 1))
    return f"{'bits' if len(pairs) > 1 else 'bit'} {targets} of the {what} address with {sources}"


# -- constants --------------------------------------------------------------------------------------------------------


def _of_constants(wrote: Form, wanted: Form, unit: Unit) -> list[Difference]:
    by = wrote.base + wrote.shift - wanted.base - wanted.shift
    found = []
    if by:
        found.append(Difference("offset", offset_text(by, unit)))
    if wrote.flips != wanted.flips or (wrote.pattern and wanted.pattern and _seen(wrote) != _seen(wanted) and not by):
        found.append(Difference("base", f"a base: {_base_text(wrote, wanted)}"))
    return found


def offset_text(by: int, unit: Unit = BYTES) -> str:
    """The sentence for a constant of so many bits.

    >>> offset_text(-256)
    'an offset: everything is written 32 bytes too low'
    """
    count, word = (abs(by) // unit.size, unit.word) if by % unit.size == 0 else (abs(by), BITS.word)
    amount = f"{count} {word if count != 1 else word[:-1]}"
    return f"an offset: everything is written {amount} too {'high' if by > 0 else 'low'}"


def _seen(form: Form) -> int:
    """What the swizzle sees of the base: the bits that it reads or changes."""
    top = max((max(pair) for pair in form.pattern), default=-1)
    return form.base & (2 << top) - 1


def _base_text(wrote: Form, wanted: Form) -> str:
    if wrote.shift and not wanted.shift:
        return (
            f"the writer swizzles offsets from its base, byte {wrote.shift // 8}, and the reader addresses: "
            "the base's own bits are in the reader's pattern alone"
        )
    if wanted.shift and not wrote.shift:
        return (
            f"the reader swizzles offsets from its base, byte {wanted.shift // 8}, and the writer addresses: "
            "the base's own bits are in the writer's pattern alone"
        )
    if wrote.flips == wanted.flips:
        return f"the writer swizzles offsets from byte {wrote.shift // 8}, the reader from byte {wanted.shift // 8}"
    flipped = ", ".join(str(bit - BYTE_BIT) for bit in sorted(wrote.flips ^ wanted.flips))
    return f"one side's swizzle sees a constant in the address that the other's does not: it flips byte bits {flipped}"
