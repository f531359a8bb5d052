"""Replayed: the writers and readers of a kernel's buffers, taken from a run of its PTX, and what the run says of each.

A run sees through hand-written pointer arithmetic: it knows of every byte that an instruction read who wrote it. So it
refutes a handoff of which a byte was never written, or of which the writer depends on how late started work is done (a
wait is missing). Where the writer is a copy from global memory (TMA, cp.async) the run knows which element of the
matrix in global memory each operand coordinate (m, k) is, and judges that: rows must be rows and columns columns, and
the k of operands A and B must be the same.

What a thread's registers mean, no run knows: there the thread-value map of the traced copies is held against the run,
element by element, and where there is none the handoff is unsupported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.cost import wavefronts
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff
from layoutlab.ptx.memory import SHARED_RESERVED_BYTES
from layoutlab.ptx.provenance import Store
from layoutlab.tracing.calls import Ran
from layoutlab.tracing.judge import Row
from layoutlab.tracing.observed import Observed, Site, Taken
from layoutlab.tracing.record import Trace

Array = NDArray[Any]
WARP = 32
_MOST_STORES = 512  # of one writer, whose wavefronts are counted


@dataclass(frozen=True)
class Pair:
    """A reader and one of its writers: what it took from it, and how many elements that were."""

    space: str
    writer: Site
    reader: Site
    taken: Sequence[Taken]
    elements: int


def rows_of(ran: Ran, trace: Trace, traced: Iterable[Row]) -> list[Row]:
    """The table of one launch: a row for each writer and reader that the run saw, refuted, proved or unsupported."""
    for report in (ran.late, ran.early):
        if isinstance(report, str):
            faulty = report.startswith(("AccessError", "Deadlock"))
            when = "late" if report is ran.late else "early"
            why = f"with started work done {when}, the run stops: {report}"
            return [Row(ran.kernel, "-", "-", "refuted" if faulty else "unsupported", why)]
    assert not isinstance(ran.early, str) and not isinstance(ran.late, str)
    assert ran.early.provenance is not None and ran.late.provenance is not None
    early = Observed(ran.early.provenance, ran.module, ran.kernel)
    late = Observed(ran.late.provenance, ran.module, ran.kernel)
    named = _Named(trace, ran)
    handoffs = [row for row in traced if row.handoff is not None]
    unwritten = {f.line: str(f) for report in (ran.early, ran.late) for f in report.warnings if "unwritten" in f.kind}
    rows = list[Row]()
    for (reader, space), taken in early.readers.items():
        name = named.name(space, taken, early)
        fault = _timing(early, late, reader, space)
        lost = [unwritten[t.line] for t in taken if t.line in unwritten]
        pairs = _pairs(early, reader, space, taken)
        if lost:
            rows.append(Row(name, "-", str(reader), "refuted", f"{lost[0]}: nobody wrote it", places=(reader.where,)))
        for pair in pairs:
            common = {"buffer": name, "writer": str(pair.writer), "reader": str(reader),
                      "places": (pair.writer.where, reader.where)}  # fmt: skip
            cost = _cost(early.stores.get(pair.writer, []))
            if fault:
                rows.append(Row(**common, verdict="refuted", why=fault, cost=cost))  # type: ignore[arg-type]
                continue
            verdict, why = _placed(early, pair, handoffs, named)
            rows.append(Row(**common, verdict=verdict, why=why, cost=cost))  # type: ignore[arg-type]
    return rows


def _pairs(run: Observed, reader: Site, space: str, taken: Sequence[Taken]) -> list[Pair]:
    """The writers of what a reader took, the one of most elements first."""
    by_writer: dict[Site, list[Taken]] = defaultdict(list)
    elements: Counter[Site] = Counter()
    for t in taken:
        events, counts = np.unique(t.writers[..., 0], return_counts=True)
        seen = set[Site]()
        for event, count in zip(events.tolist(), counts.tolist(), strict=True):
            if event:
                writer = run.site_of_event(event)
                elements[writer] += count
                if writer not in seen:
                    seen.add(writer)
                    by_writer[writer].append(t)
    return [Pair(space, writer, reader, by_writer[writer], n) for writer, n in elements.most_common()]


# -- time -------------------------------------------------------------------------------------------------------------


def _timing(early: Observed, late: Observed, reader: Site, space: str) -> str:
    """How the writers of what is read differ between the two runs; "" where they do not."""
    mine, theirs = early.sequences.get((reader, space)), late.sequences.get((reader, space))
    if mine is None or theirs is None or len(mine[0]) != len(theirs[0]):
        return f"{reader} reads other things when started work is done late: a wait is missing before it"
    different = mine[0] != theirs[0]
    different &= (mine[0] != 0) & (theirs[0] != 0)  # what nobody wrote is told of by itself
    if not different.any():
        return ""
    at = int(different.argmax())
    place = _place(int(mine[1][at]), space)
    who, other = (_writer_in_words(run, int(x[0][at])) for run, x in ((early, mine), (late, theirs)))
    return (
        f"at {place} it reads what {who} wrote if started work is done at once, and what {other} wrote if it is done "
        "late: a wait is missing"
    )


def _writer_in_words(run: Observed, identity: int) -> str:
    line, count, thread = identity >> 40, identity >> 12 & 0xFFFFFFF, (identity & 0xFFF) - 1
    who = "" if thread < 0 else f"T{thread}'s "
    times = f", time {count + 1}" if count < 1 << 16 else ""
    return f"{who}{run.site(line)}{times}"


def _place(flat: int, space: str) -> str:
    if space == "shared":
        return f"byte {flat}"
    return f"lane {flat >> 16} column {(flat & 0xFFFF) >> 5}"


# -- placement --------------------------------------------------------------------------------------------------------


def _placed(run: Observed, pair: Pair, traced: Sequence[Row], named: _Named) -> tuple[str, str]:
    """The verdict on which element is where, with its reason."""
    if pair.reader.operand and pair.space == "shared":
        copied = _copied_from_global(run, pair)
        if copied is not None:
            return copied
    for row in traced:
        agreement = _agreement(pair, row, named)
        if agreement:
            said = f"traced {row.buffer}: {row.writer} -> {row.reader}"
            return row.verdict, f"{said}, {row.verdict}; {agreement}" + (f": {row.why}" if row.verdict != "proved" else "")
    return "unsupported", (
        f"all of it was written before it was read ({pair.elements} elements, early and late alike); which element "
        "each value is meant to be the run does not know, and no traced copy says it"
    )


def _copied_from_global(run: Observed, pair: Pair) -> tuple[str, str] | None:
    """Whether the operand's rows and columns are those of the matrix in global memory; None where it was not copied."""
    checked = 0
    for t in pair.taken:
        source = _sources(run, t)
        if source is None:
            return None
        fault = _not_separable(source)
        if fault is not None:
            (m, k), should, found = fault
            row = "m" if pair.reader.operand == "A" else "n"
            return "refuted", (
                f"placed: element ({row}={m}, k={k}), byte {int(t.location[m, k])}, is {_spoken(found)} in global memory; by "
                f"its row and its column it is {_spoken(should)}"
            )
        checked += int(np.prod(source.shape[:2]))
    other = _other_operand(run, pair)
    if other:
        return "refuted", other
    return "proved", f"row and column of all {checked} elements read are those in global memory, early and late alike"


