"""Operands read by descriptors: the map, and the descriptor of a layout, against the DSL, Triton and silicon."""

from __future__ import annotations

import doctest
from itertools import product

import numpy as np
import pytest

import layoutlab.atoms.operand as module
from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.atoms.operand import as_modes, canonical_layout, descriptor_of, k_per_instruction, operand_map
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.witnesses import hold
from tests.oracles import dsl
from tests.oracles import triton_facts as triton
from tests.test_atoms_descriptors import described, records


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted >= 8 and result.failed == 0


def tabulated(read):
    m, k = np.indices(tuple(read.extents.values()))
    return read(m=m, k=k)["bit"]


def test_map_equals_addresses():
    """The table of digits and the arithmetic of `bit_addresses`, for every mode, width and some starts."""
    equal = refused = 0
    swizzles, starts = (0, 32, 64, 128, "128_32b"), (0, 16, 48, 1024, 2048 + 112)
    for swizzle, major, bits, start in product(swizzles, ("K", "MN"), (4, 6, 8, 16, 32), starts):
        if (swizzle, major) == ("128_32b", "K"):
            continue
        desc, padded = SmemDescriptor(start, 16384, 8192, swizzle), bits == 6
        k = k_per_instruction(bits, padded=padded)
        rows = 256 if bits == 4 else 128
        try:
            read = operand_map(desc, rows, bits, major, padded=padded)
        except LayoutError as error:
            assert start and "carr" in str(error), error  # a start inside of the pattern
            refused += 1
            continue
        assert np.array_equal(tabulated(read), desc.bit_addresses(rows, k, bits, major, padded=padded))
        equal += 1
    assert equal + refused == 9 * 5 * 5 and equal > 100


def test_map_on_silicon():
    """Where the table exists it is what the tensor core read; where it would carry it is refused, never wrong."""
    equal = refused = 0
    for config, element in records():
        try:
            read = operand_map(described(config), 64, 16, "MN" if config["mn_major"] else "K")
        except LayoutError:
            refused += 1
            continue
        assert np.array_equal(tabulated(read), element.astype(np.int64) * 16), config
        equal += 1
    assert equal >= 35 and equal + refused == 122


