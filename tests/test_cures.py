"""Cures: what a report offers as right proves when it is done, and nothing is offered where nothing proves."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

import layoutlab as ll
from layoutlab.catalogue import CATALOGUE
from layoutlab.handoff import Handoff
from layoutlab.handoff.claims import Question, decide
from layoutlab.handoff.cures import _candidates, _left, cures, least_cures

OFFERED = [
    ("sV", {"read_major": "K"}, "the writer is MN-major and is read K-major: set the MMA's major to MN"),
    ("sV", {"descriptor": "swapped"}, "lbo and sbo are exchanged: lbo=16384, sbo=1024"),
    ("sQ", {"descriptor": "swapped"}, "lbo and sbo are exchanged: lbo=0, sbo=1024"),
    ("sQ", {"descriptor": "units"}, "sbo=1024, not 64: it counts bytes, and bytes >> 4 were given"),
    ("sK", {"k_step": "always_32_bytes"}, "K steps that start (0, 32, 64, 96, 16384, 16416, 16448, 16480) bytes on"),
    ("sQ", {"tma_swizzle": "64"}, "TMA boxes of swizzle 128 B, not 64"),
    ("sQ", {"box": "row"}, "boxes of 64 k, one swizzle's width, not 128"),
    ("epilogue", {"tma_swizzle": "none"}, "a store without a swizzle; TMA boxes of swizzle 64 B, not 0"),
    ("ldsm", {"trans": "wrong"}, "ldmatrix without .trans"),
    ("ldsm", {"trans": "wrong", "operand": "B_trans"}, "ldmatrix with .trans"),
    ("ldsm", {"matrices": "exchanged"}, "matrices 1 and 2 are exchanged"),
    ("ldsm", {"read_swizzle": "forgotten"}, "lanes that point where the writer has the rows"),
    ("sP", {"store": "tiled_copy_c"}, "as make_tiled_copy_D makes it from the load"),
    ("sP", {"store": "composition_raw"}, "make_cotiled_copy takes those"),
    ("sP", {"write_swizzle": "none"}, "a store that swizzles byte addresses by S<3,4,3>"),
    ("sP90", {"store": "stmatrix", "write_swizzle": "none"}, "a store that swizzles byte addresses by S<3,4,3>"),
    ("tP", {"store": "16x256b.x2"}, "a store by tcgen05.st.32x32b.x32, which is the load's pair"),
    ("tP", {"load": "16x256b.x4"}, "a store by tcgen05.st.16x128b.x4, which is the load's pair"),
    ("oRescale", {"load": "16x256b.x4"}, "a load by tcgen05.ld.32x32b.x32, which is the store's pair"),
    ("oRescale", {"store": "16x64b.x16"}, "a store by tcgen05.st.32x32b.x32, which is the load's pair"),
]


def question(h: Handoff) -> Question:
    return Question(h.tile, h.writer, h.reader, h.live, h.around)


@pytest.mark.parametrize(("name", "settings", "text"), OFFERED, ids=str)
def test_the_cure_of_a_planted_fault_is_offered(name: str, settings: dict[str, Any], text: str) -> None:
    last = ll.verify(CATALOGUE[name](**settings)).explanation[-1]
    assert last.startswith(("what would be right: ", "any of these cures it: ")) and text in last


def test_a_cure_done_by_hand_proves() -> None:
    """Each offered descriptor is the one that a right setting has."""
    for name in ("sQ", "sK", "sV"):
        right = CATALOGUE[name]().reader.given
        for settings in ({"descriptor": "swapped"}, {"descriptor": "units"}, {"k_step": "always_32_bytes"}):
            q = question(CATALOGUE[name](**settings))
            claims = decide(q)
            readers = [c.reader for c in _candidates(q) if c.reader and _left(decide(c.applied(q)), claims) is not None]
            found = [(r.given["desc"], tuple(r.given["starts_bytes"]), r.given["major"]) for r in readers]
            assert (right["desc"], tuple(right["starts_bytes"]), right["major"]) in found, (name, settings)


def test_what_does_not_prove_is_not_offered() -> None:
    """Two rows that share a place: no descriptor can tell them apart."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    s = ll.smem("(128,64):(64,1)", over=P)
    writer = ll.store("(128,64):(1,128)", s, bits=16, offsets="((2,64),64):((0,128),1)")
    desc = ll.SmemDescriptor(start=0, lbo=0, sbo=512, swizzle=128)
    h = ll.Handoff(P, writer=writer, reader=ll.umma_a(desc, P, starts_bytes=[0, 32, 64, 96]))
    verdict, q = ll.verify(h), question(h)
    assert verdict.verdict == "refuted" and len(list(_candidates(q))) > 4
    writers = [c for c in _candidates(q) if c.writer]
    assert all("descriptor" not in line and "sbo=" not in line for line in cures(q, verdict.claims))
    assert writers  # the owner's own coordinates, with and without the swizzle, are tried


