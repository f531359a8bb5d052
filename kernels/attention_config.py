"""AttentionConfig: what can be chosen about the attention kernel, what it costs, and what is refused before compile.

Nothing here imports CuTe DSL, so sizes and refusals are known at once:

    >>> print(AttentionConfig(head_dim=64, p="smem").budget())
    shared memory: Q 16384 + K 2 x 16384 + V 2 x 16384 + P 32768 + O 16384 + rows 2048 + barriers 1024 \
= 134144 of 232448 bytes
    TMEM: S 2 x 128 + O 64 = 320 columns, 512 allocated of 512
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from layoutlab.atoms.tmem_buffers import Buffer, TmemBuffers
from layoutlab.errors import LayoutError

DType = Literal["bf16", "f16"]
PStorage = Literal["tmem", "smem"]
Route = Literal["vector", "coordinate", "composition"]
Fault = Literal[
    "none",
    "p_offset_forgotten",  # the PV MMA reads P at S's first column
    "p_offset_in_columns",  # the offset taken for elements of P
    "early_release",  # O is released before its last columns are read
    "q_unswizzled", "k_unswizzled", "v_unswizzled", "o_unswizzled",  # TMA boxes without the tile's swizzle
    "q_steps", "k_steps", "v_steps",  # descriptors 32 bytes on for each step along k, whatever the layout
    "rescale_shifted",  # O put back head_dim columns too high
    "rescale_unpaired",  # O put back by 16x64b, which takes other lanes than the load
    "epilogue_unpaired",  # O put to shared memory as another load than its own has it
    "o_heads_first",  # O stored as (batch, heads, seq, head_dim)
]  # fmt: skip

ROWS = 128
"""Rows of a Q tile: one for each softmax thread, and one for each TMEM lane."""

SLOTS = 2
"""K, V and S tiles at a time: one is read while the next is filled."""

EPILOGUE_COLUMNS = 64
"""Columns of an epilogue sub-tile: 128 bytes of a row, one swizzle span."""

SHARED_BYTES = 227 * 1024
"""Dynamic shared memory that one CTA of SM100 may have (CUDA programming guide, technical specifications)."""

TMEM_COLUMNS = 512
"""32-bit columns of an SM's tensor memory (PTX ISA 9.7.16.1)."""

BARRIER_BYTES = 1024
"""Room for the mbarriers and the TMEM address, kept at the alignment of the tiles that follow."""

MAX_RESCALE_THRESHOLD = 8.0
"""P stays below 2^8 under the largest stale maximum, within f16's range with room for its sums."""


KINDS: dict[str, tuple[type, ...]] = {
    "rescale_threshold": (float, int),
    "iter_acc_early_release_in_epilogue": (type(None), int),
}
"""The types of settings that take several; the others take their default's."""


