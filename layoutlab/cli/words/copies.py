"""Copy atoms and tiled copies in words: threads, values, tile, vector width, and whether the tile is covered."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from layoutlab.cli.words.layouts import formula
from layoutlab.cli.words.report import Report, counted, listed
from layoutlab.int_tuple import flatten, idx2crd, product, to_text, unflatten
from layoutlab.layout import Layout
from layoutlab.survey import Undecided, coverage, number
from layoutlab.text import CopyAtom, TiledCopy, bits_of
from layoutlab.text.records import Tiler, tiler_text

# -- atoms ------------------------------------------------------------------------------------------------------------


def value_bits(value_type: str) -> int | None:
    """The width of a printed value type, DSL's `bf16` or C++'s `16b`.

    >>> value_bits("bf16"), value_bits("16b")
    (16, 16)
    """
    return int(value_type[:-1]) if value_type[:-1].isdigit() and value_type[-1:] == "b" else bits_of(value_type)


def describe_copy_atom(atom: CopyAtom) -> Report:
    """One copy instruction."""
    report = Report("this is a copy atom: one copy instruction, and who holds which of its elements")
    report.extend(atom_lines(atom))
    return report


def atom_lines(atom: CopyAtom) -> Report:
    """The lines of a copy atom, also inside of a tiled copy."""
    report = Report("")
    threads = number(atom.thr.size())
    report.add("instruction", f"{counted(threads, 'thread')} together, elements of {atom.value_type}")
    for side, tv in (("source", atom.src), ("destination", atom.dst)):
        report.add(side, _side(tv, value_bits(atom.value_type)))
    if atom.src == atom.dst:
        report.add("", "both sides alike: each thread writes the very elements that it read")
    else:
        report.add(
            "",
            "the sides differ: elements change threads on the way, so a thread's registers hold what others addressed",
        )
    return report


def _side(tv: Layout, bits: int | None) -> str:
    threads, values = (number(m.size()) for m in tv)
    width = "" if bits is None else f", {_width(values * bits)}"
    if threads > 1 and all(d == 0 for _, d in tv[0].leaves()):
        return f"all {threads} threads name the same {counted(values, 'element')}{width}: the instruction moves them for the whole warp, {tv}"
    return f"{counted(values, 'element')} a thread{width}, {tv}"


def _width(bits: int) -> str:
    return f"{bits} bits ({bits // 8} bytes)" if bits % 8 == 0 and bits > 8 else f"{bits} bits"


# -- tiled copies -----------------------------------------------------------------------------------------------------


def tile_shape(tiler: Tiler) -> tuple[int, ...]:
    """The extents of a tile, one a mode of the tensor.

    >>> tile_shape((Layout((128, 32), (32, 1)), 64))
    (4096, 64)
    """
    entries = tiler if isinstance(tiler, tuple) else (tiler,)
    return tuple(number(e.size()) if isinstance(e, Layout) else number(product(1 if e is None else e)) for e in entries)


def describe_tiled_copy(copy: TiledCopy) -> Report:
    """A copy by many threads."""
    shape = tile_shape(copy.tiler)
    threads, values = (number(m.size()) for m in copy.tv)
    report = Report(
        f"this is a tiled copy: {counted(threads, 'thread')} move a tile of {_by(shape)} elements, {counted(values, 'value')} each"
    )
    report.add("threads", f"{threads}: the first mode of the TV layout, {copy.tv[0]}")
    report.add("values", f"{values} a thread and tile, the second mode, {copy.tv[1]}{_instructions(copy, values)}")
    report.add("tile", f"{_by(shape)}, {product(shape)} elements, cut from the tensor by {tiler_text(copy.tiler)}")
    for mode, entry in enumerate(copy.tiler if isinstance(copy.tiler, tuple) else ()):
        if isinstance(entry, Layout) and entry.shape != entry.size():
            report.add("", f"mode {mode} of the tile is reordered: its index goes through {entry}")
    report.extend(ownership_lines(copy.tv, shape, number(copy.atom.thr.size())))
    report.extend(_value_order(copy, shape, values))
    report.extend(atom_lines(copy.atom))
    report.add(
        "units",
        "the TV layout gives tile coordinates, counted in elements, not memory offsets: the layout of the tensor that is partitioned makes addresses of them",
    )
    report.add(
        "more tiles",
        f"a tensor larger than {_by(shape)} is copied tile by tile, and partitioning gives it one more mode for each direction",
    )
    return report


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _instructions(copy: TiledCopy, values: int) -> str:
    atoms = sorted({number(tv[1].size()) for tv in (copy.atom.src, copy.atom.dst)})
    for size in reversed(atoms):
        if values % size == 0:
            return f": {counted(values // size, 'instruction')} of {counted(size, 'value')}"
    return ""


def ownership_lines(tv: Layout, shape: tuple[int, ...], together: int = 1) -> Report:
    """Who owns which coordinate of a tile, and whether each coordinate has exactly one owner."""
    report = Report("")
    names = (
        unflatten([f"t{i}" for i in range(len(flatten(tv[0].shape)))], tv[0].shape),
        unflatten([f"v{i}" for i in range(len(flatten(tv[1].shape)))], tv[1].shape),
    )
    report.add(
        "owner",
        f"(T,V) = {to_text(names)} has element {formula(tv, names)} of the tile, its first mode counted fastest",
    )
    if tv.symbolic():
        return report
    total = number(product(shape))
    for t, v in _examples(tv):
        report.add("" if (t, v) != (0, 0) else "for example", f"T{t} V{v} has {coordinate_text(int(tv(t, v)), shape)}")
    try:
        found = coverage(tv, total)
    except Undecided as e:
        report.add("covers", f"not decided: {e}")
        return report
    report.add("covers", _covered(found, tv, shape, total, together))
    return report


def _examples(tv: Layout) -> list[tuple[int, int]]:
    threads, values = (number(m.size()) for m in tv)
    return [(t, v) for t, v in ((0, 0), (0, 1), (1, 0)) if t < threads and v < values]


def coordinate_text(index: int, shape: tuple[int, ...]) -> str:
    """A flat index of a tile as its coordinate.

    >>> coordinate_text(130, (128, 64))
    '(2,1)'
    """
    return to_text(idx2crd(index, shape))


def _covered(found: Any, tv: Layout, shape: tuple[int, ...], total: int, together: int) -> str:
    def pair(index: int) -> str:
        t, v = index % number(tv[0].size()), index // number(tv[0].size())
        return f"T{t} V{v}"

    if found.exact:
        return f"the tile exactly: each of its {total} elements belongs to one thread and value"
    said = []
    if found.outside is not None:
        value = int(tv(found.outside))
        said.append(f"it leaves the tile: {pair(found.outside)} has index {value}, the tile ends at {total - 1}")
    if found.missed is not None:
        said.append(
            f"it misses {total - found.taken} of {total} elements, the first is {coordinate_text(found.missed, shape)}"
        )
    if found.doubled is not None:
        first, second = found.doubled
        times = found.domain // found.taken if found.taken and found.domain % found.taken == 0 else 0
        often = f"each of them {times} times" if times > 1 else "some of them twice or more"
        where = coordinate_text(int(tv(first)), shape) if found.outside is None else f"index {tv(first)}"
        said.append(
            f"it has {'all' if found.missed is None else 'the others'}, {often}: {pair(first)} and {pair(second)} both have {where}{_why_shared(tv, together)}"
        )
    return "; ".join(said)


def _why_shared(tv: Layout, together: int) -> str:
    still = [s for s, d in tv[0].leaves() if d == 0 and s > 1]
    if not still:
        return ", so two writers would race"
    if together > 1 and product(tuple(still)) == together:
        return (
            f" ({together} threads name the same elements because the instruction is executed by all {together} as one)"
        )
    return f" ({listed(still)} threads do not move the element, stride 0: fine for a load, a race of equal values for a store)"


def _value_order(copy: TiledCopy, shape: tuple[int, ...], values: int) -> Report:
    """Along which mode of the tensor a thread's values follow each other, and so how wide an access can be."""
    report = Report("")
    if values == 1 or copy.tv.symbolic():
        return report
    first = [idx2crd(int(copy.tv(0, v)), shape) for v in range(min(values, 64))]
    moved = [tuple(b - a for a, b in zip(x, y, strict=True)) for x, y in pairwise(first)]
    step = moved[0]
    run = next((i + 1 for i, m in enumerate(moved) if m != step), len(first))
    along = [mode for mode, d in enumerate(step) if d]
    more = " or more" if run == len(first) and run < values else ""
    if len(along) == 1 and step[along[0]] == 1:
        mode = along[0]
        entry = copy.tiler[mode] if isinstance(copy.tiler, tuple) else None
        inside = " of the reordered tile" if isinstance(entry, Layout) and entry.shape != entry.size() else ""
        report.add(
            "vector",
            f"a thread's values go along mode {mode}{inside} one by one, {run}{more} in a row: they form a vector where the tensor is contiguous along that mode",
        )
    else:
        report.add(
            "vector",
            f"a thread's values go by {to_text(step)} in the tile, {run}{more} in a row: they form a vector only in a tensor whose layout makes that step 1",
        )
    bits = value_bits(copy.atom.value_type)
    atom = min(number(tv[1].size()) for tv in (copy.atom.src, copy.atom.dst))
    if bits is not None:
        report.add("", f"the instruction takes {counted(atom, 'value')} at a time, {_width(atom * bits)}")
    return report