def test_a_cure_leaves_no_new_fault() -> None:
    """A change that proves `placed` and breaks a rule that held is none."""
    wrong = question(CATALOGUE["sQ"](descriptor="units"))
    off = question(CATALOGUE["sQ"](tma_swizzle="64"))
    assert _left(decide(off), decide(wrong)) is None
    right = decide(question(CATALOGUE["sQ"]()))
    assert _left(right, decide(wrong)) == ()


def at_base(swizzles: Any, base: int, base_offset: int, reader: Any = None) -> Handoff:
    P = ll.Tile("P", m=128, k=64, bits=16)
    layout = "S<3,4,3> o 0 o (128,64):(64,1)"
    s = ll.smem(layout, over=P, base_bytes=base, align_bytes=1024, swizzles=swizzles)
    desc = ll.SmemDescriptor(start=base, lbo=0, sbo=1024, swizzle=128, base_offset=base_offset)
    by_descriptor = ll.umma_a(desc, P, starts_bytes=[0, 32, 64, 96])
    owner = "(128,64):(1,128)"
    return ll.Handoff(P, writer=ll.store(owner, s, bits=16), reader=reader(P) if reader else by_descriptor)


def last(h: Handoff) -> str:
    return ll.verify(h).explanation[-1]


def test_a_base_is_cured_by_what_the_sides_can_do() -> None:
    assert last(at_base("addresses", 128, 1)) == "what would be right: a descriptor base offset of 0, not 1"
    assert "a descriptor base offset of (base >> 7) & 7 = 1, not 2" in last(at_base("offsets", 128, 2))
    assert "aligned" not in last(at_base("offsets", 128, 2))  # at base 0 too the offset of 2 is wrong
    three = last(at_base("offsets", 128, 0))
    assert "a base aligned to 1024 bytes (0 or 1024)" in three and "swizzling absolute addresses" in three
    assert "a descriptor base offset of (base >> 7) & 7 = 1, not 0" in three


def test_a_reader_without_a_descriptor_is_offered_none() -> None:
    layout = "S<3,4,3> o 0 o (128,64):(64,1)"
    text = last(at_base("offsets", 128, 0, lambda P: ll.declared(layout, P, base_bytes=128, align_bytes=1024)))
    assert text == "what would be right: swizzling absolute addresses, which the reader swizzles"
    boxes: Any = lambda P: ll.tma_store(P, box={"k": 64, "m": 128}, swizzle=128, starts_bytes=[128])  # noqa: E731
    text = last(at_base("offsets", 128, 0, boxes))  # boxes move with their buffer
    assert text.endswith(
        "a base aligned to 1024 bytes (0 or 1024); swizzling absolute addresses, which the reader swizzles"
    )


def test_swizzles_of_two_bases_are_both_named() -> None:
    first = ll.verify(at_base("offsets", 128, 2)).explanation[0]
    assert first == "a base: the writer swizzles offsets from byte 128, the reader from byte 256"


# -- every fault of the catalogue -------------------------------------------------------------------------------------

