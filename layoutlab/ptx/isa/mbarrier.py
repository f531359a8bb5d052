"""mbarrier: init, arrive, expect_tx, waits (PTX ISA 9.7.13.15).

A try_wait stands at its gate until the phase completes; only when nothing else can go on does it return false, as its
time limit allows. A test_wait is treated alike, which is one of the interleavings it may meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutlab.ptx.asynchronous import Mbarrier
from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.isa.memory import AddressOf, address, span
from layoutlab.ptx.memory import SHARED_BASE, WINDOW_MASK
from layoutlab.ptx.parse import Discard, Instruction, Operand, PtxError
from layoutlab.ptx.registry import Decoded, Gate, Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op

_SHARED = ".space:shared|shared::cta|shared::cluster?"
_ORDER = ".order:release|relaxed|acquire? .scope:cta|cluster?"


def shared_address(d: Decoder, operand: Operand, ins: Instruction, space: str, size: int = 8) -> AddressOf:
    """The shared address of each executing lane, from a shared or a generic one; `size` bytes there must exist."""
    value = address(d, operand, space.split("::")[0] or "generic")

    def run(f: Frame) -> Array:
        at = value(f)
        low = high = int(at.flat[0])
        if at.size > 1 and np.count_nonzero(at != low):
            low, high = span(at)
        if high >= SHARED_BASE:
            at = at & WINDOW_MASK
            low, high = span(at)
        if f.wave.cluster_ctas > 1:
            cta = f.select(f.cta)
            _, local = f.wave.locate_all(cta, at, ins.opcode)
            if space != "shared::cluster":
                f.wave.locate_own(cta, at, ins.opcode)
            low, high = span(local)
        f.wave.shared.check_span(low, high + size, ins.opcode)
        return at

    return run


def groups(f: Frame, at: Array, extra: Array | None = None) -> list[tuple[int, int, int, Array | None]]:
    """The distinct (CTA, address, extra) among the executing lanes, with the positions of each (None: all of them)."""
    if f.wave.cluster_ctas > 1:
        owners, at = f.wave.locate_all(f.select(f.cta), at, "mbarrier")
    else:
        owners = f.select(f.cta)
    flat = at.ravel()
    if len(flat) == 1:
        only = int(owners.flat[0])
        return [(only, int(flat[0]), 0 if extra is None else int(extra.flat[0]), None)]
    if f.wave.ctas == 1:
        only, least = int(flat[0]), 0 if extra is None else int(extra.flat[0])
        if not np.count_nonzero(flat != only) and (extra is None or not np.count_nonzero(extra != least)):
            return [(0, only, least, None)]
    other = np.zeros_like(flat) if extra is None else extra.ravel()
    cta = owners.ravel()
    first = (int(cta[0]), int(flat[0]), int(other[0]))
    if (cta == first[0]).all() and (flat == first[1]).all() and (other == first[2]).all():
        return [(*first, None)]
    if int(other.min()) < 0 or int(other.max()) >> 32:
        keys = np.stack([cta, flat, other], axis=1)
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        entries = [tuple(entry) for entry in unique.tolist()]
    else:  # one number holds all three, which is much faster to sort
        unique, inverse = np.unique(cta << 56 | flat << 32 | other, return_inverse=True)
        entries = [(key >> 56, key >> 32 & 0xFFFFFF, key & 0xFFFFFFFF) for key in unique.tolist()]
    inverse = inverse.ravel()
    return [(int(c), int(a), int(e), np.flatnonzero(inverse == i)) for i, (c, a, e) in enumerate(entries)]


def _size(at: Array, chosen: Array | None) -> int:
    return int(at.size) if chosen is None else len(chosen)


@instruction(f"mbarrier.init {_SHARED} .b64")
def _init(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    where, count = shared_address(d, ins.operands[0], ins, q.get("space", "")), d.slot(ins.operands[1], 32)

    def run(f: Frame) -> None:
        at = where(f)
        for cta, each, n, chosen in groups(f, at, f.select(f.u32[count]).astype(np.int64)):
            if each % 8:
                raise PtxError(f"mbarrier at shared byte {each}, which 8 does not divide", ins.line)
            for _ in range(min(2, _size(at, chosen))):  # a second thread's is one too many
                f.wave.asynchronous.init_mbarrier(cta, each, n, ins)
            f.wave.shared.window_flags(cta)[each : each + 8] = 1

    return run


@instruction(f"mbarrier.inval {_SHARED} .b64")
def _inval(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    where = shared_address(d, ins.operands[0], ins, q.get("space", ""))

    def run(f: Frame) -> None:
        for cta, each, _, _ in groups(f, where(f)):
            f.wave.asynchronous.invalidate_mbarrier(cta, each, ins)

    return run


def _arrive_many(f: Frame, barrier: Mbarrier, count: int, times: int, ins: Instruction) -> None:
    """`times` arrivals of `count` each; they may complete a phase and go on into the next."""
    while times:
        now = min(times, max(1, barrier.pending // count)) if count else times
        f.wave.asynchronous.arrive(barrier, now * count, ins)
        times -= now


@instruction(
    f"mbarrier.arrive {_ORDER} {_SHARED} .b64", f"mbarrier.arrive.expect_tx {_ORDER} {_SHARED} .b64",
    f"mbarrier.arrive.noComplete {_ORDER} {_SHARED} .b64", f"mbarrier.arrive_drop {_ORDER} {_SHARED} .b64",
    f"mbarrier.arrive_drop.expect_tx {_ORDER} {_SHARED} .b64",
)  # fmt: skip
def _arrive(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Arrive, with `count` or after expecting `tx` bytes; the state is the number of the phase arrived in."""
    has_state = not isinstance(ins.operands[0], Discard) and len(ins.operands) > 1 and _is_memory(ins.operands[1])
    operands = ins.operands[1:] if has_state or isinstance(ins.operands[0], Discard) else ins.operands
    target = d.destination(ins.operands[0], 64) if has_state else -1
    where = shared_address(d, operands[0], ins, q.get("space", ""))
    expects, drops = ".expect_tx" in ins.opcode, "arrive_drop" in ins.opcode
    number = d.slot(operands[1], 32) if len(operands) > 1 else d.constant("b32", 1)

    def run(f: Frame) -> None:
        at = where(f)
        units = f.wave.asynchronous
        states = np.zeros(at.size, np.uint64)
        for cta, each, n, chosen in groups(f, at, f.select(f.u32[number]).astype(np.int64)):
            barrier = units.mbarrier(cta, each, ins)
            times = _size(at, chosen)
            states[slice(None) if chosen is None else chosen] = barrier.phase
            if expects:
                for _ in range(times):
                    units.expect(barrier, n, ins)
                    units.arrive(barrier, 1, ins)
            else:
                _arrive_many(f, barrier, n, times, ins)
            if drops:
                barrier.count -= times if expects else n * times
        if has_state:
            f.scatter(f.u64[target], states.reshape(at.shape))

    return run


