"""floating: arithmetic on f16, bf16, f32, f64 and packed pairs (PTX ISA 9.7.3, 9.7.4).

fma is rounded once: the product of two float32 is exact in float64, and the sum's lost part decides the ties.
A NaN keeps numpy's payload, where a device gives one canonical NaN. Approximate functions are numpy's own, rounded to
float32: within the errors that the ISA allows a device, not bit-equal to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import FORMATS, decode, encode, flush, flush_below, narrow, not_negative, saturated
from layoutlab.ptx.isa.integer import bits_of_type
from layoutlab.ptx.parse import Instruction
from layoutlab.ptx.registry import Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op

Function = Callable[..., Array]
_ROUND = ".round:rn|rz|rm|rp?"


def _lost_in_sum(a: Array, b: Array, total: Array) -> Array:
    """What rounding took from a + b (Knuth's two-sum)."""
    other = total - a
    return np.asarray((a - (total - other)) + (b - other))


def _add32(a: Array, b: Array, mode: str) -> Array:
    if mode == "rn":
        return a + b
    x, y = a.astype(np.float64), b.astype(np.float64)
    total = x + y
    return narrow(_zero_of_sum(x, y, total, mode), _lost_in_sum(x, y, total), mode)


def _zero_of_sum(a: Array, b: Array, total: Array, mode: str) -> Array:
    """Rounding down, numbers that cancel give -0 (IEEE 754, 6.3; seen on an H200)."""
    if mode != "rm":
        return total
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)


def _sub32(a: Array, b: Array, mode: str) -> Array:
    return a - b if mode == "rn" else _add32(a, -b, mode)


def _mul32(a: Array, b: Array, mode: str) -> Array:
    return a * b if mode == "rn" else narrow(a.astype(np.float64) * b, None, mode)


def _fma32(a: Array, b: Array, c: Array, mode: str) -> Array:
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    if mode == "rn":
        tie = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
        if not np.count_nonzero(tie):
            return total.astype(np.float32)
    wide = np.broadcast_to(c.astype(np.float64), total.shape)
    return narrow(_zero_of_sum(product, wide, total, mode), _lost_in_sum(product, wide, total), mode)


_F32: dict[str, Callable[..., Array]] = {"add": _add32, "sub": _sub32, "mul": _mul32, "fma": _fma32, "mad": _fma32}


def _finish(ftz: bool, saturate: bool) -> Callable[[Array], Array] | None:
    if not (ftz or saturate):
        return None

    def finish(value: Array) -> Array:
        if saturate:
            value = saturated(value)
        return flush(value) if ftz else value

    return finish


def _run(d: int, sources: list[int], function: Function, view: str, ftz: bool, finish: Any) -> Op:
    """Compute on a view of the registers, `f32` or `f32x2`; with ftz subnormal operands count as zero."""
    packed = view.endswith("x2")

    def run(f: Frame) -> None:
        r = getattr(f, view)
        values = [r[s] for s in sources]
        if ftz:
            values = [flush(v) for v in values]
        result = function(*values)
        if finish is not None:
            result = finish(result)
        if f.mask is True:
            r[d][...] = result
        else:
            np.copyto(r[d], result, where=f.mask[..., None] if packed else f.mask)

    return run


