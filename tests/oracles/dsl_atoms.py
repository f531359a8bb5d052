"""Prints what CuTe DSL says of its atoms, one JSON object a line; run in a process of its own, no GPU needed.

CUTE_DSL_ARCH=sm_100a CUTE_DSL_DRYRUN=1 python dsl_atoms.py GROUP
"""

import json
import re
import sys

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import tcgen05, warp, warpgroup
from cutlass.utils import blockscaled_layout

F16, BF16, F32, TF32 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32, cutlass.TFloat32
E4M3, E5M2, I8, U8, I32 = cutlass.Float8E4M3FN, cutlass.Float8E5M2, cutlass.Int8, cutlass.Uint8, cutlass.Int32
WIDTHS = {4: cutlass.Float4E2M1FN, 8: E4M3, 16: F16, 32: F32}


def say(kind, **facts):
    print(
        json.dumps({"kind": kind, **{k: v if isinstance(v, (int, list, dict)) else str(v) for k, v in facts.items()}})
    )


def tried(kind, name, facts, make, *args):
    """facts(make[0](*make[1:]), *args), or the DSL's own refusal."""
    try:
        say(kind, name=name, **facts(make[0](*make[1:]), *args))
    except Exception as error:  # the DSL refuses in many ways; each is printed, none is hidden
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
        say("refused", what=kind, name=name, why=why)


def copy_facts(op, dtype):
    atom = cute.make_copy_atom(op, dtype)
    return {"src": atom.layout_src_tv, "dst": atom.layout_dst_tv, "bits": dtype.width}


@cute.jit
def copies():
    for direction, packing in (("Ld", tcgen05.Pack), ("St", tcgen05.Unpack)):
        for shape in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"):
            for repeat in tcgen05.Repetition:
                for pack in packing:
                    packed = pack is not packing.NONE
                    name = f"{direction.lower()}.{shape}.x{repeat.value}{'.packed' if packed else ''}"
                    make = (getattr(tcgen05, f"{direction}{shape}Op"), repeat, pack)
                    for dtype in (F32, F16) if not packed else (F16,):
                        tried("tmem_copy", name, copy_facts, make, dtype)
    for x in (1, 2, 4):
        for trans in (False, True):
            name = f"x{x}{'.trans' if trans else ''}"
            tried("ldmatrix", name, copy_facts, (warp.LdMatrix8x8x16bOp, trans, x), F16)
            tried("stmatrix", name, copy_facts, (warp.StMatrix8x8x16bOp, trans, x), F16)
        tried("ldmatrix.m16n16", f"x{x}", copy_facts, (warp.LdMatrix16x16x8bOp, True, x), U8)
        tried("stmatrix.m16n8", f"x{x}", copy_facts, (warp.StMatrix16x8x8bOp, True, x), U8)
        for bits in (4, 6):
            make = (warp.LdMatrix8x16x8bOp, False, x, bits)
            tried("ldmatrix.m8n16", f"x{x}.u{bits}", copy_facts, make, U8)
    for op in ("Cp128x256bOp", "Cp128x128bOp", "Cp4x256bOp", "Cp4x32x128bOp", "Cp2x64x128b0213Op", "Cp2x64x128b0123Op"):
        for group in tcgen05.CtaGroup:
            tried("tmem_cp", f"{op}.{group.name}", copy_facts, (getattr(tcgen05, op), group), U8)


def mma_facts(op):
    mma = cute.make_mma_atom(op)
    return {"a": mma.tv_layout_A, "b": mma.tv_layout_B, "c": mma.tv_layout_C, "shape": mma.shape_mnk}


@cute.jit
def warp_mmas():
    for k in (8, 16):
        for ab, acc in ((F16, F32), (F16, F16), (BF16, F32)):
            name = f"m16n8k{k}.{ab.__name__}.{acc.__name__}"
            tried("mma", name, mma_facts, (warp.MmaF16BF16Op, ab, acc, (16, 8, k)))
    for k in (4, 8):
        tried("mma", f"m16n8k{k}.TFloat32", mma_facts, (warp.MmaTF32Op, (16, 8, k)))
    for ab in (E4M3, E5M2):
        tried("mma", f"m16n8k32.{ab.__name__}", mma_facts, (warp.MmaFP8Op, ab, F32, (16, 8, 32)))


