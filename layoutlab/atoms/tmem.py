"""tcgen05.ld and tcgen05.st: which lane and column of Tensor Memory each register of each thread is.

Tensor Memory is 128 lanes by 512 columns of 32-bit words; an address is lane in bits 16-31 and column in bits 0-15. A
warp reaches the 32 lanes of its own quarter only, 32 (warp % 4) and on. Within them a shape spreads threads and
registers over lanes and columns:

    32x32b      thread t is lane t, register r is column r
    16x64b      8 lanes x 2 columns of threads, each pair of lanes (l, l+8) in neighbouring threads
    16x128b     8 lanes x 4 columns of threads, registers: lane + 8, then the next 4 columns
    16x256b     8 lanes x 4 pairs of columns, registers: the pair, lane + 8, then the next 8 columns
    16x32bx2    two 16x32b accesses: threads 16-31 take the columns `half_split` further on

>>> atom = TmemAtom("ld", "16x256b", 2)
>>> atom.registers, atom.lanes, atom.columns
(8, 16, 16)
>>> atom.word_map()(t=5, r=6)                                    # thread 5, register 6: lane 5/4 + 8, column 8 + 2
{'lane': 9, 'column': 10}

Source: PTX ISA, "tcgen05 data movement shapes"; CUTLASS include/cute/atom/copy_traits_sm100.hpp, one struct for each
shape, repetition and packing (SM100_TMEM_LOAD_*), whose value and thread layouts the table below reproduces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.modes import thread_value
from layoutlab.digits import Map, beside, strided_over
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout

Direction = Literal["ld", "st"]
Shape = Literal["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"]

LANES = 128
COLUMNS = 512
WORD_BITS = 32
WARP_LANES = 32  # lanes that one warp reaches
MAX_REGISTERS = 128  # 32-bit registers of one instruction

_Mode = tuple[int, int, int]  # extent, lane step, column step; fastest first


@dataclass(frozen=True)
class _ShapeRow:
    """One shape: how threads and the registers of one repetition spread; a repetition goes on `columns` further."""

    lanes: int
    columns: int
    threads: tuple[_Mode, ...]
    registers: tuple[_Mode, ...]
    source: str


_SHAPES: dict[str, _ShapeRow] = {
    "32x32b": _ShapeRow(32, 1, ((32, 1, 0),), (), "SM100_TMEM_LOAD_32dp32b"),
    "16x64b": _ShapeRow(16, 2, ((2, 8, 0), (2, 0, 1), (8, 1, 0)), (), "SM100_TMEM_LOAD_16dp64b"),
    "16x128b": _ShapeRow(16, 4, ((4, 0, 1), (8, 1, 0)), ((2, 8, 0),), "SM100_TMEM_LOAD_16dp128b"),
    "16x256b": _ShapeRow(16, 8, ((4, 0, 2), (8, 1, 0)), ((2, 0, 1), (2, 8, 0)), "SM100_TMEM_LOAD_16dp256b"),
    # The second mode of the threads steps by half_split columns, an immediate of the instruction.
    "16x32bx2": _ShapeRow(16, 1, ((16, 1, 0),), (), "SM100_TMEM_LOAD_16dp32b"),
}


@dataclass(frozen=True)
class TmemAtom:
    """One tcgen05.ld or tcgen05.st: shape, repetitions, packing.

    >>> str(TmemAtom("ld", "32x32b", 4, packed=True))
    'tcgen05.ld.32x32b.x4.pack::16b'
    >>> TmemAtom("ld", "16x256b", 64)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: 16x256b.x64 would move 256 registers a thread, and 128 is the most: x32 at most

    packed is `.pack::16b` of a load and `.unpack::16b` of a store: a register's two halves are the low halves of two
    neighbouring columns. half_split is the immediate of 16x32bx2, in columns; by default the columns of one half, so
    that the two halves lie side by side. Raises LayoutError for what the ISA does not have.
    """

    direction: Direction
    shape: Shape
    repeat: int
    packed: bool = False
    half_split: int | None = None

    def __post_init__(self) -> None:
        if self.direction not in ("ld", "st"):
            raise LayoutError(f'direction is {self.direction!r}: "ld" or "st"')
        if self.shape not in _SHAPES:
            raise LayoutError(f"tcgen05 has no shape {self.shape}: one of {', '.join(_SHAPES)}")
        most = MAX_REGISTERS // (self.registers // self.repeat) if self.repeat > 0 else 0
        if self.repeat < 1 or self.repeat & (self.repeat - 1):
            raise LayoutError(f"x{self.repeat}: the repetitions are a power of two")
        if self.repeat > most:
            raise LayoutError(
                f"{self.shape}.x{self.repeat} would move {self.registers} registers a thread, "
                f"and {MAX_REGISTERS} is the most: x{most} at most"
            )
        if self.half_split is not None and self.shape != "16x32bx2":
            raise LayoutError(f"{self.shape} has no half_split: that is the immediate of 16x32bx2")

    def __str__(self) -> str:
        packing = {"ld": ".pack::16b", "st": ".unpack::16b"}[self.direction] if self.packed else ""
        return f"tcgen05.{self.direction}.{self.shape}.x{self.repeat}{packing}"

    @classmethod
    def parse(cls, text: str, direction: Direction = "ld") -> TmemAtom:
        """The atom that a name says, as PTX writes it or short.

        >>> TmemAtom.parse("32x32b.x32")
        TmemAtom(direction='ld', shape='32x32b', repeat=32, packed=False, half_split=None)
        >>> TmemAtom.parse("tcgen05.st.sync.aligned.16x128b.x8.unpack::16b.b32").packed
        True
        """
        m = re.fullmatch(
            r"(?:tcgen05\.(ld|st)\.)?(?:sync\.aligned\.)?(\w+)\.x(\d+)(\.pack::16b|\.unpack::16b)?(?:\.b32)?",
            text.strip(),
        )
        if not m:
            raise LayoutError(f'{text!r} names no tcgen05 load or store: "32x32b.x32", say')
        way: Direction = m[1] or direction  # type: ignore[assignment]
        if m[4] and m[4] != {"ld": ".pack::16b", "st": ".unpack::16b"}[way]:
            raise LayoutError(f"{text!r}: a load packs, a store unpacks")
        return cls(way, m[2], int(m[3]), packed=bool(m[4]))  # type: ignore[arg-type]

    @property
    def source(self) -> str:
        """The CUTLASS struct (copy_traits_sm100.hpp) that says the same."""
        name = f"{_SHAPES[self.shape].source}{self.repeat}x" + ("_16b" if self.packed else "")
        return name if self.direction == "ld" else name.replace("LOAD", "STORE")

    @property
    def registers(self) -> int:
        """32-bit registers of one thread."""
        per = 1
        for extent, _, _ in _SHAPES[self.shape].registers:
            per *= extent
        return per * self.repeat

    @property
    def lanes(self) -> int:
        """Lanes of one warp that the instruction touches: 32 or 16, from the address's lane on."""
        return _SHAPES[self.shape].lanes

    @property
    def columns(self) -> int:
        """Columns from the first to the last one touched, inclusive; each 32 bits."""
        span = _SHAPES[self.shape].columns * self.repeat * self._column_unit
        return span if self.shape != "16x32bx2" else span + self._split

    @property
    def _column_unit(self) -> int:
        return 2 if self.packed else 1

    @property
    def _split(self) -> int:
        return self.repeat * self._column_unit if self.half_split is None else self.half_split

    def _modes(self) -> tuple[tuple[_Mode, ...], tuple[_Mode, ...]]:
        """Threads and registers, column steps in columns."""
        row, unit = _SHAPES[self.shape], self._column_unit
        threads, registers = ([(n, lane, c * unit) for n, lane, c in modes] for modes in (row.threads, row.registers))
        if self.shape == "16x32bx2":
            threads.append((2, 0, self._split))
        registers.append((self.repeat, 0, row.columns * unit))
        return tuple(threads), tuple(registers)

    def word_map(self) -> Map:
        """(t, r) -> (lane, column): thread of the warp, register; lane from the warp's first.

        >>> print(TmemAtom("ld", "32x32b", 2).word_map())
        lane = t[1] + 2 t[2] + 4 t[4] + 8 t[8] + 16 t[16]
        column = r[1]

        A packed register starts in this column and has its high half in the next one.
        """
        threads, registers = self._modes()
        return _map(("lane", "column"), t=threads, r=registers)

    def value_map(self, bits: int = 32) -> Map:
        """(t, v) -> (lane, bit): thread of the warp, value of `bits` bits, and the bit of the lane where it starts.

        >>> TmemAtom("ld", "32x32b", 2).value_map(16)(t=3, v=3)
        {'lane': 3, 'bit': 48}
        >>> TmemAtom("ld", "32x32b", 2, packed=True).value_map(16)(t=3, v=3)
        {'lane': 3, 'bit': 96}
        """
        threads, registers = self._modes()
        in_bits = [[(n, lane, c * WORD_BITS) for n, lane, c in modes] for modes in (threads, registers)]
        return _map(("lane", "bit"), t=in_bits[0], v=[*self._inside(bits), *in_bits[1]])

    def _inside(self, bits: int) -> list[_Mode]:
        """The values inside one register."""
        if self.packed and bits != 16:
            raise LayoutError(f"{self} moves 16-bit values: {bits}-bit ones cannot be asked of it")
        if bits not in (4, 8, 16, 32):
            raise LayoutError(f"{bits}-bit values do not fill a 32-bit register")
        return [(WORD_BITS // bits, 0, WORD_BITS if self.packed else bits)]

    def steps(self, columns: int) -> int:
        """How many of these cover so many columns; refuses where the last one would reach past them.

        >>> TmemAtom("ld", "32x32b", 16).steps(48)
        3
        >>> TmemAtom("ld", "32x32b", 32).steps(48)
        Traceback (most recent call last):
        layoutlab.errors.LayoutError: tcgen05.ld.32x32b.x32 over 48 columns spans 64: x16 divides them, 3 steps
        """
        if columns % self.columns == 0:
            return columns // self.columns
        spanned = -(-columns // self.columns) * self.columns
        fits = [
            r
            for r in (1 << i for i in range(8))
            if r < self.repeat and columns % (self.columns // self.repeat * r) == 0
        ]
        hint = ""
        if fits:
            count = columns // (self.columns // self.repeat * fits[-1])
            hint = f": x{fits[-1]} divides them, {count} step{'s' if count > 1 else ''}"
        raise LayoutError(f"{self} over {columns} columns spans {spanned}{hint}")

    def tile(self, bits: int = 32) -> tuple[int, int]:
        """(lanes, elements along the columns) of the rectangle from the first to the last element."""
        return self.lanes, self.columns if self.packed else self.columns * (WORD_BITS // bits)

    def tv_layout(self, bits: int = 32) -> Layout:
        """(T32, V) -> lane + lanes * element, the colexicographic index into `tile(bits)`.

        >>> print(TmemAtom("ld", "32x32b", 4).tv_layout())
        (32,4):(1,32)
        >>> print(TmemAtom("ld", "16x256b", 1).tv_layout())
        ((4,8),(2,2)):((32,1),(16,8))
        """
        threads, registers = self._modes()
        columns_an_element = 1 if self.packed else WORD_BITS // bits  # elements in a column
        modes = [
            [(n, lane + self.lanes * c * columns_an_element) for n, lane, c in group] for group in (threads, registers)
        ]
        modes[1].insert(0, (self._inside(bits)[0][0], self.lanes))
        return thread_value(*modes)


def _map(outputs: tuple[str, str], **axes: tuple[_Mode, ...] | list[_Mode]) -> Map:
    return beside(
        *(
            strided_over({axis: [(m[0], m[1 + i]) for m in modes] for axis, modes in axes.items()}, out)
            for i, out in enumerate(outputs)
        )
    )


def check_warp(warp: int, lane: int, lanes: int = WARP_LANES) -> None:
    """Refuses an access of `lanes` lanes from `lane` on by a warp whose quarter of Tensor Memory they do not lie in.

    >>> check_warp(warp=5, lane=32)
    >>> check_warp(warp=2, lane=0)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: warp 2 reaches lanes 64 to 95, not lanes 0 to 31: those are of warps 0, 4, 8, 12

    warp is the warp's index in its block. Source: PTX ISA, "tcgen05.ld", access restrictions.
    """
    first = WARP_LANES * (warp % 4)
    if not first <= lane <= lane + lanes <= first + WARP_LANES:
        quarter = lane // WARP_LANES
        raise LayoutError(
            f"warp {warp} reaches lanes {first} to {first + WARP_LANES - 1}, not lanes {lane} to {lane + lanes - 1}: "
            f"those are of warps {', '.join(str(4 * i + quarter) for i in range(4))}"
        )
