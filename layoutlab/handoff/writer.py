"""Writers: which thread and value holds which element, and where the store puts it.

>>> from layoutlab.handoff.tile import Tile
>>> P = Tile("P", m=128, k=128, bits=16)
>>> owner = owned("((32,4),(32,4)):((1,32),(128,4096))", P)
>>> owner.places.at(t=33, v=5)
{'m': 33, 'k': 5}

An owner's thread-value layout goes, as CuTe prints it, to the flat coordinate of the tile: (T128,V128) -> m + 128 k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from layoutlab.algebra import composition
from layoutlab.atoms.mma import wgmma
from layoutlab.atoms.tmem import LANES, WARP_LANES, WORD_BITS, TmemAtom
from layoutlab.digits import ONE
from layoutlab.errors import LayoutError
from layoutlab.handoff.notation import is_copy, read_copy, read_layout
from layoutlab.handoff.places import Places, strided_places
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.storage import Smem, Tmem
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.verdict import Location
from layoutlab.int_tuple import Basis
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout
from layoutlab.symbol import at_most

WGMMA_ROWS = 64
STORE_BITS = (8, 16, 32, 64, 128)
BLOCK_THREADS = 1024


class Storage(Protocol):
    """Where a writer's elements lie: a buffer of shared memory, columns, registers, global memory."""

    @property
    def tile(self) -> Tile: ...
    @property
    def name(self) -> str: ...
    @property
    def space(self) -> str: ...
    @property
    def cells(self) -> range: ...
    @property
    def ends(self) -> tuple[int, int]: ...
    @property
    def code(self) -> str: ...
    def rules(self) -> list[Rule]: ...
    def spoken(self) -> str: ...


def _no_rules() -> list[Rule]:
    return []


@dataclass(frozen=True, eq=False)
class Owner:
    """Who holds which element: `places` goes (t, v) -> coordinates; t counts from `first_thread` of the block.

    `layout` says the same as CuTe does: (T, V) -> flat coordinate of the tile, or coordinates where its strides are
    bases.
    """

    tile: Tile
    places: Places
    layout: Layout
    source: str
    code: str
    first_thread: int = 0
    rules: Callable[[], list[Rule]] = field(default=_no_rules, repr=False)
    who: str = "T{t} V{v}"
    """How one (t, v) is called: a thread's value, or what a unit without threads moves."""
    load: TmemAtom | None = None
    """The tcgen05.ld that left the values, where one did."""

    def named(self, index: Mapping[str, int]) -> str:
        """T1 V0."""
        return self.who.format(t=index["t"] + self.first_thread, v=index["v"])

    @property
    def threaded(self) -> bool:
        """Whether t counts threads."""
        return self.who == "T{t} V{v}"

    def __str__(self) -> str:
        return str(self.layout)


