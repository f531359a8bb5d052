"""Recognition: which instructions of the tables a printed copy or MMA atom is.

>>> from layoutlab.tv.instructions import make_copy_atom
>>> copy_instructions(make_copy_atom("ldmatrix.m8n8.x4", "f16").record())
('ldmatrix.m8n8.x4',)
>>> copy_instructions(make_copy_atom("universal", "f16", 128).record())
('a load or store of 128 bits', 'cp.async')

Atoms are compared as functions, so that DSL's and C++'s notations of one instruction are the same. What one thread
moves alone, and what several types share, has several names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product as pairs

from layoutlab.algebra import functionally_equal
from layoutlab.atoms.matrix import Instruction
from layoutlab.atoms.mma import MmaAtom as MmaRow
from layoutlab.atoms.mma import mma_atoms, wgmma
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import modes, product
from layoutlab.layout import Layout
from layoutlab.survey import number
from layoutlab.text import bits_of, records
from layoutlab.tv.copy import CopyAtom, TiledCopy
from layoutlab.tv.instructions import CopyOp, make_copy_atom, mma_atom
from layoutlab.tv.umma import tcgen05_mma

_OF_WIDTH = {4: "f4E2M1FN", 8: "i8", 16: "f16", 32: "f32", 64: "i64"}
"""A type of each width: an atom's layouts depend on the width alone."""

_MATRICES: tuple[tuple[Instruction, str, str], ...] = (
    ("ldmatrix", "m8n8", ""),
    ("ldmatrix", "m8n8", ".trans"),
    ("stmatrix", "m8n8", ""),
    ("stmatrix", "m8n8", ".trans"),
    ("ldmatrix", "m16n16", ".trans"),
    ("stmatrix", "m16n8", ".trans"),
)
_TMEM_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
_CP_SHAPES = ("128x256b", "128x128b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23")


def value_bits(value_type: str) -> int | None:
    """The width of a printed value type, DSL's `bf16` or C++'s `16b`.

    >>> value_bits("bf16"), value_bits("16b")
    (16, 16)
    """
    return int(value_type[:-1]) if value_type[:-1].isdigit() and value_type[-1:] == "b" else bits_of(value_type)


def copy_instructions(atom: records.CopyAtom) -> tuple[str, ...]:
    """The names of the copy instructions that have this atom's threads, source and destination.

    >>> from layoutlab.text import parse
    >>> copy_instructions(parse('''Copy_Atom
    ...   ThrID:        _32:_1
    ...   ValLayoutSrc: (_32,_1):(_0,_0)
    ...   ValLayoutDst: (_32,_1):(_0,_0)
    ...   ValLayoutRef: (_32,_1):(_0,_0)
    ...   ValueType:    32b'''))
    ()
    """
    return tuple(name for name, _ in _copies(atom))


def copy_atom_of(atom: records.CopyAtom) -> CopyAtom | None:
    """The atom of the first instruction that this is, with its reference side; nothing where it is of none."""
    return next((made for _, made in _copies(atom) if made is not None), None)


def as_tiled_copy(copy: records.TiledCopy) -> TiledCopy:
    """A printed tiled copy as one that partitions; the reference side is the one that the instruction has.

    >>> from layoutlab.tv.copy import make_tiled_copy_tv
    >>> copy = make_tiled_copy_tv(make_copy_atom("stmatrix.m8n8.x1", "f16"), Layout((32, 1)), Layout((1, 2)))
    >>> as_tiled_copy(copy.record()) == copy
    True
    """
    return copy if isinstance(copy, TiledCopy) else TiledCopy(copy.tiler, copy.tv, as_copy_atom(copy.atom))


def as_copy_atom(atom: records.CopyAtom) -> CopyAtom:
    """A printed copy atom with its reference side: Tensor Memory's of tcgen05's, the registers' of all others.

    >>> as_copy_atom(make_copy_atom("stmatrix.m8n8.x1", "f16").record()).ref
    (32,2):(2,1)

    C++ prints that side; the DSL does not, so what is no instruction of the tables and has two sides is refused.
    """
    if isinstance(atom, CopyAtom):
        return atom
    known = copy_atom_of(atom)
    if known is not None:
        ref = atom.ref or (atom.dst if known.ref == known.dst else atom.src)
        return replace(known, thr=atom.thr, src=atom.src, dst=atom.dst, ref=ref, value_type=atom.value_type)
    if atom.ref is None and atom.src != atom.dst:
        raise LayoutError(
            f"a copy atom from {atom.src} to {atom.dst} is of no instruction of the tables: the text does not say for "
            "which side a TV layout is"
        )
    return CopyAtom(atom.thr, atom.src, atom.dst, atom.ref or atom.src, atom.value_type)


