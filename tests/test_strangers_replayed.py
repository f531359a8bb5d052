"""The record of kernels that nobody here wrote (tests/strangers/replay.py), and what the README says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORD = json.loads((ROOT / "tests" / "data" / "strangers_replayed.json").read_text())
ARCHITECTURES = {"sm_90a": "SM90", "sm_100a": "SM100"}


def groups(architecture):
    """The cases by what stands before the first comma: how many, and the largest error."""
    found = {}
    for case in RECORD[architecture]["cases"]:
        found.setdefault(case["case"].split(",")[0], []).append(case["error"])
    return {name: (len(errors), max(errors)) for name, errors in found.items()}


def table():
    """The README's table, a line a kernel."""
    names = list(dict.fromkeys(name for a in ARCHITECTURES for name in groups(a)))
    lines = [f"| kernel | {' | '.join(ARCHITECTURES.values())} |", "|---|---|---|"]
    for name in names:
        cells = [groups(a).get(name) for a in ARCHITECTURES]
        shown = ["-" if c is None else f"{c[0]} right, error {c[1]:.1e}" for c in cells]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_case_was_right(architecture):
    """Within its allowed error, without a warning, and having run."""
    cases = RECORD[architecture]["cases"]
    assert len(cases) >= 10 and len({c["case"] for c in cases}) == len(cases)
    for case in cases:
        assert case["error"] <= case["allowed"] and case["warnings"] == [] and case["instructions"] > 1000, case


def test_every_kernel_of_each_package_is_there():
    names = {name for a in ARCHITECTURES for name in groups(a)}
    for word in ("flash-attn-4 forward", "quack GEMM", "quack softmax", "quack rmsnorm", "quack cross-entropy"):
        assert any(word in name for name in names)
    for architecture in ARCHITECTURES:
        cases = [c["case"] for c in RECORD[architecture]["cases"]]
        for word in ("flash-attn-4", "causal", "heads 4/1", "head dim 64", "head dim 128", "cluster 2 x 1"):
            assert any(word in case for case in cases), (architecture, word)


def test_the_record_says_how_it_was_made():
    for architecture in ARCHITECTURES:
        assert RECORD[architecture]["command"] == f"python tests/strangers/replay.py {architecture} --record"
        assert set(RECORD[architecture]["versions"]) >= {"flash-attn-4", "quack-kernels", "nvidia-cutlass-dsl", "torch"}
        assert RECORD[architecture]["date"] > "2026"


def test_the_readme_has_the_table():
    assert table() in (ROOT / "README.md").read_text()
