"""Tables of digits as pictures: a grid of their indices, and the memory that they point into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from layoutlab.draw.items import WHOLE, Choice, chosen, kept, with_places
from layoutlab.draw.panels import TMEM_COLUMN_BITS, memory_panel, tile_panel, tmem_panel
from layoutlab.draw.picture import Items, Line, Picture
from layoutlab.errors import LayoutError

_SHORT = {"cta": "cta", "lane": "L", "column": "C", "byte": "", "location": ""}


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
