"""sP90: two warpgroups hand P to the tensor core through shared memory (SM90 attention, O = P V).

    S, accumulator of wgmma -> registers -> P, converted -> st.shared or stmatrix -> sP -> wgmma, operand A

Each of 256 threads holds the accumulator fragment that wgmma left it, of 64 rows a warpgroup. P lies in shared memory
as for SM100's sP, and each warpgroup reads its rows by one descriptor for every 32 bytes of K. `composition_raw`, and
most settings, are what goes wrong in practice, one field away from the right one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.algebra import composition
from layoutlab.catalogue.sp import BITS, ROWS, DType, KOrder, WriteSwizzle, stored
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, MultipleOf, Owner, Smem, Tile, Writer, handoff, stmatrix, store, wgmma_a, wgmma_c
from layoutlab.handoff.operand import SmemOperand
from layoutlab.layout import Layout

Store = Literal["coordinate", "composition", "tiled_copy", "stmatrix", "composition_raw"]


@handoff
def sP90(
    store: Store = "coordinate",
    write_swizzle: WriteSwizzle = "absolute",
    k_order: KOrder = "012",
    base: int = 0,
    kv: Literal[64, 128, 256] = 128,
    head_dim: Literal[64, 128, 256] = 64,
    dtype: DType = "bf16",
) -> Handoff:
    """Two warpgroups write P, their accumulator, to shared memory; their wgmmas read it as operand A."""
    return _handed(Tile("P", m=ROWS, k=kv, bits=BITS[dtype]), base, store, write_swizzle, k_order, dtype)


@sP90.in_general
def _any_size(
    store: Store = "coordinate",
    write_swizzle: WriteSwizzle = "absolute",
    k_order: KOrder = "012",
    m: Annotated[int, MultipleOf(64)] = ROWS,
    kv: Annotated[int, MultipleOf(64)] = 128,
    stage: Annotated[int, MultipleOf(1, least=0)] = 0,
    base: Annotated[int, MultipleOf(16, least=0)] = 0,
    head_dim: Literal[64, 128, 256] = 64,
    dtype: DType = "bf16",
) -> Handoff:
    """m / 64 warpgroups write a P of m rows, in stage `stage` of a buffer at `base`."""
    P = Tile("P", m=m, k=kv, bits=BITS[dtype])
    return _handed(P, base + stage * (P.size * P.bits // 8), store, write_swizzle, k_order, dtype)


def _handed(P: Tile, base: int, store: Store, write_swizzle: WriteSwizzle, k_order: KOrder, dtype: DType) -> Handoff:
    """P at a base."""
    if store == "stmatrix" and P.bits != 16:
        raise LayoutError(
            f"store=stmatrix moves registers of two 16-bit neighbours, and an accumulator fragment has only two "
            f"{dtype} neighbours ({2 * P.bits} bits) in a row: use tiled_copy"
        )
    rows, columns = P.shape
    operand = SmemOperand(rows, columns, P.bits)
    owner = wgmma_c(dtype).over(P)
    storage = stored(P, operand, write_swizzle, k_order, base)
    reader = wgmma_a(operand.descriptor(start=base), P, starts_bytes=operand.starts)
    return Handoff(P, writer=_writer(store, owner, storage, operand.matrix(k_order)), reader=reader)


def _writer(route: str, owner: Owner, sP: Smem, sP_2d: Layout) -> Writer:
    """The store of a route, its places from the algebra alone."""
    element = owner.tile.bits
    pair = 2 * element  # what a fragment has side by side along k
    if route == "coordinate":
        return store(owner, sP, bits=element)
    if route == "composition":
        return store(owner, sP, bits=pair, offsets=composition(sP_2d, owner.layout))
    if route == "composition_raw":  # make_tiled_copy takes the same offsets for coordinates of its tile
        return store(owner, sP, bits=element, through=composition(sP_2d, owner.layout))
    if route == "stmatrix":
        return stmatrix(owner, sP, rows=_rows(owner.tile))
    return store(owner, sP, bits=pair, through=owner.layout)  # make_tiled_copy_C


def _rows(P: Tile) -> Layout:
    """(thread, instruction) -> row's first element: matrices of rows 0-7 and 8-15, then of the next 8 columns.

    A warp has 16 rows, and an instruction brings 16 columns of them, as the fragment has its registers.
    """
    (rows, columns), (row, column) = P.shape, P.strides
    return Layout(((16, 2, rows // 16), columns // 16), ((row, 8 * column, 16 * row), 16 * column))