@dataclass(frozen=True)
class WgmmaAccumulator:
    """The C fragments of warpgroups below each other, to be laid over a tile."""

    ab: str

    def over(self, tile: Tile) -> Owner:
        """The element that each thread's accumulator register is: 64 rows a warpgroup, n along the second axis."""
        if len(tile.extents) != 2:
            raise LayoutError(f"wgmma accumulates rows and columns: tile {tile} has {len(tile.extents)} coordinates")
        rows, columns = tile.shape
        if rows % WGMMA_ROWS:
            raise LayoutError(f"{tile}: {rows} rows are no whole number of warpgroups' {WGMMA_ROWS}")
        atom = wgmma(columns, self.ab, "f32")
        one = composition(Layout((WGMMA_ROWS, columns), tile.strides), atom.c)  # (T128,V) -> m + rows n
        groups = Layout(rows // WGMMA_ROWS, WGMMA_ROWS * tile.strides[0])
        layout = make_layout(make_layout(*one[0], groups), one[1]) if rows != WGMMA_ROWS else one
        code = f'll.wgmma_c("{self.ab}").over({tile.name})'
        return Owner(tile, owner_places(layout, tile), layout, f"modelled: accumulator of {atom}", code)


def wgmma_c(ab: str) -> WgmmaAccumulator:
    """The accumulator of a wgmma of this A and B type, as its threads hold it in registers.

    >>> print(wgmma_c("bf16").over(Tile("P", m=128, k=64, bits=16)))
    ((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))

    Source: `layoutlab.atoms.mma`.
    """
    return WgmmaAccumulator(ab)


def owned(layout: Any, tile: Tile, *, first_thread: int = 0) -> Owner:
    """An owner map from a thread-value layout: (T, V) -> flat coordinate of the tile, or -> coordinates by bases.

    >>> owned("(128,64):(1,128)", Tile("P", m=128, k=64, bits=16)).places.at(t=3, v=5)
    {'m': 3, 'k': 5}

    Takes a layout of two modes, the text of one, or a live DSL object. Raises LayoutError for anything else.
    """
    if is_copy(layout):
        raise LayoutError(
            f"owner of {tile.name}: this is a tiled copy, which says where a store puts values, not who holds them: "
            f"give it as through=, store(tcgen05_ld(...).over({tile.name}), s{tile.name}, bits=..., through=copy)"
        )
    value = read_layout(layout, f"owner of {tile.name}")
    if isinstance(value, ComposedLayout) or value.rank() != 2:
        raise LayoutError(f"owner of {tile.name}: {value} is no (thread, value) layout of two modes")
    thread = f", first_thread={first_thread}" if first_thread else ""
    code = f'll.owned("{value}", {tile.name}{thread})'
    return Owner(tile, owner_places(value, tile), value, "declared", code, first_thread)


def owner_places(value: Layout, tile: Tile) -> Places:
    if not value.coordinate_valued():
        return tile.unravel().after(tv_places(value, "flat"))
    names, parts = list(tile.extents), list[Places]()
    for i, name in enumerate(names):
        modes = {
            axis: [(e, _share_of(d, i, len(names), value)) for e, d in part.leaves()]
            for axis, part in zip(("t", "v"), value, strict=True)
        }
        parts.append(strided_places(modes, name))
    first, *more = parts
    for part in more:
        first = first.beside(part)
    return first


def _share_of(stride: Any, coordinate: int, count: int, layout: Layout) -> int:
    """What a coordinate-valued stride adds to one coordinate."""
    if not isinstance(stride, Basis):
        if stride == 0:
            return 0
        raise LayoutError(f"{layout} mixes numbers and coordinates in its strides")
    if len(stride.path) != 1 or stride.path[0] >= count or not isinstance(stride.value, int):
        raise LayoutError(f"{layout} has the stride {stride}, which is no coordinate of a tile of {count}")
    return stride.value if stride.path[0] == coordinate else 0


def tv_places(layout: Layout, out: str) -> Places:
    """A (thread, value) layout as (t, v) -> one output."""
    if layout.rank() != 2 or layout.unknown() or layout.coordinate_valued():
        raise LayoutError(f"{layout} is no (thread, value) layout of known integer strides")
    return strided_places({axis: part.leaves() for axis, part in zip(("t", "v"), layout, strict=True)}, out)


@dataclass(frozen=True, eq=False)
class Writer:
    """`owner` says which element (t, v) holds, `write` where the store puts it, `bits` how wide one store is."""

    owner: Owner
    storage: Storage
    write: Places
    bits: int
    route: str  # how the store finds its places
    code: str
    source: str = "modelled"
    space: str = "smem"
    unit: str = ""
    """The unit that writes whole boxes or tiles; by default threads do, by stores of `bits`."""
    zeros: int = 0
    """Elements that receive zeros, since they lie outside of a TMA load's tensor."""
    rows: Places | None = None
    """Of stmatrix: (t, instruction) -> the bit that a lane points at."""
    through: Places | None = None
    """Of a store through coordinates: (t, v) -> the coordinates that it writes to."""
    make: Callable[..., Writer] | None = field(default=None, repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What made the writer and by which arguments, where a cure may change one of them."""

    def again(self, **changes: Any) -> Writer:
        """The writer made anew with other arguments; raises what its maker raises."""
        if self.make is None:
            raise LayoutError(f"{self.spoken()} cannot be made anew")
        return self.make(**{**self.given, **changes})

    @property
    def tile(self) -> Tile:
        return self.owner.tile

    def spoken(self) -> str:
        """What writes, and how it finds its places."""
        return f"{self.unit}: {self.route}" if self.unit else f"{self.bits}-bit stores {self.route}"

    def rules(self) -> list[Rule]:
        """What loads, stores and buffer ask for."""
        block = [self._block_rule()] if self.owner.threaded else []
        if self.unit:
            return [*self.owner.rules(), *block, *self.storage.rules()]
        lanes = [self._lane_rule()] if self.space == "tmem" else []
        return [*self.owner.rules(), *block, *self.storage.rules(), self.vector_rule(), *lanes]

    def _block_rule(self) -> Rule:
        """The threads that hold elements are one block's."""
        asked, end = f"a block has up to {BLOCK_THREADS} threads", self.owner.first_thread + self.owner.places.axes["t"]
        return Rule(asked, None if at_most(end, BLOCK_THREADS, asked) else f"{end} threads hold elements, and {asked}")

    def _lane_rule(self) -> Rule:
        """A warp stores to its own quarter of the lanes."""
        from layoutlab.arbiter import first_where

        first_thread = self.owner.first_thread

        def wrong(t: Any, v: Any) -> Any:
            return self.write.at(t=t, v=v)["lane"] // WARP_LANES != (t + first_thread) // WARP_LANES % 4

        fault = None
        found = None if self._own_lanes() else first_where(self.write.axes, wrong)[0]
        if found is not None:
            thread = found["t"] + first_thread
            lane, warp = self.write.at(**found)["lane"], thread // WARP_LANES
            mine = WARP_LANES * (warp % 4)
            fault = (
                f"T{thread} V{found['v']} of warp {warp} stores to TMEM lane {lane}, "
                f"but the warp may touch lanes {mine} to {mine + WARP_LANES - 1} only (32 * (warp % 4) on)"
            )
        return Rule("each warp stores to the TMEM lanes that it may touch", fault)

    def _own_lanes(self) -> bool:
        """Whether the table says so: threads of a warp stay inside of 32 lanes, warps step by 32 from the first on."""
        try:
            row = self.write.table.refined("t", [WARP_LANES]).rows["lane"]
        except LayoutError:
            return False
        high = {term: step for term, step in row.items() if any(d[0] == "t" and d[1] >= WARP_LANES for d in term)}
        low = sum(abs(step) * (next(iter(t))[2] - 1) for t, step in row.items() if t and t not in high)
        steps = all(len(t) == 1 and step == next(iter(t))[1] for t, step in high.items())
        whole = sum((next(iter(t))[2] - 1) * step for t, step in high.items()) == self.write.axes["t"] - WARP_LANES
        return steps and whole and low < WARP_LANES and not row.get(ONE) and self.owner.first_thread % LANES == 0

    def vector_rule(self) -> Rule:
        """A store of several elements moves neighbours to one aligned place."""
        bits, width = self.tile.bits, self.bits
        asked = f"a {width}-bit store writes neighbouring elements to an aligned place"
        count = width // bits
        if self.space == "tmem" and width % WORD_BITS:
            return Rule(asked, f"a store to Tensor Memory writes whole columns of 32 bits, not {width} bits")
        if self.space != "tmem" and width < bits and width in STORE_BITS:
            return Rule(asked, f"a {width}-bit store moves no whole element of {bits} bits")
        if width % bits or (width not in STORE_BITS and self.space != "tmem"):
            return Rule(asked, f"no store moves {width} bits of {bits}-bit elements: 8, 16, 32, 64 or 128 bits do")
        values = self.write.axes["v"]
        if values % count:
            return Rule(asked, f"a thread has {values} values, which {count} at a time do not divide")
        return Rule(asked, self._scattered(count))

    def _scattered(self, count: int) -> str | None:
        if count == 1 or self._neighbours(count):
            return None
        from layoutlab.arbiter import first_where

        def wrong(t: Any, v: Any) -> Any:
            first, place = v // count * count, self.write.at(t=t, v=v)
            start = self.write.at(t=t, v=first)
            apart = start["bit"] % self.bits + abs(place["bit"] - start["bit"] - (v - first) * self.tile.bits)
            return apart + sum(abs(place[out] - start[out]) for out in place if out != "bit") != 0

        found, _ = first_where(self.write.axes, wrong)
        if found is None:
            return None
        t, v = found["t"], found["v"]
        first = v // count * count
        here, start = (Location(self.space, self.write.at(t=t, v=x)) for x in (v, first))
        moves = f"a {self.bits}-bit store of T{t + self.owner.first_thread} would move V{first} to V{first + count - 1}"
        if start.outputs["bit"] % self.bits:
            return f"{moves} to {start}, {_unaligned(start.outputs['bit'], self.bits)}"
        return f"{moves} together, but V{first} belongs at {start} and V{v} at {here}"

    def _neighbours(self, count: int) -> bool:
        """Whether the table says so: the lowest values step by one element, everything else by whole stores."""
        write, swizzle = self.write, self.write.swizzle
        if write.before and swizzle and (1 << swizzle.base) % self.bits == 0:
            write = write.before.moved(write.plus)  # the swizzle moves whole stores
        try:
            rows = write.table.refined("v", [count]).rows
        except LayoutError:
            return False
        row = rows["bit"]
        if any(d[0] == "v" and d[1] < count for out in rows if out != "bit" for term in rows[out] for d in term):
            return False
        for term, step in row.items():
            low = [d for d in term if d[0] == "v" and d[1] < count]
            if low and (len(term) > 1 or step != low[0][1] * self.tile.bits):
                return False
            if not low and step % self.bits:
                return False
        return sum(1 for t in row if len(t) == 1 for d in t if d[0] == "v" and d[1] < count) == count.bit_length() - 1


def _unaligned(bit: int, width: int) -> str:
    """Of which number, in bytes where it is whole bytes, the place of a store is no multiple."""
    if bit % 8 or width % 8:
        return f"and bit {bit} is not a multiple of {width}"
    return f"and byte {bit // 8} is not a multiple of {width // 8}"


def store(owner: Any, storage: Smem | Tmem, *, bits: int, through: Any = None, offsets: Any = None) -> Writer:
    """A writer: each thread stores the elements that it owns, `bits` at a time.

    >>> P = Tile("P", m=128, k=64, bits=16)
    >>> from layoutlab.handoff.storage import smem
    >>> writer = store("((32,4),64):((1,32),128)", smem("(128,64):(64,1)", over=P), bits=16)
    >>> writer.write.at(t=1, v=0)
    {'bit': 1024}

    By default an element goes where the storage has its coordinate. A copy whose own thread-value layout decides goes
    by `through`, (T, V) -> flat coordinate of the tile, or by `offsets`, (T, V) -> element offset in memory before the
    swizzle. Both take a layout, its text, or a live DSL object, `through` a tiled copy too; `owner` takes what `owned`
    takes.
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or bits < 1:
        raise LayoutError(f"bits={bits!r}: a store's width is a number of bits, {_listed_bits()}")
    who = owner if isinstance(owner, Owner) else owned(owner, storage.tile)
    if who.tile != storage.tile:
        raise LayoutError(f"the owner holds tile {who.tile} and the storage has {storage.tile}")
    if through is not None and offsets is not None:
        raise LayoutError("a store goes through a tile's coordinates or by memory offsets, not both")
    given = {"owner": who, "storage": storage, "bits": bits, "through": through, "offsets": offsets}
    how: dict[str, Any] = {"make": store, "given": given}
    way = "" if offsets is through is None else f", {'offsets' if through is None else 'through'}"
    if way:
        layout = _plain_tv(through if offsets is None else offsets, way[2:], who)
        way += f'="{layout}"'
        given["offsets" if through is None else "through"] = layout
    code = f"ll.store(owner, {storage.name}, bits={bits}{way})"
    if offsets is not None:
        if not isinstance(storage, Smem):
            raise LayoutError(f"{storage.name} lies in Tensor Memory, which element offsets do not address")
        write = storage.locate(tv_places(layout, "element"))
        return Writer(who, storage, write, bits, f"at element offsets {layout}", code, **how)
    if through is not None:
        at = owner_places(layout, storage.tile)
        how["space"] = storage.space
        write, route = storage.places.after(at), f"at coordinates {layout}"
        return Writer(who, storage, write, bits, route, code, through=at, **how)
    write = storage.places.after(who.places)
    return Writer(who, storage, write, bits, "at the owner's coordinates", code, space=storage.space, **how)


def _listed_bits() -> str:
    return ", ".join(map(str, STORE_BITS[:-1])) + f" or {STORE_BITS[-1]}"


def _plain_tv(value: Any, what: str, owner: Owner) -> Layout:
    if what == "through" and (copy := read_copy(value)):
        from layoutlab.handoff.copies import copy_coordinates

        return copy_coordinates(copy, owner.tile, owner.places.axes["t"], owner.places.axes["v"])
    layout = read_layout(value, what)
    if isinstance(layout, ComposedLayout) or layout.rank() != 2:
        raise LayoutError(f"{what}: {layout} is no (thread, value) layout of two modes")
    sizes = (layout[0].size(), layout[1].size())
    if sizes != (owner.places.axes["t"], owner.places.axes["v"]):
        raise LayoutError(
            f"{what}: {layout} has {sizes[0]} threads of {sizes[1]} values, "
            f"the owner {owner.places.axes['t']} of {owner.places.axes['v']}"
        )
    return layout
