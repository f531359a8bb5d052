"""matrix: ldmatrix, stmatrix, movmatrix and mma.sync (PTX ISA 9.7.14)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from layoutlab.ptx import rules
from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import decode, encode
from layoutlab.ptx.isa.memory import address
from layoutlab.ptx.memory import WINDOW_MASK, AccessError
from layoutlab.ptx.parse import Instruction
from layoutlab.ptx.registry import Decoded, Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame

_SHARED = ".space:shared|shared::cta?"


def _row_addresses(f: Frame, where: Any, count: int, ins: Instruction) -> tuple[Array, Array]:
    """The flat shared byte of each row of each matrix, shape (executing warps, matrix, 8), and those warps' rows."""
    rows = np.array(list(f.active_rows()))
    # Only lanes 0 to 8 count - 1 give an address; the others' registers may hold anything (PTX ISA 9.7.14.5.15).
    named = where(f).reshape(-1, 32)[:, : 8 * count] & WINDOW_MASK
    named = f.wave.locate_own(np.broadcast_to(f.cta[rows, :1], named.shape), named, ins.opcode)
    if (named % 16).any():
        raise AccessError(f"{ins.opcode}: a row address that 16 does not divide", ins.line)
    f.wave.shared.check_span(int(named.min()), int(named.max()) + 16, ins.opcode)
    flat = named + f.cta[rows, :1] * f.wave.shared.stride
    return flat.reshape(len(rows), count, 8), rows


@lru_cache(maxsize=2)
def _element_places(transposed: bool) -> tuple[Array, Array]:
    """(row, byte in the row) of each thread's two elements, shape (32, 2)."""
    row, column = rules.fragment_8x8(np.arange(32)[:, None], np.arange(2)[None, :])
    row, column = np.broadcast_arrays(row, column)
    return (column, 2 * row) if transposed else (row, 2 * column)


