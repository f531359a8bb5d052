"""`layoutlab verify`: does every element land where it will be read?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from layoutlab.catalogue import CATALOGUE, of_catalogue
from layoutlab.catalogue.files import find, made
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, HandoffFunction, verify
from layoutlab.handoff.report import as_json, report
from layoutlab.handoff.settings import nearest
from layoutlab.handoff.verdict import Verdict

SEVERITY = (0, 3, 1)
"""Exit statuses, worse ones later: proved, undecided, refuted."""


@dataclass(frozen=True)
class Trace:
    """What a traced kernel says of a handoff: whether it agrees with the model, and its line in the report."""

    agrees: bool | None  # None where the kernel could not be traced
    line: str
    seconds: float = 0.0
    json: Mapping[str, Any] = field(default_factory=dict)


def _trace_of_sp(verdict: Verdict) -> Trace:
    from layoutlab.crosscheck.traced import against_trace  # --no-trace does without it

    found = against_trace(verdict.handoff)
    return Trace(found.agrees, found.line, found.seconds, found.json)


Tracer = Callable[[Verdict], Trace]
TRACERS: dict[str, Tracer] = {"sP": _trace_of_sp}
"""Who traces a handoff's real kernel, by the handoff's name; asked after the model's verdict is printed."""

_EPILOG = """examples:
  layoutlab verify                                      the named handoffs and their settings
  layoutlab verify sP --set write_swizzle=none          a planted mistake
  layoutlab verify --template sP > mine.py; layoutlab verify mine.py
  layoutlab verify sP --formula                         both sides as formulas; with --latex for a paper
  layoutlab verify sP --for-all --set kv=128*           a theorem, of kv the multiples of 128
  layoutlab verify sP --for-all --check z3              which z3 is asked too

A setting that is a multiple, as `layoutlab verify` lists them, is a symbol for --for-all unless --set gives it a
number. In a file of your own it is declared so: `kv: Annotated[int, layoutlab.MultipleOf(64)] = 128`.

exit status: 0 proved, 1 refuted, 2 usage error, 3 undecided or unsupported"""


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "verify",
        help="prove that each element lands where it is read, or name the first that does not",
        description="Proves the claims about a handoff: covered, placed, exclusive, inside, legal.\n"
        "Alone, lists the names and their settings.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", nargs="?", metavar="NAME|FILE.py[:NAME]", help="a named handoff, or a file of your own"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument("--no-trace", action="store_true", help="ask the model alone, not the real kernel's compile")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; a list for a file of several handoffs"
    )
    parser.add_argument(
        "--formula", action="store_true", help="print write(t,v), read(m,k) and the digits that they share"
    )
    parser.add_argument("--latex", action="store_true", help="print them as LaTeX")
    parser.add_argument(
        "--for-all",
        action="store_true",
        help="prove it for all values of the settings that are multiples (kv=128* narrows)",
    )
    parser.add_argument(
        "--check", choices=["z3"], help="give the printed formulas to another prover (needs the extra z3)"
    )
    parser.add_argument("--template", metavar="NAME", help="print the handoff as a file to edit, which verifies")


def run(args: Namespace) -> int:
    """Runs the command; the exit status is the worst of the verdicts'."""
    if args.template:
        return _template(args)
    if args.target is None:
        print(listing())
        return 0
    proving = args.formula or args.latex or args.check or args.for_all
    if proving:
        from layoutlab.cli.proving import formulas, refuse_together, theorems

        refuse_together(args)
    functions = find(args.target)
    chosen = settings_of(args.set)
    if args.for_all:
        return theorems(functions, lambda f: general_chosen_for(f, chosen, functions), args)
    handoffs = [made(f, partial(f, **chosen_for(f, chosen, functions))) for f in functions]
    statuses, objects = [0], list[dict[str, Any]]()
    for i, h in enumerate(handoffs):
        verdict = verify(h)
        tracer = None if args.no_trace or not of_catalogue(h) else TRACERS.get(h.name)
        if not args.json:
            print(("\n" if i else "") + report(verdict), flush=True)
        if proving:
            lines, found, status = formulas(verdict, args)
            statuses.append(status)
            if not args.json:
                print("\n" + "\n".join(lines), flush=True)
        trace = tracer(verdict) if tracer else None
        if not args.json and not args.no_trace:
            print(f"trace: {trace.line if trace else untraced(h)}")
        statuses += [verdict.exit_status, 1 if trace and trace.agrees is False else 0]
        if args.json:
            objects.append({**_object(verdict, trace), **(found if proving else {})})
    if args.json:
        import json

        print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2))
    return max(statuses, key=SEVERITY.index)


