"""Function: what a golden keeps: a map from index axes to outputs, in a text that people read and that is read back.

>>> from layoutlab.layout import Layout
>>> f = of_layout("layout", Layout((4, 2), (2, 1)))
>>> print(f.text())
axes  i 2^3
at    = i[4] + 2 i[1] + 4 i[2]
>>> read("layout", f.notation, f.text()).at(i=3)
{'at': 6}

The text is the table of digits (`layoutlab.digits`), so two notations of one function share it. Where a swizzle meets
a carry no single table holds the function; then its stages are kept: the table, the swizzle of it, what is added after.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from layoutlab.digits import Digit, Map, Row, Term, strided_over
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

AT = "at"
"""The output of a function that gives a number."""

MOST_VALUES = 1 << 22
"""Indices whose values a digest reads and of which changes are counted."""


@dataclass(frozen=True, eq=False)
class Function:
    """`plus + swizzle(table)`, under a name, with the notation that it was met in.

    `shape` is the extents of the axes as people see them (rows and columns of a picture); `unit` is what the outputs
    count, in words.
    """

    name: str
    table: Map
    notation: str
    swizzle: Swizzle | None = None
    plus: int = 0
    unit: str = ""
    shape: tuple[int, ...] = ()

    @property
    def axes(self) -> dict[str, int]:
        """The extent of each axis, slowest first."""
        return self.table.extents

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what comes out."""
        return tuple(self.table.rows)

    @property
    def size(self) -> int:
        """The number of indices."""
        return prod(self.axes.values())

    def at(self, **index: Any) -> dict[str, Any]:
        """The outputs at an index, of numbers or of numpy arrays."""
        found = self.table(**index)
        if self.swizzle is None:
            return {out: value + self.plus for out, value in found.items()} if self.plus else found
        return {out: self.swizzle(value) + self.plus for out, value in found.items()}

    @cached_property
    def values(self) -> dict[str, Any]:
        """All outputs in counting order, as arrays; refuses more than `MOST_VALUES`."""
        import numpy as np

        from layoutlab.arbiter import indices

        parts = [self.at(**chunk) for chunk in indices(self.axes, MOST_VALUES)]
        sizes = [len(next(iter(chunk.values()), [0])) for chunk in indices(self.axes, MOST_VALUES)]
        return {
            out: np.concatenate(
                [np.broadcast_to(np.asarray(p[out], dtype=np.int64), (n,)) for p, n in zip(parts, sizes, strict=True)]
            )
            for out in self.outputs
        }

    @cached_property
    def digest(self) -> str:
        """A key of the function itself: of its values, or, where those are too many, of its table."""
        hashed = hashlib.sha256(repr((list(self.axes.items()), sorted(self.outputs))).encode())
        if self.size <= MOST_VALUES:
            for out in sorted(self.outputs):
                hashed.update(self.values[out].astype("<i8").tobytes())
        else:
            hashed.update(self.text().encode())
        return hashed.hexdigest()[:16]

    def text(self) -> str:
        """The table, the swizzle and what is added, a line each."""
        width = max(len(out) for out in ("axes", *self.outputs))
        axes = ", ".join(f"{axis} {_radices(radices)}" for axis, radices in self.table.axes.items())
        lines = [f"{'axes':<{width}}  {axes}"]
        for line in str(self.table).split("\n"):
            out, _, row = line.partition(" = ")
            lines.append(f"{out:<{width}}  = {row}")
        if self.swizzle is not None:
            lines.append(f"swizzled by {self.swizzle}")
        if self.plus:
            lines.append(f"plus {self.plus}")
        return "\n".join(lines)


def _radices(radices: tuple[int, ...]) -> str:
    """Radices, fastest first, with runs of equal ones as powers.

    >>> _radices((2, 2, 2, 3)), _radices(())
    ('2^3 * 3', '1')
    """
    found: list[list[int]] = []
    for radix in radices:
        if found and found[-1][0] == radix:
            found[-1][1] += 1
        else:
            found.append([radix, 1])
    return " * ".join(f"{radix}^{n}" if n > 1 else str(radix) for radix, n in found) or "1"


# -- reading ----------------------------------------------------------------------------------------------------------


