"""Instructions and copies as pictures: Tensor Memory accesses, ldmatrix, MMA operands, tiled copies.

Each is drawn from the layouts that its own record holds; nothing about an instruction is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product as product_of
from typing import Any

from layoutlab.draw.picture import Band, Items, Line, Picture
from layoutlab.draw.views import (
    OWNER,
    TMEM_COLUMN_BITS,
    WHOLE,
    Choice,
    as_grid,
    by_owner,
    chosen,
    grid_shape,
    kept,
    locations,
    memory_panel,
    ownership_items,
    ownership_picture,
    shared,
    tile_panel,
    tmem_panel,
    with_places,
    with_warps,
)  # fmt: skip
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, modes, product
from layoutlab.layout import Layout

LANE_STEP = 1 << 16  # columns from one lane's address to the next one's
_SHORT = {"cta": "cta", "lane": "L", "column": "C", "byte": "", "location": ""}
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


def matrix_copy_picture(copy: Any, choice: Choice = WHOLE) -> Picture:
    """An ldmatrix or stmatrix: which thread gives each row's address, and who has each element in a register."""
    rows, cols = copy.rows, copy.registers
    size = int(cols.size())
    threads, values = int(product(modes(cols.shape)[0])), int(product(modes(cols.shape)[1]))  # type: ignore[arg-type]
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
    """A tiled MMA's operands and accumulators over its tile: the atom, repeated over threads and values.

    A thread's values count the atom's first, then the repetitions along the tile's first mode, then along the second.
    """
    found = {letter: _tiled_operand(mma, letter) for letter in "ABC"}
    return _operands_picture(found, choice, f"Tiled MMA: {mma.thr} of {'x'.join(map(str, _mnk(mma.atom)))}")


