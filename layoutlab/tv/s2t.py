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

from layoutlab.algebra import coalesce
from layoutlab.atoms.datapath import LANE_COLUMNS
from layoutlab.atoms.tmem import WORD_BITS
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout, make_layout
from layoutlab.text import bits_of
from layoutlab.tv.copy import CopyAtom, TiledCopy, make_cotiled_copy
from layoutlab.tv.division import Partitioned, outer_of
from layoutlab.tv.instructions import SharedToTmemAtom


def make_s2t_copy(atom: CopyAtom, tmem_tensor: Partitioned) -> TiledCopy:
    """The copy into a tensor in Tensor Memory, its strides in elements of the atom's type.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> make_s2t_copy(make_copy_atom("tcgen05.cp.128x256b", "f32"), Layout((64, 16), (65536, 1)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: tcgen05.cp.128x256b writes 128 lanes ... T0 V64 is given offset 4194304, which ...

    Refuses lanes and columns that the tensor does not have.
    """
    if not isinstance(atom, SharedToTmemAtom):
        raise LayoutError(f"{atom.value_type} copy of {atom.threads} threads is no tcgen05.cp")
    op, bits = atom.op, bits_of(atom.value_type)
    assert bits is not None, "make_copy_atom asked for it"
    lane = LANE_COLUMNS * WORD_BITS // bits
    (near, _), *further = op.line_modes()
    modes = [(near, lane), (op.line_bits // bits, 1)]
    modes += [(extent, lanes * lane) for extent, lanes in (*further, *op.copy_modes())]
    values = Layout(tuple(extent for extent, _ in modes), tuple(stride for _, stride in modes))
    threads = Layout(atom.threads, 0)
    try:
        return make_cotiled_copy(atom, make_layout(threads, coalesce(values)), outer_of(tmem_tensor))
    except LayoutError as why:
        lanes = op.lines * op.copies
        raise LayoutError(
            f"tcgen05.cp.{op.shape} writes {lanes} lanes and {op.columns} columns, and not all are in "
            f"{outer_of(tmem_tensor)}: {why}"
        ) from None
