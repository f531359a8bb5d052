"""What `verify` prints beside the verdict: formulas, theorems for all values, and what another prover says of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from layoutlab.catalogue.files import made
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, HandoffFunction
from layoutlab.handoff.verdict import Verdict
from layoutlab.theorems import Case, Proof, Theorem, proof_of, prove


def refuse_together(args: Namespace) -> None:
    """Flags that need another one, or that cannot stand together."""
    if args.check and not (args.for_all or args.formula or args.latex):
        raise LayoutError(f"--check {args.check} is of printed formulas: give --formula or --for-all beside it")
    if args.for_all and args.latex and args.json:
        raise LayoutError("--json holds the formulas as LaTeX already: leave --latex out")


def formulas(verdict: Verdict, args: Namespace) -> tuple[list[str], dict[str, Any], int]:
    """The lines of --formula, --latex and --check for one handoff, their JSON, and the exit status."""
    h: Handoff = verdict.handoff
    try:
        proof = proof_of(h)
    except LayoutError as error:
        return [f"formulas: none: {error}"], {"formulas": None, "why": str(error)}, 3 if args.check else 0
    lines = proof.latex().splitlines() if args.latex else proof.text.splitlines()
    placed = verdict["placed"]
    if placed.witness and not args.latex:
        lines.append(f"they differ first where {placed.witness.message}")
    found: dict[str, Any] = {"formulas": proof.json()}
    status = 0
    if args.check:
        line, found["check"], status = _checked(proof.text, {"": placed.verdict == "refuted"})
        lines += line
    return lines, found, status


def theorems(
    functions: list[HandoffFunction], chosen: Callable[[HandoffFunction], Mapping[str, Any]], args: Namespace
) -> int:
    """`verify --for-all`: a theorem for each function; the exit status is the worst of them."""
    from layoutlab.cli.verify import SEVERITY, versions
    from layoutlab.theorems.report import as_json, report

    statuses, objects = [0], list[dict[str, Any]]()
    for i, function in enumerate(functions):
        theorem = made(function, partial(prove, function, chosen(function)))
        text, check, status = report(theorem), None, 0
        lines = text.splitlines()
        if args.check and theorem.domain:
            more, check, status = _checked(
                text, {_name(case): _misplaced(case) for case in theorem.cases if case.proof}
            )
            lines += more
        statuses += [theorem.exit_status, status]
        if args.latex:
            lines = _latex(theorem) + lines[-1:]
        if args.json:
            objects.append({**versions(), **as_json(theorem), **({"check": check} if args.check else {})})
        else:
            print(("\n" if i else "") + "\n".join(lines))
    if args.json:
        import json

        print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2))
    return max(statuses, key=SEVERITY.index)


def _misplaced(case: Case) -> bool:
    """Whether the theorem says that something is written elsewhere than it is read."""
    return case.counterexample is not None and case.counterexample.claim == "placed"


def _name(case: Case) -> str:
    from layoutlab.theorems.report import needs

    return needs(case.family)


def _latex(theorem: Theorem) -> list[str]:
    proofs: list[tuple[str, Proof]] = [(_name(case), case.proof) for case in theorem.cases if case.proof]
    return [line for where, proof in proofs for line in [f"% where {where}", *proof.latex().splitlines()]]


def _checked(text: str, misplaced: Mapping[str, bool]) -> tuple[list[str], dict[str, Any], int]:
    """What z3 says of each family of a report, and whether it agrees with the report about each."""
    from layoutlab.theorems.z3_check import answer, stated

    lines, answers, status = list[str](), list[dict[str, Any]](), 0
    if not misplaced:
        return ["z3: not asked: there are no formulas"], {"by": "z3", "answers": []}, 3
    for (where, expected), one in zip(misplaced.items(), stated(text), strict=True):
        found = answer(one)
        agrees = None if found.answer in ("unknown", "none") else found.differs == expected
        said = "" if agrees is None else ": agrees" if agrees else ": DISAGREES with the digits"
        lines.append((f"where {where}: " if where else "") + str(found) + said)
        answers.append({"where": where, "answer": found.answer, "at": dict(found.at), "agrees": agrees})
        status = status or (3 if agrees is None else 0 if agrees else 1)
    return lines, {"by": "z3", "answers": answers}, status
