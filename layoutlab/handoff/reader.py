"""Readers: where the reading instruction takes each element from, by its own rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layoutlab.atoms.datapath import accumulator, operand_a
from layoutlab.atoms.descriptors import FIELD_LIMIT, Major, SmemDescriptor, pattern_of
from layoutlab.atoms.operand import K_BYTES, k_per_instruction, linear_operand_map
from layoutlab.atoms.tmem import WORD_BITS
from layoutlab.digits import Map
from layoutlab.errors import LayoutError
from layoutlab.handoff.places import Places
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.starts import Starts, count_of, starts_of
from layoutlab.handoff.storage import Smem, smem
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.verdict import Location
from layoutlab.layout import Layout
from layoutlab.swizzle import Swizzle
from layoutlab.symbol import Sym, at_most


def _no_rules() -> list[Rule]:
    return []


@dataclass(frozen=True, eq=False)
class Reader:
    """`read` goes coordinates -> location; `who` reads, `text` and `source` say by what."""

    tile: Tile
    read: Places
    who: str
    text: str
    source: str
    code: str
    space: str = "smem"
    rules: Callable[[], list[Rule]] = field(default=_no_rules, repr=False)
    rows: Places | None = None
    """Of ldmatrix: (t, instruction) -> the bit that a lane points at."""
    op: str = ""
    """Of ldmatrix: its name, `ldmatrix.x4`."""
    owner: Any = None
    """Of a load: the `Owner` that says whose register each element is in afterwards."""
    make: Callable[..., Reader] | None = field(default=None, repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What made the reader and by which arguments, where a cure may change one of them."""

    def again(self, **changes: Any) -> Reader:
        """The reader made anew with other arguments; raises what its maker raises."""
        if self.make is None:
            raise LayoutError(f"{self.who} cannot be made anew: {self.source}")
        return self.make(**{**self.given, **changes})

    def location(self, outputs: dict[str, int]) -> Location:
        return Location(self.space, outputs)


def declared(layout: Any, tile: Tile, **options: Any) -> Reader:
    """A reader given as a bare layout: believed, and reported as not derived from a descriptor.

    >>> declared("(128,64):(64,1)", Tile("P", m=128, k=64, bits=16)).read.at(m=1, k=0)
    {'bit': 1024}

    Takes what `smem` takes.
    """
    storage = layout if isinstance(layout, Smem) else smem(layout, over=tile, **options)
    source = "declared, not derived from a descriptor"
    code = f"ll.declared({storage.code}, {tile.name})"
    text, space = storage.spoken(), storage.space
    return Reader(tile, storage.places, "the reader", text, source, code, space, storage.rules)


def umma_a(
    desc: SmemDescriptor,
    tile: Tile,
    *,
    starts_bytes: Sequence[int] | Layout | str,
    major: Major = "K",
    row_starts_bytes: Sequence[int] | Layout | str = (0,),
) -> Reader:
    """Operand A of tcgen05.mma: one descriptor for each K step, `starts_bytes` further than `desc`'s own start.

    >>> P = Tile("P", m=128, k=32, bits=16)
    >>> reader = umma_a(SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128), P, starts_bytes=[0, 32])
    >>> [reader.read.at(m=m, k=k)["bit"] // 8 for m, k in ((0, 0), (1, 0), (0, 16))]
    [0, 144, 32]

    A step takes 32 bytes of K from each row. Source: PTX ISA, tcgen05 "Canonical layouts" and "Shared memory
    descriptor"; the base offset as an H200's tensor core has it. `row_starts_bytes` are those of several instructions'
    rows, one below the other. Starts may be given as a layout, or its text: "(4,2):(32,16384)". Raises LayoutError for
    a tile that is no whole number of steps.
    """
    return _by_descriptor("A", desc, tile, starts_of(starts_bytes), major, starts_of(row_starts_bytes))


