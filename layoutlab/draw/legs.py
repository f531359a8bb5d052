"""Legs: handoffs as parts of a kernel, each with what the kernel calls its units, its buffer and its coordinates.

A handoff alone says who writes and who reads in its own words. In a kernel the reader of one is the writer of the next
one, a TMA load takes its tile from somewhere in a tensor, and an MMA's n is a key here and a column of O there: a leg
says so, and a way is a kernel's legs in the order in which they come.

>>> Q = Tensor("Q", (1, 300, 4, 64), 16, origin=(0, 128, 2, 0), modes={"m": 1, "k": 3})
>>> Q.told({"m": 5, "k": 17})
'Q[0,133,2,17] in global memory, byte 68386'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from layoutlab.handoff.core import Handoff
from layoutlab.handoff.verdict import Verdict
from layoutlab.handoff.writer import Owner

Unit = tuple[str, ...]
"""What a graph says of a unit, line by line; equal units are one node."""


@dataclass(frozen=True)
class Tensor:
    """A dense row-major tensor in global memory, with the element at which a tile begins.

    `modes` says which mode of the tensor each of the tile's coordinates counts along.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    origin: tuple[int, ...]
    modes: Mapping[str, int]

    def index(self, coordinate: Mapping[str, int]) -> tuple[int, ...]:
        """The element of the tensor that a coordinate of the tile is."""
        found = list(self.origin)
        for axis, mode in self.modes.items():
            found[mode] += coordinate[axis]
        return tuple(found)

    def byte(self, index: Sequence[int]) -> int:
        """Where an element begins, from the tensor's first byte on."""
        at = 0
        for i, extent in zip(index, self.shape, strict=True):
            at = at * extent + i
        return at * self.bits // 8

    def named(self, coordinate: Mapping[str, int]) -> str:
        """The element of the tensor, O[0,5,0,17]."""
        return f"{self.name}[{','.join(map(str, self.index(coordinate)))}]"

    def told(self, coordinate: Mapping[str, int]) -> str:
        """The element and its byte; a tile may go on where the tensor ends."""
        index, named = self.index(coordinate), self.named(coordinate)
        beyond = next((i for i, (x, e) in enumerate(zip(index, self.shape, strict=True)) if x >= e), None)
        if beyond is not None:
            return f"{named} is beyond {self.name}, which ends at {self.shape[beyond] - 1} there: TMA brings zero"
        return f"{named} in global memory, byte {self.byte(index)}"


@dataclass(frozen=True)
class Leg:
    """A handoff in its kernel.

    `means` is what each of the tile's coordinates is in the kernel; `source` and `target` are where the writer takes
    the tile from and where the reader puts it, in global memory. A kernel that uses the first `again_bytes` of its
    buffer over and over has every location modulo them. `remark` is said at the journey's stop.
    """

    handoff: Handoff
    means: Mapping[str, str]
    writer: Unit
    reader: Unit
    source: Tensor | str = ""
    target: Tensor | str = ""
    buffer: str = ""
    again_bytes: int = 0
    remark: str = ""

    @property
    def name(self) -> str:
        """What the kernel calls the buffer."""
        storage = self.handoff.writer.storage
        return self.buffer or str(getattr(storage, "name", f"tile {self.handoff.tile.name}"))

    def outputs(self, places: Mapping[str, int]) -> dict[str, int]:
        """A location of the handoff as the kernel has it."""
        found = {name: int(x) for name, x in places.items()}
        if self.again_bytes:
            found["bit"] %= 8 * self.again_bytes
        return found


@dataclass(frozen=True)
class Way:
    """A kernel's legs in order, with what is known of an element: `fixed` gives meanings their values in the tile."""

    title: str
    legs: Sequence[Leg]
    fixed: Mapping[str, int] = field(default_factory=dict)


def leg_of(what: Handoff | Verdict | Leg) -> Leg:
    """A handoff as a leg of its own: units and coordinates by the handoff's own words.

    >>> from layoutlab.handoff import *
    >>> P = Tile("P", m=8, k=8, bits=16)
    >>> h = Handoff(P, writer=store("(8,8):(1,8)", smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(8,1)")
    >>> leg_of(h).writer, leg_of(h).reader
    (('threads T0 to T7',), ('the reader',))
    """
    if isinstance(what, Leg):
        return what
    h: Handoff = what.handoff if isinstance(what, Verdict) else what
    there = f"{h.tile.name} in global memory"
    loads = h.writer.unit == "TMA" and h.writer.space != "gmem"
    stores = "TMA store" in h.reader.source
    return Leg(
        h,
        {axis: axis for axis in h.tile.extents},
        writer_words(h),
        reader_words(h),
        there if loads else "",
        there if stores else "",
    )


def writer_words(made: Handoff) -> Unit:
    """Who writes, as the handoff's own first words say it, and which threads they are."""
    owner, unit = made.writer.owner, made.writer.unit
    if not owner.threaded:
        said = re.match(r"The (\w+ MMA) writes\b", made.doc)
        if said and "MMA" in unit:
            return (f"the {said[1]}",)
        return ("the TMA store",) if unit == "TMA" and made.writer.space == "gmem" else (unit,)
    said = re.match(r"([A-Z][\w ]*?) (?:writes?|stores?|takes?|puts?|scales?)\b", made.doc)
    return (said[1], _threads(owner)) if said else (_threads(owner),)


def reader_words(made: Handoff) -> Unit:
    """Who reads: the MMA that the handoff's words name last, a load by its threads and what they are called."""
    owner = made.reader.owner
    if owner is not None and "MMA" not in made.reader.who:
        said = re.search(r"[;.] (\w[\w ]*?) takes?\b", made.doc)
        return (said[1][0].upper() + said[1][1:], _threads(owner)) if said else (_threads(owner),)
    named = re.findall(r"the ([A-Z]\w* MMA)\b", made.doc)
    return (f"the {named[-1]}" if named and "MMA" in made.reader.who else made.reader.who,)


def _threads(owner: Owner) -> str:
    count, first = owner.places.axes["t"], owner.first_thread
    return f"threads T{first} to T{first + count - 1}" if count > 1 else f"T{first}"