def _sources(run: Observed, t: Taken) -> Array | None:
    """(row, depth) -> where each element was in global memory: a coordinate of its tensor, or an address."""
    events = np.unique(t.writers[..., 0])
    found: Array | None = None
    for event in events.tolist():
        box, store = run.boxes.get(event), run.store_of_event.get(event)
        mask = t.writers[..., 0] == event
        if box is not None:
            values = _in_box(box, t.location[mask])
        elif store is not None and store.source is not None:
            values = _in_copy(store, t, mask)
        else:
            return None
        if values is None:
            return None
        if found is None:
            found = np.zeros((*t.location.shape, values.shape[-1]), np.int64)
        elif found.shape[-1] != values.shape[-1]:
            return None
        found[mask] = values
    return found


def _in_box(box: Any, places: Array) -> Array | None:
    """The coordinates, in its tensor, of the box's elements at these bytes."""
    flat = box.location.ravel()
    order = np.argsort(flat)
    at = order[np.minimum(np.searchsorted(flat[order], places), len(flat) - 1)]
    if (flat[at] != places).any():
        return None  # between two elements: the operand's type is not the box's
    return np.stack(np.unravel_index(at, box.location.shape), axis=-1) + np.array(box.origin)


def _in_copy(store: Store, t: Taken, mask: Array) -> Array | None:
    """The global addresses of bytes that cp.async copied."""
    assert store.source is not None
    mine = store.cta == t.cta
    starts, sources = store.address[mine], store.source[mine]
    order = np.argsort(starts)
    places = t.location[mask]
    at = order[np.searchsorted(starts[order], places, side="right") - 1]
    if (sources[at] < 0).any():
        return None  # zeros, for what lies outside
    return np.asarray(sources[at] + places - starts[at])[:, None]


