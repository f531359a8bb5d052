"""Judging a trace: the buffers, who writes and who reads each, and whether they agree.

A writer and a reader belong together when they use one allocation, overlap in it and see tiles of the same extents;
their handoff is built from what each of them was given, and verified. Memory is used again: a reader that some writer
agrees with is proved, and a writer that some reader agrees with needs no other. Refuted are only a reader and a writer
that agree with nobody. What cannot be judged is `unsupported`, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Owner, Reader, Tile, Verdict, Writer, owned, store, verify
from layoutlab.handoff.report import store_wavefronts, widest_store
from layoutlab.int_tuple import flatten
from layoutlab.layout import Layout, make_layout
from layoutlab.text import parse
from layoutlab.tracing import tensor_memory
from layoutlab.tracing.ownership import misplaced
from layoutlab.tracing.parts import Covered, covered
from layoutlab.tracing.record import Access, Trace
from layoutlab.tracing.sides import Side, Unsupported, sides


@dataclass(frozen=True)
class Row:
    """One line of the table: a buffer, its writer and reader, the verdict with its reason, and what the stores cost."""

    buffer: str
    writer: str
    reader: str
    verdict: str
    why: str = ""
    cost: str = ""
    handoff: Verdict | None = None
    places: tuple[str, ...] = ()
    swapped: bool = False


def judge(trace: Trace) -> list[Row]:
    """The table of a trace: every buffer in shared and Tensor Memory that was seen written or read."""
    rows = list[Row]()
    by_root: dict[tuple[str, int], list[Access]] = {}
    brought = _brought(trace)
    for access in _once(trace.accesses):
        by_root.setdefault((access.space, access.root), []).append(access)
    for accesses in by_root.values():
        rows += _buffer(accesses, trace, brought)
    return rows


def _once(accesses: Iterable[Access]) -> list[Access]:
    """Each access once: unrolled loops partition the same tensor again and again."""
    found: dict[_Key, Access] = {}
    for a in accesses:
        found.setdefault(_key(a), a)
    return [a for a in found.values() if a.role != "partitions"]


_Key = tuple[Any, ...]


def _key(a: Access) -> _Key:
    sliced = a.sliced_bits if (a.kind, a.space) == ("copy", "smem") else 0
    texts = a.texts.get("tv"), a.texts.get("tiler")
    return (a.role, a.kind, a.space, a.tensor, a.root, a.offset_bits, sliced, a.why, *texts)


def _brought(trace: Trace) -> dict[_Key, list[Access]]:
    """Of each store, the different loads that filled its registers."""
    found: dict[_Key, dict[_Key, Access]] = {}
    for store_number, loads in trace.brought.items():
        mine = found.setdefault(_key(trace.accesses[store_number]), {})
        for number in loads:
            mine.setdefault(_key(trace.accesses[number]), trace.accesses[number])
    return {key: list(loads.values()) for key, loads in found.items()}


# -- one allocation ---------------------------------------------------------------------------------------------------


def _buffer(accesses: list[Access], trace: Trace, brought: Mapping[_Key, list[Access]]) -> list[Row]:
    seen: dict[int, list[Side]] = {}
    faults: dict[int, str] = {}
    for i, access in enumerate(accesses):
        try:
            seen[i] = sides(access)
        except LayoutError as error:
            faults[i] = str(error)
    writers = [i for i, a in enumerate(accesses) if a.role == "writes"]
    readers = [i for i, a in enumerate(accesses) if a.role == "reads"]
    results: dict[tuple[int, int], Row] = {}
    for w, r in product(writers, readers):
        if w in seen and r in seen:
            row = _pair(accesses[w], accesses[r], seen[w], seen[r], trace)
            if row is not None:
                results[w, r] = with_registers(row, accesses[w], brought.get(_key(accesses[w])))
    found = _parts(accesses, writers, readers, results, seen)
    done = {w for row, used in found.values() for w in used}
    rest = [i for i in readers if i not in found]
    rows = _assigned(accesses, [w for w in writers if w not in done], rest, results, faults)
    return [row for row, _ in found.values()] + rows


def _parts(
    accesses: list[Access],
    writers: list[int],
    readers: list[int],
    results: dict[tuple[int, int], Row],
    seen: Mapping[int, list[Side]],
) -> dict[int, tuple[Row, tuple[int, ...]]]:
    """The row of each reader that nobody writes whole, and which copies of the reader's name write it in parts."""
    found = dict[int, tuple[Row, tuple[int, ...]]]()
    for r in readers:
        mine = [w for w in writers if _named_alike(accesses[w], accesses[r]) and w in seen]
        if accesses[r].space != "smem" or r not in seen or any((w, r) in results for w in writers) or len(mine) < 2:
            continue
        for side in seen[r]:
            try:
                parts = covered(side, [(w, a) for w in mine for a in seen[w]], _owner)
            except LayoutError:
                continue
            if parts is not None:
                found[r] = (_row_of_parts(accesses, r, parts), parts.writers)
                break
    return found


