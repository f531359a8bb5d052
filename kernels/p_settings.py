"""PSettings: what can be chosen about the P handoff kernel, without importing CuTe DSL.

A kernel variant is one value of this class; `PSettings()` is the right one, the planted faults are each one field away.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from layoutlab.errors import LayoutError

Store = Literal["coordinate", "composition", "tiled_copy_d", "tiled_copy_c", "composition_raw"]
WriteSwizzle = Literal["absolute", "none", "elements", "relative"]
KOrder = Literal["012", "021"]
DType = Literal["bf16", "f16", "e4m3", "e5m2"]
Load = Literal["x16", "x32", "x64"]

ROWS = 128
"""Rows of P, one for each softmax thread."""

ELEMENT_BYTES: dict[str, int] = {"bf16": 2, "f16": 2, "e4m3": 1, "e5m2": 1}

SWIZZLE_SPAN_BYTES = 128

MAX_BASE_BYTES = 16384
"""Beyond this the largest P and V (64 + 128 KiB) no longer fit the 227 KiB of shared memory with room to spare."""


@dataclass(frozen=True)
class PSettings:
    """One variant of the P handoff kernel.

    >>> PSettings().dtype, PSettings.parse({"kv": "64", "write_swizzle": "none"}).kv
    ('bf16', 64)
    >>> PSettings.parse({"store": "composit"})
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: store=composit is not one of coordinate, composition, tiled_copy_d, tiled_copy_c, \
composition_raw; did you mean composition?

    `store` is the route from registers to shared memory; `tiled_copy_c` and `composition_raw` are planted faults.
    `write_swizzle` is what the writer swizzles: addresses (right), nothing, element offsets, or byte offsets from the
    tile's base. `k_order` is the order in which the writer takes the parts of k: 021 is a planted fault.
    `base` is the byte offset of sP inside a 1024-byte aligned buffer, a multiple of 16.
    `first_warp` is the first softmax warp; with 1, threads 32..159 own rows by tid - 32, which TMEM forbids.
    """

    store: Store = "coordinate"
    write_swizzle: WriteSwizzle = "absolute"
    k_order: KOrder = "012"
    base: int = 0
    kv: Literal[64, 128, 256] = 128
    head_dim: Literal[64, 128, 256] = 64
    dtype: DType = "bf16"
    load: Load = "x32"
    first_warp: Literal[0, 1] = 0

    def __post_init__(self) -> None:
        check_choices(self)
        if not isinstance(self.base, int) or self.base % 16 or not 0 <= self.base <= MAX_BASE_BYTES:
            raise LayoutError(f"base={self.base} is not a multiple of 16 from 0 to {MAX_BASE_BYTES}")
        if self.k_order == "021" and self.kv * self.element_bytes <= 128:
            raise LayoutError(
                f"k_order=021 needs a k of three parts, and a row of {self.kv} {self.dtype} elements "
                f"({self.kv * self.element_bytes} bytes) lies in one swizzle span: set kv larger"
            )

    @classmethod
    def parse(cls, values: dict[str, object]) -> PSettings:
        """The settings that a dictionary of names and values (text or numbers) asks for, and defaults for the rest."""
        return cls(**typed_values(cls, values, "P handoff kernel"))

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of P and V."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the buffer that P lies in: a swizzle moves 16 bytes inside of 128, also at either end of P.

        >>> PSettings(kv=64, base=16).buffer_bytes - 64 * 256
        128
        """
        end = self.base + ROWS * self.kv * self.element_bytes
        return -(-end // SWIZZLE_SPAN_BYTES) * SWIZZLE_SPAN_BYTES

    @property
    def v_by_rows(self) -> bool:
        """Whether V lies in global memory as (kv, head_dim), row-major: always."""
        return True

    @property
    def v_shape(self) -> tuple[int, int]:
        """The shape of V in global memory, row-major."""
        return self.kv, self.head_dim

    @property
    def threads(self) -> int:
        """Threads of the launch: the softmax threads and the warps before them."""
        return ROWS + 32 * self.first_warp


def typed_values(settings: type, values: dict[str, object], kernel: str) -> dict[str, Any]:
    """Values (text or numbers) in the types of a settings class's fields; refuses other names, with the nearest."""
    names = {field.name: type(field.default) for field in fields(settings)}
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1, 0.3)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise LayoutError(f"{name} is not a setting of the {kernel} ({', '.join(names)}){hint}")
    try:
        return {name: names[name](value) for name, value in values.items()}
    except ValueError as error:
        raise LayoutError(f"a setting that counts takes a whole number: {error}") from error


def check_choices(settings: Any) -> None:
    """Refuses a value that its field's `Literal` does not list, with the nearest that it does."""
    hints = get_type_hints(type(settings))
    for field in fields(settings):
        choices = get_args(hints[field.name])
        value = getattr(settings, field.name)
        if choices and value not in choices:
            near = difflib.get_close_matches(str(value), [str(choice) for choice in choices], 1, 0.3)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise LayoutError(f"{field.name}={value} is not one of {', '.join(map(str, choices))}{hint}")
