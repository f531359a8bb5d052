"""crosscheck: hear the witnesses of a handoff's real kernel, and hold the model against each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from layoutlab.catalogue import of_catalogue
from layoutlab.crosscheck import attention, device, replayed, sp90, sp100, tmem_p, traced
from layoutlab.crosscheck.testimony import Provider, Source, Testimony, evidence
from layoutlab.errors import LayoutError
from layoutlab.handoff import Case, Handoff, Verdict, verify
from layoutlab.handoff.settings import nearest

WITNESSES = ("trace", "replay", "device")
"""What can be asked beside the model, in the order in which it is."""

Heard = Callable[[Testimony], None]


@dataclass(frozen=True)
class Crosscheck:
    """The testimonies of a handoff's witnesses, the model's first.

    `verdict` is "agree" where all that were asked say the same, "disagree" where one of them does not, "incomplete"
    where one was asked and absent, or none was heard. `claim` is what they agree on: "proved" or "refuted"; None where
    they do not agree.
    """

    handoff: Handoff
    model: Verdict
    witnesses: tuple[Testimony, ...]

    @property
    def others(self) -> tuple[Testimony, ...]:
        """All but the model's."""
        return self.witnesses[1:]

    @property
    def verdict(self) -> str:
        """agree, disagree or incomplete."""
        heard = [witness for witness in self.others if witness.heard]
        if any(not witness.agrees for witness in heard):
            return "disagree"
        absent = any(witness.verdict == "absent" for witness in self.others)
        return "incomplete" if absent or not heard or not self.witnesses[0].heard else "agree"

    @property
    def claim(self) -> str | None:
        """proved or refuted, where all that were heard say so."""
        said = {witness.verdict for witness in self.witnesses if witness.heard}
        return said.pop() if len(said) == 1 and self.verdict != "disagree" else None

    @property
    def exit_status(self) -> int:
        """0 where they agree on proved, 1 where they agree on refuted or disagree, 3 where it is incomplete."""
        return 3 if self.verdict == "incomplete" else 0 if (self.verdict, self.claim) == ("agree", "proved") else 1

    def json(self) -> dict[str, Any]:
        """The JSON report, without its stamp."""
        return {
            "handoff": self.handoff.name,
            "params": dict(self.handoff.params),
            "verdict": self.verdict,
            "claim": self.claim,
            "witnesses": [witness.json() for witness in self.witnesses],
        }

    def last_line(self) -> str:
        """The verdict in one sentence."""
        heard = " and ".join(witness.name for witness in self.witnesses if witness.heard)
        if self.verdict == "agree":
            return f"agree: {self.claim} by {heard}"
        if self.verdict == "disagree":
            against = " and ".join(witness.name for witness in self.others if witness.agrees is False)
            return f"disagree: {against} against the model"
        absent = " and ".join(witness.name for witness in self.others if witness.verdict == "absent")
        rest = f"; {heard} alone: {self.claim}" if self.claim else ""
        return f"incomplete: {f'{absent} not heard' if absent else 'no witness was heard'}{rest}"

    def __str__(self) -> str:
        return "\n".join([str(self.handoff), "", *map(line, self.witnesses), "", self.last_line()])


def line(witness: Testimony) -> str:
    """A witness in one line of the report."""
    took = f"   ({witness.seconds:.1f} s)" if witness.seconds >= 0.05 else ""
    return f"  {witness.name:<8} {witness.verdict:<10} {witness.why}{took}"


def crosscheck(
    h: Handoff | Case,
    on: Iterable[str] | None = None,
    *,
    providers: Mapping[str, Provider] | None = None,
    heard: Heard | None = None,
) -> Crosscheck:
    """Holds the model of a handoff against the witnesses of its real kernel: trace, replay, device.

    `on` names the witnesses to ask; one that is absent makes the answer incomplete. Without it every witness that is
    here is asked, and the others are listed with the reason. `providers` says by a handoff's name where its witnesses
    come from; `heard` is called with each testimony as it arrives, the model's first. Raises LayoutError for a witness
    that does not exist.

    >>> from layoutlab.catalogue import sP
    >>> print(crosscheck(sP(kv=64), providers={}).last_line())
    incomplete: no witness was heard; model alone: proved
    """
    made = h.make() if isinstance(h, Case) else h
    asked = None if on is None else named_witnesses(on)
    known = PROVIDERS if providers is None and of_catalogue(made) else providers or {}
    provider = known.get(made.name)
    model, found = verify(made), list[Testimony]()
    for testimony in _testimonies(made, model, asked, provider):
        found.append(testimony)
        if heard:
            heard(testimony)
    return Crosscheck(made, model, tuple(found))


def named_witnesses(on: Iterable[str]) -> list[str]:
    """The names themselves; refuses one that is no witness's with the nearest that is, and an empty list."""
    names = list(on)
    for name in names:
        if name not in WITNESSES:
            listed = ", ".join(WITNESSES)
            raise LayoutError(f"there is no witness {name!r}{nearest(name, WITNESSES)} (there are: {listed})")
    if not names:
        raise LayoutError(f"no witness was named: {', '.join(WITNESSES)} can be asked")
    return names


def _testimonies(
    made: Handoff, model: Verdict, asked: list[str] | None, provider: Provider | None
) -> Iterator[Testimony]:
    claims = {claim.name: claim for claim in model.claims}
    why = f"{evidence(claims)}, {model.checked} elements" if model.proved else evidence(claims)
    yield Testimony("model", model.verdict, why)
    for name in WITNESSES:
        yield _testimony(name, made, model, asked, provider)


def _testimony(
    name: str, made: Handoff, model: Verdict, asked: list[str] | None, provider: Provider | None
) -> Testimony:
    if asked is not None and name not in asked:
        return Testimony(name, "not asked", "not named by --on")
    reason: str | None = _no_kernel(name, made.name)
    if provider is not None:
        reason = provider[name].missing() if name in provider else _none_yet(name, made.name)
    if provider is None or reason is not None:
        return Testimony(name, "not asked" if asked is None else "absent", reason or "")
    try:
        return provider[name].ask(made, model)
    except LayoutError as error:
        return Testimony(name, "absent", str(error))


def _no_kernel(name: str, handoff: str) -> str:
    """Why a witness has nothing to ask about a handoff that no kernel makes; of the device, whether there is one."""
    if name == "device":
        return f"{device.absent() or 'there is a device here'}, and no kernel is known that hands {handoff} over on one"
    return f"no kernel is known that hands {handoff} over and could be {name}{'d' if name == 'trace' else 'ed'}"


def _none_yet(name: str, handoff: str) -> str:
    """Why a known kernel has no such witness; of the device, whether there is one here at all."""
    if name == "device":
        return device.absent() or f"there is a device here, and no program of {handoff}'s kernel that it could run"
    return f"of {handoff}'s kernel there is no {name} yet"


_SM90 = {"replay": Source(replayed.missing, sp90.replay), "device": Source(sp90.missing_device, sp90.ask_device)}

PROVIDERS: dict[str, Provider] = {
    "sP": {
        "trace": Source(traced.missing, traced.ask),
        "replay": Source(replayed.missing, attention.ask_sp),
        "device": Source(sp100.missing_device, sp100.ask_device),
    },
    "sP90": _SM90,
    "rs_reuse": _SM90,
    "tP": {
        "replay": Source(replayed.missing, tmem_p.ask),
        "device": Source(tmem_p.missing_device, tmem_p.ask_device),
    },
    **{name: {"replay": Source(replayed.missing, attention.ask)} for name in attention.REQUESTS},
}
"""The witnesses of each handoff of the catalogue that has a kernel, by its name."""
