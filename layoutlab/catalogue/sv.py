"""sV: TMA loads a tile of V to shared memory, the PV MMA reads it as operand B (SM100 attention, O = P V).

    V (global, a row of head_dim for each key) -> TMA boxes of one swizzle atom's width -> sV -> descriptors, MN-major

B's rows n count head_dim, its k the keys, so what is contiguous in memory is n: the operand is MN-major, `lbo` leads to
the next atom along n, `sbo` to the next 8 keys. `read_major=K` is the MMA that was not told so.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.atoms.descriptors import Major
from layoutlab.catalogue.loaded import Box, Descriptor, DType, KStep, Planted, TmaSwizzle, loaded
from layoutlab.catalogue.sp import BITS
from layoutlab.handoff import Handoff, MultipleOf, Tile, handoff


@handoff
def sV(
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
    read_major: Major = "MN",
) -> Handoff:
    """TMA writes V to shared memory; the PV MMA reads it as operand B."""
    return loaded(
        Tile("V", n=head_dim, k=kv, bits=BITS[dtype]),
        major="MN",
        base=base,
        slot=slot,
        valid=("k", seq),
        planted=Planted(tma_swizzle, box, k_step, descriptor, read_major),
    )


@sV.in_general
def _any_size(
    kv: Annotated[int, MultipleOf(32)] = 128,
    head_dim: Annotated[int, MultipleOf(64)] = 128,
    dtype: DType = "bf16",
    slot: Annotated[int, MultipleOf(1, least=0)] = 0,
    base: Annotated[int, MultipleOf(128, least=0)] = 0,
    tma_swizzle: TmaSwizzle = "matching",
    box: Box = "atom",
    k_step: KStep = "right",
    descriptor: Descriptor = "right",
    read_major: Major = "MN",
) -> Handoff:
    """V of any number of keys and any head_dim, in any slot, inside of its tensor."""
    return loaded(
        Tile("V", n=head_dim, k=kv, bits=BITS[dtype]),
        major="MN",
        base=base,
        slot=slot,
        valid=None,
        planted=Planted(tma_swizzle, box, k_step, descriptor, read_major),
    )
