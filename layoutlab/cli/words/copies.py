"""Copy atoms and tiled copies in words: threads, values, tile, vector width, and whether the tile is covered."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from layoutlab.algebra import composition, right_inverse, zipped_divide
from layoutlab.cli.words.layouts import formula
from layoutlab.cli.words.report import Report, counted, listed
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, idx2crd, modes, product, to_text, unflatten
from layoutlab.layout import Layout, make_layout
from layoutlab.survey import Coverage, Undecided, coverage, number
from layoutlab.text import CopyAtom, TiledCopy
from layoutlab.text.records import Tiler, tiler_text
from layoutlab.tv.recognise import copy_atom_of, copy_instructions, value_bits

_WIDEST = 256
"""Bits that one thread's own load or store moves at most (32 bytes, from and to global memory on SM100)."""

# -- atoms ------------------------------------------------------------------------------------------------------------


def describe_copy_atom(atom: CopyAtom) -> Report:
    """One copy instruction."""
    report = Report("this is a copy atom: one copy instruction, and which thread holds which of its elements")
    report.extend(atom_lines(atom))
    return report


def atom_lines(atom: CopyAtom) -> Report:
    """The lines of a copy atom, also inside of a tiled copy."""
    report = Report("")
    threads, bits = number(atom.thr.size()), value_bits(atom.value_type)
    report.add("instruction", f"{_who(atom, threads, bits)}; its elements are {atom.value_type}")
    if names := copy_instructions(atom):
        report.add("", f"these are the layouts of {' and of '.join(names)}")
    elif threads > 1:
        report.add("", "no ldmatrix, stmatrix, tcgen05.ld, st or cp has these layouts")
    report.add("source", _side(atom.src, bits))
    report.add("destination", _side(atom.dst, bits))
    if atom.src == atom.dst:
        report.add("", "both sides alike: a thread writes the very elements that it reads")
    else:
        report.add("", "the sides differ: a thread's elements are others on one side than on the other")
    return report


def _who(atom: CopyAtom, threads: int, bits: int | None) -> str:
    if threads > 1:
        return f"{threads} threads execute it together"
    if bits is not None and number(atom.src[1].size()) * bits > _WIDEST:
        return f"one thread issues it for all, a bulk copy such as TMA's, as more than {_WIDEST} bits move at once"
    return "each thread executes it alone"


def collective(tv: Layout) -> bool:
    """Whether all threads of a side name the same elements, so that the instruction moves them for all at once."""
    threads = tv[0]
    return number(threads.size()) > 1 and all(d == 0 for s, d in threads.leaves() if s > 1)


def _side(tv: Layout, bits: int | None) -> str:
    threads, values = (number(m.size()) for m in tv)
    width = "" if bits is None else f", {_width(values * bits)}"
    elements = counted(values, "element")
    if collective(tv):
        return f"all {threads} threads name the same {elements}{width}, which move for all of them at once: {tv}"
    return f"{elements} a thread{width}: {tv}"


def _width(bits: int) -> str:
    return f"{bits} bits ({bits // 8} bytes)" if bits % 8 == 0 and bits > 8 else f"{bits} bits"


# -- tiled copies -----------------------------------------------------------------------------------------------------


def tile_shape(tiler: Tiler) -> tuple[int, ...]:
    """The extents of a tile, one a mode of the tensor.

    >>> tile_shape((Layout((128, 32), (32, 1)), 64))
    (4096, 64)
    """
    entries = tiler if isinstance(tiler, tuple) else (tiler,)
    return tuple(number(e.size() if isinstance(e, Layout) else product(1 if e is None else e)) for e in entries)


def reference_side(copy: TiledCopy) -> Layout | None:
    """The side of the atom that the TV layout is printed for; None where the text does not tell.

    C++ prints it. The DSL does not: where the sides agree it is both, of an instruction of the tables it is known, and
    where the TV layout's threads do not move it is the side whose threads do not.
    """
    atom = copy.atom
    if atom.ref is not None or atom.src == atom.dst:
        return atom.ref or atom.src
    if known := copy_atom_of(atom):
        return atom.dst if known.ref == known.dst else atom.src
    still = [collective(side) for side in (atom.src, atom.dst)]
    threads = number(atom.thr.size())
    if sum(still) == 1 and all(copy.tv(t, 0) == copy.tv(0, 0) for t in range(threads)):
        return atom.src if still[0] else atom.dst
    return None


