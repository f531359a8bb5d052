"""Copies and MMAs as pictures: ldmatrix, operands and accumulators, tiled copies, tiled MMAs.

Each is drawn from the layouts that its own record holds; nothing about an instruction is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from layoutlab.draw.items import WHOLE, Choice, by_owner, chosen, kept, with_warps
from layoutlab.draw.layouts import ownership_items
from layoutlab.draw.panels import OWNER, shared, tile_panel
from layoutlab.draw.picture import Band, Items, Panel, Picture
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, modes, product
from layoutlab.layout import Layout
from layoutlab.text.records import tiler_text

PER_ROW = 32  # elements of a copy atom


def matrix_copy_picture(copy: Any, choice: Choice = WHOLE) -> Picture:
    """An ldmatrix or stmatrix: which thread gives each row's address, and who has each element in a register."""
    rows, cols = copy.rows, copy.registers
    size = int(cols.size())
    threads, values = int(product(modes(cols.shape)[0])), int(product(modes(cols.shape)[1]))
    per = size // copy.count
    wide = copy.rows[1].size()
    tall = per // wide
    address = {int(rows(t, e)): t for t in reversed(range(rows[0].size())) for e in range(wide)}
    at = [(t, v, int(cols(t, v))) for t in range(threads) for v in range(values)]
    items: Items = {
        "thread": [t for t, _, _ in at],
        "value": [v for _, v, _ in at],
        "row": [e % per // wide for _, _, e in at],
        "col": [e // per * wide + e % wide for _, _, e in at],
        "matrix": [e // per for _, _, e in at],
        "address": [address.get(e, -1) for _, _, e in at],
    }
    items = kept(with_warps(items), choice, "row", "col")
    bands = ((), tuple(Band(i * wide, wide, f"matrix {i}") for i in range(copy.count)))
    given = tile_panel(
        items,
        "row",
        "col",
        ((("T", "address"),),),
        "the thread that gives the row's address",
        "address",
        (0, wide),
        bands,
    )
    held = tile_panel(
        items, "row", "col", OWNER, "registers: each element its thread and value", "tile", (tall, wide), bands
    )
    picture = Picture(
        choice.title or str(copy),
        items,
        [given, held],
        choice.colour or "matrix",
        coordinate=("row", "col"),
        bits=copy.bits,
    )
    return chosen(picture, choice)


def mma_picture(atom: Any, choice: Choice = WHOLE) -> Picture:
    """An MMA's operands A (M,K) and B (N,K), and its accumulators C (M,N): each element its thread and value."""
    m, n, k = _mnk(atom)
    operands = (("A", atom.a, (m, k), "mk"), ("B", atom.b, (n, k), "nk"), ("C", atom.c, (m, n), "mn"))
    found = {letter: ownership_items(layout, tile, axes) for letter, layout, tile, axes in operands}
    return _operands_picture(found, choice, _first_line(atom))


def tiled_mma_picture(mma: Any, choice: Choice = WHOLE) -> Picture:
    """A tiled MMA's operands and accumulators over its tile: the atom, repeated over threads and values."""
    from layoutlab.tv.mma import as_tiled_mma

    made = as_tiled_mma(mma)
    tile = dict(zip("mnk", (made.get_tile_size(i) for i in range(3)), strict=True))
    found = {
        letter: ownership_items(made.tv_layout(letter), [tile[a] for a in axes], axes)  # type: ignore[arg-type]
        for letter, axes in {"A": "mk", "B": "nk", "C": "mn"}.items()
    }
    return _operands_picture(found, choice, f"Tiled MMA: {mma.thr} of {'x'.join(map(str, _mnk(mma.atom)))}")


def _mnk(atom: Any) -> tuple[int, int, int]:
    m, n, k = atom.shape if hasattr(atom, "shape") else flatten(atom.shape_mnk)
    return int(m), int(n), int(k)


def _operands_picture(found: dict[str, Items], choice: Choice, title: str) -> Picture:
    """A panel for each operand, over one table of items; a coordinate that an operand does not have is -1."""
    letters = {letter: [a for a in items if a not in ("thread", "value")] for letter, items in found.items()}
    tables = []
    for number, table in enumerate(found.values()):
        size = len(table["thread"])
        tables.append({**{a: [-1] * size for a in "mnk"}, "operand": [number] * size, **table})
    names = ("thread", "value", "m", "n", "k", "operand")
    items = kept(with_warps({c: [x for table in tables for x in table[c]] for c in names}), choice)
    panels = []
    for number, (letter, axes) in enumerate(letters.items()):
        here = [o == number for o in items["operand"]]
        if any(here):
            shown: Items = {c: [x if keep else 0 for x, keep in zip(v, here, strict=True)] for c, v in items.items()}
            tall, wide = (max(shown[a]) + 1 for a in axes)
            title_ = f"{letter}: {tall} x {wide} ({axes[0]}, {axes[1]})"
            panels.append(tile_panel(shown, axes[0], axes[1], OWNER, title_, letter.lower(), present=here))
    picture = Picture(
        choice.title or title,
        items,
        panels,
        choice.colour or by_owner(items),
        tuple(f"{p.title[0]}: {note}" for p in panels for note in shared(p)),
        coordinate=("m", "n", "k"),
        words={"operand": ""},
    )
    return chosen(picture, choice)


def tiled_copy_picture(copy: Any, choice: Choice = WHOLE) -> Picture:
    """A tiled copy: which thread reads and which writes each element of the tensor that its tiler reaches.

    A tiler of two modes gives rows and columns. One of a single mode, such as a nested accumulator's, is drawn with as
    many rows as there are threads, unless the choice says the tile.
    """
    from layoutlab.tv.recognise import as_tiled_copy

    made = as_tiled_copy(copy)
    sides = {"source": made.layout_src_tv_tiled, "destination": made.layout_dst_tv_tiled}
    tables = {side: _tensor_items(layout, copy.tiler, choice.tile) for side, layout in sides.items()}
    if tables["source"] == tables["destination"]:
        tables = {"tile": tables["source"]}
    items, panels = _side_by_side(tables, choice)
    notes = tuple(f"{p.title.split(':')[0]}: {note}" for p in panels for note in shared(p))
    title = choice.title or f"{_first_line(copy)}: {copy.tv} over {tiler_text(copy.tiler)}"
    picture = Picture(title, items, panels, choice.colour or by_owner(items), notes, coordinate=("m", "n"))
    return chosen(replace(picture, words={"side": ""}), choice)


def copy_atom_picture(atom: Any, choice: Choice = WHOLE) -> Picture:
    """A copy instruction: its elements in its own order, 32 to a row, with the threads that read and write each."""
    tables = {}
    for side, layout in (("source", atom.src), ("destination", atom.dst)):
        found = ownership_items(layout, (1 << 62,), ("index",))
        tables[side] = {
            **found,
            "m": [i // PER_ROW for i in found["index"]],
            "n": [i % PER_ROW for i in found["index"]],
        }
    items, panels = _side_by_side(tables, choice)
    notes = tuple(f"{p.title.split(':')[0]}: {note}" for p in panels for note in shared(p))
    title = choice.title or " ".join(str(atom).split())
    picture = Picture(title, items, panels, choice.colour or by_owner(items), notes, coordinate=("m", "n"))
    return chosen(replace(picture, words={"side": "", "m": "row", "n": "element of the row"}), choice)


def _side_by_side(tables: dict[str, Items], choice: Choice) -> tuple[Items, list[Panel]]:
    """One table with a column that says the side, and a panel for each side."""
    columns = ("thread", "value", "m", "n")
    joined: Items = {c: [x for table in tables.values() for x in table[c]] for c in columns}
    joined["side"] = [i for i, table in enumerate(tables.values()) for _ in table["m"]]
    items = kept(with_warps(joined), choice, "m", "n")
    panels = []
    for number, side in enumerate(tables):
        here = [s == number for s in items["side"]]
        if any(here):
            title = f"{side}: each element its thread and value"
            panels.append(tile_panel(items, "m", "n", OWNER, title, side, present=here))
    return items, panels


def _tensor_items(tv: Layout, tiler: Any, tile: tuple[int, ...] | None) -> Items:
    """(thread, value, m, n) of a copy's (T, V) -> index into the tiler's domain, taken to the tensor by the tiler."""
    found = ownership_items(tv, (1 << 62,), ("index",))
    modes_ = [mode for mode in _tiler_modes(tiler) if _tiler_size(mode) != 1]
    sizes = [_tiler_size(mode) for mode in modes_]
    coordinates, rest = [], list(found["index"])
    for mode, size in zip(modes_, sizes, strict=True):
        part = [i % size for i in rest]
        coordinates.append([int(mode(i)) for i in part] if isinstance(mode, Layout) else part)
        rest = [i // size for i in rest]
    if len(coordinates) != 2:
        flat = coordinates[0] if len(coordinates) == 1 else found["index"]
        rows = tile[0] if tile else _rows(max(found["thread"]) + 1, int(product(tuple(sizes))))
        coordinates = [[i % rows for i in flat], [i // rows for i in flat]]
    return {"thread": found["thread"], "value": found["value"], "m": coordinates[0], "n": coordinates[1]}


def _rows(threads: int, total: int) -> int:
    return threads if total % threads == 0 and threads > 1 else 1


def _first_line(record: Any) -> str:
    return str(record).splitlines()[0]


def _tiler_modes(tiler: Any) -> Sequence[Any]:
    return tiler if isinstance(tiler, tuple) else (tiler,)


def _tiler_size(mode: Any) -> int:
    if mode is None:
        raise LayoutError("a tiler with a mode left open, _, has no tile of its own: say which, --tile 128x32")
    if isinstance(mode, Layout):
        return int(mode.size())
    return int(product(mode))
