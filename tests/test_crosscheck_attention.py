"""The handoffs around P, held against a replay of the attention kernel: they agree, on mistakes too.

The device's part of sP and tP runs on a driver whose launches are replays.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from host_driver import HostDriver

import layoutlab as ll
from layoutlab.catalogue import CATALOGUE, sP, tP
from layoutlab.cli import main
from layoutlab.crosscheck import attention, crosscheck, device, sides, sp100, tmem_p
from layoutlab.cutedsl.jobs import Answer
from layoutlab.device import Device, runner
from layoutlab.kernels import attention_observe
from layoutlab.kernels.attention_config import AttentionConfig
from layoutlab.kernels.attention_host import arguments, check, compile_attention
from layoutlab.kernels.attention_sides import observe
from layoutlab.ptx.parse import PtxError
from layoutlab.replay import replay

EPILOGUE = {"epi_n": 64, "first_warp": 4}
RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("sQ", {}),
    ("sQ", {"head_dim": 64, "dtype": "f16", "base": 2048, "k_step": "always_32_bytes"}),  # which is right in one atom
    ("sK", {"slot": 1}),
    ("sK", {"head_dim": 256, "kv": 64, "slot": 1}),
    ("sV", {}),
    ("sV", {"head_dim": 256, "kv": 64, "dtype": "f16", "slot": 1, "base": 1024}),
    ("oRescale", {}),
    ("oRescale", {"head_dim": 256, "column": 128, "store_column": 128}),
    ("epilogue", EPILOGUE),
    ("epilogue", {**EPILOGUE, "n": 256, "dtype": "f16"}),
    ("store", {}),
    ("store", {"head_dim": 64, "heads": 3, "rows": 77, "dtype": "f16", "base": 64}),
]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("sQ", {"tma_swizzle": "none"}, "box 0 element 64 (m=1, k=0) writes byte 128"),
    ("sQ", {"k_step": "always_32_bytes"}, "box 1 element 0 (m=0, k=64) writes byte 16384"),
    ("sK", {"tma_swizzle": "none", "slot": 1}, "box 0 element 64 (n=1, k=0) writes byte 32896"),
    ("sK", {"k_step": "always_32_bytes", "slot": 1}, "box 1 element 0 (n=0, k=64) writes byte 49152"),
    ("sV", {"tma_swizzle": "none"}, "box 0 element 64 (n=0, k=1) writes byte 128"),
    ("sV", {"k_step": "always_32_bytes", "slot": 1}, "box 0 element 1024 (n=0, k=16) writes byte 34816"),
    ("oRescale", {"store_column": 384}, "T128 V0 (m=0, n=0) writes lane 0 column 384"),
    ("oRescale", {"store": "16x64b.x16"}, "T128 V1 (m=0, n=1) writes lane 0 column 258"),
    ("epilogue", {**EPILOGUE, "tma_swizzle": "none"}, "T129 V0 (m=1, n=0) writes byte 144"),
    ("epilogue", {**EPILOGUE, "store_as": "16x256b.x4", "bits": 32}, "T128 V2 (m=0, n=2) writes byte 1024"),
    ("store", {"order": "heads"}, "box 0 element 64 (m=1, n=0) writes byte 256"),
]


@functools.cache
def _asked(name: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    model = CATALOGUE[name](**dict(settings))
    seen = observe(**attention.REQUESTS[name](model.params))
    return model, ll.verify(model), attention.moved(seen, model.params)


def asked(name: str, settings: dict[str, Any]) -> Any:
    """A handoff's model, its verdict, and what a run of the kernel under its settings shows."""
    return _asked(name, tuple(settings.items()))


@pytest.mark.parametrize(("name", "settings"), RIGHT, ids=str)
def test_the_run_agrees_on_right_settings(name: str, settings: dict[str, Any]) -> None:
    model, verdict, seen = asked(name, settings)
    found = sides.testimony(model, verdict, seen)
    assert found.agrees and found.verdict == verdict.verdict == "proved", found.why
    assert sorted(seen["owner"]) == list(range(model.tile.size))


@pytest.mark.parametrize(("name", "settings", "said"), WRONG, ids=str)
def test_the_run_shows_the_counterexample_that_verify_predicts(name: str, settings: Any, said: str) -> None:
    model, verdict, seen = asked(name, settings)
    found = sides.testimony(model, verdict, seen)
    assert found.agrees and found.verdict == verdict.verdict == "refuted", found.why
    assert said in found.why and said in str(verdict)


