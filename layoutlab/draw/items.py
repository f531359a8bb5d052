"""Items: the table that a picture is drawn from; what of it a person chose to see, and how.

>>> items = with_warps({"thread": [0, 40], "value": [1, 0], "byte": [146, 0]})
>>> items["warp"], kept(items, Choice(only="warp=1"))["value"]
([0, 1], [0])
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from layoutlab.draw.picture import NOTHING, Items, Picture, column
from layoutlab.errors import LayoutError

WARP = 32  # threads
ROW_BYTES = 128  # of shared memory: 32 banks of 4 bytes
BANK_BYTES = 4
ELEMENT_BITS = (1, 2, 4, 6, 8, 16, 32, 64, 128)
CHUNK_BYTES = 16  # what a swizzle moves as one, and a row of a core matrix


@dataclass(frozen=True)
class Choice:
    """What of an object to draw and how: the same words on the command line and in Python.

    colour is a column of the items, or "column // number"; only keeps the items that it describes ("warp=0 value<8");
    rows and cols keep a range of the tile's coordinates; panels names those to draw; labels="owner" makes the memory's
    cells say their thread and value; count_banks writes under each bank how many of its words are touched. bits is an
    element's width where the object does not say it; tile is the (rows, columns) that a (thread, value) layout is over.
    """

    colour: str = ""
    only: str = ""
    rows: tuple[int, int] | None = None
    cols: tuple[int, int] | None = None
    panels: tuple[str, ...] = ()
    labels: str = ""
    title: str = ""
    count_banks: bool = False
    bits: int | None = None
    tile: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.bits is not None and self.bits not in ELEMENT_BITS:
            listed = ", ".join(map(str, ELEMENT_BITS))
            raise LayoutError(f"bits={self.bits} is no element's width: {listed} are")
        for name, span in (("rows", self.rows), ("cols", self.cols)):
            if span is not None and not 0 <= span[0] < span[1]:
                raise LayoutError(f"{name}={span}: from a number up to a larger one, (0, 8)")
        if self.labels not in ("", "owner", "coordinate"):
            raise LayoutError(f"labels={self.labels!r}: a memory's cells say their owner or their coordinate")
        if self.tile is not None and (len(self.tile) != 2 or min(self.tile) < 1):
            raise LayoutError(f"tile={self.tile}: a tile has rows and columns, (128, 32)")


WHOLE = Choice()
"""Everything, as its kind is usually drawn."""


def with_places(items: Items, space: str = "smem") -> Items:
    """The items with what their byte says: the bank, which global memory has none of, and the 16-byte chunk of its row.

    >>> with_places({"byte": [146]})["chunk"]
    [1]
    """
    at = items["byte"]
    banks = [b // BANK_BYTES % (ROW_BYTES // BANK_BYTES) for b in at]
    return {
        **items,
        **({"bank": banks} if space == "smem" else {}),
        "chunk": [b // CHUNK_BYTES % (ROW_BYTES // CHUNK_BYTES) for b in at],
    }


def with_warps(items: Items) -> Items:
    """The items with the warp of their thread; -1 where nobody owns the element."""
    return {**items, "warp": [t // WARP if t >= 0 else NOTHING for t in items["thread"]]}


def by_owner(items: Items) -> str:
    """Colour by warp where there are several, by thread in one."""
    return "warp" if len(set(items.get("warp", ())) - {NOTHING}) > 1 else "thread"


def kept(items: Items, choice: Choice, row: str = "", col: str = "") -> Items:
    """The items that the choice's `only`, `rows` and `cols` keep."""
    tests: list[Sequence[bool]] = []
    for condition in re.split(r"[\s,]+", choice.only.strip()) if choice.only.strip() else []:
        tests.append(_condition(items, condition))
    for axis, span in ((row, choice.rows), (col, choice.cols)):
        if span and axis:
            tests.append([span[0] <= v < span[1] for v in items[axis]])
    if not tests:
        return items
    index = [i for i, keeps in enumerate(zip(*tests, strict=True)) if all(keeps)]
    if not index:
        said = f"{choice.only} keeps" if choice.only else "these rows and columns keep"
        raise LayoutError(f"nothing is left to draw: {said} no element")
    return {name: [values[i] for i in index] for name, values in items.items()}


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _condition(items: Items, text: str) -> list[bool]:
    m = re.fullmatch(r"([\w/%]+?)(!=|<=|>=|=|<|>)(-?\d+)", text)
    if not m:
        raise LayoutError(f'{text!r} is no condition: "thread<8", "warp=0", "value//8=1", "m%16<2"')
    compare, number = _COMPARE[m[2]], int(m[3])
    return [compare(v, number) for v in column(items, m[1])]


def chosen(picture: Picture, choice: Choice) -> Picture:
    """The picture with the panels chosen, and a colour that exists."""
    column(picture.items, picture.colour)
    if not choice.panels:
        return picture
    panels = [picture.panel(name) for name in choice.panels]
    arrows = tuple(a for a in picture.arrows if {a.from_panel, a.to_panel} <= set(choice.panels))
    return replace(picture, panels=panels, arrows=arrows)