def read(name: str, notation: str, text: str, unit: str = "", shape: tuple[int, ...] = ()) -> Function:
    """The function that `text()` wrote; refuses a line that it did not write."""
    lines = text.strip().split("\n")
    axes: dict[str, tuple[int, ...]] = {}
    rows: dict[str, Row] = {}
    swizzle, plus = None, 0
    for line in lines:
        if m := re.fullmatch(r"axes\s+(.+)", line):
            axes = {axis: _read_radices(radices) for axis, _, radices in (a.partition(" ") for a in m[1].split(", "))}
        elif m := re.fullmatch(r"(\S+)\s+= (.+)", line):
            rows[m[1]] = _read_row(m[2], axes, line)
        elif m := re.fullmatch(r"swizzled by S<(\d+),(\d+),(-?\d+)>", line):
            swizzle = Swizzle(int(m[1]), int(m[2]), int(m[3]))
        elif m := re.fullmatch(r"plus (-?\d+)", line):
            plus = int(m[1])
        else:
            raise LayoutError(f"{name}: the line {line!r} is none of a golden's")
    if not axes or not rows:
        raise LayoutError(f"{name}: the golden says no axes and outputs")
    return Function(name, Map(axes, rows), notation, swizzle, plus, unit, shape)


def _read_radices(text: str) -> tuple[int, ...]:
    found = list[int]()
    for part in text.split(" * "):
        radix, _, times = part.partition("^")
        found += [int(radix)] * int(times or 1)
    return tuple(r for r in found if r > 1)


def _read_row(text: str, axes: Mapping[str, tuple[int, ...]], line: str) -> Row:
    digits: dict[tuple[str, int], Digit] = {}
    for axis, radices in axes.items():
        weight = 1
        for radix in radices:
            digits[axis, weight] = (axis, weight, radix)
            weight *= radix
    row: Row = {}
    for part in [] if text == "0" else text.split(" + "):
        m = re.fullmatch(r"(?:(-?\d+)(?: |$))?(?:\(?((?:[^\s()\[\]]+\[\d+\]\^?)+)\)?)?", part)
        if m is None or not (m[1] or m[2]):
            raise LayoutError(f"{part!r} is no term of a table, in the line {line!r}")
        names = [re.fullmatch(r"([^\[]+)\[(\d+)\]", name) for name in (m[2] or "").split("^") if name]
        try:
            term: Term = frozenset(digits[n[1], int(n[2])] for n in names if n)
        except KeyError as error:
            raise LayoutError(f"there is no digit {error} in the axes, in the line {line!r}") from None
        row[term] = int(m[1] or 1)
    return row


# -- making -----------------------------------------------------------------------------------------------------------


def of_layout(name: str, layout: Layout | ComposedLayout, unit: str = "") -> Function:
    """A layout as a function of its flat index `i`; of several coordinates where its strides are bases.

    >>> of_layout("sP", ComposedLayout(Swizzle(3, 3, 3), 1, Layout((8, 64), (64, 1)))).text().split("\\n")[-1]
    'swizzled by S<3,3,3>'

    Refuses extents and strides that are not known.
    """
    from layoutlab.algebra.equality import as_digits
    from layoutlab.int_tuple import modes, product

    shape = tuple(int(n) for n in map(product, modes(layout.shape)) if isinstance(n, int))
    notation = str(layout)
    try:
        table = as_digits(layout)
    except LayoutError:
        if not isinstance(layout, ComposedLayout) or not isinstance(layout.inner, Swizzle):
            raise
        if not isinstance(layout.offset, int) or layout.outer.symbolic():
            raise
        table = strided_over({"i": layout.outer.leaves()}, AT).plus(AT, layout.offset)
        return Function(name, table, notation, layout.element_swizzle(), 0, unit, shape)
    return Function(name, _renamed(table), notation, None, 0, unit, shape)


def of_tv(name: str, tv: Layout, unit: str = "", axes: tuple[str, str] = ("t", "v")) -> Function:
    """A (thread, value) layout as a function of both."""
    table = strided_over({axis: part.leaves() for axis, part in zip(axes, tv, strict=True)}, AT)
    return Function(name, table, str(tv), None, 0, unit, tuple(table.extents.values()))


def of_places(name: str, places: Any, notation: str, unit: str = "") -> Function:
    """A handoff's map, as a table, or by its stages where no table holds it."""
    shape = tuple(places.axes.values())
    try:
        return Function(name, places.table, notation, None, 0, unit, shape)
    except LayoutError:
        if places.before is None:
            raise
        swizzle = places.swizzle
        plain = Swizzle(swizzle.bits, swizzle.base, swizzle.shift) if swizzle else None
        return Function(name, places.before.table, notation, plain, places.plus, unit, shape)


def of_map(name: str, table: Map) -> Function:
    """A table of digits as it is."""
    return Function(name, table, str(table).replace("\n", "; "), shape=tuple(table.extents.values()))


def _renamed(table: Map) -> Map:
    """The only output called `at`, several ones after their coordinate: @0, @1@0."""
    if len(table.rows) == 1 and "()" in table.rows:
        return Map(table.axes, {AT: table.rows["()"]})
    rows = {f"@{out.strip('()').rstrip(',').replace(',', '@')}": row for out, row in table.rows.items() if out != "()"}
    return Map(table.axes, rows)
