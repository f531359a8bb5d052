"""What a report and its sentences say: units, places, threads, zeros, costs, and the line that names the trace."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np  # before pytester, which takes back what a run in this process imports
import pytest

import layoutlab as ll
from layoutlab.catalogue import CATALOGUE, sP
from layoutlab.cli import main
from layoutlab.derive.free import free_storage
from layoutlab.handoff.report import cost_line

pytest_plugins = ["pytester"]

P = ll.Tile("P", m=128, k=64, bits=16)


def report(name: str, **settings: Any) -> str:
    return str(ll.verify(CATALOGUE[name](**settings)))


def rows(layout: str, bits: int = 16, **options: Any) -> ll.Handoff:
    s = ll.smem(layout, over=P, **options)
    return ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=bits), reader=s.layout)


def test_where_no_change_of_one_side_cures_it_the_search_of_buffers_is_named() -> None:
    """Rows of 128 bytes under a swizzle of 64: no descriptor reads them, no store serves one that tells rows apart."""
    tile = ll.Tile("P", m=128, k=128, bits=8)
    s = ll.smem("S<2,4,3> o 0 o (128,128):(128,1)", over=tile, align_bytes=1024)
    writer = ll.store(ll.tcgen05_ld("32x32b.x32").over(tile), s, bits=8)
    desc = ll.SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=64)
    handoff = ll.Handoff(tile, writer=writer, reader=ll.umma_a(desc, tile, starts_bytes=[0, 32, 64, 96]))
    said = "no change of one side alone was found: `layoutlab derive --free storage` searches the buffer's layout too"
    assert said in str(ll.verify(handoff)) and free_storage([handoff]).served
    for name, wrong in (("sP", {"write_swizzle": "none"}), ("sV", {"descriptor": "swapped"}), ("sP", {})):
        assert "no change of one side" not in report(name, **wrong)


def test_a_wide_store_off_its_width_says_so() -> None:
    verdict = ll.verify(rows("(128,64):(72,1)", bits=128, base_bytes=8))
    assert verdict["legal"].witness
    message = verdict["legal"].why + verdict["legal"].witness.message
    assert "of T0 would move V0 to V7 to byte 8, and byte 8 is not a multiple of 16" in message
    apart = ll.verify(rows("(128,64):(1,128)", bits=128))["legal"].witness
    assert apart and "together, but V0 belongs at byte 0 and V1 at byte 256" in apart.message


def test_a_load_says_which_lanes_it_takes_rows_for() -> None:
    half = ll.Tile("S", m=64, n=64, bits=32)
    assert "row = lane]" in report("sP")
    assert ll.tcgen05_ld("16x256b.x2").over(half).source.endswith("16 rows in each warp's 32 lanes")
    load = ll.tcgen05_ld("32x32b.x32").over(half)  # row 17 of such an accumulator is in lane 33
    assert any(rule.fault and "64 rows lies in the first 16" in rule.fault for rule in load.rules())


@pytest.mark.parametrize("seq", [0, -5])
def test_a_tensor_of_no_rows_is_refused(seq: int) -> None:
    for name in ("sQ", "sK", "sV"):
        with pytest.raises(ll.LayoutError, match=f"^seq={seq}: a TMA tensor has an extent of at least 1"):
            CATALOGUE[name](seq=seq)
    with pytest.raises(ll.LayoutError, match=f"ends at m={seq} of P .*: a TMA tensor has an extent of at least 1"):
        ll.tma_load(ll.smem("(128,64):(64,1)", over=P), box={"k": 64, "m": 128}, tensor={"m": seq})


def test_elements_outside_of_the_tensor_are_counted() -> None:
    text = report("sQ", seq=100)
    assert "covered    proved    normal form, 16384 elements (3584 of them zero-filled" in text
    assert text.endswith("; 3584 of them are zeros from outside of the tensor")
    assert "zero" not in report("sQ", seq=128)


@pytest.mark.parametrize("swizzle", ["absolute", "none", "elements", "relative"])
def test_stmatrix_writes_what_the_tiled_copy_does_and_costs_what_its_rows_do(swizzle: str) -> None:
    from layoutlab.cost import store_accesses, wavefronts

    settings: dict[str, Any] = {"write_swizzle": swizzle, "kv": 64, "base": 128}
    by_matrix, by_copy = (CATALOGUE["sP90"](store=store, **settings).writer for store in ("stmatrix", "tiled_copy"))
    t, v = np.indices(tuple(by_copy.write.axes.values()))
    assert (by_matrix.write.at(t=t, v=v)["bit"] == by_copy.write.at(t=t, v=v)["bit"]).all()
    first = store_accesses(by_copy, "stmatrix.x4")[0]  # from the fragment's own addresses, not from the rows
    expected = wavefronts(first.addresses, first.width, "stmatrix.x4")
    assert cost_line(by_matrix).startswith(f"4 stmatrix.x4 a warp, {expected} wavefronts each")


def test_a_tiled_copy_is_no_owner() -> None:
    copy = "Tiled Copy\n  Tiler MN:        (128:1,64:1)\n  TV Layout tiled: (128,64):(1,128)"
    with pytest.raises(ll.LayoutError, match=r"this is a tiled copy.*give it as through=, store"):
        ll.store(copy, ll.smem("(128,64):(64,1)", over=P), bits=16)


def test_the_epilogue_says_what_stmatrix_needs() -> None:
    with pytest.raises(ll.LayoutError, match=r"set load=16x256b\.x2$"):
        CATALOGUE["epilogue"](route="stmatrix")
    with pytest.raises(ll.LayoutError, match=r"set dtype=bf16 and store_as=paired$"):
        CATALOGUE["epilogue"](route="stmatrix", dtype="f32", load="16x256b.x4", store_as="32x32b.x32")


def test_a_reason_for_enumeration_counts_in_bytes() -> None:
    text = report("sQ", descriptor="units")
    assert "no normal form: in bytes, byte address, Swizzle<3,4,3>: the step 128 is no single bit" in text


def test_misplaced_elements_are_counted_by_every_method() -> None:
    for name, settings, count in (
        ("tP", {"read_offset": 31}, "16384 of 16384"),  # a table, whose difference is no linear map
        ("sQ", {"descriptor": "units"}, "15360 of 16384"),  # enumerated
        ("sP", {"write_swizzle": "none"}, "14336 of 16384"),  # linear algebra
    ):
        assert f"({count} elements are misplaced" in report(name, **settings)


def test_one_is_no_plural_and_no_range() -> None:
    text = report("oRescale", store_column=255)
    assert "everything is written 1 column too low" in text
    assert "the MMA reads column 383, which is not O's" in text
    assert "writes lane 0 column 255: columns 0 to 255 hold what lies before O, still live" in text
    assert "this is S's column, not P's" in report("tP", read_offset=31)


def test_threads_are_the_blocks() -> None:
    tile = ll.Tile("A", m=16, k=16, bits=16)
    owner = ll.owned("((4,8),(2,2,2)):((32,1),(16,8,128))", tile, first_thread=128)
    h = ll.Handoff(tile, writer=ll.keep(owner), reader=ll.from_registers(tile, ll.parse("(32,8):(8,1)")))
    witness = ll.verify(h)["placed"].witness
    assert witness and "writes T128 register 0" in witness.message and "at T130 register 0" in witness.message


def test_an_assertion_begins_with_its_witness(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        test_p="import layoutlab as ll\nfrom layoutlab.catalogue import sP\n"
        "def test_p():\n    ll.assert_placed(sP(write_swizzle='none'))\n"
        "def test_c():\n    ll.assert_injective('(4,2):(1,0)')\n"
    )
    monkeypatch.setenv("COLUMNS", "120")
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["FAILED *::test_p - layoutlab.Refuted: T1 V0 (m=1, *"])
    result.stdout.fnmatch_lines(["FAILED *::test_c - layoutlab.Refuted: (4,2):(1,0) is*"])
    assert "layoutlab/handoff/core.py" not in result.stdout.str()
    assert "layoutlab/guard/asserts.py" not in result.stdout.str()


def test_offsets_that_are_swizzled_are_remarked_on_where_they_are_right() -> None:
    assert "remark     the writer swizzles offsets from its base: right at bases that 1024 divides" in report(
        "sP", write_swizzle="relative"
    )
    assert "remark" not in report("sP") and "remark" not in report("sP", write_swizzle="relative", base=128)


def test_the_least_is_said_with_its_width() -> None:
    line = cost_line(CATALOGUE["sP"]().writer)
    assert "4 wavefronts each for a warp (1 is the least for 16 bits)" in line
    assert line.endswith("128-bit: 16, 4 each (the least for 128 bits)")


def test_a_handoff_that_is_not_traced_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import layoutlab as ll\n@ll.handoff\ndef mine():\n    P = ll.Tile('P', m=128, k=64, bits=16)\n"
        "    s = ll.smem('(128,64):(64,1)', over=P)\n"
        "    return ll.Handoff(P, writer=ll.store('(128,64):(1,128)', s, bits=16), reader='(128,64):(64,1)')\n"
    )
    for target, line in (
        ("tP", "trace: none: verify traces no kernel that hands tP over; layoutlab crosscheck tP hears its kernel's"),
        ("ldsm", "trace: none: no kernel is known that hands ldsm over"),
        (str(file), "trace: none: no kernel is known that hands mine over"),
    ):
        assert main(["verify", target]) == 0 and line in capsys.readouterr().out.splitlines()[-1]
        assert main(["verify", target, "--no-trace"]) == 0 and "trace:" not in capsys.readouterr().out


def test_the_places_that_are_counted_are_the_writers_own() -> None:
    from layoutlab.handoff.report import bits_of

    compared = 0
    for settings in (
        {},
        {"write_swizzle": "none"},
        {"store": "composition", "base": 48},
        {"write_swizzle": "relative"},
    ):
        write = sP(**settings).writer.write
        bit = bits_of(write)
        for t, v in itertools.product(range(0, 128, 7), range(0, 128, 5)):
            assert bit(t, v) == write.at(t=t, v=v)["bit"]
            compared += 1
    assert compared == 4 * 19 * 26


def test_a_store_of_more_values_than_a_thread_has_is_not_counted() -> None:
    P = ll.Tile("P", m=128, k=4, bits=16)
    s = ll.smem("(128,4):(4,1)", over=P, align_bytes=1024)
    h = ll.Handoff(P, writer=ll.store("(128,4):(1,128)", s, bits=128), reader=ll.declared("(128,4):(4,1)", P))
    assert "not counted, a thread has 4 values, and a store moves 8" in str(ll.verify(h))
