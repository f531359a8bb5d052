"""formats: the bits of 16-, 8-, 6- and 4-bit floating-point numbers, decoded by table and encoded with a rounding mode.

>>> import numpy as np
>>> hex(int(encode("e4m3", np.array([1.0]), "rn", True)[0])), float(decode("e4m3", np.array([0x38], np.uint8))[0])
('0x38', 1.0)

Every float32 and float64 operand is handled in float64, which holds all of these exactly.
PTX ISA 5.2.3 (alternate floating-point formats) and 9.7.9.21 (cvt).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Format:
    """A sign bit, exponent and mantissa. `largest` is the greatest finite value; `specials` says what lies beyond.

    "ieee": infinities and NaNs in the top exponent; "nan": only all ones is NaN; "none": every code is finite.
    """

    bits: int
    exponent: int
    mantissa: int
    bias: int
    largest: float
    specials: str

    @property
    def nan(self) -> int:
        """The canonical NaN's bits."""
        return (1 << (self.bits - 1)) - 1


FORMATS = {
    "f16": Format(16, 5, 10, 15, 65504.0, "ieee"),
    "bf16": Format(16, 8, 7, 127, float.fromhex("0x1.fep127"), "ieee"),
    "e5m2": Format(8, 5, 2, 15, 57344.0, "ieee"),
    "e4m3": Format(8, 4, 3, 7, 448.0, "nan"),
    "e3m2": Format(6, 3, 2, 3, 28.0, "none"),
    "e2m3": Format(6, 2, 3, 1, 7.5, "none"),
    "e2m1": Format(4, 2, 1, 1, 6.0, "none"),
    "tf32": Format(32, 8, 10, 127, float.fromhex("0x1.ffcp127"), "ieee"),
}


@cache
def _table(name: str) -> Array:
    fmt = FORMATS[name]
    code = np.arange(1 << fmt.bits, dtype=np.int64)
    exponent = (code >> fmt.mantissa) & ((1 << fmt.exponent) - 1)
    fraction = (code & ((1 << fmt.mantissa) - 1)).astype(np.float64) / (1 << fmt.mantissa)
    normal = np.ldexp(1.0 + fraction, exponent - fmt.bias)
    value = np.where(exponent == 0, np.ldexp(fraction, 1 - fmt.bias), normal)
    if fmt.specials == "ieee":
        top = exponent == (1 << fmt.exponent) - 1
        value = np.where(top, np.where(fraction == 0, np.inf, np.nan), value)
    elif fmt.specials == "nan":
        value = np.where((code & fmt.nan) == fmt.nan, np.nan, value)
    return np.where(code >> (fmt.bits - 1), -value, value).astype(np.float32)


