"""The witnesses of sP against each other: they agree, and each of them can disagree."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import json
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from host_driver import HostDriver
from pairwise import cover, pairs_of, possible_pairs

from layoutlab.catalogue import CATALOGUE, sP
from layoutlab.cli import main
from layoutlab.crosscheck import (
    PROVIDERS,
    WITNESSES,
    Crosscheck,
    Source,
    Testimony,
    crosscheck,
    device,
    replayed,
    traced,
)
from layoutlab.crosscheck import sp90 as sp90_module
from layoutlab.crosscheck.tags import RADIX, UNWRITTEN, digit, numbers, numeric, passes
from layoutlab.crosscheck.traced import first_disagreement
from layoutlab.cutedsl.sp_handoff import traced_handoff
from layoutlab.cutedsl.trace import trace_many, trace_sP
from layoutlab.device import Device, Unavailable
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, SmemDescriptor, umma_a, verify
from layoutlab.kernels import p_replay
from layoutlab.kernels.p_replay import observe
from layoutlab.kernels.p_settings import ELEMENT_BYTES
from layoutlab.ptx import rules

CLAIMS = ("covered", "placed", "exclusive", "inside", "legal")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Traces made by these tests are fresh."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """A run of the smallest right kernel."""
    return observe({"kv": 64, "store": "composition"})


@pytest.fixture
def model() -> Handoff:
    return sP(kv=64, store="composition")


def heard(model: Handoff, observed: dict[str, Any] | None = None) -> Testimony:
    return replayed.testimony(model, verify(model), observe(dict(model.params)) if observed is None else observed)


# -- the witnesses agree ----------------------------------------------------------------------------------------------


def agree(**settings: Any) -> str:
    """The run agrees with the model on each map and each claim, and its counterexamples are verify's, word for word."""
    model = sP(**settings)
    observed, verdict = observe(dict(model.params)), verify(model)
    said = replayed.testimony(model, verdict, observed)
    assert said.agrees, (settings, said.why)
    assert said.verdict == verdict.verdict, settings
    if observed["stopped"] is None:
        claims = replayed.Run.of(model, observed).claims()
        assert set(claims) == set(CLAIMS)
        for name in CLAIMS:
            assert claims[name].verdict == verdict[name].verdict, (settings, name)
            assert claims[name].witness == verdict[name].witness, (settings, name)
    return said.verdict


RIGHT = [
    {"store": "coordinate", "dtype": "e5m2", "kv": 64, "load": "x16"},
    {"store": "composition", "base": 528},
    {"store": "tiled_copy_d", "dtype": "f16", "head_dim": 128, "load": "x64"},
    {"store": "tiled_copy_d", "dtype": "e4m3", "kv": 64, "head_dim": 256, "write_swizzle": "elements"},
    {"store": "composition", "write_swizzle": "relative", "base": 1024, "kv": 64},
]

FAULTS = [
    {"write_swizzle": "none"},
    {"write_swizzle": "elements", "store": "composition"},
    {"write_swizzle": "relative", "base": 528, "store": "tiled_copy_d"},
    {"write_swizzle": "none", "base": 528, "kv": 64},
    {"k_order": "021"},
    {"k_order": "021", "dtype": "e4m3", "kv": 256, "head_dim": 256, "store": "composition"},
    {"store": "tiled_copy_c"},
    {"store": "tiled_copy_c", "write_swizzle": "elements", "kv": 64, "head_dim": 128, "base": 1024},
    {"store": "tiled_copy_c", "write_swizzle": "elements", "k_order": "021", "head_dim": 256},
    {"store": "composition_raw"},
    {"first_warp": 1},
]


@pytest.mark.parametrize("settings", RIGHT, ids=str)
def test_the_run_agrees_on_right_settings(settings: dict[str, Any]) -> None:
    assert agree(**settings) == "proved"


@pytest.mark.parametrize("settings", FAULTS, ids=str)
def test_the_run_agrees_on_planted_faults_and_their_counterexample(settings: dict[str, Any]) -> None:
    assert agree(**settings) == "refuted"


