"""Tiled copies and tiled MMAs: the DSL's text for the same expression, the laws of partitions, the public cases."""

from __future__ import annotations

import doctest
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutlab.tv.copy
import layoutlab.tv.division
import layoutlab.tv.instructions
import layoutlab.tv.mma
import layoutlab.tv.tmem
from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, make_identity_layout, parse
from layoutlab.atoms.mma import mma_sync
from layoutlab.tv import (
    as_tiled_copy,
    as_tiled_mma,
    make_copy_atom,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_tv,
    make_tiled_mma,
    make_tmem_copy,
    mma_atom,
)
from layoutlab.witnesses import hold
from tests.tiled import ours, theirs

MODULES = [
    layoutlab.tv,
    layoutlab.tv.copy,
    layoutlab.tv.division,
    layoutlab.tv.instructions,
    layoutlab.tv.mma,
    layoutlab.tv.tmem,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_doctests(module):
    result = doctest.testmod(module)
    assert result.attempted >= 2 and result.failed == 0


# -- the same text as the DSL -----------------------------------------------------------------------------------------


def agreeing(expressions, refusals=(), arch="sm_100a"):
    """How many expressions give the DSL's text; the only others are refused by both, or by us for one of these."""
    same = 0
    for expression in expressions:
        mine, other = ours(expression), theirs(expression, arch)
        if mine.text is None:
            known = other.text is None or any(re.search(why, mine.refused) for why in refusals)
            assert known, f"{expression}\n  {mine.refused}\n  {other.text}"
        else:
            assert mine.text == other.text, expression
            same += 1
    return same


MATRIX = [f"{way}matrix.m8n8.x{x}{t}" for way in ("ld", "st") for x in (1, 2, 4) for t in ("", ".trans")]
TMEM = [
    (f"tcgen05.{way}.{shape}.x{repeat}{pack}", kind)
    for (way, packing), shape in product(
        (("ld", ".pack::16b"), ("st", ".unpack::16b")), ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
    )
    for repeat in (1, 2, 4, 8, 16, 32, 64, 128)
    for pack, kind in (("", "f32"), ("", "f16"), ("", "f8E4M3FN"), (packing, "f16"))
]


def test_copy_atoms():
    """Every ldmatrix, stmatrix, tcgen05.ld and st, and the plain copies, for types of 8 to 64 bits."""
    plain = [("universal", kind) for kind in ("f16", "f32", "f8E4M3FN")]
    wide = [("universal", "f16", 128), ("universal", "f32", 64), ("universal", "f8E4M3FN", 256), ("cp.async", "f16", 128)]
    matrices = list(product(MATRIX, ("f16", "bf16", "f32", "f8E4M3FN", "i32", "i64")))
    bytes_ = [(f"{i}.x{x}.trans", "i8") for i in ("ldmatrix.m16n16", "stmatrix.m16n8") for x in (1, 2, 4)]
    expressions = [f"make_copy_atom{arguments}" for arguments in [*plain, *wide, *matrices, *bytes_, *TMEM]]
    found = agreeing(expressions, ["puts the 16-bit parts of one (f32|i32|i64) into different threads"])
    hold("copy atoms", "CuTe DSL", found)


F16 = "make_copy_atom('universal','f16',128)"
COPIES = [
    f"make_tiled_copy_tv({F16},L((16,16),(16,1)),L((8,1)))",
    f"make_tiled_copy_tv({F16},L((16,16)),L((8,1)))",
    f"make_tiled_copy_tv({F16},L((32,8),(8,1)),L((1,8)))",
    "make_tiled_copy_tv(make_copy_atom('universal','f32'),L((8,8)),L((1,1)))",
    "make_tiled_copy_tv(make_copy_atom('universal','f32',64),L((4,8)),L((2,4)))",
    "make_tiled_copy_tv(make_copy_atom('universal','f32',64),L((4,8),(8,1)),L((2,4),(4,1)))",
    "make_tiled_copy_tv(make_copy_atom('cp.async','bf16',128),L((32,4),(4,1)),L((1,8)))",
    "make_tiled_copy_tv(make_copy_atom('ldmatrix.m8n8.x4','f16'),L((32,1)),L((1,8)))",
    "make_tiled_copy_tv(make_copy_atom('ldmatrix.m8n8.x2.trans','f16'),L((8,4)),L((2,4)))",
    "make_tiled_copy_tv(make_copy_atom('stmatrix.m8n8.x2','f16'),L((16,4),(4,1)),L((1,8)))",
    "make_tiled_copy(make_copy_atom('universal','f16',64),L((32,(4,2)),(4,(1,128))),(16,16))",
]
MEMORY = [
    "T(L((128,64)))",
    "T(L((128,64),(64,1)))",
    "I((128,64))",
    "T(L((128,64,3)))",
    "T(L(((64,2),(32,2)),((32,2048),(1,4096))))",
    "I((128,64,2))",
]


def test_tiled_copies():
    """TV layouts and partitions over memory of several shapes, and over coordinates."""
    views = ["", ".layout_tv_tiled", ".layout_src_tv_tiled", ".layout_dst_tv_tiled"]
    parts = [f".get_slice({t}).partition_{side}({x})" for t in (0, 9) for side in "SD" for x in MEMORY]
    hold("tiled copies", "CuTe DSL", agreeing(copy + view for copy in COPIES for view in views + parts))


def relative(layout):
    """Locations from the first one on."""
    return [layout(i) - layout(0) for i in range(layout.size())]


def test_swizzled_memory():
    """The DSL takes what a swizzle leaves alone out of the offset, so the steps from the first element are compared."""
    compared = 0
    for copy, (bits, base, shift), t in product(COPIES, ((3, 3, 3), (2, 3, 3), (3, 4, 3), (4, 0, 6)), (0, 9, 21)):
        swizzled = f"T(S({bits},{base},{shift},0,L((128,64),(64,1))),16)"
        expression = f"{copy}.get_slice({t}).partition_D({swizzled})"
        mine, other = (parse(answer(expression).text) for answer in (ours, theirs))
        assert relative(mine) == relative(other), expression
        compared += 1
    hold("tiled copies, swizzled", "CuTe DSL", compared)
    wrong = ComposedLayout(Swizzle(2, 3, 3), mine.offset, mine.outer)
    assert relative(wrong) != relative(other)


ACCUMULATORS = [
    ("(((128,128),1,1),((LANE,1),0,0))", "((128,128),1,1)"),
    ("(((128,64),1,2),((LANE,1),0,64))", "((128,64),1,2)"),
    ("((128,(32,2)),(LANE,(1,64)))", "(128,(32,2))"),
    ("((128,96),(LANE,1))", "(128,96)"),
    ("(((16,4),64),((LANE,LANE*32),1))", "((16,4),64)"),
]
LOADS = ["ld.32x32b.x32", "ld.32x32b.x8", "ld.16x256b.x4", "ld.16x64b.x8", "ld.16x128b.x4", "ld.16x32bx2.x8"]
STORES = ["st.32x32b.x16", "st.16x256b.x2", "st.32x32b.x8.unpack::16b"]


def test_tensor_memory_copies():
    expressions = []
    for op, (kind, bits), (layout, shape) in product(
        [*LOADS, *STORES, "ld.32x32b.x8.pack::16b"], (("f32", 32), ("f16", 16)), ACCUMULATORS
    ):
        if "pack" in op and bits != 16:
            continue
        tensor = f"L{layout}".replace("LANE", str(65536 * 32 // bits))
        copy = f"make_tmem_copy(make_copy_atom('tcgen05.{op}','{kind}'),TM({tensor},{bits}))"
        expressions += [copy, f"{copy}.layout_src_tv_tiled", f"{copy}.layout_dst_tv_tiled"]
        expressions += [f"{copy}.get_slice(37).partition_{s}({x})" for s in "SD" for x in (f"T({tensor})", f"I({shape})")]
        expressions += [f"make_tiled_copy_{s}(make_copy_atom('universal','bf16'),{copy})" for s in "SD"]
    hold("Tensor Memory copies", "CuTe DSL", agreeing(expressions, ["columns spans"]))


ARRANGED = [
    "(1,1,1)",
    "(2,2,1)",
    "(2,2,1),(32,32,K)",
    "(4,1,1),(64,16,K)",
    "(2,1,1),(32,L((8,2,2),(1,16,8)),K)",
    "L((2,2,1),(2,1,0)),(32,32,K)",
    "(1,2,2)",
]
WARP = [("f16", 16, "f16"), ("bf16", 8, "bf16"), ("tf32", 8, "f32"), ("e4m3", 32, "f8E4M3FN")]
SHAPES = {"A": (256, 128), "B": (384, 128), "C": (256, 384)}


def warp_mmas():
    for (ab, k, kind), arranged in product(WARP, ARRANGED):
        yield f"make_tiled_mma(mma_atom(mma_sync(16,8,{k},'{ab}','f32')),{arranged.replace('K', str(k))})", kind


def views_of(mma, thread):
    yield mma
    for operand, shape in SHAPES.items():
        yield f"{mma}.tv_layout_{operand}_tiled"
        yield f"{mma}.partition_shape_{operand}({shape})"
        for tensor in (f"I({shape})", f"T(L({shape}))", f"T(L({(*shape, 3)}))"):
            yield f"{mma}.get_slice({thread}).partition_{operand}({tensor})"


def test_tiled_mmas():
    """mma.sync, wgmma and tcgen05.mma, beside each other in M, N and K, with permutations."""
    beyond = "(1,2,2)).tv_layout_C_tiled"  # two instructions along K: see test_c_of_two_instructions_along_k
    warps = [e for mma, _ in warp_mmas() for e in views_of(mma, 5) if not e.endswith(beyond)]
    found = agreeing(warps)
    groups = [
        f"make_tiled_mma(mma_atom(wgmma({n})),{arranged})"
        for n in ("64,'f16','f32'", "96,'bf16','f32','registers'", "128,'e4m3','f32'", "64,'s8','s32'")
        for arranged in ("(1,1,1)", "(2,1,1)", "(1,2,1)")
    ]
    found += agreeing((e for mma in groups for e in views_of(mma, 5)), ["does not divide"], "sm_90a")
    ctas = [
        f"make_tiled_mma(mma_atom(tcgen05_mma({mma})))"
        for mma in ("128,64", "64,32,32", "128,128,8", "256,128,16,2", "128,128,16,2")
    ]
    found += agreeing(e for mma in ctas for t in ((0, 1) if mma.endswith(",2)))") else (0,)) for e in views_of(mma, t))
    hold("tiled MMAs", "CuTe DSL", found)


def operand_copies():
    for mma, kind in warp_mmas():
        wide = 64 if kind == "f32" else 32
        atoms = [f"'universal','{kind}'", f"'universal','{kind}',{wide}"]
        atoms += [f"'{m}','{kind}'" for m in ("ldmatrix.m8n8.x4", "ldmatrix.m8n8.x2", "stmatrix.m8n8.x4")]
        for atom, operand in product(atoms, "ABC"):
            if (operand, "(1,2,2)" in mma) != ("C", True):
                yield mma, operand, f"make_tiled_copy_{operand}(make_copy_atom({atom}),{mma})"


def test_copies_of_operands_and_retile():
    expressions = []
    for mma, operand, copy in operand_copies():
        shape = {"A": (128, 64), "B": (128, 64), "C": (128, 128)}[operand]
        expressions += [copy, f"{copy}.get_slice(21).partition_S(I({shape}))"]
        expressions.append(f"{copy}.retile(R({mma}.partition_shape_{operand}({shape})))")
    hold("copies of operands, retile", "CuTe DSL", agreeing(expressions, ["one instruction takes"]))


# -- text and records -------------------------------------------------------------------------------------------------


def test_printed_values_are_read_again():
    ns = {"kinds": 0}
    for expression in [*COPIES, *(copy for _, _, copy in operand_copies())]:
        answer = ours(expression)
        if answer.text is None:
            continue
        record = parse(answer.text)
        again = as_tiled_copy(record)
        assert str(again) == answer.text and again.record() == record
        value = eval(expression, dict(layoutlab_names()))
        assert again.layout_src_tv_tiled == value.layout_src_tv_tiled, expression
        assert again.layout_dst_tv_tiled == value.layout_dst_tv_tiled, expression
        ns["kinds"] += 1
    assert ns["kinds"] > 200
    mma = make_tiled_mma(mma_atom(mma_sync(16, 8, 16, "f16", "f32")), (2, 2, 1), (32, 32, 16))
    assert parse(str(mma)) == mma.record() and as_tiled_mma(parse(str(mma))) == mma


def layoutlab_names():
    from tests.tiled import OURS

    return OURS
