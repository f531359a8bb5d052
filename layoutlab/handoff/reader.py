"""Readers: where the reading instruction takes each element from, by its own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from layoutlab.atoms.descriptors import FIELD_LIMIT, SmemDescriptor
from layoutlab.digits import Map
from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Places, strided_places
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.storage import Smem, smem
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.verdict import Location
from layoutlab.swizzle import Swizzle

K_BYTES = 32
"""Bytes of K that one tcgen05.mma takes from each row."""

SWIZZLE_BITS: dict[Any, int] = {0: 0, 32: 1, 64: 2, 128: 3}


def _no_rules() -> list[Rule]:
    return []


@dataclass(frozen=True, eq=False)
class Reader:
    """`read` goes coordinates -> location; `who` reads, `text` and `source` say by what."""

    tile: Tile
    read: Places
    who: str
    text: str
    source: str
    space: str = "smem"
    rules: Callable[[], list[Rule]] = field(default=_no_rules, repr=False)

    def location(self, outputs: dict[str, int]) -> Location:
        return Location(self.space, outputs)


def declared(layout: Any, tile: Tile, **options: Any) -> Reader:
    """A reader given as a bare layout: believed, and reported as not derived from a descriptor.

    >>> declared("(128,64):(64,1)", Tile("P", m=128, k=64, bits=16)).read.at(m=1, k=0)
    {'bit': 1024}

    Takes what `smem` takes.
    """
    storage = layout if isinstance(layout, Smem) else smem(layout, over=tile, **options)
    return Reader(
        tile, storage.places, "the reader", str(storage), "declared, not derived from a descriptor", rules=storage.rules
    )


def umma_a(desc: SmemDescriptor, tile: Tile, *, starts_bytes: Sequence[int]) -> Reader:
    """Operand A of tcgen05.mma, K-major: one descriptor for each K step, `starts_bytes` further than `desc`'s own start.

    >>> P = Tile("P", m=128, k=32, bits=16)
    >>> reader = umma_a(SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128), P, starts_bytes=[0, 32])
    >>> [reader.read.at(m=m, k=k)["bit"] // 8 for m, k in ((0, 0), (1, 0), (0, 16))]
    [0, 144, 32]

    A step takes 32 bytes of K from each row. The linear byte of an element is, without a swizzle, (m%8)*16 + (m/8)*sbo +
    (b/16)*lbo + b%16 for its byte b inside the step; with one of width w, (m%8)*w + (m/8)*sbo + b. The start is added, then
    bits [4, 4+n) of the address are xor-ed with bits [7, 7+n) of address - 128 base_offset. Source: PTX ISA, tcgen05
    "Canonical layouts" and "Shared memory descriptor"; base_offset as an H200's tensor core has it.
    """
    if len(tile.extents) != 2:
        raise LayoutError(f"operand A has rows and a K: tile {tile} has {len(tile.extents)} coordinates")
    starts = tuple(starts_bytes)
    read = _linear(desc, tile, starts)
    bits = SWIZZLE_BITS.get(desc.swizzle)
    if bits is None:
        raise LayoutError(f"swizzle {desc.swizzle!r} is for MN-major operands: a K-major A takes 0, 32, 64 or 128")
    read = read.swizzled(Swizzle(bits, 7, 3, unit_bits=1)) if not desc.base_offset else _with_base_offset(read, bits, desc.base_offset)
    offset = f", base offset {desc.base_offset}" if desc.base_offset else ""
    text = (
        f"{len(starts)} descriptors: start {desc.start} + {_listed(starts)} bytes, lbo {desc.lbo}, sbo {desc.sbo}, "
        f"swizzle {desc.swizzle} B{offset}"
    )
    source = "modelled: tcgen05.mma operand A, K-major descriptors"
    return Reader(tile, read, "the MMA", text, source, rules=lambda: _descriptor_rules(desc, tile, starts))


def _listed(starts: Sequence[int]) -> str:
    shown = [str(s) for s in starts]
    return "(" + ", ".join(shown if len(shown) <= 10 else [*shown[:5], "...", shown[-1]]) + ")"


def _linear(desc: SmemDescriptor, tile: Tile, starts: tuple[int, ...]) -> Places:
    """Coordinates -> bit of the address before the swizzle."""
    (m, rows), (k, ks) = tile.extents.items()
    step, width = K_BYTES * 8 // tile.bits, int(desc.swizzle or 16) if desc.swizzle != "128_32b" else 128
    if K_BYTES * 8 % tile.bits or ks % step or len(starts) != ks // step:
        raise LayoutError(
            f"operand A of {tile}: an instruction takes {K_BYTES} bytes of K, {step} elements, so {ks} of them need "
            f"{ks / step:g} starts; {len(starts)} were given"
        )
    row_modes = [(8, width * 8), (max(1, rows // 8), desc.sbo * 8)] if rows % 8 == 0 else None
    if row_modes is None:
        raise LayoutError(f"operand A of {tile}: rows come in groups of 8, {rows} are no whole number of them")
    half = 128 // tile.bits  # elements of 16 bytes
    inside = [(half, tile.bits), (2, desc.lbo * 8 if desc.swizzle == 0 else 128)]
    near = strided_places({m: row_modes, k: [*inside, (ks // step, 0)]}, "near")

    def table() -> Map:
        steps = _affine(starts)
        linear = strided_places({m: row_modes, k: [*inside, *((e, s * 8) for e, s in steps)]}, "bit")
        return linear.table.plus("bit", (desc.start + starts[0]) * 8)

    def at(**index: Any) -> dict[str, Any]:
        far = _looked_up(starts, index[k] // step)
        return {"bit": near.at(**index)["near"] + (desc.start + far) * 8}

    return Places(tile.extents, ("bit",), table, at)


def _looked_up(starts: tuple[int, ...], step: Any) -> Any:
    if isinstance(step, int):
        return starts[step]
    import numpy as np

    return np.asarray(starts, dtype=np.int64)[step]


def _affine(starts: tuple[int, ...]) -> list[tuple[int, int]]:
    """The starts after the first as (extent, stride) modes; refuses a list that no strides give."""
    modes, weight, rest = list[tuple[int, int]](), 1, [s - starts[0] for s in starts]
    while weight < len(rest):
        extent = next((e for e in range(2, len(rest) // weight + 1) if (len(rest) // weight) % e == 0), 1)
        modes.append((extent, rest[weight]))
        weight *= extent
    for i, start in enumerate(rest):
        total, left = 0, i
        for extent, stride in modes:
            total, left = total + left % extent * stride, left // extent
        if total != start:
            raise LayoutError(f"the start of K step {i} is no sum of strides: {start + starts[0]} bytes")
    return modes


def _with_base_offset(read: Places, bits: int, base_offset: int) -> Places:
    """The swizzle whose row is counted from base_offset rows of 128 bytes on."""

    def no_table() -> Map:
        raise LayoutError("a descriptor's base offset subtracts from the swizzle's row, which carries")

    def at(**index: Any) -> dict[str, Any]:
        bit = read.at(**index)["bit"]
        row = ((bit >> 10) - base_offset) & ((1 << bits) - 1)
        return {"bit": bit ^ (row << 7)}

    return Places(read.axes, read.outputs, no_table, at)


def _descriptor_rules(desc: SmemDescriptor, tile: Tile, starts: tuple[int, ...]) -> list[Rule]:
    rows = tile.shape[0]
    shapes = None if rows in (64, 128) else f"{tile} has {rows} rows, and one tcgen05.mma of one CTA takes 64 or 128"
    misplaced = next((s for s in starts if (desc.start + s) % 16), None)
    odd = None if misplaced is None else f"a descriptor starts at byte {desc.start + misplaced}, which 16 does not divide"
    outside = next((s for s in starts if not 0 <= desc.start + s < FIELD_LIMIT), None)
    far = (
        None
        if outside is None
        else f"a descriptor starts at byte {desc.start + outside}: the field has 14 bits of 16-byte units, 0 to 262128"
    )
    return [
        Rule("an instruction takes 64 or 128 rows", shapes),
        Rule("every descriptor starts at a multiple of 16 bytes", odd),
        Rule("every descriptor's start fits its field", far),
    ]
