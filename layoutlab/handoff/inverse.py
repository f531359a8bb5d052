"""Inverse: from who holds which element to who holds an element, where each coordinate is a row of digits."""

from __future__ import annotations

from layoutlab.digits import ascending
from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Modes, Places, strided_places


def inverse(owner: Places) -> Places:
    """Coordinates -> (t, v), of an owner (t, v) -> coordinates; of several holders of an element the first.

    >>> fragment = strided_places({"t": [(4, 2), (8, 0)], "v": [(2, 1), (2, 0)]}, "k").beside(
    ...     strided_places({"t": [(4, 0), (8, 1)], "v": [(2, 0), (2, 8)]}, "m"))
    >>> inverse(fragment).at(m=9, k=5)                                 # row 9: thread row 1, second pair; k 5: column 2
    {'t': 6, 'v': 3}

    Raises LayoutError where some coordinate is no sum of digits, each of its own weight, without gaps.
    """
    inputs = {name: dict[str, Modes]() for name in owner.axes}
    for coordinate, row in owner.table.rows.items():
        digits, expected = list[tuple[int, int, str, int]](), 1
        for term, step in row.items():
            if len(term) != 1:
                raise LayoutError(f"{coordinate} is no sum of digits of threads and values")
            ((axis, weight, radix),) = term
            digits.append((step, radix, axis, weight))
        digits = [digit for step in ascending({d[0] for d in digits}) for digit in digits if digit[0] == step]
        for step, radix, axis, _ in digits:
            if step != expected:
                raise LayoutError(f"{coordinate} steps by {step} along {axis}, where {expected} would be next")
            expected *= radix
        for name, modes in inputs.items():
            modes[coordinate] = [(radix, weight * (axis == name)) for _, radix, axis, weight in digits]
    first, *more = (strided_places(modes, name) for name, modes in inputs.items())
    for part in more:
        first = first.beside(part)
    return first
