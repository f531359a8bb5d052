"""The correction warps: O rescaled in TMEM when a row's maximum grew, and at the end brought to global memory.

Both ways go through paired atoms: the rescaling reads and writes O by 32x32b.x32, the epilogue's shared-memory store is
built from its TMEM load, so that a thread puts down exactly what it took up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr, range_constexpr
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.experimental.primitives import tcgen05_fence
from cutlass.utils.gemm.sm100 import (
    epilogue_smem_copy_and_partition,
    epilogue_tmem_copy_and_partition,
    transform_partitioned_tensor_layout,
)

from layoutlab.kernels.attention_config import ROWS, SLOTS
from layoutlab.kernels.attention_tiles import Barriers, Problem, QTile, factor_number, q_tile, wait_slot

if TYPE_CHECKING:
    from layoutlab.kernels.attention import Attention

EPILOGUE_BARRIER = 1  # named barrier of the correction warps; 0 is the whole CTA's
RESCALE_COLUMNS = 32


@cute.jit
def correct_and_store(
    kernel: Attention,
    problem: Problem,
    barriers: Barriers,
    thread: Int32,
    tOtO: cute.Tensor,
    sScale: cute.Tensor,
    sSum: cute.Tensor,
    sO: cute.Tensor,
    tma_atom_o: cute.CopyAtom,
    mO: cute.Tensor,
):
    """Rescales O ahead of each step but a tile's first, then stores the tile."""
    cute.arch.mbarrier_arrive(barriers.o_ready)  # O is free for the first tile
    step = Int32(0)
    done = Int32(0)
    tile = cute.arch.block_idx()[0]
    while tile < problem.tiles:
        at = q_tile(kernel.config, problem, tile)
        step += 1  # a tile's first step finds nothing in O to rescale
        for _ in cutlass.range(at.kv_tiles - 1, unroll=1):
            number = factor_number(step, done)
            wait_slot(barriers.scale_full, number)
            factor = sScale[thread, number % SLOTS]
            wait_slot(barriers.pv_done, step - 1)
            tcgen05_fence("after_thread_sync")
            if cute.arch.vote_any_sync(factor != 1.0):
                rescale(kernel, thread, tOtO, factor)
            tcgen05_fence("before_thread_sync")
            cute.arch.mbarrier_arrive(barriers.o_ready)
            step += 1

        wait_slot(barriers.sum_full, done)
        row_sum = sSum[thread, done % SLOTS]
        wait_slot(barriers.pv_done, step - 1)
        tcgen05_fence("after_thread_sync")
        tile += cute.arch.grid_dim()[0]
        store_tile(kernel, barriers, at, thread, tOtO, row_sum, sO, tma_atom_o, mO, step, tile < problem.tiles)
        done += 1
    cute.arch.cp_async_bulk_wait_group(0, read=False)


@cute.jit
def rescale(kernel: Attention, thread: Int32, tOtO: cute.Tensor, factor: Float32):
    """Multiplies the warp's rows of O by their factors; a factor of 1 leaves its row as it is, bit for bit."""
    o_layout = cute.composition(tOtO.layout, cute.make_layout((ROWS, RESCALE_COLUMNS)))
    tOtO_part = cute.make_tensor(tOtO.iterator, o_layout)
    load_atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), kernel.acc_dtype)
    store_op = tcgen05.St32x32bOp(tcgen05.Repetition.x32)
    if const_expr(kernel.config.fault == "rescale_unpaired"):
        store_op = tcgen05.St16x64bOp(tcgen05.Repetition.x16)
    store_atom = cute.make_copy_atom(store_op, kernel.acc_dtype)
    tmem_load = tcgen05.make_tmem_copy(load_atom, tOtO_part)
    tmem_store = tcgen05.make_tmem_copy(store_atom, tOtO_part)
    tTMEM_LOADtO = tmem_load.get_slice(thread).partition_S(tOtO_part)
    tTMEM_STOREtO = tmem_store.get_slice(thread).partition_D(tOtO_part)
    tTMEM_LOADcO = tmem_load.get_slice(thread).partition_D(cute.make_identity_tensor((ROWS, RESCALE_COLUMNS)))
    tTMEM_STOREcO = tmem_store.get_slice(thread).partition_S(cute.make_identity_tensor((ROWS, RESCALE_COLUMNS)))
    kernel.note(
        rescale_load=tmem_load, rescale_store=tmem_store, tTMEM_LOADtO=tTMEM_LOADtO, tTMEM_STOREtO=tTMEM_STOREtO
    )
    shift = kernel.config.head_dim if kernel.config.fault == "rescale_shifted" else 0
    for column in range_constexpr(0, kernel.config.head_dim, RESCALE_COLUMNS):
        rO = cute.make_rmem_tensor(tTMEM_LOADcO.shape, kernel.acc_dtype)
        cute.copy(tmem_load, cute.make_tensor(tTMEM_LOADtO.iterator + column, tTMEM_LOADtO.layout), rO)
        cute.arch.fence_view_async_tmem_load()
        rO.store(rO.load() * factor)
        back = cute.make_tensor(tTMEM_STOREtO.iterator + (column + shift), tTMEM_STOREtO.layout)
        cute.copy(tmem_store, cute.make_tensor(rO.iterator, cute.make_layout(tTMEM_STOREcO.shape)), back)
    cute.arch.fence_view_async_tmem_store()


