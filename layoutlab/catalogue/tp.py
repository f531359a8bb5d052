"""tP: softmax threads hand P to the tensor core through Tensor Memory (SM100 attention, O = P V).

    S in TMEM -> tcgen05.ld -> registers -> P, converted -> tcgen05.st -> P inside S's columns -> tcgen05.mma, operand A

P overwrites the S that it was made of, from `p_offset` columns on; the columns before may keep row statistics.

    columns   0   2          32                96        128                256
    slot 0    |row|    S0    |  P (2 to a col.) |   S0    |       S1         |    O ...

The MMA takes P from its fragment's pointer, which counts elements of P: `read_offset` columns are
`acc.width // p.width * read_offset` of them. Forgetting the offset, or the factor, reads S's columns as P.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.atoms.datapath import columns_of, pointer_step
from layoutlab.atoms.tmem_buffers import Buffer, TmemBuffers
from layoutlab.catalogue.sp import BITS, ROWS
from layoutlab.handoff import Handoff, MultipleOf, Tile, handoff, tcgen05_ld, tmem, tmem_store, umma_a_tmem
from layoutlab.symbol import span

SLOTS = 2
"""S tiles at a time: the MMA fills one while the softmax threads work on the other."""


@handoff
def tP(
    p_offset: int = 32,
    read_offset: int = 32,
    read_unit: Literal["columns", "elements"] = "columns",
    kv: Literal[64, 128] = 128,
    head_dim: Literal[64, 128, 256] = 64,
    dtype: Literal["bf16", "f16", "e4m3", "e5m2"] = "bf16",
    slot: Literal[0, 1] = 0,
    statistics: int = 2,
    load: Literal["32x32b.x16", "32x32b.x32", "32x32b.x64", "16x256b.x4"] = "32x32b.x32",
    store: Literal["widest", "32x32b.x8", "32x32b.x16", "32x32b.x32", "16x128b.x4", "16x256b.x2"] = "widest",
    first_warp: Literal[0, 1] = 0,
) -> Handoff:
    """Softmax threads write P into S's own columns of Tensor Memory; the PV MMA reads it there as operand A."""
    P = Tile("P", m=ROWS, k=kv, bits=BITS[dtype])
    first = slot * kv
    kept = [Buffer("the row statistics", first, statistics, over=("S",))] if statistics else []
    others = [Buffer("the other S", (1 - slot) * kv, kv), Buffer("O", SLOTS * kv, head_dim), *kept]
    kernel = TmemBuffers((Buffer("S", first, kv), *others))
    kernel.check()

    step = pointer_step(read_offset, P.bits) if read_unit == "columns" else read_offset  # in elements of P
    columns = columns_of(kv, P.bits)
    atom = f"32x32b.x{min(32, columns)}" if store == "widest" else store
    owner = tcgen05_ld(load).over(P, first_warp=first_warp)
    return Handoff(
        P,
        writer=tmem_store(owner, tmem(over=P, column=first + p_offset), atom),
        reader=umma_a_tmem(P, column=first + columns_of(step, P.bits)),
        live=kernel.ranges("S"),
        around={"S": range(first, first + kv)},
    )


@tP.in_general
def _any_size(
    p_offset: Annotated[int, MultipleOf(1, least=0)] = 32,
    read_unit: Literal["columns", "elements"] = "columns",
    kv: Annotated[int, MultipleOf(64)] = 128,
    head_dim: Annotated[int, MultipleOf(8)] = 64,
    dtype: Literal["bf16", "f16", "e4m3", "e5m2"] = "bf16",
    slot: Literal[0, 1] = 0,
    load: Literal["32x32b.x16", "32x32b.x32", "32x32b.x64", "16x256b.x4"] = "32x32b.x32",
    store: Literal["32x32b.x8", "32x32b.x16", "16x128b.x4", "16x256b.x2"] = "32x32b.x16",
    first_warp: Literal[0, 1] = 0,
) -> Handoff:
    """P of any kv at any offset in S's columns, with O of any head_dim behind both S."""
    P = Tile("P", m=ROWS, k=kv, bits=BITS[dtype])
    first = slot * kv
    kernel = TmemBuffers(
        (Buffer("S", first, kv), Buffer("the other S", (1 - slot) * kv, kv), Buffer("O", SLOTS * kv, head_dim))
    )
    kernel.check()
    step = pointer_step(p_offset, P.bits) if read_unit == "columns" else p_offset  # in elements of P
    return Handoff(
        P,
        writer=tmem_store(
            tcgen05_ld(load).over(P, first_warp=first_warp), tmem(over=P, column=first + p_offset), store
        ),
        reader=umma_a_tmem(P, column=first + columns_of(step, P.bits)),
        live=kernel.ranges("S"),
        around={"S": span(first, first + kv)},
    )
