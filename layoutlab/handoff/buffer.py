"""Buffer: where a reader of shared memory wants its tile, as the storage that a writer stores to.

>>> from layoutlab.atoms.descriptors import SmemDescriptor
>>> from layoutlab.handoff.reader import umma_a
>>> from layoutlab.handoff.tile import Tile
>>> P = Tile("P", m=128, k=64, bits=16)
>>> desc = SmemDescriptor(start=1024, lbo=0, sbo=1024, swizzle=128)
>>> found = storage_of(umma_a(desc, P, starts_bytes=[0, 32, 64, 96]))
>>> print(found, found.base_bytes)
S<3,4,3> o 0 o (128,64):(64,1) 1024
"""

from __future__ import annotations

from dataclasses import replace

from layoutlab.errors import LayoutError
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.storage import Smem, smem
from layoutlab.handoff.strided import in_elements, modes_layout, strided_form
from layoutlab.swizzle import ComposedLayout, Swizzle


def storage_of(reader: Reader) -> Smem:
    """The buffer of shared memory that a reader reads, from its places alone, with the swizzle that they have."""
    if reader.space != "smem":
        raise LayoutError(f"{reader.who} reads {reader.space}, no shared memory")
    tile, axes = reader.tile, dict(reader.read.axes)
    if over := next((axis for axis in tile.extents if axes.get(axis) != tile.extents[axis]), None):
        raise LayoutError(
            f"{reader.who} takes {over}=0 to {axes[over] - 1}, and {tile} ends at {over}={tile.extents[over] - 1}: a "
            f"buffer of the tile alone is derived"
        )
    places = strided_form(reader.read)
    modes = [in_elements(places.steps(axis), tile.bits, f"the reader along {axis}") for axis in tile.extents]
    outer = modes_layout(*modes)
    start = places.base + places.shift
    if start % 8 or start < 0:
        raise LayoutError(f"the reader starts at bit {start}, and a buffer starts at a byte")
    swizzle = _bytes(places.swizzle)
    layout = outer if swizzle is None else ComposedLayout(swizzle, 0, outer)
    made = smem(layout, over=tile, base_bytes=start // 8, align_bytes=1024)
    if places.shift and swizzle is not None:  # the swizzle's rows are counted from the buffer's own start
        made = replace(made, swizzles="offsets")
        zero = dict.fromkeys(tile.extents, 0)
        if made.places.at(**zero) != reader.read.at(**zero) or places.base % made.repeat_bytes:
            raise LayoutError(
                f"the reader's swizzle counts rows from byte {places.shift // 8} and its elements start at byte "
                f"{start // 8}: a store swizzles addresses, or offsets from its buffer's start"
            )
    return made


def _bytes(swizzle: Swizzle | None) -> Swizzle | None:
    """A swizzle of bits as CuTe prints it beside a pointer, counting bytes."""
    if swizzle is None or not swizzle.bits:
        return None
    return replace(swizzle.counted_in(8), unit_bits=None)
