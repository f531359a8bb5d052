"""The report of a theorem: for which values, by which formulas, under which conditions; the verdict last."""

from __future__ import annotations

from typing import Any

from layoutlab.formula import polynomial
from layoutlab.handoff.report import NOT_CHECKED
from layoutlab.theorems.family import Family
from layoutlab.theorems.theorem import Case, Counterexample, Theorem


def report(theorem: Theorem) -> str:
    """All of it as text, for people; `layoutlab.theorems.z3_check` reads it again."""
    fixed = "".join(f" {name}={value}" for name, value in theorem.fixed.items())
    title = f"{theorem.name} for all {', '.join(theorem.domain)}" if theorem.domain else theorem.name
    lines = [f"{title}  {fixed}".rstrip() if theorem.domain else title + fixed]
    lines += [f"  {theorem.doc.splitlines()[0]}"] if theorem.doc else []
    for case in theorem.cases:
        lines += ["", *_case(case)]
    lines += ["", f"  not checked: {NOT_CHECKED}", "", last_line(theorem)]
    return "\n".join(lines)


def _case(case: Case) -> list[str]:
    lines = [f"where {needs(case.family)}"]
    for name, residue in case.family.residues.items():
        lines.append(f"  {name} = {polynomial(residue.value())}, {residue.unknown} >= {residue.least}")
    if case.proof:
        lines += ["", *([f"  at {case.of}"] if case.of else [])]
        lines += [f"  {line}" for line in case.proof.text.splitlines()]
    if case.verdict == "proved":
        lines += [""] + [f"  {claim.name:<10} proved    for all values: {claim.by}" for claim in case.claims]
        lines += [f"  if {case.family.spoken(c)}   # {c.why}" for c in case.conditions]
        also = "; ".join(dict.fromkeys(c.why for c in case.implied))
        lines += [f"  and so, too: {also}"] if also else []
    if case.counterexample:
        found = case.counterexample
        lines += ["", f"  {found.claim:<10} refuted   at {found.values}", f"    {found.witness.message}"]
    if case.verdict == "unsupported":
        lines += ["", f"  unsupported {case.why}"]
    if case.verdict == "undecided":
        lines += ["", f"  undecided  {case.why}", "    no counterexample among the smallest instances"]
    return lines


def last_line(theorem: Theorem) -> str:
    """The verdict in one sentence."""
    took = f"{theorem.seconds * 1e3:.1f} ms"
    if not theorem.domain:
        return f"unsupported: {theorem.name} cannot be proved for all values: {theorem.why}"
    proved = [case for case in theorem.cases if case.verdict == "proved"]
    where = " or ".join(f"({needs(case.family)})" if len(proved) > 1 else needs(case.family) for case in proved)
    if theorem.verdict == "proved":
        under = ", under the conditions above" if any(case.conditions for case in proved) else ""
        return f"proved in {took}: every element lands where it is read, for all {where}{under}"
    some = f"; proved where {where}" if proved else ""
    named = " or ".join(f"({needs(case.family)})" for case in theorem.cases if case.verdict == theorem.verdict)
    return f"{theorem.verdict} in {took} where {named}{some}"


def needs(family: Family) -> str:
    """kv % 64 == 0, base % 16 == 0; a setting of which every number will do is left out."""
    return ", ".join(str(r) for r in family.residues.values() if r.unit > 1) or "values"


def as_json(theorem: Theorem) -> dict[str, Any]:
    """The theorem's part of the JSON report."""
    return {
        "handoff": theorem.name,
        "params": dict(theorem.fixed),
        "for_all": {name: {"multiple_of": m.unit, "least": m.first} for name, m in theorem.domain.items()},
        "verdict": theorem.verdict,
        "families": [_case_json(case) for case in theorem.cases],
        "why": theorem.why or None,
        "seconds": theorem.seconds,
    }


def _case_json(case: Case) -> dict[str, Any]:
    found = case.counterexample
    return {
        "where": case.family.json(),
        "verdict": case.verdict,
        "claims": [{"name": claim.name, "verdict": "proved", "method": claim.by} for claim in case.claims],
        "conditions": [
            {"condition": case.family.spoken(c), "why": c.why, "needed": needed}
            for needed, group in ((True, case.conditions), (False, case.implied))
            for c in group
        ],
        "formulas": case.proof.json() if case.proof else None,
        "counterexample": _found_json(found) if found else None,
        "why": case.why or None,
    }


def _found_json(found: Counterexample) -> dict[str, Any]:
    return {"settings": dict(found.settings), "claim": found.claim, **found.witness.json()}
