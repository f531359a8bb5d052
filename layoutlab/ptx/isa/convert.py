"""convert: cvt between integers and floating-point types of 64 to 4 bits, packed forms included (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from layoutlab.ptx import formats
from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import decode, encode, flush, narrow, not_negative, saturated
from layoutlab.ptx.isa.integer import bits_of_type
from layoutlab.ptx.parse import Instruction
from layoutlab.ptx.registry import Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op

_INT = "u8|s8|u16|s16|u32|s32|u64|s64"
_NUMPY: dict[str, Any] = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
    "u64": np.uint64, "s64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def _read(d: Decoder, ins: Instruction, index: int, kind: str) -> Callable[[Frame], Array]:
    """A source of a type that may be narrower than its register."""
    bits = d.bits_of(ins.operands[index]) or max(16, bits_of_type(kind))
    slot = d.slot(ins.operands[index], bits)
    width = bits_of_type(kind)
    view = f"u{bits}"
    if kind == "bf16":
        return lambda f: decode("bf16", getattr(f, view)[slot].astype(np.uint16))
    if bits == width:
        name = kind
        return lambda f: getattr(f, name)[slot]
    if width > bits:
        raise d.fail(f"{ins.opcode}: a register of {bits} bits for a source of {width}")
    unsigned = _NUMPY[f"u{width}"]
    return lambda f: getattr(f, view)[slot].astype(unsigned).view(_NUMPY[kind])


def _write(d: Decoder, ins: Instruction, kind: str) -> Callable[[Frame, Array], None]:
    """A destination; one narrower than its register is sign- or zero-extended to it."""
    operand = ins.operands[0]
    width = bits_of_type(kind)
    bits = d.bits_of(operand) or max(16, width)
    slot = d.destination(operand, bits)
    signed = kind[0] == "s"
    view = ("s" if signed else "u") + str(bits)
    dtype = _NUMPY[view]

    def put(f: Frame, value: Array) -> None:
        if kind[0] in "fb":
            value = value.view(_NUMPY[f"u{width}"]) if value.dtype.kind == "f" else value
        f.put(getattr(f, view)[slot], value.astype(dtype))

    return put


@instruction(f"cvt .sat? .to:{_INT} .source:{_INT}")
def _int_to_int(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    get, put = _read(d, ins, 1, q["source"]), _write(d, ins, q["to"])
    dtype = _NUMPY[q["to"]]
    limits = np.iinfo(dtype)
    source_limits = np.iinfo(_NUMPY[q["source"]])
    low, high = max(limits.min, source_limits.min), min(limits.max, source_limits.max)

    def run(f: Frame) -> None:
        value = get(f)
        if "sat" in q:
            value = np.clip(value, value.dtype.type(low), value.dtype.type(high))
        put(f, value.astype(dtype))

    return run


@instruction(f"cvt .round:rn|rz|rm|rp .sat? .to:f16|f32|f64 .source:{_INT}")
def _int_to_float(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    get, put = _read(d, ins, 1, q["source"]), _write(d, ins, q["to"])
    mode, to = q["round"], q["to"]

    def run(f: Frame) -> None:
        value = get(f)
        if mode == "rn":
            result = value.astype(_NUMPY[to])
        elif to == "f32" and value.dtype.itemsize <= 4:
            result = narrow(value.astype(np.float64), None, mode)
        else:
            raise d.fail(f"{ins.opcode} is not emulated yet")
        put(f, np.clip(result, result.dtype.type(0), result.dtype.type(1)) if "sat" in q else result)

    return run


@instruction("cvt .round:rn|rz|rm|rp .to:bf16 .source:u8|s8|u16|s16|u32|s32")
def _int_to_bf16(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Rounded once: float64 holds all of these integers. Those of 64 bits it does not."""
    get, put = _read(d, ins, 1, q["source"]), _write(d, ins, "bf16")
    return lambda f: put(f, encode("bf16", get(f).astype(np.float64), q["round"], saturate=True))


