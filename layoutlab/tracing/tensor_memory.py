"""Tensor Memory: who puts a tile there and who takes it, each by the map of its own instruction.

tcgen05.mma puts row m of an accumulator in a lane and column n 32 bits further on; tcgen05.ld and st move registers as
their atom says; operand A is packed. The element that a thread's register stands for is what the traced copy says.
So a load by an atom that is not the accumulator's, or a store that is no pair of its load, is found out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from layoutlab.algebra import composition
from layoutlab.atoms.tmem import WORD_BITS, TmemAtom
from layoutlab.handoff import Handoff, Owner, Reader, Tile, Writer, owned
from layoutlab.handoff.copies import copy_coordinates
from layoutlab.handoff.reader import umma_a_tmem
from layoutlab.handoff.storage import tmem
from layoutlab.handoff.tensor_memory import tcgen05_ld, tmem_store, umma_out
from layoutlab.layout import Layout, make_layout
from layoutlab.text import parse
from layoutlab.tracing.record import Access
from layoutlab.tracing.sides import Side, Unsupported

LANE_BITS = 1 << 21  # from one lane to the next: an address is lane << 16 | column, of 32 bits each
MADE = "make_fragment"
"""An accumulator's own tensor, which starts at 0 until an address is added to it."""


def fitting(mine: list[Side], theirs: list[Side]) -> Iterator[tuple[Side, Side]]:
    """The readings of a writer and a reader that are one tile in the same columns; an accumulator is cut to its
    reader's."""
    for b in theirs:
        for a in mine:
            if a.access.kind == "mma D":
                cut = _cut(a, b)
                if cut is not None:
                    yield cut, b
            elif a.bits == b.bits and a.extents == b.extents and _overlap(a, b):
                yield a, b
            elif a.bits == WORD_BITS > b.bits and WORD_BITS % b.bits == 0:
                packed = _packed(a, b.bits)
                if packed.extents == b.extents and _overlap(packed, b):
                    yield packed, b


def only_a_shape(access: Access, others: Sequence[Access]) -> bool:
    """Whether it is a fragment that was made for its layout: products go to another address, or read another."""
    if access.space != "tmem" or MADE not in access.call:
        return False
    return access.kind == "mma D" or any(o.kind == access.kind and o.call == "gemm" for o in others)


def handoff(a: Side, b: Side) -> Handoff:
    """The handoff of two sides; raises LayoutError where an instruction or a layout of them is not of this kind."""
    m, k = b.extents
    second = "k" if b.access.kind == "mma A" else "n"
    name = re.sub(r"\W", "_", a.access.tensor_name or b.access.tensor_name or "tile")
    tile = Tile(name, bits=b.bits, **{"m": m, second: k})
    return Handoff(tile, writer=_writer(a, tile), reader=_reader(b, tile))


def source(a: Side, b: Side) -> str:
    """Where the two maps come from, and what was taken for granted."""
    writer = "tcgen05.mma's accumulator" if a.access.kind == "mma D" else str(_atom(a.access))
    reader = "tcgen05.mma's operand A" if b.access.kind == "mma A" else str(_atom(b.access))
    granted = ""
    if a.access.kind == "mma D" and MADE in a.access.call:
        granted = "; the accumulator is taken to start where the tensor that is read was made"
    elif a.access.kind != "mma D":
        granted = "; what the registers hold is taken to be what the copy says"
    if a.access.why or b.access.why:
        granted += "; what is added to the address at run time is taken to be one stage's for both"
    return f"modelled: {writer}, {reader}{granted}"


