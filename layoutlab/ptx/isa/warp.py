"""warp: instructions in which the lanes of a warp see each other (PTX ISA 9.7.9.6 to 9.7.9.8, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.parse import Discard, Imm, Instruction, Pair, PtxError
from layoutlab.ptx.registry import Decoded, Qualifiers, instruction
from layoutlab.ptx.state import LANES, Array, Frame

_LANE = np.arange(LANES, dtype=np.int64)
_FIRST = _LANE == 0


def _active(f: Frame) -> Array:
    return np.ones(f.shape, bool) if f.mask is True else np.asarray(f.mask)


class Members:
    """The member mask of a warp instruction: which of the executing lanes see each other."""

    def __init__(self, d: Decoder, ins: Instruction, index: int) -> None:
        self.ins, operand = ins, ins.operands[index]
        self.slot = d.slot(operand, 32)
        self.everyone = isinstance(operand, Imm) and operand.value & 0xFFFFFFFF == 0xFFFFFFFF

    def teams(self, f: Frame) -> list[Array]:
        """The executing lanes, apart by the mask that they name; a lane that its own mask leaves out is refused."""
        lanes = _active(f)
        if self.everyone:
            return [lanes]
        named = np.broadcast_to(f.u32[self.slot], f.shape)
        outside = lanes & ((named >> _LANE.astype(np.uint32)) & np.uint32(1) == 0)
        if outside.any():
            row, lane = (int(x[0]) for x in np.nonzero(outside))
            raise PtxError(
                f"{self.ins.opcode} in CTA {int(f.cta[row, lane])} thread {int(f.thread[row, lane])}, lane {lane}, "
                f"which its own member mask {int(named[row, lane]):#010x} leaves out",
                self.ins.line,
            )
        masks = np.unique(named[lanes])
        return [lanes] if len(masks) == 1 else [lanes & (named == mask) for mask in masks]

    def merged(self, f: Frame, value: Callable[[Array], Array]) -> Array:
        """What `value` gives each lane for the team in which it stands."""
        teams = self.teams(f)
        result = np.broadcast_to(value(teams[0]), f.shape)
        for team in teams[1:]:
            result = np.where(team, value(team), result)
        return result


def _bits(lanes: Array) -> Array:
    """A row of 32 booleans as a 32-bit mask, shape (rows, 1)."""
    shifted: Array = lanes.astype(np.uint32) << _LANE.astype(np.uint32)
    return np.asarray(shifted.sum(axis=1, dtype=np.uint32)[:, None])


@instruction("shfl.sync .mode:up|down|bfly|idx .b32")
def _shfl(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    """Lane j of a segment; outside it, the lane's own value and a false predicate."""
    d.expect(ins, 5)
    first = ins.operands[0]
    value_out, predicate_out = (first.first, first.second) if isinstance(first, Pair) else (first, Discard())
    target = d.destination(value_out, 32)
    p = -1 if isinstance(predicate_out, Discard) else d.predicate(predicate_out)
    has_predicate = not isinstance(predicate_out, Discard)
    a, b, c = (d.slot(o, 32) for o in ins.operands[1:4])
    members = Members(d, ins, 4)
    mode = q["mode"]
    fixed = all(isinstance(o, Imm) for o in ins.operands[2:4])
    cached: list[tuple[Array, Array]] = []

    def sources(f: Frame) -> tuple[Array, Array]:
        """The lane that each lane reads and whether it is valid; made once when amount and control are constants."""
        if cached:
            return cached[0]
        found = compute(f)
        if fixed:
            cached.append(found)
        return found

    def compute(f: Frame) -> tuple[Array, Array]:
        amount = (f.u32[b] & np.uint32(31)).astype(np.int64)
        control = f.u32[c].astype(np.int64)
        clamp, segment = control & 31, (control >> 8) & 31
        # One segment for all lanes: the bounds of ISA 9.7.9.6.
        highest = (_LANE & segment) | (clamp & ~segment)
        lowest = _LANE & segment
        if mode == "up":
            source = _LANE - amount
            valid = source >= highest
        elif mode == "down":
            source = _LANE + amount
            valid = source <= highest
        elif mode == "bfly":
            source = _LANE ^ amount
            valid = source <= highest
        else:
            source = lowest | (amount & ~segment)
            valid = source <= highest
        return np.where(valid, source, _LANE) & 31, valid

    def run(f: Frame) -> None:
        value = f.u32[a]
        source, valid = sources(f)
        if value.shape != f.shape:
            result = value
        elif len(source) == 1:
            result = value[:, source[0]]
        else:
            result = np.take_along_axis(value, source, axis=1)
        if f.mask is not True or not members.everyone:
            note_strangers(f, source, valid)
        f.put(f.u32[target], result)
        if has_predicate:
            f.put(f.p[p], valid)

    def note_strangers(f: Frame, source: Array, valid: Array) -> None:
        """Report a lane that reads from one which does not execute with it, whose value is undefined."""
        source = np.broadcast_to(source, f.shape)
        for team in members.teams(f):
            bad = team & valid & ~np.take_along_axis(team, source, axis=1)
            if bad.any():
                row, lane = (int(x[0]) for x in np.nonzero(bad))
                f.wave.services.findings.add(
                    "shuffle from nobody", ins,
                    f"{ins.opcode}: CTA {int(f.cta[row, lane])} thread {int(f.thread[row, lane])} reads from lane "
                    f"{int(source[row, lane])}, which does not execute it with the same member mask",
                )  # fmt: skip

    return Decoded(run, sync=members.slot)


