"""Ownership: tiled copies and tiled MMAs, who has which element of a tile, as CuTe DSL makes, prints and names them.

>>> from layoutlab.layout import Layout
>>> copy = make_tiled_copy_tv(make_copy_atom("universal", "f16", 128), Layout((16, 16)), Layout((8, 1)))
>>> copy.get_slice(9).partition_D(Layout((128, 32)))
72 o ((8,1),1,2):((1,0),0,2048)

A partition is a layout from where its first element is: an offset, or a coordinate, and the steps from there. Where
the DSL rounds a tile up past the end of a tensor, or takes memory offsets for coordinates, these refuse.
"""

from layoutlab.tv.copy import (
    CopyAtom,
    ThrCopy,
    TiledCopy,
    make_cotiled_copy,
    make_layout_tv,
    make_tiled_copy,
    make_tiled_copy_D,
    make_tiled_copy_S,
    make_tiled_copy_tv,
)
from layoutlab.tv.epilogue import compute_tile_shape_or_override, get_smem_store_op, sm90_get_smem_store_op
from layoutlab.tv.instructions import make_copy_atom, mma_atom
from layoutlab.tv.mma import (
    MmaAtom,
    ThrMma,
    TiledMma,
    as_tiled_mma,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_mma,
)
from layoutlab.tv.pairing import check_pair
from layoutlab.tv.recognise import as_copy_atom, as_tiled_copy
from layoutlab.tv.s2t import get_s2t_smem_desc_tensor, make_s2t_copy
from layoutlab.tv.staging import tile_to_mma_shape
from layoutlab.tv.tmem import make_tmem_copy
from layoutlab.tv.umma import tcgen05_mma

__all__ = [
    "CopyAtom",
    "MmaAtom",
    "ThrCopy",
    "ThrMma",
    "TiledCopy",
    "TiledMma",
    "as_copy_atom",
    "as_tiled_copy",
    "as_tiled_mma",
    "check_pair",
    "compute_tile_shape_or_override",
    "get_s2t_smem_desc_tensor",
    "get_smem_store_op",
    "make_copy_atom",
    "make_cotiled_copy",
    "make_layout_tv",
    "make_s2t_copy",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_D",
    "make_tiled_copy_S",
    "make_tiled_copy_tv",
    "make_tiled_mma",
    "make_tmem_copy",
    "mma_atom",
    "sm90_get_smem_store_op",
    "tcgen05_mma",
    "tile_to_mma_shape",
]
