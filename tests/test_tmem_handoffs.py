"""oRescale and epilogue: paired atoms by plain loops over the ISA's pictures; the epilogue's tiles; planted faults."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
import pytest

import layoutlab as ll
from layoutlab.catalogue import epilogue, oRescale
from layoutlab.witnesses import hold
from tests.oracles import dsl


def refuted(verdict: ll.Verdict) -> list[str]:
    return [claim.name for claim in verdict.claims if claim.verdict != "proved"]


def by_32x32b(t: int, v: int) -> tuple[int, int]:
    """Lane and column of value v: a thread's lane, registers along the columns."""
    return t, v


def by_16x64b(t: int, v: int) -> tuple[int, int]:
    """x16: 32 columns at a time, even and odd threads in neighbouring columns, pairs of threads in lanes 8 apart."""
    register, upper, step = v % 16, v // 16 % 2, v // 32
    lane = 32 * (t // 32) + t % 32 // 4 + 8 * (t % 2) + 16 * upper
    return lane, t % 4 // 2 + 2 * register + 32 * step


def by_16x256b(t: int, v: int) -> tuple[int, int]:
    """x4: 32 columns at a time, a pair of columns to a thread, then the lane 8 further, then the next 8 columns."""
    pair, eight, group, upper, step = v % 2, v // 2 % 2, v // 4 % 4, v // 16 % 2, v // 32
    return 32 * (t // 32) + t % 32 // 4 + 8 * eight + 16 * upper, 2 * (t % 4) + pair + 8 * group + 32 * step


WAYS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "32x32b.x32": by_32x32b,
    "16x64b.x16": by_16x64b,
    "16x256b.x4": by_16x256b,
}


@pytest.mark.parametrize("store", WAYS)
@pytest.mark.parametrize("load", WAYS)
def test_loads_and_stores_pair_as_enumeration_says(load: str, store: str) -> None:
    verdict = ll.verify(oRescale(head_dim=64, load=load, store=store, factors="row"))
    wrong = [(t, v) for t in range(128) for v in range(64) if WAYS[load](t, v) != WAYS[store](t, v)]
    if load == store:
        assert verdict.proved and not wrong
        return
    assert refuted(verdict) == ["placed"]
    claim = verdict["placed"]
    assert claim.witness and (claim.witness.thread, claim.witness.value) == (wrong[0][0] + 128, wrong[0][1])
    m, n = WAYS[load](*wrong[0])
    assert dict(claim.witness.coordinate or {}) == {"m": m, "n": n}
    assert f"{len(wrong)} of {128 * 64} elements are misplaced" in claim.why
    assert verdict.explanation[0] == "an order: lanes and columns are exchanged"


def test_a_thread_of_several_rows_has_one_factor() -> None:
    verdict = ll.verify(oRescale(load="16x256b.x4", store="16x256b.x4"))
    assert refuted(verdict) == ["legal"]
    assert verdict["legal"].witness.message == (
        "T128 multiplies by the factor of its row, m=0, and its V2 is of row m=8: take 32x32b, or a factor for each row"
    )


def test_o_put_back_elsewhere() -> None:
    verdict = ll.verify(oRescale(store_column=288))
    assert refuted(verdict) == ["covered", "placed", "inside"]
    assert "an offset: everything is written 32 columns too high" in verdict.explanation


@pytest.mark.parametrize("n", [64, 96, 112, 128, 144, 160, 176, 192, 208, 256])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_every_epilogue_tile(n: int, dtype: str) -> None:
    """Each sub-tile of gcd(32, n) columns in its own buffer, rows of it swizzled by the hardware's function."""
    h = epilogue(n=n, dtype=dtype)
    verdict = ll.verify(h)
    assert verdict.proved and verdict.checked == 128 * n
    size = 2 if dtype == "bf16" else 4
    width = gcd(32, n) * size  # bytes of a row: 32, 64 or 128
    m, c = np.indices((128, n))
    sub, byte = c * size // width, c * size % width
    linear = sub * 128 * width + m * width + byte
    expected = linear ^ (linear >> 7 & width // 16 - 1) << 4
    assert (h.reader.read.at(m=m, n=c)["bit"] == 8 * expected).all()
    places = h.writer.owner.places.at(t=m, v=c)
    assert (places["m"] == m).all() and (places["n"] == c).all()
    assert (h.writer.write.at(t=m, v=c)["bit"] == 8 * expected).all()


@pytest.mark.parametrize("n", [112, 144, 176, 208])
def test_a_sub_tile_that_does_not_divide_covers_the_next_tiles_columns(n: int) -> None:
    verdict = ll.verify(epilogue(n=n, epi_n=32))
    assert refuted(verdict) == ["inside", "legal"]
    end = -(-n // 32) * 32
    assert verdict["inside"].witness.message == f"T0 V{n} (m=0, n={n}) lies outside of the tile: n ends at {n - 1}"
    assert verdict["legal"].witness.message == (
        f"sub-tiles of 32 columns over {n} span {end}: 16 divides both, {n // 16} of them"
    )


@pytest.mark.parametrize(("n", "width", "fits"), [(64, 48, 16), (96, 64, 32), (128, 96, 32), (256, 160, 32)])
def test_a_sub_tile_whose_load_divides_the_tile_has_to_divide_it_too(n: int, width: int, fits: int) -> None:
    """48 columns by x16 loads over 64: no load reaches past the tile's end where sub-tiles do."""
    verdict = ll.verify(epilogue(n=n, epi_n=width))
    assert refuted(verdict) == ["inside", "legal"]
    assert verdict["inside"].witness.message == f"T0 V{n} (m=0, n={n}) lies outside of the tile: n ends at {n - 1}"
    span = -(-n // width) * width
    assert verdict["legal"].witness.message == (
        f"sub-tiles of {width} columns over {n} span {span}: {fits} divides both, {n // fits} of them"
    )
    assert ll.verify(epilogue(n=n, epi_n=fits)).proved


@pytest.mark.parametrize(
    ("load", "width", "spans"),
    [
        ("32x32b.x64", 32, "spans 64: x32 divides them, 1 step"),
        ("32x32b.x32", 48, "spans 64: x16 divides them, 3 steps"),
        ("32x32b.x32", 16, "spans 32: x16 divides them, 1 step"),
    ],
)
def test_a_load_that_is_wider_than_its_sub_tile(load: str, width: int, spans: str) -> None:
    """It divides the whole tile of 192 columns, and every sub-tile's partition spans more than the sub-tile."""
    verdict = ll.verify(epilogue(n=192, epi_n=width, load=load))
    assert refuted(verdict) == ["legal"]
    message = f"a sub-tile's load: tcgen05.ld.{load} over {width} columns {spans}"
    assert verdict["legal"].witness.message == message


def test_sub_tiles_without_whole_swizzle_rows_are_refused() -> None:
    with pytest.raises(ll.LayoutError, match=r"24 columns of 16 bits has rows of 48 bytes, .* 16 columns have"):
        epilogue(epi_n=24)
    with pytest.raises(ll.LayoutError, match=r"8 columns of 16 bits has rows of 16 bytes, .* 16 columns have"):
        epilogue(epi_n=8)
    assert ll.verify(epilogue(epi_n=8, dtype="f32", bits=128)).proved
    with pytest.raises(
        ll.LayoutError, match=r"store_as=32x32b.x32 takes 128 values .* leaves 112: 32 columns at a time"
    ):
        epilogue(n=112, store_as="32x32b.x32")


def test_sub_tiles_of_64_as_the_attention_kernel_has_them() -> None:
    for n in (64, 128, 256):
        assert ll.verify(epilogue(n=n, epi_n=64, first_warp=4)).proved
    for load in ("32x32b.x8", "32x32b.x16"):
        assert ll.verify(epilogue(epi_n=48, n=96, load=load)).proved


def test_a_store_built_from_another_load() -> None:
    verdict = ll.verify(epilogue(store_as="16x256b.x4"))
    assert refuted(verdict) == ["placed", "legal"]
    assert verdict["placed"].witness.message == (
        "T0 V2 (m=0, n=2) writes byte 512; the TMA store reads that element at byte 4"
    )
    assert verdict.explanation[0].startswith("an order: ")


@pytest.mark.parametrize(
    ("options", "claims"),
    [
        ({"tma_swizzle": "none"}, ["placed"]),
        ({"tma_swizzle": "32"}, ["placed", "legal"]),
        ({"tma_swizzle": "128"}, ["covered", "placed"]),
        ({"load": "16x256b.x4"}, ["legal"]),  # no 128-bit store has its pairs together
        ({"first_warp": 1}, ["legal"]),
    ],
)
def test_planted_faults_of_the_epilogue(options: dict[str, Any], claims: list[str]) -> None:
    assert refuted(ll.verify(epilogue(**options))) == claims


def test_stmatrix_stores_what_16x256b_loaded() -> None:
    verdict = ll.verify(epilogue(load="16x256b.x4", route="stmatrix"))
    assert "16 stmatrix.x4 a warp, 4 wavefronts each (conflict-free)" in str(verdict)
    for n, load in ((128, "16x256b.x4"), (112, "16x256b.x2"), (176, "16x256b.x2"), (96, "16x256b.x4")):
        assert ll.verify(epilogue(n=n, load=load, route="stmatrix")).proved
    for options in ({}, {"dtype": "f32", "load": "16x256b.x4"}, {"load": "32x32b.x32"}):
        with pytest.raises(ll.LayoutError, match="stmatrix stores 16-bit elements that 16x256b loaded"):
            epilogue(route="stmatrix", **options)


def test_dsl_makes_the_same_staging_layouts() -> None:
    seen = 0
    for fact in dsl.facts("operands", "sm_100a"):
        if fact["kind"] != "epilogue":
            continue
        dtype = {16: "bf16", 32: "f32"}[fact["bits"]]
        h = epilogue(n=192 if fact["n"] in (48, 96) else 128, epi_n=fact["n"], dtype=dtype)
        outer = dsl.layout(fact["outer"])
        ours = h.writer.storage
        assert ours.layout.inner == ll.parse(fact["swizzle"]), fact
        m, n = np.indices((128, fact["n"]))
        assert (ours.element.at(m=m, n=n)["element"] == outer(m + 128 * n)).all(), fact
        stage = outer[2].stride[1] if isinstance(outer[2].stride, tuple) else outer[2].stride
        if h.tile.shape[1] > fact["n"]:
            assert ours.element.at(m=0, n=fact["n"])["element"] == stage
        seen += 1
    hold("staging of an epilogue", "CuTe DSL", seen)


def test_an_accumulator_is_taken_as_it_was_written() -> None:
    S = ll.Tile("S", m=128, n=64, bits=32)
    writer = ll.umma_out(ll.tmem(over=S, column=64))
    assert ll.verify(ll.Handoff(S, writer=writer, reader=ll.tcgen05_ld("16x256b.x4").takes(S, column=64))).proved
    mistaken = ll.tcgen05_ld("16x256b.x4").takes(S, column=64, as_if=ll.tcgen05_ld("32x32b.x32").over(S))
    verdict = ll.verify(ll.Handoff(S, writer=writer, reader=mistaken))
    assert refuted(verdict) == ["placed"]
    assert verdict["placed"].witness.message == (
        "D (m=0, n=2) writes lane 0 column 66; the load reads that element at lane 8 column 64"
    )
    M64 = ll.Tile("S", m=64, n=64, bits=32)
    h = ll.Handoff(M64, writer=ll.umma_out(ll.tmem(over=M64)), reader=ll.tcgen05_ld("16x64b.x16").takes(M64, column=0))
    assert ll.verify(h).proved


def test_tma_to_global_memory() -> None:
    O = ll.Tile("O", m=100, n=128, bits=16)  # noqa: E741
    gO = ll.gmem("(100,128):(512,1)", over=O)
    assert ll.verify(ll.Handoff(O, writer=ll.tma_write(gO, box={"n": 64, "m": 128}), reader=ll.declared(gO, O))).proved
    other = ll.declared(ll.gmem("(100,128):(256,1)", over=O), O)
    verdict = ll.verify(ll.Handoff(O, writer=ll.tma_write(gO, box={"n": 64, "m": 128}), reader=other))
    assert refuted(verdict) == ["covered", "placed"] and verdict["placed"].witness.wrote.space == "gmem"
    odd = ll.gmem("(100,128):(500,1)", over=O)
    verdict = ll.verify(ll.Handoff(O, writer=ll.tma_write(odd, box={"n": 64, "m": 128}), reader=ll.declared(odd, O)))
    assert verdict["legal"].witness.message == "a stride of 1000 bytes, which 16 does not divide"


def test_64_rows_lie_in_16_lanes_of_each_warp() -> None:
    """M 64: 32x32b would take rows from lanes where there are none (CuTe DSL refuses that copy)."""
    S = ll.Tile("S", m=64, n=64, bits=32)
    written = ll.umma_out(ll.tmem(over=S))
    verdict = ll.verify(ll.Handoff(S, writer=written, reader=ll.tcgen05_ld("32x32b.x32").takes(S, column=0)))
    assert refuted(verdict) == ["covered", "placed", "legal"] and "take a shape of 16 lanes" in str(verdict)
    P = ll.Tile("P", m=64, k=64, bits=16)
    sP = ll.smem("(64,64):(64,1)", over=P)
    for atom, proved in (("32x32b.x32", False), ("16x256b.x4", True)):
        writer = ll.store(ll.tcgen05_ld(atom).over(P), sP, bits=16)
        assert ll.verify(ll.Handoff(P, writer=writer, reader=ll.declared(sP, P))).proved == proved
