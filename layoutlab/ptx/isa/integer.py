"""integer: arithmetic, logic, shifts, comparison and selection, moves (PTX ISA 9.7.1, 9.7.2, 9.7.6 to 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import flush_below
from layoutlab.ptx.parse import Discard, Imm, Instruction, Pair, Sym, Vec
from layoutlab.ptx.registry import Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op

KIND_BITS = {"pred": 1}
INT_TYPES = "u16|s16|u32|s32|u64|s64"


def bits_of_type(kind: str) -> int:
    """The width of a PTX type name: `bits_of_type("s32") == 32`."""
    return int("".join(c for c in kind.split("x")[0] if c.isdigit()))


def bank(f: Frame, kind: str) -> list[Any]:
    """The registers of a frame seen as a type: u16, s32, f64, b32, ..."""
    return getattr(f, kind.replace("b", "u"))  # type: ignore[no-any-return]


def binary(kind: str, function: Callable[..., Any], d: int, a: int, b: int) -> Op:
    """An operation whose numpy ufunc gives the result in the registers' own type."""
    kind = kind.replace("b", "u")
    if kind == "u32":

        def run_u32(f: Frame) -> None:
            r = f.u32
            function(r[a], r[b], out=r[d], where=f.mask)

        return run_u32

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        function(r[a], r[b], out=r[d], where=f.mask)

    return run


def unary(kind: str, function: Callable[..., Any], d: int, a: int) -> Op:
    kind = kind.replace("b", "u")

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        function(r[a], r[d], where=f.mask)

    return run


def computed(kind: str, function: Callable[..., Array], d: int, *sources: int, to: str = "") -> Op:
    """An operation whose value is computed first and then put."""
    kind = kind.replace("b", "u")
    to = (to or kind).replace("b", "u")

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        f.put(getattr(f, to)[d], function(*[r[s] for s in sources]))

    return run


def _three(d: Decoder, ins: Instruction, kind: str) -> tuple[int, int, int]:
    d.expect(ins, 3)
    bits = bits_of_type(kind)
    return d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)


