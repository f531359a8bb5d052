"""Graphs of handoffs: who writes which buffer, who reads it, by which instructions, and what was proved of it.

The graph is written through the graphviz package. It is rendered by the system's `dot`, or where there is none by
graphviz-pure, a wheel that holds the program, so that a fresh machine can draw.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from layoutlab.draw.handoffs import short
from layoutlab.draw.legs import Leg, Tensor, Unit, leg_of
from layoutlab.draw.picture import printable
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, verify
from layoutlab.handoff.verdict import Verdict

FONT = "Courier"
"""Whose widths every renderer knows, and which no monospaced font exceeds."""

LONG = 2
"""Handoffs of a graph from left to right; one of more goes down the page."""

_WIDE = 46  # letters of a label's line
_SHAPES = {
    "smem": ("box3d", "shared memory"),
    "tmem": ("cylinder", "Tensor Memory"),
    "gmem": ("folder", "global memory"),
}
_VERDICTS = {"proved": ("proved", "#1b7837", "solid"), "refuted": ("REFUTED", "#960000", "bold")}


def graph_of(handoffs: Iterable[Handoff | Verdict | Leg], title: str = "") -> str:
    """The source of a graph (the DOT language) of one handoff or of a whole kernel's.

    >>> from layoutlab.handoff import *
    >>> P = Tile("P", m=8, k=8, bits=16)
    >>> h = Handoff(P, writer=store("(8,8):(1,8)", smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(8,1)")
    >>> "proved" in graph_of([h]), "REFUTED" in graph_of([h])
    (True, False)

    Buffers are nodes by their memory and name, writers and readers by what they say of themselves, so that handoffs
    which share one are joined. A refuted handoff's edge is heavy, and says its first counterexample.
    """
    import graphviz

    given = list(handoffs)
    if not given:
        raise LayoutError("there is no handoff to draw a graph of")
    legs = [leg_of(h) for h in given]
    verdicts = [h if isinstance(h, Verdict) else verify(leg.handoff) for h, leg in zip(given, legs, strict=True)]
    graph = graphviz.Digraph(
        "handoffs",
        graph_attr={
            "rankdir": "LR" if len(legs) <= LONG else "TB",
            "label": _title(verdicts, title),
            "labelloc": "t",
            "fontname": FONT,
        },
        node_attr={"fontname": FONT, "fontsize": "11", "margin": "0.15,0.08"},
        edge_attr={"fontname": FONT, "fontsize": "10"},
    )
    names: dict[tuple[str, ...], str] = {}

    def node(label: Sequence[str], shape: str, *key: str) -> str:
        key = key or tuple(label)
        if key not in names:
            names[key] = f"n{len(names)}"
            text = "\n".join(line for part in label if part for line in wrapped(part))
            graph.node(names[key], label=graphviz.escape(text), shape=shape)
        return names[key]

    def edge(tail: str, head: str, said: Sequence[str], **look: str) -> None:
        text = "\n".join(f" {line} " for part in said for line in wrapped(part))  # clear of the edge beside it
        graph.edge(tail, head, label=graphviz.escape(text), **look)

    def tensor(where: Tensor | str) -> str:
        said = where if isinstance(where, str) else f"{where.name} in global memory"
        return node((said, *_shape(where)), _SHAPES["gmem"][0], "buffer", "gmem", said)

    outward = {leg.writer for leg in legs if leg.handoff.writer.space == "gmem"}  # whose buffers are legs of their own
    for leg, verdict in zip(legs, verdicts, strict=True):
        made = leg.handoff
        space = made.writer.space
        shape, words = _SHAPES.get(space, ("box", space))
        writer, reader = node(leg.writer, "box"), node(leg.reader, "box")
        if space == "gmem" and leg.target:
            buffer = tensor(leg.target)
        else:
            buffer = node(_buffer(leg, words), shape, "buffer", space, leg.name)
        said, colour, style = _VERDICTS.get(verdict.verdict, (verdict.verdict, "#555555", "dashed"))
        look = {"color": colour, "fontcolor": colour, "style": style}
        held = (_source(made.writer.owner.source),) if made.writer.owner.threaded else ()
        edge(writer, buffer, (*held, made.writer.spoken()), **look)
        edge(buffer, reader, (_source(made.reader.source), said, _why(verdict)), **look)
        if leg.source:
            edge(tensor(leg.source), writer, ())
        if leg.target and space != "gmem" and leg.reader not in outward:
            edge(reader, tensor(leg.target), ())
    return str(graph.source)


def render(source: str, format: str = "svg", program: str | None = None) -> str:
    """A graph as the text of an SVG (or another text format of `dot`).

    >>> render("digraph { a -> b }").rstrip()[-6:]
    '</svg>'

    `program` is the `dot` to use; by default the system's, else graphviz-pure's. Raises LayoutError without both.
    """
    import graphviz
    from graphviz.backend import dot_command

    chosen = program or dot_program()
    before = dot_command.DOT_BINARY
    dot_command.DOT_BINARY = Path(chosen)
    try:
        return str(graphviz.Source(source).pipe(format=format, encoding="utf-8", quiet=True))
    except graphviz.CalledProcessError as e:
        raise LayoutError(f"{chosen} cannot draw the graph: {e.stderr}") from None
    finally:
        dot_command.DOT_BINARY = before


def dot_program() -> str:
    """The program that renders graphs: the system's dot, or the one that graphviz-pure brings."""
    found = shutil.which("dot") or pure_program()
    if found is None:
        raise LayoutError("no program renders graphs: install Graphviz, or `pip install graphviz-pure`")
    return found


def pure_program() -> str | None:
    """graphviz-pure's program, which writes the same bytes on every machine: on the path, or beside this Python."""
    beside = Path(sys.executable).with_name("graphviz-pure")
    return shutil.which("graphviz-pure") or (str(beside) if beside.exists() else None)


def _title(verdicts: Sequence[Any], title: str) -> str:
    """The handoffs' names, in lines."""
    import textwrap

    import graphviz

    told = title or ", ".join(short(v.handoff) for v in verdicts)
    return str(graphviz.escape("\n".join(textwrap.wrap(printable(told), 2 * _WIDE))))


def _source(text: str) -> str:
    return text.removeprefix("modelled: ")


def _buffer(leg: Leg, words: str) -> Unit:
    storage = leg.handoff.writer.storage
    size = leg.again_bytes or getattr(storage, "bytes", None)
    return (
        f"{leg.name} in {words}",
        str(storage),
        f"{size} bytes" if size else "",
        str(leg.handoff.tile),
    )


def _shape(where: Tensor | str) -> Unit:
    """A tensor's extents, where they are known."""
    return () if isinstance(where, str) else (f"{' x '.join(map(str, where.shape))}, {where.bits}-bit",)


def _why(verdict: Any) -> str:
    """The first counterexample, or why a claim is not decided."""
    for claim in verdict.claims:
        if claim.verdict != "proved":
            return claim.witness.message if claim.witness else str(claim.why)
    return ""


def wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(printable(text), _WIDE, break_on_hyphens=False) if text else []
