"""epilogue: a tile of accumulators goes out by sub-tiles: Tensor Memory, registers, shared memory, TMA store.

    D in TMEM -> tcgen05.ld -> registers, converted -> st.shared -> sC, a buffer for each sub-tile -> TMA -> global

or, of a load by 16x256b, stmatrix in place of st.shared.

The shared-memory store is built from the load (`make_tiled_copy_D`): each register goes where the load's own partition
has its element. A store built from another load moves every element that the two disagree on.

A sub-tile of `epi_n` columns has to divide the tile's n. 32 columns, or where 32 does not divide n, gcd(32, n):

    n         112  128  144  160  176  192  208
    epi_n      16   32   16   32   16   32   16

A wider one covers columns that are the next tile's, as does a load that is wider than its sub-tile.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Annotated, Literal

from layoutlab.atoms.tmem import TmemAtom
from layoutlab.catalogue.loaded import SWIZZLES, TmaSwizzle
from layoutlab.errors import LayoutError
from layoutlab.handoff import (
    Handoff,
    MultipleOf,
    Owner,
    Tile,
    handoff,
    smem,
    stmatrix,
    store,
    tcgen05_ld,
    tma_store,
)
from layoutlab.handoff.operand import SmemOperand
from layoutlab.handoff.rule import Rule
from layoutlab.layout import Layout
from layoutlab.survey import number
from layoutlab.swizzle import ComposedLayout

ROWS = 128
BITS = {"bf16": 16, "f16": 16, "f32": 32}
WIDEST = 64
"""Columns that the widest load brings at a time: more registers than a thread has room for beside them otherwise."""

Load = Literal["widest", "32x32b.x8", "32x32b.x16", "32x32b.x32", "32x32b.x64", "16x256b.x2", "16x256b.x4"]


@handoff
def epilogue(
    n: Literal[64, 96, 112, 128, 144, 160, 176, 192, 208, 256] = 128,
    epi_n: int = 0,
    dtype: Literal["bf16", "f16", "f32"] = "bf16",
    load: Load = "widest",
    store_as: Literal["paired", "32x32b.x32", "16x256b.x2", "16x256b.x4"] = "paired",
    route: Literal["vector", "stmatrix"] = "vector",
    bits: Literal[16, 32, 64, 128] = 128,
    tma_swizzle: TmaSwizzle = "matching",
    first_warp: Literal[0, 1, 4] = 0,
) -> Handoff:
    """Epilogue warps write C to shared memory by sub-tiles; TMA stores them. epi_n=0 takes gcd(32, n) columns."""
    return _handed(n, epi_n or gcd(32, n), dtype, load, store_as, route, bits, tma_swizzle, first_warp)


@epilogue.in_general
def _any_size(
    n: Annotated[int, MultipleOf(32)] = 128,
    dtype: Literal["bf16", "f16", "f32"] = "bf16",
    load: Load = "widest",
    store_as: Literal["paired", "32x32b.x32", "16x256b.x2", "16x256b.x4"] = "paired",
    route: Literal["vector", "stmatrix"] = "vector",
    bits: Literal[16, 32, 64, 128] = 128,
    tma_swizzle: TmaSwizzle = "matching",
    first_warp: Literal[0, 1, 4] = 0,
) -> Handoff:
    """Any number of sub-tiles of 32 columns."""
    return _handed(n, 32, dtype, load, store_as, route, bits, tma_swizzle, first_warp)


def _handed(
    n: int,
    width: int,
    dtype: str,
    load: str,
    store_as: str,
    route: str,
    bits: int,
    tma_swizzle: TmaSwizzle,
    first_warp: int,
) -> Handoff:
    """C by sub-tiles of `width` columns."""
    C = Tile("C", m=ROWS, n=n, bits=BITS[dtype])
    if width < 8 or width > 256:
        raise LayoutError(f"a sub-tile of {width} columns: 8 to 256 are possible")
    if width * C.bits % 256:
        nearest = max(256 // C.bits, width * C.bits // 256 * 256 // C.bits)
        raise LayoutError(
            f"a sub-tile of {width} columns of {C.bits} bits has rows of {width * C.bits // 8} bytes, and a swizzle "
            f"atom's are 32, 64 or 128: {nearest} columns have"
        )
    covered = -(-n // width) * width
    operand = SmemOperand(ROWS, width, C.bits)
    blocks = Layout((ROWS, (operand.atom, covered // operand.atom)), (operand.atom, (1, ROWS * operand.atom)))
    padded = Tile("C", m=ROWS, n=covered, bits=C.bits)
    sC = replace(smem(ComposedLayout(operand.swizzle, 0, blocks), over=padded, align_bytes=1024), tile=C)

    atom = f"32x32b.x{min(WIDEST, width & -width)}" if load == "widest" else load
    owner = _by_sub_tiles(tcgen05_ld(atom).over(padded, first_warp=first_warp), atom, C, width)
    if route == "stmatrix" and (C.bits != 16 or not load.startswith("16x256b") or store_as != "paired"):
        raise LayoutError(
            f"stmatrix stores 16-bit elements that 16x256b loaded, not {C.bits}-bit ones by load={load} "
            f"store_as={store_as}: set {_for_stmatrix(C.bits, load, store_as)}"
        )
    through = None if store_as == "paired" else _as_loaded(store_as, padded, owner)
    swizzle = operand.swizzle_bytes if tma_swizzle == "matching" else SWIZZLES[tma_swizzle]
    if route == "stmatrix":
        writer = stmatrix(owner, sC, rows=_rows(int(load.split("x")[-1]), padded))
    else:
        writer = store(owner, sC, bits=bits, through=through)
    return Handoff(
        C,
        writer=writer,
        reader=tma_store(sC, box={"n": operand.atom, "m": ROWS}, swizzle=swizzle),
    )


def _by_sub_tiles(owner: Owner, load: str, C: Tile, width: int) -> Owner:
    """The owners of whole sub-tiles, with the rules that these divide the tile and loads divide them."""
    n = C.extents["n"]

    def rules() -> list[Rule]:
        tile = None
        if n % width:
            fits, spanned = gcd(width, n), -(-n // width) * width
            tile = f"sub-tiles of {width} columns over {n} span {spanned}: {fits} divides both, {n // fits} of them"
        try:
            TmemAtom.parse(load).steps(width)
            sub_tile = None
        except LayoutError as why:
            sub_tile = f"a sub-tile's load: {why}"
        return [
            *owner.rules(),
            Rule("sub-tiles divide the tile's columns", tile),
            Rule("a load's columns divide a sub-tile's", sub_tile),
        ]

    return replace(owner, tile=C, rules=rules)


def _as_loaded(load: str, tile: Tile, owner: Owner) -> Layout:
    """The owners that another load would make, for a store that is built from it; refuses more or fewer columns."""
    other = tcgen05_ld(load).over(tile).layout
    have, need = (number(values.size()) for values in (owner.layout[1], other[1]))
    if have != need:
        raise LayoutError(
            f"store_as={load} takes {need} values of each thread, and the load leaves {have}: "
            f"{TmemAtom.parse(load).columns} columns at a time do not divide {tile.extents['n']}"
        )
    return other


def _for_stmatrix(bits: int, load: str, store_as: str) -> str:
    """The settings that stmatrix needs and that are not so."""
    wanted = {
        "dtype=bf16": bits != 16,
        "load=16x256b.x2": not load.startswith("16x256b"),
        "store_as=paired": store_as != "paired",
    }
    return " and ".join(setting for setting, missing in wanted.items() if missing)


def _rows(repeat: int, C: Tile) -> Layout:
    """(thread, instruction) -> row's first element: four 8x8 matrices, in the order of the loads' registers.

    A load by 16x256b.xR gives a thread 8 R columns of rows 8 apart, then the rows 16 further, then the next columns.
    """
    across, steps, (row, column) = repeat // 2, C.shape[1] // (8 * repeat), C.strides
    rows = ((16, 2, 4), (row, 8 * column, 32 * row))
    return Layout((rows[0], (across, 2, steps)), (rows[1], (16 * column, 16 * row, 8 * repeat * column)))
