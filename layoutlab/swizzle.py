"""Swizzle: bits of a location xor-ed with higher bits of it; ComposedLayout: a function of a layout.

`Swizzle(3, 4, 3)` is CuTe's `Swizzle<3,4,3>`: bits 4, 5, 6 of a number are xor-ed with bits 7, 8, 9. *Of which number*
is the question that costs days. Hardware swizzles byte addresses; a swizzle composed with a layout acts on what the
layout counts, often elements. The unit is therefore part of the value:

>>> in_bytes = Swizzle(3, 4, 3, unit_bits=8)  # counts bytes
>>> in_bytes.counted_in(16)  # the same function, counting 16-bit elements
S<3,3,3>[16b]
>>> Swizzle(3, 4, 3)  # counts whatever the layout beside it counts
S<3,4,3>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Coord, Int, IntTuple, add, to_text
from layoutlab.layout import Layout


@dataclass(frozen=True, repr=False)
class Swizzle:
    """Swizzle<bits, base, shift>: `bits` bits from `base` up are xor-ed with those `shift` above (below, if negative).

    >>> Swizzle(3, 4, 3)(128)
    144

    Units: `unit_bits` is the width of what the swizzle counts, 8 for bytes, 16 for 16-bit elements; None for the unit
    of the layout that it is composed with. Source: CuTe's `Swizzle`.
    """

    bits: int
    base: int
    shift: int
    unit_bits: int | None = None

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self}: the number of bits and the base are not negative")
        if abs(self.shift) < self.bits:
            raise LayoutError(f"{self}: a shift of {self.shift} makes the {self.bits} bits overlap their own sources")
        if self.unit_bits is not None and self.unit_bits < 1:
            raise LayoutError(f"{self}: a unit is at least one bit wide")

    def __call__(self, location: Any) -> Any:
        """The swizzled location, of a number or a numpy array, in the swizzle's own unit."""
        mask = (1 << self.bits) - 1
        if self.shift >= 0:
            return location ^ ((location >> self.shift) & (mask << self.base))
        return location ^ ((location & (mask << self.base)) << -self.shift)

    def counted_in(self, bits: int) -> Swizzle:
        """The same function of memory, counting units of another width.

        >>> Swizzle(3, 4, 3, unit_bits=8).counted_in(32)
        S<3,2,3>[32b]
        >>> Swizzle(3, 4, 3, unit_bits=1).counted_in(32)
        Traceback (most recent call last):
        layoutlab.errors.LayoutError: S<3,4,3>[1b] changes bits inside of a 32-bit unit: it would need the base -1
        """
        if self.unit_bits is None:
            raise LayoutError(
                f"{self} does not say what it counts: give it unit_bits=8 for bytes, or the width of the elements"
            )
        if not self.bits or self.unit_bits == bits:
            return Swizzle(self.bits, self.base, self.shift, bits)
        wide, narrow = max(bits, self.unit_bits), min(bits, self.unit_bits)
        if wide % narrow or (wide // narrow) & (wide // narrow - 1):
            raise LayoutError(
                f"{self} cannot count {bits}-bit units: {bits} and {self.unit_bits} bits are not a power of two apart"
            )
        by = (wide // narrow).bit_length() - 1
        base = self.base - by if bits > self.unit_bits else self.base + by
        if base < 0:
            raise LayoutError(f"{self} changes bits inside of a {bits}-bit unit: it would need the base {base}")
        return Swizzle(self.bits, base, self.shift, bits)

    def __str__(self) -> str:
        unit = "" if self.unit_bits is None else f"[{self.unit_bits}b]"
        return f"S<{self.bits},{self.base},{self.shift}>{unit}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class ComposedLayout:
    """inner o offset o outer: the function `c -> inner(offset + outer(c))`.

    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> tile, tile(1, 0)
    (S<3,3,3> o 0 o (8,64):(64,1), 72)

    `inner` is a swizzle, a layout, or None for a coordinate tensor, `(0,0) o (4,8):(1@0,1@1)`. Units: `element_bits` is
    the width of what `outer` counts, where it is known; a swizzle that counts another unit needs it to be called:

    >>> ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, Layout((8, 64), (64, 1)), element_bits=16)(1, 0)
    72
    >>> ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, Layout((8, 64), (64, 1)))(1, 0)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: S<3,4,3>[8b] counts 8-bit units and the layout (8,64):(64,1) elements of unknown width
    """

    inner: Swizzle | Layout | None
    offset: IntTuple
    outer: Layout
    element_bits: int | None = None

    def __call__(self, *coord: Coord) -> Any:
        """The location of a coordinate, in the unit of `outer`; of numpy arrays too."""
        return self._inner(add(self.offset, self.outer(*coord)))

    def extended(self, *coord: Coord) -> Any:
        """The location with the outer layout's last mode going on for ever."""
        return self._inner(add(self.offset, self.outer.extended(*coord)))

    def _inner(self, location: Any) -> Any:
        if self.inner is None:
            return location
        return self.element_swizzle()(location) if isinstance(self.inner, Swizzle) else self.inner.extended(location)

    def element_swizzle(self) -> Swizzle:
        """The swizzle as it acts on what the outer layout counts; refuses where the width of that is not known."""
        if not isinstance(self.inner, Swizzle):
            raise LayoutError(f"{self} has no swizzle")
        if self.inner.unit_bits is None:
            return self.inner
        if self.element_bits is None:
            raise LayoutError(
                f"{self.inner} counts {self.inner.unit_bits}-bit units and the layout {self.outer} "
                "elements of unknown width"
            )
        return self.inner.counted_in(self.element_bits)

    def with_outer(self, outer: Layout) -> ComposedLayout:
        """The same inner function and offset over another layout: what an operation on the coordinates changes."""
        return ComposedLayout(self.inner, self.offset, outer, self.element_bits)

    @property
    def shape(self) -> IntTuple:
        """The shape of the coordinates."""
        return self.outer.shape

    def rank(self) -> int:
        """The number of modes."""
        return self.outer.rank()

    def depth(self) -> int:
        """The levels of nesting."""
        return self.outer.depth()

    def size(self) -> Int:
        """The number of coordinates."""
        return self.outer.size()

    def cosize(self) -> Int:
        """The number of locations that the outer layout spans, as CuTe counts them."""
        return self.outer.cosize()

    def __getitem__(self, mode: int | tuple[int, ...]) -> ComposedLayout:
        """Mode `mode`, still composed."""
        return self.with_outer(self.outer[mode])

    def __len__(self) -> int:
        return self.rank()

    def __str__(self) -> str:
        width = "" if self.element_bits is None else f"[{self.element_bits}b]"
        inner = "" if self.inner is None else f"{self.inner} o "
        return f"{inner}{to_text(self.offset)} o {width}{self.outer}"

    __repr__ = __str__
