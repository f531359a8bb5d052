"""Calls: tiled copies and MMAs in the expressions of `layoutlab eval`, where methods are functions of their object.

>>> atom = tv.make_copy_atom("universal", "f16", 128)
>>> partition_D(tv.make_tiled_copy_tv(atom, Layout((16, 16)), Layout((8, 1))), 9, Layout((128, 32)))
72 o ((8,1),1,2):((1,0),0,2048)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutlab import tv
from layoutlab.atoms.mma import mma_sync, wgmma
from layoutlab.int_tuple import IntTuple
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout
from layoutlab.tv.copy import TiledCopy
from layoutlab.tv.division import Partitioned
from layoutlab.tv.mma import Operand, TiledMma


def partition_S(tiled_copy: TiledCopy, thr_idx: int, tensor: Partitioned) -> ComposedLayout:
    """What a thread of a tiled copy reads of a tensor."""
    return tiled_copy.get_slice(thr_idx).partition_S(tensor)


def partition_D(tiled_copy: TiledCopy, thr_idx: int, tensor: Partitioned) -> ComposedLayout:
    """What a thread of a tiled copy writes of a tensor."""
    return tiled_copy.get_slice(thr_idx).partition_D(tensor)


def partition_A(tiled_mma: TiledMma, thr_idx: int, tensor: Partitioned) -> ComposedLayout:
    """A thread's part of operand A of a tiled MMA."""
    return tiled_mma.get_slice(thr_idx).partition_A(tensor)


def partition_B(tiled_mma: TiledMma, thr_idx: int, tensor: Partitioned) -> ComposedLayout:
    """A thread's part of operand B of a tiled MMA."""
    return tiled_mma.get_slice(thr_idx).partition_B(tensor)


def partition_C(tiled_mma: TiledMma, thr_idx: int, tensor: Partitioned) -> ComposedLayout:
    """A thread's part of operand C of a tiled MMA."""
    return tiled_mma.get_slice(thr_idx).partition_C(tensor)


def retile(tiled_copy: TiledCopy, registers: Layout) -> Layout:
    """Registers in the order in which a tiled copy takes them."""
    return tiled_copy.retile(registers)


def tv_layout(tiled_mma: TiledMma, operand: Operand) -> Layout:
    """(thread, value) -> flat index of the tile of 'A', 'B' or 'C'."""
    return tiled_mma.tv_layout(operand)


def partition_shape(tiled_mma: TiledMma, operand: Operand, shape: IntTuple) -> Any:
    """The shape of a thread's part of operand 'A', 'B' or 'C'."""
    return getattr(tiled_mma, f"partition_shape_{operand}")(shape)


def calls() -> dict[str, Callable[..., Any]]:
    """The functions by name.

    >>> sorted(calls())[:3]
    ['check_pair', 'compute_tile_shape_or_override', 'get_s2t_smem_desc_tensor']
    """
    made = {name: getattr(tv, name) for name in tv.__all__ if name[0].islower() and not name.startswith("as_")}
    more = (partition_S, partition_D, partition_A, partition_B, partition_C, retile, tv_layout, partition_shape)
    return made | {f.__name__: f for f in (*more, mma_sync, wgmma)}