def _columns(side: Side) -> range:
    """The columns that one stage of it takes."""
    reach = sum((int(s) - 1) * abs(int(d)) * side.bits for s, d in side.tile.leaves() if abs(d) * side.bits < LANE_BITS)
    start = side.start_bits % LANE_BITS
    return range(start // WORD_BITS, (start + reach + side.bits - 1) // WORD_BITS + 1)


def _overlap(a: Side, b: Side) -> bool:
    x, y = _columns(a), _columns(b)
    return x.start < y.stop and y.start < x.stop


def _cut(a: Side, b: Side) -> Side | None:
    """The part of an accumulator that a load takes: the same rows, some of the columns."""
    if b.bits != WORD_BITS or a.bits != WORD_BITS or a.extents[0] != b.extents[0] or b.access.kind != "copy":
        return None
    if MADE in a.access.call:  # not placed yet
        if a.extents[1] < b.extents[1] or a.access.root != b.access.root:
            return None
        return replace(a, tile=b.tile, start_bits=b.start_bits)
    mine, theirs = _columns(a), _columns(b)
    if not (mine.start <= theirs.start and theirs.stop <= mine.stop) or a.extents[0] not in (64, 128) or not _plain(a):
        return None
    return replace(a, tile=Layout(b.extents, (LANE_BITS // WORD_BITS, 1)), start_bits=b.start_bits)


def _packed(side: Side, bits: int) -> Side:
    """A tile of 32-bit words as one of narrower elements, several to a word."""
    each = WORD_BITS // bits
    rows, columns = (Layout(mode.shape, _times(mode.stride, each)) for mode in (side.tile[0], side.tile[1]))
    inside = Layout(each, 1)
    return replace(side, tile=make_layout(rows, make_layout(inside, columns)), bits=bits)


def _times(stride: Any, by: int) -> Any:
    return tuple(_times(s, by) for s in stride) if isinstance(stride, tuple) else stride * by


def _plain(side: Side) -> bool:
    """Whether a row is a lane (or of 64 rows, 16 in each warp's 32) and a row's elements lie side by side."""
    import numpy as np

    rows, columns = side.extents
    m, k = np.indices((rows, columns))
    lane = m if rows == 128 else m % 16 + m // 16 * 32
    expected = lane * (LANE_BITS // side.bits) + k
    found = side.tile[0](np.arange(rows))[:, None] + side.tile[1](np.arange(columns))[None, :]
    return bool((found == expected).all())


def _column(side: Side) -> int:
    if not _plain(side):
        raise Unsupported(f"{side.access.tensor}: its rows are no lanes, or its columns do not lie side by side")
    if side.start_bits >= LANE_BITS or side.start_bits % WORD_BITS:
        raise Unsupported(f"{side.access.tensor} does not start in lane 0, at a column")
    return side.start_bits // WORD_BITS


def _writer(side: Side, tile: Tile) -> Writer:
    storage = tmem(over=tile, column=_column(side))
    if side.access.kind == "mma D":
        return umma_out(storage)
    return tmem_store(_owner(side.access, tile), storage, _atom(side.access))


def _reader(side: Side, tile: Tile) -> Reader:
    column = _column(side)
    if side.access.kind == "mma A":
        return umma_a_tmem(tile, column=column)
    return tcgen05_ld(_atom(side.access)).takes(tile, column=column, as_if=_owner(side.access, tile))


def _atom(access: Access) -> TmemAtom:
    """The instruction of a traced copy, by the name of its operation."""
    m = re.search(r"(Ld|St)(\w+?) Copy Operation\s+number of repetitions\s*=\s*(\d+)", access.texts.get("op", ""))
    if m is None:
        raise Unsupported(f"{access.by_name or 'the copy'} is no plain tcgen05.ld or st")
    packed = re.search(r"(?:un)?pack\w*\s*=\s*(?!.*(?:NONE|False))", access.texts["op"], re.IGNORECASE) is not None
    way = "ld" if m[1] == "Ld" else "st"
    return TmemAtom(way, m[2], int(m[3]), packed=packed)  # type: ignore[arg-type]


def _owner(access: Access, tile: Tile) -> Owner:
    """Which element each register is for, by the copy's own thread-value layout of registers."""
    tv, tiler = parse(access.texts["registers"]), parse(access.texts["tiler"])
    if not isinstance(tv, Layout) or tv.rank() != 2:
        raise Unsupported(f"the copy's thread-value layout is {tv}")
    threads, values = int(tv[0].size()), int(tv[1].size())
    rows, columns = tile.shape
    each = WORD_BITS // tile.bits
    copy: Any = SimpleNamespace(tv=tv, tiler=tiler)
    if each == 1:
        return owned(copy_coordinates(copy, tile, threads, values), tile)
    words = Tile(tile.name, bits=WORD_BITS, m=rows, n=columns // each)
    held = copy_coordinates(copy, words, threads, values)  # (T, V) -> row + rows * word
    apart = composition(Layout((rows, columns // each), (1, rows * each)), held)
    return owned(make_layout(apart[0], make_layout(Layout(each, rows), apart[1])), tile)
