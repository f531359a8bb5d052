"""Theorem: a handoff for all values of its symbolic settings, family by family.

>>> from typing import Annotated
>>> from layoutlab.handoff import Handoff, Tile, handoff, smem, store
>>> from layoutlab.handoff.settings import MultipleOf
>>> @handoff
... def rows(k: Annotated[int, MultipleOf(64)] = 64):
...     Q = Tile("Q", m=128, k=k, bits=16)
...     sQ = smem(f"(128,{k}):({k},1)", over=Q)
...     return Handoff(Q, writer=store(f"(128,{k}):(1@0,1@1)", sQ, bits=16), reader=f"(128,{k}):({k},1)")
>>> theorem = prove(rows)
>>> theorem.verdict, [str(c) for c in theorem.cases[0].conditions]
('proved', ['16384*n_k <= 233472'])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, HandoffFunction, verify
from layoutlab.handoff.settings import MultipleOf
from layoutlab.handoff.verdict import EXIT_STATUS, Answer, Witness
from layoutlab.symbol import Assumed, Condition, UnknownRemainder, assuming
from layoutlab.theorems.claims import Held, Open, held
from layoutlab.theorems.family import Family, Residue
from layoutlab.theorems.proof import Proof, proof_of

MORE, TRIED, POINTS = 4, 16, 1 << 18
"""How far from the least values counterexamples are looked for, in how many instances, of how many elements."""
COMPARED = 3
"""Instances of a proved family that are made of numbers too."""
REFUSALS = (TypeError, ValueError, LookupError, AttributeError, AssertionError, ArithmeticError)
"""What a function's own code raises of settings that it does not take, beside LayoutError."""
NAMES = ("placed", "covered", "exclusive", "inside", "legal")
"""Claims in the order in which a counterexample is told."""
FAMILIES = 32
"""Families that a theorem is split into at most."""


@dataclass(frozen=True)
class Counterexample:
    """An instance that the verifier refutes: its settings, and what it says of the first element that is wrong."""

    settings: Mapping[str, int]
    claim: str
    witness: Witness

    @property
    def values(self) -> str:
        """kv=64, base=16."""
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())


@dataclass(frozen=True)
class Case:
    """A family: proved under conditions, refuted by an instance, or left open."""

    family: Family
    verdict: Answer
    claims: tuple[Held, ...] = ()
    conditions: tuple[Condition, ...] = ()
    implied: tuple[Condition, ...] = ()
    """Limits that are kept wherever the conditions are."""
    proof: Proof | None = None
    of: str = ""
    """Of which values the formulas are, where they are not of all."""
    counterexample: Counterexample | None = None
    why: str = ""

    def covers(self, settings: Mapping[str, int]) -> bool:
        """Whether the theorem says that the handoff of these settings is right."""
        numbers = dict[str, int]()
        for name, residue in self.family.residues.items():
            n, rest = divmod(settings[name] - residue.remainder, residue.unit)
            if rest or n < residue.least:
                return False
            numbers[residue.unknown] = n
        return self.verdict == "proved" and all(c.holds(**numbers) for c in self.conditions)


@dataclass(frozen=True)
class Theorem:
    """What was proved of a handoff function, and for which of its values."""

    name: str
    doc: str
    fixed: Mapping[str, Any]
    domain: Mapping[str, MultipleOf]
    cases: tuple[Case, ...]
    seconds: float
    why: str = ""

    @property
    def verdict(self) -> Answer:
        """Proved where every family is; the worst of theirs otherwise."""
        found = {case.verdict for case in self.cases} or {"unsupported"}
        order: tuple[Answer, ...] = ("refuted", "unsupported", "undecided")
        return next((answer for answer in order if answer in found), "proved")

    @property
    def exit_status(self) -> int:
        """0 proved, 1 refuted, 3 undecided or unsupported."""
        return EXIT_STATUS[self.verdict]

    def covers(self, **settings: int) -> bool:
        """Whether the theorem says that the handoff of these symbolic settings is right; of others it says nothing."""
        return any(case.covers(settings) for case in self.cases)


