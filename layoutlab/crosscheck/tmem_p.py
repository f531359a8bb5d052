"""tP's witnesses: the attention kernel that hands P over in Tensor Memory, replayed on the CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from layoutlab.crosscheck.sides import testimony
from layoutlab.crosscheck.testimony import Testimony
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict

OBSERVE = "layoutlab.kernels.attention_observe:observe"
TIMEOUT_SECONDS = 600.0
KV_TILE = {64: 128, 128: 128, 256: 64}
"""Keys of the kernel's KV tile, by head dim."""


def kernel_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel's configuration that tP's settings say; refuses those that the kernel does not have.

    >>> from layoutlab.catalogue import tP
    >>> kernel_settings(tP(read_offset=0).params)["fault"]
    'p_offset_forgotten'
    """
    p, offset, read = params, params["p_offset"], params["read_offset"]
    faults = {("columns", 0): "p_offset_forgotten", ("elements", offset): "p_offset_in_columns"}
    fault = "none" if (p["read_unit"], read) == ("columns", offset) else faults.get((p["read_unit"], read))
    for name, right in (("kv", KV_TILE[p["head_dim"]]), ("load", "32x32b.x32"), ("first_warp", 0)):
        if p[name] != right:
            raise LayoutError(f"the attention kernel has {name}={right} at head_dim={p['head_dim']}, not {p[name]}")
    if p["store"] not in ("widest", "32x32b.x32") or p["dtype"] not in ("bf16", "f16"):
        raise LayoutError(f"the attention kernel stores bf16 or f16 by 32x32b.x32, not {p['dtype']} by {p['store']}")
    if offset < p["statistics"]:
        raise LayoutError(f"the attention kernel keeps no row statistics in S's columns: statistics={p['statistics']}")
    if fault is None:
        raise LayoutError(f"the attention kernel reads at its offset, {offset}, or by one of its faults, not at {read}")
    return {"head_dim": p["head_dim"], "dtype": p["dtype"], "tmem_p0_offset": offset, "fault": fault}


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """Runs the attention kernel under the model's settings and holds the model against it."""
    started = time.perf_counter()
    arguments = {"settings": kernel_settings(model.params), "slot": model.params["slot"]}
    (answer,) = run_jobs([Job(OBSERVE, arguments)], timeout_seconds=TIMEOUT_SECONDS)
    if answer.kind != "result":
        raise LayoutError(f"the kernel's PTX was not run to its end ({answer.reason})")
    found = testimony(model, verdict, answer.result)
    return Testimony(found.name, found.verdict, found.why, found.agrees, time.perf_counter() - started)