@cute.jit
def store_tile(
    kernel: Attention,
    barriers: Barriers,
    at: QTile,
    thread: Int32,
    tOtO: cute.Tensor,
    row_sum: Float32,
    sO: cute.Tensor,
    tma_atom_o: cute.CopyAtom,
    mO: cute.Tensor,
    next_step: Int32,
    another: cutlass.Boolean,
):
    """O by sub-tiles: TMEM, registers, sO, global memory. Rows that saw no key are 0 already, and stay it."""
    gO = cute.flat_divide(mO, kernel.pv_tiler[:2])  # (row, d, q tile, 0, (head, batch))
    tOtO_epi = transform_partitioned_tensor_layout(tOtO)
    tOtO_epi = cute.make_tensor(tOtO_epi.iterator, cute.append(tOtO_epi.layout, cute.make_layout(1, stride=0)))
    tiled_copy_t2r, tTR_tO, tTR_rO = epilogue_tmem_copy_and_partition(
        kernel, thread, tOtO_epi, gO, kernel.epi_tile, False
    )
    tTR_tO = cute.group_modes(tTR_tO[None, None, None, None, None, 0], 3, 5)  # (T2R, 1, 1, sub-tile)
    tTR_rO16 = cute.make_rmem_tensor(tTR_rO.shape, kernel.dtype)
    tiled_copy_r2s, tRS_rO, tRS_sO = epilogue_smem_copy_and_partition(kernel, tiled_copy_t2r, tTR_rO16, thread, sO)
    if const_expr(kernel.config.fault == "epilogue_unpaired"):
        other_atom = cute.make_copy_atom(tcgen05.Ld16x256bOp(tcgen05.Repetition.x4), kernel.acc_dtype)
        subtile = cute.flat_divide(tOtO_epi[None, None, 0], kernel.epi_tile)[None, None, 0, 0]
        other = tcgen05.make_tmem_copy(other_atom, subtile)
        scalar = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kernel.dtype)
        tiled_copy_r2s = cute.make_tiled_copy_D(scalar, other)
        tRS_sO = tiled_copy_r2s.get_slice(thread).partition_D(sO)
        tRS_rO = cute.make_tensor(tTR_rO16.iterator, cute.make_layout(tRS_sO[None, None, None, 0].shape))
    gO_epi = cute.flat_divide(gO[None, None, at.index, 0, (at.head, at.batch)], kernel.epi_tile)
    bSG_sO, bSG_gO = cpasync.tma_partition(
        tma_atom_o, 0, cute.make_layout(1), cute.group_modes(sO, 0, 2), cute.group_modes(gO_epi, 0, 2)
    )
    bSG_gO = cute.group_modes(bSG_gO, 1, 3)  # (bytes, sub-tile)
    kernel.note(tiled_copy_t2r=tiled_copy_t2r, tTR_tO=tTR_tO, tiled_copy_r2s=tiled_copy_r2s, tRS_sO=tRS_sO)

    inverse = Float32(1.0)
    if const_expr(kernel.config.normalize) and row_sum > 0.0:
        inverse = Float32(1.0) / row_sum
    stages = kernel.config.epilogue_stages
    leader = thread == 0  # a bulk group is its thread's own, and 32 lanes would store a box 32 times
    for subtile in range_constexpr(kernel.config.subtiles):
        cute.copy(tiled_copy_t2r, tTR_tO[None, None, None, subtile], tTR_rO)
        cute.arch.fence_view_async_tmem_load()
        if const_expr(subtile == kernel.config.release_subtile):
            tcgen05_fence("before_thread_sync")
            cute.arch.mbarrier_arrive(barriers.o_ready)
            if const_expr(kernel.config.fault == "early_release") and another:
                wait_slot(barriers.pv_done, next_step)  # as these warps would find O if they were slow
        tTR_rO16.store((tTR_rO.load() * inverse).to(kernel.dtype))
        # The buffer was last stored from `stages` sub-tiles ago, perhaps in the tile before.
        if leader:
            cute.arch.cp_async_bulk_wait_group(stages - 1, read=True)
        cute.arch.barrier(barrier_id=EPILOGUE_BARRIER, number_of_threads=ROWS)
        buffer = subtile % stages
        cute.copy(tiled_copy_r2s, tRS_rO, tRS_sO[None, None, None, buffer])
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.barrier(barrier_id=EPILOGUE_BARRIER, number_of_threads=ROWS)
        if leader:
            cute.copy(tma_atom_o, bSG_sO[None, buffer], bSG_gO[None, subtile])
            cute.arch.cp_async_bulk_commit_group()
