"""Random settings of the named handoffs: proved exactly where a few words about the settings say that all is right."""

from __future__ import annotations

import random
from math import gcd

import pytest

import layoutlab as ll
from layoutlab.catalogue import epilogue, ldsm, oRescale, rs_reuse, sK, sQ, sV, tP

BITS = {"bf16": 16, "e4m3": 8}


def judged(function, settings):
    """Whether the handoff is proved; None where it is refused."""
    try:
        return ll.verify(function(**settings)).proved
    except ll.LayoutError:
        return None


def agree(function, cases, right, least):
    """Each verdict is what `right` says; refusals are of wrong settings alone, and some cases are right, some wrong."""
    seen = {True: 0, False: 0, None: 0}
    for settings in cases:
        got = judged(function, settings)
        assert bool(got) == right(**settings), (function.__name__, settings, got)
        seen[got] += 1
    assert seen[True] >= least and seen[False] >= least, seen


def drawn(count, seed, **choices):
    pick = random.Random(seed)
    return [{name: pick.choice(values) for name, values in choices.items()} for _ in range(count)]


def columns(load):
    shape, repeat = load.split(".x")
    return int(repeat) * {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}[shape]


def test_p_through_tensor_memory():
    def right(p_offset, read_offset, read_unit, kv, head_dim, dtype, slot, statistics, load, first_warp):
        wide = kv * BITS[dtype] // 32
        at = read_offset if read_unit == "columns" else read_offset * BITS[dtype] / 32
        first = slot * kv
        p = set(range(first + p_offset, first + p_offset + wide))
        live = {*range(first, first + statistics), *range((1 - slot) * kv, (2 - slot) * kv)}
        live |= set(range(2 * kv, 2 * kv + head_dim))
        return p_offset == at and not p & live and p <= set(range(512)) and load != "16x256b.x4" and not first_warp

    cases = drawn(
        120,
        1,
        p_offset=[32, 32, 32, 0, 16, 64, 96, 200, 480, -2],
        read_offset=[32, 32, 32, 0, 64, 16],
        read_unit=["columns", "columns", "elements"],
        kv=[64, 128],
        head_dim=[64, 256],
        dtype=["bf16", "e4m3"],
        slot=[0, 1],
        statistics=[0, 2, 33],
        load=["32x32b.x16", "32x32b.x32", "16x256b.x4"],
        first_warp=[0, 0, 1],
    )
    paired = {"read_unit": "columns", "load": "32x32b.x32", "first_warp": 0}
    cases += [{**case, "read_offset": case["p_offset"], **paired} for case in cases[:40]]
    agree(tP, cases, right, least=10)


ATOMS = ["32x32b.x8", "32x32b.x32", "32x32b.x64", "16x64b.x16", "16x128b.x8", "16x256b.x4"]


def test_o_out_of_tensor_memory_and_back():
    def right(head_dim, column, store_column, load, store, factors, first_warp):
        one_row = load.startswith("32x32b")
        paired = load == store or (one_row and store.startswith("32x32b"))
        there = column == store_column and column + head_dim <= 512
        divides = head_dim % columns(load) == head_dim % columns(store) == 0
        return there and divides and paired and first_warp % 4 == 0 and (factors == "row" or one_row)

    cases = drawn(
        120,
        2,
        head_dim=[64, 128, 256],
        column=[256, 256, 0, 384],
        store_column=[256, 256, 0],
        load=ATOMS,
        store=ATOMS,
        factors=["thread", "row"],
        first_warp=[0, 4, 1],
    )
    cases += [{**case, "store": case["load"], "store_column": case["column"]} for case in cases[:40]]
    agree(oRescale, cases, right, least=10)


LOADED = {
    "head_dim": [64, 128, 256],
    "dtype": ["bf16", "e4m3"],
    "seq": [1, 100, 300],
    "base": [0, 128, 640, 1024, 16, 64],
    "tma_swizzle": ["matching"] * 4 + ["none", "64", "128"],
    "box": ["atom"] * 4 + ["row"],
    "k_step": ["right"] * 4 + ["always_32_bytes"],
    "descriptor": ["right"] * 4 + ["swapped", "units"],
}


