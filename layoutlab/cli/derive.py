"""`layoutlab derive`: the writer that would be right, ready to paste into CuTe DSL."""

from __future__ import annotations

from functools import partial
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
examples:
  layoutlab derive sP                         the stores that the MMA's descriptors need, each proved
  layoutlab derive sP --set load=x16 > store_p.py
  layoutlab derive my_layouts.py:p_tile       a handoff of your own: its writer is not looked at
  layoutlab derive sV --from writer           the descriptor that reads what TMA has written
  layoutlab derive FILE.py:A FILE.py:B --free storage
                                              the layout and swizzle of one buffer that serve all of them

What is printed is a module of Python: code, and remarks that say what was proved and why other forms do not fit.

exit status: 0 derived; 1 there is none, and why; 2 usage error; 3 nothing is derived for this kind
"""


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "derive",
        description="Prints the writer that a handoff's reader and owner need, as code for CuTe DSL, proved before "
        "it is printed; or the reader that a writer needs; or the buffer that serves both.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", nargs="+", metavar="NAME|FILE.py[:NAME]", help="handoffs; several share one buffer")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument(
        "--from",
        dest="given",
        choices=["reader", "writer"],
        help="which side is right: the reader (default), so that the writer is derived, or the writer",
    )
    parser.add_argument("--free", choices=["storage"], help="search the buffer's layout and swizzle too")
    parser.add_argument("--json", action="store_true", help="print one JSON object; a list for several handoffs")


def run(args: Any) -> int:
    """Derives and prints."""
    from layoutlab.derive import derive

    handoffs = _handoffs(args)
    if args.free:
        return _free(args, handoffs)
    if len(args.target) > 1:
        raise LayoutError(
            f"{len(args.target)} targets: one handoff's writer is derived at a time; with --free storage they share "
            f"a buffer"
        )
    side = "reader" if args.given == "writer" else "writer"
    found = [derive(h, side) for h in handoffs]  # type: ignore[arg-type]
    if args.json:
        _print_json(args, found)
    else:
        from layoutlab.derive.report import joined

        print(joined(found))
    statuses = {one.exit_status for one in found}
    return next((status for status in (1, 3) if status in statuses), 0)


def _print_json(args: Any, found: Any) -> None:
    import json

    from layoutlab.cli import stamp
    from layoutlab.derive.report import as_json

    objects = [{**stamp(), **as_json(one)} for one in found]
    print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2))


def _free(args: Any, handoffs: list[Any]) -> int:
    from layoutlab.cli import stamp
    from layoutlab.derive.free import free_storage
    from layoutlab.derive.free_report import as_json, report

    if args.given:
        raise LayoutError(
            f"--free storage derives both sides for a buffer: leave out --from {args.given}, which holds one of them"
        )
    found = free_storage(handoffs)
    if args.json:
        import json

        print(json.dumps({**stamp(), **as_json(found)}, indent=2))
    else:
        print(report(found))
    return found.exit_status


def _handoffs(args: Any) -> list[Any]:
    """The handoffs that the targets name, each with the settings that it has."""
    from layoutlab.catalogue.files import find, made
    from layoutlab.cli.verify import chosen_for, settings_of

    functions = [function for target in args.target for function in find(target)]
    chosen = settings_of(args.set)
    return [made(f, partial(f, **chosen_for(f, chosen, functions))) for f in functions]
