"""Routes: an arrow's way along the lines between cells, so that it covers no label.

Points are (columns, rows) from a panel's first cell on, whole numbers being the lines between cells. An arrow starts at
the middle of an edge of its cell and arrives at a corner of the other one, both of which are framed.

>>> within(8, 0, 19)                                                # from row 0, column 0 to row 2, column 3
[(0.5, 1), (3, 1), (3, 2)]
"""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]


def within(cols: int, start: int, end: int) -> list[Point]:
    """From one cell of a panel to another: along the row's edge that is nearer, then along the other cell's column.

    >>> within(8, 0, 5), within(8, 16, 0), within(8, 5, 5)
    ([(0.5, 1), (5, 1)], [(0, 2.5), (0, 1)], [(5.5, 1), (6, 1)])
    """
    (r1, c1), (r2, c2) = divmod(start, cols), divmod(end, cols)
    if c1 == c2 and r1 != r2:
        return [(c1, r1 + 0.5), (c1, r2 if r2 > r1 else r2 + 1)]
    side = c2 if c2 > c1 else c2 + 1
    along = r1 if r2 < r1 else r1 + 1
    arrive = r2 if r2 > r1 else r2 + 1
    return without_repeats([(c1 + 0.5, along), (side, along), (side, arrive)])


def out_to_the_right(cols: int, cell: int) -> list[Point]:
    """From a cell to the right edge of its panel."""
    row, col = divmod(cell, cols)
    return [(col + 0.5, row + 1), (cols, row + 1)]


def in_from(side: str, cols: int, cell: int, row_line: int) -> list[Point]:
    """From the "left" or "right" edge of a panel along a line, the cell's upper or lower one, to the cell's corner."""
    col = cell % cols
    return [(0, row_line), (col, row_line)] if side == "left" else [(cols, row_line), (col + 1, row_line)]


def without_repeats(points: Sequence[Point]) -> list[Point]:
    """The points without those where nothing moves.

    >>> without_repeats([(0, 1), (0, 1), (3, 1)])
    [(0, 1), (3, 1)]
    """
    return [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
