"""layoutlab: does every element land where it will be read?"""

from typing import TYPE_CHECKING, Any

from layoutlab.algebra import (
    append,
    append_ones,
    blocked_product,
    coalesce,
    compare,
    complement,
    composition,
    cosize,
    crd2idx,
    depth,
    dice,
    domain_offset,
    filter,
    filter_zeros,
    flat_divide,
    flat_product,
    flatten,
    functionally_equal,
    group_modes,
    idx2crd,
    left_inverse,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    make_ordered_layout,
    max_common_layout,
    max_common_vector,
    prepend,
    prepend_ones,
    raked_product,
    rank,
    recast_layout,
    right_inverse,
    select,
    shape,
    size,
    slice_,
    slice_and_offset,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from layoutlab.atoms.matrix import MatrixCopy
from layoutlab.atoms.mma import MmaAtom
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.atoms.tmem_buffers import TmemBuffers
from layoutlab.cost import wavefronts
from layoutlab.digits import Map
from layoutlab.errors import LayoutError
from layoutlab.handoff import (
    Handoff,
    MultipleOf,
    Refuted,
    SmemDescriptor,
    Tile,
    Verdict,
    assert_inside,
    assert_legal,
    assert_placed,
    assert_proved,
    declared,
    from_registers,
    gmem,
    handoff,
    keep,
    ldmatrix,
    owned,
    smem,
    stmatrix,
    store,
    tcgen05_ld,
    tma_load,
    tma_store,
    tma_write,
    tmem,
    tmem_store,
    umma_a,
    umma_a_tmem,
    umma_b,
    umma_d,
    umma_out,
    verify,
    wgmma_a,
    wgmma_c,
)
from layoutlab.handoff.core import Case, HandoffFunction
from layoutlab.handoff.writer import Owner
from layoutlab.int_tuple import Basis, compatible, congruent, weakly_congruent
from layoutlab.layout import Layout, make_identity_layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym
from layoutlab.text import parse, records

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from layoutlab.guard.asserts import (
        assert_conflict_free,
        assert_covers,
        assert_injective,
        assert_same_function,
        assert_vector_width,
    )
    from layoutlab.theorems import prove
    from layoutlab.tracing import Trace, probe

__all__ = [
    "Basis",
    "ComposedLayout",
    "Handoff",
    "Layout",
    "LayoutError",
    "MultipleOf",
    "Refuted",
    "SmemDescriptor",
    "Swizzle",
    "Sym",
    "Tile",
    "Verdict",
    "append",
    "append_ones",
    "assert_conflict_free",
    "assert_covers",
    "assert_injective",
    "assert_inside",
    "assert_legal",
    "assert_placed",
    "assert_proved",
    "assert_same_function",
    "assert_vector_width",
    "blocked_product",
    "coalesce",
    "compare",
    "compatible",
    "complement",
    "composition",
    "congruent",
    "cosize",
    "crd2idx",
    "declared",
    "depth",
    "dice",
    "domain_offset",
    "filter",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "flatten",
    "from_registers",
    "functionally_equal",
    "gmem",
    "group_modes",
    "handoff",
    "idx2crd",
    "keep",
    "ldmatrix",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_identity_layout",
    "make_layout",
    "make_ordered_layout",
    "max_common_layout",
    "max_common_vector",
    "owned",
    "parse",
    "prepend",
    "prepend_ones",
    "probe",
    "prove",
    "raked_product",
    "rank",
    "recast_layout",
    "right_inverse",
    "select",
    "shape",
    "size",
    "slice_",
    "slice_and_offset",
    "smem",
    "stmatrix",
    "store",
    "tcgen05_ld",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "tma_load",
    "tma_store",
    "tma_write",
    "tmem",
    "tmem_store",
    "trace",
    "umma_a",
    "umma_a_tmem",
    "umma_b",
    "umma_d",
    "umma_out",
    "verify",
    "wavefronts",
    "weakly_congruent",
    "wgmma_a",
    "wgmma_c",
    "zipped_divide",
    "zipped_product",
]


_LATER = {
    "assert_conflict_free": "layoutlab.guard.asserts",
    "assert_covers": "layoutlab.guard.asserts",
    "assert_injective": "layoutlab.guard.asserts",
    "assert_same_function": "layoutlab.guard.asserts",
    "assert_vector_width": "layoutlab.guard.asserts",
    "probe": "layoutlab.tracing",
    "prove": "layoutlab.theorems",
}
"""Names of higher layers, whose modules are imported when the name is first used."""


def trace(source: str = "") -> "AbstractContextManager[Trace]":
    """Records every kernel that CuTe DSL compiles inside of a `with` block: see `layoutlab.tracing`."""
    from layoutlab.tracing import trace as opened

    return opened(source)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "replay":  # the module is itself callable, as the function in it
        return import_module("layoutlab.replay")
    if name not in _LATER:
        raise AttributeError(f"module 'layoutlab' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def _repr_svg_(self: object) -> str | None:
    """What a notebook shows: the drawing, whose modules are imported when the first one is asked for."""
    from layoutlab.draw import repr_svg

    return repr_svg(self)


_PRINTED = (records.CopyAtom, records.MmaAtom, records.TiledCopy, records.TiledMma, records.Tensor)
_INSTRUCTIONS = (MatrixCopy, MmaAtom, TmemAtom, TmemBuffers, Map)
_HANDOFFS = (Handoff, Verdict, HandoffFunction, Case, Owner)
for _kind in (Layout, ComposedLayout, Swizzle, *_PRINTED, *_INSTRUCTIONS, *_HANDOFFS):
    setattr(_kind, "_repr_svg_", _repr_svg_)  # noqa: B010 - what a class of a lower layer cannot know of