def _not_separable(source: Array) -> tuple[tuple[int, int], Array, Array] | None:
    """The first element that is not the one of its row and its column: (m, k), what it would be, what it is."""
    should = source[:, :1] + source[:1, :] - source[:1, :1]
    wrong = (should != source).any(axis=-1)
    if not wrong.any():
        return None
    m, k = np.unravel_index(int(wrong.argmax()), wrong.shape)
    return (int(m), int(k)), should[m, k], source[m, k]


def _other_operand(run: Observed, pair: Pair) -> str:
    """Where the k of this operand is not the k of the other one of the same MMA; "" where it is, or is not known."""
    if pair.reader.operand != "A":
        return ""
    site = Site(pair.reader.opcode, pair.reader.where, "B")
    others = run.readers.get((site, pair.space), [])
    steps = set[int]()
    by_time = {(t.cta, t.line, i): t for t, i in _numbered(others)}
    for a, i in _numbered(pair.taken):
        b = by_time.get((a.cta, a.line, i))
        sources = [_sources(run, t) for t in (a, b) if t is not None]
        if len(sources) < 2 or sources[0] is None or sources[1] is None:
            return ""
        along = [_along_k(s) for s in sources if s is not None]
        if along[0] is None or along[1] is None or len(along[0]) != len(along[1]):
            return ""
        if (along[0] - along[0][0] != along[1] - along[1][0]).any():
            k = int((along[0] - along[0][0] != along[1] - along[1][0]).argmax())
            return (
                f"placed: k={k} of operand A is column {int(along[0][k])} in global memory, k={k} of operand B is "
                f"{int(along[1][k])}"
            )
        steps.add(int(along[0][0] - along[1][0]))
        if len(steps) > 1:
            return (
                f"placed: in one K step operand A's columns begin {int(along[0][0])} and B's {int(along[1][0])}, in "
                "another the two are apart by another number of columns"
            )
    return ""


