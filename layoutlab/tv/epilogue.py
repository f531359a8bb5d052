"""Epilogues: how much of an accumulator goes to shared memory at once, and by which store.

>>> compute_tile_shape_or_override((128, 112, 64), "f16")  # 32 columns would reach past 112
(64, 16)
>>> from layoutlab.tv.instructions import make_copy_atom
>>> from layoutlab.tv.tmem import make_tmem_copy
>>> from layoutlab.layout import Layout
>>> accumulator = Layout((128, 128), (65536, 1))
>>> load = make_tmem_copy(make_copy_atom("tcgen05.ld.16x256b.x4", "f32"), accumulator)
>>> get_smem_store_op("row", "bf16", "f32", load).dst  # stmatrix.x4
(32,8):(8,1)

Source: CUTLASS include/cutlass/epilogue/collective/builders/sm90_builder.inl, sm100_builder.inl.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

from layoutlab.atoms.matrix import matrix_copy
from layoutlab.errors import LayoutError
from layoutlab.text import bits_of
from layoutlab.tv.copy import CopyAtom, TiledCopy
from layoutlab.tv.instructions import TmemCopyAtom, make_copy_atom

Major = Literal["row", "col"]


@dataclass(frozen=True)
class _Fit:
    """A load whose registers are stmatrix's: matrices that one repetition fills, and for which outputs."""

    stored_bits: int
    loaded_bits: int
    load: str
    packed: bool
    matrix: str
    matrices: int
    majors: tuple[Major, ...]


_FITS = (
    _Fit(16, 32, "16x256b", False, "m8n8", 2, ("row", "col")),
    _Fit(16, 16, "16x128b", True, "m8n8", 2, ("row", "col")),
    _Fit(32, 32, "16x128b", False, "m8n8", 2, ("row",)),
    _Fit(8, 32, "16x256b", False, "m16n8", 1, ("col",)),
)
_MOST_MATRICES = 4


def get_smem_store_op(layout_d: Major, elem_ty_d: str, elem_ty_acc: str, tiled_tmem_load: TiledCopy) -> CopyAtom:
    """The widest store to shared memory for what a Tensor Memory load leaves in registers: SM100.

    >>> from layoutlab.layout import Layout
    >>> from layoutlab.tv.tmem import make_tmem_copy
    >>> load = make_tmem_copy(make_copy_atom("tcgen05.ld.32x32b.x32", "f32"), Layout((128, 128), (65536, 1)))
    >>> print(get_smem_store_op("row", "bf16", "f32", load).dst)  # rows in threads: no stmatrix, one element a store
    (1,1):(0,0)

    layout_d is the output's major mode: "row" for n fastest, "col" for m. stmatrix is chosen where each repetition of
    the load fills whole matrices; otherwise each thread stores its own elements, and how many at once the partition's
    layout says.
    """
    atom = tiled_tmem_load.atom
    if not isinstance(atom, TmemCopyAtom) or atom.op.direction != "ld":
        raise LayoutError("get_smem_store_op follows a tcgen05.ld, whose registers decide which store fits")
    _check_major(layout_d)
    asked = (_bits(elem_ty_d), _bits(elem_ty_acc), atom.op.shape, atom.op.packed)
    for fit in _FITS:
        if asked == (fit.stored_bits, fit.loaded_bits, fit.load, fit.packed) and layout_d in fit.majors:
            count = min(_MOST_MATRICES, fit.matrices * atom.op.repeat)
            return make_copy_atom(matrix_copy("stmatrix", count, layout_d == "col", fit.matrix), elem_ty_d)
    return make_copy_atom("universal", elem_ty_d)


def sm90_get_smem_store_op(layout_d: Major, elem_ty_d: str, elem_ty_acc: str) -> CopyAtom:
    """The widest store to shared memory for a wgmma accumulator: stmatrix.x4 for 16-bit outputs.

    >>> sm90_get_smem_store_op("row", "f16", "f32").src
    (32,(2,4)):(2,(1,64))
    """
    _check_major(layout_d)
    _bits(elem_ty_acc)
    if _bits(elem_ty_d) == 16:
        return make_copy_atom(matrix_copy("stmatrix", _MOST_MATRICES, layout_d == "col"), elem_ty_d)
    return make_copy_atom("universal", elem_ty_d)


def compute_tile_shape_or_override(
    tile_shape_mnk: tuple[int, int, int],
    element_type: str,
    is_cooperative: bool = False,
    epi_tile_override: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """The (m, n) of an accumulator that a Hopper epilogue stores at once; it divides the tile.

    >>> compute_tile_shape_or_override((128, 128, 64), "f16", is_cooperative=True)
    (128, 32)
    >>> compute_tile_shape_or_override((128, 112, 64), "f16", epi_tile_override=(64, 32))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: an epilogue tile of 64 x 32 does not divide 128 x 112: 4 of 32 columns span 128; \
64 x 16 does

    Rows: 128 where two warpgroups cooperate, 64 otherwise. Columns: 32, or 64 of 8 bits where they do not cooperate. A
    tile that these do not divide gets their greatest common divisor.
    """
    m, n, _ = tile_shape_mnk
    rows = 128 if is_cooperative else 64
    columns = 64 if _bits(element_type) == 8 and not is_cooperative else 32
    fits = (_part(rows, m), _part(columns, n))
    if epi_tile_override is None:
        return fits
    found = epi_tile_override
    for name, have, part in (("rows", m, found[0]), ("columns", n, found[1])):
        if have % part:
            count = -(-have // part)
            raise LayoutError(
                f"an epilogue tile of {found[0]} x {found[1]} does not divide {m} x {n}: {count} of {part} {name} "
                f"span {count * part}; {gcd(found[0], m)} x {gcd(found[1], n)} does"
            )
    return found


def _part(most: int, extent: int) -> int:
    return extent if extent <= most else gcd(most, extent)


def _bits(kind: str) -> int:
    bits = bits_of(kind)
    if bits is None:
        raise LayoutError(f"{kind!r} is no type: f16, bf16, f32, f8E4M3FN and the like are")
    return bits


def _check_major(major: str) -> None:
    if major not in ("row", "col"):
        raise LayoutError(f'layout_d is {major!r}: "row" (n fastest) or "col" (m fastest)')
