"""Proof: write(t, v) and read(m, k) as formulas, and the table of digits in which they are equal.

>>> from layoutlab.handoff import Handoff, Tile, smem, store
>>> P = Tile("P", m=128, k=64, bits=16)
>>> sP = smem("S<3,4,3> o 0 o (128,64):(64,1)", over=P)
>>> h = Handoff(P, writer=store("(128,64):(1,128)", sP, bits=128), reader="S<3,4,3> o 0 o (128,64):(64,1)")
>>> print(proof_of(h).text)
for 0 <= t < 128, 0 <= v < 64
m(t, v) = t
k(t, v) = v
write(t, v) = swizzle(128*t + 2*v)                # byte of shared memory
read(m, k)  = swizzle(128*m + 2*k)                # byte of shared memory
swizzle(x)  = x ^ (x >> 3 & 112)
before the swizzle, which is the same on both sides, a step of a digit of (t, v) adds to the byte
  digit   write   read
  t         128    128
  v           2      2
so write(t, v) = read(m(t, v), k(t, v)) for all of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layoutlab.digits import ONE, Map, Term, aligned
from layoutlab.errors import LayoutError
from layoutlab.formula import bits_text, latex, polynomial, runs, sum_of, swizzle_text
from layoutlab.formula.reading import PLACES
from layoutlab.formula.text import part_of
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.places import Places
from layoutlab.handoff.storage import Smem, Tmem
from layoutlab.swizzle import Swizzle
from layoutlab.symbol import Sym

UNITS = {"smem": ((8, "byte"),), "gmem": ((8, "byte"),), "tmem": ((32, "column"), (8, "byte")), "rmem": ((8, "byte"),)}
"""What locations are shown in, where everything is whole ones: bits, and their name."""
MEMORY = {"smem": "shared memory", "gmem": "global memory", "tmem": "the lane", "rmem": "the thread's registers"}


@dataclass(frozen=True)
class Line:
    """name(parameters) = body."""

    name: str
    parameters: tuple[str, ...]
    body: str
    note: str = ""

    @property
    def head(self) -> str:
        return f"{self.name}({', '.join(self.parameters)})"

    def latex(self) -> str:
        """The definition, typeset."""
        return latex(self.head) + " &= " + latex(self.body)


@dataclass(frozen=True)
class Row:
    """A digit of (t, v), or the xor of several bits, and what one step of it adds on each side."""

    part: str
    write: int
    read: int


@dataclass(frozen=True)
class Proof:
    """The definitions; for each output the table; and what follows."""

    definitions: tuple[Line, ...]
    tables: Mapping[str, tuple[Row, ...]]
    swizzled: bool  # whether the tables are of what both sides swizzle alike
    ends: str
    why: str  # why there is no table, where there is none

    @property
    def equal(self) -> bool:
        """Whether every digit adds the same on both sides."""
        return not self.why and all(row.write == row.read for rows in self.tables.values() for row in rows)

    @property
    def text(self) -> str:
        """All of it, line by line; the definitions are read by `layoutlab.formula.read_definitions` again."""
        places = [line for line in self.definitions if PLACES.fullmatch(line.name)]
        width = max(len(line.head) for line in places)
        lines = [f"for {self.ends}"]
        for line in self.definitions:
            shown = f"{line.head:<{width}} = {line.body}" if line in places else f"{line.head} = {line.body}"
            lines.append(f"{shown:<49} # {line.note}" if line.note else shown)
        if self.why:
            return "\n".join([*lines, f"no table of digits holds both sides: {self.why}"])
        for output, rows in self.tables.items():
            lines += [self._over(output), *(f"  {row}" for row in _columns(rows))]
        return "\n".join([*lines, self._conclusion()])

    def latex(self) -> str:
        """The same as LaTeX: an `align*` of the definitions, an `array` for each table."""
        rows = [line.latex() for line in self.definitions]
        parts = ["\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"]
        for output, table in ({} if self.why else self.tables).items():
            body = " \\\\\n".join(
                f"{latex(row.part) if row.part != '1' else '1'} & {_tex(row.write)} & {_tex(row.read)}" for row in table
            )
            head = rf"\text{{digit ({output})}} & \text{{write}} & \text{{read}} \\ \hline"
            parts.append(f"\\[\\begin{{array}}{{lrr}}\n{head}\n{body}\n\\end{{array}}\\]")
        return "\n".join(parts)

    def json(self) -> dict[str, Any]:
        """As the JSON report has it."""
        return {
            "definitions": [f"{line.head} = {line.body}" for line in self.definitions],
            "tables": {
                output: [{"digit": row.part, "write": _plain(row.write), "read": _plain(row.read)} for row in rows]
                for output, rows in self.tables.items()
            },
            "before_swizzle": self.swizzled,
            "equal": self.equal,
            "why": self.why or None,
            "latex": self.latex(),
        }

    def _over(self, output: str) -> str:
        same = "before the swizzle, which is the same on both sides, " if self.swizzled else ""
        return f"{same}a step of a digit of (t, v) adds to the {output}"

    def _conclusion(self) -> str:
        owner = ", ".join(line.head for line in self.definitions if not PLACES.fullmatch(line.name))
        if self.equal:
            return f"so write(t, v) = read({owner}) for all of them"
        return f"write(t, v) and read({owner}) differ in the digits that are marked"


def _columns(rows: Sequence[Row]) -> list[str]:
    """The table: rows that differ are marked."""
    cells = [("digit", "write", "read", "")]
    cells += [
        (row.part, polynomial(row.write), polynomial(row.read), "" if row.write == row.read else "  differs")
        for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    return [f"{a:<{widths[0]}}   {b:>{widths[1]}}   {c:>{widths[2]}}{d}".rstrip() for a, b, c, d in cells]


def _tex(step: int | Sym) -> str:
    return latex(polynomial(step))


def _plain(step: int | Sym) -> int | str:
    return step if isinstance(step, int) else polynomial(step)


def proof_of(h: Handoff) -> Proof:
    """The formulas of a handoff, and the table in which they are equal, or differ.

    Raises LayoutError, with the reason, where a side has no formula.
    """
    _refuse_names(h)
    write, read, owner = h.writer.write, h.reader.read, h.writer.owner.places
    wanted = read.after(owner)
    located = None if _has_table(write) else _location(h)
    stages = [_stage(places) for places in (located or write, read)]
    size, unit = _unit(h.writer.space, [table for table, _, _ in stages], [write, read])
    alike = (write.swizzle, write.plus) == (read.swizzle, read.plus)
    two = write.swizzle and read.swizzle and write.swizzle != read.swizzle
    names = ("swizzle_w", "swizzle_r") if two else ("swizzle", "swizzle")
    definitions = [Line(axis, ("t", "v"), sum_of(owner.table, axis)) for axis in h.tile.extents]
    sides = ("location" if located else "write", "read")
    for side, places, (table, swizzle, plus), name in zip(sides, (located or write, read), stages, names, strict=True):
        note = f"{unit} of {MEMORY[h.writer.space]}"
        lines = _side(side, places, _counted(table, size), swizzle, plus // size, unit, name, note)
        if side == "location":
            held = ", ".join(f"{axis}(t, v)" for axis in places.axes)
            calls = [(line.name.replace("location", "write"), f"{line.name}({held})", line.note) for line in lines]
            definitions += [Line(called, ("t", "v"), body, noted) for called, body, noted in calls]
        definitions += lines
    for name, places in dict(zip(names, (write, read), strict=True)).items():
        swizzle = next((p.swizzle for p in ((write, read) if names[0] == names[1] else (places,)) if p.swizzle), None)
        if swizzle is not None:
            definitions.append(Line(name, ("x",), swizzle_text(_in_unit(swizzle, size))))
    tables, why, swizzled = dict[str, tuple[Row, ...]](), "", False
    try:
        swizzled = alike and write.before is not None
        left, right = (p.before.table if swizzled and p.before else p.table for p in (write, wanted))
        left, right = aligned(_counted(left, size), _counted(right.only(*left.rows), size))
        tables = {_word(out, unit): _rows(left, right, out) for out in left.rows}
    except LayoutError as error:
        why = str(error)
    ends = ", ".join(f"0 <= {axis} < {polynomial(extent)}" for axis, extent in owner.axes.items())
    return Proof(tuple(definitions), tables, swizzled, ends, why)


def _has_table(places: Places) -> bool:
    try:
        _stage(places)
    except LayoutError:
        return False
    return True


def _location(h: Handoff) -> Places:
    """Where the storage has each coordinate: what a store at the owner's coordinates writes, also where no table holds
    the two together."""
    storage, given = h.writer.storage, h.writer.given
    plain = "bits" in given and not given.get("through") and not given.get("offsets")
    if not isinstance(storage, (Smem, Tmem)) or not plain or any(isinstance(end, Sym) for end in storage.ends):
        return h.writer.write  # whose table says why there is none
    return storage.places


def _refuse_names(h: Handoff) -> None:
    """Refuses a coordinate that is called as a formula is, or as a symbol."""
    sizes: tuple[Any, ...] = (*h.tile.shape, *h.writer.owner.places.axes.values(), *h.writer.storage.ends)
    symbols = set[str]().union(*(size.unknowns for size in sizes if isinstance(size, Sym)))
    for axis in h.tile.extents:
        if PLACES.fullmatch(axis) or axis in symbols:
            raise LayoutError(
                f"a coordinate of {h.tile} is called {axis}, as something else in its formulas: rename it"
            )


def _stage(places: Places) -> tuple[Map, Swizzle | None, int]:
    """The table of what is swizzled, the swizzle, and what is added after it."""
    if places.before is not None and places.swizzle is not None:
        return places.before.table, places.swizzle, places.plus
    return places.table, None, 0


def _unit(space: str, tables: Sequence[Map], places: Sequence[Places]) -> tuple[int, str]:
    """The largest unit in which everything is a whole number, bits at last."""
    for size, name in UNITS[space]:
        whole = all(_divides(size, step) for m in tables for step in m.rows["bit"].values())
        if whole and all(_divides(size, p.plus) and (p.swizzle is None or 1 << p.swizzle.base >= size) for p in places):
            return size, name
    return 1, "bit"


def _divides(size: int, step: int) -> bool:
    try:
        return step % size == 0
    except LayoutError:
        return False


def _counted(m: Map, size: int) -> Map:
    """The table with its bits counted in another unit."""
    return Map(
        m.axes,
        {out: {t: s // size for t, s in row.items()} if out == "bit" else row for out, row in m.rows.items()},
    )


def _in_unit(swizzle: Swizzle, size: int) -> Swizzle:
    return Swizzle(swizzle.bits, swizzle.base - (size.bit_length() - 1), swizzle.shift)


def _word(out: str, unit: str) -> str:
    return unit if out == "bit" else out


def _side(
    side: str, places: Places, m: Map, swizzle: Swizzle | None, plus: int, unit: str, name: str, note: str
) -> list[Line]:
    found, parameters = list[Line](), tuple(places.axes)
    for out in m.rows:
        inner = sum_of(m, out)
        if swizzle is not None:
            inner = f"{name}({inner})"
            inner = f"{polynomial(plus)} + {inner}" if plus != 0 else inner
        full = side if len(m.rows) == 1 else f"{side}_{_word(out, unit)}"
        found.append(Line(full, parameters, inner, note if out == "bit" else ""))
    return found


def _rows(left: Map, right: Map, out: str) -> tuple[Row, ...]:
    """Every digit and xor of either side."""
    rows = list[Row]()
    for axis in left.axes:
        for run in runs(axis, [(left, out), (right, out)]):
            rows.append(Row(part_of(left, run), *run.steps))
    mixed: dict[Term, None] = {t: None for m in (left, right) for t in m.rows[out] if len(t) > 1}
    rows += [Row(bits_text(left, t), left.rows[out].get(t, 0), right.rows[out].get(t, 0)) for t in mixed]
    bases = tuple(m.rows[out].get(ONE, 0) for m in (left, right))
    return tuple([*rows, Row("1", *bases)] if any(base != 0 for base in bases) else rows)
