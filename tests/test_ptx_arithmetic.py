# ruff: noqa: E501  (lines of PTX)
"""Arithmetic, logic, conversion: each instruction against Python integers, exact fractions, or ml_dtypes."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_programs import kernel, lanes

from layoutlab.ptx.run import run

RNG = np.random.default_rng(7)
EDGES = [0, 1, 2, 3, 5, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
MASK = 0xFFFFFFFF


def words(count=64, edges=EDGES):
    return np.concatenate([np.array(edges, np.uint32), RNG.integers(0, 1 << 32, count, dtype=np.uint32)])


def pairs(count=200):
    """Edges with edges, then random pairs."""
    a, b = np.meshgrid(np.array(EDGES, np.uint32), np.array(EDGES, np.uint32))
    more = RNG.integers(0, 1 << 32, (2, count), dtype=np.uint32)
    return np.concatenate([a.ravel(), more[0]]), np.concatenate([b.ravel(), more[1]])


def signed(x, bits=32):
    return x - (1 << bits) if x >> (bits - 1) else x


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INTEGER = {
    "add.s32 d, a0, a1;": lambda a, b: a + b,
    "sub.u32 d, a0, a1;": lambda a, b: a - b,
    "mul.lo.s32 d, a0, a1;": lambda a, b: a * b,
    "mul.hi.u32 d, a0, a1;": lambda a, b: a * b >> 32,
    "mul.hi.s32 d, a0, a1;": lambda a, b: signed(a) * signed(b) >> 32,
    "mad.lo.s32 d, a0, a1, a0;": lambda a, b: a * b + a,
    "mad.hi.u32 d, a0, a1, a1;": lambda a, b: (a * b >> 32) + b,
    "min.s32 d, a0, a1;": lambda a, b: min(signed(a), signed(b)),
    "min.u32 d, a0, a1;": min,
    "max.s32 d, a0, a1;": lambda a, b: max(signed(a), signed(b)),
    "max.u32 d, a0, a1;": max,
    "and.b32 d, a0, a1;": lambda a, b: a & b,
    "or.b32 d, a0, a1;": lambda a, b: a | b,
    "xor.b32 d, a0, a1;": lambda a, b: a ^ b,
    "not.b32 d, a0;": lambda a, b: ~a,
    "cnot.b32 d, a0;": lambda a, b: int(a == 0),
    "neg.s32 d, a0;": lambda a, b: -a,
    "abs.s32 d, a0;": lambda a, b: abs(signed(a)),
    "shl.b32 d, a0, a1;": lambda a, b: a << min(b, 32),
    "shr.u32 d, a0, a1;": lambda a, b: a >> min(b, 32),
    "shr.s32 d, a0, a1;": lambda a, b: signed(a) >> min(b, 31),
    "shf.l.wrap.b32 d, a0, a1, a1;": lambda a, b: ((b << 32 | a) << (b & 31)) >> 32,
    "shf.r.wrap.b32 d, a0, a1, a1;": lambda a, b: (b << 32 | a) >> (b & 31),
    "shf.l.clamp.b32 d, a0, a1, a1;": lambda a, b: ((b << 32 | a) << min(b, 32)) >> 32,
    "shf.r.clamp.b32 d, a0, a1, a1;": lambda a, b: (b << 32 | a) >> min(b, 32),
    "lop3.b32 d, a0, a1, a0, 0xE8;": lambda a, b: a,  # the majority of a, b, a
    "lop3.b32 d, a0, a1, 0x0F0F0F0F, 0x96;": lambda a, b: a ^ b ^ 0x0F0F0F0F,
    "lop3.b32 d, a0, a1, 0x00FF00FF, 0xCA;": lambda a, b: (a & b) | (~a & 0x00FF00FF),
    "add.sat.s32 d, a0, a1;": lambda a, b: max(-(1 << 31), min((1 << 31) - 1, signed(a) + signed(b))),
    "popc.b32 d, a0;": lambda a, b: a.bit_count(),
    "clz.b32 d, a0;": lambda a, b: 32 - a.bit_length(),
    "brev.b32 d, a0;": lambda a, b: int(f"{a:032b}"[::-1], 2),
    "bfind.u32 d, a0;": lambda a, b: a.bit_length() - 1,
    "bfind.s32 d, a0;": lambda a, b: (~a & MASK if a >> 31 else a).bit_length() - 1,
    "sad.u32 d, a0, a1, a0;": lambda a, b: a + abs(a - b),
    "bmsk.clamp.b32 d, a0, a1;": lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32),
}


@pytest.mark.parametrize("text", INTEGER)
def test_integer(text):
    a, b = pairs()
    got = lanes(text, [a, b], np.uint32)
    want = [INTEGER[text](int(x), int(y)) & MASK for x, y in zip(a, b, strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("div.u32 d, a0, a1;", lambda a, b: a // b),
        ("rem.u32 d, a0, a1;", lambda a, b: a % b),
        ("div.s32 d, a0, a1;", lambda a, b: trunc_div(signed(a), signed(b))),
        ("rem.s32 d, a0, a1;", lambda a, b: signed(a) - signed(b) * trunc_div(signed(a), signed(b))),
    ],
)
def test_division(text, function):
    a, b = pairs()
    b = np.where(b == 0, np.uint32(9), b)
    want = [function(int(x), int(y)) & MASK for x, y in zip(a, b, strict=True)]
    assert lanes(text, [a, b], np.uint32).tolist() == want


def extract(a, position, length, sign):
    """bfe by the ISA's own words, bit by bit."""
    msb = 31
    sign_bit = 0 if not sign or length == 0 else a >> min(position + length - 1, msb) & 1
    return sum((a >> (position + i) & 1 if i < length and position + i <= msb else sign_bit) << i for i in range(32))


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_bit_fields(kind):
    a = words(150)
    position = RNG.integers(0, 40, len(a)).astype(np.uint32)
    length = RNG.integers(0, 40, len(a)).astype(np.uint32)
    got = lanes(f"bfe.{kind} d, a0, a1, a2;", [a, position, length], np.uint32)
    want = [extract(*(int(v) for v in x), kind == "s32") for x in zip(a, position, length, strict=True)]
    assert got.tolist() == want
    base = RNG.permutation(a)
    got = lanes("bfi.b32 d, a0, a1, a2, a3;", [a, base, position, length], np.uint32)
    want = []
    for x, y, p, n in zip(a.tolist(), base.tolist(), position.tolist(), length.tolist(), strict=True):
        field = ((1 << n) - 1) << p & MASK
        want.append((y & ~field) | (x << p & field))
    assert got.tolist() == want


