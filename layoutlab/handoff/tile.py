"""Tile: the elements that are handed over, and how a layout's modes are shared out among their coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Modes, Places, split_at, strided_places
from layoutlab.int_tuple import Basis
from layoutlab.layout import Layout
from layoutlab.symbol import Sym, known


@dataclass(frozen=True, init=False)
class Tile:
    """A named tile: the extent of each coordinate, in the order of its shape, and the bits of an element.

    >>> P = Tile("P", m=128, k=64, bits=16)
    >>> str(P), P.size
    ('P (m=128, k=64), 16-bit', 8192)

    A flat coordinate counts colexicographically, the first named one fastest: m + 128 k.
    """

    name: str
    extents: Mapping[str, int]
    bits: int

    def __init__(self, name: str, *, bits: int, **extents: int) -> None:
        if not extents:
            raise LayoutError(f"tile {name} has no coordinates: name them with their extents, m=128, k=64")
        if not isinstance(name, str) or any("\ud800" <= c <= "\udfff" for c in name):
            raise LayoutError(f"a tile's name is a text that can be printed, not {name!r}")
        for axis, extent in {**extents, "bits": bits}.items():
            whole = (isinstance(extent, int) and not isinstance(extent, bool)) or (
                isinstance(extent, Sym) and known(extent)
            )
            if not whole or not extent >= 1:
                raise LayoutError(f"tile {name} has {axis}={extent!r}: a positive integer is needed")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "extents", dict(extents))
        object.__setattr__(self, "bits", bits)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.extents.values())

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, in order."""
        return tuple(self.extents.values())

    @property
    def symbolic(self) -> bool:
        """Whether an extent is a symbol."""
        return any(isinstance(extent, Sym) for extent in self.shape)

    @property
    def strides(self) -> tuple[Any, ...]:
        """What one step along each coordinate adds to a flat coordinate, or to itself where an extent is a symbol.

        >>> Tile("P", m=128, k=64, bits=16).strides
        (1, 128)
        """
        if self.symbolic:
            return tuple(Basis(1, (i,)) for i in range(len(self.shape)))
        return tuple(prod(self.shape[:i]) for i in range(len(self.shape)))

    def unravel(self) -> Places:
        """flat -> coordinates; a flat index past the end goes on along the last coordinate."""
        parts, weight, last = list[Places](), 1, list(self.extents)[-1]
        for axis, extent in self.extents.items():
            above = self.size // (weight * extent)
            modes = [(weight, 0), (extent, 1)] if axis == last else [(weight, 0), (extent, 1), (above, 0)]
            parts.append(strided_places({"flat": modes}, axis))
            weight *= extent
        first, *more = parts
        for part in more:
            first = first.beside(part)
        return first

    def share(self, layout: Layout, what: str) -> dict[str, Modes]:
        """A layout's modes by coordinate of this tile.

        >>> Tile("P", m=128, k=128, bits=16).share(Layout(((128, 16), 1, (4, 2)), ((64, 1), 0, (16, 8192))), "sP")
        {'m': [(128, 64)], 'k': [(16, 1), (4, 16), (2, 8192)]}

        Takes one mode for each coordinate, or an MMA operand's ((M,K),rest M,rest K), or any layout whose flat index
        is the tile's; a trailing mode of one stage is dropped. Raises LayoutError for another number of elements.
        """
        if layout.unknown() or layout.coordinate_valued():
            raise LayoutError(f"{what}: {layout} is no layout of known integer strides, so it says no location")
        groups = [_kept(part) for part in layout]
        while len(groups) > len(self.extents) and _one(groups[-1]):
            groups.pop()
        sizes = tuple(prod(e for e, _ in g) for g in groups)
        if sizes == self.shape:
            return dict(zip(self.extents, groups, strict=True))
        if (operand := self._operand(layout)) is not None:
            return operand
        if prod(sizes) == self.size and len(groups) != len(self.extents):
            modes = [m for g in groups for m in g if m[0] != 1]
            parts = split_at(modes, *self.shape)
            if modes and not parts[-1]:  # past the end, a flat index goes on along the last mode
                parts[-1] = [(1, modes[-1][0] * modes[-1][1])]
            return dict(zip(self.extents, parts, strict=True))
        stages = " (slice one stage first)" if prod(sizes) % self.size == 0 and prod(sizes) > self.size else ""
        raise LayoutError(
            f"{what}: {layout} has {prod(sizes)} elements in modes of {sizes}, not those of {self}{stages}"
        )

    def _operand(self, layout: Layout) -> dict[str, Modes] | None:
        """((M,K),rest M,rest K[,1]) as (m, k), where the sizes are this tile's."""
        if len(self.extents) != 2 or layout.rank() not in (3, 4) or layout[0].rank() != 2:
            return None
        parts = [_joined(_kept(layout[0][i]), _kept(layout[1 + i])) for i in (0, 1)]
        stages = layout.rank() == 4 and not _one(_kept(layout[3]))
        if stages or tuple(prod(e for e, _ in p) for p in parts) != self.shape:
            return None
        return dict(zip(self.extents, parts, strict=True))

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(f'{a}={e}' for a, e in self.extents.items())}), {self.bits}-bit"


def _kept(part: Layout) -> list[tuple[int, int]]:
    """The leaves of a mode without those of one element, but for the last: an index past the end goes on along it."""
    *inner, last = part.leaves()
    return [*((e, s) for e, s in inner if e != 1), last]


def _one(modes: Modes) -> bool:
    return all(extent == 1 for extent, _ in modes)


def _joined(inner: Modes, rest: Modes) -> list[tuple[int, int]]:
    """An instruction's part of an axis, and the rest, which may be one repetition of no stride."""
    return list(inner) if _one(rest) else [*(m for m in inner if m[0] != 1), *rest]
