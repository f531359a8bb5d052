"""The softmax warps: S from TMEM to registers, row maxima and sums, P to where the PV MMA reads it.

Thread t owns row t: the TMEM load 32x32b gives it all the columns of its lane, so a row's maximum and sum need no
shuffle. With m the maximum in use and c = scale log2(e), P = 2^(c S - c m), and the sum is of P before it is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr
from cutlass.cute.nvgpu import tcgen05
from cutlass.experimental.primitives import tcgen05_fence
from cutlass.utils import blackwell_helpers as sm100

from layoutlab.kernels.attention_config import ROWS, SLOTS
from layoutlab.kernels.attention_tiles import Barriers, Problem, factor_number, q_tile, visible_keys, wait_slot
from layoutlab.kernels.p_handoff import as_accumulator, as_matrix, outer_of, owner_layout, with_outer

if TYPE_CHECKING:
    from layoutlab.kernels.attention import Attention

PutP = Callable[[cute.Tensor, Int32], None]  # a step's P in registers, and the step's slot

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
    if const_expr(kernel.config.p == "tmem"):
        put_p = put_p_in_tmem(kernel, thread, tStS)
    elif const_expr(kernel.config.route == "coordinate"):
        put_p = put_p_by_coordinate(kernel, tTMEM_LOADcS, sP)
    else:
        put_p = put_p_by_copy(kernel, thread, tmem_load, sP)
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
                for v in cutlass.range(cute.size(rS), unroll_full=True):
                    rS[v] = rS[v] if tTMEM_LOADcS[v][1] < keys else -Float32.inf
            old_max = row_max
            row_max = rS.load().reduce(cute.ReductionOp.MAX, old_max, 0)
            threshold = kernel.config.rescale_threshold
            if const_expr(threshold > 0.0) and (row_max - old_max) * scale_log2 <= threshold:
                row_max = old_max
            used_max = row_max
            if row_max == -Float32.inf:
                used_max = Float32(0.0)  # nothing seen yet: P is 0 under any finite maximum
            factor = cute.math.exp2((old_max - used_max) * scale_log2, fastmath=True)
            if row_max == old_max:
                factor = Float32(1.0)
            if i > 0:
                factor_slot = factor_number(step, done) % SLOTS
                sScale[thread, factor_slot] = factor
                cute.arch.mbarrier_arrive(barriers.scale_full + factor_slot)

            rS.store(cute.math.exp2(rS.load() * scale_log2 - used_max * scale_log2, fastmath=True))
            row_sum = row_sum * factor + rS.load().reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
            rP = cute.make_rmem_tensor(tTMEM_LOADcS.shape, kernel.dtype)
            rP.store(rS.load().to(kernel.dtype))
            if const_expr(kernel.config.p == "smem") and step > 0:
                wait_slot(barriers.pv_done, step - 1)  # sP is free
            put_p(rP, slot)
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


def put_p_in_tmem(kernel: Attention, thread: Int32, tStS: cute.Tensor) -> PutP:
    """P into S's own columns, from `tmem_p0_offset`, two elements a column; the thread has read its row of S."""
    config = kernel.config
    p_layout = cute.composition(tStS.layout, cute.make_layout((ROWS, config.p_columns)))
    tStP = cute.make_tensor(tStS.iterator + config.tmem_p0_offset, p_layout)
    store_atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition.x32), kernel.acc_dtype)
    tmem_store = tcgen05.make_tmem_copy(store_atom, tStP)
    thread_store = tmem_store.get_slice(thread)
    tTMEM_STOREtP = thread_store.partition_D(tStP)
    tTMEM_STOREcP = thread_store.partition_S(cute.make_identity_tensor((ROWS, config.p_columns)))
    kernel.note(tStP=tStP, tmem_store=tmem_store, tTMEM_STOREtP=tTMEM_STOREtP)

    def put(rP: cute.Tensor, slot: Int32) -> None:
        words = cute.recast_ptr(rP.iterator, dtype=kernel.acc_dtype)
        rP_words = cute.make_tensor(words, cute.make_layout(tTMEM_STOREcP.shape))
        cute.copy(tmem_store, rP_words, at_column(tTMEM_STOREtP, slot * config.kv_tile))
        cute.arch.fence_view_async_tmem_store()

    return put


def put_p_by_coordinate(kernel: Attention, tTMEM_LOADcS: cute.Tensor, sP: cute.Tensor) -> PutP:
    """P into sP, each element assigned at its coordinate (m, k), k taken apart as the operand's layout has it."""
    k0_size, k_rest = sP.shape[0][1], sP.shape[2]

    def put(rP: cute.Tensor, slot: Int32) -> None:
        for v in range(cute.size(rP)):
            m, k = tTMEM_LOADcS[v]
            k0, rest = cute.idx2crd(k, (k0_size, k_rest))
            sP[(m, k0), 0, rest, 0] = rP[v]
        cute.arch.fence_proxy("async.shared", space="cta")  # the MMA reads sP through the async proxy

    return put


def put_p_by_copy(kernel: Attention, thread: Int32, tmem_load: cute.TiledCopy, sP: cute.Tensor) -> PutP:
    """P into sP by a tiled copy: the TMEM load's own partition ("vector"), or one composed from owners and offsets."""
    matrix = as_matrix(outer_of(sP))  # (m, k) -> element offset
    if kernel.config.route == "vector":
        atom = sm100.get_smem_store_op(kernel.c_layout, kernel.dtype, kernel.acc_dtype, tmem_load)
        tiled_store = cute.make_tiled_copy_D(atom, tmem_load)
        matrix = as_accumulator(matrix)
    else:
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), kernel.dtype)
        owners = owner_layout(tmem_load, ROWS * kernel.config.kv_tile)  # (T,V) -> m + 128 k
        tiled_store = cute.make_cotiled_copy(atom, cute.composition(matrix, owners), matrix)
    tRS_sP = tiled_store.get_slice(thread).partition_D(with_outer(sP, matrix))
    kernel.note(tiled_store=tiled_store, tRS_sP=tRS_sP)

    def put(rP: cute.Tensor, slot: Int32) -> None:
        cute.copy(tiled_store, cute.make_tensor(rP.iterator, cute.make_layout(tRS_sP.shape)), tRS_sP)
        cute.arch.fence_proxy("async.shared", space="cta")  # the MMA reads sP through the async proxy

    return put
