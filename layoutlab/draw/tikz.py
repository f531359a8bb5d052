"""TikZ: a picture as a LaTeX document of its own, for papers.

Needs TikZ alone (`pdflatex FILE.tex`). Cells are squares of 1 cm by 0.6 cm before scaling; a run of one colour is one
rectangle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from layoutlab.draw.palette import Palette, palette
from layoutlab.draw.picture import NOTHING, WRONG, Arrow, Band, Panel, Picture, printable
from layoutlab.draw.routes import Point, in_from, out_to_the_right, within, without_repeats
from layoutlab.errors import LayoutError

HEIGHT = 0.6  # cm of a cell
LETTER = 0.17  # cm of a letter of a label
CORNER = 0.15  # cm of a wrong element's mark
GAP = 2.0  # cm between panels
MOST_NODES = 40_000  # TeX's memory ends not far beyond


def to_tikz(picture: Picture, colours: str = "safe") -> str:
    """The picture as a LaTeX document.

    >>> panel = Panel("tile", "a tile", 1, 1, [0], ((("T", "thread"),),))
    >>> "T5" in to_tikz(Picture("one cell", {"thread": [5]}, [panel]))
    True

    Raises LayoutError where the cells are more than TeX holds: choose some rows and columns.
    """
    nodes = sum(panel.rows * panel.cols for panel in picture.panels)
    if nodes > MOST_NODES:
        raise LayoutError(f"{nodes} cells are more than TeX holds ({MOST_NODES}): choose some rows and columns")
    return "\n".join(_document(picture, palette(colours)))


def _document(picture: Picture, colours: Palette) -> Iterator[str]:
    yield r"\documentclass[tikz,border=4pt]{standalone}"
    yield r"\usepackage[T1]{fontenc}"
    yield r"\usetikzlibrary{arrows.meta}"
    for i, fill in enumerate((*colours.fills, colours.wrong)):
        yield rf"\definecolor{{ll{i}}}{{HTML}}{{{_hex(fill)}}}"
    yield r"\begin{document}"
    yield r"\begin{tikzpicture}[x=1cm,y=-1cm,every node/.style={font=\ttfamily\scriptsize,inner sep=0pt}]"
    y = 0.0
    for text in (picture.title, *picture.notes):
        yield rf"\node[anchor=west,font=\ttfamily\small] at (0,{y:g}) {{{_escape(text)}}};"
        y += 0.5
    top: dict[str, tuple[float, float]] = {}
    for panel in picture.panels:
        y += 1.6
        wide = _width(picture, panel)
        top[panel.name] = (y, wide)
        yield from _panel(picture, panel, y, wide, colours)
        y += panel.rows * HEIGHT + GAP - 1.2
    wrong = len(colours.fills)
    right = max((picture.panel(name).cols * wide for name, (_, wide) in top.items()), default=0.0) + 0.4
    for arrow in picture.arrows:
        for name, cell in ((arrow.from_panel, arrow.from_cell), (arrow.to_panel, arrow.to_cell)):
            row, col = divmod(cell, picture.panel(name).cols)
            (x1, y1), (x2, y2) = _on_sheet([(col, row), (col + 1, row + 1)], *top[name])
            yield rf"\draw[thick,ll{wrong}] ({x1:g},{y1:g}) rectangle ({x2:g},{y2:g});"
        style = "thin,dashed" if arrow.thin else "thick"
        way = " -- ".join(f"({x:g},{y:g})" for x, y in without_repeats(_route(picture, arrow, top, right)))
        yield rf"\draw[-{{Stealth[width=3.5pt,length=7pt]}},{style},ll{wrong}] {way};"
    yield r"\end{tikzpicture}"
    yield r"\end{document}"
    yield ""


def _route(
    picture: Picture, arrow: Arrow, top: dict[str, tuple[float, float]], right: float
) -> list[tuple[float, float]]:
    """The arrow's way along the lines between cells; from panel to panel on the right of them all."""
    start, end = picture.panel(arrow.from_panel), picture.panel(arrow.to_panel)
    if start is end:
        return _on_sheet(within(start.cols, arrow.from_cell, arrow.to_cell), *top[start.name])
    leave = _on_sheet(out_to_the_right(start.cols, arrow.from_cell), *top[start.name])
    line = arrow.to_cell // end.cols or 1
    arrive = _on_sheet(in_from("right", end.cols, arrow.to_cell, line), *top[end.name])
    return [*leave, (right, leave[-1][1]), (right, arrive[0][1]), *arrive]


def _on_sheet(points: Sequence[Point], y: float, wide: float) -> list[Point]:
    """(columns, rows) of a panel in cm of the sheet."""
    return [(round(col * wide, 3), round(y + row * HEIGHT, 3)) for col, row in points]


