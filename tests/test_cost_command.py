"""`layoutlab cost`: wavefronts of real instructions against the public cases and hand counts; suggestions; refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutlab.catalogue import ldsm, sP
from layoutlab.cli import main
from layoutlab.handoff.accesses import accesses_of
from layoutlab.swizzle import Swizzle


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cost", *arguments]) == 0
    return capsys.readouterr().out


def counted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:  # type: ignore[type-arg]
    return json.loads(printed(capsys, *arguments, "--json"))  # type: ignore[no-any-return]


def each(found: dict) -> set[int]:  # type: ignore[type-arg]
    (instructions,) = found["instructions"]
    return {count for row in instructions["wavefronts"] for count in row}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("(32,32):(32,1)", 32),
        ("S<5,0,5> o 0 o (32,32):(32,1)", 1),
        ("S<3,0,5> o 0 o (32,32):(32,1)", 4),
        ("S<2,0,5> o 0 o (32,32):(32,1)", 8),
        ("(32,32):(1,32)", 1),
    ],
)
def test_columns_of_a_32_by_32_tile(capsys: pytest.CaptureFixture[str], layout: str, expected: int) -> None:
    """32x32 f32, row stride 32, column access; swizzles in elements."""
    assert each(counted(capsys, layout, "--bits", "32")) == {expected}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("(8,64):(64,1)", 8),
        ("S<3,3,3> o 0 o (8,64):(64,1)", 1),
        ("S<2,3,3> o 0 o (8,64):(64,1)", 2),
        ("S<3,4,3> o 0 o (8,64):(64,1)", 2),
        ("S<3,4,3>[8b] o 0 o (8,64):(64,1)", 1),
        ("(8,32):(32,1)", 4),
        ("S<2,3,3> o 0 o (8,32):(32,1)", 1),
    ],
)
def test_rows_of_ldmatrix(capsys: pytest.CaptureFixture[str], layout: str, expected: int) -> None:
    assert each(counted(capsys, layout, "--bits", "16", "--op", "ldmatrix.x1")) == {expected}


def test_a_swizzle_in_bytes_as_the_dsl_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["S<3,4,3> o 0 o (8,64):(64,1)", "--bits", "16", "--op", "ldmatrix.x1"]
    assert "its swizzle counts elements" in printed(capsys, *command)
    assert each(counted(capsys, *command, "--swizzle-unit", "bytes")) == {1}


def test_softmax_threads_storing_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """128 threads each own a row of sP: 4 wavefronts for a 16-bit store, 128-bit stores are free of conflicts."""
    found = counted(capsys, "sP")
    assert each(found) == {4} and found["instructions"][0]["count"] == 128 and found["instructions"][0]["least"] == 1
    assert found["widest"] == {"bits": 128, "why": "an instruction moves 16 bytes"}
    wide = found["widest_instructions"]
    assert {count for row in wide["wavefronts"] for count in row} == {wide["least"]} == {4} and wide["count"] == 16
    assert found["instructions"][0]["worst_phase"] == {
        "lanes": list(range(32)),
        "bank": 0,
        "words": [0, 256, 512, 768],  # rows 0, 8, 16, 24 have the swizzle's same pattern
    }
    text = printed(capsys, "sP")
    assert "store      128 of 16 bits a lane: 4 wavefronts each (1 is the least), 2048 in all 4 warps" in text


def test_why_a_vector_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs of values 128 bytes apart: a wider store would need V2 behind V1."""
    found = counted(capsys, "(32,(2,8)):(2,(1,64))", "--bits", "16", "--op", "store")
    assert found["widest"] == {"bits": 32, "why": "T0 V2 is at byte 128, not at byte 4 behind V1"}
    assert "T1 V0 is at byte 4, which 8 does not divide" in printed(capsys, "(32,4):(2,1)", "--bits", "16")


def test_what_the_reader_can_follow_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    found = counted(capsys, "sP", "--set", "write_swizzle=none", "--set", "store=composition", "--suggest")
    assert found["suggested"] == {
        "bytes": "S<3,4,3>[8b]",
        "elements": "S<3,3,3>[16b]",
        "wavefronts": 16 * 4,
        "now": 16 * 32,
        "without": 16 * 32,
        "among": "of the swizzles that the MMA can follow",
    }


