"""A process that evaluates expressions of tiled copies and tiled MMAs with CuTe DSL: JSON lines in, JSON lines out.

The same expressions are evaluated with layoutlab, whose names they use; what differs between the two is defined here.
It is a process of its own because some calls abort it.
"""

import json
import os
import re
import sys

os.environ.update(CUTE_DSL_ARCH=sys.argv[1], CUTE_DSL_DRYRUN="1")

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05, warp, warpgroup
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import blackwell_helpers, hopper_helpers

MAJORS = {"row": LayoutEnum.ROW_MAJOR, "col": LayoutEnum.COL_MAJOR}
TYPES = {
    "f16": cutlass.Float16, "bf16": cutlass.BFloat16, "f32": cutlass.Float32, "tf32": cutlass.TFloat32,
    "f8E4M3FN": cutlass.Float8E4M3FN, "e4m3": cutlass.Float8E4M3FN, "e5m2": cutlass.Float8E5M2,
    "f8E8M0FNU": cutlass.Float8E8M0FNU,
    "i8": cutlass.Int8, "s8": cutlass.Int8, "i32": cutlass.Int32, "s32": cutlass.Int32, "i64": cutlass.Int64,
}  # fmt: skip
K = OperandMajorMode.K
WIDTHS = {8: cutlass.Float8E4M3FN, 16: cutlass.Float16, 32: cutlass.Float32, 64: cutlass.Int64}


CP = {
    "128x256b": tcgen05.Cp128x256bOp, "128x128b": tcgen05.Cp128x128bOp, "4x256b": tcgen05.Cp4x256bOp,
    "32x128b.warpx4": tcgen05.Cp4x32x128bOp, "64x128b.warpx2::02_13": tcgen05.Cp2x64x128b0213Op,
    "64x128b.warpx2::01_23": tcgen05.Cp2x64x128b0123Op,
}  # fmt: skip


def layout(shape, stride=None):
    return cute.make_layout(shape) if stride is None else cute.make_layout(shape, stride=stride)


def swizzled(bits, base, shift, offset, outer):
    return cute.make_composed_layout(cute.make_swizzle(bits, base, shift), offset, outer)


def tensor(x, bits=None):
    """A tensor over a layout of memory; a swizzled one lies in shared memory."""
    if bits is None:
        return cute.make_tensor(0, x)
    return cute.make_tensor(cute.make_ptr(WIDTHS[bits], 0, cute.AddressSpace.smem, assumed_align=1024), x)


def shared_tensor(x, bits):
    """A tensor in shared memory whose pointer swizzles, as a kernel allocates one."""
    kind = cutlass.TFloat32 if bits == 32 else WIDTHS[bits]
    pointer = cute.make_ptr(kind, 0, cute.AddressSpace.smem, assumed_align=1024)
    if isinstance(x, cute.ComposedLayout):
        return cute.make_tensor(cute.recast_ptr(pointer, x.inner, dtype=kind), x.outer)
    return cute.make_tensor(pointer, x)


def tmem_tensor(x, bits):
    return cute.make_tensor(cute.make_ptr(WIDTHS[bits], 0, cute.AddressSpace.tmem, assumed_align=16), x)


def copy_op(name):
    if name == "universal":
        return cute.nvgpu.CopyUniversalOp()
    if name == "cp.async":
        return cpasync.CopyG2SOp()
    if found := re.fullmatch(r"(ld|st)matrix\.m8n8\.x(\d)(\.trans)?", name):
        op = warp.LdMatrix8x8x16bOp if found[1] == "ld" else warp.StMatrix8x8x16bOp
        return op(found[3] is not None, int(found[2]))
    if found := re.fullmatch(r"tcgen05\.cp\.(cta_group::2\.)?(.+)", name):
        return CP[found[2]](tcgen05.CtaGroup.TWO if found[1] else tcgen05.CtaGroup.ONE)
    if found := re.fullmatch(r"ldmatrix\.m16n16\.x(\d)\.trans", name):
        return warp.LdMatrix16x16x8bOp(True, int(found[1]))
    if found := re.fullmatch(r"stmatrix\.m16n8\.x(\d)\.trans", name):
        return warp.StMatrix16x8x8bOp(True, int(found[1]))
    direction, shape, repeat, packed = re.fullmatch(r"tcgen05\.(ld|st)\.(\w+)\.x(\d+)(\..*)?", name).groups()
    packing = (tcgen05.Pack.PACK_16b_IN_32b if direction == "ld" else tcgen05.Unpack.UNPACK_32b_IN_16b,)
    op = getattr(tcgen05, f"{direction.capitalize()}{shape}Op")
    return op(tcgen05.Repetition(int(repeat)), *(packing if packed else ()))