def _row_of_parts(accesses: list[Access], r: int, parts: Covered) -> Row:
    writers = [accesses[w] for w in parts.writers]
    verdict, why = "proved", f"{len(writers)} copies fill it together, each its part of {accesses[r].tensor_name}"
    if parts.misplaced:
        verdict, why = "refuted", f"placed: {parts.misplaced}"
    elif parts.missed:
        verdict, why = "unsupported", f"{len(writers)} copies of parts were seen, and none of {parts.missed}"
    names = "; ".join(dict.fromkeys(w.who for w in writers))
    places = (*(w.place for w in writers), accesses[r].place)
    return Row(_buffer_name([*writers, accesses[r]]), names, accesses[r].who, verdict, why, places=places)


def _assigned(
    accesses: list[Access],
    writers: list[int],
    readers: list[int],
    results: dict[tuple[int, int], Row],
    faults: dict[int, str],
) -> list[Row]:
    """One row for each reader, and for each writer that no reader was found for."""
    rows = list[Row]()
    betrayed = {
        w for (w, r), row in results.items() if row.verdict == "refuted" and _named_alike(accesses[w], accesses[r])
    }  # whom its own reader disagrees with: that a reader of other things there agrees is chance
    content = {
        w
        for (w, r), row in results.items()
        if row.verdict == "proved"
        and (not row.swapped or _related(accesses[w], accesses[r]))
        and (w not in betrayed or _related(accesses[w], accesses[r]))
    }
    told = set[int]()
    for r in readers:
        if tensor_memory.only_a_shape(accesses[r], accesses):
            continue
        mine = {w: row for (w, reader), row in results.items() if reader == r}
        proved = [w for w, row in mine.items() if row.verdict == "proved"]
        refuted = [w for w, row in mine.items() if row.verdict == "refuted" and w not in content]
        if len(refuted) > 1 and all(_only("covered", mine[w]) for w in refuted):
            mine |= _together({w: mine[w] for w in refuted}, all_seen=not any(w in faults for w in writers))
            proved += [w for w in refuted if mine[w].verdict == "proved"]
            refuted = [w for w in refuted if mine[w].verdict == "refuted"]
        others = [w for w, row in mine.items() if row.verdict not in ("proved", "refuted")]
        if not any(_named_alike(accesses[w], accesses[r]) for w in proved):  # others may agree by chance
            proved = [] if any(_named_alike(accesses[w], accesses[r]) for w in refuted) else proved
        for w in _meant(proved, r, accesses, results) or refuted or others[:1]:
            rows.append(mine[w])
            told.add(w)
        if not (proved or refuted or others):
            rows.append(
                _alone(accesses[r], "reader", faults.get(r), [faults[w] for w in writers if w in faults], bool(writers))
            )
    for w in writers:
        if w not in told and w not in content and not tensor_memory.only_a_shape(accesses[w], accesses):
            rows.append(
                _alone(accesses[w], "writer", faults.get(w), [faults[r] for r in readers if r in faults], bool(readers))
            )
    return rows