def _copies(atom: records.CopyAtom) -> Iterator[tuple[str, CopyAtom | None]]:
    bits = value_bits(atom.value_type)
    threads = number(atom.thr.size())
    if bits not in _OF_WIDTH:
        return
    if threads == 1 and atom.src == atom.dst and atom.src[1] in (Layout(atom.src[1].size()), Layout(1, 0)):
        moved = number(atom.src[1].size()) * bits
        if moved in (8, 16, 32, 64, 128, 256):
            yield f"a load or store of {moved} bits", None
        if moved in (32, 64, 128):
            yield "cp.async", None
    for name, op in _candidates(threads):
        try:
            made = make_copy_atom(op, _OF_WIDTH[bits])
        except LayoutError:  # the instruction does not move elements of this width
            continue
        if all(_same(a, b) for a, b in ((made.src, atom.src), (made.dst, atom.dst))):
            yield name, made


def _candidates(threads: int) -> Iterator[tuple[str, CopyOp]]:
    if threads == 32:
        for (instruction, shape, trans), count in pairs(_MATRICES, (1, 2, 4)):
            name = f"{instruction}.{shape}.x{count}{trans}"
            yield name, name
        for way, shape, exponent, packed in pairs(("ld", "st"), _TMEM_SHAPES, range(8), (False, True)):
            try:
                op = TmemAtom(way, shape, 1 << exponent, packed=packed)  # type: ignore[arg-type]
            except LayoutError:  # more registers than an instruction has
                continue
            yield str(op), op
    elif threads <= 2:
        group = "cta_group::2." if threads == 2 else ""
        for shape in _CP_SHAPES:
            yield f"tcgen05.cp.{group}{shape}", f"tcgen05.cp.{group}{shape}"


def mma_instructions(atom: records.MmaAtom) -> tuple[str, ...]:
    """The names of the matrix instructions that have this atom's shape, threads and operands.

    >>> from layoutlab.atoms.mma import mma_sync
    >>> mma_instructions(mma_atom(mma_sync(16, 8, 8, "tf32", "f32")).record())
    ('mma.sync.m16n8k8.f32.tf32.tf32.f32', 'mma.sync.m16n8k8.f64.f64.f64.f64')
    >>> mma_instructions(tcgen05_mma(256, 128, cta_group=2).record())
    ('tcgen05.mma.cta_group::2 of 16-bit elements',)
    """
    shape = tuple(number(product(mode)) for mode in modes(atom.shape_mnk))
    threads = number(atom.thr.size())
    rows = [row for row in (*mma_atoms(), *_warpgroup(shape)) if row.shape == shape and row.threads == threads]
    found = [str(row) + _where(row) for row in rows if _same_mma(mma_atom(row), atom)]
    if threads <= 2 and shape[2] in (8, 16, 32):
        bits = 256 // shape[2]
        try:
            made = tcgen05_mma(shape[0], shape[1], bits, threads)
        except LayoutError:  # no tcgen05.mma has this shape
            return tuple(found)
        if _same_mma(made, atom):
            found.append(f"tcgen05.mma.cta_group::{threads} of {bits}-bit elements")
    return tuple(found)


def _warpgroup(shape: tuple[int, ...]) -> Iterator[MmaRow]:
    """wgmma of every type whose N this is, A from either side."""
    if shape[0] != 64 or shape[2] not in (8, 16, 32, 256):
        return
    types = [("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("tf32", "f32"), ("s8", "s32"), ("u8", "s32")]
    types += [(ab, cd) for ab in ("e4m3", "e5m2") for cd in ("f16", "f32")]
    for (ab, cd), source in pairs(types, ("smem", "registers")):
        try:
            yield wgmma(shape[1], ab, cd, source)  # type: ignore[arg-type]
        except LayoutError:  # the type has no such N
            continue


def _where(row: MmaRow) -> str:
    if row.instruction != "wgmma":
        return ""
    return ", A from shared memory" if row.a[0].leaves()[0][1] == 0 else ", A from registers"


def _same(a: Layout, b: Layout) -> bool:
    """Whether two (thread, value) layouts are the same function."""
    sizes = [[number(mode.size()) for mode in side] for side in (a, b)]
    return sizes[0] == sizes[1] and functionally_equal(a, b)


def _same_mma(made: records.MmaAtom, atom: records.MmaAtom) -> bool:
    return all(_same(x, y) for x, y in ((made.a, atom.a), (made.b, atom.b), (made.c, atom.c)))
