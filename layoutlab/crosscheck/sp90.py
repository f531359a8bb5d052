"""The witnesses of sP90 and rs_reuse: their kernel as a launch bundle, replayed on the CPU and run on an SM90 device.

A bundle's tagged cases show which element lies in each place of sP and which the tensor core took for each A[m, k]; its
random cases, the whole product. `layoutlab.crosscheck.bundled` judges them by the model.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from layoutlab.crosscheck import device, replayed
from layoutlab.crosscheck.bundled import Bundle, judge, read_results
from layoutlab.crosscheck.testimony import Testimony
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.device.replayed import Results, replay_bundle
from layoutlab.device.runner import RESULTS, Device, run_bundle
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict
from layoutlab.ptx.parse import PtxError

MAKE = "layoutlab.kernels.p_bundle_sm90:make"
CAPABILITY = (9, 0)
SEEN = {"placed", "covered"}
"""The claims that a bundle's results decide: what the tensor core got."""


def missing_device() -> str | None:
    """Why no SM90 device can be asked here, or a kernel be made for it."""
    return replayed.missing() or device.capability_missing(CAPABILITY, "sm_90a")


def replay(model: Handoff, verdict: Verdict) -> Testimony:
    """The bundle's PTX run on the CPU, held against the model."""
    started = time.perf_counter()
    with _bundle(model) as folder:
        try:
            results = replay_bundle(folder)
        except PtxError as stop:
            raise LayoutError(f"the kernel's PTX was not run to its end ({stop})") from stop
        return judged("replay", "the replay", folder, results, verdict, started)


def ask_device(model: Handoff, verdict: Verdict) -> Testimony:
    """The bundle run on the device, held against the model."""
    started = time.perf_counter()
    with _bundle(model) as folder:
        opened = Device()
        opened.open()
        run_bundle(opened, folder, folder / RESULTS)
        results, run = read_results(folder / RESULTS)
        return judged("device", str(run["device"]), folder, results, verdict, started)


def kernel_settings(model: Handoff) -> dict[str, Any]:
    """The kernel's settings that make a handoff; refused where the kernel has none such.

    >>> from layoutlab.catalogue import named
    >>> kernel_settings(named("rs_reuse")(dtype="e4m3"))
    {'store': 'registers', 'dtype': 'e4m3', 'kv': 128}
    """
    params = dict(model.params)
    if model.name != "rs_reuse":
        return params
    if params["instruction"] != "wgmma":
        raise LayoutError(
            f"the kernel reuses registers by wgmma, and not by {params['instruction']}: set instruction=wgmma"
        )
    return {"store": "registers", "dtype": params["dtype"], "kv": params["kv"]}


@contextmanager
def _bundle(model: Handoff) -> Iterator[Path]:
    """A bundle of the model's variant, compiled by a worker process."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / model.name
        job = Job(MAKE, {"settings": kernel_settings(model), "folder": str(folder)})
        (answer,) = run_jobs([job], timeout_seconds=replayed.TIMEOUT_SECONDS)
        if answer.kind != "result":
            raise LayoutError(f"the kernel was not compiled ({answer.reason})")
        yield folder


def judged(
    name: str, who: str, folder: Path, results: Results, verdict: Verdict, started: float
) -> Testimony:  # fmt: skip
    """What results say: whether the tensor core got every element, and whether all is as the model has it."""
    refuted = {claim.name for claim in verdict.claims if claim.verdict == "refuted"}
    if refuted and not refuted & SEEN:
        raise LayoutError(f"that {' and '.join(sorted(refuted))} is refuted cannot be seen in what the tensor core got")
    found = judge(Bundle(folder), results, who, None)
    answer = "refuted" if found.counterexample else "proved"
    agrees = found.same and answer == verdict.verdict
    why = ("" if agrees else "disagrees: ") + "; ".join(found.lines)
    return Testimony(name, answer, why, agrees, time.perf_counter() - started)
