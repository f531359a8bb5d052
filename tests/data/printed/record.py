"""Records what CuTe DSL prints: `python record.py` writes one .txt a thing, and index.json, beside this file.

The parser's tests read these texts. Each is `str(object)`, byte for byte, taken while a function is traced (no GPU);
index.json says for each what class it was, how it was made, and which DSL version printed it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ["CUTE_DSL_ARCH"] = "sm_100a"
os.environ["CUTE_DSL_DRYRUN"] = "1"

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05, warp
from cutlass.cute.runtime import make_fake_tensor, make_ptr
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers as sm100

HERE = Path(__file__).parent
INDEX: dict[str, dict[str, str]] = {}


def record(name: str, thing: object, how: str) -> None:
    """Writes one printed thing."""
    (HERE / f"{name}.txt").write_text(str(thing))
    INDEX[name] = {"class": type(thing).__name__, "how": how, "dsl_version": cutlass.__version__}


@cute.jit
def host(mA: cute.Tensor, mB: cute.Tensor, pC: cute.Pointer, n: cutlass.Int32):
    record(
        "layout_static", cute.make_layout((4, (2, 3)), stride=(3, (1, 12))), "make_layout((4,(2,3)), stride=(3,(1,12)))"
    )
    record("layout_one_mode", cute.make_layout(8), "make_layout(8)")
    record("layout_rank_one", cute.make_layout((8,), stride=(2,)), "make_layout((8,), stride=(2,))")
    record("layout_stride_zero", cute.make_layout((32, 4), stride=(0, 1)), "make_layout((32,4), stride=(0,1))")
    record("layout_dynamic_shape", cute.make_layout((n, 4)), "make_layout((n,4)), n an Int32")
    record(
        "layout_dynamic_stride", cute.make_layout((8, 4), stride=(n, 1)), "make_layout((8,4), stride=(n,1)), n an Int32"
    )
    record(
        "layout_dynamic_divisible",
        cute.make_layout((8, 4), stride=(cute.assume(n, divby=8), 1)),
        "make_layout((8,4), stride=(assume(n, divby=8),1))",
    )
    record("layout_identity", cute.make_identity_layout((128, 64)), "make_identity_layout((128,64))")
    record(
        "layout_basis",
        cute.make_layout((4, (2, 3)), stride=(cute.E(1), (16 * cute.E(0), 32 * cute.E([1, 0])))),
        "make_layout((4,(2,3)), stride=(E(1),(16*E(0),32*E([1,0]))))",
    )
    record("swizzle", cute.make_swizzle(3, 4, 3), "make_swizzle(3,4,3)")
    composed = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, cute.make_layout((8, 64), stride=(64, 1)))
    record("composed_swizzle", composed, "make_composed_layout(make_swizzle(3,4,3), 0, (8,64):(64,1))")
    record(
        "composed_offset",
        cute.make_composed_layout(cute.make_swizzle(2, 4, 3), 96, cute.make_layout((8, 32), stride=(32, 1))),
        "make_composed_layout(make_swizzle(2,4,3), 96, (8,32):(32,1))",
    )
    record(
        "composed_identity",
        cute.make_composed_layout(cute.make_layout((4, 2), stride=(2, 1)), (0, 0), cute.make_identity_layout((4, 2))),
        "make_composed_layout((4,2):(2,1), (0,0), make_identity_layout((4,2)))",
    )
    record("shape_nested", (4, (2, 3)), "a Python tuple, for comparison")
    record("identity_tensor", cute.make_identity_tensor((128, 64)), "make_identity_tensor((128,64))")
    record(
        "identity_tensor_tile",
        cute.local_tile(cute.make_identity_tensor((256, 128)), (128, 64), (1, 1)),
        "local_tile(make_identity_tensor((256,128)), (128,64), (1,1))",
    )
    record(
        "identity_tensor_dynamic_tile",
        cute.local_tile(cute.make_identity_tensor((n, 128)), (128, 64), (n, 1)),
        "local_tile(make_identity_tensor((n,128)), (128,64), (n,1))",
    )
    record("gmem_tensor_dynamic", mA, "argument: make_fake_tensor(BFloat16, (sym, 128), stride=(128, 1), align 16)")
    record(
        "gmem_tensor_symbols",
        mB,
        "argument: make_fake_tensor(Float32, (sym div 8, sym), (sym64 div 8, 1))",
    )
    record("gmem_tensor_tile", cute.local_tile(mA, (128, 64), (0, 1)), "local_tile(mA, (128,64), (0,1))")
    record("gmem_tensor_zipped", cute.zipped_divide(mA, (128, 64)), "zipped_divide(mA, (128,64))")
    record("gmem_pointer", pC, "kernel argument: make_ptr(Float16, gmem, assumed_align=16)")
    record(
        "gmem_tensor_static",
        cute.make_tensor(pC, cute.make_layout((128, 64), stride=(64, 1))),
        "make_tensor(pC, (128,64):(64,1))",
    )
    universal = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
    record("copy_atom", universal, "make_copy_atom(CopyUniversalOp(), Float16, num_bits_per_copy=128)")
    tiled = cute.make_tiled_copy_tv(universal, cute.make_layout((16, 8), stride=(8, 1)), cute.make_layout((1, 8)))
    record("tiled_copy", tiled, "make_tiled_copy_tv(universal, (16,8):(8,1), (1,8))")
    record("tiled_copy_tv_dst", tiled.layout_dst_tv_tiled, "tiled_copy.layout_dst_tv_tiled")
    ldmatrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), cutlass.Float16)
    mma16816 = cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)), (2, 2, 1), permutation_mnk=(32, 32, 16)
    )
    record("tiled_mma_sm80", mma16816, "make_tiled_mma(MmaF16BF16Op((16,8,16)), (2,2,1), permutation_mnk=(32,32,16))")
    record("tiled_copy_ldmatrix", cute.make_tiled_copy_A(ldmatrix, mma16816), "make_tiled_copy_A(ldmatrix x4, the MMA)")
    permuted = cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)),
        (2, 2, 1),
        permutation_mnk=(32, cute.make_layout((8, 2, 2), stride=(1, 16, 8)), 16),
    )
    record("tiled_mma_permutation", permuted, "the same with N permuted by (8,2,2):(1,16,8)")
    kernel(mA, pC, n).launch(grid=(1, 1, 1), block=(128, 1, 1))


@cute.kernel
def kernel(mA: cute.Tensor, pC: cute.Pointer, n: cutlass.Int32):
    tidx, _, _ = cute.arch.thread_idx()
    bf16, f32 = cutlass.BFloat16, cutlass.Float32
    mma = sm100.make_trivial_tiled_mma(
        bf16, bf16, OperandMajorMode.K, OperandMajorMode.MN, f32, tcgen05.CtaGroup.ONE, (128, 128)
    )
    record("tiled_mma_sm100", mma, "make_trivial_tiled_mma(bf16, K-major, MN-major, f32, one CTA, (128,128))")
    two_cta = sm100.make_trivial_tiled_mma(
        bf16, bf16, OperandMajorMode.K, OperandMajorMode.K, f32, tcgen05.CtaGroup.TWO, (256, 128)
    )
    record("tiled_mma_sm100_two_cta", two_cta, "make_trivial_tiled_mma(bf16, K, K, f32, two CTAs, (256,128))")
    sA_layout = sm100.make_smem_layout_a(mma, (128, 128, 128), bf16, 2)
    sB_layout = sm100.make_smem_layout_b(mma, (128, 128, 128), bf16, 2)
    record("smem_layout_a", sA_layout, "make_smem_layout_a(mma, (128,128,128), bf16, 2 stages)")
    record("smem_layout_b", sB_layout, "make_smem_layout_b(mma, (128,128,128), bf16, 2 stages), MN-major")
    smem = SmemAllocator()
    sA = smem.allocate_tensor(bf16, sA_layout.outer, 1024, sA_layout.inner)
    sB = smem.allocate_tensor(bf16, sB_layout.outer, 1024, sB_layout.inner)
    plain = smem.allocate_tensor(f32, cute.make_layout((32, 33)), 16)
    record("smem_tensor_swizzled", sA, "allocate_tensor(bf16, that layout's outer, 1024, its swizzle)")
    record("smem_tensor_plain", plain, "allocate_tensor(f32, (32,33), 16)")
    record("smem_tensor_stage", sA[None, None, None, n], "sA[None,None,None,n], n dynamic")
    record("smem_tensor_slice", sA[(None, 0), 0, (None, 1), 1], "sA[(None,0),0,(None,1),1]")
    record("smem_pointer_swizzled", sA.iterator, "sA.iterator")
    record(
        "smem_tensor_composed",
        cute.make_tensor(
            plain.iterator,
            cute.make_composed_layout(cute.make_swizzle(3, 2, 3), 0, cute.make_layout((8, 32), stride=(32, 1))),
        ),
        "make_tensor(unswizzled pointer, S<3,2,3> o 0 o (8,32):(32,1))",
    )
    record("fragment_a", mma.make_fragment_A(sA), "mma.make_fragment_A(sA), a view of descriptors")
    record("fragment_b", mma.make_fragment_B(sB), "mma.make_fragment_B(sB), a view of descriptors")
    acc_shape = mma.partition_shape_C((128, 128))
    fake = mma.make_fragment_C(acc_shape)
    record("tmem_accumulator_layout", fake.layout, "mma.make_fragment_C(partition_shape_C((128,128))).layout")
    record("tmem_accumulator", fake, "mma.make_fragment_C(partition_shape_C((128,128)))")
    record(
        "tmem_accumulator_stages",
        mma.make_fragment_C(cute.append(acc_shape, 2)).layout,
        "mma.make_fragment_C(append(partition_shape_C((128,128)), 2)).layout",
    )
    load_atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), f32)
    load = tcgen05.make_tmem_copy(load_atom, fake)
    record("copy_atom_tmem_load", load_atom, "make_copy_atom(Ld32x32bOp(x32), f32)")
    record("tiled_copy_tmem_load", load, "make_tmem_copy(Ld32x32bOp(x32), accumulator)")
    record("tiled_copy_tmem_load_tv_dst", load.layout_dst_tv_tiled, "its layout_dst_tv_tiled")
    store = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition.x16), f32), fake)
    record("tiled_copy_tmem_store", store, "make_tmem_copy(St32x32bOp(x16), accumulator)")
    load_256 = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.Ld16x256bOp(tcgen05.Repetition.x4), f32), fake)
    record("tiled_copy_tmem_load_16x256b", load_256, "make_tmem_copy(Ld16x256bOp(x4), accumulator)")
    thread = load.get_slice(tidx)
    cS = mma.get_slice(0).partition_C(cute.make_identity_tensor((128, 128)))
    record("tmem_load_source", thread.partition_S(fake), "tmem_load.get_slice(tidx).partition_S(accumulator)")
    coordinates = thread.partition_D(cS)
    record("tmem_load_coordinates", coordinates, "tmem_load.get_slice(tidx).partition_D(partition_C(identity))")
    record("tmem_load_coordinates_slice", coordinates[None, 1, 0, 0], "that, [None,1,0,0]")
    record("tmem_load_coordinate", coordinates[5], "that, [5]: one coordinate")
    rS = cute.make_rmem_tensor(coordinates.shape, f32)
    record("rmem_tensor", rS, "make_rmem_tensor(coordinates.shape, f32)")
    record("rmem_tensor_slice", rS[None, 1, 0, 0], "that, [None,1,0,0]")
    record("rmem_vector", rS.load(), "that, .load()")
    op = sm100.get_smem_store_op(LayoutEnum.ROW_MAJOR, bf16, f32, load)
    record(
        "tiled_copy_store_d",
        cute.make_tiled_copy_D(op, load),
        "make_tiled_copy_D(get_smem_store_op(row-major, bf16, f32), load)",
    )
    record(
        "tiled_copy_store_c",
        cute.make_tiled_copy_C(cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), bf16), mma),
        "make_tiled_copy_C(CopyUniversalOp, that sm100 MMA)",
    )
    sP_2d = cute.make_layout((128, (16, (4, 2))), stride=(64, (1, (16, 8192))))
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), bf16)
    record(
        "tiled_copy_cotiled",
        cute.make_cotiled_copy(atom, cute.composition(sP_2d, cute.make_layout((128, 128))), sP_2d),
        "make_cotiled_copy(CopyUniversalOp, composition(sP_2d, (128,128)), sP_2d)",
    )
    record(
        "composition", cute.composition(sP_2d, cute.make_layout((128, 128))), "composition(sP_2d, (128,128):(1,128))"
    )
    record("tile_tuple", load.tiler_mn, "tmem_load.tiler_mn")


def main() -> None:
    n_rows, n_sym, n_stride = cute.sym_int(), cute.sym_int(divisibility=8), cute.sym_int64(divisibility=8)
    mA = make_fake_tensor(cutlass.BFloat16, (n_rows, 128), stride=(128, 1), assumed_align=16)
    mB = make_fake_tensor(cutlass.Float32, (n_sym, cute.sym_int()), stride=(n_stride, 1), assumed_align=16)
    pC = make_ptr(cutlass.Float16, 4096, cute.AddressSpace.gmem, assumed_align=16)
    cute.compile(host, mA, mB, pC, cutlass.Int32(5))
    (HERE / "index.json").write_text(json.dumps(INDEX, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
