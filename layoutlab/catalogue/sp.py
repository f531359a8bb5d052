"""sP: softmax threads hand P to the tensor core through shared memory (SM100 attention, O = P V).

    S in TMEM -> tcgen05.ld -> registers -> P, converted -> st.shared -> sP -> tcgen05.mma, operand A

Each of 128 threads holds one row of S after the load. P lies in shared memory as `make_smem_layout_a` lays out an MMA's
operand A, and the MMA reads it by one descriptor for every 32 bytes of K. The first three store routes are right; the
other two, and most settings, are what goes wrong in practice, one field away from the right one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.algebra import composition, zipped_divide
from layoutlab.handoff import Handoff, MultipleOf, Owner, Smem, Tile, Writer, handoff, smem, store, tcgen05_ld, umma_a
from layoutlab.handoff.operand import SmemOperand
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout

ROWS = 128
BITS = {"bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}
VECTOR_BITS = 128
"""What the two copy routes emit: 16-byte st.shared.v4.b32."""


Store = Literal["coordinate", "composition", "tiled_copy_d", "tiled_copy_c", "composition_raw"]
WriteSwizzle = Literal["absolute", "none", "elements", "relative"]
"""What the store swizzles: addresses, as the reader does; nothing; offsets counted in elements; offsets in bytes."""
KOrder = Literal["012", "021"]
"""In which order the writer takes the parts of k."""
DType = Literal["bf16", "f16", "e4m3", "e5m2"]
Load = Literal["x16", "x32", "x64"]


@handoff
def sP(
    store: Store = "coordinate",
    write_swizzle: WriteSwizzle = "absolute",
    k_order: KOrder = "012",
    base: int = 0,
    kv: Literal[64, 128, 256] = 128,
    head_dim: Literal[64, 128, 256] = 64,
    dtype: DType = "bf16",
    load: Load = "x32",
    first_warp: Literal[0, 1] = 0,
) -> Handoff:
    """Softmax threads write P to shared memory; the PV MMA reads it as operand A."""
    P = Tile("P", m=ROWS, k=kv, bits=BITS[dtype])
    return _handed(P, 1, base, store, write_swizzle, k_order, load, first_warp, head_dim)


@sP.in_general
def _any_size(
    store: Store = "coordinate",
    write_swizzle: WriteSwizzle = "absolute",
    k_order: KOrder = "012",
    m: Annotated[int, MultipleOf(ROWS)] = ROWS,
    kv: Annotated[int, MultipleOf(64)] = 128,
    stage: Annotated[int, MultipleOf(1, least=0)] = 0,
    base: Annotated[int, MultipleOf(16, least=0)] = 0,
    head_dim: Literal[64, 128, 256] = 64,
    dtype: DType = "bf16",
    load: Load = "x32",
    first_warp: Literal[0, 1] = 0,
) -> Handoff:
    """m / 128 warpgroups write a P of m rows, in stage `stage` of a buffer at `base`; an MMA reads each 128 of them."""
    P = Tile("P", m=m, k=kv, bits=BITS[dtype])
    start = base + stage * (P.size * P.bits // 8)
    return _handed(P, m // ROWS, start, store, write_swizzle, k_order, load, first_warp, head_dim)


def _handed(
    P: Tile,
    blocks: int,
    base: int,
    store: Store,
    write_swizzle: WriteSwizzle,
    k_order: KOrder,
    load: Load,
    first_warp: int,
    head_dim: int,
) -> Handoff:
    """P of `blocks` times 128 rows at a base."""
    rows, columns = P.shape
    operand = SmemOperand(rows, columns, P.bits)
    owner = tcgen05_ld(f"32x32b.{load}").over(P, first_warp=first_warp, blocks=blocks)
    storage = stored(P, operand, write_swizzle, k_order, base)
    below = Layout(blocks, ROWS * operand.swizzle_bytes)  # where each MMA's rows start
    reader = umma_a(operand.descriptor(start=base), P, starts_bytes=operand.starts, row_starts_bytes=below)
    writer = _writer(store, owner, storage, operand.matrix(k_order), int(load[1:]), head_dim)
    return Handoff(P, writer=writer, reader=reader)


def stored(P: Tile, operand: SmemOperand, write_swizzle: WriteSwizzle, k_order: KOrder, base: int) -> Smem:
    """sP as its writer sees it: the operand's layout, right or with a mistake.

    >>> stored(Tile("P", m=128, k=64, bits=16), SmemOperand(128, 64, 16), "none", "012", 0).swizzle is None
    True
    """
    view = operand.layout if k_order == "012" else operand.matrix(k_order)
    return smem(
        view if write_swizzle == "none" else ComposedLayout(operand.swizzle, 0, view),
        over=P,
        base_bytes=base,
        align_bytes=1024,
        swizzle_unit="elements" if write_swizzle == "elements" else "bytes",
        swizzles="offsets" if write_swizzle in ("elements", "relative") else "addresses",
    )


def _writer(route: str, owner: Owner, sP: Smem, sP_2d: Layout, load: int, head_dim: int) -> Writer:
    """The store of a route, its places from the algebra alone."""
    element, (rows, columns) = owner.tile.bits, owner.tile.shape
    if route == "coordinate":  # sP[(m, k0), 0, (k1, k2)] = P, one element after the other
        return store(owner, sP, bits=element)
    if route == "composition":  # make_cotiled_copy over the unswizzled layout; the swizzle rides on the pointer
        return store(owner, sP, bits=VECTOR_BITS, offsets=composition(sP_2d, owner.layout))
    if route == "composition_raw":  # make_tiled_copy takes the same offsets for coordinates of its tile
        return store(owner, sP, bits=element, through=composition(sP_2d, owner.layout))
    if route == "tiled_copy_d":  # make_tiled_copy_D: the thread-value layout of one load, over the tile in steps of it
        row, column = owner.tile.strides
        tile, steps = zipped_divide(Layout((rows, columns), (row, column)), (rows, load))
        one = composition(tile, Layout(((32, rows // 32), load), ((row, 32 * row), column)))
        return store(owner, sP, bits=VECTOR_BITS, through=make_layout(one[0], make_layout(one[1], steps)))
    # make_tiled_copy_C: the MMA has one thread, so every thread claims all of its (rows, head_dim) tile from the first
    # element on. It holds `columns` values, which go to the first places that it claims.
    claimed = Layout((1, rows * head_dim), (0, 1))
    beyond = sP_2d[1].leaves()[-1][1]  # the step of k where the tile goes on beyond P
    if head_dim == 2 * columns and sP.swizzle and sP.swizzles == "offsets" and beyond < sP_2d[0].stride:
        return _store_folded(owner, sP, sP_2d)
    return store(owner, sP, bits=element, through=Layout((rows, columns), (claimed[0].stride, claimed[1].stride)))


def _store_folded(owner: Owner, sP: Smem, sP_2d: Layout) -> Writer:
    """The claim of a tile twice as wide as P, as CuTe DSL 4.8.1 partitions P's swizzled offsets by it.

    That it does so here and not for other tiles is what its printed partitions show, of all settings.

    It folds the swizzle into strides, one for each power of two of m, and adds what the swizzle would xor: the
    partition that it prints has the strides (64,144,1024) for m of (2,8,8), and 64 + 4 * 144 carries where m = 9.
    """
    assert isinstance(sP.layout, ComposedLayout) and sP.swizzle
    (rows, columns), bits = owner.tile.shape, owner.tile.bits
    strides = [sP.swizzle(sP_2d(1 << bit) * bits) // bits for bit in range(columns.bit_length() - 1)]
    plain = smem(sP.layout.outer, over=owner.tile, base_bytes=sP.base_bytes, align_bytes=sP.align_bytes)
    folded = Layout((rows, (2,) * len(strides)), (0, tuple(strides)))
    return store(owner, plain, bits=bits, offsets=folded)
