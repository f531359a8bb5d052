"""`layoutlab draw WHAT -o FILE`: who owns what, where it lies, who reads it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
examples:
  layoutlab draw sP -o sP.html                                        a named handoff, as a page that answers back
  layoutlab draw sP --set write_swizzle=none --rows 0:8 --cols 0:64 -o wrong.svg
  layoutlab draw my_layouts.py:p_tile -o p_tile.tex
  layoutlab draw '((32,4),32):((1,32),128)' --tile 128x32 -o owner.svg       a (thread, value) layout over its tile
  layoutlab draw 'S<3,3,3> o 0 o (8,64):(64,1)' --bits 16                    in the terminal, with the memory's banks
  layoutlab draw ldmatrix.x4 -o ldmatrix.svg
  layoutlab draw sP --only 'warp=0 value=0' --panels memory --count-banks    one store's bank conflicts
  layoutlab draw sP -o sP.gv                                          the handoff's graph, and sP.svg rendered from it
  layoutlab draw attention -o attention.gv                            a whole kernel's
  layoutlab draw attention --element 'O[5,17]'                        one element's way through a kernel
  layoutlab draw attention --element 'O[0,133,2,17]' --set seq=300 --set heads=4 --set causal=true

WHAT is a handoff's name, FILE.py[:NAME], a kernel (attention), an instruction, an expression, or - for stdin.
exit status: 0; 2 where WHAT cannot be drawn or the file not written
colours: thread, value, warp, instruction, byte, bank, chunk, step, a coordinate; 'k//8' colours eight columns alike.
"""

GRAPHS = ("gv", "dot")
OF_TILES = ("rows", "cols", "only", "colour", "panels", "labels", "count_banks", "tile", "bits")

