"""`layoutlab cost`: shared-memory wavefronts of each instruction, the widest vector, and a better swizzle."""

from __future__ import annotations

from functools import partial
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
examples:
  layoutlab cost sP                                     the stores of a named handoff, and ldmatrix where it reads
  layoutlab cost sP --set store=composition --suggest   the Swizzle<B,M,S> with the fewest wavefronts
  layoutlab cost my_layouts.py:p_tile
  layoutlab cost '(32,32):(32,1)' --bits 32             (thread, value) -> element: one load a value
  layoutlab cost 'S<3,3,3> o 0 o (8,64):(64,1)' --bits 16 --op ldmatrix.x1
  layoutlab cost '(128,128):(128,1)' --bits 16 --width 16 --op store
  layoutlab cost 'store (32,32):(1,32)' 'load (32,32):(32,1)' --suggest    written by columns, read by rows: one swizzle

An expression is a (thread, value) layout of element offsets; its swizzle counts elements, as the layout does, unless it
says its unit (S<3,4,3>[8b]) or --swizzle-unit bytes is given, as CuTe DSL prints a swizzle beside a pointer.
ldmatrix and stmatrix take a row of 16 bytes from each of 8, 16 or 32 threads.

exit status: 0; 2 where nothing can be counted
"""

OPS = ("load", "store", *(f"{m}.x{n}" for m in ("ldmatrix", "stmatrix") for n in (1, 2, 4)))


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "cost",
        description="Counts the shared-memory wavefronts of a handoff's instructions, or of a layout's, warp by warp.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target",
        nargs="+",
        metavar="NAME|FILE.py[:NAME]|EXPR",
        help="a handoff, or (thread, value) layouts of a buffer",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument("--bits", type=int, help="of an expression: an element's width, 8 to 128 (default 32)")
    parser.add_argument("--width", type=int, help="bytes that a lane moves; by default as declared, or an element")
    parser.add_argument("--op", choices=OPS, help="of an expression: the instruction (default load)")
    parser.add_argument("--swizzle-unit", choices=["elements", "bytes"], default="elements", help="of an expression's")
    parser.add_argument("--suggest", action="store_true", help="search Swizzle<B,M,S> over all accesses at once")
    parser.add_argument("--json", action="store_true", help="print one JSON object; a list for several handoffs")


def run(args: Any) -> int:
    """Counts and prints."""
    from layoutlab.cli.words.costs import as_json, cost_of_expressions, cost_of_handoff, report

    for option, value, most in (("--bits", args.bits, 128), ("--width", args.width, 16)):
        if value is not None and not 1 <= value <= most:
            raise LayoutError(f"{option} {value}: it is 1 to {most}")
    costs = []
    for name, h in _handoffs(args):
        if args.bits is not None or args.op:
            raise LayoutError(f"{name} says its own width and instructions: --bits and --op are for an expression")
        costs.append(cost_of_handoff(h, args.width and 8 * args.width, args.suggest))
    if not costs:
        asked = [_operation(text, args.op or "load") for text in args.target]
        costs.append(cost_of_expressions(asked, args.bits or 32, args.width, args.swizzle_unit, args.suggest))
    if args.json:
        import json

        from layoutlab.cli import stamp

        objects = [{**stamp(), **as_json(cost)} for cost in costs]
        print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2))
    else:
        print("\n\n".join(map(report, costs)))
    return 0


def _handoffs(args: Any) -> list[tuple[str, Any]]:
    """The handoffs that the target names; none where it is an expression."""
    from layoutlab.catalogue import CATALOGUE
    from layoutlab.catalogue.files import find, made
    from layoutlab.cli.verify import chosen_for, settings_of

    named = [t for t in args.target if t in CATALOGUE or ".py" in t or t.isidentifier()]
    if not named:
        if args.set:
            raise LayoutError("--set is for a handoff's settings, and an expression has none")
        return []
    if len(args.target) > 1:
        raise LayoutError(f"{len(args.target)} targets: a handoff is counted alone, expressions together")
    functions = find(named[0])
    chosen = settings_of(args.set)
    return [(f.__name__, made(f, partial(f, **chosen_for(f, chosen, functions)))) for f in functions]


def _operation(text: str, op: str) -> tuple[str, str]:
    """(operation, layout) of `store (32,32):(1,32)`; the operation may be left out."""
    first, _, rest = text.strip().partition(" ")
    return (first, rest) if first in OPS else (op, text)
