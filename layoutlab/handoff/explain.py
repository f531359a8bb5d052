"""What is wrong with a handoff, in plain sentences, from the difference of its write map and its read map."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from layoutlab.arbiter import TooLarge, first_where, value_bounds
from layoutlab.digits import Digit, Map, aligned
from layoutlab.errors import LayoutError
from layoutlab.handoff.claims import Question, in_units, possessive, spoken_range
from layoutlab.handoff.difference import (
    BITS,
    BYTES,
    COLUMNS,
    LANES,
    THREADS,
    Difference,
    Form,
    Names,
    form,
    offset_text,
)
from layoutlab.handoff.difference import explain as differences
from layoutlab.handoff.places import Places
from layoutlab.handoff.verdict import UNIT, UNIT_BITS, Claim


def explain(q: Question, claims: Sequence[Claim]) -> tuple[str, ...]:
    """One sentence for each thing that sets the maps apart, and what would cure it where that follows from the maps."""
    refuted = {claim.name for claim in claims if claim.verdict == "refuted"}
    sentences = _of_tile(q) if refuted != {"legal"} else []
    if "placed" in refuted:
        sentences += _of_maps(q)
    elif "exclusive" in refuted and not sentences:
        sentences.append(f"{q.reader.who} takes both elements from one place: its own map is many to one")
    from layoutlab.handoff.cures import cures

    return (*sentences, *cures(q, claims))


def _of_tile(q: Question) -> list[str]:
    """Where the owner's coordinates end before the tile does, or after it."""
    found = []
    for axis, extent in q.tile.extents.items():
        least, most = _bounds(q.owner, axis)
        held = f"the threads hold {axis}={least} to {most}"
        if most < extent - 1:
            found.append(f"a narrower tile: {held}, the tile goes on to {extent - 1}")
        if most >= extent:
            found.append(f"a wider tile: {held}, the tile ends at {extent - 1}")
    return found


def _bounds(places: Places, out: str) -> tuple[int, int]:
    try:
        return places.table.bounds(out)
    except LayoutError:
        return value_bounds(places.axes, lambda **index: places.at(**index)[out])


def _of_maps(q: Question) -> list[str]:
    """What sets the write map apart from the read map."""
    try:
        found = _from_tables(q)
    except LayoutError:
        return _from_points(q)
    return [*(d.text for d in found), *_columns_for_elements(q), *_beyond(q)]


def _columns_for_elements(q: Question) -> list[str]:
    """Whether the reader's offset from some buffer is the writer's number of columns, taken for elements."""
    per_column = UNIT_BITS["tmem"] // q.tile.bits
    if q.writer.space != "tmem" or per_column < 2:
        return []
    wrote, reads = (_bounds(places, "bit")[0] // UNIT_BITS["tmem"] for places in (q.write, q.reader.read))
    for name, columns in q.around.items():
        on, taken = wrote - columns.start, reads - columns.start
        if on > 0 and on == taken * per_column:
            return [
                f"a unit: {q.tile.name} is written {_columns(on)} from {name}'s first one and read {on} elements from "
                f"it, which are {_columns(taken)}: a typed pointer counts elements, {per_column} to a column"
            ]
    return []


def _columns(count: int) -> str:
    return f"{count} column{'s' if count != 1 else ''}"


def _beyond(q: Question) -> list[str]:
    """Where the reader reads beyond the writer's buffer, and whose place that is."""
    low, high = _bounds(q.reader.read, "bit")
    own, size, found = q.writer.storage.cells, UNIT_BITS[q.writer.space], list[str]()
    for part in (range(low, min(high + q.tile.bits, own.start)), range(max(low, own.stop), high + q.tile.bits)):
        if not part:
            continue
        named = [
            n for n, r in {**q.around, **q.live}.items() if r.start * size < part.stop and part.start < r.stop * size
        ]
        where, mine = spoken_range(q, part), f"{q.tile.name}'s ({in_units(q, own)})"
        unit, whose = where.partition(" ")[0], " and ".join(map(possessive, named))
        one = "this is" if unit == UNIT[q.writer.space] else "these are"
        which = f": {one} {whose} {unit}, not {mine}" if named else f", which {one.split()[1]} not {mine}"
        found.append(f"{q.reader.who} reads {where}{which}")
    return found


UNITS = {
    ("smem", "bit"): BYTES,
    ("tmem", "bit"): COLUMNS,
    ("tmem", "lane"): LANES,
    ("rmem", "bit"): BITS,
    ("rmem", "thread"): THREADS,
}


def _from_tables(q: Question) -> list[Difference]:
    """The differences, between functions of the coordinate where the owner only renames digits."""
    found, moving, still = list[Difference](), set[Digit](), set[Digit]()
    for out in q.write.outputs:
        wrote, wanted = _forms(q, out)
        steps = {d for d, step in wrote.steps.items() if step}
        moving, still = moving | steps, still | {d for d in wrote.steps if d not in steps and wanted.steps[d]}
        found += differences(wrote, wanted, _names(q, wrote), UNITS.get((q.writer.space, out), BYTES))
    if still and still <= moving:  # what does not move along one output moves along the other
        kept = [d for d in found if d.kind != "narrow"]
        return [Difference("order", f"an order: {' and '.join(f'{out}s' for out in _words(q))} are exchanged"), *kept]
    return found


def _words(q: Question) -> list[str]:
    return [UNIT.get(q.writer.space, out) if out == "bit" else out for out in q.write.outputs]


def _forms(q: Question, out: str) -> tuple[Form, Form]:
    try:
        return _by_stages(q.write, q.wanted)
    except LayoutError:
        mine, theirs = aligned(q.write.table, q.wanted.table)
        return form(mine, out=out), form(theirs, out=out)


def _by_stages(write: Places, wanted: Places) -> tuple[Form, Form]:
    if write.before is None and wanted.before is None:
        raise LayoutError("no stages")
    mine, theirs = aligned(_plain(write), _plain(wanted))
    return form(mine, write.swizzle, write.plus), form(theirs, wanted.swizzle, wanted.plus)


def _plain(places: Places) -> Map:
    return places.before.table if places.before else places.table


def _names(q: Question, wrote: Form) -> Names:
    """Each (thread, value) digit as the digit of a coordinate that it is; as itself where it is none."""
    own: Names = {d: d for d in wrote.steps}
    try:
        owner = q.owner.table.only(*q.tile.extents)
        for axis in wrote.axes:
            weights = {d[1] for d in wrote.steps if d[0] == axis} - {1}
            owner = owner.refined(axis, owner.breaks(axis) | weights)
    except LayoutError:
        return own
    names: dict[Digit, Digit] = {}
    for coordinate, row in owner.rows.items():
        for term, step in row.items():
            if len(term) != 1 or step < 1:
                return own
            (d,) = term
            if d in names:
                return own
            names[d] = (coordinate, step, d[2])
    return names if names.keys() == own.keys() else own


def _from_points(q: Question) -> list[str]:
    """Where no table holds the maps: whether everything is off by one constant."""
    zero = dict.fromkeys(q.owner.axes, 0)
    (out,) = q.write.outputs if len(q.write.outputs) == 1 else (None,)
    if out is None:
        return []
    by = int(q.write.at(**zero)[out]) - int(q.wanted.at(**zero)[out])
    off: Callable[..., object] = lambda **i: q.write.at(**i)[out] - q.reader.read.at(**q.clamped(**i))[out] != by  # noqa: E731
    try:
        first, _ = first_where(q.owner.axes, off)
    except TooLarge:
        return []
    if first is not None or not by:
        return []
    return [offset_text(by)]