def test_permute():
    a, b = pairs()
    c = RNG.integers(0, 1 << 16, len(a)).astype(np.uint32)
    want = []
    for x, y, s in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        source = (y << 32 | x).to_bytes(8, "little")
        picked = []
        for i in range(4):
            nibble = s >> 4 * i & 15
            byte = source[nibble & 7]
            picked.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        want.append(int.from_bytes(bytes(picked), "little"))
    assert lanes("prmt.b32 d, a0, a1, a2;", [a, b, c], np.uint32).tolist() == want


WIDE = {
    "mul.wide.u32 d, a0, a1;": lambda a, b: a * b,
    "mul.wide.s32 d, a0, a1;": lambda a, b: signed(a) * signed(b),
    "cvt.u64.u32 d, a0;": lambda a, b: a,
    "cvt.s64.s32 d, a0;": lambda a, b: signed(a),
    "mov.b64 d, {a0, a1};": lambda a, b: b << 32 | a,
}


@pytest.mark.parametrize("text", WIDE)
def test_wide(text):
    a, b = pairs()
    want = [WIDE[text](int(x), int(y)) & ((1 << 64) - 1) for x, y in zip(a, b, strict=True)]
    assert lanes(text, [a, b], np.uint64).tolist() == want


LONG = {
    "mul.hi.u64 d, a0, a1;": lambda a, b: a * b >> 64,
    "mul.hi.s64 d, a0, a1;": lambda a, b: signed(a, 64) * signed(b, 64) >> 64,
    "mul.lo.s64 d, a0, a1;": lambda a, b: a * b,
    "shr.u64 d, a0, 13;": lambda a, b: a >> 13,
    "shr.s64 d, a0, 70;": lambda a, b: signed(a, 64) >> 63,
    "shl.b64 d, a0, 64;": lambda a, b: 0,
    "add.s64 d, a0, a1;": lambda a, b: a + b,
    "div.s64 d, a0, a1;": lambda a, b: trunc_div(signed(a, 64), signed(b, 64)),
}


