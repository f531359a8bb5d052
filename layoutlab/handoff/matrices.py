"""ldmatrix as a reader and stmatrix as a writer of shared memory: rows of 16 bytes, whose addresses the lanes give.

Lane 8 r + i gives the address of row i of matrix r. Register r of thread t holds 32 bits of row t / 4 from byte
4 (t % 4) on; with .trans, elements t / 4 of rows 2 (t % 4) and the next.

>>> from layoutlab.handoff import Tile, owned, smem
>>> A = Tile("A", m=16, k=16, bits=16)
>>> sA = smem("(16,16):(16,1)", over=A)
>>> fragment = owned("((4,8),(2,2,2)):((32,1),(16,8,128))", A)                       # mma.sync.m16n8k16, operand A
>>> reader = ldmatrix(sA, fragment, rows="((16,2),1):((1,128),0)")                   # lane l: row l % 16, k 8 (l / 16)
>>> reader.read.at(m=9, k=3)["bit"] // 8
294

What a thread's registers mean is the fragment, what the lanes point to is `rows`; in between is the instruction alone.
Source: PTX ISA, "ldmatrix", "stmatrix"; held against an H200 (`layoutlab.atoms.matrix`).
"""

from __future__ import annotations

from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.places import Places, strided_places
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.writer import Owner, Writer, owned

ROW_BITS, ROW_BIT = 128, 7
REGISTER_BITS = 32
LANES = 32