def untraced(h: Handoff) -> str:
    """Why no trace is part of the verdict, and who else can be asked.

    >>> untraced(CATALOGUE["tP"]())
    "none: verify traces no kernel that hands tP over; layoutlab crosscheck tP hears its kernel's replay and device"
    """
    from layoutlab.crosscheck.core import PROVIDERS

    heard = " and ".join(PROVIDERS.get(h.name, {})) if of_catalogue(h) else ""
    asked = f"; layoutlab crosscheck {h.name} hears its kernel's {heard}" if heard else ""
    return f"none: {'verify traces no kernel' if heard else 'no kernel is known'} that hands {h.name} over{asked}"


def listing() -> str:
    """The names of the catalogue, each with what it is and its settings."""
    lines = list[str]()
    for name, function in CATALOGUE.items():
        lines.append(f"{name}   {function.doc.splitlines()[0]}")
        lines += [f"    {setting}" for setting in function.settings.entries]
        symbols = [f"{e.name}={e.multiple}" for e in function.general.settings.entries if e.multiple]
        lines += [f"    --for-all: {', '.join(symbols)}"] if symbols else []
    return "\n".join([*lines, "", "layoutlab verify NAME --set KEY=VALUE, or layoutlab verify FILE.py[:NAME]"])


def _template(args: Namespace) -> int:
    from layoutlab.handoff.template import template

    if args.target is not None:
        raise LayoutError(f"--template prints {args.template} and verifies nothing: leave {args.target} out")
    functions = find(args.template)
    if len(functions) > 1:
        raise LayoutError(f"{args.template} declares several handoffs: name one, FILE.py:NAME")
    (function,) = functions
    print(template(made(function, lambda: function(**settings_of(args.set)))), end="")
    return 0


def settings_of(given: list[str]) -> dict[str, str]:
    """The settings that --set KEY=VALUE gave; refuses a text that is none, and a name given twice."""
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise LayoutError(f"--set {text}: a setting is KEY=VALUE")
        if name in settings:
            raise LayoutError(f"--set {text}: {name} is set twice")
        settings[name] = value
    return settings


def chosen_for(function: HandoffFunction, chosen: Mapping[str, str], all_of: list[HandoffFunction]) -> dict[str, str]:
    """The settings that this function has; every one has to be some function's."""
    if len(all_of) == 1:
        return dict(chosen)
    names = {entry.name for f in all_of for entry in f.settings.entries}
    for name in chosen:
        if name not in names:
            raise LayoutError(f"no handoff of this file has a setting {name}{nearest(name, sorted(names))}")
    own = {entry.name for entry in function.settings.entries}
    return {name: value for name, value in chosen.items() if name in own}


def general_chosen_for(
    function: HandoffFunction, chosen: Mapping[str, str], all_of: list[HandoffFunction]
) -> dict[str, str]:
    """The same for the functions of which these have chosen values."""
    return chosen_for(function.general, chosen, [f.general for f in all_of])


def _object(verdict: Verdict, trace: Trace | None) -> dict[str, Any]:
    return {
        **versions(),
        **as_json(verdict),
        "trace": {"agrees": trace.agrees, "line": trace.line, **trace.json} if trace else None,
        "trace_seconds": trace.seconds if trace else None,
    }


def versions() -> dict[str, Any]:
    """What every JSON object begins with."""
    return {"schema": 1, "version": _version("layoutlab"), "dsl_version": _version("nvidia-cutlass-dsl")}


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
