"""Derive on the model's side: what is derived, what is refused and why, the command's words and exit statuses."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import layoutlab as ll
from layoutlab.catalogue import CATALOGUE
from layoutlab.cli import main
from layoutlab.derive import derive
from layoutlab.derive.free import free_storage
from layoutlab.derive.free_report import report as free_report
from layoutlab.derive.report import as_json, report
from layoutlab.handoff import Handoff

# -- the writer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings", "forms"),
    [
        ("sP", {}, {"cotiled_copy", "coordinate"}),
        ("sP90", {}, {"cotiled_copy", "coordinate", "stmatrix"}),
        ("epilogue", {"load": "16x256b.x4"}, {"cotiled_copy", "coordinate", "stmatrix"}),
        ("ldsm", {}, {"cotiled_copy", "coordinate"}),
        ("tP", {}, {"tmem_copy"}),
        ("oRescale", {}, {"tmem_copy"}),
        ("sQ", {}, {"tma_load"}),
        ("sK", {}, {"tma_load"}),
        ("sV", {}, {"tma_load"}),
        ("rs_reuse", {}, {"registers"}),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, sorted(value))),
)
def test_each_handoff_of_the_catalogue_has_its_forms(name: str, settings: dict[str, Any], forms: set[str]) -> None:
    found = derive(CATALOGUE[name](**settings))
    assert found.verdict == "derived" and {piece.form for piece in found.pieces} == forms
    for piece in found.pieces:
        assert ll.verify(piece.handoff).proved
        assert piece.handoff.reader is found.handoff.reader


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        (
            "sP",
            [{"write_swizzle": "none"}, {"store": "composition_raw"}, {"k_order": "021"}, {"store": "tiled_copy_c"}],
        ),
        ("sP90", [{"write_swizzle": "elements"}, {"store": "stmatrix"}]),
        ("tP", [{"p_offset": 0}, {"store": "16x256b.x2"}]),
        ("sQ", [{"tma_swizzle": "32"}, {"box": "row"}]),
        ("epilogue", [{"store_as": "16x256b.x2"}, {"bits": 16}]),
    ],
)
def test_the_present_writer_is_not_looked_at(name: str, faults: list[dict[str, Any]]) -> None:
    right = [piece.code for piece in derive(CATALOGUE[name]()).pieces]
    for fault in faults:
        assert [piece.code for piece in derive(CATALOGUE[name](**fault)).pieces] == right, fault


def test_the_widest_store_without_conflicts_is_taken() -> None:
    facts = derive(CATALOGUE["sP"]()).pieces[0].facts
    assert (facts["bits"], facts["stores"], facts["conflict_free"], facts["wavefronts"]) == (128, 16, True, 256)
    facts = derive(CATALOGUE["sP90"]()).pieces[0].facts
    assert (facts["bits"], facts["conflict_free"]) == (32, True)
    P = tile()
    s = ll.smem("(128,64):(64,1)", over=P)
    found = derive(ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=16), reader="(128,64):(64,1)"))
    assert not found.pieces[0].facts["conflict_free"] and "would be the least" in report(found)


NONE: list[tuple[str, dict[str, Any], str]] = [
    ("sP", {"first_warp": 1}, "warp 1 (threads 32 to 63) takes rows 0 to 31"),
    ("tP", {"dtype": "e4m3", "load": "16x256b.x4"}, "T0 V2 is read at lane 8 column 32, and no tcgen05.st of 128"),
    ("oRescale", {"load": "16x64b.x16"}, "T128 multiplies by the factor of its row"),
    ("sQ", {"k_step": "always_32_bytes"}, "box 0 element 64 (m=1, k=0) and box 1 element 0 (m=0, k=64) both write"),
    ("sV", {"read_major": "K"}, "TMA does not transpose: n is contiguous in global memory"),
    ("rs_reuse", {"dtype": "e4m3"}, "threads have to exchange values first"),
]


@pytest.mark.parametrize(("name", "settings", "why"), NONE, ids=str)
def test_where_there_is_none_it_says_why(name: str, settings: dict[str, Any], why: str) -> None:
    found = derive(CATALOGUE[name](**settings))
    assert (found.verdict, found.exit_status, found.pieces) == ("none", 1, ())
    assert any(why in text for text in found.refusals.values()), found.refusals
    assert why in report(found).replace("\n# ", " ") and "no writer of the forms" in report(found)


def tile(k: int = 64, bits: int = 16) -> ll.Tile:
    return ll.Tile("P", m=128, k=k, bits=bits)


def test_an_owner_that_leaves_the_tile_or_does_not_fill_it() -> None:
    P = tile(48)
    s = ll.smem("(128,48):(48,1)", over=P)
    wide = ll.store(ll.tcgen05_ld("32x32b.x32").over(P), s, bits=16)
    narrow = ll.store("(128,32):(1,128)", s, bits=16)
    found = derive(ll.Handoff(P, writer=wide, reader="(128,48):(48,1)"))
    assert found.verdict == "none" and "the threads hold k=0 to 63, and P" in found.refusals[""]
    found = derive(ll.Handoff(P, writer=narrow, reader="(128,48):(48,1)"))
    assert found.verdict == "none" and "no thread holds that element" in found.refusals["coordinate"]


def test_less_than_a_warp_is_no_matter_of_widths() -> None:
    P = ll.Tile("P", m=16, k=64, bits=16)
    plain = ll.smem("(16,64):(64,1)", over=P)
    h = ll.Handoff(P, writer=ll.store("(16,64):(1,16)", plain, bits=16), reader=ll.declared("(16,64):(64,1)", P))
    found = derive(h)
    assert [piece.form for piece in found.pieces] == ["coordinate"]
    assert found.refusals["cotiled_copy"] == "stores are a warp's, and 16 threads are less than its 32"


def test_widths_that_no_store_has() -> None:
    P = tile(bits=4)
    s = ll.smem("(128,64):(64,1)", over=P)
    found = derive(ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=8), reader="(128,64):(64,1)"))
    assert found.verdict == "none" and "of 8, 16, 32 and 64 bits, not of 4" in found.refusals["cotiled_copy"]
    assert "not 4-bit ones" in found.refusals["stmatrix"]


def test_places_that_no_pointer_makes() -> None:
    """A swizzle whose rows are counted from elsewhere than the buffer: no store of CuTe's does that."""
    P = tile()
    desc = ll.SmemDescriptor(start=128, lbo=0, sbo=1024, swizzle=128, base_offset=2)
    reader = ll.umma_a(desc, P, starts_bytes=[0, 32, 64, 96])
    s = ll.smem("(128,64):(64,1)", over=P)
    found = derive(ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=16), reader=reader))
    assert found.verdict == "none" and "counts rows from byte 256" in found.refusals[""], found.refusals