@cute.jit
def wgmmas():
    K = cute.nvgpu.OperandMajorMode.K
    for n in (8, 16, 24, 40, 64, 96, 128, 192, 256):
        for source in warpgroup.OperandSource:
            for ab, acc in ((F16, F32), (F16, F16), (BF16, F32)):
                name = f"n{n}.{ab.__name__}.{acc.__name__}.{source.name}"
                tried("wgmma", name, mma_facts, (warpgroup.MmaF16BF16Op, ab, acc, (64, n, 16), source, K, K))
            make = (warpgroup.MmaF8Op, E4M3, E4M3, F32, (64, n, 32), source, K, K)
            tried("wgmma", f"n{n}.E4M3.{source.name}", mma_facts, make)
            make = (warpgroup.MmaI8Op, I8, I8, I32, (64, n, 32), source, K, K)
            tried("wgmma", f"n{n}.I8.{source.name}", mma_facts, make)


@cute.jit
def layouts_a():
    from cutlass.utils import blackwell_helpers

    K, ONE = cute.nvgpu.OperandMajorMode.K, tcgen05.CtaGroup.ONE
    for name, dtype in (("bf16", BF16), ("f16", F16), ("e4m3", E4M3), ("e5m2", E5M2)):
        for kv in (64, 128, 256):
            mma = blackwell_helpers.make_trivial_tiled_mma(dtype, dtype, K, K, F32, ONE, (128, 64))
            layout = blackwell_helpers.make_smem_layout_a(mma, (128, 64, kv), dtype, 1)
            say("layout_a", dtype=name, kv=kv, swizzle=layout.inner, outer=layout.outer)


@cute.jit
def operands():
    """Shared-memory layouts of Q, K, V and of an epilogue's sub-tiles, as the helpers make them."""
    from cutlass.tensor_utils import LayoutEnum
    from cutlass.utils import blackwell_helpers as sm100

    K, MN, ONE = cute.nvgpu.OperandMajorMode.K, cute.nvgpu.OperandMajorMode.MN, tcgen05.CtaGroup.ONE
    for dtype in (BF16, E4M3):
        for head_dim in (64, 128, 256):
            for kv in (64, 128):
                qk = sm100.make_trivial_tiled_mma(dtype, dtype, K, K, F32, ONE, (128, kv))
                pv = sm100.make_trivial_tiled_mma(dtype, dtype, K, MN, F32, ONE, (128, head_dim))
                facts = {"bits": dtype.width, "head_dim": head_dim, "kv": kv}
                q = sm100.make_smem_layout_a(qk, (128, kv, head_dim), dtype, 1)
                k = sm100.make_smem_layout_b(qk, (128, kv, head_dim), dtype, 2)
                v = sm100.make_smem_layout_b(pv, (128, head_dim, kv), dtype, 2)
                say("operand", name="sQ", swizzle=q.inner, outer=q.outer, **facts)
                say("operand", name="sK", swizzle=k.inner, outer=k.outer, **facts)
                say("operand", name="sV", swizzle=v.inner, outer=v.outer, **facts)
    for dtype in (BF16, F32):
        for n in (16, 32, 48, 64, 96, 128):
            c = sm100.make_smem_layout_epi(dtype, LayoutEnum.ROW_MAJOR, (128, n), 2)
            say("epilogue", bits=dtype.width, n=n, swizzle=c.inner, outer=c.outer)


def tmem_facts(op, a_from_tmem):
    """The accumulator's fragment over one instruction, and A's where it stands in Tensor Memory."""
    mma = cute.make_tiled_mma(op)
    m, n = op.shape_mnk[0], op.shape_mnk[1]
    facts = {"c": mma.make_fragment_C(mma.partition_shape_C((m, n))).layout}
    if a_from_tmem:
        k = 4 * 256 // op.a_dtype.width
        facts["a"] = mma.make_fragment_A(mma.partition_shape_A((m, k))).layout
    return facts