def test_of_equals_the_swizzle_in_use_is_suggested(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """V whose n is contiguous is stored without conflicts by any swizzle: no reason to take it out."""
    file = tmp_path / "v.py"
    file.write_text(V_BY_THREADS)
    found = counted(capsys, f"{file}:v", "--suggest")["suggested"]
    assert found["wavefronts"] == found["now"] == found["without"] == 16 and found["bytes"] == "S<3,4,3>[8b]"
    assert found["among"].startswith("the one in use; none has fewer wavefronts, of the swizzles")


V_BY_THREADS = """import layoutlab as ll


@ll.handoff
def v():
    V = ll.Tile("V", n=128, k=64, bits=16)
    sV = ll.smem("S<3,4,3> o 0 o ((64,2),64):((1,4096),64)", over=V, align_bytes=1024)
    owner = ll.owned("((16,16),(8,4)):((8,128),(1,2048))", V)
    desc = ll.SmemDescriptor(start=0, lbo=8192, sbo=1024, swizzle=128)
    reader = ll.umma_b(desc, V, starts_bytes=[0, 2048, 4096, 6144], major="MN")
    return ll.Handoff(V, writer=ll.store(owner, sV, bits=128), reader=reader)
"""


def test_one_swizzle_for_all_patterns_of_a_buffer(capsys: pytest.CaptureFixture[str]) -> None:
    """Written by columns and read by rows: what is right for both is not what each alone needs."""
    both = counted(capsys, "store (32,32):(1,32)", "load (32,32):(32,1)", "--suggest")
    assert [i["total"] for i in both["instructions"]] == [32, 1024]
    assert both["suggested"]["wavefronts"] == 64 and both["suggested"]["elements"] == "S<5,0,5>[32b]"
    alone = counted(capsys, "store (32,32):(1,32)", "--suggest")
    assert alone["suggested"]["wavefronts"] == 32 and alone["suggested"]["bytes"].startswith("S<0,")
    found = counted(capsys, "ldsm", "--set", "swizzle=none", "--suggest")
    assert [i["op"] for i in found["instructions"]] == ["store", "ldmatrix.x4"]
    assert found["suggested"]["bytes"] == "S<3,4,3>[8b]" and found["suggested"]["wavefronts"] == 32


def test_accesses_are_the_maps_own_addresses() -> None:
    h = sP(store="composition")
    (group,) = accesses_of(h)
    for warp in range(4):
        for i, access in enumerate(group.of_warp(warp)):
            for lane, byte in enumerate(access.addresses):
                assert byte is not None
                assert 8 * group.swizzle(byte) == h.writer.write.at(t=32 * warp + lane, v=8 * i)["bit"]
    stores, loads = accesses_of(ldsm())
    assert loads.op == "ldmatrix.x4" and loads.swizzle == Swizzle(3, 4, 3, unit_bits=8) and stores.instructions == 4


def test_what_has_no_shared_memory_instruction(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no shared-memory instruction of threads: stores to tmem" in printed(capsys, "tP")
    assert "no shared-memory instruction of threads: TMA" in printed(capsys, "sQ")


def test_a_users_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import layoutlab as ll\n\n@ll.handoff\ndef rows(k: int = 64):\n"
        "    Q = ll.Tile('Q', m=128, k=k, bits=16)\n    sQ = ll.smem(f'(128,{k}):({k},1)', over=Q)\n"
        "    return ll.Handoff(Q, writer=ll.store(f'(128,{k}):(1,128)', sQ, bits=16), reader=f'(128,{k}):({k},1)')\n"
    )
    found = counted(capsys, f"{file}:rows", "--set", "k=32")
    assert found["instructions"][0]["count"] == 32 and each(found) == {16}  # rows of 64 bytes: 16 lanes to a bank


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], "no handoff is called foo"),
        (["(3,4,5):(1,2,3)"], "has 3 modes: (thread, value) -> element offset has two"),
        (["(31,4):(4,1)"], "31 threads of 4 values: load takes 32 threads"),
        (["(32,3):(4,1)", "--width", "8"], "32 threads of 3 values"),
        (["(32,4):(4,1)", "--bits", "16", "--width", "3"], "3 bytes a lane are no whole number of 16-bit elements"),
        (["(32,4):(3,1)", "--width", "8"], "lane 1 has address 12: not a multiple of the 8 bytes it moves"),
        (["sP", "--bits", "16"], "sP says its own width"),
        (["(32,4):(4,1)", "--set", "k=1"], "an expression has none"),
        (["sP", "ldsm"], "2 targets: a handoff is counted alone"),
        (["composition((8,4):(1,8), (4,3):(3,1))"], "4 threads of 3 values: load takes 32 threads"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["cost", *arguments]) == 2
    assert message in capsys.readouterr().err


