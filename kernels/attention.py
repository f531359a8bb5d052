"""Attention on SM100, whole: O = softmax(Q K^T scale) V, one Q tile of 128 rows at a time, all handoffs explicit.

    load warp ──TMA──> sQ, sK, sV ──QK MMA──> S (TMEM) ──softmax warps──> P (TMEM or sP) ──PV MMA──> O (TMEM)
    O ──correction warps──> O rescaled (TMEM), and at the end ──> registers ──> sO ──TMA──> global

| warps | role | waits for | tells |
|---|---|---|---|
| 0-3  | softmax: one thread a row | `qk_done` (S is there) | `scale_full`, `p_full`, `sum_full` |
| 4-7  | correction and epilogue: one thread a row | `scale_full`, `pv_done`, `sum_full` | `o_ready` |
| 8    | MMA | `q_full`, `k_full`, `v_full`, `p_full`, `o_ready` | `qk_done`, `pv_done`, by commit |
| 9    | load | `qk_done` (K and Q are free), `pv_done` (V is free) | `q_full`, `k_full`, `v_full`, by TMA |

A *step* is one KV tile; steps are counted through all the Q tiles that a CTA works on. K, V and S have two slots, so
step i uses slot i % 2 and waits for phase (i // 2) % 2; so have the row factors, counted without each tile's first.
While the softmax warps work on S of step i, the MMA warp already fills S of step i + 1; P of step i lies in S's own
columns (`p="tmem"`), which step i + 2 fills again, so the MMA warp waits for `pv_done` of step i before that.

Names follow CuTe's habit: `mQ` is a global tensor, `gQ` a tile of it, `sQ` shared memory, `tStS` tensor memory, `rS`
registers; `tTMEM_LOADcS` is the coordinate tensor partitioned by the TMEM load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, const_expr, range_constexpr
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.experimental.primitives import tcgen05_fence
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers as sm100

from layoutlab.kernels.attention_config import EPILOGUE_COLUMNS, ROWS, SLOTS, TMEM_COLUMNS, AttentionConfig
from layoutlab.kernels.attention_correction import correct_and_store
from layoutlab.kernels.attention_softmax import softmax
from layoutlab.kernels.attention_tiles import (
    Problem,
    expect,
    make_barriers,
    q_tile,
    start_barriers,
    wait_slot,
)

DTYPES = {"bf16": cutlass.BFloat16, "f16": cutlass.Float16}

SOFTMAX_WARPS = (0, 1, 2, 3)
CORRECTION_WARPS = (4, 5, 6, 7)
MMA_WARP = 8
LOAD_WARP = 9
K_STEP_BYTES = 32  # of a row, that one tcgen05.mma takes along k
THREADS = 32 * 12  # whole warpgroups, as the sharing of registers needs them: the last two warps only give theirs up

# Registers a thread, by role: a row of S and its P in the softmax warps; 128 x (the sum) is what an SM has.
SOFTMAX_REGISTERS = 232
CORRECTION_REGISTERS = 160
OTHER_REGISTERS = 112

Note = Callable[..., None]


def ignore(**named: object) -> None:
    """Takes the layouts of a compile that nobody watches."""


class Attention:
    """The kernel for one configuration; `note(name=object, ...)` is called with its layouts while it is traced."""

    def __init__(self, config: AttentionConfig, note: Note = ignore) -> None:
        self.config = config
        self.note = note
        self.dtype = DTYPES[config.dtype]
        self.qk_tiler = (ROWS, config.kv_tile, config.head_dim)
        self.pv_tiler = (ROWS, config.head_dim, config.kv_tile)
        self.epi_tile = (ROWS, EPILOGUE_COLUMNS)
        self.tmem_o = SLOTS * config.kv_tile  # O's first column, after S's slots
        # What the paired epilogue helpers read off a kernel.
        self.cta_tile_shape_mnk = self.pv_tiler
        self.c_layout = LayoutEnum.ROW_MAJOR
        self.c_dtype = self.dtype
        self.acc_dtype = Float32

    @cute.jit
    def __call__(
        self,
        pQ: cute.Pointer,
        pK: cute.Pointer,
        pV: cute.Pointer,
        pO: cute.Pointer,
        pLSE: cute.Pointer | None,
        pRowMax: cute.Pointer | None,
        batch: Int32,
        seq_q: Int32,
        seq_kv: Int32,
        heads: Int32,
        kv_heads: Int32,
        scale: Float32,
        ctas: Int32,
    ):
        """Q, O (batch, seq_q, heads, head_dim); K, V (batch, seq_kv, kv_heads, head_dim), all dense.

        LSE and RowMax are (batch, heads, seq_q) of f32, each None where it isn't wanted. K and V hold at least one row
        each, also where `seq_kv` is 0. At most `ctas` CTAs share the Q tiles.
        """
        kv_rows = cutlass.max(seq_kv, 1)
        mQ = self.rows_view(pQ, batch, seq_q, heads)
        mK = self.rows_view(pK, batch, kv_rows, kv_heads)
        mV = transposed(self.rows_view(pV, batch, kv_rows, kv_heads))  # the PV MMA's B is (N, K) = (head_dim, keys)
        mO = self.rows_view(pO, batch, seq_q, heads, heads_first=self.config.fault == "o_heads_first")
        stats_layout = cute.make_layout((seq_q, (heads, batch)), stride=(1, (seq_q, Int64(seq_q) * heads)))
        mLSE = None if const_expr(pLSE is None) else cute.make_tensor(pLSE, stats_layout)
        mRowMax = None if const_expr(pRowMax is None) else cute.make_tensor(pRowMax, stats_layout)

        qk_mma = self.make_mma(OperandMajorMode.K, self.qk_tiler)
        p_source = tcgen05.OperandSource.TMEM if self.config.p == "tmem" else tcgen05.OperandSource.SMEM
        pv_mma = self.make_mma(OperandMajorMode.MN, self.pv_tiler, p_source)
        sQ_layout = sm100.make_smem_layout_a(qk_mma, self.qk_tiler, self.dtype, 1)
        sK_layout = sm100.make_smem_layout_b(qk_mma, self.qk_tiler, self.dtype, SLOTS)
        sV_layout = sm100.make_smem_layout_b(pv_mma, self.pv_tiler, self.dtype, SLOTS)
        sP_layout = sm100.make_smem_layout_a(pv_mma, self.pv_tiler, self.dtype, 1)
        sO_layout = sm100.make_smem_layout_epi(self.dtype, self.c_layout, self.epi_tile, self.config.epilogue_stages)

        load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
        q_boxes = self.boxes("q", one_stage(sQ_layout))
        k_boxes = self.boxes("k", one_stage(sK_layout))
        v_boxes = self.boxes("v", one_stage(sV_layout))
        o_boxes = self.boxes("o", cute.select(sO_layout, mode=[0, 1]))
        tma_q = cute.nvgpu.make_tiled_tma_atom_A(load, mQ, q_boxes, self.qk_tiler, qk_mma)
        tma_k = cute.nvgpu.make_tiled_tma_atom_B(load, mK, k_boxes, self.qk_tiler, qk_mma)
        tma_v = cute.nvgpu.make_tiled_tma_atom_B(load, mV, v_boxes, self.pv_tiler, pv_mma)
        store = cpasync.CopyBulkTensorTileS2GOp()
        tma_o = cpasync.make_tiled_tma_atom(store, mO, o_boxes, self.epi_tile)

        q_tiles = cute.ceil_div(seq_q, ROWS)
        tiles = q_tiles * heads * batch
        self.kernel(
            qk_mma,
            pv_mma,
            *tma_q,
            *tma_k,
            *tma_v,
            *tma_o,
            mLSE,
            mRowMax,
            sQ_layout,
            sK_layout,
            sV_layout,
            sP_layout,
            sO_layout,
            seq_q,
            seq_kv,
            heads,
            heads // kv_heads,
            q_tiles,
            tiles,
            scale,
        ).launch(grid=(cutlass.min(ctas, tiles), 1, 1), block=(THREADS, 1, 1), min_blocks_per_mp=1)

    @cute.kernel
    def kernel(
        self,
        qk_mma: cute.TiledMma,
        pv_mma: cute.TiledMma,
        tma_atom_q: cute.CopyAtom,
        mQ: cute.Tensor,
        tma_atom_k: cute.CopyAtom,
        mK: cute.Tensor,
        tma_atom_v: cute.CopyAtom,
        mV: cute.Tensor,
        tma_atom_o: cute.CopyAtom,
        mO: cute.Tensor,
        mLSE: cute.Tensor | None,
        mRowMax: cute.Tensor | None,
        sQ_layout: cute.ComposedLayout,
        sK_layout: cute.ComposedLayout,
        sV_layout: cute.ComposedLayout,
        sP_layout: cute.ComposedLayout,
        sO_layout: cute.ComposedLayout,
        seq_q: Int32,
        seq_kv: Int32,
        heads: Int32,
        group: Int32,
        q_tiles: Int32,
        tiles: Int32,
        scale: Float32,
    ):
        problem = Problem(seq_q, seq_kv, heads, group, q_tiles, tiles)
        thread = cute.arch.thread_idx()[0]
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())

        smem = SmemAllocator()
        barriers = make_barriers(smem)
        tmem_holder = smem.allocate(Int32, 8)
        sScale = smem.allocate_tensor(Float32, cute.make_layout((ROWS, SLOTS)), 16)
        sSum = smem.allocate_tensor(Float32, cute.make_layout((ROWS, SLOTS)), 16)
        sQ = smem.allocate_tensor(self.dtype, sQ_layout.outer, 1024, sQ_layout.inner)
        sK = smem.allocate_tensor(self.dtype, sK_layout.outer, 1024, sK_layout.inner)
        sV = smem.allocate_tensor(self.dtype, sV_layout.outer, 1024, sV_layout.inner)
        sO = smem.allocate_tensor(self.dtype, sO_layout.outer, 1024, sO_layout.inner)
        sP = None
        if const_expr(self.config.p == "smem"):
            sP = smem.allocate_tensor(self.dtype, sP_layout.outer, 1024, sP_layout.inner)

        if warp == MMA_WARP:
            cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_holder)
        if warp == LOAD_WARP:
            start_barriers(barriers)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, tmem_holder)
        tStS = cute.make_tensor(tmem, qk_mma.make_fragment_C(qk_mma.partition_shape_C(self.qk_tiler[:2])).layout)
        tOtO = cute.make_tensor(
            tmem + self.tmem_o, pv_mma.make_fragment_C(pv_mma.partition_shape_C(self.pv_tiler[:2])).layout
        )
        # The MMA warp sets the MMA's fields inside its loop, so what others need of it is taken before.
        tScS = qk_mma.get_slice(0).partition_C(cute.make_identity_tensor(self.qk_tiler[:2]))
        self.note(sQ=sQ, sK=sK, sV=sV, sO=sO, sP=sP, tStS=tStS, tOtO=tOtO, qk_mma=qk_mma, pv_mma=pv_mma)

        if warp >= MMA_WARP:
            cute.arch.setmaxregister_decrease(OTHER_REGISTERS)
        if warp == LOAD_WARP:
            self.load(
                problem, barriers, qk_mma, pv_mma, (tma_atom_q, mQ, sQ), (tma_atom_k, mK, sK), (tma_atom_v, mV, sV)
            )
        if warp == MMA_WARP:
            self.multiply(problem, barriers, qk_mma, pv_mma, sQ, sK, sV, sP, sP_layout, tStS, tOtO)
        if warp < CORRECTION_WARPS[0]:
            cute.arch.setmaxregister_increase(SOFTMAX_REGISTERS)
            softmax(self, problem, barriers, thread, tScS, tStS, sP, sScale, sSum, mLSE, mRowMax, scale)
        if warp >= CORRECTION_WARPS[0] and warp < MMA_WARP:
            cute.arch.setmaxregister_decrease(CORRECTION_REGISTERS)
            correct_and_store(
                self,
                problem,
                barriers,
                thread - 32 * CORRECTION_WARPS[0],
                tOtO,
                sScale,
                sSum,
                sO,
                tma_atom_o,
                mO,
            )
        cute.arch.sync_threads()
        if warp == MMA_WARP:
            cute.arch.relinquish_tmem_alloc_permit()
            cute.arch.dealloc_tmem(tmem, TMEM_COLUMNS)

    def rows_view(
        self, start: cute.Pointer, batch: Int32, rows: Int32, heads: Int32, heads_first: bool = False
    ) -> cute.Tensor:
        """(batch, rows, heads, head_dim) in memory as (rows, head_dim, (heads, batch)); or heads first."""
        head_dim = self.config.head_dim
        row, head = heads * head_dim, head_dim
        if heads_first:
            row, head = head_dim, rows * head_dim
        layout = cute.make_layout(
            (rows, head_dim, (heads, batch)), stride=(Int64(row), 1, (head, Int64(rows) * heads * head_dim))
        )
        return cute.make_tensor(start, layout)

    def boxes(self, name: str, layout: cute.ComposedLayout) -> cute.ComposedLayout:
        """The layout by which TMA places a tile in shared memory: the tile's own."""
        if self.config.fault == f"{name}_unswizzled":
            return cute.make_composed_layout(cute.make_swizzle(0, 4, 3), 0, layout.outer)
        return layout

    def steps(self, name: str, operand: cute.Tensor) -> cute.Tensor:
        """An MMA operand as its descriptors step along k: as its layout says, in units of 16 bytes."""
        if self.config.fault != f"{name}_steps":
            return operand
        stages = operand.shape[3], operand.stride[3]
        shape, stride = zip((1, 0), (1, 0), (cute.size(operand, mode=[2]), K_STEP_BYTES // 16), stages, strict=True)
        return cute.make_tensor(operand.iterator, cute.make_layout(shape, stride=stride))

    def make_mma(
        self, b_major: OperandMajorMode, tiler: tuple[int, int, int], a_source: Any = tcgen05.OperandSource.SMEM
    ) -> cute.TiledMma:
        """A one-CTA MMA of the kernel's type into f32, A K-major."""
        return sm100.make_trivial_tiled_mma(
            self.dtype,
            self.dtype,
            OperandMajorMode.K,
            b_major,
            self.acc_dtype,
            tcgen05.CtaGroup.ONE,
            tiler[:2],
            a_source,
        )

    @cute.jit
    def load(self, problem, barriers, qk_mma, pv_mma, q, k, v):
        """Brings Q once a tile, then K of step i + 1 ahead of V of step i."""
        tma_atom_q, mQ, sQ = q
        tma_atom_k, mK, sK = k
        tma_atom_v, mV, sV = v
        for atom in (tma_atom_q, tma_atom_k, tma_atom_v):
            cpasync.prefetch_descriptor(atom)
        _, _, head_dim = self.qk_tiler
        gQ = cute.flat_divide(mQ, (ROWS, head_dim))  # (row, d, q tile, 0, (head, batch))
        gK = cute.flat_divide(mK, (self.config.kv_tile, head_dim))  # (key, d, kv tile, 0, (kv head, batch))
        gV = cute.flat_divide(mV, (head_dim, self.config.kv_tile))  # (d, key, 0, kv tile, (kv head, batch))
        tQsQ, tQgQ = partition(tma_atom_q, sQ, qk_mma.get_slice(0).partition_A(gQ))
        tKsK, tKgK = partition(tma_atom_k, sK, qk_mma.get_slice(0).partition_B(gK))
        tVsV, tVgV = partition(tma_atom_v, sV, pv_mma.get_slice(0).partition_B(gV))
        q_bytes = cute.size_in_bytes(self.dtype, cute.select(sQ.layout, mode=[0, 1, 2]))
        kv_bytes = cute.size_in_bytes(self.dtype, cute.select(sK.layout, mode=[0, 1, 2]))

        step = Int32(0)
        tile = cute.arch.block_idx()[0]
        while tile < problem.tiles:
            at = q_tile(self.config, problem, tile)
            head_batch = (at.head, at.batch)
            kv_head_batch = (at.head // problem.group, at.batch)
            if step > 0:
                wait_slot(barriers.qk_done, step - 1)  # the last tile's Q is free
            expect(barriers.q_full, q_bytes)
            cute.copy(tma_atom_q, tQgQ[None, at.index, 0, head_batch], tQsQ[None, 0], tma_bar_ptr=barriers.q_full)
            for i in cutlass.range(at.kv_tiles + 1, unroll=1):
                if i < at.kv_tiles:
                    slot = (step + i) % SLOTS
                    if step + i >= SLOTS:
                        wait_slot(barriers.qk_done, step + i - SLOTS)
                    expect(barriers.k_full + slot, kv_bytes)
                    cute.copy(
                        tma_atom_k,
                        tKgK[None, i, 0, kv_head_batch],
                        tKsK[None, slot],
                        tma_bar_ptr=barriers.k_full + slot,
                    )
                if i > 0:
                    slot = (step + i - 1) % SLOTS
                    if step + i - 1 >= SLOTS:
                        wait_slot(barriers.pv_done, step + i - 1 - SLOTS)
                    expect(barriers.v_full + slot, kv_bytes)
                    cute.copy(
                        tma_atom_v,
                        tVgV[None, 0, i - 1, kv_head_batch],
                        tVsV[None, slot],
                        tma_bar_ptr=barriers.v_full + slot,
                    )
            step += at.kv_tiles
            tile += cute.arch.grid_dim()[0]

    @cute.jit
    def multiply(self, problem, barriers, qk_mma, pv_mma, sQ, sK, sV, sP, sP_layout, tStS, tOtO):
        """Issues QK of step i + 1, then PV of step i."""
        tSrQ = self.steps("q", qk_mma.make_fragment_A(sQ))
        tSrK = self.steps("k", qk_mma.make_fragment_B(sK))
        tOrV = self.steps("v", pv_mma.make_fragment_B(sV))
        tOrP0 = self.p_operand(pv_mma, tStS, sP, sP_layout)
        self.note(tSrQ=tSrQ, tSrK=tSrK, tOrV=tOrV, tOrP0=tOrP0)

        step = Int32(0)
        done = Int32(0)
        tile = cute.arch.block_idx()[0]
        while tile < problem.tiles:
            at = q_tile(self.config, problem, tile)
            cute.arch.mbarrier_wait(barriers.q_full, done % 2)
            self.multiply_qk(step, barriers, qk_mma, tSrQ, tSrK, tStS)
            for i in cutlass.range(at.kv_tiles, unroll=1):
                if i + 1 < at.kv_tiles:
                    self.multiply_qk(step + 1, barriers, qk_mma, tSrQ, tSrK, tStS)
                self.multiply_pv(step, i > 0, barriers, pv_mma, tOrP0, tOrV, tOtO)
                step += 1
            done += 1
            tile += cute.arch.grid_dim()[0]

    @cute.jit
    def multiply_qk(self, step, barriers, qk_mma, tSrQ, tSrK, tStS):
        """S of the step = Q K^T. S's slot is free: its P has been read, or with P in shared memory, S itself."""
        slot = step % SLOTS
        wait_slot(barriers.k_full, step)
        if const_expr(self.config.p == "tmem") and step >= SLOTS:
            wait_slot(barriers.pv_done, step - SLOTS)
        tcgen05_fence("after_thread_sync")
        tStSi = cute.make_tensor(tStS.iterator + slot * self.config.kv_tile, tStS.layout)
        for k in range_constexpr(cute.size(tSrQ, mode=[2])):
            qk_mma.set(tcgen05.Field.ACCUMULATE, k != 0)
            cute.gemm(qk_mma, tStSi, tSrQ[None, None, k, 0], tSrK[None, None, k, slot], tStSi)
        with cute.arch.elect_one():
            tcgen05.commit(barriers.qk_done + slot)

    @cute.jit
    def multiply_pv(self, step, accumulate, barriers, pv_mma, tOrP0, tOrV, tOtO):
        """O += P V, or at a tile's first step O = P V."""
        slot = step % SLOTS
        wait_slot(barriers.v_full, step)
        wait_slot(barriers.p_full, step)
        cute.arch.mbarrier_wait(barriers.o_ready, step % 2)
        tcgen05_fence("after_thread_sync")
        tOrP = tOrP0
        if const_expr(self.config.p == "tmem"):
            tOrP = cute.make_tensor(tOrP0.iterator + slot * self.config.kv_tile * self.p_per_column, tOrP0.layout)
        for k in range_constexpr(cute.size(tOrP, mode=[2])):
            pv_mma.set(tcgen05.Field.ACCUMULATE, True if k != 0 else accumulate)
            cute.gemm(pv_mma, tOtO, tOrP[None, None, k], tOrV[None, None, k, slot], tOtO)
        with cute.arch.elect_one():
            tcgen05.commit(barriers.pv_done + slot)

    @property
    def p_per_column(self) -> int:
        """Elements of P in one TMEM column, by which a pointer to P counts."""
        return self.acc_dtype.width // self.dtype.width

    def p_operand(self, pv_mma: cute.TiledMma, tStS: cute.Tensor, sP: Any, sP_layout: Any) -> cute.Tensor:
        """The PV MMA's A operand: a descriptor of sP, or P's TMEM address for slot 0."""
        if self.config.p == "smem":
            return pv_mma.make_fragment_A(sP)[None, None, None, 0]
        tP = cute.make_tensor(tStS.iterator, sP_layout.outer)
        tOrP = pv_mma.make_fragment_A(tP)[None, None, None, 0]
        offset = {
            "p_offset_forgotten": 0,
            "p_offset_in_columns": self.config.tmem_p0_offset,
        }.get(self.config.fault, self.p_per_column * self.config.tmem_p0_offset)
        return cute.make_tensor(tOrP.iterator + offset, tOrP.layout)


def transposed(tensor: cute.Tensor) -> cute.Tensor:
    """The same memory with its first two modes exchanged."""
    return cute.make_tensor(tensor.iterator, cute.select(tensor.layout, mode=[1, 0, 2]))


def one_stage(layout: cute.ComposedLayout) -> cute.ComposedLayout:
    """An operand's layout without its stages."""
    return cute.select(layout, mode=[0, 1, 2])


def partition(atom: cute.CopyAtom, shared: cute.Tensor, tiles: cute.Tensor) -> tuple[cute.Tensor, cute.Tensor]:
    """Shared and global memory as one TMA load of the atom takes them: (bytes, stage) and (bytes, tile...)."""
    return cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(shared, 0, 3), cute.group_modes(tiles, 0, 3)
    )