@instruction(
    f"add {_ROUND} .ftz? .sat? .type:f32", f"sub {_ROUND} .ftz? .sat? .type:f32", f"mul {_ROUND} .ftz? .sat? .type:f32",
    f"add {_ROUND} .ftz? .type:f32x2", f"sub {_ROUND} .ftz? .type:f32x2", f"mul {_ROUND} .ftz? .type:f32x2",
    "fma .round:rn|rz|rm|rp .ftz? .sat? .type:f32", "fma .round:rn|rz|rm|rp .ftz? .type:f32x2",
    "mad .round:rn|rz|rm|rp .ftz? .sat? .type:f32",
)  # fmt: skip
def _arithmetic32(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    name = ins.opcode.split(".")[0]
    bits = 32 if q["type"] == "f32" else 64
    d.expect(ins, 4 if name in ("fma", "mad") else 3)
    target, sources = d.destination(ins.operands[0], bits), [d.slot(o, bits) for o in ins.operands[1:]]
    mode, function = q.get("round", "rn"), _F32[name]
    ftz, saturate = "ftz" in q, "sat" in q
    if mode == "rn" and not (ftz or saturate) and name in ("add", "sub", "mul"):
        return _fast(q["type"], {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name], target, *sources)
    return _run(target, sources, lambda *v: function(*v, mode), q["type"], ftz, _finish(ftz, saturate))


@instruction(
    f"add {_ROUND} .sat? .f32 .narrow:f16|bf16", f"sub {_ROUND} .sat? .f32 .narrow:f16|bf16",
    "fma .round:rn|rz|rm|rp .sat? .f32 .narrow:f16|bf16",
)  # fmt: skip
def _mixed(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """float32 arithmetic whose first operand (for fma, first two) is a 16-bit number, taken exactly."""
    name, mode, kind = ins.opcode.split(".")[0], q.get("round", "rn"), q["narrow"]
    d.expect(ins, 4 if name == "fma" else 3)
    target, last = d.destination(ins.operands[0], 32), d.slot(ins.operands[-1], 32)
    narrow_slots = [d.slot(o, 16) for o in ins.operands[1:-1]]
    function, finish = _F32[name], _finish(False, "sat" in q)

    def run(f: Frame) -> None:
        result = function(*(decode(kind, f.u16[s]) for s in narrow_slots), f.f32[last], mode)
        f.put(f.f32[target], result if finish is None else finish(result))

    return run


def _fast(view: str, function: Any, d: int, a: int, b: int) -> Op:
    if view == "f32":

        def run(f: Frame) -> None:
            r = f.f32
            function(r[a], r[b], out=r[d], where=f.mask)

        return run

    def run_pair(f: Frame) -> None:
        r = f.f32x2
        function(r[a], r[b], r[d], where=True if f.mask is True else f.mask[..., None])

    return run_pair


@instruction(f"add {_ROUND} .type:f64", f"sub {_ROUND} .type:f64", f"mul {_ROUND} .type:f64")
def _arithmetic64(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    if q.get("round", "rn") != "rn":
        raise d.fail(f"{ins.opcode}: directed rounding of f64 is not emulated yet")
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[ins.opcode.split(".")[0]]
    target, a, b = d.destination(ins.operands[0], 64), *(d.slot(o, 64) for o in ins.operands[1:])

    def run(f: Frame) -> None:
        function(f.f64[a], f.f64[b], f.f64[target], where=f.mask)

    return run


def _nearest(exact: Fraction, plain: float) -> float:
    """The nearest float64 of an exact sum; `plain`, computed in float64, has the sign of a zero."""
    try:
        return float(exact) if exact else float(plain)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@instruction("fma .rn .f64")
def _fma64(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """One rounding of the exact sum, in fractions where all three are finite."""
    target, *sources = d.destination(ins.operands[0], 64), *(d.slot(o, 64) for o in ins.operands[1:])

    def value(a: Array, b: Array, c: Array) -> Array:
        plain = a * b + c
        exact = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
        for at in zip(*np.nonzero(exact), strict=True):
            x, y, z = (float(np.broadcast_to(v, plain.shape)[at]) for v in (a, b, c))
            plain[at] = _nearest(Fraction(x) * Fraction(y) + Fraction(z), plain[at])
        return plain

    return _run(target, sources, value, "f64", False, None)


def _extreme(low: bool, nan: bool) -> Callable[[Array, Array], Array]:
    """The lesser or greater of two; -0 is below +0, which numpy holds for equal (ISA 9.7.3.11; seen on an H200)."""
    if nan:
        function: Any = np.minimum if low else np.maximum
    else:
        function = np.fmin if low else np.fmax

    def value(a: Array, b: Array) -> Array:
        result: Array = function(a, b)
        zero = result == 0
        if np.count_nonzero(zero):
            minus = (np.signbit(a) | np.signbit(b)) if low else (np.signbit(a) & np.signbit(b))
            zero &= (a == 0) & (b == 0)
            result = np.where(zero, np.where(minus, result.dtype.type(-0.0), result.dtype.type(0)), result)
        return result

    return value


@instruction("min .ftz? .NaN? .type:f32", "max .ftz? .NaN? .type:f32", "min .ftz? .NaN? .xorsign .abs .type:f32",
             "max .ftz? .NaN? .xorsign .abs .type:f32", "min .type:f64", "max .type:f64")  # fmt: skip
def _minmax(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """The operand that is no NaN, or with .NaN the NaN; two or three operands; -0 is below +0."""
    bits = bits_of_type(q["type"])
    target, sources = d.destination(ins.operands[0], bits), [d.slot(o, bits) for o in ins.operands[1:]]
    d.expect(ins, 3, 4)
    function = _extreme(ins.opcode.startswith("min"), "NaN" in q)
    if ".xorsign" in ins.opcode:
        magnitude = function

        def function(a: Array, b: Array) -> Array:
            result = magnitude(np.absolute(a), np.absolute(b))
            return np.where(np.signbit(a) ^ np.signbit(b), -result, result)

    def value(*values: Array) -> Array:
        result = values[0]
        for other in values[1:]:
            result = function(result, other)
        return result

    return _run(target, sources, value, q["type"], "ftz" in q, _finish("ftz" in q, False))


@instruction("abs .ftz? .type:f32|f64", "neg .ftz? .type:f32|f64")
def _sign(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    function: Any = np.absolute if ins.opcode.startswith("abs") else np.negative
    target, a = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits)
    return _run(target, [a], function, q["type"], "ftz" in q, None)


@instruction("copysign .type:f32|f64")
def _copysign(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    target, a, b = d.destination(ins.operands[0], bits), *(d.slot(o, bits) for o in ins.operands[1:])
    return _run(target, [a, b], lambda x, y: np.copysign(y, x), q["type"], False, None)


def _in_double(function: Callable[..., Array]) -> Function:
    """A function evaluated in float64 and rounded to float32 once."""
    return lambda *v: function(*(x.astype(np.float64) for x in v)).astype(np.float32)


_APPROXIMATE: dict[str, Function] = {
    "ex2": lambda x: np.exp2(x), "lg2": _in_double(np.log2), "rcp": _in_double(lambda x: 1.0 / x),
    "sqrt": _in_double(np.sqrt), "rsqrt": _in_double(lambda x: 1.0 / np.sqrt(x)), "sin": _in_double(np.sin),
    "cos": _in_double(np.cos), "tanh": _in_double(np.tanh),
}  # fmt: skip


@instruction(
    "ex2.approx .ftz? .f32", "lg2.approx .ftz? .f32", "sin.approx .ftz? .f32", "cos.approx .ftz? .f32",
    "tanh.approx .f32", "rcp .mode:approx|rn|rz|rm|rp .ftz? .f32", "sqrt .mode:approx|rn|rz|rm|rp .ftz? .f32",
    "rsqrt.approx .ftz? .f32",
)  # fmt: skip
def _function32(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    name, mode = ins.opcode.split(".")[0], q.get("mode", "approx")
    target, a = d.destination(ins.operands[0], 32), d.slot(ins.operands[1], 32)
    function = _APPROXIMATE[name]
    if mode in ("rz", "rm", "rp"):
        exact: Callable[[Array], Array] = np.sqrt if name == "sqrt" else np.reciprocal

        def function(x: Array) -> Array:
            return narrow(exact(x.astype(np.float64)), None, mode)

    return _run(target, [a], function, "f32", "ftz" in q, _finish("ftz" in q, False))


@instruction("div .mode:rn|rz|rm|rp|approx|full .ftz? .f32")
def _div32(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, a, b = d.destination(ins.operands[0], 32), *(d.slot(o, 32) for o in ins.operands[1:])
    mode = q["mode"] if q["mode"] in ("rz", "rm", "rp") else "rn"

    def value(x: Array, y: Array) -> Array:
        return x / y if mode == "rn" else narrow(x.astype(np.float64) / y, None, mode)

    return _run(target, [a, b], value, "f32", "ftz" in q, _finish("ftz" in q, False))


@instruction("div.rn .f64", "rcp.rn .f64", "sqrt.rn .f64")
def _function64(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, sources = d.destination(ins.operands[0], 64), [d.slot(o, 64) for o in ins.operands[1:]]
    function: Any = {"div": np.divide, "rcp": np.reciprocal, "sqrt": np.sqrt}[ins.opcode.split(".")[0]]
    return _run(target, sources, function, "f64", False, None)


@instruction("testp .test:finite|infinite|number|notanumber|normal|subnormal .type:f32|f64")
def _testp(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    p, a = d.predicate(ins.operands[0]), d.slot(ins.operands[1], bits)
    tiny = 2.0**-126 if bits == 32 else 2.0**-1022
    test: Any = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda x: ~np.isnan(x),
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda x: (np.abs(x) < tiny) & (x != 0),
    }[q["test"]]  # fmt: skip

    def run(f: Frame) -> None:
        f.put(f.p[p], test(getattr(f, q["type"])[a]))

    return run


# -- 16-bit types: computed in float64, rounded once -------------------------------------------------------------------

_HALF = "f16|f16x2|bf16|bf16x2"
_HALF_FUNCTIONS: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": lambda a, b, c: a * b + c, "abs": np.absolute,
    "neg": np.negative, "ex2": np.exp2, "tanh": np.tanh, "min": np.fmin, "max": np.fmax,
}  # fmt: skip


def _half(d: Decoder, ins: Instruction, q: Qualifiers, function: Function) -> Op:
    """A function of 16-bit values, alone or in packed pairs."""
    kind, packed = q["type"].removesuffix("x2"), q["type"].endswith("x2")
    bits, view = (32, "u16x2") if packed else (16, "u16")
    target, sources = d.destination(ins.operands[0], bits), [d.slot(o, bits) for o in ins.operands[1:]]
    saturate, relu, ftz = "sat" in q, "relu" in q, "ftz" in q
    tiny = 2.0 ** (1 - FORMATS[kind].bias)

    def run(f: Frame) -> None:
        r = getattr(f, view)
        values = [decode(kind, r[s]).astype(np.float64) for s in sources]
        result = function(*([flush_below(v, tiny) for v in values] if ftz else values))
        if saturate:
            result = saturated(result)
        if relu:
            result = not_negative(result)
        if ftz:
            result = flush_below(result, tiny)
        code = encode(kind, result)
        if f.mask is True:
            r[target][...] = code
        else:
            np.copyto(r[target], code, where=f.mask[..., None] if packed else f.mask)

    return run


@instruction(
    f"add .rn? .ftz? .sat? .type:{_HALF}", f"sub .rn? .ftz? .sat? .type:{_HALF}", f"mul .rn? .ftz? .sat? .type:{_HALF}",
    f"fma.rn .ftz? .sat? .relu? .type:{_HALF}", f"ex2.approx .ftz? .type:{_HALF}", f"tanh.approx .type:{_HALF}",
)  # fmt: skip
def _half_arithmetic(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return _half(d, ins, q, _HALF_FUNCTIONS[ins.opcode.split(".")[0]])


@instruction(f"abs .ftz? .type:{_HALF}", f"neg .ftz? .type:{_HALF}")
def _half_sign(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Bits only: a NaN keeps its payload, but with .ftz becomes the canonical one, as on an H200."""
    bits = 32 if q["type"].endswith("x2") else 16
    target, a = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits)
    sign = np.uint32(0x80008000) if bits == 32 else np.uint16(0x8000)
    negate = ins.opcode.startswith("neg")
    if "ftz" in q:
        tiny = 2.0 ** (1 - FORMATS[q["type"].removesuffix("x2")].bias)
        function: Any = np.negative if negate else np.absolute
        return _half(d, ins, q, lambda x: function(flush_below(x, tiny)))

    def run(f: Frame) -> None:
        r: Any = f.u32 if bits == 32 else f.u16
        f.put(r[target], r[a] ^ sign if negate else r[a] & ~sign)

    return run


@instruction(f"min .ftz? .NaN? .type:{_HALF}", f"max .ftz? .NaN? .type:{_HALF}")
def _half_minmax(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    low = ins.opcode.startswith("min")
    return _half(d, ins, q, _extreme(low, "NaN" in q))


@instruction("setp .compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu .ftz? .type:f16x2|bf16|bf16x2")
def _half_setp(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    from layoutlab.ptx.isa.integer import _float_compare
    from layoutlab.ptx.parse import Pair

    kind, packed = q["type"].removesuffix("x2"), q["type"].endswith("x2")
    compare = _float_compare(q["compare"])
    first = ins.operands[0]
    bits, view = (32, "u16x2") if packed else (16, "u16")
    a, b = d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    ftz, tiny = "ftz" in q, 2.0 ** (1 - FORMATS[kind].bias)
    targets = [first.first, first.second] if isinstance(first, Pair) else [first]
    slots = [d.predicate(t) for t in targets]

    def run(f: Frame) -> None:
        r = getattr(f, view)
        x, y = decode(kind, r[a]), decode(kind, r[b])
        result = compare(flush_below(x, tiny), flush_below(y, tiny)) if ftz else compare(x, y)
        if not packed:
            f.put(f.p[slots[0]], result)
        else:
            for i, slot in enumerate(slots):
                f.put(f.p[slot], result[..., i])

    return run
