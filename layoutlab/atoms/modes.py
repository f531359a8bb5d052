"""Thread-value layouts from lists of (extent, stride): how the tables of this package write a fragment."""

from __future__ import annotations

from collections.abc import Sequence

from layoutlab.layout import Layout

Mode = tuple[int, int]
"""(extent, stride), fastest first."""


def thread_value(threads: Sequence[Mode], values: Sequence[Mode]) -> Layout:
    """(T, V) -> coordinate; modes of extent 1 are left out, and a group of one mode is not nested.

    >>> print(thread_value([(4, 32), (8, 1), (1, 16)], [(2, 16)]))
    ((4,8),2):((32,1),16)
    """
    groups = [[mode for mode in group if mode[0] != 1] or [(1, 0)] for group in (threads, values)]
    return Layout(*(tuple(_unwrapped([mode[i] for mode in group]) for group in groups) for i in (0, 1)))


def _unwrapped(items: list[int]) -> int | tuple[int, ...]:
    return items[0] if len(items) == 1 else tuple(items)
