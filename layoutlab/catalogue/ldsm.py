"""ldsm: operands of mma.sync from shared memory by ldmatrix (SM75 and on).

    copying threads, 16 bytes each -> sA, swizzled -> ldmatrix.x4, each lane pointing at a row -> mma.sync.m16n8k16

A tile of 16 rows is one warp's: operand A (m, k); operand B (n, k), two instructions' n side by side; or B from memory
in which n is contiguous (V of O = P V), which ldmatrix.trans turns. Lane l points at the row whose address it gives:

    A            m = l % 16                 k = 8 (l / 16)
    B            n = l % 8 + 8 (l / 16)     k = 8 (l / 8 % 2)
    B, trans     k = l % 16                 n = 8 (l / 16)
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.algebra import composition
from layoutlab.atoms.mma import mma_sync
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, MultipleOf, Owner, Tile, handoff, ldmatrix, owned, smem, store
from layoutlab.handoff.registers import over_steps
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle

ROWS, STEP, CHUNK = 16, 16, 8
"""Rows of the tile, elements of one K step, elements of 16 bytes."""


@handoff
def ldsm(
    operand: Literal["A", "B", "B_trans"] = "A",
    k: Literal[32, 64, 128] = 64,
    dtype: Literal["bf16", "f16"] = "f16",
    swizzle: Literal["atom", "none"] = "atom",
    read_swizzle: Literal["same", "forgotten"] = "same",
    trans: Literal["right", "wrong"] = "right",
    matrices: Literal["right", "exchanged"] = "right",
) -> Handoff:
    """Threads copy a tile to shared memory; ldmatrix brings it to mma.sync's registers.

    `read_swizzle=forgotten` points lanes at unswizzled addresses, `trans=wrong` turns what is not to be turned, or does
    not, `matrices=exchanged` has the second and the third matrix in each other's place.
    """
    return _handed(operand, k, dtype, swizzle, read_swizzle, trans, matrices)


@ldsm.in_general
def _any_size(
    operand: Literal["A", "B", "B_trans"] = "A",
    k: Annotated[int, MultipleOf(32)] = 64,
    dtype: Literal["bf16", "f16"] = "f16",
    swizzle: Literal["atom", "none"] = "atom",
    read_swizzle: Literal["same", "forgotten"] = "same",
    trans: Literal["right", "wrong"] = "right",
    matrices: Literal["right", "exchanged"] = "right",
) -> Handoff:
    """Any number of K steps, where k is not what is contiguous."""
    if operand != "B_trans":
        raise LayoutError(
            f"operand={operand}: rows lie k elements apart, so which bits of an address the swizzle reads differs for "
            f"each k: verify each k by itself, or take operand=B_trans, whose rows of n do not grow with it"
        )
    return _handed(operand, k, dtype, swizzle, read_swizzle, trans, matrices)


def _handed(operand: str, k: int, dtype: str, swizzle: str, read_swizzle: str, trans: str, matrices: str) -> Handoff:
    """The tile in memory, who copied it, and where each lane points."""
    row = "m" if operand == "A" else "n"
    tile = Tile(operand[0], **{row: ROWS, "k": k}, bits=16)
    # (row, k) -> element; what is contiguous is k, or for B_trans n
    plain = Layout((ROWS, k), (1, ROWS)) if operand == "B_trans" else Layout((ROWS, k), (k, 1))
    width = 2 * ROWS if operand == "B_trans" else 2 * k  # bytes of a row of memory
    bits = {32: 1, 64: 2}.get(width, 3) if swizzle == "atom" else 0
    swizzled = ComposedLayout(Swizzle(bits, 4, 3), 0, plain) if bits else plain
    written = smem(swizzled, over=tile, align_bytes=1024)
    pointed = written if read_swizzle == "same" else smem(plain, over=tile, align_bytes=1024)
    turned = (operand == "B_trans") == (trans == "right")
    reader = ldmatrix(pointed, _fragment(tile, operand, dtype), rows=_rows(operand, k, matrices), trans=turned)
    return Handoff(tile, writer=store(_copiers(tile, operand), written, bits=128), reader=reader)


def _copiers(tile: Tile, operand: str) -> Owner:
    """32 threads, each with 16 bytes at a time, chunk after chunk as they lie in memory."""
    rows, k = tile.shape
    along = Layout((rows, k)) if operand == "B_trans" else make_layout(Layout(k, rows), Layout(rows, 1))
    chunks = tile.size // (32 * CHUNK)
    if chunks < 1:
        raise LayoutError(f"{tile} is less than 16 bytes for each of 32 threads")
    return owned(composition(along, Layout((32, (CHUNK, chunks)), (CHUNK, (1, 32 * CHUNK)))), tile)


def _fragment(tile: Tile, operand: str, dtype: str) -> Owner:
    """(T32, V) of mma.sync.m16n8k16 over all K steps; B of two instructions side by side in each."""
    atom = mma_sync(16, 8, STEP, dtype, "f32")
    if operand == "A":
        return owned(over_steps(atom.a, ROWS, tile), tile)
    threads, values = (_wider(part) for part in atom.b)
    both = make_layout(values, Layout(2, 8))
    return owned(make_layout(threads, make_layout(both, Layout(tile.shape[1] // STEP, ROWS * STEP))), tile)


def _wider(part: Layout) -> Layout:
    """B's n + 8 k as n + 16 k."""
    leaves = [(e, s % 8 + s // 8 * ROWS) for e, s in part.leaves()]
    return Layout(tuple(e for e, _ in leaves), tuple(s for _, s in leaves))


def _rows(operand: str, k: int, matrices: str) -> Layout:
    """(lane, K step) -> row + 16 k of the row's first element: lanes 0-7, 8-15 and on, a matrix each."""
    second, third = {"A": (8, 8 * ROWS), "B": (8 * ROWS, 8), "B_trans": (8 * ROWS, 8)}[operand]
    if matrices == "exchanged":
        second, third = third, second
    inside = ROWS if operand == "B_trans" else 1
    return Layout(((8, 2, 2), k // STEP), ((inside, second, third), ROWS * STEP))
