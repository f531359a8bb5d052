"""sK: TMA loads a tile of K to shared memory, the QK MMA reads it as operand B (SM100 attention, S = Q K^T).

    K (global, a row of head_dim for each key) -> TMA boxes of one swizzle atom's width -> sK -> descriptors, K-major

B's rows n are keys, its k counts head_dim. Keys beyond `seq` lie outside of the tensor: TMA brings zeros.
`major=MN` is a K whose keys are contiguous in memory.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.atoms.descriptors import Major
from layoutlab.catalogue.loaded import Box, Descriptor, DType, KStep, Planted, TmaSwizzle, loaded
from layoutlab.catalogue.sp import BITS
from layoutlab.handoff import Handoff, MultipleOf, Tile, handoff


@handoff
def sK(
    kv: Literal[64, 128, 256] = 128,
    head_dim: Literal[64, 128, 256] = 128,
    dtype: DType = "bf16",
    slot: Literal[0, 1] = 0,
    seq: int = 256,
    base: int = 0,
    tma_swizzle: TmaSwizzle = "matching",
    box: Box = "atom",
    k_step: KStep = "right",
    descriptor: Descriptor = "right",
    major: Major = "K",
) -> Handoff:
    """TMA writes K to shared memory; the QK MMA reads it as operand B."""
    return loaded(
        Tile("K", n=kv, k=head_dim, bits=BITS[dtype]),
        major=major,
        base=base,
        slot=slot,
        valid=("n", seq),
        planted=Planted(tma_swizzle, box, k_step, descriptor),
    )


@sK.in_general
def _any_size(
    kv: Annotated[int, MultipleOf(8)] = 128,
    head_dim: Annotated[int, MultipleOf(64)] = 128,
    dtype: DType = "bf16",
    slot: Annotated[int, MultipleOf(1, least=0)] = 0,
    base: Annotated[int, MultipleOf(128, least=0)] = 0,
    tma_swizzle: TmaSwizzle = "matching",
    box: Box = "atom",
    k_step: KStep = "right",
    descriptor: Descriptor = "right",
    major: Major = "K",
) -> Handoff:
    """K of any number of keys and any head_dim, in any slot, inside of its tensor."""
    return loaded(
        Tile("K", n=kv, k=head_dim, bits=BITS[dtype]),
        major=major,
        base=base,
        slot=slot,
        valid=None,
        planted=Planted(tma_swizzle, box, k_step, descriptor),
    )
