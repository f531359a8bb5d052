"""The softmax warps: S from TMEM to registers, row maxima and sums, P to where the PV MMA reads it.

Thread t owns row t: the TMEM load 32x32b gives it all the columns of its lane, so a row's maximum and sum need no
shuffle. With m the maximum in use and c = scale log2(e), P = 2^(c S - c m), and the sum is of P before it is rounded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr, range_constexpr
from cutlass.cute.nvgpu import tcgen05
from cutlass.experimental.primitives import tcgen05_fence
from layoutlab.kernels.attention_config import ROWS, SLOTS
from layoutlab.kernels.attention_tiles import Barriers, Problem, q_tile, visible_keys, wait_slot

if TYPE_CHECKING:
    from layoutlab.kernels.attention import Attention

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)


@cute.jit
def softmax(
    kernel: Attention,
    problem: Problem,
    barriers: Barriers,
    thread: Int32,
    tScS: cute.Tensor,
    tStS: cute.Tensor,
    sP: cute.Tensor | None,
    sScale: cute.Tensor,
    sSum: cute.Tensor,
    mLSE: cute.Tensor | None,
    mRowMax: cute.Tensor | None,
    scale: Float32,
):
    """Takes each step's S and gives its P; at a tile's end writes the row statistics."""
    kv_tile = kernel.config.kv_tile
    scale_log2 = scale * LOG2_E
    load_atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), kernel.acc_dtype)
    tmem_load = tcgen05.make_tmem_copy(load_atom, tStS)
    tTMEM_LOADtS = tmem_load.get_slice(thread).partition_S(tStS)
    tTMEM_LOADcS = tmem_load.get_slice(thread).partition_D(tScS)
    put_p = make_put_p(kernel, thread, tmem_load, tStS, tScS, tTMEM_LOADcS, sP)
    kernel.note(tmem_load=tmem_load, tTMEM_LOADtS=tTMEM_LOADtS, tTMEM_LOADcS=tTMEM_LOADcS)

    step = Int32(0)
    done = Int32(0)
    tile = cute.arch.block_idx()[0]
    while tile < problem.tiles:
        at = q_tile(kernel.config, problem, tile)
        first_row = at.index * ROWS
        row = first_row + thread
        row_keys = visible_keys(kernel.config, problem, row)
        tile_keys = visible_keys(kernel.config, problem, first_row)  # the fewest of the tile's rows
        row_max = -Float32.inf
        row_sum = Float32(0.0)
        for i in cutlass.range(at.kv_tiles, unroll=1):
            slot = step % SLOTS
            wait_slot(barriers.qk_done, step)
            tcgen05_fence("after_thread_sync")
            rS = cute.make_rmem_tensor(tTMEM_LOADcS.shape, kernel.acc_dtype)
            cute.copy(tmem_load, at_column(tTMEM_LOADtS, slot * kv_tile), rS)
            cute.arch.fence_view_async_tmem_load()
            if tile_keys < (i + 1) * kv_tile:
                keys = row_keys - i * kv_tile
                for v in range_constexpr(cute.size(rS)):
                    rS[v] = rS[v] if tTMEM_LOADcS[v][1] < keys else -Float32.inf
            old_max = row_max
            row_max = rS.load().reduce(cute.ReductionOp.MAX, old_max, 0)
            if const_expr(kernel.config.rescale_threshold > 0.0):
                if (row_max - old_max) * scale_log2 <= kernel.config.rescale_threshold:
                    row_max = old_max
            used_max = row_max
            if row_max == -Float32.inf:
                used_max = Float32(0.0)  # nothing seen yet: P is 0 under any finite maximum
            factor = cute.math.exp2((old_max - used_max) * scale_log2, fastmath=True)
            if row_max == old_max:
                factor = Float32(1.0)
            sScale[thread, slot] = factor
            cute.arch.mbarrier_arrive(barriers.scale_full + slot)

            rS.store(cute.math.exp2(rS.load() * scale_log2 - used_max * scale_log2, fastmath=True))
            row_sum = row_sum * factor + rS.load().reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
            rP = cute.make_rmem_tensor(tTMEM_LOADcS.shape, kernel.dtype)
            rP.store(rS.load().to(kernel.dtype))
            put_p(rP, step, barriers)
            tcgen05_fence("before_thread_sync")
            cute.arch.mbarrier_arrive(barriers.p_full + slot)
            step += 1

        sSum[thread, done % SLOTS] = row_sum
        cute.arch.mbarrier_arrive(barriers.sum_full + done % SLOTS)
        if row < problem.seq_q:
            scaled_max = row_max * scale
            if const_expr(mLSE is not None):
                mLSE[row, (at.head, at.batch)] = cute.math.log2(row_sum, fastmath=True) * LN_2 + scaled_max
            if const_expr(mRowMax is not None):
                mRowMax[row, (at.head, at.batch)] = scaled_max
        done += 1
        tile += cute.arch.grid_dim()[0]


def at_column(tensor: cute.Tensor, column: Int32) -> cute.Tensor:
    """The same part of tensor memory, some f32 columns further."""
    return cute.make_tensor(tensor.iterator + column, tensor.layout)


def make_put_p(
    kernel: Attention,
    thread: Int32,
    tmem_load: cute.TiledCopy,
    tStS: cute.Tensor,
    tScS: cute.Tensor,
    tTMEM_LOADcS: cute.Tensor,
    sP: cute.Tensor | None,
) -> Any:
    """The function that hands a step's P over, by the configured storage and route."""
    config = kernel.config
    if config.p == "tmem":
        return put_p_in_tmem(kernel, thread, tStS)
    raise NotImplementedError


def put_p_in_tmem(kernel: Attention, thread: Int32, tStS: cute.Tensor) -> Any:
    """P into S's own columns, from `tmem_p0_offset`, two elements a column; the thread has read its lane of S before."""
    config = kernel.config
    p_layout = cute.composition(tStS.layout, cute.make_layout((ROWS, config.p_columns)))
    tStP = cute.make_tensor(tStS.iterator + config.tmem_p0_offset, p_layout)
    store_atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition.x32), kernel.acc_dtype)
    tmem_store = tcgen05.make_tmem_copy(store_atom, tStP)
    thread_store = tmem_store.get_slice(thread)
    tTMEM_STOREtP = thread_store.partition_D(tStP)
    tTMEM_STOREcP = thread_store.partition_S(cute.make_identity_tensor((ROWS, config.p_columns)))
    kernel.note(tStP=tStP, tmem_store=tmem_store, tTMEM_STOREtP=tTMEM_STOREtP)

    def put(rP: cute.Tensor, step: Int32, barriers: Barriers) -> None:
        words = cute.recast_ptr(rP.iterator, dtype=kernel.acc_dtype)
        rP_words = cute.make_tensor(words, cute.make_layout(tTMEM_STOREcP.shape))
        cute.copy(tmem_store, rP_words, at_column(tTMEM_STOREtP, step % SLOTS * config.kv_tile))
        cute.arch.fence_view_async_tmem_store()

    return put
