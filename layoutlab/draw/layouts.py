"""Layouts as grids: coordinates with their locations, and tiles with their owners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from layoutlab.draw.items import WHOLE, Choice, by_owner, chosen, kept, with_places, with_warps
from layoutlab.draw.panels import OWNER, memory_panel, shared, tile_panel
from layoutlab.draw.picture import MOST_CELLS, Items, Line, Picture
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, modes, product, to_text
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle


def locations(layout: Layout | ComposedLayout) -> list[Any]:
    """What a layout gives for each flat index, in order: numbers, or coordinates where strides are bases.

    >>> locations(Layout((2, 3), (3, 1)))
    [0, 3, 1, 4, 2, 5]
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    if outer.symbolic():
        raise LayoutError(f"{layout} has symbols: give them numbers to draw it")
    if outer.size() > MOST_CELLS:
        raise LayoutError(f"{layout} has {outer.size()} elements, more than the {MOST_CELLS} that can be drawn")
    if outer.coordinate_valued() or (isinstance(layout, ComposedLayout) and not isinstance(layout.offset, int)):
        return [layout(i) for i in range(int(outer.size()))]
    values = [layout.offset if isinstance(layout, ComposedLayout) else 0]
    for extent, stride in outer.leaves():
        values = [base + i * stride for i in range(extent) for base in values]
    if not isinstance(layout, ComposedLayout) or layout.inner is None:
        return values
    if isinstance(layout.inner, Swizzle):
        swizzle = layout.element_swizzle()
        return [swizzle(v) for v in values]
    return [layout.inner.extended(v) for v in values]


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
        items |= {"bit": [v * choice.bits for v in found]} if choice.bits % 8 else {}
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
    return int(rows), int(cols)


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


def refuse_outside(owner: Layout, tile: Sequence[int]) -> None:
    """Refuse a (thread, value) layout that goes beyond the tile which it is said to be of."""
    items = ownership_items(owner, tile)
    for thread, value, m, k in zip(*(items[n] for n in ("thread", "value", "m", "k")), strict=True):
        if not (0 <= m < tile[0] and 0 <= k < tile[1]):
            raise LayoutError(
                f"{owner}: thread {thread} holds as value {value} the coordinate ({m},{k}), outside of a tile of "
                f"{tile[0]}x{tile[1]}: name the tile that it is of"
            )


def owner_picture(owner: Any, choice: Choice = WHOLE) -> Picture:
    """A handoff's owner: the tile that it is over, its threads counted from the block's first one on."""
    if len(owner.tile.extents) != 2:
        raise LayoutError(f"tile {owner.tile} has {len(owner.tile.extents)} coordinates: a grid has two")
    # A coordinate may be called like a column of the table.
    names = [f"{axis}_" if axis in ("thread", "value", "warp", "instruction") else axis for axis in owner.tile.extents]
    return ownership_picture(owner.layout, owner.tile.shape, choice, names, owner.first_thread)


def ownership_picture(
    owner: Layout,
    tile: Sequence[int],
    choice: Choice = WHOLE,
    names: Sequence[str] = ("m", "k"),
    first_thread: int = 0,
) -> Picture:
    """Who owns what: the tile as a grid, each cell its thread and value.

    >>> picture = ownership_picture(Layout((2, 2), (2, 1)), (2, 2))
    >>> picture.panels[0].text(picture.items, 1)
    ['T1', 'V0']
    """
    items = ownership_items(owner, tile, names)
    items = with_warps({**items, "thread": [t + first_thread for t in items["thread"]]})
    inner = int(product(modes(modes(owner.shape)[1])[0]))
    items["instruction"] = [v // inner for v in items["value"]]
    items = kept(items, choice, names[0], names[1])
    panel = tile_panel(items, names[0], names[1], OWNER, f"{tile[0]} x {tile[1]} tile, each cell its thread and value")
    title = choice.title or f"{owner} over {to_text(tuple(tile))}"
    colour = choice.colour or by_owner(items)
    return chosen(Picture(title, items, [panel], colour, shared(panel), coordinate=tuple(names)), choice)