def _tiled_operand(mma: Any, letter: str) -> Items:
    """(thread, value, two coordinates) of one operand of a tiled MMA."""
    first, second = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[letter]
    names = "mnk"
    atom_shape = _mnk(mma.atom)
    repeats = [int(mma.thr[1 + i].size()) for i in range(3)]
    permutation = _tiler_modes(mma.permutation) if mma.permutation is not None else (None,) * 3
    tiles = [s * r if p is None else _tiler_size(p) for s, r, p in zip(atom_shape, repeats, permutation, strict=True)]
    rest = [max(t // (s * r), 1) for t, s, r in zip(tiles, atom_shape, repeats, strict=True)]
    layout = getattr(mma.atom, letter.lower())
    threads, values = int(layout[0].size()), int(layout[1].size())
    other = 3 - first - second
    out: dict[str, list[int]] = {"thread": [], "value": [], names[first]: [], names[second]: []}
    own = {(v, w): int(layout(v, w)) for v in range(threads) for w in range(values)}
    for i, j, other_index in product_of(*(range(repeats[i]) for i in (first, second, other))):
        where = [0, 0, 0]
        where[first], where[second], where[other] = i, j, other_index
        for (v, w), at in own.items():
            thread = int(mma.thr(v, *where))
            for r, s in product_of(range(rest[first]), range(rest[second])):
                x = at % atom_shape[first] + atom_shape[first] * (i + repeats[first] * r)
                y = at // atom_shape[first] + atom_shape[second] * (j + repeats[second] * s)
                out["thread"].append(thread)
                out["value"].append(w + values * (r + rest[first] * s))
                out[names[first]].append(_permuted(permutation[first], x))
                out[names[second]].append(_permuted(permutation[second], y))
    return dict(out)


def _permuted(mode: Any, index: int) -> int:
    return int(mode(index)) if isinstance(mode, Layout) else index


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
        coordinate=("operand", "m", "n", "k"),
    )
    return chosen(picture, choice)


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


def tiled_copy_picture(copy: Any, choice: Choice = WHOLE) -> Picture:
    """A tiled copy: who has which element of the tile that its tiler cuts out of a tensor.

    A tiler of two modes is the tile. One of a single mode, such as a nested accumulator's, is drawn with as many rows
    as there are threads, unless the choice says the tile.
    """
    sizes = [n for n in (_tiler_size(mode) for mode in _tiler_modes(copy.tiler)) if n != 1]
    tile = choice.tile
    if tile is None:
        threads = int(copy.tv[0].size())
        total = int(product(tuple(sizes)))  # type: ignore[arg-type]
        tile = tuple(sizes) if len(sizes) == 2 else (threads, total // threads) if total % threads == 0 else (1, total)
    title = choice.title or f"{_first_line(copy)}: {copy.tv} over {copy.tiler}"
    return ownership_picture(copy.tv, tile, replace(choice, title=title))


def map_picture(table: Any, choice: Choice = WHOLE) -> Picture:
    """A table of digits over one or two axes: its indices, and the memory where it gives bytes, bits or lanes."""
    items, (row, col), bits = _indexed(table, choice)
    items = kept(items, choice, row, col)
    out = [o for o in table.rows if o in items and not (o == "bit" and {"byte", "column"} & items.keys())]
    out += ["column"] if "column" in items and "column" not in out else []
    out = [o for o in out if o != "cta" or len(set(items["cta"])) > 1]
    lines: tuple[Line, ...] = tuple(((_SHORT.get(o, o[0].upper()), o),) for o in out[:3])
    panels = [tile_panel(items, row, col, lines, f"{row} x {col}, each cell its {', '.join(out)}")]
    where: tuple[Line, ...] = tuple(((a[0], a),) for a in (row, col) if a in table.extents)
    if "lane" in items:
        panels += _tmem_panels(items, bits, where)
    elif "byte" in items:
        panels.append(memory_panel(items, bits, where, "memory: rows of 128 bytes under 32 banks"))
    colour = choice.colour or ("chunk" if "chunk" in items else f"{row} // 16" if "lane" in items else out[0])
    picture = Picture(choice.title or str(table), items, panels, colour, coordinate=tuple(table.extents), bits=bits)
    return chosen(picture, choice)


def _indexed(table: Any, choice: Choice) -> tuple[Items, tuple[str, str], int]:
    """Every index of a table with its outputs; the row and column axes; the bits of an element in memory."""
    import numpy as np

    axes = list(table.extents)
    if len(axes) not in (1, 2):
        raise LayoutError(f"this map takes {', '.join(axes)}: a grid has one or two axes")
    grids = np.meshgrid(*(np.arange(table.extents[a]) for a in axes), indexing="ij")
    index = {a: g.ravel() for a, g in zip(axes, grids, strict=True)}
    outputs = {o: np.broadcast_to(x, grids[0].size) for o, x in table(**index).items()}
    items: Items = {name: values.tolist() for name, values in {**index, **outputs}.items()}
    row, col = axes if len(axes) == 2 else ("row", axes[0])
    items.setdefault(row, [0] * len(items[col]))
    bits = choice.bits or 8
    if "lane" in items:
        if "bit" in items:
            items["column"] = [b // TMEM_COLUMN_BITS for b in items["bit"]]
            bits = choice.bits or min(b for b in items["bit"] if b)
        else:
            items["bit"] = [c * TMEM_COLUMN_BITS for c in items["column"]]
            bits = TMEM_COLUMN_BITS
    elif "bit" in items:
        items["byte"] = [b // 8 for b in items["bit"]]
    return (with_places(items) if "byte" in items else items), (row, col), bits


def _tmem_panels(items: Items, bits: int, where: tuple[Line, ...]) -> list[Any]:
    """The Tensor Memory of each CTA."""
    ctas = sorted(set(items.get("cta", [0])))
    panels = []
    for cta in ctas:
        mine = [c == cta for c in items.get("cta", [0] * len(items["lane"]))]
        there = {**items, "lane": [x if here else -1 for x, here in zip(items["lane"], mine, strict=True)]}
        name = f" of CTA {cta}" if len(ctas) > 1 else ""
        panel = tmem_panel(there, bits, where, f"Tensor Memory{name}: lanes and columns")
        panels.append(replace(panel, name=f"memory{cta}") if len(ctas) > 1 else panel)
    return panels


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
        col_axis=replace(panel.col_axis, name="column", labels=(), every=128 // unit),
    )  # fmt: skip
    over = [f"{b.name} lies over {', '.join(b.over)}, which has been read by then" for b in named if b.over]
    picture = Picture(choice.title or "Tensor Memory", dict(items), [panel], choice.colour or "buffer", tuple(over))
    return chosen(picture, choice)


def _first_line(record: Any) -> str:
    return str(record).splitlines()[0]


def _tiler_modes(tiler: Any) -> Sequence[Any]:
    return tiler if isinstance(tiler, tuple) else (tiler,)


def _tiler_size(mode: Any) -> int:
    if mode is None:
        raise LayoutError("a tiler with a mode left open, _, has no tile of its own: say which, --tile 128x32")
    if isinstance(mode, Layout):
        return int(mode.size())  # type: ignore[arg-type]
    return int(product(mode))  # type: ignore[arg-type]