def test_the_run_alone_sees_what_the_compiler_makes_of_one_constant_address() -> None:
    """A known disagreement: CuTe DSL 4.8.1 stores the first value of the one-thread copy without its swizzle.

    At a base of 256 to 1023 (modulo 1024) the address of offset 0, a constant, is emitted as the base itself: PTX has
    [%r1+512] for byte 576. The other values are swizzled, the layouts in the trace know nothing of it, and the routes
    whose addresses depend on the thread are right.
    """
    model = sP(store="tiled_copy_c", base=512, kv=64)
    said = heard(model)
    assert (said.verdict, said.agrees) == ("refuted", False)
    assert said.why == "disagrees: T0 V0 (m=0, k=0) writes byte 576 by the model, byte 512 in the run"
    assert agree(store="tiled_copy_c", base=144, kv=64) == "refuted"


AXES: dict[str, tuple[Any, ...]] = {
    **{entry.name: entry.choices for entry in sP.settings.entries if entry.choices and entry.name != "first_warp"},
    "base": (0, 16, 528, 1024),
}


def buildable(settings: dict[str, Any]) -> bool:
    """Whether k has three parts to take in another order, where they are to be."""
    return settings["k_order"] == "012" or settings["kv"] * ELEMENT_BYTES[settings["dtype"]] > 128


def test_the_cover_is_one_and_small() -> None:
    rows = cover(AXES, buildable)
    assert all(buildable(row) and row.keys() == AXES.keys() for row in rows)
    assert {pair for row in rows for pair in pairs_of(row)} == possible_pairs(AXES, buildable)
    assert len(possible_pairs(AXES, buildable)) > 300
    assert 20 <= len(rows) < 40  # 5 stores with 4 swizzles, bases or types are 20 pairs
    assert set(AXES) | {"first_warp"} == set(sP.settings.complete({}))


@pytest.mark.slow
def test_the_run_agrees_on_every_pair_of_settings() -> None:
    verdicts = [agree(**row) for row in cover(AXES, buildable)]
    assert verdicts.count("proved") > 5 and verdicts.count("refuted") > 10


@pytest.mark.slow
@pytest.mark.parametrize("store", AXES["store"])
def test_the_trace_agrees_on_every_combination_of_settings(store: str) -> None:
    """The traces of the full product, a store at a time; what only shifts both sides, the base, is 0."""
    rows = [dict(zip(AXES, values, strict=True)) for values in itertools.product(*({**AXES, "base": (0,)}.values()))]
    rows = [row for row in rows if row["store"] == store and buildable(row)]
    assert len(rows) == 648
    for row, trace in zip(rows, trace_many(rows, use_cache=False), strict=True):
        assert not isinstance(trace, LayoutError), (row, trace)
        assert first_disagreement(sP(**row), traced_handoff(trace)) is None, row


@pytest.mark.slow
def test_the_wrong_first_warp_stops_every_value_of_every_setting() -> None:
    longest = max(map(len, AXES.values()))
    rows = [{name: values[i % len(values)] for name, values in AXES.items()} for i in range(longest)]
    rows = [row | {"k_order": "012", "first_warp": 1} for row in rows] + [{"k_order": "021", "first_warp": 1}]
    assert {agree(**row) for row in rows} == {"refuted"}


# -- the model is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"write_swizzle": "none"}, "T1 V0 (m=1, k=0) writes byte 128 by the model, byte 144 in the run"),
        ({"store": "tiled_copy_c"}, "T0 V1 (m=0, k=1) writes byte 144 by the model, byte 2 in the run"),
        ({"base": 16}, "T0 V0 (m=0, k=0) writes byte 16 by the model, byte 0 in the run"),
        ({"kv": 128}, "the model has t=128, v=128, the run 128 threads of 64 values"),
    ],
    ids=str,
)
def test_the_run_of_another_variant_disagrees(seen: dict[str, Any], other: dict[str, Any], sentence: str) -> None:
    said = heard(sP(**{"kv": 64, "store": "composition"} | other), seen)
    assert said.agrees is False
    assert said.why == f"disagrees: {sentence}"


