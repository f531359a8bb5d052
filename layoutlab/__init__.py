"""layoutlab: does every element land where it will be read?"""

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
    umma_a,
    verify,
)
from layoutlab.layout import Layout, make_identity_layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle

__all__ = [
    "ComposedLayout",
    "Handoff",
    "Layout",
    "LayoutError",
    "Refuted",
    "SmemDescriptor",
    "Swizzle",
    "Tile",
    "Verdict",
    "assert_covered",
    "assert_exclusive",
    "assert_inside",
    "assert_legal",
    "assert_placed",
    "assert_proved",
    "declared",
    "handoff",
    "make_identity_layout",
    "make_layout",
    "owned",
    "smem",
    "store",
    "tcgen05_ld",
    "umma_a",
    "verify",
]
