"""Before and after: two panels with the same cells, one for each version, the cells that moved marked."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from layoutlab.draw.picture import WRONG, Axis, Line, Panel, Picture
from layoutlab.guard.change import Change
from layoutlab.guard.function import Function

WINDOW = 24
"""Rows and columns that are shown, around the first that moved."""


def change_picture(change: Change) -> Picture | None:
    """Where each index of a window went and goes; None where the two versions have no indices in common to show.

    >>> from layoutlab.guard.change import change_of
    >>> from layoutlab.guard.function import of_layout
    >>> from layoutlab.layout import Layout
    >>> change = change_of(of_layout("a", Layout((4, 2), (1, 4))), of_layout("a", Layout((4, 2), (2, 1))))
    >>> picture = change_picture(change)
    >>> [panel.text(picture.items, 1) for panel in picture.panels]
    [['4'], ['1']]
    """
    import numpy as np

    old, new, at = change.before, change.after, change.at
    if old is None or new is None or at is None:
        return None
    rows, cols = _grid(old)
    top, left = _start(rows, _row(old, at, rows, cols)), _start(cols, _col(old, at, rows, cols))
    height, width = min(WINDOW, rows - top), min(WINDOW, cols - left)
    cell = np.arange(height * width)
    r, c = top + cell // width, left + cell % width
    index = _index(old, r, c, rows)
    items: dict[str, Any] = {axis: value.tolist() for axis, value in index.items()}
    lines, moved = dict[str, tuple[Line, ...]](), np.zeros(len(r), dtype=bool)
    for when, f in (("before", old), ("after", new)):
        columns = list[tuple[str, str]]()
        for out, value in f.at(**index).items():
            name, shown = _shown(f, out, np.broadcast_to(np.asarray(value), r.shape))
            items[f"{when} {name}"] = shown.tolist()
            columns.append(("" if len(f.outputs) == 1 else f"{name}", f"{when} {name}"))
        lines[when] = tuple((column,) for column in columns)
    before, after = old.at(**index), new.at(**index)
    for out in before:
        moved |= np.broadcast_to(np.asarray(before[out]) != np.asarray(after[out]), r.shape)
    items[WRONG] = moved.astype(int).tolist()
    names = _axis_names(old)
    axes = (
        Axis(names[0], [str(top + i) for i in range(height)]),
        Axis(names[1], [str(left + i) for i in range(width)]),
    )
    panels = [
        Panel(when, f"{when}: {f.notation}"[:160], height, width, list(range(len(r))), lines[when], *axes)
        for when, f in (("before", old), ("after", new))
    ]
    return Picture(f"{change.name}: {change.kind}", items, panels, "", (str(change),), (), tuple(old.axes))


def write_picture(change: Change, path: Path) -> bool:
    """Writes the picture as SVG; whether there was one to write."""
    from layoutlab.draw.svg import to_svg

    picture = change_picture(change)
    if picture is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_svg(picture), encoding="utf-8")
    return True


def _grid(f: Function) -> tuple[int, int]:
    """Rows and columns: the first axis and the rest of them; of a flat index the first mode and the rest."""
    if list(f.axes) == ["i"]:
        rows = f.shape[0] if len(f.shape) > 1 else 1
        return rows, f.size // rows
    first, *rest = f.axes.values()
    return first, prod(rest)


def _row(f: Function, at: int, rows: int, cols: int) -> int:
    return at % rows if list(f.axes) == ["i"] else at // cols


def _col(f: Function, at: int, rows: int, cols: int) -> int:
    return at // rows if list(f.axes) == ["i"] else at % cols


def _start(extent: int, at: int) -> int:
    return 0 if extent <= WINDOW or at < WINDOW else min(at // 8 * 8, extent - WINDOW)


def _index(f: Function, r: Any, c: Any, rows: int) -> dict[str, Any]:
    if list(f.axes) == ["i"]:
        return {"i": r + c * rows}
    first, *rest = f.axes
    index, weight = {first: r}, prod(f.axes[axis] for axis in rest)
    for axis in rest:
        weight //= f.axes[axis]
        index[axis] = c // weight % f.axes[axis]
    return index


def _axis_names(f: Function) -> tuple[str, str]:
    if list(f.axes) == ["i"]:
        return "mode 0", "mode 1"
    first, *rest = f.axes
    words = {"t": "thread", "v": "value"}
    return words.get(first, first), ", ".join(words.get(axis, axis) for axis in rest)


def _shown(f: Function, out: str, value: Any) -> tuple[str, Any]:
    """Bits as bytes, or as columns of Tensor Memory."""
    if out != "bit":
        return out, value
    return ("column", value // 32) if "lane" in f.outputs else ("byte", value // 8)
