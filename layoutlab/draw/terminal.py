"""Text: a picture for a terminal, as wide as it is told.

>>> panel = Panel("tile", "1 x 3 tile", 1, 3, [0, 1, NOTHING], ((("T", "thread"),), (("V", "value"),)))
>>> print(to_text(Picture("", {"thread": [5, 6], "value": [0, 7]}, [panel])), end="")
1 x 3 tile
  T5 V0  T6 V7      .

Columns that do not fit are left out in the middle, and rows beyond the height: the first and the last ones stay.
"""

from __future__ import annotations

from layoutlab.draw.picture import NOTHING, WRONG, Axis, Panel, Picture, printable

GAP = "…"
LEAST = 20  # columns of a terminal


def to_text(picture: Picture, width: int = 100, height: int = 40) -> str:
    """The picture as lines of at most `width` characters, each panel with at most `height` rows."""
    width = max(width, LEAST)
    parts = ["\n".join(_wrapped(note, width)) for note in (picture.title, *picture.notes) if note]
    parts += [_panel(picture, panel, width, height) for panel in picture.panels]
    wrong = picture.items.get(WRONG)
    if wrong and any(wrong):
        said = f"! marks the {sum(wrong)} of {len(wrong)} elements that are not where they are read"
        parts.append("\n".join(_wrapped(said, width)))
    parts += ["\n".join(_wrapped(f"→ {arrow.text}", width)) for arrow in picture.arrows if arrow.text]
    return "\n\n".join(parts) + "\n"


def _panel(picture: Picture, panel: Panel, width: int, height: int) -> str:
    """Title, headings and cells of one panel."""
    wrong = picture.items.get(WRONG)
    texts = [" ".join(lines) for lines in zip(*panel.line_texts(picture.items), strict=True)]
    if wrong:
        texts = [f"!{t}" if wrong[i] == 1 else t for i, t in enumerate(texts)]
    rows = _ends(panel.rows, height)
    heads = _headings(panel.row_axis, rows)
    left = max(map(len, (*heads, panel.row_axis.name, panel.col_axis.name if panel.col_axis.bands else "")))
    cols = _ends(panel.cols, panel.cols)
    for _ in range(2):  # the cells that are left out may have been the widest
        wide = _widest(panel, texts, rows, cols)
        cols = _ends(panel.cols, max((width - left) // (wide + 2), 2))
        if len(cols) == panel.cols:
            break
    out = _wrapped(panel.title, width)
    bands = {b.start: b.text for b in panel.col_axis.bands}
    if bands:
        out.append(
            _line("", left, [bands.get(c, "") if c is not None else GAP for c in cols], wide, panel.col_axis.name)
        )
    if panel.col_axis.labels:
        out.append(_line(panel.row_axis.name, left, _headings(panel.col_axis, cols), wide))
    for head, row in zip(heads, rows, strict=True):
        if row is None:
            out.append(_line(GAP, left, [GAP] * len(cols), wide))
            continue
        cells = [NOTHING if c is None else panel.cells[row * panel.cols + c] for c in cols]
        words = [GAP if c is None else texts[i] if i != NOTHING else "." for c, i in zip(cols, cells, strict=True)]
        out.append(_line(head, left, words, wide))
    return "\n".join(line[:width].rstrip() for line in out)


def _widest(panel: Panel, texts: list[str], rows: list[int | None], cols: list[int | None]) -> int:
    seen = {panel.cells[r * panel.cols + c] for r in rows if r is not None for c in cols if c is not None} - {NOTHING}
    labels = [h for h in _headings(panel.col_axis, cols)] + [b.text for b in panel.col_axis.bands]
    return max(map(len, (*(texts[i] for i in seen), *labels)), default=1)


def _headings(axis: Axis, kept: list[int | None]) -> list[str]:
    return [GAP if i is None else axis.labels[i] if i < len(axis.labels) else "" for i in kept]


def _line(head: str, left: int, words: list[str], wide: int, before: str = "") -> str:
    return f"{head or before:>{left}}" + "".join(f"  {w:>{wide}}" for w in words)


def _ends(count: int, most: int) -> list[int | None]:
    """All indices, or the first ones, a gap, and the last one.

    >>> _ends(3, 3), _ends(100, 4)
    ([0, 1, 2], [0, 1, None, 99])
    """
    if count <= most:
        return list(range(count))
    return [*range(max(most - 2, 1)), None, count - 1]


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(printable(text), width, break_long_words=True) or [""]
