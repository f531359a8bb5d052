"""`layoutlab witnesses`: which facts of the instruction tables were held against which independent witness."""

from __future__ import annotations

import json
from typing import Any

_EPILOG = """\
examples:
  layoutlab witnesses                    a line a fact, a column a witness, the cases compared
  layoutlab witnesses --json

exit status: 0
"""


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "witnesses",
        description="Prints how many cases of each fact agree with silicon, CuTe DSL, Triton and tensor-layouts.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")


def run(args: Any) -> int:
    """Prints the table, whose counts the tests hold against what they compared."""
    from layoutlab.cli import stamp
    from layoutlab.witnesses import DISAGREEMENTS, FACTS, UNWITNESSED, table

    if args.json:
        disagreements = [{"fact": f, "witness": w, "says": says} for (f, w), says in DISAGREEMENTS.items()]
        found = {"facts": FACTS, "disagreements": disagreements, "unwitnessed": list(UNWITNESSED)}
        print(json.dumps({**stamp(), **found}, indent=1))
    else:
        print(table())
    return 0
