"""Pairing: whether what one copy leaves in registers is what the next one takes from them.

>>> from layoutlab.algebra import composition
>>> from layoutlab.layout import Layout
>>> from layoutlab.tv.copy import make_cotiled_copy, make_tiled_copy
>>> from layoutlab.tv.instructions import make_copy_atom
>>> from layoutlab.tv.tmem import make_tmem_copy
>>> load = make_tmem_copy(make_copy_atom("tcgen05.ld.32x32b.x32", "f32"), Layout((128, 128), (65536, 1)))
>>> staging = Layout((128, (64, 2)), (64, (1, 8192)))
>>> offsets = composition(staging, Layout((128, 128)))
>>> store = make_copy_atom("universal", "bf16")
>>> check_pair(load, make_cotiled_copy(store, offsets, staging), (128, 128))
>>> check_pair(load, make_tiled_copy(store, offsets, (128, 128)), (128, 128), staging)
Traceback (most recent call last):
layoutlab.errors.LayoutError: T0 V1 comes as (0,1) and is taken for (1,0): 16380 of 16384 elements are taken for \
others. The second copy's TV layout gives memory offsets of (128,(64,2)):(64,(1,8192)), not coordinates: \
make_cotiled_copy takes those

The offsets of a compact tile are as many as its coordinates, so `make_tiled_copy` alone cannot tell the two apart; CuTe
DSL compiles the last copy without a word.
"""

from __future__ import annotations

from typing import Any

from layoutlab.algebra import functionally_equal
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import IntTuple, map_leaves, to_text
from layoutlab.layout import Layout, make_identity_layout
from layoutlab.survey import number
from layoutlab.swizzle import ComposedLayout
from layoutlab.tv.copy import TiledCopy


def check_pair(first: TiledCopy, second: TiledCopy, shape: IntTuple, data_layout: Layout | None = None) -> None:
    """Refuses a copy that takes registers for other elements than the copy before left there, over a whole tensor.

    shape is the tensor's; registers are taken in order. With the layout of the memory that the second copy writes, the
    refusal also says whether memory offsets were given for coordinates. Raises LayoutError.
    """
    if first.size != second.size:
        raise LayoutError(f"the first copy has {first.size} threads, the second {second.size}")
    coordinates = ComposedLayout(None, map_leaves(lambda _: 0, shape), make_identity_layout(shape))
    wrong, total, found = 0, 0, ""
    for thread in range(first.size):
        brought = _elements(first.get_slice(thread).partition_D(coordinates))
        taken = _elements(second.get_slice(thread).partition_S(coordinates))
        if len(brought) != len(taken):
            raise LayoutError(
                f"T{thread} is left {len(brought)} values by the first copy, the second takes {len(taken)}"
            )
        total += len(brought)
        for value, (there, here) in enumerate(zip(brought, taken, strict=True)):
            if there != here:
                found = found or f"T{thread} V{value} comes as {to_text(there)} and is taken for {to_text(here)}"
                wrong += 1
    if wrong:
        why = f"{found}: {wrong} of {total} elements are taken for others"
        raise LayoutError(why + _offsets(second, data_layout))


def _elements(part: ComposedLayout) -> list[Any]:
    return [part(i) for i in range(number(part.size()))]


def _offsets(second: TiledCopy, data: Layout | None) -> str:
    """A sentence where the second copy's numbers are the memory offsets of the owners that it should have."""
    if data is None or second.tv.size() != data.size():
        return ""
    if not functionally_equal(second.tv, data):  # offsets of thread t's row t, in the order of its columns
        return ""
    return (
        f". The second copy's TV layout gives memory offsets of {data}, not coordinates: make_cotiled_copy takes those"
    )
