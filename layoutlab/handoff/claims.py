"""The five claims about a handoff, each decided by a table where one holds the maps, by enumeration where none does.

covered     every coordinate that the reader reads was written
placed      write(thread, value) == read(coordinate(thread, value)), for all of them
exclusive   no location receives two different elements
inside      nothing leaves the tile or the allocation, or overlaps a buffer that is still live
legal       alignment, divisibility, descriptor fields, warp-to-lane rules

A table that proves is a comparison: it computes no points. Which method answered, and why, is part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from layoutlab.arbiter import TooLarge, count_where, first_missing, first_shared, first_where, value_bounds
from layoutlab.digits import ONE, Map, aligned
from layoutlab.errors import LayoutError
from layoutlab.handoff.linear import Linear, equal_points, first_outside
from layoutlab.handoff.places import Places, strided_places
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.storage import HARDWARE_PERIOD_BYTES, Smem
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.verdict import UNIT, UNIT_BITS, Answer, Claim, Location, Witness
from layoutlab.handoff.writer import Writer

TABLE, WALK, RULES = "normal form", "enumeration", "rules"
LANE_BITS = 512 * 32
"""Bits of one TMEM lane; a thread's registers are fewer."""
COUNTED = 1 << 62
"""Elements that enumeration can tell apart."""


@dataclass(frozen=True, eq=False)
class Question:
    """A handoff as the claims see it: the maps, and how to speak of their points."""

    tile: Tile
    writer: Writer
    reader: Reader
    live: Mapping[str, range]
    around: Mapping[str, range]

    @property
    def owner(self) -> Places:
        return self.writer.owner.places

    @property
    def write(self) -> Places:
        return self.writer.write

    @cached_property
    def wanted(self) -> Places:
        """(t, v) -> where the reader takes that element from."""
        return self.reader.read.after(self.owner)

    def coordinate(self, index: Mapping[str, int]) -> dict[str, int]:
        return {axis: int(x) for axis, x in self.owner.at(**index).items()}

    def inside_tile(self, **index: Any) -> Any:
        """Whether the element of (t, v) is one of the tile's."""
        where = self.owner.at(**index)
        return _all([(where[a] >= 0) & (where[a] < e) for a, e in self.tile.extents.items()])

    def clamped(self, **index: Any) -> dict[str, Any]:
        """The coordinate of (t, v), or 0 where it lies outside of the tile."""
        where, inside = self.owner.at(**index), self.inside_tile(**index)
        return {a: where[a] * inside for a in self.tile.extents}

    def identity(self, **index: Any) -> Any:
        """A number for the element of (t, v), different for different elements, outside of the tile too."""
        where = self.owner.at(**index)
        total: Any = 0
        for axis, (low, high) in self.spans.items():
            total = total * (high - low + 1) + (where[axis] - low)
        return total

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """The lowest and the highest coordinate that the owner holds, by axis; refuses more elements than 64 bits
        tell apart."""
        spans = {axis: self._span(axis) for axis in self.tile.extents}
        if (count := prod(high - low + 1 for low, high in spans.values())) > COUNTED:
            raise TooLarge(f"coordinates range over {count} elements, and enumeration tells {COUNTED} apart")
        return spans

    def _span(self, axis: str) -> tuple[int, int]:
        try:
            return self.owner.table.bounds(axis)
        except LayoutError:
            return value_bounds(self.owner.axes, lambda **index: self.owner.at(**index)[axis])

    def leaves_by_copy(self, **index: Any) -> Any:
        """Whether a copy of its own coordinates writes (t, v) outside of the tile."""
        if self.writer.through is None:
            return ~self.inside_tile(**index) & False
        where = self.writer.through.at(**index)
        return ~_all([(where[a] >= 0) & (where[a] < e) for a, e in self.tile.extents.items()])

    def name(self, index: Mapping[str, int]) -> str:
        """T1 V0 (m=1, k=0)."""
        return f"{self.writer.owner.named(index)} ({_spoken(self.coordinate(index))})"

    def wrote(self, index: Mapping[str, int]) -> Location:
        return Location(self.writer.space, self._of_block(_ints(self.write.at(**index))))

    def _of_block(self, outputs: dict[str, int]) -> dict[str, int]:
        """A place, its thread counted in the block as everywhere in a report, where registers are the memory."""
        return {name: n + self.writer.owner.first_thread * (name == "thread") for name, n in outputs.items()}

    def reads(self, coordinate: Mapping[str, int]) -> Location | None:
        if any(not 0 <= coordinate[a] < e for a, e in self.tile.extents.items()):
            return None
        return self.reader.location(self._of_block(_ints(self.reader.read.at(**coordinate))))

    def witness(self, index: Mapping[str, int], message: str) -> Witness:
        coordinate, owner = self.coordinate(index), self.writer.owner
        thread, value = (index["t"] + owner.first_thread, index["v"]) if owner.threaded else (None, None)
        return Witness(message, thread, value, coordinate, self.wrote(index), self.reads(coordinate))


