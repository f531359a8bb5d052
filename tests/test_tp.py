"""tP: P through Tensor Memory, against plain loops over the ISA's rules, CuTe DSL's tiled copies; planted faults."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import layoutlab as ll
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.catalogue import named, tP
from layoutlab.handoff.tmem_transfer import Transfer
from layoutlab.witnesses import hold
from tests.oracles import dsl

BITS = {"bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}


def refuted(verdict: ll.Verdict) -> list[str]:
    return [claim.name for claim in verdict.claims if claim.verdict != "proved"]


# -- what it says of the real kernels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
@pytest.mark.parametrize("kv", [64, 128])
@pytest.mark.parametrize("slot", [0, 1])
def test_every_element_by_enumeration(kv: int, dtype: str, slot: int) -> None:
    """Thread m has row m, four or two elements to a column, from the slot's column 32 on; A is read there."""
    h = tP(kv=kv, dtype=dtype, slot=slot, load="32x32b.x16")
    verdict = ll.verify(h)
    assert verdict.proved and verdict.checked == 128 * kv
    memory: dict[tuple[int, int], tuple[int, int]] = {}
    bits = BITS[dtype]
    for m in range(128):
        for k in range(kv):
            column, inside = slot * kv + 32 + k * bits // 32, k * bits % 32
            memory[m, 32 * column + inside] = (m, k)
    t, v = np.indices((128, kv))
    wrote, owned = h.writer.write.at(t=t, v=v), h.writer.owner.places.at(t=t, v=v)
    for place in zip(*(x.ravel().tolist() for x in (wrote["lane"], wrote["bit"], owned["m"], owned["k"])), strict=True):
        assert memory[place[:2]] == place[2:]
    m, k = np.indices((128, kv))
    reads = h.reader.read.at(m=m, k=k)
    assert len(memory) == 128 * kv
    for lane, bit, *at in zip(*(x.ravel().tolist() for x in (reads["lane"], reads["bit"], m, k)), strict=True):
        assert memory[lane, bit] == tuple(at)


def test_every_combination_is_answered() -> None:
    """Each of the listed settings alone, others at their defaults: proved, refuted or refused with a sentence."""
    answers = {"proved": 0, "refuted": 0, "refused": 0}
    for entry in tP.settings.entries:
        for choice in entry.choices:
            try:
                answers[ll.verify(tP(**{entry.name: choice})).verdict] += 1
            except ll.LayoutError:
                answers["refused"] += 1
    assert answers == {"proved": 20, "refuted": 5, "refused": 0}  # a unit, a warp, and atoms that are no pair


def test_public_layouts() -> None:
    """P at 64 of 128 columns, twice; S0=0, S1=128, O0=256, P at 32 and 160, statistics in S's first columns."""
    for offset, places in ((64, (64, 192)), (32, (32, 160))):
        for slot, first in enumerate(places):
            h = tP(p_offset=offset, read_offset=offset, slot=slot, head_dim=128)
            assert ll.verify(h).proved
            assert str(h.writer.storage) == f"columns {first} to {first + 63}"


def test_a_proof_computes_no_points() -> None:
    verdict = ll.verify(tP())
    assert sum(claim.evaluated for claim in verdict.claims) == 0


# -- planted faults ---------------------------------------------------------------------------------------------------


def test_a_forgotten_read_offset() -> None:
    verdict = ll.verify(tP(read_offset=0))
    assert refuted(verdict) == ["covered", "placed"]
    witness = verdict["placed"].witness
    assert witness and witness.message == (
        "T0 V0 (m=0, k=0) writes lane 0 column 32; the MMA reads that element at lane 0 column 0"
    )
    assert verdict.explanation == (
        "an offset: everything is written 32 columns too high",
        "the MMA reads columns 0 to 31: these are S's and the row statistics' columns, not P's (32 to 95)",
        "what would be right: the MMA reads from column 32 on, not 0",
    )
    assert verdict.sets == ({"read_offset": 32},)


@pytest.mark.parametrize(("slot", "first"), [(0, 0), (1, 128)])
def test_a_forgotten_element_factor(slot: int, first: int) -> None:
    verdict = ll.verify(tP(read_unit="elements", slot=slot))
    assert refuted(verdict) == ["covered", "placed"]
    assert verdict.explanation == (
        "an offset: everything is written 16 columns too high",
        "a unit: P is written 32 columns from S's first one and read 32 elements from it, which are 16 columns: a "
        "typed pointer counts elements, 2 to a column",
        f"the MMA reads columns {first + 16} to {first + 31}: these are S's columns, not P's ({first + 32} to "
        f"{first + 95})",
        f"any of these cures it: the MMA reads from column {first + 32} on, not {first + 16}; P is written from column "
        f"{first + 16} on, not {first + 32}",
    )
    assert verdict.sets == ({"read_unit": "columns"},)


def test_a_forgotten_element_factor_of_fp8() -> None:
    verdict = ll.verify(tP(read_unit="elements", dtype="e4m3"))
    assert "read 32 elements from it, which are 8 columns: a typed pointer counts elements, 4 to" in str(verdict)


