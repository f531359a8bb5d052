"""The store to Tensor Memory that a reader needs: the tcgen05.st that puts each register where it is read.

An instruction puts registers where it has them, so it is found by trying all of them; what may be chosen is the order
in which a thread's values are its registers.

>>> from layoutlab.catalogue import tP
>>> h = tP(load="16x256b.x4")
>>> print(*(f"{found.atom} {found.order}" for found in tmem_stores(h.writer.owner, h.reader)[:2]))
tcgen05.st.16x128b.x4 None tcgen05.st.16x128b.x16 (16,4,2):(1,32,16)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from layoutlab.algebra import composition
from layoutlab.atoms.operand import as_modes
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.handoff.cures import REPEATS, SHAPES
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.storage import Tmem, tmem
from layoutlab.handoff.strided import modes_layout
from layoutlab.handoff.tensor_memory import tmem_store
from layoutlab.handoff.tmem_transfer import Transfer
from layoutlab.handoff.writer import Owner, Writer, owned
from layoutlab.layout import Layout, make_layout

COLUMN_BITS, FAR = 32, 1 << 32


@dataclass(frozen=True)
class TmemStore:
    """One way to store: the instruction, how many of it, and the order of values that are its registers."""

    writer: Writer
    atom: TmemAtom
    instructions: int
    order: Layout | None  # new place of a value -> its place as it is held; None: as held


def column_of(reader: Reader) -> int:
    """The first column that is read."""
    low = reader.read.table.bounds("bit")[0]
    if low % COLUMN_BITS:
        raise LayoutError(f"{reader.who} reads from bit {low} of a lane on, and a store begins at a column of 32 bits")
    return low // COLUMN_BITS


def tmem_stores(owner: Owner, reader: Reader) -> list[TmemStore]:
    """Every store that does it, first those that take registers as they are held, of fewest instructions first.

    Raises LayoutError with the reason where none does.
    """
    (rows, columns), storage = owner.tile.shape, tmem(over=owner.tile, column=column_of(reader))
    places = reader.read.after(owner.places)
    axes, wanted = owner.places.axes, _cells(places.at, owner.places.axes, 0)
    found, near = list[TmemStore](), ("", -1)
    for shape in SHAPES:
        for repeat in REPEATS:
            try:
                atom = TmemAtom("st", shape, repeat)  # type: ignore[arg-type]
                transfer = Transfer(atom, rows, columns, owner.tile.bits)
                if transfer.fault or dict(transfer.places().axes) != dict(axes):
                    continue
                puts = _cells(transfer.places().at, axes, storage.column * COLUMN_BITS)
            except LayoutError:
                continue
            same = int((puts == wanted).sum())
            if same > near[1]:
                near = (_nearest(owner, atom, puts, wanted), same)
            made = _with_order(owner, storage, atom, puts, wanted)
            if made is not None:
                found.append(TmemStore(made[0], atom, transfer.steps, made[1]))
    if not found:
        raise LayoutError(near[0] or f"no tcgen05.st takes {axes['v']} values of {axes['t']} threads over {owner.tile}")
    return sorted(found, key=lambda s: (s.order is not None, s.instructions))


def _cells(at: Any, axes: Any, base: int) -> Any:
    """[t, v] -> lane and bit as one number."""
    import numpy as np

    t, v = np.meshgrid(np.arange(axes["t"]), np.arange(axes["v"]), indexing="ij")
    where = at(t=t, v=v)
    return where["lane"] * FAR + where["bit"] + base


def _with_order(
    owner: Owner, storage: Tmem, atom: TmemAtom, puts: Any, wanted: Any
) -> tuple[Writer, Layout | None] | None:
    """The writer, where every thread's values are its registers in one order."""
    import numpy as np

    register = {int(cell): v for v, cell in enumerate(puts[0])}
    to = [register.get(int(cell), -1) for cell in wanted[0]]  # value as held -> register
    if -1 in to or not np.array_equal(puts[:, to], wanted):
        return None
    held = np.argsort(to).tolist()  # register -> value as held
    if held == list(range(len(held))):
        return tmem_store(owner, storage, atom), None
    try:
        order = modes_layout(as_modes([int(v) for v in held]))[0]
    except LayoutError:
        return None
    flat = make_layout(owner.layout[0], composition(owner.layout[1], order))
    other = replace(owned(flat, owner.tile, first_thread=owner.first_thread), rules=owner.rules, source=owner.source)
    return tmem_store(other, storage, atom), order


def _nearest(owner: Owner, atom: TmemAtom, puts: Any, wanted: Any) -> str:
    """The first element that an instruction puts elsewhere, however its registers are filled."""
    for t in range(len(wanted)):
        mine = {int(cell) for cell in puts[t]}
        for v, cell in enumerate(wanted[t]):
            if int(cell) not in mine:
                lane, bit = divmod(int(cell), FAR)
                lanes = sorted({c // FAR for c in mine})
                return (
                    f"{owner.named({'t': t, 'v': v})} is read at lane {lane} column {bit // COLUMN_BITS}, and no "
                    f"tcgen05.st of {len(wanted[0])} values puts a register of that thread there: the nearest, {atom}, "
                    f"gives it lanes {_listed(lanes)}"
                )
    return f"{atom} wants a thread's values in another order in each thread"


def _listed(lanes: Sequence[int]) -> str:
    shown = ", ".join(map(str, lanes[:4]))
    return shown + (f", ... {lanes[-1]}" if len(lanes) > 4 else "")