def decide(question: Question) -> tuple[Claim, ...]:
    """All five answers, in the order of the report."""
    if question.reader.space != question.writer.space:
        why = f"the writer writes {question.writer.space}, the reader reads {question.reader.space}"
        return tuple(Claim(name, "unsupported", "none", 0, 0, None, why) for name in NAMES)
    place = placed(question)
    return (covered(question, place), place, exclusive(question, place), inside(question), legal(question, place))


NAMES = ("covered", "placed", "exclusive", "inside", "legal")


def _by_table_or_walk(name: str, size: int, table: Callable[[], Claim], walk: Callable[[str], Claim]) -> Claim:
    """The table's answer, or where none holds the maps, the enumeration's, or where that is too long, none."""
    try:
        return table()
    except LayoutError as error:
        reason = str(error)
    try:
        return walk(reason)
    except (TooLarge, OverflowError) as error:
        return Claim(name, "undecided", "none", size, 0, None, f"no normal form: {reason}; no enumeration: {error}")


# -- placed -----------------------------------------------------------------------------------------------------------


def placed(q: Question) -> Claim:
    """Whether every element is written where it is read; the first in counting order that is not."""

    def table() -> Claim:
        if _same_stages(q.write, q.wanted):
            return _placed(q, None, TABLE, 0, "")
        at = q.write.table.first_difference(q.wanted.table)
        if at is None:
            return _placed(q, None, TABLE, 0, "")
        why, counted = _share_wrong(q)
        return _placed(q, at, TABLE, counted, why)

    def walk(reason: str) -> Claim:
        def wrong(**index: Any) -> Any:
            here, there = q.write.at(**index), q.reader.read.at(**q.clamped(**index))
            return q.inside_tile(**index) & ~_all([here[o] == there[o] for o in q.write.outputs])

        at, walked = first_where(q.owner.axes, wrong)
        elements, more = count_where(q.owner.axes, q.inside_tile)
        why, counted = f"no normal form: {reason}", 0
        if at is not None:
            bad, counted = count_where(q.owner.axes, wrong)
            why = f"{bad} of {elements} elements are misplaced; {why}"
        return _placed(q, at, WALK, walked + more + counted, why, elements)

    return _by_table_or_walk("placed", q.owner.size, table, walk)


def _same_stages(a: Places, b: Places) -> bool:
    """Whether the two swizzle the same numbers in the same way."""
    if a.before is None or b.before is None or a.swizzle != b.swizzle or a.plus != b.plus:
        return False
    return a.before.table == b.before.table


def _placed(
    q: Question, at: Mapping[str, int] | None, method: str, walked: int, why: str, inside: int | None = None
) -> Claim:
    """The answer, over the elements that lie inside of the tile: what lies outside is the claim `inside`'s."""
    size = q.owner.size if inside is None else inside
    if at is None:
        return Claim("placed", "proved", method, size, walked, None, why)
    here, there = q.wrote(at), q.reads(q.coordinate(at))
    message = f"{q.name(at)} writes {here}; {q.reader.who} reads that element at {there}"
    return Claim("placed", "refuted", method, size, walked, q.witness(at, message), why)


def _share_wrong(q: Question) -> tuple[str, int]:
    """How many elements are misplaced, by linear algebra or else by counting, and how many points that computed."""
    size, counted = q.owner.size, 0
    try:
        write, wanted = aligned(q.write.table, q.wanted.table)
        wrong = size - equal_points(Linear.of(write), Linear.of(wanted))
    except LayoutError:
        try:
            wrong, counted = count_where(q.owner.axes, lambda **index: _differ(q, index))
        except TooLarge:
            return "", 0
    return f"{wrong} of {size} elements are misplaced", counted


def _differ(q: Question, index: Mapping[str, Any]) -> Any:
    here, there = q.write.at(**index), q.wanted.at(**index)
    return ~_all([here[out] == there[out] for out in q.write.outputs])


# -- covered ----------------------------------------------------------------------------------------------------------


