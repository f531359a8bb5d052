"""Storage: where each element of a tile lies in shared memory.

>>> from layoutlab.handoff.tile import Tile
>>> P = Tile("P", m=128, k=128, bits=16)
>>> sP = smem("S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))", over=P, align_bytes=1024)
>>> sP.places.at(m=1, k=0)["bit"] // 8, sP.bytes
(144, 32768)

Locations are absolute: a swizzle acts on addresses, so the base of the buffer is part of them. They are counted in
bits, which 4- and 6-bit types need, and shown in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from layoutlab.atoms.descriptors import SHARED_LIMIT
from layoutlab.errors import LayoutError
from layoutlab.handoff.notation import read_layout
from layoutlab.handoff.places import Modes, Places, strided_places
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.tile import Tile
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym, at_most, known

Swizzles = Literal["addresses", "offsets"]

HARDWARE_PERIOD_BYTES = 1024
"""What any reader's swizzle of addresses repeats after at most: a base's remainder by this is all that it can see."""


@dataclass(frozen=True, eq=False)
class Smem:
    """A tile's buffer in shared memory: outer layout in elements, swizzle in bits, base in bytes."""

    tile: Tile
    layout: Layout | ComposedLayout
    modes: Mapping[str, Modes] = field(repr=False)
    swizzle: Swizzle | None  # counts bits
    swizzles: Swizzles
    offset: int  # elements that the layout starts at
    base_bytes: int
    align_bytes: int
    name: str

    space: ClassVar[str] = "smem"

    @cached_property
    def element(self) -> Places:
        """Coordinates -> element offset, before the swizzle."""
        return strided_places(self.modes, "element")

    @cached_property
    def places(self) -> Places:
        """Coordinates -> bit of shared memory."""
        return self.locate(self.element)

    def locate(self, element: Places) -> Places:
        """Element offsets, whatever they are a function of, as bits of shared memory."""
        base, offset = self.base_bytes * 8, self.offset * self.tile.bits
        if self.swizzles == "addresses":
            return element.scaled(self.tile.bits, "bit", base + offset).swizzled(self.swizzle)
        return element.scaled(self.tile.bits, "bit", offset).swizzled(self.swizzle).moved(base)

    @property
    def ends(self) -> tuple[Any, Any]:
        """The first bit and the end of what the layout reaches, before the swizzle."""
        steps = [(e - 1) * s for mode in self.modes.values() for e, s in mode]
        low = self.base_bytes * 8 + (self.offset + sum(0 if s >= 0 else s for s in steps)) * self.tile.bits
        high = self.base_bytes * 8 + (self.offset + sum(s if s >= 0 else 0 for s in steps) + 1) * self.tile.bits
        return low, high

    @property
    def cells(self) -> range:
        """The bits of the allocation: from the base to the highest element, in whole spans that the swizzle
        permutes."""
        (low, high), span = self.ends, self._span
        start = self.base_bytes * 8 % span if self.swizzles == "offsets" else 0  # where a span begins
        return range((low - start) // span * span + start, -(-(high - start) // span) * span + start)

    @property
    def _span(self) -> int:
        """Bits that the swizzle permutes among themselves; a byte at least."""
        if not self.swizzle or not self.swizzle.bits:
            return 8
        return max(8, 1 << self.swizzle.base + self.swizzle.bits + max(0, -self.swizzle.shift))

    @property
    def bytes(self) -> int:
        """The size of the allocation."""
        return len(self.cells) // 8

    @property
    def repeat_bytes(self) -> int:
        """Bytes after which the swizzle's pattern repeats; 1 without a swizzle."""
        if self.swizzle is None or not self.swizzle.bits:
            return 1
        return max(1, (1 << self.swizzle.base + self.swizzle.bits + abs(self.swizzle.shift)) // 8)

    def rules(self) -> list[Rule]:
        """What the base has to be for the swizzle to mean what it says."""
        rules = [
            Rule(
                f"{self.name} starts at a multiple of 16 bytes",
                f"{self.name} starts at byte {self.base_bytes} of a buffer aligned to {self.align_bytes} bytes"
                if self.base_bytes % 16 or self.align_bytes % 16
                else None,
            ),
            self._room(),
        ]
        period = min(self.repeat_bytes, HARDWARE_PERIOD_BYTES)
        if self.swizzles == "offsets" and self.align_bytes % period:
            fault = (
                f"the writer swizzles offsets, whose pattern repeats every {period} bytes, and the buffer is "
                f"aligned to {self.align_bytes} bytes only: align it to {period}, or swizzle addresses"
            )
            rules.append(Rule("offsets may be swizzled only at an aligned base", fault))
        return rules

    def _room(self) -> Rule:
        """Whether the buffer lies in what one block can have."""
        if any(isinstance(end, Sym) for end in self.ends):
            return self._room_of_symbols()
        first, last = self.cells.start // 8, self.cells.stop // 8 - 1
        fault = None
        if first < 0 or last >= SHARED_LIMIT:
            fault = f"{self.name} takes bytes {first} to {last}, and shared memory has bytes 0 to {SHARED_LIMIT - 1}"
        return Rule(f"shared memory has {SHARED_LIMIT} bytes", fault)

    def _room_of_symbols(self) -> Rule:
        """The same where extents or base are symbols. Where spans begin at a multiple of their size, so does the end of
        shared memory: the allocation ends inside of it where the layout does. Else what remains of one is known, or
        refused."""
        (low, high), span = self.ends, self._span
        asked, fault = f"shared memory has {SHARED_LIMIT} bytes", None
        start = self.base_bytes * 8 if self.swizzles == "offsets" else 0  # where a span begins
        if self.swizzles == "offsets":
            _ = self.base_bytes % self.repeat_bytes
        if start % span or SHARED_LIMIT * 8 % span:
            low, high = low - (low - start) % span, high + (start - high) % span
        if not low >= 0 or not at_most(-(-high // 8), SHARED_LIMIT, asked):
            fault = f"{self.name} takes bytes {low // 8} to {high // 8 - 1}, and {asked}"
        return Rule(asked, fault)

    @property
    def code(self) -> str:
        """The expression that makes this buffer."""
        inner = self.layout.inner if isinstance(self.layout, ComposedLayout) else None
        by_elements = isinstance(inner, Swizzle) and self.swizzle != _in_bits(inner, self.tile, "bytes")
        options = [
            f"base_bytes={self.base_bytes}" if self.base_bytes else "",
            f"align_bytes={self.align_bytes}",
            'swizzle_unit="elements"' if by_elements else "",
            'swizzles="offsets"' if self.swizzles == "offsets" else "",
        ]
        return f'll.smem("{self.layout}", over={self.tile.name}, {", ".join(filter(None, options))})'

    def spoken(self) -> str:
        """The layout with its units, and the bytes that it takes."""
        axes = ",".join(self.tile.extents)
        what = ""
        if self.swizzle is not None:
            low = 1 << max(0, self.swizzle.base - 3)
            what = f", swizzle of {self.swizzles} in chunks of {low} bytes"
        if any(isinstance(end, Sym) for end in self.ends):
            start, stop = (end // 8 for end in self.ends)
        else:
            start, stop = self.cells.start // 8, self.cells.stop // 8
        return f"{self.layout}   ({axes}) -> {self.tile.bits}-bit elements{what}, bytes {start} to {stop - 1}"

    def __str__(self) -> str:
        return str(self.layout)


class Gmem(Smem):
    """A tile's place in global memory."""

    space: ClassVar[str] = "gmem"

    @property
    def code(self) -> str:
        """The expression that makes this place."""
        return f'll.gmem("{self.layout}", over={self.tile.name}, base_bytes={self.base_bytes})'

    def rules(self) -> list[Rule]:
        """Global memory is taken as it is."""
        return []


def gmem(layout: Any, *, over: Tile, base_bytes: int = 0, name: str | None = None) -> Gmem:
    """A tile's place in global memory, from a layout in elements; `base_bytes` is its first element's.

    >>> O = Tile("O", m=128, n=64, bits=16)
    >>> gmem("(128,64):(512,1)", over=O).places.at(m=1, n=3)
    {'bit': 8240}
    """
    label = name or f"g{over.name}"
    made = smem(layout, over=over, base_bytes=base_bytes, name=label)
    if made.swizzle is not None:
        raise LayoutError(f"{label}: {layout} is swizzled, and global memory is not")
    return Gmem(over, made.layout, made.modes, None, "addresses", made.offset, base_bytes, 16, label)


@dataclass(frozen=True, eq=False)
class Tmem:
    """A tile's columns of Tensor Memory: row m in its lane, the elements of k one after the other from `column` on."""

    tile: Tile
    column: int
    name: str

    space: ClassVar[str] = "tmem"

    @cached_property
    def places(self) -> Places:
        """Coordinates -> lane, and bit of the lane."""
        (m, rows), (k, _) = self.tile.extents.items()
        lanes = strided_places({m: row_lanes(rows)}, "lane")
        return lanes.beside(strided_places({k: [(self.tile.shape[1], self.tile.bits)]}, "bit").moved(self.column * 32))

    @property
    def ends(self) -> tuple[int, int]:
        """The first bit of a lane that the tile takes, and the end, in whole columns."""
        return self.column * 32, (self.column + -(-self.tile.shape[1] * self.tile.bits // 32)) * 32

    @property
    def cells(self) -> range:
        """The bits of a lane that the tile takes, in whole columns."""
        return range(*self.ends)

    def rules(self) -> list[Rule]:
        """What Tensor Memory has room for."""
        first, end = self.column, self.ends[1] // 32
        room = (
            None
            if first >= 0 and at_most(end, 512, "Tensor Memory has 512 columns")
            else f"{self.name} takes columns {first} to {end - 1}, there are 512"
        )
        return [Rule("Tensor Memory has 512 columns", room)]

    @property
    def code(self) -> str:
        """The expression that makes these columns."""
        return f"ll.tmem(over={self.tile.name}, column={self.column})"

    def spoken(self) -> str:
        """Where it lies, in words."""
        return f"row m in its lane, columns {self.column} to {self.ends[1] // 32 - 1}"

    def __str__(self) -> str:
        return f"columns {self.column} to {self.ends[1] // 32 - 1}"


def row_lanes(rows: int) -> list[tuple[int, int]]:
    """The lanes of an accumulator's or operand's rows, one CTA: all 128, or the first 16 of every 32 for 64 rows."""
    if rows not in (64, 128):
        raise LayoutError(f"{rows} rows: a tile of one CTA has 64 or 128 in Tensor Memory")
    return [(128, 1)] if rows == 128 else [(16, 1), (4, 32)]


def tmem(*, over: Tile, column: int = 0, name: str | None = None) -> Tmem:
    """A tile's columns of Tensor Memory, from `column` on, as tcgen05.mma keeps accumulators and takes operand A.

    >>> tmem(over=Tile("P", m=128, k=64, bits=16), column=32).places.at(m=3, k=5)
    {'lane': 3, 'bit': 1104}

    A column is 32 bits: one f32, two 16-bit or four 8-bit elements. Source: PTX ISA, tcgen05 "Data path layout".
    """
    if len(over.extents) != 2:
        raise LayoutError(f"Tensor Memory has lanes and columns: tile {over} has {len(over.extents)} coordinates")
    row_lanes(over.shape[0])
    return Tmem(over, column, name or f"t{over.name}")


def smem(
    layout: Any,
    *,
    over: Tile,
    base_bytes: int = 0,
    align_bytes: int = 16,
    swizzle_unit: Literal["bytes", "elements"] = "bytes",
    swizzles: Swizzles = "addresses",
    name: str | None = None,
) -> Smem:
    """A tile's buffer in shared memory, from a layout, the text of one or a live DSL object.

    >>> P = Tile("P", m=8, k=64, bits=16)
    >>> smem("S<3,4,3> o 0 o (8,64):(64,1)", over=P).places.at(m=1, k=0)
    {'bit': 1152}
    >>> smem("S<3,4,3> o 0 o (8,64):(64,1)", over=P, swizzle_unit="elements").places.at(m=1, k=0)
    {'bit': 1024}

    Units: strides count elements of the tile; a swizzle in a text counts bytes, as CuTe DSL prints it beside a pointer
    to shared memory, or elements with `swizzle_unit="elements"`; one that carries its own unit keeps it. `base_bytes`
    is where the tile starts inside a buffer aligned to `align_bytes`. `swizzles` says what the writer's code swizzles:
    absolute addresses, as hardware does, or offsets from the base. Raises LayoutError for a layout of another number
    of elements.
    """
    label = name or f"s{over.name}"
    value = read_layout(layout, label)
    for what, count in (("base_bytes", base_bytes), ("align_bytes", align_bytes)):
        if isinstance(count, bool) or not (isinstance(count, int) or (isinstance(count, Sym) and known(count))):
            raise LayoutError(f"{label}: {what}={count!r} is no whole number of bytes")
    for bad, why in (
        (base_bytes < 0, f"starts at byte {base_bytes}"),
        (align_bytes < 1, f"is aligned to {align_bytes}"),
    ):
        if bad:
            raise LayoutError(f"{label} {why}: a number of bytes is not negative")
    if swizzle_unit not in ("bytes", "elements") or swizzles not in ("addresses", "offsets"):
        raise LayoutError(
            f'{label}: swizzle_unit is "bytes" or "elements" and swizzles "addresses" or "offsets", '
            f"not {swizzle_unit!r} and {swizzles!r}"
        )
    outer, swizzle, offset = _parts(value, label, over, swizzle_unit)
    return Smem(over, value, over.share(outer, label), swizzle, swizzles, offset, base_bytes, align_bytes, label)


def _parts(value: Layout | ComposedLayout, label: str, tile: Tile, unit: str) -> tuple[Layout, Swizzle | None, int]:
    """Outer layout, swizzle in bits, offset in elements."""
    if isinstance(value, Layout):
        return value, None, 0
    if not isinstance(value.offset, int):
        raise LayoutError(f"{label}: {value} starts at {value.offset}, which is no number of elements")
    if value.element_bits not in (None, tile.bits):
        raise LayoutError(f"{label}: {value} counts {value.element_bits}-bit elements, {tile} has {tile.bits}-bit ones")
    if not isinstance(value.inner, Swizzle):
        if value.inner is None:
            return value.outer, None, value.offset
        raise LayoutError(f"{label}: {value} composes two layouts; give their composition")
    return value.outer, _in_bits(value.inner, tile, unit), value.offset


def _in_bits(swizzle: Swizzle, tile: Tile, unit: str) -> Swizzle:
    """A swizzle as it acts on bits of memory; one that carries no unit counts `unit`."""
    if swizzle.unit_bits is None:
        swizzle = Swizzle(swizzle.bits, swizzle.base, swizzle.shift, 8 if unit == "bytes" else tile.bits)
    found = swizzle.counted_in(1)
    chunk = 1 << found.base
    if found.bits and chunk % tile.bits:
        raise LayoutError(f"{swizzle} moves chunks of {chunk} bits, which cuts elements of {tile}")
    return found
