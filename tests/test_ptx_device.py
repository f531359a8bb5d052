# ruff: noqa: E501  (lines of PTX)
"""The machine against an H200 on whole PTX programs: those of the arithmetic, warp, barrier and memory tests.

Bit-equal, but for NaN payloads (a device has one canonical NaN) and the approximations, which stay within the errors that
the ISA allows them.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from layoutlab.ptx.run import run

DATA = Path(__file__).parent / "data"
# Function: relative error, absolute error (ISA 9.7.3).
ALLOWED = {
    "ex2": (2.0**-22, 0), "rcp": (2.0**-22, 0), "rsqrt": (2.0**-22, 0), "lg2": (2.0**-21, 2.0**-21),
    "sin": (0, 2.0**-20), "cos": (0, 2.0**-20), "tanh": (2.0**-10, 0),
}  # fmt: skip
APPROXIMATE = re.compile(r"\b(ex2|lg2|rcp|rsqrt|sin|cos|tanh)\.approx")
FLOAT_RESULT = re.compile(r"\.f32(?:\.f32|\.f16|\.bf16)? d,|cvt\.f32")


@cache
def programs():
    return json.loads((DATA / "ptx_programs_h200.json").read_text())["programs"]


@cache
def arrays():
    with np.load(DATA / "ptx_programs_h200.npz") as stored:
        return dict(stored)


def aligned(raw):
    buffer = np.zeros(raw.size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    buffer[start : start + raw.size] = raw
    return buffer[start : start + raw.size]


def replayed(number):
    """The arrays that the machine leaves and those that the device left, as bytes."""
    program = programs()[number]
    arguments, expected = [], []
    for i, value in enumerate(program["arguments"]):
        if value is None:
            arguments.append(aligned(arrays()[f"{number}/{i}/in"]))
            expected.append(arrays()[f"{number}/{i}/out"])
        else:
            arguments.append(value)
    geometry = {k: tuple(v) if isinstance(v, list) else v for k, v in program["geometry"].items()}
    run(program["text"], *arguments, **geometry)
    return [a for a in arguments if isinstance(a, np.ndarray)], expected


def close(ours, theirs, function):
    """Whether float32 results agree within the function's allowed error, on either side."""
    relative, absolute = ALLOWED[function]
    a, b = (np.ascontiguousarray(x).view(np.float32).astype(np.float64) for x in (ours, theirs))
    return np.allclose(a, b, rtol=2 * relative, atol=2 * absolute, equal_nan=True)


def same(ours, theirs, text):
    """Bit-equal, NaN for NaN where the result is a float32."""
    if np.array_equal(ours, theirs):
        return True
    if not FLOAT_RESULT.search(text):
        return False
    a, b = (np.ascontiguousarray(x).view(np.uint32) for x in (ours, theirs))
    nan = np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))
    return bool((nan | (a == b)).all())


def line_of(program):
    """What distinguishes a program: its longest line that is no address arithmetic."""
    lines = [line.strip() for line in program["text"].splitlines() if re.search(r"\bd\b|bar|mbarrier|shfl|cp\.", line)]
    return max(lines, key=len, default="")[:60]


@pytest.mark.parametrize("number", range(len(programs())), ids=lambda n: f"{n} {line_of(programs()[n])}")
def test_program(number):
    ours, theirs = replayed(number)
    text = programs()[number]["text"]
    approximate = APPROXIMATE.search(text)
    for mine, device in zip(ours, theirs, strict=True):
        assert close(mine, device, approximate.group(1)) if approximate else same(mine, device, text)


def test_there_are_enough_records():
    assert len(programs()) >= 200


def test_a_wrong_bit_is_seen():
    ours, theirs = replayed(0)
    ours[-1][0] ^= 1
    assert not all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
