"""Copies and MMAs as pictures: ldmatrix, operands and accumulators, tiled copies, tiled MMAs.

Each is drawn from the layouts that its own record holds; nothing about an instruction is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product as product_of
from typing import Any

from layoutlab.draw.items import WHOLE, Choice, by_owner, chosen, kept, with_warps
from layoutlab.draw.layouts import ownership_items, ownership_picture
from layoutlab.draw.panels import OWNER, shared, tile_panel
from layoutlab.draw.picture import Band, Items, Picture
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, modes, product
from layoutlab.layout import Layout


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
        coordinate=("m", "n", "k"),
        words={"operand": ""},
    )
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