@pytest.mark.parametrize(
    ("options", "claim", "message"),
    [
        ({"p_offset": 0}, "inside", "writes lane 0 column 0: columns 0 to 1 hold the row statistics, still live"),
        (
            {"p_offset": 96},
            "inside",
            "T0 V64 (m=0, k=64) writes lane 0 column 128: columns 128 to 255 hold the other S",
        ),
        (
            {"p_offset": 100, "slot": 1},
            "inside",
            "T0 V56 (m=0, k=56) writes lane 0 column 256: columns 256 to 319 hold O",
        ),
        ({"p_offset": 480}, "legal", "tP takes columns 480 to 543, there are 512"),
    ],
)
def test_p_over_other_buffers(options: dict[str, Any], claim: str, message: str) -> None:
    options = {"read_offset": options["p_offset"], **options}
    found = ll.verify(tP(**options))[claim]
    assert found.verdict == "refuted" and found.witness and message in found.witness.message


def test_s_itself_may_be_overwritten_and_statistics_kept_elsewhere() -> None:
    assert ll.verify(tP(p_offset=0, read_offset=0, statistics=0)).proved


def test_unpaired_atoms() -> None:
    """16-lane shapes pair 16x256b of f32 with 16x128b of two to a word; anything else moves elements."""
    assert ll.verify(tP(load="16x256b.x4", store="16x128b.x4")).proved
    for load, store in (("32x32b.x32", "16x128b.x4"), ("16x256b.x4", "32x32b.x32"), ("16x256b.x4", "16x256b.x2")):
        verdict = ll.verify(tP(load=load, store=store))
        assert refuted(verdict) == ["placed"] and verdict["covered"].verdict == "proved"


def test_the_first_wrong_element_of_unpaired_atoms_is_the_enumerations() -> None:
    """Thread by thread in plain Python, by the ISA's pictures of the two shapes."""

    def loaded(t: int, v: int) -> tuple[int, int]:  # 32x32b: lane t, column v
        return t, v

    def stored(
        t: int, v: int
    ) -> tuple[int, int]:  # 16x128b.x4, two elements to a word: element (lane, 2 column + half)
        half, register, upper, step = v % 2, v // 2 % 8, v // 16 % 2, v // 32
        lane = 32 * (t // 32) + t % 32 // 4 + 8 * (register % 2) + 16 * upper
        return lane, 2 * (t % 4 + 4 * (register // 2) + 16 * step) + half

    wrong = [(t, v) for t in range(128) for v in range(128) if loaded(t, v) != stored(t, v)]
    witness = ll.verify(tP(store="16x128b.x4"))["placed"].witness
    assert witness and (witness.thread, witness.value) == wrong[0]
    lane, element = stored(*wrong[0])
    assert witness.wrote and witness.wrote.outputs == {"lane": lane, "bit": 32 * 32 + 16 * element}


def test_a_softmax_warp_that_starts_off_its_quarter() -> None:
    claim = ll.verify(tP(first_warp=1))["legal"]
    assert claim.verdict == "refuted" and claim.witness
    assert claim.witness.message.startswith("warp 1 (threads 32 to 63) takes rows 0 to 31, which lie in TMEM lanes 0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read_offset": 33, "read_unit": "elements"}, "33 elements of 16 bits end inside a 32-bit column"),
        ({"dtype": "e4m3", "kv": 64, "store": "32x32b.x32"}, "32x32b.x32 over 16 columns spans 32: x16 divides them"),
        ({"statistics": 600}, "leaves the 512 columns"),
        ({"statistics": 200}, "the row statistics = columns .* overlaps the other S"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ll.LayoutError, match=message):
        tP(**options)


def test_the_command() -> None:
    command = [sys.executable, "-m", "layoutlab", "verify", "tP", "--set", "read_offset=0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    placed = next(claim for claim in report["claims"] if claim["name"] == "placed")
    assert placed["witness"]["wrote"] == {"space": "tmem", "lane": 0, "column": 32, "half": 0}
    assert placed["witness"]["reads"] == {"space": "tmem", "lane": 0, "column": 0, "half": 0}
    assert named("tP") is tP


# -- second source ----------------------------------------------------------------------------------------------------


def test_dsl_agrees_on_every_tiled_copy_of_an_accumulator() -> None:
    seen, refused = set(), 0
    for fact in dsl.facts("transfers", "sm_100a"):
        if fact["kind"] == "refused":  # rows of 64 lie in 16 lanes of each warp, which 32x32b leaves
            assert fact["name"].startswith(("64.ld.32x32b", "64.st.32x32b"))
            refused += 1
            continue
        rows, direction, shape, repeat = fact["name"].split(".")
        transfer = Transfer(TmemAtom(direction, shape, int(repeat[1:])), int(rows), 128, 32)
        assert transfer.fault is None
        tiler, size = dsl.layout(fact["tiler"]), int(rows) * 128
        one = ll.composition(tiler, dsl.layout(fact["tv"]))
        theirs = ll.make_layout(one[0], ll.make_layout(one[1], ll.complement(tiler, size)))
        assert ll.functionally_equal(transfer.owner_layout(), theirs), fact
        t, v = np.indices((transfer.threads, size // transfer.threads))
        at = transfer.owner("m", "n").at(t=t, v=v)
        assert (at["m"] + int(rows) * at["n"] == transfer.owner_layout()(t, v)).all()
        seen.add(fact["name"])
    assert refused == 16
    hold("tcgen05.ld, st over an accumulator", "CuTe DSL", len(seen))


def test_the_copies_differ_from_each_other() -> None:
    layouts = {str(Transfer(TmemAtom("ld", s, r), 128, 128, 32).owner_layout()) for s, r in SHAPES}  # type: ignore[arg-type]
    assert len(layouts) == len(SHAPES)


SHAPES = [("32x32b", 32), ("16x64b", 16), ("16x128b", 8), ("16x256b", 4), ("16x256b", 8), ("16x32bx2", 16)]
