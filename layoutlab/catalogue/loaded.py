"""An operand that TMA loads and the tensor core reads by descriptor: what sQ, sK and sV have in common."""

from __future__ import annotations

from typing import Literal

from layoutlab.atoms.descriptors import SHARED_LIMIT, Major, SmemDescriptor, SwizzleMode
from layoutlab.atoms.operand import K_BYTES
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Tile, smem, tma_load, umma_a, umma_b
from layoutlab.handoff.operand import SmemOperand
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout
from layoutlab.symbol import at_most

DType = Literal["bf16", "f16", "e4m3", "e5m2"]
TmaSwizzle = Literal["matching", "none", "32", "64", "128"]
Box = Literal["atom", "row"]
KStep = Literal["right", "always_32_bytes"]
Descriptor = Literal["right", "swapped", "units"]

SWIZZLES: dict[str, SwizzleMode] = {"none": 0, "32": 32, "64": 64, "128": 128}


def loaded(
    tile: Tile,
    *,
    major: Major,
    read_major: Major,
    base: int,
    slot: int,
    valid: tuple[str, int] | None,
    tma_swizzle: TmaSwizzle,
    box: Box,
    k_step: KStep,
    descriptor: Descriptor,
) -> Handoff:
    """The handoff of one stage; `valid` says along which coordinate the tensor ends, and where, if it does.

    `tma_swizzle`, `box`, `k_step`, `descriptor` and `read_major` plant one mistake each.
    """
    (row, rows), (k, ks) = tile.extents.items()
    if valid and valid[1] < 1:
        raise LayoutError(f"seq={valid[1]}: a TMA tensor has an extent of at least 1, and {tile.name}'s is seq")
    operand = SmemOperand(rows, ks, tile.bits, major)
    start = base + slot * operand.bytes
    if not at_most(start + operand.bytes, SHARED_LIMIT, f"shared memory has {SHARED_LIMIT} bytes"):
        raise LayoutError(
            f"{tile} would end at byte {start + operand.bytes - 1}, "
            f"and a block has {SHARED_LIMIT} bytes of shared memory"
        )
    storage = smem(ComposedLayout(operand.swizzle, 0, operand.layout), over=tile, base_bytes=start, align_bytes=1024)
    inner, outer = (k, row) if major == "K" else (row, k)
    width, height = operand.box if box == "atom" else (tile.extents[inner], operand.box[1])
    writer = tma_load(
        storage,
        box={inner: width, outer: height},
        swizzle=operand.swizzle_bytes if tma_swizzle == "matching" else SWIZZLES[tma_swizzle],
        tensor=dict((valid,)) if valid and valid[1] < tile.extents[valid[0]] else {},
    )
    starts = Layout(operand.starts.size(), K_BYTES) if k_step != "right" else operand.starts
    reader = (umma_a if row == "m" else umma_b)(
        _descriptor(operand, start, descriptor), tile, starts_bytes=starts, major=read_major
    )
    return Handoff(tile, writer=writer, reader=reader)


def _descriptor(operand: SmemOperand, start: int, how: Descriptor) -> SmemDescriptor:
    """The operand's descriptor; its strides exchanged, or sbo's field given where its bytes belong."""
    right = operand.descriptor(start)
    lbo, sbo = {
        "right": (right.lbo, right.sbo),
        "swapped": (right.sbo, right.lbo),
        "units": (right.lbo, right.sbo >> 4),
    }[how]
    return SmemDescriptor(start=start, lbo=lbo, sbo=sbo, swizzle=right.swizzle)