@instruction(f"add .type:{INT_TYPES}", f"sub .type:{INT_TYPES}", f"mul.lo .type:{INT_TYPES}|b32")
def _wrapping(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[ins.opcode.split(".")[0]]
    kind = q["type"].replace("s", "u")  # two's complement wraps alike
    return binary(kind, function, *_three(d, ins, kind))


@instruction("add.sat .s32", "sub.sat .s32")
def _saturating(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    function = np.add if ins.opcode.startswith("add") else np.subtract

    def value(a: Array, b: Array) -> Array:
        wide = function(a.astype(np.int64), b.astype(np.int64))
        return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)

    return computed("s32", value, *_three(d, ins, "s32"))


@instruction(f"min .type:{INT_TYPES}", f"max .type:{INT_TYPES}")
def _minmax(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return binary(q["type"], np.minimum if ins.opcode.startswith("min") else np.maximum, *_three(d, ins, q["type"]))


@instruction(f"div .type:{INT_TYPES}", f"rem .type:{INT_TYPES}")
def _divide(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Truncating division; by zero the result is unspecified, here all ones."""
    kind = q["type"]
    division = ins.opcode.startswith("div")

    def value(a: Array, b: Array) -> Array:
        zero = b == 0
        safe = np.where(zero, b.dtype.type(1), b)
        if kind[0] == "u":
            result = a // safe if division else a % safe
        else:
            quotient = a // safe
            quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0))).astype(a.dtype)
            result = quotient if division else a - quotient * safe
        return np.where(zero, ~b.dtype.type(0), result)

    return computed(kind, value, *_three(d, ins, kind))


def _wide(kind: str) -> str:
    return kind[0] + str(2 * bits_of_type(kind))


def _high_product(a: Array, b: Array, signed: bool, bits: int) -> Array:
    if bits < 64:
        wide = np.int64 if signed else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    low = np.uint64(0xFFFFFFFF)
    s = np.uint64(32)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    x0, x1, y0, y1 = x & low, x >> s, y & low, y >> s
    middle = (x0 * y0 >> s) + (x1 * y0 & low) + x0 * y1
    # x0*y1 <= (2^32-1)^2 and the two other terms are below 2^32, so the sum fits 64 bits.
    high = x1 * y1 + (x1 * y0 >> s) + (middle >> s)
    if signed:
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return np.asarray(high.astype(a.dtype))


@instruction(f"mul.hi .type:{INT_TYPES}")
def _mul_hi(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind = q["type"]
    bits = bits_of_type(kind)
    return computed(kind, lambda a, b: _high_product(a, b, kind[0] == "s", bits), *_three(d, ins, kind))


@instruction("mul.wide .type:u16|s16|u32|s32")
def _mul_wide(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind, wide = q["type"], _wide(q["type"])
    bits = bits_of_type(kind)
    target = d.destination(ins.operands[0], 2 * bits)
    a, b = d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    dtype = getattr(np, wide.replace("u", "uint").replace("s", "int"))
    return computed(kind, lambda x, y: x.astype(dtype) * y.astype(dtype), target, a, b, to=wide)


@instruction("mad.wide .type:u16|s16|u32|s32")
def _mad_wide(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind, wide = q["type"], _wide(q["type"])
    bits = bits_of_type(kind)
    target, c = d.destination(ins.operands[0], 2 * bits), d.slot(ins.operands[3], 2 * bits)
    a, b = d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    dtype = getattr(np, wide.replace("u", "uint").replace("s", "int"))

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        w = getattr(f, wide)
        f.put(w[target], r[a].astype(dtype) * r[b].astype(dtype) + w[c])

    return run


@instruction(f"mad.lo .type:{INT_TYPES}", f"mad.hi .type:{INT_TYPES}")
def _mad(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    d.expect(ins, 4)
    kind = q["type"]
    bits = bits_of_type(kind)
    target, *sources = d.destination(ins.operands[0], bits), *(d.slot(o, bits) for o in ins.operands[1:])
    if ".lo" in ins.opcode:
        return computed(kind.replace("s", "u"), lambda a, b, c: a * b + c, target, *sources)
    return computed(kind, lambda a, b, c: _high_product(a, b, kind[0] == "s", bits) + c, target, *sources)


@instruction("abs .type:s16|s32|s64", "neg .type:s16|s32|s64")
def _sign(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    function = np.absolute if ins.opcode.startswith("abs") else np.negative
    return unary(q["type"], function, d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits))


@instruction("and .type:b16|b32|b64", "or .type:b16|b32|b64", "xor .type:b16|b32|b64")
def _logic(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[ins.opcode.split(".")[0]]
    return binary(q["type"], function, *_three(d, ins, q["type"]))


@instruction("and .pred", "or .pred", "xor .pred")
def _logic_pred(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[ins.opcode.split(".")[0]]
    target, (a, not_a), (b, not_b) = d.predicate(ins.operands[0]), *map(d.signed_predicate, ins.operands[1:])

    def run(f: Frame) -> None:
        x = ~f.p[a] if not_a else f.p[a]
        y = ~f.p[b] if not_b else f.p[b]
        function(x, y, f.p[target], where=f.mask)

    return run


@instruction("not .type:b16|b32|b64")
def _not(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    return unary(q["type"], np.invert, d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits))


@instruction("not .pred")
def _not_pred(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, a = d.predicate(ins.operands[0]), d.predicate(ins.operands[1])

    def run(f: Frame) -> None:
        np.logical_not(f.p[a], f.p[target], where=f.mask)

    return run


@instruction("cnot .type:b16|b32|b64")
def _cnot(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    return computed(q["type"], lambda a: a == 0, d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits))


@instruction("shl .type:b16|b32|b64", "shr .type:b16|b32|b64|u16|u32|u64|s16|s32|s64")
def _shift(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Shift by a 32-bit amount; amounts beyond the width clamp to it."""
    d.expect(ins, 3)
    kind = q["type"].replace("b", "u")
    bits = bits_of_type(kind)
    function = np.left_shift if ins.opcode.startswith("shl") else np.right_shift
    target, a, b = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], 32)
    dtype = getattr(np, kind.replace("u", "uint").replace("s", "int"))

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        amount = f.u32[b]
        if bits != 32 or dtype is not np.uint32:
            amount = np.minimum(amount, np.uint32(bits)).astype(dtype)
        function(r[a], amount, r[target], where=f.mask)  # numpy's shifts by the width or more give 0 or the sign

    return run


@instruction("shf .side:l|r .mode:clamp|wrap .b32")
def _funnel(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, a, b, c = d.destination(ins.operands[0], 32), *(d.slot(o, 32) for o in ins.operands[1:])

    def value(low: Array, high: Array, amount: Array) -> Array:
        n = np.minimum(amount, np.uint32(32)) if q["mode"] == "clamp" else amount & np.uint32(31)
        pair = (high.astype(np.uint64) << np.uint64(32)) | low
        n = n.astype(np.uint64)
        if q["side"] == "l":
            return ((pair << n) >> np.uint64(32)).astype(np.uint32)
        return (pair >> n).astype(np.uint32)

    return computed("u32", value, target, a, b, c)


@instruction("lop3 .b32")
def _lop3(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Any function of three bits: bit `4a + 2b + c` of the immediate table."""
    target, a, b, c = d.destination(ins.operands[0], 32), *(d.slot(o, 32) for o in ins.operands[1:4])
    table = ins.operands[4]
    if not isinstance(table, Imm):
        raise d.fail("lop3's table is no immediate")
    terms = [n for n in range(8) if table.value >> n & 1]

    def value(x: Array, y: Array, z: Array) -> Array:
        result = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), np.uint32)
        for n in terms:
            result |= (x if n & 4 else ~x) & (y if n & 2 else ~y) & (z if n & 1 else ~z)
        return result

    return computed("u32", value, target, a, b, c)


@instruction("prmt .b32")
def _prmt(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Each selector nibble picks one of eight bytes of {b, a}; its top bit replicates that byte's sign."""
    target, a, b, c = d.destination(ins.operands[0], 32), *(d.slot(o, 32) for o in ins.operands[1:])

    def value(low: Array, high: Array, selector: Array) -> Array:
        pair = (high.astype(np.uint64) << np.uint64(32)) | low
        result: Any = np.uint32(0)
        for i in range(4):
            nibble = (selector >> np.uint32(4 * i)) & np.uint32(15)
            byte = (pair >> ((nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & np.uint32(
                255
            )
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            result = result | np.where(nibble & np.uint32(8), sign, byte) << np.uint32(8 * i)
        return np.asarray(result)

    return computed("u32", value, target, a, b, c)


@instruction("bfe .type:u32|s32|u64|s64")
def _bfe(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Bits [pos, pos+len); the signed form extends by the bit at min(pos + len - 1, msb)."""
    kind = q["type"]
    bits = bits_of_type(kind)
    target, a = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits)
    position, length = d.slot(ins.operands[2], 32), d.slot(ins.operands[3], 32)
    dtype: Any = np.uint64 if bits == 64 else np.uint32

    def run(f: Frame) -> None:
        x = bank(f, f"u{bits}")[a]
        pos = f.u32[position] & np.uint32(255)
        size = np.minimum(f.u32[length] & np.uint32(255), np.uint32(bits))
        ones = np.where(size >= bits, ~dtype(0), (dtype(1) << size.astype(dtype)) - dtype(1))
        field = np.where(pos < bits, x >> np.minimum(pos, np.uint32(bits - 1)).astype(dtype), dtype(0)) & ones
        if kind[0] == "s":
            at = np.minimum(pos + np.maximum(size, np.uint32(1)) - np.uint32(1), np.uint32(bits - 1)).astype(dtype)
            sign = ((x >> at) & dtype(1)).astype(bool) & (size > 0)
            present = np.clip(bits - pos.astype(np.int64), 0, None).astype(np.uint32)
            kept = np.minimum(size, present)
            mask = np.where(kept >= bits, ~dtype(0), (dtype(1) << kept.astype(dtype)) - dtype(1))
            field = np.where(sign, field | ~mask, field)
        f.put(bank(f, f"u{bits}")[target], field)

    return run


@instruction("bfi .type:b32|b64")
def _bfi(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    target, a, b = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    position, length = d.slot(ins.operands[3], 32), d.slot(ins.operands[4], 32)
    dtype: Any = np.uint64 if bits == 64 else np.uint32

    def run(f: Frame) -> None:
        r = bank(f, f"u{bits}")
        pos = (f.u32[position] & np.uint32(255)).astype(dtype)
        size = (f.u32[length] & np.uint32(255)).astype(dtype)
        ones = np.where(size >= bits, ~dtype(0), (dtype(1) << size) - dtype(1)) << pos
        f.put(r[target], (r[b] & ~ones) | ((r[a] << pos) & ones))

    return run


@instruction("bmsk .mode:clamp|wrap .b32")
def _bmsk(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    def value(start: Array, size: Array) -> Array:
        if q["mode"] == "wrap":
            start, size = start & np.uint32(31), size & np.uint32(31)
        start, size = np.minimum(start, np.uint32(32)), np.minimum(size, np.uint32(32))
        ones = (np.uint64(1) << size.astype(np.uint64)) - np.uint64(1)
        return (ones << start.astype(np.uint64)).astype(np.uint32)

    return computed("u32", value, *_three(d, ins, "b32"))


def _counting(value: Callable[[Array], Array]) -> Callable[[Decoder, Instruction, Qualifiers], Op]:
    def handler(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
        bits = bits_of_type(q["type"])
        return computed(q["type"], value, d.destination(ins.operands[0], 32), d.slot(ins.operands[1], bits), to="u32")

    return handler


def _leading_zeros(x: Array) -> Array:
    bits = x.dtype.itemsize * 8
    result = np.full(x.shape, bits, np.uint32)
    rest = x.copy()
    length = np.zeros(x.shape, np.uint32)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            big = rest >= x.dtype.type(1) << x.dtype.type(step)
            length += np.where(big, np.uint32(step), np.uint32(0))
            rest = np.where(big, rest >> x.dtype.type(step), rest)
    return np.where(x == 0, result, np.uint32(bits - 1) - length)


instruction("popc .type:b32|b64")(_counting(lambda x: np.bitwise_count(x).astype(np.uint32)))
instruction("clz .type:b32|b64")(_counting(_leading_zeros))


@instruction("brev .type:b32|b64")
def _brev(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])

    def value(x: Array) -> Array:
        raw = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, bits // 8)
        flipped = np.packbits(np.unpackbits(raw, axis=-1, bitorder="little")[..., ::-1], axis=-1, bitorder="little")
        return flipped.view(x.dtype).reshape(x.shape)

    return computed(q["type"], value, d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits))


@instruction("bfind .shiftamt? .type:u32|s32|u64|s64")
def _bfind(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """The position of the most significant bit that differs from the sign; all ones when there is none."""
    kind = q["type"]
    bits = bits_of_type(kind)

    def value(x: Array) -> Array:
        unsigned = x.view(np.uint64 if bits == 64 else np.uint32)
        if kind[0] == "s":
            unsigned = np.where(x < 0, np.invert(unsigned), unsigned)
        zeros = _leading_zeros(unsigned)
        found = zeros if q.get("shiftamt") else np.uint32(bits - 1) - zeros
        return np.where(unsigned == 0, np.uint32(0xFFFFFFFF), found)

    return computed(kind, value, d.destination(ins.operands[0], 32), d.slot(ins.operands[1], bits), to="u32")


@instruction("sad .type:u32|s32")
def _sad(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, *sources = d.destination(ins.operands[0], 32), *(d.slot(o, 32) for o in ins.operands[1:])
    return computed(q["type"], lambda a, b, c: c + (np.maximum(a, b) - np.minimum(a, b)), target, *sources)


@instruction("dp4a .a:u32|s32 .b:u32|s32")
def _dp4a(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, *sources = d.destination(ins.operands[0], 32), *(d.slot(o, 32) for o in ins.operands[1:])

    def split(x: Array, kind: str) -> Array:
        raw = np.ascontiguousarray(x).view(np.int8 if kind == "s32" else np.uint8)
        return raw.reshape(*x.shape, 4).astype(np.int64)

    def value(a: Array, b: Array, c: Array) -> Array:
        total = (split(a, q["a"]) * split(b, q["b"])).sum(axis=-1)
        return np.asarray((total + c).astype(np.uint32))

    return computed("u32", value, target, *sources)


# -- comparison and selection ------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_COMBINE: dict[str, Callable[..., Any]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_INT_COMPARE = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"


@instruction(
    f"setp .compare:{_INT_COMPARE} .combine:and|or|xor? .type:b16|b32|b64|{INT_TYPES}",
    "setp .compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .combine:and|or|xor? .ftz? .type:f16|f32|f64",
)
def _setp(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind = q["type"].replace("b", "u")
    bits = bits_of_type(kind)
    targets = ins.operands[0]
    first, second = (targets.first, targets.second) if isinstance(targets, Pair) else (targets, Discard())
    p = d.predicate(first)
    other = -1 if isinstance(second, Discard) else d.predicate(second)
    has_second = not isinstance(second, Discard)
    a, b = d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    compare = _comparison(q, kind)
    if "combine" not in q and not has_second and isinstance(compare, np.ufunc):

        def run(f: Frame) -> None:
            r = getattr(f, kind)
            compare(r[a], r[b], f.p[p], where=f.mask)

        return run
    combine = _COMBINE.get(q.get("combine", ""))
    c, negated = d.signed_predicate(ins.operands[3]) if combine else (-1, False)

    def run_general(f: Frame) -> None:
        r = getattr(f, kind)
        result = compare(r[a], r[b])
        if combine is not None:
            extra = ~f.p[c] if negated else f.p[c]
            if has_second:
                f.put(f.p[other], combine(~result, extra))
            result = combine(result, extra)
        elif has_second:
            f.put(f.p[other], ~result)
        f.put(f.p[p], result)

    return run_general


def _float_compare(name: str) -> Callable[..., Any]:
    if name in ("num", "nan"):
        unordered = name == "nan"
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == unordered
    if name == "ne":  # ordered: false when either is NaN, which numpy's != is not
        return lambda a, b: (a < b) | (a > b)
    if name == "neu":
        return np.not_equal
    if name.endswith("u"):
        plain = _COMPARE[name[:-1]]
        return lambda a, b: plain(a, b) | np.isnan(a) | np.isnan(b)
    return _COMPARE[name]


def _comparison(q: Qualifiers, kind: str) -> Callable[..., Any]:
    """The comparison of a type's values; with .ftz subnormal operands count as zero."""
    if kind[0] != "f":
        return _COMPARE[q["compare"]]
    compare = _float_compare(q["compare"])
    if "ftz" not in q:
        return compare
    tiny = {"f16": 2.0**-14, "f32": 2.0**-126, "f64": 0.0}[kind]
    return lambda a, b: compare(flush_below(a, tiny), flush_below(b, tiny))


@instruction(
    f"set .compare:{_INT_COMPARE} .to:u32|s32|f32 .type:b16|b32|b64|{INT_TYPES}",
    "set .compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan .ftz? .to:u32|s32|f32 .type:f32|f64",
)
def _set(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind = q["type"].replace("b", "u")
    bits = bits_of_type(kind)
    compare = _comparison(q, kind)
    true = np.uint32(0x3F800000 if q["to"] == "f32" else 0xFFFFFFFF)
    target, a, b = d.destination(ins.operands[0], 32), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    return computed(kind, lambda x, y: np.where(compare(x, y), true, np.uint32(0)), target, a, b, to="u32")


@instruction("selp .type:b16|b32|b64|u16|s16|u32|s32|f32|u64|s64|f64")
def _selp(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bits = bits_of_type(q["type"])
    target, a, b = d.destination(ins.operands[0], bits), d.slot(ins.operands[1], bits), d.slot(ins.operands[2], bits)
    p, negated = d.signed_predicate(ins.operands[3])
    kind = f"u{bits}"

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        x, y = (r[b], r[a]) if negated else (r[a], r[b])
        f.put(r[target], np.where(f.p[p], x, y))

    return run


# -- moves -------------------------------------------------------------------------------------------------------------


@instruction("mov .type:b16|b32|b64|u16|s16|u32|s32|u64|s64|f16|f32|f64")
def _mov(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    d.expect(ins, 2)
    bits = bits_of_type(q["type"])
    destination, source = ins.operands
    if isinstance(source, Vec):
        return _pack(d, d.destination(destination, bits), source, bits)
    if isinstance(destination, Vec):
        return _unpack(d, destination, d.slot(source, bits), bits)
    target, a = d.destination(destination, bits), d.slot(source, bits)
    kind = f"u{bits}"

    def run(f: Frame) -> None:
        r = getattr(f, kind)
        f.put(r[target], r[a])

    return run


def _pack(d: Decoder, target: int, source: Vec, bits: int) -> Op:
    part = bits // len(source.items)
    slots = [d.slot(item, part) for item in source.items]
    kind = f"u{bits}"
    if (bits, part) == (64, 32):
        first, second = slots

        def run_words(f: Frame) -> None:
            r = f.u32
            if f.mask is True:
                f.low32[target][...] = r[first]
                f.high32[target][...] = r[second]
            else:
                np.copyto(f.low32[target], r[first], where=f.mask)
                np.copyto(f.high32[target], r[second], where=f.mask)

        return run_words
    if (bits, part) == (32, 16):
        pair, narrow = "u16x2", "u16"
        low, high = slots

        def run_pair(f: Frame) -> None:
            parts, r = getattr(f, pair)[target], getattr(f, narrow)
            if f.mask is True:
                parts[..., 0] = r[low]
                parts[..., 1] = r[high]
            else:
                np.copyto(parts[..., 0], r[low], where=f.mask)
                np.copyto(parts[..., 1], r[high], where=f.mask)

        return run_pair

    def run(f: Frame) -> None:
        narrow, wide = getattr(f, f"u{part}"), getattr(f, kind)
        dtype = wide[target].dtype.type
        value = narrow[slots[0]].astype(dtype)
        for i, slot in enumerate(slots[1:], 1):
            value = value | narrow[slot].astype(dtype) << dtype(part * i)
        f.put(wide[target], value)

    return run


def _unpack(d: Decoder, destination: Vec, source: int, bits: int) -> Op:
    part = bits // len(destination.items)
    kept = [(i, d.destination(o, part)) for i, o in enumerate(destination.items) if not isinstance(o, Discard)]
    if (bits, part) == (64, 32):

        def run_words(f: Frame) -> None:
            r = f.u32
            for i, slot in kept:
                half = f.high32[source] if i else f.low32[source]
                if f.mask is True:
                    r[slot][...] = half
                else:
                    np.copyto(r[slot], half, where=f.mask)

        return run_words
    if (bits, part) == (32, 16):
        pair, kind = "u16x2", "u16"

        def run_pair(f: Frame) -> None:
            parts, r = getattr(f, pair)[source], getattr(f, kind)
            for i, slot in kept:
                f.put(r[slot], parts[..., i])

        return run_pair

    def run(f: Frame) -> None:
        wide, narrow = getattr(f, f"u{bits}"), getattr(f, f"u{part}")
        dtype = wide[source].dtype.type
        for i, slot in kept:
            f.put(narrow[slot], (wide[source] >> dtype(part * i)).astype(narrow[slot].dtype))

    return run


@instruction("mov .pred")
def _mov_pred(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target = d.predicate(ins.operands[0])
    a, negated = d.signed_predicate(ins.operands[1])

    def run(f: Frame) -> None:
        f.put(f.p[target], ~f.p[a] if negated else f.p[a])

    return run


_SPACES = "global|shared|shared::cta|shared::cluster|local|const|param"


@instruction(f"cvta .space:{_SPACES} .type:u64|u32", f"cvta.to .space:{_SPACES} .type:u64|u32")
def _cvta(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Generic address from a state space's, and back. A variable's name stands for its address."""
    from layoutlab.ptx.memory import CONST_BASE, LOCAL_BASE, PARAM_BASE, SHARED_BASE

    if q["type"] != "u64":
        raise d.fail("32-bit generic addresses")
    space = q["space"].split("::")[0]
    base = {"shared": SHARED_BASE, "local": LOCAL_BASE, "param": PARAM_BASE, "const": CONST_BASE}.get(space, 0)
    source = ins.operands[1]
    if isinstance(source, Sym):
        found, address = d.address_of(source)
        a = d.constant("b64", d.generic_address(source) if found == "const" else address)
        base = 0 if found == "const" else base
    else:
        a = d.slot(source, 64)
    target = d.destination(ins.operands[0], 64)
    if ins.opcode.startswith("cvta.to"):
        base = (1 << 64) - base if base else 0
    shift = np.uint64(base)

    def run(f: Frame) -> None:
        np.add(f.u64[a], shift, f.u64[target], where=f.mask)

    return run
