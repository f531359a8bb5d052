"""sweep: the product of the settings, in order, the same verdicts as verify gives one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutlab.catalogue import sP
from layoutlab.cli import main
from layoutlab.handoff import verify


def test_a_sweep_says_what_verify_says(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "kv=64,128", "--set", "write_swizzle=absolute,none", "--set", "load=x16,x32,x64"]
    assert main(["sweep", "verify", "sP", *options, "--json", "--jobs", "2"]) == 1
    answer = json.loads(capsys.readouterr().out)
    results = answer["results"]
    assert len(results) == 12 and answer["counts"]["refuted"] == 6 and answer["counts"]["proved"] == 6
    for result in results:
        assert result["verdict"] == verify(sP(**result["settings"])).verdict
    assert [r["settings"]["kv"] for r in results] == [64] * 6 + [128] * 6


def test_the_table_has_the_refuted_and_the_slow_ones(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "store=coordinate,composition", "--set", "k_order=all", "--jobs", "1"]
    assert main(["sweep", "verify", "sP", *options]) == 1
    out = capsys.readouterr().out
    assert out.count("refuted   ") == 2 and "placed: T0 V16" in out
    assert "slow         sP store=coordinate k_order=012" in out and "composition k_order=012" not in out
    assert "2 refuted, 2 proved; 1 of those slow" in out


def test_variants_that_there_are_not_are_refused_and_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "verify", "sP", "--set", "kv=64", "--set", "k_order=021"]) == 3
    assert "there is no k2" in capsys.readouterr().out
    capsys.readouterr()
    assert main(["sweep", "verify", "sP", "--set", "store=composition,tiled_copy_d"]) == 0
    assert capsys.readouterr().out.startswith("\n2 combinations in ")
    assert main(["sweep", "verify", "sP", "--set", "store=composition", "--jobs", "1"]) == 0
    assert "1 combination in " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "kw=64"], "no setting kw"),
        (["--set", "kv=63"], "kv=63 is not one of"),
        (["--set", "kv"], "a setting is KEY=A,B,C"),
        (["--set", "kv=64", "--set", "kv=128"], "kv is set twice"),
        (["--set", "base=all"], "base lists no values"),
        (["--jobs", "0"], "at least one process"),
    ],
)
def test_usage_errors(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "verify", "sP", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_file_of_handoffs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "import layoutlab as ll\nfrom layoutlab.catalogue import sP\n\n@ll.handoff\n"
        "def p(kv: int = 64):\n    h = sP(kv=kv)\n    return ll.Handoff(h.tile, writer=h.writer, reader=h.reader)\n"
    )
    assert main(["sweep", "verify", str(tmp_path / "mine.py"), "--set", "kv=64,128"]) == 0
    assert "2 combinations" in capsys.readouterr().out
