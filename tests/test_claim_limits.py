"""Where a proof ends: coordinates outside of the tile, numbers too wide, memories that end, bases that move."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layoutlab as ll
from layoutlab import Handoff, LayoutError, SmemDescriptor, Tile, declared, owned, smem, store, umma_a, verify, wgmma_a
from layoutlab.arbiter import _range
from layoutlab.cli import main
from layoutlab.handoff import gmem, tma_store, tma_write, tmem, umma_a_tmem
from layoutlab.handoff.report import cost_line, store_wavefronts
from layoutlab.handoff.verdict import Claim, Witness

STAGED = Tile("P", m=64, k=8, stage=1, bits=16)


def staged() -> Any:
    return smem("(64,8,1):(8,1,512)", over=STAGED, align_bytes=1024)


def _witness(claim: Claim) -> Witness:
    assert claim.witness is not None
    return claim.witness


# -- outside of the tile ----------------------------------------------------------------------------------------------


def test_a_copy_that_leaves_the_tile_is_outside() -> None:
    twice = store("(64,(8,2)):(1,(64,0))", staged(), bits=16, through="(64,(8,2)):(1,(64,512))")
    verdict = verify(Handoff(STAGED, writer=twice, reader=staged()))
    assert _witness(verdict["inside"]).message == (
        "T0 V8 (m=0, k=0, stage=0) goes to (m=0, k=0, stage=1), outside of the tile: stage ends at 0"
    )
    assert verdict["placed"].verdict == "refuted"  # stage 1 is 512 elements on, not in stage 0


def test_the_last_mode_goes_on_past_its_end() -> None:
    assert staged().places.at(m=0, k=0, stage=1) == {"bit": 512 * 16}
    beyond = store("(64,(8,2)):(1,(64,512))", staged(), bits=16)
    verdict = verify(Handoff(STAGED, writer=beyond, reader=staged()))
    assert (verdict["exclusive"].verdict, verdict["inside"].verdict) == ("proved", "refuted")


# -- elements told apart ----------------------------------------------------------------------------------------------


def test_enumeration_tells_elements_of_many_axes_apart() -> None:
    T = Tile("T", a=1, b=1, c=1, d=2, e=12288, bits=16)  # (d=0, e=4096) and (d=1, e=0) lie in one place
    s = smem("(1,1,1,2,(4096,3)):(0,0,0,4096,(1,4096))", over=T, align_bytes=1024)
    verdict = verify(Handoff(T, writer=store("(2,12288):(1,2)", s, bits=16), reader=s))
    assert (verdict["exclusive"].verdict, verdict["exclusive"].method) == ("refuted", "enumeration")


def test_numbers_that_64_bits_would_wrap_decide_nothing() -> None:
    P = Tile("P", m=3, k=5, bits=16)
    s = smem(f"S<1,4,3> o 0 o (3,5):({2**60},7)", over=P, align_bytes=1024)
    reader = declared("S<1,4,3> o 0 o (3,5):(0,7)", P)  # 2**60 elements are 2**64 bits: 0 after a wrap
    placed = verify(Handoff(P, writer=store("(3,5):(1,3)", s, bits=16), reader=reader))["placed"]
    assert placed.verdict == "undecided"


def test_a_stride_of_63_bits_is_no_internal_error() -> None:
    P = Tile("P", m=8, k=8, bits=16)
    s = smem(f"(8,8):({2**63},1)", over=P)
    verdict = verify(Handoff(P, writer=store("(8,8):(1,8)", s, bits=16), reader=declared("(8,8):(8,3)", P)))
    assert verdict["covered"].verdict == "undecided" and verdict.verdict == "refuted"


def test_the_grain_is_that_of_all_chunks() -> None:
    n = 1 << 18  # a chunk holds one t; the second lies 8 lower
    _, _, grain, _ = _range({"t": 2, "v": n}, lambda t, v: np.where(t == 0, 32 * v, -8 - 32 * v), 16)
    assert grain == 8


def test_covered_compares_bits_and_not_starts() -> None:
    P = Tile("P", m=8, k=64, bits=16)
    s = smem("(8,64):(64,1)", over=P, align_bytes=1024)
    one_on = declared("(8,64):(64,1)", P, base_bytes=1)
    covered = verify(Handoff(P, writer=store("(8,64):(1,8)", s, bits=16), reader=one_on))["covered"]
    assert covered.method == "enumeration"
    assert _witness(covered).coordinate == {"m": 7, "k": 63}  # of all others both halves are written


# -- what memories take -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [4, 6, 24, 256])
def test_no_store_is_of_an_odd_width(bits: int) -> None:
    P = Tile("P", m=8, k=64, bits=bits)
    s = smem("(8,64):(64,1)", over=P, align_bytes=1024)
    legal = verify(Handoff(P, writer=store("(8,64):(1,8)", s, bits=bits), reader=s))["legal"]
    assert f"no store moves {bits} bits" in _witness(legal).message


def test_a_store_to_tensor_memory_writes_whole_columns() -> None:
    P = Tile("P", m=128, k=64, bits=16)
    halves = owned("((32,4,2),32):((1,32,128),256)", P)  # two threads share each column of 32 bits
    writer = store(halves, tmem(over=P), bits=16)
    legal = verify(Handoff(P, writer=writer, reader=umma_a_tmem(P)))["legal"]
    assert "whole columns of 32 bits, not 16" in _witness(legal).message


@pytest.mark.parametrize(
    ("layout", "base", "message"),
    [("(32,64):(-64,1)", 0, "bytes -3968 to 127"), ("(32,64):(64,1)", 1 << 30, "bytes 1073741824 to 1073745919")],
)
def test_shared_memory_ends(layout: str, base: int, message: str) -> None:
    P = Tile("P", m=32, k=64, bits=16)
    s = smem(layout, over=P, align_bytes=1024, base_bytes=base)
    legal = verify(Handoff(P, writer=store("(32,64):(1,32)", s, bits=16), reader=s))["legal"]
    assert legal.verdict == "refuted" and message in _witness(legal).message


def test_every_warpgroups_descriptor_fits_its_field() -> None:
    Q = Tile("Q", m=128, k=16, bits=16)
    reader = wgmma_a(SmemDescriptor(start=0, lbo=0, sbo=32768, swizzle=128), Q, starts_bytes=[0])
    faults = [rule.fault for rule in reader.rules() if rule.fault]
    assert len(faults) == 1 and "a descriptor starts at byte 262144" in faults[0]


@pytest.mark.parametrize("align", [128, 512, 1024])
def test_sides_that_swizzle_differently_need_a_base_aligned_to_the_pattern(align: int) -> None:
    R = Tile("R", m=1, k=64, bits=16)  # row 0 of the pattern, where the swizzle changes nothing
    s = smem("(1,64):(64,1)", over=R, align_bytes=align)
    reader = tma_store(R, box={"k": 64, "m": 1}, swizzle=128, starts_bytes=[0])
    verdict = verify(Handoff(R, writer=store("(32,2):(2,1)", s, bits=32), reader=reader))
    assert verdict["placed"].verdict == "proved"
    assert verdict["legal"].verdict == ("proved" if align == 1024 else "refuted")


def test_sides_that_swizzle_addresses_alike_hold_at_any_base() -> None:
    P = Tile("P", m=8, k=64, bits=16)
    s = smem("S<3,4,3> o 0 o (8,64):(64,1)", over=P, align_bytes=16)
    assert verify(Handoff(P, writer=store("(8,64):(1,8)", s, bits=16), reader=s)).proved


def test_operands_that_no_instruction_reads_are_refused() -> None:
    desc = SmemDescriptor(start=0, lbo=4096, sbo=1024, swizzle=128)
    four, wide = Tile("P", m=128, k=64, bits=4), Tile("P", m=128, k=8, bits=32)
    with pytest.raises(LayoutError, match="wgmma reads elements of 8, 16 and 32 bits, not of 4"):
        wgmma_a(desc, four, starts_bytes=[0])
    with pytest.raises(LayoutError, match="K-major only"):
        umma_a(desc, four, starts_bytes=[0], major="MN")
    with pytest.raises(LayoutError, match='in swizzle "128_32b" alone, not in 128'):
        umma_a(desc, wide, starts_bytes=[0], major="MN")
    in_32b = SmemDescriptor(start=0, lbo=4096, sbo=1024, swizzle="128_32b")
    assert umma_a(in_32b, wide, starts_bytes=[0], major="MN").read.at(m=1, k=0) == {"bit": 32}


@pytest.mark.parametrize("swizzle", ["S<1,4,-5>", "S<2,4,-3>", "S<1,4,-1>"])
def test_a_swizzle_upwards_is_proved_in_its_span(swizzle: str) -> None:
    P = Tile("P", m=32, bits=16)
    s = smem(f"{swizzle} o 0 o (32):(1)", over=P, align_bytes=1024)
    places = s.places.at(m=np.arange(32))["bit"]
    assert places.max() + 16 <= s.cells.stop
    assert verify(Handoff(P, writer=store("(32,1):(1,0)", s, bits=16), reader=s)).proved


def test_a_swizzle_upwards_that_cuts_elements_is_refused() -> None:
    with pytest.raises(LayoutError, match="cuts elements"):
        smem("S<1,0,-4> o 0 o (8,8):(8,1)", over=Tile("P", m=8, k=8, bits=16))


# -- boxes ------------------------------------------------------------------------------------------------------------


def test_a_box_that_goes_on_writes_the_tile_alone() -> None:
    O = Tile("O", m=192, n=64, bits=16)  # noqa: E741
    g = gmem("(192,64):(512,1)", over=O)
    writer = tma_write(g, box={"n": 64, "m": 128})  # the second box goes on to row 255
    t, v = np.indices((writer.owner.places.axes["t"], writer.owner.places.axes["v"]))
    rows = writer.owner.places.at(t=t, v=v)["m"]
    assert (rows.max(), rows.size) == (191, 192 * 64)
    assert verify(Handoff(O, writer=writer, reader=declared(g, O))).proved


def test_a_box_reads_the_tiles_elements_alone() -> None:
    O = Tile("O", m=64, k=8, bits=16)  # noqa: E741
    reader = tma_store(O, box={"k": 32, "m": 64}, starts_bytes=[0])
    assert dict(reader.read.axes) == {"m": 64, "k": 8}
    s = smem("(64,8):(8,1)", over=O, align_bytes=1024)
    covered = verify(Handoff(O, writer=store("(64,8):(1,64)", s, bits=16), reader=reader))["covered"]
    assert _witness(covered).coordinate == {"m": 16, "k": 0}


# -- the report's cost ------------------------------------------------------------------------------------------------


def test_the_cost_is_of_all_warps() -> None:
    P = Tile("P", m=128, k=1, bits=16)
    s = smem("S<2,4,3> o 0 o ((32,4),1):((33,5000),1)", over=P, align_bytes=1024)
    writer = store("(128,1):(1,128)", s, bits=16)
    assert [max(store_wavefronts(writer, 16, warp)) for warp in range(4)] != [1, 1, 1, 1]
    assert store_wavefronts(writer) == [1]  # the first warp has no conflict
    assert "1 to 2 wavefronts each for a warp" in cost_line(writer)


def test_too_many_stores_are_not_counted() -> None:
    n = 1 << 15
    P = Tile("P", m=n, k=n, bits=16)
    line = cost_line(store(f"({n},{n}):(1,{n})", smem(f"({n},{n}):({n},1)", over=P), bits=16))
    assert line == "16-bit stores: not counted, 32768 threads of 32768 values are too many"


# -- what is asked for ------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_sentences() -> None:
    P = Tile("P", m=8, k=8, bits=16)
    s = smem("(8,8):(8,1)", over=P)
    for bits in ("16", True, 0, -16):
        with pytest.raises(LayoutError, match="a store's width is a number of bits"):
            store("(8,8):(1,8)", s, bits=bits)  # type: ignore[arg-type]
    for base in ("0x10", True, 16.0):
        with pytest.raises(LayoutError, match="no whole number of bytes"):
            smem("(8,8):(8,1)", over=P, base_bytes=base)  # type: ignore[arg-type]
    for live in ((0, 64), range(64, 0, -1), range(0), range(0, 128, 64)):
        with pytest.raises(LayoutError, match="a buffer is a range"):
            Handoff(P, writer=store("(8,8):(1,8)", s, bits=16), reader=s, live={"S": live})  # type: ignore[dict-item]
    with pytest.raises(LayoutError, match="a text that can be printed"):
        Tile("P\ud800", m=8, bits=16)


@pytest.mark.parametrize("option", ["--bits 0", "--width 0", "--width -4", "--width 999999999999"])
def test_cost_of_no_width_is_a_sentence(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["cost", "(32,32):(32,1)", *option.split()]) == 2
    assert f"{option}: it is 1 to" in capsys.readouterr().err


def test_a_negative_address_is_called_one() -> None:
    with pytest.raises(LayoutError, match="lane 1 has address -4: shared memory begins at 0"):
        ll.wavefronts([-4 * lane for lane in range(32)], 4, "store")


@pytest.mark.parametrize(
    ("where", "message"), [(">&-", "there is no standard output"), ("> /dev/full", "the answer cannot be written")]
)
def test_an_answer_that_cannot_be_written_is_a_sentence(where: str, message: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(ll.__file__).parent.parent)}
    command = f"{sys.executable} -m layoutlab eval 4:1 {where}"
    done = subprocess.run(["bash", "-c", command], env=env, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.startswith(f"layoutlab: {message}")
    assert done.stderr.count("\n") == 1


def test_whatever_a_file_raises_is_blamed_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odd.py"
    file.write_text("raise BaseException('odd')\n")
    assert main(["verify", str(file)]) == 2
    assert capsys.readouterr().err == f"layoutlab: {file}, line 1: BaseException: odd\n"
