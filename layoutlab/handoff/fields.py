"""Fields: what a descriptor has to say for a tile that lies somewhere, probed at the corners of the canonical form.

>>> from layoutlab.handoff.tile import Tile
>>> P = Tile("P", m=128, k=32, bits=16)
>>> fields_of(lambda m, k: 128 * m + 2 * k, P, 128, "K")                 # rows of 128 bytes, under their swizzle
Fields(start=0, lbo=None, sbo=1024, starts=(0, 32))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from layoutlab.atoms.descriptors import Major, SwizzleMode, pattern_of
from layoutlab.atoms.operand import k_per_instruction
from layoutlab.handoff.tile import Tile


class Fields(NamedTuple):
    """In bytes; None where the tile is too small for the field to be read."""

    start: int
    lbo: int | None
    sbo: int | None
    starts: tuple[int, ...]  # of each K step, absolute


def fields_of(linear: Callable[[int, int], int], tile: Tile, mode: SwizzleMode, major: Major) -> Fields:
    """The only fields that can read a (row, k) tile whose elements lie at `linear` bytes before the swizzle."""
    bits, pattern = tile.bits, pattern_of(mode)
    (rows, ks), step = tile.shape, k_per_instruction(tile.bits)
    first, chunk, across = linear(0, 0), 128 // bits, pattern.width * 8 // bits if mode else 0
    lbo = sbo = None
    if major == "K":
        sbo = linear(8, 0) - first if rows > 8 else None
        lbo = linear(0, chunk) - first if not mode else None
    elif mode:
        lbo = linear(across, 0) - first if rows > across else None
        sbo = linear(0, pattern.rows) - first if step > pattern.rows else None
    else:
        sbo, lbo = (linear(chunk, 0) - first if rows > chunk else None), linear(0, 8) - first
    return Fields(first, lbo, sbo, tuple(linear(0, step * j) for j in range(ks // step)))
