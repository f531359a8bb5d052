"""Replayed: the writers and readers of a kernel's buffers, taken from a run of its PTX, and what the run says of each.

A run sees through hand-written pointer arithmetic: it knows of every byte that an instruction read who wrote it. So it
refutes a handoff of which a byte was never written, or of which the writer depends on how late started work is done (a
wait is missing) or on which warp goes first (a barrier is missing). Where each element came from (by TMA or cp.async
from global memory, through registers from global or Tensor Memory) is followed back, and judged: an operand's rows must
be rows there and its columns columns, and the k of operands A and B must be the same.

Where that trail is lost, the thread-value map of the traced copies is held against the run, element by element; where
there is none, the handoff is unsupported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
from layoutlab.tracing.origin import Block, followed
from layoutlab.tracing.record import Trace

Array = NDArray[Any]
WARP = 32
LANE_BYTES = 2048  # of Tensor Memory
MISSING_WAIT = "started work is done late: a wait is missing"
MISSING_BARRIER = "some warps go ahead of the others: a barrier is missing"
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
    runs = list[Observed]()
    for report, when in (
        (ran.late, "started work done late"),
        (ran.early, "started work done early"),
        (ran.apart, "some warps ahead of the others"),
    ):
        if isinstance(report, str):
            faulty = report.startswith(("AccessError", "Deadlock"))
            alike = ran.late == ran.early == ran.apart
            why = f"{'' if alike else f'with {when}, '}the run stops: {report}"
            return [Row(ran.kernel, "-", "-", "refuted" if faulty else "unsupported", why)]
        assert report.provenance is not None
        runs.append(Observed(report.provenance, ran.module, ran.kernel))
    late, early, apart = runs
    named = _Named(trace, ran)
    handoffs = [row for row in traced if row.handoff is not None]
    reports = [r for r in (ran.early, ran.late, ran.apart) if not isinstance(r, str)]
    lines = {f.line for report in reports for f in report.warnings if "unwritten" in f.kind}
    rows = list[Row]()
    for (reader, space), all_taken in early.readers.items():
        fault = _timing(early, late, reader, space) or _ahead(early, apart, reader, space)
        lost = _never_written({"": early, MISSING_WAIT: late, MISSING_BARRIER: apart}, reader, space, lines)
        if lost and not lost.endswith((MISSING_WAIT, MISSING_BARRIER)):
            name = named.shown(space, all_taken)
            rows.append(Row(name, "-", str(reader), "refuted", f"covered: {lost}", places=(reader.where,)))
        fault = fault or (lost if lost.endswith((MISSING_WAIT, MISSING_BARRIER)) else "")
        for taken in named.apart(space, all_taken):
            for pair in _pairs(early, reader, space, taken):
                common = {"buffer": named.shown(space, taken), "writer": str(pair.writer), "reader": str(reader),
                          "places": (pair.writer.where, reader.where)}  # fmt: skip
                cost = _cost(early.stores.get(pair.writer, []))
                verdict, why, name = ("refuted", fault, "") if fault else _placed(early, pair, handoffs, named)
                if name and not named.of(space, taken):
                    common["buffer"] = f"{name}, {common['buffer']}"
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


def _counted(taken: Sequence[Taken]) -> str:
    """What writers are counted by: a thread's load has no elements, only bytes."""
    return "bytes" if all(t.read is None for t in taken) else "elements"


def _never_written(runs: Mapping[str, Observed], reader: Site, space: str, lines: set[int]) -> str:
    """The first element of what is read that nobody wrote, in any run; "" where there is none.

    `lines` are the PTX lines of which the machine says so too: a TMA box may leave its tensor, and some writes
    (tcgen05.alloc's) are nobody's.
    """
    for when, run in runs.items():
        for t in run.readers.get((reader, space), []):
            fresh = t.writers[..., 0] == 0
            if not fresh.any() or t.line not in lines:
                continue
            at = np.unravel_index(int(fresh.argmax()), fresh.shape)
            where = t.location[at]
            place = f"byte {int(where)}" if space == "shared" else f"lane {int(where[0])} column {int(where[1])}"
            many = f"{int(fresh.sum())} of {fresh.size} {_counted([t])}"
            return f"it reads {place} of CTA {t.cta}, which nobody wrote ({many})" + (f" if {when}" if when else "")
    return ""


