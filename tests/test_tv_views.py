"""Operands and sources in shared memory as matrix descriptors, and tcgen05.cp as a tiled copy: the DSL's text."""

from __future__ import annotations

import doctest
import re
from itertools import product

import numpy as np
import pytest

import layoutlab.tv.s2t
import layoutlab.tv.views
from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, parse
from layoutlab.atoms.scales import TmemCopy
from layoutlab.cli import main
from layoutlab.tv import make_copy_atom, make_s2t_copy, make_tiled_mma, mma_atom, tcgen05_mma
from layoutlab.tv.views import descriptor_view, operand_of
from layoutlab.witnesses import hold
from tests.tiled import agreeing, ours, theirs


@pytest.mark.parametrize("module", [layoutlab.tv.s2t, layoutlab.tv.views], ids=lambda m: m.__name__)
def test_doctests(module):
    result = doctest.testmod(module)
    assert result.attempted >= 4 and result.failed == 0


# -- operands ---------------------------------------------------------------------------------------------------------

K_ATOM, MN_ATOM = "S({b},4,3,0,L((8,{w}),({w},1)))", "S({b},4,3,0,L(({w},8),(1,{w})))"


def atoms(bits):
    """Every layout atom of a width, as the DSL names them; plain ones have no swizzle."""
    for b in (1, 2, 3):
        yield from (text.format(b=b, w=(128 << b) // bits) for text in (K_ATOM, MN_ATOM))
    yield from (f"L((8,{128 // bits}),({128 // bits},1))", f"L(({128 // bits},8),(1,{128 // bits}))")
    if bits == 32:
        yield "S(2,5,2,0,L((32,4),(1,32)))"


def staged():
    """tcgen05.mma's operands, tiled by each atom in two orders, one and two instructions' rows."""
    for bits, (m, n, group) in product((8, 16, 32), ((128, 64, 1), (64, 96, 1), (256, 128, 2))):
        mma = f"make_tiled_mma(mma_atom(tcgen05_mma({m},{n},{bits},{group})))"
        for atom, order, (operand, rows) in product(atoms(bits), ("", ",(1,0,2)"), (("A", m), ("B", n))):
            tile = f"(({rows // group},{256 // bits}),{1 if order else 2},8,2)"
            yield f"fragment_of({mma},'{operand}',SM(tile_to_mma_shape({atom},{tile}{order}),{bits}))"


def hopper():
    """wgmma's operands, by one and two warpgroups."""
    for kind, bits in (("'f16','f32'", 16), ("'e4m3','f32'", 8)):
        for atom, n, beside in product(atoms(bits), (64, 96, 128), (1, 2)):
            mma = f"make_tiled_mma(mma_atom(wgmma({n},{kind})),({beside},1,1))"
            for operand, rows in (("A", 64 * beside), ("B", n)):
                whole = f"SM(tile_to_shape({atom},({rows},{1024 // bits},2),(0,1,2)),{bits})"
                for thread in range(0, 128 * beside, 128):
                    part = f"{mma}.get_slice({thread}).partition_{operand}({whole})"
                    yield f"fragment_of({mma},'{operand}',{part})"


TORN = ["does not tile shape|no whole number"]


def test_operands_as_descriptors():
    """The DSL's views, both majors, all swizzles; tiles that no atom divides it rounds up."""
    found = agreeing(staged(), TORN)
    found += agreeing(hopper(), [*TORN, "wgmma reads 8-bit operands K-major"], "sm_90a")
    hold("operands as descriptors", "CuTe DSL", found)


def test_layouts_that_no_descriptor_reads_are_refused():
    """The DSL makes a view of each."""
    mma = "make_tiled_mma(mma_atom(tcgen05_mma(128,64)))"
    for layout, why in (
        ("L(((128,16),1,8),((512,1),0,16))", "rows 1024 bytes apart and no swizzle: no canonical layout"),
        ("S(3,4,3,0,L(((128,16),1,8),((72,1),0,16)))", "rows 144 bytes apart"),
        ("S(3,4,3,0,L(((128,16),1,(4,2)),((64,1),0,(8,8192))))", None),
        ("S(3,4,3,0,L(((128,16),1,(4,2)),((64,1),0,(20,8192))))", "steps by 20 elements of 16 bits"),
        ("S(3,3,3,0,L(((128,16),1,8),((64,1),0,16)))", r"is S<3,3,3> on bytes: descriptors have"),
    ):
        answer = ours(f"fragment_of({mma},'A',SM({layout},16))")
        if why is None:  # steps of 16 bytes overlap, and each is a descriptor's start all the same
            assert answer.text == theirs(f"fragment_of({mma},'A',SM({layout},16))").text
        else:
            assert re.search(why, answer.refused or ""), (layout, answer)


def test_views_need_a_part_of_this_mma():
    mma = make_tiled_mma(tcgen05_mma(128, 64))
    with pytest.raises(LayoutError, match="as the MMA partitions it, has a view of descriptors"):
        mma.make_fragment_A(mma.partition_shape_A((128, 64)))
    sB = ComposedLayout(Swizzle(3, 4, 3), 0, Layout(((64, 16), 1, 4), ((64, 1), 0, 16)))
    assert str(mma.make_fragment_B(sB)) == "(1,1,4):(0,0,2)"
    with pytest.raises(LayoutError, match="has 1024 elements for an instruction, and A of this MMA has 2048"):
        mma.make_fragment_A(sB)
    with pytest.raises(LayoutError, match="its fragment is made of a shape"):
        make_tiled_mma(mma_atom(layoutlab.atoms.mma.mma_sync(16, 8, 16, "f16", "f32"))).make_fragment_A(
            Layout((4, 1, 1))
        )
    with pytest.raises(LayoutError, match="begins 4 elements in"):
        descriptor_view(ComposedLayout(Swizzle(3, 4, 3), 4, Layout(((64, 16), 1, 4), ((64, 1), 0, 16))), 16)


@pytest.mark.parametrize(
    ("bits", "rows", "swizzle", "step"), [(8, 8, 3, 2), (16, 8, 3, 2), (8, 256, 3, 2), (16, 128, 2, 2), (32, 64, 1, 2)]
)
def test_d8_neighbours(bits, rows, swizzle, step):
    """D8: fp8 B of 8 rows, 128 bytes of K: (1,1,4):(0,0,2); the same step at other widths and swizzles."""
    width = (128 << swizzle) // bits
    count = width * bits // 256
    tile = Layout(((rows, 256 // bits), 1, count), ((width, 1), 0, 256 // bits if count > 1 else 0))
    part = ComposedLayout(Swizzle(swizzle, 4, 3), 0, tile)
    assert descriptor_view(part, bits) == Layout((1, 1, count), (0, 0, step if count > 1 else 0))
    assert operand_of(part, bits).descriptor.sbo == (width * bits if rows > 8 else 0)


def test_the_view_is_where_each_instruction_reads():
    """Start of the first descriptor plus 16 bytes a unit: where the layout has the instruction's first element."""
    sA = ComposedLayout(Swizzle(3, 4, 3), 0, Layout(((128, 16), 2, (4, 2), 3), ((64, 1), 8192, (16, 16384), 32768)))
    view = descriptor_view(sA, 16)
    for m, k, stage in product(range(2), range(8), range(3)):
        assert view(0, m, k, stage) * 16 == sA.outer((0, 0), m, k, stage) * 2


# -- tcgen05.cp -------------------------------------------------------------------------------------------------------

SHAPES = ["128x256b", "128x128b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23"]
WIDTHS = [("f8E8M0FNU", 8), ("f16", 16), ("f32", 32)]


def into(bits):
    """Tensors in Tensor Memory: plain, by warps, scale factors of several K steps."""
    lane = 65536 * 32 // bits
    yield f"L((128,{1024 // bits}),({lane},1))"
    yield f"L(((32,4),{512 // bits}),(({lane},{32 * lane}),1))"
    yield f"L(((32,4),{128 // bits},4),(({lane},{32 * lane}),1,{512 // bits}))"
    yield f"L((32,{512 // bits},4),({lane},1,{32 * lane}))"
    yield f"L(((((32,4),4),(1,4)),1,4),(((({lane},4),{32 * lane}),(0,1)),0,16))"


def copies():
    for shape, (kind, bits), group in product(SHAPES, WIDTHS, ("", "cta_group::2.")):
        atom = f"make_copy_atom('tcgen05.cp.{group}{shape}','{kind}')"
        yield atom
        for tensor in into(bits):
            copy = f"make_s2t_copy({atom},TM({tensor},{bits}))"
            yield from (copy, f"{copy}.layout_src_tv_tiled", f"{copy}.layout_dst_tv_tiled")
            yield from (f"{copy}.get_slice(0).partition_{side}(T({tensor}))" for side in "SD")


SOURCES = [
    ("32x128b.warpx4", "L((32,16,4),(262144,1,8388608))", 8, "L((32,16,4,2),(16,1,0,512))"),
    ("32x128b.warpx4", "L((32,16,4),(262144,1,8388608))", 8, "L(((8,4),16,4,3),((16,256),1,0,128))"),
    ("128x128b", "L((128,16),(131072,1))", 16, "L((128,(8,2)),(8,(1,1024)))"),
    ("128x128b", "L((128,16),(131072,1))", 16, "S(3,4,3,0,L((128,16),(64,1)))"),
    ("128x256b", "L((128,16),(131072,1))", 16, "L((128,(8,2)),(8,(1,1024)))"),
    ("128x256b", "L((128,16),(131072,1))", 16, "S(1,4,3,0,L((128,16),(16,1)))"),
    ("64x128b.warpx2::02_13", "L((64,4,2),(65536,1,4194304))", 32, "L((64,4,2),(4,1,0))"),
    ("64x128b.warpx2::01_23", "L((128,4),(65536,1))", 32, "L(((32,2,2),4),((4,0,128),1))"),
]
TYPES = {bits: kind for kind, bits in WIDTHS}


def view_of(shape, tensor, bits, source):
    copy = f"make_s2t_copy(make_copy_atom('tcgen05.cp.{shape}','{TYPES[bits]}'),TM({tensor},{bits}))"
    return f"get_s2t_smem_desc_tensor({copy},{copy}.get_slice(0).partition_S(SM({source},{bits})))"


def test_copies_into_tensor_memory():
    hold("copies into Tensor Memory", "CuTe DSL", agreeing([*copies(), *(view_of(*case) for case in SOURCES)]))


@pytest.mark.parametrize(
    ("shape", "tensor", "bits", "source", "why"),
    [
        (*SOURCES[0][:3], "L((32,16,4),(32,1,0))", "line 1 has its element 0 at byte 32, .* reads it at byte 16"),
        (*SOURCES[2][:3], "L((128,16),(16,1))", "line 1 has its element 0 at byte 32"),
        (*SOURCES[7][:3], "L(((32,2,2),4),((4,0,256),1))", "line 32 has its element 0 at byte 1024"),
        (*SOURCES[2][:3], "S(3,3,3,0,L((128,16),(64,1)))", "descriptors have S<1,4,3>"),
    ],
)
def test_lines_that_no_descriptor_reads_are_refused(shape, tensor, bits, source, why):
    assert re.search(why, ours(view_of(shape, tensor, bits, source)).refused or "")


def test_lanes_that_the_tensor_does_not_have():
    """The DSL takes a tile of half the lanes and names each twice."""
    for shape, lanes in (("128x256b", 128), ("32x128b.warpx4", 128)):
        with pytest.raises(LayoutError, match=f"{shape} writes {lanes} lanes .* and not all are in"):
            make_s2t_copy(make_copy_atom(f"tcgen05.cp.{shape}", "f32"), Layout((64, 16), (65536, 1)))
    with pytest.raises(LayoutError, match="is no tcgen05"):
        make_s2t_copy(make_copy_atom("universal", "f32"), Layout((128, 16), (65536, 1)))


def test_the_refreshing_copy_has_no_atom():
    """CuTe's layout of 4x256b has 1024 values of any type, 64 of which would be 16-bit ones."""
    text = "make_copy_atom('tcgen05.cp.4x256b','f16')"
    assert "(4,256)" in theirs(text).text
    assert "4 lines of 256 f16 instead of 256 bits" in ours(text).refused
    assert TmemCopy("4x256b").lane_map()(line=3, copy=0, bit=17) == {"lane": 96, "bit": 17}


@pytest.mark.parametrize("shape", SHAPES)
def test_tiled_copies_go_where_the_table_says(shape):
    """Each value of the tiled copy: from the line and to the lane of the instruction table."""
    op = TmemCopy(shape)
    tensor = Layout((128, op.line_bits // 32), (65536, 1))
    copy = make_s2t_copy(make_copy_atom(f"tcgen05.cp.{shape}", "f32"), tensor)
    part = copy.get_slice(0).partition_D(tensor).outer
    there = part(np.arange(part.size()))
    line, twin, word = (x.ravel() for x in np.indices((op.lines, op.copies, op.line_bits // 32)))
    at = op.lane_map()(line=line, copy=twin, bit=32 * word)
    assert sorted(there.tolist()) == sorted((at["lane"] * 65536 + at["bit"] // 32).tolist())
    assert len(set(there.tolist())) == 128 * op.columns


def test_the_dsl_sends_lines_to_the_lanes_of_the_table():
    """Its partitions over all lanes: where a value is taken from is the first lane of its line, where it goes any."""
    seen = 0
    for shape in SHAPES:
        op = TmemCopy(shape)
        tensor = f"L((128,{op.line_bits // 32}),(65536,1))"
        copy = f"make_s2t_copy(make_copy_atom('tcgen05.cp.{shape}','f32'),TM({tensor},32))"
        source, written = (
            parse(theirs(f"{copy}.get_slice(0).partition_{side}(T({tensor}))").text).outer for side in "SD"
        )
        index = np.arange(written.size())
        sent = np.unique(np.stack([source(index), written(index)], axis=1), axis=0)
        line, twin, word = (x.ravel() for x in np.indices((op.lines, op.copies, op.line_bits // 32)))
        places = [op.lane_map()(line=line, copy=which, bit=32 * word) for which in (0, twin)]
        mine = np.stack([at["lane"] * 65536 + at["bit"] // 32 for at in places], axis=1)
        assert np.array_equal(sent, np.unique(mine, axis=0)), shape
        seen += 1
    hold("tcgen05.cp, lines to lanes", "CuTe DSL", seen)


def test_expressions(capsys):
    copy = "make_s2t_copy(make_copy_atom('tcgen05.cp.128x128b', 'f16'), (128,16):(131072,1))"
    assert main(["eval", f"partition_S({copy}, 0, (128,16):(8,1))"]) == 0
    assert capsys.readouterr().out.strip() == "0 o (((128,8),1),1,2):(((8,1),0),0,8)"
    assert main(["eval", "make_copy_atom('tcgen05.cp.32x128b', 'f16')"]) == 1
    assert "did you mean 32x128b.warpx4" in capsys.readouterr().err
