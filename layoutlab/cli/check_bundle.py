"""`layoutlab check-bundle`: did the device do what the model and the replay say?"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from pathlib import Path

from layoutlab.cli import COMMANDS
from layoutlab.errors import LayoutError

COULD_NOT_JUDGE = 3


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "check-bundle",
        help=COMMANDS["check-bundle"],
        description="Judges what a device made of a bundle (layoutlab bundle), by the model and a replay of its PTX.",
        epilog="Exit status: 0 the same, 1 something differs, 2 usage error, 3 could not judge.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the bundle")
    parser.add_argument("--results", type=Path, metavar="ZIP", help="what its run.py wrote; default: DIR/results.zip")
    parser.add_argument("--no-replay", action="store_true", help="judge by the model alone")


def run(args: Namespace) -> int:
    """Runs the command."""
    from layoutlab.crosscheck.bundled import check_bundle

    try:
        judgement = check_bundle(args.folder, args.results, replay=not args.no_replay)
    except LayoutError as why:
        print(f"layoutlab: could not judge: {why}", file=sys.stderr)
        return COULD_NOT_JUDGE
    print(judgement)
    return judgement.exit_status
