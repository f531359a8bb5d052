"""Origin: where in global or Tensor Memory each element of an MMA's operand came from, in a run, and is that a matrix?

Element (m, k) of an operand is the element of some row and some column: whatever tiles, stages and swizzles lie
between, origin(m, k) = row(m) + column(k). A writer and a reader that disagree about a swizzle break that; and where
they agree, the k of operand A and that of operand B must still go together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.ptx.provenance import Read, Store, TmemStore
from layoutlab.tracing.observed import Observed, Site, Taken

Array = NDArray[Any]

ADDRESS, TMEM = 1, 3  # how many numbers say a place in global memory, in Tensor Memory; a TMA box's has its rank
BOX = 16  # added to a box's rank, so that coordinates of different kinds are not mixed up


@dataclass(frozen=True)
class Origin:
    """What following an operand's elements back has shown; `fault` is "" where nothing speaks against it."""

    said: str
    fault: str = ""


@dataclass(frozen=True)
class _Places:
    """(row, depth) -> where each element was, in numbers of one kind."""

    kind: int
    values: Array

    def spoken(self, value: Array) -> str:
        if self.kind == ADDRESS:
            return f"at global address {int(value[0]):#x}"
        if self.kind == TMEM:
            return f"in Tensor Memory lane {int(value[0])} column {int(value[1])}"
        return f"element ({', '.join(str(int(v)) for v in reversed(value))}) of its tensor"


def followed(run: Observed, reader: Site, space: str, taken: Sequence[Taken]) -> Origin | None:
    """Judges the operand that a reader takes; None where it is no MMA's operand or its elements' trail is lost."""
    if not reader.operand:
        return None
    elements, kinds = 0, set[int]()
    for t in taken:
        places = _places(run, t)
        if places is None:
            return None
        fault = _not_separable(places)
        if fault is not None:
            (m, k), should, found = fault
            row = "m" if reader.operand == "A" else "n"
            at = t.location[m, k]
            where = f"byte {int(at)}" if space == "shared" else f"lane {int(at[0])} column {int(at[1])}"
            return Origin("", (
                f"placed: ({row}={m}, k={k}), read at {where}, is what was {places.spoken(found)}; by its row and "
                f"column it would be what was {places.spoken(should)}"
            ))  # fmt: skip
        kinds.add(places.kind)
        elements += places.values.shape[0] * places.values.shape[1]
    fault_of_k = _other_operand(run, reader, space, taken)
    if fault_of_k:
        return Origin("", fault_of_k)
    names = {ADDRESS: "global memory", TMEM: "Tensor Memory"}
    come = " and ".join(sorted({names.get(kind, "global memory") for kind in kinds}))
    return Origin(f"row and column of all {elements} elements read are those they had in {come}, early and late alike")


class Block:
    """The elements of a tile, each with its origin, gathered from loads of threads until one is loaded again."""

    def __init__(self, run: Observed, shape: tuple[int, ...]) -> None:
        self.run, self.shape = run, shape
        self.lost = False
        self._empty()

    def _empty(self) -> None:
        self.kind, self.values = 0, np.zeros((*self.shape, 1), np.int64)
        self.filled = np.zeros(self.shape, bool)

    def add(self, t: Taken, coordinates: Array, size: int) -> tuple[str, str]:
        """Takes what a load read at these (row, column); what speaks against the tile that this one follows."""
        rows, columns = coordinates
        fault = "", ""
        if self.filled[rows, columns].any():
            fault = self.fault()
            self._empty()
        places = None if self.lost else _places(self.run, t, size)
        if places is None or (self.kind and places.kind != self.kind):
            self.lost = True
            return fault
        if not self.kind:
            self.kind = places.kind
            self.values = np.zeros((*self.shape, places.values.shape[-1]), np.int64)
        self.values[rows, columns] = places.values.reshape(len(rows), -1)
        self.filled[rows, columns] = True
        return fault

    def fault(self) -> tuple[str, str]:
        """(verdict, reason) where an element does not come from its row and its column; ("", "") where none is known.

        Where each does, but neither rows nor columns follow each other at one distance there, digits of the one may
        have become digits of the other: that is no refutation (a gather, an interleave), and no proof.
        """
        rows, columns = np.flatnonzero(self.filled.any(axis=1)), np.flatnonzero(self.filled.any(axis=0))
        if self.lost or not self.kind or not self.filled[np.ix_(rows, columns)].all():
            return "", ""
        found = _Places(self.kind, self.values[np.ix_(rows, columns)])
        wrong = _not_separable(found)
        if wrong is None and not any(_even(np.moveaxis(found.values, axis, 0)) for axis in (0, 1)):
            return "unsupported", (
                "neither the rows nor the columns of what lies there follow each other at one distance where it comes "
                "from: whether its threads stored what they hold cannot be said"
            )
        if wrong is None:
            return "", ""
        (m, k), should, value = wrong
        return "refuted", (
            f"owner: what lies in the place of (m={int(rows[m])}, k={int(columns[k])}) was {found.spoken(value)}; by its "
            f"row and column it would be what was {found.spoken(should)}"
        )


