"""Why a library's answer is wrong: root causes, told apart by the operands.

One sentence for each cause; calls with operands of one kind share it. `minimal` keeps a call within its cause.
"""

from __future__ import annotations

from typing import Any

from plain import L, S
from rules import DIVIDES, INJECTIVE, INJECTIVE_B, INVERTIBLE, POSITIVE, POWERS, SIZES, STRIDE_ONE, TILES

Args = tuple[Any, ...]

BREAKS = {
    DIVIDES: "a step or an extent ends inside a mode of A; the rest is rounded",
    INJECTIVE_B: "indices of B meet and carry, while A o B is taken leaf by leaf",
    INJECTIVE: "the layout to complement meets itself; its strides are divided all the same, and rounded",
    POSITIVE: "a negative stride is divided and rounded like an extent",
    INVERTIBLE: "two indices go to one location, of which the inverse can keep one",
    SIZES: "the common vector leaves the smaller layout",
    STRIDE_ONE: "no single mode of stride 1 holds the parts of an element; strides and extents are divided and rounded",
    POWERS: "the swizzle moves by a whole number of bits, and the widths are not a power of two apart",
    TILES: "the number of atoms is rounded up, and the result has not the shape asked for",
}
CARRY = "leaves of B that divide A add up past an extent of A, while A o B is taken leaf by leaf"
GAP = "a stride is no multiple of what the modes below fill, so that copies fill no range; it is divided and rounded"
REPEATS = "of two modes that go to the same locations the inverse follows both, as if the second began where one ends"
DIVISION = "a number of copies is taken for the size of a tile, and divides"
ORDER = "modes with one order number get one stride, and overlap"
SWIZZLED = "the swizzle's bits are moved as if the layout moved bits as bits"
BASE = "the swizzle moves bits inside of the wider element, and its base is counted below 0"
HALF = "an extent that does not fill whole units is rounded up"
VECTOR = "the swizzle or the offset tears the vector apart"
OTHER = "not told apart yet"


def cause(library: str, operation: str, args: Args, rule: str | None) -> str:
    """The root cause of a wrong answer to a call."""
    if library == "pycute" and operation.endswith("_product") and isinstance(args[1], int):
        return DIVISION
    if rule is not None:
        return BREAKS[rule]
    if any(isinstance(a, S) and a.bits for a in args):
        return {"recast_layout": BASE, "max_common_vector": VECTOR}.get(operation, SWIZZLED)
    if operation in ("complement", "logical_divide") or operation.endswith("_product"):
        return GAP
    if operation == "composition":
        return CARRY
    if operation == "left_inverse":
        return REPEATS if _repeats(args[0]) else GAP
    if operation == "make_ordered_layout":
        return ORDER
    if operation == "recast_layout":
        return HALF
    return OTHER


def _repeats(a: L | S) -> bool:
    return len({*a.values()}) < a.size()
