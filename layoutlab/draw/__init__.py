"""Drawing: who owns what, where it lies, who reads it, readable at a glance.

>>> from layoutlab.layout import Layout
>>> print(draw(Layout((2, 3), (3, 1)), format="txt"), end="")
(2,3):(3,1)
<BLANKLINE>
2 x 3 coordinates, each its location
row  0  1  2
  0  0  1  2
  1  3  4  5

`picture_of` makes a picture of an object (`layoutlab.draw.subjects`), the formats make text of the picture: `svg`,
`html`, `txt`, `tex`. A handoff's or a whole kernel's graph is `layoutlab.draw.graph`.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from layoutlab.draw.items import Choice
from layoutlab.draw.picture import Picture
from layoutlab.draw.subjects import picture_of
from layoutlab.errors import LayoutError

__all__ = ["FORMATS", "Choice", "Picture", "draw", "picture_of", "rendered", "repr_svg"]

FORMATS = ("svg", "html", "txt", "tex")
NOTEBOOK_CELLS = 1 << 14
CORNER = (16, 32)
"""Rows and columns that a notebook shows of what has more cells."""


def draw(
    what: Any,
    path: str | PathLike[str] | None = None,
    *,
    format: str | None = None,
    palette: str = "safe",
    width: int = 100,
    **choice: Any,
) -> str:
    """The drawing of an object as text, written to `path` too where one is given; the suffix names the format.

    >>> from layoutlab.layout import Layout
    >>> draw(Layout((32, 4), (4, 1)), format="svg", tile=(32, 4))[:4]
    '<svg'

    `what` is a layout, a copy, an MMA, an instruction, a handoff, a verdict or a text; the keywords are `Choice`'s.
    Raises LayoutError for an unknown format, column or panel.
    """
    suffix = str(path).rpartition(".")[2].lower() if path is not None else "svg"
    text = rendered(picture_of(what, Choice(**choice)), format or suffix, palette, width)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def rendered(picture: Picture, format: str, palette: str = "safe", width: int = 100) -> str:
    """A picture in one of the FORMATS; only that one's module is imported."""
    if format == "svg":
        from layoutlab.draw.svg import to_svg

        return to_svg(picture, palette)
    if format == "html":
        from layoutlab.draw.html import to_html

        return to_html(picture, palette)
    if format == "tex":
        from layoutlab.draw.tikz import to_tikz

        return to_tikz(picture, palette)
    if format == "txt":
        from layoutlab.draw.terminal import to_text

        return to_text(picture, width)
    raise LayoutError(f"there is no format {format}: {', '.join(FORMATS)}, or gv and dot for a handoff's graph")


def repr_svg(what: Any) -> str | None:
    """What a notebook shows of an object: its SVG, of a large one a corner; None where it has none."""
    from dataclasses import replace

    try:
        picture = picture_of(what)
        if _cells(picture) > NOTEBOOK_CELLS:
            rows, cols = CORNER
            picture = picture_of(what, Choice(rows=(0, rows), cols=(0, cols)))
            said = f"the first {rows} rows and {cols} columns; layoutlab.draw.draw(...) draws them all"
            picture = replace(picture, notes=(*picture.notes, said))
    except LayoutError:
        return None
    return rendered(picture, "svg") if _cells(picture) <= NOTEBOOK_CELLS else None


def _cells(picture: Picture) -> int:
    return sum(panel.rows * panel.cols for panel in picture.panels)