def prove(function: HandoffFunction, chosen: Mapping[str, Any] | None = None) -> Theorem:
    """The theorem about a handoff function, over the settings chosen; `kv=128*` narrows a symbol to multiples of 128.

    Raises LayoutError for settings that there are not.
    """
    general, start = function.general, perf_counter()
    narrowed, rest = _narrowed(general, dict(chosen or {}))
    given = general.settings.accept(rest)
    domain = {
        entry.name: narrowed.get(entry.name, entry.multiple)
        for entry in general.settings.entries
        if entry.multiple and entry.name not in given
    }
    symbols = {name: multiple for name, multiple in domain.items() if multiple}
    every = general.settings.complete({**{name: multiple.first for name, multiple in symbols.items()}, **given})
    fixed = {name: value for name, value in every.items() if name not in symbols}
    if not symbols:
        declares = "Annotated[int, layoutlab.MultipleOf(64)] declares one"
        why = f"no setting of it is a multiple that could be a symbol: {declares}"
        if narrowed or any(entry.multiple for entry in general.settings.entries):
            why = "every setting that could be a symbol has a number: leave one out of --set"
        return Theorem(general.__name__, general.doc, fixed, {}, (), perf_counter() - start, why)
    whole = Family({n: Residue(n, m.unit, 0, m.first) for n, m in symbols.items()})
    waiting, cases = [whole], list[Case]()
    while waiting:
        family = waiting.pop(0)
        case, halves = _decided(general, fixed, family, split=len(waiting) + len(cases) < FAMILIES)
        waiting[:0] = halves
        cases += [case] if case else []
    return Theorem(general.__name__, general.doc, fixed, symbols, tuple(cases), perf_counter() - start)