def _is_memory(operand: Operand) -> bool:
    from layoutlab.ptx.parse import Mem

    return isinstance(operand, Mem)


@instruction(f"mbarrier.expect_tx .relaxed? .scope:cta|cluster? {_SHARED} .b64",
             f"mbarrier.complete_tx .relaxed? .scope:cta|cluster? {_SHARED} .b64")  # fmt: skip
def _transactions(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    where, number = shared_address(d, ins.operands[0], ins, q.get("space", "")), d.slot(ins.operands[1], 32)
    completes = ".complete_tx" in ins.opcode

    def run(f: Frame) -> None:
        at = where(f)
        units = f.wave.asynchronous
        for cta, each, n, chosen in groups(f, at, f.select(f.u32[number]).astype(np.int64)):
            barrier = units.mbarrier(cta, each, ins)
            for _ in range(_size(at, chosen)):
                (units.complete if completes else units.expect)(barrier, n, ins)

    return run


class WaitGate(Gate):
    """Waits until the phase of a parity, or of a state that an arrive returned, has completed."""

    def __init__(self, ins: Instruction, where: AddressOf, parity: int, state: int, p: int) -> None:
        self.ins, self.where, self.parity, self.state, self.p = ins, where, parity, state, p

    def _wanted(self, f: Frame) -> Array:
        source = f.u32[self.parity] if self.state < 0 else f.u64[self.state]
        return f.select(source).astype(np.int64)

    def poll(self, f: Frame) -> Any:
        at = self.where(f)
        found = groups(f, at, self._wanted(f))
        passed = [
            f.wave.asynchronous.mbarrier(cta, each, self.ins).passed(wanted & 1) for cta, each, wanted, _ in found
        ]
        if all(passed):
            return True
        allowed = np.zeros(at.size, bool)
        for ok, (_, _, _, chosen) in zip(passed, found, strict=True):
            allowed[slice(None) if chosen is None else chosen] = ok
        if f.mask is True:
            return allowed.reshape(f.shape)
        full = np.zeros(f.shape, bool)
        full[f.mask] = allowed
        return full

    def describe(self, f: Frame) -> str:
        found = groups(f, self.where(f), self._wanted(f))
        return "; ".join(
            f"phase parity {wanted & 1} of the {f.wave.asynchronous.mbarrier(cta, each, self.ins).describe()}"
            for cta, each, wanted, _ in found[:4]
        )

    def give_up(self, f: Frame) -> bool:
        f.put(f.p[self.p], np.bool_(False))
        return True


@instruction(
    f"mbarrier.try_wait .parity? .order:acquire|relaxed? .scope:cta|cluster? {_SHARED} .b64",
    f"mbarrier.test_wait .parity? .order:acquire|relaxed? .scope:cta|cluster? {_SHARED} .b64",
)
def _wait(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    p = d.predicate(ins.operands[0])
    where = shared_address(d, ins.operands[1], ins, q.get("space", ""))
    parity = d.slot(ins.operands[2], 32) if "parity" in q else -1
    # A constant's slot is negative too, so the state form is told by its own slot.
    state = -1 if "parity" in q else d.slot(ins.operands[2], 64)
    return Decoded(lambda f: f.put(f.p[p], np.bool_(True)), gate=WaitGate(ins, where, parity, state, p))
