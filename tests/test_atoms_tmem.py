"""Tensor Memory: load and store maps, datapaths, columns, against CuTe DSL, Triton and the public cases."""

from __future__ import annotations

import doctest
import math
import re
from itertools import product

import numpy as np
import pytest

import layoutlab.atoms.datapath
import layoutlab.atoms.tmem
import layoutlab.atoms.tmem_buffers
from layoutlab.atoms.datapath import (
    accumulator,
    accumulator_layout,
    check_allocation,
    columns_of,
    operand_a,
    operand_copies,
    operand_layout,
    pointer_step,
)
from layoutlab.atoms.tmem import TmemAtom, check_warp
from layoutlab.atoms.tmem_buffers import Buffer, TmemBuffers
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.witnesses import hold
from tests.oracles import dsl
from tests.oracles import triton_facts as triton

MODULES = [layoutlab.atoms.tmem, layoutlab.atoms.datapath, layoutlab.atoms.tmem_buffers]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_doctests(module):
    result = doctest.testmod(module)
    assert result.attempted >= 9 and result.failed == 0


def table(layout):
    threads, values = (int(layout[i].size()) for i in (0, 1))
    t, v = np.indices((threads, values))
    return layout(t + threads * v)


# -- loads and stores -------------------------------------------------------------------------------------------------


def test_dsl_agrees_on_every_load_and_store():
    """Lane and column of each value; the DSL numbers values along a lane first, lane after lane."""
    seen = refused = 0
    for fact in dsl.facts("copies", "sm_100a"):
        name = fact["name"]
        if fact["kind"] == "refused" and fact["what"] == "tmem_copy":
            with pytest.raises(LayoutError, match="is the most"):
                TmemAtom.parse(name.split(".", 1)[1].removesuffix(".packed"), name[:2])
            refused += 1
        if fact["kind"] != "tmem_copy":
            continue
        direction, shape, repeat, *packed = name.split(".")
        atom = TmemAtom(direction, shape, int(repeat[1:]), packed=bool(packed))
        registers, memory = (fact["dst"], fact["src"])[:: 1 if direction == "ld" else -1]
        index = table(dsl.layout(registers))  # (thread, value) -> element of the atom
        elements = dsl.layout(memory)[1].size()
        lane, along = index // (elements // atom.lanes), index % (elements // atom.lanes)
        t, v = np.indices(index.shape)
        mine = atom.value_map(fact["bits"])(t=t, v=v)
        step = 32 if packed else fact["bits"]
        assert (mine["lane"] == lane).all() and (mine["bit"] == along * step).all(), fact
        lanes, width = atom.tile(fact["bits"])
        assert np.array_equal(table(atom.tv_layout(fact["bits"])), lane + lanes * along) and lanes * width == elements
        seen += 1
    hold("tcgen05.ld, st", "CuTe DSL", seen)
    assert refused == 2 * 3 * 3


