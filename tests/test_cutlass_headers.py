"""The instruction tables against CUTLASS's C++ headers: what a program that includes them printed, recorded.

Tensor Memory addresses are in bits there: a lane is 65536 columns of 32 bits.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, parse
from layoutlab.atoms.datapath import LANE_COLUMNS, accumulator, accumulator_layout, operand_layout
from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.atoms.operand import descriptor_of
from layoutlab.atoms.scales import TmemCopy
from layoutlab.atoms.tmem import WORD_BITS, TmemAtom
from layoutlab.witnesses import hold

DATA = Path(__file__).parent / "data" / "cutlass_headers.json"
LANE_BITS = LANE_COLUMNS * WORD_BITS


@cache
def facts(kind):
    return tuple(fact for fact in json.loads(DATA.read_text())["facts"] if fact["kind"] == kind)


def layout(text):
    return parse(re.sub(r"_(\d)", r"\1", text))


def whole(side):
    """side(t, i) of all t and i."""
    t, i = np.indices((side[0].size(), side[1].size()))
    return side(t + side[0].size() * i)


# -- tcgen05.ld, st ---------------------------------------------------------------------------------------------------

SHAPES = {"32dp32b": "32x32b", "16dp64b": "16x64b", "16dp128b": "16x128b", "16dp256b": "16x256b", "16dp32b": "16x32bx2"}


def places(fact, bits):
    """(thread, value) -> lane and bit of the lane, as the header's layouts say it."""
    registers = layout(fact["dst" if fact["name"].startswith("ld") else "src"])
    there = layout(fact["val"])(whole(registers)[:, ::bits])
    return there // LANE_BITS, there % LANE_BITS


def transfers():
    for fact in facts("copy"):
        direction, shape, *rest = fact["name"].split(".")
        if direction in ("ld", "st"):
            yield fact, TmemAtom(direction, SHAPES[shape], int(rest[0]), packed="packed" in rest)


def test_loads_and_stores():
    seen = 0
    for fact, atom in transfers():
        bits = 16 if atom.packed else 32
        lane, bit = places(fact, bits)
        t, v = np.indices(lane.shape)
        mine = atom.value_map(bits)(t=t, v=v)
        assert (mine["lane"] == lane).all() and (mine["bit"] == bit).all(), fact
        seen += 1
    hold("tcgen05.ld, st", "CUTLASS C++", seen)


def test_another_shape_is_seen():
    fact = next(f for f, _ in transfers() if f["name"] == "ld.16dp128b.2")
    lane, _ = places(fact, 32)
    t, v = np.indices(lane.shape)
    assert (TmemAtom("ld", "16x64b", 4).value_map()(t=t, v=v)["lane"] != lane).any()


# -- tcgen05.cp -------------------------------------------------------------------------------------------------------

COPIES = {
    "cp.128dp256bit": "128x256b",
    "cp.128dp128bit": "128x128b",
    "cp.4dp256bit": "4x256b",
    "cp.4x32dp128bit": "32x128b.warpx4",
    "cp.2x64dp128bitlw0213": "64x128b.warpx2::02_13",
    "cp.2x64dp128bitlw0123": "64x128b.warpx2::01_23",
}


