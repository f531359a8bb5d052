"""Picture: linked panels over one table of items, which every format draws.

An *item* is one element as one thread holds it: a row of a table whose columns are named (thread, value, m, k, byte,
...). A *panel* is a grid in which each cell shows an item or nothing. Panels are linked because they share the items:
what lies in byte 144 of the memory panel is the same row of the table as T1 V0 in the tile panel.

>>> panel = Panel("tile", "a 1 x 2 tile", 1, 2, cells=[1, 0], lines=((("T", "thread"),),))
>>> picture = Picture("a pair", {"thread": [0, 1]}, [panel])
>>> panel.text(picture.items, 0)
['T1']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from layoutlab.errors import LayoutError

Items = dict[str, Sequence[int]]
"""column name -> one number for each item."""

Line = tuple[tuple[str, str], ...]
"""A line of a cell's label: (text before, column) pairs; (("", "m"), (",", "k")) is "5,17"."""

NOTHING = -1
WRONG = "wrong"
"""The column that marks an item: 1 where it is not where it is read."""

MOST_CELLS = 1 << 18
"""Cells that a panel may have; beyond, nobody can read it and no browser is smooth."""


@dataclass(frozen=True)
class Band:
    """A heading over `count` rows or columns from `start` on: a bank, an instruction's step."""

    start: int
    count: int
    text: str


@dataclass(frozen=True)
class Axis:
    """What the rows or the columns of a panel are: a name, a heading each, before which a heavy line stands, bands."""

    name: str = ""
    labels: Sequence[str] = ()
    heavy: tuple[int, ...] = ()
    bands: tuple[Band, ...] = ()
    foot: tuple[Band, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One grid. `cells` holds an item or NOTHING for each cell, row by row; `more` the further items of a cell."""

    name: str
    title: str
    rows: int
    cols: int
    cells: list[int]
    lines: tuple[Line, ...]
    row_axis: Axis = Axis()
    col_axis: Axis = Axis()
    more: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.cells) != self.rows * self.cols:
            raise LayoutError(f"{self.title}: {len(self.cells)} cells for {self.rows} rows of {self.cols}")

    def text(self, items: Items, cell: int) -> list[str]:
        """The lines of a cell's label; none where it is empty."""
        item = self.cells[cell]
        if item == NOTHING:
            return []
        return ["".join(f"{before}{items[column][item]}" for before, column in line) for line in self.lines]

    def line_texts(self, items: Items) -> list[list[str]]:
        """For each line its text for every item: the labels of all cells, made at once."""
        return [_line_texts(line, items) for line in self.lines]


@dataclass(frozen=True)
class Arrow:
    """From the middle of one cell to the middle of another; a thin one only leads the eye."""

    from_panel: str
    from_cell: int
    to_panel: str
    to_cell: int
    text: str
    thin: bool = False


@dataclass(frozen=True)
class Picture:
    """Panels side by side or one above the other, what colour means, and a few sentences."""

    title: str
    items: Items
    panels: list[Panel]
    colour: str = ""
    notes: tuple[str, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    coordinate: tuple[str, ...] = ()  # the columns that tell elements apart, in the order in which people say them
    bits: int = 0  # of an element; 0 where it does not matter
    words: dict[str, str] = field(default_factory=dict)  # column -> what people call it

    def __len__(self) -> int:
        return len(next(iter(self.items.values()), ()))

    def panel(self, name: str) -> Panel:
        """The panel of that name."""
        for panel in self.panels:
            if panel.name == name:
                return panel
        raise LayoutError(f"there is no panel {name}: {', '.join(p.name for p in self.panels)}")

    def classes(self) -> list[int]:
        """What is coloured alike, for each item: `thread`, or `k // 8` for eight columns at a time.

        >>> Picture("", {"k": [0, 7, 8]}, [], colour="k // 8").classes()
        [0, 0, 1]
        """
        if not self.colour:
            return [0] * len(self)
        return column(self.items, self.colour)

    def coloured(self, by: str) -> Picture:
        """The same picture, coloured by another column."""
        column(self.items, by)
        return replace(self, colour=by)


def column(items: Items, name: str) -> list[int]:
    """A column of the table, or its quotient or rest: "k // 8", "m % 16".

    >>> column({"k": [0, 7, 8]}, "k//8")
    [0, 0, 1]
    >>> column({"k": [0]}, "bank")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: there is no bank here: this picture knows k
    """
    m = re.fullmatch(r"\s*(\w+)\s*(?:(//|%)\s*([1-9]\d*)\s*)?", name)
    if not m:
        raise LayoutError(f"{name!r} is no column of this picture: thread, say, or k // 8, or m % 16")
    if m[1] not in items:
        raise LayoutError(f"there is no {m[1]} here: this picture knows {', '.join(items)}")
    values = items[m[1]]
    if m[2] is None:
        return list(values)
    number = int(m[3])
    return [v // number for v in values] if m[2] == "//" else [v % number for v in values]


def printable(text: str) -> str:
    """The text with a mark for each character that no file of text may hold: control characters, halves of pairs.

    >>> printable("a\\x07b") == "a\\ufffdb"
    True
    """
    return _UNPRINTABLE.sub("\ufffd", text)


_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def _line_texts(line: Line, items: Items) -> list[str]:
    if len(line) == 1:
        before, name = line[0]
        return [f"{before}{v}" for v in items[name]]
    parts = [[f"{before}{v}" for v in items[name]] for before, name in line]
    return ["".join(group) for group in zip(*parts, strict=True)]