def test_a_model_whose_reader_forgets_the_swizzle_disagrees(seen: dict[str, Any], model: Handoff) -> None:
    desc = SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
    right = umma_a(desc, model.tile, starts_bytes=[0, 32, 64, 96])
    plain = umma_a(dataclasses.replace(desc, swizzle=0, lbo=16), model.tile, starts_bytes=[0, 32, 64, 96])
    assert heard(Handoff(model.tile, writer=model.writer, reader=right), seen).agrees is True
    said = heard(Handoff(model.tile, writer=model.writer, reader=plain), seen)
    assert said.agrees is False
    assert (
        said.why == "disagrees: (m=0, k=8) is read at byte 16 by the model, byte 16 in the run"
        or "is read at" in said.why
    )


def test_a_model_with_a_wrong_rule_disagrees(seen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from layoutlab.handoff import reader

    monkeypatch.setattr(reader, "_swizzled", lambda address, desc: address)
    said = heard(sP(kv=64, store="composition"), seen)
    assert said.verdict == "proved" and said.agrees is False
    assert said.why == "disagrees: (m=1, k=0) is read at byte 128 by the model, byte 144 in the run"


# -- a rule of the machine is wrong -----------------------------------------------------------------------------------

RULES = {
    "swizzle": (lambda address, width, base_offset=0: address, "(m=1, k=0) is read at byte 144 by the model, byte 128"),
    "k_major_offset": (
        lambda row, byte, width, leading, stride: row % 8 * width + row // 8 * (stride // 2) + byte,
        "(m=8, k=0) is read at byte 1024 by the model, byte 576 in the run",
    ),
    "mn_major_offset": (
        lambda byte, k, width, leading, stride, rows_of_atom=8: byte % width + k % 8 * width + (k // 8 ^ 1) * stride,
        "O shows (m=0, k=8) as A[m=0, k=0] in the run, (m=0, k=0) by the model",
    ),
    "accumulator_lane": (
        lambda row, m: row ^ 1,
        "O shows (m=1, k=0) as A[m=0, k=0] in the run, (m=0, k=0) by the model",
    ),
    "accumulate": (
        lambda old, product, enabled, scale: product,
        "O shows (m=0, k=0) as A[m=0, k=1] in the run, (m=0, k=1) by the model",
    ),
    "first_lane": (lambda warp: 32 * ((warp + 1) % 4), "legal is proved by the model, the run stops: "),
}


def forget_maps() -> None:
    """The machine keeps the places that it computed by its rules; other rules have others."""
    for name, module in list(sys.modules.items()):
        if name.startswith("layoutlab.ptx"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces a rule of the machine for one test."""

    def replace(name: str, wrong: Any) -> None:
        monkeypatch.setattr(rules, name, wrong)
        forget_maps()

    yield replace
    monkeypatch.undo()
    forget_maps()


@pytest.mark.parametrize("name", RULES)
def test_a_machine_with_a_wrong_rule_disagrees(name: str, model: Handoff, machine: Any) -> None:
    wrong, sentence = RULES[name]
    machine(name, wrong)
    said = heard(model)
    assert said.agrees is False
    assert sentence in said.why


# -- the kernel is not the one that the settings name -----------------------------------------------------------------


def test_a_kernel_of_other_settings_disagrees(model: Handoff, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = p_replay.compile_kernel
    other = {"write_swizzle": "none"}
    monkeypatch.setattr(p_replay, "compile_kernel", lambda s: compiled(dataclasses.replace(s, **other)))
    said = heard(model)
    assert (said.verdict, said.agrees) == ("refuted", False)
    assert said.why == "disagrees: T1 V0 (m=1, k=0) writes byte 144 by the model, byte 128 in the run"


def test_a_kernel_with_the_wrong_warps_disagrees(model: Handoff, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = p_replay.compile_kernel
    monkeypatch.setattr(p_replay, "compile_kernel", lambda s: compiled(dataclasses.replace(s, first_warp=1)))
    said = heard(model)
    assert said.agrees is False
    assert said.why.startswith("disagrees: legal is proved by the model, the run stops: PTX line")


def test_stopping_elsewhere_than_the_model_says_disagrees() -> None:
    model = sP(first_warp=1)
    other = "PTX line 1: tcgen05.st: warp 2 of CTA 0 touches TMEM lanes 0 to 31; it owns 64 to 95"
    assert heard(model, {"stopped": other}).agrees is False
    assert heard(model, {"stopped": other.replace("warp 2", "warp 1").replace("64 to 95", "32 to 63")}).agrees is True
    assert heard(model, {"stopped": "PTX line 1: st.shared: thread 3 at 0x5, which 4 does not divide"}).agrees is False


# -- each part of what was observed counts ----------------------------------------------------------------------------


def _swap(values: list[int], i: int, j: int) -> None:
    values[i], values[j] = values[j], values[i]


def _forget_store(observed: dict[str, Any]) -> None:
    for name in ("thread", "byte", "element"):
        observed["stores"][name].pop(5)


def _store_twice(observed: dict[str, Any]) -> None:
    for name in ("thread", "byte", "element"):
        observed["stores"][name].append(observed["stores"][name][5] + (2 if name == "byte" else 0))


SPOILT = {
    "owner": (lambda o: _swap(o["owner"], 3, 4), "T0 V3 holds (m=0, k=3) by the model, (m=0, k=4) in the run"),
    "store": (lambda o: o["stores"]["byte"].__setitem__(5, 7000), "writes byte 10 by the model, byte 5976 in the run"),
    "thief": (
        lambda o: o["stores"]["thread"].__setitem__(5, 9),
        "T9 stores (m=0, k=5) at byte 10, which it does not hold",
    ),
    "forgotten": (_forget_store, "T0 V5 (m=0, k=5) is stored 0 times, not once"),
    "twice": (_store_twice, "T0 V5 (m=0, k=5) is stored 2 times, not once"),
    "read": (lambda o: _swap(o["reads"], 70, 71), "(m=1, k=6) is read at byte 156 by the model, byte 158 in the run"),
    "image": (
        lambda o: _swap(o["image"]["element"], 0, 1),
        "byte 0 holds (m=0, k=1) in the run, (m=0, k=0) by the model",
    ),
    "hole": (lambda o: o["image"]["element"].__setitem__(0, UNWRITTEN), "byte 0 holds nothing in the run, (m=0, k=0)"),
    "stranger": (lambda o: o["image"]["element"].__setitem__(0, -2), "byte 0 holds what is not P's in the run"),
    "product": (lambda o: _swap(o["seen"], 0, 64), "O shows (m=1, k=0) as A[m=0, k=0] in the run, (m=0, k=0) by the"),
    "nan": (
        lambda o: o["seen"].__setitem__(0, UNWRITTEN),
        "O shows nothing as A[m=0, k=0] in the run, (m=0, k=0) by the",
    ),
    "neighbour": (
        lambda o: o.update(overwrites=[3, 2048]),
        "inside is proved by the model, refuted (T3 writes byte 1024",
    ),
    "warning": (lambda o: o.update(warnings=["PTX line 9: never written"]), "the run warns: PTX line 9: never written"),
}


@pytest.mark.parametrize("part", SPOILT)
def test_a_run_that_differs_in_one_thing_disagrees(part: str, seen: dict[str, Any], model: Handoff) -> None:
    spoil, sentence = SPOILT[part]
    assert heard(model, seen).agrees is True
    spoilt = copy.deepcopy(seen)
    spoil(spoilt)
    said = heard(model, spoilt)
    assert said.agrees is False
    assert sentence in said.why


def test_one_shift_serves_both_sides(seen: dict[str, Any], model: Handoff) -> None:
    moved = copy.deepcopy(seen)
    for part, values in (("stores", "byte"), ("image", "byte")):
        moved[part][values] = [byte + 3072 for byte in moved[part][values]]
    assert heard(model, moved).agrees is False  # the writer's side alone
    moved["reads"] = [byte + 3072 for byte in moved["reads"]]
    assert heard(model, moved).agrees is True
    moved["reads"], moved["stores"]["byte"], moved["image"]["byte"] = (
        [byte + 16 for byte in values] for values in (moved["reads"], moved["stores"]["byte"], moved["image"]["byte"])
    )
    assert heard(model, moved).agrees is False  # no multiple of 1024


# -- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", RADIX)
def test_every_type_holds_its_digits_and_their_numbers(dtype: str) -> None:
    digits = np.arange(RADIX[dtype])
    assert np.array_equal(digits.astype(np.float32).astype(numeric(dtype)).astype(np.float64), digits)
    assert (np.float32(RADIX[dtype] * 2 + 1).astype(numeric(dtype)).astype(np.float64) != RADIX[dtype] * 2 + 1) or (
        dtype == "f16"
    )
    every = np.arange(128 * 256)
    spelt = [digit(every, p, dtype).astype(np.float64) for p in range(passes(every.size, dtype))]
    assert np.array_equal(numbers(spelt, dtype), every)
    assert passes(RADIX[dtype], dtype) == 1 and passes(RADIX[dtype] + 1, dtype) == 2


@pytest.mark.parametrize("value", [0.5, -1.0, 256.0, np.inf])
def test_what_is_no_digit_is_refused(value: float) -> None:
    with pytest.raises(LayoutError, match="is no digit of a tag in bf16: 0 to 255 are"):
        numbers([np.array([1.0, value])], "bf16")


def test_poison_is_nan_in_every_type() -> None:
    for dtype in RADIX:
        kind = np.dtype(numeric(dtype))
        poison = np.full(kind.itemsize, 0xFF, np.uint8).view(kind).astype(np.float64)
        assert numbers([poison], dtype).tolist() == [UNWRITTEN]
    assert np.dtype(ml_dtypes.bfloat16).itemsize == 2


# -- the combined verdict ---------------------------------------------------------------------------------------------


def source(name: str, verdict: str = "proved", agrees: bool = True, missing: str | None = None) -> Source:
    return Source(lambda: missing, lambda model, _: Testimony(name, verdict, "seen", agrees))


def failing(reason: str) -> Source:
    def ask(model: Handoff, verdict: Any) -> Testimony:
        raise LayoutError(reason)

    return Source(lambda: None, ask)


REFUTED = source("trace", "refuted")
ABSENT = source("device", missing="no CUDA driver here")
YES, NO = {"kv": 64}, {"kv": 64, "write_swizzle": "none"}


@pytest.mark.parametrize(
    ("settings", "on", "provider", "answer"),
    [
        (YES, None, {"trace": source("trace"), "replay": source("replay"), "device": ABSENT}, ("agree", "proved", 0)),
        (YES, ["trace"], {"trace": source("trace")}, ("agree", "proved", 0)),
        (NO, None, {"trace": source("trace", "refuted")}, ("agree", "refuted", 1)),
        (YES, None, {"trace": source("trace"), "replay": source("replay", "refuted", False)}, ("disagree", None, 1)),
        (YES, None, {"trace": source("trace", "proved", False)}, ("disagree", None, 1)),
        (YES, ["device"], {"trace": source("trace"), "device": ABSENT}, ("incomplete", "proved", 3)),
        (NO, ["trace", "device"], {"trace": REFUTED, "device": ABSENT}, ("incomplete", "refuted", 3)),
        (YES, ["trace", "device"], {"trace": source("trace", agrees=False), "device": ABSENT}, ("disagree", None, 1)),
        (YES, None, {"trace": failing("the DSL crashed"), "replay": source("replay")}, ("incomplete", "proved", 3)),
        (YES, None, {"device": ABSENT}, ("incomplete", "proved", 3)),
        (YES, None, {}, ("incomplete", "proved", 3)),
    ],
)  # fmt: skip
def test_the_combined_verdict(settings: Any, on: Any, provider: Any, answer: tuple[str, str | None, int]) -> None:
    found = crosscheck(sP(**settings), on, providers={"sP": provider})
    assert (found.verdict, found.claim, found.exit_status) == answer
    assert [witness.name for witness in found.witnesses] == ["model", *WITNESSES]
    assert found.json()["witnesses"][0]["verdict"] == verify(sP(**settings)).verdict
    assert found.last_line().startswith(answer[0]) and found.last_line() in str(found)


def test_who_was_not_heard_is_listed_with_the_reason() -> None:
    provider = {"trace": source("trace"), "replay": failing("the process died"), "device": ABSENT}
    told = {w.name: (w.verdict, w.why) for w in crosscheck(sP(kv=64), providers={"sP": provider}).witnesses}
    assert told["replay"] == ("absent", "the process died")
    assert told["device"] == ("not asked", "no CUDA driver here")
    asked = crosscheck(sP(kv=64), ["trace", "device"], providers={"sP": provider})
    told = {w.name: (w.verdict, w.why) for w in asked.witnesses}
    assert told["replay"] == ("not asked", "not named by --on")
    assert told["device"] == ("absent", "no CUDA driver here")
    assert asked.last_line() == "incomplete: device not heard; model and trace alone: proved"


def test_an_unknown_witness_is_refused() -> None:
    with pytest.raises(LayoutError, match="there is no witness 'replays'; did you mean replay"):
        crosscheck(sP(kv=64), ["replays"])
    with pytest.raises(LayoutError, match="no witness was named"):
        crosscheck(sP(kv=64), [])


def test_every_provider_is_of_a_handoff_of_the_catalogue() -> None:
    assert PROVIDERS.keys() <= CATALOGUE.keys()
    assert all(set(provider) <= set(WITNESSES) for provider in PROVIDERS.values())


def test_a_users_own_sp_is_not_held_against_this_kernel(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--template", "sP"]) == 0
    file = tmp_path / "mine.py"
    file.write_text(capsys.readouterr().out.replace("my_sP", "sP"))
    assert main(["crosscheck", f"{file}:sP"]) == 3
    assert "no kernel is known that hands sP over" in capsys.readouterr().out


# -- the real witnesses -----------------------------------------------------------------------------------------------


def test_trace_and_replay_are_heard(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crosscheck", "sP", "--set", "kv=64", "--on", "trace,replay", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["handoff"], found["params"]["kv"]) == (1, "sP", 64)
    assert found["version"] and found["dsl_version"]
    assert (found["verdict"], found["claim"]) == ("agree", "proved")
    assert [(w["name"], w["verdict"]) for w in found["witnesses"]] == [
        ("model", "proved"),
        ("trace", "proved"),
        ("replay", "proved"),
        ("device", "not asked"),
    ]


def test_a_fault_is_refuted_by_all_in_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crosscheck", "sP", "--set", "kv=64", "--set", "write_swizzle=none"]) == 1
    text = capsys.readouterr().out
    assert text.count("T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144") == 3
    assert text.splitlines()[-1].startswith("agree: refuted by model and trace and replay")


def test_the_trace_of_another_variant_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced, "trace_sP", lambda settings, ptx: trace_sP({"write_swizzle": "none"}, ptx))
    found = crosscheck(sP(), ["trace"])
    assert (found.verdict, found.claim, found.exit_status) == ("disagree", None, 1)
    assert "T1 V0 writes byte 144 by the model, byte 128 in the trace" in str(found)


def test_the_trace_claims_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same maps under other rules: the claims differ, and that is a disagreement too."""
    monkeypatch.setattr(traced, "first_disagreement", lambda model, other: None)
    monkeypatch.setattr(traced, "trace_sP", lambda settings, ptx: trace_sP({"first_warp": 1}, ptx))
    found = crosscheck(sP(), ["trace"])
    assert found.verdict == "disagree"
    assert "legal is proved by the model, refuted (warp 1" in str(found)


def test_a_kernel_that_refuses_the_settings_is_absent() -> None:
    found = crosscheck(sP(base=32768), ["replay"])
    assert found.exit_status == 3
    assert "base=32768 is not a multiple of 16 from 0 to 16384" in str(found)


def test_without_the_replays_packages_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replayed.missing() is None and traced.missing() is None
    monkeypatch.setattr(replayed, "find_spec", lambda name: None if name == "llvmlite" else object())
    assert "llvmlite is not installed: this needs the extra 'replay': pip install 'layoutlab[replay]'" in str(
        replayed.missing()
    )
    monkeypatch.setattr(replayed, "dsl_version", lambda: None)
    assert "CuTe DSL is not installed here" in str(replayed.missing())


def found(capability: tuple[int, int]) -> Any:
    return lambda: SimpleNamespace(capability=capability)


def unavailable() -> Any:
    raise Unavailable("there is no CUDA device here: no driver")


@pytest.mark.parametrize(
    ("opened", "reason"),
    [
        (unavailable, "there is no CUDA device here: no driver"),
        (found((9, 0)), "the kernel runs on compute capability 10.0 and 10.3, and the device here has 9.0"),
        (found((10, 1)), "the kernel runs on compute capability 10.0 and 10.3, and the device here has 10.1"),
    ],
    ids=["none", "sm90", "sm101"],
)
def test_why_no_device_is_asked(opened: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "Device", opened)
    assert device.missing_sm100() == reason
    answer = crosscheck(sP(kv=64), ["device"])
    assert answer.exit_status == 3 and reason in str(answer)


# -- sP90 -------------------------------------------------------------------------------------------------------------


def sp90(**settings: Any) -> Handoff:
    return CATALOGUE["sP90"](kv=64, **settings)


def test_sp90_is_replayed_from_its_bundle() -> None:
    right, wrong = crosscheck(sp90()), crosscheck(sp90(write_swizzle="none"))
    assert (right.verdict, right.claim, right.exit_status) == ("agree", "proved", 0)
    assert (wrong.verdict, wrong.claim, wrong.exit_status) == ("agree", "refuted", 1)
    assert verify(wrong.handoff)["placed"].witness.thread == 4  # type: ignore[union-attr]
    assert "the replay shows the counterexample of verify: T4 V0 (m=1, k=0)" in str(wrong)
    assert "of sP90's kernel there is no trace yet" in str(right)


def test_sp90_of_other_settings_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = sp90_module._bundle
    monkeypatch.setattr(sp90_module, "_bundle", lambda model: bundle(sp90(write_swizzle="none")))
    found = crosscheck(sp90(), ["replay"])
    assert (found.verdict, found.exit_status) == ("disagree", 1)


@pytest.mark.parametrize("capability", [(9, 0), (10, 0)])
def test_sp90_asks_a_device_of_its_own_kind(capability: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a driver whose launches are replays: what a device would be asked, and what is made of its answers."""
    bundle, driver = sp90_module._bundle, HostDriver(capability)

    @contextmanager
    def known(model: Handoff) -> Any:
        with bundle(model) as folder:
            driver.ptx[(folder / "kernel.cubin").read_bytes()] = (folder / "kernel.ptx").read_text()
            yield folder

    monkeypatch.setattr(sp90_module, "_bundle", known)
    for module in (device, sp90_module):
        monkeypatch.setattr(module, "Device", lambda: Device(driver))
    found = crosscheck(sp90(), ["device"])
    if capability == (9, 0):
        assert (found.verdict, found.claim) == ("agree", "proved")
    else:
        assert found.exit_status == 3
        assert "the kernel is sm_90a code, and the device here has compute capability 10.0" in str(found)


def test_an_undecided_model_is_no_side_to_agree_with() -> None:
    said = (Testimony("model", "undecided", "too large"), Testimony("trace", "proved", "seen", True))
    found = Crosscheck(sp90(), verify(sp90()), said)
    assert (found.verdict, found.exit_status) == ("incomplete", 3)


def test_what_results_cannot_show_is_not_agreed_on() -> None:
    """A claim that only the model refutes, and that a run's results say nothing of."""
    model = sp90()
    claims = [
        dataclasses.replace(claim, verdict="refuted") if claim.name == "legal" else claim
        for claim in verify(model).claims
    ]
    with pytest.raises(LayoutError, match="that legal is refuted cannot be seen in what the tensor core got"):
        sp90_module.replay(model, dataclasses.replace(verify(model), claims=tuple(claims)))


def test_what_is_said_of_the_device_is_about_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is not found is one plain sentence, whatever the library adds to it."""

    def noisy() -> Any:
        raise Unavailable("there is no CUDA device here: a library's manual") from RuntimeError("a library's manual")

    monkeypatch.setattr(device, "Device", noisy)
    plain = "there is no CUDA device here: no NVIDIA driver was found"
    for name in ("sQ", "tP"):
        told = {w.name: w for w in crosscheck(CATALOGUE[name](), ["device"]).witnesses}
        assert told["device"].why.startswith(plain) and "manual" not in told["device"].why
    assert device.missing_sm100() == plain
    monkeypatch.setattr(device, "Device", found((9, 0)))
    assert "there is a device here" in str(crosscheck(CATALOGUE["sQ"](), ["device"]))
