"""README.md's table of kernels that nobody here wrote is what was recorded of them, and no recording is wrong.

The recording needs torch and two packages (tests/strangers/trace.py says how to repeat it); this reads what it wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RECORD: dict[str, Any] = json.loads((HERE / "data" / "strangers_traced.json").read_text())
ARCHES = {"sm_80": "SM80", "sm_90a": "SM90", "sm_100a": "SM100", "sm_120": "SM120"}


def cell(case: dict[str, Any]) -> str:
    """found: proved/refuted/unsupported; a dash where the package has no such kernel."""
    counts = case["counts"]
    found = sum(counts.values()) if counts else 0
    return f"{found}: {counts['proved']}/{counts['refuted']}/{counts['unsupported']}" if found else "-"


def table() -> str:
    """The table as README.md has it."""
    lines = ["| kernel | " + " | ".join(ARCHES.values()) + " |", "|---|" + "---|" * len(ARCHES)]
    cases = {(case["kernel"], case["arch"]): case for case in RECORD["cases"]}
    for kernel in dict.fromkeys(kernel for kernel, _ in cases):
        lines.append(f"| {kernel} | " + " | ".join(cell(cases[kernel, arch]) for arch in ARCHES) + " |")
    return "\n".join(lines)


def test_the_readme_has_the_recorded_table() -> None:
    assert table() in (HERE.parent / "README.md").read_text(), f"README.md's table is not the recorded one:\n{table()}"


def test_versions_are_recorded() -> None:
    assert set(RECORD["packages"]) == {"flash-attn-4", "quack-kernels", "nvidia-cutlass-dsl", "torch"}
    assert len(RECORD["cases"]) == 32 and all(case["command"].startswith("layoutlab trace") for case in RECORD["cases"])


@pytest.mark.parametrize("case", RECORD["cases"], ids=lambda c: f"{c['kernel']} {c['arch']}")
def test_no_false_alarm(case: dict[str, Any]) -> None:
    """Kernels known right: nothing is refuted, all else has its reason, and none broke off."""
    if cell(case) == "-":
        assert "Unsupported compute capability" in case["ended"] or "not implemented" in case["ended"]
        return
    assert case["ended"] is None and case["counts"]["refuted"] == case["counts"]["undecided"] == 0
    assert len(case["not proved"]) == case["counts"]["unsupported"] and all(row["why"] for row in case["not proved"])


@pytest.mark.parametrize("edit", RECORD["edits"], ids=lambda e: e["what"])
def test_every_planted_change_is_found(edit: dict[str, Any]) -> None:
    assert any(edit["buffer"] in said.split(": ")[0] for said in edit["refuted"]), edit


def test_changes_of_each_kind_were_planted() -> None:
    planted = " ".join(edit["what"] for edit in RECORD["edits"])
    assert len(RECORD["edits"]) >= 8 and all(word in planted for word in ("swizzle", "further", "tile", "tiled copy"))
