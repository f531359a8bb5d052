"""What other libraries answer without a word, and wrongly: one minimal expression for each cause in each operation.

`theirs` is the answer as it is printed, without blanks; by enumeration it breaks the operation's law, which
`search/promises.py` states. `ours` is layoutlab's, None where it refuses. `why` is a cause of `search/causes.py` where
the operands keep every documented rule; otherwise it is the rule of `search/rules.py` that they break, with its source,
and the library answers all the same. Not listed: refusals and crashes, and answers that keep the law in another form.

    python tests/search/silent.py --ask pycute "left_inverse(L((2,2), (1,3)))"      reproduces a row
    python tests/search/silent.py --library pycute --operation left_inverse         searches anew
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from causes import BASE, BREAKS, CARRY, DIVISION, GAP, HALF, ORDER, REPEATS, SWIZZLED, VECTOR
from rules import DIVIDES, INJECTIVE, INJECTIVE_B, INVERTIBLE, POSITIVE, POWERS, SIZES, STRIDE_ONE, TILES

VERSIONS = {
    "dsl": ("nvidia-cutlass-dsl", "4.8.1"),
    "pycute": ("nvidia-cutlass", "4.2.0.0"),
    "tensor_layouts": ("tensor-layouts", "0.3.2"),
}


class Silent(NamedTuple):
    package: str
    expression: str
    theirs: str
    ours: str | None
    why: str

    @property
    def cause(self) -> str:
        return BREAKS.get(self.why, self.why)

    @property
    def rule(self) -> str | None:
        return self.why if self.why in BREAKS else None

    @property
    def operation(self) -> str:
        return self.expression.partition("(")[0]


SILENT = [
    # leaves of B that divide A add up past an extent of A, while A o B is taken leaf by leaf
    Silent("dsl", "composition(L((6,2), (0,1)), L((3,2), (2,3)))", "(3,2):(0,0)", None, CARRY),
    Silent("pycute", "composition(L((6,2), (0,1)), L((3,2), (2,3)))", "(3,2):(0,0)", None, CARRY),
    Silent("tensor_layouts", "composition(L((6,2), (0,1)), L((3,2), (2,3)))", "(3,2):(0,0)", None, CARRY),
    # a stride is no multiple of what the modes below fill, so that copies fill no range; it is divided and rounded
    Silent(
        "dsl", "blocked_product(L((2,2,2), (3,8,1)), L(2, 1))", "((2,2),(2,1),(2,1)):((3,0),(8,0),(1,0))", None, GAP
    ),
    Silent("dsl", "complement(L((2,2), (3,1)), 3)", "1:0", None, GAP),
    Silent("dsl", "logical_divide(L(3, 1), L((2,2), (1,3)))", "((2,2),1):((1,3),0)", None, GAP),
    Silent("dsl", "logical_product(L((2,2,2), (3,8,1)), L(2, 1))", "((2,2,2),2):((3,8,1),0)", None, GAP),
    Silent("dsl", "raked_product(L((2,2,2), (3,8,1)), L(2, 1))", "((2,2),2,2):((0,3),8,1)", None, GAP),
    Silent("dsl", "zipped_product(L((2,2,2), (3,8,1)), L(2, 1))", "((2,2,2),2):((3,8,1),0)", None, GAP),
    Silent("pycute", "complement(L((2,2), (3,2)), 1)", "(2,0):(1,4)", None, GAP),
    Silent("pycute", "left_inverse(L((2,2), (1,3)))", "2:1", "(3,2):(1,2)", GAP),
    Silent("pycute", "logical_divide(L(1, 0), L((2,2), (2,3)))", "((2,2),(2,0)):((0,0),(0,0))", None, GAP),
    Silent("pycute", "logical_product(L((2,2,2), (3,8,1)), L(2, 1))", "((2,2,2),2):((3,8,1),0)", None, GAP),
    Silent("pycute", "zipped_product(L((2,2,2), (3,8,1)), L(2, 1))", "((2,2,2),2):((3,8,1),0)", None, GAP),
    Silent("tensor_layouts", "complement(L((2,2), (3,2)), 1)", "2:1", None, GAP),
    Silent("tensor_layouts", "left_inverse(L((2,2), (2,3)))", "(2,2):(0,2)", None, GAP),
    Silent("tensor_layouts", "logical_divide(L(3, 1), L((2,2), (1,3)))", "((2,2),1):((1,3),0)", None, GAP),
    Silent("tensor_layouts", "logical_product(L((2,2), (2,3)), 2)", "((2,2),2):((2,3),1)", None, GAP),
    Silent("tensor_layouts", "raked_product(L((2,2), (3,2)), L(2, 1))", "((2,2),(1,2)):((1,3),(0,2))", None, GAP),
    Silent("tensor_layouts", "zipped_product(L((2,2), (2,3)), 2)", "((2,2),2):((2,3),1)", None, GAP),
    # of two modes that go to the same locations the inverse follows both, as if the second began where one ends
    Silent("dsl", "left_inverse(L((2,3), (2,1)))", "(2,2):(2,1)", None, REPEATS),
    Silent("tensor_layouts", "left_inverse(L((2,3), (2,1)))", "(2,2):(2,1)", None, REPEATS),
    # a number of copies is taken for the size of a tile, and divides
    Silent("pycute", "logical_product(L(2, 0), 1)", "(1,2):(0,0)", "(2,1):(0,0)", DIVISION),
    Silent("pycute", "zipped_product(L(2, 0), 1)", "(1,2):(0,0)", "(2,1):(0,0)", DIVISION),
    # modes with one order number get one stride, and overlap
    Silent("dsl", "make_ordered_layout((2, 2), (1, 1))", "(2,2):(1,1)", None, ORDER),
    # an extent that does not fill whole units is rounded up
    Silent("dsl", "recast_layout(3, 1, L(2, 1))", "1:1", None, HALF),
    Silent("tensor_layouts", "recast_layout(3, 1, L(2, 1))", "1:1", None, HALF),
    # the swizzle moves bits inside of the wider element, and its base is counted below 0
    Silent("dsl", "recast_layout(2, 1, S(1, 0, 1, 0, L(2, 1)))", "S<1,4294o0o1:1", None, BASE),
    # the swizzle's bits are moved as if the layout moved bits as bits
    Silent(
        "tensor_layouts", "left_inverse(S(2, 2, -2, 0, L(2, 6)))", "(Swizzle(1,1,-2))o((6,2):(0,1))", None, SWIZZLED
    ),
    Silent(
        "tensor_layouts",
        "right_inverse(S(2, 1, 2, 0, L((2,6), (6,1))))",
        "(Swizzle(1,0,2))o((6,2):(2,1))",
        None,
        SWIZZLED,
    ),
    # the swizzle or the offset tears the vector apart
    Silent("tensor_layouts", "max_common_vector(S(1, 1, -1, 0, L(4, 1)), S(1, 1, -1, 0, L(4, 1)))", "4", "2", VECTOR),
    # a step or an extent ends inside a mode of A; the rest is rounded
    Silent("dsl", "blocked_product(L(2, 5), L((2,3), (1,2)))", "((2,2),(1,3)):((5,1),(0,2))", None, DIVIDES),
    Silent("dsl", "composition(L((4,2), (1,0)), L(4, 3))", "(2,2):(3,0)", None, DIVIDES),
    Silent("dsl", "logical_divide(L((3,2), (1,0)), L(2, 2))", "(2,2):(2,1)", None, DIVIDES),
    Silent("dsl", "logical_product(L(2, 5), L((2,3), (1,2)))", "(2,(2,3)):(5,(1,2))", None, DIVIDES),
    Silent("dsl", "raked_product(L(2, 5), L((2,3), (1,2)))", "((2,2),3):((1,5),2)", None, DIVIDES),
    Silent("dsl", "zipped_product(L(2, 5), L((2,3), (1,2)))", "(2,(2,3)):(5,(1,2))", None, DIVIDES),
    Silent("pycute", "composition(L((6,2), (0,1)), L(4, 2))", "3:0", None, DIVIDES),
    Silent("pycute", "logical_product(L(2, 6), L(3, 3))", "(2,2):(6,3)", None, DIVIDES),
    Silent("pycute", "zipped_product(L(2, 6), L(3, 3))", "(2,2):(6,3)", None, DIVIDES),
    Silent("tensor_layouts", "logical_product(L(2, 3), L((2,2), (2,1)))", "(2,(2,2)):(3,(2,1))", None, DIVIDES),
    Silent("tensor_layouts", "raked_product(L(2, 3), L((2,2), (2,1)))", "((2,2),(2,1)):((2,3),(1,0))", None, DIVIDES),
    Silent("tensor_layouts", "zipped_product(L(2, 3), L((2,2), (2,1)))", "(2,(2,2)):(3,(2,1))", None, DIVIDES),
    # indices of B meet and carry, while A o B is taken leaf by leaf
    Silent("dsl", "blocked_product(L(2, 2), L((2,2), (1,1)))", "((2,2),(1,2)):((2,1),(0,1))", None, INJECTIVE_B),
    Silent("dsl", "composition(L((2,2), (0,1)), L((2,2), (1,1)))", "(2,2):(0,0)", None, INJECTIVE_B),
    Silent("dsl", "logical_product(L(2, 2), L((2,2), (1,1)))", "(2,(2,2)):(2,(1,1))", None, INJECTIVE_B),
    Silent("dsl", "raked_product(L(2, 2), L((2,2), (1,1)))", "(4,2):(1,1)", None, INJECTIVE_B),
    Silent("dsl", "zipped_product(L(2, 2), L((2,2), (1,1)))", "(2,(2,2)):(2,(1,1))", None, INJECTIVE_B),
    Silent("pycute", "composition(L((2,2), (0,1)), L((2,2), (1,1)))", "(2,2):(0,0)", None, INJECTIVE_B),
    Silent("pycute", "logical_product(L(2, 2), L((2,2), (1,1)))", "(2,(2,2)):(2,(1,1))", None, INJECTIVE_B),
    Silent("pycute", "zipped_product(L(2, 2), L((2,2), (1,1)))", "(2,(2,2)):(2,(1,1))", None, INJECTIVE_B),
    Silent("tensor_layouts", "composition(L((2,2), (0,1)), L((2,2), (1,1)))", "(2,2):(0,0)", None, INJECTIVE_B),
    Silent("tensor_layouts", "logical_product(L(2, 2), L((2,2), (1,1)))", "(2,(2,2)):(2,(1,1))", None, INJECTIVE_B),
    Silent(
        "tensor_layouts", "raked_product(L(2, 2), L((2,2), (1,1)))", "((2,2),(2,1)):((1,2),(1,0))", None, INJECTIVE_B
    ),
    Silent("tensor_layouts", "zipped_product(L(2, 2), L((2,2), (1,1)))", "(2,(2,2)):(2,(1,1))", None, INJECTIVE_B),
    # the layout to complement meets itself; its strides are divided all the same, and rounded
    Silent("dsl", "complement(L((2,2), (1,1)), 1)", "0:2", None, INJECTIVE),
    Silent("pycute", "complement(L((2,2), (1,1)), 1)", "0:2", None, INJECTIVE),
    Silent("pycute", "logical_divide(L(1, 0), L((2,2), (1,1)))", "((2,2),0):((0,0),0)", None, INJECTIVE),
    Silent("tensor_layouts", "complement(L((2,2), (1,1)), 1)", "1:0", None, INJECTIVE),
    Silent(
        "tensor_layouts", "logical_divide(L((2,4,2), (0,0,1)), L((2,5), (4,1)))", "((2,5),2):((0,0),1)", None, INJECTIVE
    ),
    # a negative stride is divided and rounded like an extent
    Silent("dsl", "complement(L(2, -1), 1)", "(-1,0):(1,-2)", None, POSITIVE),
    Silent("dsl", "composition(L((3,1), (0,-1)), L((2,3), (9,-4)))", "(2,3):(-3,2)", None, POSITIVE),
    Silent("dsl", "recast_layout(1, 2, L(2, -1))", "4:-1", None, POSITIVE),
    Silent("pycute", "composition(L((2,2), (0,-1)), L((2,2), (2,-1)))", "(2,2):(-1,0)", "(2,2):(-1,1)", POSITIVE),
    Silent(
        "tensor_layouts", "composition(L((2,2), (0,-1)), L((2,2), (2,-1)))", "(2,2):(-1,0)", "(2,2):(-1,1)", POSITIVE
    ),
    Silent("tensor_layouts", "recast_layout(1, 2, L(2, -1))", "4:-1", None, POSITIVE),
    # two indices go to one location, of which the inverse can keep one
    Silent("pycute", "left_inverse(L((2,2), (0,1)))", "1:0", None, INVERTIBLE),
    # the common vector leaves the smaller layout
    Silent("dsl", "max_common_layout(L(1, 1), L(2, 1))", "2:1", "1:0", SIZES),
    Silent("dsl", "max_common_vector(L(1, 1), L(2, 1))", "2", "1", SIZES),
    Silent("tensor_layouts", "max_common_layout(L(2, 1), L(3, 1))", "3:1", "2:1", SIZES),
    Silent("tensor_layouts", "max_common_vector(L(2, 1), L((2,2), (1,2)))", "4", "2", SIZES),
    # no single mode of stride 1 holds the parts of an element; strides and extents are divided and rounded
    Silent("dsl", "recast_layout(1, 2, L(1, 0))", "1:0", None, STRIDE_ONE),
    Silent("tensor_layouts", "recast_layout(1, 2, L(1, 0))", "1:0", None, STRIDE_ONE),
    # the swizzle moves by a whole number of bits, and the widths are not a power of two apart
    Silent("dsl", "recast_layout(3, 2, S(1, 0, 1, 0, L(1, 0)))", "S<1,1,1>o0o1:0", None, POWERS),
    # the number of atoms is rounded up, and the result has not the shape asked for
    Silent("dsl", "tile_to_shape(L(2, 0), (1,), (0,))", "((2,(1))):((0,(0)))", None, TILES),
]


def counted(inside: bool) -> Counter[tuple[str, str]]:
    """How many rows each library has in each operation, of those inside the documented rules or of the others."""
    return Counter((row.package, row.operation) for row in SILENT if (row.rule is None) == inside)
