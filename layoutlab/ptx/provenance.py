"""provenance: who wrote each byte of shared memory and each word of TMEM, and what each tensor-core or TMA read took.

A write is an event (instruction, time) and, for each byte, the thread and the byte's place in that thread's access.
Asynchronous units write as thread -1. Reads by tcgen05.mma, wgmma and TMA are kept as whole maps: operand coordinate
to byte address, or to TMEM lane and column, so that a handoff's two sides are read off one run and compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.ptx.parse import Instruction

Array = NDArray[Any]

TMEM_COLUMNS = 512


@dataclass(frozen=True)
class Writer:
    """The last writer of a location: CTA, thread (-1 for an asynchronous unit), PTX instruction, time, place.

    In a cluster `cta` is the location's, and `thread` a number that a thread of another CTA may bear.
    `place` is the byte's offset within the access of that thread: value `place // width` of the vector stored.
    """

    cta: int
    thread: int
    line: int
    opcode: str
    time: int
    place: int


@dataclass(frozen=True)
class Read:
    """What one asynchronous instruction read or wrote for an operand.

    `space` is "shared" (then `location` holds byte addresses), "tmem" (`location[..., 0]` lanes, `[..., 1]` columns and
    `[..., 2]` bits within the word) or "global". `location` is indexed by the operand's coordinate: (m, k) for A,
    (n, k) for B, (m, n) for D, the box coordinate, slowest first, for TMA.

    Of TMA's boxes `elsewhere` is the other side: the address in global memory of each element, in the same order, -1
    for one that lies outside of the tensor.
    """

    operand: str
    space: str
    cta: int
    thread: int
    line: int
    opcode: str
    time: int
    location: Array
    writers: Array | None = None
    elsewhere: Array | None = None
    origin: tuple[int, ...] = ()
    """The coordinate in its tensor of a TMA box's first element, slowest dimension first."""


@dataclass
class Snapshot:
    """The shared memory and TMEM of a CTA when it ended, with the provenance of every byte and word."""

    cta: int
    shared: Array
    shared_event: Array
    shared_thread: Array
    shared_place: Array
    tmem: Array
    tmem_event: Array
    tmem_thread: Array


