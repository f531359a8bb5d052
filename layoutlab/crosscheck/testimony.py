"""Testimony: what one witness says of a handoff, and whether it is what the model says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from layoutlab.handoff import Handoff, Verdict
from layoutlab.handoff.verdict import Claim

HEARD = ("proved", "refuted")


@dataclass(frozen=True)
class Testimony:
    """What a witness says: `verdict` is "proved" or "refuted", or "absent" or "not asked" of one that was not heard.

    `agrees` is whether all that it says is what the model says, None where that is no question: for the model itself,
    and for a witness that was not heard. `why` is the evidence, or the first difference, or why it was not heard.
    """

    name: str
    verdict: str
    why: str
    agrees: bool | None = None
    seconds: float = 0.0

    @property
    def heard(self) -> bool:
        """Whether it said anything of the claim."""
        return self.verdict in HEARD

    def json(self) -> dict[str, Any]:
        """As the JSON report has it."""
        return {"name": self.name, "verdict": self.verdict, "why": self.why, "agrees": self.agrees}


@dataclass(frozen=True)
class Source:
    """Where a handoff's witness of one kind comes from.

    `missing` says cheaply why there is none here, or None; `ask` hears it, or raises LayoutError with the reason why it
    has nothing to say. `ask` is given the model and its verdict, to compare with and to say in its own terms (threads,
    bytes) what it saw; not to learn from.
    """

    missing: Callable[[], str | None]
    ask: Callable[[Handoff, Verdict], Testimony]


Provider = Mapping[str, Source]
"""The witnesses of one handoff's kernel, by name: trace, replay, device."""


def first_other_claim(model: Verdict, other: Mapping[str, Claim], who: str) -> str | None:
    """The first claim on which a witness's verdict or counterexample is not the model's, as a sentence.

    Claims that the witness does not decide are not in `other`.
    """
    for claim in model.claims:
        if claim.name not in other:
            continue
        mine, theirs = _told(claim), _told(other[claim.name])
        if mine != theirs:
            return f"{claim.name} is {_spoken(claim)} by the model, {_spoken(other[claim.name])} {who}"
    return None


def _told(claim: Claim) -> tuple[str, Any]:
    """The verdict and the counterexample's numbers; sentences are each witness's own."""
    witness = None if claim.witness is None else {**claim.witness.json(), "message": ""}
    return claim.verdict, witness


def _spoken(claim: Claim) -> str:
    return f"{claim.verdict} ({claim.witness.message})" if claim.witness else claim.verdict


def evidence(claims: Mapping[str, Claim]) -> str:
    """The first counterexample, or that there is none.

    The order of importance is the report's: what is misplaced says most.
    """
    order = ("placed", "covered", "exclusive", "inside", "legal")
    refuted = [claims[name] for name in order if name in claims and claims[name].verdict == "refuted"]
    if not refuted:
        return "no counterexample"
    first = refuted[0]
    text = first.witness.message if first.witness else first.why
    return f"{first.name}: {text}" + (f" (also {', '.join(c.name for c in refuted[1:])})" if refuted[1:] else "")
