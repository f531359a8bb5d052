"""Views: a layout, an ownership map, a tile in memory, each as panels over one table of items.

The panels of a tile in shared memory stand for its three readers: the writing threads, who see coordinates and own
them; the memory, which sees rows of 128 bytes under 32 banks; and the reading unit, which sees instruction steps and
core matrices of 8 rows by 16 bytes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layoutlab.draw.picture import MOST_CELLS, NOTHING, Axis, Band, Items, Line, Panel, Picture, column
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, modes, product, to_text
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

WARP = 32  # threads
ROW_BYTES = 128  # of shared memory: 32 banks of 4 bytes
BANK_BYTES = 4
CHUNK_BYTES = 16  # what a swizzle moves as one, and a row of a core matrix
CORE_ROWS = 8
TMEM_COLUMN_BITS = 32
TMEM_QUARTER = 32
"""Lanes that the warps of one number modulo 4 reach."""

OWNER: tuple[Line, ...] = ((("T", "thread"),), (("V", "value"),))


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


WHOLE = Choice()
"""Everything, as its kind is usually drawn."""


# -- tables of items ---------------------------------------------------------------------------------------------------


def locations(layout: Layout | ComposedLayout) -> list[Any]:
    """What a layout gives for each flat index, in order: numbers, or coordinates where strides are bases.

    >>> locations(Layout((2, 3), (3, 1)))
    [0, 3, 1, 4, 2, 5]
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    if outer.symbolic():
        raise LayoutError(f"{layout} has symbols: give them numbers to draw it")
    if outer.size() > MOST_CELLS:  # type: ignore[operator]
        raise LayoutError(f"{layout} has {outer.size()} elements, more than the {MOST_CELLS} that can be drawn")
    if outer.coordinate_valued() or (isinstance(layout, ComposedLayout) and not isinstance(layout.offset, int)):
        return [layout(i) for i in range(int(outer.size()))]  # type: ignore[arg-type]
    values = [layout.offset if isinstance(layout, ComposedLayout) else 0]
    for extent, stride in outer.leaves():
        values = [base + i * stride for i in range(extent) for base in values]
    if not isinstance(layout, ComposedLayout) or layout.inner is None:
        return values
    if isinstance(layout.inner, Swizzle):
        swizzle = layout.element_swizzle()
        return [swizzle(v) for v in values]
    return [layout.inner.extended(v) for v in values]


