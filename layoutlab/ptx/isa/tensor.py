"""tensor: TMA loads, stores and reductions of boxes (PTX ISA 9.7.9.27, 5.5).

A box is gathered densely, dimension 0 fastest, and its bytes are placed in shared memory through the map's swizzle of
the absolute address. Elements outside the tensor read as zero and are not written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from layoutlab.ptx import rules
from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.isa.copy import _bulk_queue, destinations, note_unfenced, note_unwritten, reduce_bytes
from layoutlab.ptx.isa.memory import address
from layoutlab.ptx.memory import PARAM_BASE, WINDOW_MASK, AccessError
from layoutlab.ptx.parse import Instruction, PtxError, Vec
from layoutlab.ptx.registry import Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op, Wave
from layoutlab.ptx.tma import ROUNDED, TensorMap, decode_tensor_map


class Box:
    """A tensor map at given coordinates: the part inside the tensor, and where its bytes lie in shared memory."""

    def __init__(self, tensor: TensorMap, coordinates: list[int], ins: Instruction) -> None:
        if tensor.interleave:
            raise PtxError("interleaved tensor maps are not emulated yet", ins.line)
        if tensor.nan_fill:
            raise PtxError("tensor maps that fill with NaN are not emulated yet", ins.line)
        if len(coordinates) != len(tensor.box):
            raise PtxError(f"{len(coordinates)} coordinates for a tensor map of rank {len(tensor.box)}", ins.line)
        size, counts = tensor.element_bytes, tensor.counts
        if counts[0] * size % 16:
            raise PtxError(f"a box row of {counts[0] * size} bytes, no multiple of 16", ins.line)
        if coordinates[0] * size % 16:
            # Recorded on an H200: an illegal instruction.
            raise PtxError(
                f"{ins.opcode}: coordinate 0 starts at byte {coordinates[0] * size}, no multiple of 16", ins.line
            )
        self.tensor, self.ins = tensor, ins
        self.origin = tuple(reversed(coordinates))  # slowest dimension first, as the box's elements are recorded
        self.steps = tensor.element_strides or (1,) * len(counts)
        # The first and last moved elements that lie inside the tensor: 0 <= c + i * step < extent.
        self.low = [max(0, -(c // s)) for c, s in zip(coordinates, self.steps, strict=True)]
        self.high = [
            min(n, -((c - e) // s)) for n, e, c, s in zip(counts, tensor.extents, coordinates, self.steps, strict=True)
        ]
        self.empty = any(h <= low for low, h in zip(self.low, self.high, strict=True))
        self.start = tensor.address + sum(
            (c + low * step) * s
            for c, low, step, s in zip(coordinates, self.low, self.steps, tensor.strides, strict=True)
        )
        self.shape = (*reversed(counts[1:]), counts[0] * size)  # slowest first; the last axis in bytes
        inside = [slice(low, high) for low, high in zip(self.low, self.high, strict=True)]
        self.inside = (*reversed(inside[1:]), slice(self.low[0] * size, self.high[0] * size))

    def chunks(self, at: int) -> Array:
        """The number of the shared chunk of each 16 bytes of the box at a shared address."""
        row_bytes = self.shape[-1]
        rows = self.tensor.box_bytes // row_bytes
        return chunk_addresses(rows, row_bytes, at, self.tensor.swizzle, self.tensor.swizzle_atom)

    @property
    def span(self) -> int:
        """Bytes of shared memory from the box's start to its end."""
        row_bytes = self.shape[-1]
        pitch = rules.box_row_pitch(row_bytes, self.tensor.swizzle)
        return pitch * (self.tensor.box_bytes // row_bytes)

    def view(self, wave: Wave, row_bytes: int = 0) -> Array:
        """The global bytes of the inside part, as a strided view; `row_bytes` of each row when given."""
        tensor, size = self.tensor, self.tensor.element_bytes
        extents = [h - low for low, h in zip(self.low, self.high, strict=True)]
        pitch = [s * step for s, step in zip(tensor.strides, self.steps, strict=True)]
        if self.steps[0] != 1:
            raise PtxError("a tensor map with steps in dimension 0 is not emulated yet", self.ins.line)
        row_bytes = row_bytes or extents[0] * size
        last = self.start + sum((n - 1) * s for n, s in zip(extents[1:], pitch[1:], strict=True)) + row_bytes
        buffer = wave.services.memory.find(self.start, last)
        if buffer is None:
            raise AccessError(
                f"{self.ins.opcode}: bytes {self.start:#x} to {last:#x} of its tensor; "
                f"{wave.services.memory.describe(self.start)}", self.ins.line,
            )  # fmt: skip
        flat = buffer.words[1][self.start - buffer.first :]
        shape = (*(extents[i] for i in range(len(extents) - 1, 0, -1)), row_bytes)
        strides = (*(pitch[i] for i in range(len(extents) - 1, 0, -1)), 1)
        return np.lib.stride_tricks.as_strided(flat, shape, strides)

    def addresses(self) -> Array:
        """The global address of each element, slowest dimension first; -1 outside of the tensor."""
        found = np.full(tuple(reversed(self.tensor.counts)), -1, np.int64)
        if not self.empty:
            inside = tuple(slice(low, h) for low, h in zip(reversed(self.low), reversed(self.high), strict=True))
            pitch = [s * step for s, step in zip(self.tensor.strides, self.steps, strict=True)]
            axes = np.ogrid[tuple(slice(0, i.stop - i.start) for i in inside)]
            found[inside] = self.start + sum(n * p for n, p in zip(axes, reversed(pitch), strict=True))
        return found

    def gather(self, wave: Wave) -> Array:
        """The box's bytes, zero outside the tensor."""
        data = np.zeros(self.shape, np.uint8)
        if not self.empty:
            data[self.inside] = self.view(wave)
        if self.tensor.element in ROUNDED.values():
            data = rules.tf32_rounded(data.view(np.uint32)).view(np.uint8)
        return data


@lru_cache(maxsize=512)
def chunk_addresses(rows: int, row_bytes: int, at: int, swizzle: int, atom: int) -> Array:
    """The number of the 16-byte shared chunk that each 16 bytes of a box occupy."""
    width = rules.TENSOR_MAP_SWIZZLE[(0, 32, 64, 128).index(swizzle)]
    start = at + rules.box_row_pitch(row_bytes, width) * np.arange(rows, dtype=np.int64)[:, None]
    linear = start + 16 * np.arange(row_bytes // 16)
    placed = rules.swizzle_32b_atoms(linear) if atom == 32 else rules.swizzle(linear, width)
    return np.asarray(placed >> 4).reshape(-1)


def read_map(wave: Wave, pointer: int, ins: Instruction) -> TensorMap:
    """Decode the tensor map that a generic or parameter address points to."""
    cached = _MAPS.get((id(wave.services), pointer))
    if cached is not None and cached[0] is wave.services:
        return cached[1]
    if pointer >= PARAM_BASE or pointer < 1 << 20:
        offset = pointer & WINDOW_MASK
        data = wave.services.param_bytes[offset : offset + 128].tobytes()
    else:
        data = wave.services.memory.read(pointer, 128).tobytes()
    decoded = decode_tensor_map(data) if len(data) == 128 else None
    if decoded is None:
        raise PtxError(f"{ins.opcode}: no tensor map stands at {pointer:#x}", ins.line)
    if pointer >= PARAM_BASE:
        if len(_MAPS) > 256:
            _MAPS.clear()
        _MAPS[id(wave.services), pointer] = (wave.services, decoded)
    return decoded


_MAPS: dict[tuple[int, int], tuple[Any, TensorMap]] = {}


def _coordinates(d: Decoder, mem: Any) -> Callable[[Frame], list[list[int]]]:
    """Each executing lane's coordinates, dimension 0 first."""
    vector = mem.coordinates[0]
    slots = [d.slot(item, 32) for item in (vector.items if isinstance(vector, Vec) else (vector,))]
    return lambda f: np.stack([f.select(f.s32[s]).ravel() for s in slots], axis=1).tolist()


_DIM = ".dim:1d|2d|3d|4d|5d"


@instruction(
    f"cp.async.bulk.tensor {_DIM} .to:shared::cluster|shared::cta .global .tile? .mbarrier::complete_tx::bytes "
    ".multicast::cluster? .group:cta_group::1|cta_group::2? .L2::cache_hint?",
    f"cp.async.bulk.tensor {_DIM} .to:shared::cluster|shared::cta .global .tile? .mbarrier::complete_tx::bytes "
    ".multicast::cluster? .L2::cache_hint .group:cta_group::1|cta_group::2",
)
def _load(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    mem = d.memory(ins.operands[1])
    target, pointer, coordinates = (
        address(d, ins.operands[0], "shared"), address(d, mem, "generic"), _coordinates(d, mem),
    )  # fmt: skip
    barrier_at = address(d, ins.operands[2], "shared")
    spread = destinations(d, ins, q, 3)

    def run(f: Frame) -> None:
        units, wave = f.wave.asynchronous, f.wave
        lanes = zip(spread(f, target(f), barrier_at(f)), pointer(f).ravel().tolist(), coordinates(f), strict=True)
        for places, where, place in lanes:
            box = Box(read_map(wave, where, ins), place, ins)
            for (cta, at), (signalled, bar) in places:
                _check_shared(wave, at, box, ins)
                barrier = units.mbarrier(signalled, bar, ins)

                def work(at: int = at, cta: int = cta, box: Box = box, barrier: Any = barrier) -> None:
                    _store_box(wave, ins, cta, at, box)
                    size = box.tensor.box_bytes
                    extents = [h - low for low, h in zip(box.low, box.high, strict=True)]
                    inside = 0 if box.empty else math.prod(extents) * box.tensor.element_bytes
                    units.complete(barrier, rules.transaction_bytes(size, inside), ins)

                units.submit(("load", units.issued), work, ins)

    return run


def _check_shared(wave: Wave, at: int, box: Box, ins: Instruction) -> None:
    if at % 128:
        raise AccessError(f"{ins.opcode}: shared address {at:#x}, which 128 does not divide", ins.line)
    wave.shared.check_span(at, at + box.span, ins.opcode)


def _store_box(wave: Wave, ins: Instruction, cta: int, at: int, box: Box) -> None:
    chunks = box.chunks(at)
    data = box.gather(wave).reshape(-1).view(np.complex128)  # complex128 moves 16 bytes at a time
    wave.shared.window(cta).view(np.complex128)[chunks] = data
    wave.shared.window_flags(cta).view(np.complex128)[chunks] = _WRITTEN
    flat = chunks + cta * (wave.shared.stride >> 4)
    wave.shared.stored_at[flat] = 0  # the async proxy's own bytes need no fence
    wave.asynchronous.note_stores(flat << 4, 16, ins)
    record = wave.services.provenance
    if record is not None:
        locations = _byte_locations(box, at)
        record.shared_fill(ins, locations.ravel() + cta * wave.shared.stride)
        elements = _element_locations(box, locations)
        record.read("tma.load", "shared", cta, -1, ins, elements, elsewhere=box.addresses(), origin=box.origin)


_WRITTEN = np.full(16, 1, np.uint8).view(np.complex128)[0]
_ALL_WRITTEN = np.uint64(0x0101010101010101)


def _byte_locations(box: Box, at: int) -> Array:
    return (box.chunks(at)[:, None] * 16 + np.arange(16)).reshape(box.shape)


def _element_locations(box: Box, locations: Array) -> Array:
    """The first byte of each element, by box coordinate, slowest dimension first."""
    return locations[..., :: box.tensor.element_bytes]


_REDUCE = "add|min|max|inc|dec|and|or|xor"


@instruction(
    f"cp.async.bulk.tensor {_DIM} .global .shared::cta .tile? .bulk_group .L2::cache_hint?",
    f"cp.reduce.async.bulk.tensor {_DIM} .global .shared::cta .op:{_REDUCE} .tile? .bulk_group .L2::cache_hint?",
)
def _store(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    mem = d.memory(ins.operands[0])
    source, pointer, coordinates = (
        address(d, ins.operands[1], "shared"), address(d, mem, "generic"), _coordinates(d, mem),
    )  # fmt: skip
    op = q.get("op", "")

    def run(f: Frame) -> None:
        units, wave = f.wave.asynchronous, f.wave
        sources = wave.locate_own(f.select(f.cta), source(f), ins.opcode)
        lists = [x.ravel().tolist() for x in (sources, pointer(f), f.select(f.cta), f.select(f.slot))]
        done: set[tuple[int, ...]] = set()  # stores that several lanes issue alike and at once change nothing further
        for i, (at, where, cta, issuer, place) in enumerate(zip(*lists, coordinates(f), strict=True)):
            if not op and units.eager:
                same = (at, where, cta, *place)
                if same in done:
                    continue
                done.add(same)
            if min(place) < 0:
                # Recorded on an H200: an illegal instruction.
                raise PtxError(f"{ins.opcode}: a store at negative coordinates {tuple(place)}", ins.line)
            box = Box(read_map(wave, where, ins), place, ins)
            if box.tensor.element in ROUNDED.values():
                raise PtxError(f"{ins.opcode}: a store through a tensor map of tf32 is not emulated yet", ins.line)
            _check_shared(wave, at, box, ins)

            def work(at: int = at, cta: int = cta, box: Box = box, issuer: int = issuer) -> None:
                _read_box(wave, ins, cta, at, box, op, issuer)

            units.submit(_bulk_queue(f, i), work, ins)

    return run


def _read_box(wave: Wave, ins: Instruction, cta: int, at: int, box: Box, op: str, issuer: int) -> None:
    record = wave.services.provenance
    if record is not None:
        elements = _element_locations(box, _byte_locations(box, at))
        thread = int(wave.thread.reshape(-1)[issuer])
        writers = record.shared_writers(cta, elements)
        record.read("tma.store", "shared", cta, thread, ins, elements, writers, box.addresses(), box.origin)
    if box.empty:
        return
    chunks = box.chunks(at)
    note_unfenced(wave, ins, cta, chunks, issuer, ins.opcode)
    flags = wave.shared.window_flags(cta).view(np.complex128)[chunks].view(np.uint64)
    if (flags != _ALL_WRITTEN).any():
        note_unwritten(wave, ins, cta, _byte_locations(box, at)[box.inside], ins.opcode)
    dense = wave.shared.window(cta).view(np.complex128)[chunks].view(np.uint8).reshape(box.shape)
    if not op:
        _write_whole_units(wave, dense, box)
    else:
        kind = {"u8": "b8", "u16": "b16", "f32_ftz": "f32"}.get(box.tensor.element, box.tensor.element)
        out = box.view(wave)
        data = dense[box.inside]
        out[...] = reduce_bytes(op, kind, np.ascontiguousarray(out), data).reshape(data.shape)


def _write_whole_units(wave: Wave, dense: Array, box: Box) -> None:
    """A store writes 16 bytes at a time, beyond the tensor's last element too where a row ends within them."""
    *slower, last = box.inside
    row_bytes = rules.stored_row_bytes(last.stop - last.start, box.shape[-1] - last.start)
    try:
        out = box.view(wave, row_bytes)
    except AccessError:  # the padding behind the last row belongs to nobody: write what does
        row_bytes = last.stop - last.start
        out = box.view(wave)
    out[...] = dense[(*slower, slice(last.start, last.start + row_bytes))]


@instruction(f"cp.async.bulk.prefetch.tensor {_DIM} .L2 .global .tile? .L2::cache_hint?")
def _prefetch(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return lambda f: None
