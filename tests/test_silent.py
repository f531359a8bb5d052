"""Silent wrong answers of other libraries: each row still so, wrong by the plain definition, minimal; ours right."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plain as plain_layouts
import pytest
import silent
import strangers
from hypothesis import HealthCheck, given, settings
from operands import calls
from operands_wide import plain
from plain import L, S, leaves, read
from promises import LAWS, broken
from rules import rule
from silent import arguments, judged, minimal, search, smaller, written
from silent_answers import SILENT, VERSIONS, Silent, counted
from strangers import ask

SEARCH = Path(__file__).parent / "search" / "silent.py"


def test_the_libraries_are_the_versions_of_the_table() -> None:
    assert {package: version(package) for package, _ in VERSIONS.values()} == dict(VERSIONS.values())


@pytest.mark.parametrize("row", SILENT, ids=lambda r: f"{r.package}-{r.expression}")
def test_row(row: Silent) -> None:
    """The library answers so; the answer breaks the law; the cause and the broken rule are these; ours is no such."""
    operation, args = arguments(row.expression)
    assert row.expression == f"{operation}({', '.join(map(written, args))})"
    found = judged(row.package, operation, args)
    assert found is not None, ask(row.package, row.expression)
    assert (found.answer.replace(" ", ""), found.cause, found.rule) == (row.theirs, row.cause, row.rule)
    ours = ask("ours", row.expression)
    assert (None if ours.refused else str(ours.value)) == row.ours
    assert row.ours is None or broken("ours", operation, args, ours.text) is None


@pytest.mark.parametrize("row", SILENT, ids=lambda r: f"{r.package}-{r.expression}")
def test_row_is_minimal(row: Silent) -> None:
    """No mode less, no nesting less and no number nearer to 0 leaves it wrong for this cause: all steps are tried."""
    operation, args = arguments(row.expression)
    steps = [less for less in smaller(args) if (f := judged(row.package, operation, less)) and f.cause == row.cause]
    assert not steps, [", ".join(map(written, less)) for less in steps]


def test_one_row_for_each_cause_in_each_operation_of_a_library() -> None:
    keys = [(r.package, r.operation, r.cause) for r in SILENT]
    assert len(set(keys)) == len(keys)
    assert {r.package for r in SILENT} == set(strangers.ORACLES)
    assert sum(counted(kind).total() for kind in (True, False)) == len(SILENT)


@pytest.mark.parametrize("operation", sorted({*LAWS} - {"nullspace", "flat_product"}))
def test_our_answers_keep_every_law(operation: str) -> None:
    """And so no law calls a right answer wrong: where the operands keep the rules, or ours would not refuse."""
    seen = 0

    @given(calls(operation))
    @settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def look(call: Any) -> None:
        nonlocal seen
        args = plain(call[1])
        ours = ask("ours", f"{operation}({', '.join(map(written, args))})")
        if ours.refused is None:
            seen += 1
            assert broken("ours", operation, args, str(ours.value)) is None, (call, ours)

    look()
    assert seen > 20


DOCUMENTED = """
coalesce(L((2,(1,6)), (1,(6,2)))) = 12:1
composition(L((6,2), (8,2)), L((4,3), (3,1))) = ((2,2),3):((24,2),8)
composition(L(20, 2), L((5,4), (4,1))) = (5,4):(8,2)
composition(L((10,2), (16,4)), L((5,4), (1,5))) = (5,(2,2)):(16,(80,4))
composition(L((12,(4,8)), (59,(13,1))), (L(3, 4), L(8, 2))) = (3,(2,4)):(236,(26,1))
complement(L(4, 1), 24) = 6:4
complement(L(6, 4), 24) = 4:1
complement(L((4,6), (1,4)), 24) = 1:0
complement(L(4, 2), 24) = (2,3):(1,8)
complement(L((2,4), (1,6)), 24) = 3:2
complement(L((2,2), (1,6)), 24) = (3,2):(2,12)
logical_divide(L((4,2,3), (2,1,8)), L(4, 2)) = ((2,2),(2,3)):((4,1),(2,8))
logical_product(L((2,2), (4,1)), L(6, 1)) = ((2,2),(2,3)):((4,1),(2,8))
blocked_product(L((2,5), (5,1)), L((3,4), (1,3))) = ((2,3),(5,4)):((5,10),(1,30))
raked_product(L((2,5), (5,1)), L((3,4), (1,3))) = ((3,2),(4,5)):((10,5),(30,1))
""".strip().split("\n")


@pytest.mark.parametrize("line", DOCUMENTED)
def test_the_documents_own_examples_keep_the_laws_and_a_changed_stride_breaks_them(line: str) -> None:
    """Examples of CUTLASS's 02_layout_algebra.md. The planted fault: the answer with one stride changed."""
    expression, _, answer = line.partition(" = ")
    operation, args = arguments(expression)
    assert rule("dsl", operation, args) is None
    assert broken("dsl", operation, args, answer) is None
    shape, _, stride = answer.partition(":")
    numbers = list(re.finditer(r"\d+", stride))
    faulty = [f"{shape}:{stride[: n.start()]}{int(n[0]) + 1}{stride[n.end() :]}" for n in numbers]
    assert answer == "1:0" or any(broken("dsl", operation, args, text) for text in faulty), faulty