def _numbered(taken: Iterable[Taken]) -> Iterable[tuple[Taken, int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for t in taken:
        yield t, counts[t.cta, t.line]
        counts[t.cta, t.line] += 1


def _along_k(source: Array) -> Array | None:
    """The tensor's coordinate that k moves; None for addresses, and where k moves several."""
    if source.shape[-1] == 1:
        return None
    moving = np.flatnonzero((source[:1] != source[:1, :1]).any(axis=(0, 1)))
    return source[0, :, moving[0]] if len(moving) == 1 else None


def _spoken(value: Array) -> str:
    if len(value) == 1:
        return f"address {int(value[0]):#x}"
    return f"element ({', '.join(str(int(v)) for v in reversed(value))})"


# -- the traced copies ------------------------------------------------------------------------------------------------


def _agreement(pair: Pair, row: Row, named: _Named) -> str:
    """How many elements of a traced handoff the run has seen written and read as it says; "" where it is another."""
    assert row.handoff is not None
    handoff: Handoff = row.handoff.handoff
    model = _model_of(handoff)
    if model is None or handoff.writer.space != {"shared": "smem"}.get(pair.space, pair.space):
        return ""
    threads_of, shift = model, None
    checked = 0
    offsets = set[int]()
    for t in pair.taken:
        places = np.asarray(t.location).ravel()
        base = places.min()
        found = None
        for shift in named.shifts(threads_of, int(base)):
            at = np.searchsorted(threads_of.bytes, places - shift)
            at = np.minimum(at, len(threads_of.bytes) - 1)
            whole = threads_of.bytes[at] == places - shift
            if whole.all() or (t.read is None and whole.sum() * handoff.tile.bits >= 8 * whole.size):
                found = at[whole], whole
                break
        if found is None:
            return ""
        at, whole = found
        threads = t.writers[..., 1].ravel()[whole]
        if threads_of.threads is not None:
            if (threads < 0).any():
                return ""
            difference = np.unique(threads - threads_of.threads[at])
            if len(difference) != 1:
                return ""
            offsets.add(int(difference[0]))
        elif (threads >= 0).any():
            return ""
        checked += len(at)
    if not checked or any(offset % WARP for offset in offsets):
        return ""
    return f"in the run {checked} elements were written by the threads and read at the bytes that this says"


@dataclass(frozen=True)
class _Model:
    """A traced handoff: the bytes of its elements, sorted, and the thread that writes each (None: no thread does)."""

    bytes: Array
    threads: Array | None


def _model_of(handoff: Handoff) -> _Model | None:
    axes = handoff.writer.write.axes
    if axes["t"] * axes["v"] > 1 << 18:
        return None
    t, v = (x.ravel() for x in np.indices((axes["t"], axes["v"])))
    try:
        where = handoff.writer.write.at(t=t, v=v)
    except LayoutError:
        return None
    if "bit" not in where or handoff.tile.bits % 8:
        return None
    if "lane" in where:
        return None
    flat = np.broadcast_to(where["bit"], t.shape) // 8
    order = np.argsort(flat)
    threads = t[order] if handoff.writer.owner.threaded else None
    return _Model(flat[order], threads)


class _Named:
    """The traced names of pieces of shared memory, and how the trace's offsets become the run's addresses."""

    def __init__(self, trace: Trace, ran: Ran) -> None:
        self.base = SHARED_RESERVED_BYTES
        self.spans = list[tuple[int, int, str]]()
        for access in trace.accesses:
            if access.space != "smem" or access.offset_bits is None or not access.tensor_name:
                continue
            size = _bytes_of(access.view or access.tensor)
            if size:
                start = self.base + access.offset_bits // 8
                self.spans.append((start, start + size, access.tensor_name))

    def shifts(self, model: _Model, base: int) -> list[int]:
        """From the trace's bytes to the run's: a whole number of 128 bytes, near where the run reads."""
        first = base - int(model.bytes[0])
        near = first - first % 16
        return sorted({self.base, first, near}, key=lambda s: (s != self.base, abs(s - first)))

    def name(self, space: str, taken: Sequence[Taken], run: Observed) -> str:
        """The smallest traced tensor that holds all that is read, or the bytes."""
        if space != "shared":
            columns = np.concatenate([np.unique(t.location[..., 1]) for t in taken])
            return f"Tensor Memory columns {int(columns.min())}-{int(columns.max())}"
        low = min(int(t.location.min()) for t in taken)
        high = max(int(t.location.max()) for t in taken)
        holding = [(stop - start, name) for start, stop, name in self.spans if start <= low and high < stop]
        least = min((size for size, _ in holding), default=0)
        names = list(dict.fromkeys(name for size, name in holding if size == least))
        return (" = ".join(names) + ", " if names else "") + f"shared bytes {low}-{high}"


def _bytes_of(text: str) -> int:
    """The bytes that a printed tensor spans; 0 where that is not known."""
    from layoutlab.layout import Layout
    from layoutlab.swizzle import ComposedLayout
    from layoutlab.text import Pointer, Tensor, parse

    try:
        value = parse(text)
    except LayoutError:
        return 0
    if not isinstance(value, Tensor) or not isinstance(value.iterator, Pointer):
        return 0
    layout = value.layout.outer if isinstance(value.layout, ComposedLayout) else value.layout
    if not isinstance(layout, Layout) or layout.symbolic():
        return 0
    reach = sum((int(s) - 1) * abs(int(d)) for s, d in layout.leaves())
    return (reach + 1) * value.iterator.bits // 8


# -- cost -------------------------------------------------------------------------------------------------------------


def _cost(stores: Sequence[Store]) -> str:
    """The wavefronts that a writer's stores took in the run, warp by warp."""
    found: Counter[tuple[int, int, int]] = Counter()
    for store in stores[:_MOST_STORES]:
        for width, counted, least in _wavefronts(store):
            found[width, counted, least] += 1
    if not found:
        return ""
    worst = max(counted for _, counted, _ in found)
    width, least = next((w, m) for w, c, m in found if c == worst)
    total, fewest = (sum(n * key[i] for key, n in found.items()) for i in (1, 2))
    free = "conflict-free" if total == fewest else f"{least} is the least"
    return f"{sum(found.values())} x {8 * width}-bit stores of a warp in the run, {worst} wavefronts each at most ({free})"


def _wavefronts(store: Store) -> Iterable[tuple[int, int, int]]:
    """(width, wavefronts, the fewest possible) of each warp that executes a store."""
    warps = store.cta * 64 + store.thread // WARP
    for warp in np.unique(warps).tolist():
        mine = warps == warp
        addresses, width = store.address[mine], store.width
        if store.opcode.startswith("stmatrix"):
            rows = np.unique(addresses // 16) * 16
            groups = [rows[i : i + 8].tolist() for i in range(0, len(rows), 8)]
            yield 16, sum(wavefronts([*g, *[None] * (WARP - len(g))], 16, "store") for g in groups), len(groups)
            continue
        if len(addresses) > WARP or width not in (1, 2, 4, 8, 16):
            continue
        lanes: list[int | None] = [None] * WARP
        for lane, address in zip((store.thread[mine] % WARP).tolist(), addresses.tolist(), strict=True):
            lanes[lane] = address
        least = max(1, -(-len(addresses) * width // 128))
        yield width, wavefronts(lanes, width, "store"), least
