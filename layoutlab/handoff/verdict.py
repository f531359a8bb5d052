"""Claims, witnesses and verdicts: what was asked, what was looked at, and the first thing wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Answer = Literal["proved", "refuted", "undecided", "unsupported"]
EXIT_STATUS: dict[Answer, int] = {"proved": 0, "refuted": 1, "undecided": 3, "unsupported": 3}

UNIT = {"smem": "byte", "gmem": "byte", "tmem": "column", "rmem": "register"}
UNIT_BITS = {"smem": 8, "gmem": 8, "tmem": 32, "rmem": 32}
WORD_BITS = 32


class Refuted(AssertionError):
    """A handoff was asserted to be right, and a claim of it is refuted or not decided; the text is the witness's."""

    __module__ = "layoutlab"  # its public name, short enough that pytest's summary has room for the witness


@dataclass(frozen=True)
class Location:
    """A place in a memory, shown in bytes, in lane, column and half, or in thread and register."""

    space: str
    outputs: Mapping[str, int]

    def __str__(self) -> str:
        bit = self.outputs["bit"]
        if "lane" in self.outputs:
            column, inside = divmod(bit, WORD_BITS)
            half = f" bit {inside}" if inside else ""
            return f"lane {self.outputs['lane']} column {column}{half}"
        if "thread" in self.outputs:
            register, inside = divmod(bit, WORD_BITS)
            return f"T{self.outputs['thread']} register {register}" + (f" bit {inside}" if inside else "")
        byte, inside = divmod(bit, 8)
        return f"byte {byte}" + (f" bit {inside}" if inside else "")

    def json(self) -> dict[str, Any]:
        """As DESIGN's schema has it; `bit` is there only for elements that start inside of a byte."""
        bit = self.outputs["bit"]
        if "lane" in self.outputs:
            column, inside = divmod(bit, WORD_BITS)
            return {"space": self.space, "lane": self.outputs["lane"], "column": column, "half": inside // 16}
        if "thread" in self.outputs:
            register, inside = divmod(bit, WORD_BITS)
            place = {"thread": self.outputs["thread"], "register": register, "half": inside // 16}
            return {"space": self.space, **place, **({"bit": inside % 16} if inside % 16 else {})}
        return {"space": self.space, "byte": bit // 8, **({"bit": bit % 8} if bit % 8 else {})}


@dataclass(frozen=True)
class Witness:
    """The first counterexample: who, which element, where it was written and where it is read; None where not
    applicable."""

    message: str
    thread: int | None = None
    value: int | None = None
    coordinate: Mapping[str, int] | None = None
    wrote: Location | None = None
    reads: Location | None = None

    def json(self) -> dict[str, Any]:
        """As the JSON report has it."""
        return {
            "thread": self.thread,
            "value": self.value,
            "coordinate": dict(self.coordinate) if self.coordinate is not None else None,
            "wrote": self.wrote.json() if self.wrote else None,
            "reads": self.reads.json() if self.reads else None,
            "message": self.message,
        }


@dataclass(frozen=True)
class Claim:
    """One claim's answer: by which method, over how many elements, and at how many computed points.

    `checked` counts what the answer holds for, `evaluated` the points that were computed for it: none where two tables
    were compared. `why` says why a method was used or what a refutation means; `witness` is the first counterexample.
    """

    name: str
    verdict: Answer
    method: str
    checked: int
    evaluated: int
    witness: Witness | None = None
    why: str = ""

    def json(self) -> dict[str, Any]:
        """As the JSON report has it."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "method": self.method,
            "checked": self.checked,
            "evaluated": self.evaluated,
            "witness": self.witness.json() if self.witness else None,
        }


@dataclass(frozen=True)
class Verdict:
    """The answers to all claims of one handoff; only all proved is success."""

    handoff: Any
    claims: tuple[Claim, ...]
    explanation: tuple[str, ...]
    seconds: float

    @property
    def verdict(self) -> Answer:
        """The worst of the claims' answers."""
        found = {claim.verdict for claim in self.claims}
        order: tuple[Answer, ...] = ("refuted", "unsupported", "undecided")
        return next((answer for answer in order if answer in found), "proved")

    @property
    def proved(self) -> bool:
        """Whether every claim is proved."""
        return self.verdict == "proved"

    @property
    def exit_status(self) -> int:
        """0 proved, 1 refuted, 3 undecided or unsupported."""
        return EXIT_STATUS[self.verdict]

    @property
    def checked(self) -> int:
        """The elements that `placed` was checked for."""
        return self["placed"].checked

    @cached_property
    def sets(self) -> tuple[dict[str, Any], ...]:
        """The changes of the handoff's settings that make it right; searched for when it is asked for."""
        from layoutlab.handoff.sets import setting_cures

        return setting_cures(self)

    def __str__(self) -> str:
        from layoutlab.handoff.report import report

        return report(self)

    def __getitem__(self, name: str) -> Claim:
        """The claim of that name."""
        return next(claim for claim in self.claims if claim.name == name)