def _places(run: Observed, t: Taken, size: int = 0) -> _Places | None:
    """`size`: bytes of an element, where the places do not say it."""
    shape = t.location.shape if t.location.ndim == 2 else t.location.shape[:2]
    found: Array | None = None
    kind = 0
    for event in np.unique(t.writers[..., 0]).tolist():
        mask = t.writers[..., 0] == event
        values = _of_event(run, t, int(event), mask, size)
        if values is None or (kind and values.kind != kind):
            return None
        kind = values.kind
        if found is None:
            found = np.zeros((*shape, values.values.shape[-1]), np.int64)
        found[mask] = values.values
    return None if found is None else _Places(kind, found)


def _of_event(run: Observed, t: Taken, event: int, mask: Array, size: int) -> _Places | None:
    if event in run.boxes:
        return _in_box(run.boxes[event], t.location[mask])
    store, put = run.store_of_event.get(event), run.tmem_store_of_event.get(event)
    if store is not None and store.source is not None:
        return _copied(store, t, mask)
    if store is not None:
        return _through_registers(run, store, t, mask, size or _element_bytes(t))
    return None if put is None else _through_tmem_store(run, put, t, mask)


def _in_box(box: Read, places: Array) -> _Places | None:
    """The coordinates, in its tensor, of the box's elements at these bytes."""
    flat = box.location.ravel()
    order = np.argsort(flat)
    at = order[np.minimum(np.searchsorted(flat[order], places), len(flat) - 1)]
    if (flat[at] != places).any():
        return None  # between two elements: the operand's type is not the box's
    values = np.stack(np.unravel_index(at, box.location.shape), axis=-1) + np.array(box.origin)
    return _Places(BOX + values.shape[-1], values)


def _rows_of(store: Store, cta: int, places: Array) -> tuple[Array, Array]:
    """Of each byte which thread of a store put it there: its number among the store's, and the byte from its start."""
    mine = np.flatnonzero(store.cta == cta)
    starts = store.address[mine]
    order = np.argsort(starts, kind="stable")
    at = order[np.searchsorted(starts[order], places, side="right") - 1]
    return mine[at], places - starts[at]


def _copied(store: Store, t: Taken, mask: Array) -> _Places | None:
    """The global addresses of bytes that cp.async copied."""
    assert store.source is not None
    row, byte = _rows_of(store, t.cta, t.location[mask])
    if (store.source[row] < 0).any():
        return None  # zeros, for what lies outside
    return _Places(ADDRESS, np.asarray(store.source[row] + byte)[:, None])


