"""The P handoff on SM90: threads hold P as a wgmma accumulator, write it to shared memory, and wgmma reads it as A.

    S (global, f32) -> registers, as the QK MMA's accumulator -> P (dtype) -> sP (shared)
    sP, sV -> wgmma -> O (registers) -> sO (shared) -> O (global)

The twin of `p_handoff`: one CTA, 128 rows of P, the same K-major swizzled sP and the same descriptors, but 256 threads
(two warpgroups of 64 rows) own accumulator fragments instead of rows. V comes and O goes by TMA. The image of sP's
buffer, which was filled with NaN before, goes to global memory too, so that it can be compared byte by byte. The store
may be repeated, to be timed. The letters are `p_handoff`'s; `tSrP` is P in the layout of the QK MMA's accumulator.

Shared memory, at most: 16 KiB of base, 64 of P, 128 of V and 16 of O; O's columns pass through its buffer 32 at a time.
"""

from __future__ import annotations

import tempfile
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import const_expr, range_constexpr
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp
from cutlass.cute.runtime import make_ptr
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as sm90

from layoutlab.kernels.compiling import compiled_for
from layoutlab.kernels.p_handoff import DTYPES, Note, ignore, outer_of
from layoutlab.kernels.p_settings import ROWS
from layoutlab.kernels.p_settings_sm90 import THREADS, PSettings90

O_COLUMNS = 32  # of O that are in shared memory at a time: 128 bytes of a row
WATCHED_THREADS = (0, 1, 37, 128, 255)  # the threads whose partitions are noted with their numbers


