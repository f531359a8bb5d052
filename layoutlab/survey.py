"""Survey: what a layout is like from outside: which locations it takes, twice or not at all, how wide its runs are.

>>> coverage(Layout((4, 2), (1, 8)), 12)
Coverage(domain=8, taken=8, missed=4, doubled=None, outside=None)
>>> vector(Layout((8, (2, 4)), (8, (1, 2)))).elements
8

Sizes are no limit where steps tell the answer: a layout of 2^40 elements is surveyed from its extents and strides.
Where they do not, layouts of up to `LIMIT` elements are enumerated, and larger ones are left undecided (`Undecided`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import idx2crd
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym

LIMIT = 1 << 20
"""Elements that are enumerated at most."""


class Undecided(LayoutError):
    """The question has an answer, but not by the steps alone and not by enumeration in the limit."""


# -- numbers -----------------------------------------------------------------------------------------------------------


def number(x: Any) -> int:
    """A size that is a number; refuses a symbol."""
    if not isinstance(x, int):
        raise LayoutError(f"the size {x} is known at run time only")
    return x


def locations(layout: Layout) -> list[int]:
    """All locations in the order of flat indices; refuses more than `LIMIT` and entries that are no numbers.

    >>> locations(Layout((2, 3), (3, 1)))
    [0, 3, 1, 4, 2, 5]
    """
    size = numeric(layout).size()
    if isinstance(size, Sym) or size > LIMIT:
        raise Undecided(f"{layout} has {size} elements, more than are enumerated")
    found = [0]
    for extent, stride in layout.leaves():
        found = [base + i * stride for i in range(extent) for base in found]
    return found


def numeric(layout: Layout) -> Layout:
    """The layout itself; refuses one with symbols or coordinates in it."""
    if layout.symbolic():
        raise LayoutError(f"{layout} has entries that are not known, so its locations are not")
    if layout.coordinate_valued():
        raise LayoutError(f"{layout} gives coordinates, not locations")
    return layout


# -- coverage ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """How a layout's values meet 0..size-1.

    `taken` counts the different values inside, `missed` is the first value that is not taken, `doubled` two indices
    with the same value, `outside` the first index whose value lies outside.
    """

    domain: int
    taken: int
    missed: int | None
    doubled: tuple[int, int] | None
    outside: int | None

    @property
    def exact(self) -> bool:
        """Whether each value in the range is taken once and no other is."""
        return self.missed is None and self.doubled is None and self.outside is None


def coverage(layout: Layout, size: int) -> Coverage:
    """How the layout's values meet 0..size-1.

    >>> coverage(Layout((4, 2), (1, 2)), 8)
    Coverage(domain=8, taken=6, missed=6, doubled=(2, 4), outside=None)

    Exact for any size where no stride is negative and each step exceeds the sum of the smaller ones; others are
    enumerated.
    Raises Undecided beyond `LIMIT`.
    """
    domain = number(numeric(layout).size())
    try:
        return _by_steps(layout, domain, size)
    except Undecided:
        if domain > LIMIT:
            raise
        return _counted(locations(layout), size)


def _counted(values: list[int], size: int) -> Coverage:
    first: dict[int, int] = {}
    doubled, outside = None, None
    for i, value in enumerate(values):
        before = first.setdefault(value, i)
        if before != i and doubled is None:
            doubled = (before, i)
        if outside is None and not 0 <= value < size:
            outside = i
    taken = sum(0 <= value < size for value in first)
    missed = next((v for v in range(size) if v not in first), None) if taken < size else None
    return Coverage(len(values), taken, missed, doubled, outside)


def _by_steps(layout: Layout, domain: int, size: int) -> Coverage:
    """Coverage read off the steps: each exceeds the reach of the smaller ones, so a value tells its digits."""
    doubled = _doubled_by_steps(layout)
    reach, missed, taken = 0, None, 1
    for step, extent in sorted((d, s) for s, d in layout.leaves() if s > 1 and d):
        if step < 0:
            raise Undecided(f"{layout} has {domain} elements and a negative stride")
        if step > reach + 1 and missed is None:
            missed = reach + 1
        reach += step * (extent - 1)
        taken *= extent
    if reach >= size:
        raise Undecided(f"{layout} has {domain} elements and leaves the range of {size}")
    if missed is None and reach + 1 < size:
        missed = reach + 1
    return Coverage(domain, taken, missed, doubled, None)


def _doubled_by_steps(layout: Layout) -> tuple[int, int] | None:
    """The first two indices with one location: 0 and the first step along a leaf that does not move."""
    reach = 0
    for step, extent in sorted((abs(d), s) for s, d in layout.leaves() if s > 1 and d):
        if step <= reach:
            raise Undecided(f"{layout} has {layout.size()} elements, and steps that overlap")
        reach += step * (extent - 1)
    weight = 1
    for extent, stride in layout.leaves():
        if extent > 1 and not stride:
            return 0, weight
        weight *= extent
    return None


def span(layout: Layout) -> tuple[Any, Any]:
    """The lowest and the highest location.

    >>> span(Layout((4, 2), (1, -8)))
    (-8, 3)
    """
    reach = [(s - 1) * d for s, d in numeric(layout).leaves()]
    return sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)


def injective(layout: Layout) -> tuple[int, int] | None:
    """The first two flat indices with the same location, None where there are none; raises Undecided."""
    try:
        return _doubled_by_steps(numeric(layout))
    except Undecided:
        if number(layout.size()) > LIMIT:
            raise
        return _counted(locations(layout), 0).doubled


# -- runs and vectors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vector:
    """The widest aligned run: `elements` side by side, along the leaves `along` (indices into the flattened shape)."""

    elements: int
    along: tuple[int, ...]


def vector(x: Layout | ComposedLayout) -> Vector:
    """How many elements, a power of two, lie side by side along leaves that follow each other, and stay aligned.

    >>> vector(Layout((8, 64), (72, 1))), vector(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
    (Vector(elements=8, along=(1,)), Vector(elements=8, along=(1,)))

    Units: elements of the layout; the base is taken to be aligned. A swizzle keeps runs of 2^base together.
    """
    leaves = numeric(x.outer if isinstance(x, ComposedLayout) else x).leaves()
    run, along = 1, list[int]()
    for i, (extent, stride) in enumerate(leaves):
        if extent > 1 and stride == run:
            run, along = run * extent, [*along, i]
        elif extent > 1 and along:
            break
    width = gcd(run, *(stride for i, (extent, stride) in enumerate(leaves) if extent > 1 and i not in along))
    if isinstance(x, ComposedLayout):
        width = gcd(width, x.offset) if isinstance(x.offset, int) else width
        if isinstance(x.inner, Swizzle) and x.inner.bits:
            width = gcd(width, 1 << x.element_swizzle().base)
    width &= -width
    return Vector(width, tuple(along) if width > 1 else ())


def coordinate(layout: Layout | ComposedLayout, index: int) -> Any:
    """The coordinate of a flat index, nested as the shape is."""
    return idx2crd(index, layout.shape)