def with_places(items: Items) -> Items:
    """The items with what their byte says: row of 128 bytes, bank, 16-byte chunk of the row.

    >>> with_places({"byte": [146]})["chunk"]
    [1]
    """
    at = items["byte"]
    return {
        **items,
        "bank": [b // BANK_BYTES % (ROW_BYTES // BANK_BYTES) for b in at],
        "chunk": [b // CHUNK_BYTES % (ROW_BYTES // CHUNK_BYTES) for b in at],
    }


def with_warps(items: Items) -> Items:
    """The items with the warp of their thread; -1 where nobody owns the element."""
    return {**items, "warp": [t // WARP if t >= 0 else NOTHING for t in items["thread"]]}


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
        raise LayoutError(f"nothing is left to draw: {choice.only or 'the rows and columns'} keeps no element")
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


# -- panels ------------------------------------------------------------------------------------------------------------


def tile_panel(
    items: Items,
    row: str,
    col: str,
    lines: tuple[Line, ...],
    title: str,
    name: str = "tile",
    every: tuple[int, int] = (0, 0),
    bands: tuple[tuple[Band, ...], tuple[Band, ...]] = ((), ()),
    present: Sequence[bool] = (),
) -> Panel:
    """The items at their coordinates: rows of axis `row`, columns of axis `col`, from the first to the last one met.

    `present` says which items are shown; without it, all are.
    """
    top, left = min(items[row]), min(items[col])
    rows, cols = max(items[row]) - top + 1, max(items[col]) - left + 1
    cells = [(r - top) * cols + c - left for r, c in zip(items[row], items[col], strict=True)]
    cells = [cell if here else NOTHING for cell, here in zip(cells, present, strict=True)] if present else cells
    grid, more = filled(cells, rows * cols, f"{title}: {rows} x {cols} cells")
    shifted = tuple(_within(b, start, n) for b, start, n in zip(bands, (top, left), (rows, cols), strict=True))
    return Panel(
        name, title, rows, cols, grid, lines,
        Axis(row, [str(top + i) for i in range(rows)], every[0], shifted[0]),
        Axis(col, [str(left + i) for i in range(cols)], every[1], shifted[1]),
        more,
    )  # fmt: skip


def memory_panel(
    items: Items,
    bits: int,
    lines: tuple[Line, ...],
    title: str,
    at: str = "byte",
    count_banks: bool = False,
    also: Iterable[int] = (),
) -> Panel:
    """The items where they lie: rows of 128 bytes, a cell for each `bits` bits, the 32 banks as headings.

    Rows that hold nothing are left out, with one empty row in their place; `also` names bytes whose rows stay. Heavy
    lines stand every 16 bytes. An item at a negative byte lies nowhere.
    """
    if ROW_BYTES * 8 % bits:
        raise LayoutError(f"{title}: a row of {ROW_BYTES} bytes is no whole number of {bits}-bit elements")
    slots = ROW_BYTES * 8 // bits
    used = sorted({b // ROW_BYTES for b in (*items[at], *also) if b >= 0})
    shown = _with_gaps(used)
    place = {row: i for i, row in enumerate(shown) if row is not None}
    sub = items.get("bit")
    inside = (
        [b % ROW_BYTES * 8 for b in items[at]] if sub is None or at != "byte" else [b % (ROW_BYTES * 8) for b in sub]
    )
    cells = [
        place[b // ROW_BYTES] * slots + i // bits if b >= 0 else NOTHING for b, i in zip(items[at], inside, strict=True)
    ]
    grid, more = filled(cells, len(shown) * slots, f"{title}: {len(shown)} rows of 128 bytes")
    per_bank = max(32 // bits, 1)
    stride = 1 if bits <= 32 else bits // 32
    bands = tuple(Band(i * per_bank, per_bank, str(i * stride)) for i in range(slots // per_bank))
    foot = _words_per_bank(items[at], bits, per_bank) if count_banks else ()
    return Panel(
        "memory", title, len(shown), slots, grid, lines,
        Axis("byte", ["⋮" if row is None else str(row * ROW_BYTES) for row in shown]),
        Axis("bank", (), max(CHUNK_BYTES * 8 // bits, 1), bands, foot),
        more,
    )  # fmt: skip


def _with_gaps(used: Sequence[int]) -> list[int | None]:
    """Ascending numbers, with None where some are left out.

    >>> _with_gaps([0, 1, 5])
    [0, 1, None, 5]
    """
    shown: list[int | None] = []
    for number in used:
        if shown and shown[-1] is not None and number > shown[-1] + 1:
            shown.append(None)
        shown.append(number)
    return shown


def _words_per_bank(at: Sequence[int], bits: int, per_bank: int) -> tuple[Band, ...]:
    """Under each bank how many different words of it are touched: the wavefronts are the most of these."""
    words = {b // BANK_BYTES + i for b in at for i in range(max(bits // 32, 1)) if b >= 0}
    counts = [0] * (ROW_BYTES // BANK_BYTES)
    for word in words:
        counts[word % len(counts)] += 1
    wide = max(bits // 32, 1)
    return tuple(
        Band(i * per_bank, per_bank, str(max(counts[i * wide : (i + 1) * wide]))) for i in range(len(counts) // wide)
    )


def tmem_panel(
    items: Items, bits: int, lines: tuple[Line, ...], title: str, also: Iterable[tuple[int, int]] = ()
) -> Panel:
    """The items in Tensor Memory: a row for each lane, a cell for each `bits` bits of a column; rows banded by warp.

    Lanes that hold nothing are left out, with one empty row in their place; `also` names places that stay, (lane, bit).
    """
    slots = [b // bits for b in items["bit"]]
    per = max(TMEM_COLUMN_BITS // bits, 1)
    used = [(lane, b // bits) for lane, b in (*zip(items["lane"], items["bit"], strict=True), *also) if lane >= 0]
    first = min(slot for _, slot in used) // per * per
    cols = -(-(max(slot for _, slot in used) + 1 - first) // per) * per
    shown = _with_gaps(sorted({lane for lane, _ in used}))
    rows, place = len(shown), {lane: i for i, lane in enumerate(shown) if lane is not None}
    cells = [
        place[lane] * cols + slot - first if lane >= 0 else NOTHING
        for lane, slot in zip(items["lane"], slots, strict=True)
    ]
    grid, more = filled(cells, rows * cols, title)
    quarters = {
        q: [i for i, lane in enumerate(shown) if lane is not None and lane // TMEM_QUARTER == q] for q in range(4)
    }
    warps = tuple(Band(r[0], r[-1] - r[0] + 1, f"warp {q}") for q, r in quarters.items() if r)
    columns = tuple(Band(i * per, per, str(first // per + i)) for i in range(cols // per))
    return Panel(
        "memory", title, rows, cols, grid, lines,
        Axis("lane", ["⋮" if lane is None else str(lane) for lane in shown], 0, warps if rows > 1 else ()),
        Axis("column", (), per if per > 1 else 0, columns),
        more,
    )  # fmt: skip


def filled(cells: Sequence[int], count: int, what: str) -> tuple[list[int], dict[int, list[int]]]:
    """The grid with the first item of each cell, and the further ones; an item at the cell NOTHING is not in it."""
    if count > MOST_CELLS:
        raise LayoutError(f"{what} are more than the {MOST_CELLS} that can be drawn: choose some rows and columns")
    grid, more = [NOTHING] * count, dict[int, list[int]]()
    for item, cell in enumerate(cells):
        if cell == NOTHING:
            continue
        if grid[cell] == NOTHING:
            grid[cell] = item
        else:
            more.setdefault(cell, []).append(item)
    return grid, more


def _within(bands: Iterable[Band], start: int, count: int) -> tuple[Band, ...]:
    """The bands as they are cut by a window."""
    cut = ((max(b.start, start), min(b.start + b.count, start + count), b.text) for b in bands)
    return tuple(Band(low - start, high - low, text) for low, high, text in cut if high > low)


# -- layouts -----------------------------------------------------------------------------------------------------------


def layout_picture(layout: Layout | ComposedLayout, choice: Choice = WHOLE) -> Picture:
    """A layout as the grid of its coordinates, each cell its location; with `bits`, the memory beside it.

    >>> picture = layout_picture(Layout((2, 3), (3, 1)))
    >>> [picture.panels[0].text(picture.items, cell) for cell in range(6)]
    [['0'], ['1'], ['2'], ['3'], ['4'], ['5']]

    Rows and columns are `as_grid`'s. A coordinate-valued layout shows coordinates.
    """
    outer = as_grid(layout.outer if isinstance(layout, ComposedLayout) else layout)
    found = locations(replace(layout, outer=outer) if isinstance(layout, ComposedLayout) else outer)
    rows, cols = grid_shape(outer)
    items: Items = {"row": [i % rows for i in range(rows * cols)], "col": [i // rows for i in range(rows * cols)]}
    if found and isinstance(found[0], tuple):
        values, lines = _coordinate_columns(found)
    else:
        values, lines = {"location": found}, ((("", "location"),),)
    items |= values
    if choice.bits and "location" in items:
        if min(found) < 0:
            raise LayoutError(f"{layout} has the location {min(found)}: before the memory's first byte")
        items |= {"byte": [v * choice.bits // 8 for v in found]}
        items |= {"bit": [v * choice.bits for v in found]} if choice.bits < 8 else {}
        items = with_places(items)
    items = kept(items, choice, "row", "col")
    panels = [tile_panel(items, "row", "col", lines, f"{rows} x {cols} coordinates, each its location")]
    if choice.bits and "byte" in items:
        where: tuple[Line, ...] = ((("", "row"), (",", "col")),)
        title = "memory: rows of 128 bytes under 32 banks, each cell its (row, col)"
        panels.append(memory_panel(items, choice.bits, where, title, count_banks=choice.count_banks))
    colour = choice.colour or ("chunk" if "chunk" in items else next(iter(values)))
    picture = Picture(
        choice.title or str(layout), items, panels, colour, coordinate=("row", "col"), bits=choice.bits or 0
    )
    return chosen(picture, choice)


def _coordinate_columns(found: Sequence[Any]) -> tuple[Items, tuple[Line, ...]]:
    """Coordinates as columns c0, c1, ..., and the label (c0,c1)."""
    parts = [flatten(value) for value in found]
    if not all(isinstance(x, int) for x in parts[0]):
        raise LayoutError(f"the coordinates start at {to_text(found[0])}: give the symbols numbers to draw it")
    names = [f"c{i}" for i in range(max(map(len, parts)))]
    columns: Items = {n: [int(p[i]) if i < len(p) else 0 for p in parts] for i, n in enumerate(names)}
    return columns, (tuple((",", n) if i else ("", n) for i, n in enumerate(names)),)


def grid_shape(layout: Layout) -> tuple[int, int]:
    """(rows, columns) of a layout of two modes, or of one, which goes right."""
    sizes = [product(mode) for mode in modes(layout.shape)]
    if not all(isinstance(n, int) for n in sizes):
        raise LayoutError(f"{layout} has symbols: give them numbers to draw it")
    rows, cols = (1, sizes[0]) if len(sizes) == 1 else (sizes[0], product(tuple(sizes[1:])))
    return int(rows), int(cols)  # type: ignore[arg-type]


def as_grid(layout: Layout) -> Layout:
    """The layout with two modes, rows and columns, as people think of its coordinates.

    >>> as_grid(Layout((4, (2, 3), 5))).shape, as_grid(Layout(((128, 16), 1, (4, 2)))).shape, as_grid(Layout(8)).shape
    ((4, (2, 3, 5)), (128, (16, 4, 2)), (1, 8))

    Mode 0 is the rows and the others the columns. An MMA operand's ((M,K),rest M,rest K,...) has M and K apart; modes
    of extent 1 are nothing.
    """
    parts = list(layout)
    if len(parts) >= 3 and parts[0].rank() == 2:
        first = list(parts[0])
        rows, cols = [first[0], parts[1]], [first[1], *parts[2:]]
    else:
        parts = [part for part in parts if part.size() != 1] or parts[:1]
        if len(parts) == 1 and parts[0].rank() > 1:
            parts = list(parts[0])
        rows, cols = (parts[:1], parts[1:]) if len(parts) > 1 else ([], parts)
    (shape_r, stride_r), (shape_c, stride_c) = _joined(rows), _joined(cols)
    return Layout((shape_r, shape_c), (stride_r, stride_c))


def _joined(parts: Sequence[Layout]) -> tuple[Any, Any]:
    """The leaves of several modes as one mode, those of extent 1 left out."""
    leaves = [leaf for part in parts for leaf in part.leaves() if leaf[0] != 1]
    if len(leaves) <= 1:
        return leaves[0] if leaves else (1, 0)
    return tuple(e for e, _ in leaves), tuple(d for _, d in leaves)


def ownership_items(owner: Layout, tile: Sequence[int], names: Sequence[str] = ("m", "k")) -> Items:
    """(thread, value, coordinates) of a (T, V) -> tile coordinate layout, threads slowest.

    >>> ownership_items(Layout((2, 2), (2, 1)), (2, 2))
    {'thread': [0, 0, 1, 1], 'value': [0, 1, 0, 1], 'm': [0, 1, 0, 1], 'k': [0, 0, 1, 1]}

    The layout's values are colexicographic indices into the tile, as CuTe prints them, or coordinates of it.
    """
    if owner.rank() != 2:
        raise LayoutError(f"{owner} has {owner.rank()} modes: an ownership map has two, thread and value")
    threads, values = grid_shape(owner)
    found = locations(owner)
    order = [t + threads * v for t in range(threads) for v in range(values)]
    items: Items = {
        "thread": [t for t in range(threads) for _ in range(values)],
        "value": list(range(values)) * threads,
    }
    if found and isinstance(found[0], tuple):
        coords = [flatten(found[i]) for i in order]
        return {**items, **{n: [int(c[i]) if i < len(c) else 0 for c in coords] for i, n in enumerate(names)}}
    step, out = 1, dict(items)
    for n, (name, extent) in enumerate(zip(names, tile, strict=False)):
        last = n == len(tile) - 1
        out[name] = [found[i] // step if last else found[i] // step % extent for i in order]
        step *= extent
    return out


def ownership_picture(
    owner: Layout, tile: Sequence[int], choice: Choice = WHOLE, names: Sequence[str] = ("m", "k")
) -> Picture:
    """Who owns what: the tile as a grid, each cell its thread and value.

    >>> picture = ownership_picture(Layout((2, 2), (2, 1)), (2, 2))
    >>> picture.panels[0].text(picture.items, 1)
    ['T1', 'V0']
    """
    items = with_warps(ownership_items(owner, tile, names))
    inner = int(product(modes(modes(owner.shape)[1])[0]))  # type: ignore[arg-type]
    items["instruction"] = [v // inner for v in items["value"]]
    items = kept(items, choice, names[0], names[1])
    panel = tile_panel(items, names[0], names[1], OWNER, f"{tile[0]} x {tile[1]} tile, each cell its thread and value")
    title = choice.title or f"{owner} over {to_text(tuple(tile))}"
    colour = choice.colour or by_owner(items)
    return chosen(Picture(title, items, [panel], colour, shared(panel), coordinate=tuple(names)), choice)


def by_owner(items: Items) -> str:
    """Colour by warp where there are several, by thread in one."""
    return "warp" if len(set(items["warp"]) - {NOTHING}) > 1 else "thread"


def shared(panel: Panel, what: str = "elements have several owners") -> tuple[str, ...]:
    """A note on cells that several items share."""
    if not panel.more:
        return ()
    most = max(len(extra) for extra in panel.more.values()) + 1
    return (f"{len(panel.more)} {what}, up to {most}; the first is shown",)


def chosen(picture: Picture, choice: Choice) -> Picture:
    """The picture with the panels chosen, and a colour that exists."""
    column(picture.items, picture.colour)
    if not choice.panels:
        return picture
    panels = [picture.panel(name) for name in choice.panels]
    arrows = tuple(a for a in picture.arrows if {a.from_panel, a.to_panel} <= set(choice.panels))
    return replace(picture, panels=panels, arrows=arrows)
