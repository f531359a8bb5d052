"""Traced handoffs: the kernel's own layouts verified like a user's, and held against the model's maps."""

import re
from dataclasses import replace

import pytest

from layoutlab.catalogue import named
from layoutlab.cutedsl.sp_handoff import traced_handoff
from layoutlab.cutedsl.trace import trace_many, trace_sP
from layoutlab.errors import LayoutError
from layoutlab.handoff import verify

OPERANDS = [{"kv": kv, "dtype": dtype} for kv in (64, 128, 256) for dtype in ("bf16", "f16", "e4m3", "e5m2")]
ROUTES = ("coordinate", "composition", "tiled_copy_d")
RIGHT = [
    *({"store": store, **operand} for store in ROUTES for operand in OPERANDS),
    *({"store": store, "load": load} for store in ROUTES for load in ("x16", "x64")),
    *({"store": store, "base": base} for store in ROUTES for base in (48, 512)),
    {"write_swizzle": "relative"},
    {"write_swizzle": "elements", "dtype": "e4m3"},
]
PLACED = r"T1 V0 \(m=1, k=0\) writes byte 128; the MMA reads that element at byte 144"
ORDER = r"T0 V16 \(m=0, k=16\) writes byte 16384; the MMA reads that element at byte 32"
FAULTS = [
    *(({"store": store, "write_swizzle": "none"}, {"placed": PLACED}) for store in ROUTES),
    *(({"store": store, "k_order": "021"}, {"placed": ORDER}) for store in ROUTES),
    (
        {"write_swizzle": "relative", "base": 512},
        {"placed": r"T0 V0 \(m=0, k=0\) writes byte 512; the MMA reads that element at byte 576"},
    ),
    (
        {"store": "composition_raw"},
        {"placed": r"T0 V1 \(m=0, k=1\) writes byte 144; the MMA reads that element at byte 2"},
    ),
    (
        {"store": "tiled_copy_c"},
        {
            "covered": r"\(m=0, k=1\) is read at byte 2, and nothing is written there",
            "placed": r"T0 V1 \(m=0, k=1\) writes byte 144; the MMA reads that element at byte 2",
            "exclusive": r"T0 V0 \(m=0, k=0\) and T1 V0 \(m=1, k=0\) both write byte 0",
        },
    ),
    ({"first_warp": 1}, {"legal": r"warp 1 \(threads 32 to 63\).* may touch lanes 32 to 63 only"}),
]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """A cache of this run's own, filled from two workers with what the tests ask for one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        list(trace_many([*RIGHT, *(settings for settings, _ in FAULTS), *OPERANDS]))
        list(trace_many([{"store": "composition", **operand} for operand in OPERANDS], ptx=True))
        yield


def test_right_variants_are_proved_from_their_traces():
    for settings in RIGHT:
        verdict = verify(traced_handoff(trace_sP(settings)))
        assert verdict.proved, f"{settings}: {[str(claim) for claim in verdict.claims]}"
        checked = {claim.name: claim.checked for claim in verdict.claims}
        assert checked["placed"] == 128 * settings.get("kv", 128)


@pytest.mark.parametrize(("settings", "expected"), FAULTS, ids=str)
def test_planted_faults_are_refuted_from_their_traces(settings, expected):
    verdict = verify(traced_handoff(trace_sP(settings)))
    refuted = {claim.name: claim.witness.message for claim in verdict.claims if claim.verdict == "refuted"}
    assert refuted.keys() == expected.keys()
    for name, message in expected.items():
        assert re.search(message, refuted[name])


@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_the_traced_maps_are_the_models(operand):
    model = named("sP")(**operand)
    for store in ROUTES:
        traced = traced_handoff(trace_sP({"store": store, **operand}))
        assert traced.tile == model.tile
        assert traced.writer.owner.places.table == model.writer.owner.places.table
        assert traced.writer.write.table == model.writer.write.table
        assert traced.reader.read.table == model.reader.read.table


@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_the_descriptor_in_the_ptx_is_the_one_that_the_layout_says(operand):
    dry = traced_handoff(trace_sP({"store": "composition", **operand}))
    compiled = traced_handoff(trace_sP({"store": "composition", **operand}, ptx=True))
    assert "PTX" in compiled.reader.source and "PTX" not in dry.reader.source
    assert dry.reader.read.table == compiled.reader.read.table
    assert (dry.writer.bits, compiled.writer.bits) == (dry.tile.bits, 128)


def test_a_trace_that_contradicts_itself_is_refused():
    trace = trace_sP({"store": "composition"})
    printed = {**trace.owner["threads"], "37": "tensor<(38,0) o ((32,1),4,1,1):((1@1,0),32@1,0,0)>"}
    with pytest.raises(LayoutError, match=r"owner: thread 37 begins at \(38, 0\) as printed, at 37 by its layout"):
        traced_handoff(replace(trace, owner={**trace.owner, "threads": printed}))
    printed = {row: text.replace("1@1", "1@2") for row, text in trace.writer["threads"].items()}
    with pytest.raises(LayoutError, match="has the stride 1@2, which is no step of m or k"):
        traced_handoff(replace(trace, writer={**trace.writer, "threads": printed}))


def test_stores_and_coordinates_that_nothing_explains_are_refused():
    trace = trace_sP({})
    shuffled = [trace.writer["stored"][1], trace.writer["stored"][0], *trace.writer["stored"][2:]]
    with pytest.raises(LayoutError, match="the stored coordinates are those of no layout"):
        traced_handoff(replace(trace, writer={**trace.writer, "stored": shuffled}))
    with pytest.raises(LayoutError, match=r"st\.shared\.b128, which is no width"):
        traced_handoff(replace(trace, writer={**trace.writer, "emitted": {"b128": 16}}))
