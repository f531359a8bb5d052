"""control: barriers, fences, and what does nothing to values (PTX ISA 9.7.12, 9.7.13, 9.7.19)."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.memory import CLUSTER_SHIFT
from layoutlab.ptx.parse import Instruction, PtxError, Sym
from layoutlab.ptx.registry import Decoded, Gate, Qualifiers, instruction
from layoutlab.ptx.state import LANES, RUBBISH, Frame, Op

NAMED_BARRIERS = 16
RANK_MASK = 0xFF
NEVER_ARRIVED = RUBBISH & 0xFFFFFFFF


class BarrierGate(Gate):
    """Waits until the barrier has moved past the generation in which this thread arrived."""

    def __init__(self, number: int, recorded: int) -> None:
        self.number, self.recorded = number, recorded

    def poll(self, f: Frame) -> Any:
        allowed = np.zeros(f.shape, bool)
        for row in f.active_rows():
            lane = _first_lane(f, row)
            barrier = f.wave.barrier(int(f.cta[row, 0]), f.value(f.u32[self.number], row, lane))
            allowed[row] = f.u32[self.recorded][row] != barrier.generation
        mask = f.mask
        if (allowed if mask is True else allowed[mask]).all():
            return True
        return allowed

    def describe(self, f: Frame) -> str:
        row = next(iter(f.active_rows()))
        number = f.value(f.u32[self.number], row, _first_lane(f, row))
        barrier = f.wave.barrier(int(f.cta[row, 0]), number)
        return f"barrier {number}, {barrier.arrived} of {barrier.expected} threads arrived"


def _first_lane(f: Frame, row: int) -> int:
    return 0 if f.mask is True else int(f.mask[row].argmax())


def _arrive(f: Frame, ins: Instruction, number: int, count: int, recorded: int) -> None:
    """Let each row arrive; `count` is the slot of the thread count, or -2^31 for all threads of the CTA."""
    wave = f.wave
    for row in f.active_rows():
        lane = _first_lane(f, row)
        cta, which = int(f.cta[row, 0]), f.value(f.u32[number], row, lane)
        if which >= NAMED_BARRIERS:
            raise PtxError(f"{ins.opcode} on barrier {which} of 16", ins.line)
        barrier = wave.barrier(cta, which)
        lanes = f.alive[row] if f.mask is True else f.mask[row]
        if recorded >= 0:
            f.u32[recorded][row][lanes] = barrier.generation
        whole = bool((lanes == f.alive[row]).all())
        everyone = count == _ALL
        expected = wave.alive_threads(cta) if everyone else f.value(f.u32[count], row, lane)
        if not everyone and (expected % LANES or not expected):
            raise PtxError(f"{ins.opcode} for {expected} threads: a multiple of 32 that is not 0 is wanted", ins.line)
        if barrier.arrived and (everyone, expected) != (barrier.everyone, barrier.expected):
            raise PtxError(
                f"{ins.opcode}: barrier {which} of {expected} threads, at which {barrier.arrived} have arrived who "
                f"take it for one of {barrier.expected}",
                ins.line,
            )
        barrier.expected, barrier.everyone = expected, everyone
        barrier.arrived += LANES if whole and not everyone else int(lanes.sum())
        if barrier.arrived > barrier.expected:
            raise PtxError(
                f"{ins.opcode}: {barrier.arrived} threads arrive at barrier {which} of {barrier.expected}", ins.line
            )
        wave.complete(barrier)


_ALL = -(1 << 31)


@instruction("bar.sync", "bar.cta.sync", "barrier.sync .aligned?", "barrier.cta.sync .aligned?")
def _barrier_sync(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    number = d.slot(ins.operands[0], 32)
    count = d.slot(ins.operands[1], 32) if len(ins.operands) > 1 else _ALL
    recorded = d.temporary("b32")
    aligned = "aligned" in q or ins.opcode.startswith("bar.")
    return Decoded(
        gate=BarrierGate(number, recorded), sync="warp" if aligned else None,
        before=lambda f: _arrive(f, ins, number, count, recorded),
    )  # fmt: skip


@instruction("bar.arrive", "bar.cta.arrive", "barrier.arrive .aligned?", "barrier.cta.arrive .aligned?")
def _barrier_arrive(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    number, count = d.slot(ins.operands[0], 32), d.slot(ins.operands[1], 32)
    aligned = "aligned" in q or ins.opcode.startswith("bar.")
    return Decoded(lambda f: _arrive(f, ins, number, count, -1), sync="warp" if aligned else None)


class ClusterGate(Gate):
    """Waits until every thread of the cluster that has not exited has arrived."""

    def __init__(self, ins: Instruction, recorded: int) -> None:
        self.ins, self.recorded = ins, recorded

    def poll(self, f: Frame) -> Any:
        recorded = f.u32[self.recorded]
        if np.count_nonzero(f.select(recorded) == NEVER_ARRIVED):
            raise PtxError(
                f"{self.ins.opcode} in threads that have not arrived at the cluster's barrier", self.ins.line
            )
        allowed = recorded != f.wave.cluster_generation[f.low : f.high]
        return True if (allowed if f.mask is True else allowed[f.mask]).all() else allowed

    def describe(self, f: Frame) -> str:
        wave = f.wave
        cta = int(f.cta[next(iter(f.active_rows())), 0])
        rows = wave.row_cta[:, 0] // wave.cluster_ctas == cta // wave.cluster_ctas
        arrived, expected = wave.cluster_arrived[rows].sum(), (wave.cluster_arrived | wave.alive)[rows].sum()
        return f"the cluster barrier, {arrived} of {expected} threads arrived"


@instruction("barrier.cluster.arrive .order:release|relaxed? .aligned?")
def _cluster_arrive(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    recorded = _cluster_slot(d)

    def run(f: Frame) -> None:
        wave = f.wave
        lanes = f.alive if f.mask is True else f.mask
        arrived = wave.cluster_arrived[f.low : f.high]
        if np.count_nonzero(f.select(f.u32[recorded]) != NEVER_ARRIVED):
            raise PtxError(f"{ins.opcode}: threads arrive again before they have waited", ins.line)
        f.put(f.u32[recorded], wave.cluster_generation[f.low : f.high])
        arrived |= lanes
        wave.release_clusters()

    return Decoded(run, sync="warp" if "aligned" in q else None)


@instruction("barrier.cluster.wait .acquire? .aligned?")
def _cluster_wait(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    recorded = _cluster_slot(d)
    return Decoded(
        lambda f: f.put(f.u32[recorded], np.uint32(NEVER_ARRIVED)), gate=ClusterGate(ins, recorded),
        sync="warp" if "aligned" in q else None,
    )  # fmt: skip


def _cluster_slot(d: Decoder) -> int:
    if "cluster barrier" not in d.slots:
        d.slots["cluster barrier"] = ("b32", d.temporary("b32"))
    return d.slots["cluster barrier"][1]


@instruction("bar.warp.sync")
def _warp_sync(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    return Decoded(lambda f: None, sync=d.slot(ins.operands[0], 32))


def _nothing(f: Frame) -> None:
    """Memory is consistent after every instruction here, so fences order nothing further."""


@instruction(
    "fence .order:acq_rel|sc|acquire|release? .scope:cta|cluster|gpu|sys", "membar .scope:cta|gl|sys",
    "fence.proxy.alias", "fence.proxy.async.generic "
    ".order:acquire|release .sync_restrict::shared::cta|sync_restrict::shared::cluster? .scope:cta|cluster?",
    "fence.mbarrier_init.release.cluster", "fence.mbarrier_init.release .cluster",
    "fence.proxy.tensormap::generic .order:acquire|release .scope:cta|cluster|gpu|sys",
    "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync", "wgmma.fence.sync.aligned",
    "setmaxnreg .action:inc|dec .sync .aligned .u32", "griddepcontrol.wait", "griddepcontrol.launch_dependents",
    "nanosleep.u32", "pmevent", "pmevent.mask",
)  # fmt: skip
def _no_operation(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return _nothing


@instruction("fence.proxy.async .space:global|shared::cta|shared::cluster?")
def _proxy_fence(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return lambda f: f.wave.note_fence(f)


@instruction("call .uni?")
def _call(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Only printf and the failure of an assertion may be called; printing is passed over with a note."""
    names = [o.name for o in ins.operands if isinstance(o, Sym)]
    if "vprintf" in names:
        return lambda f: f.wave.services.findings.add("printf", ins, "printf is passed over")
    if "__assertfail" in names:

        def fail(f: Frame) -> None:
            row, lane = f.lanes()[0]
            raise PtxError(
                f"a device assertion failed in CTA {int(f.cta[row, lane])} thread {int(f.thread[row, lane])}", ins.line
            )

        return fail
    raise d.fail(f"call of {', '.join(names)}: device functions are not emulated yet")