@pytest.mark.parametrize("row", SILENT, ids=lambda r: f"{r.package}-{r.expression}")
def test_the_library_itself_evaluates_the_layouts_so(row: Silent) -> None:
    """Operands and answer, called at each index: what the plain definition says is what the library says."""
    operands = [x for x in arguments(row.expression)[1] if isinstance(x, (L, S))]
    texts = {written(x): x.values() for x in operands}
    answer = read(row.theirs)
    if not isinstance(answer, int) and answer is not None and min(leaves(domain(answer))) > 0:
        texts[row.expression] = answer.values()
    for text, values in texts.items():
        said = ask(row.package, called(row.package, text, len(values))).text
        assert said == str(values), text


def called(library: str, text: str, count: int) -> str:
    at = "crd2idx(i, x)" if library == "dsl" else "x(i)"
    return f"(lambda x: [{at} for i in range({count})])({text})"


def domain(x: Any) -> Any:
    return x.shape if isinstance(x, L) else x.outer.shape


@pytest.fixture
def fresh_answers() -> Any:
    ask.cache_clear()
    yield
    ask.cache_clear()


@pytest.mark.usefixtures("fresh_answers")
def test_the_search_finds_a_planted_fault_and_makes_it_minimal(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = strangers.PYCUTE["L"]
    monkeypatch.setitem(strangers.PYCUTE, "coalesce", lambda a: layout(a.size() + (a.size() > 5), 1))
    tried, found = search("pycute", "coalesce", 2)
    assert tried > 0
    (wrong,) = found.values()
    assert minimal(wrong) == wrong
    assert wrong.expression in ("coalesce(L(1, 0))", "coalesce(L(2, 0))"), wrong


def test_what_is_printed_is_read() -> None:
    for text in ("(2,3):(6,3)", "((4),2):((1),-3)", "S<1,0,2> o 3 o (4,2):(1,8)"):
        assert str(read(text)) == text
    assert read("S<1,0,-1 o 0 o 1:0") is None, "cut off where the DSL stops printing"
    chain = read("((8, 4) : (4, 1)) o ((Swizzle(2, 0, 2)) o {5} o ((4, 8) : (8, 1)))")
    inner, outer = S(2, 0, 2, 5, L((4, 8), (8, 1))), L((8, 4), (4, 1))
    assert [chain(i) for i in range(32)] == [outer(inner(i)) for i in range(32)]


@pytest.mark.parametrize("library", ["pycute", "tensor_layouts"])
def test_a_row_is_reproduced_by_one_line(library: str) -> None:
    row = next(r for r in SILENT if r.package == library)
    command = [sys.executable, str(SEARCH), "--ask", library, row.expression]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().replace(" ", "") == row.theirs


def test_the_examples_of_the_search_run() -> None:
    for module in (plain_layouts, silent):
        done = doctest.testmod(module)
        assert done.attempted > 0 and done.failed == 0


def test_the_readme_has_the_counts() -> None:
    inside, outside = counted(True), counted(False)
    each = {library: sum(n for (of, _), n in inside.items() if of == library) for library in VERSIONS}
    common = set.intersection(*({r.expression for r in SILENT if r.package == of and not r.rule} for of in VERSIONS))
    assert common == {"composition(L((6,2), (0,1)), L((3,2), (2,3)))"}
    names = {"dsl": "CuTe DSL", "pycute": "pycute", "tensor_layouts": "tensor-layouts"}
    versions = {of: ".".join(version(package).split(".")[:3]) for of, (package, _) in VERSIONS.items()}
    found = ", ".join(f"{name} {versions[of]}: {each[of]}" for of, name in names.items())
    words = (
        f"found {inside.total()} minimal expressions inside the documented rules ({found}; for all three, "
        f"`composition((6,2):(0,1), (3,2):(2,3))`) and {outside.total()} more that break a documented rule"
    )
    assert words in " ".join((SEARCH.parent.parent.parent / "README.md").read_text().split())
