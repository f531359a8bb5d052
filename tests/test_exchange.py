"""Faults in small kernels, planted to be called proved: each is refuted, or not judged, and the right one is proved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .ptx_programs import kernel

pytest.importorskip("cutlass")

HERE = Path(__file__).parent
ROOT = HERE.parent


def traced(fault: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the answer of `layoutlab trace` on the kernel with a fault."""
    settings = ["--set", f"fault={fault}"] if fault else []
    done = subprocess.run(
        [sys.executable, "-m", "layoutlab", "trace", f"{HERE / 'exchange_kernels.py'}:run", *settings, "--json",
         "--arch", "sm_90a", *options],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("fault", ["", "turned by name"])
def test_the_right_ones_are_proved(fault: str) -> None:
    for options in ((), ("--replay",)):
        status, answer = traced(fault, *options)
        assert (status, [row["verdict"] for row in answer["rows"]]) == (0, ["proved"]), answer


def test_a_missing_barrier_is_refuted() -> None:
    status, answer = traced("barrier", "--replay")
    assert status == 1 and "some warps go ahead of the others: a barrier is missing" in answer["rows"][0]["why"]


def test_a_tile_that_is_turned_is_no_proof() -> None:
    """Another name does not say that a transpose is meant, and a square tile's shape does not either."""
    for options in ((), ("--replay",)):
        status, answer = traced("turned", *options)
        assert status == 3 and "takes as row what the writer takes as column" in answer["rows"][0]["why"]


def test_threads_that_store_what_others_loaded_are_no_proof() -> None:
    status, answer = traced("owner", "--replay")
    assert status == 3 and "neither the rows nor the columns" in answer["rows"][0]["why"]


def test_a_kernel_that_raises_is_not_wholly_judged() -> None:
    status, answer = traced("raises")
    assert status == 3 and answer["ended"] == "the script ended with ValueError: planted"
    assert answer["counts"]["proved"] and "the compile of a kernel" in answer["failures"][0]
    assert traced("raises", "--allow", "unsupported")[0] == 0


def test_a_script_that_finds_its_result_wrong_does_not_pass() -> None:
    status, answer = traced("", "--replay", "--set", "checks=True")
    assert answer["counts"]["proved"] == 1 and status == 3
    assert answer["ended"] == "the script ended with AssertionError: no transpose"


def test_a_kernel_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from layoutlab.ptx.memory import GlobalMemory
    from layoutlab.ptx.parse import parse_module
    from layoutlab.tracing import calls

    module = parse_module(kernel([], "  mov.u32 %r1, 0;\nAGAIN: add.u32 %r1, %r1, 1; bra AGAIN;\n"))
    launch: Any = SimpleNamespace(
        kernel="k", grid=(1, 1, 1), block=(32, 1, 1), cluster=(1, 1, 1), shared_bytes=0, params=[]
    )
    monkeypatch.setattr(calls, "_MOST_INSTRUCTIONS", 20_000)
    assert "no end after" in str(calls._one(module, launch, GlobalMemory(), "lazy"))
