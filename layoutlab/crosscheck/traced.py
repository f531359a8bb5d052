"""The model of sP held against the trace: the same owner, writer and reader, or the first element where they differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from layoutlab.arbiter import first_where
from layoutlab.crosscheck.testimony import Testimony, evidence, first_other_claim
from layoutlab.cutedsl.jobs import DSL_PACKAGE, dsl_version
from layoutlab.cutedsl.sp_handoff import traced_handoff
from layoutlab.cutedsl.trace import KERNELS, TraceUnavailable, trace_sP
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict, verify
from layoutlab.handoff.places import Places


@dataclass(frozen=True)
class Agreement:
    """Whether the trace agrees with a model (None: there is none to ask), in one sentence; `json` is its record."""

    agrees: bool | None
    line: str
    seconds: float
    json: Mapping[str, Any]


def against_trace(model: Handoff, ptx: bool = False) -> Agreement:
    """Holds a model of sP, which was made with settings, against what CuTe DSL computes for those settings.

    With `ptx=True` the kernel is compiled too, so that the reader is the descriptors that its MMAs are issued with.
    """
    started = time.perf_counter()
    try:
        trace = trace_sP(model.params, ptx)
    except TraceUnavailable as why:
        return _agreement(None, f"none: {why}; the verdict above is the model's alone", started)
    traced = traced_handoff(trace)
    where = f"CuTe DSL {trace.dsl_version} compiling {KERNELS}.p_handoff" + (" (cached)" if trace.cached else "")
    record = {"source": where, "provenance": dict(trace.provenance), "storage": trace.storage["layout"]}
    if difference := first_disagreement(model, traced):
        return _agreement(False, f"disagrees ({where}): {difference}", started, record)
    line = f"agrees: owner, writer and reader of all {model.tile.size} elements are those of {where}"
    return _agreement(True, line, started, record)


def missing() -> str | None:
    """Why no kernel can be traced here; None where one can."""
    if dsl_version() is None:
        return f"CuTe DSL is not installed here (pip install {DSL_PACKAGE}), so nothing was traced"
    return (
        None if find_spec(KERNELS) else f"{KERNELS} is not installed beside layoutlab, so there is no kernel to trace"
    )


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """Holds the model of sP against what CuTe DSL computes, the reader being the descriptors of the compiled kernel.

    Raises LayoutError where the kernel cannot be traced, or the trace not be read.
    """
    started = time.perf_counter()
    trace = trace_sP(model.params, ptx=True)
    traced = traced_handoff(trace)
    theirs = verify(traced)
    claims = {claim.name: claim for claim in theirs.claims}
    difference = first_disagreement(model, traced) or first_other_claim(verdict, claims, "in the trace")
    source = f"CuTe DSL {trace.dsl_version}'s" + (" (cached)" if trace.cached else "")
    same = f"owner, writer and reader of all {model.tile.size} elements are {source}; {evidence(claims)}"
    why = f"disagrees: {difference}" if difference else same
    return Testimony("trace", theirs.verdict, why, difference is None, time.perf_counter() - started)


def first_disagreement(model: Handoff, traced: Handoff) -> str | None:
    """The first thing in which two handoffs differ, as a sentence; None if their three maps are the same functions."""
    if model.tile != traced.tile:
        return f"the model is of {model.tile}, the trace of {traced.tile}"
    ours, theirs = model.writer.owner, traced.writer.owner
    if ours.first_thread != theirs.first_thread:
        return f"the model's first thread is {ours.first_thread}, the traced one {theirs.first_thread}"
    questions: list[tuple[str, Places, Places, Callable[[dict[str, int]], str]]] = [
        ("holds", ours.places, theirs.places, lambda at: f"T{at['t'] + ours.first_thread} V{at['v']}"),
        ("writes", model.writer.write, traced.writer.write, lambda at: f"T{at['t'] + ours.first_thread} V{at['v']}"),
        ("is read at", model.reader.read, traced.reader.read, lambda at: _listed(at)),
    ]
    for verb, a, b, named in questions:
        if at := first_difference(a, b):
            return f"{named(at)} {verb} {_place(a.at(**at))} by the model, {_place(b.at(**at))} in the trace"
    return None


def first_difference(a: Places, b: Places) -> dict[str, int] | None:
    """The first index, in counting order, at which two functions differ: by their tables, else by walking them."""
    if dict(a.axes) != dict(b.axes):
        raise LayoutError(f"two maps over {dict(a.axes)} and {dict(b.axes)} are not of the same indices")
    try:
        if a.table == b.table:
            return None
    except LayoutError:  # no table holds one of them
        pass
    found, _ = first_where(a.axes, lambda **index: _unequal(a.at(**index), b.at(**index)))
    return found


def _unequal(a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    if a.keys() != b.keys():
        raise LayoutError(f"two maps to {', '.join(a)} and to {', '.join(b)} have no common answer")
    wrong: Any = False
    for name in a:
        wrong = wrong | (a[name] != b[name])
    return wrong


def _place(outputs: Mapping[str, Any]) -> str:
    if set(outputs) != {"bit"}:
        return _listed(outputs)
    byte, bit = divmod(int(outputs["bit"]), 8)
    return f"byte {byte}" + (f" bit {bit}" if bit else "")


def _listed(values: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={int(value)}" for name, value in values.items()) + ")"


def _agreement(agrees: bool | None, line: str, started: float, record: Mapping[str, Any] | None = None) -> Agreement:
    return Agreement(agrees, line, time.perf_counter() - started, record or {})