@pytest.mark.parametrize(("name", "settings", "said"), WRONG, ids=str)
def test_a_right_model_against_a_wrong_kernel_disagrees(name: str, settings: Any, said: str) -> None:
    """The planted mistake is the kernel's, and the model that knows nothing of it does not say what the run says."""
    _, _, seen = asked(name, settings)
    right = {key: value for key, value in settings.items() if key in ("slot", "head_dim", "n", "epi_n", "first_warp")}
    model = CATALOGUE[name](**right)
    found = sides.testimony(model, ll.verify(model), seen)
    assert found.agrees is False and found.verdict == "refuted" and found.why.startswith("disagrees: ")


def test_the_command_asks_the_kernel() -> None:
    """The whole way: a worker compiles, runs, and answers."""
    for name, settings, status in (("store", {}, 0), ("oRescale", {"store_column": 384}, 1)):
        found = crosscheck(CATALOGUE[name](**settings), ["replay"])
        assert (found.verdict, found.exit_status) == ("agree", status), str(found)


@pytest.fixture(scope="module")
def sides_of_store() -> Any:
    return asked("store", {"head_dim": 64, "rows": 16})


@pytest.mark.parametrize(
    ("key", "at", "value", "said"),
    [
        ("owner", 5, 6, "box element 5 holds element 5 by the model, 6 in the run"),
        ("wrote", 65, 0, "box element 65 writes place 2064 by the model, 0 in the run"),
        ("reads", 3, 0, "element (0, 3) is read at place 48 by the model, 0 in the run"),
        ("by_writer", 9, False, "covered is proved by the model, refuted ((m=0, n=9) is read at byte 18"),
    ],
)
def test_a_tampered_run_disagrees(sides_of_store: Any, key: str, at: int, value: Any, said: str) -> None:
    model, verdict, seen = sides_of_store
    changed = list(seen[key])
    changed[at] = value
    found = sides.testimony(model, verdict, {**seen, key: changed})
    assert found.agrees is False and said in found.why, found.why


def test_another_width_of_store_disagrees() -> None:
    model, verdict, seen = asked("epilogue", EPILOGUE)
    found = sides.testimony(model, verdict, {**seen, "widths": [8]})
    assert found.agrees is False and "stores 16 bytes at a time, the run 8" in found.why


def test_a_run_that_stops_disagrees() -> None:
    model = CATALOGUE["sQ"]()
    found = sides.testimony(model, ll.verify(model), {"stopped": "a store to address 7"})
    assert found.agrees is False and "a store to address 7" in found.why


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("sQ", {"dtype": "e4m3"}, "dtype=bf16 or f16, not e4m3"),
        ("sQ", {"seq": 100}, "seq=128 or more"),
        ("sQ", {"base": 128}, "multiples of 1024 bytes, not 128"),
        ("sQ", {"descriptor": "units"}, "descriptor=right, not units: --set descriptor=right"),
        ("sQ", {"tma_swizzle": "32"}, "tma_swizzle=matching or none, not 32"),
        ("sQ", {"tma_swizzle": "none", "k_step": "always_32_bytes"}, "one fault at a time"),
        ("sK", {"head_dim": 256}, "kv=64, not 128: --set kv=64"),
        ("sQ", {"major": "MN"}, "major=K, not MN"),
        ("sV", {"read_major": "K"}, "read_major=MN, not K"),
        ("oRescale", {"column": 128}, "column=256, not 128"),
        ("oRescale", {"store": "32x32b.x8"}, "by 32x32b.x32, or by its fault 16x64b.x16, not 32x32b.x8"),
        ("oRescale", {"store_column": 260}, "store_column=256, or by its fault at 384, not at 260"),
        ("epilogue", {}, "epi_n=64, not 0 and first_warp=4, not 0: --set epi_n=64 --set first_warp=4"),
        ("epilogue", {**EPILOGUE, "n": 192}, "n=64 or 128 or 256, not 192"),
        ("epilogue", {**EPILOGUE, "dtype": "f32"}, "dtype=bf16 or f16, not f32"),
        ("store", {"heads": 100_000}, "a run is of at most 64 heads"),
    ],
)  # fmt: skip
def test_settings_that_the_kernel_does_not_have(name: str, settings: dict[str, Any], said: str) -> None:
    found = crosscheck(CATALOGUE[name](**settings), ["replay"])
    assert found.exit_status == 3 and said in str(found), str(found)


def test_what_a_run_does_not_show_is_not_agreed_on() -> None:
    """A claim that the model alone refutes."""
    model, verdict, seen = asked("sQ", {})
    legal = [dataclasses.replace(c, verdict="refuted") if c.name == "legal" else c for c in verdict.claims]
    verdict = dataclasses.replace(verdict, claims=tuple(legal))
    with pytest.raises(ll.LayoutError, match="that legal is refuted cannot be seen in a run of the kernel"):
        sides.testimony(model, verdict, seen)


