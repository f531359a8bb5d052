"""The model of a handoff held against both sides of a run: who held which element, put it where, and what was read.

A run says of its own which element each thread (or box of TMA) held, at which place it put it, and from which place the
reader took each. From that alone it has a verdict and a first counterexample, which must be the model's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck.testimony import Testimony, evidence, first_other_claim
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict
from layoutlab.handoff.verdict import Claim, Location, Witness

Array = NDArray[Any]

LANE_BITS = 512 * 32
NOWHERE = -1


def testimony(model: Handoff, verdict: Verdict, seen: Mapping[str, Any]) -> Testimony:
    """What a run says, and whether the model says the same.

    Raises LayoutError where the model refutes only what a run does not show.
    """
    if seen["stopped"] is not None:
        return Testimony("replay", "refuted", f"disagrees: the run stops: {seen['stopped']}", False)
    run = Run.of(model, seen)
    claims = run.claims()
    unseen = [claim.name for claim in verdict.claims if claim.verdict == "refuted"]
    if unseen and not set(unseen) & claims.keys():
        raise LayoutError(f"that {' and '.join(unseen)} is refuted cannot be seen in a run of the kernel")
    answer = "refuted" if any(claim.verdict == "refuted" for claim in claims.values()) else "proved"
    difference = run.first_difference() or first_other_claim(verdict, claims, "in the run")
    if difference:
        return Testimony("replay", answer, f"disagrees: {difference}", False)
    by = f" ({' and '.join(map(str, run.widths))} bytes at a time)" if run.widths else ""
    what = f"{run.owner.size} elements held, stored{by} and read where the model says; {evidence(claims)}"
    return Testimony("replay", answer, what, True)


@dataclass(frozen=True, eq=False)
class Run:
    """A run in the model's terms: elements by number, places as bits (lane * 16384 + bit), (t, v) as [t, v].

    `others` are columns of Tensor Memory that are not the tile's; None where the run does not say what lies around it.
    """

    model: Handoff
    owner: Array
    wrote: Array
    reads: Array
    by_writer: Array
    others: tuple[tuple[int, int], ...] | None
    widths: tuple[int, ...]

    @classmethod
    def of(cls, model: Handoff, seen: Mapping[str, Any]) -> Run:
        """What was observed, as arrays."""
        owner, wrote = (np.array(seen[name], np.int64).reshape(seen["threads"], -1) for name in ("owner", "wrote"))
        others = None if seen["others"] is None else tuple((first, last) for first, last in seen["others"])
        reads, by_writer = np.array(seen["reads"], np.int64), np.array(seen["by_writer"], bool)
        return cls(model, owner, wrote, reads, by_writer, others, tuple(seen["widths"] or ()))

    @property
    def shape(self) -> tuple[int, int]:
        """The tile's extents."""
        rows, columns = self.model.tile.shape
        return rows, columns

    def first_difference(self) -> str | None:
        """The first (t, v), or element, at which the model says something else."""
        model = self.model
        axes = tuple(model.writer.owner.places.axes.values())
        if axes != self.owner.shape:
            return f"the model has {axes[0]} holders of {axes[1]} values, the run {self.owner.shape}"
        if self.reads.size != model.tile.size:
            return f"the model's tile has {model.tile.size} elements, the run reads {self.reads.size}"
        t, v = np.indices(self.owner.shape)
        first, second = model.tile.extents
        held = model.writer.owner.places.at(t=t, v=v)
        coordinates = dict(zip((first, second), np.indices(self.shape), strict=True))
        for what, ours, theirs in (
            ("holds element", held[first] * self.shape[1] + held[second], self.owner),
            ("writes place", place_number(model.writer.write.at(t=t, v=v)), self.wrote),
            ("is read at place", place_number(model.reader.read.at(**coordinates)), self.reads.reshape(self.shape)),
        ):
            if (ours != theirs).any():
                at = tuple(int(i) for i in np.argwhere(ours != theirs)[0])
                read = what.startswith("is read")
                who = f"element {at}" if read else model.writer.owner.named(dict(zip("tv", at, strict=True)))
                return f"{who} {what} {int(ours[at])} by the model, {int(theirs[at])} in the run"
        stored = model.writer.bits // 8
        if self.widths and self.widths != (stored,):
            return f"the model stores {stored} bytes at a time, the run {' and '.join(map(str, self.widths))}"
        return None

    def claims(self) -> dict[str, Claim]:
        """The claims that a run decides: not what the hardware asks beyond what would have stopped it."""
        found = {"covered": self._covered(), "placed": self._placed(), "exclusive": self._exclusive()}
        if self.others is not None:
            found["inside"] = self._inside(self.others)
        return {name: self._claim(name, witness) for name, witness in found.items()}

    def _claim(self, name: str, witness: Witness | None) -> Claim:
        return Claim(name, "refuted" if witness else "proved", "replay", self.owner.size, self.owner.size, witness)

    def _covered(self) -> Witness | None:
        if self.by_writer.all():
            return None
        element = int(self.by_writer.argmin())
        coordinate, at = self._coordinate(element), self._location(int(self.reads[element]))
        message = f"({_listed(coordinate)}) is read at {at}, where nobody put {self.model.tile.name}"
        return Witness(message, coordinate=coordinate, reads=at)

    def _placed(self) -> Witness | None:
        wrong = self.wrote != self.reads[self.owner]
        return self._witness(np.argwhere(wrong)[0]) if wrong.any() else None

    def _exclusive(self) -> Witness | None:
        places, first = np.unique(self.wrote, return_index=True)
        if len(places) == self.wrote.size:
            return None
        at = int(np.setdiff1d(np.arange(self.wrote.size), first)[0])
        return self._witness(divmod(at, self.owner.shape[1]), ", where another element lies")

    def _inside(self, others: tuple[tuple[int, int], ...]) -> Witness | None:
        column = self.wrote % LANE_BITS // 32
        wrong = np.zeros(column.shape, bool)
        for first, last in others:
            wrong |= (first <= column) & (column <= last)
        return self._witness(np.argwhere(wrong)[0], ", another's") if wrong.any() else None

    def _witness(self, index: Iterable[Any], what: str = "") -> Witness:
        (t, v), owner = (int(i) for i in index), self.model.writer.owner
        element = int(self.owner[t, v])
        wrote, reads = self._location(int(self.wrote[t, v])), self._location(int(self.reads[element]))
        coordinate = self._coordinate(element)
        named = f"{owner.named({'t': t, 'v': v})} ({_listed(coordinate)})"
        message = f"{named} writes {wrote}{what}; {self.model.reader.who} reads that element at {reads}"
        thread, value = (t + owner.first_thread, v) if owner.threaded else (None, None)
        return Witness(message, thread, value, coordinate, wrote, reads)

    def _coordinate(self, element: int) -> dict[str, int]:
        return dict(zip(self.model.tile.extents, divmod(element, self.shape[1]), strict=True))

    def _location(self, place: int) -> Location:
        space = self.model.writer.space
        if space != "tmem":
            return Location(space, {"bit": place})
        lane, bit = divmod(place, LANE_BITS)
        return Location(space, {"lane": lane, "bit": bit})


def place_number(location: Mapping[str, Any]) -> Array:
    """A place as one number."""
    return np.asarray(location["bit"] + LANE_BITS * location.get("lane", 0))


def _listed(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