class PHandoff90:
    """The kernel for one variant; `note(name=object, ...)` is called with its layouts while it is traced."""

    def __init__(self, settings: PSettings90, note: Note = ignore) -> None:
        self.settings = settings
        self.note = note
        self.dtype = DTYPES[settings.dtype]
        self.v_major = OperandMajorMode.MN if settings.element_bytes == 2 else OperandMajorMode.K

    @cute.jit
    def __call__(
        self, pS: cute.Pointer, pV: cute.Pointer, pO: cute.Pointer, pImage: cute.Pointer, rounds: cutlass.Int32
    ):
        """O = P V, P being S in dtype, stored `rounds` times: row-major S (128, kv) f32, V and O as `pointers` says."""
        kv, head_dim = self.settings.kv, self.settings.head_dim
        mS = cute.make_tensor(pS, cute.make_layout((ROWS, kv), stride=(kv, 1)))
        v_stride = (1, head_dim) if const_expr(self.v_major == OperandMajorMode.MN) else (kv, 1)
        mV = cute.make_tensor(pV, cute.make_layout((head_dim, kv), stride=v_stride))  # the MMA's B is (N, K)
        mO = cute.make_tensor(pO, cute.make_layout((ROWS, head_dim), stride=(head_dim, 1)))
        words = self.settings.buffer_bytes // 4
        mImage = cute.make_tensor(pImage, cute.make_layout(words))

        v_enum = LayoutEnum.COL_MAJOR if const_expr(self.v_major == OperandMajorMode.MN) else LayoutEnum.ROW_MAJOR
        tile = (ROWS, head_dim, kv)
        sP_layout = sm90.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, self.dtype, 1)
        sV_layout = sm90.make_smem_layout_b(v_enum, tile, self.dtype, 1)
        sO_layout = sm90.make_smem_layout_epi(cutlass.Float32, LayoutEnum.ROW_MAJOR, (ROWS, O_COLUMNS), 1)
        load_v, tma_mV = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(), mV, cute.select(sV_layout, [0, 1]), (head_dim, kv)
        )
        store_o, tma_mO = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileS2GOp(), mO, cute.select(sO_layout, [0, 1]), (ROWS, O_COLUMNS)
        )
        self.kernel(mS, load_v, tma_mV, store_o, tma_mO, mImage, sP_layout, sV_layout, sO_layout, rounds).launch(
            grid=(1, 1, 1), block=(THREADS, 1, 1)
        )

    @cute.kernel
    def kernel(
        self,
        mS: cute.Tensor,
        load_v: cute.CopyAtom,
        mV: cute.Tensor,
        store_o: cute.CopyAtom,
        mO: cute.Tensor,
        mImage: cute.Tensor,
        sP_layout: cute.ComposedLayout,
        sV_layout: cute.ComposedLayout,
        sO_layout: cute.ComposedLayout,
        rounds: cutlass.Int32,
    ):
        kv, head_dim = self.settings.kv, self.settings.head_dim
        tidx, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())

        qk_mma = self.make_mma(OperandMajorMode.K, kv)  # not issued: it says which elements of S a thread holds
        pv_mma = self.make_mma(self.v_major, head_dim)

        smem = SmemAllocator()
        p_buffer = smem.allocate(self.settings.buffer_bytes, 1024)
        sV = smem.allocate_tensor(self.dtype, sV_layout.outer, 1024, sV_layout.inner)
        sO = smem.allocate_tensor(cutlass.Float32, sO_layout.outer, 1024, sO_layout.inner)
        v_full = smem.allocate(cutlass.Int64, 8)
        sImage = cute.make_tensor(cute.recast_ptr(p_buffer, dtype=cutlass.Uint32), mImage.layout)

        p_start = p_buffer + self.settings.base
        sP = cute.make_tensor(cute.recast_ptr(p_start, sP_layout.inner, self.dtype), sP_layout.outer)
        sP_write = self.write_view(p_start, sP_layout)
        self.note(p_buffer=p_buffer, sP_layout=sP_layout, sP=sP, sP_write=sP_write)
        self.note(pv_mma=pv_mma, qk_mma=qk_mma, element_bits=self.dtype.width)

        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(v_full, 1)
        cute.arch.mbarrier_init_fence()
        for i in range(tidx, cute.size(sImage), THREADS, unroll=1):
            sImage[i] = cutlass.Uint32(0xFFFFFFFF)  # NaN in every type
        cute.arch.sync_threads()
        if warp == 0:
            self.fetch_v(load_v, mV, sV, v_full)

        tSgS = qk_mma.get_slice(tidx).partition_C(mS)
        tScS = qk_mma.get_slice(tidx).partition_C(cute.make_identity_tensor((ROWS, kv)))
        tSrP = cute.make_rmem_tensor(tSgS.shape, self.dtype)
        rS = cute.make_rmem_tensor(tSgS.shape, cutlass.Float32)
        cute.autovec_copy(tSgS, rS)
        tSrP.store(rS.load().to(self.dtype))
        self.note(tScS=tScS, tScS_threads=self.by_thread(qk_mma.get_slice, (ROWS, kv)), tSrP=tSrP)
        if const_expr(self.settings.store != "registers"):
            for _ in range(rounds, unroll=1):
                self.hand_over(tidx, tSrP, tScS, sP_write, qk_mma)
                # The tensor core reads shared memory through the async proxy: each writer shows it its own stores.
                cute.arch.fence_proxy("async.shared", space="cta")
                cute.arch.sync_threads()
        for i in range(tidx, cute.size(sImage), THREADS, unroll=1):
            mImage[i] = sImage[i]

        cute.arch.mbarrier_wait(v_full, 0)
        tOrO = cute.make_rmem_tensor(pv_mma.partition_shape_C((ROWS, head_dim)), cutlass.Float32)
        self.multiply(tidx, pv_mma, tSrP, sP, sV, tOrO)
        self.put_o(tidx, pv_mma, tOrO, sO, store_o, mO)

    def make_mma(self, b_major: OperandMajorMode, columns: int) -> cute.TiledMma:
        """Two warpgroups, one below the other, of a 64 x columns MMA of P's type, f32 accumulator, A K-major."""
        source = warpgroup.OperandSource
        return sm90.make_trivial_tiled_mma(
            self.dtype,
            self.dtype,
            OperandMajorMode.K,
            b_major,
            cutlass.Float32,
            (2, 1, 1),
            (64, columns),
            source.RMEM if self.settings.store == "registers" else source.SMEM,
        )

    def write_view(self, start: cute.Pointer, sP_layout: cute.ComposedLayout) -> cute.Tensor:
        """sP's one stage as a matrix (m, (k0,(k1,k2))), as the writer addresses it: swizzled as the settings say."""
        how = self.settings.write_swizzle
        plain = cute.recast_ptr(start, dtype=self.dtype)
        swizzle = sP_layout.inner
        outer = as_matrix(sP_layout.outer, self.settings)
        if how == "absolute":
            return cute.make_tensor(cute.recast_ptr(start, swizzle, self.dtype), outer)
        if how == "none":
            return cute.make_tensor(plain, outer)
        if how == "relative":  # the same bits of the byte offset, named in elements
            shift = self.settings.element_bytes.bit_length() - 1
            swizzle = cute.make_swizzle(swizzle.num_bits, swizzle.num_base - shift, swizzle.num_shift)
        return cute.make_tensor(plain, cute.make_composed_layout(swizzle, 0, outer))

    @cute.jit
    def fetch_v(self, load_v: cute.CopyAtom, mV: cute.Tensor, sV: cute.Tensor, v_full: cute.Pointer):
        """Starts the TMA load of all of V."""
        tVsV, tVgV = cpasync.tma_partition(
            load_v, 0, cute.make_layout(1), cute.group_modes(sV, 0, 2), cute.group_modes(mV, 0, 2)
        )
        self.note(tVsV=tVsV, tVgV=tVgV)
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(v_full, cute.size_in_bytes(self.dtype, outer_of(sV)))
        cute.copy(load_v, tVgV, tVsV[None, 0], tma_bar_ptr=v_full)

    @cute.jit
    def hand_over(
        self,
        tidx: cutlass.Int32,
        tSrP: cute.Tensor,
        tScS: cute.Tensor,
        sP_write: cute.Tensor,
        qk_mma: cute.TiledMma,
    ):
        """Writes P to shared memory by the settings' route."""
        if const_expr(self.settings.store == "coordinate"):
            k_shape = sP_write.shape[1]
            for v in range_constexpr(cute.size(tSrP)):
                m, k = tScS[v]
                sP_write[m, cute.idx2crd(k, k_shape)] = tSrP[v]
        else:
            self.store_by_copy(tidx, tSrP, sP_write, qk_mma)

    @cute.jit
    def store_by_copy(self, tidx: cutlass.Int32, tSrP: cute.Tensor, sP_write: cute.Tensor, qk_mma: cute.TiledMma):
        """Copies registers to sP by a tiled copy."""
        tiled_store = self.make_store(outer_of(sP_write), qk_mma)
        thread_store = tiled_store.get_slice(tidx)
        identity = cute.make_identity_tensor((ROWS, self.settings.kv))
        self.note(
            tiled_store=tiled_store,
            tiled_store_tiler=tiled_store.tiler_mn,
            tiled_store_tv=tiled_store.layout_dst_tv_tiled,
            tRS_cP=self.by_thread(tiled_store.get_slice, identity.shape),
        )
        if const_expr(self.settings.store == "composition_raw"):
            # The DSL cannot partition a swizzled layout by this copy; its coordinates say the same places.
            tRS_cP = thread_store.partition_D(identity)
            k_shape = sP_write.shape[1]
            for v in range_constexpr(cute.size(tSrP)):
                m, k = tRS_cP[v]
                sP_write[m, cute.idx2crd(k, k_shape)] = tSrP[v]
        else:
            tRS_sP = thread_store.partition_D(sP_write)
            tRS_rP = cute.make_tensor(tSrP.iterator, cute.make_layout(tRS_sP.shape))
            self.note(tRS_sP=tRS_sP, tRS_rP=tRS_rP)
            cute.copy(tiled_store, tRS_rP, tRS_sP)

    def make_store(self, sP_matrix: cute.Layout, qk_mma: cute.TiledMma) -> cute.TiledCopy:
        """The register-to-shared copy of a route."""
        if self.settings.store == "stmatrix":
            return cute.make_tiled_copy_C(cute.make_copy_atom(StMatrix8x8x16bOp(False, 4), self.dtype), qk_mma)
        pair = 2 * self.dtype.width  # a fragment's neighbours along k
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=pair)
        if self.settings.store == "tiled_copy":
            return cute.make_tiled_copy_C(atom, qk_mma)
        p_coord = qk_mma.tv_layout_C_tiled
        offsets = cute.composition(sP_matrix, p_coord)  # (T,V) -> element offset in shared memory
        self.note(p_coord=p_coord, offsets=offsets)
        if self.settings.store == "composition_raw":  # takes coordinates of a tile, and is given offsets
            atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype)
            return cute.make_tiled_copy(atom, offsets, (ROWS, self.settings.kv))
        return cute.make_cotiled_copy(atom, offsets, sP_matrix)

    @cute.jit
    def multiply(
        self,
        tidx: cutlass.Int32,
        pv_mma: cute.TiledMma,
        tSrP: cute.Tensor,
        sP: cute.Tensor,
        sV: cute.Tensor,
        tOrO: cute.Tensor,
    ):
        """Issues the PV MMA, one instruction for each step along k."""
        # A warpgroup's descriptors start where its first thread's slice does.
        first = cute.arch.make_warp_uniform(tidx // 128) * 128
        thread_mma = pv_mma.get_slice(first)
        tOrV = pv_mma.make_fragment_B(thread_mma.partition_B(sV))
        if const_expr(self.settings.store == "registers"):
            tOrP = cute.make_tensor(tSrP.iterator, cute.make_layout(pv_mma.partition_shape_A((ROWS, self.settings.kv))))
        else:
            staged = pv_mma.make_fragment_A(thread_mma.partition_A(sP))
            tOrP = staged[None, None, None, 0]
        self.note(tOrP_layout=tOrP.layout, tOrV_layout=tOrV.layout)
        warpgroup.fence()
        for k in range_constexpr(cute.size(tOrP, mode=[2])):
            pv_mma.set(warpgroup.Field.ACCUMULATE, k != 0)
            cute.gemm(pv_mma, tOrO, tOrP[None, None, k], tOrV[None, None, k, 0], tOrO)
        warpgroup.commit_group()
        warpgroup.wait_group(0)

    @cute.jit
    def put_o(
        self,
        tidx: cutlass.Int32,
        pv_mma: cute.TiledMma,
        tOrO: cute.Tensor,
        sO: cute.Tensor,
        store_o: cute.CopyAtom,
        mO: cute.Tensor,
    ):
        """Brings O to global memory, 32 columns at a time: registers, shared memory, TMA store."""
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        gO = cute.zipped_divide(mO, (ROWS, O_COLUMNS))
        tOsO, tOgO = cpasync.tma_partition(store_o, 0, cute.make_layout(1), cute.group_modes(sO, 0, 2), gO)
        tOcO = pv_mma.get_slice(tidx).partition_C(cute.make_identity_tensor((ROWS, self.settings.head_dim)))
        self.note(tOsO=tOsO, tOgO=tOgO)
        steps = self.settings.head_dim // O_COLUMNS
        count = cute.size(tOcO) // steps  # a fragment's values go along n, eight columns to the next
        for step in range_constexpr(steps):
            for v in range_constexpr(count * step, count * (step + 1)):
                m, n = tOcO[v]
                sO[m, n - O_COLUMNS * step, 0] = tOrO[v]
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.sync_threads()
            if warp == 0:
                with cute.arch.elect_one():
                    cute.copy(store_o, tOsO[None, 0], tOgO[None, step])
                    cute.arch.cp_async_bulk_commit_group()
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.sync_threads()

    def by_thread(self, get_slice: Any, shape: Any) -> list[cute.Tensor]:
        """The coordinates of the watched threads."""
        identity = cute.make_identity_tensor(shape)
        slices = [get_slice(thread) for thread in WATCHED_THREADS]
        return [s.partition_D(identity) if hasattr(s, "partition_D") else s.partition_C(identity) for s in slices]


def compile_kernel(settings: PSettings90, note: Note = ignore, options: str = "") -> Any:
    """Compiles one variant for sm_90a, without a GPU; the result keeps its PTX and cubin in `compiled.artifacts`.

    `options` are further options of `cute.compile`. Under CUTE_DSL_DRYRUN=1 it is None, as with `p_handoff`.
    """
    with tempfile.TemporaryDirectory() as folder, compiled_for("sm_90a"):  # what the DSL keeps, it writes to files too
        options = f"--gpu-arch=sm_90a --keep-ptx --keep-cubin --dump-dir={folder} {options}"
        return cute.compile(PHandoff90(settings, note), *pointers(settings, 0, 0, 0, 0), 1, options=options)


def pointers(settings: PSettings90, S: int, V: int, O: int, image: int) -> tuple[Any, ...]:  # noqa: E741
    """The kernel's pointers from four addresses, 16-byte aligned; the count of rounds follows them in a call.

    S is (128, kv) float32, V `settings.v_shape` of the settings' type, O (128, head_dim) float32, all row-major; the
    image is `settings.buffer_bytes` long.
    """
    kinds = (cutlass.Float32, DTYPES[settings.dtype], cutlass.Float32, cutlass.Uint32)
    return tuple(
        make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=16)
        for kind, address in zip(kinds, (S, V, O, image), strict=True)
    )


def as_matrix(operand: cute.Layout, settings: PSettings90) -> cute.Layout:
    """One stage of sP, ((8,M/8),(atom,K/atom),1), as the matrix (M,(k0,(k1,k2))); K2 before K1 for k_order 021.

    k0 is the K of one instruction, k1 the instructions in a swizzle atom's row, k2 the atoms.
    """
    k0 = 32 // settings.element_bytes
    atom = min(128 // settings.element_bytes, settings.kv)
    k1, k2 = atom // k0, settings.kv // atom
    matrix = cute.select(operand, [0, 1])
    rest = cute.make_layout((k1, k2), stride=(ROWS * k0, ROWS * atom))
    if settings.k_order == "021":
        rest = cute.select(rest, [1, 0])
    rows, inner = cute.make_layout(ROWS), cute.make_layout(k0, stride=ROWS)
    parts = [cute.composition(matrix, part) for part in (rows, inner, rest)]
    shapes, strides = [part.shape for part in parts], [part.stride for part in parts]
    return cute.make_layout((shapes[0], (shapes[1], shapes[2])), stride=(strides[0], (strides[1], strides[2])))
