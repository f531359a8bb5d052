"""The variants of the SM90 P handoff that are run on a device: every route, type and size, and the planted faults."""

from __future__ import annotations

import itertools
from typing import Any

SIZES = (64, 128, 256)
DTYPES = ("bf16", "f16", "e4m3", "e5m2")
ROUTES = ("coordinate", "composition", "tiled_copy", "stmatrix", "registers")
BASES = (16, 528, 1008)
FAULTS: tuple[dict[str, Any], ...] = (
    {"write_swizzle": "none"},
    {"write_swizzle": "elements"},
    {"write_swizzle": "relative", "base": 16},
    {"write_swizzle": "relative", "base": 512},
    {"k_order": "021", "kv": 256},
)


def exists(values: dict[str, Any]) -> bool:
    """Whether a combination is a variant: stmatrix moves 16-bit elements only."""
    return not (values["store"] == "stmatrix" and values["dtype"] in ("e4m3", "e5m2"))


def right_variants() -> list[dict[str, Any]]:
    """Every route, type and size; `registers` of 8-bit types among them, where it is a fault."""
    names = ("store", "dtype", "kv", "head_dim")
    every = (dict(zip(names, values, strict=True)) for values in itertools.product(ROUTES, DTYPES, SIZES, SIZES))
    based = (
        {"store": store, "dtype": dtype, "base": base}
        for store, (dtype, base) in itertools.product(ROUTES[:4], zip(DTYPES, (*BASES, 16), strict=True))
    )
    return [values for values in (*every, *based) if exists(values)]


def planted_faults() -> list[dict[str, Any]]:
    """Each fault, by each route that it can go with, in each type."""
    by_route = (
        {"store": store, "dtype": dtype, **fault}
        for store, dtype, fault in itertools.product(ROUTES[:4], DTYPES, FAULTS)
    )
    raw = ({"store": "composition_raw", "dtype": dtype, "kv": kv} for dtype in DTYPES for kv in (64, 128))
    return [values for values in (*by_route, *raw) if exists(values)]


def all_variants() -> list[dict[str, Any]]:
    """All of them."""
    return [*right_variants(), *planted_faults()]


def folder_name(values: dict[str, Any]) -> str:
    """A variant as a folder's name.

    >>> folder_name({"store": "coordinate", "kv": 64})
    'store-coordinate_kv-64'
    """
    return "_".join(f"{name}-{value}" for name, value in values.items())
