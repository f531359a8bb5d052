"""`layoutlab explain TEXT`: what a kernel printed, in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
TEXT is what CuTe DSL, C++ or pycute prints: a layout, a swizzle, a tensor, a tiled copy, a tiled MMA, an atom; or a
whole log of them, a line or a block each, with labels such as 'sA: ' or 'sA = '. - reads it from standard input.
An expression, as `layoutlab eval` takes it, may stand for a layout.

examples:
  layoutlab explain '((128,16),1,(4,2)):((64,1),0,(16,8192))'
  layoutlab explain 'tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>'
  python my_kernel.py | layoutlab explain -
  layoutlab explain desc 0x4000404000000040 --arch sm_100      a shared-memory matrix descriptor
  layoutlab explain desc 0x8200490 --kind f16                  tcgen05.mma's instruction descriptor; also idesc WORD

exit status: 0, 2 when nothing in the text was understood
"""

_LABEL = re.compile(r"\s*[A-Za-z_][\w.\[\]]*\s*(?:=|:(?=\s))\s*")

_START = re.compile(r"(?<=[\s:=])(?=[\w(!\[?])")
_PREFIX = re.compile(r"(?:(?!(?<!\w)o(?!\w))[\w\s.,#/:=|'\"\[\]-])*")
"""Words before a layout: no bracket or swizzle, and no `o`, so that what stands left of it is no part of the layout."""


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "explain",
        description="Says what a printed layout, tensor, copy or MMA is: what it covers, its order, vectors and units.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", nargs="+", help="what was printed, or - for standard input; or desc|idesc WORD")
    parser.add_argument(
        "--arch", choices=["sm_90", "sm_100"], help="of desc: as a matrix descriptor; by default each that has the word"
    )
    parser.add_argument(
        "--kind", help="of desc or idesc, as an instruction descriptor: f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4"
    )


def run(args: Any) -> int:
    """Explains each thing in the text; lines that are no such thing are named at the end."""
    if args.text[0] in ("desc", "idesc") and len(args.text) > 1:
        return _descriptors(args)
    if args.arch or args.kind:
        raise LayoutError("--arch is for explain desc, --kind for explain idesc")
    text = sys.stdin.read() if args.text == ["-"] else " ".join(args.text)
    passed: list[tuple[int, str, LayoutError]] = []
    explained = 0
    for number, label, piece in pieces(text):
        try:
            label, report = understood(label, piece)
        except LayoutError as e:
            passed.append((number, piece, e))
            continue
        report.headline = f"{label}: {report.headline}" if label else report.headline
        print("\n" if explained else "", report, sep="")
        explained += 1
    if not explained:
        raise passed[0][2] if passed else LayoutError("there is no text to explain")
    if passed:
        lines = ", ".join(str(number) for number, _, _ in passed[:10]) + (", ..." if len(passed) > 10 else "")
        print(f"\nnot understood, and so not explained: line{'s' if len(passed) > 1 else ''} {lines}")
        _, piece, error = passed[0]
        first = piece.strip().splitlines()[0]
        print(f"the first of them: {first[:60]}{'...' * (len(first) > 60)}: {str(error).splitlines()[0]}")
    return 0


def understood(label: str, piece: str) -> tuple[str, Any]:
    """The label and the description of a piece; where it does not begin with a layout, of the layout that it ends with.

    >>> understood("", "sP layout: S<3,4,3> o 0 o (8,64):(64,1),")[0], understood("", "[rank0] sA: (8,8):(8,1)")[0]
    ('sP layout', '[rank0] sA')
    """
    from layoutlab.cli.words import describe
    from layoutlab.text.expression import value_of

    try:
        return label, describe(value_of(piece))
    except LayoutError as unread:
        trimmed = piece.rstrip(" \t.,;")
        for prefix, rest in (("", trimmed), *_split(trimmed)):
            try:
                value = value_of(rest)
                report = describe(value)
            except LayoutError:
                continue
            if not prefix or not _bare(value):
                return " ".join(filter(None, (label, prefix.strip(" \t:=")))), report
        raise unread


def _split(piece: str) -> Iterator[tuple[str, str]]:
    """(prefix, rest) at each place where a layout may begin after words; a part of a composition is never left out."""
    for start in _START.finditer(piece):
        prefix = piece[: start.start()]
        if not _PREFIX.fullmatch(prefix):
            return
        if re.search(r"[A-Za-z]", prefix):
            yield prefix, piece[start.start() :]


def _bare(value: Any) -> bool:
    """Whether a value is a number or a tuple of numbers, which any line of a log may end with."""
    from layoutlab.int_tuple import Basis, flatten
    from layoutlab.symbol import Sym

    return all(isinstance(leaf, (int, Sym, Basis, type(None))) for leaf in flatten(value))


def _descriptors(args: Any) -> int:
    """Explains each word as a descriptor."""
    from layoutlab.cli.words.descriptors import descriptor, instruction_descriptor

    what, *words = args.text
    if (what == "idesc" and args.arch) or (args.arch and args.kind):
        raise LayoutError("--arch is for matrix descriptors, --kind for tcgen05.mma's instruction descriptors")
    explained = [
        descriptor(w, args.arch, args.kind) if what == "desc" else instruction_descriptor(w, args.kind) for w in words
    ]
    print("\n\n".join("\n".join(lines) for lines in explained))
    return 0


def pieces(text: str) -> Iterator[tuple[int, str, str]]:
    """(line number, label, text) of each thing in a log: a line, or a block that a title opens.

    >>> list(pieces("sA: (8,64):(64,1)"))
    [(1, 'sA', '(8,64):(64,1)')]
    """
    from layoutlab.text.blocks import title_of

    lines = text.splitlines()
    i = 0
    while i < len(lines):
        start = i
        label, first = _label(lines[i]) if title_of(lines[i]) is None else ("", lines[i])
        i += 1
        if title_of(first):
            while i < len(lines) and _goes_on(lines[i], title_of(first)):
                i += 1
            yield start + 1, label, "\n".join([first.strip(), *lines[start + 1 : i]])
        elif first.strip():
            while _is_open(first) and i < len(lines):
                first = f"{first}\n{lines[i]}"
                i += 1
            yield start + 1, label, first.strip()


def _is_open(text: str) -> bool:
    """Whether this is a printed tensor whose numbers go on in the next line."""
    return "data=" in text and "tensor(" in text and text.count("(") > text.count(")")


def _label(line: str) -> tuple[str, str]:
    found = _LABEL.match(line)
    return (line[: found.end()].strip(" \t=:"), line[found.end() :]) if found else ("", line)


def _goes_on(line: str, title: str | None) -> bool:
    """Whether a line belongs to the block above: a field of it, or the atom that a tiled copy or MMA ends with."""
    from layoutlab.text.blocks import is_field, title_of

    return is_field(line) or title_of(line) in {
        "tiledcopy": ("copyatom",),
        "thrcopy": ("tiledcopy", "copyatom"),
        "tiledmma": ("mmaatom",),
        "thrmma": ("tiledmma", "mmaatom"),
    }.get(title or "", ())
