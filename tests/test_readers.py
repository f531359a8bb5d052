"""Where the MMA reads, as the handoff has it, against the descriptors' own addresses, which silicon records are held
against."""

from __future__ import annotations

import contextlib

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from layoutlab import Handoff, LayoutError, SmemDescriptor, Tile, owned, smem, store, umma_a, verify
from layoutlab.atoms.operand import k_per_instruction

SBO = st.integers(1, 64).map(lambda n: 16 * n)


@st.composite
def readers(draw: st.DrawFn) -> tuple[SmemDescriptor, Tile, list[int], str]:
    major = draw(st.sampled_from(["K", "MN"]))
    bits = draw(st.sampled_from([8, 16, 32]))
    wide = bits == 32 and major == "MN"
    swizzle = draw(st.just("128_32b") if wide else st.sampled_from([0, 32, 64, 128]))
    base_offset = draw(st.sampled_from([0, 0, 3, 4])) if swizzle else 0
    desc = SmemDescriptor(16 * draw(st.integers(0, 64)), draw(SBO), draw(SBO), swizzle, base_offset)  # type: ignore[arg-type]
    steps = draw(st.integers(1, 4))
    P = Tile("P", m=draw(st.sampled_from([64, 128])), k=steps * k_per_instruction(bits), bits=bits)
    starts = draw(st.lists(SBO, min_size=steps, max_size=steps))
    return desc, P, starts, major


@settings(max_examples=300, deadline=None)
@given(readers())
def test_every_address(case: tuple[SmemDescriptor, Tile, list[int], str]) -> None:
    desc, P, starts, major = case
    step = k_per_instruction(P.bits)
    read = umma_a(desc, P, starts_bytes=starts, major=major).read  # type: ignore[arg-type]
    m, k = np.indices(P.shape)
    parts = [desc.stepped(s).bit_addresses(P.shape[0], step, P.bits, major) for s in starts]  # type: ignore[arg-type]
    expected = np.concatenate(parts, axis=1)
    assert (read.at(m=m, k=k)["bit"] == expected).all()
    assert read.at(m=5, k=P.shape[1] - 1)["bit"] == expected[5, -1]
    try:
        table = read.table
    except LayoutError:
        return
    assert (table(m=m, k=k)["bit"] == expected).all()


def test_the_tables_hold_for_many_of_them() -> None:
    held = 0

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(readers())
    def collect(case: tuple[SmemDescriptor, Tile, list[int], str]) -> None:
        nonlocal held
        desc, P, starts, major = case
        with contextlib.suppress(LayoutError):
            held += umma_a(desc, P, starts_bytes=starts, major=major).read.table is not None  # type: ignore[arg-type]

    collect()
    assert 20 < held < 200


def handed_over(desc: SmemDescriptor, starts: list[int], rows: int = 128, **options: int) -> Handoff:
    P = Tile("P", m=rows, k=64, bits=16)
    s = smem(f"S<3,4,3> o 0 o ({rows},64):(64,1)", over=P, align_bytes=1024, **options)
    owner = owned(f"({rows},64):(1,{rows})", P)
    return Handoff(P, writer=store(owner, s, bits=16), reader=umma_a(desc, P, starts_bytes=starts))


def test_a_right_descriptor_is_legal() -> None:
    assert verify(handed_over(SmemDescriptor(0, 0, 1024, 128), [0, 32, 64, 96])).proved


@pytest.mark.parametrize(
    ("start", "starts", "rows", "message"),
    [
        (0, [0, 32, 64, 100], 128, "a descriptor starts at byte 100, which 16 does not divide"),
        (262128, [0, 32, 64, 96], 128, "a descriptor starts at byte 262160: the field has 14 bits of 16-byte units"),
        (0, [0, 32, 64, 96], 96, "has 96 rows, and one tcgen05.mma of one CTA takes 64 or 128"),
    ],
)
def test_what_no_descriptor_holds_is_illegal(start: int, starts: list[int], rows: int, message: str) -> None:
    claim = verify(handed_over(SmemDescriptor(start, 0, 1024, 128), starts, rows, base_bytes=start))["legal"]
    assert claim.verdict == "refuted" and message in f"{claim.witness.message}; {claim.why}"


def test_a_wrong_stride_of_the_descriptor_is_named() -> None:
    verdict = verify(handed_over(SmemDescriptor(0, 0, 512, 128), [0, 32, 64, 96]))
    assert verdict["placed"].witness.message == (
        "T8 V0 (m=8, k=0) writes byte 1024; the MMA reads that element at byte 576"
    )
    assert verdict.explanation == (
        "a stride: m is written as 128:128 and read as (8,16):(128,512) bytes, "
        "steps of 8 and more along m go 2 times as far",
        "what would be right: sbo=1024, not 512",
    )


def test_a_wrong_start_of_one_step_is_found_by_walking() -> None:
    verdict = verify(handed_over(SmemDescriptor(0, 0, 1024, 128), [0, 32, 64, 112]))
    assert verdict["placed"].method == "enumeration" and "no sum of strides" in verdict["placed"].why
    assert verdict["placed"].witness.message.startswith("T0 V48 (m=0, k=48) writes byte 96")