@pytest.mark.parametrize("text", LONG)
def test_long(text):
    a, b = RNG.integers(0, 1 << 64, (2, 100), dtype=np.uint64)
    a[:4], b[:4] = [(1 << 64) - 1, 1 << 63, 1, 2], [(1 << 64) - 1, (1 << 64) - 1, 1 << 63, 3]
    want = [LONG[text](int(x), int(y)) & ((1 << 64) - 1) for x, y in zip(a, b, strict=True)]
    assert lanes(text, [a, b], np.uint64).tolist() == want


def test_dot_product_of_bytes():
    a, b = pairs(64)
    as_bytes = lambda x, kind: np.array([x], np.uint32).view(kind).astype(int)  # noqa: E731
    want = [
        (int((as_bytes(x, np.int8) * as_bytes(y, np.uint8)).sum()) + int(x)) & MASK for x, y in zip(a, b, strict=True)
    ]
    assert lanes("dp4a.s32.u32 d, a0, a1, a0;", [a, b], np.uint32).tolist() == want


# -- floating point -----------------------------------------------------------------------------------------------------

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-130), 3.4e38, 1 + 2.0**-23], np.float32
)


def floats(count=200):
    raw = RNG.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    usual = RNG.standard_normal(count).astype(np.float32)
    return np.concatenate([SPECIAL, raw, usual])


def rounded(value, mode):
    """An exact fraction as float32, by rounding mode."""
    if value == 0:
        return 0.0
    sign, value = (-1, -value) if value < 0 else (1, value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > value
    step = Fraction(2) ** (max(exponent, -126) - 23)
    units, rest = divmod(value, step)
    half = rest * 2 - step
    up = {"rn": half > 0 or (half == 0 and units % 2), "rz": False, "rm": sign < 0 and rest, "rp": sign > 0 and rest}[
        mode
    ]
    result = (units + bool(up)) * step
    if result >= Fraction(2) ** 128:
        away = mode == "rn" or (mode == "rm" and sign < 0) or (mode == "rp" and sign > 0)
        return sign * (math.inf if away else float(Fraction(2) ** 128 - Fraction(2) ** 104))
    return sign * float(result)


EXACT = {
    "add": lambda a, b, c: a + b, "sub": lambda a, b, c: a - b, "mul": lambda a, b, c: a * b,
    "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("form", ["f32", "f32x2"])
def test_one_rounding(name, mode, form):
    finite = [x[np.isfinite(x)] for x in (floats(), floats(), floats())]
    size = min(map(len, finite)) // 2 * 2
    a, b, c = (RNG.permutation(x)[:size] for x in finite)
    # Sums that fall on or beside a tie once the product is exact.
    a[:64], b[:64] = 1 + 2.0**-12, 1 + 2.0**-12 * np.arange(64, dtype=np.float32)
    c[:64] = 2.0**-24 * RNG.choice([1, -1, 2.0**-20, 0], 64)
    operands = ", ".join(["d", "a0", "a1", "a2"][: 4 if name == "fma" else 3])
    arrays = [a, b, c] if form == "f32" else [x.view(np.uint64) for x in (a, b, c)]
    result = lanes(f"{name}.{mode}.{form} {operands};", arrays, np.float32 if form == "f32" else np.uint64)
    got = result.view(np.float32)
    want = [rounded(EXACT[name](*map(Fraction, map(float, x))), mode) for x in zip(a, b, c, strict=True)]
    assert (got == np.array(want, np.float64).astype(np.float32)).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_mixed_precision(kind):
    a, b = (RNG.standard_normal(64).astype(ML[kind]) for _ in range(2))
    c = RNG.standard_normal(64).astype(np.float32)
    codes = [x.view(np.uint16) for x in (a, b)]
    got = lanes(f"fma.rn.f32.{kind} d, a0, a1, a2;", [*codes, c], np.float32)
    want = [
        rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), "rn")
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert got.tolist() == want
    got = lanes(f"sub.f32.{kind} d, a0, a1;", [codes[0], c], np.float32)
    assert (got == a.astype(np.float32) - c).all()


def test_minimum_and_maximum_of_nan():
    a, b = floats(), RNG.permutation(floats())
    assert np.array_equal(lanes("max.f32 d, a0, a1;", [a, b], np.float32), np.fmax(a, b), equal_nan=True)
    assert np.array_equal(lanes("min.NaN.f32 d, a0, a1;", [a, b], np.float32), np.minimum(a, b), equal_nan=True)


def test_three_input_maximum():
    a, b, c = floats(), RNG.permutation(floats()), RNG.permutation(floats())
    got = lanes("max.f32 d, a0, a1, a2;", [a, b, c], np.float32)
    assert np.array_equal(got, np.fmax(np.fmax(a, b), c), equal_nan=True)


def test_flushing_and_saturating():
    a = np.array([2.0**-127, -(2.0**-140), 0.5, 3.0, -2.0, np.nan], np.float32)
    zero = np.zeros_like(a)
    assert lanes("add.ftz.f32 d, a0, a1;", [a, zero], np.float32)[:4].tolist() == [0.0, 0.0, 0.5, 3.0]
    assert lanes("add.sat.f32 d, a0, a1;", [a, zero], np.float32)[2:].tolist() == [0.5, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("ex2.approx.f32", np.exp2), ("ex2.approx.ftz.f32", np.exp2), ("lg2.approx.f32", np.log2),
        ("rcp.approx.f32", lambda x: 1 / x), ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)), ("sqrt.rn.f32", np.sqrt),
        ("sin.approx.f32", np.sin), ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh), ("rcp.rn.f32", lambda x: 1 / x),
    ],
)  # fmt: skip
def test_functions(text, function):
    x = np.abs(RNG.standard_normal(100)).astype(np.float32) + np.float32(0.01)
    got, want = lanes(f"{text} d, a0;", [x], np.float32), function(x.astype(np.float64))
    assert np.allclose(got, want, rtol=3e-7)


COMPARISONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b and not (math.isnan(a) or math.isnan(b)),
    "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b,
    "equ": lambda a, b: not (a < b or a > b), "neu": lambda a, b: a != b, "ltu": lambda a, b: not a >= b,
    "leu": lambda a, b: not a > b, "gtu": lambda a, b: not a <= b, "geu": lambda a, b: not a < b,
    "num": lambda a, b: not (math.isnan(a) or math.isnan(b)), "nan": lambda a, b: math.isnan(a) or math.isnan(b),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_float_comparison(name):
    a, b = (x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL))
    text = f".reg .pred q; setp.{name}.f32 q, a0, a1; selp.u32 d, 1, 0, q;"
    got = lanes(text.replace(".reg .pred q; ", "{ .reg .pred q; ") + " }", [a, b], np.uint32)
    assert got.tolist() == [int(COMPARISONS[name](float(x), float(y))) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(
    ("sign", "compare"), [("s32", lambda a, b: signed(a) < signed(b)), ("u32", lambda a, b: a < b)]
)
def test_compare_and_combine(sign, compare):
    a, b = pairs(64)
    text = f"{{ .reg .pred q, r, s; setp.ne.u32 s, a0, 3; setp.lt.and.{sign} q|r, a0, a1, s; selp.u32 d, 1, 0, q; "
    text += "@r add.u32 d, d, 2; }"
    want = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        c = compare(x, y)
        want.append(int(c and x != 3) + 2 * int(not c and x != 3))
    assert lanes(text, [a, b], np.uint32).tolist() == want


# -- conversions --------------------------------------------------------------------------------------------------------

ML = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn,
}  # fmt: skip
LARGEST = {"e4m3": 448, "e5m2": 57344, "e2m1": 6, "e2m3": 7.5, "e3m2": 28}