NUMBERS: dict[str, tuple[int, ...]] = {
    "base": (16, 128),
    "p_offset": (0, 16, 33, 96, 500),
    "read_offset": (0, 16, 33, 500),
    "statistics": (33,),
    "column": (0, 255, 500),
    "store_column": (0, 257),
}
BY_SETTINGS_ALONE = [
    ("epilogue", {"load": "32x32b.x64"}),  # a rule of the epilogue's own, about its sub-tiles
    ("store", {"order": "heads"}),  # a tensor of global memory, whose layout is nobody's to change
]
INCURABLE = {("rs_reuse", "e4m3"), ("rs_reuse", "e5m2")}  # threads would have to exchange values


def planted() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every setting of the catalogue away from its default, one at a time."""
    for name, function in CATALOGUE.items():
        for entry in function.settings.entries:
            for value in entry.choices or NUMBERS.get(entry.name, ()):
                if value != entry.default:
                    yield name, {entry.name: value}


def refuted_ones() -> list[tuple[str, dict[str, Any], Any]]:
    found = []
    for name, settings in planted():
        try:
            h = CATALOGUE[name](**settings)
        except ll.LayoutError:
            continue
        verdict = ll.verify(h)
        if verdict.verdict == "refuted":
            found.append((name, settings, verdict))
    return found


def test_every_fault_of_the_catalogue_has_a_cure_and_every_cure_verifies() -> None:
    kinds, cured = set[str](), 0
    for name, settings, verdict in refuted_ones():
        q = question(verdict.handoff)
        found = least_cures(q, verdict.claims)
        incurable = (name, settings.get("dtype")) in INCURABLE
        assert bool(verdict.sets) == (not incurable), (name, settings)
        assert bool(found) == (not incurable and (name, settings) not in BY_SETTINGS_ALONE), (name, settings)
        assert incurable or "what would be right: " in str(verdict) or "any of these cures it: " in str(verdict)
        for cure in found:
            for candidate in (cure.candidate, *cure.candidate.twins):
                left = [c.name for c in decide(candidate.applied(q)) if c.verdict != "proved"]
                assert left == list(cure.leaves), (name, settings, str(cure))
                assert str(cure) in verdict.explanation[-1]
        for sets in verdict.sets:
            assert ll.verify(CATALOGUE[name](**{**settings, **sets})).proved, (name, settings, sets)
        kinds |= {claim.name for claim in verdict.claims if claim.verdict == "refuted"}
        cured += bool(found)
    assert kinds == {"covered", "placed", "exclusive", "inside", "legal"} and cured > 60


def test_two_faults_are_cured_by_two_settings() -> None:
    assert ll.verify(CATALOGUE["sP"](write_swizzle="none", k_order="021")).sets == (
        {"write_swizzle": "absolute", "k_order": "012"},
    )
    assert ll.verify(CATALOGUE["sP"](write_swizzle="relative", base=128)).sets == (
        {"write_swizzle": "absolute"},
        {"base": 0},
    )


@pytest.mark.parametrize(
    ("name", "fault"),
    [("sP", "write_swizzle=none"), ("tP", "read_offset=0"), ("sP", "first_warp=1"), ("epilogue", "load=16x256b.x4")],
)
def test_the_printed_setting_given_to_the_command_proves(name: str, fault: str, capsys: Any) -> None:
    from layoutlab.cli import main

    assert main(["verify", name, "--no-trace", "--set", fault]) == 1
    printed = re.search(r"of this handoff's settings: (.*)", capsys.readouterr().out)
    assert printed
    first = printed.group(1).split(", or ")[0]
    values = [text for text in shlex.split(first) if text != "--set"]
    assert (
        main(["verify", name, "--no-trace", *(a for v in (fault, *values) for a in ("--set", v) if _last(v, values))])
        == 0
    )


def _last(text: str, values: list[str]) -> bool:
    """Whether a setting is not given again."""
    return text in values or text.partition("=")[0] not in {v.partition("=")[0] for v in values}


# -- a user's own -----------------------------------------------------------------------------------------------------


def p_tile(**change: Any) -> Handoff:
    """A right handoff of P, one part of it changed."""
    parts: dict[str, Any] = {
        "k": 64, "load": "32x32b.x32", "first_warp": 0, "layout": "S<3,4,3> o 0 o (128,64):(64,1)", "align": 1024,
        "bits": 128, "base": 0, "unit": "bytes", "swizzles": "addresses", "live": None, "desc": (0, 0, 1024, 128),
        "step": 32,
    }  # fmt: skip
    parts |= change
    P = ll.Tile("P", m=128, k=parts["k"], bits=16)
    owner = ll.tcgen05_ld(parts["load"]).over(P, first_warp=parts["first_warp"])
    s = ll.smem(
        parts["layout"],
        over=P,
        base_bytes=parts["base"],
        align_bytes=parts["align"],
        swizzle_unit=parts["unit"],
        swizzles=parts["swizzles"],
    )
    desc = ll.SmemDescriptor(*parts["desc"])
    reader = ll.umma_a(desc, P, starts_bytes=[parts["step"] * i for i in range(parts["k"] // 16)])
    return ll.Handoff(P, writer=ll.store(owner, s, bits=parts["bits"]), reader=reader, live=parts["live"])


NO_SWIZZLE = {"layout": "((8,16),(8,6)):((8,64),(1,1024))", "desc": (0, 2048, 128, 0), "step": 4096}
USERS: list[tuple[dict[str, Any], str, str]] = [
    ({"first_warp": 2}, "legal", "threads from warp 0 or 4 on (first_warp=0 or 4), not 2"),
    ({"load": "16x256b.x4"}, "legal", "stores of 32 bits, not 128"),
    ({"bits": 24}, "legal", "stores of 16 bits, not 24"),
    ({"swizzles": "offsets", "align": 16}, "legal", "sP aligned to 1024 bytes, not 16: align_bytes=1024"),
    ({**NO_SWIZZLE, "k": 48}, "inside", "load x16 instead of x32"),
    ({"live": {"Q": range(0, 4096)}}, "inside", "sP from byte 4096 on, clear of Q, not 0"),
    ({"layout": "(128,64):(64,1)"}, "placed", "a store that swizzles byte addresses by S<3,4,3>"),
    ({"unit": "elements", "swizzles": "offsets"}, "placed", "S<3,4,3>, which is S<3,3,3> on these elements"),
    ({"desc": (0, 0, 512, 64)}, "placed", "a descriptor of swizzle 128 B, not 64 and sbo=1024, not 512"),
    ({"desc": (0, 0, 64, 128)}, "placed", "sbo=1024, not 64: it counts bytes, and bytes >> 4 were given"),
    ({"layout": "S<3,4,3> o 0 o (128,64):(32,1)"}, "exclusive", "sP laid out as it is read: S<3,4,3> o 0 o (128,64)"),
    ({"layout": "(128,64):(1,128)", "bits": 16}, "placed", "sP laid out as it is read: S<3,4,3> o 0 o (128,64):(64,1)"),
    ({"base": 64}, "placed", "a descriptor that starts at byte 64, not 0"),
]


@pytest.mark.parametrize(("change", "claim", "text"), USERS, ids=str)
def test_a_users_fault_of_each_claim_has_its_cure(change: dict[str, Any], claim: str, text: str) -> None:
    assert ll.verify(p_tile()).proved
    h = p_tile(**change)
    verdict, q = ll.verify(h), question(h)
    assert verdict[claim].verdict == "refuted", verdict
    assert text in verdict.explanation[-1], verdict.explanation
    for cure in least_cures(q, verdict.claims):
        for candidate in (cure.candidate, *cure.candidate.twins):
            assert [c.name for c in decide(candidate.applied(q)) if c.verdict != "proved"] == list(cure.leaves)
    assert str(verdict).count(text) == 1  # the report shows it, whichever claim is refuted
