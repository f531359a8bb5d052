"""warp: instructions in which the lanes of a warp see each other (PTX ISA 9.7.9.6 to 9.7.9.8, 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.parse import Discard, Imm, Instruction, Pair
from layoutlab.ptx.registry import Decoded, Qualifiers, instruction
from layoutlab.ptx.state import LANES, Array, Frame

_LANE = np.arange(LANES, dtype=np.int64)
_FIRST = _LANE == 0


def _active(f: Frame) -> Array:
    return np.ones(f.shape, bool) if f.mask is True else np.asarray(f.mask)


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
    members = d.slot(ins.operands[4], 32)
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
        f.put(f.u32[target], result)
        if has_predicate:
            f.put(f.p[p], valid)

    return Decoded(run, sync=members)


@instruction("elect.sync")
def _elect(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    """One executing lane of the member mask: the lowest here. (The ISA leaves the choice open.)"""
    first = ins.operands[0]
    assert isinstance(first, Pair)
    target, p = d.destination(first.first, 32), d.predicate(first.second)
    members = d.slot(ins.operands[1], 32)

    everyone = isinstance(ins.operands[1], Imm) and ins.operands[1].value & 0xFFFFFFFF == 0xFFFFFFFF

    def run(f: Frame) -> None:
        if f.mask is True and everyone:
            f.u32[target][...] = 0
            f.p[p][...] = _FIRST
            return
        named = ((f.u32[members].astype(np.int64) >> _LANE) & 1).astype(bool)
        lanes = _active(f) & named
        leader = lanes.argmax(axis=1)[:, None]
        f.put(f.u32[target], np.broadcast_to(leader.astype(np.uint32), f.shape))
        f.put(f.p[p], (leader == _LANE) & lanes)

    return Decoded(run, sync=members)


@instruction("vote.sync .mode:all|any|uni .pred")
def _vote(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target = d.predicate(ins.operands[0])
    a, negated = d.signed_predicate(ins.operands[1])
    members = d.slot(ins.operands[2], 32)

    def run(f: Frame) -> None:
        lanes = _active(f)
        value = np.broadcast_to(~f.p[a] if negated else f.p[a], f.shape)
        every, some = (value | ~lanes).all(axis=1), (value & lanes).any(axis=1)
        result: Any = {"all": every, "any": some, "uni": every | ~some}[q["mode"]]
        f.put(f.p[target], np.broadcast_to(result[:, None], f.shape))

    return Decoded(run, sync=members)


@instruction("vote.sync.ballot .b32")
def _ballot(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target = d.destination(ins.operands[0], 32)
    a, negated = d.signed_predicate(ins.operands[1])
    members = d.slot(ins.operands[2], 32)

    def run(f: Frame) -> None:
        value = np.broadcast_to(~f.p[a] if negated else f.p[a], f.shape)
        f.put(f.u32[target], np.broadcast_to(_bits(value & _active(f)), f.shape))

    return Decoded(run, sync=members)


@instruction("match.any.sync .type:b32|b64", "match.all.sync .type:b32|b64")
def _match(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    first = ins.operands[0]
    every = ".all." in ins.opcode
    value_out = first.first if isinstance(first, Pair) else first
    target = d.destination(value_out, 32)
    p = d.predicate(first.second) if isinstance(first, Pair) else d.temporary("pred")
    bits = 32 if q["type"] == "b32" else 64
    a, members = d.slot(ins.operands[1], bits), d.slot(ins.operands[2], 32)

    def run(f: Frame) -> None:
        value = np.broadcast_to(getattr(f, f"u{bits}")[a], f.shape)
        lanes = _active(f)
        same = (value[:, :, None] == value[:, None, :]) & lanes[:, None, :] & lanes[:, :, None]
        masks = (same.astype(np.uint32) << _LANE.astype(np.uint32)).sum(axis=2, dtype=np.uint32)
        if every:
            agree = masks == _bits(lanes)
            f.put(f.p[p], agree)
            masks = np.where(agree, masks, np.uint32(0))
        f.put(f.u32[target], masks)

    return Decoded(run, sync=members)


@instruction("redux.sync .op:add|min|max|and|or|xor .type:u32|s32|b32", "redux.sync .op:min|max .abs? .NaN? .type:f32")
def _redux(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target, a, members = (
        d.destination(ins.operands[0], 32), d.slot(ins.operands[1], 32), d.slot(ins.operands[2], 32),
    )  # fmt: skip
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
        lanes = _active(f)
        filled = np.where(lanes, value, value.dtype.type(neutral))
        result = function.reduce(filled, axis=1)[:, None].astype(value.dtype)
        f.put(getattr(f, kind)[target], np.broadcast_to(result, f.shape))

    return Decoded(run, sync=members)


@instruction("activemask .b32")
def _activemask(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target = d.destination(ins.operands[0], 32)
    return Decoded(lambda f: f.put(f.u32[target], np.broadcast_to(_bits(_active(f)), f.shape)))
