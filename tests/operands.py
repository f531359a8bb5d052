"""Generated calls of the operations that oracles know too: (operation, arguments)."""

from __future__ import annotations

from typing import Any

import strategies as some
from hypothesis import strategies as st

Call = tuple[str, tuple[Any, ...]]


@st.composite
def calls(draw: Any, operation: str) -> Call:
    """Arguments of one operation: half of them made to have a result, half of any kind."""
    anything = some.layouts(max_size=48)
    if operation in ("composition", "logical_divide"):
        pair = draw(st.one_of(some.composable(), st.tuples(anything, some.layouts(max_size=24))))
        return operation, pair
    if operation == "complement":
        return operation, (draw(st.one_of(some.injective(), anything)), draw(st.integers(1, 200)))
    if operation == "logical_product":
        return operation, (draw(st.one_of(some.injective(40), anything)), draw(some.injective(12)))
    if operation in ("blocked_product", "raked_product", "zipped_product", "tiled_product", "flat_product"):
        return operation, (draw(some.injective(40)), draw(some.injective(12)))
    if operation in ("coalesce", "flatten", "filter", "filter_zeros"):
        return operation, (draw(anything),)
    if operation == "right_inverse":
        return operation, (draw(st.one_of(some.bijective(), some.injective(), anything)),)
    if operation == "left_inverse":
        return operation, (draw(st.one_of(some.injective(), anything)),)
    if operation in ("max_common_layout", "max_common_vector"):
        return operation, (draw(st.one_of(some.bijective(60), anything)), draw(st.one_of(some.bijective(60), anything)))
    if operation in ("zipped_divide", "tiled_divide", "flat_divide"):
        a = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=3))
        shape, tile = tuple(s * t for s, t in a), tuple(t for _, t in a)
        return operation, (some.Layout(shape, tuple(draw(some.STRIDES) for _ in shape)), tile)
    if operation == "tile_to_shape":
        rank = draw(st.integers(1, 3))
        atom = tuple(draw(st.integers(1, 6)) for _ in range(rank))
        target = tuple(s * draw(st.integers(1, 4)) for s in atom)
        strides = some.Layout(atom)
        return operation, (strides, target, tuple(draw(st.permutations(range(rank)))))
    if operation == "make_ordered_layout":
        shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        return operation, (shape, tuple(draw(st.permutations(range(len(shape))))))
    if operation == "recast_layout":
        widths = draw(st.sampled_from([(32, 16), (16, 32), (8, 32), (32, 8), (16, 8), (8, 16), (6, 8), (24, 8)]))
        return operation, (*widths, draw(st.one_of(some.bijective(), anything)))
    raise ValueError(operation)