def covered(q: Question, place: Claim) -> Claim:
    """Whether each coordinate is somebody's, and each location that is read receives something."""
    size = q.tile.size

    def table() -> Claim:
        lost = _unowned(q)
        if lost is not None:
            return _uncovered(q, lost, "no thread holds that element", TABLE, 0, "")
        if place.verdict == "proved" and place.method == TABLE:
            return Claim("covered", "proved", TABLE, size, 0, None, _zeros(q))
        if {a: q.reader.read.axes.get(a) for a in q.tile.extents} != q.tile.extents:
            raise LayoutError("the reader's places go on past the tile")
        write, read = q.write.table, q.reader.read.table.only(*q.write.outputs)
        _refuse_staggered(write, read, q.tile.bits)
        lost = first_outside(Linear.of(write), Linear.of(read))
        return _uncovered(q, lost, "nothing is written there", TABLE, 0, "")

    def walk(reason: str) -> Claim:
        flat = _flat_coordinate(q.tile)
        lost, walked = first_missing(q.tile.extents, flat, q.owner.axes, lambda **i: _flat_or_outside(q, flat, i), 1)
        if lost is not None:
            return _uncovered(q, lost, "no thread holds that element", WALK, walked, f"no normal form: {reason}")
        lost, more = first_missing(
            q.tile.extents,
            lambda **c: _cell(q.reader.read.at(**c)),
            q.owner.axes,
            lambda **i: _cell(q.write.at(**i)),
            q.tile.bits,
        )
        return _uncovered(q, lost, "nothing is written there", WALK, walked + more, f"no normal form: {reason}")

    return _by_table_or_walk("covered", size, table, walk)


def _refuse_staggered(write: Map, read: Map, bits: int) -> None:
    """Comparing where elements start says which bits are written only where all start a multiple of their width
    apart."""
    start = write.rows["bit"].get(ONE, 0)
    apart = [read.rows["bit"].get(ONE, 0) - start]
    apart += [step for m in (write, read) for term, step in m.rows["bit"].items() if term]
    if any(step % bits for step in apart):
        raise LayoutError(f"elements of {bits} bits do not start at multiples of their width from each other")


def _uncovered(q: Question, lost: Mapping[str, int] | None, what: str, method: str, walked: int, why: str) -> Claim:
    if lost is None:
        return Claim("covered", "proved", method, q.tile.size, walked, None, why)
    at = q.reads(lost)
    message = f"({_spoken(lost)}) is read at {at}, and {what}"
    return Claim("covered", "refuted", method, q.tile.size, walked, Witness(message, coordinate=lost, reads=at), why)


def _zeros(q: Question) -> str:
    """How many of the written elements are zeros that TMA fills in."""
    if not q.writer.zeros:
        return ""
    return f"{q.writer.zeros} of them zero-filled: they lie outside of the tensor"


def _unowned(q: Question) -> dict[str, int] | None:
    """The first coordinate, in the tile's order, that no (t, v) holds."""
    owner = q.owner.table.only(*q.tile.extents)
    inside = all(low >= 0 and high < q.tile.extents[a] for a in owner.rows for low, high in [owner.bounds(a)])
    if inside and owner.image_size() == q.tile.size:
        return None
    return first_outside(Linear.of(owner), Linear.of(_identity(q.tile).table))


def _identity(tile: Tile) -> Places:
    first, *more = [strided_places({axis: [(extent, 1)]}, axis) for axis, extent in tile.extents.items()]
    for part in more:
        first = first.beside(part)
    return first


def _flat_coordinate(tile: Tile) -> Callable[..., Any]:
    def flat(**where: Any) -> Any:
        total: Any = 0
        for axis, extent in tile.extents.items():
            total = total * extent + where[axis]
        return total

    return flat


def _flat_or_outside(q: Question, flat: Callable[..., Any], index: Mapping[str, Any]) -> Any:
    inside = q.inside_tile(**index)
    return flat(**q.clamped(**index)) * inside - (1 - inside)


# -- exclusive --------------------------------------------------------------------------------------------------------


def exclusive(q: Question, place: Claim) -> Claim:
    """Whether no location receives two different elements; the same one twice is a remark."""
    size = q.owner.size

    def table() -> Claim:
        # A swizzle moves whole elements to places of their own: two that share a place after it share one before it.
        write = (q.write.before or q.write).table
        write = write.plus("bit", -write.rows["bit"].get(ONE, 0))
        if any(s % q.tile.bits for t, s in write.rows["bit"].items() if t):
            raise LayoutError(f"elements of {q.tile.bits} bits do not start at multiples of their width")
        if _injective(write):
            return Claim("exclusive", "proved", TABLE, size, 0)
        view, owner = _over_same(write, q.owner.table.only(*q.tile.extents))
        twice = 0
        for mask in view.dependencies():
            if owner.flipped(mask):
                top = 1 << mask.bit_length() - 1
                return _shared(q, (view.index(top), view.index(mask ^ top)), TABLE, 0, "")
            twice += 1
        remark = f"each element is written {1 << twice} times to the same place"
        return Claim("exclusive", "proved", TABLE, size, 0, None, remark)

    def walk(reason: str) -> Claim:
        pair, walked = first_shared(q.owner.axes, lambda **i: _cell(q.write.at(**i)), q.identity, q.tile.bits)
        return _shared(q, pair, WALK, walked, f"no normal form: {reason}")

    return _by_table_or_walk("exclusive", size, table, walk)