def near_values(kind):
    """Every value of a format, points between neighbours, ties and beyond: where roundings differ."""
    dtype = ML[kind]
    bits = {"bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8, "e2m1": 4, "e2m3": 6, "e3m2": 6}[kind]
    codes = np.arange(1 << bits) if bits < 16 else RNG.integers(0, 1 << 16, 300)
    values = codes.astype(np.uint16 if bits == 16 else np.uint8).view(dtype).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / 2
    all_values = np.concatenate([values, middle, np.nextafter(middle, np.float32(9e9)), values * np.float32(3.01)])
    return all_values[np.isfinite(all_values)].astype(np.float32)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_narrow_pairs(kind):
    x = near_values(kind)
    y = RNG.permutation(x)
    text = f"cvt.rn.satfinite.{kind}x2.f32 d, a0, a1;"
    if kind == "e2m1":
        text = "{ .reg .b8 e; .reg .b16 w; cvt.rn.satfinite.e2m1x2.f32 e, a0, a1; mov.b16 d, e; }"
    got = lanes(text, [x, y], np.uint16)
    limit = np.float32(LARGEST[kind])
    want_x, want_y = (np.clip(v, -limit, limit).astype(ML[kind]).view(np.uint8).astype(int) for v in (x, y))
    shift = 4 if kind == "e2m1" else 8
    assert got.tolist() == (want_x << shift | want_y).tolist()


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_sixteen_bit_pairs(kind):
    x = np.concatenate([near_values(kind), SPECIAL[np.isfinite(SPECIAL)]])
    y = RNG.permutation(x)
    got = lanes(f"cvt.rn.{kind}x2.f32 d, a0, a1;", [x, y], np.uint32)
    high, low = (v.astype(ML[kind]).view(np.uint16).astype(np.uint32) for v in (x, y))
    assert (got == (high << 16 | low)).all()


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_widening_pairs(kind):
    codes = np.arange(256, dtype=np.uint16) | (np.arange(255, -1, -1, dtype=np.uint16) << 8)
    got = lanes(f"cvt.rn.f16x2.{kind}x2 d, a0;", [codes], np.uint32).view(np.float16)
    want = codes.view(np.uint8).view(ML[kind]).astype(np.float16)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_sixteen_bits_to_float32(kind):
    codes = RNG.integers(0, 1 << 16, 400).astype(np.uint16)
    got = lanes(f"cvt.f32.{kind} d, a0;", [codes], np.float32)
    assert np.array_equal(got, codes.view(ML[kind]).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding_to_half(mode):
    x = near_values("f16")
    x = x[np.abs(x) <= 65504]
    got = lanes(f"cvt.{mode}.f16.f32 d, a0;", [x], np.float16).astype(np.float64)
    wide = x.astype(np.float64)
    finite = np.isfinite(got)
    ok = {"rz": np.abs(got) <= np.abs(wide), "rm": got <= wide, "rp": got >= wide}[mode]
    assert ok[finite].all()
    further = np.nextafter(got.astype(np.float16), np.where(wide > got, np.inf, -np.inf).astype(np.float16))
    between = np.abs(got - wide) < np.abs(further.astype(np.float64) - got)
    assert (between | (got == wide))[finite].all()  # no half lies nearer on the value's side


@pytest.mark.parametrize("text", ["cvt.rzi.s32.f32", "cvt.rni.s32.f32", "cvt.rmi.s32.f32", "cvt.rpi.s32.f32"])
def test_to_integer(text):
    x = np.concatenate([floats(), np.array([0.5, 1.5, -0.5, -2.5, 2147483648.0, -3e9], np.float32)])
    rounding = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}[text.split(".")[1]]
    want = []
    for v in x.tolist():
        if math.isnan(v):
            want.append(0)
        elif math.isinf(v):
            want.append((1 << 31) - 1 if v > 0 else -(1 << 31))
        else:
            want.append(max(-(1 << 31), min((1 << 31) - 1, rounding(v))))
    assert lanes(f"{text} d, a0;", [x], np.int32).tolist() == want


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", ["u32", "s32", "s16", "u8"])
def test_integers_to_bf16_are_rounded_once(kind, mode):
    a = np.concatenate([words(), np.array([0x01010001, 0x01018000, 0x01008000, 0x80000000, 257, 259], np.uint32)])
    source = a.astype(f"u{int(kind[1:]) // 8}").view(f"{kind[0].replace('s', 'i')}{int(kind[1:]) // 8}")
    register = "cvt.u16.u32 h, a0; " if kind in ("s16", "u8") else ""
    text = f"{{ .reg .b16 h, w; {register}cvt.{mode}.bf16.{kind} w, {'h' if register else 'a0'}; cvt.u32.u16 d, w; }}"
    got = lanes(text, [a], np.uint32).astype(np.uint16).view(ML["bf16"]).astype(np.float64)
    assert got.tolist() == [eight_bits(n, mode) for n in source.tolist()]


def eight_bits(n: int, mode: str) -> int:
    """An integer rounded to eight significant bits."""
    unit = 1 << max(0, abs(n).bit_length() - 8)
    down = n // unit
    up = -(-n // unit)
    nearest = down if (2 * (n - down * unit), down & 1) <= (unit, 0) else up
    return {"rn": nearest, "rz": down if n > 0 else up, "rm": down, "rp": up}[mode] * unit


def test_integers_to_float():
    a = words()
    assert (lanes("cvt.rn.f32.u32 d, a0;", [a], np.float32) == a.astype(np.float32)).all()
    assert (lanes("cvt.rn.f32.s32 d, a0;", [a], np.float32) == a.view(np.int32).astype(np.float32)).all()
    small = lanes("cvt.s32.s8 d, a0;", [a], np.int32)
    assert (small == a.astype(np.uint8).view(np.int8)).all()


def test_half_arithmetic_rounds_once():
    a, b, c = (RNG.standard_normal(128).astype(np.float16) for _ in range(3))
    exact = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    assert (lanes("fma.rn.f16 d, a0, a1, a2;", [a, b, c], np.float16) == exact.astype(np.float16)).all()
    packed = [x.view(np.uint32) for x in (a, b)]
    total = lanes("add.rn.f16x2 d, a0, a1;", packed, np.uint32).view(np.float16)
    assert (total == a + b).all()
    product = lanes("mul.rn.bf16x2 d, a0, a1;", packed, np.uint32).view(ml_dtypes.bfloat16)
    left, right = (x.view(ml_dtypes.bfloat16).astype(np.float64) for x in (a, b))
    assert np.array_equal(product, (left * right).astype(np.float32).astype(ml_dtypes.bfloat16), equal_nan=True)


def bits16(*values):
    return np.array(values, np.uint16)


NAN, SMALL = math.nan, 1e-40  # SMALL is subnormal in float32
CORNERS = np.array([NAN, 0.0, -0.0, -1, 5, SMALL, -SMALL, -1e-9], np.float32)
OTHERS = np.array([0, -0.0, 0.0, -0.0, NAN, -SMALL, 0, -0.0], np.float32)
HALVES, OTHER_HALVES = bits16(0x200, 0x8000, 0, 0x8200), bits16(0x6400, 0, 0x8000, 0x6400)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("cvt.sat.f32.f32 d, a0;", [0, 0, 0, 0, 0x3F800000, 0x116C2, 0, 0]),
        ("cvt.ftz.sat.f32.f32 d, a0;", [0, 0, 0, 0, 0x3F800000, 0, 0, 0]),
        ("cvt.rni.sat.f32.f32 d, a0;", [0, 0, 0, 0, 0x3F800000, 0, 0, 0]),
        ("cvt.rpi.ftz.f32.f32 d, a0;", [None, 0, 0x80000000, 0xBF800000, 0x40A00000, 0, 0x80000000, 0x80000000]),
        ("add.sat.f32 d, a0, a1;", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("min.f32 d, a0, a1;", [0, 0x80000000, 0x80000000, 0xBF800000, 0x40A00000, 0x800116C2, 0x800116C2, 0xB089705F]),
        ("max.f32 d, a0, a1;", [0, 0, 0, 0x80000000, 0x40A00000, 0x116C2, 0, 0x80000000]),
        ("max.NaN.f32 d, a0, a1;", [None, 0, 0, 0x80000000, None, 0x116C2, 0, 0x80000000]),
        ("min.ftz.f32 d, a0, a1;", [0, 1 << 31, 1 << 31, 0xBF800000, 0x40A00000, 1 << 31, 1 << 31, 0xB089705F]),
        ("min.xorsign.abs.f32 d, a0, a1;", [0, 1 << 31, 1 << 31, 0, 0x40A00000, 0x800116C2, 1 << 31, 0]),
        ("cvt.rn.relu.satfinite.f16x2.f32 d, a0, a0;", [0x7FFF7FFF, 0, 0, 0, 0x45004500, 0, 0, 0]),
        ("cvt.rn.relu.bf16x2.f32 d, a0, a0;", [0x7FFF7FFF, 0, 0, 0, 0x40A040A0, 0x10001, 0, 0]),
        ("set.eq.ftz.u32.f32 d, a0, 0f00000000;", [0, MASK, MASK, 0, 0, MASK, MASK, 0]),
        (".reg .pred q; setp.eq.ftz.f32 q, a0, 0f00000000; selp.u32 d, 1, 0, q;", [0, 1, 1, 0, 0, 1, 1, 0]),
    ],
)
def test_corners_of_float32(text, want):
    """NaN, zeros of both signs and subnormals as an H200 has them; None stands for any NaN."""
    got = lanes(text, [CORNERS, OTHERS], np.uint32)
    nan = np.isnan(got.view(np.float32)).tolist()
    assert [None if w is None and n else g for g, n, w in zip(got.tolist(), nan, want, strict=True)] == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("min.f16 d, a0, a1;", [0x200, 0x8000, 0x8000, 0x8200]), ("max.f16 d, a0, a1;", [0x6400, 0, 0, 0x6400]),
        ("mul.f16 d, a0, a1;", [0x2800, 0x8000, 0x8000, 0xA800]), ("mul.ftz.f16 d, a0, a1;", [0, 0x8000, 0x8000, 0x8000]),
        ("neg.ftz.f16 d, a0;", [0x8000, 0, 0x8000, 0]), ("fma.rn.relu.f16 d, a0, a1, a1;", [0x6400, 0, 0, 0x6400]),
        (".reg .pred q; setp.eq.ftz.f16 q, a0, 0x0000; selp.b16 d, 1, 0, q;", [1, 1, 1, 1]),
    ],
)  # fmt: skip
def test_corners_of_float16(text, want):
    """As an H200 has them."""
    assert lanes(text, [HALVES, OTHER_HALVES], np.uint16).tolist() == want


