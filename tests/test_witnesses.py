"""The table of witnesses: every count in it is handed over by a test."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from layoutlab.cli import main
from layoutlab.witnesses import FACTS, WITNESSES, hold, table

OTHERS = [path for path in sorted(Path(__file__).parent.glob("test_*.py")) if path.name != "test_witnesses.py"]
TESTS = "\n".join(path.read_text() for path in OTHERS)


def test_every_count_is_held_by_a_test():
    held = set(re.findall(r'hold\("([^"]+)", "([^"]+)", ', TESTS))
    assert held == {(fact, witness) for fact, counts in FACTS.items() for witness in counts}


def test_a_wrong_count_is_seen():
    with pytest.raises(AssertionError, match="24 cases agree, the table says 25"):
        hold("mma.sync", "H200", FACTS["mma.sync"]["H200"] - 1)
    with pytest.raises(AssertionError, match="the table says 0"):
        hold("cp.async", "Triton", 1)


def test_table():
    lines = table().splitlines()
    assert all(witness in lines[0] for witness in WITNESSES)
    assert [line.split("  ")[0] for line in lines[1 : 1 + len(FACTS)]] == list(FACTS)
    assert re.search(r"^mma.sync +25 +10 +- +- +24\*$", table(), re.M)


def test_the_command_prints_it(capsys):
    assert main(["witnesses"]) == 0
    assert capsys.readouterr().out == table() + "\n"
    assert main(["witnesses", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["schema"] == 1 and printed["facts"] == FACTS
    assert [d["witness"] for d in printed["disagreements"]] == ["tensor-layouts"]
