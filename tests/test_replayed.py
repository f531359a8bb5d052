"""trace --replay: pairs that a run has seen, what it refutes of them, and what it says where it cannot run.

The right and wrong variants of the P handoff kernel are those that the model refutes (tests/test_sp_handoff.py,
tests/test_kernel_replay.py); here nothing knows their layouts. Its routes "coordinate" and "tiled_copy_c" store element
by element at addresses of their own, which no traced partition tells.
"""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import numpy as np
import pytest

from layoutlab.cli import main
from layoutlab.ptx.parse import parse_module
from layoutlab.tracing import Trace
from layoutlab.tracing.dataflow import Dataflow, Source
from layoutlab.tracing.origin import _not_separable, _Places, _Step, _steps_apart
from layoutlab.tracing.stand_in import as_on_a_device

KERNELS = Path(__file__).parent / "replayed_kernels.py"
A = "operand A of tcgen05.mma"


@pytest.fixture
def replayed(capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    def trace(entry: str, *settings: str, arch: str = "sm_90a", options: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
        sets = [word for setting in settings for word in ("--set", setting)]
        status = main(["trace", f"{KERNELS}:{entry}", "--replay", "--arch", arch, "--json", *options, *sets])
        return status, json.loads(capsys.readouterr().out)

    return trace


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        (("store=coordinate",), None),
        (("store=coordinate", "write_swizzle=none"), "placed: (m=1, k=8), read at byte 1152, is what was in Tensor"),
        (("store=coordinate", "k_order=021"), "placed: in one K step operand A is 32 further along K"),
        (("store=tiled_copy_c",), "covered: it reads byte 1026 of CTA 0, which nobody wrote (1920 of 2048 elements)"),
        (("store=composition_raw",), "owner: T0 stores (m=1, k=0), which T1 loaded from Tensor Memory"),
    ],
)  # fmt: skip
def test_stores_of_any_kind_are_judged(replayed, settings: tuple[str, ...], first: str | None) -> None:  # type: ignore[no-untyped-def]
    status, answer = replayed("p", *settings, arch="sm_100a", options=("--allow", "unsupported"))
    mine = [r for r in answer["rows"] if r["reader"].startswith(A)]
    others = [r for r in answer["rows"] if r not in mine]
    assert all(r["verdict"] in ("proved", "unsupported") for r in others)
    if first is None:
        assert (
            status == 0
            and [r["verdict"] for r in mine] == ["proved"]
            and "st.shared at p_handoff.py:" in mine[0]["writer"]
        )
        assert answer["counts"] == {"proved": 4, "refuted": 0, "undecided": 0, "unsupported": 0}
    else:
        assert status == 1 and any(r["verdict"] == "refuted" and first in r["why"] for r in mine)


@pytest.mark.slow
def test_wavefronts_are_those_of_the_run(replayed) -> None:  # type: ignore[no-untyped-def]
    """A warp of the route without a swizzle stores one bank's column."""
    costs = {}
    for swizzle in ("absolute", "none"):
        _, answer = replayed("p", "store=coordinate", f"write_swizzle={swizzle}", arch="sm_100a")
        (costs[swizzle],) = {r["cost"] for r in answer["rows"] if r["reader"].startswith(A)}
    assert costs["none"].endswith("128-bit stores of a warp in the run, 32 wavefronts each at most (4 is the least)")
    assert "32 wavefronts" not in costs["absolute"]


def test_a_missing_wait_is_found(replayed) -> None:  # type: ignore[no-untyped-def]
    status, answer = replayed("run")
    (row,) = answer["rows"]
    assert status == 3 and row["verdict"] == "unsupported" and "early and late alike" in row["why"]
    assert row["buffer"] == "s, shared bytes 1024-1535" and row["writer"].startswith("cp.async at replayed_kernels.py:")
    status, answer = replayed("run", "waits=False")
    (row,) = answer["rows"]
    assert (status, row["verdict"]) == (1, "refuted")
    assert row["why"].endswith("which nobody wrote (128 of 128 bytes) if started work is done late: a wait is missing")


@pytest.mark.parametrize("entry", ["direct", "uncalled"])
def test_however_it_is_called(replayed, entry: str) -> None:  # type: ignore[no-untyped-def]
    """A @cute.jit function called outright, and one that is compiled from arrays and not called."""
    _, answer = replayed(*(("run", "called=False") if entry == "uncalled" else (entry,)))
    assert [r["writer"].split(" at ")[0] for r in answer["rows"]] == ["cp.async"] and answer["ended"] is None