def test_flushed_powers_of_bfloat16():
    """What is subnormal in float16 is not in bfloat16."""
    assert lanes("ex2.approx.ftz.bf16 d, a0;", [bits16(0xC1A0, 0xC2C8, 0xC300)], np.uint16).tolist() == [
        0x3580,
        0xD80,
        0,
    ]


@pytest.mark.parametrize(
    ("text", "result", "want"),
    [
        ("cvt.rni.s32.f64 d, a0;", np.uint32, [0x80000000, 0x7FFFFFFF, 0x80000000, 0x7FFFFFFF, 2]),
        ("cvt.rzi.u32.f64 d, a0;", np.uint32, [0x80000000, MASK, 0, MASK, 2]),
        ("cvt.rni.s16.f64 d, a0;", np.uint16, [0x8000, 0x7FFF, 0x8000, 0x7FFF, 2]),
        ("cvt.rzi.u8.f64 d, a0;", np.uint16, [0x80, 0xFF, 0, 0xFF, 2]),
    ],
)
def test_integers_of_float64(text, result, want):
    """A NaN gives the target's top bit where the source has 64 bits (as an H200 does)."""
    x = np.array([NAN, 1e30, -1e30, math.inf, 2.5])
    assert lanes(text, [x], result).tolist() == want


def test_fma_of_float64_rounds_once():
    a, b = RNG.standard_normal((2, 64))
    c = np.where(np.arange(64) < 32, -(a * b), RNG.standard_normal(64))  # the first half cancels to the product's error
    want = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert lanes("fma.rn.f64 d, a0, a1, a2;", [a, b, c], np.float64).tolist() == want
    corners = [
        np.array(x) for x in ([1e-200, -1e-200, 1e200, -0.0, NAN], [1e-200, 1e-200, 1e200, 0, 1], [-0.0, 0, 1, -0.0, 1])
    ]
    got = lanes("fma.rn.f64 d, a0, a1, a2;", corners, np.uint64)
    assert got[:4].tolist() == [0, 1 << 63, 0x7FF << 52, 1 << 63] and np.isnan(got.view(np.float64)[4])


def test_counting_the_lanes():
    """The helper itself: a wrong operation is seen."""
    a, b = pairs(8)
    assert lanes("add.s32 d, a0, a1;", [a, b], np.uint32).tolist() != (a - b).tolist()
    out = np.zeros(32, np.uint32)
    run(kernel([("o", "u64")], "  ld.param.u64 %rd1, [o]; st.global.u32 [%rd1], 7;"), out)
    assert out[0] == 7 and out[1] == 0
