"""sP: every right combination proved, every planted fault refuted with its claim, witness and reason, all of it walked
too."""

from __future__ import annotations

import itertools
import json
from typing import Any

import brute
import numpy as np
import pytest
from oracles import dsl

from layoutlab import Handoff, LayoutError, Verdict, assert_placed, verify
from layoutlab.algebra import composition
from layoutlab.catalogue import sP
from layoutlab.handoff.operand import SmemOperand
from layoutlab.handoff.report import store_wavefronts

RIGHT_ROUTES = ("coordinate", "composition", "tiled_copy_d")
BYTES = {"bf16": 2, "f16": 2, "e4m3": 1, "e5m2": 1}
ALL = list(itertools.product((64, 128, 256), BYTES, ("x16", "x32", "x64")))


def read_by_descriptors(h: Handoff) -> Any:
    """[m, k] -> bit, from the descriptors' addresses, which silicon records are held against."""
    operand = SmemOperand(*h.tile.shape, h.tile.bits)
    desc, step = operand.descriptor(h.writer.storage.base_bytes), operand.k_parts[0]
    parts = [desc.stepped(s).bit_addresses(h.tile.shape[0], step, h.tile.bits) for s in operand.starts_bytes]
    return np.concatenate(parts, axis=1)


def walk(h: Handoff) -> brute.Walk:
    """The route's own layout evaluated over all threads and values."""
    found = brute.walk(h, read_by_descriptors(h))
    kind, _, text = h.writer.route.rpartition(" ")
    if kind.startswith("at "):
        t, v = (a.reshape(-1) for a in np.meshgrid(np.arange(128), np.arange(h.tile.shape[1]), indexing="ij"))
        if text != "coordinates":
            places = brute.layout(text)(t, v)
            found.write = brute.swizzled(h, places * h.tile.bits) if "offsets" in kind else brute.stored(h, places)
    return found


def agrees(verdict: Verdict) -> None:
    """The verdict's claims against walking the same handoff."""
    w = walk(verdict.handoff)
    assert w.write.size == verdict.checked == 128 * verdict.handoff.tile.shape[1]
    for name, found in (("placed", w.placed()), ("exclusive", w.exclusive())):
        witness, first = verdict[name].witness, verdict.handoff.writer.owner.first_thread
        assert (witness and (witness.thread - first, witness.value)) == found, name
    lost = verdict["covered"].witness
    assert (lost and tuple(lost.coordinate.values())) == w.covered()


# -- right combinations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", RIGHT_ROUTES)
def test_right_routes_are_proved_without_computing_a_point(route: str) -> None:
    count = 0
    for kv, dtype, load in ALL:
        for head_dim in (64, 128, 256):
            verdict = verify(sP(store=route, kv=kv, dtype=dtype, load=load, head_dim=head_dim))
            assert verdict.proved, (kv, dtype, load)
            assert verdict.checked == 128 * kv
            assert sum(claim.evaluated for claim in verdict.claims) == 0
            count += 1
    assert count == 108


@pytest.mark.parametrize("route", RIGHT_ROUTES)
def test_right_routes_walked(route: str) -> None:
    for kv, dtype in itertools.product((64, 128), BYTES):
        agrees(verify(sP(store=route, kv=kv, dtype=dtype, load="x16")))


def test_the_routes_write_the_same_bytes() -> None:
    for kv, dtype, load in ALL:
        writes = [sP(store=route, kv=kv, dtype=dtype, load=load).writer.write.table for route in RIGHT_ROUTES]
        assert writes[0] == writes[1] == writes[2]


@pytest.mark.parametrize("base", [0, 16, 144, 512, 1024, 16384])
def test_absolute_writers_are_right_at_any_16_byte_base(base: int) -> None:
    verdict = verify(sP(base=base))
    assert verdict.proved
    agrees(verdict)


def test_a_base_that_no_descriptor_can_hold_is_refused() -> None:
    with pytest.raises(LayoutError, match="start is 8 bytes: the field holds bytes >> 4"):
        sP(base=8)


def test_the_proof_computes_no_points() -> None:
    assert sum(claim.evaluated for claim in verify(sP()).claims) == 0


def test_the_composition_route_is_the_composition() -> None:
    h = sP(store="composition")
    assert h.writer.route == "at element offsets ((32,4),(32,(2,2))):((64,2048),(1,(32,8192)))"
    assert str(composition(SmemOperand(128, 128, 16).matrix(), h.writer.owner.layout)) in h.writer.route


# -- planted faults ---------------------------------------------------------------------------------------------------


def refuted(**settings: Any) -> Verdict:
    """The verdict of a planted fault, walked too."""
    verdict = verify(sP(**settings))
    assert verdict.verdict == "refuted"
    agrees(verdict)
    return verdict


