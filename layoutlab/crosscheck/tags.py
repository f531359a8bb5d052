"""Tags: elements carry their own number through a kernel, a digit at a time, so that its outputs say which is where.

Each type holds the whole numbers below its radix exactly, and a conversion from float32 keeps them. Pass p of a run
puts digit p of each element's number in its place; the passes together say which element a place holds.

>>> RADIX["bf16"], passes(128 * 128, "bf16"), passes(128 * 256, "e5m2")
(256, 2, 5)
>>> digit(300, 0, "bf16"), digit(300, 1, "bf16")
(44, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.errors import LayoutError

Array = NDArray[Any]

RADIX = {"bf16": 256, "f16": 256, "e4m3": 16, "e5m2": 8}
"""Digits run from 0 to RADIX - 1: with p bits of significand all whole numbers up to 2^p are exact (8, 11, 4 and 3)."""

UNWRITTEN, FOREIGN = -1, -2
"""What stands for an element's number where nothing was written, and where something else was."""

_NAMES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def numeric(dtype: str) -> Any:
    """The numpy type of a kernel's element type."""
    import ml_dtypes

    return np.float16 if dtype == "f16" else getattr(ml_dtypes, _NAMES[dtype])


def passes(count: int, dtype: str) -> int:
    """How many digits number `count` elements."""
    found = 1
    while RADIX[dtype] ** found < count:
        found += 1
    return found


def digit(number: Any, index: int, dtype: str) -> Any:
    """Digit `index` of a number or of an array of them, the lowest being 0."""
    return number // RADIX[dtype] ** index % RADIX[dtype]


def numbers(digits: Sequence[Array], dtype: str) -> Array:
    """The numbers that arrays of digits spell, the lowest first; UNWRITTEN where a digit is NaN.

    >>> numbers([np.array([44.0, np.nan]), np.array([1.0, np.nan])], "bf16").tolist()
    [300, -1]

    Raises LayoutError for a value that is no digit.
    """
    unwritten = np.any([np.isnan(values) for values in digits], axis=0)
    total = np.zeros(unwritten.shape, np.int64)
    for index, values in enumerate(digits):
        known = np.where(unwritten, 0, values).astype(np.float64)
        wrong = (known != np.floor(known)) | (known < 0) | (known >= RADIX[dtype])
        if wrong.any():
            raise LayoutError(f"{known[wrong].flat[0]} is no digit of a tag in {dtype}: 0 to {RADIX[dtype] - 1} are")
        total += known.astype(np.int64) * RADIX[dtype] ** index
    return np.where(unwritten, UNWRITTEN, total)
