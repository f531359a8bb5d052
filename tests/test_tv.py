"""Tiled copies and tiled MMAs: the DSL's text for the same expression, the laws of partitions, the public cases."""

from __future__ import annotations

import doctest
import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutlab.tv.calls
import layoutlab.tv.copy
import layoutlab.tv.division
import layoutlab.tv.epilogue
import layoutlab.tv.instructions
import layoutlab.tv.mma
import layoutlab.tv.pairing
import layoutlab.tv.staging
import layoutlab.tv.tmem
import layoutlab.tv.umma
from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, make_identity_layout, parse
from layoutlab.atoms.mma import mma_sync
from layoutlab.cli import main
from layoutlab.tv import (
    as_tiled_copy,
    as_tiled_mma,
    check_pair,
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
from tests.tiled import OURS, agreeing, ours, theirs

MODULES = [
    layoutlab.tv,
    layoutlab.tv.calls,
    layoutlab.tv.copy,
    layoutlab.tv.division,
    layoutlab.tv.epilogue,
    layoutlab.tv.instructions,
    layoutlab.tv.mma,
    layoutlab.tv.pairing,
    layoutlab.tv.staging,
    layoutlab.tv.tmem,
    layoutlab.tv.umma,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_doctests(module):
    result = doctest.testmod(module)
    assert result.attempted >= 2 and result.failed == 0


# -- the same text as the DSL -----------------------------------------------------------------------------------------


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
    wide = [
        ("universal", "f16", 128),
        ("universal", "f32", 64),
        ("universal", "f8E4M3FN", 256),
        ("cp.async", "f16", 128),
    ]
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
        expressions += [
            f"{copy}.get_slice(37).partition_{s}({x})" for s in "SD" for x in (f"T({tensor})", f"I({shape})")
        ]
        expressions += [f"make_tiled_copy_{s}(make_copy_atom('universal','bf16'),{copy})" for s in "SD"]
    hold("Tensor Memory copies", "CuTe DSL", agreeing(expressions, ["columns spans", "beside each other"]))


@pytest.mark.parametrize(
    "tensor",
    [
        "L((128,(96,2)),(65536,(1,192)))",
        "L((128,(48,2)),(65536,(1,80)))",
        "L(((128,80),1,2),((65536,1),0,96))",
        "L(((16,4),(48,3)),((65536,2097152),(1,144)))",
    ],
)
def test_stages_that_no_lane_is_a_multiple_of(tensor):
    """The columns from one stage to the next need not divide the 65536 of a lane."""
    for op in ("ld.16x64b.x8", "ld.16x256b.x2", "st.16x128b.x4"):
        copy = f"make_tmem_copy(make_copy_atom('tcgen05.{op}','f32'),TM({tensor},32))"
        parts = [f"{copy}.get_slice(37).partition_{side}(T({tensor}))" for side in "SD"]
        assert agreeing([copy, f"{copy}.layout_src_tv_tiled", f"{copy}.layout_dst_tv_tiled", *parts]) == 5


def test_lanes_that_stages_do_not_have():
    stages = Layout((64, (48, 2)), (65536, (1, 80)))
    with pytest.raises(LayoutError, match=r"with lanes counted .* T64 V0 is given offset"):
        make_tmem_copy(make_copy_atom("tcgen05.ld.32x32b.x16", "f32"), stages)


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
        for tensor in (f"I({shape})", f"T(L({(*shape, 3)}))"):
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


def test_fragments():
    """Registers, accumulators and A in Tensor Memory; three accumulators of 64 rows the DSL lays out as x."""
    expressions = []
    for (m, n, group), source, bits in product(
        ((128, 64, 1), (128, 96, 1), (64, 64, 1), (128, 64, 2), (256, 128, 2)), ("smem", "tmem"), (8, 16, 32)
    ):
        mma = f"make_tiled_mma(mma_atom(tcgen05_mma({m},{n},{bits},{group},'{source}')))"
        for shape in ((m, n), (2 * m, n), (4 * m, 2 * n), (3 * m, n), (m, 2 * n)):
            expressions.append(f"fragment({mma},'C',{mma}.partition_shape_C({shape}))")
        expressions.append(f"fragment({mma},'A',{mma}.partition_shape_A({(2 * m, 64)}))")
    warp = "make_tiled_mma(mma_atom(mma_sync(16,8,16,'f16','f32')),(2,2,1),(32,32,16))"
    expressions += [f"fragment({warp},'{o}',{warp}.partition_shape_{o}((64,128)))" for o in "ABC"]
    found = agreeing(expressions, ["3 accumulators of 64 rows"])
    for source in ("smem", "registers"):
        group = f"make_tiled_mma(mma_atom(wgmma(64,'f16','f32','{source}')),(2,1,1))"
        shapes = [f"fragment({group},'{o}',{group}.partition_shape_{o}((128,128)))" for o in "ABC"]
        found += agreeing(shapes, arch="sm_90a")
    hold("fragments", "CuTe DSL", found)
    odd = "make_tiled_mma(mma_atom(tcgen05_mma(64,64)))"
    assert ",x," in theirs(f"fragment({odd},'C',{odd}.partition_shape_C((192,64)))").text


STAGED_ATOMS = [
    "S(3,4,3,0,L((8,64),(64,1)))",
    "S(2,4,3,0,L((8,32),(32,1)))",
    "S(3,4,3,0,L((64,8),(1,64)))",
    "L((8,8),(8,1))",
]


def test_staged_operands():
    shapes = ["((128,16),1,8)", "((128,16),1,8,2)", "((64,16),2,4,3)", "((64,16),2,8)", "((128,16),1,3)"]
    expressions = [
        f"tile_to_mma_shape({atom},{shape}{order})"
        for atom, shape in product(STAGED_ATOMS, shapes)
        for order in ("", ",(1,0,2)" if shape.count(",") == 4 else ",(1,0)")
    ]
    hold("staged operands", "CuTe DSL", agreeing(expressions, ["do not divide 48"]))
    over = "tile_to_mma_shape(S(3,4,3,0,L((8,64),(64,1))),((128,16),1,3))"
    assert parse(theirs(over).text).size() == 128 * 64 > 128 * 48 and ours(over).text is None


def operand_copies():
    for mma, kind in warp_mmas():
        if "bf16" in mma or "),(1,1,1))" in mma:
            continue
        wide = 64 if kind == "f32" else 32
        atoms = [f"'universal','{kind}'", f"'universal','{kind}',{wide}"]
        atoms += [f"'{m}','{kind}'" for m in ("ldmatrix.m8n8.x4", "stmatrix.m8n8.x2")]
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
    read = 0
    for expression in [*COPIES, *[copy for _, _, copy in operand_copies()][::4]]:
        answer = ours(expression)
        if answer.text is None:
            continue
        record = parse(answer.text)
        again = as_tiled_copy(record)
        assert str(again) == answer.text and again.record() == record
        value = eval(expression, dict(OURS))
        assert again.layout_src_tv_tiled == value.layout_src_tv_tiled, expression
        assert again.layout_dst_tv_tiled == value.layout_dst_tv_tiled, expression
        read += 1
    assert read > 40
    mma = make_tiled_mma(mma_atom(mma_sync(16, 8, 16, "f16", "f32")), (2, 2, 1), (32, 32, 16))
    assert parse(str(mma)) == mma.record() and as_tiled_mma(parse(str(mma))) == mma


# -- epilogues --------------------------------------------------------------------------------------------------------


def test_stores_after_a_tensor_memory_load():
    expressions = []
    for (loaded, bits), shape, repeat in product(
        (("f32", 32), ("f16", 16)), ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"), (1, 2, 8)
    ):
        for pack in ("", ".pack::16b") if bits == 16 else ("",):
            tensor = f"TM(L((128,256),({65536 * 32 // bits},1)),{bits})"
            load = f"make_tmem_copy(make_copy_atom('tcgen05.ld.{shape}.x{repeat}{pack}','{loaded}'),{tensor})"
            for major, stored in product(("row", "col"), ("f8E4M3FN", "bf16", "f32")):
                expressions.append(f"get_smem_store_op('{major}','{stored}','{loaded}',{load})")
    found = agreeing(expressions)
    assert found > 200
    hopper = [
        f"sm90_get_smem_store_op('{major}','{stored}','f32')"
        for major, stored in product(("row", "col"), ("f8E4M3FN", "f16", "bf16", "f32"))
    ]
    found_on_hopper = agreeing(hopper, arch="sm_90a")
    assert found_on_hopper == len(hopper)
    hold("stores of an epilogue", "CuTe DSL", found + found_on_hopper)


EPILOGUE_N = (16, 24, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)


def test_epilogue_tiles_divide():
    """V5: equal to the DSL's helper where that divides the tile; where it does not, a divisor."""
    equal = wrong = 0
    for kind, cooperative, m, n in product(("f8E4M3FN", "f16", "f32"), (False, True), (64, 128, 192, 256), EPILOGUE_N):
        call = f"compute_tile_shape_or_override(({m},{n},64),'{kind}',{cooperative})"
        mine, other = eval(ours(call).text), eval(theirs(call, "sm_90a").text)
        assert m % mine[0] == 0 and n % mine[1] == 0, call
        if m % other[0] or n % other[1]:
            wrong += 1
            with pytest.raises(LayoutError, match=f"does not divide {m} x {n}"):
                layoutlab.tv.compute_tile_shape_or_override((m, n, 64), kind, cooperative, other)
        else:
            assert mine == other, call
            equal += 1
    assert (equal, wrong) == (181, 203)
    columns = [layoutlab.tv.compute_tile_shape_or_override((128, n, 64), "f16")[1] for n in (112, 144, 160, 176, 208)]
    assert columns == [16, 16, 32, 16, 16]


# -- what the DSL does without a word ---------------------------------------------------------------------------------


def outside(text, shape):
    """How many of a coordinate partition's elements lie outside of a shape."""
    part = parse(text)
    coordinates = [part(i) for i in range(part.size())]
    return sum(any(c >= extent for c, extent in zip(at, shape, strict=True)) for at in coordinates)


PLAIN = "make_tiled_copy_tv(make_copy_atom('universal','f16',128),L((16,16)),L((8,1)))"
HALF_MMA = "make_tiled_mma(mma_atom(mma_sync(16,8,16,'f16','f32')),(1,2,1))"
WGMMA = "make_tiled_mma(mma_atom(wgmma(128,'f16','f32')),(1,2,1))"
OVER_COVERS = [
    *(
        (
            f"make_tmem_copy(make_copy_atom('tcgen05.ld.32x32b.x{x}','{kind}'),"
            f"TM(L((128,{n}),({65536 * 32 // bits},1)),{bits})).get_slice(1).partition_D(I((128,{n})))",
            (128, n),
            f"x{right} divides them, {n * bits // 32 // right} steps",
        )
        for n, x, right, kind, bits in (
            (48, 32, 16, "f32", 32),
            (80, 32, 16, "f32", 32),
            (112, 64, 16, "f32", 32),
            (24, 16, 8, "f32", 32),
            (96, 64, 32, "f32", 32),
            (96, 32, 16, "f16", 16),
        )
    ),
    (
        f"{PLAIN}.get_slice(255).partition_S(I((128,24)))",
        (128, 24),
        "16 in mode 1 does not divide the tensor's 24: .* 8",
    ),
    (f"{PLAIN}.get_slice(255).partition_D(I((120,32)))", (120, 32), "128 in mode 0 does not divide the tensor's 120"),
    (f"{HALF_MMA}.get_slice(37).partition_B(I((24,16)))", (24, 16), "MMA's B's tile of 16 in mode 0"),
    (f"{WGMMA}.get_slice(130).partition_C(I((64,384)))", (64, 384), "MMA's C's tile of 256 in mode 1"),
]


@pytest.mark.parametrize(("expression", "shape", "why"), OVER_COVERS, ids=str)
def test_over_covering_is_refused(expression, shape, why):
    """V2 and its neighbours: the DSL's partition holds elements that the tensor does not have."""
    other = theirs(expression, "sm_90a" if "wgmma" in expression else "sm_100a")
    assert outside(other.text, shape) > 0
    assert re.search(why, ours(expression).refused)


def test_v2_with_the_right_repetition():
    expression = OVER_COVERS[0][0].replace("x32'", "x16'")
    assert ours(expression).text == theirs(expression).text == "(1,0) o ((16,1),1,3):((1@1,0),0,16@1)"
    assert outside(ours(expression).text, (128, 48)) == 0


def test_an_instruction_larger_than_its_tile_is_refused():
    """ldmatrix.x4 for B of one m16n8k16: 4 values a thread where the instruction loads 8, the others doubled."""
    mma = "make_tiled_mma(mma_atom(mma_sync(16,8,16,'f16','f32')))"
    copy = f"make_tiled_copy_B(make_copy_atom('ldmatrix.m8n8.x4','f16'),{mma})"
    part = parse(theirs(f"{copy}.get_slice(0).partition_D(I((8,16)))").text)
    assert part.size() == 8 and len({part(i) for i in range(8)}) == 4
    assert re.search("4 values a thread, and one instruction takes 8", ours(copy).refused)
    right = copy.replace("x4", "x2")
    assert ours(right).text == theirs(right).text is not None


def test_c_of_two_instructions_along_k():
    """The DSL gives the second instruction's threads columns that the tile does not have; they hold the same ones."""
    mma = "make_tiled_mma(mma_atom(mma_sync(16,8,16,'f16','f32')),(1,2,2))"
    theirs_c, ours_c = (parse(answer(f"{mma}.tv_layout_C_tiled").text) for answer in (theirs, ours))
    assert theirs_c.cosize() == 512 > 16 * 16 == ours_c.cosize()
    part = f"{mma}.get_slice(64).partition_C(I((16,16)))"
    assert theirs(part).text == ours(part).text and parse(ours(part).text)(0) == (0, 0)
    assert (ours_c(64, 0), theirs_c(64, 0)) == (0, 256)


def test_transposed_matrices_of_wide_elements_are_refused():
    """ldmatrix.trans tears 32-bit elements apart; the DSL prints a fragment of 16 threads for an atom of 32."""
    expression = "make_copy_atom('ldmatrix.m8n8.x1.trans','f32')"
    printed = parse(theirs(expression).text)
    assert printed.thr.size() == 32 and printed.dst[0].size() == 16
    assert "into different threads" in ours(expression).refused


def test_memory_offsets_are_no_tile_coordinates():
    """The offsets of a padded tile leave it; those of a compact one do not, and make_cotiled_copy takes both."""
    padded = "L((32,4),(5,1))"
    offsets = f"composition({padded},L((32,4)))"
    u = "make_copy_atom('universal','f32')"
    wrong = f"make_tiled_copy({u},{offsets},(32,4))"
    assert "memory offsets belong to make_cotiled_copy" in ours(wrong).refused
    right = f"make_cotiled_copy({u},{offsets},{padded}).get_slice(7).partition_D(T({padded}))"
    assert ours(right).text == theirs(right).text == "35 o ((1,4),1,1):((0,1),0,0)"
    small = f"make_tiled_copy({u},L((32,4),(4,1)),(4,16)).get_slice(31).partition_D(I((4,16)))"
    assert theirs(small).text is not None and "T16 V0 is given number 64" in ours(small).refused


STAGED = "L((128,(64,2)),(64,(1,8192)))"
PAIRED = "make_tmem_copy(make_copy_atom('tcgen05.ld.32x32b.x32','f32'),TM(L((128,128),(65536,1)),32))"


def test_offsets_of_a_compact_tile_are_found_by_pairing():
    """The DSL traces the wrong store without a word: thread 1's first element lies at 4096, 64 is right."""
    offsets = f"composition({STAGED},L((128,128)))"
    store = "make_copy_atom('universal','bf16')"
    wrong = f"make_tiled_copy({store},{offsets},(128,128))"
    right = f"make_cotiled_copy({store},{offsets},{STAGED})"
    for copy, first, step in ((wrong, 4096, 64), (right, 64, 1)):
        part = theirs(f"{copy}.get_slice(1).partition_D(T({STAGED}))").text
        assert part == ours(f"{copy}.get_slice(1).partition_D(T({STAGED}))").text
        assert part == f"{first} o ((1,(64,2)),1,1):((0,({step},8192)),0,0)"
    names = dict(OURS)
    load, good, bad = (eval(copy, names) for copy in (PAIRED, right, wrong))
    check_pair(load, good, (128, 128))
    with pytest.raises(LayoutError, match=r"T0 V1 .* 16380 of 16384 .* make_cotiled_copy takes those"):
        check_pair(load, bad, (128, 128), eval(STAGED, names))


@pytest.mark.parametrize("repeat", [8, 32])
def test_a_load_and_a_store_of_another_shape_are_no_pair(repeat):
    accumulator = Layout((128, 128), (65536, 1))
    load = make_tmem_copy(make_copy_atom("tcgen05.ld.32x32b.x32", "f32"), accumulator)
    check_pair(load, make_tmem_copy(make_copy_atom(f"tcgen05.st.32x32b.x{repeat}", "f32"), accumulator), (128, 128))
    with pytest.raises(LayoutError, match="T0 V"):
        other = make_tmem_copy(make_copy_atom("tcgen05.st.16x256b.x4", "f32"), accumulator)
        check_pair(load, other, (128, 128))


def test_elements_left_out_are_named():
    expression = "make_tiled_copy(make_copy_atom('universal','f32'),L((4,4),(1,8)),(4,8))"
    assert theirs(expression).text is not None
    assert re.search(r"leaves out 16 of the 32 elements .* the first is \(0,1\)", ours(expression).refused)


# -- the other public cases -------------------------------------------------------------------------------------------


def test_v3_staging_of_96_columns():
    """Two warpgroups along N own 96 columns each: 64-column atoms tear them, 32-column atoms do not."""
    mma = "make_tiled_mma(mma_atom(wgmma(96,'f16','f16')),(1,2,1))"
    copy = f"make_tiled_copy_C(make_copy_atom('stmatrix.m8n8.x4','f16'),{mma})"
    sw128, sw64 = "L(((8,24),(64,3)),((64,512),(1,12288)))", "L(((8,24),(32,6)),((32,256),(1,6144)))"
    refused = ours(f"{copy}.get_slice(0).partition_D(T({sw128}))").refused
    assert "its mode 1 runs 64 elements (SW128's rows) and jumps, runs of 32 (SW64's rows) would fit" in refused
    assert theirs(f"{copy}.get_slice(0).partition_D(T({sw128}))", "sm_90a").text is None
    right = f"{copy}.get_slice(0).partition_D(T({sw64}))"
    assert ours(right).text == theirs(right, "sm_90a").text == "0 o ((8,(2,3)),3,1):((1,(16,6144)),2048,0)"


@pytest.mark.parametrize(("n", "columns", "fits"), [(96, 64, False), (96, 32, True), (64, 64, True), (160, 64, False)])
def test_v3_neighbours(n, columns, fits):
    """Columns of an atom have to divide a warpgroup's."""
    copy = make_tiled_copy_C(
        make_copy_atom("stmatrix.m8n8.x4", "bf16"),
        make_tiled_mma(mma_atom(layoutlab.atoms.mma.wgmma(n, "bf16", "f32")), (1, 2, 1)),
    )
    panels = 2 * n // columns
    staging = Layout(((8, 16), (columns, panels)), ((columns, 8 * columns), (1, 128 * columns)))
    if fits:
        parts = [copy.get_slice(t).partition_D(staging) for t in range(256)]
        assert sorted(p(i) for p in parts for i in range(p.size())) == list(range(128 * 2 * n))
    else:
        with pytest.raises(LayoutError, match=r"runs of 32 \(SW64.s rows\) would fit"):
            copy.get_slice(0).partition_D(staging)


def test_v4_swizzle_without_a_base():
    copy = make_tiled_copy_tv(make_copy_atom("universal", "f32"), Layout((8, 8)), Layout((1, 1)))
    part = copy.get_slice(9).partition_S(ComposedLayout(Swizzle(4, 0, 6), 0, Layout((64, 16))))
    assert str(part) == "S<4,0,6> o 65 o ((1,1),8,2):((0,0),8,512)"
    assert [part((0, 0), i, 0) for i in range(3)] == [64, 72, 80]
    assert [part((0, 0), i, 1) for i in range(2)] == [584, 576]
    expression = "make_tiled_copy_tv(make_copy_atom('universal','f32'),L((8,8)),L((1,1))).get_slice(9)"
    assert theirs(f"{expression}.partition_S(T(S(4,0,6,0,L((64,16))),32))").text == str(part)


def test_v6_two_steps():
    copy = make_tiled_copy_tv(make_copy_atom("universal", "f16", 128), Layout((16, 16)), Layout((8, 1)))
    assert str(copy.tiler) == "(128:1, 16:1)" and str(copy.tv) == "(256,8):(8,1)"
    assert str(copy.get_slice(0).partition_D(Layout((128, 32)))) == "0 o ((8,1),1,2):((1,0),0,2048)"


# -- laws -------------------------------------------------------------------------------------------------------------

powers = st.sampled_from([1, 2, 4])


@st.composite
def plain_copies(draw):
    """A copy by threads and values of any order, and a tensor of whole tiles."""
    threads = Layout((draw(powers), draw(st.sampled_from([1, 2, 3]))))
    if draw(st.booleans()):
        threads = Layout(threads.shape, (threads.shape[1], 1))
    values = Layout((draw(powers), draw(st.sampled_from([1, 2]))))
    atom = make_copy_atom("universal", "f32", 32 * draw(st.sampled_from([1, values.size()])))
    copy = make_tiled_copy_tv(atom, threads, values)
    tile = [entry.size() for entry in copy.tiler]
    shape = tuple(extent * draw(st.integers(1, 3)) for extent in tile)
    order = draw(st.booleans())
    return copy, Layout(shape, (1, shape[0]) if order else (shape[1], 1))


def elements(part):
    return [part(i) for i in range(part.size())]


@settings(max_examples=60, deadline=None)
@given(plain_copies())
def test_threads_cover_the_tensor_once(case):
    copy, tensor = case
    for side in ("partition_S", "partition_D"):
        parts = [getattr(copy.get_slice(t), side)(tensor) for t in range(copy.size)]
        assert sorted(x for part in parts for x in elements(part)) == list(range(tensor.size()))


@settings(max_examples=30, deadline=None)
@given(plain_copies())
def test_both_sides_of_a_plain_copy_agree(case):
    copy, tensor = case
    for t in range(copy.size):
        assert copy.get_slice(t).partition_S(tensor) == copy.get_slice(t).partition_D(tensor)


@settings(max_examples=30, deadline=None)
@given(plain_copies())
def test_a_partition_of_memory_is_memory_at_the_partition_of_coordinates(case):
    copy, tensor = case
    coordinates = ComposedLayout(None, (0, 0), make_identity_layout(tensor.shape))
    for t in range(copy.size):
        there = elements(copy.get_slice(t).partition_D(coordinates))
        assert [tensor(*at) for at in there] == elements(copy.get_slice(t).partition_D(tensor))


def test_a_wrong_tile_is_seen_by_the_cover_law():
    """Threads two rows apart that each have one row leave rows out and are refused; forced, the law would see it."""
    atom = make_copy_atom("universal", "f32")
    with pytest.raises(LayoutError, match="leaves out 4 of the 8 elements"):
        make_tiled_copy(atom, Layout((4, 1), (2, 0)), (8, 1))
    copy = make_tiled_copy(atom, Layout((4, 2), (2, 1)), (8, 1))
    object.__setattr__(copy, "tv", Layout((4, 2), (2, 0)))
    parts = [copy.get_slice(t).partition_D(Layout((8, 1))) for t in range(4)]
    assert sorted(x for part in parts for x in elements(part)) != list(range(8))


MMAS = [
    make_tiled_mma(mma_atom(mma_sync(16, 8, 16, "f16", "f32")), arranged, permutation)
    for arranged, permutation in (
        ((1, 1, 1), (None, None, None)),
        ((2, 2, 1), (32, 32, 16)),
        ((1, 2, 1), (16, Layout((8, 2, 2), (1, 16, 8)), 16)),
        ((4, 1, 1), (64, 16, 16)),
    )
]


@pytest.mark.parametrize("mma", MMAS, ids=lambda m: f"{m.thr}{m.permutation}")
def test_threads_of_an_mma_cover_each_operand(mma):
    """C once; A once for each instruction along N, B for each along M."""
    _, m, n, _ = mma.thr.shape
    for operand, times, shape in (("A", n, (64, 32)), ("B", m, (32, 32)), ("C", 1, (64, 32))):
        parts = [getattr(mma.get_slice(t), f"partition_{operand}")(Layout(shape)) for t in range(mma.size)]
        found = sorted(x for part in parts for x in elements(part))
        assert found == sorted(list(range(shape[0] * shape[1])) * times)


@pytest.mark.parametrize("mma", MMAS, ids=lambda m: f"{m.thr}{m.permutation}")
@pytest.mark.parametrize("count", [1, 2, 4])
def test_retile_takes_each_register_to_its_element(mma, count):
    """The registers of A retiled for ldmatrix: a bijection, and each is the element that the copy brings there."""
    for operand, make, shape in (("A", make_tiled_copy_A, (64, 32)), ("B", make_tiled_copy_B, (32, 32))):
        atom = make_copy_atom(f"ldmatrix.m8n8.x{count}", "f16")
        try:
            copy = make(atom, mma)
        except LayoutError as refused:
            assert "one instruction takes" in str(refused)
            continue
        coordinates = ComposedLayout(None, (0, 0), make_identity_layout(shape))
        registers = Layout(getattr(mma, f"partition_shape_{operand}")(shape))
        retiled = copy.retile(registers)
        assert sorted(elements(retiled)) == list(range(registers.size()))
        for t in (0, 5, 31):
            wanted = elements(getattr(mma.get_slice(t), f"partition_{operand}")(coordinates))
            brought = elements(copy.get_slice(t).partition_D(coordinates))
            assert [wanted[r] for r in elements(retiled)] == brought
    assert retiled.shape[0] != ()


@pytest.mark.parametrize("op", ["32x32b.x32", "32x32b.x8", "16x256b.x4", "16x64b.x8", "16x128b.x4"])
@pytest.mark.parametrize("columns", [64, 96, 128])
def test_threads_of_a_load_cover_the_accumulator(op, columns):
    copy = make_tmem_copy(make_copy_atom(f"tcgen05.ld.{op}", "f32"), Layout((128, columns), (65536, 1)))
    parts = [copy.get_slice(t).partition_D(Layout((128, columns))) for t in range(128)]
    assert sorted(x for part in parts for x in elements(part)) == list(range(128 * columns))


def test_threads_that_do_not_exist():
    copy = make_tiled_copy_tv(make_copy_atom("universal", "f32"), Layout((8, 8)), Layout((1, 1)))
    with pytest.raises(LayoutError, match="threads 0 to 63, there is no thread 64"):
        copy.get_slice(64)
    with pytest.raises(LayoutError, match="threads 0 to 31"):
        MMAS[0].get_slice(-1)


# -- layoutlab eval ---------------------------------------------------------------------------------------------------


def test_expressions_make_and_partition_copies(capsys):
    copy = "make_tiled_copy_tv(make_copy_atom('universal', 'f16', 128), (16,16):(16,1), (8,1):(1,0))"
    assert main(["eval", copy]) == 0
    assert parse(capsys.readouterr().out) == eval(COPIES[0], dict(OURS)).record()
    assert main(["eval", f"partition_D({copy}, 9, (128,64):(64,1))"]) == 0
    printed = theirs(f"{COPIES[0]}.get_slice(9).partition_D(T(L((128,64),(64,1))))").text
    assert capsys.readouterr().out.strip() == printed
    mma = "make_tiled_mma(mma_atom(mma_sync(16, 8, 16, 'f16', 'f32')), (2,2,1), (32,32,16))"
    assert main(["eval", f"tv_layout({mma}, 'C')"]) == 0
    printed = theirs("make_tiled_mma(mma_atom(mma_sync(16,8,16,'f16','f32')),(2,2,1),(32,32,16)).tv_layout_C_tiled")
    assert capsys.readouterr().out.strip() == printed.text
    assert main(["eval", f"partition_S({copy}, 0, (128,24):(24,1))"]) == 1
    assert "16 in mode 1 does not divide the tensor's 24" in capsys.readouterr().err
    assert main(["eval", "make_copy_atom('ldmatrix', 'f16')"]) == 1
    assert "is no copy instruction" in capsys.readouterr().err
