"""Transfers: which lane and bit of Tensor Memory each value of each thread is, as tcgen05.ld and tcgen05.st move them.

A warp reaches the 32 lanes of its quarter. A shape of 16 lanes takes two instructions to cover them, the second 16
lanes further, or one where the tile has 64 rows and so 16 lanes in each quarter. Values count, fastest first: inside a
register, registers, the two halves of the lanes, steps along the columns.

>>> transfer = Transfer(TmemAtom("st", "16x128b", 4), rows=128, elements=64, bits=16)
>>> transfer.places().at(t=33, v=17)                        # warp 1, its lanes 16 on; an odd element
{'lane': 48, 'bit': 48}
>>> print(transfer.owner_layout())
((4,8,4),(2,(2,4),2,2)):((256,1,32),(128,(8,1024),16,4096))

Source: the atoms' tables; the order of halves and steps is that of CuTe's `make_tmem_copy`.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutlab.atoms.tmem import LANES, WARP_LANES, WORD_BITS, TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Modes, Places, strided_places
from layoutlab.int_tuple import Basis, IntTuple
from layoutlab.layout import Layout

_Mode = tuple[int, int, int]  # extent, lane step, step in elements along the lane


@dataclass(frozen=True)
class Transfer:
    """One atom over all of a tile: `rows` lanes of `elements` elements of `bits`, from the tile's own column on.

    A packed atom moves 16-bit elements that stand one to a column. Raises LayoutError for rows that the warps cannot
    share out.
    """

    atom: TmemAtom
    rows: int
    elements: int
    bits: int
    blocks: int = 1
    """Accumulators of so many rows below each other, each loaded by the next four warps."""

    def __post_init__(self) -> None:
        if self.rows > LANES or self.rows % WARP_LANES:
            raise LayoutError(f"{self.rows} rows are no whole number of warps' {WARP_LANES} lanes, at most {LANES}")
        if self.atom.lanes < WARP_LANES and self.rows not in (64, LANES):
            raise LayoutError(f"{self.atom} reaches 16 lanes of every warp: {self.rows} rows are no tile of 64 or 128")
        self.atom.tv_layout(self.bits)  # refuses elements that fill no register

    @property
    def element_bits(self) -> int:
        """From one element of a lane to the next."""
        return WORD_BITS if self.atom.packed else self.bits

    @property
    def columns(self) -> int:
        """Columns of the tile, the last one perhaps not full."""
        return -(-self.elements * self.element_bits // WORD_BITS)

    @property
    def steps(self) -> int:
        """Instructions along the columns; the last one may reach past the tile."""
        return -(-self.columns // self.atom.columns)

    @property
    def threads(self) -> int:
        """Threads that take part."""
        return WARP_LANES * self._warps

    @property
    def fault(self) -> str | None:
        """Why the steps do not cover the columns exactly; None where they do."""
        try:
            self.atom.steps(self.columns)
        except LayoutError as error:
            return str(error)
        return None

    @property
    def _warps(self) -> int:
        return self.rows // WARP_LANES if self.atom.lanes == WARP_LANES else 4

    def _modes(self) -> tuple[list[list[_Mode]], list[list[_Mode]]]:
        """Threads and values, each a list of groups."""
        atom, tv = self.atom, self.atom.tv_layout(self.bits)
        lane_of_warp = self.rows // self._warps if self.atom.lanes < WARP_LANES else WARP_LANES
        threads, values = ([(e, s % atom.lanes, s // atom.lanes) for e, s in part.leaves()] for part in tv)
        inside, registers = ([], values) if self.bits == WORD_BITS else (values[:1], values[1:])
        halves = [(2, atom.lanes, 0)] if lane_of_warp == 2 * atom.lanes else []
        steps = [(self.steps, 0, atom.columns * WORD_BITS // self.element_bits)]
        below = [(self.blocks, self.rows, 0)] if self.blocks != 1 else []
        return [[*threads, (self._warps, lane_of_warp, 0), *below]], [inside, registers, halves, steps]

    def places(self) -> Places:
        """(t, v) -> lane and bit of the lane, from the tile's first column on."""
        lane_of_row = WARP_LANES // (self.rows // self._warps) if self.atom.lanes < WARP_LANES else 1
        threads, values = ([m for group in groups for m in group] for groups in self._modes())
        if self.blocks != 1:
            raise LayoutError(f"{self.blocks} accumulators lie in columns of their own: take each one's places")
        *inner, (warps, row, _) = threads
        lanes = [*inner, (warps, row * lane_of_row, 0)]
        along = self.element_bits
        return _strided(lanes, values, 1, "lane").beside(_strided(lanes, values, 2, "bit", along))

    def owner(self, row: str, column: str) -> Places:
        """(t, v) -> row of the tile and element along it."""
        threads, values = ([m for group in groups for m in group] for groups in self._modes())
        return _strided(threads, values, 1, row).beside(_strided(threads, values, 2, column))

    def owner_layout(self) -> Layout:
        """(T, V) -> row + rows * element, with a mode for each group."""
        rows = self.rows * self.blocks

        def flat(lane: int, along: int) -> int | Basis:
            if isinstance(rows, int) and isinstance(self.elements, int):
                return lane + rows * along
            return Basis(along, (1,)) if along else Basis(lane, (0,))

        groups = [
            [[(e, flat(lane, along)) for e, lane, along in group if e != 1] for group in part] for part in self._modes()
        ]
        shape, stride = (tuple(_nested(part, i) for part in groups) for i in (0, 1))
        return Layout(shape, stride)


def _strided(threads: list[_Mode], values: list[_Mode], which: int, out: str, unit: int = 1) -> Places:
    modes: dict[str, Modes] = {
        axis: [(mode[0], mode[which] * unit) for mode in group] for axis, group in (("t", threads), ("v", values))
    }
    return strided_places(modes, out)


def _nested(groups: list[list[tuple[int, int | Basis]]], which: int) -> IntTuple:
    """Extents or strides: a group of one mode is not nested, and neither is a list of one group."""
    parts = [tuple(mode[which] for mode in group) for group in groups if group]
    flat: list[IntTuple] = [part[0] if len(part) == 1 else part for part in parts]
    return flat[0] if len(flat) == 1 else tuple(flat) if flat else (1, 0)[which]
