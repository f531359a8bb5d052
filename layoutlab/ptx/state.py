"""state: what a wave of CTAs holds while it runs, and the frame through which instructions see it.

A wave runs several CTAs at once. Its registers are arrays of shape (register, row, lane); a row is one warp, and row
`warp * ctas + cta` puts the same warp of all CTAs side by side, so that warps of one role are one slice. A frame is
such a slice with the mask of lanes that execute: instructions are numpy calls on `frame.u32[slot]` and its kin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.ptx.in_flight import InFlight
from layoutlab.ptx.memory import CLUSTER_SHIFT, AccessError, GlobalMemory, SharedMemory, TensorMemory

if TYPE_CHECKING:
    from layoutlab.ptx.asynchronous import AsyncUnits
    from layoutlab.ptx.parse import Instruction
    from layoutlab.ptx.provenance import Provenance
    from layoutlab.ptx.report import Findings

Array = NDArray[Any]
Op = Callable[["Frame"], None]
LANES = 32
RUBBISH = 0x7FA5C3D1E9B4865B  # as a float of any width a NaN or far from 1; as an address nowhere


@dataclass(frozen=True)
class RegisterPlan:
    """How many slots each bank has, and the constants that follow them, as bit patterns."""

    counts: dict[str, int]
    constants: dict[str, tuple[int, ...]]
    tracked: int = 0  # registers that may be in flight


@dataclass(frozen=True)
class Geometry:
    """The launch: threads of a block, blocks of the grid, and bytes of shared memory for each CTA."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // LANES)

    @property
    def cluster_ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


