"""MMA atoms and tiled MMAs in words: the instruction's tile, its threads, and who owns which operand element."""

from __future__ import annotations

from layoutlab.cli.words.copies import collective, ownership_lines
from layoutlab.cli.words.report import Report, counted
from layoutlab.int_tuple import modes, product
from layoutlab.layout import Layout
from layoutlab.survey import number
from layoutlab.text import MmaAtom, TiledMma
from layoutlab.text.records import tiler_text
from layoutlab.tv.recognise import mma_instructions


def describe_mma_atom(atom: MmaAtom) -> Report:
    """One MMA instruction."""
    m, n, k = shape_mnk(atom)
    report = Report(
        f"this is an MMA atom, one instruction: C ({m} x {n}) += A ({m} x {k}) times B ({n} x {k}) transposed"
    )
    report.extend(atom_lines(atom))
    return report


def shape_mnk(atom: MmaAtom) -> tuple[int, int, int]:
    """M, N and K of the instruction."""
    m, n, k = (number(product(e)) for e in modes(atom.shape_mnk))
    return m, n, k


def atom_lines(atom: MmaAtom) -> Report:
    """The lines of an MMA atom, also inside of a tiled MMA."""
    report = Report("")
    m, n, k = shape_mnk(atom)
    report.add("instruction", f"{m} x {n} x {k} (M x N x K): {_who(number(atom.thr.size()))}")
    if names := mma_instructions(atom):
        report.add("", f"these are the layouts of {' and of '.join(names)}")
    else:
        report.add("", "no mma.sync, wgmma or tcgen05.mma of the tables has these layouts")
    for name, tv, (rows, columns) in (("A", atom.a, (m, k)), ("B", atom.b, (n, k)), ("C", atom.c, (m, n))):
        participants, values = (number(mode.size()) for mode in tv)
        report.add(f"operand {name}", f"{rows} x {columns}: {tv}")
        if collective(tv):
            report.add(
                "", f"all {participants} threads name the same {values} elements: it is not spread over registers"
            )
            continue
        who = "the one participant" if participants == 1 else f"each of {participants} participants"
        report.add("", f"{counted(values, 'value')} for {who}")
        lines = ownership_lines(tv, (rows, columns)).lines
        report.lines += [("", f"covers {text}" if label == "covers" else text) for label, text in lines]
    return report


def _who(threads: int) -> str:
    groups = {32: "a warp", 64: "two warps", 128: "a warpgroup"}
    if threads == 1:
        return "one thread issues it for all; T is not a thread of yours here, V counts the whole operand"
    if threads == 2:
        return "two blocks of a cluster take part: T is the block, V counts its part of the operand"
    return f"{threads} threads{f', {groups[threads]},' if threads in groups else ''} execute it together"


def describe_tiled_mma(mma: TiledMma) -> Report:
    """An MMA repeated over threads and tiles."""
    atoms = [number(product(e)) for e in modes(mma.thr.shape)]
    plain = [a * times for a, times in zip(shape_mnk(mma.atom), atoms[1:], strict=True)]
    permutation = modes(mma.permutation) if mma.permutation is not None else (None,) * 3
    tile = [
        p if order is None else number(order.size() if isinstance(order, Layout) else product(order))
        for p, order in zip(plain, permutation, strict=False)
    ]
    by, repeated = _by(tile), _by(atoms[1:])
    report = Report(f"this is a tiled MMA: {repeated} atoms (M x N x K), which work on a tile of {by}")
    report.add("threads", f"{mma.thr.size()}: {atoms[0]} an atom, {repeated} atoms; (V,M,N,K) is thread {mma.thr}")
    report.add("tile", f"{by} (M x N x K): {_why(tile, plain, mma)}")
    for name, order in zip("MNK", permutation, strict=False):
        if isinstance(order, Layout) and isinstance(order.shape, tuple):
            report.add("", f"{name} is permuted: index i of the tile is index {order}(i) of the tensor's tile")
    report.extend(atom_lines(mma.atom))
    return report


def _by(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))


def _why(tile: list[int], plain: list[int], mma: TiledMma) -> str:
    if plain == tile:
        return "the atom's, times the number of atoms in each direction"
    times = [f"{t // p} times in {name}" for t, p, name in zip(tile, plain, "MNK", strict=False) if t != p]
    return f"{_by(plain)} of the atoms, repeated {', '.join(times)} by the permutation {tiler_text(mma.permutation)}"
