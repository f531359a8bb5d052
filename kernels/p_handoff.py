"""The P handoff: softmax threads write P to shared memory, the PV MMA reads it as its A operand (SM100, one CTA).

    S (global, f32) -> registers -> TMEM -> registers -> P (dtype) -> sP (shared)
    sP, sV -> tcgen05.mma -> O (TMEM) -> registers -> global

Everything around the hand-over is as small as it can be: one tile, one CTA, no softmax (the S that comes in is the P
that is meant, in f32), V copied by the same threads. The hand-over itself is whole: TMEM load, conversion, a store by
one of five routes, proxy fence, barrier, and the descriptors that `make_fragment_A` builds. Names follow CuTe's habit:
`mS` is a global tensor, `sP` shared, `tStS` TMEM, `rP` registers; `tTMEM_LOADcS` is the coordinate tensor partitioned
by the TMEM load, `tRS_sP` is sP partitioned by the register-to-shared copy.

Shared memory: P takes at most 128 x 256 x 2 = 64 KiB and V 256 x 256 x 2 = 128 KiB, so both fit whole in the 227 KiB of
an SM100 CTA. TMEM: kv columns of S and head_dim of O, at most all 512.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import const_expr, range_constexpr
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.cute.runtime import make_ptr
from cutlass.experimental.primitives import tcgen05_fence
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers as sm100

from layoutlab.kernels.compiling import compiled_for
from layoutlab.kernels.p_settings import ROWS, PSettings

DTYPES = {
    "bf16": cutlass.BFloat16,
    "f16": cutlass.Float16,
    "e4m3": cutlass.Float8E4M3FN,
    "e5m2": cutlass.Float8E5M2,
}
REPETITIONS = {"x16": tcgen05.Repetition.x16, "x32": tcgen05.Repetition.x32, "x64": tcgen05.Repetition.x64}
VECTOR_BYTES = 16
WATCHED_THREADS = (0, 1, 37, 64, 127)  # the rows whose partitions are noted with their numbers

Note = Callable[..., None]


def ignore(**named: object) -> None:
    """Takes the layouts of a compile that nobody watches."""


class PHandoff:
    """The kernel for one variant; `note(name=object, ...)` is called with its layouts while it is traced."""

    def __init__(self, settings: PSettings, note: Note = ignore) -> None:
        self.settings = settings
        self.note = note
        self.dtype = DTYPES[settings.dtype]
        self.tmem_columns = max(32, 1 << (settings.kv + settings.head_dim - 1).bit_length())

    @cute.jit
    def __call__(self, pS: cute.Pointer, pV: cute.Pointer, pO: cute.Pointer, pImage: cute.Pointer | None):
        """O = P V, P being S in dtype: row-major S (128, kv) f32, V (kv, head_dim) dtype, O (128, head_dim) f32.

        The image, where it is wanted, is what sP's buffer held when the MMA had read it: NaN where nothing was put.
        """
        kv, head_dim = self.settings.kv, self.settings.head_dim
        mS = cute.make_tensor(pS, cute.make_layout((ROWS, kv), stride=(kv, 1)))
        mV = cute.make_tensor(pV, cute.make_layout((head_dim, kv), stride=(1, head_dim)))  # the MMA's B is (N, K)
        mO = cute.make_tensor(pO, cute.make_layout((ROWS, head_dim), stride=(head_dim, 1)))
        mImage = None
        if const_expr(pImage is not None):
            mImage = cute.make_tensor(pImage, cute.make_layout(self.settings.buffer_bytes // 4))
        self.kernel(mS, mV, mO, mImage).launch(grid=(1, 1, 1), block=(self.settings.threads, 1, 1))

    @cute.kernel
    def kernel(self, mS: cute.Tensor, mV: cute.Tensor, mO: cute.Tensor, mImage: cute.Tensor | None):
        kv, head_dim = self.settings.kv, self.settings.head_dim
        tidx, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        row = tidx - 32 * self.settings.first_warp  # the softmax thread: row of S, P and O

        qk_mma = self.make_mma(OperandMajorMode.K, kv)  # not issued: it says where S lies in TMEM
        pv_mma = self.make_mma(OperandMajorMode.MN, head_dim)
        sP_layout = sm100.make_smem_layout_a(pv_mma, (ROWS, head_dim, kv), self.dtype, 1)
        sV_layout = sm100.make_smem_layout_b(pv_mma, (ROWS, head_dim, kv), self.dtype, 1)

        smem = SmemAllocator()
        p_buffer = smem.allocate(self.settings.buffer_bytes, 1024)
        sV = smem.allocate_tensor(self.dtype, sV_layout.outer, 1024, sV_layout.inner)
        mma_done = smem.allocate(cutlass.Int64, 8)
        tmem_holder = smem.allocate(cutlass.Int32, 8)

        p_start = p_buffer + self.settings.base
        sP = cute.make_tensor(cute.recast_ptr(p_start, sP_layout.inner, self.dtype), sP_layout.outer)
        sP_write = self.write_view(p_start, sP_layout)
        self.note(p_buffer=p_buffer, sP_layout=sP_layout, sP=sP, sP_write=sP_write)
        self.note(pv_mma=pv_mma, element_bits=self.dtype.width)

        if warp == 0:
            cute.arch.alloc_tmem(self.tmem_columns, tmem_holder)
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(mma_done, 1)
        cute.arch.mbarrier_init_fence()
        if const_expr(mImage is not None):
            sImage = cute.make_tensor(cute.recast_ptr(p_buffer, dtype=cutlass.Uint32), mImage.layout)
            for i in range(tidx, cute.size(sImage), self.settings.threads, unroll=1):
                sImage[i] = cutlass.Uint32(0xFFFFFFFF)  # NaN in every type
        cute.arch.sync_threads()
        tmem = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, tmem_holder)
        tStS = cute.make_tensor(tmem, qk_mma.make_fragment_C(qk_mma.partition_shape_C((ROWS, kv))).layout)
        tOtO = cute.make_tensor(tmem + kv, pv_mma.make_fragment_C(pv_mma.partition_shape_C((ROWS, head_dim))).layout)

        tSgS = qk_mma.get_slice(0).partition_C(mS)  # ((128,kv),1,1), as the accumulator is
        tScS = qk_mma.get_slice(0).partition_C(cute.make_identity_tensor((ROWS, kv)))
        tOgO = pv_mma.get_slice(0).partition_C(mO)

        if row >= 0:
            self.copy_v(row, mV, sV)
            self.put_s(row, tSgS, tStS)
            self.hand_over(row, tStS, tScS, sP_write, pv_mma)
            # The tensor core reads shared memory through the async proxy: each writer shows it its own stores.
            cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()

        if warp == 0:
            self.multiply(pv_mma, sP, sV, tOtO)
            with cute.arch.elect_one():
                tcgen05.commit(mma_done)
        if row >= 0:
            cute.arch.mbarrier_wait(mma_done, 0)
            tcgen05_fence("after_thread_sync")
            self.take_o(row, tOtO, tOgO)
            if const_expr(mImage is not None):
                for i in range(row, cute.size(mImage), ROWS, unroll=1):
                    mImage[i] = sImage[i]
        cute.arch.sync_threads()
        if warp == 0:
            cute.arch.relinquish_tmem_alloc_permit()
            cute.arch.dealloc_tmem(tmem, self.tmem_columns)

    def make_mma(self, b_major: OperandMajorMode, columns: int) -> cute.TiledMma:
        """A 128 x columns MMA of P's type, f32 accumulator, A K-major."""
        return sm100.make_trivial_tiled_mma(
            self.dtype,
            self.dtype,
            OperandMajorMode.K,
            b_major,
            cutlass.Float32,
            tcgen05.CtaGroup.ONE,
            (ROWS, columns),
        )

    def write_view(self, start: cute.Pointer, sP_layout: cute.ComposedLayout) -> cute.Tensor:
        """sP as the writer addresses it: swizzled as `write_swizzle` says."""
        how = self.settings.write_swizzle
        plain = cute.recast_ptr(start, dtype=self.dtype)
        swizzle, outer = sP_layout.inner, sP_layout.outer
        if how == "absolute":
            return cute.make_tensor(cute.recast_ptr(start, swizzle, self.dtype), outer)
        if how == "none":
            return cute.make_tensor(plain, outer)
        if how == "relative":  # the same bits of the byte offset, named in elements
            shift = self.settings.element_bytes.bit_length() - 1
            swizzle = cute.make_swizzle(swizzle.num_bits, swizzle.num_base - shift, swizzle.num_shift)
        return cute.make_tensor(plain, cute.make_composed_layout(swizzle, 0, outer))

    @cute.jit
    def copy_v(self, row: cutlass.Int32, mV: cute.Tensor, sV: cute.Tensor):
        """Brings V to sV, 16 bytes along head_dim at a time."""
        width = VECTOR_BYTES // self.settings.element_bytes
        chunks = self.settings.head_dim // width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=8 * VECTOR_BYTES)
        threads = cute.make_layout((chunks, ROWS // chunks))
        thread_copy = cute.make_tiled_copy_tv(atom, threads, cute.make_layout((width, 1))).get_slice(row)
        tVgV = thread_copy.partition_S(mV)
        tVsV = thread_copy.partition_D(cute.make_tensor(sV.iterator, as_matrix(sV.layout)))
        cute.copy(atom, tVgV, tVsV)

    @cute.jit
    def put_s(self, row: cutlass.Int32, tSgS: cute.Tensor, tStS: cute.Tensor):
        """Puts each thread's row of S into its TMEM lane, as the QK MMA would have left it."""
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(REPETITIONS[self.settings.load]), cutlass.Float32)
        thread_copy = tcgen05.make_tmem_copy(atom, tStS).get_slice(row)
        tTMEM_STtS = thread_copy.partition_D(tStS)
        tTMEM_STgS = thread_copy.partition_S(tSgS)
        for i in range_constexpr(cute.size(tTMEM_STtS, mode=[1])):
            rS = cute.make_rmem_tensor(tTMEM_STgS[None, i, None, None].shape, cutlass.Float32)
            cute.autovec_copy(tTMEM_STgS[None, i, None, None], rS)
            cute.copy(atom, rS, tTMEM_STtS[None, i, None, None])
        cute.arch.fence_view_async_tmem_store()

    @cute.jit
    def hand_over(
        self,
        row: cutlass.Int32,
        tStS: cute.Tensor,
        tScS: cute.Tensor,
        sP_write: cute.Tensor,
        pv_mma: cute.TiledMma,
    ):
        """Takes S from TMEM, makes P of it and writes P to shared memory."""
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(REPETITIONS[self.settings.load]), cutlass.Float32)
        tmem_load = tcgen05.make_tmem_copy(atom, tStS)
        thread_load = tmem_load.get_slice(row)
        tTMEM_LOADtS = thread_load.partition_S(tStS)
        tTMEM_LOADcS = thread_load.partition_D(tScS)
        self.note(
            tmem_load=tmem_load,
            tmem_load_tiler=tmem_load.tiler_mn,
            tmem_load_tv=tmem_load.layout_dst_tv_tiled,
            tTMEM_LOADtS=tTMEM_LOADtS,
            tTMEM_LOADcS=tTMEM_LOADcS,
            tTMEM_LOADcS_threads=[tmem_load.get_slice(thread).partition_D(tScS) for thread in WATCHED_THREADS],
            tStS=tStS,
        )

        rP = cute.make_rmem_tensor(tTMEM_LOADcS.shape, self.dtype)
        for i in range_constexpr(cute.size(tTMEM_LOADtS, mode=[1])):
            rS = cute.make_rmem_tensor(tTMEM_LOADcS[None, i, None, None].shape, cutlass.Float32)
            cute.copy(atom, tTMEM_LOADtS[None, i, None, None], rS)
            cute.arch.fence_view_async_tmem_load()
            rP[None, i, None, None].store(rS.load().to(self.dtype))
        if const_expr(self.settings.store == "coordinate"):
            self.store_by_coordinate(rP, tTMEM_LOADcS, sP_write)
        else:
            self.store_by_copy(row, rP, tmem_load, sP_write, pv_mma)

    @cute.jit
    def store_by_coordinate(self, rP: cute.Tensor, tTMEM_LOADcS: cute.Tensor, sP_write: cute.Tensor):
        """Assigns each element at its coordinate, k taken apart as the layout has it."""
        k0_size, k_rest = sP_write.shape[0][1], sP_write.shape[2]
        if const_expr(self.settings.k_order == "021"):
            k_rest = k_rest[::-1]
        stored = []  # where each value goes, the row left out
        for v in range_constexpr(cute.size(rP)):
            m, k = tTMEM_LOADcS[v]
            k0, rest = cute.idx2crd(k, (k0_size, k_rest))
            if const_expr(self.settings.k_order == "021"):
                rest = rest[::-1]
            sP_write[(m, k0), 0, rest, 0] = rP[v]
            stored.append((k0, 0, rest, 0))
        self.note(stored=stored)

    @cute.jit
    def store_by_copy(
        self,
        row: cutlass.Int32,
        rP: cute.Tensor,
        tmem_load: cute.TiledCopy,
        sP_write: cute.Tensor,
        pv_mma: cute.TiledMma,
    ):
        """Copies registers to sP, seen as a matrix, by a tiled copy."""
        sP_matrix = with_outer(sP_write, as_matrix(outer_of(sP_write), self.settings.k_order))
        coordinates = cute.make_identity_tensor((ROWS, self.settings.kv))
        if const_expr(self.settings.store == "tiled_copy_d"):
            sP_matrix = with_outer(sP_matrix, as_accumulator(outer_of(sP_matrix)))
            coordinates = with_outer(coordinates, as_accumulator(coordinates.layout))
        tiled_store = self.make_store(tmem_load, outer_of(sP_matrix), pv_mma)
        thread_store = tiled_store.get_slice(row)
        self.note(
            tiled_store=tiled_store,
            tiled_store_tiler=tiled_store.tiler_mn,
            tiled_store_tv=tiled_store.layout_dst_tv_tiled,
            sP_matrix=sP_matrix,
            tRS_cP=[tiled_store.get_slice(thread).partition_D(coordinates) for thread in WATCHED_THREADS],
        )
        if const_expr(self.settings.store == "composition_raw" and isinstance(sP_matrix.layout, cute.ComposedLayout)):
            # The DSL cannot partition a swizzled layout by this copy; its coordinates say the same places.
            tRS_cP = thread_store.partition_D(coordinates)
            for v in range_constexpr(cute.size(rP)):
                sP_matrix[tRS_cP[v]] = rP[v]
        elif const_expr(self.settings.store == "tiled_copy_c"):
            # The copy has one thread and a whole tile of values: storing all of them from all threads takes minutes to
            # compile. A thread holds kv values, so it stores those, at the first kv of the places that it claims.
            tRS_sP = thread_store.partition_D(sP_matrix)
            self.note(tRS_sP=tRS_sP)
            for v in range_constexpr(cute.size(rP)):
                tRS_sP[v] = rP[v]
        else:
            tRS_sP = thread_store.partition_D(sP_matrix)
            tRS_rP = cute.make_tensor(rP.iterator, cute.make_layout(tRS_sP.shape))
            self.note(tRS_sP=tRS_sP, tRS_rP=tRS_rP)
            cute.copy(tiled_store, tRS_rP, tRS_sP)

    def make_store(self, tmem_load: cute.TiledCopy, sP_matrix: cute.Layout, pv_mma: cute.TiledMma) -> cute.TiledCopy:
        """The register-to-shared copy of a route."""
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype)
        if self.settings.store == "tiled_copy_d":
            paired = sm100.get_smem_store_op(LayoutEnum.ROW_MAJOR, self.dtype, cutlass.Float32, tmem_load)
            return cute.make_tiled_copy_D(paired, tmem_load)
        if self.settings.store == "tiled_copy_c":
            return cute.make_tiled_copy_C(atom, pv_mma)
        p_coord = owner_layout(tmem_load, ROWS * self.settings.kv)
        offsets = cute.composition(sP_matrix, p_coord)  # (T,V) -> element offset in shared memory
        self.note(p_coord=p_coord, offsets=offsets)
        if self.settings.store == "composition_raw":  # takes coordinates of a tile, and is given offsets
            return cute.make_tiled_copy(atom, offsets, (ROWS, self.settings.kv))
        return cute.make_cotiled_copy(atom, offsets, sP_matrix)

    @cute.jit
    def multiply(self, pv_mma: cute.TiledMma, sP: cute.Tensor, sV: cute.Tensor, tOtO: cute.Tensor):
        """Issues the PV MMA, one instruction for each step along k."""
        tOrP = pv_mma.make_fragment_A(sP)
        tOrV = pv_mma.make_fragment_B(sV)
        self.note(tOrP_layout=tOrP.layout, tOrV_layout=tOrV.layout, tOtO=tOtO)
        for k in range_constexpr(cute.size(tOrP, mode=[2])):
            pv_mma.set(tcgen05.Field.ACCUMULATE, k != 0)
            cute.gemm(pv_mma, tOtO, tOrP[None, None, k, 0], tOrV[None, None, k, 0], tOtO)

    @cute.jit
    def take_o(self, row: cutlass.Int32, tOtO: cute.Tensor, tOgO: cute.Tensor):
        """Brings each thread's row of O from TMEM to global memory."""
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32)
        thread_load = tcgen05.make_tmem_copy(atom, tOtO).get_slice(row)
        tTMEM_LOADtO = thread_load.partition_S(tOtO)
        tTMEM_LOADgO = thread_load.partition_D(tOgO)
        for i in range_constexpr(cute.size(tTMEM_LOADtO, mode=[1])):
            rO = cute.make_rmem_tensor(tTMEM_LOADgO[None, i, None, None].shape, cutlass.Float32)
            cute.copy(atom, tTMEM_LOADtO[None, i, None, None], rO)
            cute.arch.fence_view_async_tmem_load()
            cute.autovec_copy(rO, tTMEM_LOADgO[None, i, None, None])