def test_global_memory_is_not_derived() -> None:
    P = tile()
    g = ll.gmem("(128,64):(64,1)", over=P)
    found = derive(ll.Handoff(P, writer=ll.store("(128,64):(1,128)", g, bits=16), reader=ll.declared(g, P)))
    assert (found.verdict, found.exit_status) == ("unsupported", 3) and "reads gmem" in found.refusals[""]


# -- the reader -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sP", "sQ", "sK", "sV"])
def test_the_descriptor_that_is_derived_is_the_right_one(name: str) -> None:
    for settings in ({}, {"dtype": "e4m3"}, {"base": 1024}):
        h = CATALOGUE[name](**settings)
        (piece,) = derive(h, "reader").pieces
        desc, given = piece.facts["descriptor"], h.reader.given
        assert desc == {f: getattr(given["desc"], f) for f in desc}
        assert (piece.facts["starts_bytes"], piece.facts["major"]) == (list(given["starts_bytes"]), given["major"])
        words = [int(word, 16) for word in piece.facts["words"]["sm_100"]]
        starts = [ll.SmemDescriptor.decode(word, "sm_100").start for word in words]
        assert starts == [desc["start"] + step for step in piece.facts["starts_bytes"]]
        hopper = ll.SmemDescriptor.decode(int(piece.facts["words"]["sm_90"][0], 16), "sm_90")
        assert (hopper.sbo, hopper.swizzle) == (desc["sbo"], desc["swizzle"])


def test_a_wrong_reader_does_not_matter_to_the_reader_that_is_derived() -> None:
    right = derive(CATALOGUE["sV"](), "reader").pieces[0].facts
    for fault in ({"descriptor": "swapped"}, {"k_step": "always_32_bytes"}, {"read_major": "K"}):
        assert derive(CATALOGUE["sV"](**fault), "reader").pieces[0].facts == right


