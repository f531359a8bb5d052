"""The command: what each ending looks like, what eval answers, and that nothing ends in a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab.cli import COMMANDS, installed, main
from layoutlab.text.expression import evaluate

HEAVY = ("numpy", "sympy", "cutlass", "matplotlib", "torch", "graphviz", "llvmlite")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "layoutlab", *arguments], capture_output=True, text=True)


def test_eval_notes_a_swizzle_whose_unit_it_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "(S<3,4,3> o 0 o (8,64):(64,1))(1,0)"]) == 0
    out, err = capsys.readouterr()
    assert out == "64\n" and "note: S<3,4,3> does not say what it counts" in err
    written = "S<3,4,3>[8b] o 0 o [16b]"
    assert written in err
    for quiet, value in ((f"({written}(8,64):(64,1))(1,0)", "72"), ("size(S<3,4,3> o 0 o (8,64):(64,1))", "512")):
        assert main(["eval", quiet]) == 0
        assert capsys.readouterr() == (f"{value}\n", "")


# -- endings ----------------------------------------------------------------------------------------------------------


def test_help_lists_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert set(installed()) >= {"eval", "explain", "diff"}
    for name in COMMANDS:
        assert bool(re.search(rf"^    {name}( |$)", out, re.MULTILINE)) == (name in installed())


@pytest.mark.parametrize("command", ["eval", "explain", "diff"])
def test_each_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "examples:" in out and "exit status: 0" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("layoutlab ")


@pytest.mark.parametrize("arguments", [[], ["eval", "1", "2"], ["diff", "4:1"], ["eval", "--colour", "4:1"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert "usage: layoutlab" in shown.err and "Traceback" not in shown.err


def broken(arguments: object) -> int:
    raise KeyError("x")


def test_an_internal_error_is_one_sentence_and_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from layoutlab.cli import eval as command

    monkeypatch.setattr(command, "run", broken)
    assert main(["eval", "4:1"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("layoutlab: internal error: KeyError: 'x' in ") and "Traceback" not in err
    assert err.endswith("; run it again with --debug for the traceback\n") and err.count("\n") == 1
    for arguments in (["--debug", "eval", "4:1"], ["eval", "4:1", "--debug"]):
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert err.startswith("Traceback") and "internal error: KeyError" in err


def test_recursion_and_memory_end_in_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from layoutlab.cli import eval as command

    for error, status in ((RecursionError("deep"), 2), (MemoryError(), 2), (KeyboardInterrupt(), 130)):

        def fail(arguments: object, error: BaseException = error) -> int:
            raise error

        monkeypatch.setattr(command, "run", fail)
        assert main(["eval", "4:1"]) == status
        err = capsys.readouterr().err
        assert err.startswith("layoutlab: ") and err.count("\n") == 1


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from layoutlab.cli import eval as command

    monkeypatch.setattr(command, "run", lambda _: len(Path("/nowhere/x.py").read_text()))
    assert main(["eval", "4:1"]) == 2
    assert capsys.readouterr().err == "layoutlab: cannot read /nowhere/x.py: No such file or directory\n"


@pytest.mark.parametrize("package", ["ml_dtypes", "llvmlite", "llvmlite.binding"])
def test_a_missing_package_of_an_extra_is_named_with_the_extra(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from layoutlab.cli import eval as command

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(command, "run", lambda _: __import__(package))
    assert main(["eval", "4:1"]) == 2
    err = capsys.readouterr().err
    assert err == (
        f"layoutlab: {package.partition('.')[0]} is not installed: this needs the extra 'replay': "
        "pip install 'layoutlab[replay]' (from a clone: pip install '.[replay]')\n"
    )


def test_a_module_of_the_package_itself_that_is_missing_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from layoutlab.cli import eval as command

    monkeypatch.setattr(command, "run", lambda _: __import__("layoutlab.no_such_module"))
    assert main(["eval", "4:1"]) == 2
    assert "internal error: ModuleNotFoundError" in capsys.readouterr().err


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    command = f"{sys.executable} -m layoutlab eval --list | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


def test_text_that_is_no_unicode_is_refused_in_a_sentence() -> None:
    done = subprocess.run([sys.executable, "-m", "layoutlab", "explain", b"(8,\xff):1"], capture_output=True)
    assert done.returncode == 2 and done.stderr.startswith(b"layoutlab: expected")


# -- the ten commonest errors -----------------------------------------------------------------------------------------

COMMON = {
    "malformed": (
        ["eval", "(8,64):(64,1"],
        2,
        "expected ',' or ')' at column 13, the text ends\n  (8,64):(64,1\n              ^",
    ),
    "wrong rank": (
        ["eval", "(8,64):(64,1,1)"],
        2,
        "shape (8,64) and stride (64,1,1) are nested differently\n  (8,64):(64,1,1)\n  ^",
    ),
    "zero size": (
        ["eval", "(8,0):(1,8)"],
        2,
        "shape (8,0) has the extent 0: extents are positive integers\n  (8,0):(1,8)\n  ^",
    ),
    "negative size": (
        ["eval", "(8,-2):(1,8)"],
        2,
        "shape (8,-2) has the extent -2: extents are positive integers\n  (8,-2):(1,8)\n  ^",
    ),
    "unknown function": (
        ["eval", "compositon(4:1, 2:1)"],
        2,
        "there is no function 'compositon', did you mean composition? at column 1\n  compositon(4:1, 2:1)\n  ^",
    ),
    "missing argument": (
        ["eval", "composition(4:1)"],
        2,
        "composition(lhs, rhs): missing a required argument: 'rhs'\n  composition(4:1)\n  ^",
    ),
    "outside": (["eval", "((8,64):(64,1))(8,0)"], 1, "coordinate 8 lies outside of the extent 8 of shape (8,64)"),
    "mismatched shapes": (
        ["eval", "((8,64):(64,1))(1,2,3)"],
        1,
        "coordinate (1,2,3) has 3 entries, shape (8,64) has 2",
    ),
    "no such result": (
        ["eval", "composition((4,6,8):(2,3,5), 6:3)"],
        1,
        "(4,6,8):(2,3,5) o 6:3 is no layout: its values 0,6,7,8,9,15 leave the first stride after 2 steps, and 2 does "
        "not divide 3 (in the part 3:6)",
    ),
    "unknown command": (
        ["evla", "4:1"],
        2,
        "there is no command 'evla', did you mean eval?; layoutlab --help lists them",
    ),
    "not a layout": (
        ["diff", "(8,64)", "8:1"],
        2,
        "expected a layout, shape:stride, at column 1; this is the tuple (8,64)\n  (8,64)\n  ^",
    ),
    "no unit": (
        ["eval", "(S<3,4,3>[8b] o 0 o (8,64):(64,1))(1,0)"],
        1,
        "S<3,4,3>[8b] counts 8-bit units and the layout (8,64):(64,1) elements of unknown width",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMON)
def test_common_errors_have_these_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, status, sentence = COMMON[name]
    assert main(arguments) == status
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"layoutlab: {sentence}\n")


def test_huge_sizes_are_answered_or_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    huge = f"({2**60},{2**60}):(1,{2**60})"
    assert main(["eval", f"size({huge})"]) == 0
    assert capsys.readouterr().out == f"{2**120}\n"
    assert main(["eval", f"({'9' * 2000},2):(1,2)"]) == 2
    assert "a number of 2000 digits; at most 40 are read" in capsys.readouterr().err
    assert main(["explain", huge]) == 0


# -- eval -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        # public reports, each with the answer that enumeration gives
        ("composition((2,3):(1,2), (2,3):(3,1))", "(2,3):(3,1)"),
        ("composition((6,2):(8,3), (4,3):(3,1))", "((2,2),3):((24,3),8)"),
        ("composition((8,6):(6,1), (8,3,2):(1,8,24))", "(8,3,2):(6,1,3)"),
        ("logical_divide((4,2,3):(2,1,8), 4:2)", "((2,2),(2,3)):((4,1),(2,8))"),
        ("complement((2,2):(1,6), 24)", "(3,2):(2,12)"),
        ("right_inverse((2,4,6):(4,1,8))", "(4,2,6):(2,1,8)"),
        # forms of the expression language
        ("((6,2):(8,2))(3,1)", "26"),
        ("((6,2):(8,2))(9)", "26"),
        ("((6,2):(8,2))((3,1))", "26"),
        ("((6,2):(8,2))(_,1)", "(6):(8)"),
        ("(8):(2)", "(8):(2)"),
        ("((4:1))(2)", "2"),
        ("size(composition((6,2):(8,2), (4,3):(3,1)))", "12"),
        ("((6,2):(8,2))[1]", "2:2"),
        ("(((2,3),4):((1,2),6))[0,1]", "3:2"),
        ("(S<3,3,3> o 0 o (8,64):(64,1))(1,0)", "72"),
        ("S<3,4,3>(128)", "144"),
        ("make_layout((4,2), stride=(2,1))", "(4,2):(2,1)"),
        ("make_layout(4:1, 2:4)", "(4,2):(1,4)"),
        ("(size(8:1),2):(1,size(8:1))", "(8,2):(1,8)"),
        ("(_8,_64):(_64,_1)", "(8,64):(64,1)"),
        ("composition(S<3,3,3>, (8,64):(64,1))", "S<3,3,3> o 0 o (8,64):(64,1)"),
        ("congruent((4,2), (1,(2,3)))", "False"),
        ("idx2crd(5, (2,3))", "(1,2)"),
        ("coalesce( (2,(1,6)):(1,(6,2)) )", "12:1"),
        ("4*N+8", "8+4*N"),
        ("(4,2,)", "(4,2)"),
        ("flatten(((4,2),3))", "(4,2,3)"),
    ],
)
def test_eval(expression: str, result: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", expression]) == 0
    assert capsys.readouterr().out == f"{result}\n"


def test_eval_prints_in_the_style_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for style, text in (("c++", "(_4,_2):(_2,_1)"), ("pycute", "(4, 2):(2, 1)"), ("dsl", "(4,2):(2,1)")):
        assert main(["eval", "(4,2):(2,1)", "--style", style]) == 0
        assert capsys.readouterr().out == f"{text}\n"


def test_eval_lists_its_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    assert len(names) > 40 and names == sorted(names) and {"composition", "zipped_divide", "tile_to_shape"} <= {*names}
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    ("expression", "status", "sentence"),
    [
        ("", 2, "expected an expression, such as composition((6,2):(8,2), (4,3):(3,1)) at column 1, the text ends"),
        ("4:1)", 2, "expected the end of the expression at column 4, found ')'"),
        ("f(", 2, "there is no function 'f'"),
        ("size(4:1, 2:1, 3)", 2, "size(x, mode): too many positional arguments"),
        ("composition(lhs=4:1, lhs=4:1)", 2, "lhs is given twice"),
        ("composition(lhs=4:1, 4:1)", 2, "an argument without a name stands after one with a name"),
        ("composition(3, 4)", 1, "composition: lhs is 3, which is no layout or swizzle"),
        ("(4)(1)", 1, "(4) is a tuple: only layouts and swizzles are called"),
        ("(4:1)()", 1, "4:1 was called without a coordinate"),
        ("(4:1)[1]", 1, "layout 4:1 has 1 modes, there is no mode 1"),
        ("((4,2))[3]", 1, "entries, there is no entry 3"),
        ("(4:1)(a=1)", 2, "a layout is called at a coordinate, without names"),
        ("4:1 o 8:1", 2, "two layouts and 'o': composition(4:1, 8:1) is their composition"),
        ("(4:1)[N]", 1, "N is no number of a mode"),
    ],
)
def test_eval_refuses(expression: str, status: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", expression]) == status
    assert sentence in capsys.readouterr().err


signs = ["(", ")", ",", ":", "[", "]", "[0]", " o ", "=", "_", "N", "?", "-1", "1", "2", "8", "1@0", "(1,2)"]
names = ["size", "composition", "coalesce", "flatten", "complement", "logical_divide", "make_layout", "slice_"]
names += ["right_inverse", "tile_to_shape", "idx2crd", "crd2idx", "recast_layout"]
tokens = st.sampled_from([*signs, *[f"{name}(" for name in names], "4:1", "(4,2):(2,1)", "S<1,0,2>", "stride="])


@given(st.lists(tokens, max_size=14).map("".join))
@settings(max_examples=500, deadline=None)
def test_no_expression_ends_in_an_internal_error(text: str) -> None:
    import contextlib
    import io

    with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
        status = main(["eval", "--", text])
    assert status in (0, 1, 2) and "internal error" not in err.getvalue(), err.getvalue()


operands = ["4:1", "(4,2):(2,1)", "((2,2),3):((1,4),8)", "(4,2)", "2", "6", "(2,_)", "S<1,0,1>", "_"]
operations = ["composition", "complement", "logical_divide", "zipped_divide", "right_inverse", "left_inverse", "dice"]
operations += ["coalesce", "blocked_product", "logical_product", "size", "shape", "flatten", "group_modes", "select"]
operations += ["filter_zeros", "recast_layout", "max_common_vector", "functionally_equal", "make_ordered_layout"]
calls = st.recursive(
    st.sampled_from(operands),
    lambda inner: st.builds(
        lambda name, arguments: f"{name}({','.join(arguments)})",
        st.sampled_from(operations),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


@given(calls)
@settings(max_examples=500, deadline=None)
def test_no_call_ends_in_an_internal_error(text: str) -> None:
    from layoutlab import LayoutError

    try:
        evaluate(text)
    except LayoutError as e:
        assert str(e)


def test_deep_expressions_are_refused() -> None:
    from layoutlab import LayoutError

    for text in ("(" * 10**5, "size(" * 10**5, "(4:1)" + "[0]" * 10**5, "coalesce(" * 70 + "4:1" + ")" * 70):
        with pytest.raises(LayoutError, match="nested deeper than 64 levels"):
            evaluate(text)


# -- start-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["eval", "composition((6,2):(8,2), (4,3):(3,1))"],
        ["explain", "(8,64):(64,1)"],
        ["diff", "8:1", "8:1"],
    ],
    ids=lambda a: a[0],
)
def test_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, contextlib, io\nfrom layoutlab.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): main({arguments!r})\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_check_of_imports_sees_a_heavy_one() -> None:
    code = f"import sys, numpy\nprint([m for m in {HEAVY} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "['numpy']\n"


def test_only_the_command_asked_for_is_imported() -> None:
    code = (
        "import sys\nfrom layoutlab.cli import main\nmain(['eval', '4:1'])\n"
        "print(sorted(m for m in sys.modules if m.startswith('layoutlab.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4:1\n['layoutlab.cli.eval']\n"


def test_python_m_layoutlab_gives_the_exit_status() -> None:
    assert run("eval", "4:1").stdout == "4:1\n"
    assert [run("diff", *pair).returncode for pair in (("4:1", "4:1"), ("4:1", "4:2"), ("4:", "4:1"))] == [0, 1, 2]
    assert os.path.basename(sys.executable).startswith("python")
