"""diff: same function, same places, first difference; held against enumeration."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab import Layout, LayoutError, parse
from layoutlab.cli import main
from layoutlab.cli.diff import difference, read


@pytest.mark.parametrize(
    ("a", "b", "status", "sentence"),
    [
        ("(8,64):(64,1)", "(8,(8,8)):(64,(1,8))", 0, "same function yes (by runs, 512 indices)"),
        ("(8,64):(64,1)", "(8,64):(64,1)", 0, "same text yes"),
        ("4:1", "8:1", 1, "same function no: A has 4 coordinates, B has 8"),
        ("(8,64):(64,1)", "(8,64):(1,8)", 1, "at index 1, coordinate (1,0): A gives 64, B gives 1"),
        ("(8,64):(64,1)", "(8,64):(1,8)", 1, "location 64 is of T1 V0 in A and of T0 V8 in B"),
        ("(4,2,2):(1,4,8)", "(4,2,2):(1,8,4)", 1, "location 4 is of (0,1,0) in A and of (0,0,1) in B"),
        ("(4,2):(1,4)", "(4,2):(1,8)", 1, "same places no: other locations"),
        ("S<3,3,3> o 0 o (8,64):(64,1)", "S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)", 0, "same function yes (by digits"),
        ("S<3,4,3> o 0 o (8,64):(64,1)", "S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)", 1, "A gives 64, B gives 72"),
        ("(M,N):(N,1)", "(M,N):(N,1)", 0, "same function yes"),
        ("(M,N):(N,1)", "(M,N):(1,M)", 1, "coordinate (1,0) with M=2, N=2: A gives 2, B gives 1"),
        ("(?,4):(4,1)", "(?,4):(4,1)", 3, "not decided: (?,4):(4,1) has an entry that prints ?"),
        ("(?,64):(64,1)", "(8,64):(64,1)", 3, "A has 64*? coordinates, B has 512: whether these are as many is known"),
        ("(8,64):(64,1)", "(?{div=8},64):(64,1)", 3, "not decided"),
        ("(?{div=8},64):(64,1)", "(3,64):(64,1)", 1, "A has 512*? coordinates, B has 192"),
        ("(N,64):(64,1)", "(8,64):(64,1)", 1, "A has 64*N coordinates, B has 512"),
        ("(4,8):(1@0,1@1)", "(4,8):(1@1,1@0)", 1, "coordinate (1,0): A gives (1,0), B gives (0,1)"),
        ("composition((6,2):(8,2), (4,3):(3,1))", "((2,2),3):((24,2),8)", 0, "same function yes"),
        ("tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>", "S<3,3,3> o 0 o (8,64):(64,1)", 0, "same"),
    ],
)  # fmt: skip
def test_verdicts(a: str, b: str, status: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", a, b]) == status
    out = " ".join(capsys.readouterr().out.split())
    assert sentence in out and out.endswith(["same", "different", "", "undecided"][status])


BYTES = "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"


@pytest.mark.parametrize("swap", [False, True])
def test_a_difference_that_is_the_swizzles_unit_alone_is_said(swap: bool, capsys: pytest.CaptureFixture[str]) -> None:
    plain = "S<3,4,3> o 0 o (8,64):(64,1)"
    assert main(["diff", *((BYTES, plain) if not swap else (plain, BYTES))]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"remark the text of {'A' if swap else 'B'} does not say what its swizzle counts" in out
    assert "if it counts bytes, of 16-bit elements, the two are the same function" in out
    assert "S<3,4,3>[8b] o 0 o [16b](8,64):(64,1) says so" in out
    assert main(["diff", BYTES, "S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)"]) == 0


def test_no_remark_where_the_unit_does_not_explain_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", BYTES, "S<2,4,3> o 0 o (8,64):(64,1)"]) == 1
    assert "remark" not in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--json", "(8,64):(64,1)", "(8,64):(1,8)"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == 1 and {"version", "dsl_version"} <= answer.keys()
    assert answer["verdict"] == "different" and answer["same_function"] is False and answer["same_places"] is True
    assert answer["first_difference"] == {
        "index": 1, "coordinate_a": "(1,0)", "coordinate_b": "(1,0)", "a": 64, "b": 1, "where": None,
    }  # fmt: skip


@pytest.mark.parametrize("bad", ["(8,64", "(8,64)", "S<3,4,3>", "size(8:1)"])
def test_what_is_no_layout_is_a_usage_error(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", bad, "4:1"]) == 2
    assert capsys.readouterr().err.startswith("layoutlab: ")


small = st.integers(1, 4)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = tuple(draw(st.lists(small, min_size=1, max_size=3)))
    return Layout(shape, tuple(draw(st.integers(-3, 9)) for _ in shape))


@given(layouts(), layouts())
@settings(max_examples=300, deadline=None)
def test_the_verdict_is_what_enumeration_says(a: Layout, b: Layout) -> None:
    found = difference(a, b)
    left, right = ([x(i) for i in range(int(x.size()))] for x in (a, b))
    assert found.verdict == ("same" if left == right else "different")
    if len(left) == len(right) and left != right:
        first = next(i for i, (x, y) in enumerate(zip(left, right, strict=True)) if x != y)
        assert found.first is not None and found.first.index == first
        assert found.first.values == (left[first], right[first])
        assert found.same_places == (set(left) == set(right))


def test_an_expression_or_a_print_may_stand_for_a_layout() -> None:
    assert read("coalesce((2,4):(1,2))") == parse("8:1")
    with pytest.raises(LayoutError, match="this is the number 8"):
        read("size(8:1)")


def test_the_layout_of_one_coordinate_compares_too() -> None:
    assert difference(parse("S<1,0,1> o 0 o ():()"), parse("():()")).verdict == "same"
    assert difference(parse("S<1,0,1> o 2 o ():()"), parse("():()")).verdict == "different"