def test_a_base_offset_is_derived() -> None:
    facts = derive(CATALOGUE["sP"](write_swizzle="relative", base=384), "reader").pieces[0].facts
    assert facts["descriptor"]["base_offset"] == 3
    assert {int(word, 16) >> 49 & 7 for word in facts["words"]["sm_100"]} == {3}


def test_readers_of_other_kinds() -> None:
    boxes = derive(CATALOGUE["epilogue"](tma_swizzle="none"), "reader").pieces[0].facts
    assert (boxes["box"], boxes["swizzle"], boxes["starts_bytes"][1]) == ({"n": 32, "m": 128}, 64, 8192)
    rows = derive(CATALOGUE["ldsm"](trans="wrong", operand="B_trans"), "reader").pieces[0].facts
    assert rows["trans"] is True
    column = derive(CATALOGUE["tP"](read_offset=0, dtype="e4m3"), "reader").pieces[0].facts
    assert column == {"column": 32, "elements": 128}
    found = derive(CATALOGUE["rs_reuse"](), "reader")
    assert found.verdict == "unsupported" and "without fields" in found.refusals[""]
    found = derive(CATALOGUE["sP"](write_swizzle="none"), "reader")
    assert found.verdict == "none" and len(found.refusals) == 10
    with pytest.raises(ll.LayoutError, match='"writer" or the "reader", not \'owner\''):
        derive(CATALOGUE["sP"](), "owner")  # type: ignore[arg-type]
    with pytest.raises(ll.LayoutError, match="derive takes a handoff, not str"):
        derive("sP")  # type: ignore[arg-type]


# -- a free buffer ----------------------------------------------------------------------------------------------------


def p_96() -> Handoff:
    P = tile(96)
    s = ll.smem("(128,96):(96,1)", over=P, align_bytes=1024)
    reader = ll.umma_a(ll.SmemDescriptor(0, 0, 1536, 0), P, starts_bytes=[32 * i for i in range(6)])
    return ll.Handoff(P, writer=ll.store(ll.tcgen05_ld("32x32b.x32").over(P), s, bits=16), reader=reader)


def test_a_row_that_a_swizzle_does_not_divide_says_what_to_use() -> None:
    found = free_storage([p_96()])
    assert found.served[0].name == "k contiguous, swizzle 64 B" and found.served[0].wavefronts == 192
    assert found.blocked["k contiguous, swizzle 128 B"] == (
        "96 columns and SW128: a row of 192 bytes isn't a multiple of 128; use SW64"
    )
    for served in found.served:
        assert all(ll.verify(h).proved for h in served.handoffs)