# -- explain desc, explain idesc --------------------------------------------------------------------------------------


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def test_a_matrix_descriptor_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Start 1024, SBO 1024 bytes, 128-byte swizzle; the sm_100 word has its version in bits 46-48."""
    text = explained(capsys, "desc", "0x4000404000000040")
    assert text.startswith("0x4000404000000040 as a matrix descriptor of sm_100\n  start byte 1024 (field 64)\n")
    assert "K-major: 8 rows of 128 bytes, the next 8 rows 1024 bytes on (sbo, field 64)" in text
    assert "of sm_90" in explained(capsys, "desc", "0x4000004000010000")
    assert explained(capsys, "desc", "0x4000404000000040", "--arch", "sm_100") == text
    assert explained(capsys, "desc", str(0x4000404000000040)) == text


def test_a_negative_constant_as_a_compiler_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A swizzle code of 4 or 6 sets bit 63: PTX shows such a word as a negative number."""
    word = 6 << 61 | 1 << 46 | 16 << 32
    assert "swizzle 32 bytes" in explained(capsys, "desc", "--", str(word - (1 << 64)))


def test_an_instruction_descriptor_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "idesc", "0x8200490", "--kind", "f16")
    assert text.splitlines()[1:] == ["  kind f16: M 128, N 128", "  A bf16, K-major; B bf16, K-major; D f32", "  K 16"]
    several = explained(capsys, "idesc", "0x8200490")
    assert "kind f16" in several and "kind f8f6f4" in several and "by the instruction's .kind" in several


def test_desc_decodes_both_descriptors(capsys: pytest.CaptureFixture[str]) -> None:
    """A word of 32 bits may be an instruction descriptor; `--kind` and `--arch` say which is meant."""
    both = explained(capsys, "desc", "0x8200490")
    assert "as a matrix descriptor of sm_90" in both and "kind f16: M 128, N 128" in both
    assert explained(capsys, "desc", "0x8200490", "--kind", "f16") == explained(
        capsys, "idesc", "0x8200490", "--kind", "f16"
    )
    assert "instruction" not in explained(capsys, "desc", "0x8200490", "--arch", "sm_90")
    assert "instruction" not in explained(capsys, "desc", "0x4000404000000040")
    only = explained(capsys, "desc", "0x8204490")  # bit 14, B negated: no matrix descriptor has it
    assert "matrix" not in only and "kind f16" in only


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["desc", "0x4000404000000040", "--arch", "sm_90"], "an sm_90 descriptor has 0 there"),
        (["desc", "hello"], "'hello' is no number"),
        (["desc", "0x12345678901234567"], "it has 64 bits"),
        (["idesc", "0x8200490", "--kind", "tf32"], "the type of A is 1: kind tf32 has 2 tf32"),
        (["idesc", "0xffffffff"], "no kind has this word"),
        (["idesc", "0x1", "--arch", "sm_90"], "--arch is for matrix descriptors"),
        (["desc", "0x8200490", "--arch", "sm_90", "--kind", "f16"], "--arch is for matrix descriptors"),
        (["desc", "0xffffffff"], "no kind has this word"),
        (["(8,8):(8,1)", "--kind", "f16"], "--kind for explain idesc"),
    ],
)
def test_what_is_no_descriptor(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["explain", *arguments]) == 2
    assert message in capsys.readouterr().err
