"""The model of a handoff held against a run of its kernel: the same pairs, reads, image and product, the same verdict.

A run says of its own who holds which element, where each was stored, where the tensor core read each, what lay there,
and what the product made of it. From that alone it has a verdict and a first counterexample, which must be the model's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck.tags import FOREIGN, UNWRITTEN
from layoutlab.crosscheck.testimony import Testimony, evidence, first_other_claim
from layoutlab.cutedsl.jobs import DSL_PACKAGE, Job, dsl_version, run_jobs
from layoutlab.errors import LayoutError, install_hint
from layoutlab.handoff import Handoff, Verdict
from layoutlab.handoff.verdict import Claim, Location, Witness

Array = NDArray[Any]

OBSERVE = "layoutlab.kernels.p_replay:observe"
TIMEOUT_SECONDS = 600.0
NEEDED = ("llvmlite", "ml_dtypes", "layoutlab.kernels")
BUFFER_ALIGNMENT = 1024
LANES = re.compile(r"warp (\d+)\b.*?\blanes (\d+) to (\d+)\b.*?\b(\d+) to (\d+)")


def missing() -> str | None:
    """Why no kernel can be replayed here; None where one can."""
    if dsl_version() is None:
        return f"CuTe DSL is not installed here (pip install {DSL_PACKAGE}), so there is no PTX to run"
    lost = [name for name in NEEDED if find_spec(name) is None]
    return install_hint(lost[0]) if lost else None


def observed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a run of the P handoff kernel shows (`layoutlab.kernels.p_replay.observe`), from a worker process.

    Raises LayoutError where the run cannot be had, or shows too little.
    """
    (answer,) = run_jobs([Job(OBSERVE, {"settings": dict(settings)})], timeout_seconds=TIMEOUT_SECONDS)
    if answer.kind != "result":
        raise LayoutError(f"the kernel's PTX was not run to its end ({answer.reason})")
    found: dict[str, Any] = answer.result
    return found


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """Runs sP's kernel under the model's settings and holds the model against it."""
    started = time.perf_counter()
    found = testimony(model, verdict, observed(model.params))
    return Testimony(found.name, found.verdict, found.why, found.agrees, time.perf_counter() - started)


def testimony(model: Handoff, verdict: Verdict, seen: Mapping[str, Any]) -> Testimony:
    """What a run says, and whether the model says the same."""
    if seen["stopped"] is not None:
        return _stopped(verdict, seen["stopped"])
    run = Run.of(model, seen)
    try:
        claims = run.claims()
    except LayoutError as error:
        sentence = f"disagrees: by the model each thread stores each value that it holds once, in the run {error}"
        return Testimony("replay", "refuted", sentence, False)
    answer = "refuted" if any(claim.verdict == "refuted" for claim in claims.values()) else "proved"
    difference = first_difference(model, run) or first_other_claim(verdict, claims, "in the run") or _warned(run)
    if difference:
        return Testimony("replay", answer, f"disagrees: {difference}", False)
    what = (
        f"{run.stored.size} stored elements (by {run.widths} bytes at a time), {run.reads.size} reads, the image of "
        f"{run.places.size} places and O of {run.passes} runs are the model's; {evidence(claims)}"
    )
    return Testimony("replay", answer, what, True)


def _stopped(verdict: Verdict, sentence: str) -> Testimony:
    """The machine refused to go on: that is its refutation of `legal`; what comes later was not reached."""
    claim = verdict["legal"]
    ours, theirs = claim.witness and LANES.search(claim.witness.message), LANES.search(sentence)
    if claim.verdict == "refuted" and ours and theirs and ours.groups() == theirs.groups():
        return Testimony("replay", "refuted", f"legal: the run stops there, {sentence}", True)
    said = f"refuted ({claim.witness.message})" if claim.witness else claim.verdict
    return Testimony("replay", "refuted", f"disagrees: legal is {said} by the model, the run stops: {sentence}", False)


