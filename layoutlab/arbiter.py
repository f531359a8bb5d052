"""Enumeration in bounded chunks: what decides where no table of digits can, and what the tables are tried against.

Indices are walked in counting order, the slowest axis first, as numpy arrays of at most `CHUNK` points; nothing grows
with the size of the whole.

>>> first_where({"t": 4, "v": 8}, lambda t, v: t * 8 + v >= 11)
({'t': 1, 'v': 3}, 32)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from layoutlab.errors import LayoutError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHUNK = 1 << 18
"""Points held at once."""

WINDOW = 1 << 22
"""Cells of memory looked at in one pass."""

LIMIT = 1 << 28
"""Points walked at most; a question that needs more is not decided."""


class TooLarge(LayoutError):
    """A question that would walk more points than the limit."""


def indices(axes: Mapping[str, int], limit: int | None = None) -> Iterator[dict[str, NDArray[np.int64]]]:
    """All indices in counting order, chunk by chunk.

    >>> [chunk["v"].tolist() for chunk in indices({"t": 2, "v": 2})]
    [[0, 1, 0, 1]]

    Raises TooLarge where there are more than the limit, LIMIT by default.
    """
    import numpy as np

    size, most = prod(axes.values()), LIMIT if limit is None else limit
    if size > most:
        raise TooLarge(f"{size} points are more than the {most} that enumeration walks")
    for start in range(0, size, CHUNK):
        flat = np.arange(start, min(start + CHUNK, size), dtype=np.int64)
        chunk, weight = dict[str, Any](), size
        for axis, extent in axes.items():
            weight //= extent
            chunk[axis] = flat // weight % extent
        yield chunk


def first_where(axes: Mapping[str, int], wrong: Callable[..., Any]) -> tuple[dict[str, int] | None, int]:
    """The first index for which `wrong` holds, and how many points were computed."""
    import numpy as np

    walked = 0
    for chunk in indices(axes):
        size = len(next(iter(chunk.values())))
        walked += size
        hits = np.broadcast_to(wrong(**chunk), (size,))
        if hits.any():
            at = int(hits.argmax())
            return {axis: int(index[at]) for axis, index in chunk.items()}, walked
    return None, walked


def count_where(axes: Mapping[str, int], holds: Callable[..., Any]) -> tuple[int, int]:
    """For how many indices something holds, and how many points were computed.

    >>> count_where({"t": 4, "v": 8}, lambda t, v: v == t)
    (4, 32)
    """
    import numpy as np

    total, walked = 0, 0
    for chunk in indices(axes):
        size = len(next(iter(chunk.values())))
        walked += size
        total += int(np.broadcast_to(holds(**chunk), (size,)).sum())
    return total, walked


def value_bounds(axes: Mapping[str, int], value: Callable[..., Any]) -> tuple[int, int]:
    """The lowest and the highest value.

    >>> value_bounds({"t": 4, "v": 8}, lambda t, v: t * 8 - v)
    (-7, 24)
    """
    import numpy as np

    found = [np.atleast_1d(value(**chunk)) for chunk in indices(axes)]
    return min(int(v.min()) for v in found), max(int(v.max()) for v in found)


def first_shared(
    axes: Mapping[str, int], place: Callable[..., Any], identity: Callable[..., Any], width: int
) -> tuple[tuple[dict[str, int], dict[str, int]] | None, int]:
    """The first index that takes a cell which a different element has already, that other index, and the points
    computed.

    >>> first_shared({"t": 4, "v": 2}, lambda t, v: (t % 3) * 16 + v * 8, lambda t, v: t * 2 + v, 8)
    (({'t': 3, 'v': 0}, {'t': 0, 'v': 0}), 16)

    Element i lies in cells place(i) to place(i) + width - 1. Points are walked once to find the range, and once more
    for each window of it.
    """
    import numpy as np

    low, high, grain, walked = _range(axes, place, width)
    cells = width // grain
    found: tuple[int, int] | None = None
    size, window = prod(axes.values()), min(WINDOW, -(-(high - low) // grain))
    for start in range(low, high, window * grain):
        if walked + size > LIMIT:
            raise TooLarge(f"a range of {high - low} cells needs more than {LIMIT} computed points")
        holder = np.full(window, -1, dtype=np.int64)  # index of the first element in each cell
        element = np.zeros(window, dtype=np.int64)
        before = 0
        for chunk in indices(axes):
            count = len(next(iter(chunk.values())))
            flat = np.repeat(np.arange(before, before + count), cells)
            at = np.broadcast_to(np.asarray(place(**chunk)), (count,))
            cell = ((at - start) // grain)[:, None] + np.arange(cells)
            who = np.repeat(np.broadcast_to(np.asarray(identity(**chunk)), (count,)), cells)
            cell = cell.reshape(-1)
            inside = (cell >= 0) & (cell < window)
            cell, who, flat = cell[inside], who[inside], flat[inside]
            fresh, first = np.unique(cell, return_index=True)
            free = holder[fresh] < 0
            holder[fresh[free]], element[fresh[free]] = flat[first[free]], who[first[free]]
            clash = element[cell] != who
            if clash.any():
                at_first = int(clash.argmax())
                pair = (int(flat[at_first]), int(holder[cell[at_first]]))
                found = min(found, pair) if found else pair
            before += count
            walked += count
    return (None if found is None else (_unflat(axes, found[0]), _unflat(axes, found[1]))), walked


def first_missing(
    wanted: Mapping[str, int], read: Callable[..., Any], axes: Mapping[str, int], place: Callable[..., Any], width: int
) -> tuple[dict[str, int] | None, int]:
    """The first index of `wanted` that reads a cell which nothing is placed in, and the points computed.

    >>> first_missing({"m": 4}, lambda m: m * 16, {"t": 4}, lambda t: t * 8, 8)
    ({'m': 2}, 16)
    """
    import numpy as np

    low, high, grain_read, walked = _range(wanted, read, width)
    _, _, grain_place, more = _range(axes, place, width)
    grain = int(np.gcd(np.gcd(grain_read, grain_place), _offset_between(wanted, read, axes, place)))
    walked += more
    found: int | None = None
    window = min(WINDOW, -(-(high - low) // grain))
    for start in range(low, high, window * grain):
        if walked + prod(axes.values()) + prod(wanted.values()) > LIMIT:
            raise TooLarge(f"a range of {high - low} cells needs more than {LIMIT} computed points")
        filled = np.zeros(window, dtype=bool)
        for chunk in indices(axes):
            cell = _cells(chunk, place, start, grain, width)
            filled[cell[(cell >= 0) & (cell < window)]] = True
            walked += len(cell)
        before = 0
        for chunk in indices(wanted):
            cell = _cells(chunk, read, start, grain, width)
            inside = (cell >= 0) & (cell < window)
            empty = (inside & ~filled[np.where(inside, cell, 0)]).any(axis=1)
            if empty.any():
                first = before + int(empty.argmax())
                found = first if found is None else min(found, first)
            before += len(cell)
            walked += len(cell)
    return (None if found is None else _unflat(wanted, found)), walked


def _range(axes: Mapping[str, int], place: Callable[..., Any], width: int) -> tuple[int, int, int, int]:
    """Lowest cell, one past the highest, the grain that all elements start and end on, and the points computed."""
    import numpy as np

    first, low, high, grain, walked = None, None, None, width, 0
    for chunk in indices(axes):
        at = np.atleast_1d(place(**chunk))
        first = int(at[0]) if first is None else first
        low = int(at.min()) if low is None else min(low, int(at.min()))
        high = int(at.max()) if high is None else max(high, int(at.max()))
        grain = int(np.gcd(grain, np.gcd.reduce(at - first)))  # of all chunks, from one and the same place on
        walked += len(next(iter(chunk.values())))
    assert low is not None and high is not None
    return low, high + width, grain, walked


def _offset_between(
    a: Mapping[str, int], place_a: Callable[..., Any], b: Mapping[str, int], place_b: Callable[..., Any]
) -> int:
    return abs(int(place_a(**dict.fromkeys(a, 0))) - int(place_b(**dict.fromkeys(b, 0))))


def _cells(chunk: Mapping[str, Any], place: Callable[..., Any], start: int, grain: int, width: int) -> Any:
    """The cells of each element of a chunk, one row each."""
    import numpy as np

    count = len(next(iter(chunk.values())))
    at = np.broadcast_to(np.asarray(place(**chunk)), (count,))
    return ((at - start) // grain)[:, None] + np.arange(width // grain)


def _unflat(axes: Mapping[str, int], flat: int) -> dict[str, int]:
    at, weight = dict[str, int](), prod(axes.values())
    for axis, extent in axes.items():
        weight //= extent
        at[axis] = flat // weight % extent
    return at