def keys(first: str, second: str, major: Any, box: str) -> Handoff:
    """K, 128 keys of 64, loaded by TMA and read as operand B; writer and reader as wrong as can be."""
    extents = {"key": 128, "d": 64}
    K = ll.Tile("K", **{first: extents[first], second: extents[second]}, bits=16)
    s = ll.smem(f"({K.shape[0]},{K.shape[1]}):(1,{K.shape[0]})", over=K, align_bytes=1024)
    other = next(axis for axis in extents if axis != box)
    writer = ll.tma_load(s, box={box: 8, other: 8}, starts_bytes=[0] * (K.size // 64))
    desc = ll.SmemDescriptor(0, 16, 1024, 0)
    return ll.Handoff(K, writer=writer, reader=ll.umma_b(desc, K, starts_bytes=[0] * (K.shape[1] // 16), major=major))


def test_two_readers_of_one_buffer_in_both_majors() -> None:
    """K is operand B of S = Q K^T, K-major, and of dQ = dS K, MN-major: one buffer, two descriptors."""
    found = free_storage([keys("key", "d", "K", "d"), keys("d", "key", "MN", "d")])
    best = found.served[0]
    assert best.name == "d contiguous, swizzle 128 B"
    majors = [h.reader.given["major"] for h in best.handoffs]
    assert majors == ["K", "MN"] and all(ll.verify(h).proved for h in best.handoffs)
    places = [h.reader.read.at(key=77, d=13) for h in best.handoffs]
    assert places[0] == places[1]
    blocked = [why for name, why in found.blocked.items() if name.startswith("key") and "32b" not in name]
    assert len(blocked) == 4 and all("TMA does not transpose" in why for why in blocked)


def test_no_buffer_serves_two_loads_that_are_contiguous_otherwise() -> None:
    found = free_storage([keys("key", "d", "K", "d"), keys("d", "key", "MN", "key")])
    assert (found.verdict, found.exit_status, found.served) == ("none", 1, ())
    assert len(found.blocked) == 10


def test_readers_without_descriptors_get_an_elementary_swizzle() -> None:
    found = free_storage([CATALOGUE["ldsm"](swizzle="none")])
    costs = {served.name: served.wavefronts for served in found.served}
    assert found.served[0].wavefronts == 32  # 4 instructions each way, 4 wavefronts each: the least there is
    assert costs["whole rows, k contiguous, S<3,4,3>"] == 32
    assert costs["k contiguous, swizzle 32 B"] > 32


def test_what_is_not_searched() -> None:
    tmem = free_storage([CATALOGUE["tP"]()])
    assert (tmem.verdict, tmem.exit_status) == ("unsupported", 3) and "searches shared memory" in tmem.blocked[""]
    P = tile()
    s = ll.smem("(128,64):(64,1)", over=P)
    declared = ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=16), reader="(128,64):(64,1)")
    assert "give the instruction that reads" in free_storage([declared]).blocked[""]
    with pytest.raises(ll.LayoutError, match="no handoff: a buffer is searched for at least one"):
        free_storage([])
    with pytest.raises(ll.LayoutError, match="they are not of one buffer"):
        free_storage([CATALOGUE["sQ"](head_dim=64), CATALOGUE["sK"](kv=256)])
    with pytest.raises(ll.LayoutError, match="one buffer has one width"):
        free_storage([CATALOGUE["sQ"](), CATALOGUE["sK"](dtype="e4m3")])


# -- the command ------------------------------------------------------------------------------------------------------


FILE = """
import layoutlab as ll


@ll.handoff
def p_tile(kv: int = 64):
    P = ll.Tile("P", m=128, k=kv, bits=16)
    s = ll.smem(f"(128,{kv}):({kv},1)", over=P, align_bytes=1024)
    desc = ll.SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
    reader = ll.umma_a(desc, P, starts_bytes=[32 * i for i in range(kv // 16)])
    return ll.Handoff(P, writer=ll.store(ll.tcgen05_ld("32x32b.x32").over(P), s, bits=16), reader=reader)


@ll.handoff
def two():
    return p_tile.function(64)
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    assert main(["derive", f"{file}:p_tile"]) == 0
    text = capsys.readouterr().out
    assert "def store_P_by_copy(rP: cute.Tensor, start: cute.Pointer, tidx: cutlass.Int32):" in text
    compile(text, "derived", "exec")
    assert main(["derive", f"{file}", "--json"]) == 0
    objects = json.loads(capsys.readouterr().out)
    assert [o["handoff"] for o in objects] == ["p_tile", "two"] and objects[0]["schema"] == 1
    assert objects[0]["forms"][0]["bits"] == 128 and objects[0]["forms"][0]["code"] in text
    assert main(["derive", f"{file}:p_tile", f"{file}:two", "--free", "storage", "--json"]) == 0
    freed = json.loads(capsys.readouterr().out)
    assert freed["served"][0]["wavefronts"] == 128 and freed["verdict"] == "derived"
    assert main(["derive", f"{file}:p_tile", "--free", "storage"]) == 0
    compile(capsys.readouterr().out, "freed", "exec")
    assert main(["derive", "sV", "--from", "writer"]) == 0
    text = capsys.readouterr().out
    assert "lbo 16384, sbo 1024 (fields 1024, 64)" in text and "# sm_100: 0x4000404004000000, " in text
    assert main(["derive", "sP", "--set", "first_warp=1"]) == 1
    assert main(["derive", "rs_reuse", "--from", "writer"]) == 3
    assert "without fields" in capsys.readouterr().out.replace("\n# ", " ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sp"], "no handoff is called sp; did you mean sP?"),
        (["sP", "sQ"], "2 targets: one handoff's writer is derived at a time; with --free storage they share a buffer"),
        (["sP", "--set", "kw=64"], "sP has no setting kw; did you mean kv?"),
        (["sP", "--set", "kv"], "--set kv: a setting is KEY=VALUE"),
        (["sP", "--free", "storage", "--from", "writer"], "--free storage derives both sides for a buffer"),
        (["sQ", "sK", "--free", "storage", "--set", "kv=256"], "they are not of one buffer"),
        (["missing.py"], "there is no file missing.py"),
    ],
    ids=str,
)
def test_misuse_is_a_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["derive", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error and "Traceback" not in error


def test_json_of_what_was_refused() -> None:
    found = as_json(derive(CATALOGUE["rs_reuse"](dtype="e4m3")))
    assert (found["verdict"], found["forms"]) == ("none", []) and "exchange" in found["refusals"]["registers"]


def test_functions_of_several_handoffs_have_names_of_their_own() -> None:
    """Three that share a buffer and a name, no identifier: each function says whose it is, and none is lost."""
    P = ll.Tile("my P", m=64, k=64, bits=16)
    s = ll.smem("(64,64):(64,1)", over=P, align_bytes=1024)
    reader = ll.wgmma_a(ll.SmemDescriptor(0, 0, 1024, 128), P, starts_bytes=[0, 32, 64, 96])
    owners = ("(64,64):(1,64)", "(128,32):(1,128)", "(32,128):(1,32)")
    found = free_storage([ll.Handoff(P, writer=ll.store(owner, s, bits=16), reader=reader) for owner in owners])
    text = free_report(found)
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    copies = [name for name in functions if "by_copy" in name]
    assert copies == ["store_my_P_by_copy", "store_my_P_by_copy_for_my_P", "store_my_P_by_copy_for_my_P_2"]
    assert len(functions) == len(set(functions)) and text.count("# Of my P:") == len(functions)


def test_what_the_caller_passes_is_said() -> None:
    """A warpgroup that begins at thread 128, a buffer that begins at byte 16."""
    (piece,) = derive(CATALOGUE["oRescale"](first_warp=4)).pieces
    assert "# tidx is the thread's number in the block less 128, the first" in piece.code
    for piece in derive(CATALOGUE["sP"](base=16)).pieces:
        assert "# start points to byte 16 of shared memory" in piece.code and "less" not in piece.code
    P = tile()
    owner = ll.owned("(128,64):(1,128)", P, first_thread=32)
    plain = ll.smem("(128,64):(64,1)", over=P)
    h = ll.Handoff(P, writer=ll.store(owner, plain, bits=16), reader=ll.declared(plain, P))
    assert all("block less 32, the first" in piece.code for piece in derive(h).pieces)


def test_several_reports_are_one_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Handoffs of a file whose tiles have one name: a later function does not replace an earlier one."""
    file = tmp_path / "two.py"
    file.write_text(TWO_OF_ONE_NAME)
    assert main(["derive", str(file)]) == 0
    functions = [node.name for node in ast.parse(capsys.readouterr().out).body if isinstance(node, ast.FunctionDef)]
    assert functions == [
        "store_P_by_copy", "store_P_by_coordinate", "store_P_by_copy_for_by_rows", "store_P_by_coordinate_for_by_rows"
    ]  # fmt: skip


TWO_OF_ONE_NAME = """
import layoutlab as ll


@ll.handoff
def by_columns():
    P = ll.Tile("P", m=128, k=64, bits=16)
    s = ll.smem("(128,64):(1,128)", over=P)
    return ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=16), reader=ll.declared(s, P))


@ll.handoff
def by_rows():
    P = ll.Tile("P", m=128, k=64, bits=16)
    s = ll.smem("(128,64):(64,1)", over=P)
    return ll.Handoff(P, writer=ll.store("(128,64):(1,128)", s, bits=16), reader=ll.declared(s, P))
"""


def test_a_reader_that_takes_more_than_the_tile() -> None:
    P = ll.Tile("P", m=8, k=48, bits=16)
    plain = ll.smem("(8,48):(48,1)", over=P, align_bytes=1024)
    boxes = ll.tma_store(P, box={"k": 32, "m": 8}, swizzle=0, starts_bytes=[0, 512])
    found = derive(ll.Handoff(P, writer=ll.store("(32,12):(12,1)", plain, bits=16), reader=boxes))
    assert "takes k=0 to 63, and P (m=8, k=48), 16-bit ends at k=47" in found.refusals[""]
