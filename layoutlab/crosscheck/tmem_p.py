"""tP's witnesses: the attention kernel that hands P over in Tensor Memory, replayed, or run on an SM100 device."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck import device, replayed
from layoutlab.crosscheck.sides import LANE_BITS, place_number, testimony
from layoutlab.crosscheck.tags import FOREIGN
from layoutlab.crosscheck.testimony import Testimony
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict

Array = NDArray[Any]

OBSERVE = "layoutlab.kernels.attention_observe:observe"
ON_DEVICE = "layoutlab.kernels.attention_observe:observe_on_device"
TIMEOUT_SECONDS = 600.0
LANES = 128
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


def missing_device() -> str | None:
    """Why no SM100 device can be asked here, or a kernel be made for it."""
    return replayed.missing() or device.missing_sm100()


def ask_device(model: Handoff, verdict: Verdict) -> Testimony:
    """Runs the attention kernel on the device here, and holds the model against what O shows of P.

    Raises LayoutError for a variant that the hardware need not run: what it did would say nothing.
    """
    started = time.perf_counter()
    if verdict["legal"].verdict == "refuted":
        said = verdict["legal"].witness
        raise LayoutError(f"it is not run on a device: {said.message if said else 'legal is refuted'}")
    arguments = {"settings": kernel_settings(model.params), "slot": model.params["slot"]}
    (answer,) = run_jobs([Job(ON_DEVICE, arguments)], timeout_seconds=TIMEOUT_SECONDS)
    if answer.kind != "result":
        raise LayoutError(f"the kernel was not run on the device to its end ({answer.reason})")
    seen = np.array(answer.result["seen"], np.int64).reshape(model.tile.shape)
    return of_product(model, verdict, answer.result["device"], seen, started)


def of_product(model: Handoff, verdict: Verdict, who: str, seen: Array, started: float) -> Testimony:
    """What O shows, (m, k) -> the element that was taken there, against what lies in each place by the model."""
    rows, columns = model.tile.shape
    t, v = np.indices(tuple(model.writer.owner.places.axes.values()))
    held = model.writer.owner.places.at(t=t, v=v)
    element = np.asarray(held["m"] * columns + held["k"])
    content = np.full(LANES * LANE_BITS, FOREIGN)
    content[place_number(model.writer.write.at(t=t, v=v))] = element
    m, k = np.indices((rows, columns))
    lies = content[place_number(model.reader.read.at(m=m, k=k))]
    own = m * columns + k
    wrong = np.where(lies == FOREIGN, seen == own, seen != lies)
    lost = (seen != own).ravel()[element]
    answer = "refuted" if lost.any() else "proved"
    seconds = time.perf_counter() - started
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        shown, ours = (_named(int(x[at]), columns) for x in (seen, lies))
        why = f"disagrees: for A{list(at)} {who} took {shown}, by the model {ours} lies there"
        return Testimony("device", answer, why, False, seconds)
    if not lost.any():
        why = f"O on {who} shows each of {seen.size} elements of P where the model says"
        return Testimony("device", answer, why, verdict.proved, seconds)
    first, value = (int(i) for i in np.argwhere(lost)[0])
    witness = verdict["placed"].witness
    coordinate = dict(zip(model.tile.extents, divmod(int(element[first, value]), columns), strict=True))
    found = (first + model.writer.owner.first_thread, value, coordinate)
    said = f"T{found[0]} V{value} ({', '.join(f'{a}={x}' for a, x in coordinate.items())})"
    taken = _named(int(seen[tuple(coordinate.values())]), columns)
    same = witness is not None and (witness.thread, witness.value, dict(witness.coordinate or {})) == found
    why = f"O on {who} first loses {said}, for which the tensor core took {taken}: verify's counterexample"
    if not same:
        by_model = witness.message if witness else "nothing is lost"
        why = f"disagrees: O on {who} first loses {said}, by the model {by_model}"
    return Testimony("device", answer, why, same, seconds)


def _named(element: int, columns: int) -> str:
    return "what is not P's" if element == FOREIGN else "(m={}, k={})".format(*divmod(element, columns))