# -- time -------------------------------------------------------------------------------------------------------------


def _timing(early: Observed, late: Observed, reader: Site, space: str) -> str:
    """How the writers of what is read differ between the two runs; "" where they do not."""
    mine, theirs = early.sequences.get((reader, space)), late.sequences.get((reader, space))
    if mine is None or theirs is None:
        return "only one of the runs came to it"
    if len(mine[0]) != len(theirs[0]):  # lanes that store one box alike count once if it is done at once
        return "" if _as_set(mine) == _as_set(theirs) else f"it reads other things if {MISSING_WAIT}"
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


def _ahead(early: Observed, apart: Observed, reader: Site, space: str) -> str:
    """How the writers of what is read change when some warps go ahead; "" where they do not.

    Which of several threads wrote a place last is nobody's fault where all wrote it at the same step. Runs that read
    another number of things (a work queue, a spin on a flag) cannot be laid side by side.
    """
    mine, theirs = early.sequences.get((reader, space)), apart.sequences.get((reader, space))
    if mine is None or theirs is None or len(mine[0]) != len(theirs[0]):
        return ""
    different = (mine[0] >> 12 != theirs[0] >> 12) & (mine[0] != 0) & (theirs[0] != 0)
    if not different.any():
        return ""
    at = int(different.argmax())
    who, other = (_writer_in_words(run, int(x[0][at])) for run, x in ((early, mine), (apart, theirs)))
    return (
        f"at {_place(int(mine[1][at]), space)} it reads what {who} wrote if all warps go in step, and what {other} "
        f"wrote if {MISSING_BARRIER}"
    )


def _as_set(sequence: tuple[Array, Array]) -> set[tuple[int, int]]:
    return set(zip(sequence[0].tolist(), sequence[1].tolist(), strict=True))


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


def _placed(run: Observed, pair: Pair, traced: Sequence[Row], named: _Named) -> tuple[str, str, str]:
    """The verdict on which element is where, with its reason, and what the trace calls the buffer."""
    origin = followed(run, pair.reader, pair.space, pair.taken)
    if origin is not None and origin.fault:
        return "refuted", origin.fault, ""
    agreeing = [(row, agreement) for row in traced if (agreement := _agreement(pair, row, named))]
    if agreeing and len({row.verdict for row, _ in agreeing}) == 1:
        row, agreement = agreeing[0]
        buffer = " or ".join(dict.fromkeys(row.buffer for row, _ in agreeing))  # allocations whose order is not known
        if row.verdict == "proved" and origin is None:
            verdict, why = _strange(run, pair, row, named)
            if verdict:
                return verdict, why, buffer
        said = f"traced {row.buffer}: {row.writer} -> {row.reader}, {row.verdict}; {agreement}"
        said += f"; {origin.said}" if origin is not None else ""
        return row.verdict, said + (f": {row.why}" if row.verdict != "proved" else ""), buffer
    if origin is not None:
        return "proved", origin.said, ""
    why = (
        f"all of it was written before it was read ({pair.elements} {_counted(pair.taken)}, early and late alike); "
        "which element each value is meant to be the run does not know, and no traced copy says it"
    )
    return "unsupported", why, ""


# -- the traced copies ------------------------------------------------------------------------------------------------