def test_base_offset_repairs_a_base_inside_the_pattern():
    """Offsets swizzled from a base, a multiple of 128 bytes, are read back with that base offset (SM90 silicon)."""
    for row in range(8):
        desc = SmemDescriptor(128 * row, 0, 1024, 128, base_offset=row)
        read = operand_map(desc, 64)
        m, k = np.indices((64, 16))
        offset = m * 128 + k * 2
        assert np.array_equal(tabulated(read) // 8, 128 * row + (offset ^ offset >> 3 & 0x70))


SWIZZLES = {
    "S<0,4,3>": None,
    "S<1,4,3>": (1, 4, 3),
    "S<2,4,3>": (2, 4, 3),
    "S<3,4,3>": (3, 4, 3),
    "S<2,5,2>": (2, 5, 2),
}


def composed(text, bits):
    """A shared-memory layout as the DSL prints it: a swizzle on bytes over a layout of elements."""
    swizzle, _, outer = text.split(" o ")
    bms = SWIZZLES[swizzle]
    layout = dsl.layout(outer)
    return ComposedLayout(Swizzle(*bms, unit_bits=8), 0, layout, element_bits=bits) if bms else layout


def test_dsl_agrees_on_descriptor_words():
    """Every layout atom, width and tile: the word in the compiled kernel reads what our fields read."""
    seen, words = set(), 0
    for fact in dsl.facts("descriptors", "sm_100a"):
        assert fact["kind"] == "descriptor", fact
        bits, layout = fact["bits"], composed(fact["layout"], fact["bits"])
        mine = descriptor_of(layout, bits)
        theirs = SmemDescriptor.decode(int(fact["word"], 16), "sm_100")
        rows, k = (layout.outer if isinstance(layout, ComposedLayout) else layout)[0][0].size(), 256 // bits
        assert mine.major == ("K" if fact["name"].startswith("K") else "MN")
        assert (theirs.start, theirs.swizzle) == (0, mine.descriptor.swizzle)
        tile = (rows, k, bits, mine.major)
        assert np.array_equal(theirs.bit_addresses(*tile), mine.descriptor.bit_addresses(*tile)), fact
        assert mine.descriptor.check(*tile).size == rows * k
        # The fields themselves, where the instruction reads them.
        if mine.descriptor.sbo:
            assert theirs.sbo == mine.descriptor.sbo
        if mine.descriptor.lbo and (mine.major == "MN" or theirs.swizzle == 0):
            assert theirs.lbo == mine.descriptor.lbo
        seen.add(fact["name"])
        words += 1
    assert len(seen) == 9 * 4 - 2
    hold("matrix descriptor, addresses read", "CuTe DSL", words)


def test_triton_agrees_on_swizzled_shared_memory():
    """NVMMASharedLayout is read by the descriptor that we derive for the canonical layout of its tile."""
    seen = 0
    for fact in triton.facts("shared"):
        bits, swizzle = fact["bits"], fact["swizzle"]
        rows, inner = fact["shape"][:: -1 if fact["transposed"] else 1]
        offsets = triton.image(fact["offsets"])[:, :: -1 if fact["transposed"] else 1]
        width = swizzle * 8 // bits  # elements of the atom's row
        strides = (width, (1, rows * width))
        tile = Layout((rows, (width, inner // width)), strides)
        layout = ComposedLayout(Swizzle({32: 1, 64: 2, 128: 3}[swizzle], 4, 3, unit_bits=8), 0, tile, element_bits=bits)
        where = np.empty((rows, inner), np.int64)
        where[offsets[:, 0], offsets[:, 1]] = np.arange(rows * inner) * bits
        if fact["transposed"]:  # rows are K there, and the contiguous direction is MN
            outer = Layout(((width, inner // width), rows), ((1, rows * width), width))
            layout, where = ComposedLayout(layout.inner, 0, outer, element_bits=bits), where.T
        found = descriptor_of(layout, bits)
        mn = inner if fact["transposed"] else rows
        read = operand_map(found.descriptor, mn, bits, found.major, found.starts_bytes)
        assert found.major == ("MN" if fact["transposed"] else "K")
        assert np.array_equal(tabulated(read), where), fact
        seen += 1
    hold("swizzled shared memory, written", "Triton", seen)


# -- public cases -----------------------------------------------------------------------------------------------------


def sw(bits, base, shift, layout, width=16):
    return ComposedLayout(Swizzle(bits, base, shift, unit_bits=8), 0, layout, element_bits=width)


@pytest.mark.parametrize("element_bits, k_step", [(16, 16), (8, 32), (32, 8)])
def test_d1_steps(element_bits, k_step):
    """D1 and its neighbours: +2 units inside the 128-byte atom, then on to the next; SBO field 64."""
    width = 1024 // element_bits
    tile = Layout(((128, k_step), 1, (4, 2)), ((width, 1), 0, (k_step, 128 * width)))
    found = descriptor_of(sw(3, 4, 3, tile, element_bits), element_bits)
    assert found.descriptor.sbo >> 4 == 64 and found.major == "K"
    assert found.starts_bytes == (0, 32, 64, 96, 16384, 16416, 16448, 16480)
    assert [s // 16 for s in found.starts_bytes[:5]] == [0, 2, 4, 6, 1024]


@pytest.mark.parametrize("atom, swizzle", [((8, 16), 32), ((8, 32), 64), ((8, 64), 128), ((8, 8), 0)])
def test_d3_atoms(atom, swizzle):
    """D3: the K-major fp16 atoms, tiled along rows; the plain one along K too."""
    rows, width = atom
    outer = Layout(((rows, 8), (width, 2)), ((width, rows * width), (1, 8 * rows * width)))
    layout = sw({32: 1, 64: 2, 128: 3}[swizzle], 4, 3, outer) if swizzle else outer
    found = descriptor_of(layout)
    assert found.descriptor.swizzle == swizzle and found.descriptor.sbo == rows * width * 2


def test_d4_not_injective():
    """D4: 16-byte units (8,4):(1,4) as an atom."""
    with pytest.raises(LayoutError, match=r"32 elements in 20 places; the stride 4 falls among the 8 .* 8 is right"):
        descriptor_of(Layout((8, 4), (1, 4)), element_bits=128)


def test_d5_mn_major_b():
    """D5: LBO field 512, SBO field 64, K step +128."""
    tile = Layout((((64, 2), 16), 1, 4, 2), (((1, 4096), 64), 0, 1024, 8192))
    stage = Layout((((64, 2), 16), 1, 4), (((1, 4096), 64), 0, 1024))
    found = descriptor_of(sw(3, 4, 3, stage))
    assert (found.major, found.descriptor.lbo >> 4, found.descriptor.sbo >> 4) == ("MN", 512, 64)
    assert found.steps_units == (128, 128, 128)
    both = descriptor_of(sw(3, 4, 3, tile))  # the second stage goes on 8192 elements further
    assert both.starts_bytes[4] == 16384


def test_d8_fp8_b_of_eight_columns():
    """D8: fp8 B operand of WGMMA (64,8), 8x128 SW128: legal, fragment (1,1,4):(0,0,2)."""
    found = descriptor_of(sw(3, 4, 3, Layout((8, 128), (128, 1)), 8), 8)
    assert found.steps_units == (2, 2, 2) and found.descriptor.encode("sm_90") >> 62 == 1


@pytest.mark.parametrize(
    "layout, bits, why",
    [
        (Layout((128, 64), (64, 1)), 16, r"128 bytes apart and no swizzle.*need Swizzle<3,4,3>"),
        (sw(3, 4, 3, Layout((128, 64), (72, 1))), 16, r"144 bytes apart and swizzle 128.*rows are 128 bytes apart"),
        (sw(2, 4, 3, Layout((128, 64), (64, 1))), 16, r"128 bytes apart and swizzle 64.*need Swizzle<3,4,3>"),
        (sw(3, 3, 3, Layout((128, 64), (64, 1))), 16, r"S<3,3,3> on bytes: descriptors have"),
        (ComposedLayout(Swizzle(3, 4, 3, unit_bits=16), 0, Layout((8, 64), (64, 1)), 16), 16, r"S<3,5,3> on bytes"),
        (Layout((128, 64), (2, 256)), 16, "neither rows nor ks are contiguous"),
        (sw(3, 4, 3, Layout((128, 24), (64, 1))), 16, "24 ks: an instruction takes 16"),
        (sw(3, 4, 3, Layout((12, 64), (64, 1))), 16, "12 rows are no whole number of 8"),
        (sw(3, 4, 3, Layout(((8, 2, 2), 64), ((64, 1024, 512), 1))), 16, "is read at byte .* and lies at byte"),
        (Layout((8, 4, 2, 2)), 16, "4 modes"),
        (Layout(((128, 16), 2, 4), ((64, 1), 8192, 16)), 16, "rows of 2 instructions"),
    ],
)
def test_layouts_that_are_not_canonical(layout, bits, why):
    with pytest.raises(LayoutError, match=why):
        descriptor_of(layout, bits)


def test_refusals_say_what_would_be_canonical():
    with pytest.raises(LayoutError, match=r"canonical is S<3,4,3>\[8b\] o 0 o \[16b\]\(\(8,16\),\(64,1\)\)"):
        descriptor_of(sw(3, 4, 3, Layout((128, 64), (72, 1))))
    with pytest.raises(LayoutError, match=r"canonical is \(\(8,16\),\(8,8\)\):\(\(8,64\),\(1,1024\)\)$"):
        descriptor_of(Layout((128, 64), (64, 1)))


def test_canonical_layouts_are_read():
    """Every mode, major and width, one atom and several: fields are found and read back."""
    seen = 0
    for swizzle, major, bits in product((0, 32, 64, 128, "128_32b"), ("K", "MN"), (4, 8, 16, 32)):
        if (swizzle, major) == ("128_32b", "K"):
            continue
        for rows, ks in ((256, 1024 // bits), (512, 2048 // bits)):
            layout = canonical_layout(rows, ks, bits, major, swizzle)
            found = descriptor_of(layout, bits)
            assert (found.major, found.descriptor.swizzle, len(found.starts_bytes)) == (
                major,
                swizzle,
                ks * bits // 256,
            )
            outer = layout.outer if isinstance(layout, ComposedLayout) else layout
            assert outer.size() == outer.cosize() == rows * ks
            seen += 1
    assert seen == 9 * 4 * 2
    with pytest.raises(LayoutError, match="ks are no whole number of 64"):
        canonical_layout(128, 96)


def test_starts_that_no_strides_give():
    assert as_modes([64]) == [] and as_modes([0, 0, 32, 32]) == [(2, 0), (2, 32)]
    with pytest.raises(LayoutError, match="no sum of strides"):
        as_modes([0, 32, 64, 128])
    with pytest.raises(LayoutError, match="no starts"):
        as_modes([])
