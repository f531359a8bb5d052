"""Panels: items at their coordinates, in shared memory, in Tensor Memory.

The panels of a tile stand for its three readers: the writing threads, who see coordinates and own them; the memory,
which sees rows of 128 bytes under 32 banks, or lanes and columns; and the reading unit, which sees instruction steps
and core matrices of 8 rows by 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from layoutlab.draw.items import BANK_BYTES, CHUNK_BYTES, ROW_BYTES
from layoutlab.draw.picture import MOST_CELLS, NOTHING, Axis, Band, Items, Line, Panel
from layoutlab.errors import LayoutError

TMEM_COLUMN_BITS = 32
TMEM_QUARTER = 32
"""Lanes that the warps of one number modulo 4 reach."""

OWNER: tuple[Line, ...] = ((("T", "thread"),), (("V", "value"),))


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
        Axis(row.strip("0"), [str(top + i) for i in range(rows)], heavy_lines(every[0], rows, top), shifted[0]),
        Axis(col, [str(left + i) for i in range(cols)], heavy_lines(every[1], cols, left), shifted[1]),
        more,
    )  # fmt: skip


def heavy_lines(every: int, count: int, start: int = 0) -> tuple[int, ...]:
    """The places of lines at every multiple of `every` in a window of `count` from `start` on; none for 0.

    >>> heavy_lines(8, 20, start=4)
    (4, 12, 20)
    """
    return tuple(range(-start % every, count + 1, every)) if every else ()


def memory_panel(
    items: Items,
    bits: int,
    lines: tuple[Line, ...],
    title: str,
    count_banks: bool = False,
    also: Iterable[int] = (),
    heading: tuple[str, int] = ("bank", BANK_BYTES),
) -> Panel:
    """The items where they lie: rows of 128 bytes, a cell for each `bits` bits, the 32 banks as headings.

    `heading` is what stands above instead of the banks, and how many bytes each takes.

    Rows that hold nothing are left out, with one empty row in their place; `also` names bytes whose rows stay. Heavy
    lines stand every 16 bytes. An item at a negative byte lies nowhere. Widths that do not divide a row, 6 bits say,
    have cells of the widest unit that divides both, and an element stands in its first one.
    """
    unit = gcd(bits, ROW_BYTES * 8)
    slots = ROW_BYTES * 8 // unit
    at = items.get("bit") or [b * 8 for b in items["byte"]]
    shown = _with_gaps(sorted({b // ROW_BYTES for b in (*items["byte"], *also) if b >= 0}))
    place = {row: i for i, row in enumerate(shown) if row is not None}
    cells = [
        place[bit // 8 // ROW_BYTES] * slots + bit % (ROW_BYTES * 8) // unit if bit >= 0 else NOTHING for bit in at
    ]
    grid, more = filled(cells, len(shown) * slots, f"{title}: {len(shown)} rows of 128 bytes")
    headed, wide = heading
    per_bank, stride = max(wide * 8 // unit, 1), max(unit // (wide * 8), 1)
    bands = tuple(Band(i * per_bank, per_bank, str(i * stride)) for i in range(slots // per_bank))
    foot = _words_per_bank(items["byte"], bits, per_bank) if count_banks else ()
    return Panel(
        "memory", title, len(shown), slots, grid, lines,
        Axis("byte", ["⋮" if row is None else str(row * ROW_BYTES) for row in shown]),
        Axis(headed, (), heavy_lines(max(CHUNK_BYTES * 8 // unit, 1), slots), bands, foot),
        more,
    )  # fmt: skip


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
        Axis("lane", ["⋮" if lane is None else str(lane) for lane in shown], (), warps if rows > 1 else ()),
        Axis("column", (), heavy_lines(per if per > 1 else 0, cols), columns),
        more,
    )  # fmt: skip


def register_panel(
    items: Items, bits: int, lines: tuple[Line, ...], title: str, also: Iterable[tuple[int, int]] = ()
) -> Panel:
    """The items in registers: a row for each thread, a cell for each `bits` bits of its 32-bit registers.

    `holder` is the thread whose register it is, `bit` counts through its registers. Threads that hold nothing are left
    out, with one empty row in their place; `also` names places that stay, (thread, bit).
    """
    slots, per = [b // bits for b in items["bit"]], max(TMEM_COLUMN_BITS // bits, 1)
    used = [(t, b // bits) for t, b in (*zip(items["holder"], items["bit"], strict=True), *also) if t >= 0]
    cols = -(-(max(slot for _, slot in used) + 1) // per) * per
    shown = _with_gaps(sorted({t for t, _ in used}))
    place = {t: i for i, t in enumerate(shown) if t is not None}
    cells = [
        place[t] * cols + slot if t >= 0 else NOTHING for t, slot in zip(items["holder"], slots, strict=True)
    ]  # fmt: skip
    grid, more = filled(cells, len(shown) * cols, title)
    return Panel(
        "memory", title, len(shown), cols, grid, lines,
        Axis("thread", ["⋮" if t is None else str(t) for t in shown]),
        Axis("register", (), heavy_lines(per if per > 1 else 0, cols),
             tuple(Band(i * per, per, str(i)) for i in range(cols // per))),
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


def _within(bands: Iterable[Band], start: int, count: int) -> tuple[Band, ...]:
    """The bands as they are cut by a window."""
    cut = ((max(b.start, start), min(b.start + b.count, start + count), b.text) for b in bands)
    return tuple(Band(low - start, high - low, text) for low, high, text in cut if high > low)


def shared(panel: Panel, what: str = "elements have several owners") -> tuple[str, ...]:
    """A note on cells that several items share."""
    if not panel.more:
        return ()
    most = max(len(extra) for extra in panel.more.values()) + 1
    return (f"{len(panel.more)} {what}, up to {most}; the first is shown",)
