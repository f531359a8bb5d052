"""What the documents ask of operands: the rule that a call breaks, with its source.

A library that answers such a call with a wrong layout was asked too much, though it says nothing.
"""

from __future__ import annotations

from typing import Any

from plain import L, S, gaps, product

ALGEBRA, HEADER = "CUTLASS media/docs/cpp/cute/02_layout_algebra.md", "CUTLASS include/cute/layout.hpp"
DIVIDES = f"the strides and extents of B divide those of A and are divided by them ({ALGEBRA}, Computing Composition)"
INJECTIVE_B = f"B is injective ({ALGEBRA}, Computing Composition)"
INJECTIVE = f"the layout to complement is injective ({HEADER}, 'Non-injective Layout detected in complement')"
POSITIVE = f"strides are positive ({ALGEBRA}, Complement; coordinates count from 0)"
INVERTIBLE = "a left inverse is one of an injective layout (pycute's test_left_inverse.py)"
SIZES = f"both layouts have as many elements ({HEADER} asks of a common layout what also holds past the end of one)"
STRIDE_ONE = f"one mode has stride 1, and the strides of the others are multiples ({HEADER}, Upcast, Downcast)"
POWERS = f"the widths are a power of two apart ({HEADER}: a swizzle moves bits of an address)"
TILES = f"the atom divides the shape ({HEADER}, 'block shape does not divide the target shape')"


def rule(library: str, operation: str, args: tuple[Any, ...]) -> str | None:
    """The documented rule that the operands break; None where the documents ask for no more than they are."""
    if operation == "composition":
        return _composes(*args)
    if operation == "complement":
        return _completes(args[0])
    if operation.endswith("_divide"):
        return _divided(*args)
    if operation.endswith("_product"):
        return _multiplied(*args)
    if operation == "left_inverse" and library == "pycute":
        return None if len({*args[0].values()}) == args[0].size() else INVERTIBLE
    if operation.startswith("max_common"):
        return None if args[0].size() == args[1].size() else SIZES
    if operation == "recast_layout":
        return _recasts(*args)
    if operation == "tile_to_shape":
        sizes = [m.size() for m in args[0].modes()]
        return None if all(product(t) % n == 0 for n, t in zip(sizes, args[1], strict=False)) else TILES
    return None


def _divided(a: L, tile: Any) -> str | None:
    if isinstance(tile, tuple):
        found = (_divided(m, t) for m, t in zip(a.modes(), tile, strict=False))
        return next((why for why in found if why), None)
    tile = L(tile) if isinstance(tile, int) else tile
    if not (why := _completes(tile)) and gaps(tile, 1) is None:
        return None
    return why or _composes(a, tile) or _composes(a, _complement(tile, a.size()))


def _multiplied(a: L, b: Any) -> str | None:
    b = L(b) if isinstance(b, int) else b
    if not isinstance(b, L):
        return None
    if any(d < 0 and s > 1 for s, d in b.pairs):
        return POSITIVE
    if not (why := _completes(a)) and gaps(a, 1) is None:
        return None
    return why or _composes(_complement(a, a.size() * (max(b.values()) + 1)), b)


def _recasts(new: int, old: int, a: L | S) -> str | None:
    whole = a.outer if isinstance(a, S) else a
    if isinstance(a, S) and a.bits and max(new, old) % min(new, old):
        return POWERS
    if any(d < 0 and s > 1 for s, d in whole.pairs):
        return POSITIVE
    pairs = [(s, d) for s, d in whole.pairs if s > 1]
    others = [d for _, d in pairs if d != 1]
    unit = max(1, new // old)
    return None if len(others) == len(pairs) - 1 and all(d % unit == 0 for d in others) else STRIDE_ONE


def _completes(a: L) -> str | None:
    if any(d < 0 and s > 1 for s, d in a.pairs):
        return POSITIVE
    values = a.once().values()
    return INJECTIVE if len(set(values)) < len(values) else None


def _complement(a: L, target: int) -> L:
    """The complement where there is one, by the documented definition: gap and extent of each mode, by stride."""
    pairs, filled = list[tuple[int, int]](), 1
    for extent, stride in sorted(a.once().pairs, key=lambda pair: pair[1]):
        pairs.append((max(1, stride // filled), filled))
        filled = max(1, stride) * extent
    pairs.append((-(-target // filled), filled))
    return L(tuple(s for s, _ in pairs), tuple(d for _, d in pairs))


def _composes(a: L | S, b: Any) -> str | None:
    if isinstance(b, int):
        return _composes(a, L(b))
    a = a.outer if isinstance(a, S) else a
    if isinstance(b, tuple):
        found = (_composes(m, t) for m, t in zip(a.modes(), b, strict=False) if t is not None)
        return next((why for why in found if why), None)
    if any(d < 0 and s > 1 for s, d in b.pairs):
        return POSITIVE
    values = b.once().values()
    if len(set(values)) < len(values):
        return INJECTIVE_B
    extents = [s for s, _ in merged(a)[:-1]]
    return None if all(_divides(extents, s, d) for s, d in b.once().pairs if s > 1) else DIVIDES


def merged(a: L) -> list[tuple[int, int]]:
    """The modes of a layout, neighbours that go on where the one before ends being one."""
    found = list[tuple[int, int]]()
    for s, d in a.pairs:
        if s == 1:
            continue
        if found and found[-1][0] * found[-1][1] == d:
            found[-1] = (found[-1][0] * s, found[-1][1])
        else:
            found.append((s, d))
    return found or [(1, 0)]


def _divides(extents: list[int], extent: int, stride: int) -> bool:
    """Whether extents can be divided by a stride, and what is left cut to an extent."""
    for s in extents:
        if s % stride and stride % s:
            return False
        left, stride = max(1, s // stride), -(-stride // s)
        if left % extent and extent % left:
            return False
        extent = -(-extent // left)
    return True
