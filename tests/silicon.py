"""The records of SM90 instructions on an H200, decoded to numbers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

DATA = Path(__file__).parent / "data"
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "s8": np.int8, "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@cache
def head():
    return json.loads((DATA / "sm90_fragments_h200.json").read_text())


@cache
def _arrays():
    with np.load(DATA / "sm90_fragments_h200.npz") as stored:
        return dict(stored)


def records(prefix):
    """[(name, facts, {array name: array})] of one kind of record."""
    arrays = _arrays()
    return [
        (
            name,
            facts,
            {key.removeprefix(f"{name}/"): value for key, value in arrays.items() if key.startswith(f"{name}/")},
        )
        for name, facts in head()["records"].items()
        if name.startswith(f"{prefix}/")
    ]


def elements(raw, kind):
    """Registers or bytes as elements of a type, low bits first: [threads, values] or [values]."""
    raw = np.ascontiguousarray(raw)
    if kind in ("s4", "b1"):
        width = 4 if kind == "s4" else 1
        bits = np.unpackbits(raw.view(np.uint8), axis=-1, bitorder="little").reshape(*raw.shape[:-1], -1, width)
        value = (bits * (1 << np.arange(width))).sum(-1)
        return np.where(value >= 8, value - 16, value) if kind == "s4" else value
    return raw.view(DTYPES[kind]).astype(np.float64)
