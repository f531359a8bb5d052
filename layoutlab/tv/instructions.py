"""Copy and MMA atoms made from the instruction tables, as CuTe DSL prints them.

>>> print(make_copy_atom("tcgen05.ld.32x32b.x32", "f32"))
Copy Atom
  ThrID:         32:1
  TV Layout Src: (32,1024):(0,1)
  TV Layout Dst: (32,32):(32,1)
  Value type:    f32

An atom numbers its elements in an order of its own. ldmatrix and stmatrix count them row by row, matrix by matrix;
tcgen05.ld and st count along a lane of Tensor Memory, lane by lane.

Sources: the tables in `layoutlab.atoms`; CUTLASS include/cute/atom/copy_traits*.hpp, mma_traits*.hpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutlab.algebra import coalesce, composition, recast_layout
from layoutlab.algebra.structure import of_runs
from layoutlab.atoms import mma as tables
from layoutlab.atoms.matrix import MatrixCopy, matrix_copy
from layoutlab.atoms.scales import TmemCopy
from layoutlab.atoms.tmem import WORD_BITS, TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout, make_layout
from layoutlab.text import bits_of
from layoutlab.tv.copy import CopyAtom
from layoutlab.tv.mma import MmaAtom

CopyOp: TypeAlias = "str | MatrixCopy | TmemAtom | TmemCopy"
"""An instruction of the tables, or its name: "universal", "cp.async", "ldmatrix.m8n8.x4", "tcgen05.ld.32x32b.x8",
"tcgen05.cp.32x128b.warpx4", with "cta_group::2." before its shape for a pair of CTAs."""

_UNIVERSAL_BITS = (8, 16, 32, 64, 128, 256)
_ASYNC_BITS = (32, 64, 128)


@dataclass(frozen=True, repr=False)
class TmemCopyAtom(CopyAtom):
    """A tcgen05.ld or tcgen05.st and its row of the table."""

    op: TmemAtom


@dataclass(frozen=True, repr=False)
class SharedToTmemAtom(CopyAtom):
    """A tcgen05.cp and its row of the table; its "threads" are the CTAs, one thread of which issues it for all."""

    op: TmemCopy


def make_copy_atom(op: CopyOp, value_type: str, num_bits_per_copy: int = 0) -> CopyAtom:
    """The atom of a copy instruction for elements of a type, such as "bf16".

    >>> make_copy_atom("universal", "f16", num_bits_per_copy=128).src
    (1,8):(0,1)
    >>> make_copy_atom("ldmatrix.m8n8.x4", "f16").dst
    (32,(2,4)):(2,(1,64))
    >>> make_copy_atom("universal", "f16", num_bits_per_copy=24)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: universal copies 8, 16, 32, 64, 128 or 256 bits, not 24

    num_bits_per_copy is for "universal" and "cp.async"; 0 is one element. Refuses a type that does not fill the
    instruction's registers.
    """
    bits = bits_of(value_type)
    if bits is None:
        raise LayoutError(f"{value_type!r} is no type: f16, bf16, f32, f8E4M3FN and the like are")
    made = _named(op) if isinstance(op, str) else op
    if isinstance(made, MatrixCopy):
        return _matrix_atom(made, value_type, bits)
    if isinstance(made, TmemAtom):
        return _tmem_atom(made, value_type, bits)
    if isinstance(made, TmemCopy):
        group = 2 if isinstance(op, str) and "cta_group::2" in op else 1
        return _shared_to_tmem_atom(made, value_type, bits, group)
    allowed = _ASYNC_BITS if made == "cp.async" else _UNIVERSAL_BITS
    width = num_bits_per_copy or bits
    if width not in allowed and width != bits:
        raise LayoutError(f"{made} copies {', '.join(map(str, allowed[:-1]))} or {allowed[-1]} bits, not {width}")
    if width % bits:
        raise LayoutError(f"{width} bits are no whole number of {value_type}, of {bits} bits")
    count = width // bits
    side = Layout((1, count), (0, 1 if count > 1 else 0))
    return CopyAtom(Layout(1, 0), side, side, side, value_type)


def _named(op: str) -> Literal["universal", "cp.async"] | MatrixCopy | TmemAtom | TmemCopy:
    if op in ("universal", "cp.async"):
        return op  # type: ignore[return-value]
    if found := re.fullmatch(r"(ldmatrix|stmatrix)\.(?:(m\d+n\d+)\.)?x(\d)(\.trans)?", op):
        instruction, shape, count, trans = found.groups()
        return matrix_copy(instruction, int(count), trans is not None, shape or "m8n8")  # type: ignore[arg-type]
    if found := re.fullmatch(r"tcgen05\.cp\.(?:cta_group::[12]\.)?(.+)", op):
        return TmemCopy(found[1])
    if op.startswith("tcgen05."):
        return TmemAtom.parse(op)
    raise LayoutError(
        f"{op!r} is no copy instruction: universal, cp.async, ldmatrix.m8n8.x4, stmatrix.m8n8.x4.trans, "
        "tcgen05.ld.32x32b.x32, tcgen05.cp.32x128b.warpx4 and the like are"
    )


def _matrix_atom(op: MatrixCopy, value_type: str, bits: int) -> CopyAtom:
    if op.trans and bits > op.bits:
        raise LayoutError(f"{op} puts the {op.bits}-bit parts of one {value_type} into different threads")
    rows = recast_layout(bits, op.bits, op.rows)
    registers = recast_layout(bits, 1, _in_bits(op.registers, op.bits))
    sides = (rows, registers) if op.instruction == "ldmatrix" else (registers, rows)
    return CopyAtom(Layout(32), *sides, registers, value_type)


def _in_bits(registers: Layout, unit: int) -> Layout:
    """A fragment counted in units of so many bits, as (thread, (bit, value)) -> bit."""
    threads, values = ([(s, d * unit) for s, d in side.leaves()] for side in registers)
    together = coalesce(of_runs([(unit, 1), *values]))
    return make_layout(of_runs(threads), together)


def _tmem_atom(op: TmemAtom, value_type: str, bits: int) -> CopyAtom:
    lanes, along = op.tile(bits)
    memory = Layout((32, lanes * along), (0, 1))
    unit = bits if op.packed else WORD_BITS
    words = Layout(op.tile(unit), (op.tile(unit)[1], 1))  # lane + lanes * word -> word along the lane, lane after lane
    registers = recast_layout(bits, 1, _in_bits(composition(words, op.tv_layout(unit)), unit))
    sides = (memory, registers) if op.direction == "ld" else (registers, memory)
    return TmemCopyAtom(Layout(32), *sides, memory, value_type, op)


def _shared_to_tmem_atom(op: TmemCopy, value_type: str, bits: int, cta_group: int) -> SharedToTmemAtom:
    if op.shape == "4x256b":
        raise LayoutError(
            f"tcgen05.cp.4x256b has no copy atom here: CuTe numbers it as 4 lines of 256 {value_type} instead of 256 "
            "bits; `layoutlab.atoms.scales.TmemCopy` has its lines and lanes"
        )
    (near, _), *further = op.line_modes()
    inside = op.line_bits
    source, steps = [near, inside], [1, near]
    for extent, _ in further:
        steps.append(source[0] * source[1])
        source.append(extent)
    if op.copies > 1:
        source.append(op.copies)
        steps.append(0)
    total = op.lines * inside * op.copies
    read = recast_layout(bits, 1, Layout(tuple(source), tuple(steps)) if len(source) > 2 else Layout(total))
    sides = (Layout((cta_group, side.shape), (0, side.stride)) for side in (read, Layout(total // bits)))
    src, dst = sides
    return SharedToTmemAtom(Layout(cta_group, 0 if cta_group == 1 else 1), src, dst, dst, value_type, op)


def mma_atom(op: tables.MmaAtom | MmaAtom) -> MmaAtom:
    """The atom of an mma.sync or wgmma of the tables; of `layoutlab.tv.tcgen05_mma`, itself.

    >>> mma_atom(tables.mma_sync(16, 8, 16, "bf16", "f32")).c
    ((4,8),(2,2)):((32,1),(16,8))
    """
    if isinstance(op, MmaAtom):
        return op
    return MmaAtom(Layout(op.threads), op.shape, op.a, op.b, op.c)
