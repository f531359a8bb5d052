"""An operand that TMA loads and the tensor core reads by descriptor: what sQ, sK and sV have in common."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Planted:
    """One setting for each mistake that a TMA load and its descriptors invite, right by default."""

    tma_swizzle: TmaSwizzle = "matching"
    box: Box = "atom"
    k_step: KStep = "right"
    descriptor: Descriptor = "right"
    read_major: Major | None = None  # the operand's own


def loaded(
    tile: Tile, *, major: Major, base: int, valid: tuple[str, int] | None, planted: Planted, slot: int = 0
) -> Handoff:
    """The handoff of one stage; `valid` says along which coordinate the tensor ends, and where, if it does.

    >>> from layoutlab.handoff import verify
    >>> Q = Tile("Q", m=128, k=64, bits=16)
    >>> verify(loaded(Q, major="K", base=0, valid=("m", 128), planted=Planted())).proved
    True
    >>> verify(loaded(Q, major="K", base=0, valid=("m", 128), planted=Planted(tma_swizzle="64"))).proved
    False
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
    width, height = operand.box if planted.box == "atom" else (tile.extents[inner], operand.box[1])
    writer = tma_load(
        storage,
        box={inner: width, outer: height},
        swizzle=operand.swizzle_bytes if planted.tma_swizzle == "matching" else SWIZZLES[planted.tma_swizzle],
        tensor=dict((valid,)) if valid and valid[1] < tile.extents[valid[0]] else {},
    )
    starts = Layout(operand.starts.size(), K_BYTES) if planted.k_step != "right" else operand.starts
    reader = (umma_a if row == "m" else umma_b)(
        _descriptor(operand, start, planted.descriptor), tile, starts_bytes=starts, major=planted.read_major or major
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
