"""Tensor Memory's ends: tcgen05.ld as an owner and as a reader, tcgen05.st and tcgen05.mma as writers.

>>> from layoutlab.handoff import tmem
>>> P = Tile("P", m=128, k=128, bits=16)
>>> owner = tcgen05_ld("32x32b.x32").over(P)
>>> print(owner)
((32,4),(32,4)):((1,32),(128,4096))
>>> tmem_store(owner, tmem(over=P, column=32), "32x32b.x32").write.at(t=3, v=5)
{'lane': 3, 'bit': 1104}

Where an instruction puts or takes its registers is the instruction's own map, not the storage's: so a store that is no
pair of its load is found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from layoutlab.atoms.tmem import COLUMNS, WARP_LANES, WORD_BITS, TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.places import strided_places
from layoutlab.handoff.reader import Reader, umma_d
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.storage import Tmem
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.tmem_transfer import Transfer
from layoutlab.handoff.writer import Owner, Writer, owned
from layoutlab.layout import Layout
from layoutlab.symbol import at_most


@dataclass(frozen=True)
class TmemLoad:
    """A tcgen05.ld, to be laid over a tile."""

    atom: TmemAtom

    def over(self, tile: Tile, *, first_warp: int = 0, blocks: int = 1) -> Owner:
        """The element that each thread's value is: accumulator row = lane, one 32-bit column an element along k.

        `first_warp` is the warp of the block that thread 0 of the map is in; its threads own rows from 0 on all the
        same. `blocks` is how many accumulators the tile's rows are, one below the other: each has a warpgroup of its
        own.
        """
        if len(tile.extents) != 2:
            raise LayoutError(f"{self.atom} loads rows and columns: tile {tile} has {len(tile.extents)} coordinates")
        if self.atom.direction != "ld":
            raise LayoutError(f"{self.atom} stores: an owner is given by a load")
        (m, rows), (k, columns) = tile.extents.items()
        bits = 16 if self.atom.packed else WORD_BITS
        if rows % blocks:
            raise LayoutError(f"{tile} has {rows} rows, which are not {blocks} accumulators of as many each")
        transfer = Transfer(self.atom, rows // blocks, columns, bits, blocks)
        warp = f", first_warp={first_warp}" if first_warp else ""
        warp += f", blocks={blocks}" if blocks != 1 else ""
        code = f'll.tcgen05_ld("{_short(self.atom)}").over({tile.name}{warp})'
        rules = lambda: _load_rules(tile, transfer, first_warp)  # noqa: E731
        source = f"modelled: {self.atom}, {_lanes_of_rows(transfer)}"
        places, layout = transfer.owner(m, k), transfer.owner_layout()
        return Owner(tile, places, layout, source, code, first_warp * 32, rules, load=self.atom)

    def takes(self, tile: Tile, *, column: int, first_warp: int = 0, as_if: Owner | None = None) -> Reader:
        """The load as a reader of an accumulator from `column` on, by threads that take each value for an element.

        >>> S = Tile("S", m=128, n=128, bits=32)
        >>> tcgen05_ld("32x32b.x32").takes(S, column=128).read.at(m=33, n=5)
        {'lane': 33, 'bit': 4256}

        `as_if` is what the code believes that its registers hold; by default what they do hold. Raises LayoutError
        for another number of threads or values.
        """
        rows, columns = tile.shape
        transfer = Transfer(self.atom, rows, columns, tile.bits)
        owner = as_if or self.over(tile, first_warp=first_warp)
        places = transfer.places().shifted("bit", column * WORD_BITS)
        if places.axes != owner.places.axes:
            mine, theirs = ((axes["t"], axes["v"]) for axes in (places.axes, owner.places.axes))
            raise LayoutError(
                f"{self.atom} loads {mine[1]} values into {mine[0]} threads, not {theirs[1]} into {theirs[0]}"
            )
        read = places.after(inverse(owner.places))
        text = f"{self.atom} from column {column} on, as {owner}"
        code = f'll.tcgen05_ld("{_short(self.atom)}").takes({tile.name}, column={column})'
        rules = lambda: _load_rules(tile, transfer, first_warp, column)  # noqa: E731
        given = {"tile": tile, "column": column, "first_warp": first_warp, "as_if": as_if}
        how: dict[str, Any] = {"make": self.takes, "given": given, "owner": owner}
        return Reader(tile, read, "the load", text, f"modelled: {self.atom}", code, "tmem", rules, **how)


def tcgen05_ld(name: str | TmemAtom) -> TmemLoad:
    """A load from Tensor Memory, by the name that PTX gives it: "32x32b.x32"."""
    return TmemLoad(name if isinstance(name, TmemAtom) else TmemAtom.parse(name))


def _lanes_of_rows(transfer: Transfer) -> str:
    """Where the load takes the rows to be: in a lane each, or in 16 of a warp's 32 lanes."""
    spread = transfer.rows == 64 and transfer.atom.lanes < WARP_LANES
    return "16 rows in each warp's 32 lanes" if spread else "row = lane"


def _load_rules(tile: Tile, transfer: Transfer, first_warp: int, column: int = 0) -> list[Rule]:
    whole = Rule("the columns of a load divide the tile's", transfer.fault)
    room = _room_rule(tile, transfer, column)
    return [whole, room, _datapath_rule(transfer), _lanes_rule(transfer, first_warp)]


