"""`layoutlab crosscheck`: do the traced, the replayed and the real kernel say what the model says?"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction

from layoutlab.catalogue.files import find, made
from layoutlab.cli import COMMANDS, stamp
from layoutlab.cli.verify import settings_of
from layoutlab.crosscheck.core import WITNESSES, crosscheck, line, named_witnesses
from layoutlab.crosscheck.testimony import Testimony
from layoutlab.errors import LayoutError

_EPILOG = """examples:
  layoutlab crosscheck sP                               those that are here (the replay needs its extra)
  layoutlab crosscheck sV --on replay --set kv=256
  layoutlab crosscheck sP --set write_swizzle=none      a planted mistake: the witnesses have to refute it too

exit status: 0 agree and proved, 1 agree and refuted, or disagree, 2 usage error, 3 incomplete"""


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "crosscheck",
        help=COMMANDS["crosscheck"],
        description="Hears the witnesses of a handoff's kernel: the trace of its compile, the replay of its PTX on\n"
        "the CPU, a device. Each says who holds, writes and reads which element, and must say what the model says.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="NAME|FILE.py:NAME", help="a named handoff, or one of a file of your own")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument(
        "--on",
        metavar="WITNESS,...",
        help=f"the witnesses to ask, of {', '.join(WITNESSES)}; without it, every one that is here",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Runs the command."""
    functions = find(args.target)
    if len(functions) > 1:
        raise LayoutError(f"{args.target} declares several handoffs: name one, FILE.py:NAME")
    (function,) = functions
    handoff = made(function, lambda: function(**settings_of(args.set)))
    on = None if args.on is None else named_witnesses(name for name in args.on.split(",") if name)
    if not args.json:
        print(f"{handoff}\n", flush=True)
    found = crosscheck(handoff, on, heard=None if args.json else _print)
    if args.json:
        print(json.dumps({**stamp(), **found.json()}, indent=2))
    else:
        print(f"\n{found.last_line()}")
    return found.exit_status


def _print(testimony: Testimony) -> None:
    """A line for a witness, as it arrives."""
    print(line(testimony), flush=True)
