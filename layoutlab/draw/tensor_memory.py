"""Tensor Memory as pictures: the accesses of a warp, fragments, and whose columns are whose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from layoutlab.draw.items import WHOLE, Choice, chosen, kept, with_warps
from layoutlab.draw.layouts import as_grid, grid_shape, locations
from layoutlab.draw.panels import TMEM_COLUMN_BITS, heavy_lines, tile_panel, tmem_panel
from layoutlab.draw.picture import Items, Line, Picture

LANE_STEP = 1 << 16  # columns from one lane's address to the next one's

REGISTER: tuple[Line, ...] = ((("T", "thread"),), (("R", "value"),))


def tmem_atom_picture(atom: Any, choice: Choice = WHOLE) -> Picture:
    """A tcgen05.ld or st of one warp: lanes and columns of Tensor Memory, each word its thread and register.

    >>> from layoutlab.atoms.tmem import TmemAtom
    >>> picture = tmem_atom_picture(TmemAtom("ld", "16x256b", 1))
    >>> picture.panels[0].text(picture.items, 2)
    ['T1', 'R0']
    """
    table = atom.word_map()
    threads, registers = table.extents["t"], table.extents["r"]
    found = [table(t=t, r=r) for t in range(threads) for r in range(registers)]
    items: Items = {
        "thread": [t for t in range(threads) for _ in range(registers)],
        "value": list(range(registers)) * threads,
        "lane": [w["lane"] for w in found],
        "column": [w["column"] for w in found],
        "bit": [w["column"] * TMEM_COLUMN_BITS for w in found],
    }
    items = kept(with_warps(items), choice, "lane", "column")
    panel = tmem_panel(
        items, TMEM_COLUMN_BITS, REGISTER, "Tensor Memory of one warp: each word its thread and register"
    )
    shown = Picture(
        choice.title or str(atom), items, [panel], choice.colour or "thread", coordinate=("lane", "column"), bits=32,
        words={"value": "register"},
    )  # fmt: skip
    return chosen(shown, choice)


def tmem_layout_picture(layout: Any, bits: int, choice: Choice = WHOLE, title: str = "") -> Picture:
    """A fragment in Tensor Memory: its coordinates, and the lanes and columns where they lie.

    Locations count elements of `bits` bits as CuTe's TMEM pointers do: a lane is 65536 columns of 32 bits further on.
    """
    grid = as_grid(layout)
    found = locations(grid)
    rows, cols = grid_shape(grid)
    lane = LANE_STEP * TMEM_COLUMN_BITS // bits
    items: Items = {
        "row": [i % rows for i in range(rows * cols)],
        "col": [i // rows for i in range(rows * cols)],
        "lane": [v // lane for v in found],
        "column": [v % lane * bits // TMEM_COLUMN_BITS for v in found],
        "bit": [v % lane * bits for v in found],
    }
    items = kept(items, choice, "row", "col")
    cell: tuple[Line, ...] = ((("L", "lane"),), (("C", "column"),))
    where: tuple[Line, ...] = ((("", "row"), (",", "col")),)
    panels = [
        tile_panel(items, "row", "col", cell, f"{rows} x {cols} coordinates, each its lane and column"),
        tmem_panel(items, bits, where, "Tensor Memory: lanes and columns, each cell its (row, col)"),
    ]
    picture = Picture(
        choice.title or title or str(layout), items, panels, choice.colour or "column // 8",
        coordinate=("row", "col"), bits=bits,
    )  # fmt: skip
    return chosen(picture, choice)


def tmem_buffers_picture(buffers: Any, choice: Choice = WHOLE) -> Picture:
    """Which buffers have which columns of Tensor Memory: a row for each buffer, a cell for 16 columns.

    >>> from layoutlab.atoms.tmem_buffers import Buffer, TmemBuffers
    >>> picture = tmem_buffers_picture(TmemBuffers((Buffer("S", 0, 128), Buffer("P", 32, 64, over=("S",)))))
    >>> picture.panels[0].row_axis.labels
    ['S', 'P']
    """
    named = list(buffers.buffers)
    unit = 16
    items: dict[str, list[int]] = {"buffer": [], "cell": [], "column": [], "end": []}
    for number, buffer in enumerate(named):
        for cell in range(buffer.first // unit, -(-buffer.end // unit)):
            items["buffer"].append(number)
            items["cell"].append(cell)
            items["column"].append(max(cell * unit, buffer.first))
            items["end"].append(min((cell + 1) * unit, buffer.end))
    title = f"columns of Tensor Memory, {unit} to a cell: each cell the first column and the one after the last"
    panel = tile_panel({**items}, "buffer", "cell", ((("", "column"),), (("", "end"),)), title, "memory")
    labels = [buffer.name for buffer in named]
    panel = replace(
        panel, row_axis=replace(panel.row_axis, labels=labels),
        col_axis=replace(panel.col_axis, name="column", labels=(), heavy=heavy_lines(128 // unit, panel.cols)),
    )  # fmt: skip
    over = [f"{b.name} lies over {', '.join(b.over)}, which has been read by then" for b in named if b.over]
    picture = Picture(choice.title or "Tensor Memory", dict(items), [panel], choice.colour or "buffer", tuple(over))
    return chosen(picture, choice)