@dataclass(frozen=True, eq=False)
class Run:
    """A run in the model's terms: softmax threads from 0, bytes from the buffer's start, elements m * kv + k.

    `owner` is (t, v) -> element and `reads` element -> byte. `stored`, `thread` and `byte` are the elements stored, who
    stored each and where. `content` is what lay at each of the `places` (UNWRITTEN, FOREIGN), `seen` what O shows as
    each element.
    """

    shape: tuple[int, int]
    axes: tuple[str, str]
    first_thread: int
    who: str
    owner: Array
    stored: Array
    thread: Array
    byte: Array
    reads: Array
    places: Array
    content: Array
    seen: Array
    overwrites: tuple[int, int] | None
    warnings: tuple[str, ...]
    widths: str
    passes: int

    @classmethod
    def of(cls, model: Handoff, found: Mapping[str, Any]) -> Run:
        """What was observed, its addresses shifted by the one multiple of 1024 at which the buffer lay."""
        rows, columns = model.tile.shape
        reads = np.array(found["reads"], np.int64)
        first = int(model.reader.read.at(**dict.fromkeys(model.tile.extents, 0))["bit"]) // 8
        shift = (int(reads[0]) - first + BUFFER_ALIGNMENT // 2) // BUFFER_ALIGNMENT * BUFFER_ALIGNMENT
        thread = model.writer.owner.first_thread
        over = found["overwrites"]
        m, k = model.tile.extents
        return cls(
            (rows, columns), (m, k), thread, model.reader.who,
            np.array(found["owner"], np.int64).reshape(rows, -1),
            np.array(found["stores"]["element"], np.int64),
            np.array(found["stores"]["thread"], np.int64) - thread,
            np.array(found["stores"]["byte"], np.int64) - shift,
            reads - shift,
            np.array(found["image"]["byte"], np.int64) - shift,
            np.array(found["image"]["element"], np.int64),
            np.array(found["seen"], np.int64),
            (over[0], over[1] - shift) if over else None,
            tuple(found["warnings"]), " and ".join(map(str, found["width_bytes"])), int(found["passes"]),
        )  # fmt: skip

    @cached_property
    def write(self) -> Array:
        """(t, v) -> the byte at which thread t stored the element of its value v.

        Raises LayoutError where it did not, or stored another's.
        """
        rows, columns = self.owner.shape
        key = np.arange(rows)[:, None] * (1 << 32) + self.owner
        order = np.argsort(key.reshape(-1))
        place = self.thread * (1 << 32) + self.stored
        at = np.searchsorted(key.reshape(-1)[order], place)
        found = order[np.minimum(at, key.size - 1)]
        strange = key.reshape(-1)[found] != place
        if strange.any():
            i = int(strange.argmax())
            raise LayoutError(
                f"T{int(self.thread[i]) + self.first_thread} stores ({_listed(self.coordinate(int(self.stored[i])))}) "
                f"at byte {int(self.byte[i])}, which it does not hold"
            )
        bytes_of = np.full(key.size, -1, np.int64)
        bytes_of[found] = self.byte
        if (bytes_of < 0).any() or len(self.stored) != key.size:
            i = int((bytes_of < 0).argmax() if (bytes_of < 0).any() else np.bincount(found).argmax())
            many = int((found == i).sum())
            raise LayoutError(f"{self.named(i)} is stored {many} times, not once")
        return bytes_of.reshape(rows, columns)

    def coordinate(self, element: int) -> dict[str, int]:
        """The element's coordinate, by name."""
        return dict(zip(self.axes, divmod(element, self.shape[1]), strict=True))

    def named(self, flat: int) -> str:
        """T1 V0 (m=1, k=0), of a flat (t, v)."""
        t, v = divmod(flat, self.owner.shape[1])
        return f"T{t + self.first_thread} V{v} ({_listed(self.coordinate(int(self.owner[t, v])))})"

    # -- the run's own verdict ------------------------------------------------------------------------------------

    def claims(self) -> dict[str, Claim]:
        """The claims that a run decides: all but what the hardware asks beyond what stopped it."""
        found = {"covered": self._covered(), "placed": self._placed(), "exclusive": self._exclusive()}
        found |= {"inside": self._inside(), "legal": self._claim("legal", None)}
        return found

    def _claim(self, name: str, witness: Witness | None) -> Claim:
        return Claim(name, "refuted" if witness else "proved", "replay", self.owner.size, self.owner.size, witness)

    def _placed(self) -> Claim:
        wrong = (self.write != self.reads[self.owner]).reshape(-1)
        if not wrong.any():
            return self._claim("placed", None)
        at = int(wrong.argmax())
        wrote, reads = int(self.write.flat[at]), int(self.reads[self.owner.flat[at]])
        message = f"{self.named(at)} writes byte {wrote}; {self.who} reads that element at byte {reads}"
        return self._claim("placed", self._witness(at, message))

    def _witness(self, at: int, message: str) -> Witness:
        t, v = divmod(at, self.owner.shape[1])
        element = int(self.owner[t, v])
        wrote, reads = _byte(int(self.write[t, v])), _byte(int(self.reads[element]))
        return Witness(message, t + self.first_thread, v, self.coordinate(element), wrote, reads)

    def _covered(self) -> Claim:
        written = self.content[np.searchsorted(self.places, self.reads)] >= 0
        if written.all():
            return self._claim("covered", None)
        element = int(written.argmin())
        coordinate, byte = self.coordinate(element), int(self.reads[element])
        message = f"({_listed(coordinate)}) is read at byte {byte}, and nothing is written there"
        return self._claim("covered", Witness(message, coordinate=coordinate, reads=_byte(byte)))

    def _exclusive(self) -> Claim:
        place, element = self.write.reshape(-1), self.owner.reshape(-1)
        _, first, cell = np.unique(place, return_index=True, return_inverse=True)
        clash = element != element[first[cell]]
        if not clash.any():
            return self._claim("exclusive", None)
        at = int(clash.argmax())
        other = int(first[cell[at]])
        message = f"{self.named(other)} and {self.named(at)} both write byte {int(place[at])}"
        return self._claim("exclusive", self._witness(at, message))

    def _inside(self) -> Claim:
        if self.overwrites is None:
            return self._claim("inside", None)
        thread, byte = self.overwrites
        message = f"T{thread} writes byte {byte}, which the rest of the kernel writes too"
        return self._claim("inside", Witness(message, thread, wrote=_byte(byte)))


def first_difference(model: Handoff, run: Run) -> str | None:
    """The first thing in which the model's maps differ from a run, as a sentence; None if they are the same."""
    return _of_pairs(model, run) or _of_reads(model, run) or _of_image(model, run) or _of_product(model, run)


def _of_pairs(model: Handoff, run: Run) -> str | None:
    """Who holds which element, and where it is stored."""
    places = model.writer.owner.places
    if tuple(places.axes.values()) != run.owner.shape:
        return (
            f"the model has {_listed(places.axes)}, the run {run.owner.shape[0]} threads of {run.owner.shape[1]} values"
        )
    wrote, held = (x.reshape(run.owner.shape) for x in _written(model, run))
    if at := _first(held != run.owner):
        here, there = (_named(run, int(x[at])) for x in (held, run.owner))
        return f"T{at[0] + run.first_thread} V{at[1]} holds {here} by the model, {there} in the run"
    if at := _first(wrote != run.write):
        name = run.named(int(np.ravel_multi_index(at, run.owner.shape)))
        return f"{name} writes byte {int(wrote[at])} by the model, byte {int(run.write[at])} in the run"
    return None


def _of_reads(model: Handoff, run: Run) -> str | None:
    """Where the tensor core reads each element."""
    reads = _reads(model, run).reshape(-1)
    if at := _first(reads != run.reads):
        here, there = int(reads[at]), int(run.reads[at])
        return f"({_listed(run.coordinate(at[0]))}) is read at byte {here} by the model, byte {there} in the run"
    return None


def _of_image(model: Handoff, run: Run) -> str | None:
    """What lies in each place: one of the elements that the model writes there, or nothing."""
    byte, element = _written(model, run)
    held = np.isin(_keys(run.places, run.content), _keys(byte, element))
    if at := _first(np.where(np.isin(run.places, byte), ~held, run.content != UNWRITTEN)):
        where = int(run.places[at])
        lies = _named(run, int(run.content[at]))
        return f"byte {where} holds {lies} in the run, {_writers(run, byte, element, where)} by the model"
    return None


def _of_product(model: Handoff, run: Run) -> str | None:
    """What O shows of each place that is read; a row that reads what nobody wrote is NaN and shows nothing."""
    byte, element = _written(model, run)
    reads, seen = _reads(model, run), run.seen.reshape(run.shape)
    lost = np.broadcast_to(~np.isin(reads, byte).all(axis=1, keepdims=True), run.shape)
    right = np.where(lost, seen == UNWRITTEN, np.isin(_keys(reads, seen), _keys(byte, element)))
    if at := _first(~right):
        shown, place = _named(run, int(seen[at])), _listed(dict(zip(run.axes, at, strict=True)))
        writers = _writers(run, byte, element, int(reads[at]))
        wanted = "NaN, for its row reads what nobody wrote," if lost[at] else writers
        return f"O shows {shown} as A[{place}] in the run, {wanted} by the model"
    return None


def _warned(run: Run) -> str | None:
    """A run whose claims all hold reads nothing that nobody wrote."""
    holds = all(claim.verdict == "proved" for claim in run.claims().values())
    return f"the run warns: {run.warnings[0]}" if holds and run.warnings else None


def _written(model: Handoff, run: Run) -> tuple[Array, Array]:
    """The byte and the element of each (t, v), by the model."""
    t, v = np.indices(run.owner.shape)
    write, owner = model.writer.write, model.writer.owner.places
    return _bytes(write.at(t=t, v=v)).reshape(-1), _element(model, owner.at(t=t, v=v)).reshape(-1)


def _reads(model: Handoff, run: Run) -> Array:
    """(m, k) -> the byte, by the model."""
    return _bytes(model.reader.read.at(**dict(zip(run.axes, np.indices(run.shape), strict=True))))


# -- small words ------------------------------------------------------------------------------------------------------


def _element(model: Handoff, coordinate: Mapping[str, Any]) -> Array:
    m, k = model.tile.extents
    return np.asarray(coordinate[m] * model.tile.extents[k] + coordinate[k])


def _bytes(location: Mapping[str, Any]) -> Array:
    bits = np.asarray(location["bit"])
    if (bits % 8).any():
        raise LayoutError("elements that start inside of a byte have no place in a run's image")
    return bits // 8


def _keys(byte: Array, element: Array) -> Array:
    """One number for a byte and an element."""
    return byte * (1 << 32) + element


def _first(wrong: Array) -> tuple[int, ...] | None:
    """The first index, in counting order, at which an array is true."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))


def _writers(run: Run, byte: Array, element: Array, where: int) -> str:
    """The elements that the model writes to a byte."""
    found = np.unique(element.reshape(-1)[byte == where])
    if not found.size:
        return "nothing"
    more = f" or one of {found.size - 1} others" if found.size > 1 else ""
    return _named(run, int(found[0])) + more


def _named(run: Run, element: int) -> str:
    if element == UNWRITTEN:
        return "nothing"
    return "what is not P's" if element == FOREIGN else f"({_listed(run.coordinate(element))})"


def _byte(byte: int) -> Location:
    return Location("smem", {"bit": 8 * byte})


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
