"""Which buffers share columns of Tensor Memory, and which of them are live at the same time.

An attention kernel keeps S, P, O and row statistics in 512 columns. P may overwrite S once S has been read; it must not
overwrite what is still to be read.

>>> kernel = TmemBuffers((Buffer("S0", 0, 128), Buffer("P0", 32, 64, over=("S0",)), Buffer("O0", 256, 128)))
>>> kernel.check()
>>> print(kernel.at(40))
column 40: S0, P0
>>> TmemBuffers((Buffer("S0", 0, 128), Buffer("P0", 32, 64))).check()
Traceback (most recent call last):
layoutlab.errors.LayoutError: P0 = columns [32, 96) overlaps S0 = columns [0, 128) in [32, 96), and both are live
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from layoutlab.atoms.datapath import columns_of
from layoutlab.atoms.tmem import COLUMNS
from layoutlab.errors import LayoutError
from layoutlab.symbol import Span, at_most, span


@dataclass(frozen=True)
class Buffer:
    """A named range of columns, and the buffers that it may overwrite because they have been read by then.

    >>> str(Buffer("P", 64, 64))
    'P = columns [64, 128)'

    first and columns count 32-bit columns. Lanes are not told apart: all 128 belong to the buffer.
    """

    name: str
    first: int
    columns: int
    over: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        fits = at_most(self.end, COLUMNS, f"Tensor Memory has {COLUMNS} columns")
        if self.columns < 1 or self.first < 0 or not fits:
            raise LayoutError(f"{self} leaves the {COLUMNS} columns of Tensor Memory")

    @classmethod
    def typed(cls, name: str, first: int, elements: int, bits: int, over: tuple[str, ...] = ()) -> Buffer:
        """A buffer of `elements` elements of `bits` a lane.

        >>> str(Buffer.typed("P", 64, elements=128, bits=16))
        'P = columns [64, 128)'
        """
        return cls(name, first, columns_of(elements, bits), over)

    @property
    def end(self) -> int:
        """The first column after it."""
        return self.first + self.columns

    def shared(self, other: Buffer) -> tuple[int, int] | None:
        """The columns [from, to) that both have; None when there are none.

        >>> Buffer("S", 0, 128).shared(Buffer("P", 32, 64))
        (32, 96)
        """
        low, high = max(self.first, other.first), min(self.end, other.end)
        return (low, high) if low < high else None

    def __str__(self) -> str:
        return f"{self.name} = columns [{self.first}, {self.end})"


@dataclass(frozen=True)
class Column:
    """One column and the buffers that have it."""

    number: int
    buffers: tuple[Buffer, ...]

    def __str__(self) -> str:
        return f"column {self.number}: " + (", ".join(b.name for b in self.buffers) or "nobody's")


@dataclass(frozen=True)
class TmemBuffers:
    """All buffers of a kernel."""

    buffers: tuple[Buffer, ...]

    def __getitem__(self, name: str) -> Buffer:
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise LayoutError(f"no buffer {name}: there are {', '.join(b.name for b in self.buffers)}")

    def at(self, column: int) -> Column:
        """Whose column it is.

        >>> str(TmemBuffers((Buffer("S", 0, 128),)).at(300))
        "column 300: nobody's"
        """
        return Column(column, tuple(b for b in self.buffers if b.first <= column < b.end))

    def ranges(self, *but: str) -> dict[str, range | Span]:
        """The columns of every buffer, but of those named.

        >>> TmemBuffers((Buffer("S", 0, 128), Buffer("O", 128, 64))).ranges("S")
        {'O': range(128, 192)}
        """
        return {b.name: span(b.first, b.end) for b in self.buffers if b.name not in but}

    def aliases(self) -> tuple[tuple[Buffer, Buffer, tuple[int, int]], ...]:
        """Every two buffers that share columns, and which ones.

        >>> [(a.name, b.name, at) for a, b, at in TmemBuffers((Buffer("S", 0, 128), Buffer("P", 64, 64))).aliases()]
        [('S', 'P', (64, 128))]
        """
        found = ((a, b, a.shared(b)) for a, b in combinations(self.buffers, 2))
        return tuple((a, b, at) for a, b, at in found if at)

    def check(self) -> None:
        """Refuses two buffers that share columns, unless one says that it may overwrite the other."""
        for a, b, (low, high) in self.aliases():
            if b.name not in a.over and a.name not in b.over:
                raise LayoutError(f"{b} overlaps {a} in [{low}, {high}), and both are live")