def test_two_kernels_of_one_name(replayed) -> None:  # type: ignore[no-untyped-def]
    _, answer = replayed("twice")
    assert [(r["buffer"], r["verdict"]) for r in answer["rows"]] == [
        ("s, shared bytes 1024-1535", "unsupported"), ("s, shared bytes 1024-1535", "refuted"),
    ]  # fmt: skip


def test_buffers_of_one_layout_are_not_mistaken_for_each_other(replayed) -> None:  # type: ignore[no-untyped-def]
    """Where allocations begin is not known: both names are said; and nothing is proved by one where they differ."""
    _, answer = replayed("two")
    assert answer["ended"] is None and answer["counts"]["refuted"] == 0
    first = ("sA or sB = sB_read, shared bytes 1024-3071", "proved")
    assert first in {(r["buffer"], r["verdict"]) for r in answer["rows"]}
    status, answer = replayed("two", "plain=True")
    assert status == 1 and answer["ended"] is None and answer["counts"]["proved"] == 0
    assert ("sB = sB_read", "refuted") in {(r["buffer"], r["verdict"]) for r in answer["rows"]}


def test_what_ends_badly_is_told(replayed) -> None:  # type: ignore[no-untyped-def]
    status, answer = replayed("raises")
    assert status == 3 and len(answer["rows"]) == 1
    assert re.fullmatch(r"the script ended with ValueError at replayed_kernels.py:\d+: so it ended", answer["ended"])
    status, answer = replayed("fake")
    assert (
        status == 3
        and "compiled and not called, and what it was compiled from has no memory" in answer["rows"][0]["why"]
    )
    status, answer = replayed("outside")
    assert status == 1 and "no buffer is registered" in answer["rows"][0]["why"]


def test_a_run_is_saved_and_shown_again(replayed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    saved = tmp_path / "run.json"
    _, answer = replayed("run", options=("--save", str(saved)))
    assert main(["trace", str(saved), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["rows"] == answer["rows"]
    assert Trace.read(json.loads(saved.read_text())).replayed is not None


def ptx(body: str) -> Dataflow:
    text = f""".version 8.8
    .target sm_100a
    .address_size 64
    .entry k(.param .u64 x) {{
      .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .pred %p<3>;
      {body}
      ret; }}"""
    return Dataflow(parse_module(text).entries["k"])


def test_the_nearest_load_is_an_elements_own() -> None:
    """p = ex2(s - max(s0, s1)), as packed pairs: of each half the own s is one step nearer than the maximum's."""
    flow = ptx(
        """tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r9];
      max.f32 %r3, %r1, %r2;
      mov.b64 %rd1, {%r1, %r2};
      mov.b64 %rd2, {%r3, %r3};
      sub.rn.f32x2 %rd3, %rd1, %rd2;
      mov.b64 {%r4, %r5}, %rd3;
      ex2.approx.f32 %r6, %r4;
      ex2.approx.f32 %r7, %r5;
      cvt.rn.bf16x2.f32 %r8, %r7, %r6;
      mov.b64 %rd4, {%r8, %r8};
      mov.b64 {%r10, %r11}, %rd4;
      st.shared.b32 [%r12], %r10;
      add.f32 %r13, %r1, %r2;
      st.shared.b32 [%r12], %r13;"""
    )
    load, store, mixed = (
        i.line for i in flow.instructions.values() if i.opcode.startswith(("tcgen05.ld", "st.shared"))
    )
    assert flow.sources(store, 2) == [Source(load, 0, None), Source(load, 1, None)]
    assert flow.sources(mixed, 4) == [None]  # two are equally near: nothing is said
    assert flow.sources(store, 1) is None


def test_what_is_no_matrix() -> None:
    m, k = np.indices((8, 16))
    right = np.stack([m * 3 + 5, k], axis=-1)
    assert _not_separable(_Places(3, right)) is None
    swizzled = np.stack([m, k ^ (m % 2 * 8)], axis=-1)
    fault = _not_separable(_Places(3, swizzled))
    assert fault is not None and fault[0] == (1, 1 * 8)


def test_k_steps_go_together() -> None:
    steps = [_Step(16 * i, 100 + 16 * i, 16, False) for i in range(4)]
    assert _steps_apart(steps) == ""
    assert "operand A is 32 further along K than in the first, operand B 16" in _steps_apart(
        [_Step(16 * a, 16 * b, 16, False) for a, b in ((0, 0), (2, 1), (1, 2), (3, 3))]
    )
    assert _steps_apart([_Step(a, 16 * i, 16, False) for i, a in enumerate((0, 16, 0, 16))]) == ""  # two tiles


def test_cpu_tensors_count_as_a_devices() -> None:
    capsule = np.zeros(3).__dlpack__()
    as_on_a_device(capsule)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    assert ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value == 2
    ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 1  # numpy's own to free
    as_on_a_device("no capsule")
