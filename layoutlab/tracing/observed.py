"""Observed: a run's record by instruction, in the order of each thread, so that two runs can be laid side by side.

What identifies a write is the same in every run of one kernel: the instruction, the thread, and how often that thread
had executed it before; of a TMA box, where it lies in its tensor; of an accumulator, how many products went into it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.ptx.parse import Module
from layoutlab.ptx.provenance import Provenance, Read, Store, TmemStore
from layoutlab.tracing.dataflow import Dataflow, Source

Array = NDArray[Any]

_THREADS = 1 << 11
_NEVER = 0
OPERANDS = ("A", "B", "tma.store", "bulk.store", "tmem.load")
"""The asynchronous reads that take a handoff; an accumulator that is added to takes none."""


@dataclass(frozen=True)
class Site:
    """Where in the source an instruction comes from, or its PTX line where the PTX does not say; one reader or writer.

    `operand` tells the reads of one instruction apart.
    """

    opcode: str
    where: str
    operand: str = ""

    def __str__(self) -> str:
        name = {"A": "operand A of ", "B": "operand B of "}.get(self.operand, "")
        return f"{name}{self.opcode} at {self.where}"


@dataclass(frozen=True)
class Taken:
    """What one instruction took at one time: `location` in bytes of shared memory, or (lane, column, bit).

    `writers[..., 0]` is the event of each element's last write (0: never), `[..., 1]` the thread (-1: no thread).
    `read` is the machine's own record of an operand, None for loads by threads.
    """

    cta: int
    location: Array
    writers: Array
    line: int
    read: Read | None = None


class Observed:
    """One run's record, indexed."""

    def __init__(self, record: Provenance, module: Module, kernel: str) -> None:
        self.record = record
        self.function = module.entries[kernel]
        self.instructions = {i.line: i for i in self.function.instructions}
        self.files = {str(number): path for number, path in module.files.items()}  # PTX names them at its end
        self._sites: dict[tuple[int, str], Site] = {}

    def site(self, line: int, operand: str = "") -> Site:
        """The reader or writer that a PTX line belongs to."""
        key = (line, operand)
        if key not in self._sites:
            self._sites[key] = self._site(line, operand)
        return self._sites[key]

    def _site(self, line: int, operand: str) -> Site:
        instruction = self.instructions.get(line)
        if instruction is None:
            return Site("?", f"PTX line {line}", operand)
        opcode = _short(instruction.opcode)
        if instruction.source is None:
            return Site(opcode, f"PTX line {line}", operand)
        file, number = instruction.source
        return Site(opcode, f"{self.files.get(file, file).rsplit('/', 1)[-1]}:{number}", operand)

    def site_of_event(self, event: int) -> Site:
        """The writer of an event."""
        return self.site(self.record.events[event - 1][1].line)

    # -- who reads ----------------------------------------------------------------------------------------------------

    @cached_property
    def readers(self) -> dict[tuple[Site, str], list[Taken]]:
        """(reader, space) -> what it took, in time order."""
        found: dict[tuple[Site, str], list[Taken]] = defaultdict(list)
        for read in self.record.reads:
            if read.operand in OPERANDS and read.writers is not None:
                key = (self.site(read.line, read.operand if read.operand in "AB" else ""), read.space)
                found[key].append(Taken(read.cta, read.location, read.writers, read.line, read))
        for load in self.record.loads:
            key = (self.site(load.line), "shared")
            for cta in np.unique(load.cta).tolist():
                mine = load.cta == cta
                places = load.address[mine][:, None] + np.arange(load.width)
                found[key].append(Taken(cta, places, load.writers[mine], load.line))
        return dict(found)

    @cached_property
    def sequences(self) -> dict[tuple[Site, str], tuple[Array, Array]]:
        """(reader, space) -> the identity and the place of every write that it took, each thread in its own order."""
        parts: dict[tuple[Site, str], list[tuple[Array, Array, Array]]] = defaultdict(list)
        for read in self.record.reads:
            if read.operand in OPERANDS and read.writers is not None:
                key = (self.site(read.line, read.operand if read.operand in "AB" else ""), read.space)
                who = self.identity(read.writers[..., 0].ravel(), read.writers[..., 1].ravel(), read.cta)
                order = np.full(len(who), self._order(read.line, read.cta, read.thread))
                parts[key].append((order, who, _flat(read.location, read.space)))
        for load in self.record.loads:
            key = (self.site(load.line), "shared")
            each = load.writers.shape[1]
            ctas = np.repeat(load.cta, each)
            who = self.identity(load.writers[..., 0].ravel(), load.writers[..., 1].ravel(), ctas)
            order = self._order(load.line, load.cta, load.thread)
            places = (load.address[:, None] + np.arange(each)).ravel()
            parts[key].append((np.repeat(order, each), who, places))
        return {key: _in_order(part) for key, part in parts.items()}

    @staticmethod
    def _order(line: int, cta: Any, thread: Any) -> Any:
        return (np.asarray(line, np.int64) << 32) | (np.asarray(cta, np.int64) << 12) | (np.asarray(thread) + 1)

    # -- who wrote ----------------------------------------------------------------------------------------------------

    def identity(self, events: Array, threads: Array, ctas: Any) -> Any:
        """Of each write a number that is the same in every run: 0 for never written."""
        lines = self._lines[events]
        ctas = np.broadcast_to(ctas, events.shape)
        keys, counts = self._counted
        count = self._numbers[events].copy()
        if len(keys):
            wanted = self._key(events, ctas, threads)
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            known = keys[at] == wanted
            count[known] = counts[at[known]]
        who = (lines << 40) | (count << 12) | (threads + 1)
        return np.where(events == _NEVER, 0, who)

    @staticmethod
    def _key(event: Any, cta: Any, thread: Any) -> Any:
        return (np.asarray(event, np.int64) << 32) | (np.asarray(cta, np.int64) << 11) | (np.asarray(thread) + 1)

    @cached_property
    def _lines(self) -> Array:
        return np.array([0, *(i.line for _, i in self.record.events)], np.int64)

    @cached_property
    def _counted(self) -> tuple[Array, Array]:
        """Of each (event, CTA, thread) of a store: how often the thread had executed it before."""
        seen: dict[int, Array] = {}
        cells_of_all = (1 + max((int(s.cta.max()) for s in self.record.stores), default=0)) * _THREADS
        keys, counts = list[Array](), list[Array]()
        for store in self.record.stores:
            before = seen.setdefault(store.line, np.zeros(cells_of_all, np.int32))
            cells = store.cta.astype(np.int64) * _THREADS + store.thread
            one = np.unique(cells)  # stmatrix stores several elements of a thread at once
            keys.append(self._key(store.event, one // _THREADS, one % _THREADS))
            counts.append(before[one])
            before[one] += 1
        if not keys:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        flat, count = np.concatenate(keys), np.concatenate(counts)
        order = np.argsort(flat)
        return flat[order], count[order].astype(np.int64)

    @cached_property
    def _numbers(self) -> Array:
        """Of each event of an asynchronous unit: its box's place in the tensor, or its number among its CTA's."""
        found = np.zeros(len(self.record.events) + 1, np.int64)
        done: dict[tuple[int, int], int] = defaultdict(int)
        for read in self.record.reads:
            event = self.event_at(read.time - 1)
            if read.operand == "tma.load":
                found[event] = hash(read.origin) & 0xFFFFFFF
            elif read.operand == "D":
                found[event] = done[read.line, read.cta]
                done[read.line, read.cta] += 1
        return found

    def event_at(self, time: int) -> int:
        """The number of the event of a time; 0 where none was."""
        at = int(np.searchsorted(self._times, time))
        return at + 1 if at < len(self._times) and self._times[at] == time else 0

    @cached_property
    def _times(self) -> Array:
        return np.array([time for time, _ in self.record.events], np.int64)

    @cached_property
    def stores(self) -> dict[Site, list[Store]]:
        """The stores of threads to shared memory, by writer."""
        found: dict[Site, list[Store]] = defaultdict(list)
        for store in self.record.stores:
            if store.space == "shared":
                found[self.site(store.line)].append(store)
        return dict(found)

    @cached_property
    def store_of_event(self) -> dict[int, Store]:
        """The store of an event."""
        return {store.event: store for store in self.record.stores}

    @cached_property
    def tmem_store_of_event(self) -> dict[int, TmemStore]:
        """The store of threads to Tensor Memory of an event."""
        return {store.event: store for store in self.record.tmem_stores}

    @cached_property
    def dataflow(self) -> Dataflow:
        """What the stored registers were computed from."""
        return Dataflow(self.function)

    def loaded(self, source: Source, cta: int, threads: Array, time: int) -> Array | None:
        """What a load register held of these threads at a time: (lane, column, half) of Tensor Memory, or an address.

        None where a thread had not executed the load, or may have skipped it.
        """
        if self.instructions[source.line].guard is not None:
            return None
        half = source.half or 0
        if self.instructions[source.line].opcode.startswith("tcgen05.ld"):
            found = np.zeros((len(threads), 3), np.int64)
            for warp in np.unique(threads // 32).tolist():
                times, reads = self._tmem_loads.get((source.line, cta, warp), ([], []))
                at = bisect_left(times, time)
                if not at or source.register >= reads[at - 1].location.shape[1]:
                    return None
                mine = threads // 32 == warp
                found[mine, :2] = reads[at - 1].location[threads[mine] % 32, source.register, :2]
            found[:, 2] = half
            return found
        keys, addresses = self._global_loads.get(source.line, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
        thread = np.int64(cta) << 11 | threads
        before = np.searchsorted(keys, thread << 40 | time) - 1
        if len(keys) == 0 or (before < 0).any() or (keys[before] >> 40 != thread).any():
            return None
        width = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "b64": 8, "u64": 8, "f64": 8}.get(
            self.instructions[source.line].opcode.rsplit(".", 1)[-1], 4
        )
        return np.asarray(addresses[before] + source.register * width + half * width // 2)[:, None]

    def accumulator(self, line: int, cta: int, number: int) -> int:
        """Where the accumulator of a CTA's so many-th MMA of a line begins in Tensor Memory; -1: not known."""
        found = self._accumulators.get((line, cta), [])
        return found[number] if number < len(found) else -1

    @cached_property
    def _accumulators(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for read in self.record.reads:
            if read.operand == "D":
                found[read.line, read.cta].append(int(read.location[0, 0, 0]) * 512 + int(read.location[0, 0, 1]))
        return dict(found)

    @cached_property
    def _tmem_loads(self) -> dict[tuple[int, int, int], tuple[list[int], list[Read]]]:
        found: dict[tuple[int, int, int], tuple[list[int], list[Read]]] = defaultdict(lambda: ([], []))
        for read in self.record.reads:
            if read.operand == "tmem.load":
                times, reads = found[read.line, read.cta, read.thread // 32]
                times.append(read.time)
                reads.append(read)
        return dict(found)

    @cached_property
    def _global_loads(self) -> dict[int, tuple[Array, Array]]:
        parts: dict[int, list[tuple[Array, Array]]] = defaultdict(list)
        for load in self.record.global_loads:
            parts[load.line].append((((load.cta.astype(np.int64) << 11 | load.thread) << 40) | load.time, load.address))
        found = {}
        for line, pieces in parts.items():
            keys, addresses = (np.concatenate(column) for column in zip(*pieces, strict=True))
            order = np.argsort(keys)
            found[line] = keys[order], addresses[order]
        return found

    @cached_property
    def boxes(self) -> dict[int, Read]:
        """event -> the TMA box that it wrote."""
        reads = (r for r in self.record.reads if r.operand == "tma.load")
        return {self.event_at(r.time - 1): r for r in reads}


def _short(opcode: str) -> str:
    """st.shared::cta.v4.b32 as st.shared, and so on: what a reader of the table wants to know."""
    names = (
        "tcgen05.mma", "tcgen05.ld", "tcgen05.st", "wgmma", "ldmatrix", "stmatrix", "st.shared", "ld.shared",
        "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "cp.async.bulk", "cp.async", "mma.sync",
    )  # fmt: skip
    return next((name for name in names if opcode.startswith(name)), opcode)


def _flat(location: Array, space: str) -> Array:
    if space == "tmem":
        location = location[..., 0] * 65536 + location[..., 1] * 32 + location[..., 2]
    return np.asarray(location).ravel()


def _in_order(parts: Iterable[tuple[Array, Array, Array]]) -> tuple[Array, Array]:
    order, who, where = (np.concatenate(column) for column in zip(*parts, strict=True))
    by = np.argsort(order, kind="stable")
    return who[by], where[by]