def _injective(write: Map) -> bool:
    try:
        return write.collision() is None
    except LayoutError:
        return False


def _over_same(a: Map, b: Map) -> tuple[Linear, Linear]:
    """Both maps as linear views over the same digits."""
    for axis in a.axes:
        breaks = a.breaks(axis) | b.breaks(axis)
        a, b = a.refined(axis, breaks), b.refined(axis, breaks)
    return Linear.of(a), Linear.of(b.over(*a.axes))


def _shared(
    q: Question, pair: tuple[Mapping[str, int], Mapping[str, int]] | None, method: str, walked: int, why: str
) -> Claim:
    if pair is None:
        return Claim("exclusive", "proved", method, q.owner.size, walked, None, why)
    second, first = pair
    here, there = q.wrote(second), q.wrote(first)
    places = f"both write {here}" if here == there else f"overlap: {there} and {here}, {q.tile.bits} bits each"
    message = f"{q.name(first)} and {q.name(second)} {places}"
    return Claim("exclusive", "refuted", method, q.owner.size, walked, q.witness(second, message), why)


# -- inside -----------------------------------------------------------------------------------------------------------


def inside(q: Question) -> Claim:
    """Whether writes stay in the tile, in the allocation, and out of live buffers."""
    whole = q.writer.storage.cells
    unit = UNIT_BITS[q.writer.space]
    live = {name: range(r.start * unit, r.stop * unit) for name, r in q.live.items()}

    def table() -> Claim:
        owner, taken = q.owner.table, _reach(q.write, q.tile.bits)
        for axis, extent in q.tile.extents.items():
            least, most = owner.bounds(axis)
            if least < 0 or most >= extent:
                raise LayoutError(f"{axis} runs from {least} to {most} in a tile of {extent}")
            least, most = (0, 0) if q.writer.through is None else q.writer.through.table.bounds(axis)
            if least < 0 or most >= extent:
                raise LayoutError(f"the copy's {axis} runs from {least} to {most} in a tile of {extent}")
        if taken.start < whole.start or taken.stop > whole.stop:
            raise LayoutError(f"writes reach from bit {taken.start} to {taken.stop - 1}")
        if other := next((name for name, r in live.items() if taken.start < r.stop and r.start < taken.stop), None):
            raise LayoutError(f"writes reach over {other}")
        return Claim("inside", "proved", TABLE, q.owner.size, 0)

    def walk(reason: str) -> Claim:
        def wrong(**index: Any) -> Any:
            cell = q.write.at(**index)["bit"]
            bad = (
                ~q.inside_tile(**index)
                | q.leaves_by_copy(**index)
                | (cell < whole.start)
                | (cell + q.tile.bits > whole.stop)
            )
            for r in live.values():
                bad = bad | (cell < r.stop) & (cell + q.tile.bits > r.start)
            return bad

        at, walked = first_where(q.owner.axes, wrong)
        if at is None:
            return Claim("inside", "proved", WALK, q.owner.size, walked, None, f"no normal form: {reason}")
        return Claim("inside", "refuted", WALK, q.owner.size, walked, q.witness(at, _outside(q, at, whole, live)))

    return _by_table_or_walk("inside", q.owner.size, table, walk)


