"""tcgen05: tensor memory and the fifth generation's tensor core, of one CTA or of a pair (PTX ISA 9.7.16).

An mma reads its operands through 16-byte chunks of shared memory, or words of TMEM, multiplies in float32 and adds to
the accumulator in TMEM. mma, cp and commit of a CTA complete in order; ld gives its registers at once; st completes at
wait::st at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from layoutlab.ptx import rules
from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import decode
from layoutlab.ptx.isa.copy import cluster_members, note_unfenced
from layoutlab.ptx.isa.mbarrier import shared_address
from layoutlab.ptx.isa.memory import address
from layoutlab.ptx.memory import WINDOW_MASK, AccessError
from layoutlab.ptx.parse import Imm, Instruction, Mem, PtxError, Vec
from layoutlab.ptx.registry import Decoded, Gate, Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op, Wave

_GROUP = ".group:cta_group::1|cta_group::2"


def _check_pairs(wave: Wave, q: Qualifiers, ins: Instruction) -> None:
    if q["group"] == "cta_group::2" and wave.cluster_ctas % 2:
        raise PtxError(f"{ins.opcode} in a cluster of {wave.cluster_ctas} CTAs, which are no pairs", ins.line)


def _unit(q: Qualifiers, cta: int) -> tuple[str, int]:
    """The queue of a CTA's tensor core; the two of a pair that work together complete in order."""
    return ("tcgen05 pair", cta // 2) if q["group"] == "cta_group::2" else ("tcgen05", cta)


# -- allocation --------------------------------------------------------------------------------------------------------


class AllocationGate(Gate):
    """Waits until enough columns are free; the columns are taken by the instruction itself."""

    def __init__(self, ins: Instruction, columns: int) -> None:
        self.ins, self.columns = ins, columns

    def poll(self, f: Frame) -> Any:
        allowed = np.zeros(f.shape, bool)
        for row in f.active_rows():
            lane = 0 if f.mask is True else int(f.mask[row].argmax())
            wanted = f.value(f.u32[self.columns], row, lane)
            if wanted < 32 or wanted > 512 or wanted & (wanted - 1):
                raise PtxError(f"tcgen05.alloc of {wanted} columns: a power of two from 32 to 512", self.ins.line)
            owner = f.wave.tmem.owner[int(f.cta[row, 0])]
            allowed[row] = any(not owner[c : c + wanted].any() for c in range(0, 512, wanted))
        return True if allowed[f.mask if f.mask is not True else slice(None)].all() else allowed

    def describe(self, f: Frame) -> str:
        return "free TMEM columns"


@instruction(f"tcgen05.alloc {_GROUP} .sync .aligned .space:shared|shared::cta? .b32")
def _alloc(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    columns = d.slot(ins.operands[1], 32)
    where = shared_address(d, ins.operands[0], ins, q.get("space", ""), 4)

    def run(f: Frame) -> None:
        _check_pairs(f.wave, q, ins)
        local = f.wave.locate_own(f.select(f.cta), where(f), ins.opcode)
        at = np.broadcast_to(local.reshape(f.shape) if f.mask is True else _spread(f, local), f.shape)
        for row in f.active_rows():
            lane = 0 if f.mask is True else int(f.mask[row].argmax())
            cta = int(f.cta[row, 0])
            start = f.wave.tmem.allocate(cta, f.value(f.u32[columns], row, lane))
            if start is None:
                raise PtxError("two warps of one fragment allocate TMEM at once", ins.line)
            f.wave.allocations[cta, start] = ins
            byte = int(at[row, lane])
            f.wave.shared.window(cta)[byte : byte + 4] = np.frombuffer(int(start).to_bytes(4, "little"), np.uint8)
            f.wave.shared.window_flags(cta)[byte : byte + 4] = 1

    return Decoded(run, gate=AllocationGate(ins, columns), sync="warp")


def _spread(f: Frame, values: Array) -> Array:
    full = np.zeros(f.shape, values.dtype)
    full[f.mask] = values
    return full


@instruction(f"tcgen05.dealloc {_GROUP} .sync .aligned .b32")
def _dealloc(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    base, columns = d.slot(ins.operands[0], 32), d.slot(ins.operands[1], 32)

    def run(f: Frame) -> None:
        for row in f.active_rows():
            lane = 0 if f.mask is True else int(f.mask[row].argmax())
            start = f.value(f.u32[base], row, lane) & 0xFFFF
            cta = int(f.cta[row, 0])
            f.wave.tmem.release(cta, start, f.value(f.u32[columns], row, lane))
            f.wave.allocations.pop((cta, start), None)
        f.wave.version += 1

    return Decoded(run, sync="warp")


@instruction(f"tcgen05.relinquish_alloc_permit {_GROUP} .sync .aligned")
def _relinquish(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    return Decoded(lambda f: None, sync="warp")


# -- loads and stores --------------------------------------------------------------------------------------------------

_SHAPES = ".shape:32x32b|16x64b|16x128b|16x256b|16x32bx2"
_REPEATS = ".repeat:x1|x2|x4|x8|x16|x32|x64|x128"


@dataclass(frozen=True)
class _Access:
    """Which (lane, column) each register of each thread stands for, relative to the address."""

    lanes: Array  # (register, 32)
    columns: Array
    registers: int
    width: int  # columns spanned
    plain: bool  # register r of thread t is lane t, column r


@lru_cache(maxsize=256)
def _places(shape: str, repeat: int, split: int, packed: bool) -> _Access:
    count = rules.REGISTERS_PER_REPEAT[shape] * repeat
    register, thread = np.arange(count)[:, None], np.arange(32)[None, :]
    lanes, columns = rules.register_place(shape, thread, register)
    columns = np.asarray(columns)
    if packed:
        low, high = rules.packed_columns(columns)
        columns = np.stack([low, high])
    columns = columns + rules.split_columns(thread, split)
    plain = not packed and bool((lanes == thread).all() and (columns == register).all())
    return _Access(np.asarray(lanes), columns, count, int(columns.max()) + 1, plain)


def _access_of(d: Decoder, ins: Instruction, q: Qualifiers, split_at: int) -> _Access:
    split = 0
    if q["shape"] == "16x32bx2":
        operand = ins.operands[split_at]
        if not isinstance(operand, Imm):
            raise d.fail("immHalfSplitoff is no immediate")
        split = operand.value
    packed = "pack::16b" in q or "unpack::16b" in q
    return _places(q["shape"], int(q["repeat"][1:]), split, packed)


def _bases(f: Frame, where: Array, access: _Access, ins: Instruction) -> tuple[Array, Array]:
    """The first lane and column of each row, shape (row, 1); checks that they are the warp's own and allocated."""
    if where.shape == f.shape:
        first = where[:, :1]
        if (where != first).any():
            raise PtxError(f"{ins.opcode}: the lanes of a warp give different addresses", ins.line)
    else:
        first = np.broadcast_to(where, (f.rows, 1))
    lane_base, column_base = first >> 16, first & 0xFFFF
    own = rules.first_lane(f.warp[:, :1])
    if "tmem lane 0" in f.wave.services.options:
        lane_base = np.where(lane_base < 32, own + lane_base, lane_base)
    top = int(access.lanes.max())
    bad = (lane_base < own) | (lane_base + top >= own + 32)
    if bad.any():
        row = int(np.flatnonzero(bad[:, 0])[0])
        raise AccessError(
            f"{ins.opcode}: warp {int(f.warp[row, 0])} of CTA {int(f.cta[row, 0])} touches TMEM lanes "
            f"{int(lane_base[row, 0])} to {int(lane_base[row, 0]) + top}; it owns {int(own[row, 0])} to "
            f"{int(own[row, 0]) + 31}", ins.line,
        )  # fmt: skip
    for row in range(f.rows):
        start = int(column_base[row, 0])
        f.wave.tmem.check(int(f.cta[row, 0]), start, start + access.width, ins.opcode)
    return lane_base, column_base


def _rows(f: Frame, where: Array, access: _Access, ins: Instruction) -> tuple[Array, Array, Array]:
    """(CTA, lane, column) of every register of every row, shape (register, row, 32)."""
    lane_base, column_base = _bases(f, where, access, ins)
    lanes = access.lanes[:, None, :] + lane_base
    columns = access.columns[..., None, :] + column_base
    return f.cta[:, :1], lanes, columns


def _slices(f: Frame, where: Array, access: _Access, ins: Instruction) -> list[tuple[int, slice, slice]]:
    """(CTA, lanes, columns) of each row of a plain access."""
    lane_base, column_base = _bases(f, where, access, ins)
    rows = zip(f.cta[:, 0].tolist(), lane_base[:, 0].tolist(), column_base[:, 0].tolist(), strict=True)
    return [(cta, slice(lane, lane + 32), slice(column, column + access.width)) for cta, lane, column in rows]


def _contiguous(slots: list[int]) -> bool:
    return slots[0] >= 0 and slots == list(range(slots[0], slots[0] + len(slots)))


@instruction(f"tcgen05.ld.sync.aligned {_SHAPES} {_REPEATS} .pack::16b? .b32")
def _ld(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    access = _access_of(d, ins, q, 2)
    slots = d.vector(ins.operands[0], 32, destination=True)
    if len(slots) != access.registers:
        raise d.fail(f"{ins.opcode} into {len(slots)} registers instead of {access.registers}")
    where = address(d, ins.operands[1], "tmem")
    packed, together = "pack::16b" in q, _contiguous(slots)

    def run(f: Frame) -> None:
        for whole in _whole_warps(f):
            outer, whole.mask = whole.mask, True
            load(whole)
            whole.mask = outer

    def load(f: Frame) -> None:
        if access.plain and together and f.wave.services.provenance is None and load_plain(f):
            return
        cta, lane, column = _rows(f, where(f), access, ins)
        tmem = f.wave.tmem
        if packed:
            low, high = tmem.words[cta, lane, column[0]], tmem.words[cta, lane, column[1]]
            values = (low & np.uint32(0xFFFF)) | (high << np.uint32(16))
            fresh = ~(tmem.written[cta, lane, column[0]] & tmem.written[cta, lane, column[1]])
        else:
            values = tmem.words[cta, lane, column]
            fresh = ~tmem.written[cta, lane, column]
        if np.count_nonzero(fresh):
            _note_unwritten(f.wave, ins, cta, lane, column[0] if packed else column, fresh)
        record = f.wave.services.provenance
        if record is not None:
            _record_load(record, f, ins, cta, lane, column)
        if together:
            f.wave.b32[slots[0] : slots[0] + len(slots), f.low : f.high] = values
        else:
            for slot, value in zip(slots, values, strict=True):
                f.u32[slot][...] = value

    def load_plain(f: Frame) -> bool:
        """Row by row through slices; False when some word was never written, which the other way reports."""
        places = _slices(f, where(f), access, ins)
        words, written = f.wave.tmem.words, f.wave.tmem.written
        if not all(written[place].all() for place in places):
            return False
        block = f.wave.b32[slots[0] : slots[0] + len(slots)]
        for row, place in enumerate(places, f.low):
            block[:, row] = words[place].T
        return True

    return Decoded(run, sync="warp")


def _whole_warps(f: Frame) -> list[Frame]:
    """Frames of neighbouring warps that execute; .aligned instructions run for whole warps."""
    if f.mask is True:
        return [f]
    rows = list(f.active_rows())
    starts = [r for r in rows if r - 1 not in rows]
    ends = [r + 1 for r in rows if r + 1 not in rows]
    return [f.wave.frame(f.low + a, f.low + b) for a, b in zip(starts, ends, strict=True)]


def _note_unwritten(wave: Wave, ins: Instruction, cta: Array, lane: Array, column: Array, fresh: Array) -> None:
    shape = fresh.shape
    at = tuple(np.argwhere(fresh)[0])
    where = [int(np.broadcast_to(x, shape)[at]) for x in (cta, lane, column)]
    wave.services.findings.add(
        "unwritten tmem", ins,
        f"{ins.opcode} reads TMEM lane {where[1]} column {where[2]} of CTA {where[0]}, never written "
        f"({int(np.count_nonzero(fresh))} of {fresh.size} words)",
    )  # fmt: skip


def _record_load(record: Any, f: Frame, ins: Instruction, cta: Array, lane: Array, column: Array) -> None:
    """One read for each row: location[thread of the warp, register] = (lane, column, bit)."""
    if column.ndim > lane.ndim:
        column = column[0]
    for row in range(f.rows):
        place = np.stack([lane[:, row].T, column[:, row].T, np.zeros_like(lane[:, row].T)], axis=-1)
        owner = int(f.cta[row, 0])
        writers = record.tmem_writers(owner, place[..., 0], place[..., 1])
        record.read("tmem.load", "tmem", owner, int(f.thread[row, 0]), ins, place, writers)


@instruction(f"tcgen05.st.sync.aligned {_SHAPES} {_REPEATS} .unpack::16b? .b32")
def _st(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    access = _access_of(d, ins, q, 1)
    slots = d.vector(ins.operands[-1], 32)
    if len(slots) != access.registers:
        raise d.fail(f"{ins.opcode} from {len(slots)} registers instead of {access.registers}")
    where = address(d, ins.operands[0], "tmem")
    unpacked = "unpack::16b" in q

    def run(f: Frame) -> None:
        for whole in _whole_warps(f):
            outer, whole.mask = whole.mask, True
            store(whole)
            whole.mask = outer

    def store_plain(f: Frame) -> None:
        places, tmem = _slices(f, where(f), access, ins), f.wave.tmem
        values = np.empty((f.rows, len(slots), 32), np.uint32)
        for i, slot in enumerate(slots):
            values[:, i] = f.u32[slot]

        def work() -> None:
            for row, place in enumerate(places):
                tmem.words[place] = values[row].T
                tmem.written[place] = True

        f.wave.asynchronous.submit(("tmem store", f.low, f.high), work, ins)

    def store(f: Frame) -> None:
        if access.plain and f.wave.services.provenance is None:
            store_plain(f)
            return
        cta, lane, column = _rows(f, where(f), access, ins)
        values = np.stack([np.broadcast_to(f.u32[s], f.shape) for s in slots])
        wave, threads = f.wave, f.thread

        def work() -> None:
            tmem = wave.tmem
            if unpacked:
                tmem.words[cta, lane, column[0]] = values & np.uint32(0xFFFF)
                tmem.words[cta, lane, column[1]] = values >> np.uint32(16)
            else:
                tmem.words[cta, lane, column] = values
            for part in column if unpacked else (column,):
                tmem.written[cta, lane, part] = True
                if wave.services.provenance is not None:
                    held = None if unpacked else values
                    wave.services.provenance.tmem_store(
                        ins, cta, lane, part, np.broadcast_to(threads, lane.shape), held
                    )

        wave.asynchronous.submit(("tmem store", f.low, f.high), work, ins)

    return Decoded(run, sync="warp")


@instruction("tcgen05.wait::ld.sync.aligned")
def _wait_ld(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    return Decoded(lambda f: None, sync="warp")


@instruction("tcgen05.wait::st.sync.aligned")
def _wait_st(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    def run(f: Frame) -> None:
        units = f.wave.asynchronous
        if not units.eager:
            for key in [k for k in units.queues if isinstance(k, tuple) and k[0] == "tmem store"]:
                assert isinstance(key, tuple)
                if key[1] < f.high and f.low < key[2]:
                    units.drain(key)

    return Decoded(run, sync="warp")


# -- descriptors -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixDescriptor:
    """A shared-memory matrix descriptor; fields in bytes."""

    start: int
    leading: int
    stride: int
    base_offset: int
    swizzle_code: int

    @property
    def width(self) -> int:
        return rules.DESCRIPTOR_SWIZZLE[self.swizzle_code][0]


def matrix_descriptor(bits: int, ins: Instruction, constant: int | None) -> MatrixDescriptor:
    """Decode a descriptor; `constant` is what bits 46-48 must hold (None on sm_90, which has no such field)."""
    code = bits >> 61 & 7
    if code not in rules.DESCRIPTOR_SWIZZLE:
        raise PtxError(f"{ins.opcode}: descriptor {bits:#x} has swizzle code {code}", ins.line)
    if constant is not None and (bits >> 46 & 7) != constant:
        raise PtxError(
            f"{ins.opcode}: descriptor {bits:#x} has {bits >> 46 & 7} in bits 46-48, not {constant}", ins.line
        )
    if constant is not None and bits >> 52 & 1:
        raise PtxError(f"{ins.opcode}: absolute leading offsets are not emulated yet", ins.line)
    return MatrixDescriptor(
        (bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, bits >> 49 & 7, code
    )


@lru_cache(maxsize=1024)
def operand_chunks(desc: MatrixDescriptor, rows: int, depth_bytes: int, element_bytes: int, mn_major: bool) -> Array:
    """The first byte of each 16-byte chunk that an operand reads.

    K-major: shape (rows, depth_bytes / 16). MN-major: shape (depth in elements, rows * element_bytes / 16).
    """
    depth = depth_bytes // element_bytes
    width = desc.width
    if mn_major:
        byte, k = 16 * np.arange(rows * element_bytes // 16)[None, :], np.arange(depth)[:, None]
        atom = 4 if desc.swizzle_code == 1 else 8
        linear = rules.mn_major_offset(byte, k, width, desc.leading, desc.stride, atom)
    else:
        row, byte = np.arange(rows)[:, None], 16 * np.arange(depth_bytes // 16)[None, :]
        linear = rules.k_major_offset(row, byte, width, desc.leading, desc.stride)
    absolute = linear + desc.start
    if desc.swizzle_code == 1:
        return np.asarray(rules.swizzle_32b_atoms(absolute))
    return np.asarray(rules.swizzle(absolute, width, desc.base_offset))


def element_bytes_at(chunks: Array, rows: int, depth: int, size: int, mn_major: bool) -> Array:
    """The first byte of each element (row, k), from the chunks' addresses."""
    spread = (chunks[..., None] + size * np.arange(16 // size)).reshape(chunks.shape[0], -1)
    return spread.T if mn_major else spread


def read_operand(
    wave: Wave, ins: Instruction, cta: int, desc: MatrixDescriptor, rows: int, kind: str, size: int, depth: int,
    mn_major: bool, name: str, issuer: int,
) -> Array:  # fmt: skip
    """An operand's values as float32 (rows, depth), read from shared memory; reports bytes that nobody wrote."""
    if desc.swizzle_code == 1 and not mn_major:
        raise PtxError(f"{ins.opcode}: the swizzle of 32-byte atoms is for MN-major operands", ins.line)
    chunks = operand_chunks(desc, rows, depth * size, size, mn_major)
    if (cta, desc, rows, depth, size, mn_major) not in wave.operands_written:
        wave.shared.check_span(int(chunks.min()), int(chunks.max()) + 16, f"{ins.opcode} operand {name}")
    index = chunks >> 4
    known = (cta, desc, rows, depth, size, mn_major)
    if known not in wave.operands_written:  # bytes once written stay so
        flags = wave.shared.window_flags(cta).view(np.complex128)[index].view(np.uint64)
        if (flags != np.uint64(0x0101010101010101)).any():
            _note_unwritten_operand(wave, ins, cta, chunks, name)
        else:
            wave.operands_written.add(known)
    note_unfenced(wave, ins, cta, index, issuer, f"{ins.opcode}: operand {name}")
    raw = wave.shared.window(cta).view(np.complex128)[index].view(np.uint8)
    record = wave.services.provenance
    if record is not None:
        at = element_bytes_at(chunks, rows, depth, size, mn_major)
        record.read(name, "shared", cta, -1, ins, at, record.shared_writers(cta, at))
    codes = raw.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[size]).reshape(chunks.shape[0], -1)
    values = decode_operand(kind, codes)
    return values.T if mn_major else values


def _note_unwritten_operand(wave: Wave, ins: Instruction, cta: int, chunks: Array, name: str) -> None:
    bytes_read = chunks[..., None] + np.arange(16)
    fresh = wave.shared.window_flags(cta)[bytes_read] == 0
    first = int(bytes_read[fresh][0])
    wave.services.findings.add(
        "unwritten shared", ins, f"{ins.opcode}: operand {name} of CTA {cta} reads shared byte {first}, never written "
        f"({int(fresh.sum())} of {fresh.size} bytes)",
    )  # fmt: skip


def decode_operand(kind: str, codes: Array) -> Array:
    if kind == "s8":
        return codes.view(np.int8).astype(np.float64)
    if kind == "u8":
        return codes.astype(np.float64)
    return decode(kind, codes)


def multiply(left: Array, right: Array) -> Array:
    """left @ right.T in slices so small that BLAS keeps to one thread: waking others costs more than a whole mma."""
    (m, depth), n = left.shape, len(right)
    rows = m
    while rows > 8 and rows * n * depth > 1 << 17:
        rows //= 2
    slices = np.ascontiguousarray(left).reshape(-1, rows, depth)
    return np.asarray(np.matmul(slices, right.T).reshape(m, n))


# -- mma ---------------------------------------------------------------------------------------------------------------

_OPERAND_TYPES = {
    "f16": {0: ("f16", 2), 1: ("bf16", 2)}, "tf32": {2: ("tf32", 4)},
    "f8f6f4": {0: ("e4m3", 1), 1: ("e5m2", 1)}, "i8": {0: ("u8", 1), 1: ("s8", 1)},
}  # fmt: skip
_ACCUMULATORS = {"f16": {0: "f16", 1: "f32"}, "tf32": {1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"}, "i8": {2: "s32"}}


@dataclass(frozen=True)
class InstructionDescriptor:
    """The 32-bit instruction descriptor of tcgen05.mma, decoded."""

    m: int
    n: int
    a: tuple[str, int]
    b: tuple[str, int]
    accumulator: str
    a_mn_major: bool
    b_mn_major: bool
    negate_a: bool
    negate_b: bool
    saturate: bool


@lru_cache(maxsize=256)
def instruction_descriptor(bits: int, kind: str, line: int, pair: bool = False) -> InstructionDescriptor:
    """Decode and check an instruction descriptor for a kind, of one CTA or of a pair."""
    a, b, d = bits >> 7 & 7, bits >> 10 & 7, bits >> 4 & 3
    types = _OPERAND_TYPES[kind]
    if bits & 7 & ~0 and bits >> 2 & 1:
        raise PtxError("sparse tcgen05.mma is not emulated yet", line)
    if a not in types or b not in types:
        raise PtxError(f"tcgen05.mma kind::{kind} with operand types {a} and {b} is not emulated yet", line)
    if d not in _ACCUMULATORS[kind]:
        raise PtxError(f"tcgen05.mma kind::{kind} with accumulator type {d}", line)
    n, m = (bits >> 17 & 63) << 3, (bits >> 24 & 31) << 4
    if m not in ((128, 256) if pair else (64, 128)):
        allowed = "cta_group::2 has 128 and 256" if pair else "cta_group::1 has 64 and 128"
        raise PtxError(f"tcgen05.mma with M = {m}: {allowed}", line)
    step = 8 if m == 64 else 16
    if n == 0 or n > 256 or n % step:
        raise PtxError(f"tcgen05.mma with N = {n} for M = {m}", line)
    return InstructionDescriptor(
        m, n, types[a], types[b], _ACCUMULATORS[kind][d], bool(bits >> 15 & 1), bool(bits >> 16 & 1),
        bool(bits >> 13 & 1), bool(bits >> 14 & 1), bool(bits >> 3 & 1),
    )  # fmt: skip


@instruction(
    f"tcgen05.mma {_GROUP} .kind:kind::f16|kind::tf32|kind::f8f6f4|kind::i8 .ashift? "
    ".collector:collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard?"
)
def _mma(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    if "ashift" in q:
        raise d.fail(f"{ins.opcode}: .ashift is not emulated yet")
    kind = q["kind"].removeprefix("kind::")
    target = address(d, ins.operands[0], "tmem")
    a_in_tmem = isinstance(ins.operands[1], Mem)
    a_at = address(d, ins.operands[1], "tmem") if a_in_tmem else None
    a_slot = -1 if a_in_tmem else d.slot(ins.operands[1], 64)
    b_slot, i_slot = d.slot(ins.operands[2], 64), d.slot(ins.operands[3], 32)
    rest = list(ins.operands[4:])
    disabled = [d.slot(item, 32) for item in rest.pop(0).items] if isinstance(rest[0], Vec) else []  # type: ignore[union-attr]
    enable, enable_negated = d.signed_predicate(rest.pop(0))
    scale = 0
    if rest:
        factor = rest[0]
        if not isinstance(factor, Imm):
            raise d.fail("scale-input-d is no immediate")
        scale = factor.value

    pair = q["group"] == "cta_group::2"

    def run(f: Frame) -> None:
        wave = f.wave
        _check_pairs(wave, q, ins)
        d_list = target(f).ravel().tolist()
        a_list = (a_at(f) if a_at is not None else f.select(f.u64[a_slot])).ravel().tolist()
        lists = [f.select(x).ravel().tolist() for x in (f.u64[b_slot], f.u32[i_slot], f.p[enable], f.cta, f.slot)]
        masks = [f.select(f.u32[s]).ravel().tolist() for s in disabled]
        for j, (d_at, a, b, idesc, enabled, cta, issuer) in enumerate(zip(d_list, a_list, *lists, strict=True)):
            ctas = (cta & ~1, cta | 1) if pair else (cta,)
            work = _Multiply(
                wave, ins, ctas, kind, d_at, a, a_in_tmem, b, idesc, bool(enabled) != enable_negated, scale,
                tuple(m[j] for m in masks), issuer,
            )  # fmt: skip
            wave.asynchronous.submit(_unit(q, cta), work.run, ins)

    return run


class _Multiply:
    """One tcgen05.mma, with its operands' addresses as they were when it was issued.

    A pair of CTAs holds half of A's rows and half of B's rows (the columns of D) each, at the same addresses in both;
    each accumulates the rows of its own A.
    """

    def __init__(
        self, wave: Wave, ins: Instruction, ctas: tuple[int, ...], kind: str, d_at: int, a: int, a_in_tmem: bool,
        b: int, idesc: int, enabled: bool, scale: int, disabled: tuple[int, ...], issuer: int,
    ) -> None:  # fmt: skip
        self.wave, self.ins, self.ctas, self.d_at, self.a = wave, ins, ctas, d_at, a
        self.shape = instruction_descriptor(idesc, kind, ins.line, len(ctas) == 2)
        self.rows = self.shape.m // len(ctas)  # of each CTA
        if a_in_tmem and len(ctas) == 2 and self.rows == 64:
            raise PtxError(f"{ins.opcode}: A in TMEM with M = 128 of a pair is not emulated yet", ins.line)
        self.depth = 32 // self.shape.a[1]
        self.b = matrix_descriptor(b, ins, 1)
        self.a_desc = None if a_in_tmem else matrix_descriptor(a, ins, 1)
        self.enabled, self.scale, self.disabled, self.issuer = enabled, scale, disabled, issuer

    def run(self) -> None:
        shape = self.shape
        lefts = [self._a(cta) for cta in self.ctas]
        rights = [
            read_operand(
                self.wave, self.ins, cta, self.b, shape.n // len(self.ctas), shape.b[0], shape.b[1], self.depth,
                shape.b_mn_major, "B", self.issuer,
            )
            for cta in self.ctas
        ]  # fmt: skip
        right = rights[0] if len(rights) == 1 else np.concatenate(rights)
        for half, (cta, left) in enumerate(zip(self.ctas, lefts, strict=True)):
            product = multiply(left, right)
            if shape.negate_a != shape.negate_b:
                product = -product
            self._accumulate(cta, product, self.disabled[4 * half : 4 * half + 4])

    def _a(self, cta: int) -> Array:
        shape = self.shape
        if self.a_desc is None:
            return self._a_from_tmem(cta)
        return read_operand(
            self.wave, self.ins, cta, self.a_desc, self.rows, shape.a[0], shape.a[1], self.depth, shape.a_mn_major,
            "A", self.issuer,
        )  # fmt: skip

    def _a_from_tmem(self, cta: int) -> Array:
        """A row is a lane; its elements fill 32-bit words from the low end."""
        shape, size = self.shape, self.shape.a[1]
        lanes = rules.accumulator_lane(np.arange(self.rows), self.rows) + (self.a >> 16)
        column, bit = rules.tmem_operand_word(np.arange(self.depth), 8 * size)
        column = column + (self.a & 0xFFFF)
        tmem = self.wave.tmem
        tmem.check(cta, int(column.min()), int(column.max()) + 1, f"{self.ins.opcode} operand A")
        words = tmem.words[cta, lanes[:, None], column[None, :]]
        fresh = ~tmem.written[cta, lanes[:, None], column[None, :]]
        if fresh.any():
            _note_unwritten(
                self.wave, self.ins, np.array(cta), lanes[:, None] + 0 * column, column + 0 * lanes[:, None], fresh
            )
        record = self.wave.services.provenance
        if record is not None:
            place = np.stack(np.broadcast_arrays(lanes[:, None], column[None, :], bit[None, :]), axis=-1)
            writers = record.tmem_writers(cta, place[..., 0], place[..., 1])
            record.read("A", "tmem", cta, -1, self.ins, place, writers)
        codes = words >> bit.astype(np.uint32)
        return decode_operand(shape.a[0], codes.astype({1: np.uint8, 2: np.uint16, 4: np.uint32}[size]))

    def _accumulate(self, cta: int, product: Array, disabled: tuple[int, ...]) -> None:
        shape, tmem = self.shape, self.wave.tmem
        start, lane_base = self.d_at & 0xFFFF, self.d_at >> 16
        halved = len(self.ctas) == 2 and self.rows == 64
        tmem.check(cta, start, start + (shape.n // 2 if halved else shape.n), f"{self.ins.opcode} accumulator")
        place = accumulator_place(self.rows, shape.n, halved, lane_base, start)
        if int(place.lanes.max()) >= 128:
            raise AccessError(f"{self.ins.opcode}: accumulator lanes up to {int(place.lanes.max())}", self.ins.line)
        where: Any = (
            (slice(0, 128), slice(start, start + shape.n))
            if place.in_order and not any(disabled)
            else (place.lanes, place.columns)
        )
        if self.enabled and not tmem.written[cta, *where].all():
            fresh = ~tmem.written[cta, place.lanes, place.columns]
            _note_unwritten(self.wave, self.ins, np.array(cta), place.lanes, place.columns, fresh)
        old = tmem.words[cta, *where]
        words = _accumulated(shape, old, product, self.enabled, self.scale)
        if any(disabled):
            masks = np.array(disabled, np.uint64)
            off = masks[place.lanes // 32] >> (place.lanes % 32).astype(np.uint64) & np.uint64(1)
            words = np.where(off != 0, old, words)
        tmem.words[cta, *where] = words
        tmem.written[cta, *where] = True
        record = self.wave.services.provenance
        if record is not None:
            writers = record.tmem_writers(cta, place.lanes, place.columns)
            record.tmem_store(self.ins, np.asarray(cta), place.lanes, place.columns, np.asarray(-1))
            location = np.stack([place.lanes, place.columns, 0 * place.lanes], axis=-1)
            record.read("D", "tmem", cta, -1, self.ins, location, writers)


@dataclass(frozen=True)
class AccumulatorPlace:
    """The TMEM lane and column of each element (row, n) of a CTA's accumulator."""

    lanes: Array
    columns: Array
    in_order: bool  # rows are lanes 0 to 127, columns follow one another


@lru_cache(maxsize=64)
def accumulator_place(rows: int, n: int, halved: bool, lane_base: int, start: int) -> AccumulatorPlace:
    """`halved`: 64 rows of each CTA of a pair, in which the upper lanes hold the second half of the columns."""
    row, column = np.arange(rows)[:, None], np.arange(n)[None, :]
    if halved:
        lanes, columns = rules.paired_accumulator_place(row, column, n)
    else:
        lanes, columns = rules.accumulator_lane(row, rows) + 0 * column, column + 0 * row
    lanes, columns = np.asarray(lanes) + lane_base, np.asarray(columns) + start
    in_order = rows == 128 and bool((lanes == row).all())
    return AccumulatorPlace(lanes, columns, in_order)


def _accumulated(shape: InstructionDescriptor, old: Array, product: Array, enabled: bool, scale: int) -> Array:
    """The accumulator's new words."""
    if shape.accumulator == "s32":
        total = rules.accumulate(old.view(np.int32).astype(np.int64), product.astype(np.int64), enabled, 0)
        if shape.saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return np.asarray(total).astype(np.int32).view(np.uint32)
    if shape.accumulator == "f16":
        before = decode("f16", (old & np.uint32(0xFFFF)).astype(np.uint16))
        total = rules.accumulate(before, product, enabled, scale).astype(np.float16)
        return total.view(np.uint16).astype(np.uint32)
    total = rules.accumulate(old.view(np.float32), product, enabled, scale)
    return np.ascontiguousarray(total, dtype=np.float32).view(np.uint32)


@instruction(
    f"tcgen05.commit {_GROUP} .mbarrier::arrive::one .space:shared::cluster|shared::cta? .multicast::cluster? .b64"
)
def _commit(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Arrive once when earlier mma and cp are complete: the units of a CTA, or of a pair, complete in order.

    A multicast arrives at the same address in every CTA of the mask.
    """
    where = shared_address(d, ins.operands[0], ins, "shared::cluster" if q.get("space") else "")
    mask = d.slot(ins.operands[1], 16) if "multicast::cluster" in q else None

    def run(f: Frame) -> None:
        units, wave = f.wave.asynchronous, f.wave
        _check_pairs(wave, q, ins)
        ats, ctas = (where(f) & WINDOW_MASK).ravel().tolist(), f.select(f.cta).ravel().tolist()
        masks = [None] * len(ats) if mask is None else f.select(f.u16[mask]).ravel().tolist()
        for at, cta, chosen in zip(ats, ctas, masks, strict=True):
            owner, local = wave.locate(cta, at, ins.opcode)
            owners = [owner] if chosen is None else cluster_members(wave, cta, chosen, ins)
            for each in owners:
                barrier = units.mbarrier(each, local, ins)
                units.submit(_unit(q, cta), lambda b=barrier: units.arrive(b, 1, ins), ins)  # type: ignore[misc]

    return run