def _agreement(pair: Pair, row: Row, named: _Named) -> str:
    """How many elements of a traced handoff the run has seen written and read as it says; "" where it is another."""
    assert row.handoff is not None
    handoff: Handoff = row.handoff.handoff
    model = _model_of(handoff)
    names = named.of(pair.space, pair.taken)
    if not _same_kind(pair, row.reader) or (names and not names & set(row.buffer.split(" = "))):
        return ""
    if model is None or handoff.writer.space != {"shared": "smem"}.get(pair.space, pair.space):
        return ""
    threads_of, shift = model, None
    checked = 0
    offsets = set[int]()
    for t in pair.taken:
        places = np.asarray(t.location).ravel() if pair.space == "shared" else _tmem_bytes(t.location).ravel()
        base = places.min()
        found = None
        for shift in named.shifts(threads_of, int(base), pair.space):
            at = np.searchsorted(threads_of.bytes, places - shift)
            at = np.minimum(at, len(threads_of.bytes) - 1)
            whole = threads_of.bytes[at] == places - shift
            if whole.all() or (t.read is None and whole.sum() * handoff.tile.bits >= 8 * whole.size):
                found = at[whole], whole
                break
        if found is None:
            return ""
        at, whole = found
        if pair.reader.operand and not _in_order(model.coordinates[:, at], t.location.shape[:2], row.swapped):
            return ""
        threads = t.writers[..., 1].ravel()[whole]
        if (
            pair.writer.opcode == "stmatrix"
        ):  # whose copies say which thread gives the address, not whose the element is
            checked += len(at)
            continue
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
    by = " by the threads" if model.threads is not None and pair.writer.opcode != "stmatrix" else ""
    return f"in the run {checked} elements were written{by} and read where this says"


def _strange(run: Observed, pair: Pair, row: Row, named: _Named) -> tuple[str, str]:
    """What speaks against the threads' holding what their copy says, by where it comes from: a verdict and why.

    ("", "") where nothing does, where the trail is lost, or the elements are no whole block of rows and columns.
    """
    assert row.handoff is not None
    handoff: Handoff = row.handoff.handoff
    model = _model_of(handoff)
    if model is None or pair.space != "shared" or handoff.tile.bits % 8:
        return "", ""
    size = handoff.tile.bits // 8
    blocks: dict[int, Block] = {}
    for t in pair.taken:
        if t.read is not None:
            return "", ""
        elements = Taken(t.cta, t.location[:, ::size], t.writers[:, ::size], t.line)
        places = elements.location.ravel()
        for shift in named.shifts(model, int(places.min()), pair.space):
            at = np.minimum(np.searchsorted(model.bytes, places - shift), len(model.bytes) - 1)
            if (model.bytes[at] == places - shift).all():
                break
        else:
            return "", ""
        block = blocks.setdefault(t.cta, Block(run, handoff.tile.shape))
        fault = block.add(elements, model.coordinates[:, at], size)
        if fault[0]:
            return fault
    return next((f for f in (block.fault() for block in blocks.values()) if f[0]), ("", ""))


_CALLS = {
    "A": ("_A(", "gemm("), "B": ("_B(", "gemm("), "cp.async.bulk.tensor": ("tma_partition(", "block_copy("),
    "tcgen05.ld": ("partition_S(",), "ld.shared": ("partition_S(", "copy("), "ldmatrix": ("partition_S(",),
}  # fmt: skip
"""Of an operand or an instruction, the calls by which a trace knows it."""


def _same_kind(pair: Pair, reader: str) -> bool:
    """Whether a traced reader's call is one of those that this instruction comes from."""
    calls = _CALLS.get(pair.reader.operand or pair.reader.opcode, ())
    return any(call in reader for call in calls)