@dataclass
class Provenance:
    """The record of a run: `events`, `reads`, `stores` and the final `snapshots`."""

    events: list[tuple[int, Instruction]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    global_loads: list[GlobalLoad] = field(default_factory=list)
    tmem_stores: list[TmemStore] = field(default_factory=list)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    first_cta: int = 0
    time: int = 0

    def event(self, instruction: Instruction) -> int:
        """A new event's number; events are numbered from 1, 0 is never written."""
        self.time += 1
        self.events.append((self.time, instruction))
        return len(self.events)

    def start_wave(self, ctas: int, stride: int, first_cta: int) -> None:
        self.first_cta = first_cta
        self.stride = stride
        self.shared_event = np.zeros(ctas * stride, np.int32)
        self.shared_thread = np.full(ctas * stride, -1, np.int16)
        self.shared_place = np.zeros(ctas * stride, np.uint8)
        self.tmem_event = np.zeros((ctas, 128, 512), np.int32)
        self.tmem_thread = np.full((ctas, 128, 512), -1, np.int16)

    # -- writes -------------------------------------------------------------------------------------------------

    def shared_store(self, ins: Instruction, at: Array, threads: Array, data: Array,
                     source: Array | None = None) -> None:  # fmt: skip
        """A row of bytes from each flat shared index in `at`, written by the thread beside it.

        `source` is the global address that each row was copied from, where it was.
        """
        event, width = self.event(ins), data.shape[-1]
        spread = at.reshape(-1, 1) + np.arange(width)
        self.shared_event[spread] = event
        self.shared_thread[spread] = threads.reshape(-1, 1)
        self.shared_place[spread] = np.arange(width)
        cta, address = np.divmod(at.reshape(-1), self.stride)
        self.stores.append(Store("shared", ins.line, ins.opcode, self.time, width, cta + self.first_cta,
                                 threads.reshape(-1).copy(), address, data.copy(), event, source))  # fmt: skip

    def shared_fill(self, ins: Instruction, at: Array) -> None:
        """Bytes at flat shared indices, written by an asynchronous unit."""
        self.shared_event[at] = self.event(ins)
        self.shared_thread[at] = -1
        self.shared_place[at] = 0

    def tmem_store(
        self, ins: Instruction, cta: Array, lane: Array, column: Array, threads: Array, words: Array | None = None
    ) -> None:
        """Words of TMEM written by threads (`threads` -1: by the tensor core); of a thread's store with its words."""
        event = self.event(ins)
        self.tmem_event[cta, lane, column] = event
        self.tmem_thread[cta, lane, column] = threads
        if words is not None:
            every = (cta + self.first_cta, lane * TMEM_COLUMNS + column, threads, words)
            owner, address, thread, data = (np.broadcast_to(x, words.shape).flatten() for x in every)
            held = data.view(np.uint8).reshape(-1, 4)
            self.stores.append(Store("tmem", ins.line, ins.opcode, self.time, 4, owner, thread, address, held))
        if np.ndim(threads):
            lane, column = np.broadcast_arrays(lane, column)
            self.tmem_stores.append(TmemStore(event, ins.line, self.time, lane, column, np.asarray(threads)))

    def global_load(self, ins: Instruction, cta: Array, threads: Array, at: Array) -> None:
        """A load by threads from global memory: where each of them began to read."""
        self.time += 1
        cta = np.broadcast_to(cta, at.shape) + self.first_cta
        thread = np.broadcast_to(threads, at.shape)
        self.global_loads.append(GlobalLoad(ins.line, self.time, cta.ravel(), thread.ravel(), at.ravel().copy()))

    # -- reads --------------------------------------------------------------------------------------------------

    def read(
        self, operand: str, space: str, cta: int, thread: int, ins: Instruction, location: Array,
        writers: Array | None = None, elsewhere: Array | None = None, origin: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.time += 1
        cta += self.first_cta
        self.reads.append(
            Read(operand, space, cta, thread, ins.line, ins.opcode, self.time, location, writers, elsewhere, origin)
        )

    def shared_load(self, ins: Instruction, at: Array, threads: Array, width: int) -> None:
        """A row of bytes from each flat shared index in `at`, read by the thread beside it."""
        self.time += 1
        spread = at[:, None] + np.arange(width)
        writers = np.stack([self.shared_event[spread], self.shared_thread[spread].astype(np.int32)], axis=-1)
        cta, address = np.divmod(at, self.stride)
        self.loads.append(
            Load(ins.line, ins.opcode, self.time, width, cta + self.first_cta, threads.copy(), address, writers)
        )

    def shared_writers(self, cta: int, address: Array) -> Array:
        """The event of the last write to each shared byte address, with the thread beside it: shape (..., 2)."""
        at = address + cta * self.stride
        return np.stack([self.shared_event[at], self.shared_thread[at].astype(np.int32)], axis=-1)

    def tmem_writers(self, cta: int, lane: Array, column: Array) -> Array:
        return np.stack(
            [self.tmem_event[cta, lane, column], self.tmem_thread[cta, lane, column].astype(np.int32)], axis=-1
        )

    def finish_wave(self, shared: Array, tmem: Array) -> None:
        for cta in range(len(tmem)):
            span = slice(cta * self.stride, (cta + 1) * self.stride)
            self.snapshots[self.first_cta + cta] = Snapshot(
                self.first_cta + cta, shared[span].copy(), self.shared_event[span].copy(),
                self.shared_thread[span].copy(), self.shared_place[span].copy(), tmem[cta].copy(),
                self.tmem_event[cta].copy(), self.tmem_thread[cta].copy(),
            )  # fmt: skip

    # -- questions ----------------------------------------------------------------------------------------------

    def shared_writer(self, cta: int, address: int) -> Writer | None:
        """The last writer of a shared byte at the end of the run; None if nobody wrote it."""
        snapshot = self.snapshots[cta]
        event = int(snapshot.shared_event[address])
        if event == 0:
            return None
        time, ins = self.events[event - 1]
        thread, place = int(snapshot.shared_thread[address]), int(snapshot.shared_place[address])
        return Writer(cta, thread, ins.line, ins.opcode, time, place)

    def tmem_writer(self, cta: int, lane: int, column: int) -> Writer | None:
        """The last writer of a TMEM word at the end of the run; None if nobody wrote it."""
        snapshot = self.snapshots[cta]
        event = int(snapshot.tmem_event[lane, column])
        if event == 0:
            return None
        time, ins = self.events[event - 1]
        return Writer(cta, int(snapshot.tmem_thread[lane, column]), ins.line, ins.opcode, time, 0)

    def reads_of(self, operand: str, cta: int | None = None) -> list[Read]:
        """The reads of one operand ("A", "B", "tma.store", ...), in time order."""
        return [r for r in self.reads if r.operand == operand and (cta is None or r.cta == cta)]

    def stores_to(self, space: str, opcode: str = "") -> list[Store]:
        """The stores of threads to a space, in time order."""
        return [s for s in self.stores if s.space == space and s.opcode.startswith(opcode)]


@dataclass(frozen=True)
class Store:
    """One executed store: for each thread its CTA, number in the CTA and byte address; `width` bytes each.

    In TMEM a thread's registers follow each other as entries of their own, and `address` is lane * 512 + column.
    `data[i]` are the bytes that thread i wrote, also where another thread's overwrote them in the same instruction.
    """

    space: str
    line: int
    opcode: str
    time: int
    width: int
    cta: Array
    thread: Array
    address: Array
    data: Array
    event: int = 0
    source: Array | None = None
    """Of a copy the global address that each thread's bytes came from, -1 where it wrote zeros instead."""


@dataclass(frozen=True)
class Load:
    """One executed load of shared memory by threads (ld.shared, ldmatrix): `width` bytes each from `address` on.

    `writers[i, b]` is the event, and the thread, that had written byte b of what thread i read.
    """

    line: int
    opcode: str
    time: int
    width: int
    cta: Array
    thread: Array
    address: Array
    writers: Array


@dataclass(frozen=True)
class GlobalLoad:
    """One executed load from global memory: of each thread the first address."""

    line: int
    time: int
    cta: Array
    thread: Array
    address: Array


@dataclass(frozen=True)
class TmemStore:
    """One executed tcgen05.st: of [register, row of 32 threads, lane] the TMEM lane and column, and the thread."""

    event: int
    line: int
    time: int
    lane: Array
    column: Array
    thread: Array
