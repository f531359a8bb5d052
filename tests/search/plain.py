"""Layouts in plain Python: shape, stride, and the value at an index, read from what the libraries print.

Nothing of layoutlab is imported: what is judged with these is judged whatever layoutlab thinks.

>>> [read("(2,3):(3,1)")(i) for i in range(6)]
[0, 3, 1, 4, 2, 5]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Nested = Any
"""An integer, or a tuple of such."""


def leaves(x: Nested) -> list[int]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]


def product(x: Nested) -> int:
    total = 1
    for leaf in leaves(x):
        total *= leaf
    return total


@dataclass(frozen=True)
class L:
    """Shape and stride. At an index: colexicographic digits times strides, the last digit without a bound.

    >>> [L((2, 3), (3, 1))(i) for i in range(7)]
    [0, 3, 1, 4, 2, 5, 3]
    """

    shape: Nested
    stride: Nested = None

    def __post_init__(self) -> None:
        if self.stride is None:
            object.__setattr__(self, "stride", _compact(self.shape, 1)[0])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def __call__(self, index: int) -> int:
        total, pairs = 0, self.pairs
        for extent, stride in pairs[:-1]:
            total += index % extent * stride
            index //= extent
        return total + index * (pairs[-1][1] if pairs else 0)

    def size(self) -> int:
        return product(self.shape)

    def values(self) -> list[int]:
        return [self(i) for i in range(self.size())]

    def modes(self) -> list[L]:
        if not isinstance(self.shape, tuple):
            return [self]
        return [L(s, d) for s, d in zip(self.shape, self.stride, strict=True)]

    def once(self) -> L:
        """Without what repeats (stride 0) and what does not count (extent 1)."""
        kept = [(s, d) for s, d in self.pairs if s != 1 and d != 0] or [(1, 0)]
        return L(tuple(s for s, _ in kept), tuple(d for _, d in kept))

    def __str__(self) -> str:
        return f"{to_text(self.shape)}:{to_text(self.stride)}"


@dataclass(frozen=True)
class S:
    """A swizzle behind an offset and a layout."""

    bits: int
    base: int
    shift: int
    offset: int
    outer: L

    def __call__(self, index: int) -> int:
        return self.swizzle(self.offset + self.outer(index))

    def swizzle(self, x: int) -> int:
        mask = ((1 << self.bits) - 1) << (self.base + max(0, self.shift))
        return x ^ ((x & mask) >> self.shift if self.shift >= 0 else (x & mask) << -self.shift)

    def size(self) -> int:
        return self.outer.size()

    def values(self) -> list[int]:
        return [self(i) for i in range(self.size())]

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}> o {self.offset} o {self.outer}"


@dataclass(frozen=True)
class Chain:
    """Functions one after the other, the last one first: swizzles, offsets, and the layout that gives the indices."""

    parts: tuple[Any, ...]
    outer: L

    def __call__(self, index: int) -> int:
        at = self.outer(index)
        for part in reversed(self.parts):
            at = part + at if isinstance(part, int) else part.swizzle(at) if isinstance(part, S) else part(at)
        return at

    def size(self) -> int:
        return self.outer.size()

    def values(self) -> list[int]:
        return [self(i) for i in range(self.size())]


def to_text(x: Nested) -> str:
    return f"({','.join(map(to_text, x))})" if isinstance(x, tuple) else str(x)


def _compact(shape: Nested, step: int) -> tuple[Nested, int]:
    if not isinstance(shape, tuple):
        return step, step * shape
    strides = []
    for part in shape:
        stride, step = _compact(part, step)
        strides.append(stride)
    return tuple(strides), step


def read(text: str) -> Any:
    """A printed layout, swizzled layout, tuple or number; None where it is none of these.

    >>> str(read("(2, 3) : (6, 3)")), str(read("S<1,0,2> o 0 o (4):(1)")), read("32")
    ('(2,3):(6,3)', 'S<1,0,2> o 0 o (4):(1)', 32)
    """
    text = text.replace(" ", "").replace("Sw<", "S<")
    try:
        if "Swizzle" in text:
            *parts, last = _chain(text)
            if isinstance(last, L):
                return Chain(tuple(parts), last)
            return Chain((*parts, last), L(parts[0].size(), 1)) if isinstance(parts[0], L) else None
        if text.startswith("S<"):
            head, _, rest = text[2:].partition(">o")
            offset, _, outer = rest.rpartition("o")
            found = read(outer)
            return S(*map(int, head.split(",")), int(offset), found) if isinstance(found, L) else None
        shape, colon, stride = text.partition(":")
        return L(_nested(shape), _nested(stride)) if colon else _nested(shape)
    except (ValueError, TypeError):
        return None


def _chain(text: str) -> list[Any]:
    """The functions of `(Swizzle(2,0,2))o{5}o((4,8):(8,1))`, as tensor-layouts prints them."""
    found, depth, start = list[Any](), 0, 0
    for i, c in enumerate(text + "o"):
        depth += (c in "({") - (c in ")}")
        if c == "o" and depth == 0:
            part, start = text[start:i], i + 1
            if part[0] == "{":
                found.append(int(part[1:-1]))
            elif part.startswith("(Swizzle"):
                found.append(S(*_nested(part[8:-1]), 0, L(1, 0)))
            elif "Swizzle" in part:
                found.extend(_chain(part[1:-1]))
            else:
                found.append(read(part[1:-1]))
    return found


def _nested(text: str) -> Nested:
    stack: list[list[Any]] = [[]]
    number = ""
    for c in text + ",":
        if c == "(":
            stack.append([])
        elif c in ",)":
            if number:
                stack[-1].append(int(number))
                number = ""
            if c == ")":
                done = tuple(stack.pop())
                stack[-1].append(done)
        else:
            number += c
    (found,) = stack[0]
    return found


def compatible(a: Nested, b: Nested) -> bool:
    """Whether each coordinate of shape a is one of shape b: b refines a. A tuple of one mode may be the mode."""
    if isinstance(a, tuple) and len(a) == 1 and not isinstance(b, tuple):
        return compatible(a[0], b)
    if not isinstance(a, tuple):
        return product(b) == a
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))


def gaps(a: L, count: int) -> list[int] | None:
    """Where copies of a layout go so that 0, 1, 2, ... fill up: each at the first gap; None when two would overlap."""
    places, filled, found, gap = a.once().values(), set[int](), list[int](), 0
    if min(places) < 0 or len(set(places)) < len(places):
        return None
    while len(found) < count or gap <= 2 * max(places):
        copy = {gap + p for p in places}
        if copy & filled:
            return None
        filled |= copy
        found.append(gap)
        while gap in filled:
            gap += 1
    return found