def _together(parts: Mapping[int, Row], all_seen: bool) -> dict[int, Row]:
    """The rows of copies that each fill a part of a tile in its place: do they cover it together?

    Where they do not, they are refuted only if no other writer was left out.
    """
    import numpy as np

    handoffs = [row.handoff.handoff for row in parts.values() if row.handoff is not None]
    tile = handoffs[0].tile
    covered = np.zeros(tile.shape, bool)
    for made in handoffs:
        axes = made.writer.owner.places.axes
        t, v = (x.ravel() for x in np.indices((axes["t"], axes["v"])))
        where = made.writer.owner.places.at(t=t, v=v)
        covered[tuple(np.broadcast_to(where[axis], t.shape) for axis in tile.extents)] = True
    if covered.all():
        why = f"{len(parts)} copies fill it together, each its part"
        return {w: replace(row, verdict="proved", why=why) for w, row in parts.items()}
    first = np.unravel_index(int(covered.argmin()), tile.shape)
    missed = ", ".join(f"{axis}={int(i)}" for axis, i in zip(tile.extents, first, strict=True))
    if all_seen:
        why = f"covered: {len(parts)} copies together leave out ({missed})"
        return {w: replace(row, why=why) for w, row in parts.items()}
    why = f"several copies write it, each a part, and one that cannot be judged may write ({missed})"
    return {w: replace(row, verdict="unsupported", why=why) for w, row in parts.items()}


def _named_alike(a: Access, b: Access) -> bool:
    return bool(a.tensor_name) and a.tensor_name == b.tensor_name


def _related(a: Access, b: Access) -> bool:
    """Whether one name goes on where the other ends: sV and its transpose sVt."""
    names = sorted((a.tensor_name, b.tensor_name), key=len)
    return bool(names[0]) and names[1].startswith(names[0])


_ROWS_AS_COLUMNS = (
    "the reader takes as row what the writer takes as column: right if a transpose is meant, which a name says that "
    "goes on from the writer's (sV, sVt)"
)


def _meant(proved: list[int], r: int, accesses: list[Access], results: dict[tuple[int, int], Row]) -> list[int]:
    """Of the writers that a reader agrees with, those that are meant: memory that is used again may agree by chance.

    A writer of the reader's own name goes before others, one in the reader's own coordinates before a swapped one.
    """
    name = accesses[r].tensor_name
    own = [w for w in proved if name and accesses[w].tensor_name == name]
    straight = [w for w in proved if not results[w, r].swapped]
    return own or straight or proved


def _alone(access: Access, what: str, fault: str | None, theirs: list[str], others: bool) -> Row:
    seen = "writes" if what == "reader" else "reads"
    if fault:
        why = fault
    elif theirs:
        why = f"what {seen} it cannot be judged: {theirs[0]}"
    elif others:
        why = f"nothing that was seen {seen} a tile of these extents there"
    else:
        why = (
            f"nothing was seen that {seen} it by a partition: element by element, perhaps, or by addresses of its own; "
            "a run (--replay) sees that"
        )
    pair = ("-", access.who) if what == "reader" else (access.who, "-")
    return Row(_buffer_name([access]), *pair, "unsupported", why, places=(access.place,))


def _buffer_name(accesses: Iterable[Access]) -> str:
    names = list(dict.fromkeys(a.tensor_name for a in accesses if a.tensor_name))
    return " = ".join(names) or "(no name)"


# -- pairs ------------------------------------------------------------------------------------------------------------