@cute.jit
def tmem():
    K = cute.nvgpu.OperandMajorMode.K
    for group in tcgen05.CtaGroup:
        for source in tcgen05.OperandSource:
            for m in (64, 128, 256):
                for n in (32, 64, 96, 128, 256):
                    a_tmem = source is tcgen05.OperandSource.TMEM
                    tail = f"m{m}n{n}.{group.name}.{source.name}"
                    for ab, acc in ((F16, F32), (BF16, F32), (F16, F16)):
                        make = (tcgen05.MmaF16BF16Op, ab, acc, (m, n, 16), group, source, K, K)
                        tried("tmem", f"f16.{acc.width}.{tail}", tmem_facts, make, a_tmem)
                    make = (tcgen05.MmaTF32Op, (m, n, 8), group, source, K, K)
                    tried("tmem", f"tf32.32.{tail}", tmem_facts, make, a_tmem)
                    make = (tcgen05.MmaF8F6F4Op, E4M3, E4M3, F32, (m, n, 32), group, source, K, K)
                    tried("tmem", f"f8.32.{tail}", tmem_facts, make, a_tmem)


TRANSFERS = [
    (direction, shape, repeat)
    for direction in ("Ld", "St")
    for shape, most in (("32x32b", 128), ("16x64b", 64), ("16x128b", 32), ("16x256b", 16), ("16x32bx2", 64))
    for repeat in tcgen05.Repetition
    if repeat.value <= most
]


def transfer_facts(op, accumulator):
    copy = tcgen05.make_tmem_copy(cute.make_copy_atom(op, F32), accumulator)
    registers = copy.layout_dst_tv_tiled if "Ld" in type(op).__name__ else copy.layout_src_tv_tiled
    return {"tiler": copy.tiler_mn[0], "tv": registers}


@cute.jit
def transfers():
    """Tiled copies of an accumulator by each shape of load and store: over its rows, and 128 columns."""
    from cutlass.utils import blackwell_helpers

    K, ONE = cute.nvgpu.OperandMajorMode.K, tcgen05.CtaGroup.ONE
    for rows in (64, 128):
        mma = blackwell_helpers.make_trivial_tiled_mma(F16, F16, K, K, F32, ONE, (rows, 128))
        accumulator = mma.make_fragment_C(mma.partition_shape_C((rows, 128)))
        for direction, shape, repeat in TRANSFERS:
            name = f"{rows}.{direction.lower()}.{shape}.x{repeat.value}"
            make = (getattr(tcgen05, f"{direction}{shape}Op"), repeat)
            tried("transfer", name, transfer_facts, make, accumulator)


def scale_facts(op, vector, steps):
    """Scale factors in global, shared and Tensor Memory, for a tile of one instruction's rows and `steps` K steps."""
    mma = cute.make_tiled_mma(op)
    m, n, k = op.shape_mnk
    tiler = (m, n, k * steps)
    shared = blockscaled_layout.make_smem_layout_sfa(mma, tiler, vector, 1)
    stage = cute.select(shared, [0, 1, 2])
    return {
        "rows": m,
        "k": k * steps,
        "vector": vector,
        "whole": blockscaled_layout.tile_atom_to_shape_SF((m, k * steps, 1), vector),
        "shared": shared,
        "tmem_a": blockscaled_layout.make_tmem_layout_sfa(mma, tiler, vector, stage),
        "tmem_b": blockscaled_layout.make_tmem_layout_sfb(mma, tiler, vector, stage),
    }


@cute.jit
def scales():
    one, smem, K = tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM, cute.nvgpu.OperandMajorMode.K
    UE4M3 = cutlass.Float8E4M3FN
    for steps in (1, 2, 4, 8):
        make = (tcgen05.MmaMXF8Op, E4M3, (128, 128, 32), one, smem, K, K)
        tried("scales", f"mxf8f6f4.32.{steps}", scale_facts, make, 32, steps)
        make = (tcgen05.MmaMXF4Op, (128, 128, 64), one, smem)
        tried("scales", f"mxf4.32.{steps}", scale_facts, make, 32, steps)
        make = (tcgen05.MmaMXF4NVF4Op, UE4M3, (128, 128, 64), one, smem)
        tried("scales", f"mxf4nvf4.16.{steps}", scale_facts, make, 16, steps)