def _narrowed(general: HandoffFunction, chosen: dict[str, Any]) -> tuple[dict[str, MultipleOf], dict[str, Any]]:
    """Settings given as `128*`: every multiple of 128."""
    entries, narrowed = {entry.name: entry for entry in general.settings.entries}, dict[str, MultipleOf]()
    for name, value in list(chosen.items()):
        entry = entries.get(name)
        if isinstance(value, str) and value.endswith("*") and entry and entry.multiple:
            unit = value[:-1]
            if not unit.isdecimal() or not int(unit) or int(unit) % entry.multiple.unit:
                raise LayoutError(f"{name}={value}: {name} is {entry.multiple}, so N* needs such an N")
            first = -(-entry.multiple.first // int(unit)) * int(unit)
            narrowed[name] = MultipleOf(int(unit), first)
            del chosen[name]
    return narrowed, chosen


def _decided(
    general: HandoffFunction, fixed: Mapping[str, Any], family: Family, split: bool
) -> tuple[Case | None, Sequence[Family]]:
    """A family's answer, or its halves."""
    proof = None
    with assuming(**family.least) as assumed:
        try:
            h = _built(general, fixed, family, assumed)
            proof = _proof(h)
            claims = held(h)
            needed, implied = _weakest(assumed.conditions)
            proved = Case(family, "proved", claims, needed, implied, proof)
        except LayoutError as error:
            reason, proved = error, None
    if proved:
        return _compared(general, fixed, proved), []
    unknown = _remainder(reason)
    halves = family.split(unknown.unknowns) if unknown and split else []
    # What is legal depends on the sizes by limits: all of them are known here, or the least sizes alone are asked.
    limits = isinstance(reason, Open) and reason.claim == "legal" and reason.__cause__ is None
    wrong = _first_wrong(general, fixed, family, tuple(assumed.conditions), limits, tried=1 if halves else TRIED)
    if wrong:
        of = "" if proof else wrong.values
        proof = proof or _proof(general(**fixed, **wrong.settings))
        return Case(family, "refuted", proof=proof, of=of, counterexample=wrong, why=str(reason)), []
    if halves:
        return None, halves
    if not any(_made(general, fixed, family.settings(numbers)) for numbers in family.instances(1)):
        return Case(family, "unsupported", why=str(reason)), []
    return Case(family, "undecided", (), tuple(assumed.conditions), proof=proof, why=str(reason)), []


def _compared(general: HandoffFunction, fixed: Mapping[str, Any], proved: Case) -> Case:
    """The case, if the function makes of numbers what it made of symbols: code can tell them apart, by their type or
    by what they print. The smallest instances are asked, and the one of the defaults."""
    family = proved.family
    least = family.settings(family.least)
    given = {e.name: e.default for e in general.settings.entries if e.name in least and isinstance(e.default, int)}
    smallest = [family.settings(numbers) for numbers in family.instances(1)]
    asked = [settings for settings in ({**least, **given}, *smallest) if proved.covers(settings)][:COMPARED]
    for settings in asked:
        made, at = _made(general, fixed, settings), ", ".join(f"{name}={value}" for name, value in settings.items())
        other = f"of numbers, {at}, the function makes another handoff than of symbols"
        if made is None:
            return replace(proved, verdict="undecided", claims=(), why=f"{other}: none")
        if made.tile.size <= POINTS and (wrong := _wrong(settings, made, NAMES)):
            proof = _proof(made)
            return Case(family, "refuted", proof=proof, of=wrong.values, counterexample=wrong, why=other)
    return proved


def _weakest(conditions: Sequence[Condition]) -> tuple[tuple[Condition, ...], tuple[Condition, ...]]:
    """The conditions that no other one implies, and the rest."""
    needed = list(conditions)
    for condition in conditions:
        if any(other.implies(condition) for other in needed if other is not condition):
            needed.remove(condition)
    return tuple(needed), tuple(c for c in conditions if c not in needed)


def _built(general: HandoffFunction, fixed: Mapping[str, Any], family: Family, assumed: Assumed) -> Handoff:
    """The handoff of symbols; an error of code that cannot take one is a sentence, and so is one that it caught."""
    try:
        made = general(**fixed, **family.values())
    except LayoutError:
        raise
    except REFUSALS as error:
        raise LayoutError(f"{general.__name__} takes no symbol: {type(error).__name__}: {error}") from error
    if assumed.refused:
        raise LayoutError(f"{general.__name__} goes on where it was told: {assumed.refused[0]}") from assumed.refused[0]
    return made


def _proof(h: Handoff) -> Proof | None:
    """The formulas, which a claim may do without."""
    try:
        return proof_of(h)
    except LayoutError as error:
        if _remainder(error):
            raise
        return None


def _remainder(error: BaseException | None) -> UnknownRemainder | None:
    """The unknown remainder that an error came from."""
    while error is not None:
        if isinstance(error, UnknownRemainder):
            return error
        error = error.__cause__ or error.__context__
    return None


def _first_wrong(
    general: HandoffFunction,
    fixed: Mapping[str, Any],
    family: Family,
    conditions: Sequence[Condition],
    limits: bool,
    tried: int,
) -> Counterexample | None:
    """The first instance, smallest numbers first, that the verifier refutes though it meets the conditions.

    What is not legal counts of the first one, or where the conditions are all the `limits` that there are.
    """
    names: Sequence[str] = NAMES
    for numbers in family.instances(MORE):
        if not tried:
            return None
        settings = family.settings(numbers)
        if not all(condition.holds(**numbers) for condition in conditions):
            continue
        made = _made(general, fixed, settings)
        if made is None or made.tile.size > POINTS:
            continue
        tried -= 1
        if wrong := _wrong(settings, made, names):
            return wrong
        names = names if limits else NAMES[:4]
    return None


def _wrong(settings: Mapping[str, int], made: Handoff, names: Sequence[str]) -> Counterexample | None:
    """What the verifier refutes of a handoff of numbers, by the first of these claims that it does."""
    verdict = verify(made)
    claim = next((name for name in names if verdict[name].witness), None)
    witness = verdict[claim].witness if claim else None
    return Counterexample(settings, claim, witness) if claim and witness else None


def _made(general: HandoffFunction, fixed: Mapping[str, Any], settings: Mapping[str, int]) -> Handoff | None:
    """The handoff of numbers; None where there is no such one."""
    try:
        return general(**fixed, **settings)
    except (LayoutError, *REFUSALS):
        return None


__all__ = ["Case", "Counterexample", "Open", "Theorem", "prove"]
