"""The algebra of layouts: every operation under CuTe's name, each checking what it returns.

>>> from layoutlab import Layout
>>> composition(Layout((6, 2), (8, 3)), Layout((4, 3), (3, 1)))
((2,2),3):((24,3),8)

An operation that has no result of its form raises `LayoutError` with the reason. `structure` regroups coordinates,
`compose` holds composition, over which `divides` (complement, divides, products) and `inverses` are defined; `recast`
changes the width of the elements, `equality` compares functions. `kinds` lets each refuse what is no layout at all.
"""

from inspect import isfunction

from layoutlab.algebra.compose import Tiler, composition
from layoutlab.algebra.divides import (
    blocked_product,
    complement,
    flat_divide,
    flat_product,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from layoutlab.algebra.equality import Comparison, as_digits, compare, functionally_equal
from layoutlab.algebra.inverses import left_inverse, max_common_layout, max_common_vector, right_inverse
from layoutlab.algebra.kinds import asking
from layoutlab.algebra.recast import recast_layout
from layoutlab.algebra.structure import (
    AnyLayout,
    append,
    append_ones,
    coalesce,
    cosize,
    crd2idx,
    depth,
    dice,
    domain_offset,
    filter,
    filter_zeros,
    flatten,
    group_modes,
    idx2crd,
    make_ordered_layout,
    prepend,
    prepend_ones,
    rank,
    select,
    shape,
    size,
    slice_,
    slice_and_offset,
)

__all__ = [
    "AnyLayout",
    "Comparison",
    "Tiler",
    "append",
    "append_ones",
    "as_digits",
    "blocked_product",
    "coalesce",
    "compare",
    "complement",
    "composition",
    "cosize",
    "crd2idx",
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
    "idx2crd",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_ordered_layout",
    "max_common_layout",
    "max_common_vector",
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
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]

for _name in __all__:
    if isfunction(globals()[_name]):
        globals()[_name] = asking(globals()[_name])