def _placed(storage: Smem, owner: Owner, rows: Owner, count: int, trans: bool, name: str) -> Places:
    """(t, v) -> bit of shared memory, for registers filled with the owner's values in order."""
    bits, axes = storage.tile.bits, owner.places.axes
    if owner.tile != storage.tile or rows.tile != storage.tile:
        raise LayoutError(f"{storage.name} holds {storage.tile}; registers and rows are of tile {owner.tile}")
    if count not in (1, 2, 4):
        raise LayoutError(f"{name} moves 1, 2 or 4 matrices, not {count}")
    if bits not in (8, 16) or (trans and bits != 16):
        raise LayoutError(f"{name} moves rows of 16 bytes{' of 16-bit elements' if trans else ''}: not {storage.tile}")
    threads, values = axes["t"], axes["v"]
    each = REGISTER_BITS // bits * count  # values of one instruction
    if threads % LANES or values % each or (rows.places.axes["t"], rows.places.axes["v"]) != (threads, values // each):
        raise LayoutError(
            f"{name}.x{count}: {threads} threads of {values} values take {values / each:g} instructions, each with an "
            f"address from every thread; rows has {rows.places.axes['t']} by {rows.places.axes['v']}"
        )
    inside, halves = 16 // bits, 2
    registers = [(count, 8), (values // each, 0)]
    # the lane whose address it is, the instruction, and the bits from the address on
    if trans:
        lane = {"t": [(4, 2), (8, 0), (threads // LANES, LANES)], "v": [(halves, 1), *registers]}
        along = {"t": [(4, 0), (8, bits), (threads // LANES, 0)], "v": [(halves, 0), (count, 0), (values // each, 0)]}
    else:
        lane = {"t": [(4, 0), (8, 1), (threads // LANES, LANES)], "v": [(inside * halves, 0), *registers]}
        along = {
            "t": [(4, REGISTER_BITS), (8, 0), (threads // LANES, 0)],
            "v": [(inside * halves, bits), (count, 0), (values // each, 0)],
        }
    step = {"t": [(threads, 0)], "v": [(each, 0), (values // each, 1)]}
    asked = strided_places(lane, "t").beside(strided_places(step, "v"))
    pointed = storage.places.after(rows.places.after(asked))
    inside_row = strided_places(along, "bit")
    if pointed.before and pointed.swizzle and pointed.swizzle.base >= ROW_BIT and _aligned(pointed.before):
        # what the swizzle moves are whole rows: what lies in a row may be added before it
        return pointed.before.added(inside_row).swizzled(pointed.swizzle).moved(pointed.plus)
    return pointed.added(inside_row)


def _rules(storage: Smem, rows: Owner, name: str, first_thread: int) -> list[Rule]:
    """The addresses that lanes give are multiples of 16, and each row lies together there."""
    from layoutlab.arbiter import first_where

    def odd(t: Any, v: Any) -> Any:
        return storage.places.at(**rows.places.at(t=t, v=v))["bit"] % ROW_BITS != 0

    found = None if _aligned(storage.places.after(rows.places)) else first_where(rows.places.axes, odd)[0]
    fault = None
    if found:
        byte = storage.places.at(**rows.places.at(**found))["bit"] // 8
        fault = f"T{found['t'] + first_thread} gives {name} the address {byte}, which 16 does not divide"
    return [Rule(f"{name}'s addresses are multiples of 16 bytes", fault)]


def _aligned(places: Places) -> bool:
    """Whether a table says that every address is a multiple of 16 bytes."""
    if places.before and places.swizzle and places.swizzle.base >= ROW_BIT:  # it moves whole rows
        places = places.before.moved(places.plus)
    try:
        return all(step % ROW_BITS == 0 for step in places.table.rows["bit"].values())
    except LayoutError:
        return False


def ldmatrix(storage: Smem, fragment: Owner, *, rows: Any, count: int = 4, trans: bool = False) -> Reader:
    """A reader by ldmatrix: an MMA that takes its registers for `fragment`, filled from the rows that lanes point to.

    rows is (thread, instruction) -> flat coordinate of a row's first element, a layout, its text or an owner: where the
    code points each lane. Raises LayoutError where threads, values and instructions do not match.
    """
    name = "ldmatrix" + (".trans" if trans else "")
    pointed = rows if isinstance(rows, Owner) else owned(rows, storage.tile)
    places = _placed(storage, fragment, pointed, count, trans, name)
    text = f"{name}.x{count} from rows at {pointed}, taken for {fragment}"
    flag = ", trans=True" if trans else ""
    code = f'll.ldmatrix({storage.name}, {fragment.code}, rows="{pointed}", count={count}{flag})'
    read = places.after(inverse(fragment.places))
    rules = lambda: [*storage.rules(), *_rules(storage, pointed, name, fragment.first_thread)]  # noqa: E731
    at = storage.places.after(pointed.places)
    op = f"ldmatrix.x{count}"
    given = {"storage": storage, "fragment": fragment, "rows": pointed, "count": count, "trans": trans}
    how: dict[str, Any] = {"rules": rules, "rows": at, "op": op, "make": ldmatrix, "given": given, "owner": fragment}
    return Reader(storage.tile, read, "the MMA", text, f"modelled: {name}", code, **how)


def stmatrix(owner: Owner, storage: Smem, *, rows: Any, count: int = 4, trans: bool = False) -> Writer:
    """A writer by stmatrix: registers, filled with the owner's values in order, go to the rows that lanes point to.

    >>> from layoutlab.handoff import Tile, smem, tcgen05_ld
    >>> C = Tile("C", m=128, n=32, bits=16)
    >>> owner = tcgen05_ld("16x256b.x4").over(C)
    >>> rows = "((16,2,4),(2,2)):((1,1024,32),(2048,16))"         # T: m 1, n 8, m 32; instructions: n 16, m 16
    >>> stmatrix(owner, smem("(128,32):(32,1)", over=C), rows=rows).write.at(t=5, v=2)["bit"] // 8
    580

    rows is as for `ldmatrix`.
    """
    name = "stmatrix" + (".trans" if trans else "")
    pointed = rows if isinstance(rows, Owner) else owned(rows, storage.tile)
    write = _placed(storage, owner, pointed, count, trans, name)
    flag = ", trans=True" if trans else ""
    code = f'll.stmatrix(owner, {storage.name}, rows="{pointed}", count={count}{flag})'
    route = f"to rows at {pointed}"
    rules = lambda: [*owner.rules(), *_rules(storage, pointed, name, owner.first_thread)]  # noqa: E731
    held = Owner(owner.tile, owner.places, owner.layout, owner.source, owner.code, owner.first_thread, rules, owner.who)
    unit = f"{name}.x{count}"
    at = storage.places.after(pointed.places)
    given = {"owner": owner, "storage": storage, "rows": pointed, "count": count, "trans": trans}
    how: dict[str, Any] = {"unit": unit, "rows": at, "make": stmatrix, "given": given}
    return Writer(held, storage, write, REGISTER_BITS, route, code, f"modelled: {name}", **how)
