"""SVG: a picture as one file that any browser, README or paper shows.

Cells of one colour are one path, merged along rows and down columns; a row or a column of labels that occurs again is
`<use>`d. A 128 x 128 ownership grid is so from 50 kB, where rows repeat, to 950 kB, where owners have no order at all,
written in well under 0.3 s without any library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from zlib import crc32

from layoutlab.draw.palette import Palette, palette
from layoutlab.draw.picture import NOTHING, WRONG, Arrow, Band, Panel, Picture, printable
from layoutlab.draw.routes import Point, in_from, out_to_the_right, within, without_repeats

SIZE = 8  # of the labels, in px
LETTER = 0.602 * SIZE  # the advance of a monospaced letter: DejaVu Sans Mono and Menlo have 0.602 em, others less
LINE = 10  # px from one line of a label to the next
PAD = 2  # px between a label and its cell's edge
MARGIN = 16
HEAD = 13  # px for a row of headings
TITLE = 14
CAPTION = 10
GAP = 44  # px between panels
CORE = 2  # px of an arrow's line, which has the room between two cells' labels
HALO = 6
SWATCHES = 8  # of the legend
NARROWEST = 420  # px: captions need some room
WIDE = 1600  # px: sheets that are so many times wider have captions so many times larger
FONT = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace"


def to_svg(picture: Picture, colours: str = "safe") -> str:
    """The picture as the text of an SVG file.

    >>> panel = Panel("tile", "a tile", 1, 1, [0], ((("T", "thread"),),))
    >>> to_svg(Picture("one cell", {"thread": [5]}, [panel])).startswith("<svg xmlns=")
    True
    """
    return _Drawing(picture, palette(colours)).text()


@dataclass(frozen=True)
class _Frame:
    """Where a panel lies: its corner, the corner of its cells, the size of one cell; all in px."""

    panel: Panel
    x: int
    y: int
    left: int  # from x to the cells
    top: int  # from y to the cells
    width: int  # of a cell
    height: int
    title: int  # px that the title takes

    @property
    def right(self) -> int:
        return self.x + max(self.left + self.panel.cols * self.width, self.title + 4) + 2

    @property
    def bottom(self) -> int:
        foot = 2 * HEAD if self.panel.col_axis.foot else 0
        return self.y + self.top + self.panel.rows * self.height + foot + 2

    def on_sheet(self, points: Sequence[Point]) -> list[Point]:
        """(columns, rows) of the panel as px of the sheet."""
        x, y = self.x + self.left, self.y + self.top
        return [(x + col * self.width, y + row * self.height) for col, row in points]


class _Drawing:
    """One picture being written."""

    def __init__(self, picture: Picture, colours: Palette) -> None:
        self.picture, self.colours = picture, colours
        self.kinds = picture.classes()
        self.texts = {panel.name: panel.line_texts(picture.items) for panel in picture.panels}
        self.letters = {panel.name: self._letters(panel) for panel in picture.panels}
        self.shared = 0  # rows of labels named so far
        self.scale = 1  # of the captions
        told = repr(
            (picture.title, picture.notes, picture.colour, len(picture), [p.cells[:512] for p in picture.panels])
        )
        self.key = f"ll{crc32(told.encode()):08x}"
        """Names and styles of this picture alone: a notebook shows several in one page."""

    def text(self) -> str:
        legend = legend_of(self.picture)
        self.scale = max(1, round(self._placed(0)[1] / WIDE))
        width = max(self._placed(0)[1] + MARGIN, NARROWEST)
        head, y = self._heading(legend, width)
        frames, _, bottom = self._placed(y)
        fills = [part for frame in frames for part in self._ground(frame)]
        body = [part for frame in frames for part in self._panel(frame)]
        by_name = {frame.panel.name: frame for frame in frames}
        routes = [(arrow, self._route(arrow, by_name)) for arrow in self.picture.arrows]
        width = max([width, *(round(x) + MARGIN // 2 for _, route in routes for x, _ in route)])
        height = bottom + MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
                f' viewBox="0 0 {width} {height}" role="img" class="{self.key}">',
                f"<title>{_escape(self.picture.title)}</title>",
                f"<desc>{_escape(' '.join(self.picture.notes) or self.picture.title)}</desc>",
                self._style(),
                f'<rect width="{width}" height="{height}" fill="#fff"/>',
                *fills,
                *(self._halo(arrow, route) for arrow, route in routes),
                *head,
                *body,
                *(part for arrow, route in routes for part in self._arrow(arrow, route, by_name)),
                "</svg>\n",
            ]
        )

    # -- the sheet ----------------------------------------------------------------------------------------------------

    def _style(self) -> str:
        line, heavy, wrong = self.colours.line, self.colours.heavy, self.colours.wrong
        rules = {
            ".t": f"font-size:{TITLE * self.scale}px;font-weight:bold;text-anchor:start",
            ".c": f"font-size:{CAPTION * self.scale}px;text-anchor:start",
            ".p": f"font-size:{CAPTION * self.scale}px;font-weight:bold;text-anchor:start",
            ".h": "fill:#555",
            ".r": "text-anchor:end",
            ".l": "text-anchor:start",
            ".s": f"stroke:{line};stroke-width:.5",
            ".g": f"stroke:{line};stroke-width:.5;fill:none",
            ".G": f"stroke:{heavy};stroke-width:1.2;fill:none",
            ".w": f"stroke:{wrong};stroke-width:1",
            ".a": f"stroke:{wrong};stroke-width:{CORE};fill:none;marker-end:url(#{self.key}-head)",
            ".n": "stroke-width:1;stroke-dasharray:4 3",
            ".f": f"stroke:{wrong};stroke-width:{CORE};fill:none",
            ".u": f"stroke:{wrong};stroke-width:{HALO * self.scale};stroke-opacity:{self.colours.halo};fill:none",
            ".v": f"marker-end:url(#{self.key}-halo)",
        }
        # Inherited, not matched: no selector reaches from here into what a <use> repeats.
        scoped = f".{self.key}{{font:{SIZE}px {FONT};text-anchor:middle}}"
        scoped += "".join(f".{self.key} {selector}{{{rule}}}" for selector, rule in rules.items())
        heads = (
            (f"{self.key}-head", 10, 2 * CORE, 1),
            (f"{self.key}-halo", 14 * self.scale, 12 * self.scale, self.colours.halo),
        )
        markers = "".join(
            f'<marker id="{name}" markerUnits="userSpaceOnUse" markerWidth="{long}" markerHeight="{wide}" refX="{long}"'
            f' refY="{wide / 2:g}" orient="auto"><path d="M0 0L{long} {wide / 2:g}L0 {wide}z" fill="{wrong}"'
            f' fill-opacity="{opacity}"/></marker>'
            for name, long, wide, opacity in heads
        )
        return f"<style>{scoped}</style>" + (f"<defs>{markers}</defs>" if self.picture.arrows else "")

    def _heading(self, legend: list[tuple[int | str, str]], width: int) -> tuple[list[str], int]:
        """Title, notes and legend, and the y where the panels begin."""
        n = self.scale
        out, y = [], MARGIN + (TITLE - 2) * n
        for line in _wrapped(self.picture.title, width - 2 * MARGIN, TITLE * n):
            out.append(f'<text class="t" x="{MARGIN}" y="{y}">{_escape(line)}</text>')
            y += (TITLE + 3) * n
        for note in self.picture.notes:
            for line in _wrapped(note, width - 2 * MARGIN, CAPTION * n):
                out.append(f'<text class="c" x="{MARGIN}" y="{y}">{_escape(line)}</text>')
                y += 13 * n
        x = MARGIN
        if legend:
            y += 2 * n
        for kind, text in legend:
            wide = 26 * n + _wide(text, CAPTION * n)
            if x > MARGIN and x + wide > width - MARGIN:
                x, y = MARGIN, y + 15 * n
            out += self._swatch(kind, x, y)
            out.append(f'<text class="c" x="{x + (0 if kind == "text" else 16 * n)}" y="{y}">{_escape(text)}</text>')
            x += wide
        return out, y + 14 * n

    def _swatch(self, kind: int | str, x: int, y: int) -> list[str]:
        """A legend's square: a class's colour, or the mark of a wrong element."""
        n, top = 11 * self.scale, y - 9 * self.scale
        if isinstance(kind, int):
            fill = self.colours.fill(kind)
            return [f'<rect x="{x}" y="{top}" width="{n}" height="{n}" fill="{fill}" class="s"/>']
        if kind == "wrong":
            return [
                f'<rect x="{x}" y="{top}" width="{n}" height="{n}" fill="none" class="w"/>',
                f'<path d="M{x + n // 2} {top}h{n - n // 2}v{n - n // 2}z" fill="{self.colours.wrong}"/>',
            ]
        return []

    def _placed(self, y: int) -> tuple[list[_Frame], int, int]:
        """The panels beside or below each other, whichever is the better sheet; the right and bottom edge."""
        tried = []
        for beside in (True, False):
            frames, x, top = [], MARGIN, y
            for panel in self.picture.panels:
                frame = self._frame(panel, x, top)
                frames.append(frame)
                x, top = (frame.right + GAP, y) if beside else (MARGIN, frame.bottom + GAP // 2)
            right, bottom = max(f.right for f in frames), max(f.bottom for f in frames)
            tried.append((max(right / 4, (bottom - y) / 3), frames, right, bottom))
        return min(tried, key=lambda t: t[0])[1:]

    def _frame(self, panel: Panel, x: int, y: int) -> _Frame:
        width = max(round(self.letters[panel.name] * LETTER + 2 * PAD + 1), 10)
        heads = max((len(h) for h in panel.col_axis.labels), default=0)
        width = max(width, round(heads * LETTER + 3))
        width += width % 2  # so that a label's middle is a whole number, which is shorter
        for band in (*panel.col_axis.bands, *panel.col_axis.foot):
            width = max(width, -(-round(len(band.text) * LETTER + 4) // band.count))
        height = max(len(panel.lines) * LINE + 2 * PAD, 12)
        rows = max((len(h) for h in panel.row_axis.labels), default=0)
        bands = max((len(b.text) for b in panel.row_axis.bands), default=0)
        rows_name = len(panel.row_axis.name) + 2 if panel.row_axis.name else 0
        left = max(
            round(rows * LETTER + 5) + (round(bands * LETTER + 8) if bands else 0), round(rows_name * LETTER + 5)
        )
        top = 16 * self.scale + HEAD * (
            bool(panel.col_axis.bands) + bool(panel.col_axis.labels) + bool(panel.col_axis.name)
        )
        return _Frame(panel, x, y, left, top, width, height, _wide(panel.title, CAPTION * self.scale))

    def _letters(self, panel: Panel) -> int:
        """The letters of the widest label."""
        return max((max(map(len, texts), default=0) for texts in self.texts[panel.name]), default=0)

    # -- one panel ----------------------------------------------------------------------------------------------------

    def _ground(self, f: _Frame) -> Iterator[str]:
        """What lies under the labels and the arrows."""
        body = "".join([*self._fills(f), *self._marks(f)])
        yield f'<g transform="translate({f.x + f.left} {f.y + f.top})">{body}</g>'

    def _panel(self, f: _Frame) -> Iterator[str]:
        panel = f.panel
        x0, y0 = f.x + f.left, f.y + f.top
        yield f'<text class="p" x="{f.x}" y="{f.y + 10 * self.scale}">{_escape(panel.title)}</text>'
        yield from self._axes(f)
        yield f'<g id="{self.key}-{panel.name}" data-cell="{f.width} {f.height}" transform="translate({x0} {y0})">'
        yield from self._labels(f)
        yield f'<path class="g" d="{_grid(panel, f)}"/>'
        heavy = _heavy(panel, f)
        if heavy:
            yield f'<path class="G" d="{heavy}"/>'
        yield "</g>"

    def _fills(self, f: _Frame) -> Iterator[str]:
        """A path for each colour, in units of cells: blocks of equal rows as rectangles, other runs as thick lines."""
        fills = len(self.colours.fills)
        kinds = [NOTHING if item == NOTHING else self.kinds[item] % fills for item in f.panel.cells]
        blocks: dict[int, list[str]] = {}
        lines: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for kind, row, col, tall, wide in _areas(f.panel, kinds):
            if kind == NOTHING:
                continue
            if tall > 1:
                blocks.setdefault(kind, []).append(f"M{col} {row}h{wide}v{tall}h-{wide}z")
            else:
                lines.setdefault(kind, {}).setdefault(row, []).append((col, wide))
        paths = []
        for kind in sorted(blocks.keys() | lines.keys()):
            colour = self.colours.fill(kind)
            if kind in blocks:
                paths.append(f'<path fill="{colour}" d="{"".join(blocks[kind])}"/>')
            if kind in lines:
                runs = "".join(_dashes(row, lines[kind][row]) for row in sorted(lines[kind]))
                paths.append(f'<path stroke="{colour}" d="{runs}"/>')
        yield f'<g transform="scale({f.width} {f.height})">{"".join(paths)}</g>'

    def _marks(self, f: _Frame) -> Iterator[str]:
        """Wrong elements: a triangle in the corner of each cell, and a line around them all."""
        wrong = self.picture.items.get(WRONG)
        if not wrong:
            return
        marked = [int(item != NOTHING and wrong[item] == 1) for item in f.panel.cells]
        areas = [area[1:] for area in _areas(f.panel, marked) if area[0]]
        if areas:
            w, h = f.width, f.height
            outline = "".join(f"M{c * w} {r * h}h{wide * w}v{tall * h}h-{wide * w}z" for r, c, tall, wide in areas)
            corner = f"M{f.width - 6} 0h6v6z"
            name = f"{self.key}-w-{f.panel.name}"
            yield (
                f'<pattern id="{name}" width="{f.width}" height="{f.height}" patternUnits="userSpaceOnUse">'
                f'<path d="{corner}" fill="{self.colours.wrong}"/></pattern>'
                f'<path class="w" fill="url(#{name})" d="{outline}"/>'
            )

    def _labels(self, f: _Frame) -> Iterator[str]:
        """Each line of the labels by rows or by columns, whichever repeat more; one that was written is used again."""
        panel = f.panel
        first = (f.height - len(panel.lines) * LINE) / 2 + LINE - 2.5
        xs = [f"{(col + 0.5) * f.width:g}" for col in range(panel.cols)]
        for number, texts in enumerate(self.texts[panel.name]):
            weight = ' font-weight="bold"' if number == 0 and len(panel.lines) > 1 else ""
            words = [texts[item] if item >= 0 else "" for item in panel.cells]
            rows = [tuple(words[i : i + panel.cols]) for i in range(0, len(words), panel.cols)]
            cols = [tuple(words[i :: panel.cols]) for i in range(panel.cols)]
            ys = [f"{row * f.height + first + number * LINE:g}" for row in range(panel.rows)]
            if _letters_of(cols) < _letters_of(rows):
                yield from self._shared(cols, xs, ys, ("{} 0", "x", "y"), weight)
            else:
                yield from self._shared(rows, ys, xs, ("0 {}", "y", "x"), weight)

    def _shared(
        self, series: Sequence[tuple[str, ...]], at: list[str], along: list[str], how: tuple[str, str, str], weight: str
    ) -> Iterator[str]:
        """Rows (or columns) of texts, `at` saying where each one is and `along` where its texts are."""
        move, place, step = how
        written: dict[tuple[str, ...], str] = {}
        for texts, where in zip(series, at, strict=True):
            if texts in written:
                yield f'<use href="#{written[texts]}" {place}="{where}"/>'
                continue
            body = "".join([f'<text {step}="{x}">{text}</text>' for x, text in zip(along, texts, strict=True) if text])
            if body:
                self.shared += 1
                written[texts] = name = f"{self.key}-{self.shared}"
                yield f'<g transform="translate({move.format(where)})"><g id="{name}"{weight}>{body}</g></g>'

    def _axes(self, f: _Frame) -> Iterator[str]:
        panel, x0, y0 = f.panel, f.x + f.left, f.y + f.top
        cols, rows = panel.col_axis, panel.row_axis
        y = y0 - 3
        for col, text in enumerate(cols.labels):
            if text:
                yield f'<text class="h" x="{x0 + (col + 0.5) * f.width:g}" y="{y}">{_escape(text)}</text>'
        y -= HEAD * bool(cols.labels)
        yield from self._bands(cols.bands, x0, y, f.width)
        y -= HEAD * bool(cols.bands)
        if cols.name:
            yield f'<text class="h l" x="{x0}" y="{y}">{_escape(cols.name)} →</text>'
        if rows.name:
            yield f'<text class="h r" x="{x0 - 4}" y="{y}">{_escape(rows.name)} ↓</text>'
        foot = y0 + panel.rows * f.height + HEAD - 3
        yield from self._bands(cols.foot, x0, foot, f.width)
        for row, text in enumerate(rows.labels):
            if text:
                y_row = y0 + (row + 0.5) * f.height + 3
                yield f'<text class="h r" x="{x0 - 4}" y="{y_row:g}">{_escape(text)}</text>'
        wide = max((len(h) for h in rows.labels), default=0)
        x = x0 - round(wide * LETTER + 8)
        for band in rows.bands:
            y_band = y0 + (band.start + band.count / 2) * f.height + 3
            yield f'<text class="h r" x="{x}" y="{y_band:g}">{_escape(band.text)}</text>'

    def _bands(self, bands: Sequence[Band], x0: int, y: int, width: int) -> Iterator[str]:
        for band in bands:
            x = x0 + (band.start + band.count / 2) * width
            yield f'<text class="h" x="{x:g}" y="{y}">{_escape(band.text)}</text>'

    # -- arrows -------------------------------------------------------------------------------------------------------

    def _route(self, arrow: Arrow, frames: dict[str, _Frame]) -> list[Point]:
        """The arrow's way on the sheet: along the lines between cells, and between panels through the gaps."""
        start, end = frames[arrow.from_panel], frames[arrow.to_panel]
        if start is end:
            return start.on_sheet(within(start.panel.cols, arrow.from_cell, arrow.to_cell))
        leave = start.on_sheet(out_to_the_right(start.panel.cols, arrow.from_cell))
        beside = end.x > start.x
        turn = end.x - GAP // 2 if beside else max(start.right, end.right) + MARGIN // 2
        side = "left" if beside else "right"
        line = _free_line(end, arrow.to_cell // end.panel.cols)
        arrive = end.on_sheet(in_from(side, end.panel.cols, arrow.to_cell, line))
        return [*leave, (turn, leave[-1][1]), (turn, arrive[0][1]), *arrive]

    def _halo(self, arrow: Arrow, route: Sequence[Point]) -> str:
        """What makes an arrow seen from afar; it lies under the labels."""
        return "" if arrow.thin else f'<path class="u v" d="{_polyline(route)}"/>'

    def _arrow(self, arrow: Arrow, route: Sequence[Point], frames: dict[str, _Frame]) -> Iterator[str]:
        for frame, cell in ((frames[arrow.from_panel], arrow.from_cell), (frames[arrow.to_panel], arrow.to_cell)):
            row, col = divmod(cell, frame.panel.cols)
            (left, top), *_ = frame.on_sheet([(col, row)])
            yield f'<rect class="f" x="{left:g}" y="{top:g}" width="{frame.width}" height="{frame.height}"/>'
        said = f"<title>{_escape(arrow.text)}</title>" if arrow.text else ""
        yield f'<path class="{"a n" if arrow.thin else "a"}" d="{_polyline(route)}">{said}</path>'


def _free_line(frame: _Frame, row: int) -> int:
    """The upper or lower line of a row, which no band's name beside the panel is at; headings stand on the first."""
    middles = [band.start + band.count / 2 for band in frame.panel.row_axis.bands]
    return row if row and all(abs(row - middle) * frame.height > LINE for middle in middles) else row + 1


def _polyline(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in without_repeats(points))


def legend_of(picture: Picture) -> list[tuple[int | str, str]]:
    """(class, text) of what a reader needs to know; instead of a class "text" stands for none, "wrong" for the mark."""
    out: list[tuple[int | str, str]] = []
    kinds = sorted(set(picture.classes()))
    if len(kinds) > 1:
        out.append(("text", f"colour: {picture.words.get(picture.colour) or picture.colour}"))
        out += [(kind, "none" if kind == NOTHING else str(kind)) for kind in kinds[:SWATCHES]]
        if len(kinds) > SWATCHES:
            out.append(("text", f"… {kinds[-1]}, in turn"))
    wrong = picture.items.get(WRONG)
    if wrong and any(wrong):
        out.append(("wrong", f"wrong: {sum(wrong)} of {len(wrong)}"))
    return out


def _areas(panel: Panel, kinds: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
    """(kind, row, column, rows, columns): runs along a row, and equal runs of neighbouring rows as one area."""
    open_: dict[tuple[int, int, int], int] = {}  # (first column, columns, kind) -> the row where it began
    areas: list[tuple[int, int, int, int, int]] = []
    for row in range(panel.rows + 1):
        runs: set[tuple[int, int, int]] = set()
        if row < panel.rows:
            col = 0
            for kind, group in groupby(kinds[row * panel.cols : (row + 1) * panel.cols]):
                count = sum(1 for _ in group)
                runs.add((col, count, kind))
                col += count
        for run in [r for r in open_ if r not in runs]:
            began = open_.pop(run)
            areas.append((run[2], began, run[0], row - began, run[1]))
        for run in runs:
            open_.setdefault(run, row)
    return sorted(areas)


def _dashes(row: int, runs: Sequence[tuple[int, int]]) -> str:
    """A line as thick as the row, in pieces: (column, columns) of each.

    >>> _dashes(5, [(0, 1), (4, 2)])
    'M0 5.5h1m3 0h2'
    """
    out, end = [], 0
    for number, (col, wide) in enumerate(runs):
        out.append(f"m{col - end} 0h{wide}" if number else f"M{col} {row}.5h{wide}")
        end = col + wide
    return "".join(out)


def _letters_of(series: Sequence[tuple[str, ...]]) -> int:
    """How many texts have to be written where equal series are written once."""
    return sum(sum(map(bool, texts)) for texts in set(series))


def _grid(panel: Panel, f: _Frame) -> str:
    """The thin lines between cells."""
    width, height = panel.cols * f.width, panel.rows * f.height
    across = "".join(f"M0 {row * f.height}h{width}" for row in range(panel.rows + 1))
    return across + "".join(f"M{col * f.width} 0v{height}" for col in range(panel.cols + 1))


def _heavy(panel: Panel, f: _Frame) -> str:
    """The heavy lines."""
    width, height = panel.cols * f.width, panel.rows * f.height
    across = "".join(f"M0 {row * f.height}h{width}" for row in panel.row_axis.heavy)
    return across + "".join(f"M{col * f.width} 0v{height}" for col in panel.col_axis.heavy)


def _wide(text: str, size: int) -> int:
    """px that a caption takes."""
    return round(len(text) * 0.602 * size * 1.01) + 1


def _wrapped(text: str, width: int, size: int) -> list[str]:
    """The text in lines that fit the width."""
    most = max(int(width / (0.602 * size * 1.01)), 10)
    lines, line = [], ""
    parts = [word[i : i + most] for word in text.split() for i in range(0, len(word), most)]
    for word in parts:
        if line and len(line) + 1 + len(word) > most:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


def _escape(text: str) -> str:
    text = printable(text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