def _tmem_bytes(location: Array) -> Array:
    return np.asarray(location[..., 0] * LANE_BYTES + location[..., 1] * 4 + location[..., 2] // 8)


@dataclass(frozen=True)
class _Model:
    """A traced handoff: the bytes of its elements, sorted, their coordinates, and who writes each (None: no thread)."""

    bytes: Array
    coordinates: Array
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
    flat = np.broadcast_to(where["bit"] // 8 + where.get("lane", 0) * LANE_BYTES, t.shape)
    order = np.argsort(flat)
    held = handoff.writer.owner.places.at(t=t, v=v)
    coordinates = np.stack([np.broadcast_to(held[axis], t.shape)[order] for axis in handoff.tile.extents])
    threads = t[order] if handoff.writer.owner.threaded else None
    return _Model(flat[order], coordinates, threads)


def _in_order(coordinates: Array, shape: tuple[int, ...], swapped: bool) -> bool:
    """Whether what an MMA takes as (row, k) goes on in the tile row by row and k by k."""
    rows, columns = coordinates.reshape(2, *shape)[:: -1 if swapped else 1]
    i, k = np.indices(shape)
    return bool((rows - i == rows[0, 0]).all() and (columns - k == columns[0, 0]).all())


class _Named:
    """The traced names of pieces of shared memory, and how the trace's offsets become the run's addresses."""

    def __init__(self, trace: Trace, ran: Ran) -> None:
        self.base = SHARED_RESERVED_BYTES
        self.spans = list[tuple[int, int, str]]()
        roots = {access.root for access in trace.accesses if access.space == "smem"}
        for access in trace.accesses if len(roots) == 1 else ():  # where several allocations begin is not known
            if access.space != "smem" or access.offset_bits is None or not access.tensor_name:
                continue
            size = _bytes_of(access.view or access.tensor)
            if size:
                start = self.base + access.offset_bits // 8
                self.spans.append((start, start + size, access.tensor_name))

    def shifts(self, model: _Model, base: int, space: str) -> list[int]:
        """What may lie between the trace's bytes and the run's; in Tensor Memory a number of columns."""
        if space == "tmem":
            return [base % LANE_BYTES - int(model.bytes[0]) % LANE_BYTES]
        first = base - int(model.bytes[0])
        near = first - first % 16
        return sorted({self.base, first, near}, key=lambda s: (s != self.base, abs(s - first)))

    def apart(self, space: str, taken: Sequence[Taken]) -> list[list[Taken]]:
        """What is read, by the traced tensors that it lies in."""
        found: dict[frozenset[str], list[Taken]] = defaultdict(list)
        for t in taken:
            found[self.of(space, [t])].append(t)
        return list(found.values())

    def of(self, space: str, taken: Sequence[Taken]) -> frozenset[str]:
        """The names of the smallest traced tensors that hold all that is read; none where there is no such."""
        if space != "shared":
            return frozenset()
        low = min(int(t.location.min()) for t in taken)
        high = max(int(t.location.max()) for t in taken)
        holding = [(stop - start, name) for start, stop, name in self.spans if start <= low and high < stop]
        least = min((size for size, _ in holding), default=0)
        return frozenset(name for size, name in holding if size == least)

    def shown(self, space: str, taken: Sequence[Taken]) -> str:
        """The names, and the bytes or columns."""
        if space != "shared":
            columns = np.concatenate([np.unique(t.location[..., 1]) for t in taken])
            return f"Tensor Memory columns {int(columns.min())}-{int(columns.max())}"
        low = min(int(t.location.min()) for t in taken)
        high = max(int(t.location.max()) for t in taken)
        names = sorted(self.of(space, taken))
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
    return (
        f"{sum(found.values())} x {8 * width}-bit stores of a warp in the run, {worst} wavefronts each at most ({free})"
    )


def _wavefronts(store: Store) -> Iterable[tuple[int, int, int]]:
    """(width, wavefronts, the fewest possible) of each warp that executes a store."""
    warps = store.cta * 64 + store.thread // WARP
    for warp in np.unique(warps).tolist():
        mine = warps == warp
        addresses, width = store.address[mine], store.width
        if store.opcode.startswith("stmatrix"):
            matrices = addresses.reshape(-1, 64)  # a matrix at a time: each lane's two elements
            groups = [(np.unique(matrix // 16) * 16).tolist() for matrix in matrices]
            yield 16, sum(wavefronts([*g, *[None] * (WARP - len(g))], 16, "store") for g in groups), len(groups)
            continue
        if len(addresses) > WARP or width not in (1, 2, 4, 8, 16):
            continue
        lanes: list[int | None] = [None] * WARP
        for lane, address in zip((store.thread[mine] % WARP).tolist(), addresses.tolist(), strict=True):
            lanes[lane] = address
        least = max(1, -(-len(addresses) * width // 128))
        yield width, wavefronts(lanes, width, "store"), least
