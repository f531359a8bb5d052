"""HTML: a picture as one page that answers back, with nothing to load.

The page holds the table of items and the panels' grids as numbers, and draws what is in view on canvases. Hovering or
clicking a cell lights up its thread, value, bank, byte or element in every panel; the state is in the URL's fragment,
so that a view can be sent; everything is reachable by keyboard and spoken to screen readers.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from sys import byteorder
from typing import Any

from layoutlab.draw.palette import PALETTES, palette
from layoutlab.draw.picture import Axis, Panel, Picture, printable
from layoutlab.errors import LayoutError

_OWN = ("element",)  # columns that the page makes itself


def to_html(picture: Picture, colours: str = "safe") -> str:
    """The picture as the text of a self-contained HTML page.

    >>> panel = Panel("tile", "a tile", 1, 1, [0], ((("T", "thread"),),))
    >>> "<script>" in to_html(Picture("one cell", {"thread": [5]}, [panel]))
    True
    """
    here = files("layoutlab.draw")
    text = json.dumps(_data(picture, palette(colours).name), separators=(",", ":")).replace("</", "<\\/")
    notes = "".join(f"<p>{_escape(note)}</p>" for note in picture.notes)
    return _PAGE.format(
        title=_escape(picture.title),
        notes=notes,
        css=here.joinpath("page.css").read_text(),
        data=text,
        js=here.joinpath("page.js").read_text(),
    )


def _data(picture: Picture, colours: str) -> dict[str, Any]:
    coordinate = [c for c in picture.coordinate if c in picture.items]
    by = next((c for c in ("thread", *coordinate) if c in picture.items), next(iter(picture.items), ""))
    return {
        "count": len(picture),
        "columns": {name: _packed(values) for name, values in picture.items.items() if name not in _OWN},
        "coordinate": coordinate,
        "by": by,
        "bits": picture.bits,
        "words": picture.words,
        "colour": picture.colour or by,
        "coloured": [picture.colour] if picture.colour else [],
        "palette": colours,
        "palettes": {p.name: {"fills": p.fills, "wrong": p.wrong} for p in PALETTES.values()},
        "panels": [_panel(panel) for panel in picture.panels],
        "arrows": [[a.from_panel, a.from_cell, a.to_panel, a.to_cell, a.thin] for a in picture.arrows],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "name": panel.name,
        "title": panel.title,
        "rows": panel.rows,
        "cols": panel.cols,
        "cells": _packed([item + 1 for item in panel.cells]),
        "lines": panel.lines,
        "row": _axis(panel.row_axis),
        "col": _axis(panel.col_axis),
        "more": list(panel.more.items()),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "name": axis.name,
        "labels": list(axis.labels),
        "heavy": axis.heavy,
        "bands": [[b.start, b.count, b.text] for b in axis.bands],
    }


def _packed(values: Sequence[int]) -> tuple[str, str]:
    """The numbers as ("b" | "h" | "i" | "d", base64 of little-endian unsigned bytes, halves, signed words, doubles)."""
    low, high = min(values, default=0), max(values, default=0)
    kind, code = ("b", "B") if low >= 0 and high < 256 else ("h", "H") if low >= 0 and high < 1 << 16 else ("i", "i")
    if not -(1 << 31) <= low <= high < 1 << 31:
        if max(-low, high) > 1 << 53:
            far = high if high > 1 << 53 else low
            raise LayoutError(f"{far} is more than a page counts exactly (2^53): draw it as svg")
        kind, code = "d", "d"
    numbers = array(code, values)
    if byteorder == "big":
        numbers.byteswap()
    return kind, b64encode(numbers.tobytes()).decode()


def _escape(text: str) -> str:
    text = printable(text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
<h1>{title}</h1>
{notes}
<div class="tools" role="toolbar" aria-label="what is shown">
<label>Find <input type="search" id="search" placeholder="5,17 · T5 V17 · byte 674" aria-describedby="live"></label>
<label>Light up by <select id="by"></select></label>
<label>Colour <select id="colour"></select></label>
<label>Warp <select id="warp"></select></label>
<label>Instruction <select id="instruction"></select></label>
<label>Palette <select id="palette"></select></label>
<span><button type="button" id="zoom-out" aria-label="zoom out">−</button>
<button type="button" id="zoom-in" aria-label="zoom in">+</button></span>
<button type="button" id="clear">Clear</button>
</div>
<div class="legend" id="legend"></div>
<div class="page" id="page">
<main class="panels" id="panels"></main>
<aside class="facts" aria-label="the element under the cursor">
<h2>Element</h2>
<dl id="facts"></dl>
<p id="live" role="status" aria-live="polite"></p>
<p id="keys"><kbd>Tab</kbd> to a panel, arrows move, <kbd>Enter</kbd> lights up, <kbd>Esc</kbd> clears, <kbd>+</kbd>
<kbd>−</kbd> zoom, <kbd>/</kbd> finds; <kbd>t</kbd> <kbd>v</kbd> <kbd>w</kbd> <kbd>b</kbd> <kbd>a</kbd> <kbd>e</kbd>:
by thread, value, warp, bank, address, element. Hover or click headings too. The address bar holds the view.</p>
</aside>
<svg class="arrows" id="arrows" aria-hidden="true"></svg>
</div>
<script type="application/json" id="data">{data}</script>
<script>
{js}</script>
</body>
</html>
"""