def wrong_claims(verdict: Verdict) -> list[str]:
    return [claim.name for claim in verdict.claims if claim.verdict == "refuted"]


@pytest.mark.parametrize("route", RIGHT_ROUTES)
@pytest.mark.parametrize(
    ("swizzle", "reason"),
    [
        ("none", "a swizzle: the reader xors bits 4, 5, 6 of the byte address with 7, 8, 9, the writer xors none"),
        (
            "elements",
            "a swizzle: the reader xors bits 4, 5, 6 of the byte address with 7, 8, 9, the writer xors bits 5, 6, 7 of "
            "the byte address with 8, 9, 10: the same pattern 1 bit higher, so its units are 2 times as large",
        ),
    ],
)
def test_the_wrong_swizzle(route: str, swizzle: str, reason: str) -> None:
    verdict = refuted(store=route, write_swizzle=swizzle)
    assert wrong_claims(verdict) == ["placed"]
    witness = verdict["placed"].witness
    assert witness.message == "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144"
    assert (witness.thread, witness.value, witness.coordinate) == (1, 0, {"m": 1, "k": 0})
    assert (witness.wrote.json(), witness.reads.json()) == (
        {"space": "smem", "byte": 128},
        {"space": "smem", "byte": 144},
    )
    assert verdict.explanation[0] == reason and len(verdict.explanation) == 2


def test_a_swizzle_of_elements_is_one_of_bytes_where_elements_are_bytes() -> None:
    assert verify(sP(write_swizzle="elements", dtype="e4m3")).proved


@pytest.mark.parametrize("route", RIGHT_ROUTES)
def test_the_wrong_order(route: str) -> None:
    verdict = refuted(store=route, k_order="021")
    assert wrong_claims(verdict) == ["placed"]
    assert verdict["placed"].witness.message == (
        "T0 V16 (m=0, k=16) writes byte 16384; the MMA reads that element at byte 32"
    )
    assert verdict.explanation[:1] == (
        "an order: k is written as (16,2,4):(2,16384,32) and read as (64,2):(2,16384) bytes",
    )


@pytest.mark.parametrize(("kv", "dtype"), [(64, "bf16"), (64, "e4m3"), (128, "e5m2")])
def test_an_order_of_parts_that_are_not_there_is_refused(kv: int, dtype: str) -> None:
    with pytest.raises(LayoutError, match="there is no k2"):
        sP(k_order="021", kv=kv, dtype=dtype)


@pytest.mark.parametrize("route", RIGHT_ROUTES)
def test_offsets_swizzled_at_a_base_in_the_pattern(route: str) -> None:
    verdict = refuted(store=route, write_swizzle="relative", base=512)
    assert wrong_claims(verdict) == ["placed"]
    what, cures = verdict.explanation
    assert what.startswith("a base: the writer swizzles offsets from its base, byte 512, and the reader addresses")
    assert "a base aligned to 1024 bytes (0 or 1024)" in cures
    assert "swizzling absolute addresses, which are right at any 16-byte base" in cures
    assert "base offset of (base >> 7) & 7 = 4" in cures


def test_the_cures_cure() -> None:
    from dataclasses import replace

    from layoutlab import umma_a

    assert verify(sP(write_swizzle="relative", base=1024)).proved
    assert verify(sP(write_swizzle="absolute", base=512)).proved
    h, operand = sP(write_swizzle="relative", base=512), SmemOperand(128, 128, 16)
    moved = replace(operand.descriptor(512), base_offset=512 >> 7 & 7)
    cured = Handoff(h.tile, writer=h.writer, reader=umma_a(moved, h.tile, starts_bytes=operand.starts_bytes))
    assert verify(cured).proved


def test_the_first_warp() -> None:
    verdict = verify(sP(first_warp=1))
    assert wrong_claims(verdict) == ["legal"]
    assert verdict["placed"].verdict == "proved"
    assert verdict["legal"].witness.message.startswith(
        "warp 1 (threads 32 to 63) takes rows 0 to 31, which lie in TMEM lanes 0 to 31, "
        "but it may touch lanes 32 to 63 only"
    )
    named = verify(sP(first_warp=1, write_swizzle="none"))["placed"].witness
    assert named.message.startswith("T33 V0 (m=1, k=0) writes byte 128") and named.thread == 33


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_one_thread_owns_it_all(head_dim: int) -> None:
    verdict = refuted(store="tiled_copy_c", head_dim=head_dim)
    assert wrong_claims(verdict) == ["covered", "placed", "exclusive"]
    assert verdict["placed"].why == "16383 of 16384 elements are misplaced"
    assert verdict["placed"].witness.message.startswith("T0 V1 (m=0, k=1)")
    assert verdict["exclusive"].witness.message == "T0 V0 (m=0, k=0) and T1 V0 (m=1, k=0) both write byte 0"
    assert verdict.explanation[0] == (
        "a narrower tile: m moves nothing of what is written: all 128 of m land on the same places"
    )