@instruction(f"cvt .round:rni|rzi|rmi|rpi .ftz? .sat? .to:{_INT} .source:f16|f32|f64|bf16")
def _float_to_int(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Rounded to an integer and clamped to the target's range; NaN gives 0, or the target's top bit where the source
    or the target has 64 bits."""
    get, put = _read(d, ins, 1, q["source"]), _write(d, ins, q["to"])
    dtype = _NUMPY[q["to"]]
    limits = np.iinfo(dtype)
    rounding: Any = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[q["round"]]
    width, wide = bits_of_type(q["to"]), 64 in (bits_of_type(q["to"]), bits_of_type(q["source"]))
    nan = dtype(0) if not wide else dtype(limits.min if q["to"][0] == "s" else 1 << (width - 1))

    def run(f: Frame) -> None:
        value = get(f)
        if "ftz" in q:
            value = flush(value)
        whole = rounding(value.astype(np.float64))
        above, below, missing = whole >= float(limits.max), whole <= float(limits.min), np.isnan(whole)
        result = np.where(above | below | missing, 0.0, whole).astype(dtype)
        result = np.where(above, dtype(limits.max), np.where(below, dtype(limits.min), result))
        put(f, np.where(missing, nan, result))

    return run


@instruction("cvt .round:rni|rzi|rmi|rpi .ftz? .sat? .to:f32 .source:f32",
             "cvt .round:rni|rzi|rmi|rpi .sat? .to:f64 .source:f64",
             "cvt .round:rni|rzi|rmi|rpi .sat? .to:f16 .source:f16")  # fmt: skip
def _float_to_whole(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    get, put = _read(d, ins, 1, q["source"]), _write(d, ins, q["to"])
    rounding: Any = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[q["round"]]

    def run(f: Frame) -> None:
        value = rounding(flush(get(f)) if "ftz" in q else get(f))
        put(f, saturated(value) if "sat" in q else value)

    return run


@instruction(
    "cvt .ftz? .sat? .to:f32 .source:f16|bf16|f32", "cvt .to:f64 .source:f16|f32|bf16", "cvt .sat? .to:f16 .source:f16",
    "cvt .round:rn|rz|rm|rp .ftz? .sat? .to:f32 .source:f64|f32",
    "cvt .round:rn|rz|rm|rp .sat? .to:f64 .source:f64|f32",
    "cvt .round:rn|rz|rm|rp .ftz? .sat? .satfinite? .relu? .to:f16 .source:f32|f64|bf16|f16",
    "cvt .round:rn|rz|rm|rp .relu? .satfinite? .to:bf16 .source:f32|f64|f16|bf16",
    "cvt .round:rn|rz|rna .relu? .satfinite? .to:tf32 .source:f32",
)  # fmt: skip
def _float_to_float(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    to, mode = q["to"], q.get("round", "rn")
    get, put = _read(d, ins, 1, q["source"]), _write(d, ins, to)

    def run(f: Frame) -> None:
        value = get(f)
        if "relu" in q:
            value = not_negative(value)
        if "ftz" in q and q["source"] == "f32":
            value = flush(value)
        if to == "f64":
            result: Array = value.astype(np.float64)
        elif to == "f32":
            result = value.astype(np.float32) if mode == "rn" else narrow(value.astype(np.float64), None, mode)
        else:
            result = encode(to, value, mode, "satfinite" in q)
        if "sat" in q:
            result = encode("f16", saturated(value), mode) if to == "f16" else saturated(result)
        if "ftz" in q and to == "f32":
            result = flush(result)
        put(f, result)

    return run


_NARROW = "e4m3x2|e5m2x2|e2m1x2|e2m3x2|e3m2x2"


@instruction("cvt .round:rn|rz .relu? .satfinite? .to:f16x2|bf16x2 .f32",
             f"cvt.rn .satfinite? .relu? .to:{_NARROW} .f32")  # fmt: skip
def _pack_floats(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Two float32 into one register: the first source is the high half."""
    d.expect(ins, 3)
    kind, mode = q["to"].removesuffix("x2"), q.get("round", "rn")
    high, low = d.slot(ins.operands[1], 32), d.slot(ins.operands[2], 32)
    saturate, relu = "satfinite" in q, "relu" in q

    def codes(value: Array) -> Array:
        return encode(kind, not_negative(value) if relu else value, mode, saturate)

    if kind in ("f16", "bf16"):
        target = d.destination(ins.operands[0], 32)
        if kind == "bf16" and mode == "rn" and not (saturate or relu):

            def run_bf16(f: Frame) -> None:
                f.put(f.u32[target], formats.pack_bf16(f.f32[high], f.f32[low]))

            return run_bf16

        def run(f: Frame) -> None:
            parts, r = f.u16x2[target], f.f32
            first, second = codes(r[high]), codes(r[low])
            if f.mask is True:
                parts[..., 1] = first
                parts[..., 0] = second
            else:
                np.copyto(parts[..., 1], first, where=f.mask)
                np.copyto(parts[..., 0], second, where=f.mask)

        return run
    shift = np.uint16(4 if kind == "e2m1" else 8)
    bits = d.bits_of(ins.operands[0]) or 16
    narrow_target = d.destination(ins.operands[0], bits)

    def run_narrow(f: Frame) -> None:
        first, second = codes(f.f32[high]).astype(np.uint16), codes(f.f32[low]).astype(np.uint16)
        r: Any = getattr(f, f"u{bits}")
        f.put(r[narrow_target], ((first << shift) | second).astype(r[narrow_target].dtype))

    return run_narrow


@instruction(f"cvt.rn .satfinite? .relu? .to:{_NARROW} .source:f16x2|bf16x2")
def _pack_halves(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind, source = q["to"].removesuffix("x2"), q["source"].removesuffix("x2")
    target, a = d.destination(ins.operands[0], 16), d.slot(ins.operands[1], 32)
    shift = np.uint16(4 if kind == "e2m1" else 8)

    def run(f: Frame) -> None:
        value = decode(source, f.u16x2[a])
        if "relu" in q:
            value = not_negative(value)
        code = encode(kind, value, "rn", "satfinite" in q).astype(np.uint16)
        f.put(f.u16[target], (code[..., 1] << shift) | code[..., 0])

    return run


@instruction(f"cvt.rn .relu? .f16x2 .source:{_NARROW}")
def _unpack_halves(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind = q["source"].removesuffix("x2")
    target = d.destination(ins.operands[0], 32)
    bits = d.bits_of(ins.operands[1]) or 16
    a = d.slot(ins.operands[1], bits)
    shift, low = (4, 15) if kind == "e2m1" else (8, 63 if kind in ("e2m3", "e3m2") else 255)

    def run(f: Frame) -> None:
        code = getattr(f, f"u{bits}")[a].astype(np.uint16)
        pair = np.stack([code & np.uint16(low), (code >> np.uint16(shift)) & np.uint16(low)], axis=-1)
        value = decode(kind, pair)
        if "relu" in q:
            value = not_negative(value)
        result = encode("f16", value)
        np.copyto(f.u16x2[target], result, where=True if f.mask is True else f.mask[..., None])

    return run


@instruction("cvt .round:rz|rp .satfinite? .ue8m0x2 .f32")
def _pack_scales(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Powers of two: the exponent alone, rounded toward zero or up; the first source is the high byte."""
    target, high, low = d.destination(ins.operands[0], 16), *(d.slot(o, 32) for o in ins.operands[1:])

    def codes(value: Array) -> Array:
        mantissa, exponent = np.frexp(np.abs(value.astype(np.float64)))
        power = exponent - 1 + ((mantissa > 0.5) if q["round"] == "rp" else 0)
        code = np.clip(power + 127, 0, 254)
        return np.where(np.isnan(value), 255, code).astype(np.uint16)

    def run(f: Frame) -> None:
        f.put(f.u16[target], (codes(f.f32[high]) << np.uint16(8)) | codes(f.f32[low]))

    return run


@instruction("cvt.rn .bf16x2 .ue8m0x2")
def _unpack_scales(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, a = d.destination(ins.operands[0], 32), d.slot(ins.operands[1], 16)

    def run(f: Frame) -> None:
        code = f.u16[a]
        pair = np.stack([code & np.uint16(255), code >> np.uint16(8)], axis=-1)
        result = encode("bf16", decode("ue8m0", pair).astype(np.float32))
        np.copyto(f.u16x2[target], result, where=True if f.mask is True else f.mask[..., None])

    return run


@instruction("cvt.pack.sat .to:u8|s8|u16|s16 .s32 .b32?")
def _cvt_pack(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Two saturated integers, the first source above the second; the 8-bit form shifts them in below c's low half."""
    width = bits_of_type(q["to"])
    target = d.destination(ins.operands[0], 32)
    a, b = d.slot(ins.operands[1], 32), d.slot(ins.operands[2], 32)
    c = d.slot(ins.operands[3], 32) if len(ins.operands) == 4 else d.constant("b32", 0)
    limits = np.iinfo(_NUMPY[q["to"]])
    mask = np.uint32((1 << width) - 1)

    def run(f: Frame) -> None:
        high, low = (np.clip(f.s32[s], limits.min, limits.max).astype(np.uint32) & mask for s in (a, b))
        upper = (f.u32[c] << np.uint32(2 * width)) if width == 8 else np.uint32(0)
        f.put(f.u32[target], upper | (high << np.uint32(width)) | low)

    return run
