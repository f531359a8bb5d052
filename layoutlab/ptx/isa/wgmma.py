"""wgmma: the warpgroup tensor core of sm_90a (PTX ISA 9.7.15).

Registers change where the instruction stands, under every schedule: the code between an mma and its wait may move them
about, and a delayed write would land in the wrong copy. Operands in shared memory follow the same descriptor rule as
tcgen05.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutlab.ptx import rules
from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import encode
from layoutlab.ptx.isa.matrix import gather_fragment, operand_values
from layoutlab.ptx.isa.tcgen05 import matrix_descriptor, multiply, read_operand
from layoutlab.ptx.parse import Imm, Instruction, Operand, Vec
from layoutlab.ptx.registry import Decoded, Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op

_N = "|".join(f"m64n{n}k{{k}}" for n in range(8, 257, 8))
_SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


@instruction(
    f"wgmma.mma_async.sync.aligned .shape:{_N.format(k=16)} .d:f16|f32 .a:f16 .b:f16",
    f"wgmma.mma_async.sync.aligned .shape:{_N.format(k=16)} .d:f32 .a:bf16 .b:bf16",
    f"wgmma.mma_async.sync.aligned .shape:{_N.format(k=8)} .d:f32 .a:tf32 .b:tf32",
    f"wgmma.mma_async.sync.aligned .shape:{_N.format(k=32)} .d:f16|f32 .a:e4m3|e5m2 .b:e4m3|e5m2",
    f"wgmma.mma_async.sync.aligned .shape:{_N.format(k=32)} .satfinite? .d:s32 .a:s8|u8 .b:s8|u8",
)
def _mma(d: Decoder, ins: Instruction, q: Qualifiers) -> Decoded:
    n, depth = (int(x) for x in q["shape"][4:].split("k"))
    slots = d.vector(ins.operands[0], 32, destination=True)
    packed = q["d"] == "f16"
    if len(slots) != n // (4 if packed else 2):
        raise d.fail(f"{ins.opcode} with {len(slots)} accumulator registers")
    a, b = ins.operands[1], d.slot(ins.operands[2], 64)
    a_slots = d.vector(a, 32) if isinstance(a, Vec) else []
    a_desc = -1 if a_slots else d.slot(a, 64)
    from_registers = isinstance(a, Vec)
    scale_d, negated = d.signed_predicate(ins.operands[3])
    rest = [_immediate(d, o) for o in ins.operands[4:]]
    integer = q["d"] == "s32"
    scale_a, scale_b = (1, 1) if integer else (rest[0], rest[1])
    transposes = rest[2:] if not integer else []
    b_transposed = bool(transposes[-1]) if transposes else False
    a_transposed = bool(transposes[0]) if len(transposes) == 2 else False
    size = _SIZES[q["a"]]
    thread, value = np.arange(32)[:, None], np.arange(n // 2)[None, :]
    place = rules.accumulator_fragment(thread, value)

    def run(f: Frame) -> None:
        wave = f.wave
        for cta, rows in _warpgroups(f):
            issuer = int(f.slot[rows[0], 0])
            if from_registers:
                left = _a_from_registers(f, rows, a_slots, q["a"], size, depth)
            else:
                bits = f.value(f.u64[a_desc], rows[0], 0)
                left = read_operand(wave, ins, cta, matrix_descriptor(bits, ins, None), 64, q["a"], size, depth,
                                    a_transposed, "A", issuer)  # fmt: skip
            bits = f.value(f.u64[b], rows[0], 0)
            right = read_operand(wave, ins, cta, matrix_descriptor(bits, ins, None), n, q["b"], size, depth,
                                 b_transposed, "B", issuer)  # fmt: skip
            product = multiply(left, right) * (scale_a * scale_b)
            by_thread = product.reshape(4, 16, n)[:, place[0], place[1]]  # (warp, thread, value)
            enabled = bool(f.p[scale_d][rows[0], 0] if f.p[scale_d].shape == f.shape else f.p[scale_d][0, 0]) != negated
            _accumulate(f, rows, slots, by_thread, enabled, q)

    return Decoded(run, sync="warpgroup")


def _immediate(d: Decoder, operand: Operand) -> int:
    if not isinstance(operand, Imm):
        raise d.fail("a wgmma scale or transpose is no immediate")
    return operand.value


def _warpgroups(f: Frame) -> list[tuple[int, list[int]]]:
    """(CTA, the frame's rows of its four warps) of each executing warpgroup."""
    found: dict[tuple[int, int], list[int]] = {}
    for row in f.active_rows():
        found.setdefault((int(f.cta[row, 0]), int(f.warp[row, 0]) // 4), []).append(row)
    return [(cta, rows) for (cta, _), rows in found.items()]


def _a_from_registers(f: Frame, rows: list[int], slots: list[int], kind: str, size: int, depth: int) -> Array:
    per_register = 4 // size
    registers = np.stack([np.broadcast_to(f.u32[s], f.shape)[rows] for s in slots], axis=-1)
    values = np.arange(len(slots) * per_register)[None, :]
    row, column = rules.a_fragment(np.arange(32)[:, None], values, per_register)
    codes = gather_fragment(registers, row, column, (16, depth), size)
    return operand_values(kind, codes).reshape(64, depth)


def _accumulate(f: Frame, rows: list[int], slots: list[int], product: Array, enabled: bool, q: Qualifiers) -> None:
    old = np.stack([f.u32[s][rows] for s in slots], axis=-1)
    new: Array
    if q["d"] == "s32":
        total = rules.accumulate(old.view(np.int32).astype(np.int64), product.astype(np.int64), enabled, 0)
        new = (np.clip(total, -(1 << 31), (1 << 31) - 1) if "satfinite" in q else total).astype(np.int32)
    elif q["d"] == "f16":
        before = np.ascontiguousarray(old).view(np.float16).astype(np.float32)
        new = encode("f16", rules.accumulate(before, product.astype(np.float32), enabled, 0))
    else:
        new = rules.accumulate(old.view(np.float32), product.astype(np.float32), enabled, 0).astype(np.float32)
    words: Any = np.ascontiguousarray(new).view(np.uint32)
    for i, slot in enumerate(slots):
        f.u32[slot][rows] = words[..., i]


@instruction("wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned")
def _group(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return lambda f: None
