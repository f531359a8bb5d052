"""diff of files: goldens, traces of two versions of a kernel, handoffs; the classification is the guards'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutlab.catalogue import sP
from layoutlab.cli import main
from layoutlab.guard import Guard
from layoutlab.tracing import Trace

HANDOFF = """
import layoutlab as ll

@ll.handoff
def tile(stride: int = {stride}):
    P = ll.Tile("P", m=8, k=64, bits=16)
    s = ll.smem(f"(8,64):({{stride}},1)", over=P)
    return ll.Handoff(P, writer=ll.store("(8,64):(1,8)", s, bits=16), reader=s.layout)
"""


def test_goldens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guard = Guard(tmp_path, update=True)
    guard.check("a", sP())
    guard.check("b", sP(write_swizzle="none"), invariants=())
    guard.check("c", sP(store="composition"))
    a, b, c = (str(tmp_path / f"{name}.txt") for name in "abc")
    assert main(["diff", a, b]) == 1
    assert "write: other swizzle: T1 V0 was byte 144, is byte 128; 14336 of 16384 moved" in capsys.readouterr().out
    assert main(["diff", a, c]) == 0
    assert "write: the same function in another notation" in capsys.readouterr().out
    assert main(["diff", "--json", a, b]) == 1
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["moved"] == 14336 and change["kind"] == "other swizzle"


def test_traces_of_two_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for i, (sq, sk) in enumerate([("(8,64):(64,1)", "(4,2):(1,4)"), ("(8,64):(72,1)", "8:1")]):
        trace = Trace("k.py")
        trace.note("kernel", "sQ", sq)
        trace.note("kernel", "sK", sk)
        paths.append(tmp_path / f"{i}.json")
        paths[-1].write_text(trace.text())
    assert main(["diff", *map(str, paths)]) == 1
    out = capsys.readouterr().out
    assert "kernel.sQ: other places: index 1 (1,0) was 64, is 72; 448 of 512 moved" in out
    assert "kernel.sK: the same function in another notation: A has (4,2):(1,4), B has 8:1" in out


def test_handoffs_and_printed_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, stride in (("one", 64), ("two", 72)):
        (tmp_path / f"{name}.py").write_text(HANDOFF.format(stride=stride))
    assert main(["diff", str(tmp_path / "one.py"), f"{tmp_path / 'two.py'}:tile"]) == 1
    assert "write: same owner, other bytes: T1 V0 was byte 128, is byte 144" in capsys.readouterr().out
    (tmp_path / "print.log").write_text("(8,64):(64,1)\n")
    assert main(["diff", str(tmp_path / "print.log"), "((4,2),64):((64,256),1)"]) == 0


@pytest.mark.parametrize("content", ["hello", "{}", "{nothing", "layoutlab golden 9: x\n"])
def test_a_file_that_says_no_layout(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text(content)
    assert main(["diff", str(tmp_path / "x"), "4:1"]) == 2
    assert capsys.readouterr().err.startswith("layoutlab: ") and "internal" not in capsys.readouterr().err


def test_the_kind_of_change_of_two_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "S<3,3,3> o 0 o (8,64):(64,1)", "(8,64):(64,1)"]) == 1
    assert "change          other swizzle, 448 of 512 moved" in capsys.readouterr().out
