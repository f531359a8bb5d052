"""Registers as a storage: what a thread keeps from one instruction for the next, value by value.

>>> from layoutlab.handoff.writer import owned
>>> from layoutlab.atoms.mma import wgmma
>>> P = Tile("P", m=64, k=16, bits=16)
>>> writer = keep(owned(wgmma(16, "f16", "f32").c, P))
>>> writer.write.at(t=3, v=5)                                       # the high half of register 2
{'thread': 3, 'bit': 80}
>>> from_registers(P, wgmma(8, "f16", "f32", a_from="registers").a).read.at(m=0, k=6)
{'thread': 3, 'bit': 0}

A register has 32 bits, so 32 / bits values. Source: PTX ISA, "Register fragments for wgmma", "Matrix fragments for
mma".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from layoutlab.errors import LayoutError
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.places import Places, strided_places
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.writer import Owner, Writer, owned
from layoutlab.layout import Layout, make_layout

REGISTER_BITS = 32


@dataclass(frozen=True, eq=False)
class Rmem:
    """The registers of each thread that hold its values of a tile."""

    tile: Tile
    values: int
    name: str

    space: ClassVar[str] = "rmem"

    @property
    def cells(self) -> range:
        """The bits of one thread's registers."""
        return range(*self.ends)

    @property
    def ends(self) -> tuple[int, int]:
        """The first bit of them and their end."""
        return 0, -(-self.values * self.tile.bits // REGISTER_BITS) * REGISTER_BITS

    def rules(self) -> list[Rule]:
        """What registers ask for."""
        return []

    @property
    def code(self) -> str:
        """Registers have no expression of their own."""
        return "None"

    def spoken(self) -> str:
        """How many registers, in words."""
        return f"{len(self.cells) // REGISTER_BITS} registers of each thread"

    def __str__(self) -> str:
        return self.spoken()


def _held(owner: Owner) -> Places:
    """(t, v) -> thread, and bit of its registers."""
    threads, values = owner.places.axes["t"], owner.places.axes["v"]
    who = strided_places({"t": [(threads, 1)]}, "thread")
    return who.beside(strided_places({"v": [(values, owner.tile.bits)]}, "bit"))


def keep(owner: Any, tile: Tile | None = None) -> Writer:
    """A writer to registers: each thread keeps its values in order; `owner` is what `owned` takes."""
    if not isinstance(owner, Owner):
        if tile is None:
            raise LayoutError("a thread-value layout needs its tile beside it")
        owner = owned(owner, tile)
    storage = Rmem(owner.tile, owner.places.axes["v"], f"r{owner.tile.name}")
    code = f"ll.keep({owner.code})"
    route = "each thread's values in order"
    return Writer(owner, storage, _held(owner), owner.tile.bits, route, code, "modelled", "rmem", unit="registers")


def over_steps(fragment: Layout, rows: int, tile: Tile) -> Layout:
    """One instruction's fragment, (T, V) -> row + rows * k, over all K steps of a tile, step after step of values.

    >>> print(over_steps(Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))), 16, Tile("A", m=16, k=32, bits=16)))
    ((4,8),((2,2,2),2)):((32,1),((16,8,128),256))

    Raises LayoutError for a tile of other rows, or of no whole number of steps.
    """
    held, (height, ks) = fragment.size(), tile.shape
    if not isinstance(held, int):
        raise LayoutError(f"{fragment} has a symbolic size: a fragment's is a number")
    step = held // rows if held % rows == 0 else 0
    if height != rows or not step or tile.size % held:
        raise LayoutError(f"a fragment of {held} elements in {rows} rows does not make up {tile}")
    steps = ks // step
    if steps == 1:
        return fragment
    return make_layout(fragment[0], make_layout(fragment[1], Layout(steps, rows * step)))


def from_registers(tile: Tile, fragment: Layout, *, who: str = "the MMA") -> Reader:
    """A reader of registers: an MMA that takes an operand's fragment, over all K steps, from each thread.

    fragment is one instruction's, (T, V) -> row + rows * k.
    """
    owner = owned(over_steps(fragment, tile.shape[0], tile), tile)
    read = _held(owner).after(inverse(owner.places))
    text = f"a fragment {fragment} for each K step, from registers"
    code = f'll.from_registers({tile.name}, ll.parse("{fragment}"))'
    return Reader(tile, read, who, text, "modelled: register fragments", code, "rmem", owner=owner)
