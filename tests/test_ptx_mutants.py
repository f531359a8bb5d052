"""The record of kernel mutation (tests/bench/mutate.py) is of the kernel as it is, and each survivor has its reason."""

from __future__ import annotations

import collections
import json
import random
import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "bench"))

import mutate

RECORD = json.loads(mutate.RECORD.read_text())
KINDS = {"equivalent", "dead", "timing"}  # and "missed", of which there is to be none


@cache
def subject():
    return mutate.subject()


@cache
def mutants():
    return mutate.mutants(subject().text, random.Random(RECORD["seed"]))[: len(RECORD["outcomes"])]


def test_the_counts_add_up():
    assert collections.Counter(RECORD["outcomes"]) == RECORD["tally"] and len(RECORD["outcomes"]) >= 400
    assert RECORD["tally"]["survived"] == len(RECORD["survivors"]) < 0.08 * len(RECORD["outcomes"])


def test_no_survivor_was_missed():
    assert {x["kind"] for x in RECORD["survivors"]} <= KINDS and all(x["why"] for x in RECORD["survivors"])


def test_the_record_is_of_this_kernel():
    lines = subject().text.split("\n")
    for x in RECORD["survivors"]:
        assert lines[x["line"] - 1].strip() == x["statement"]
        assert mutate.reason(x["statement"], x["what"], subject().text) == (x["kind"], x["why"])


SAMPLE = [i for i, outcome in enumerate(RECORD["outcomes"]) if outcome == "survived" or i % 16 == 0]


@pytest.mark.parametrize("number", SAMPLE)
def test_outcomes_are_the_recorded(number):
    """Every survivor and each sixteenth of the others, run again."""
    _, _, text = mutants()[number]
    assert subject().outcome(text) == RECORD["outcomes"][number]


def test_a_statement_without_a_reason_would_be_missed():
    text = subject().text
    assert mutate.reason("st.shared.b32 [%r1], %r2;", "dropped", text) == ("missed", "")


def test_the_readme_has_the_counts():
    kinds = collections.Counter(x["kind"] for x in RECORD["survivors"])
    total, survived = len(RECORD["outcomes"]), len(RECORD["survivors"])
    words = f"Of {total} mutants of the P handoff's PTX {total - survived} are caught and {kinds['equivalent']} compute"
    assert words in " ".join((Path(__file__).parent.parent / "README.md").read_text().split())
    assert kinds["timing"] == 1 and survived == kinds["equivalent"] + 1
