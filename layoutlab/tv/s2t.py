"""Copies from shared memory to Tensor Memory: tcgen05.cp, which one thread issues for its CTA.

>>> from layoutlab.tv.instructions import make_copy_atom
>>> atom = make_copy_atom("tcgen05.cp.32x128b.warpx4", "f8E8M0FNU")
>>> scales = Layout(((32, 4), 16, 4), ((262144, 8388608), 1, 16))      # ((lane, warp), byte, tile) -> Tensor Memory
>>> copy = make_s2t_copy(atom, scales)
>>> copy.tiler, copy.tv
((128:1, 16:1, 1:0), (1,(32,16,4)):(0,(1,128,32)))

A line of shared memory that goes to several warps is counted once on the source's side and once for each warp on the
destination's; the layout of the source has a mode of stride 0 for that.

Source: CUTLASS include/cute/atom/copy_traits_sm100.hpp (make_utccp_copy), PTX ISA, "tcgen05.cp".
"""

from __future__ import annotations

from layoutlab.algebra import coalesce, filter_zeros, recast_layout
from layoutlab.atoms.datapath import LANE_COLUMNS
from layoutlab.atoms.descriptors import SmemDescriptor, pattern_of
from layoutlab.atoms.operand import swizzle_mode
from layoutlab.atoms.scales import TmemCopy
from layoutlab.atoms.tmem import WORD_BITS
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout, make_layout
from layoutlab.text import bits_of
from layoutlab.tv.copy import CopyAtom, TiledCopy
from layoutlab.tv.division import Partitioned, outer_of
from layoutlab.tv.instructions import SharedToTmemAtom
from layoutlab.tv.tmem import make_lane_cotiled_copy
from layoutlab.tv.views import UNIT_BITS, behind


def make_s2t_copy(atom: CopyAtom, tmem_tensor: Partitioned) -> TiledCopy:
    """The copy into a tensor in Tensor Memory, its strides in elements of the atom's type.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> make_s2t_copy(make_copy_atom("tcgen05.cp.128x256b", "f32"), Layout((64, 16), (65536, 1)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: tcgen05.cp.128x256b writes 128 lanes ... T0 V64 is given offset 4194304, which ...

    Refuses lanes and columns that the tensor does not have.
    """
    op, bits = _op_and_bits(atom)
    lane = LANE_COLUMNS * WORD_BITS // bits
    (near, _), *further = op.line_modes()
    modes = [(near, lane), (op.line_bits // bits, 1)]
    modes += [(extent, lanes * lane) for extent, lanes in (*further, *op.copy_modes())]
    values = Layout(tuple(extent for extent, _ in modes), tuple(stride for _, stride in modes))
    threads = Layout(atom.threads, 0)
    try:
        tensor = filter_zeros(outer_of(tmem_tensor))
        return make_lane_cotiled_copy(atom, make_layout(threads, coalesce(values)), tensor, lane)
    except LayoutError as why:
        lanes = op.lines * op.copies
        raise LayoutError(
            f"tcgen05.cp.{op.shape} writes {lanes} lanes and {op.columns} columns, and not all are in "
            f"{outer_of(tmem_tensor)}: {why}"
        ) from None


def get_s2t_smem_desc_tensor(copy: TiledCopy, part: Partitioned) -> Layout:
    """What `partition_S` left of a tensor in shared memory, in the 16-byte units of the descriptors that read it.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> atom = make_copy_atom("tcgen05.cp.32x128b.warpx4", "f8E8M0FNU")
    >>> copy = make_s2t_copy(atom, Layout((32, 16, 4), (262144, 1, 8388608)))
    >>> get_s2t_smem_desc_tensor(copy, copy.get_slice(0).partition_S(Layout((32, 16, 4, 2), (16, 1, 0, 512))))
    ((((32,1),4),1),1,1,1,2):((((1,1),0),0),0,0,0,32)

    Refuses lines that no descriptor reads: without a swizzle they are 16 bytes apart in groups of eight.
    """
    op, bits = _op_and_bits(copy.atom)
    _check_lines(op, bits, part)
    return recast_layout(UNIT_BITS, bits, outer_of(part))


def _op_and_bits(atom: CopyAtom) -> tuple[TmemCopy, int]:
    if not isinstance(atom, SharedToTmemAtom):
        raise LayoutError(f"{atom.value_type} copy of {atom.threads} threads is no tcgen05.cp")
    bits = bits_of(atom.value_type)
    assert bits is not None, "make_copy_atom asked for it"
    return atom.op, bits


def _check_lines(op: TmemCopy, bits: int, part: Partitioned) -> None:
    """Refuses a first instruction's part that is not read, line by line, by a descriptor with some strides."""
    import numpy as np

    near, along = op.line_modes()[0][0], op.line_bits // bits
    one = outer_of(part)[0]
    index = np.arange(op.lines * op.line_bits // bits)  # of the source's values: near lines, along a line, more lines
    line, element = index % near + near * (index // (near * along)), index // near % along
    at = np.empty((op.lines, along), np.int64)
    at[line, element] = one(index) * bits
    inner, offset = behind(part)
    if not isinstance(offset, int) or offset * bits % UNIT_BITS:
        raise LayoutError(f"{part} begins {offset} elements in: descriptors begin at multiples of 16 bytes")
    mode = swizzle_mode(inner)
    far = 128 // bits  # the element at which a line's second 16 bytes begin
    lbo = int(at[0, far]) // 8 if along > far and not mode else 0
    sbo = int(at[8, 0]) // 8 if op.lines > 8 else 0
    try:
        read = SmemDescriptor(0, lbo, sbo, mode).linear_bits(op.lines, along, bits)
    except LayoutError as why:
        raise LayoutError(f"{one}: no descriptor reads its lines: {why}") from None
    wrong = np.argwhere(read != at)
    if wrong.size:
        where = tuple(int(x) for x in wrong[0])
        raise LayoutError(
            f"{one}: line {where[0]} has its element {where[1]} at byte {at[where] // 8}, and a descriptor with lbo "
            f"{lbo}, sbo {sbo} and swizzle {mode} reads it at byte {read[where] // 8}, before the swizzle: lines are "
            f"{pattern_of(mode).width} bytes apart in groups of eight, the groups {sbo}"
        )
