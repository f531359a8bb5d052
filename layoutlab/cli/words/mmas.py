"""MMA atoms and tiled MMAs in words: the instruction's tile, its threads, and who owns which operand element."""

from __future__ import annotations

from layoutlab.cli.words.copies import ownership_lines
from layoutlab.cli.words.report import Report, counted
from layoutlab.int_tuple import flatten, product
from layoutlab.layout import Layout
from layoutlab.survey import number
from layoutlab.text import MmaAtom, TiledMma
from layoutlab.text.records import tiler_text


def describe_mma_atom(atom: MmaAtom) -> Report:
    """One MMA instruction."""
    m, n, k = _mnk(atom)
    report = Report(
        f"this is an MMA atom: one instruction, C ({m} x {n}) += A ({m} x {k}) times B ({n} x {k}) transposed"
    )
    report.extend(atom_lines(atom))
    return report


def _mnk(atom: MmaAtom) -> tuple[int, int, int]:
    m, n, k, *_ = (
        number(product(e)) for e in (atom.shape_mnk if isinstance(atom.shape_mnk, tuple) else (atom.shape_mnk,) * 3)
    )
    return m, n, k


def atom_lines(atom: MmaAtom) -> Report:
    """The lines of an MMA atom, also inside of a tiled MMA."""
    report = Report("")
    m, n, k = _mnk(atom)
    threads = number(atom.thr.size())
    report.add("instruction", f"{m} x {n} x {k} (M x N x K): {_who(threads, m * n)}")
    for name, tv, shape in (("A", atom.a, (m, k)), ("B", atom.b, (n, k)), ("C", atom.c, (m, n))):
        values = number(tv[1].size())
        lines = ownership_lines(tv, shape)
        report.add(
            f"operand {name}",
            f"{shape[0]} x {shape[1]}, {counted(values, 'value')} for each of {counted(number(tv[0].size()), 'participant')}: {tv}",
        )
        report.lines += [("", text) for label, text in lines.lines if label in ("owner", "covers")]
    return report


def _who(threads: int, elements: int) -> str:
    groups = {32: "a warp", 64: "two warps", 128: "a warpgroup"}
    if threads in groups:
        return f"{threads} threads, {groups[threads]}, execute it together and hold its operands in registers"
    if threads == 1:
        return "one participant: a single thread issues it, so here T is not a thread of yours and V counts the whole operand"
    if threads == 2:
        return "two participants: two blocks of a cluster, each with its part of the operands"
    return f"{counted(threads, 'thread')} execute it together"


def describe_tiled_mma(mma: TiledMma) -> Report:
    """An MMA repeated over threads and tiles."""
    atoms = [number(product(e)) for e in (mma.thr.shape if isinstance(mma.thr.shape, tuple) else (mma.thr.shape,))]
    repeat = (*atoms[1:], 1, 1, 1)[:3]
    permutation = mma.permutation if isinstance(mma.permutation, tuple) else (mma.permutation,) * 3
    tile = [
        a * r if p is None else number(p.size() if isinstance(p, Layout) else product(p))
        for a, r, p in zip(_mnk(mma.atom), repeat, permutation, strict=False)
    ]
    report = Report(
        f"this is a tiled MMA: {' x '.join(map(str, repeat))} atoms (M x N x K) that together make a tile of {' x '.join(map(str, tile))}"
    )
    report.add("threads", f"{mma.thr.size()}: {atoms[0]} in an atom, times the atoms; thread of (V,M,N,K) is {mma.thr}")
    report.add("tile", f"{' x '.join(map(str, tile))} (M x N x K){_why(tile, mma, repeat)}")
    for mode, (name, p) in enumerate(zip("MNK", permutation, strict=False)):
        if isinstance(p, Layout) and len(flatten(p.shape)) > 1:
            report.add("", f"{name} is permuted by {p}: tile index i of mode {mode} is taken from {p}(i)")
    report.extend(atom_lines(mma.atom))
    return report


def _why(tile: list[int], mma: TiledMma, repeat: tuple[int, ...]) -> str:
    plain = [a * r for a, r in zip(_mnk(mma.atom), repeat, strict=False)]
    if plain == tile:
        return ": the atom's, times the atoms along each mode"
    times = [f"{t // p} times in {name}" for t, p, name in zip(tile, plain, "MNK", strict=False) if p and t != p]
    return f" by the permutation {tiler_text(mma.permutation)}: the atoms make {' x '.join(map(str, plain))}, repeated {', '.join(times)}"
