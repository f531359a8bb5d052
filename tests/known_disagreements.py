"""Where an oracle answers otherwise, and why: each line is tested, and random comparisons allow no other kind.

`kind` is "wrong" (its answer breaks the operation's law as `laws.py` states it, for layouts that go on past their last
index), "refuses" (it gives none where there is one) or "form" (its answer obeys the law, written in another way).
`theirs` and `ours` are the printed answers, None for a refusal. Answers that break what the documents promise, which is
less, are in `silent_answers.py`.
"""

from __future__ import annotations

from typing import NamedTuple


class Disagreement(NamedTuple):
    oracle: str
    kind: str
    expression: str
    theirs: str | None
    ours: str | None
    why: str

    @property
    def operation(self) -> str:
        return self.expression.partition("(")[0]


OUTSIDE = "outside of the layout it goes on in a mode of extent 1, or drops that mode, where ours does the other"
NOT_DIVIDED = "it asks for shapes that divide each other, where the function is a layout all the same"
OVERLAP = "copies of the layout overlap or leave gaps; it divides the strides and rounds"
NEGATIVE = "it divides by a negative stride as if it were an extent"
ONE = "an extent of 1 may have any stride"

KNOWN = [
    # composition
    Disagreement("dsl", "wrong", "composition(L((4,2),(1,16)), L(4,-1))", "4:-1", None, NEGATIVE),
    Disagreement("dsl", "refuses", "composition(L((4,6),(6,3)), L(2,6))", None, "2:15", NOT_DIVIDED),
    Disagreement(
        "dsl", "form", "composition(L((8,6),(-1,-2)), L((6,1),(24,5)))", "(6,1):(-6,-2)", "(6,1):(-6,-5)", ONE
    ),
    Disagreement("pycute", "wrong", "composition(L((6,1),(12,2)), L((2,5),(24,8)))", "(2,5):(288,96)", None, OUTSIDE),
    Disagreement("pycute", "refuses", "composition(L((8,2),(3,3)), L(3,3))", None, "3:9", NOT_DIVIDED),
    Disagreement("pycute", "form", "composition(L(1,6), L(1,6))", "1:0", "1:36", ONE),
    Disagreement(
        "tensor_layouts", "wrong", "composition(L((6,1),(12,2)), L((2,5),(24,8)))", "(2,5):(288,96)", None, OUTSIDE
    ),
    Disagreement("tensor_layouts", "refuses", "composition(L((4,6),(6,3)), L(2,6))", None, "2:15", NOT_DIVIDED),
    Disagreement("tensor_layouts", "form", "composition(L(1,6), L(1,6))", "1:0", "1:36", ONE),
    # logical_divide
    Disagreement(
        "dsl",
        "wrong",
        "logical_divide(L((2,4,1),(-4,2,1)), L(2,40))",
        "(2,(2,4,5)):(5,(-4,2,1))",
        "(2,(2,20)):(40,(-4,2))",
        OUTSIDE,
    ),
    Disagreement("dsl", "wrong", "logical_divide(L(2,4), L((2,2),(1,3)))", "((2,2),1):((4,12),0)", None, OVERLAP),
    Disagreement(
        "dsl",
        "wrong",
        "logical_divide(L((3,2),(0,1)), L(2,1))",
        "(2,(2,2)):(0,(0,1))",
        None,
        "it cuts the tile out of each mode on its own and rounds up there",
    ),
    Disagreement("dsl", "refuses", "logical_divide(L((6,1),(24,3)), L(8,40))", None, "(8,40):(960,24)", NOT_DIVIDED),
    Disagreement(
        "dsl", "form", "logical_divide(L((5,5),(1,0)), L(1,2))", "(1,(5,5)):(0,(1,0))", "(1,(5,5)):(2,(1,0))", ONE
    ),
    Disagreement("pycute", "wrong", "logical_divide(L(1,1), L(8,1))", "(8,1):(0,0)", "(8,1):(1,0)", OUTSIDE),
    Disagreement("pycute", "wrong", "logical_divide(L(2,4), L((2,2),(1,3)))", "((2,2),1):((4,12),0)", None, OVERLAP),
    Disagreement(
        "pycute", "refuses", "logical_divide(L((5,5),(1,0)), L(1,2))", None, "(1,(5,5)):(2,(1,0))", NOT_DIVIDED
    ),
    Disagreement("pycute", "form", "logical_divide(L(1,8), L(1,1))", "(1,1):(0,0)", "(1,1):(8,0)", ONE),
    Disagreement("tensor_layouts", "wrong", "logical_divide(L(1,1), L(8,1))", "(8,1):(0,0)", "(8,1):(1,0)", OUTSIDE),
    Disagreement(
        "tensor_layouts", "refuses", "logical_divide(L((5,5),(1,0)), L(1,2))", None, "(1,(5,5)):(2,(1,0))", NOT_DIVIDED
    ),
    Disagreement("tensor_layouts", "form", "logical_divide(L(1,8), L(1,1))", "(1,1):(0,0)", "(1,1):(8,0)", ONE),
    # zipped_divide
    Disagreement(
        "pycute",
        "form",
        "zipped_divide(L((2,),(1,)), (1,))",
        "((1),(2)):((1),(1))",
        "((1),(2)):((0),(1))",
        "a tile of extent 1 keeps the stride of its mode",
    ),
    Disagreement(
        "tensor_layouts",
        "form",
        "zipped_divide(L((1,),(0,)), (1,))",
        "(1,1):(0,0)",
        "((1),(1)):((0),(0))",
        "it unwraps a tuple of one mode",
    ),
    # tiled_divide
    Disagreement(
        "pycute",
        "form",
        "tiled_divide(L((2,),(1,)), (1,))",
        "((1),2):((1),1)",
        "((1),2):((0),1)",
        "a tile of extent 1 keeps the stride of its mode",
    ),
    Disagreement(
        "tensor_layouts",
        "form",
        "tiled_divide(L((1,),(0,)), (1,))",
        "(1,1):(0,0)",
        "((1),1):((0),0)",
        "it unwraps a tuple of one mode",
    ),
    # logical_product
    Disagreement(
        "dsl", "refuses", "logical_product(L((2,2),(2,4)), L(2,5))", None, "((2,2),2):((2,4),17)", NOT_DIVIDED
    ),
    Disagreement(
        "pycute", "refuses", "logical_product(L((2,2),(2,4)), L(2,5))", None, "((2,2),2):((2,4),17)", NOT_DIVIDED
    ),
    Disagreement(
        "tensor_layouts",
        "refuses",
        "logical_product(L((2,2),(2,4)), L(2,5))",
        None,
        "((2,2),2):((2,4),17)",
        NOT_DIVIDED,
    ),
    # blocked_product
    Disagreement(
        "dsl",
        "refuses",
        "blocked_product(L((7,),(1,)), L(4,1))",
        None,
        "((7,4)):((1,7))",
        "it takes a number and a tuple of one for layouts of different rank",
    ),
    Disagreement(
        "dsl",
        "form",
        "blocked_product(L(4,1), L((5,),(1,)))",
        "((4,(5))):((1,(4)))",
        "((4,5)):((1,4))",
        "it pads a number and a tuple of one differently",
    ),
    Disagreement(
        "tensor_layouts",
        "wrong",
        "blocked_product(L(2,7), L(7,1))",
        "((2,7)):((7,8))",
        "((2,7)):((7,1))",
        "it puts copies side by side and leaves the gaps inside of a block empty",
    ),
    Disagreement(
        "tensor_layouts",
        "form",
        "blocked_product(L((2,2),(1,2)), L(8,1))",
        "((2,8),2):((1,4),2)",
        "((2,8),(2,1)):((1,4),(2,0))",
        "it leaves out modes of extent 1",
    ),
    # raked_product
    Disagreement(
        "dsl",
        "refuses",
        "raked_product(L(6,2), L(6,1))",
        None,
        "((2,3,6)):((1,12,2))",
        "it takes no products of numbers",
    ),
    Disagreement(
        "tensor_layouts", "refuses", "raked_product(L(6,2), L(6,1))", None, "((2,3,6)):((1,12,2))", NOT_DIVIDED
    ),
    Disagreement(
        "tensor_layouts",
        "form",
        "raked_product(L(5,5), L(5,1))",
        "((5,5)):((1,5))",
        "(25):(1)",
        "it does not coalesce the modes",
    ),
    # right_inverse
    Disagreement("pycute", "form", "right_inverse(L((8,6),(-2,1)))", "1:0", "6:8", "it stops at a negative stride"),
    Disagreement(
        "tensor_layouts",
        "form",
        "right_inverse(L((4,2,3),(1,1,3)))",
        "2:4",
        "4:1",
        "of two modes of stride 1 it takes the other",
    ),
    # left_inverse
    Disagreement(
        "dsl",
        "wrong",
        "left_inverse(L(2,0))",
        "1:0",
        None,
        "two indices go to one location: it leads back to one of them, as CuTe promises, where ours refuses",
    ),
    Disagreement(
        "pycute",
        "wrong",
        "left_inverse(L(2,0))",
        "1:0",
        None,
        "two indices go to one location: it leads back to one of them, as CuTe promises, where ours refuses",
    ),
    Disagreement(
        "pycute",
        "form",
        "left_inverse(L(4,2))",
        "(2,4):(4,1)",
        "(2,4):(0,1)",
        "between the locations any index will do",
    ),
    Disagreement(
        "tensor_layouts",
        "wrong",
        "left_inverse(L(2,0))",
        "2:0",
        None,
        "two indices go to one location: it leads back to one of them, as CuTe promises, where ours refuses",
    ),
    # max_common_layout
    Disagreement("dsl", "refuses", "max_common_layout(L((2,2),(6,6)), L(7,1))", None, "1:0", NOT_DIVIDED),
    Disagreement("tensor_layouts", "refuses", "max_common_layout(L((2,2),(6,6)), L(7,1))", None, "1:0", NOT_DIVIDED),
    Disagreement(
        "tensor_layouts",
        "form",
        "max_common_layout(L((3,5,2),(3,1,1)), L((3,5,2),(3,1,1)))",
        "2:15",
        "5:3",
        "of two modes of stride 1 it takes the other",
    ),
    # recast_layout
    Disagreement(
        "tensor_layouts",
        "refuses",
        "recast_layout(6, 8, L(3,1))",
        None,
        "4:1",
        "its upcast and downcast take widths of which one is a multiple of the other",
    ),
]
