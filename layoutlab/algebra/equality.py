"""Equality: are two layouts the same function of flat indices, by which argument, and where do they part?

>>> functionally_equal(Layout((4, 2)), Layout(8))  # == asks for the same text, which these do not have
True
>>> compare(Layout((2, 2), (1, 2)), Layout((2, 2), (2, 1)))
Comparison(equal=False, method='runs', first=1, values=(1, 2), checked=4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from layoutlab.algebra.compose import amounts
from layoutlab.algebra.structure import AnyLayout
from layoutlab.digits import Map, beside
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, flatten, map_leaves, to_text
from layoutlab.layout import Layout, runs
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym

ENUMERATED = 1 << 26
CHUNK = 1 << 20


@dataclass(frozen=True)
class Comparison:
    """Whether two functions are equal, the method that says so, and the first index and values where they differ.

    `method` is "runs" (both reduced to the fewest runs, which are equal for equal functions), "digits" (tables of
    digits, likewise) or "enumeration"; `checked` counts the indices that the answer covers.
    """

    equal: bool
    method: str
    first: int | None
    values: tuple[Any, Any] | None
    checked: int | Sym


def functionally_equal(a: AnyLayout, b: AnyLayout) -> bool:
    """Whether two layouts have as many indices and the same value at each flat one.

    >>> swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> functionally_equal(swizzled, ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, (8, 8)), (64, (1, 8)))))
    True

    Refuses unknowns without a name (`?`): whether two of them are the same number is not known.
    """
    return compare(a, b).equal


def compare(a: AnyLayout, b: AnyLayout) -> Comparison:
    """The comparison of two layouts as functions of the flat index.

    >>> row = Layout((8, 64), (64, 1))
    >>> compare(ComposedLayout(Swizzle(3, 3, 3), 0, row), row)
    Comparison(equal=False, method='digits', first=1, values=(72, 64), checked=512)
    """
    for x in (a, b):
        _refuse_unnamed(x)
    if a.size() != b.size():
        raise LayoutError(f"{a} has {a.size()} indices and {b} has {b.size()}: functions of different indices")
    size = a.size()
    left, right = _as_runs(a), _as_runs(b)
    if left is not None and right is not None:
        if left == right or not isinstance(size, int):
            return Comparison(left == right, "runs", None, None, size)
        first = _first_difference(a, b, size)[1]
        return _parted(a, b, "runs", first, size)
    if not isinstance(size, int):
        raise LayoutError(f"whether {a} and {b} are equal is not known: their size is {size}")
    method, first = _first_difference(a, b, size)
    return Comparison(True, method, None, None, size) if first is None else _parted(a, b, method, first, size)


def _parted(a: AnyLayout, b: AnyLayout, method: str, first: int | None, size: int) -> Comparison:
    values = None if first is None else (a(first), b(first))
    return Comparison(False, method, first, values, size)


def _as_runs(x: AnyLayout) -> Any:
    """Runs and offset of a function that is a layout and a constant; None for others."""
    if isinstance(x, Layout):
        return runs(x), {}
    return (runs(x.outer), amounts(x.offset)) if x.inner is None else None


def _first_difference(a: AnyLayout, b: AnyLayout, size: int) -> tuple[str, int | None]:
    try:
        at = as_digits(a).first_difference(as_digits(b))
    except LayoutError:
        return "enumeration", _enumerated(a, b, size)
    return "digits", None if at is None else at["i"]


def as_digits(x: AnyLayout) -> Map:
    """The function of the flat index as a table of digits, axis `i`: a row for each coordinate that it gives.

    >>> print(as_digits(ComposedLayout(Swizzle(1, 0, 2), 0, Layout(8))))
    () = (i[1]^i[4]) + 2 i[2] + 4 i[4]

    Refuses what a table cannot hold: unknowns, and carries into a swizzle.
    """
    outer, offset = (x, 0) if isinstance(x, Layout) else (x.outer, x.offset)
    names = {path for path, _ in amounts(offset).items()} | {_path(d) for _, d in outer.leaves()} or {()}
    table = beside(*(_part(outer, path).map(to_text(path), "i") for path in sorted(names)))
    for path, value in amounts(offset).items():
        if not isinstance(value, int):
            raise LayoutError(f"the offset {to_text(offset)} is not known")
        table = table.plus(to_text(path), value)
    if isinstance(x, Layout) or x.inner is None:
        return table
    if isinstance(x.inner, Layout):
        return x.inner.map("()", "()").after(table)
    swizzle: Swizzle = x.element_swizzle()
    return table.swizzled("()", swizzle.bits, swizzle.base, swizzle.shift)


def _path(stride: Any) -> tuple[int, ...]:
    return stride.path if isinstance(stride, Basis) else ()


def _part(layout: Layout, path: tuple[int, ...]) -> Layout:
    """One coordinate of a layout's values: the other strides are 0."""

    def own(stride: Any) -> Any:
        return (stride.value if isinstance(stride, Basis) else stride) if _path(stride) == path else 0

    return Layout(layout.shape, map_leaves(own, layout.stride))


def _enumerated(a: AnyLayout, b: AnyLayout, size: int) -> int | None:
    """The first index with different values, by trying them in chunks."""
    import numpy as np

    if size > ENUMERATED or any(_reach(x) >= 1 << 62 for x in (a, b)):
        raise LayoutError(
            f"whether {a} and {b} are equal is undecided: no table of digits holds both, and {size} indices are too "
            "many to try"
        )
    for start in range(0, size, CHUNK):
        at = np.arange(start, min(start + CHUNK, size))
        left, right = amounts(a(at)), amounts(b(at))
        wrong = np.zeros(len(at), dtype=bool)
        for path in left.keys() | right.keys():
            wrong |= left.get(path, 0) != right.get(path, 0)
        if wrong.any():
            return start + int(wrong.argmax())
    return None


def _reach(x: AnyLayout) -> int:
    outer, offset = (x, 0) if isinstance(x, Layout) else (x.outer, x.offset)
    numbers: list[Any] = [s * (d.value if isinstance(d, Basis) else d) for s, d in outer.leaves()]
    total: int = sum(abs(v) for v in [*numbers, *amounts(offset).values()])
    return (
        max(total, total * _reach(x.inner)) if isinstance(x, ComposedLayout) and isinstance(x.inner, Layout) else total
    )


def _refuse_unnamed(x: AnyLayout) -> None:
    parts: list[Any] = [*flatten((x.shape, x.stride))] if isinstance(x, Layout) else [*flatten(x.offset)]
    if isinstance(x, ComposedLayout):
        _refuse_unnamed(x.outer)
        if isinstance(x.inner, Layout):
            _refuse_unnamed(x.inner)
    for part in parts:
        entry = part.value if isinstance(part, Basis) else part
        if isinstance(entry, Sym) and entry.anonymous:
            raise LayoutError(f"{x} has an entry that prints ? : what it equals is not known; give the unknown a name")
