"""sP: softmax threads hand P to the tensor core through shared memory (SM100 attention, O = P V).

    S in TMEM -> tcgen05.ld -> registers -> P, converted -> st.shared -> sP -> tcgen05.mma, operand A

Each of 128 threads holds one row of S after the load. P lies in shared memory as `make_smem_layout_a` lays out an MMA's
operand A, and the MMA reads it by one descriptor for every 32 bytes of K. The first three store routes are right; the
other two, and most settings, are what goes wrong in practice, one field away from the right one.
"""

from __future__ import annotations

from typing import Literal

from layoutlab.handoff import Handoff, Owner, Smem, Tile, Writer, handoff, smem, store, tcgen05_ld, umma_a
from layoutlab.handoff.operand import SmemOperand
from layoutlab.layout import Layout

ROWS = 128
BITS = {"bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}
VECTOR_BITS = 128
"""What the two copy routes emit: 16-byte st.shared.v4.b32."""


@handoff
def sP(
    store: Literal["coordinate", "composition", "tiled_copy_d", "tiled_copy_c", "composition_raw"] = "coordinate",
    write_swizzle: Literal["absolute", "none", "elements", "relative"] = "absolute",
    k_order: Literal["012", "021"] = "012",
    base: int = 0,
    kv: Literal[64, 128, 256] = 128,
    head_dim: Literal[64, 128, 256] = 64,
    dtype: Literal["bf16", "f16", "e4m3", "e5m2"] = "bf16",
    load: Literal["x16", "x32", "x64"] = "x32",
    first_warp: Literal[0, 1] = 0,
) -> Handoff:
    """Softmax threads write P to shared memory; the PV MMA reads it as operand A."""
    P = Tile("P", m=ROWS, k=kv, bits=BITS[dtype])
    operand = SmemOperand(ROWS, kv, P.bits)
    owner = tcgen05_ld(f"32x32b.{load}").over(P, first_warp=first_warp)
    swizzle = "" if write_swizzle == "none" else f"{operand.swizzle_text} o 0 o "
    storage = smem(
        f"{swizzle}{operand.matrix(k_order)}",
        over=P,
        base_bytes=base,
        align_bytes=1024,
        swizzle_unit="elements" if write_swizzle == "elements" else "bytes",
        swizzles="offsets" if write_swizzle == "relative" else "addresses",
    )
    reader = umma_a(operand.descriptor(start=base), P, starts_bytes=operand.starts_bytes)
    return Handoff(P, writer=_writer(store, owner, storage, operand.matrix(k_order), head_dim), reader=reader)


def _writer(route: str, owner: Owner, sP: Smem, sP_2d: Layout, head_dim: int) -> Writer:
    """The store of a route."""
    element = owner.tile.bits
    if route == "coordinate":  # sP[(m, k0), 0, (k1, k2)] = P, one element after the other
        return store(owner, sP, bits=element)
    raise NotImplementedError(route)