def _reach(write: Places, bits: int) -> range:
    """The bits that writes may touch: a swizzle of whole elements stays in the spans that it permutes."""
    if write.before is None or write.swizzle is None:
        low, high = write.table.bounds("bit")
        return range(low, high + bits)
    table = write.before.table
    if any(step % bits for step in table.rows["bit"].values()):
        raise LayoutError(f"elements of {bits} bits do not start at multiples of their width")
    low, high = table.bounds("bit")
    span = 1 << write.swizzle.base + write.swizzle.bits + max(0, -write.swizzle.shift)
    return range(low // span * span + write.plus, (high // span + 1) * span + write.plus)


def _outside(q: Question, at: Mapping[str, int], whole: range, live: Mapping[str, range]) -> str:
    coordinate, here = q.coordinate(at), q.wrote(at)
    for axis, extent in q.tile.extents.items():
        if not 0 <= coordinate[axis] < extent:
            return f"{q.name(at)} lies outside of the tile: {axis} ends at {extent - 1}"
    through = _ints(q.writer.through.at(**at)) if q.writer.through else {}
    for axis, index in through.items():
        if not 0 <= index < q.tile.extents[axis]:
            ends = f"{axis} ends at {q.tile.extents[axis] - 1}"
            return f"{q.name(at)} goes to ({_spoken(through)}), outside of the tile: {ends}"
    cell = here.outputs["bit"]
    for name, r in live.items():
        if cell < r.stop and cell + q.tile.bits > r.start:
            where = spoken_range(q, r)
            hold = "hold" if where.partition(" ")[0].endswith("s") else "holds"
            return f"{q.name(at)} writes {here}: {where} {hold} {name}, still live"
    return f"{q.name(at)} writes {here}, outside of {q.writer.storage.name}'s {spoken_range(q, whole)}"


def possessive(name: str) -> str:
    """S's; the row statistics'."""
    return name + ("'" if name.endswith("s") else "'s")


def in_units(q: Question, bits: range) -> str:
    """A range of bits as the bytes or columns of the memory.

    The first and the last one, both included.
    """
    size = UNIT_BITS[q.writer.space]
    first, last = bits.start // size, -(-bits.stop // size) - 1
    return str(first) if first == last else f"{first} to {last}"


def spoken_range(q: Question, bits: range) -> str:
    """byte 7; columns 0 to 31."""
    text = in_units(q, bits)
    return f"{UNIT[q.writer.space]}{'s' if ' to ' in text else ''} {text}"


# -- legal ------------------------------------------------------------------------------------------------------------


def legal(q: Question, place: Claim) -> Claim:
    """Whether loads, stores, buffer and descriptors are what the hardware takes."""
    try:
        rules = legal_rules(q, placed=place.verdict == "proved")
    except (TooLarge, OverflowError) as error:
        return Claim("legal", "undecided", "none", 0, 0, None, f"no enumeration: {error}")
    faults = [rule.fault for rule in rules if rule.fault]
    answer: Answer = "refuted" if faults else "proved"
    asked = "; ".join(rule.asked for rule in rules)
    witness = Witness(faults[0]) if faults else None
    return Claim("legal", answer, RULES, len(rules), 0, witness, "; ".join(faults[1:]) if faults else asked)


def legal_rules(q: Question, *, placed: bool) -> list[Rule]:
    """All that the hardware asks, each thing once."""
    return [*dict.fromkeys([*q.writer.rules(), *q.reader.rules(), *_base_rules(q, placed)])]


def _base_rules(q: Question, placed: bool) -> list[Rule]:
    """What is placed for one base is placed for all that differ by whole patterns, or, where both sides swizzle
    addresses alike, for any."""
    if not placed or q.writer.space != "smem" or not isinstance(q.writer.storage, Smem):
        return []
    write, read = q.writer.rows or q.writer.write, q.reader.rows or q.reader.read
    if (write.swizzle, write.plus) == (read.swizzle, read.plus):
        return []
    align, name = q.writer.storage.align_bytes, q.writer.storage.name
    period = max(_repeat_bytes(places) for places in (write, read))
    fault = None
    if align % period:
        fault = (
            f"{name} is aligned to {align} bytes, and one side swizzles otherwise than the other: elements lie where "
            f"they are read only while {name}'s base keeps its remainder by {period}; align it to {period} bytes"
        )
    return [Rule(f"{name}'s base keeps its remainder by {period} bytes", fault)]


def _repeat_bytes(places: Places) -> int:
    """Bytes after which a side's dependence on the base repeats: a swizzle of offsets moves with it, up to what any
    reader sees."""
    if places.swizzle is None:
        return 1
    s = places.swizzle
    repeat = max(1, (1 << s.base + s.bits + abs(s.shift)) // 8)
    return min(repeat, HARDWARE_PERIOD_BYTES) if places.plus else repeat


# -- small words ------------------------------------------------------------------------------------------------------


def _cell(outputs: Mapping[str, Any]) -> Any:
    """A location as one number of bits."""
    return outputs["bit"] + (outputs.get("lane", 0) + outputs.get("thread", 0)) * LANE_BITS


def _all(conditions: list[Any]) -> Any:
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return result


def _ints(outputs: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in outputs.items()}


def _spoken(coordinate: Mapping[str, int]) -> str:
    return ", ".join(f"{axis}={x}" for axis, x in coordinate.items())