def idescs():
    """Instruction descriptor words by the DSL's own builders."""
    from cutlass.experimental.primitives import Tcgen05InstrDesc, Tcgen05MxInstrDesc

    plain = [(F16, F16, F32), (BF16, BF16, F32), (F16, F16, F16), (E4M3, E5M2, F32), (E5M2, E4M3, F16), (I8, U8, I32)]
    for i, (a, b, c) in enumerate(plain):
        for m, n in ((64, 8), (128, 128), (256, 256), (128, 48)):
            for flags in range(16):
                options = {
                    "a_negate": flags & 1 if a is not I8 else 0,
                    "b_major": flags >> 1 & 1,
                    "a_major": flags >> 2 & 1,
                    "saturate": flags >> 3 if a is I8 else 0,
                    "max_shift": (flags + i) % 4,
                }
                word = Tcgen05InstrDesc.build(a_dtype=a, b_dtype=b, c_dtype=c, m_dim=m, n_dim=n, **options)
                say(
                    "plain", word=word.value & 0xFFFFFFFF, m=m, n=n, a=a.__name__, b=b.__name__, c=c.__name__, **options
                )
    for a, b in ((E4M3, E4M3), (E4M3, WIDTHS[4]), (E5M2, cutlass.Float6E3M2FN), (cutlass.Float6E2M3FN, E5M2)):
        for a_id in range(4):
            for m, n in ((128, 64), (256, 128)):
                options = {"a_sf_id": a_id, "b_sf_id": 3 - a_id, "b_negate": a_id & 1}
                word = Tcgen05MxInstrDesc.build(a_dtype=a, b_dtype=b, m_dim=m, n_dim=n, scale_format=1, **options)
                say("scaled", word=word.value & 0xFFFFFFFF, m=m, n=n, a=a.__name__, b=b.__name__, **options)


WORDS = []  # what each descriptor word in the kernel being compiled stands for
CASE = []  # the layout atom that the kernel is compiled for


def store_words(out):
    """Plain Python, so that the DSL does not rewrite its loops."""
    kind, bits = CASE
    pointer = cute.arch.alloc_smem(U8, 32768, alignment=1024)
    atom, k = tcgen05.make_smem_layout_atom(kind, WIDTHS[bits]), 256 // bits
    for rows, steps, order in ((128, 4, (1, 2)), (128, 4, (2, 1)), (64, 2, (1, 2)), (256, 8, (1, 2))):
        if cute.size(atom.outer, mode=[0]) > rows or cute.size(atom.outer, mode=[1]) > k * steps:
            continue
        tile = tcgen05.tile_to_mma_shape(atom, ((rows, k), 1, steps), order)
        typed = cute.recast_ptr(pointer, tile.inner, dtype=WIDTHS[bits])
        word = tcgen05.make_umma_smem_desc(typed, cute.select(tile.outer, [0]), kind.name.split("_")[0].lower())
        out[len(WORDS)] = tcgen05.smem_descriptor_to_int(word)
        WORDS.append({"name": f"{kind.name}.{bits}", "layout": str(tile), "bits": bits})


@cute.kernel
def descriptor_words(out: cute.Tensor):
    store_words(out)


@cute.jit
def descriptor_kernel(out: cute.Tensor):
    descriptor_words(out).launch(grid=(1, 1, 1), block=(32, 1, 1))


def descriptors():
    """Each word as it stands in the compiled kernel, the shared address taken out."""
    out = cute.runtime.make_fake_compact_tensor(cutlass.Int64, (8,), assumed_align=8)
    for kind in tcgen05.SmemLayoutAtomKind:
        for bits in WIDTHS:
            if kind is tcgen05.SmemLayoutAtomKind.MN_SW128_32B and bits in (8, 16):
                continue  # the DSL stops the process
            CASE[:], WORDS[:] = [kind, bits], []
            try:
                ptx = cute.compile(descriptor_kernel, out).artifacts.PTX
            except Exception as error:  # the DSL's refusal, printed
                why = " ".join(str(error).split())
                say(
                    "refused",
                    what="descriptor",
                    name=f"{kind.name}.{bits}",
                    why=re.sub(r".*op |logical.*", "", why)[:200],
                )
                continue
            constant = {m[1]: int(m[2]) for m in re.finditer(r"or\.b64\s+(%rd\d+), %rd\d+, (-?\d+);", ptx)}
            stores = re.finditer(r"st\.global(?:\.v2)?\.b64\s+\[%rd\d+(?:\+(\d+))?\], \{?([%rd\d, ]+)\}?;", ptx)
            for m in stores:
                for i, register in enumerate(m[2].split(", ")):
                    fact = WORDS[int(m[1] or 0) // 8 + i]
                    say("descriptor", word=f"{constant[register] & (1 << 64) - 1:#x}", **fact)


GROUPS = [copies, warp_mmas, wgmmas, tmem, transfers, operands, scales, idescs, descriptors, layouts_a]

if __name__ == "__main__":
    next(group for group in GROUPS if group.__name__ == sys.argv[1])()