KERNELS = {"attention": "attention_way"}
"""The kernels in kernels/, and the module there whose function NAME_way is the way of an element through each."""


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "draw",
        description="Draws who owns what: layouts, copies, MMAs, instructions, handoffs and whole kernels.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", metavar="WHAT", help="what to draw; several make one graph")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the suffix says the format: svg, html, txt, tex, gv, dot"
    )
    parser.add_argument(
        "--format", choices=["svg", "html", "txt", "tex", *GRAPHS], help="if the suffix does not say it"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument("--graph", action="store_true", help="the graph of writers, buffers and readers, not the tiles")
    parser.add_argument("--element", metavar="O[5,17]", help="follow one element through every handoff of a kernel")
    parser.add_argument("--tile", metavar="MxN", help="read the layout as (thread, value) -> coordinate of this tile")
    parser.add_argument("--bits", type=int, help="an element's width: draws the memory beside a layout")
    parser.add_argument("--colour", "--color", default="", metavar="COLUMN", help="what is coloured alike")
    parser.add_argument("--palette", default="safe", choices=["safe", "mono"], help="for any colour vision, or greys")
    parser.add_argument("--only", default="", metavar="CONDITIONS", help="keep some elements: 'warp=0 value<8'")
    parser.add_argument("--rows", type=_span, metavar="A:B", help="rows of the tile to draw")
    parser.add_argument("--cols", type=_span, metavar="A:B", help="columns of the tile to draw")
    parser.add_argument("--panels", default="", metavar="NAMES", help="which panels: tile,memory,reader")
    parser.add_argument("--labels", default="", choices=["", "owner", "coordinate"], help="what the memory's cells say")
    parser.add_argument("--count-banks", action="store_true", help="under each bank, how many of its words are touched")
    parser.add_argument("--title", default="", help="instead of the object's own text")
    parser.add_argument("--width", type=int, help="characters of a line of text; by default the terminal's")


def run(args: Any) -> int:
    """Draws into the file, or as text to the terminal."""
    format = _format(args)
    graph = args.element is not None or format in GRAPHS or args.graph
    given = [flag for flag in OF_TILES if getattr(args, flag)]
    if graph and given:
        raise LayoutError(f"--{given[0].replace('_', '-')} chooses of a tile's grid, and this draws a graph")
    if args.element is not None:
        return _put(_journey(args, format), args.output)
    if format in GRAPHS or args.graph:
        return _draw_graph(args, format)
    return _put(_draw_grid(args, format), args.output)


def _refuse_unknown(what: str) -> None:
    """Refuses a single word that names nothing: as an expression it would be an unknown number."""
    from layoutlab.catalogue import CATALOGUE
    from layoutlab.cli import nearest

    if what.isidentifier():
        near = nearest(what, [*CATALOGUE, *KERNELS])
        raise LayoutError(f"no handoff, kernel, file or layout is called {what}{near}")


def _format(args: Any) -> str:
    suffix = Path(args.output).suffix[1:].lower() if args.output not in (None, "-") else "txt"
    found: str = args.format or suffix
    known = ("svg", "html", "txt", "tex", *GRAPHS)
    if found not in known:
        raise LayoutError(f"the suffix .{found} names no format: {', '.join(known)}; or say --format")
    return found


def _draw_grid(args: Any, format: str) -> str:
    from layoutlab.draw import Choice, picture_of, rendered

    if len(args.what) > 1:
        raise LayoutError(f"{len(args.what)} things to draw: several make a graph, -o FILE.gv; a grid is of one")
    choice = Choice(
        colour=args.colour, only=args.only, rows=args.rows, cols=args.cols, labels=args.labels, title=args.title,
        panels=tuple(p for p in args.panels.replace(",", " ").split() if p), count_banks=args.count_banks,
        bits=args.bits, tile=_extents(args.tile),
    )  # fmt: skip
    return rendered(picture_of(_subject(args.what[0], args.set), choice), format, args.palette, _width(args))


def _draw_graph(args: Any, format: str) -> int:
    """The graph's source, and beside it the graph rendered; with --graph and another suffix, what that says."""
    from layoutlab.draw.graph import graph_of, render

    if len(args.what) == 1 and args.what[0] in KERNELS:
        way = _way(args.what[0], args.set)
        source = graph_of(way.legs, args.title or way.title)
    else:
        source = graph_of([made for what in args.what for made in _handoffs(what, args.set)], args.title)
    if format in GRAPHS:
        if args.output not in (None, "-"):
            _write(Path(args.output).with_suffix(".svg"), render(source))
        return _put(source, args.output)
    if format != "svg":
        raise LayoutError(f"a graph is drawn as gv, dot or svg, not as {format}")
    return _put(render(source), args.output)


def _journey(args: Any, format: str) -> str:
    from layoutlab.draw.journey import journey, journey_graph, journey_text, parsed, stops_of

    if len(args.what) == 1 and args.what[0] in KERNELS:
        way = _way(args.what[0], args.set, parsed(args.element))
        stops, title = stops_of(way.legs, way.fixed), way.title
    else:
        stops = journey([h for what in args.what for h in _handoffs(what, args.set)], args.element)
        title = args.element
    title = args.title or title
    if format == "txt":
        return journey_text(stops, title, _width(args))
    from layoutlab.draw.graph import render

    source = journey_graph(stops, title)
    if format in GRAPHS:
        return source
    if format == "svg":
        return render(source)
    raise LayoutError(f"an element's way is drawn as txt, gv, dot or svg, not as {format}")


def _way(kernel: str, settings: list[str], element: tuple[str, tuple[int, ...]] | None = None) -> Any:
    """A kernel's legs, and the element's place in them."""
    from importlib import import_module

    module = import_module(f"layoutlab.kernels.{KERNELS[kernel]}")
    return getattr(module, f"{kernel}_way")(element, _pairs(settings))


def _subject(what: str, settings: list[str]) -> Any:
    """The one object that WHAT names; a text where it names none, which is then read as an expression."""
    if ".py:" in what and (value := _value_of_file(what)) is not None:
        return value
    if what in KERNELS:
        raise LayoutError(
            f"{what} is a kernel of several handoffs: -o FILE.gv draws their graph, --element one element"
        )
    found = _handoffs_named(what)
    if found is None:
        if settings:
            raise LayoutError(f"--set is for handoffs, and no handoff is called {what}")
        _refuse_unknown(what)
        return sys.stdin.read() if what == "-" else what
    if len(found) != 1:
        names = ", ".join(f.__name__ for f in found)
        raise LayoutError(f"{what} has {len(found)} handoffs: {what}:NAME draws one ({names}), -o FILE.gv all")
    return _made(found[0], settings)


def _value_of_file(what: str) -> Any:
    """FILE.py:NAME where NAME is no handoff but a layout, say; None where it is a handoff, or nothing."""
    from layoutlab.catalogue.files import load
    from layoutlab.handoff import HandoffFunction

    path, _, name = what.rpartition(":")
    value = getattr(load(Path(path)), name, None)
    return None if isinstance(value, HandoffFunction) else value


def _handoffs(what: str, settings: list[str]) -> list[Any]:
    """All handoffs that WHAT names; a setting goes to those that have it, and one of them has to."""
    if what in KERNELS:
        raise LayoutError(f"{what} is a whole kernel: it is drawn alone, without other names beside it")
    found = _handoffs_named(what) or []
    if not found:
        raise LayoutError(f"{what} names no handoff, no kernel and no FILE.py[:NAME]")
    known = {entry.name for function in found for entry in function.settings.entries}
    own = [{entry.name for entry in function.settings.entries} for function in found]
    names = [s.partition("=")[0] for s in settings]
    return [
        _made(function, [s for s, name in zip(settings, names, strict=True) if name in mine or name not in known])
        for function, mine in zip(found, own, strict=True)
    ]


def _handoffs_named(what: str) -> list[Any] | None:
    """A file's or the catalogue's handoff functions; None where WHAT is something else."""
    from layoutlab.catalogue import CATALOGUE
    from layoutlab.catalogue.files import find

    if what in CATALOGUE or what.endswith(".py") or ".py:" in what:
        return list(find(what))
    return None


def _made(function: Any, settings: list[str]) -> Any:
    """The handoff with its settings, given as KEY=VALUE."""
    from layoutlab.catalogue.files import made

    values = _pairs(settings)
    return made(function, lambda: function(**values))


def _pairs(settings: list[str]) -> dict[str, str]:
    """KEY=VALUE as it is given, by key."""
    pairs = [s.partition("=") for s in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise LayoutError(f"--set {key}: KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _put(text: str, output: str | None) -> int:
    if output in (None, "-"):
        sys.stdout.write(text)
    else:
        _write(Path(str(output)), text)
    return 0


def _write(path: Path, text: str) -> None:
    """Writes the file and says so, on standard error, as standard output is for drawings."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise LayoutError(f"cannot write {path}: {e.strerror}") from None
    print(f"wrote {path}", file=sys.stderr)


def _width(args: Any) -> int:
    import shutil

    if args.width is not None:
        if args.width < 1:
            raise LayoutError(f"--width {args.width}: a number of characters, 80")
        return int(args.width)
    return shutil.get_terminal_size((100, 24)).columns if args.output in (None, "-") else 100


def _span(text: str) -> tuple[int, int]:
    """0:8 as (0, 8)."""
    import argparse

    low, colon, high = text.partition(":")
    if not (colon and low.isdigit() and high.isdigit() and int(low) < int(high)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range such as 0:8")
    return int(low), int(high)


def _extents(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdigit() and int(p) for p in parts):
        raise LayoutError(f"--tile {text}: rows x columns, 128x32")
    return tuple(int(p) for p in parts)
