"""Operands for every operation: layouts of any kind, and ones that an operation has a result for.

The valid ones come from *digits*: 0..n-1 counted in a random mixed radix, non-powers of two included. A layout whose
leaves are some of the digits, in any order and nesting, is injective, has a complement, and composes with a layout that
counts in the same digits.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

from hypothesis import strategies as st

from layoutlab import ComposedLayout, Layout, Swizzle

RADICES = st.sampled_from([2, 2, 2, 3, 4, 5, 6, 7, 8, 12])
STRIDES = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 40, -1, -2, -4])


@st.composite
def nested(draw: Any, leaves: list[tuple[int, int]]) -> Layout:
    """(extent, stride) leaves in a random nesting."""
    parts: list[Any] = list(leaves)

    def group(parts: list[Any], depth: int) -> list[Any]:
        if depth == 0 or len(parts) < 2:
            return parts
        out, i = list[Any](), 0
        while i < len(parts):
            n = draw(st.integers(1, len(parts) - i))
            chunk = parts[i : i + n]
            out.append(chunk[0] if n == 1 else tuple(group(chunk, depth - 1)) if n < len(parts) else tuple(chunk))
            i += n
        return out

    def is_leaf(p: Any) -> bool:
        return len(p) == 2 and all(isinstance(x, int) for x in p)

    def shape(p: Any) -> Any:
        return p[0] if is_leaf(p) else tuple(map(shape, p))

    def stride(p: Any) -> Any:
        return p[1] if is_leaf(p) else tuple(map(stride, p))

    if len(parts) == 1 and draw(st.booleans()):
        return Layout(*parts[0])
    top = tuple(group(parts, 2))
    return Layout(tuple(map(shape, top)), tuple(map(stride, top)))


@st.composite
def layouts(draw: Any, max_size: int = 200, negative: bool = True) -> Layout:
    """Any layout: extents of 1, strides of 0, overlaps, negative strides."""
    extents = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 5, 6, 8]), min_size=1, max_size=4))
    while prod(extents) > max_size:
        extents.pop()
    strides = STRIDES if negative else STRIDES.filter(lambda d: d >= 0)
    return draw(nested([(s, draw(strides)) for s in extents]))


@st.composite
def digits(draw: Any, max_size: int = 300) -> list[tuple[int, int]]:
    """(radix, weight) of a mixed radix, fastest first."""
    radices = draw(st.lists(RADICES, min_size=1, max_size=5))
    while prod(radices) > max_size:
        radices.pop()
    radices = radices or [2]
    return list(zip(radices, accumulate([1, *radices[:-1]], mul), strict=True))


@st.composite
def injective(draw: Any, max_size: int = 300) -> Layout:
    """A layout of some digits in any order: it has a complement, a left inverse, and non-overlapping copies."""
    found = draw(st.permutations(draw(digits(max_size))))
    return draw(nested(found[: draw(st.integers(1, len(found)))]))


@st.composite
def bijective(draw: Any, max_size: int = 300) -> Layout:
    """A layout of all digits in any order: a permutation of 0..n-1."""
    return draw(nested(draw(st.permutations(draw(digits(max_size))))))


@st.composite
def composable(draw: Any) -> tuple[Layout, Layout]:
    """(A, B) for which A o B exists: A any function of some digits, B made of digits of the same count."""
    counted = draw(digits())
    a = draw(nested([(radix, draw(STRIDES)) for radix, _ in counted]))
    chosen = draw(st.permutations(counted))[: draw(st.integers(1, len(counted)))]
    if draw(st.booleans()):
        chosen = [*chosen, (draw(RADICES), 0)]
    if draw(st.booleans()):  # merged where one digit goes on where another ends: a leaf over several modes of A
        merged = list[tuple[int, int]]()
        for s, d in sorted(chosen, key=lambda leaf: leaf[1]):
            if merged and d and merged[-1][0] * merged[-1][1] == d:
                merged[-1] = (merged[-1][0] * s, merged[-1][1])
            else:
                merged.append((s, d))
        chosen = draw(st.permutations(merged))
    return a, draw(nested(chosen))


@st.composite
def swizzles(draw: Any, negative: bool = True) -> Swizzle:
    bits = draw(st.integers(0, 3))
    shift = draw(st.integers(bits, bits + 3)) * (draw(st.sampled_from([1, -1])) if negative else 1)
    return Swizzle(bits, draw(st.integers(0, 4)), shift)


@st.composite
def swizzled(draw: Any) -> ComposedLayout:
    offset = draw(st.sampled_from([0, 0, 1, 4, 8, 96, 1024]))
    return ComposedLayout(draw(swizzles()), offset, draw(layouts(negative=False)))
