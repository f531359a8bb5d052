"""Recast: the same memory seen as elements of another width.

>>> recast_layout(32, 16, Layout((16, 4)))  # pairs of 16-bit elements
(8,4):(1,8)
>>> recast_layout(8, 16, ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
S<3,4,3> o 0 o (8,128):(128,1)

The bits are the same ones: an old element i lies at the bits old_bits * layout(i) and up, a new one at new_bits *
recast(j) and up, and both cover each bit as often. What does not come out even is refused.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from layoutlab.algebra.structure import L
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, to_text, unflatten
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle


def recast_layout(new_bits: int, old_bits: int, layout: L) -> L:
    """The layout of the same memory in elements of `new_bits`, given one in elements of `old_bits`.

    >>> recast_layout(32, 16, Layout(16)), recast_layout(6, 8, Layout(12))
    (8:1, 16:1)
    >>> recast_layout(32, 8, Layout((2, 4), (1, 4)))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: (2,4):(1,4) of 8-bit elements is no layout of 32-bit ones: the strides below 4 (2:1) \
do not fill units of 4

    Wider elements need the strides inside of a unit to fill it, narrower ones a mode of stride 1 to hold the parts.
    A swizzle without a unit counts what its layout counts. Refuses strides that are not known to be multiples.
    """
    for bits in (new_bits, old_bits):
        if isinstance(bits, bool) or not isinstance(bits, int) or bits < 1:
            raise LayoutError(f"elements of {bits} bits: a width is a positive number of bits")
    try:
        if isinstance(layout, ComposedLayout):
            return _recast_composed(new_bits, old_bits, layout)
        return _recast(new_bits, old_bits, layout)
    except LayoutError as why:
        raise LayoutError(f"{layout} of {old_bits}-bit elements is no layout of {new_bits}-bit ones: {why}") from None


def _recast(new_bits: int, old_bits: int, layout: Layout) -> Layout:
    common = gcd(new_bits, old_bits)
    return _upcast(_downcast(layout, old_bits // common), new_bits // common)


def _recast_composed(new_bits: int, old_bits: int, layout: ComposedLayout) -> ComposedLayout:
    if layout.element_bits not in (None, old_bits):
        raise LayoutError(f"its elements have {layout.element_bits} bits")
    if not isinstance(layout.inner, Swizzle):
        raise LayoutError("what is behind the outer layout is no swizzle, so it does not say how wide its values are")
    bits = layout.offset * old_bits if isinstance(layout.offset, int) else None
    if bits is None or bits % new_bits:
        raise LayoutError(f"the offset {to_text(layout.offset)} is no whole number of {new_bits}-bit elements")
    unit = layout.inner.unit_bits
    swizzle = layout.inner
    if unit is None:
        counted = Swizzle(swizzle.bits, swizzle.base, swizzle.shift, old_bits).counted_in(new_bits)
        swizzle = Swizzle(counted.bits, counted.base, counted.shift)
    else:
        swizzle.counted_in(new_bits)
    element_bits = None if layout.element_bits is None else new_bits
    return ComposedLayout(swizzle, bits // new_bits, _recast(new_bits, old_bits, layout.outer), element_bits)


def _downcast(layout: Layout, parts: int) -> Layout:
    """Each element taken apart into `parts` smaller ones, along the first mode of stride 1."""
    if parts == 1:
        return layout
    leaves = layout.leaves()
    contiguous = next((i for i, (s, d) in enumerate(leaves) if d == 1 and s != 1), None)
    if contiguous is None:
        contiguous = next((i for i, (_, d) in enumerate(leaves) if d == 1), None)
    if contiguous is None:
        raise LayoutError("no mode is known to have stride 1, so none can hold the parts of an element")
    _refuse_bases(layout)
    shapes = [s * parts if i == contiguous else s for i, (s, _) in enumerate(leaves)]
    strides = [1 if i == contiguous else d * parts for i, (_, d) in enumerate(leaves)]
    return Layout(unflatten(shapes, layout.shape), unflatten(strides, layout.shape))


def _upcast(layout: Layout, unit: int) -> Layout:
    """Units of `unit` elements as one element each: strides that are multiples are divided, the others fill units."""
    if unit == 1:
        return layout
    _refuse_bases(layout)
    leaves = layout.leaves()
    inside = [i for i, (s, d) in enumerate(leaves) if s != 1 and not _multiple(d, unit)]
    filled, units = 1, dict[int, Any]()
    for i in sorted(inside, key=lambda i: leaves[i][1] if isinstance(leaves[i][1], int) else 0):
        extent, stride = leaves[i]
        if not _known_to_be(stride, filled) or (filled > 1 and filled % unit == 0):
            raise LayoutError(f"{extent}:{stride} does not move by whole units of {unit}, nor goes on filling one")
        filled = filled * extent
        units[i] = filled // unit if filled % unit == 0 else 1
    if filled % unit:
        listed = ", ".join(f"{leaves[i][0]}:{leaves[i][1]}" for i in inside) or "none"
        raise LayoutError(f"the strides below {unit} ({listed}) do not fill units of {unit}")
    shapes = [units.get(i, s) for i, (s, _) in enumerate(leaves)]
    strides = [1 if i in units else d // unit if _multiple(d, unit) else 1 for i, (_, d) in enumerate(leaves)]
    return Layout(unflatten(shapes, layout.shape), unflatten(strides, layout.shape))


def _multiple(stride: Any, unit: int) -> bool:
    try:
        return bool(stride % unit == 0)
    except LayoutError:
        raise LayoutError(f"the stride {stride} is not known to be a multiple of {unit}") from None


def _known_to_be(stride: Any, number: Any) -> bool:
    return isinstance(stride, int) and isinstance(number, int) and stride == number


def _refuse_bases(layout: Layout) -> None:
    for _, stride in layout.leaves():
        if isinstance(stride, Basis):
            raise LayoutError(f"the stride {stride} moves a coordinate, which has no width")
