"""A handoff as three linked panels: the tile as its writer holds it, the memory, the tile as its reader takes it.

Every number is evaluated from the handoff's own maps, element by element. The verdict's first counterexample is drawn
as an arrow from where the element was written to where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layoutlab.draw.items import CHUNK_BYTES, WHOLE, Choice, by_owner, chosen, kept, with_places, with_warps
from layoutlab.draw.panels import OWNER, TMEM_COLUMN_BITS, memory_panel, register_panel, shared, tile_panel, tmem_panel
from layoutlab.draw.picture import MOST_CELLS, NOTHING, WRONG, Arrow, Band, Items, Line, Panel, Picture
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff, verify
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.report import cost_line
from layoutlab.handoff.verdict import Claim, Verdict, Witness

WORDS = {
    "byte": "written at byte", "read": "read at byte", "step": "MMA step", "lane": "written in lane",
    "column": "written in column", "read_lane": "read in lane", "read_column": "read in column",
    "bit": "", "read_bit": "", "holder": "kept by thread", "register": "in register",
    "read_holder": "taken from thread", "read_register": "from register",
    "to_thread": "loaded by thread", "to_value": "as its value",
}  # fmt: skip
"""What people call a column; nothing for one that they need not see."""

KNOWN = {*WORDS, "thread", "value", "warp", "instruction", "bank", "chunk", "col", WRONG, "element"}
"""What columns are called that say something else than a coordinate."""

BOXES = {"thread": "box", "value": "element in its box"}
"""What they call it where no threads write, but TMA."""

BOX_OWNER: tuple[Line, ...] = ((("B", "thread"),), (("E", "value"),))

ACCUMULATOR = {"thread": "row of D", "value": "column of D"}
"""What they call it where the tensor core writes its accumulator."""

ACCUMULATOR_OWNER: tuple[Line, ...] = ((("r", "thread"),), (("c", "value"),))

REGISTER_BITS = 32

SECTOR_BYTES = 32
"""What global memory moves at least."""

CORE_ROWS = 8
"""Rows of a core matrix; each is 16 bytes."""

STEP_BITS = 256
"""Bits of K that one step of an MMA takes from each row."""


def handoff_picture(what: Handoff | Verdict, choice: Choice = WHOLE) -> Picture:
    """A handoff, or the verdict about one, as linked panels; wrong elements are marked.

    >>> from layoutlab.handoff import *
    >>> P = Tile("P", m=8, k=8, bits=16)
    >>> h = Handoff(P, writer=store("(8,8):(1,8)", smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(1,8)")
    >>> picture = handoff_picture(h)
    >>> [panel.name for panel in picture.panels], picture.arrows[0].text
    (['tile', 'memory', 'reader'], 'T0 V1 (m=0, k=1) writes byte 2; the reader reads that element at byte 16')
    """
    verdict = what if isinstance(what, Verdict) else verify(what)
    made: Handoff = verdict.handoff
    for name, given in (("bits", choice.bits), ("tile", choice.tile)):
        if given is not None:
            raise LayoutError(f"{name} is of a bare layout: {made.name} is a handoff of tile {made.tile}")
    row, col = _axes(made)
    everything = _items(made, row, col)
    items = kept(everything, choice, row, col)
    panels = [_writer_panel(made, items, row, col), _memory_panel(made, items, row, col, choice)]
    panels.append(_reader_panel(made, items, row, col))
    title = choice.title or f"{short(made)}: {verdict.verdict}"
    picture = Picture(
        title, items, panels, choice.colour or by_owner(items),
        (*_notes(verdict), *shared(panels[1], "places receive several elements")),
        _arrows(items, panels, verdict["placed"], _columns(made)), tuple(_columns(made).values()), made.tile.bits,
        _words(made),
    )  # fmt: skip
    return chosen(picture, choice)


def short(made: Handoff) -> str:
    """The handoff's name and the settings that are not the defaults."""
    usual = {entry.name: entry.default for entry in made.settings.entries} if made.settings else {}
    return made.name + "".join(f" {k}={v}" for k, v in made.params.items() if k not in usual or usual[k] != v)


def _axes(made: Handoff) -> tuple[str, str]:
    """The columns that are the rows and the columns of the tile's panels."""
    names = list(_columns(made).values())
    return (names[0], names[1]) if len(names) == 2 else ("0", names[0]) if len(names) == 1 else (names[0], "col")


def _words(made: Handoff) -> dict[str, str]:
    """What people call a column of this handoff."""
    axes = {name: axis for axis, name in _columns(made).items() if name != axis}
    return WORDS | axes | ({} if made.writer.owner.threaded else _kind(made)[0])


def _columns(made: Handoff) -> dict[str, str]:
    """The column of each of the tile's coordinates: its name, with a stroke where a column is called so already.

    A tile may well have coordinates called lane or column.
    """
    return {axis: f"{axis}_" if axis in KNOWN else axis for axis in made.tile.extents}


def _items(made: Handoff, row: str, col: str) -> Items:
    """Every (thread, value) of the writer, then what is read and was never written, with thread -1."""
    import numpy as np

    if made.writer.space != made.reader.space:
        raise LayoutError(f"{made}: written in {made.writer.space}, read in {made.reader.space}: no panel shows both")

    owner, extents = made.writer.owner, made.tile.extents
    threads, values = owner.places.axes["t"], owner.places.axes["v"]
    _refuse_more(threads * values, made)
    t, v = (a.ravel() for a in np.meshgrid(np.arange(threads), np.arange(values), indexing="ij"))
    where = {a: np.broadcast_to(x, t.shape) for a, x in owner.places.at(t=t, v=v).items()}
    inside = np.logical_and.reduce([(where[a] >= 0) & (where[a] < e) for a, e in extents.items()])
    t, v, where = t[inside], v[inside], {a: x[inside] for a, x in where.items()}
    flat = _flat(where, extents)
    lost = np.setdiff1d(np.arange(made.tile.size), flat)
    wrote = {o: np.broadcast_to(x, t.shape) for o, x in made.writer.write.at(t=t, v=v).items()}
    nobody = np.full(len(lost), NOTHING)
    coordinates = {a: np.concatenate([where[a], x]) for a, x in _unflat(lost, extents).items()}
    reads = {
        o: np.broadcast_to(x, coordinates[next(iter(extents))].shape)
        for o, x in made.reader.read.at(**coordinates).items()
    }
    written = {o: np.concatenate([x, nobody]) for o, x in wrote.items()}
    same = np.logical_and.reduce([written[o] == reads.get(o, -2) for o in written])
    bits = made.tile.bits
    columns: dict[str, Any] = {
        "thread": np.concatenate([t + owner.first_thread, nobody]),
        "value": np.concatenate([v, nobody]),
        **{name: coordinates[axis] for axis, name in _columns(made).items()},
    }
    if owner.threaded:
        each = max(made.writer.bits // bits, 1)
        columns["instruction"] = np.where(columns["value"] < 0, NOTHING, columns["value"] // each)
    if len(extents) == 1:
        columns["0"] = 0 * columns[col]
    if len(extents) > 2:
        columns["col"] = _flat(
            {a: coordinates[a] for a in list(extents)[1:]}, {a: extents[a] for a in list(extents)[1:]}
        )
    columns |= _place_columns(written, reads, bits)
    if "operand" in made.reader.source and len(extents) == 2:
        columns["step"] = columns[col] // (STEP_BITS // bits)
    columns |= _loaded_columns(made, coordinates)
    columns[WRONG] = (~same).astype(int)
    items: Items = {name: values.tolist() for name, values in columns.items()}
    items = with_warps(items) if made.writer.owner.threaded else items
    return with_places(items, made.writer.space) if "byte" in items else items


def _place_columns(written: dict[str, Any], reads: dict[str, Any], bits: int) -> dict[str, Any]:
    """Where each item is written and read, as people count it."""
    out: dict[str, Any] = {}
    if "lane" in written:
        for before, places in (("", written), ("read_", reads)):
            out |= {f"{before}lane": places["lane"], f"{before}column": places["bit"] // TMEM_COLUMN_BITS}
            out[f"{before}bit"] = places["bit"]
        return out
    if "thread" in written:
        for before, places in (("", written), ("read_", reads)):
            out |= {f"{before}holder": places["thread"], f"{before}register": places["bit"] // REGISTER_BITS}
            out[f"{before}bit"] = places["bit"]
        return out
    out |= {"byte": written["bit"] // 8, "read": reads["bit"] // 8}
    return out | ({"bit": written["bit"], "read_bit": reads["bit"]} if bits % 8 else {})


def _loaded_columns(made: Handoff, coordinates: dict[str, Any]) -> dict[str, Any]:
    """Whose register each item is in after a load."""
    import numpy as np

    owner = made.reader.owner
    if owner is None or made.reader.space == "rmem":
        return {}
    found = inverse(owner.places).at(**coordinates)
    like = next(iter(coordinates.values()))
    thread, value = (np.broadcast_to(found[axis], like.shape) for axis in ("t", "v"))
    return {"to_thread": thread + owner.first_thread, "to_value": value}


def _flat(where: dict[str, Any], extents: Any) -> Any:
    total, weight = 0, 1
    for axis, extent in extents.items():
        total, weight = total + where[axis] * weight, weight * extent
    return total


def _unflat(flat: Any, extents: Any) -> dict[str, Any]:
    out = {}
    for axis, extent in extents.items():
        out[axis], flat = flat % extent, flat // extent
    return out


def _refuse_more(count: int, made: Handoff) -> None:
    if count > MOST_CELLS:
        raise LayoutError(f"{made} has {count} elements, more than the {MOST_CELLS} that can be drawn")


# -- panels ------------------------------------------------------------------------------------------------------------


def _writer_panel(made: Handoff, items: Items, row: str, col: str) -> Panel:
    title = f"written: tile {made.tile.name}, {_how(made)}"
    return tile_panel(items, row, col, _owner(made), title, present=[t >= 0 for t in items["thread"]])


def _how(made: Handoff) -> str:
    if not made.writer.owner.threaded:
        cell = "box and element" if made.writer.unit == "TMA" else "row and column of D"
        return f"by {made.writer.unit}, each cell its {cell}"
    stores = "kept in registers" if made.writer.space == "rmem" else f"{made.writer.bits}-bit stores"
    return f"each cell its thread and value ({stores})"


def _kind(made: Handoff) -> tuple[dict[str, str], tuple[Line, ...]]:
    """What (thread, value) are where no threads write, and how a cell says so."""
    return (BOXES, BOX_OWNER) if made.writer.unit == "TMA" else (ACCUMULATOR, ACCUMULATOR_OWNER)


def _owner(made: Handoff) -> tuple[Line, ...]:
    return OWNER if made.writer.owner.threaded else _kind(made)[1]


def _memory_panel(made: Handoff, items: Items, row: str, col: str, choice: Choice) -> Panel:
    lines: tuple[Line, ...] = tuple(((name[0], name),) for name in (row, col) if name != "0")
    if choice.labels == "owner":
        lines = _owner(made)
    wrong = items[WRONG]
    cell = "owner" if choice.labels == "owner" else f"({row}, {col})" if len(lines) > 1 else col
    if "lane" in items:
        read = zip(items["read_lane"], items["read_bit"], wrong, strict=True)
        title = f"Tensor Memory: lanes and columns, each cell its {cell}"
        return tmem_panel(items, made.tile.bits, lines, title, [(lane, bit) for lane, bit, w in read if w])
    if "holder" in items:
        read = zip(items["read_holder"], items["read_bit"], wrong, strict=True)
        title = f"registers: a row for each thread, under its registers of 32 bits, each cell its {cell}"
        return register_panel(items, made.tile.bits, lines, title, [(t, bit) for t, bit, w in read if w])
    also = [b for b, w in zip(items["read"], wrong, strict=True) if w]
    if made.writer.space == "gmem":
        title = f"global memory: rows of 128 bytes in 4 sectors, each cell its {cell}"
        return memory_panel(items, made.tile.bits, lines, title, also=also, heading=("sector", SECTOR_BYTES))
    title = f"memory: rows of 128 bytes under 32 banks, each cell its {cell}"
    return memory_panel(items, made.tile.bits, lines, title, count_banks=choice.count_banks, also=also)


def _reader_panel(made: Handoff, items: Items, row: str, col: str) -> Panel:
    bits = made.tile.bits
    steps = STEP_BITS // bits
    mma, tensor = "step" in items, "byte" not in items
    last = (max(items[col]) + steps) // steps
    bands = tuple(Band(i * steps, steps, f"step {i}") for i in range(last)) if mma else ()
    core = (CORE_ROWS, max(CHUNK_BYTES * 8 // bits, 1))
    core = core[::-1] if "MN-major" in made.reader.source else core
    every = core if mma and not tensor else (0, steps if mma else 0)
    heavy = "; heavy lines: core matrices" if mma and not tensor else ""
    place, lines = _read_places(items)
    title = f"read by {made.reader.who}: each cell the {place} it is taken from{heavy}"
    return tile_panel(items, row, col, lines, title, "reader", every, ((), bands))


def _read_places(items: Items) -> tuple[str, tuple[Line, ...]]:
    """What a cell of the reader's panel says, in words and as its lines."""
    if "lane" in items:
        return "lane and column", ((("L", "read_lane"),), (("C", "read_column"),))
    if "holder" in items:
        return "thread and register", ((("T", "read_holder"),), (("R", "read_register"),))
    return "byte", ((("", "read"),),)


# -- what is said of it ------------------------------------------------------------------------------------------------


def _notes(verdict: Verdict) -> tuple[str, ...]:
    made: Handoff = verdict.handoff
    bad = [c for c in verdict.claims if c.verdict != "proved"]
    said = [f"{c.name} {c.verdict}: {c.witness.message if c.witness else c.why}" for c in bad]
    proved = ", ".join(c.name for c in verdict.claims if c.verdict == "proved")
    return (
        f"owner {made.writer.owner}, {made.writer.spoken()}",
        f"{made.writer.storage.name} = {made.writer.storage.spoken()}; {cost_line(made.writer)}",
        f"reader: {made.reader.text}",
        *([f"proved: {proved}"] if proved else []),
        *said,
        *(verdict.explanation if bad else ()),
    )


def _arrows(items: Items, panels: Sequence[Panel], placed: Claim, names: dict[str, str]) -> tuple[Arrow, ...]:
    """The first counterexample, in memory, and to it from the tile and from it to the reader's view."""
    at = placed.witness
    if placed.verdict != "refuted" or at is None:
        return ()
    found = _item_of(items, at, names)
    if found is None:
        return ()
    tile, memory, reader = panels
    item = found
    if "byte" not in items:
        row = "lane" if "lane" in items else "holder"
        wrote, reads = (cell_in_row(memory, items[f"{b}{row}"][item], items[f"{b}bit"][item]) for b in ("", "read_"))
    else:
        starts = [items.get(f"{b}bit", [x * 8 for x in items[c]])[item] for b, c in (("", "byte"), ("read_", "read"))]
        wrote, reads = (memory_cell(memory, bit) for bit in starts)
    if wrote is None or reads is None:
        return ()
    out = [Arrow("memory", wrote, "memory", reads, at.message)]
    for panel, other, back in ((tile, wrote, False), (reader, reads, True)):
        cell = cell_of(panel, item)
        if cell is not None:
            ends = ("memory", other, panel.name, cell) if back else (panel.name, cell, "memory", other)
            out.append(Arrow(*ends, "", thin=True))
    return tuple(out)


def _item_of(items: Items, at: Witness, names: dict[str, str]) -> int | None:
    """The item that a counterexample is about: its thread's value, or of a unit without threads the element."""
    if at.thread is not None:
        pairs = zip(items["thread"], items["value"], strict=True)
        return next((i for i, pair in enumerate(pairs) if pair == (at.thread, at.value)), None)
    columns = [[x == wanted for x in items[names[axis]]] for axis, wanted in (at.coordinate or {}).items()]
    here = zip(*columns, items[WRONG], [t >= 0 for t in items["thread"]], strict=True)
    return next((i for i, row in enumerate(here) if all(row)), None)


def cell_of(panel: Panel, item: int) -> int | None:
    """The cell that shows the item."""
    if item in panel.cells:
        return panel.cells.index(item)
    return next((cell for cell, extra in panel.more.items() if item in extra), None)


def memory_cell(panel: Panel, bit: int) -> int | None:
    """The cell of a memory panel that holds a bit."""
    row, inside = divmod(bit, 1024)
    label = str(row * 128)
    if label not in panel.row_axis.labels:
        return None
    return list(panel.row_axis.labels).index(label) * panel.cols + inside * panel.cols // 1024


def cell_in_row(panel: Panel, row: int, bit: int) -> int | None:
    """The cell that holds a bit of a lane of Tensor Memory, or of a thread's registers."""
    first, labels = panel.col_axis.bands[0], list(panel.row_axis.labels)
    if str(row) not in labels:
        return None
    slot = (bit - int(first.text) * TMEM_COLUMN_BITS) * first.count // TMEM_COLUMN_BITS
    return labels.index(str(row)) * panel.cols + slot
