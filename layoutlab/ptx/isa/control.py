"""control: barriers, fences, and what does nothing to values (PTX ISA 9.7.12, 9.7.13, 9.7.19)."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.parse import Instruction, PtxError, Sym
from layoutlab.ptx.registry import Decoded, Gate, Qualifiers, instruction
from layoutlab.ptx.state import LANES, Frame, Op

CLUSTER_BARRIER = 16  # number of the cluster barrier beside the sixteen named ones


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
        name = "the cluster barrier" if number == CLUSTER_BARRIER else f"barrier {number}"
        return f"{name}, {barrier.arrived} of {barrier.expected} threads arrived"


def _first_lane(f: Frame, row: int) -> int:
    return 0 if f.mask is True else int(f.mask[row].argmax())


def _arrive(f: Frame, ins: Instruction, number: int, count: int, recorded: int) -> None:
    """Let each row arrive; `count` is the slot of the thread count, or -2^31 for all threads of the CTA."""
    wave = f.wave
    for row in f.active_rows():
        lane = _first_lane(f, row)
        cta, which = int(f.cta[row, 0]), f.value(f.u32[number], row, lane)
        if which > CLUSTER_BARRIER:
            raise PtxError(f"{ins.opcode} on barrier {which} of 16", ins.line)
        barrier = wave.barrier(cta, which)
        lanes = f.alive[row] if f.mask is True else f.mask[row]
        if recorded >= 0:
            f.u32[recorded][row][lanes] = barrier.generation
        whole = bool((lanes == f.alive[row]).all())
        barrier.expected = f.value(f.u32[count], row, lane) if count != _ALL else LANES * wave.alive_warps(cta)
        if barrier.expected % LANES:
            raise PtxError(f"{ins.opcode} for {barrier.expected} threads, no multiple of 32", ins.line)
        barrier.arrived += LANES if whole else int(lanes.sum())
        if barrier.arrived > barrier.expected:
            raise PtxError(
                f"{ins.opcode}: {barrier.arrived} threads arrive at barrier {which} of {barrier.expected}", ins.line
            )
        if barrier.arrived == barrier.expected:
            barrier.arrived = 0
            barrier.generation += 1
            wave.version += 1


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


@instruction("barrier.cluster.arrive .order:release|relaxed? .aligned?")
def _cluster_arrive(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    number = d.constant("b32", CLUSTER_BARRIER)
    recorded = _cluster_slot(d)
    return Decoded(
        lambda f: _arrive(f, ins, number, _ALL, recorded), sync="warp" if "aligned" in q else None
    )  # fmt: skip


@instruction("barrier.cluster.wait .acquire? .aligned?")
def _cluster_wait(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    """In a cluster of one CTA this waits for the CTA's own threads."""
    return Decoded(gate=BarrierGate(d.constant("b32", CLUSTER_BARRIER), _cluster_slot(d)))


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
    """The same address in another CTA of the cluster; in a cluster of one only CTA 0 exists."""
    bits = 32 if q["type"] == "u32" else 64
    target, a, rank = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], 32)

    def run(f: Frame) -> None:
        if np.count_nonzero(f.select(f.u32[rank])):
            raise PtxError("mapa to another CTA of a cluster is not emulated yet", ins.line)
        r = f.u32 if bits == 32 else f.u64
        f.put(r[target], r[a])

    return run
