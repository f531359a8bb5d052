"""Every claim about a handoff by walking all of it with numpy: no table, no chunk, nothing of `layoutlab.handoff` but
its parts.

Owner and storage are evaluated as the layouts that they print, the swizzle as the xor that it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutlab import ComposedLayout, Handoff, Swizzle


@dataclass
class Walk:
    """Arrays over all (t, v), the thread slowest."""

    m: Any
    k: Any
    write: Any
    inside: Any
    read: Any  # [m, k] -> bit
    bits: int
    values: int

    def placed(self) -> tuple[int, int] | None:
        there = self.read[np.where(self.inside, self.m, 0), np.where(self.inside, self.k, 0)]
        return self._first(self.inside & (self.write != there))

    def misplaced(self) -> int:
        there = self.read[np.where(self.inside, self.m, 0), np.where(self.inside, self.k, 0)]
        return int((self.inside & (self.write != there)).sum())

    def covered(self) -> tuple[int, int] | None:
        rows, columns = self.read.shape
        owned = np.zeros((rows, columns), dtype=bool)
        owned[self.m[self.inside], self.k[self.inside]] = True
        missing = ~owned
        if not missing.any():
            filled = {int(b) + i for b in self.write for i in range(self.bits)}
            missing = np.array(
                [[any(int(b) + i not in filled for i in range(self.bits)) for b in r] for r in self.read]
            )
        flat = missing.reshape(-1)
        return None if not flat.any() else divmod(int(flat.argmax()), columns)

    def exclusive(self) -> tuple[int, int] | None:
        holder: dict[int, tuple[int, int]] = {}
        for i, (bit, m, k) in enumerate(zip(self.write.tolist(), self.m.tolist(), self.k.tolist(), strict=True)):
            for b in range(bit, bit + self.bits):
                if holder.setdefault(b, (m, k)) != (m, k):
                    return divmod(i, self.values)
        return None

    def _first(self, wrong: Any) -> tuple[int, int] | None:
        return None if not wrong.any() else divmod(int(wrong.argmax()), self.values)


def walk(h: Handoff, read: Any) -> Walk:
    """A handoff whose writer stores at its owner's coordinates."""
    threads, values = h.writer.owner.places.axes["t"], h.writer.owner.places.axes["v"]
    t, v = (a.reshape(-1) for a in np.meshgrid(np.arange(threads), np.arange(values), indexing="ij"))
    rows = h.tile.shape[0]
    flat = h.writer.owner.layout(t, v)
    m, k = flat % rows, flat // rows
    inside = (m >= 0) & (k >= 0) & (k < h.tile.shape[1])
    return Walk(m, k, stored(h, flat), inside, read, h.tile.bits, values)


def stored(h: Handoff, flat: Any) -> Any:
    """The bit at which the storage holds each flat coordinate."""
    s = h.writer.storage
    outer = s.layout.outer if isinstance(s.layout, ComposedLayout) else s.layout
    return swizzled(h, outer.extended(flat) * h.tile.bits)


def swizzled(h: Handoff, offset: Any) -> Any:
    """Where a bit offset from the base ends up."""
    s, base = h.writer.storage, h.writer.storage.base_bytes * 8
    inner = s.layout.inner if isinstance(s.layout, ComposedLayout) else None
    if not isinstance(inner, Swizzle):
        return offset + base
    low = s.swizzle.base
    assert low - inner.base in (3, h.tile.bits.bit_length() - 1)
    address = offset + (base if s.swizzles == "addresses" else 0)
    mask = ((1 << inner.bits) - 1) << low
    return (address ^ (address >> inner.shift) & mask) + (0 if s.swizzles == "addresses" else base)


def layout(text: str) -> Any:
    """A static layout from its text."""
    from layoutlab import Layout

    shape, stride = (eval(part, {"__builtins__": {}}) for part in text.split(":"))
    return Layout(shape, stride)
