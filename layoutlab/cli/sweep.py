"""`layoutlab sweep verify sP --set kv=64,128 --set dtype=bf16,e4m3`: every combination of the settings, in parallel."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
A setting without values on the command line keeps its default; `--set store=all` takes every value that it lists. The
table shows what is refuted or refused, and what is proved but slow: stores that conflict or that could be wider.

exit status: 0 all proved, 1 one refuted, 2 usage error, 3 one undecided, unsupported or refused
"""

SLOW_WORDS = ("is the least", "; ")
"""What a line of cost says of stores that conflict, or of wider ones that are possible."""


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "sweep",
        description="Verifies a handoff in every combination of the settings given.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["verify"])
    parser.add_argument("target", metavar="NAME|FILE.py[:NAME]")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=A,B,C", help="a setting's values, or all")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; by default one for each core")
    parser.add_argument("--json", action="store_true", help="print every result as one JSON object")


@dataclass(frozen=True)
class Result:
    """What came of one combination: a verdict of `verify`, or "refused" where the handoff has no such variant."""

    handoff: str
    settings: Mapping[str, Any]
    verdict: str
    why: str
    cost: str
    seconds: float

    @property
    def slow(self) -> bool:
        """Whether the stores conflict, or could be wider."""
        return any(word in self.cost for word in SLOW_WORDS)

    def __str__(self) -> str:
        settings = " ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.handoff} {settings}".strip()


def run(args: Namespace) -> int:
    """Verifies all, prints the table."""
    if args.jobs == 0:
        raise LayoutError("--jobs 0: at least one process is needed, or -1 for one a core")
    tasks = combinations(args.target, args.set)
    started = time.perf_counter()
    results = list(progress(verified(tasks, args.jobs), len(tasks)))
    seconds = time.perf_counter() - started
    counted = {name: sum(r.verdict == name for r in results) for name in _ORDER}
    if args.json:
        import json

        from layoutlab.cli import stamp

        told = [vars(r) | {"settings": dict(r.settings), "slow": r.slow} for r in results]
        print(json.dumps(stamp() | {"results": told, "counts": counted, "seconds": seconds}, indent=2))
    else:
        print(table(results))
        slow = sum(r.slow and r.verdict == "proved" for r in results)
        shown = ", ".join(f"{n} {name}" for name, n in counted.items() if n)
        shown += f"; {slow} of those slow" if slow else ""
        print(f"{len(results)} combination{'s' * (len(results) != 1)} in {seconds:.1f} s: {shown}")
    if counted["refuted"]:
        return 1
    return 0 if counted["proved"] == len(results) else 3


_ORDER = ("refuted", "unsupported", "undecided", "refused", "proved")


def combinations(target: str, given: Iterable[str]) -> list[tuple[str, str, dict[str, Any]]]:
    """(target, name, settings) of every combination, checked before anything runs.

    >>> len(combinations("sP", ["kv=64,128", "load=all"]))
    6
    """
    from layoutlab.catalogue.files import find

    tasks = []
    for function in find(target):
        values: dict[str, list[Any]] = {}
        for text in given:
            name, equals, listed = text.partition("=")
            if not equals:
                raise LayoutError(f"--set {text}: a setting is KEY=A,B,C")
            if name in values:
                raise LayoutError(f"--set {text}: {name} is set twice")
            values[name] = _values(function, name, listed)
        for chosen in product(*values.values()):
            tasks.append((target, function.__name__, dict(zip(values, chosen, strict=True))))
    return tasks


def _values(function: Any, name: str, listed: str) -> list[Any]:
    entry = next((e for e in function.settings.entries if e.name == name), None)
    if listed == "all" and entry is not None:
        if not entry.choices:
            raise LayoutError(f"{function.__name__}: {name} lists no values, so `all` is none: give them")
        return list(entry.choices)
    return [function.settings.accept({name: value})[name] for value in listed.split(",")]


def verified(tasks: list[tuple[str, str, dict[str, Any]]], jobs: int) -> Iterator[Result]:
    """The results in order, each as soon as it and those before it are there."""
    if len(tasks) < 8 or jobs == 1:  # starting processes takes longer
        yield from (one(*task) for task in tasks)
        return
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=jobs, return_as="generator", batch_size="auto")(delayed(one)(*task) for task in tasks)


def one(target: str, name: str, settings: Mapping[str, Any]) -> Result:
    """One combination, in whichever process."""
    from layoutlab.handoff.core import verify
    from layoutlab.handoff.report import cost_line

    started = time.perf_counter()
    try:
        made = _functions(target)[name](**settings)
        verdict = verify(made)
    except LayoutError as error:
        return Result(name, settings, "refused", str(error).split("\n")[0], "", time.perf_counter() - started)
    why = ""
    if not verdict.proved:
        claim = next(c for c in verdict.claims if c.verdict == verdict.verdict)
        why = f"{claim.name}: {claim.witness.message if claim.witness else claim.why}"
    return Result(name, settings, verdict.verdict, why, cost_line(made.writer), time.perf_counter() - started)


@lru_cache(maxsize=8)
def _functions(target: str) -> dict[str, Any]:
    from layoutlab.catalogue.files import find

    return {function.__name__: function for function in find(target)}


def table(results: Iterable[Result]) -> str:
    """Refuted ones, then the others that are not proved, then the slow ones, each with its reason."""
    lines = list[str]()
    for result in sorted(results, key=lambda r: _ORDER.index(r.verdict)):
        if result.verdict != "proved":
            lines += [f"{result.verdict:<12} {result}", f"{'':<12} {result.why}"]
        elif result.slow:
            lines += [f"{'slow':<12} {result}", f"{'':<12} {result.cost}"]
    return "\n".join(lines)


def progress(results: Iterable[Result], total: int) -> Iterator[Result]:
    """Passes results on, and shows on a terminal how far they are."""
    import shutil

    shown = sys.stderr.isatty() and total > 1
    for done, result in enumerate(results, 1):
        if shown:
            width = max(10, min(40, shutil.get_terminal_size().columns - 30))
            bar = "#" * (width * done // total)
            print(f"\r[{bar:<{width}}] {done}/{total}", end="", file=sys.stderr, flush=True)
        yield result
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
