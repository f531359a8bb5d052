"""The model of sP against the trace: they agree for right and for planted variants, and a difference is named."""

import itertools
import re

import pytest

from layoutlab.catalogue import named
from layoutlab.crosscheck import traced as crosscheck
from layoutlab.crosscheck.traced import against_trace, first_disagreement
from layoutlab.cutedsl.sp_handoff import traced_handoff
from layoutlab.cutedsl.trace import TraceUnavailable, trace_many, trace_sP
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, SmemDescriptor, umma_a, verify

STORES = ("coordinate", "composition", "tiled_copy_d", "tiled_copy_c", "composition_raw")
SHAPES = ({"kv": 128, "head_dim": 64, "dtype": "bf16"}, {"kv": 256, "head_dim": 128, "dtype": "e4m3"})


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """Traces made by these tests are fresh."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_every_kind_of_variant_has_the_models_maps_and_verdict():
    swizzles = ("absolute", "none", "elements", "relative")
    variants = [
        {"store": store, "write_swizzle": swizzle, "k_order": order, **shape}
        for store, swizzle, order, shape in itertools.product(STORES, swizzles, ("012", "021"), SHAPES)
    ]
    variants += [{"base": 528, "write_swizzle": swizzle, "k_order": "012"} for swizzle in swizzles]
    variants += [{"base": 528, "store": store} for store in STORES]
    variants += [
        {"store": "tiled_copy_c", "write_swizzle": swizzle, "kv": kv, "head_dim": head_dim, "k_order": order}
        for swizzle in swizzles
        for kv, head_dim, order in ((64, 128, "012"), (64, 256, "012"), (128, 256, "012"), (128, 256, "021"))
    ]
    variants.append({"first_warp": 1})
    verdicts = set()
    for settings, trace in zip(variants, trace_many(variants), strict=True):
        assert not isinstance(trace, LayoutError), f"{settings}: {trace}"
        model, kernel = named("sP")(**settings), traced_handoff(trace)
        assert first_disagreement(model, kernel) is None, settings
        told = [
            [(claim.name, claim.verdict, claim.witness and claim.witness.message) for claim in verify(h).claims]
            for h in (model, kernel)
        ]
        assert told[0] == told[1], settings
        verdicts.add(tuple(verdict for _, verdict, _ in told[0]))
    assert len(variants) == 106
    assert len(verdicts) > 4  # proved ones, and refutations of several kinds


def test_the_line_says_who_computed_what():
    found = against_trace(named("sP")(store="composition"))
    assert found.agrees is True
    assert found.line == (
        "agrees: owner, writer and reader of all 16384 elements are those of "
        "CuTe DSL 4.8.1 compiling layoutlab.kernels.p_handoff"
    )
    assert found.json["storage"] == "S<3,4,3> o 0 o ((128,16),1,(4,2),1):((64,1),0,(16,8192),0)"
    assert against_trace(named("sP")(store="composition")).line.endswith(" (cached)")


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"write_swizzle": "none"}, "T1 V0 writes byte 144 by the model, byte 128 in the trace"),
        ({"k_order": "021"}, "T0 V16 writes byte 32 by the model, byte 16384 in the trace"),
        ({"kv": 64}, r"the model is of P \(m=128, k=128\), 16-bit, the trace of P \(m=128, k=64\), 16-bit"),
        ({"first_warp": 1}, "the model's first thread is 0, the traced one 32"),
        ({"base": 512, "write_swizzle": "relative"}, "T0 V0 writes byte 0 by the model, byte 512 in the trace"),
    ],
    ids=str,
)
def test_the_trace_of_another_variant_disagrees(monkeypatch, other, sentence):
    monkeypatch.setattr(crosscheck, "trace_sP", lambda settings, ptx: trace_sP(other, ptx))
    found = against_trace(named("sP")())
    assert found.agrees is False
    assert re.search(sentence, found.line)


def test_a_reader_that_steps_otherwise_disagrees():
    model, kernel = named("sP")(), traced_handoff(trace_sP({}))
    desc = SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
    reader = umma_a(desc, kernel.tile, starts_bytes=[32 * step for step in range(8)])
    other = Handoff(kernel.tile, writer=kernel.writer, reader=reader)
    # Byte 128 of the pattern's second row is byte 144: bit 7 flips bit 4.
    assert first_disagreement(model, other) == "(m=0, k=64) is read at byte 16384 by the model, byte 144 in the trace"


def test_without_a_trace_nothing_agrees_or_disagrees(monkeypatch):
    def none(settings, ptx):
        raise TraceUnavailable("CuTe DSL is not installed here")

    monkeypatch.setattr(crosscheck, "trace_sP", none)
    found = against_trace(named("sP")())
    assert found.agrees is None
    assert found.line == "none: CuTe DSL is not installed here; the verdict above is the model's alone"