def _room_rule(tile: Tile, transfer: Transfer, column: int) -> Rule:
    """All accumulators lie in Tensor Memory, each in columns of its own."""
    asked, columns = f"Tensor Memory has {COLUMNS} columns", transfer.columns * transfer.blocks
    fault = None
    if not column >= 0 or not at_most(column + columns, COLUMNS, asked):
        behind = f" from column {column} on" if column else ""
        each = f" in {transfer.blocks} accumulators" if transfer.blocks != 1 else ""
        fault = f"{tile} takes {columns} columns{each}{behind}, and {asked}"
    return Rule(asked, fault)


def _datapath_rule(transfer: Transfer) -> Rule:
    """M 64 of one CTA puts 16 rows in each warp's 32 lanes."""
    fault = None
    if transfer.rows == 64 and transfer.atom.lanes == WARP_LANES:
        fault = (
            f"{transfer.atom} takes 32 lanes of a warp for rows, and an accumulator of 64 rows lies in the first 16 of "
            f"each: take a shape of 16 lanes"
        )
    return Rule("the load's lanes are the accumulator's", fault)


def _lanes_rule(transfer: Transfer, first_warp: int) -> Rule:
    """Warp w of the block reaches lanes 32 (w % 4) on; the map gives warp j of its own the lanes 32 j on."""
    fault = None
    each = transfer.rows * WARP_LANES // transfer.threads
    for j in range(transfer.threads // WARP_LANES):
        warp, lane = first_warp + j, WARP_LANES * j
        first = WARP_LANES * (warp % 4)
        if first != lane:
            fault = (
                f"warp {warp} (threads {32 * warp} to {32 * warp + 31}) takes rows {each * j} to {each * j + each - 1},"
                f" which lie in TMEM lanes {lane} to {lane + 31}, but it may touch lanes {first} to {first + 31} only "
                f"(32 * (warp % 4) on); "
                f"let rows begin in a warp whose number is a multiple of 4"
            )
            break
    return Rule("each warp loads from the TMEM lanes that it may touch", fault)


def _short(atom: TmemAtom) -> str:
    """The name without tcgen05.ld or tcgen05.st before it."""
    return str(atom).split(".", 2)[2]


def tmem_store(owner: Any, storage: Tmem, atom: str | TmemAtom) -> Writer:
    """A writer by tcgen05.st: registers, filled with the owner's values in order, go where the instruction puts them.

    >>> P = Tile("P", m=128, k=128, bits=16)
    >>> from layoutlab.handoff import tmem
    >>> writer = tmem_store(tcgen05_ld("32x32b.x32").over(P), tmem(over=P, column=32), "32x32b.x32")
    >>> writer.write.at(t=33, v=5)                                          # lane 33, column 34, high half
    {'lane': 33, 'bit': 1104}

    The places come from the instruction alone, not from the storage's coordinates: so atoms that are no pair are
    found out. Units: lane, and bit of the lane (32 to a column). Raises LayoutError where the registers are not as many
    as the instructions take.
    """
    who = owner if isinstance(owner, Owner) else owned(owner, storage.tile)
    if not isinstance(storage, Tmem) or who.tile != storage.tile:
        raise LayoutError(f"tcgen05.st of {who.tile} writes to its columns of Tensor Memory, not to {storage.name}")
    op = atom if isinstance(atom, TmemAtom) else TmemAtom.parse(atom, "st")
    if op.direction != "st":
        raise LayoutError(f"{op} loads: a store is tcgen05.st")
    rows, elements = storage.tile.shape
    transfer = Transfer(op, rows, elements, storage.tile.bits)
    if transfer.fault:
        raise LayoutError(transfer.fault)
    places = transfer.places()
    if places.axes != who.places.axes:
        mine, theirs = ((axes["t"], axes["v"]) for axes in (places.axes, who.places.axes))
        raise LayoutError(
            f"{op} stores {mine[1]} values of {mine[0]} threads, the owner has {theirs[1]} of {theirs[0]} threads"
        )
    base = storage.column * WORD_BITS
    write = places if not base else places.shifted("bit", base)
    code = f'll.tmem_store(owner, {storage.name}, "{_short(op)}")'
    how: dict[str, Any] = {"make": tmem_store, "given": {"owner": who, "storage": storage, "atom": op}}
    return Writer(
        who, storage, write, WORD_BITS, f"by {op}", code, source=f"modelled: {op}", space=storage.space, **how
    )


def umma_out(storage: Tmem) -> Writer:
    """A writer by tcgen05.mma: its accumulator D, rows to lanes, 32 bits to a column.

    >>> from layoutlab.handoff import tmem
    >>> umma_out(tmem(over=Tile("S", m=64, n=32, bits=32), column=128)).write.at(t=17, v=3)
    {'lane': 33, 'bit': 4192}

    Its (t, v) are the row and the column of the element. Raises LayoutError for shapes that D does not have.
    """
    reads = umma_d(storage.tile, column=storage.column)
    (m, rows), (n, columns) = storage.tile.extents.items()
    places = strided_places({"t": [(rows, 1)]}, m).beside(strided_places({"v": [(columns, 1)]}, n))
    layout = Layout((rows, columns), (1, rows))
    source = "modelled: tcgen05.mma accumulator D"
    owner = Owner(storage.tile, places, layout, source, "", rules=reads.rules, who="D")
    code = f"ll.umma_out({storage.name})"
    how: dict[str, Any] = {"unit": "the MMA", "make": umma_out, "given": {"storage": storage}}
    return Writer(owner, storage, reads.read.after(places), WORD_BITS, reads.text, code, source, "tmem", **how)
