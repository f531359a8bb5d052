"""Accesses: the shared-memory instructions that a handoff makes a warp issue, as the cost model counts them.

>>> from layoutlab.handoff import Handoff, Tile, smem, store
>>> P = Tile("P", m=128, k=64, bits=16)
>>> sP = smem("S<3,4,3> o 0 o (128,64):(64,1)", over=P)
>>> found = accesses_of(Handoff(P, writer=store("(128,64):(1,128)", sP, bits=128), reader=sP.layout))
>>> [(group.name, len(group.of_warp(0)), group.of_warp(0)[0].swizzled(group.swizzle)) for group in found]
[('store', 8, 4)]
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutlab.cost import LANES, Access, Op
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.places import Places
from layoutlab.handoff.writer import Writer
from layoutlab.swizzle import Swizzle

NO_SWIZZLE = Swizzle(0, 4, 3, unit_bits=8)


@dataclass(frozen=True)
class Group:
    """One kind of instruction of all warps: addresses before the swizzle, by (t, instruction)."""

    name: str
    op: Op
    width: int  # bytes a lane
    warps: int
    instructions: int
    at: Places  # (t, v) -> bit, before the swizzle; v counts `step` an instruction
    step: int
    swizzle: Swizzle  # of bytes
    lanes: int = LANES  # that give an address; the others of a warp do nothing

    def of_warp(self, warp: int) -> list[Access]:
        """The warp's instructions, in the order of its values."""
        return [
            Access(
                (*(self._byte(self.lanes * warp + lane, self.step * i) for lane in range(self.lanes)), *off),
                self.width,
                self.op,
            )
            for off in [(None,) * (LANES - self.lanes)]
            for i in range(self.instructions)
        ]

    def _byte(self, t: int, v: int) -> int:
        bit = int(self.at.at(t=t, v=v)["bit"])
        if bit % 8:
            raise LayoutError(f"T{t} V{v} is at bit {bit}, inside of a byte: no load or store moves that")
        return bit // 8


def accesses_of(h: Handoff, bits: int | None = None) -> list[Group]:
    """The stores of the writer, by `bits` or as they are declared, and ldmatrix where the reader is one.

    Units without threads (TMA, tcgen05.mma) have none: their own banks are not known to conflict.
    """
    groups, writer, reader = list[Group](), h.writer, h.reader
    if writer.rows is not None:
        groups.append(stored_matrices(writer))
    elif writer.space == "smem" and not writer.unit:
        groups.append(_stores(h, bits or writer.bits))
    if reader.rows is not None:
        groups.append(_matrices("ldmatrix", reader.op, reader.rows))
    return groups


def stored_matrices(writer: Writer) -> Group:
    """The stmatrix instructions of a writer."""
    if writer.rows is None:
        raise LayoutError(f"{writer.spoken()} is no stmatrix")
    return _matrices("stmatrix", writer.unit.replace(".trans", ""), writer.rows)


def _stores(h: Handoff, bits: int) -> Group:
    axes, element = h.writer.write.axes, h.tile.bits
    count = bits // element
    if bits % 8 or not count or axes["t"] % LANES:
        raise LayoutError(f"warps of 32 threads store whole bytes, not {bits} bits each of {axes['t']} threads")
    plain, swizzle = _unswizzled(h.writer.write)
    return Group("store", "store", bits // 8, axes["t"] // LANES, axes["v"] // count, plain, count, swizzle)


def _matrices(name: str, op: str, rows: Places) -> Group:
    plain, swizzle = _unswizzled(rows)
    warps = rows.axes["t"] // LANES
    return Group(name, op, 16, warps, rows.axes["v"], plain, 1, swizzle)  # type: ignore[arg-type]


def _unswizzled(places: Places) -> tuple[Places, Swizzle]:
    """The function before its swizzle of addresses, and the swizzle in bytes."""
    if places.before is None or places.swizzle is None or not places.swizzle.bits or places.plus:
        return places, NO_SWIZZLE
    return places.before, places.swizzle.counted_in(8)
