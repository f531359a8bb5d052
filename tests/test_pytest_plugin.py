"""The pytest plugin, from outside: small test files, run by pytest, with the faults that a refactor plants."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy  # noqa: F401 (imported once and for all: pytester takes back what a run in this process imports)
import pytest

import layoutlab.catalogue
import layoutlab.draw.svg
import layoutlab.guard.picture  # noqa: F401

pytest_plugins = ["pytester"]

INSTALLED = any(e.value == "layoutlab.pytest_plugin" for e in entry_points(group="pytest11"))
PLUGIN = [] if INSTALLED else ["-p", "layoutlab.pytest_plugin"]
QUICK = [word for name in ("cacheprovider", "hypothesispytest", "benchmark") for word in ("-p", f"no:{name}")]

GUARD = """
def test_row(layout_guard):
    layout_guard.check("row", {text!r})
"""
HANDOFF = """
from layoutlab.catalogue import sP

def test_p(layout_guard):
    layout_guard.check("p", sP({settings}){more})
"""


class Run:
    """Runs pytest in the folder of a pytester."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path / "test_it.py"
        self.goldens = pytester.path / "goldens" / "test_it"

    def __call__(self, source: str, *options: str) -> pytest.RunResult:
        self.path.write_text(source)
        start = self.pytester.runpytest_subprocess if "-n" in options else self.pytester.runpytest_inprocess
        quick = [*QUICK, *([] if "-n" in options else ["-p", "no:xdist"])]
        return start(*PLUGIN, *quick, *options)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    return Run(pytester)


def test_a_missing_golden_fails_and_update_records_it(run: Run) -> None:
    source = GUARD.format(text="(4,2):(2,1)")
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*row has no golden *goldens/test_it/row.txt: run pytest with --layout-update*"])
    result.stdout.no_fnmatch_line("*check.py*")  # no lines of this package between the test's own and the sentence
    assert not run.goldens.exists()
    result = run(source, "--layout-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*row: golden written:*row.txt"])
    assert "at    = i[4] + 2 i[1] + 4 i[2]" in (run.goldens / "row.txt").read_text()
    run(source).assert_outcomes(passed=1)


def test_another_notation_passes_with_a_remark(run: Run) -> None:
    run(GUARD.format(text="(4,2):(1,4)"), "--layout-update").assert_outcomes(passed=1)
    result = run(GUARD.format(text="((2,2),2):((1,2),4)"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*row: the same function in another notation: was (4,2):(1,4), is ((2,2),2):((1,2),4)"]
    )


def test_another_function_fails_with_the_first_that_moved_and_a_picture(run: Run) -> None:
    run(GUARD.format(text="S<3,3,3> o 0 o (8,64):(64,1)"), "--layout-update")
    result = run(GUARD.format(text="(8,64):(64,1)"))
    result.assert_outcomes(failed=1)
    # index 1 is (1,0), at 64: the swizzle xors bits 3..5 with bits 6..8, so it was at 64 ^ 8; seven rows of eight move
    result.stdout.fnmatch_lines(
        ["*layout: other swizzle: index 1 (1,0) was 72, is 64; 448 of 512 moved*", "*before and after:*row.change.svg*"]
    )
    assert (run.goldens / "row.change.svg").read_text().startswith("<svg")
    run(GUARD.format(text="S<3,3,3> o 0 o (8,64):(64,1)")).assert_outcomes(passed=1)
    assert not (run.goldens / "row.change.svg").exists()


def test_update_rewrites_after_showing_the_difference(run: Run) -> None:
    run(GUARD.format(text="(4,2):(1,4)"), "--layout-update")
    result = run(GUARD.format(text="(4,2):(2,1)"), "--layout-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*golden rewritten:*", "*other order: index 1 (1,0) was 1, is 2; 6 of 8 moved*"])
    run(GUARD.format(text="(4,2):(2,1)")).assert_outcomes(passed=1)
    run(GUARD.format(text="(4,2):(1,4)")).assert_outcomes(failed=1)


