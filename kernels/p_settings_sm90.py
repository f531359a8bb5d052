"""PSettings90: what can be chosen about the SM90 P handoff kernel, without importing CuTe DSL.

A kernel variant is one value of this class; `PSettings90()` is a right one, the planted faults are each one field away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutlab.errors import LayoutError
from layoutlab.kernels.p_settings import (
    ELEMENT_BYTES,
    MAX_BASE_BYTES,
    ROWS,
    SWIZZLE_SPAN_BYTES,
    DType,
    KOrder,
    WriteSwizzle,
    check_choices,
    typed_values,
)

Store = Literal["coordinate", "composition", "tiled_copy", "stmatrix", "composition_raw", "registers"]

THREADS = 256
"""Two warpgroups, each with 64 of the 128 rows."""


@dataclass(frozen=True)
class PSettings90:
    """One variant of the SM90 P handoff kernel.

    >>> PSettings90().store, PSettings90.parse({"kv": "64", "write_swizzle": "none"}).kv
    ('coordinate', 64)
    >>> PSettings90(store="stmatrix", dtype="e4m3")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: store=stmatrix moves registers of two 16-bit neighbours, and an accumulator \
fragment has only two e4m3 neighbours (16 bits) in a row: use tiled_copy

    `store` is the route from accumulator registers to shared memory; `composition_raw` is a planted fault, and
    `registers` stores nothing: the registers become the MMA's operand A as they are, which is right for 16-bit types
    and a fault for 8-bit ones. `write_swizzle`, `k_order` and `base` are those of `PSettings`.
    """

    store: Store = "coordinate"
    write_swizzle: WriteSwizzle = "absolute"
    k_order: KOrder = "012"
    base: int = 0
    kv: Literal[64, 128, 256] = 128
    head_dim: Literal[64, 128, 256] = 64
    dtype: DType = "bf16"

    def __post_init__(self) -> None:
        check_choices(self)
        if not isinstance(self.base, int) or self.base % 16 or not 0 <= self.base <= MAX_BASE_BYTES:
            raise LayoutError(f"base={self.base} is not a multiple of 16 from 0 to {MAX_BASE_BYTES}")
        if self.k_order == "021" and self.kv * self.element_bytes <= 128:
            raise LayoutError(
                f"k_order=021 needs a k of three parts, and a row of {self.kv} {self.dtype} elements "
                f"({self.kv * self.element_bytes} bytes) lies in one swizzle span: set kv larger"
            )
        if self.store == "stmatrix" and self.element_bytes == 1:
            raise LayoutError(
                f"store=stmatrix moves registers of two 16-bit neighbours, and an accumulator fragment has only two "
                f"{self.dtype} neighbours (16 bits) in a row: use tiled_copy"
            )

    @classmethod
    def parse(cls, values: dict[str, object]) -> PSettings90:
        """The settings that a dictionary of names and values (text or numbers) asks for, and defaults for the rest."""
        return cls(**typed_values(cls, values, "SM90 P handoff kernel"))

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of P and V."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def p_bytes(self) -> int:
        """Bytes of P."""
        return ROWS * self.kv * self.element_bytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the buffer that P lies in: a swizzle moves 16 bytes inside of 128, also at either end of P."""
        return -(-(self.base + self.p_bytes) // SWIZZLE_SPAN_BYTES) * SWIZZLE_SPAN_BYTES

    @property
    def v_by_rows(self) -> bool:
        """Whether V lies in global memory as (kv, head_dim), row-major: wgmma reads 8-bit operands K-major only."""
        return self.element_bytes == 2

    @property
    def v_shape(self) -> tuple[int, int]:
        """The shape of V in global memory, row-major: (kv, head_dim); (head_dim, kv) for 8-bit types."""
        return (self.kv, self.head_dim) if self.v_by_rows else (self.head_dim, self.kv)