# -- both sides of TMA ------------------------------------------------------------------------------------------------


def test_tma_moves_what_lies_at_the_recorded_addresses() -> None:
    """Each element of Q, K and V to the recorded byte of shared memory, each of O from there; outside is nowhere."""
    config = AttentionConfig(head_dim=64)
    q, k, v = (np.zeros((2, 130, 2, 64), np.uint16) for _ in range(3))
    for i, tensor in enumerate((q, k, v)):
        tensor.reshape(-1)[:] = np.arange(tensor.size) % 251 + 256 * (i + 1)  # small numbers, all bf16 patterns of them
    o = np.zeros_like(q)
    packed = arguments(check(config, q, k, v, o), ctas=1)
    record = replay(compile_attention(config, lse=False), *packed, buffers=[q, k, v, o], provenance=True).provenance
    loads, stores = record.reads_of("tma.load"), record.reads_of("tma.store")
    moved = {"q": set[int](), "o": set[int]()}
    for name, tensor, boxes in (("q", q, loads), ("o", o, stores)):
        for box in boxes:
            inside = box.elsewhere[box.elsewhere >= 0] - tensor.ctypes.data
            if box.elsewhere.max() < tensor.ctypes.data or (inside >= tensor.nbytes).any():
                continue
            moved[name] |= set((inside // 2).tolist())
            assert len(np.unique(box.location)) == box.location.size == 128 * 64
    assert all(found == set(range(q.size)) for found in moved.values())
    partial = [box for box in stores if (box.elsewhere < 0).any()]
    assert len(partial) == 4 and all((box.elsewhere >= 0).sum() == 2 * 64 for box in partial)  # rows 128 and 129


# -- a device ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_sp(monkeypatch: pytest.MonkeyPatch) -> Any:
    """sP's crosscheck on a driver whose launches are replays."""

    def ask(capability: tuple[int, int], **settings: Any) -> Any:
        driver, run_bundle = HostDriver(capability), runner.run_bundle

        def known(opened: Device, folder: Any, out: Any) -> Any:
            driver.ptx[(folder / "kernel.cubin").read_bytes()] = (folder / "kernel.ptx").read_text()
            return run_bundle(opened, folder, out)

        monkeypatch.setattr(sp100, "run_bundle", known)
        for module in (device, sp100):
            monkeypatch.setattr(module, "Device", lambda: Device(driver))
        found = crosscheck(sP(kv=64, **settings), ["device"])
        assert not driver.held
        return found, driver

    return ask


@pytest.mark.parametrize(("capability", "arch"), [((10, 0), "sm_100a"), ((10, 3), "sm_103a")])
def test_sp_is_compiled_for_the_device_and_run_on_it(on_sp: Any, capability: Any, arch: str) -> None:
    found, driver = on_sp(capability, store="composition")
    assert (found.verdict, found.claim) == ("agree", "proved"), str(found)
    (ptx,) = driver.ptx.values()
    assert f".target {arch}" in ptx and driver.calls.count("cuLaunchKernelEx") == 4  # two tags, two random products


def test_sp_on_a_device_shows_verifys_counterexample(on_sp: Any) -> None:
    found, _ = on_sp((10, 0), write_swizzle="none")
    assert (found.verdict, found.claim) == ("agree", "refuted"), str(found)
    assert "shows the counterexample of verify: T1 V0 (m=1, k=0), which lies at byte 128" in str(found)


def test_sp_with_a_wrong_address_is_caught(on_sp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pointer that leaves its tensor, and one that leads to another."""
    relocated = runner.relocated

    def instead(changed: Any) -> None:
        monkeypatch.setattr(
            runner, "relocated", lambda launch, at, scalars=None: relocated(launch, changed(at), scalars)
        )

    instead(lambda at: {**at, "S": at["S"] - 256})
    with pytest.raises(PtxError, match="which is byte -256 of tensor 0"):
        on_sp((10, 0))
    instead(lambda at: {**at, "V": at["S"]})
    found, _ = on_sp((10, 0))
    assert (found.verdict, found.exit_status) == ("disagree", 1), str(found)


def test_sp_on_an_older_device_is_absent(on_sp: Any) -> None:
    found, driver = on_sp((9, 0))
    assert found.exit_status == 3 and "cuLaunchKernelEx" not in driver.calls
    assert "the kernel runs on compute capability 10.0 and 10.3, and the device here has 9.0" in str(found)


def test_sp_that_the_hardware_need_not_run_is_not_run(on_sp: Any) -> None:
    found, driver = on_sp((10, 0), first_warp=1)
    assert found.exit_status == 3 and "it is not run on a device: warp 1" in str(found)
    assert "cuLaunchKernelEx" not in driver.calls


def test_a_bundle_for_sm100(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """bundle, a run on a driver whose launches are replays, check-bundle; a bundle for the wrong device."""
    folder = tmp_path / "b"
    made = ["bundle", "sP", "--set", "kv=64", "--set", "write_swizzle=none", "--capability", "10.3", "-o", str(folder)]
    assert main(made) == 0 and "on a device of compute capability 10.3" in capsys.readouterr().out
    held = {(folder / "kernel.cubin").read_bytes(): (folder / "kernel.ptx").read_text()}
    assert runner.main([str(folder)], HostDriver((10, 0), ptx=held)) != 0
    assert "10.3" in capsys.readouterr().err
    assert runner.main([str(folder)], HostDriver((10, 3), ptx=held)) == 0
    assert main(["check-bundle", str(folder), "--no-replay"]) == 0
    assert "shows the counterexample of verify: T1 V0 (m=1, k=0)" in capsys.readouterr().out
    for wrong in (["sP90", "--capability", "10.0"], ["sP", "--capability", "9.0"]):
        assert main(["bundle", *wrong, "-o", str(tmp_path / "c")]) == 2
        assert "compute capability" in capsys.readouterr().err


@pytest.fixture
def on_tp(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tP's crosscheck on a driver whose launches are replays, in this process."""

    def ask(capability: tuple[int, int], model: Any) -> Any:
        driver = HostDriver(capability)

        def compiled(*args: Any, **named: Any) -> Any:
            made = compile_attention(*args, **named)
            driver.ptx[bytes(made.artifacts.CUBIN)] = made.artifacts.PTX
            return made

        def run_jobs(jobs: Any, **options: Any) -> list[Answer]:
            (job,) = jobs
            return [Answer("result", attention_observe.observe_on_device(**job.arguments))]

        monkeypatch.setattr(runner, "cuda_driver", lambda: driver)
        monkeypatch.setattr(attention_observe, "compile_attention", compiled)
        monkeypatch.setattr(tmem_p, "run_jobs", run_jobs)
        return crosscheck(model, ["device"])

    return ask


@pytest.mark.parametrize(
    ("capability", "settings", "claim"),
    [
        ((10, 3), {}, "proved"),
        ((10, 0), {"head_dim": 256, "kv": 64, "dtype": "f16", "slot": 1}, "proved"),
        ((10, 0), {"read_offset": 0}, "refuted"),
        ((10, 0), {"read_unit": "elements", "slot": 1}, "refuted"),
    ],
    ids=str,
)
def test_tp_on_a_device(on_tp: Any, capability: Any, settings: Any, claim: str) -> None:
    found = on_tp(capability, tP(**settings))
    assert (found.verdict, found.claim) == ("agree", claim), str(found)
    if claim == "refuted":
        assert "first loses T0 V0 (m=0, k=0)" in str(found)


def test_tp_of_another_kernel_disagrees(on_tp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = functools.partial(tmem_p.kernel_settings, tP(read_offset=0).params)
    monkeypatch.setattr(tmem_p, "kernel_settings", lambda params: asked())
    found = on_tp((10, 0), tP())
    assert found.verdict == "disagree", str(found)


def test_tp_on_an_older_device_is_absent(on_tp: Any) -> None:
    found = on_tp((9, 0), tP())
    assert found.exit_status == 3 and "the device here has 9.0" in str(found)


# -- P through shared memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"store": "tiled_copy_d", "head_dim": 256, "kv": 64, "dtype": "f16"}, {"store": "composition", "base": 2048}],
    ids=str,
)
def test_sp_is_replayed_in_the_attention_kernel_too(settings):
    model = sP(**settings)
    found = attention.ask_sp(model, ll.verify(model))
    assert found.agrees and found.verdict == "proved"
    assert f"in the attention kernel {model.tile.size} elements held, stored (16 bytes at a time) and read" in found.why


@pytest.mark.parametrize("wrong", [{"write_swizzle": "none"}, {"store": "tiled_copy_c"}], ids=str)
def test_the_attention_kernels_sp_is_no_wrong_models(wrong):
    model, request = sP(head_dim=128, **wrong), attention.passed_request(sP(head_dim=128).params)
    assert request is not None
    found = attention.observed(model, ll.verify(model), request)
    assert not found.agrees and found.why.startswith("disagrees: ") and found.verdict == "proved"


def test_what_the_attention_kernel_does_not_have_of_sp_is_left_to_the_small_kernel():
    for settings in ({"kv": 256}, {"dtype": "e4m3"}, {"load": "x16"}, {"base": 528}, {"store": "tiled_copy_c"}):
        assert attention.passed_request(sP(**settings).params) is None
