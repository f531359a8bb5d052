"""The model of tP held against a replay of the attention kernel: the same owners, places, reads, and the same verdict.

The run says of its own which element each softmax thread held, at which lane and column it put it, and where the PV MMA
read each. From that alone it has a verdict and a first counterexample, which must be the model's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck.testimony import Testimony, evidence, first_other_claim
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict
from layoutlab.handoff.verdict import Claim, Location, Witness

Array = NDArray[Any]

OBSERVE = "layoutlab.kernels.attention_observe:observe"
TIMEOUT_SECONDS = 600.0
ROWS, LANE_BITS = 128, 512 * 32
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


def testimony(model: Handoff, verdict: Verdict, seen: Mapping[str, Any]) -> Testimony:
    """What a run says, and whether the model says the same."""
    if seen["stopped"] is not None:
        return Testimony("replay", "refuted", f"disagrees: the run stops: {seen['stopped']}", False)
    run = Run.of(model, seen)
    claims = run.claims()
    answer = "refuted" if any(claim.verdict == "refuted" for claim in claims.values()) else "proved"
    if difference := run.first_difference(model) or first_other_claim(verdict, claims, "in the run"):
        return Testimony("replay", answer, f"disagrees: {difference}", False)
    what = f"{run.owner.size} elements held, stored and read where the model says; {evidence(claims)}"
    return Testimony("replay", answer, what, True)


@dataclass(frozen=True, eq=False)
class Run:
    """A run in the model's terms: elements m * kv + k, places lane * 16384 + bit, (t, v) as [t, v]."""

    axes: tuple[str, str]
    kv: int
    who: str
    owner: Array
    wrote: Array
    reads: Array
    by_threads: Array
    others: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, model: Handoff, seen: Mapping[str, Any]) -> Run:
        """What was observed, as arrays."""
        m, k = model.tile.extents
        kv = len(seen["reads"]) // ROWS
        owner, wrote = (np.array(seen[name], np.int64).reshape(ROWS, -1) for name in ("owner", "wrote"))
        others = tuple((first, last) for first, last in seen["others"])
        reads, by_threads = np.array(seen["reads"], np.int64), np.array(seen["by_threads"], bool)
        return cls((m, k), kv, model.reader.who, owner, wrote, reads, by_threads, others)

    def first_difference(self, model: Handoff) -> str | None:
        """The first (t, v), or element, at which the model says something else."""
        t, v = np.indices(self.owner.shape)
        m, k = self.axes
        held, place = model.writer.owner.places.at(t=t, v=v), model.writer.write.at(t=t, v=v)
        coordinates = dict(zip(self.axes, np.indices((ROWS, self.kv)), strict=True))
        read = model.reader.read.at(**coordinates)
        for what, ours, theirs in (
            ("holds element", held[m] * self.kv + held[k], self.owner),
            ("writes place", place["lane"] * LANE_BITS + place["bit"], self.wrote),
            ("is read at place", (read["lane"] * LANE_BITS + read["bit"]), self.reads.reshape(ROWS, -1)),
        ):
            if (ours != theirs).any():
                at = tuple(int(i) for i in np.argwhere(ours != theirs)[0])
                who = f"T{at[0]} V{at[1]}" if theirs is not self.reads else f"element {at}"
                return f"{who} {what} {int(ours[at])} by the model, {int(theirs[at])} in the run"
        return None

    def claims(self) -> dict[str, Claim]:
        """The claims that a run decides: not what the hardware asks beyond what would have stopped it."""
        return {
            "covered": self._claim("covered", self._covered()),
            "placed": self._claim("placed", self._placed()),
            "exclusive": self._claim("exclusive", self._exclusive()),
            "inside": self._claim("inside", self._inside()),
        }

    def _claim(self, name: str, witness: Witness | None) -> Claim:
        return Claim(name, "refuted" if witness else "proved", "replay", self.owner.size, self.owner.size, witness)

    def _covered(self) -> Witness | None:
        if self.by_threads.all():
            return None
        element = int(self.by_threads.argmin())
        coordinate, at = self._coordinate(element), _location(int(self.reads[element]))
        return Witness(f"{coordinate} is read at {at}, where no thread put P", coordinate=coordinate, reads=at)

    def _placed(self) -> Witness | None:
        wrong = self.wrote != self.reads[self.owner]
        if not wrong.any():
            return None
        t, v = (int(i) for i in np.argwhere(wrong)[0])
        return self._witness(t, v)

    def _exclusive(self) -> Witness | None:
        places, first = np.unique(self.wrote, return_index=True)
        if len(places) == self.wrote.size:
            return None
        at = int(np.setdiff1d(np.arange(self.wrote.size), first)[0])
        t, v = divmod(at, self.owner.shape[1])
        return self._witness(t, v, ", where another element lies")

    def _inside(self) -> Witness | None:
        column = self.wrote % LANE_BITS // 32
        wrong = np.zeros(column.shape, bool)
        for first, last in self.others:
            wrong |= (first <= column) & (column <= last)
        if not wrong.any():
            return None
        t, v = (int(i) for i in np.argwhere(wrong)[0])
        return self._witness(t, v, ", another accumulator's")

    def _witness(self, t: int, v: int, what: str = "") -> Witness:
        element = int(self.owner[t, v])
        wrote, reads = _location(int(self.wrote[t, v])), _location(int(self.reads[element]))
        coordinate = self._coordinate(element)
        named = f"T{t} V{v} ({', '.join(f'{axis}={x}' for axis, x in coordinate.items())})"
        message = f"{named} writes {wrote}{what}; {self.who} reads that element at {reads}"
        return Witness(message, t, v, coordinate, wrote, reads)

    def _coordinate(self, element: int) -> dict[str, int]:
        return dict(zip(self.axes, divmod(element, self.kv), strict=True))


def _location(place: int) -> Location:
    lane, bit = divmod(place, LANE_BITS)
    return Location("tmem", {"lane": lane, "bit": bit})