def compile_kernel(settings: PSettings, note: Note = ignore, arch: str = "sm_100a", image: bool = False) -> Any:
    """Compiles one variant, without a GPU; the result keeps its PTX and cubin in `compiled.artifacts`.

    The compiled object takes pointers in the order S, V, O, and with `image=True` the image: see `pointers`. Under
    CUTE_DSL_DRYRUN=1 it is None: only `note` hears anything.
    """
    with tempfile.TemporaryDirectory() as folder, compiled_for(arch):  # what the DSL keeps, it writes to files too
        options = f"--gpu-arch={arch} --keep-ptx --keep-cubin --dump-dir={folder}"
        where = pointers(settings, 0, 0, 0, 0 if image else None)
        return cute.compile(PHandoff(settings, note), *where, options=options)


def pointers(settings: PSettings, S: int, V: int, O: int, image: int | None = None) -> tuple[Any, ...]:  # noqa: E741
    """The kernel's arguments from addresses, 16-byte aligned (`array.ctypes.data` of numpy arrays, for a replay).

    S is (128, kv) float32, V (kv, head_dim) of the settings' type, O (128, head_dim) float32, all row-major; the image
    is `settings.buffer_bytes` long, and None of a kernel that was compiled without. Where
    numpy lacks the type, V is an ml_dtypes array or its bits as uint16 or uint8.
    """
    kinds = (cutlass.Float32, DTYPES[settings.dtype], cutlass.Float32, cutlass.Uint32)
    return tuple(
        None if address is None else make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=16)
        for kind, address in zip(kinds, (S, V, O, image), strict=True)
    )


