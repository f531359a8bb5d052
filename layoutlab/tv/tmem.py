"""Copies between Tensor Memory and registers: four warps, each with its own quarter of the lanes.

>>> from layoutlab.tv.instructions import make_copy_atom
>>> load = make_copy_atom("tcgen05.ld.32x32b.x32", "f32")
>>> copy = make_tmem_copy(load, Layout(((128, 128), 1, 1), ((65536, 1), 0, 0)))
>>> copy.tiler, copy.layout_dst_tv_tiled
(((128,32):(32,1), 1:0, 1:0), ((32,4),(32,1)):((128,1),(4,0)))

Source: CUTLASS include/cute/atom/copy_traits_sm100.hpp (make_tmem_copy).
"""

from __future__ import annotations

from math import lcm

from layoutlab.algebra import coalesce
from layoutlab.atoms.datapath import LANE_COLUMNS
from layoutlab.atoms.tmem import LANES, WARP_LANES, WORD_BITS, TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import map_leaves
from layoutlab.layout import Layout, make_layout
from layoutlab.text import bits_of
from layoutlab.tv.copy import CopyAtom, TiledCopy, make_cotiled_copy
from layoutlab.tv.division import Partitioned, outer_of
from layoutlab.tv.instructions import TmemCopyAtom


def make_tmem_copy(atom: CopyAtom, tmem_tensor: Partitioned) -> TiledCopy:
    """The copy of a tensor in Tensor Memory by 128 threads, its strides in elements of the atom's type.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> load = make_copy_atom("tcgen05.ld.32x32b.x32", "f32")
    >>> make_tmem_copy(load, Layout((128, 48), (65536, 1)))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: tcgen05.ld.32x32b.x32 over 48 columns spans 64: x16 divides them, 3 steps
    """
    if not isinstance(atom, TmemCopyAtom):
        raise LayoutError(f"{atom.value_type} copy of {atom.threads} threads is no tcgen05 load or store")
    op, bits, layout = atom.op, _bits(atom), outer_of(tmem_tensor)
    lane = LANE_COLUMNS * WORD_BITS // bits
    _check_lanes(op, layout, lane)
    op.steps(_columns(op, bits, layout, lane))
    threads = Layout((WARP_LANES, LANES // WARP_LANES), (0, WARP_LANES * lane))
    along = op.tile(bits)[1]
    values = coalesce(Layout((along, op.lanes), (WORD_BITS // bits if op.packed else 1, lane)))
    return make_lane_cotiled_copy(atom, make_layout(threads, values), layout, lane)


def make_lane_cotiled_copy(atom: CopyAtom, atom_layout_tv: Layout, tmem: Layout, lane: int) -> TiledCopy:
    """`make_cotiled_copy` over Tensor Memory, `lane` elements from one lane to the next.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> load = make_copy_atom("tcgen05.ld.32x32b.x16", "f32")
    >>> stages = Layout(((128, 80), 1, 2), ((65536, 1), 0, 96))           # 96 columns apart, which do not divide a lane
    >>> make_tmem_copy(load, stages).get_slice(1).partition_D(stages)
    65536 o ((16,1),5,1,2):((1,0),16,0,96)

    Columns that do not divide a lane have no inverse among offsets; lanes that are counted further apart have the same
    coordinates.
    """
    columns = [stride for _, stride in tmem.leaves() if isinstance(stride, int) and 0 < stride < lane]
    wide = lcm(lane, *columns)
    if wide == lane:
        return make_cotiled_copy(atom, atom_layout_tv, tmem)

    def apart(layout: Layout) -> Layout:
        return Layout(layout.shape, map_leaves(lambda d: d // lane * wide + d % lane, layout.stride))

    try:
        return make_cotiled_copy(atom, apart(atom_layout_tv), apart(tmem))
    except LayoutError as why:
        raise LayoutError(f"{tmem}, with lanes counted {wide} elements apart: {why}") from None


def _check_lanes(op: TmemAtom, layout: Layout, lane: int) -> None:
    """Refuses a tensor that lies in fewer lanes of a warp than the instruction takes."""
    beside = next((extent for extent, stride in layout.leaves() if stride == lane and extent > 1), 1)
    if isinstance(beside, int) and beside < op.lanes:
        raise LayoutError(
            f"{op} takes {op.lanes} lanes of each warp, and {layout} has {beside} beside each other: "
            "16x64b, 16x128b, 16x256b and 16x32bx2 take 16"
        )


def _columns(op: TmemAtom, bits: int, layout: Layout, lane: int) -> int:
    """Columns that lie beside each other in a tensor's lanes, in 32-bit words."""
    width = 1
    for extent, stride in sorted(layout.leaves(), key=lambda leaf: leaf[1]):
        if stride and stride < lane and stride == width:
            width *= extent
    unit = 1 if op.packed else WORD_BITS // bits
    return max(1, width // unit)


def _bits(atom: CopyAtom) -> int:
    bits = bits_of(atom.value_type)
    assert bits is not None, "make_copy_atom asked for it"
    return bits
