"""machine: run a decoded program over a grid, warps in step where they can be, apart where they must.

Threads that stand at the same block are a fragment: a range of rows and a mask. The fragment with the lowest block runs
first, so that the others of its warp are met where paths join; one that waits lets others go. An instruction that
needs its warp whole stands as a gate until the rest has arrived.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutlab.ptx.asynchronous import AsyncUnits
from layoutlab.ptx.decode import Block, Program, decode
from layoutlab.ptx.memory import CLUSTER_SHIFT, SHARED_RESERVED_BYTES, SHARED_WINDOW_BYTES, GlobalMemory
from layoutlab.ptx.parse import Function, Module, PtxError, no_collection
from layoutlab.ptx.provenance import Provenance
from layoutlab.ptx.report import Deadlock, Findings, Report
from layoutlab.ptx.state import LANES, Array, Frame, Geometry, Services, Wave

FAIR_SHIFT = 12  # a fragment that has run 2^12 blocks more than another waits for it, so that no spin starves others
WAVE_BYTES = 192 << 20  # memory that the registers and memories of one wave may take
MAX_CLUSTER_CTAS = 16  # 8 portably; 16 where the kernel allows it
MAX_THREADS = 1024
SPARE_BYTES = 64 << 20  # the largest wave that is kept for the next run of the same kernel


@dataclass(eq=False)
class Fragment:
    """Threads at one block. `mask` is None when every lane of rows [low, high) belongs to it."""

    block: int
    low: int
    high: int
    mask: Array | None
    group: int = 0  # fragments of different groups are kept apart
    age: int = 0
    blocked_at: int = -1  # the wave's version when its gate last refused
    gave_up: tuple[int, frozenset[int]] = (-1, frozenset())  # gates that timed out, at this version of the wave


class Scheduler:
    """Runs one wave to its end."""

    def __init__(self, program: Program, wave: Wave, rng: random.Random | None, limit: int | None = None) -> None:
        self.limit = limit or 1 << 62
        self.blocks = program.blocks
        self.wave = wave
        self.rng = rng
        self.fragments: list[Fragment] = []
        whole = Fragment(0, 0, wave.rows, None)
        for number, rows in enumerate(self._groups()):
            whole.group = number
            self._add(whole, 0, wave.alive & rows[:, None], -1)

    def _groups(self) -> list[Array]:
        """The rows that go in step. Under the random schedule some warps are set apart from the others, so that one
        that goes ahead without waiting for another's work is seen."""
        wave = self.wave
        if self.rng is None:
            return [np.ones(wave.rows, bool)]
        together = 4 if any(block.sync == "warpgroup" for block in self.blocks) else 1
        unit = wave.row_warp[:, 0] // together * wave.ctas + wave.row_cta[:, 0]
        chosen = np.array([self.rng.random() < 0.5 for _ in range(int(unit.max()) + 1)])
        if chosen.all() or not chosen.any():  # one group goes in step with itself: nothing would be seen
            chosen[-1] ^= True
        apart = chosen[unit]
        return [rows for rows in (apart, ~apart) if rows.any()]

    def run(self) -> None:
        while self.fragments:
            fragment = self._pick()
            if fragment is None:
                self._unblock()
            else:
                self._advance(fragment)
            if self.wave.instructions > self.limit:
                raise PtxError(f"no end after {self.wave.instructions} warp-instructions", self._line(fragment))
        self.wave.asynchronous.drain_all()

    def _line(self, fragment: Fragment | None) -> int | None:
        return None if fragment is None else self.blocks[fragment.block].line

    # -- choosing -----------------------------------------------------------------------------------------------

    def _pick(self) -> Fragment | None:
        version = self.wave.version
        ready = [f for f in self.fragments if f.blocked_at != version]
        if not ready:
            return None
        if self.rng is not None:
            return self.rng.choice(ready)
        return min(ready, key=lambda f: (f.age >> FAIR_SHIFT, f.block))

    def _unblock(self) -> None:
        """Nobody can go on: complete started work, else let a try_wait time out, else it is a deadlock."""
        wave = self.wave
        if wave.asynchronous.step():
            wave.version += 1
            return
        for fragment in self.fragments:
            gate = self.blocks[fragment.block].gate
            version, given_up = fragment.gave_up
            given_up = given_up if version == wave.version else frozenset()
            if gate is None or fragment.block in given_up:
                continue
            frame = self._frame(fragment)
            if gate.give_up(frame):
                fragment.gave_up = (wave.version, given_up | {fragment.block})
                fragment.blocked_at = -1
                self._move(fragment, fragment.block + 1)
                return
        raise Deadlock(self._describe_deadlock())

    def _describe_deadlock(self) -> str:
        lines = ["deadlock: no warp can go on"]
        for fragment in self.fragments:
            frame = self._frame(fragment)
            block = self.blocks[fragment.block]
            reason = block.gate.describe(frame) if block.gate else "the other lanes of its warp"
            lines.append(f"  {self._who(frame)} at {block.instruction.where} ({block.instruction.text}): {reason}")
        lines += [f"  {barrier.describe()}" for barrier in self.wave.asynchronous.mbarriers.values()]
        return "\n".join(lines)

    def _who(self, frame: Frame) -> str:
        rows = list(frame.active_rows())
        names = []
        for row in rows[:8]:
            active = LANES if frame.mask is True else int(frame.mask[row].sum())
            lanes = "" if active == LANES else f" ({active} lanes)"
            names.append(f"CTA {int(frame.cta[row, 0])} warp {int(frame.warp[row, 0])}{lanes}")
        return ", ".join(names) + (", ..." if len(rows) > 8 else "")

    # -- running ------------------------------------------------------------------------------------------------

    def _frame(self, fragment: Fragment) -> Frame:
        frame = self.wave.frame(fragment.low, fragment.high)
        frame.mask = True if fragment.mask is None else fragment.mask
        return frame

    def _advance(self, fragment: Fragment) -> None:
        """Run the fragment until it splits, waits, ends, or others should go first."""
        limit = self._limit(fragment)
        wave, blocks = self.wave, self.blocks
        random_steps = wave.asynchronous.schedule == "random"
        frame = self._frame(fragment)
        others = {f.block for f in self.fragments if f is not fragment}
        while True:
            block = blocks[fragment.block]
            if block.sync is not None and not self._converged(fragment, frame, block.sync):
                fragment.blocked_at = wave.version
                return
            if block.gate is not None:
                allowed = block.gate.poll(frame)
                if allowed is not True:
                    self._hold(fragment, allowed)
                    return
            if block.checked:
                in_flight = wave.in_flight
                for op, checked in zip(block.ops, block.checked, strict=True):
                    (checked if in_flight.active else op)(frame)
            else:
                for op in block.ops:
                    op(frame)
            wave.instructions += block.weight * (frame.rows if frame.mask is True else self._active_rows(frame))
            fragment.age += 1
            following = self._follow(fragment, frame, block)
            if following < 0:
                return
            fragment.block = following
            if following in others:
                self._merge(fragment)
                return
            if following > limit or random_steps or not fragment.age & 1023:
                if random_steps:
                    wave.asynchronous.maybe_step()
                elif not fragment.age & 1023:
                    wave.asynchronous.step()  # a long spin may wait for started work that no gate names
                return

    @staticmethod
    def _active_rows(frame: Frame) -> int:
        return int(np.count_nonzero(frame.mask.any(axis=1)))

    def _limit(self, fragment: Fragment) -> int:
        """The block up to which this fragment may run before another should."""
        version = self.wave.version
        blocks = [f.block for f in self.fragments if f is not fragment and f.blocked_at != version]
        return min(blocks, default=1 << 60)

    def _converged(self, fragment: Fragment, frame: Frame, sync: str | int) -> bool:
        """Whether all the lanes that the instruction names stand here."""
        if sync == "warpgroup":
            return self._whole_warpgroups(fragment, frame)
        if fragment.mask is None:
            return True
        here = fragment.mask
        rows = here.any(axis=1)
        if isinstance(sync, str):
            missing = (frame.alive & ~here)[rows]
            return not missing.any()
        named = np.broadcast_to(frame.u32[sync], frame.shape)
        lanes = (named[..., None] >> np.arange(LANES, dtype=np.uint32)) & 1
        wanted = (lanes.astype(bool) & here[..., None]).any(axis=1)
        return not (wanted & frame.alive & ~here).any()

    def _whole_warpgroups(self, fragment: Fragment, frame: Frame) -> bool:
        wave = self.wave
        here = np.zeros((wave.rows, LANES), bool)
        here[fragment.low : fragment.high] = True if fragment.mask is None else fragment.mask
        group = np.broadcast_to((wave.row_warp // 4) * wave.ctas + wave.row_cta, here.shape)
        present = np.unique(group[here])
        return not (np.isin(group, present) & wave.alive & ~here).any()

    def _hold(self, fragment: Fragment, allowed: Any) -> None:
        """A gate let only some lanes pass: they go on as a fragment of their own."""
        everyone = np.ones((fragment.high - fragment.low, LANES), bool) if fragment.mask is None else fragment.mask
        passing = everyone & allowed
        if passing.any():
            self.fragments.remove(fragment)
            self._add(fragment, fragment.block, everyone & ~passing, self.wave.version)
            # The lanes that pass meet the same gate again, which then lets all of them through.
            self._add(fragment, fragment.block, passing, -1, merge=False)
        else:
            fragment.blocked_at = self.wave.version

    def _follow(self, fragment: Fragment, frame: Frame, block: Block) -> int:
        """The next block, or -1 when the fragment split or ended."""
        following = block.number + 1
        if block.table:
            return self._follow_table(fragment, frame, block)
        if block.guard < 0:
            if block.exits:
                self._exit(fragment, frame.mask)
                return -1
            return block.target if block.target >= 0 else following
        taken = frame.p[block.guard]
        if block.negated:
            taken = ~taken
        if fragment.mask is not None:
            taken = taken & fragment.mask
            total = int(np.count_nonzero(fragment.mask))
        else:
            total = frame.rows * LANES
        count = int(np.count_nonzero(taken))
        if count == 0:
            return following
        if count == total:
            if block.exits:
                self._exit(fragment, frame.mask)
                return -1
            return block.target
        self._split(fragment, taken, -1 if block.exits else block.target, following)
        return -1

    def _follow_table(self, fragment: Fragment, frame: Frame, block: Block) -> int:
        index = np.broadcast_to(frame.u32[block.table_slot], frame.shape)
        everyone = np.ones(frame.shape, bool) if fragment.mask is None else fragment.mask
        values = np.unique(index[everyone]).tolist()
        if values and values[-1] >= len(block.table):
            raise PtxError(f"branch index {values[-1]} of a table of {len(block.table)}", block.instruction.line)
        if len(values) == 1:
            return block.table[int(values[0])]
        self.fragments.remove(fragment)
        for value in values:
            self._add(fragment, block.table[value], everyone & (index == value), -1)
        return -1

    def _split(self, fragment: Fragment, taken: Array, target: int, following: int) -> None:
        everyone = np.ones(taken.shape, bool) if fragment.mask is None else fragment.mask
        self.fragments.remove(fragment)
        if target < 0:
            self.wave.alive[fragment.low : fragment.high] &= ~taken
            self.wave.note_exits()
        else:
            self._add(fragment, target, taken, -1)
        self._add(fragment, following, everyone & ~taken, -1)

    def _exit(self, fragment: Fragment, mask: Any) -> None:
        self.fragments.remove(fragment)
        self.wave.alive[fragment.low : fragment.high] &= ~np.asarray(mask)
        self.wave.note_exits()

    def _move(self, fragment: Fragment, block: int) -> None:
        fragment.block = block
        if any(f.block == block for f in self.fragments if f is not fragment):
            self._merge(fragment)

    def _add(self, parent: Fragment, block: int, mask: Array, blocked_at: int, merge: bool = True) -> None:
        rows = np.flatnonzero(mask.any(axis=1))
        low, high = int(rows[0]), int(rows[-1]) + 1
        part: Array | None = mask[low:high].copy()
        if part is not None and part.all():
            part = None
        low, high = low + parent.low, high + parent.low
        fragment = Fragment(block, low, high, part, parent.group, parent.age, blocked_at, parent.gave_up)
        self.fragments.append(fragment)
        if merge and blocked_at < 0:
            self._merge(fragment)

    def _merge(self, fragment: Fragment) -> None:
        """Join every other fragment of its group that stands at the same block."""
        same = [f for f in self.fragments if f.block == fragment.block and f.group == fragment.group]
        if len(same) < 2:
            return
        low, high = min(f.low for f in same), max(f.high for f in same)
        mask: Array | None = np.zeros((high - low, LANES), bool)
        assert mask is not None
        for part in same:
            view = mask[part.low - low : part.high - low]
            view |= True if part.mask is None else part.mask
            if part is not fragment:
                self.fragments.remove(part)
        if mask.all():
            mask = None
        fragment.low, fragment.high, fragment.mask = low, high, mask
        fragment.age = max(f.age for f in same)
        fragment.gave_up = min((f.gave_up for f in same), key=lambda g: (g[0], len(g[1])))
        fragment.blocked_at = -1


# -- a grid -----------------------------------------------------------------------------------------------------------


def run_grid(
    module: Module,
    function: Function,
    geometry: Geometry,
    params: list[bytes],
    memory: GlobalMemory,
    *,
    schedule: str = "eager",
    seed: int = 0,
    provenance: bool = False,
    options: frozenset[str] = frozenset(),
    wave_ctas: int | None = None,
    ctas: tuple[int, int] | None = None,
    limit: int | None = None,
    progress: Any = None,
) -> Report:
    """Run every CTA of a launch and report.

    `params` holds the bytes of each parameter, `memory` the buffers it may touch, `wave_ctas` how many CTAs run
    together (chosen from their size when None), `ctas` a range of CTA numbers when not all are to run, `limit` the
    warp-instructions that a wave may take, `progress` is called with the number of CTAs done. Raises `PtxError` at the
    first PTX line that the machine does not know or that leaves its memory, and `Deadlock` when no warp can go on.
    """
    started = time.perf_counter()
    program = decode(module, function, geometry.cluster_ctas > 1)
    findings = Findings()
    record = Provenance() if provenance else None
    rng = random.Random(seed)
    shared_bytes = geometry.shared_bytes + program.shared_static_bytes
    geometry = Geometry(geometry.grid, geometry.block, shared_bytes, geometry.cluster)
    _check_launch(function, geometry)

    def make_async(wave: Wave) -> AsyncUnits:
        return AsyncUnits(wave, schedule, rng)

    services = Services(
        memory, _param_image(program, params), findings, make_async, program.local_bytes, record,
        np.frombuffer(program.constant_bytes, np.uint8).copy(), options,
    )  # fmt: skip
    report = Report(function.name, geometry.grid, geometry.block, provenance=record)
    for ins, name in program.never_written:
        findings.add("never written", ins, f"{ins.opcode} reads {name}, which no instruction writes")
    done = 0
    with np.errstate(all="ignore"), no_collection():
        for batch in _waves(geometry, program, wave_ctas, ctas):
            wave = _start_wave(geometry, batch, program, services)
            _set_special_registers(wave, program)
            if record is not None:
                record.start_wave(wave.ctas, wave.shared.stride, done)
            Scheduler(program, wave, rng if schedule == "random" else None, limit).run()
            wave.note_allocations()
            if record is not None:
                record.finish_wave(wave.shared.bytes, wave.tmem.words)
            report.instructions += wave.instructions
            _keep_wave(program, wave)
            done += len(batch)
            if progress is not None:
                progress(done)
    report.warnings = findings.all()
    report.seconds = time.perf_counter() - started
    return report


_SPARE: list[tuple[Program, Wave]] = []  # one wave that has ended, whose arrays and views the next run takes over


def _start_wave(geometry: Geometry, ctas: list[tuple[int, int, int]], program: Program, services: Services) -> Wave:
    """A wave at its start: the spare one when it is of this program and shape, else a new one."""
    with contextlib.suppress(IndexError):  # another thread may have taken it
        of, wave = _SPARE.pop()
        if of is program and wave.geometry == geometry and wave.ctas == len(ctas):
            wave.start(ctas, services)
            return wave
        wave.drop_frames()
    return Wave(geometry, ctas, program.plan, services)


def _keep_wave(program: Program, wave: Wave) -> None:
    """Making the views of a wave takes as long as a short run, so one wave is kept if it is small."""
    wave.close()
    if wave.nbytes > SPARE_BYTES or _SPARE:
        wave.drop_frames()
    else:
        _SPARE.append((program, wave))


def _check_launch(function: Function, geometry: Geometry) -> None:
    required = function.required_threads
    if required is not None and required != geometry.block:
        raise PtxError(f"{function.name} requires blocks of {required} threads, launched with {geometry.block}")
    if function.required_cluster not in (None, geometry.cluster):
        raise PtxError(
            f"{function.name} requires clusters of {function.required_cluster} CTAs, launched with {geometry.cluster}"
        )
    if min(geometry.cluster) < 1 or geometry.cluster_ctas > MAX_CLUSTER_CTAS:
        raise PtxError(f"a cluster of {geometry.cluster} CTAs: at most {MAX_CLUSTER_CTAS} are one")
    if any(n % c for n, c in zip(geometry.grid, geometry.cluster, strict=True)):
        raise PtxError(f"a grid of {geometry.grid} CTAs, which clusters of {geometry.cluster} do not divide")
    if min(*geometry.grid, *geometry.block) < 1 or geometry.threads > MAX_THREADS:
        raise PtxError(f"a grid of {geometry.grid} and blocks of {geometry.block}: at least 1, at most 1024 threads")
    if not 0 <= geometry.shared_bytes <= SHARED_WINDOW_BYTES - SHARED_RESERVED_BYTES:
        raise PtxError(f"{geometry.shared_bytes} bytes of shared memory: a CTA may use {SHARED_WINDOW_BYTES - 1024}")


def _param_image(program: Program, params: list[bytes]) -> Array:
    variables = program.function.params
    if len(params) != len(variables):
        raise PtxError(f"{len(params)} parameters for {len(variables)} of {program.function.name}")
    image = np.zeros(program.param_total + 16, np.uint8)
    for variable, offset, data in zip(variables, program.param_offsets, params, strict=True):
        if len(data) != variable.size:
            raise PtxError(f"parameter {variable.name} has {variable.size} bytes, given {len(data)}")
        image[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
    return image


def _waves(
    geometry: Geometry, program: Program, wave_ctas: int | None, ctas: tuple[int, int] | None
) -> Iterator[list[tuple[int, int, int]]]:
    """The CTA ids in launch order, x fastest, those of a range when one is given, cut into waves."""
    if wave_ctas is None:
        counts = program.plan.counts
        per_row = LANES * (counts["pred"] + 2 * counts["b16"] + 4 * counts["b32"] + 8 * counts["b64"])
        per_cta = geometry.warps * (per_row + LANES * program.local_bytes) + 2 * geometry.shared_bytes + (1 << 19)
        wave_ctas = max(1, min(8, WAVE_BYTES // per_cta))
    size = geometry.cluster_ctas
    wave_ctas = max(1, wave_ctas // size) * size  # the CTAs of a cluster run together
    if ctas is not None and (ctas[0] % size or ctas[1] % size):
        raise PtxError(f"CTAs {ctas[0]} to {ctas[1] - 1} are no whole clusters of {size}")
    ids = itertools.islice(_cta_ids(geometry), *(ctas or (None,)))
    while batch := list(itertools.islice(ids, wave_ctas)):
        yield batch


def _cta_ids(geometry: Geometry) -> Iterator[tuple[int, int, int]]:
    """Every CTA, cluster by cluster and in a cluster by rank, x fastest in both."""
    cx, cy, cz = geometry.cluster
    for outer in _box(*(n // c for n, c in zip(geometry.grid, geometry.cluster, strict=True))):
        for inner in _box(cx, cy, cz):
            yield (outer[0] * cx + inner[0], outer[1] * cy + inner[1], outer[2] * cz + inner[2])


def _box(x: int, y: int, z: int) -> Iterator[tuple[int, int, int]]:
    return ((i, j, k) for k in range(z) for j in range(y) for i in range(x))


def _set_special_registers(wave: Wave, program: Program) -> None:
    geometry = wave.geometry
    bx, by, _ = geometry.block
    thread = np.minimum(wave.thread, geometry.threads - 1)
    ctas = np.array(wave.cta_ids)[wave.row_cta]
    lane = np.broadcast_to(np.arange(LANES), thread.shape)
    one = np.uint32(1)
    lane_bit = one << lane.astype(np.uint32)
    axes = {
        "%tid": (thread % bx, thread // bx % by, thread // (bx * by)),
        "%ntid": geometry.block,
        "%ctaid": (ctas[..., 0], ctas[..., 1], ctas[..., 2]),
        "%nctaid": geometry.grid,
        "%clusterid": tuple(ctas[..., i] // geometry.cluster[i] for i in range(3)),
        "%nclusterid": tuple(n // c for n, c in zip(geometry.grid, geometry.cluster, strict=True)),
        "%cluster_ctaid": tuple(ctas[..., i] % geometry.cluster[i] for i in range(3)),
        "%cluster_nctaid": geometry.cluster,
    }
    rank = wave.row_cta % wave.cluster_ctas
    plain = {
        "%laneid": lane, "%warpid": wave.row_warp, "%nwarpid": geometry.warps, "%smid": 0, "%nsmid": 1, "%gridid": 0,
        "%lanemask_eq": lane_bit, "%lanemask_lt": lane_bit - one, "%lanemask_le": lane_bit | (lane_bit - one),
        "%lanemask_gt": ~(lane_bit | (lane_bit - one)), "%lanemask_ge": ~(lane_bit - one),
        "%cluster_ctarank": rank, "%cluster_nctarank": wave.cluster_ctas,
        "%clock": 0, "%clock_hi": 0, "%clock64": 0, "%globaltimer": 0, "%globaltimer_lo": 0, "%globaltimer_hi": 0,
        "%dynamic_smem_size": geometry.shared_bytes - program.shared_static_bytes,
        "%total_smem_size": geometry.shared_bytes + SHARED_RESERVED_BYTES,
    }  # fmt: skip
    for name, slot in program.special.items():
        if name.startswith("shared "):
            _, kind, address = name.split()
            bank = wave.b64 if kind == "b64" else wave.b32
            bank[slot] = int(address) + (rank << CLUSTER_SHIFT)
            continue
        base, _, axis = name.partition(".")
        value: Any = axes[base]["xyz".index(axis)] if axis else plain[base]
        bank = wave.b64 if name in ("%clock64", "%globaltimer", "%gridid") else wave.b32
        bank[slot] = value
