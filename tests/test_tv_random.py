"""Random legal operands: tiled copies, Tensor Memory copies and MMAs partition them as the DSL does, text for text."""

from __future__ import annotations

import random

import pytest

from tests.tiled import ours, theirs

PLAIN = ["'universal','f16',128", "'universal','f32',64", "'universal','f8E4M3FN',128", "'universal','f16'"]
MATRICES = [
    "'ldmatrix.m8n8.x4','f16'",
    "'ldmatrix.m8n8.x1','f16'",
    "'stmatrix.m8n8.x2','bf16'",
    "'stmatrix.m8n8.x1','f16'",
]


def memory(pick, shape):
    """A layout of memory of these extents, its modes in any order, with gaps."""
    order = list(range(len(shape)))
    pick.shuffle(order)
    stride, step = [0] * len(shape), 1
    for mode in order:
        stride[mode] = step
        step *= shape[mode] * pick.choice([1, 1, 2])
    return f"L({tuple(shape)},{tuple(stride)})"


def viewed(pick, copy, threads, tensor):
    side = pick.choice("SD")
    views = [
        f".get_slice({pick.randrange(threads)}).partition_{side}({tensor})",
        ".layout_src_tv_tiled",
        ".layout_dst_tv_tiled",
    ]
    return copy + pick.choice([views[0], *views])


def copies(pick):
    """Threads and values of any order, tensors of whole tiles, some with a third mode."""
    matrices = pick.random() < 0.4
    atom = pick.choice(MATRICES if matrices else PLAIN)
    threads = (pick.choice([8, 16, 32]), pick.choice([4, 8]))
    values = (pick.choice([8, 16]), pick.choice([1, 2, 4])) if not matrices else (pick.choice([1, 2]), 8)
    tile = [t * v for t, v in zip(threads, values, strict=True)]
    orders = ["", f",({threads[1]},1)"]
    copy = f"make_tiled_copy_tv(make_copy_atom({atom}),L({threads}{pick.choice(orders)}),L({values}))"
    shape = [extent * pick.choice([1, 2, 3]) for extent in tile] + [pick.choice([2, 3])] * pick.choice([0, 1])
    tensor = pick.choice([f"T({memory(pick, shape)})", f"I({tuple(shape)})"])
    return viewed(pick, copy, threads[0] * threads[1], tensor), "sm_100a"


LOADS = [("32x32b", 1), ("16x64b", 2), ("16x128b", 4), ("16x256b", 8)]


def tensor_memory(pick):
    """Accumulators of one and more stages, their gaps of any width, by loads and stores that divide them."""
    bits, kind = pick.choice([(32, "f32"), (16, "f16")])
    shape, columns = pick.choice(LOADS)
    repeat = pick.choice([1, 2, 4])
    n = columns * repeat * pick.choice([1, 2, 3]) * 32 // bits
    gap = n + pick.choice([0, 16, 32, 48])
    lane = 65536 * 32 // bits
    tensor = pick.choice(
        [f"L((128,{n}),({lane},1))", f"L(((128,{n}),1,2),(({lane},1),0,{gap}))", f"L((128,({n},3)),({lane},(1,{gap})))"]
    )
    way = pick.choice(["ld", "st"])
    copy = f"make_tmem_copy(make_copy_atom('tcgen05.{way}.{shape}.x{repeat}','{kind}'),TM({tensor},{bits}))"
    return viewed(pick, copy, 128, f"T({tensor})"), "sm_100a"


def into_tensor_memory(pick):
    bits, kind = pick.choice([(32, "f32"), (16, "f16"), (8, "f8E4M3FN")])
    shapes = [("128x256b", 8), ("128x128b", 4), ("32x128b.warpx4", 4), ("64x128b.warpx2::01_23", 4)]
    shape, words = pick.choice(shapes)
    n, lane = words * pick.choice([1, 2, 4]) * 32 // bits, 65536 * 32 // bits
    tensor = pick.choice([f"L((128,{n}),({lane},1))", f"L(((32,4),{n},2),(({lane},{32 * lane}),1,{n}))"])
    copy = f"make_s2t_copy(make_copy_atom('tcgen05.cp.{shape}','{kind}'),TM({tensor},{bits}))"
    return viewed(pick, copy, 1, f"T({tensor})"), "sm_100a"


def mmas(pick):
    """mma.sync beside each other, whole or permuted, over whole tiles; copies of operands, retiled registers."""
    types = [("f16", 16, "f16"), ("bf16", 8, "bf16"), ("tf32", 8, "f32"), ("e4m3", 32, "f8E4M3FN")]
    ab, k, kind = pick.choice(types)
    m, n = pick.choice([1, 2, 4]), pick.choice([1, 2, 4])
    cuts = ["", f",({16 * m},{16 * n},{k})", f",({16 * m},L((8,{n},2),(1,16,8)),{k})"]
    mma = f"make_tiled_mma(mma_atom(mma_sync(16,8,{k},'{ab}','f32')),({m},{n},1){pick.choice(cuts)})"
    operand = pick.choice("ABC")
    rows, columns = {"A": (16 * m, k), "B": (16 * n, k), "C": (16 * m, 16 * n)}[operand]
    shape = (rows * pick.choice([1, 2]), columns * pick.choice([1, 2, 4]))
    copy = f"make_tiled_copy_{operand}(make_copy_atom('universal','{kind}'),{mma})"
    tensor = pick.choice([f"T({memory(pick, shape)})", f"I({shape})"])
    thread = pick.randrange(32 * m * n)
    views = [
        f"{mma}.tv_layout_{operand}_tiled",
        f"{mma}.get_slice({thread}).partition_{operand}({tensor})",
        f"{copy}.retile(R({mma}.partition_shape_{operand}({shape})))",
        f"{copy}.get_slice({thread}).partition_{pick.choice('SD')}({tensor})",
    ]
    return pick.choice(views), "sm_100a"


def warpgroups(pick):
    n, m = pick.choice([8, 24, 64, 96, 256]), pick.choice([1, 2])
    kind, k = pick.choice([("'f16','f32'", 16), ("'e4m3','f32'", 32), ("'f16','f32','registers'", 16)])
    mma = f"make_tiled_mma(mma_atom(wgmma({n},{kind})),({m},1,1))"
    operand = pick.choice("ABC")
    shape = {"A": (64 * m, 4 * k), "B": (n, 2 * k), "C": (128 * m, n)}[operand]
    tensor = pick.choice([f"T({memory(pick, shape)})", f"I({shape})"])
    return f"{mma}.get_slice({pick.randrange(128 * m)}).partition_{operand}({tensor})", "sm_90a"


@pytest.mark.parametrize(
    "drawn", [copies, tensor_memory, into_tensor_memory, mmas, warpgroups], ids=lambda f: f.__name__
)
def test_random_operands(drawn):
    """None is refused: each is made to be legal. A copy may have fewer values than an instruction, in both."""
    pick = random.Random(drawn.__name__)
    same = 0
    for _ in range(60):
        expression, arch = drawn(pick)
        mine, other = ours(expression), theirs(expression, arch)
        if mine.text is None:
            assert "and one instruction takes" in mine.refused, (expression, mine.refused, other.text)
            continue
        assert mine.text == other.text, expression
        same += 1
    assert same >= 40
