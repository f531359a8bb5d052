"""Starts: where the descriptors of an operand begin, a number for each, or a layout where their count is a symbol."""

from __future__ import annotations

from collections.abc import Sequence

from layoutlab.errors import LayoutError
from layoutlab.handoff.notation import read_layout
from layoutlab.layout import Layout

Starts = tuple[int, ...] | Layout
"""Where descriptors start, in bytes: a number for each, or a layout where their count is a symbol."""


def starts_of(given: Sequence[int] | Layout | str) -> Starts:
    """Starts as numbers, wherever they can be counted.

    >>> starts_of("(4,2):(32,16384)")
    (0, 32, 64, 96, 16384, 16416, 16448, 16480)
    """
    if not isinstance(given, (Layout, str)):
        return tuple(given)
    layout = read_layout(given, "starts_bytes")
    if not isinstance(layout, Layout) or layout.unknown() or layout.coordinate_valued():
        raise LayoutError(f"starts_bytes: {layout} is no layout of known integer strides")
    size = layout.size()
    return tuple(layout(i) for i in range(size)) if isinstance(size, int) and not layout.symbolic() else layout


def count_of(starts: Starts) -> int:
    """How many starts there are.

    >>> count_of((0, 32, 64))
    3
    """
    return starts.size() if isinstance(starts, Layout) else len(starts)  # type: ignore[return-value]