@instruction("elect.sync")
def _elect(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    """One executing lane of the member mask: the lowest here. (The ISA leaves the choice open.)"""
    first = ins.operands[0]
    assert isinstance(first, Pair)
    target, p = d.destination(first.first, 32), d.predicate(first.second)
    members = Members(d, ins, 1)

    def run(f: Frame) -> None:
        if f.mask is True and members.everyone:
            f.u32[target][...] = 0
            f.p[p][...] = _FIRST
            return
        leader = members.merged(f, lambda lanes: lanes.argmax(axis=1)[:, None])
        f.put(f.u32[target], leader.astype(np.uint32))
        f.put(f.p[p], leader == _LANE)

    return Decoded(run, sync=members.slot)


@instruction("vote.sync .mode:all|any|uni .pred")
def _vote(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target = d.predicate(ins.operands[0])
    a, negated = d.signed_predicate(ins.operands[1])
    members = Members(d, ins, 2)

    def run(f: Frame) -> None:
        value = np.broadcast_to(~f.p[a] if negated else f.p[a], f.shape)

        def result(lanes: Array) -> Array:
            every, some = (value | ~lanes).all(axis=1), (value & lanes).any(axis=1)
            one: Any = {"all": every, "any": some, "uni": every | ~some}[q["mode"]]
            return np.asarray(one[:, None])

        f.put(f.p[target], members.merged(f, result))

    return Decoded(run, sync=members.slot)


@instruction("vote.sync.ballot .b32")
def _ballot(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target = d.destination(ins.operands[0], 32)
    a, negated = d.signed_predicate(ins.operands[1])
    members = Members(d, ins, 2)

    def run(f: Frame) -> None:
        value = np.broadcast_to(~f.p[a] if negated else f.p[a], f.shape)
        f.put(f.u32[target], members.merged(f, lambda lanes: _bits(value & lanes)))

    return Decoded(run, sync=members.slot)


@instruction("match.any.sync .type:b32|b64", "match.all.sync .type:b32|b64")
def _match(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    first = ins.operands[0]
    every = ".all." in ins.opcode
    value_out = first.first if isinstance(first, Pair) else first
    target = d.destination(value_out, 32)
    p = d.predicate(first.second) if isinstance(first, Pair) else d.temporary("pred")
    bits = 32 if q["type"] == "b32" else 64
    a, members = d.slot(ins.operands[1], bits), Members(d, ins, 2)

    def run(f: Frame) -> None:
        value = np.broadcast_to(getattr(f, f"u{bits}")[a], f.shape)

        def masks(lanes: Array) -> Array:
            same = (value[:, :, None] == value[:, None, :]) & lanes[:, None, :] & lanes[:, :, None]
            found = (same.astype(np.uint32) << _LANE.astype(np.uint32)).sum(axis=2, dtype=np.uint32)
            return np.where(found == _bits(lanes), found, np.uint32(0)) if every else found

        result = members.merged(f, masks)
        if every:
            f.put(f.p[p], result != 0)
        f.put(f.u32[target], result)

    return Decoded(run, sync=members.slot)


@instruction("redux.sync .op:add|min|max|and|or|xor .type:u32|s32|b32", "redux.sync .op:min|max .abs? .NaN? .type:f32")
def _redux(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target, a, members = d.destination(ins.operands[0], 32), d.slot(ins.operands[1], 32), Members(d, ins, 2)
    op, kind = q["op"], q["type"].replace("b", "u")
    if kind == "f32":
        function: Any = {("min", False): np.fmin, ("max", False): np.fmax, ("min", True): np.minimum,
                         ("max", True): np.maximum}[op, "NaN" in q]  # fmt: skip
        neutral: Any = np.float32(np.nan) if "NaN" not in q else np.float32(np.inf if op == "min" else -np.inf)
    else:
        function = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
                    "xor": np.bitwise_xor}[op]  # fmt: skip
        limits = np.iinfo(np.uint32 if kind == "u32" else np.int32)
        neutral = {"min": limits.max, "max": limits.min, "and": -1 if kind == "s32" else limits.max}.get(op, 0)

    def run(f: Frame) -> None:
        value = np.broadcast_to(getattr(f, kind)[a], f.shape)
        if "abs" in q:
            value = np.abs(value)

        def result(lanes: Array) -> Array:
            filled = np.where(lanes, value, value.dtype.type(neutral))
            return np.asarray(function.reduce(filled, axis=1)[:, None].astype(value.dtype))

        f.put(getattr(f, kind)[target], members.merged(f, result))

    return Decoded(run, sync=members.slot)


@instruction("activemask .b32")
def _activemask(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target = d.destination(ins.operands[0], 32)
    return Decoded(lambda f: f.put(f.u32[target], np.broadcast_to(_bits(_active(f)), f.shape)))