def decode(name: str, code: Array) -> Array:
    """The float32 values of codes (one code an element)."""
    if name == "f16":
        return np.ascontiguousarray(code, dtype=np.uint16).view(np.float16).astype(np.float32)
    if name == "bf16":
        return (np.asarray(code, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if name == "ue8m0":
        return np.where(code == 255, np.float32(np.nan), np.ldexp(np.float32(1), code.astype(np.int32) - 127))
    if name == "tf32":
        return (np.asarray(code, np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.asarray(_table(name)[code])


def round_to(value: Array, step: Array, mode: str) -> Array:
    """Values to multiples of `step` (powers of two), by rounding mode: rn, rna, rz, rm, rp."""
    scaled = value / step
    rounded = {
        "rn": lambda: np.rint(scaled),
        "rna": lambda: np.copysign(np.floor(np.abs(scaled) + 0.5), scaled),
        "rz": lambda: np.trunc(scaled),
        "rm": lambda: np.floor(scaled),
        "rp": lambda: np.ceil(scaled),
    }[mode]()
    return np.asarray(rounded * step)


def encode(name: str, value: Array, mode: str = "rn", saturate: bool = False) -> Array:
    """The codes of values, as uint8, uint16 or uint32; NaN gives the canonical NaN, or zero where a format has none."""
    fmt = FORMATS[name]
    if mode == "rn" and not saturate:
        if name == "bf16":
            return _bf16_nearest(value)
        if name == "f16":
            return _f16_nearest(value)
    x = np.asarray(value, np.float64)
    _, exponent = np.frexp(x)
    exponent = np.maximum(exponent - 1, 1 - fmt.bias)
    step = np.ldexp(1.0, exponent - fmt.mantissa)
    finite = np.where(np.isfinite(x), x, 0.0)
    rounded = round_to(finite, step, mode)
    magnitude = np.abs(rounded)
    overflow = (magnitude > fmt.largest) | np.isinf(x)
    code = _finite_code(fmt, np.where(overflow, 0.0, magnitude))
    code = np.where(overflow, _overflow_code(fmt, mode, saturate, x), code)
    code = code | (np.signbit(x).astype(np.int64) << (fmt.bits - 1))
    nan = fmt.nan if fmt.specials != "none" else (1 << (fmt.bits - 1)) - 1
    code = np.where(np.isnan(x), nan, code)
    return code.astype(np.uint8 if fmt.bits <= 8 else np.uint16 if fmt.bits == 16 else np.uint32)


def _finite_code(fmt: Format, magnitude: Array) -> Array:
    _, exponent = np.frexp(magnitude)
    exponent = np.where(magnitude == 0, 1 - fmt.bias, np.maximum(exponent - 1, 1 - fmt.bias))
    units = np.rint(np.ldexp(magnitude, fmt.mantissa - exponent)).astype(
        np.int64
    )  # 1.m as an integer, 0.m if subnormal
    normal = units >= (1 << fmt.mantissa)
    field = np.where(normal, exponent + fmt.bias, 0)
    return np.asarray((field << fmt.mantissa) | (units & ((1 << fmt.mantissa) - 1)))


def _overflow_code(fmt: Format, mode: str, saturate: bool, value: Array) -> Array:
    largest = _finite_code(fmt, np.array(fmt.largest))
    if saturate or fmt.specials == "none":
        return np.broadcast_to(largest, value.shape)
    beyond = ((1 << fmt.exponent) - 1) << fmt.mantissa if fmt.specials == "ieee" else fmt.nan
    toward_zero = {"rz": np.isfinite(value), "rm": np.isfinite(value) & (value > 0),
                   "rp": np.isfinite(value) & (value < 0)}.get(mode)  # fmt: skip
    return np.full(value.shape, beyond) if toward_zero is None else np.where(toward_zero, largest, beyond)


def _bf16_nearest(value: Array) -> Array:
    if value.dtype != np.float32:
        value = odd_float32(value)
    bits = np.ascontiguousarray(value).view(np.uint32)
    lowest = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + (np.uint32(0x7FFF) + lowest)) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(value)
    if nan.any():
        rounded[nan] = 0x7FFF
    return rounded


def _f16_nearest(value: Array) -> Array:
    code = value.astype(np.float16).view(np.uint16)
    nan = np.isnan(value)
    if nan.any():
        code[nan] = 0x7FFF
    return code


def odd_float32(value: Array) -> Array:
    """float64 to float32 by rounding to odd, after which one more rounding to fewer bits is exact."""
    value = np.asarray(value, np.float64)
    near = value.astype(np.float32)
    inexact = (near.astype(np.float64) != value) & np.isfinite(value) & np.isfinite(near)
    if not inexact.any():
        return near
    # Step toward zero when rounding went outward, then make the last bit odd.
    outward = np.abs(near.astype(np.float64)) > np.abs(value)
    bits = near.view(np.uint32) - (inexact & outward).astype(np.uint32)
    return np.asarray(np.where(inexact, bits | np.uint32(1), bits).astype(np.uint32).view(np.float32))


def narrow(value: Array, error: Array | None = None, mode: str = "rn") -> Array:
    """float64 to float32 by a rounding mode; `error` is the (signed) part that `value` itself has lost."""
    near = value.astype(np.float32)
    if mode == "rn":
        return near if error is None else _nearest_with_error(value, error, near)
    back = near.astype(np.float64)
    lost = np.zeros_like(value) if error is None else error
    above = (back > value) | ((back == value) & (lost < 0))
    below = (back < value) | ((back == value) & (lost > 0))
    down = np.nextafter(near, np.float32(-np.inf))
    up = np.nextafter(near, np.float32(np.inf))
    if mode == "rm":
        return np.where(above, down, near)
    if mode == "rp":
        return np.where(below, up, near)
    return np.where(above & (value > 0), down, np.where(below & (value < 0), up, near))  # rz


def _nearest_with_error(value: Array, error: Array, near: Array) -> Array:
    """Correct the rare result where the float64 sum fell exactly between two float32 values by losing bits."""
    bits = value.view(np.uint64)
    tie = ((bits & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)) & (error != 0) & np.isfinite(value)
    if tie.any():
        nudged = np.nextafter(value[tie], np.where(error[tie] > 0, np.inf, -np.inf))
        near[tie] = nudged.astype(np.float32)
    return near


_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)


def flush(value: Array) -> Array:
    """float32 with subnormals replaced by zeros of their sign (.ftz)."""
    bits = value.view(np.uint32)
    exponent = bits & _EXPONENT
    if np.count_nonzero(exponent) == exponent.size:
        return value
    return np.where(exponent, bits, bits & _SIGN).view(np.float32)


def flush_below(value: Array, tiny: float) -> Array:
    """Numbers with those below the least normal one, `tiny`, replaced by zeros of their sign (.ftz)."""
    return np.asarray(np.where(np.abs(value) < tiny, np.copysign(value.dtype.type(0), value), value))


def saturated(value: Array) -> Array:
    """Numbers limited to [0, 1]; NaN and -0 give +0 (.sat; seen on an H200)."""
    kind = value.dtype.type
    return np.asarray(np.where(value > 0, np.minimum(value, kind(1)), kind(0)))


def not_negative(value: Array) -> Array:
    """Numbers with +0 for those below it and for -0; a NaN stays (.relu; seen on an H200)."""
    return np.asarray(np.where(value <= 0, value.dtype.type(0), value))


def pack_bf16(high: Array, low: Array) -> Array:
    """Two float32 arrays, rounded to nearest even, as the halves of 32-bit words."""
    upper, lower = high.view(np.uint32), low.view(np.uint32)
    top = upper >> _SIXTEEN
    top &= _ONE
    top += upper
    top += _ALMOST_HALF
    top &= _UPPER_HALF
    bottom = lower >> _SIXTEEN
    bottom &= _ONE
    bottom += lower
    bottom += _ALMOST_HALF
    bottom >>= _SIXTEEN
    nan_high, nan_low = np.isnan(high), np.isnan(low)
    if np.count_nonzero(nan_high):
        top[nan_high] = 0x7FFF0000
    if np.count_nonzero(nan_low):
        bottom[nan_low] = 0x7FFF
    return np.asarray(top | bottom)


_ONE, _SIXTEEN, _ALMOST_HALF, _UPPER_HALF = (np.uint32(x) for x in (1, 16, 0x7FFF, 0xFFFF0000))