@dataclass(frozen=True)
class AttentionConfig:
    """One variant of the attention kernel.

    >>> AttentionConfig(head_dim=256).kv_tile, AttentionConfig(head_dim=64).subtiles
    (64, 1)
    >>> AttentionConfig(head_dim=96)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: head_dim=96 is not one of 64, 128, 256

    `p` is where P is handed over, and `route` how it is written to shared memory (`p="smem"` only).
    `tmem_p0_offset` is the column of P inside S's columns (`p="tmem"` only).
    `rescale_threshold` (in powers of two) is by how much a row's maximum may grow before O is rescaled; 0 rescales at
    each growth, and a larger one leaves a stale maximum in place.
    `normalize=False` leaves O as large as its row's sum makes it, at most keys times |V| (times two to the
    threshold): in f16, beyond 65504 it is infinite, of which a run warns.
    `iter_acc_early_release_in_epilogue` is the sub-tile after whose TMEM load O is released; None: the last.
    `fault` plants one mistake, for the checks that must see it.
    """

    head_dim: Literal[64, 128, 256] = 128
    dtype: DType = "bf16"
    p: PStorage = "tmem"
    route: Route = "vector"
    causal: bool = False
    normalize: bool = True
    tmem_p0_offset: int = 32
    rescale_threshold: float = 0.0
    iter_acc_early_release_in_epilogue: int | None = None
    fault: Fault = "none"

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            choices = get_args(hints[field.name])
            value = getattr(self, field.name)
            if choices and type(None) not in choices and value not in choices:
                near = difflib.get_close_matches(str(value), [str(choice) for choice in choices], 1, 0.6)
                hint = f"; did you mean {near[0]}?" if near and isinstance(value, str) else ""
                raise LayoutError(f"{field.name}={value} is not one of {', '.join(map(str, choices))}{hint}")
            kinds = KINDS.get(field.name, (type(field.default),))
            if type(value) not in kinds:
                asked = " or ".join(kind.__name__ for kind in kinds)
                raise LayoutError(f"{field.name}={value!r} is a {type(value).__name__}, and takes {asked}")
        if not 0 <= self.rescale_threshold <= MAX_RESCALE_THRESHOLD:
            raise LayoutError(
                f"rescale_threshold={self.rescale_threshold} is not from 0 to {MAX_RESCALE_THRESHOLD:g}: "
                f"P would grow to two to that power before O is rescaled"
            )
        self._check_p_columns()
        self._check_release()
        self._check_fault()
        self._check_budgets()

    def _check_p_columns(self) -> None:
        offset = self.tmem_p0_offset
        if not isinstance(offset, int) or offset % 4 or offset < 0:
            raise LayoutError(f"tmem_p0_offset={offset} is not a multiple of 4 from 0")
        try:
            self.tmem_buffers().check()
        except LayoutError as e:
            last = self.kv_tile - self.p_columns
            raise LayoutError(f"tmem_p0_offset={offset} is not at most {last}, where P lies inside S: {e}") from e

    def _check_release(self) -> None:
        last = self.subtiles - 1
        if self.release_subtile == last or (self.fault == "early_release" and 0 <= self.release_subtile < last):
            return
        raise LayoutError(
            f"iter_acc_early_release_in_epilogue={self.release_subtile} is not {last}: the next tile's PV MMA "
            f"writes all {self.head_dim} columns of O, and sub-tile {last} is the last that reads them"
        )

    def _check_fault(self) -> None:
        """Refuses a fault that would leave the kernel right: a check that misses it would be blamed for nothing."""
        if self.fault.startswith("p_offset") and self.p == "smem":
            raise LayoutError(f"fault={self.fault} is of P's column in TMEM, and with p=smem there is none: p=tmem")
        if self.fault == "early_release" and self.release_subtile == self.subtiles - 1:
            raise LayoutError(
                f"fault=early_release has no effect at head_dim={self.head_dim}, release at sub-tile "
                f"{self.release_subtile}: it needs an earlier one than the last, head_dim=128 or 256"
            )
        if self.fault in ("q_steps", "k_steps") and self.head_dim == 64:
            raise LayoutError(
                f"fault={self.fault} has no effect at head_dim=64: all steps lie in one swizzle atom, where each is 32 "
                "bytes on; head_dim=128 or 256"
            )
        if self.fault == "rescale_shifted" and self.head_dim == 256:
            raise LayoutError(
                f"fault=rescale_shifted finds no room at head_dim=256: twice O's columns end at 639 of {TMEM_COLUMNS}; "
                "head_dim=64 or 128"
            )

    def _check_budgets(self) -> None:
        if self.tmem_columns > TMEM_COLUMNS or self.shared_bytes > SHARED_BYTES:
            raise LayoutError(f"this configuration does not fit an SM:\n{self.budget()}")

    @property
    def kv_tile(self) -> int:
        """Keys of a KV tile: 64 at head dim 256, where two K and two V tiles of 128 would not fit."""
        return 64 if self.head_dim == 256 else 128

    @property
    def p_columns(self) -> int:
        """TMEM columns of P: two 16-bit elements a column."""
        return self.kv_tile // 2

    @property
    def subtiles(self) -> int:
        """Sub-tiles of the epilogue."""
        return self.head_dim // EPILOGUE_COLUMNS

    @property
    def release_subtile(self) -> int:
        """The sub-tile after whose TMEM load O may be written again."""
        if self.iter_acc_early_release_in_epilogue is not None:
            return self.iter_acc_early_release_in_epilogue
        return self.subtiles - 1 if self.fault != "early_release" else 0

    @property
    def epilogue_stages(self) -> int:
        """Buffers of the epilogue's sub-tiles: two where there are two sub-tiles and room for them, else one."""
        return 2 if self.head_dim == 128 else 1

    @property
    def tmem_columns(self) -> int:
        """Columns in use: S twice, and O."""
        return SLOTS * self.kv_tile + self.head_dim

    def tmem_buffers(self) -> TmemBuffers:
        """Who has which columns; P may overwrite the S that it was made of.

        >>> print(AttentionConfig(head_dim=64).tmem_buffers().at(160))
        column 160: S1, P1
        """
        buffers = [Buffer(f"S{slot}", slot * self.kv_tile, self.kv_tile) for slot in range(SLOTS)]
        if self.p == "tmem":
            buffers += [
                Buffer(f"P{slot}", slot * self.kv_tile + self.tmem_p0_offset, self.p_columns, over=(f"S{slot}",))
                for slot in range(SLOTS)
            ]
        return TmemBuffers((*buffers, Buffer("O", SLOTS * self.kv_tile, self.head_dim)))

    @property
    def shared_parts(self) -> dict[str, tuple[int, int]]:
        """Shared memory by use: (how many, bytes of one)."""
        return {
            "Q": (1, 2 * ROWS * self.head_dim),
            "K": (SLOTS, 2 * self.kv_tile * self.head_dim),
            "V": (SLOTS, 2 * self.kv_tile * self.head_dim),
            "P": (1 if self.p == "smem" else 0, 2 * ROWS * self.kv_tile),
            "O": (self.epilogue_stages, 2 * ROWS * EPILOGUE_COLUMNS),
            "rows": (1, 4 * ROWS * 2 * SLOTS),
            "barriers": (1, BARRIER_BYTES),
        }

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that one CTA takes."""
        return sum(count * size for count, size in self.shared_parts.values())

    def budget(self) -> str:
        """What the kernel takes of shared memory and of tensor memory, as two lines."""
        parts = [
            f"{name} {size}" if count == 1 else f"{name} {count} x {size}"
            for name, (count, size) in self.shared_parts.items()
            if count
        ]
        allocated = max(32, 1 << (self.tmem_columns - 1).bit_length())
        return (
            f"shared memory: {' + '.join(parts)} = {self.shared_bytes} of {SHARED_BYTES} bytes\n"
            f"TMEM: S {SLOTS} x {self.kv_tile} + O {self.head_dim} = {self.tmem_columns} columns, "
            f"{allocated} allocated of {TMEM_COLUMNS}"
        )
