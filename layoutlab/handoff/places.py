"""Places: a function from named index axes to named outputs, held twice, as a table of digits and as arithmetic.

The table (`layoutlab.digits.Map`) proves; the arithmetic evaluates, on numbers or on whole numpy arrays, also where no
table can hold the function. The two are written separately, so each can bear witness against the other.

>>> tile = strided_places({"m": [(8, 64)], "k": [(64, 1)]}, "element")
>>> tile.at(m=1, k=3), tile.table(m=1, k=3)
({'element': 67}, {'element': 67})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from layoutlab.arbiter import TooLarge
from layoutlab.digits import Map, beside, strided_over
from layoutlab.errors import LayoutError
from layoutlab.swizzle import Swizzle

Modes = Sequence[tuple[int, int]]
"""(extent, stride) of the parts of one axis, fastest first."""

PART_LIMIT, WHOLE_LIMIT = 1 << 56, 1 << 62
"""What one axis adds, and all of them together, so that 64 bits hold every sum of an enumeration."""


@dataclass(frozen=True, eq=False)
class Places:
    """`axes` gives each index axis its extent, slowest first; `outputs` names what comes out, its unit in the name.

    A swizzled function remembers its stages: it is `swizzle(before) + plus`. Two functions whose stages are equal are
    equal, also at a base at which no table holds the swizzled whole.
    """

    axes: Mapping[str, int]
    outputs: tuple[str, ...]
    build: Callable[[], Map]
    at: Callable[..., dict[str, Any]]
    before: Places | None = None
    swizzle: Swizzle | None = None
    plus: int = 0

    @cached_property
    def table(self) -> Map:
        """The table of digits; raises LayoutError, with the reason, where no table holds the function."""
        return self.build()

    @property
    def size(self) -> int:
        """The number of indices."""
        return prod(self.axes.values())

    def after(self, inner: Places) -> Places:
        """The composition: `inner` first, its outputs being the axes of this one.

        >>> rows = strided_places({"m": [(4, 8)], "k": [(8, 1)]}, "element")
        >>> rows.after(strided_places({"t": [(4, 1)]}, "m").beside(strided_places({"v": [(8, 1)]}, "k"))).at(t=1, v=2)
        {'element': 10}
        """
        return Places(
            inner.axes,
            self.outputs,
            lambda: self.table.after(inner.table.only(*self.axes)),
            lambda **index: self.at(**{axis: value for axis, value in inner.at(**index).items() if axis in self.axes}),
            self.before.after(inner) if self.before else None,
            self.swizzle,
            self.plus,
        )

    def beside(self, other: Places) -> Places:
        """The outputs of both; an axis that both have is one axis."""
        return Places(
            {**self.axes, **other.axes},
            (*self.outputs, *other.outputs),
            lambda: beside(self.table, other.table),
            lambda **index: {
                **self.at(**{a: index[a] for a in self.axes}),
                **other.at(**{a: index[a] for a in other.axes}),
            },
        )

    def added(self, other: Places) -> Places:
        """The sum of two functions of the same indices, of one output each.

        >>> rows, ks = strided_places({"m": [(4, 8)]}, "element"), strided_places({"k": [(8, 1)]}, "element")
        >>> rows.added(ks).at(m=2, k=3)
        {'element': 19}
        """
        (out,) = self.outputs
        axes = {**self.axes, **other.axes}

        def build() -> Map:
            both = beside(self.table.times(out, 1, "first"), other.table.times(out, 1, "second"))
            total = dict(both.rows["first"])
            for term, step in both.rows["second"].items():
                total[term] = total.get(term, 0) + step
            return Map(both.axes, {out: {term: step for term, step in total.items() if step}})

        def at(**index: Any) -> dict[str, Any]:
            parts = (places.at(**{a: index[a] for a in places.axes})[out] for places in (self, other))
            return {out: sum(parts)}

        return Places(axes, (out,), build, at)

    def scaled(self, factor: int, name: str, plus: int = 0) -> Places:
        """The only output times `factor`, plus a constant, under a new name: how elements become bits."""
        (out,) = self.outputs
        return Places(
            self.axes,
            (name,),
            lambda: self.table.times(out, factor, name).plus(name, plus),
            lambda **index: {name: _fitting(self.at(**index)[out], factor, plus)},
        )

    def moved(self, plus: int) -> Places:
        """The only output with a constant added to it, after any swizzle."""
        (out,) = self.outputs
        return Places(
            self.axes,
            self.outputs,
            lambda: self.table.plus(out, plus),
            lambda **index: {out: _fitting(self.at(**index)[out], 1, plus)},
            self.before,
            self.swizzle,
            self.plus + plus,
        )

    def shifted(self, out: str, by: int) -> Places:
        """One of several outputs with a constant added to it."""
        return Places(
            self.axes,
            self.outputs,
            lambda: self.table.plus(out, by),
            lambda **index: {name: _fitting(value, 1, by * (name == out)) for name, value in self.at(**index).items()},
        )

    def swizzled(self, swizzle: Swizzle | None) -> Places:
        """The only output swizzled, in its own unit."""
        if swizzle is None or not swizzle.bits:
            return self
        (out,) = self.outputs
        return Places(
            self.axes,
            self.outputs,
            lambda: _swizzled(self.table, out, swizzle),
            lambda **index: {out: _moved(swizzle, self.at(**index)[out])},
            self,
            swizzle,
        )


def _swizzled(table: Map, out: str, swizzle: Swizzle) -> Map:
    """The table swizzled; a refusal counts in bytes, as users do, where everything is whole bytes."""
    try:
        return table.swizzled(out, swizzle.bits, swizzle.base, swizzle.shift)
    except LayoutError as error:
        low, steps = min(swizzle.base, swizzle.base + swizzle.shift), table.rows[out].values()
        if out != "bit" or low < BYTE_BIT or any(step % 8 for step in steps):
            raise
        address = Map(table.axes, {"byte address": {t: step // 8 for t, step in table.rows[out].items()}})
        try:
            address.swizzled("byte address", swizzle.bits, swizzle.base - BYTE_BIT, swizzle.shift)
        except LayoutError as in_bytes:
            raise LayoutError(f"in bytes, {in_bytes}") from error
        raise


BYTE_BIT = 3
"""Bits of an address in bits that lie below the byte."""


def strided_places(modes: Mapping[str, Modes], out: str) -> Places:
    """A strided function: each axis a list of (extent, stride), fastest first."""
    axes = {axis: prod(extent for extent, _ in mode) for axis, mode in modes.items()}
    return Places(
        axes,
        (out,),
        lambda: strided_over(modes, out),
        lambda **index: {out: sum((strided_at(modes[axis], index[axis]) for axis in axes), 0)},
    )


def strided_at(modes: Modes, index: Any) -> Any:
    """One axis's share of a location: the index taken apart, each part times its stride.

    An index past the end goes on along the last part, as CuTe's natural extension does.
    """
    if not isinstance(index, int):
        _refuse_wide(modes, index)
    total, weight = index * 0, 1
    for extent, stride in modes[:-1]:
        if stride and extent > 1:
            total = total + index // weight % extent * stride
        weight *= extent
    return total + index // weight * modes[-1][1] if modes else total


def _refuse_wide(modes: Modes, index: Any) -> None:
    """Refuses numbers in arrays that 64 bits would wrap around."""
    whole = prod(extent for extent, _ in modes[:-1])
    reach = sum((extent - 1) * abs(stride) for extent, stride in modes[:-1])
    if modes:
        reach += (int(abs(index).max()) // whole + 1) * abs(modes[-1][1])
    if reach > PART_LIMIT:
        raise TooLarge(f"places reach to {reach}, and enumeration counts to {PART_LIMIT} along an axis")


def _fitting(value: Any, factor: int, plus: int) -> Any:
    """value * factor + plus, refused in arrays where 64 bits would wrap around."""
    if not isinstance(value, int):
        reach = max(1, int(abs(value).max())) * abs(factor) + abs(plus)
        if reach > WHOLE_LIMIT:
            raise TooLarge(f"places reach to {reach}, and enumeration counts to {WHOLE_LIMIT}")
    return value * factor + plus


def _moved(swizzle: Swizzle, value: Any) -> Any:
    if not isinstance(value, int) and 1 << swizzle.base + swizzle.bits + abs(swizzle.shift) > WHOLE_LIMIT:
        raise TooLarge(f"{swizzle} moves bits beyond {WHOLE_LIMIT}, where enumeration ends")
    return swizzle(value)


def _number(value: Any) -> bool:
    """Whether it is no symbol: of a number and of the multiples of one, the number divides them and not they it."""
    return isinstance(value, int)


def split_at(modes: Modes, *extents: int) -> list[list[tuple[int, int]]]:
    """Modes of one flat axis divided among several axes of these extents, fastest first.

    >>> split_at([(64, 1), (256, 64)], 128, 128)
    [[(64, 1), (2, 64)], [(128, 128)]]

    Raises LayoutError where an extent ends inside of a mode that it does not divide.
    """
    rest, parts = list(modes), list[list[tuple[int, int]]]()
    for extent in extents:
        part, left = list[tuple[int, int]](), extent
        while left != 1:
            if not rest:
                raise LayoutError(f"{prod(e for e, _ in modes)} elements cannot fill axes of {extents}")
            size, stride = rest.pop(0)
            if size == left or ((_number(size) or not _number(left)) and left % size == 0):
                part.append((size, stride))
                left //= size
            elif size % left == 0:
                part.append((left, stride))
                rest.insert(0, (size // left, stride * left))
                left = 1
            else:
                raise LayoutError(
                    f"a mode of {size} elements ends inside of an axis: neither of {size} and {left} divides the other"
                )
        parts.append(part)
    return parts
