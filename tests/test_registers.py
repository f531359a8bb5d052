"""ldsm, stmatrix and rs_reuse: matrices between shared memory and registers, registers from one MMA to the next.

The other sources: the instruction tables, one matrix at a time, and CuTe DSL's fragments.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import layoutlab as ll
from layoutlab.atoms.matrix import matrix_copy
from layoutlab.atoms.mma import mma_sync
from layoutlab.catalogue import epilogue, ldsm, rs_reuse
from tests.oracles import dsl


def refuted(verdict: ll.Verdict) -> list[str]:
    return [claim.name for claim in verdict.claims if claim.verdict != "proved"]


def table(layout: ll.Layout) -> np.ndarray:
    t, v = np.indices((layout[0].size(), layout[1].size()))
    return np.asarray(layout(t, v))


# -- ldmatrix ---------------------------------------------------------------------------------------------------------


def loaded_by_hand(operand: str, k: int) -> dict[tuple[int, int], int]:
    """Run ldmatrix on memory that holds its own byte numbers, then give the registers to mma.sync: (row, k) -> byte."""
    trans = operand == "B_trans"
    registers = table(matrix_copy("ldmatrix", 4, trans=trans).registers)  # (thread, value) -> element, 64 to a matrix
    atom = mma_sync(16, 8, 16, "f16", "f32")
    width = 32 if trans else 2 * k
    bits = {32: 1, 64: 2}.get(width, 3)
    found = {}
    for step in range(k // 16):
        rows = []  # the byte of each row of the four matrices
        for lane in range(32):
            i, matrix = lane % 8, lane // 8
            if operand == "A":
                row, at = i + 8 * (matrix % 2), 16 * step + 8 * (matrix // 2)
            elif operand == "B":
                row, at = i + 8 * (matrix // 2), 16 * step + 8 * (matrix % 2)
            else:
                row, at = 8 * (matrix // 2), 16 * step + i + 8 * (matrix % 2)
            byte = (2 * row + width * at) if trans else (2 * at + width * row)
            rows.append(byte ^ (byte >> 7 & (1 << bits) - 1) << 4)
        for t, v in product(range(32), range(8)):
            matrix, inside = divmod(int(registers[t, v]), 64)
            byte = rows[8 * matrix + inside // 8] + 2 * (inside % 8)
            if operand == "A":
                flat = int(atom.a(t, v))
                coordinate = flat % 16, 16 * step + flat // 16
            else:
                flat = int(atom.b(t, v % 4))
                coordinate = flat % 8 + 8 * (v // 4), 16 * step + flat // 8
            found[coordinate] = byte
    return found


@pytest.mark.parametrize("k", [32, 64, 128])
@pytest.mark.parametrize("operand", ["A", "B", "B_trans"])
def test_ldmatrix_by_hand(operand: str, k: int) -> None:
    h = ldsm(operand=operand, k=k)
    verdict = ll.verify(h)
    assert verdict.proved and verdict.checked == 16 * k
    by_hand = loaded_by_hand(operand, k)
    assert len(by_hand) == 16 * k
    row = next(iter(h.tile.extents))
    for (r, at), byte in by_hand.items():
        assert h.reader.read.at(**{row: r, "k": at}) == {"bit": 8 * byte}


@pytest.mark.parametrize("operand", ["A", "B", "B_trans"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"read_swizzle": "forgotten"}, "a swizzle: the reader xors none"),
        ({"trans": "wrong"}, "an order: "),
        ({"matrices": "exchanged"}, "an order: "),
    ],
)
def test_planted_faults_of_ldsm(operand: str, option: dict[str, Any], words: str) -> None:
    verdict = ll.verify(ldsm(operand=operand, **option))
    assert refuted(verdict) == ["placed"] and verdict.explanation[0].startswith(words)


def test_the_first_wrong_element_of_exchanged_matrices() -> None:
    """Copying thread 0 holds 16 bytes of rows 0, 4, 8, 12; of these row 8 is the first that is read elsewhere."""
    witness = ll.verify(ldsm(matrices="exchanged", swizzle="none"))["placed"].witness
    assert witness and witness.message == ("T0 V16 (m=8, k=0) writes byte 1024; the MMA reads that element at byte 16")


def test_an_address_off_16_bytes_is_illegal() -> None:
    A = ll.Tile("A", m=16, k=20, bits=16)
    fragment = ll.owned("((4,8),(2,2,2)):((32,1),(16,8,128))", ll.Tile("A", m=16, k=16, bits=16))
    with pytest.raises(ll.LayoutError, match="are of tile A"):
        ll.ldmatrix(ll.smem("(16,20):(20,1)", over=A), fragment, rows="((16,2),1):((1,128),0)")
    square = ll.Tile("A", m=16, k=16, bits=16)
    reader = ll.ldmatrix(ll.smem("(16,16):(20,1)", over=square), fragment, rows="((16,2),1):((1,128),0)")
    assert "T1 gives ldmatrix the address 40, which 16 does not divide" in str([r.fault for r in reader.rules()])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 3}, "moves 1, 2 or 4 matrices, not 3"),
        ({"count": 2}, "take 2 instructions"),
        ({"rows": "((16,2),2):((1,128),0)"}, "rows has 32 by 2"),
    ],
)
def test_what_ldmatrix_refuses(options: dict[str, Any], message: str) -> None:
    A = ll.Tile("A", m=16, k=16, bits=16)
    fragment = ll.owned("((4,8),(2,2,2)):((32,1),(16,8,128))", A)
    options = {"rows": "((16,2),1):((1,128),0)", **options}
    with pytest.raises(ll.LayoutError, match=message):
        ll.ldmatrix(ll.smem("(16,16):(16,1)", over=A), fragment, **options)


# -- stmatrix ---------------------------------------------------------------------------------------------------------


def test_stmatrix_by_hand() -> None:
    """Registers of each warp through the instruction's table, four matrices at a time, to the rows of the epilogue."""
    h = epilogue(load="16x256b.x4", route="stmatrix")
    registers = table(matrix_copy("stmatrix", 4).registers)
    assert h.writer.rows is not None
    owner, write = h.writer.owner.places, h.writer.write
    for t, v in product(range(128), range(128)):
        instruction, value = divmod(v, 8)
        matrix, inside = divmod(int(registers[t % 32, value]), 64)
        lane = t // 32 * 32 + 8 * matrix + inside // 8
        bit = h.writer.rows.at(t=lane, v=instruction)["bit"] + 16 * (inside % 8)
        assert write.at(t=t, v=v)["bit"] == bit
        assert h.reader.read.at(**owner.at(t=t, v=v))["bit"] == bit