def make_copy_atom(name, kind, num_bits_per_copy=None):
    more = {} if num_bits_per_copy is None else {"num_bits_per_copy": num_bits_per_copy}
    return cute.make_copy_atom(copy_op(name), TYPES[kind], **more)


def mma_sync(m, n, k, ab, cd):
    if ab == "tf32":
        return warp.MmaTF32Op((m, n, k))
    if ab in ("e4m3", "e5m2"):
        return warp.MmaFP8Op(TYPES[ab], TYPES[cd], (m, n, k))
    return warp.MmaF16BF16Op(TYPES[ab], TYPES[cd], (m, n, k))


def wgmma(n, ab, cd, a_from="smem"):
    source = warpgroup.OperandSource.RMEM if a_from == "registers" else warpgroup.OperandSource.SMEM
    if ab in ("e4m3", "e5m2"):
        return warpgroup.MmaF8Op(TYPES[ab], TYPES[ab], TYPES[cd], (64, n, 32), source, K, K)
    if ab == "s8":
        return warpgroup.MmaI8Op(TYPES[ab], TYPES[ab], TYPES[cd], (64, n, 32), source, K, K)
    return warpgroup.MmaF16BF16Op(TYPES[ab], TYPES[cd], (64, n, 16), source, K, K)


def tcgen05_mma(m, n, bits=16, cta_group=1, a_from="smem", accumulator="f32"):
    group = tcgen05.CtaGroup(cta_group)
    source = tcgen05.OperandSource.TMEM if a_from == "tmem" else tcgen05.OperandSource.SMEM
    if bits == 32:
        return tcgen05.MmaTF32Op((m, n, 8), group, source, K, K)
    if bits == 8:
        return tcgen05.MmaF8F6F4Op(TYPES["e4m3"], TYPES["e4m3"], TYPES["f32"], (m, n, 32), group, source, K, K)
    return tcgen05.MmaF16BF16Op(TYPES["f16"], TYPES[accumulator], (m, n, 16), group, source, K, K)


def get_smem_store_op(major, stored, loaded, load):
    return blackwell_helpers.get_smem_store_op(MAJORS[major], TYPES[stored], TYPES[loaded], load)


def sm90_get_smem_store_op(major, stored, loaded):
    return hopper_helpers.sm90_get_smem_store_op(MAJORS[major], TYPES[stored], TYPES[loaded])


def compute_tile_shape_or_override(shape, kind, *options):
    return hopper_helpers.compute_tile_shape_or_override(shape, TYPES[kind], *options)


def fragment(mma, operand, shape, bits=32):
    """The layout of an operand's fragment; `bits` belongs to the MMA here."""
    return getattr(mma, f"make_fragment_{operand}")(shape).layout


NAMES = {
    **{name: getattr(cute, name) for name in dir(cute) if not name.startswith("_")},
    "L": layout,
    "S": swizzled,
    "T": tensor,
    "SM": shared_tensor,
    "TM": tmem_tensor,
    "R": lambda shape: cute.make_rmem_tensor(shape, TYPES["f16"]),
    "I": cute.make_identity_tensor,
    "make_copy_atom": make_copy_atom,
    "make_tmem_copy": tcgen05.make_tmem_copy,
    "make_s2t_copy": tcgen05.make_s2t_copy,
    "get_s2t_smem_desc_tensor": lambda copy, part: tcgen05.get_s2t_smem_desc_tensor(copy, part).layout,
    "fragment_of": lambda mma, operand, tensor: getattr(mma, f"make_fragment_{operand}")(tensor).layout,
    "get_smem_store_op": get_smem_store_op,
    "sm90_get_smem_store_op": sm90_get_smem_store_op,
    "compute_tile_shape_or_override": compute_tile_shape_or_override,
    "fragment": fragment,
    "tile_to_mma_shape": tcgen05.tile_to_mma_shape,
    "mma_atom": cute.make_mma_atom,
    "mma_sync": mma_sync,
    "wgmma": wgmma,
    "tcgen05_mma": tcgen05_mma,
}
job = {"expression": "", "answer": ""}


def evaluate():
    job["answer"] = str(eval(job["expression"], dict(NAMES)))


@cute.jit
def traced():
    evaluate()


for line in sys.stdin:
    job["expression"] = json.loads(line)
    try:
        traced()
        reply = {"text": job["answer"]}
    except Exception as error:  # the DSL refuses in many ways; each is handed back
        reply = {"refused": f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"}
    print("reply " + json.dumps(reply), flush=True)