def side_tv(copy: TiledCopy, side: Layout) -> Layout:
    """(thread, value) -> flat index of the tile for one side of the atom; refuses where the text does not tell."""
    reference = reference_side(copy)
    if reference is None:
        raise LayoutError("the text does not say for which side of the instruction the TV layout is")
    back = composition(right_inverse(reference), side)  # (T,V) of the side -> (T,V) of the reference, flat
    cut = zipped_divide(copy.tv, tuple(number(m.size()) for m in reference))
    atom, rest = composition(cut[0], back), cut[1]
    return make_layout(make_layout(atom[0], rest[0]), make_layout(atom[1], rest[1]))


def describe_tiled_copy(copy: TiledCopy) -> Report:
    """A copy by many threads."""
    shape = tile_shape(copy.tiler)
    tv, side = _thread_side(copy)
    threads, values = (number(m.size()) for m in tv)
    moves = "moves" if threads == 1 else "move"
    each = f"{counted(values, 'value')}{' each' if threads > 1 else ''}"
    report = Report(
        f"this is a tiled copy: {counted(threads, 'thread')} {moves} a tile of {_by(shape)} elements, {each}"
    )
    report.add("threads", f"{threads}, the first mode of the TV layout: {tv[0]}")
    report.add("values", f"{values} a thread and tile, its second mode: {tv[1]}{_instructions(copy, values)}")
    report.add(
        "tile", f"{_by(shape)}, {counted(product(shape), 'element')}, cut from a tensor by {tiler_text(copy.tiler)}"
    )
    for mode, entry in enumerate(modes(copy.tiler)):
        if _reordered(entry):
            report.add("", f"mode {mode} is reordered: tile index i is index {entry}(i) of the tensor's mode {mode}")
    if side:
        report.add("side", side)
    report.extend(ownership_lines(tv, shape, copy.tiler))
    if threads == 1:
        report.add(
            "", "a single thread has it all: if more threads execute the copy, each of them moves the whole tile"
        )
    report.extend(_value_order(copy, tv, shape))
    report.extend(atom_lines(copy.atom))
    report.add("units", "the TV layout gives coordinates in the tile, counted in elements, and no memory offsets: the")
    report.add("", "layout of the tensor that is partitioned makes addresses of them")
    larger = f"a tensor larger than {_by(shape)} is copied tile by tile"
    report.add("more tiles", f"{larger}: partitioning adds modes that count them")
    return report


def _thread_side(copy: TiledCopy) -> tuple[Layout, str]:
    """The TV layout in which threads own different elements, and what the printed one is where that is another."""
    reference, atom = reference_side(copy), copy.atom
    if reference is None:
        return copy.tv, (
            "the text does not say whether the TV layout is of the source or the destination; for ldmatrix and "
            "stmatrix it is the registers' side"
        )
    if not collective(reference):
        return copy.tv, ""
    other, name = (atom.dst, "destination") if reference == atom.src else (atom.src, "source")
    if collective(other):
        return copy.tv, "both sides of the instruction are moved for all threads at once"
    printed = "source" if reference == atom.src else "destination"
    return side_tv(copy, other), (
        f"the printed TV layout, {copy.tv}, is of the {printed}, whose elements the instruction moves for all its "
        f"threads at once; here is the {name}'s, which says what each thread has in registers"
    )


def _reordered(entry: Any) -> bool:
    return isinstance(entry, Layout) and entry.size() != 1 and (entry.shape != entry.size() or entry.stride != 1)


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _instructions(copy: TiledCopy, values: int) -> str:
    sizes = sorted(number(tv[1].size()) for tv in (copy.atom.src, copy.atom.dst))
    fitting = [size for size in sizes if values % size == 0]
    if not fitting:
        return ""
    return f", in {counted(values // fitting[-1], 'instruction')} of {counted(fitting[-1], 'value')}"


# -- ownership --------------------------------------------------------------------------------------------------------


def ownership_lines(tv: Layout, shape: tuple[int, ...], tiler: Tiler = None) -> Report:
    """Who owns which coordinate of a tile, and whether each coordinate has exactly one owner."""
    report = Report("")
    names = tuple(
        unflatten([f"{letter}{i}" for i in range(len(flatten(mode.shape)))], mode.shape)
        for letter, mode in zip("tv", tv, strict=True)
    )
    index = f"element {formula(tv, names)} of the tile, whose first mode counts fastest"
    report.add("owner", f"(T,V) = {to_text(names)} has {index}")
    threads, values = (number(m.size()) for m in tv)
    shown = [(t, v) for t, v in ((0, 0), (0, 1), (1, 0)) if t < threads and v < values]
    text = "; ".join(f"T{t} V{v} has {_place(tv(t, v), shape, tiler)}" for t, v in shown)
    report.add("for example", text)
    try:
        report.add("covers", covered(coverage(tv, number(product(shape))), tv, shape))
    except Undecided as e:
        report.add("covers", f"not decided: {e}")
    return report


