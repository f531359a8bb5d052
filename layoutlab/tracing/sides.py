"""Sides: one access to a buffer as a tile (m, k) in memory, in the ways in which its tensor is a matrix with stages."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from layoutlab.errors import LayoutError
from layoutlab.handoff import Tile, smem
from layoutlab.handoff.storage import Smem
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.text import Pointer, Tensor, parse
from layoutlab.tracing.record import Access

MOST_ELEMENTS = 1 << 18


@dataclass(frozen=True, eq=False)
class Side:
    """One access as a tile in memory: its (m, k) layout in elements, swizzle of bytes, first byte, element width."""

    access: Access
    tile: Layout  # two modes
    swizzle: Swizzle | None
    start_bits: int
    bits: int
    align: int

    @property
    def extents(self) -> tuple[int, int]:
        return int(self.tile[0].size()), int(self.tile[1].size())

    @property
    def span(self) -> range:
        """The bits that it may touch, of one stage."""
        reach = sum((s - 1) * abs(d) for s, d in self.tile.leaves())
        return range(self.start_bits, self.start_bits + (reach + 1) * self.bits)

    def same_view(self, other: Side) -> bool:
        return (self.tile, self.swizzle, self.start_bits, self.bits) == (
            other.tile, other.swizzle, other.start_bits, other.bits,
        )  # fmt: skip

    def layout(self, element_bits: int | None = None) -> Layout | ComposedLayout:
        """The tile's layout under its swizzle."""
        if self.swizzle is None or not self.swizzle.bits:
            return self.tile
        return ComposedLayout(self.swizzle, 0, self.tile, element_bits)

    def storage(self, tile: Tile) -> Smem:
        """The tile's place, as handoffs have it."""
        return smem(self.layout(), over=tile, base_bytes=self.start_bits // 8, align_bytes=max(self.align, 1))


class Unsupported(LayoutError):
    """Why an access cannot be judged."""


def sides(access: Access) -> list[Side]:
    """The readings of a tensor as one tile (m, k): an MMA's ((M,K),rest,rest), a matrix with stages behind it."""
    if access.offset_bits is None:
        raise Unsupported(access.why or "where it starts is not known")
    if access.why and access.space != "tmem":  # there, a stage's address is computed, and one stage stands for all
        raise Unsupported(access.why)
    found = list[Side]()
    for text in dict.fromkeys(filter(None, [_text_of(access), access.whole])):
        found += _readings(access, text)
    if not found:
        raise Unsupported(f"{access.tensor} is no matrix with stages")
    return found


def _text_of(access: Access) -> str:
    """The tensor that says most: of TMA the one before its modes were grouped, of a product the one with all its K."""
    whole = (access.kind == "tma" and not access.via and not access.sliced_bits) or access.call == "gemm"
    return access.view if whole else access.tensor


def _readings(access: Access, text: str) -> list[Side]:
    assert access.offset_bits is not None
    value = parse(text)
    if not isinstance(value, Tensor) or not isinstance(value.iterator, Pointer):
        raise Unsupported("it is no tensor with a pointer")
    pointer, layout = value.iterator, value.layout
    swizzle = pointer.swizzle
    if isinstance(layout, ComposedLayout):
        if not isinstance(layout.inner, Swizzle) or layout.offset != 0 or (swizzle and swizzle.bits):
            raise Unsupported(f"its layout is {layout}, whose inner function is no single swizzle")
        swizzle = (
            layout.inner
            if layout.inner.unit_bits
            else Swizzle(layout.inner.bits, layout.inner.base, layout.inner.shift, pointer.bits)
        )  # a swizzle composed with a layout counts what the layout counts
        layout = layout.outer
    if layout.symbolic():
        raise Unsupported("its layout has extents or strides that are known at run time only")
    bits = pointer.bits
    found = list[Side]()
    tiles = matrices(layout) + (_without_stages(layout) if access.space == "tmem" else [])
    for tile in tiles:
        if prod(int(s) for s, _ in tile.leaves()) <= MOST_ELEMENTS:
            start = access.offset_bits + (access.sliced_bits if text == access.tensor else 0)
            found.append(Side(access, tile, swizzle, start, bits, pointer.align_bytes or 16))
    return found


def matrices(layout: Layout) -> list[Layout]:
    """The ways in which a layout is a matrix and stages."""
    found = list[Layout]()
    modes = [*layout] if isinstance(layout.shape, tuple) else [layout]
    if len(modes) == 1 and isinstance(modes[0].shape, tuple):
        return matrices(modes[0])  # grouped: ((m, k))
    if len(modes) in (3, 4) and modes[0].rank() == 2 and isinstance(modes[0].shape, tuple):
        m, k = modes[0][0], modes[0][1]
        found.append(make_layout(make_layout(m, modes[1]), make_layout(k, modes[2])))
    if len(modes) >= 2:
        found.append(make_layout(modes[0], modes[1]))
    if len(modes) >= 3:
        found.append(make_layout(modes[0], make_layout(*modes[1:])))
    return list(dict.fromkeys(found))


def _without_stages(layout: Layout) -> list[Layout]:
    """(m, n, tiles..., stage) as the matrix of one stage, which a load takes tile by tile."""
    modes = [*layout] if isinstance(layout.shape, tuple) else [layout]
    return [make_layout(modes[0], make_layout(*modes[1:-1]))] if len(modes) >= 4 else []