def _pair(w: Access, r: Access, mine: list[Side], theirs: list[Side], trace: Trace) -> Row | None:
    """The row of a writer and a reader; None where they have nothing to do with each other."""
    if w.space == "tmem":
        return _in_tensor_memory(w, r, mine, theirs)
    fitting = [
        (a, b)
        for a, b in product(mine, theirs)
        if a.bits == b.bits and a.span.start < b.span.stop and b.span.start < a.span.stop
    ]
    same = [(a, b, False) for a, b in fitting if a.extents == b.extents]
    turned = [(a, b, True) for a, b in fitting if a.extents == b.extents[::-1] and a.extents[0] > 1 < a.extents[1]]
    best: Row | None = None
    for a, b, turn in [*same, *turned]:
        row = _judged(w, r, a, _transposed(b) if turn else b, turn, trace)
        if row.verdict == "proved" and turn and a.extents == b.extents:  # the tile's shape does not say it is turned
            if _named_alike(w, r) and not r.kind.startswith("mma"):  # an MMA takes K^T from sK, through a view
                continue
            return row if _related(w, r) else replace(row, verdict="unsupported", why=_ROWS_AS_COLUMNS)
        if row.verdict == "proved":
            return row
        if best is None or (row.verdict == "refuted" and best.verdict != "refuted" and not turn):
            best = row
    if best is not None and best.verdict == "refuted" and not same:
        return None  # a transposed reading is tried as a kindness: it accuses nobody
    return best


def _in_tensor_memory(w: Access, r: Access, mine: list[Side], theirs: list[Side]) -> Row | None:
    """The row of a writer and a reader of Tensor Memory, each by its instruction's own map."""
    best: Row | None = None
    common = {"buffer": _buffer_name([w, r]), "writer": w.who, "reader": r.who, "places": (w.place, r.place)}
    for a, b in tensor_memory.fitting(mine, theirs):
        try:
            verdict = verify(tensor_memory.handoff(a, b))
        except LayoutError as error:
            row = Row(**common, verdict="unsupported", why=str(error))  # type: ignore[arg-type]
        else:
            row = _told(common, verdict, tensor_memory.source(a, b))
        if row.verdict == "refuted" and (w.why or r.why):
            why = f"{w.why or r.why}; if that is one stage's for both: {row.why}"
            row = replace(row, verdict="unsupported", why=why)
        if row.verdict == "proved":
            return row
        best = row if best is None or (row.verdict, best.verdict) == ("refuted", "unsupported") else best
    return best


def _told(common: Mapping[str, Any], verdict: Verdict, source: str) -> Row:
    """The row of a verdict, with its first reason."""
    why = source
    if verdict.verdict != "proved":
        claim = next(c for c in verdict.claims if c.verdict == verdict.verdict)
        why = f"{claim.name}: {claim.witness.message if claim.witness else claim.why}"
        why += "".join(f"; {line}" for line in verdict.explanation[:1])
    return Row(**common, verdict=verdict.verdict, why=why, handoff=verdict)


def with_registers(row: Row, store: Access, loads: list[Access] | None) -> Row:
    """The row with what is known of the registers: whether the threads hold what the store takes them to hold.

    `loads` is None for a copy that was not seen to come from registers.
    """
    if loads is None or row.verdict != "proved" or row.handoff is None or store.kind != "copy":
        return row
    said = [misplaced(load, row.handoff.handoff.writer) for load in loads]
    if said and all(said):
        return replace(row, verdict="refuted", why=f"owner: {said[0]}")
    if any(text == "" for text in said):
        return replace(row, why=f"{row.why}; each thread stores what it loaded")
    return replace(row, why=f"{row.why}; what the registers hold is taken to be what the copy says")


def _transposed(side: Side) -> Side:
    return Side(
        side.access, make_layout(side.tile[1], side.tile[0]), side.swizzle, side.start_bits, side.bits, side.align
    )