def coordinate_text(index: int, shape: tuple[int, ...]) -> str:
    """A flat index of a tile as its coordinate.

    >>> coordinate_text(130, (128, 64))
    '(2,1)'
    """
    return to_text(idx2crd(index, shape))


def _place(index: int, shape: tuple[int, ...], tiler: Tiler) -> str:
    """An element of the tile, and the tensor's coordinate that a reordering tiler makes of it."""
    text, entries = coordinate_text(index, shape), modes(tiler)
    if not any(map(_reordered, entries)):
        return text
    there = tuple(e(c) if isinstance(e, Layout) else c for e, c in zip(entries, idx2crd(index, shape), strict=True))
    return f"{text}, the tensor's {to_text(there)}"


def covered(found: Coverage, tv: Layout, shape: tuple[int, ...]) -> str:
    """Whether a TV layout gives each element of the tile exactly one owner, or what is the first thing wrong.

    >>> covered(coverage(Layout((4, 2), (1, 8)), 16), Layout((4, 2), (1, 8)), (4, 4))
    'misses 8 of the 16 elements, the first is (0,1)'
    """
    total = number(product(shape))
    if found.exact:
        return f"the tile exactly: each of its {total} elements has one thread and value"
    said = []
    if found.outside is not None:
        said.append(f"leaves the tile: {_owner(found.outside, tv)} has element {tv(found.outside)} of {total}")
    if found.missed is not None:
        first = coordinate_text(found.missed, shape)
        said.append(f"misses {total - found.taken} of the {total} elements, the first is {first}")
    if found.doubled is not None:
        said.append(_shared(found, found.doubled, tv, shape))
    return "; ".join(said)


def _owner(index: int, tv: Layout) -> str:
    threads = number(tv[0].size())
    return f"T{index % threads} V{index // threads}"


def _shared(found: Coverage, pair: tuple[int, int], tv: Layout, shape: tuple[int, ...]) -> str:
    evenly = found.outside is None and found.domain % found.taken == 0
    which = "each of its" if found.missed is None else "the others, each of the"
    count = f" {found.taken} elements {found.domain // found.taken} times" if evenly else " elements once or more often"
    index = tv(pair[0])
    where = coordinate_text(index, shape) if 0 <= index < product(shape) else f"element {index}"
    first, second = (_owner(i, tv) for i in pair)
    still = [s for s, d in tv[0].leaves() if d == 0 and s > 1]
    why = (
        f" ({listed(still)} threads do not move it, stride 0: a load copies it to each, stores would write it again)"
        if still
        else " (two writers would race)"
    )
    return f"has {which}{count}: {first} and {second} both have {where}{why}"


def _value_order(copy: TiledCopy, tv: Layout, shape: tuple[int, ...]) -> Report:
    """Along which mode of the tensor a thread's values follow each other, and so how wide an access can be."""
    report = Report("")
    values = number(tv[1].size())
    bits = value_bits(copy.atom.value_type)
    if values > 1:
        places = [idx2crd(tv(0, v), shape) for v in range(min(values, 256))]
        moves = [tuple(b - a for a, b in zip(x, y, strict=True)) for x, y in pairwise(places)]
        run = next((i + 1 for i, move in enumerate(moves) if move != moves[0]), len(places))
        many = f"{run}{' or more' if run == len(places) < values else ''} in a row"
        along = [mode for mode, d in enumerate(moves[0]) if d]
        if len(along) == 1 and moves[0][along[0]] == 1 and not _reordered(modes(copy.tiler)[along[0]]):
            where = f"along mode {along[0]} one by one, {many}: a vector where the tensor is contiguous along that mode"
        else:
            where = f"by {to_text(moves[0])} in the tile, {many}: a vector where the tensor's layout makes that step 1"
        report.add("vector", f"a thread's values go {where}")
    atom = min(number(side[1].size()) for side in (copy.atom.src, copy.atom.dst))
    if bits is not None:
        label = "" if report.lines else "vector"
        report.add(label, f"one instruction takes {counted(atom, 'value')} of a thread, {_width(atom * bits)}")
    return report