def test_triton_agrees_on_loads():
    """Warp w holds lanes 32 w on; a 16-lane shape takes two instructions for 32 lanes, or one where rows are 64."""
    seen = set()
    for fact in triton.facts("load"):
        rows, n = fact["shape"]
        shape, bits = fact["variant"], fact["bits"]
        registers, lanes, warps = (triton.image(fact[key]) for key in ("registers", "lanes", "warps"))
        if shape == "32x32b" and rows == 64:
            shape = "16x32bx2"
        columns = n * bits // 32
        per_repeat = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2}[shape]
        if not columns // per_repeat:
            continue
        atom = TmemAtom("ld", shape, min(columns // per_repeat, 128))
        values = atom.registers * 32 // bits
        v, t, w = np.indices((len(registers), len(lanes), len(warps)))
        part, inside = v // values, v % values  # further instructions for more columns, then for 16 more lanes
        mine = atom.value_map(bits)(t=t, v=inside)
        across = -(-columns // (atom.columns if shape != "16x32bx2" else 2 * atom.repeat))
        row = mine["lane"] + 16 * (part // across) + (32 if rows == 128 else 16) * w
        column = mine["bit"] // bits + part % across * atom.columns * 32 // bits
        theirs = registers[v] ^ lanes[t] ^ warps[w]
        assert (row == theirs[..., 0]).all() and (column == theirs[..., 1]).all(), fact
        seen.add((shape, bits, atom.repeat))
    hold("tcgen05.ld, st", "Triton", len(seen))
    assert len({shape for shape, _, _ in seen}) == 5


@pytest.mark.parametrize("fault", ["32x32b", "16x128b"])
def test_triton_tells_a_wrong_map(fault):
    """The same comparison sees a shape taken for another."""
    fact = next(f for f in triton.facts("load") if (f["variant"], f["bits"], f["shape"]) == ("16x64b", 32, [128, 32]))
    registers, lanes = triton.image(fact["registers"]), triton.image(fact["lanes"])
    atom = TmemAtom("ld", fault, 8)
    t, v = np.indices((32, 8))
    mine, theirs = atom.value_map()(t=t, v=v), registers[v] ^ lanes[t]
    assert not ((mine["lane"] == theirs[..., 0]) & (mine["bit"] // 32 == theirs[..., 1])).all()


def test_every_word_once():
    """No register of any atom repeats a word, and a packed one takes two columns."""
    checked = 0
    for direction, shape, packed in product(
        ("ld", "st"), ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"), (0, 1)
    ):
        for repeat in (1, 2, 4, 8, 16, 32, 64, 128):
            try:
                atom = TmemAtom(direction, shape, repeat, packed=bool(packed))
            except LayoutError:
                continue
            assert atom.word_map().collision() is None
            assert atom.word_map().size == atom.registers * 32 == atom.lanes * atom.columns // (2 if packed else 1)
            assert TmemAtom.parse(str(atom)) == atom
            checked += 1
    assert checked == 2 * 2 * (3 * 8 + 7 + 6)


def test_half_split_is_in_columns():
    """The immediate of 16x32bx2: threads 16-31 take that many columns further on."""
    for split in (1, 8, 100):
        atom = TmemAtom("ld", "16x32bx2", 4, half_split=split)
        t, r = np.indices((32, 4))
        mine = atom.word_map()(t=t, r=r)
        assert np.array_equal(mine["column"], r + t // 16 * split) and np.array_equal(mine["lane"], t % 16 + 0 * r)
    with pytest.raises(LayoutError, match="no half_split"):
        TmemAtom("ld", "32x32b", 4, half_split=4)


@pytest.mark.parametrize(
    "text, why",
    [
        ("32x32b.x3", "power of two"),
        ("16x512b.x1", "no shape 16x512b"),
        ("32x32b", "names no tcgen05"),
        ("tcgen05.ld.32x32b.x4.unpack::16b", "a load packs"),
        ("16x128b.x128", "x64 at most"),
    ],
)
def test_names_of_no_instruction(text, why):
    with pytest.raises(LayoutError, match=why):
        TmemAtom.parse(text)


def test_t3_warps_and_lanes():
    """T3: warps 2 to 5 that read thread t = row t are refused unless warp % 4 is the lane's quarter."""
    for start in range(8):
        for w in range(4):
            if (start + w) % 4 == w:
                check_warp(start + w, 32 * w)
            else:
                with pytest.raises(LayoutError, match=f"warp {start + w} reaches lanes {32 * ((start + w) % 4)}"):
                    check_warp(start + w, 32 * w)
    check_warp(1, 48, lanes=16)
    with pytest.raises(LayoutError):
        check_warp(1, 56, lanes=16)


@pytest.mark.parametrize(
    "n, repeat", [(112, 16), (144, 16), (160, 32), (176, 16), (208, 16), (48, 16), (96, 32), (40, 8)]
)
def test_v2_v5_repetitions_that_divide(n, repeat):
    """V2 and V5: x32 over 48 columns spans 64, x16 is right; an epilogue's sub-tile of N columns is gcd(32, N)."""
    assert repeat == math.gcd(32, n)
    assert TmemAtom("ld", "32x32b", repeat).steps(n) == n // repeat
    if repeat < 32:
        spanned = -(-n // 32) * 32
        with pytest.raises(
            LayoutError, match=f"over {n} columns spans {spanned}: x{repeat} divides them, {n // repeat} st"
        ):
            TmemAtom("ld", "32x32b", 32).steps(n)


def test_steps_of_other_shapes():
    assert TmemAtom("ld", "16x256b", 2).steps(48) == 3 and TmemAtom("ld", "32x32b", 8, packed=True).steps(48) == 3
    with pytest.raises(LayoutError, match=r"16x256b.x4 over 48 columns spans 64: x2 divides them, 3 steps"):
        TmemAtom("ld", "16x256b", 4).steps(48)
    with pytest.raises(LayoutError, match=r"16x256b.x1 over 12 columns spans 16$"):
        TmemAtom("ld", "16x256b", 1).steps(12)


# -- datapaths --------------------------------------------------------------------------------------------------------


def test_dsl_agrees_on_fragments():
    seen = {"a": 0, "c": 0}
    for fact in dsl.facts("tmem", "sm_100a"):
        kind, acc, shape, group, _ = re.match(r"(\w+)\.(\d+)\.(m\d+n\d+)\.(\w+)\.(\w+)", fact["name"]).groups()
        m, n = map(int, re.match(r"m(\d+)n(\d+)", shape).groups())
        cta_group = {"ONE": 1, "TWO": 2}[group]
        if fact["kind"] == "refused":
            with pytest.raises(LayoutError, match=f"M is {m}"):
                accumulator(m, n, cta_group)
            continue
        theirs = dsl.layout(fact["c"])[0]
        mine = accumulator_layout(m, n, cta_group, bits=int(acc))
        assert np.array_equal(table(theirs), table(mine)), fact
        seen["c"] += 1
        if "a" in fact:
            bits = {"f16": 16, "tf32": 32, "f8": 8}[kind]
            theirs = dsl.layout(fact["a"])  # ((rows, k), 1, steps)
            steps = theirs[2].size()
            k = 256 // bits * steps
            mine = operand_layout(m, k, bits, cta_group)
            flat = np.concatenate([table(theirs[0]) + theirs[2](i) for i in range(steps)], axis=1)
            assert np.array_equal(flat, table(mine)), fact
            seen["a"] += 1
    hold("tcgen05.mma, D in Tensor Memory", "CuTe DSL", seen["c"])
    hold("tcgen05.mma, A in Tensor Memory", "CuTe DSL", seen["a"])


def test_layout_and_map_of_an_accumulator_agree():
    cases = [(64, 32, 1, False), (128, 112, 1, False), (256, 96, 2, False), (128, 160, 2, False), (32, 64, 1, True)]
    for m, n, group, ws in [*cases, (64, 128, 1, True), (128, 256, 1, True)]:
        rows = m // group
        r, c = np.indices((rows, n))
        at = accumulator(m, n, group, ws=ws)(m=r, n=c)
        assert not np.any(at["cta"])
        assert np.array_equal(at["lane"] * 65536 + at["column"], accumulator_layout(m, n, group, ws=ws)(r + rows * c))
        if group == 2:
            other = accumulator(m, n, group)(m=r + rows, n=c)
            assert np.all(other["cta"]) and np.array_equal(other["lane"], at["lane"])


def test_triton_agrees_on_accumulators():
    seen = 0
    for fact in triton.facts("tmem"):
        m, n = fact["shape"]
        where = accumulator(m, n, 2 if fact["two_ctas"] else 1)
        rows, columns = triton.image(fact["rows"]), triton.image(fact["cols"])
        (block, _), stride = fact["block"], fact["stride"]
        lane, column = np.meshgrid(range(128), range(0, len(columns), stride), indexing="ij")
        at = rows[lane] ^ columns[column]
        if block == 64 and not fact["two_ctas"]:  # lanes that an M of 64 leaves alone
            left = lane[:, 0] & 16 == 0
            assert (at[~left] == at[left]).all()
            at, lane, column = (x[left] for x in (at, lane, column))
        found = where(m=at[..., 0], n=at[..., 1])
        assert not np.any(found["cta"])
        assert (found["lane"] == lane).all() and (found["column"] * stride == column).all(), fact
        seen += 1
    hold("tcgen05.mma, D in Tensor Memory", "Triton", seen)


def test_t2_two_ctas_of_64_rows():
    """T2: (r, c) -> lane r + 64 (c div N/2), column c mod N/2."""
    for n in (32, 96, 128, 256):
        r, c = np.indices((64, n))
        at = accumulator(128, n, cta_group=2)(m=r, n=c)
        assert np.array_equal(at["lane"], r + 64 * (c // (n // 2))) and np.array_equal(at["column"], c % (n // 2))
    assert str(accumulator_layout(128, 128, 2)) == "(64,(64,2)):(65536,(1,4194304))"


def test_t4_packed_p():
    """T4: bf16 P 128x128 takes 64 columns, fp8 32 and the fragment ((128,32),1,4,1):((262144,1),0,32,0)."""
    for bits, columns in ((16, 64), (8, 32), (32, 128)):
        assert operand_a(128, 128, bits).bounds("bit")[1] // 32 + 1 == columns
        assert columns_of(128, bits) == columns
    fp8 = Layout((128, (32, 4)), (262144, (1, 32)))
    assert np.array_equal(table(operand_layout(128, 128, 8)), table(fp8))
    assert operand_copies(128, 2) == 2


@pytest.mark.parametrize(
    "call, why",
    [
        (lambda: accumulator(96, 64), "M is 96"),
        (lambda: accumulator(128, 24), "multiple of 16"),
        (lambda: accumulator(64, 264), "N is 264"),
        (lambda: accumulator(64, 96, ws=True), "N 64, 128 and 256"),
        (lambda: accumulator(128, 64, 2, ws=True), "in one CTA"),
        (lambda: operand_a(128, 24, 16), "K steps of 32 bytes"),
        (lambda: operand_a(128, 32, 4), "8-, 16- or 32-bit"),
        (lambda: check_allocation(0), "power of two"),
        (lambda: check_allocation(1024), "not 1024$"),
        (lambda: columns_of(3, 16), "inside a 32-bit column"),
    ],
)
def test_refusals(call, why):
    with pytest.raises(LayoutError, match=why):
        call()


# -- columns ----------------------------------------------------------------------------------------------------------


def test_t1_p_inside_s():
    """T1: n_block 128, bf16 P in S at offset n_block / 2, two stages; then the variant with O0, O1, P at 32 and 160."""
    plain = [Buffer.typed(f"P{i}", 128 * i + 128 // 2, 128, 16, over=(f"S{i}",)) for i in (0, 1)]
    assert [(p.first, p.end) for p in plain] == [(64, 128), (192, 256)]
    scores = [Buffer.typed(f"S{i}", 128 * i, 128, 32) for i in (0, 1)]
    TmemBuffers((*scores, *plain)).check()

    vectors = [Buffer("vec0", 0, 2, over=("S0",)), Buffer("vec1", 128, 2, over=("S1",))]
    p = [Buffer.typed(f"P{i}", at, 128, 16, over=(f"S{i}",)) for i, at in enumerate((32, 160))]
    outputs = [Buffer.typed(f"O{i}", at, 128, 32) for i, at in enumerate((256, 384))]
    kernel = TmemBuffers((*scores, *outputs, *p, *vectors))
    kernel.check()
    assert [(b.first, b.end) for b in p] == [(32, 96), (160, 224)]
    assert {(a.name, b.name) for a, b, _ in kernel.aliases()} == {
        ("S0", "P0"),
        ("S0", "vec0"),
        ("S1", "P1"),
        ("S1", "vec1"),
    }
    assert str(kernel.at(16)) == "column 16: S0" and str(kernel.at(0)) == "column 0: S0, vec0"

    # A pointer to bf16 moves two elements a column: 32 columns are 64, and 32 elements only column 16.
    assert pointer_step(32, 16) == 64 and columns_of(32, 16) == 16
    with pytest.raises(LayoutError, match=r"vec0 = columns \[0, 2\) overlaps P0 = columns \[0, 64\) in \[0, 2\)"):
        TmemBuffers((Buffer.typed("P0", 0, 128, 16), *vectors)).check()


def test_buffers_stay_inside():
    with pytest.raises(LayoutError, match=r"O = columns \[448, 576\) leaves"):
        Buffer("O", 448, 128)
    with pytest.raises(LayoutError, match="no buffer Q: there are S"):
        TmemBuffers((Buffer("S", 0, 128),))["Q"]