def umma_b(
    desc: SmemDescriptor, tile: Tile, *, starts_bytes: Sequence[int] | Layout | str, major: Major = "K"
) -> Reader:
    """Operand B of tcgen05.mma, the tile's coordinates being (n, k): one descriptor for each K step.

    >>> V = Tile("V", n=128, k=32, bits=16)
    >>> desc = SmemDescriptor(start=0, lbo=4096, sbo=1024, swizzle=128)
    >>> reader = umma_b(desc, V, starts_bytes=[0, 2048], major="MN")
    >>> [reader.read.at(n=n, k=k)["bit"] // 8 for n, k in ((1, 0), (0, 1), (64, 0), (0, 16))]
    [2, 144, 4096, 2048]

    Like `umma_a`, but that B has up to 256 rows, a multiple of 8.
    """
    return _by_descriptor("B", desc, tile, starts_of(starts_bytes), major)


def wgmma_a(
    desc: SmemDescriptor, tile: Tile, *, starts_bytes: Sequence[int] | Layout | str, major: Major = "K"
) -> Reader:
    """Operand A of wgmma: each warpgroup has 64 rows, and a descriptor for each K step, `starts_bytes` further on.

    >>> P = Tile("P", m=128, k=32, bits=16)
    >>> reader = wgmma_a(SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128), P, starts_bytes=[0, 32])
    >>> [reader.read.at(m=m, k=k)["bit"] // 8 for m, k in ((0, 0), (1, 0), (64, 16))]
    [0, 144, 8224]

    The second warpgroup's descriptors start where the first one's rows end, 8 * sbo bytes further. Source: PTX ISA,
    wgmma "Matrix descriptor", and an H200's tensor core: the rule is tcgen05's. Raises LayoutError for a tile that is
    no whole number of steps, and for 8-bit operands that are not K-major.
    """
    if major != "K" and tile.bits != 16:
        raise LayoutError(f"operand A of {tile}: wgmma reads {tile.bits}-bit operands K-major only")
    if tile.bits not in (8, 16, 32):
        raise LayoutError(f"operand A of {tile}: wgmma reads elements of 8, 16 and 32 bits, not of {tile.bits}")
    firsts = starts_of(starts_bytes)
    like = _by_descriptor("A", desc, tile, firsts, major)
    rows = tile.shape[0]
    groups: Starts
    if isinstance(rows, Sym):
        if major != "K":
            raise LayoutError(f"operand A of {tile}: of so many rows, descriptors are known K-major only")
        groups = Layout(rows // 64, 8 * desc.sbo)
    else:
        groups = tuple(_address(desc, tile.bits, major, (0,), row, 0) // 8 - desc.start for row in range(0, rows, 64))
    fault = f"{tile} has {rows} rows, and a wgmma takes 64" if rows % 64 else None
    return replace(
        like,
        who="the wgmma",
        make=wgmma_a,
        source=f"modelled: wgmma operand A, {major}-major",
        code=like.code.replace("ll.umma_a", "ll.wgmma_a", 1),
        rules=lambda: [
            Rule("a warpgroup's instruction takes 64 rows", fault),
            *_descriptor_rules(desc, firsts, groups),
        ],
    )


def _by_descriptor(
    what: str, desc: SmemDescriptor, tile: Tile, starts: Starts, major: Major, row_starts: Starts = (0,)
) -> Reader:
    if len(tile.extents) != 2:
        raise LayoutError(f"operand {what} has rows and a K: tile {tile} has {len(tile.extents)} coordinates")
    (m, rows), (k, ks) = tile.extents.items()
    step = k_per_instruction(tile.bits)
    desc.elements_a_chunk(tile.bits, major)
    if major == "MN" and tile.bits == 4:
        raise LayoutError(f"operand {what} of {tile}: kinds mxf4 and mxf4nvf4 read packed 4-bit elements K-major only")
    if major == "MN" and tile.bits == 32 and desc.swizzle != "128_32b":
        raise LayoutError(
            f'operand {what} of {tile}: 32-bit operands are MN-major in swizzle "128_32b" alone, not in {desc.swizzle}'
        )
    listing = () if isinstance(starts, Layout) else starts
    if any(isinstance(s, bool) or not isinstance(s, int) or abs(s) >= 1 << 40 for s in listing):
        raise LayoutError(f"starts_bytes are numbers of bytes of shared memory, not {listed(starts)}")
    if ks % step or count_of(starts) != ks // step:
        needed = f"{ks / step:g}" if isinstance(ks, int) else f"{ks}/{step}"
        raise LayoutError(
            f"operand {what} of {tile}: an instruction takes {K_BYTES} bytes of K, {step} elements, so {ks} of them "
            f"need {needed} starts; {count_of(starts)} were given"
        )
    if rows % count_of(row_starts):
        raise LayoutError(f"operand {what} of {tile}: {count_of(row_starts)} instructions do not share out {rows} rows")
    each = rows // count_of(row_starts)
    address = Places(
        tile.extents,
        ("bit",),
        lambda: linear_operand_map(desc, rows, tile.bits, major, starts, (m, k), row_starts=row_starts),
        lambda **index: {
            "bit": _address(desc, tile.bits, major, starts, index[m] % each, index[k])
            + _looked_up(row_starts, index[m] // each) * 8
        },
    )
    offset = f", base offset {desc.base_offset}" if desc.base_offset else ""
    below = f", for each {each} rows: + {listed(row_starts)} bytes" if row_starts != (0,) else ""
    text = (
        f"{count_of(starts)} descriptors: start {desc.start} + {listed(starts)} bytes{below}, lbo {desc.lbo}, "
        f"sbo {desc.sbo}, swizzle {desc.swizzle} B{offset}"
    )
    source = f"modelled: tcgen05.mma operand {what}, {major}-major"
    way = "" if major == "K" else f', major="{major}"'
    way += f", row_starts_bytes={_coded(row_starts)}" if row_starts != (0,) else ""
    code = f"ll.umma_{what.lower()}(ll.{desc}, {tile.name}, starts_bytes={_coded(starts)}{way})"
    rules = lambda: [_rows_rule(what, tile, each), *_descriptor_rules(desc, starts, row_starts)]  # noqa: E731
    given = {"desc": desc, "tile": tile, "starts_bytes": starts, "major": major}
    if row_starts != (0,):
        given["row_starts_bytes"] = row_starts
    make = umma_a if what == "A" else umma_b
    read = _swizzled(address, desc)
    return Reader(tile, read, "the MMA", text, source, code, rules=rules, make=make, given=given)


def umma_a_tmem(tile: Tile, *, column: int = 0) -> Reader:
    """Operand A of tcgen05.mma in Tensor Memory, from `column` on: a row's lane, 32 bits of K to a column.

    >>> umma_a_tmem(Tile("P", m=128, k=64, bits=16), column=32).read.at(m=3, k=5)
    {'lane': 3, 'bit': 1104}

    Source: PTX ISA, tcgen05 "Data path layout". Raises LayoutError for shapes and widths that A does not have.
    """
    if len(tile.extents) != 2:
        raise LayoutError(f"operand A has rows and a K: tile {tile} has {len(tile.extents)} coordinates")
    (m, rows), (k, ks) = tile.extents.items()
    table = operand_a(rows, ks, tile.bits).only("lane", "bit").plus("bit", column * 32)
    if (m, k) != ("m", "k"):
        raise LayoutError(f"operand A has the coordinates m and k, {tile} has {m} and {k}")

    def at(**index: Any) -> dict[str, Any]:
        row = index[m] + index[k] * 0
        lane = row if rows == 128 else row % 16 + row // 16 * 32
        return {"lane": lane, "bit": index[k] * tile.bits + row * 0 + column * 32}

    end = column + -(-ks * tile.bits // 32)
    fits = at_most(end, 512, "Tensor Memory has 512 columns")
    room = None if column >= 0 and fits else f"A takes columns {column} to {end - 1}, there are 512"
    text = f"operand A in Tensor Memory, columns {column} to {end - 1}"
    code = f"ll.umma_a_tmem({tile.name}, column={column})"
    rules = [Rule("Tensor Memory has 512 columns", room)]
    read = Places(tile.extents, ("lane", "bit"), lambda: table, at)
    how: dict[str, Any] = {"make": umma_a_tmem, "given": {"tile": tile, "column": column}}
    return Reader(tile, read, "the MMA", text, "modelled: tcgen05.mma operand A", code, "tmem", lambda: rules, **how)


def umma_d(tile: Tile, *, column: int = 0, who: str = "the MMA") -> Reader:
    """Accumulator D of tcgen05.mma (one CTA), which the next MMA adds to: a row's lane, 32 bits to a column.

    >>> umma_d(Tile("O", m=64, n=32, bits=32), column=128).read.at(m=17, n=3)
    {'lane': 33, 'bit': 4192}

    Source: PTX ISA, tcgen05 "Data path layout". Raises LayoutError for shapes that D does not have.
    """
    if len(tile.extents) != 2 or tile.bits != WORD_BITS:
        raise LayoutError(f"an accumulator has rows and columns of 32 bits: not {tile}")
    (m, rows), (n, columns) = tile.extents.items()
    accumulator(rows, columns)  # refuses shapes that there are not

    def build() -> Map:
        table = accumulator(rows, columns).only("lane", "column").times("column", WORD_BITS, "bit")
        renamed = {"m": m, "n": n}
        terms = {
            out: {frozenset((renamed[a], w, r) for a, w, r in t): s for t, s in row.items()}
            for out, row in table.rows.items()
        }
        return Map({renamed[a]: radices for a, radices in table.axes.items()}, terms).plus("bit", column * WORD_BITS)

    def at(**index: Any) -> dict[str, Any]:
        row = index[m] + index[n] * 0
        lane = row if rows == 128 else row % 16 + row // 16 * 32
        return {"lane": lane, "bit": (index[n] + column) * WORD_BITS + row * 0}

    end = column + columns
    fits = at_most(end, 512, "Tensor Memory has 512 columns")
    room = None if column >= 0 and fits else f"D takes columns {column} to {end - 1}, there are 512"
    text = f"accumulator D, columns {column} to {end - 1}"
    code = f"ll.umma_d({tile.name}, column={column})"
    rules = [Rule("Tensor Memory has 512 columns", room)]
    read = Places(tile.extents, ("lane", "bit"), build, at)
    how: dict[str, Any] = {"make": umma_d, "given": {"tile": tile, "column": column, "who": who}}
    return Reader(tile, read, who, text, "modelled: tcgen05.mma accumulator D", code, "tmem", lambda: rules, **how)


def _coded(starts: Starts) -> str:
    return f'"{starts}"' if isinstance(starts, Layout) else str(list(starts))


def listed(starts: Sequence[int] | Layout) -> str:
    if isinstance(starts, Layout):
        return f"those of {starts}"
    shown = [str(s) for s in starts]
    return "(" + ", ".join(shown if len(shown) <= 10 else [*shown[:5], "...", shown[-1]]) + ")"


def _address(desc: SmemDescriptor, bits: int, major: Major, starts: Starts, row: Any, k: Any) -> Any:
    """The bit of the address before the swizzle, of numbers or arrays.

    In bytes, w the swizzle's width, t its elements, and 16-byte chunks where there is none:
    K-major: (r%8)*w + (r/8)*sbo + byte of k, or (r%8)*16 + (r/8)*sbo + (chunk of k)*lbo + byte in the chunk;
    MN-major: (r%t)*size + (r/t)*lbo + (k%8)*w + (k/8)*sbo, or byte of r in its chunk + (chunk)*sbo + (k%8)*16 +
    (k/8)*lbo.
    """
    step, chunk = k_per_instruction(bits), 128 // bits
    start, k = _looked_up(starts, k // step) + desc.start, k % step
    pattern = pattern_of(desc.swizzle)
    width, sbo, lbo, group = pattern.width * 8, desc.sbo * 8, desc.lbo * 8, pattern.rows
    if major == "K":
        along = k * bits if desc.swizzle else k // chunk * lbo + k % chunk * bits
        return start * 8 + row % 8 * width + row // 8 * sbo + along
    if not desc.swizzle:
        return start * 8 + row % chunk * bits + row // chunk * sbo + k % 8 * 128 + k // 8 * lbo
    across = width // bits
    return start * 8 + row % across * bits + row // across * lbo + k % group * width + k // group * sbo


def _looked_up(starts: Starts, step: Any) -> Any:
    if isinstance(starts, Layout):
        return starts(step)
    if isinstance(step, int):
        return starts[step]
    import numpy as np

    return np.asarray(starts, dtype=np.int64)[step]


def _swizzled(address: Places, desc: SmemDescriptor) -> Places:
    """Bits [low, low+n) of the byte address xor-ed with bits [7, 7+n) of it, the row counted from the base offset
    on."""
    pattern, moved = pattern_of(desc.swizzle), desc.base_offset * 1024
    swizzle = Swizzle(pattern.bits, pattern.low + 3, 7 - pattern.low, unit_bits=1)
    return address.moved(-moved).swizzled(swizzle).moved(moved) if moved else address.swizzled(swizzle)


def _rows_rule(what: str, tile: Tile, rows: int) -> Rule:
    if what == "A":
        fault = None if rows in (64, 128) else f"{tile} has {rows} rows, and one tcgen05.mma of one CTA takes 64 or 128"
        return Rule("an instruction takes 64 or 128 rows", fault)
    fits = rows % 8 == 0 and at_most(rows, 256, "B has up to 256 rows")
    fault = None if fits else f"{tile} has {rows} rows: B has a multiple of 8, up to 256"
    return Rule("B has a multiple of 8 rows, up to 256", fault)


def _descriptor_rules(desc: SmemDescriptor, starts: Starts, row_starts: Starts = (0,)) -> list[Rule]:
    if isinstance(starts, Layout) or isinstance(row_starts, Layout) or isinstance(desc.start, Sym):
        return _descriptor_rules_of_symbols(desc, starts, row_starts)
    if row_starts != (0,):
        starts = tuple(below + start for below in row_starts for start in starts)
    misplaced = next((s for s in starts if (desc.start + s) % 16), None)
    odd = (
        None if misplaced is None else f"a descriptor starts at byte {desc.start + misplaced}, which 16 does not divide"
    )
    outside = next((s for s in starts if not 0 <= desc.start + s < FIELD_LIMIT), None)
    far = (
        None
        if outside is None
        else f"a descriptor starts at byte {desc.start + outside}: the field has 14 bits of 16-byte units, 0 to 262128"
    )
    return [Rule(STARTS_ALIGNED, odd), Rule(STARTS_FIT, far)]


def _descriptor_rules_of_symbols(desc: SmemDescriptor, starts: Starts, row_starts: Starts) -> list[Rule]:
    """The same two where starts are symbols: each step is a multiple of 16, and the last start fits."""
    lowest, highest, odd = desc.start, desc.start, desc.start % 16
    for given in (starts, row_starts):
        if isinstance(given, Layout):
            reach = [(extent - 1) * stride for extent, stride in given.leaves()]
            lowest, highest = lowest + sum(0 if r >= 0 else r for r in reach), highest + sum(r for r in reach if r >= 0)
            odd = odd or next((r for _, stride in given.leaves() if (r := stride % 16)), 0)
        else:
            lowest, highest = lowest + min(given), highest + max(given)
            odd = odd or next((r for start in given if (r := start % 16)), 0)
    fits = lowest >= 0 and at_most(highest, FIELD_LIMIT - 16, "a descriptor's start has 14 bits of 16 bytes")
    far = None if fits else f"descriptors start at bytes {lowest} to {highest}: the field holds 0 to 262128"
    misplaced = f"a descriptor starts {odd} bytes past a multiple of 16" if odd else None
    return [Rule(STARTS_ALIGNED, misplaced), Rule(STARTS_FIT, far)]


STARTS_ALIGNED = "every descriptor starts at a multiple of 16 bytes"
STARTS_FIT = "every descriptor's start fits its field"
