"""layoutlab: does every element land where it will be read?"""

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
from layoutlab.cost import wavefronts
from layoutlab.errors import LayoutError
from layoutlab.handoff import (
    Handoff,
    Refuted,
    SmemDescriptor,
    Tile,
    Verdict,
    assert_covered,
    assert_exclusive,
    assert_inside,
    assert_legal,
    assert_placed,
    assert_proved,
    declared,
    handoff,
    owned,
    smem,
    store,
    tcgen05_ld,
    tmem,
    umma_a,
    umma_a_tmem,
    verify,
)
from layoutlab.int_tuple import Basis, compatible, congruent, weakly_congruent
from layoutlab.layout import Layout, make_identity_layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym
from layoutlab.text import parse

__all__ = [
    "Basis",
    "ComposedLayout",
    "Handoff",
    "Layout",
    "LayoutError",
    "Refuted",
    "SmemDescriptor",
    "Swizzle",
    "Sym",
    "Tile",
    "Verdict",
    "append",
    "append_ones",
    "assert_covered",
    "assert_exclusive",
    "assert_inside",
    "assert_legal",
    "assert_placed",
    "assert_proved",
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
    "functionally_equal",
    "group_modes",
    "handoff",
    "idx2crd",
    "left_inverse",
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
    "store",
    "tcgen05_ld",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "tmem",
    "umma_a",
    "umma_a_tmem",
    "verify",
    "wavefronts",
    "weakly_congruent",
    "zipped_divide",
    "zipped_product",
]


def __getattr__(name: str) -> object:
    """`layoutlab.replay`, imported when it is first asked for: the machine needs numpy."""
    if name == "replay":
        import importlib

        return importlib.import_module("layoutlab.replay")
    raise AttributeError(f"module 'layoutlab' has no attribute {name!r}")


def _repr_svg_(self: object) -> str | None:
    """What a notebook shows: the drawing, whose modules are imported when the first one is asked for."""
    from layoutlab.draw import repr_svg

    return repr_svg(self)


for _kind in (Layout, ComposedLayout, Swizzle, Handoff, Verdict):
    setattr(_kind, "_repr_svg_", _repr_svg_)  # noqa: B010 - what a class of a lower layer cannot know of