# -- registers as operand A -------------------------------------------------------------------------------------------


def fragments(bits: int) -> tuple[ll.Layout, ll.Layout]:
    """CuTe DSL's accumulator of a 64 x 128 wgmma, and its operand A from registers: (thread, value) -> m + 64 x."""
    name = {16: "n128.Float16.Float32.RMEM", 8: "n128.E4M3.RMEM"}[bits]
    found = next(f for f in dsl.facts("wgmmas", "sm_90a") if f["kind"] == "wgmma" and f["name"] == name)
    return dsl.layout(found["c"]), dsl.layout(found["a"])


@pytest.mark.parametrize(("dtype", "bits"), [("f16", 16), ("e4m3", 8)])
def test_reuse_by_enumeration_of_the_dsls_fragments(dtype: str, bits: int) -> None:
    accumulator, operand = (table(layout) for layout in fragments(bits))
    step = operand.shape[1]  # values of one K step
    wrong = []
    for t, v in product(range(128), range(accumulator.shape[1])):
        held = int(accumulator[t, v])
        k_step, value = divmod(v, step)
        taken = int(operand[t, value]) + 64 * (256 // bits) * k_step
        if held != taken:
            wrong.append((t, v))
    verdict = ll.verify(rs_reuse(dtype=dtype, kv=128))
    if bits == 16:
        assert verdict.proved and not wrong
        return
    assert refuted(verdict) == ["placed"]
    assert f"{len(wrong)} of {64 * 128} elements are misplaced" in verdict["placed"].why and len(wrong) == 7168
    witness = verdict["placed"].witness
    assert witness and (witness.thread, witness.value) == wrong[0]
    assert witness.message == (
        "T0 V2 (m=8, k=0) writes T0 register 0 bit 16; the MMA reads that element at T0 register 1"
    )
    assert witness.wrote.json() == {"space": "rmem", "thread": 0, "register": 0, "half": 1}


@pytest.mark.parametrize("instruction", ["wgmma", "mma.sync"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "e4m3", "e5m2"])
def test_reuse_is_legal_for_16_bits_only(instruction: str, dtype: str) -> None:
    for kv in (32, 64, 128, 256):
        verdict = ll.verify(rs_reuse(instruction=instruction, dtype=dtype, kv=kv))
        assert verdict.proved == (dtype in ("bf16", "f16"))
        if not verdict.proved:
            rows = 64 if instruction == "wgmma" else 16
            assert f"{rows * kv * 7 // 8} of {rows * kv} elements are misplaced" in str(verdict)


@pytest.mark.parametrize("kv", [0, 8, 24, 264, 272])
def test_sizes_that_are_no_whole_steps(kv: int) -> None:
    with pytest.raises(ll.LayoutError, match="a K step of bf16 takes 16"):
        rs_reuse(kv=kv)