@instruction("trap", "brkpt")
def _trap(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    def run(f: Frame) -> None:
        row, lane = f.lanes()[0]
        raise PtxError(f"{ins.opcode} in CTA {int(f.cta[row, lane])} thread {int(f.thread[row, lane])}", ins.line)

    return run


@instruction("mapa .space:shared::cluster? .type:u32|u64")
def _mapa(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """The same address in the window of another CTA of the cluster; a rank that is none gives an address of nobody."""
    bits = 32 if q["type"] == "u32" else 64
    target, a, rank = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], 32)
    kind: Any = np.uint32 if bits == 32 else np.uint64
    within = kind(((1 << bits) - 1) ^ (RANK_MASK << CLUSTER_SHIFT))

    def run(f: Frame) -> None:
        r = f.u32 if bits == 32 else f.u64
        ranks = (f.u32[rank] & np.uint32(RANK_MASK)).astype(kind)
        f.put(r[target], (r[a] & within) | (ranks << kind(CLUSTER_SHIFT)))

    return run


@instruction("getctarank .space:shared::cluster? .type:u32|u64")
def _getctarank(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """The rank of the CTA in whose window an address lies."""
    bits = 32 if q["type"] == "u32" else 64
    target, a = d.destination(ins.operands[0], 32), d.slot(ins.operands[1], bits)

    def run(f: Frame) -> None:
        at = (f.u32 if bits == 32 else f.u64)[a]
        f.put(f.u32[target], (at >> at.dtype.type(CLUSTER_SHIFT)).astype(np.uint32) & np.uint32(RANK_MASK))

    return run
