"""sP's witness on silicon: its kernel as a launch bundle for the device that is here, run and judged by the model.

The tagged cases show which element lies in each place of sP's buffer and which the tensor core took for each A[m, k];
the random cases, the whole product.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from layoutlab.crosscheck import device, replayed, sp90
from layoutlab.crosscheck.bundled import read_results
from layoutlab.crosscheck.testimony import Testimony
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.device import Device
from layoutlab.device.runner import RESULTS, run_bundle
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict

MAKE = "layoutlab.kernels.p_bundle:make"


def missing_device() -> str | None:
    """Why no SM100 device can be asked here, or a kernel be made for it."""
    return replayed.missing() or device.missing_sm100()


def ask_device(model: Handoff, verdict: Verdict) -> Testimony:
    """The kernel compiled for the device here, run on it, and held against the model.

    Raises LayoutError for a variant that the hardware need not run: what it did would say nothing.
    """
    started = time.perf_counter()
    if verdict["legal"].verdict == "refuted":
        said = verdict["legal"].witness
        raise LayoutError(f"it is not run on a device: {said.message if said else 'legal is refuted'}")
    opened = Device()
    opened.open()
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / model.name
        made = {"settings": dict(model.params), "folder": str(folder), "capability": list(opened.capability)}
        (answer,) = run_jobs([Job(MAKE, made)], timeout_seconds=replayed.TIMEOUT_SECONDS)
        if answer.kind != "result":
            raise LayoutError(f"the kernel was not compiled ({answer.reason})")
        run_bundle(opened, folder, folder / RESULTS)
        results, run = read_results(folder / RESULTS)
        return sp90.judged("device", str(run["device"]), folder, results, verdict, started)
