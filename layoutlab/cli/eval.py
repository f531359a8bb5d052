"""`layoutlab eval EXPRESSION`: the value of an expression of layouts."""

from __future__ import annotations

import sys
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
examples:
  layoutlab eval 'composition((6,2):(8,2), (4,3):(3,1))'
  layoutlab eval '((6,2):(8,2))(3,1)'                       a layout at a coordinate
  layoutlab eval 'logical_divide((4,2,3):(2,1,8), 4:2)'
  layoutlab eval '(S<3,4,3>[8b] o 0 o [16b](8,64):(64,1))(1,0)'
  layoutlab eval "make_tiled_copy_tv(make_copy_atom('universal', 'f16', 128), (16,16):(16,1), 8:1)"

A swizzle without a unit counts what its layout counts; a note on standard error says so where that decides the result.

exit status: 0, 1 when the operation has no such result, 2 when the text is no expression
"""


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "eval",
        description="Evaluates calls of CuTe's functions on layouts as CuTe DSL, C++ or pycute print them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("expression", nargs="?", help="such as 'coalesce((2,(1,6)):(1,(6,2)))'")
    parser.add_argument("--style", choices=["dsl", "c++", "pycute"], help="print the result as this one prints it")
    parser.add_argument("--formula", action="store_true", help="print a layout as a formula of its modes i, j, k ...")
    parser.add_argument("--list", action="store_true", help="list the functions")


def run(args: Any) -> int:
    """Evaluates and prints; 1 when a function refuses."""
    from layoutlab.text.expression import functions, offer, read, unit_assumed
    from layoutlab.tv.calls import calls

    offer(calls())
    if args.list:
        for name, function in functions().items():
            print(f"{name:<22} {(function.__doc__ or '').strip().splitlines()[0]}")
        return 0
    if args.expression is None:
        raise LayoutError("eval needs an expression; layoutlab eval --list lists the functions")
    expression = read(args.expression)
    try:
        value = expression.value()
        print(_formula(value) if args.formula else _shown(value, args.style))
        if (swizzle := unit_assumed(expression)) is not None:
            print(
                f"layoutlab: note: {swizzle} does not say what it counts and was taken to count what its layout does, "
                f"elements; if it counts bytes of 16-bit elements, write {swizzle}[8b] o 0 o [16b]shape:stride",
                file=sys.stderr,
            )
    except LayoutError as e:
        if args.debug:
            raise
        print(f"layoutlab: {e}", file=sys.stderr)
        return 1
    return 0


def _formula(value: Any) -> str:
    from layoutlab.formula import spoken
    from layoutlab.formula.layouts import MODE_NAMES
    from layoutlab.layout import Layout
    from layoutlab.swizzle import ComposedLayout

    if not isinstance(value, (Layout, ComposedLayout)):
        raise LayoutError(f"{value} is no layout: --formula prints the location that a layout gives")
    outer = value.outer if isinstance(value, ComposedLayout) else value
    found = spoken(value)
    expressions = ", ".join(str(expression) for _, expression in found)
    shown = expressions if len(found) == 1 else f"({expressions})"
    return f"{value}   ({', '.join(MODE_NAMES[: outer.rank()])}) -> {shown}"


def _shown(value: Any, style: Any) -> str:
    from layoutlab.text import to_text
    from layoutlab.text.records import tiler_text

    return to_text(value, style) if style else tiler_text(value)