def _judged(w: Access, r: Access, a: Side, b: Side, turned: bool, trace: Trace) -> Row:
    name = w.tensor_name or r.tensor_name or "tile"
    m, k = a.extents
    tile = Tile(re.sub(r"\W", "_", name), m=m, k=k, bits=a.bits)
    common = {"buffer": _buffer_name([w, r]), "writer": w.who, "reader": r.who, "places": (w.place, r.place)}
    try:
        writer = _writer(w, a, tile, trace)
        reader, no_descriptor = _reader(r, b, tile, turned, trace)
        verdict = verify(Handoff(tile, writer=writer, reader=reader))
    except LayoutError as error:
        return Row(**common, verdict="unsupported", why=str(error))  # type: ignore[arg-type]
    if no_descriptor and verdict.verdict != "refuted":  # both have the same layout, which no descriptor reads
        return Row(**common, verdict="unsupported", why=no_descriptor)  # type: ignore[arg-type]
    answer, why = verdict.verdict, ""
    if answer != "proved":
        claim = next(c for c in verdict.claims if c.verdict == answer)
        why = f"{claim.name}: {claim.witness.message if claim.witness else claim.why}"
        why += "".join(f"; {line}" for line in verdict.explanation[:1])
    if answer == "refuted" and _only_legal(verdict):
        answer = "unsupported"
        why = f"the addresses agree, but a rule is not met as far as the trace tells: {why}"
    notes = [reader.source] + (["the reader's coordinates are the writer's, swapped"] if turned else [])
    told = {"why": why or "; ".join(notes), "cost": _cost(writer), "handoff": verdict, "swapped": turned}
    return Row(**common, verdict=answer, **told)  # type: ignore[arg-type]


def _only_legal(verdict: Verdict) -> bool:
    return all(c.verdict == "proved" for c in verdict.claims if c.name != "legal")


def _only(name: str, row: Row) -> bool:
    """Whether that claim is the only one that is not proved."""
    return row.handoff is not None and all(c.verdict == "proved" for c in row.handoff.claims if c.name != name)


def _writer(access: Access, side: Side, tile: Tile, trace: Trace) -> Writer:
    storage = side.storage(tile)
    if access.kind == "tma":
        from layoutlab.handoff.boxes import tma_load

        return tma_load(storage, box=_box(access, tile), swizzle=_tma_swizzle(access, side, trace))
    return store(_owner(access, tile), storage, bits=tile.bits)


def _owner(access: Access, tile: Tile) -> Owner:
    """Who writes which element, by the copy's own thread-value layout over its tiler."""
    from layoutlab.handoff.copies import copy_coordinates

    tv, tiler = parse(access.texts["tv"]), parse(access.texts["tiler"])
    if not isinstance(tv, Layout) or tv.rank() != 2:
        raise Unsupported(f"the copy's thread-value layout is {tv}")
    threads, values = int(tv[0].size()), int(tv[1].size())
    if threads == 1:
        raise Unsupported(
            "the copy has one thread: who of all threads writes what is not in its layout, but a run (--replay) says it"
        )
    copy: Any = SimpleNamespace(tv=tv, tiler=tiler)
    return owned(copy_coordinates(copy, tile, threads, values), tile)


def _box(access: Access, tile: Tile) -> dict[str, int]:
    """The box of a TMA copy, contiguous dimension first, from the type of its atom."""
    m = re.search(r'tma_gbasis = <"(.+?)">', access.texts.get("tiler", ""))
    basis = parse(m[1]) if m else None
    if not isinstance(basis, Layout):
        raise Unsupported("the TMA atom does not say its box")
    names, box = list(tile.extents), dict[str, int]()
    for extent, stride in basis.leaves():
        if extent == 1:
            continue
        path: tuple[int, ...] = getattr(stride, "path", ())
        if len(path) != 1 or path[0] > 1 or names[path[0]] in box or getattr(stride, "value", 0) != 1:
            raise Unsupported(f"the TMA box {basis} is no plain box of the tile's two coordinates")
        box[names[path[0]]] = int(extent)
    for name in names:
        box.setdefault(name, 1)
    return box


def _tma_swizzle(access: Access, side: Side, trace: Trace) -> Any:
    """The swizzle that the tensor map was made with: the host's layout, where one atom of this type says it."""
    known = trace.tma.get(access.texts.get("tiler", ""), [])
    swizzles = {_swizzle_of(text) for text in known}
    own = side.swizzle.bits if side.swizzle else 0
    return {0: 0, 1: 32, 2: 64, 3: 128}[next(iter(swizzles)) if len(swizzles) == 1 else own]