def _through_registers(run: Observed, store: Store, t: Taken, mask: Array, size: int) -> _Places | None:
    """Where the registers of a store were loaded from."""
    flow = run.dataflow.sources(store.line, size)
    if flow is None:
        return None
    row, byte = _rows_of(store, t.cta, t.location[mask])
    if (byte % size).any() or (byte >= store.width).any():
        return None
    return _loaded(run, flow, byte // size, store.thread[row], t.cta, store.time)


def _through_tmem_store(run: Observed, put: TmemStore, t: Taken, mask: Array) -> _Places | None:
    """Where the registers of a tcgen05.st were loaded from."""
    halves = 1 if not t.location[..., 2].any() else 2
    flow = run.dataflow.sources(put.line, 4 // halves)
    if flow is None or (t.location[..., 2] % (32 // halves)).any():
        return None
    place = t.location[mask]
    word = place[:, 0] * 512 + place[:, 1]
    register, _ = np.indices((put.lane.shape[0], put.lane[0].size))
    known = (put.lane * 512 + put.column).reshape(put.lane.shape[0], -1).ravel()
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known[order], word), len(known) - 1)]
    if (known[at] != word).any():
        return None
    thread = np.broadcast_to(put.thread, put.lane.shape).reshape(put.lane.shape[0], -1).ravel()[at]
    number = register.ravel()[at] * halves + place[:, 2] // (32 // halves)
    return _loaded(run, flow, number, thread, t.cta, put.time)


def _loaded(run: Observed, flow: Sequence[Any], number: Array, threads: Array, cta: int, time: int) -> _Places | None:
    found: Array | None = None
    kind = 0
    for i in np.unique(number).tolist():
        if i >= len(flow) or flow[i] is None:
            return None
        mine = number == i
        values = run.loaded(flow[i], cta, threads[mine], time)
        if values is None or (kind and kind != values.shape[-1]):
            return None
        kind = values.shape[-1]
        if found is None:
            found = np.zeros((len(number), kind), np.int64)
        found[mine] = values
    return None if found is None else _Places(kind, found)


def _element_bytes(t: Taken) -> int:
    flat = np.unique(t.location)
    return int(np.gcd.reduce(np.diff(flat))) if len(flat) > 1 else 1


# -- is it a matrix? --------------------------------------------------------------------------------------------------


def _not_separable(places: _Places) -> tuple[tuple[int, int], Array, Array] | None:
    """The first element that is not the one of its row and its column: (m, k), what it would be, what it is."""
    source = places.values
    should = source[:, :1] + source[:1, :] - source[:1, :1]
    wrong = (should != source).any(axis=-1)
    if not wrong.any():
        return None
    m, k = np.unravel_index(int(wrong.argmax()), wrong.shape)
    return (int(m), int(k)), should[m, k], source[m, k]


def _even(values: Array) -> bool:
    """Whether all neighbours along the first axis are equally far apart."""
    steps = np.diff(values, axis=0)
    return bool((steps == steps[:1]).all())


def _other_operand(run: Observed, reader: Site, space: str, taken: Sequence[Taken]) -> str:
    """Where the k of operand A is not the k of operand B of the same MMA; "" where it is, or is not known."""
    if reader.operand != "A":
        return ""
    site = Site(reader.opcode, reader.where, "B")
    others = {(t.cta, t.line, i): t for t, i in _numbered(run.readers.get((site, "shared"), []))}
    steps: dict[tuple[int, int], list[_Step]] = defaultdict(list)
    for a, i in _numbered(taken):
        b = others.get((a.cta, a.line, i))
        ours, theirs = _places(run, a), None if b is None else _places(run, b)
        if ours is None or theirs is None:
            return ""
        mine, other = _along_k(ours), _along_k(theirs)
        if mine is None or other is None or len(mine) != len(other):
            return ""
        if (_steps(mine) != _steps(other)).any():
            k = int((_steps(mine) != _steps(other)).argmax())
            there = f"{_steps(mine)[k]} along K where it comes from, k={k} of operand B {_steps(other)[k]}"
            return f"placed: k={k} of operand A is number {there}"
        step = _Step(_begin(mine), _begin(other), len(mine), min(ours.kind, theirs.kind) >= BOX)
        steps[a.cta, run.accumulator(a.line, a.cta, i)].append(step)
    return next(filter(None, map(_steps_apart, steps.values())), "")


@dataclass(frozen=True)
class _Step:
    """One MMA: where its k begins in what operand A and B come from, how many k it has, and whether both are boxes."""

    a: int
    b: int
    depth: int
    boxes: bool


def _steps_apart(steps: Sequence[_Step]) -> str:
    """Where the K steps of one accumulator do not go through A and B alike.

    Of coordinates in two tensors that is known; what came from elsewhere may be tile after tile of other places, so
    there only one tile is judged, which A's elements fill without a gap and once.
    """
    first = steps[0]
    if not all(step.boxes for step in steps):
        begins = sorted(step.a for step in steps)
        if len(steps) < 2 or begins != [begins[0] + i * first.depth for i in range(len(steps))]:
            return ""
        sorted_b = sorted(step.b for step in steps)
        if sorted_b != [sorted_b[0] + i * first.depth for i in range(len(steps))]:
            return ""
    for step in steps:
        if step.a - first.a != step.b - first.b:
            return (
                f"placed: in one K step operand A is {step.a - first.a} further along K than in the first, operand B "
                f"{step.b - first.b}"
            )
    return ""


def _numbered(taken: Iterable[Taken]) -> Iterator[tuple[Taken, int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for t in taken:
        yield t, counts[t.cta, t.line]
        counts[t.cta, t.line] += 1


def _along_k(places: _Places) -> Array | None:
    """What k moves, of the first row; None where it moves several numbers."""
    source = places.values[0]
    if places.kind == TMEM:
        return source[:, 1] * 2 + source[:, 2] if (source[:, 0] == source[0, 0]).all() else None
    moving = np.flatnonzero((source != source[:1]).any(axis=0))
    return source[:, moving[0]] if len(moving) == 1 else None


def _unit(along: Array) -> int:
    return int(np.gcd.reduce(np.abs(np.diff(along)))) or 1


def _steps(along: Array) -> Array:
    """How many elements each k is from the first, in units of the smallest step."""
    return np.asarray((along - along[0]) // _unit(along))


def _begin(along: Array) -> int:
    return int(along[0]) // _unit(along)