def test_invariants_are_enforced_while_updating(run: Run) -> None:
    run(GUARD.format(text="(4,2):(1,4)"), "--layout-update")
    before = (run.goldens / "row.txt").read_text()
    result = run(GUARD.format(text="(4,2):(1,0)"), "--layout-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*injective no longer holds: index 0 (0,0) and index 4 (0,1) both give 0*"])
    assert (run.goldens / "row.txt").read_text() == before
    dropped = GUARD.format(text="(4,2):(1,0)").replace("'(4,2):(1,0)'", "'(4,2):(1,0)', invariants=()")
    run(dropped, "--layout-update").assert_outcomes(passed=1)


def test_a_handoff_that_is_wrong_makes_no_golden(run: Run) -> None:
    result = run(HANDOFF.format(settings="write_swizzle='none'", more=""), "--layout-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*p makes no golden:*", "*placed does not hold: *T1 V0*byte 128*byte 144*"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("store='composition'", ["*p write: the same function in another notation*"]),
        ("write_swizzle='none'", ["*write: other swizzle: T1 V0 was byte 144, is byte 128; 14336 of 16384 moved*"]),
        ("k_order='021'", ["*write: same owner, other bytes: T0 V16 was byte 32, is byte 16384; 12288 of 16384 *"]),
        ("store='tiled_copy_c', head_dim=128", ["*write: shrunk coverage: T0 V1 was byte 2, *"]),
    ],
)
def test_what_a_handoff_changed(run: Run, settings: str, said: list[str]) -> None:
    run(HANDOFF.format(settings="", more=""), "--layout-update").assert_outcomes(passed=1)
    result = run(HANDOFF.format(settings=settings, more=""))
    result.stdout.fnmatch_lines(said)
    result.assert_outcomes(**({"passed": 1} if "composition" in settings else {"failed": 1}))


TWO = """
def test_a(layout_guard):
    layout_guard.check("a", "4:1")

def test_b(layout_guard):
    layout_guard.check("b", "8:1")
"""


def test_a_golden_that_no_test_checks_is_reported(run: Run) -> None:
    run(TWO, "--layout-update").assert_outcomes(passed=2)
    assert "stale:" not in run(TWO).stdout.str()
    one = TWO.split("def test_b")[0]
    result = run(one)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["stale: no test checks goldens/test_it/b.txt*"])


@pytest.mark.parametrize("options", [["-k", "test_a"], ["test_it.py::test_a"], ["--deselect", "test_it.py::test_b"]])
def test_a_run_of_a_part_reports_no_stale_goldens(run: Run, options: list[str]) -> None:
    run(TWO, "--layout-update").assert_outcomes(passed=2)
    assert "stale:" not in run(TWO, *options).stdout.str()


def test_a_failed_test_may_not_have_come_to_its_check(run: Run) -> None:
    run(TWO, "--layout-update").assert_outcomes(passed=2)
    result = run(TWO.replace('layout_guard.check("b"', 'assert 0; layout_guard.check("b"'))
    result.assert_outcomes(passed=1, failed=1)
    assert "stale:" not in result.stdout.str()


def test_workers_record_check_and_report_together(run: Run) -> None:
    many = "\n".join(
        f"def test_{i}(layout_guard):\n    layout_guard.check('golden {i}', '({2 + i},8):(8,1)')" for i in range(6)
    )
    run(many, "-n", "2", "--layout-update").assert_outcomes(passed=6)
    assert len(list(run.goldens.iterdir())) == 6
    result = run(many.split("def test_5")[0], "-n", "2")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["stale: no test checks goldens/test_it/golden_5.txt*"])
    result = run(many.replace("(7,8):(8,1)", "(7,8):(1,7)"), "-n", "2")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*other order*"])


def test_a_golden_edited_by_hand_is_refused(run: Run) -> None:
    source = GUARD.format(text="(4,2):(2,1)")
    run(source, "--layout-update").assert_outcomes(passed=1)
    path = run.goldens / "row.txt"
    path.write_text(path.read_text().replace("4 i[2]", "8 i[2]"))
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*[[]layout] is damaged: its table has the digest *"])


def test_importing_the_plugin_imports_nothing_heavy() -> None:
    heavy = ("numpy", "sympy", "cutlass", "graphviz", "layoutlab.guard", "layoutlab.draw")
    code = f"import sys, layoutlab.pytest_plugin; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_entry_point_is_declared() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"layoutlab": "layoutlab.pytest_plugin"}