class Wave:
    """The registers and memories of CTAs that run together."""

    def __init__(
        self, geometry: Geometry, ctas: list[tuple[int, int, int]], plan: RegisterPlan, services: Services
    ) -> None:
        self.geometry = geometry
        self.ctas = len(ctas)
        self.rows = geometry.warps * self.ctas
        self.cluster_ctas = geometry.cluster_ctas  # the CTAs of a cluster stand side by side, by rank
        shape = (self.rows, LANES)
        counts = plan.counts
        self.pred = np.empty((counts["pred"], *shape), np.bool_)
        self.b16 = np.empty((counts["b16"], *shape), np.uint16)
        self.b32 = np.empty((counts["b32"], *shape), np.uint32)
        self.b64 = np.empty((counts["b64"], *shape), np.uint64)
        self.plan = plan
        self.shared = SharedMemory(self.ctas, geometry.shared_bytes)
        self.tmem = TensorMemory(self.ctas)
        self.local = np.empty((*shape, services.local_bytes), np.uint8)
        rows = np.arange(self.rows, dtype=np.int64)[:, None]
        self.row_cta = np.broadcast_to(rows % self.ctas, shape)
        self.row_warp = np.broadcast_to(rows // self.ctas, shape)
        self.thread = self.row_warp * LANES + np.arange(LANES)
        self.alive = np.empty(shape, np.bool_)
        self.fenced_at = np.empty(self.rows * LANES, np.int32)
        self.cluster_arrived = np.empty(shape, np.bool_)
        self.cluster_generation = np.empty((self.rows, 1), np.uint32)
        self.frames: dict[tuple[int, int], Frame] = {}
        self.start(ctas, services)

    def start(self, ctas: list[tuple[int, int, int]], services: Services) -> None:
        """Put everything into the state in which CTAs begin; frames hold views of the arrays, which stay."""
        self.cta_ids = ctas
        self.services = services
        # Registers hold rubbish until they are written, so that a forgotten initialisation shows.
        self.pred[...] = (np.arange(len(self.pred))[:, None, None] + np.arange(LANES)) & 1
        for bank, rubbish in ((self.b16, 0xFFFF), (self.b32, 0xFFFFFFFF), (self.b64, (1 << 64) - 1)):
            bank.fill(RUBBISH & rubbish)
        self.shared.reset()
        self.tmem.reset()
        self.local.fill(0)
        np.less(self.thread, self.geometry.threads, out=self.alive)
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.cluster_arrived.fill(False)
        self.cluster_generation.fill(0)
        self.asynchronous: AsyncUnits = services.make_async(self)
        self.allocations: dict[tuple[int, int], Instruction] = {}  # of TMEM, by CTA and first column
        self.in_flight = InFlight(self.plan.tracked, self.rows)
        # Counts completions that may let a waiting warp go on; waiters look again when it has moved.
        self.version = 0
        self.instructions = 0
        # The generic proxy's stores and each thread's last fence.proxy.async, by a clock that both move.
        self.proxy_clock = 0
        self.fenced_at.fill(0)
        self.operands_written: set[tuple[object, ...]] = set()  # matrix operands whose bytes are known to be written

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without what one asynchronous operation holds for a while."""
        banks = (self.pred, self.b16, self.b32, self.b64, self.local)
        return sum(x.nbytes for x in banks) + self.shared.nbytes + self.tmem.nbytes

    def note_stores(self, at: Array, threads: Array) -> None:
        """Threads (row * 32 + lane) have stored at these flat shared bytes through the generic proxy."""
        self.proxy_clock += 1
        chunk = at >> 4
        self.shared.stored_at[chunk] = self.proxy_clock
        self.shared.stored_by[chunk] = threads

    def note_fence(self, frame: Frame) -> None:
        """The executing threads order their earlier generic accesses before the async proxy's."""
        self.proxy_clock += 1
        self.fenced_at[frame.select(frame.slot)] = self.proxy_clock

    def unfenced(self, chunks: Array, issuer: int) -> Array:
        """Which flat chunks hold stores that neither their writer nor the issuing thread has fenced since."""
        stored = self.shared.stored_at[chunks]
        fenced = np.maximum(self.fenced_at[self.shared.stored_by[chunks]], self.fenced_at[issuer])
        return np.asarray(stored > fenced)

    def note_allocations(self) -> None:
        """Report tensor memory that a CTA still holds when it has ended (PTX ISA 9.7.16.7: it must be freed)."""
        for (cta, start), instruction in self.allocations.items():
            self.services.findings.add(
                "tmem not freed", instruction, f"TMEM from column {start} of CTA {cta} is never deallocated"
            )

    def close(self) -> None:
        """Let go of the run: its memory, its findings and the started work, which holds the wave in turn."""
        del self.asynchronous, self.services

    def drop_frames(self) -> None:
        """Let go of the frames, which hold the wave in turn, so that its memory is free at once."""
        self.frames.clear()

    def frame(self, low: int, high: int) -> Frame:
        """The frame of rows [low, high), made once."""
        found = self.frames.get((low, high))
        if found is None:
            found = self.frames[low, high] = Frame(self, low, high)
        return found

    def barrier(self, cta: int, number: int) -> Barrier:
        return self.barriers.setdefault((cta, number), Barrier())

    # -- clusters -----------------------------------------------------------------------------------------------

    def locate(self, cta: int, at: int, opcode: str) -> tuple[int, int]:
        """The CTA and the address in its window that an address of a CTA's cluster window means."""
        if self.cluster_ctas == 1:
            return cta, at
        rank = at >> CLUSTER_SHIFT
        if not 0 <= rank < self.cluster_ctas:
            raise AccessError(f"{opcode}: {at:#x} is no shared address of a cluster of {self.cluster_ctas} CTAs")
        owner = cta - cta % self.cluster_ctas + rank
        if owner != cta and not self.alive[owner :: self.ctas].any():
            raise AccessError(f"{opcode}: the shared memory of CTA rank {rank} of the cluster, which has exited")
        return owner, at & ((1 << CLUSTER_SHIFT) - 1)

    def locate_all(self, cta: Array, at: Array, opcode: str) -> tuple[Array, Array]:
        """`locate` of each executing lane."""
        if self.cluster_ctas == 1:
            return cta, at
        rank = at >> CLUSTER_SHIFT
        owners = cta - cta % self.cluster_ctas + rank
        suspect = (owners != cta) | (rank < 0)
        if np.count_nonzero(suspect):
            _, first = np.unique(owners[suspect], return_index=True)
            for i in first.tolist():
                self.locate(int(cta[suspect][i]), int(at[suspect][i]), opcode)
        return owners, at & ((1 << CLUSTER_SHIFT) - 1)

    def locate_own(self, cta: Array, at: Array, opcode: str) -> Array:
        """The addresses in each lane's own window; an address of another CTA is refused."""
        owners, local = self.locate_all(cta, at, opcode)
        if self.cluster_ctas > 1 and np.count_nonzero(owners != cta):
            raise AccessError(f"{opcode}: an address in another CTA's shared memory, which wants .shared::cluster")
        return local

    def release_clusters(self) -> None:
        """Let each cluster go on in which every thread that lives has arrived."""
        if not self.cluster_arrived.any():
            return
        waiting = self.cluster_arrived & self.alive
        missing = self.alive & ~self.cluster_arrived
        cluster = self.row_cta[:, 0] // self.cluster_ctas
        for number in np.unique(cluster[waiting.any(axis=1)]).tolist():
            rows = cluster == number
            if not missing[rows].any():
                self.cluster_arrived[rows] = False
                self.cluster_generation[rows] += 1
                self.version += 1

    def complete(self, barrier: Barrier) -> None:
        """Let the threads at a named barrier go on once all have arrived."""
        if barrier.arrived and barrier.arrived >= barrier.expected:
            barrier.arrived = 0
            barrier.generation += 1
            self.version += 1

    def note_exits(self) -> None:
        """Barriers of a whole CTA or cluster wait only for threads that live."""
        self.version += 1
        self.release_clusters()
        for (cta, _), barrier in self.barriers.items():
            if barrier.everyone and barrier.arrived:
                barrier.expected = self.alive_threads(cta)
                self.complete(barrier)

    def alive_threads(self, cta: int) -> int:
        return int(np.count_nonzero(self.alive[cta :: self.ctas]))


@dataclass
class Barrier:
    """A named barrier of one CTA: threads that arrived in this generation, and how many it waits for."""

    arrived: int = 0
    expected: int = 0
    everyone: bool = False  # it waits for the CTA's threads, of which those that exit are no longer
    generation: int = 0


@dataclass
class Services:
    """What a wave shares with the whole run."""

    memory: GlobalMemory
    param_bytes: Array
    findings: Findings
    make_async: Callable[[Wave], AsyncUnits]
    local_bytes: int = 0
    provenance: Provenance | None = None
    constant_bytes: Array = field(default_factory=lambda: np.zeros(16, np.uint8))
    options: frozenset[str] = frozenset()


class Views(dict[int, Array]):
    """The slots of a bank, each made into a view when it is first used; constants count down from -1."""

    def __init__(self, bank: Array, constants: list[Array]) -> None:
        super().__init__({-1 - i: constant for i, constant in enumerate(constants)})
        self.bank, self.fixed = bank, constants

    def __missing__(self, slot: int) -> Array:
        view: Array = self.bank[slot]
        self[slot] = view
        return view


class Frame:
    """Rows [low, high) of a wave: the registers by slot, and `mask`, True when every lane executes."""

    def __init__(self, wave: Wave, low: int, high: int) -> None:
        self.wave = wave
        self.low, self.high, self.rows = low, high, high - low
        self.shape = (high - low, LANES)
        self.mask: Any = True
        constants = wave.plan.constants
        rows = slice(low, high)
        self.p = Views(wave.pred[:, rows], [np.array([[bool(c)]]) for c in constants["pred"]])
        self.u16, self.s16, self.f16 = self._bank(wave.b16, constants["b16"], np.uint16, np.int16, np.float16)
        self.u32, self.s32, self.f32 = self._bank(wave.b32, constants["b32"], np.uint32, np.int32, np.float32)
        self.u64, self.s64, self.f64 = self._bank(wave.b64, constants["b64"], np.uint64, np.int64, np.float64)
        self.f32x2, self.u32x2 = self._bank(wave.b64, constants["b64"], np.float32, np.uint32, pairs=True)
        self.low32, self.high32 = (
            Views(views.bank[..., i], [c[..., i] for c in views.fixed])
            for i, views in ((0, self.u32x2), (1, self.u32x2))
        )
        self.u16x2, self.f16x2 = self._bank(wave.b32, constants["b32"], np.uint16, np.float16, pairs=True)
        self.cta = wave.row_cta[low:high]
        self.warp = wave.row_warp[low:high]
        self.thread = wave.thread[low:high]
        self.alive = wave.alive[low:high]
        self.slot = np.arange(low * LANES, high * LANES).reshape(self.shape)  # row * 32 + lane, across the wave
        self.shared_offset = self.cta * wave.shared.stride

    def _bank(self, bank: Array, constants: tuple[int, ...], *kinds: Any, pairs: bool = False) -> list[Views]:
        """The bank's slots seen as each of these types, `pairs` with a last axis of two."""
        fixed = [np.array([[c]], dtype=bank.dtype) for c in constants]
        views = []
        for kind in kinds:
            seen = bank.view(kind)
            if pairs:
                seen = seen.reshape(*bank.shape, 2)
            same = [c.view(kind).reshape(1, 1, 2) if pairs else c.view(kind) for c in fixed]
            views.append(Views(seen[:, self.low : self.high], same))
        return views

    def put(self, destination: Array, value: Any) -> None:
        """Write a full-shape value where the mask holds."""
        if self.mask is True:
            destination[...] = value
        else:
            np.copyto(destination, value, where=self.mask)

    def select(self, value: Array) -> Array:
        """The values of the executing lanes: two-dimensional when all execute, a list otherwise."""
        if value.shape != self.shape:
            value = np.broadcast_to(value, self.shape)
        return value if self.mask is True else value[self.mask]

    def scatter(self, destination: Array, values: Array) -> None:
        """Write values of the executing lanes, in the form that `select` gives."""
        if self.mask is True:
            destination[...] = values
        else:
            destination[self.mask] = values

    def lanes(self) -> list[tuple[int, int]]:
        """The (row in this frame, lane) of each executing thread, in order."""
        if self.mask is True:
            return [(r, lane) for r in range(self.rows) for lane in range(LANES)]
        rows, lanes = np.nonzero(self.mask)
        return list(zip(rows.tolist(), lanes.tolist(), strict=True))

    def active_rows(self) -> Any:
        """The rows of this frame in which at least one lane executes."""
        if self.mask is True:
            return range(self.rows)
        return np.flatnonzero(self.mask.any(axis=1)).tolist()

    def value(self, array: Array, row: int, lane: int) -> int:
        """One thread's value of a register or constant as a Python integer."""
        if array.shape != self.shape:
            return int(array[0, 0])
        return int(array[row, lane])