def operands(head_dim, dtype, base, tma_swizzle, box):
    """What sQ, sK and sV need alike: bytes of a row, of its swizzle atom, and whether TMA brings it as it is to lie."""
    row = head_dim * BITS[dtype] // 8
    atom = min(128, row)
    brought = tma_swizzle in ("matching", str(atom)) and base % 128 == 0 and (box == "atom" or row <= atom)
    return row, atom, brought


MORE = [(sQ, {}), (sK, {"kv": [64, 128], "slot": [0, 1]})]


@pytest.mark.parametrize(("function", "more"), MORE, ids=["sQ", "sK"])
def test_operands_whose_k_is_contiguous(function, more):
    def right(head_dim, dtype, seq, base, tma_swizzle, box, k_step, descriptor, **_):
        row, atom, brought = operands(head_dim, dtype, base, tma_swizzle, box)
        return brought and descriptor == "right" and (k_step == "right" or row <= atom)

    agree(function, drawn(150, 3, **LOADED, **more), right, least=15)


@pytest.mark.parametrize(("function", "more"), MORE, ids=["sQ", "sK"])
def test_the_same_operands_with_contiguous_rows(function, more):
    """Every K step of 16 or 32 ks is further on than 32 bytes, and the two strides differ."""

    def right(major, dtype, base, tma_swizzle, box, k_step, descriptor, kv=128, **_):
        _, _, brought = operands(kv, dtype, base, tma_swizzle, box)
        return brought and descriptor == "right" and k_step == "right"

    agree(function, drawn(120, 7, **LOADED, **more, major=["MN"]), right, least=10)


def test_v_whose_rows_are_contiguous():
    def right(kv, slot, read_major, head_dim, dtype, seq, base, tma_swizzle, box, k_step, descriptor):
        row, atom, brought = operands(head_dim, dtype, base, tma_swizzle, box)
        alike = (kv * atom if row > atom else 0) == 8 * atom  # lbo and sbo
        described = descriptor == "right" or (descriptor == "swapped" and alike)
        return brought and described and read_major == "MN" and k_step == "right"

    more = {"kv": [64, 128], "slot": [0, 1], "read_major": ["MN"] * 4 + ["K"]}
    agree(sV, drawn(150, 4, **LOADED, **more), right, least=15)


def test_epilogues():
    def right(n, epi_n, dtype, load, store_as, tma_swizzle, first_warp):
        bits = 32 if dtype == "f32" else 16
        width = epi_n or gcd(32, n)
        if width * bits % 256 or n % width or (load != "widest" and width % columns(load)):
            return False
        atom = next(size for size in (128, 64, 32) if width * bits // 8 % size == 0)
        built = store_as == "paired" or n % 32 == 0
        return built and tma_swizzle in ("matching", str(atom)) and first_warp % 4 == 0

    cases = drawn(
        250,
        5,
        n=[64, 96, 112, 128, 160, 192, 256],
        epi_n=[0, 16, 32, 48, 64, 96, 24],
        dtype=["bf16", "f32"],
        load=["widest", "32x32b.x8", "32x32b.x16", "32x32b.x64"],
        store_as=["paired", "paired", "32x32b.x32"],
        tma_swizzle=["matching", "matching", "64", "128"],
        first_warp=[0, 4, 0, 1],
    )
    agree(epilogue, cases, right, least=15)


def test_registers_as_the_next_operand():
    for instruction, dtype, kv in (
        (i, d, kv) for i in ("wgmma", "mma.sync") for d in BITS for kv in range(16, 257, 16)
    ):
        got = judged(rs_reuse, {"instruction": instruction, "dtype": dtype, "kv": kv})
        assert got == (None if kv % (256 // BITS[dtype]) else dtype == "bf16"), (instruction, dtype, kv)


def test_ldmatrix():
    def right(operand, k, swizzle, read_swizzle, trans, matrices):
        return (read_swizzle == "same" or swizzle == "none") and (trans, matrices) == ("right", "right")

    cases = drawn(
        100,
        6,
        operand=["A", "B", "B_trans"],
        k=[32, 64, 128],
        swizzle=["atom", "none"],
        read_swizzle=["same", "forgotten"],
        trans=["right", "right", "wrong"],
        matrices=["right", "right", "exchanged"],
    )
    agree(ldsm, cases, right, least=15)