def as_matrix(operand: cute.Layout, k_order: str = "012") -> cute.Layout:
    """One stage of an MMA operand's layout ((MN,K0),1,(K1,K2),1) as the matrix (MN,(K0,(K1,K2))); K2 first for 021."""
    k_shape, k_stride = operand.shape[2], operand.stride[2]
    if k_order == "021":
        k_shape, k_stride = k_shape[::-1], k_stride[::-1]
    return cute.make_layout(
        (operand.shape[0][0], (operand.shape[0][1], k_shape)),
        stride=(operand.stride[0][0], (operand.stride[0][1], k_stride)),
    )


def as_accumulator(matrix: cute.Layout) -> cute.Layout:
    """A matrix (M,N) in the profile ((M,N),1,1) of an MMA's accumulator, which a TMEM load's tiler divides."""
    return cute.make_layout((matrix.shape, 1, 1), stride=(matrix.stride, 0, 0))


def owner_layout(tmem_load: cute.TiledCopy, size: int) -> cute.Layout:
    """Which element a thread's register holds after the TMEM load: (T,V) -> m + 128 k, over all its repetitions."""
    tiler = tmem_load.tiler_mn[0]
    one = cute.composition(tiler, tmem_load.layout_dst_tv_tiled)
    repeat = cute.complement(tiler, size)
    return cute.make_layout(
        (one.shape[0], (one.shape[1], repeat.shape)), stride=(one.stride[0], (one.stride[1], repeat.stride))
    )


def outer_of(tensor: cute.Tensor) -> cute.Layout:
    """A tensor's layout without the swizzle that may lie in it."""
    return tensor.layout.outer if isinstance(tensor.layout, cute.ComposedLayout) else tensor.layout


def with_outer(tensor: cute.Tensor, outer: cute.Layout) -> cute.Tensor:
    """The same memory and swizzle under another outer layout."""
    layout = tensor.layout
    if isinstance(layout, cute.ComposedLayout):
        outer = cute.make_composed_layout(layout.inner, layout.offset, outer)
    return cute.make_tensor(tensor.iterator, outer)