def _swizzle_of(text: str) -> int:
    m = re.search(r"S<(\d),4,3>", text)
    return int(m[1]) if m else 0


def _reader(access: Access, side: Side, tile: Tile, turned: bool, trace: Trace) -> tuple[Reader, str]:
    """The reader's own map, and why an MMA's is the layout that it was given and not a descriptor's; "" where it is."""
    from layoutlab.handoff.boxes import tma_store
    from layoutlab.handoff.reader import declared

    storage = side.storage(tile)
    if access.kind == "tma":
        return tma_store(storage, box=_box(access, tile), swizzle=_tma_swizzle(access, side, trace)), ""
    refused = ""
    if access.kind.startswith("mma") and not turned:
        try:
            by_descriptor = _descriptors(access, side, tile)
        except LayoutError as error:
            by_descriptor, refused = None, str(error)
        if by_descriptor is not None:
            return by_descriptor, ""
    found = declared(storage, tile)
    who = "the MMA" if access.kind.startswith("mma") else access.by_name or "the copy"
    source = "declared: it reads by the layout that its tensor has"
    return replace(found, who=who, source=source), refused


def _descriptors(access: Access, side: Side, tile: Tile) -> Reader | None:
    """The MMA's own map: the descriptor's fields of the layout, and the steps that the DSL's fragment takes."""
    from layoutlab.atoms.operand import descriptor_of
    from layoutlab.handoff.reader import umma_a, umma_b

    steps = _fragment_steps(access)
    if steps is None:
        return None
    operand = descriptor_of(side.layout(side.bits), side.bits, side.start_bits // 8)
    if len(steps) != len(operand.starts_bytes):
        return None
    make = umma_a if access.kind == "mma A" else umma_b
    found = make(operand.descriptor, tile, starts_bytes=steps, major=operand.major)
    source = f"modelled: descriptors of operand {access.kind[-1]}, {operand.major}-major"
    if access.whole:  # warpgroups share the tile: how many rows one instruction takes is a rule for each one's part
        return replace(found, source=source, rules=lambda: [rule for rule in found.rules() if "rows" not in rule.asked])
    return replace(found, source=source)


def _fragment_steps(access: Access) -> list[int] | None:
    """Bytes from the first K step to each, by the fragment's layout of 16-byte units; None for other MMAs."""
    m = re.search(r"smem_desc o (.+)>$", access.result.replace("\n", " "))
    if m is None:
        return None
    try:
        layout = parse(m[1])
    except LayoutError:
        return None
    if not isinstance(layout, Layout) or layout.rank() < 3 or prod(flatten(layout[1].shape)) != 1:
        return None
    return [int(layout[2](i)) * 16 for i in range(int(layout[2].size()))]


def _cost(writer: Writer) -> str:
    """The widest stores that the places allow, and the wavefronts of a warp's store."""
    if writer.space != "smem" or not writer.owner.threaded:
        return ""
    try:
        bits = widest_store(writer)
        counts = store_wavefronts(writer, bits)
    except LayoutError:
        return ""
    least = max(1, 32 * bits // 8 // 128)
    worst = max(counts)
    free = "conflict-free" if worst == least else f"{least} is the least"
    return f"{len(counts)} x {bits}-bit stores, {worst} wavefronts each ({free})"


def table(rows: Iterable[Row]) -> str:
    """The rows as text."""
    lines = list[str]()
    for row in rows:
        lines.append(f"{row.verdict:<12} {row.buffer}: {row.writer} -> {row.reader}")
        lines += [f"{'':<12} {row.why}"] if row.why else []
        lines += [f"{'':<12} cost: {row.cost}"] if row.cost else []
    return "\n".join(lines)


def counts(rows: Iterable[Row]) -> Mapping[str, int]:
    """How many rows have each verdict."""
    found = {"proved": 0, "refuted": 0, "undecided": 0, "unsupported": 0}
    for row in rows:
        found[row.verdict] += 1
    return found