@instruction(f"ldmatrix.sync.aligned.m8n8 .count:x1|x2|x4 .trans? {_SHARED} .b16")
def _ldmatrix(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    count, transposed = int(q["count"][1:]), "trans" in q
    slots = d.vector(ins.operands[0], 32, destination=True)
    if len(slots) != count:
        raise d.fail(f"{ins.opcode} into {len(slots)} registers")
    where = address(d, ins.operands[1], "shared" if "space" in q else "generic")

    def run(f: Frame) -> None:
        starts, rows = _row_addresses(f, where, count, ins)
        row, byte = _element_places(transposed)
        at = starts[:, :, row] + byte  # (warp, matrix, thread, element)
        shared = f.wave.shared
        if (shared.flags[2][at >> 1] != 0x0101).any():
            fresh = (shared.flags[2][at >> 1] != 0x0101).ravel()
            first = int(at.ravel()[np.flatnonzero(fresh)[0]]) % shared.stride
            f.wave.services.findings.add(
                "unwritten shared", ins, f"{ins.opcode} reads shared byte {first}, never written"
            )
        record = f.wave.services.provenance
        if record is not None:
            threads = np.broadcast_to(f.thread[rows][:, None, :, None], at.shape)
            record.shared_load(ins, at.ravel(), threads.ravel(), 2)
        words = np.ascontiguousarray(shared.words[2][at >> 1]).view(np.uint32)[..., 0]
        for i, slot in enumerate(slots):
            f.u32[slot][rows] = words[:, i]

    return Decoded(run, sync="warp")


@instruction(f"stmatrix.sync.aligned.m8n8 .count:x1|x2|x4 .trans? {_SHARED} .b16")
def _stmatrix(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    count, transposed = int(q["count"][1:]), "trans" in q
    slots = d.vector(ins.operands[1], 32)
    if len(slots) != count:
        raise d.fail(f"{ins.opcode} from {len(slots)} registers")
    where = address(d, ins.operands[0], "shared" if "space" in q else "generic")

    def run(f: Frame) -> None:
        starts, rows = _row_addresses(f, where, count, ins)
        row, byte = _element_places(transposed)
        at = starts[:, :, row] + byte
        values = np.stack([np.broadcast_to(f.u32[s], f.shape)[rows] for s in slots], axis=1)
        halves = np.ascontiguousarray(values)[..., None].view(np.uint16)
        shared = f.wave.shared
        shared.words[2][at >> 1] = halves
        shared.flags[2][at >> 1] = 0x0101
        f.wave.note_stores(at, np.broadcast_to(f.slot[rows][:, None, :, None], at.shape))
        record = f.wave.services.provenance
        if record is not None:
            threads = np.broadcast_to(f.thread[rows][:, None, :, None], at.shape)
            data = np.broadcast_to(halves, at.shape).reshape(-1, 1).view(np.uint8)
            record.shared_store(ins, at.ravel(), threads.ravel(), data)

    return Decoded(run, sync="warp")


@instruction("movmatrix.sync.aligned.m8n8.trans.b16")
def _movmatrix(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    target, a = d.destination(ins.operands[0], 32), d.slot(ins.operands[1], 32)

    def run(f: Frame) -> None:
        row, byte = _element_places(False)
        full = np.zeros((f.rows, 8, 8), np.uint16)
        full[:, row, byte // 2] = np.broadcast_to(f.u32[a], f.shape).copy()[..., None].view(np.uint16)
        turned, byte = _element_places(True)
        f.put(f.u32[target], np.ascontiguousarray(full[:, turned, byte // 2]).view(np.uint32)[..., 0])

    return Decoded(run, sync="warp")


# -- mma.sync ----------------------------------------------------------------------------------------------------------

_SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


def gather_fragment(registers: Array, row: Array, column: Array, shape: tuple[int, int], size: int) -> Array:
    """A matrix (warp, rows, columns) of element codes from registers (warp, thread, register)."""
    dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
    elements = np.ascontiguousarray(registers).view(dtype)
    full = np.zeros((len(registers), *shape), dtype)
    full[:, row, column] = elements
    return full


def operand_values(kind: str, codes: Array) -> Array:
    if kind in ("s8", "u8"):
        return codes.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64)
    return decode(kind, codes)


@instruction(
    "mma.sync.aligned .shape:m16n8k8|m16n8k16 .row .col .d:f16|f32 .a:f16 .b:f16 .c:f16|f32",
    "mma.sync.aligned .shape:m16n8k8|m16n8k16 .row .col .d:f32 .a:bf16 .b:bf16 .c:f32",
    "mma.sync.aligned .shape:m16n8k4|m16n8k8 .row .col .d:f32 .a:tf32 .b:tf32 .c:f32",
    "mma.sync.aligned .shape:m16n8k32 .row .col .kind::f8f6f4? .d:f32|f16 .a:e4m3|e5m2 .b:e4m3|e5m2 .c:f32|f16",
    "mma.sync.aligned .shape:m16n8k16|m16n8k32 .row .col .satfinite? .d:s32 .a:s8|u8 .b:s8|u8 .c:s32",
)
def _mma(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    depth, size = int(q["shape"].split("k")[1]), _SIZES[q["a"]]
    per_register = 4 // size
    out = d.vector(ins.operands[0], 32, destination=True)
    a, b, c = (d.vector(o, 32) for o in ins.operands[1:4])
    a_values, b_values = np.arange(len(a) * per_register), np.arange(len(b) * per_register)
    thread = np.arange(32)[:, None]
    a_place = rules.a_fragment(thread, a_values[None, :], per_register)
    b_place = rules.b_fragment(thread, b_values[None, :], per_register)
    d_place = rules.accumulator_fragment(thread, np.arange(4)[None, :])
    if len(a) * per_register * 32 != 16 * depth or len(b) * per_register * 32 != 8 * depth:
        raise d.fail(f"{ins.opcode} with {len(a)} and {len(b)} operand registers")

    def stack(f: Frame, slots: list[int]) -> Array:
        return np.stack([np.broadcast_to(f.u32[s], f.shape) for s in slots], axis=-1)

    def run(f: Frame) -> None:
        left = operand_values(q["a"], gather_fragment(stack(f, a), *a_place, (16, depth), size))
        right = operand_values(q["b"], gather_fragment(stack(f, b), *b_place, (depth, 8), size))
        product = np.matmul(left, right)[:, d_place[0], d_place[1]]
        for slot, value in zip(out, _add(q, stack(f, c), product), strict=True):
            f.put(f.u32[slot], value)

    return Decoded(run, sync="warp")


def _add(q: Qualifiers, accumulator: Array, product: Array) -> list[Array]:
    """C + A B in the result's registers: float32, packed float16, or int32."""
    if q["c"] == "f16":
        before: Array = np.ascontiguousarray(accumulator).view(np.float16).astype(np.float32)
    elif q["c"] == "f32":
        before = np.ascontiguousarray(accumulator).view(np.float32)
    else:
        total = np.ascontiguousarray(accumulator).view(np.int32).astype(np.int64) + product.astype(np.int64)
        if "satfinite" in q:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        words = total.astype(np.int32).view(np.uint32)
        return [words[..., i] for i in range(4)]
    result = before + product.astype(np.float32)
    if q["d"] == "f16":
        packed = encode("f16", result).view(np.uint32)
        return [packed[..., 0], packed[..., 1]]
    words = np.ascontiguousarray(result, dtype=np.float32).view(np.uint32)
    return [words[..., i] for i in range(4)]