def lines_and_lanes(fact, near):
    """(line, bit of the line, lane, bit of the lane) of each bit that is written, rows sorted.

    Source bits are counted along `near` lines first, then along a line, then over further lines.
    """
    source, written = (whole(layout(fact[side]))[0] for side in ("src", "dst"))
    width = 256 if "256bit" in fact["name"] else 128
    line, bit = source % near + near * (source // (near * width)), source // near % width
    there = layout(fact["val"])(written)
    return np.unique(np.stack([line, bit, there // LANE_BITS, there % LANE_BITS], axis=1), axis=0)


def test_copies_to_tensor_memory():
    """Each line of shared memory goes to the lanes that the header sends it to, bit by bit."""
    seen = 0
    for fact in facts("copy"):
        if fact["name"] not in COPIES:
            continue
        op = TmemCopy(COPIES[fact["name"]])
        # The four lines of 4dp stand for all 128 of a refresh, 32 apart.
        near = 128 if op.lines == 4 else op.line_modes()[0][0]
        theirs = lines_and_lanes(fact, near)
        if op.lines == 4:
            theirs[:, 0] //= 32
        line, twin, bit = (x.ravel() for x in np.indices((op.lines, op.copies, op.line_bits)))
        mine = op.lane_map()(line=line, copy=twin, bit=bit)
        assert np.array_equal(theirs, np.unique(np.stack([line, bit, mine["lane"], mine["bit"]], axis=1), axis=0)), fact
        seen += 1
    hold("tcgen05.cp, lines to lanes", "CUTLASS C++", seen)


# -- datapaths --------------------------------------------------------------------------------------------------------


def test_accumulators():
    seen = 0
    for fact in facts("d"):
        one, *rest = layout(fact["layout"])
        assert [part.size() for part in rest] == [1, 1]
        mine = accumulator_layout(fact["m"], fact["n"], fact["cta_group"], bits=fact["bits"])
        assert np.array_equal(whole(one), whole(mine)), fact
        seen += 1
    hold("tcgen05.mma, D in Tensor Memory", "CUTLASS C++", seen)


def test_operands():
    seen = 0
    for fact in facts("a"):
        one, _, steps = layout(fact["layout"])
        mine = operand_layout(fact["m"], 4 * one[1].size(), fact["bits"], fact["cta_group"])
        m, k = np.indices((one[0].size(), 4 * one[1].size()))
        theirs = one(m, k % one[1].size()) + steps(k // one[1].size())
        assert np.array_equal(whole(mine), theirs), fact
        seen += 1
    hold("tcgen05.mma, A in Tensor Memory", "CUTLASS C++", seen)


def test_weight_stationary_accumulators():
    """M 32, 64 and 128 with N 64, 128 and 256: bands of lanes."""
    seen = 0
    for fact in facts("ws"):
        one = layout(fact["layout"])[0]
        mine = accumulator_layout(fact["m"], fact["n"], ws=True, bits=fact["bits"])
        assert np.array_equal(whole(one), whole(mine)), fact
        m, n = np.indices((fact["m"], fact["n"]))
        there = accumulator(fact["m"], fact["n"], ws=True)(m=m, n=n)
        lane = LANE_BITS // fact["bits"]
        assert np.array_equal(whole(one), there["lane"] * lane + there["column"] * (WORD_BITS // fact["bits"]))
        seen += 1
    assert {(fact["m"], fact["n"]) for fact in facts("ws")} == {(m, n) for m in (32, 64, 128) for n in (64, 128, 256)}
    hold("tcgen05.mma.ws, D in Tensor Memory", "CUTLASS C++", seen)


def test_a_wrong_band_is_seen():
    fact = next(f for f in facts("ws") if (f["m"], f["n"]) == (32, 128))
    assert not np.array_equal(whole(layout(fact["layout"])[0]), whole(Layout((32, 128), (65536, 1))))
    with pytest.raises(LayoutError, match="N 64, 128 and 256, not 96"):
        accumulator_layout(32, 96, ws=True)


# -- matrix descriptors -----------------------------------------------------------------------------------------------


def stored(fact):
    """The layout of the tile in shared memory, its swizzle counting bytes."""
    swizzle, _, outer = fact["layout"].split(" o ")
    bits, base, shift = map(int, re.findall(r"\d+", swizzle))
    plain = layout(outer)
    return ComposedLayout(Swizzle(bits, base, shift, unit_bits=8), 0, plain, fact["bits"]) if bits else plain


def test_descriptor_words():
    """Every layout atom and width, in both orders of tiling: the header's word reads what ours reads."""
    seen, kinds = 0, set()
    for fact in facts("descriptor"):
        if fact["type"] == "padded":
            continue
        mine = descriptor_of(stored(fact), fact["bits"])
        theirs = SmemDescriptor.decode(int(fact["word"], 16), "sm_100")
        tile = (fact["rows"], 256 // fact["bits"], fact["bits"], mine.major)
        assert fact["atom"].startswith(mine.major) and theirs.swizzle == mine.descriptor.swizzle, fact
        assert np.array_equal(theirs.bit_addresses(*tile), mine.descriptor.bit_addresses(*tile)), fact
        unread = {"lbo"} if mine.major == "K" and theirs.swizzle else set()
        unread |= {name for name in ("lbo", "sbo") if not getattr(mine.descriptor, name)}
        for name in {"lbo", "sbo"} - unread:
            assert getattr(theirs, name) == getattr(mine.descriptor, name), fact
        kinds.add((fact["atom"], fact["bits"]))
        seen += 1
    assert len(kinds) == 4 * 4 + 4 * 3 + 1
    hold("matrix descriptor, addresses read", "CUTLASS C++", seen)


@pytest.mark.parametrize("bits", [4, 6])
def test_padded_descriptors(bits):
    """kind::f8f6f4 lays 4- and 6-bit elements out as bytes are: each 16 of them begin where 16 bytes would."""
    seen = 0
    for fact in facts("descriptor"):
        if fact["type"] != "padded":
            continue
        theirs = SmemDescriptor.decode(int(fact["word"], 16), "sm_100")
        major = "K" if fact["atom"].startswith("K") else "MN"
        at = descriptor_of(stored(fact), 8).descriptor.addresses(fact["rows"], 32, 8, major)
        padded = theirs.bit_addresses(fact["rows"], 32, bits, major, padded=True)
        m, k = np.indices(at.shape)
        inside = (k if major == "K" else m) % 16
        assert np.array_equal(padded, (at - inside) * 8 + inside * bits), fact
        seen += 1
    if bits == 6:
        hold("matrix descriptor, 6-bit elements padded", "CUTLASS C++", seen)
