"""sQ: TMA loads Q to shared memory, the QK MMA reads it as operand A (SM100 attention, S = Q K^T).

    Q (global, a row of head_dim for each query) -> TMA boxes of one swizzle atom's width -> sQ -> descriptors, K-major

K counts head_dim. Rows beyond `seq` lie outside of the tensor: TMA brings zeros, which count as written. `major=MN` is
a Q whose queries are contiguous in memory.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.atoms.descriptors import Major
from layoutlab.catalogue.loaded import Box, Descriptor, DType, KStep, Planted, TmaSwizzle, loaded
from layoutlab.catalogue.sp import BITS, ROWS
from layoutlab.handoff import Handoff, MultipleOf, Tile, handoff


@handoff
def sQ(
    head_dim: Literal[64, 128, 256] = 128,
    dtype: DType = "bf16",
    seq: int = 128,
    base: int = 0,
    tma_swizzle: TmaSwizzle = "matching",
    box: Box = "atom",
    k_step: KStep = "right",
    descriptor: Descriptor = "right",
    major: Major = "K",
) -> Handoff:
    """TMA writes Q to shared memory; the QK MMA reads it as operand A."""
    return loaded(
        Tile("Q", m=ROWS, k=head_dim, bits=BITS[dtype]),
        major=major,
        base=base,
        valid=("m", seq),
        planted=Planted(tma_swizzle, box, k_step, descriptor),
    )


@sQ.in_general
def _any_size(
    head_dim: Annotated[int, MultipleOf(64)] = 128,
    dtype: DType = "bf16",
    base: Annotated[int, MultipleOf(128, least=0)] = 0,
    tma_swizzle: TmaSwizzle = "matching",
    box: Box = "atom",
    k_step: KStep = "right",
    descriptor: Descriptor = "right",
    major: Major = "K",
) -> Handoff:
    """Q of any head_dim, inside of its tensor."""
    return loaded(
        Tile("Q", m=ROWS, k=head_dim, bits=BITS[dtype]),
        major=major,
        base=base,
        valid=None,
        planted=Planted(tma_swizzle, box, k_step, descriptor),
    )
