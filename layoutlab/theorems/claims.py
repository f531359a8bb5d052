"""The five claims of a handoff whose extents are symbols: each decided for all of their values at once, or left open.

Tables whose radices, weights and steps are polynomials of the symbols are equal for all values when they are equal as
tables; what else a claim needs are comparisons of polynomials (`layoutlab.symbol.assuming`), each of which is decided
for all values or refused. Nothing is tried out: a value is put in only to refute (`layoutlab.theorems.family`).

covered     the owner's digits make up each coordinate exactly once or more, and every element is placed
placed      the tables of write and of read after owner are equal, or those of what both swizzle alike
exclusive   each step is more than all smaller ones together, so a location tells its digits
inside      the sums of steps stay in the tile and in the storage's own ends
legal       every rule; a limit that depends on the symbols becomes a condition of the theorem
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutlab.errors import LayoutError
from layoutlab.handoff.claims import Question, legal_rules
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.places import Places
from layoutlab.int_tuple import Int
from layoutlab.symbol import at_least_values, at_most


class Open(LayoutError):
    """A claim that is not decided for all values, and why."""

    def __init__(self, claim: str, reason: str) -> None:
        super().__init__(f"{claim}: {reason}")
        self.claim, self.reason = claim, reason


@dataclass(frozen=True)
class Held:
    """A claim that holds for all values, and by what."""

    name: str
    by: str


def held(h: Handoff) -> tuple[Held, ...]:
    """All five, in the order of the report; raises Open at the first that is not decided."""
    q = Question(h.tile, h.writer, h.reader, h.live, h.around)
    if q.reader.space != q.writer.space:
        raise Open("placed", f"the writer writes {q.writer.space}, the reader reads {q.reader.space}")
    placed = _try("placed", _placed, q)
    covered = _try("covered", _covered, q)
    return (covered, placed, *(_try(name, claim, q) for name, claim in _REST.items()))


def _try(name: str, claim: object, q: Question) -> Held:
    try:
        return Held(name, claim(q))  # type: ignore[operator]
    except Open:
        raise
    except LayoutError as error:
        raise Open(name, str(error)) from error


def _placed(q: Question) -> str:
    write, wanted = q.write, q.wanted
    if (write.swizzle, write.plus) == (wanted.swizzle, wanted.plus) and write.before and wanted.before:
        if write.before.table == wanted.before.table.only(*write.outputs):
            return "both sides swizzle the same number, by one table of digits"
        raise Open("placed", "the digits of what the two sides swizzle differ")
    if write.table == wanted.table.only(*write.outputs):
        return "one table of digits"
    raise Open("placed", "the digits of the two sides differ")


def _covered(q: Question) -> str:
    owner = q.owner.table.only(*q.tile.extents)
    _in_tile(q, q.owner)
    if owner.image_size() != q.tile.size:
        raise Open("covered", f"the owner holds {owner.image_size()} elements of {q.tile.size}")
    return f"the owner's digits reach {q.tile.size} elements"


def _in_tile(q: Question, places: Places) -> None:
    for axis, extent in q.tile.extents.items():
        low, high = places.table.bounds(axis)
        if not low >= 0 or not high < extent:
            raise LayoutError(f"{axis} runs from {low} to {high} in a tile of {extent}")


def _exclusive(q: Question) -> str:
    table = (q.write.before or q.write).table  # a swizzle moves whole elements to places of their own
    if any(step % q.tile.bits for term, step in table.rows["bit"].items() if term):
        raise LayoutError(f"elements of {q.tile.bits} bits do not start at multiples of their width")
    if table.collision() is not None:
        raise Open("exclusive", "several (t, v) share a place")
    return "a location tells its digits"


def _inside(q: Question) -> str:
    _in_tile(q, q.owner)
    if q.writer.through is not None:
        _in_tile(q, q.writer.through)
    storage, write = q.writer.storage, q.write
    start, end = storage.ends
    low, high = _reach(q)
    if not low >= start or not high + q.tile.bits <= end:
        raise LayoutError(
            f"writes reach from bit {low} to {high + q.tile.bits - 1}, the storage from {start} to {end - 1}"
        )
    first, last = _spans(q, low, high + q.tile.bits) if q.live else (low, high)
    for name, others in q.live.items():
        unit = 32 if q.writer.space == "tmem" else 8
        if not _apart(first, last, others.start * unit, others.stop * unit, unit, name):
            raise LayoutError(f"writes from bit {first} to {last - 1} reach {name}")
    within = ", in whole spans of the swizzle" if write.swizzle else ""
    return f"what the steps add up to lies in the storage{within}"


def _spans(q: Question, low: Int, end: Int) -> tuple[Int, Int]:
    """The same range in whole spans that the swizzle permutes: an element may go anywhere in its own. What remains of
    a span is known, or the family is split."""
    swizzle = q.write.swizzle
    if q.write.before is None or swizzle is None:
        return low, end
    span = 1 << swizzle.base + swizzle.bits + max(0, -swizzle.shift)
    return low - (low - q.write.plus) % span, end + (q.write.plus - end) % span


def _apart(low: Int, end: Int, start: Int, stop: Int, unit: int, name: str) -> bool:
    """Whether writes leave a live buffer alone: they begin behind it, or, which may be a condition, end before it or
    begin behind it, whichever is so of the least values."""
    if _never_less(low, stop):
        return True
    before = at_least_values(end) <= at_least_values(start)
    return at_most((end - start if before else stop - low) // unit, 0, f"{name} is live")


def _never_less(a: Int, b: Int) -> bool:
    try:
        return a >= b
    except LayoutError:
        return False


def _reach(q: Question) -> tuple[int, int]:
    """The lowest and the highest bit where an element is written, or, of a swizzle that the storage has too, where it
    would be without: both round to the same spans then."""
    write, swizzle = q.write, getattr(q.writer.storage, "swizzle", None)
    if write.before is None:
        return write.table.bounds("bit")
    if write.swizzle != swizzle:
        raise LayoutError(f"the store swizzles by {write.swizzle}, and the storage's spans are those of {swizzle}")
    low, high = write.before.table.bounds("bit")
    if write.swizzle and write.plus != 0:
        _ = write.plus % (1 << write.swizzle.base + write.swizzle.bits)  # spans begin where the base does, or refused
    return low + write.plus, high + write.plus


def _legal(q: Question) -> str:
    rules = legal_rules(q, placed=True)
    fault = next((rule.fault for rule in rules if rule.fault), None)
    if fault is not None:
        raise Open("legal", fault)
    return f"{len(rules)} rules"


_REST = {"exclusive": _exclusive, "inside": _inside, "legal": _legal}