def _panel(picture: Picture, panel: Panel, y: float, wide: float, colours: Palette) -> Iterator[str]:
    kinds, wrong = picture.classes(), picture.items.get(WRONG)
    fills = len(colours.fills)
    yield rf"\node[anchor=west,font=\ttfamily\footnotesize\bfseries] at (0,{y - 1.1:g}) {{{_escape(panel.title)}}};"
    for row in range(panel.rows):
        line = panel.cells[row * panel.cols : (row + 1) * panel.cols]
        yield from _runs(
            [NOTHING if i == NOTHING else kinds[i] % fills for i in line], y + row * HEIGHT, wide, "fill=ll{}"
        )
        if wrong:
            marked = [col for col, item in enumerate(line) if item != NOTHING and wrong[item] == 1]
            yield from _corners(marked, y + row * HEIGHT, wide, fills)
    right, bottom = panel.cols * wide, y + panel.rows * HEIGHT
    for col in range(panel.cols + 1):
        yield rf"\draw[gray,very thin] ({col * wide:g},{y:g}) -- ({col * wide:g},{bottom:g});"
    for row in range(panel.rows + 1):
        yield rf"\draw[gray,very thin] (0,{y + row * HEIGHT:g}) -- ({right:g},{y + row * HEIGHT:g});"
    yield rf"\draw (0,{y:g}) rectangle ({right:g},{bottom:g});"
    for col in panel.col_axis.heavy:
        yield rf"\draw[thick] ({col * wide:g},{y:g}) -- ({col * wide:g},{bottom:g});"
    for row in panel.row_axis.heavy:
        yield rf"\draw[thick] (0,{y + row * HEIGHT:g}) -- ({right:g},{y + row * HEIGHT:g});"
    for cell in range(panel.rows * panel.cols):
        words = panel.text(picture.items, cell)
        if words:
            x, middle = _centre(panel, cell, y, wide)
            yield rf"\node at ({x:g},{middle:g}) {{{_escape(' '.join(words))}}};"
    for col, text in enumerate(panel.col_axis.labels):
        yield rf"\node[gray] at ({(col + 0.5) * wide:g},{y - 0.2:g}) {{{_escape(text)}}};"
    yield from _bands(panel.col_axis.bands, y - (0.5 if panel.col_axis.labels else 0.2), wide)
    for row, text in enumerate(panel.row_axis.labels):
        yield rf"\node[gray,anchor=east] at (-0.1,{y + (row + 0.5) * HEIGHT:g}) {{{_escape(text)}}};"


def _runs(kinds: list[int], y: float, wide: float, style: str) -> Iterator[str]:
    col = 0
    for kind, group in groupby(kinds):
        count = sum(1 for _ in group)
        if kind != NOTHING:
            fill = style.format(kind)
            yield rf"\path[{fill}] ({col * wide:g},{y:g}) rectangle ({(col + count) * wide:g},{y + HEIGHT:g});"
        col += count


def _corners(cols: list[int], y: float, wide: float, colour: int) -> Iterator[str]:
    """A triangle in the corner of each cell."""
    for col in cols:
        x = (col + 1) * wide
        yield rf"\fill[ll{colour}] ({x - CORNER:g},{y:g}) -- ({x:g},{y:g}) -- ({x:g},{y + CORNER:g}) -- cycle;"


def _bands(bands: tuple[Band, ...], y: float, wide: float) -> Iterator[str]:
    for band in bands:
        yield rf"\node[gray] at ({(band.start + band.count / 2) * wide:g},{y:g}) {{{_escape(band.text)}}};"


def _width(picture: Picture, panel: Panel) -> float:
    labels = [" ".join(lines) for lines in zip(*panel.line_texts(picture.items), strict=True)]
    used = [labels[i] for i in panel.cells if i != NOTHING]
    letters = max(map(len, (*used, *panel.col_axis.labels)), default=1)
    return round(letters * LETTER + 0.15, 3)


def _centre(panel: Panel, cell: int, y: float, wide: float) -> tuple[float, float]:
    row, col = divmod(cell, panel.cols)
    return round((col + 0.5) * wide, 3), round(y + (row + 0.5) * HEIGHT, 3)


_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "^": r"\^{}", "#": r"\#", "%": r"\%", "&": r"\&",
    "$": r"\$", "~": r"\~{}", "<": "<", ">": ">", "⋮": r"$\vdots$", "…": r"\ldots{}", "→": r"$\to$", "·": r"$\cdot$",
    "×": r"$\times$", "✗": r"$\times$",
}  # fmt: skip


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in printable(text))


def _hex(colour: str) -> str:
    digits = colour.lstrip("#")
    return (digits if len(digits) == 6 else "".join(d * 2 for d in digits)).upper()