def test_offsets_taken_for_coordinates() -> None:
    verdict = refuted(store="composition_raw")
    assert wrong_claims(verdict) == ["placed"]
    assert verdict.explanation[0].startswith("an order: m is written as (2,64):(8192,2) and read as 128:128; k ")


FAULTS = [
    {"write_swizzle": "none"},
    {"write_swizzle": "elements"},
    {"write_swizzle": "relative", "base": 512},
    {"k_order": "021"},
    {"store": "tiled_copy_c"},
    {"store": "composition_raw"},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: ",".join(map(str, f.values())))
def test_every_fault_in_every_type_walked(fault: dict[str, Any]) -> None:
    seen = 0
    for kv, dtype in itertools.product((64, 128), ("bf16", "e4m3")):
        if fault.get("k_order") and kv * BYTES[dtype] <= 128:
            continue  # refused: there is no k2
        if fault.get("write_swizzle") == "elements" and BYTES[dtype] == 1:
            continue  # no fault: the elements are bytes
        if fault.get("base") == 512 and kv * BYTES[dtype] == 64:
            assert verify(sP(**fault, kv=kv, dtype=dtype)).proved  # no fault: this pattern repeats every 512 bytes
            continue
        assert "placed" in wrong_claims(refuted(**fault, kv=kv, dtype=dtype))
        seen += 1
    assert seen >= 1


@pytest.mark.parametrize("route", [*RIGHT_ROUTES, "tiled_copy_c", "composition_raw"])
def test_placed_in_every_combination_walked(route: str) -> None:
    """All settings that change a map, right and wrong together: the same first witness and count as walking gives."""
    seen = 0
    for swizzle, order, base in itertools.product(
        ("absolute", "none", "elements", "relative"), ("012", "021"), (0, 512)
    ):
        for kv, dtype, load in itertools.product((64, 128, 256), ("bf16", "e4m3"), ("x16", "x64")):
            if order == "021" and kv * BYTES[dtype] <= 128:
                continue
            settings = {"write_swizzle": swizzle, "k_order": order, "base": base}
            verdict = verify(sP(store=route, kv=kv, dtype=dtype, load=load, **settings))
            found, claim = walk(verdict.handoff), verdict["placed"]
            assert (claim.witness and (claim.witness.thread, claim.witness.value)) == found.placed(), settings
            if "misplaced" in claim.why:
                assert int(claim.why.split()[0]) == found.misplaced()
            assert bool(verdict.explanation) == (not verdict.proved), settings
            seen += 1
    assert seen == 144


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stor": "coordinate"}, "sP has no setting stor; did you mean store?"),
        ({"store": "compositio"}, "did you mean composition?"),
        ({"kv": "96"}, "sP: kv=96 is not one of 64, 128, 256"),
        ({"base": "many"}, "sP: base=many is no int"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest(settings: dict[str, str], message: str) -> None:
    with pytest.raises(LayoutError) as error:
        sP(**settings)
    assert message in str(error.value)


def test_the_defaults() -> None:
    assert sP().params == {
        "store": "coordinate",
        "write_swizzle": "absolute",
        "k_order": "012",
        "base": 0,
        "kv": 128,
        "head_dim": 64,
        "dtype": "bf16",
        "load": "x32",
        "first_warp": 0,
    }
    assert_placed(sP())


# -- cost -------------------------------------------------------------------------------------------------------------


def test_cost_is_of_the_emitted_store() -> None:
    # An H200 counted 2048 wavefronts for 512 warp-level 16-bit stores of this very tile (128 threads, a row each).
    assert set(store_wavefronts(sP().writer)) == {4}
    # 512 bytes a warp: 4 wavefronts are the least, that is conflict-free.
    assert set(store_wavefronts(sP(store="composition").writer)) == {4}
    assert set(store_wavefronts(sP(store="composition", write_swizzle="none").writer)) == {32}


# -- the storage rule, against CuTe DSL -------------------------------------------------------------------------------


def test_the_storage_is_what_make_smem_layout_a_makes() -> None:
    printed = {(f["kv"], f["dtype"]): f for f in dsl.facts("layouts_a", "sm_100a")}
    assert len(printed) == 12
    for (kv, dtype), fact in printed.items():
        operand = SmemOperand(128, kv, 8 * BYTES[dtype])
        outer = operand.layout
        shape, stride = json.loads(json.dumps((outer.shape, outer.stride)))
        assert fact["swizzle"] == str(operand.swizzle), (kv, dtype)
        mine = dsl.layout(fact["outer"])
        assert (mine.shape[:3], mine.stride[:3]) == (outer.shape, outer.stride), (kv, dtype, shape, stride)
        assert mine.shape[3] == 1
