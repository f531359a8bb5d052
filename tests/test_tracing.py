"""Tracing: kernels known right are proved, each planted change of them is found, and what is not seen is not judged.

The kernels are this project's own; their faults are settings of the P handoff kernel, whose right and wrong variants a
replay of their PTX has told apart (tests/test_kernel_replay.py), and edits of the attention kernel's source.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from layoutlab.cli import main
from layoutlab.tracing import Trace, probe
from layoutlab.tracing.judge import judge
from layoutlab.tracing.pointers import tensor_text

ROOT = Path(__file__).parent.parent
SCRIPT = """
def attention(**settings):
    from layoutlab.kernels.attention_config import AttentionConfig
    from layoutlab.kernels.attention_host import compile_attention
    compile_attention(AttentionConfig(**settings))

def p(**settings):
    from layoutlab.kernels.p_handoff import compile_kernel
    from layoutlab.kernels.p_settings import PSettings
    compile_kernel(PSettings.parse({key: str(value) for key, value in settings.items()}))

def nothing():
    pass
"""


@pytest.fixture
def traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    script = tmp_path / "kernels_of_mine.py"
    script.write_text(SCRIPT)

    def trace(entry: str, *options: str):  # type: ignore[no-untyped-def]
        status = main(["trace", f"{script}:{entry}", "--json", *options])
        captured = capsys.readouterr()
        return status, json.loads(captured.out)

    return trace


def test_the_attention_kernel_is_proved(traced) -> None:  # type: ignore[no-untyped-def]
    status, answer = traced("attention", "--set", "head_dim=64", "--set", "dtype=f16", "--allow", "unsupported")
    rows = {(r["writer"], r["reader"]): r for r in answer["rows"]}
    assert status == 0 and answer["counts"]["refuted"] == 0 and answer["failures"] == []
    smem = [r for r in answer["rows"] if r["verdict"] == "proved"]
    assert {r["reader"] for r in smem} >= {"qk_mma.make_fragment_A(sQ)", "pv_mma.make_fragment_B(sV)"} and len(
        rows
    ) >= 5


@pytest.mark.parametrize("store", ["composition", "tiled_copy_d"])
@pytest.mark.parametrize(
    ("setting", "first"),
    [
        ("write_swizzle=absolute", None),
        ("write_swizzle=none", "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144"),
        ("write_swizzle=elements", "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144"),
        ("k_order=021", "T0 V16 (m=0, k=16) writes byte 16384; the MMA reads that element at byte 32"),
        ("kv=64", None),
        ("dtype=e4m3", None),
    ],
)
def test_a_wrong_swizzle_or_order_of_p_is_found(traced, store: str, setting: str, first: str | None) -> None:  # type: ignore[no-untyped-def]
    status, answer = traced("p", "--set", f"store={store}", "--set", setting, "--allow", "unsupported")
    (row,) = [r for r in answer["rows"] if "make_fragment_A(sP)" in r["reader"]]
    assert (status, row["verdict"]) == ((0, "proved") if first is None else (1, "refuted"))
    assert first is None or first in row["why"]
    if first is None:
        assert "conflict-free" in row["cost"]


def test_threads_that_store_what_others_hold_are_found(traced) -> None:  # type: ignore[no-untyped-def]
    """The copy alone covers the tile; but a thread's registers hold a row, and this copy takes them for a column."""
    status, answer = traced("p", "--set", "store=composition_raw")
    (row,) = [r for r in answer["rows"] if "make_fragment_A(sP)" in r["reader"]]
    assert (status, row["verdict"]) == (1, "refuted")
    assert row["why"] == "owner: T0 stores (m=1, k=0), which T1 loaded from Tensor Memory"


EDITS = {
    "nothing": ("1024, sV_layout.inner", "1024, sV_layout.inner", None),
    "V's swizzle": ("1024, sV_layout.inner", "1024, cute.make_swizzle(2, 4, 3)", "sV: a swizzle"),
    "O's swizzle": ("1024, sO_layout.inner", "1024, cute.make_swizzle(2, 4, 3)", "sO: a swizzle"),
    "K's offset": (
        "make_fragment_B(sK)",
        "make_fragment_B(cute.make_tensor(sK.iterator + 64, sK.layout))",
        "sK: everything is written 128 bytes too low",
    ),
    "Q's strides": (
        "make_fragment_A(sQ)",
        "make_fragment_A(cute.make_tensor(sQ.iterator, cute.make_layout(sQ.shape, stride=((64, 1), 0, 32, 0))))",
        "sQ: k is written as 64:2 and read as (16,4):(2,64) bytes",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_of_a_copied_kernel_are_found(edit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after, said = EDITS[edit]
    folder = tmp_path / "edited"
    folder.mkdir()
    for source in (ROOT / "kernels").glob("*.py"):
        text = source.read_text().replace("layoutlab.kernels", "edited")
        if source.name == "attention.py":
            assert text.count(before) == 1
            text = text.replace(before, after)
        (folder / source.name).write_text(text)
    script = tmp_path / "k.py"
    script.write_text(SCRIPT.replace("layoutlab.kernels", "edited"))
    status = main(["trace", f"{script}:attention", "--set", "head_dim=64", "--allow", "unsupported", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    wrong = [row for row in rows if row["verdict"] == "refuted"]
    assert (status, len(wrong)) == ((0, 0) if said is None else (1, 1))
    if said is not None:
        buffer, _, words = said.partition(": ")
        assert wrong[0]["buffer"] == buffer and words in wrong[0]["why"]


@pytest.mark.parametrize("store", ["coordinate", "tiled_copy_c"])
def test_what_cannot_be_judged_is_unsupported(traced, store: str) -> None:  # type: ignore[no-untyped-def]
    status, answer = traced("p", "--set", f"store={store}")
    (row,) = [r for r in answer["rows"] if "make_fragment_A(sP)" in r["reader"]]
    assert status == 3 and row["verdict"] == "unsupported" and row["why"]


def test_a_file_that_compiles_nothing(traced) -> None:  # type: ignore[no-untyped-def]
    status, answer = traced("nothing", "--allow", "unsupported")
    assert status == 3 and answer["rows"] == []


def test_what_was_traced_of_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of handoffs compiles nothing; one named like a module of Python's own is no hindrance to others."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "empty.py").write_text("import layoutlab\n")
    (tmp_path / "copy.py").write_text("raise SystemExit('not the module of this name that Python imports')\n")
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "mine/empty.py"]) == 3
    out = capsys.readouterr().out
    assert "nothing was traced: mine/empty.py compiled no CuTe DSL kernel; call what compiles one, or name" in out


def test_a_trace_is_saved_drawn_and_judged_again(tmp_path: Path, traced, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    saved, graph = tmp_path / "t.json", tmp_path / "t.gv"
    options = ["--set", "store=composition", "--set", "write_swizzle=none", "--save", str(saved), "-o", str(graph)]
    _, answer = traced("p", *options)
    assert "REFUTED" in graph.read_text() and "pv_mma" in saved.read_text()
    assert main(["trace", str(saved), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["rows"] == answer["rows"]
    assert main(["trace", str(saved)]) == 1
    assert (
        "\nnot checked: ordering (barriers, proxy fences, waits); that all of each partition is copied, and that "
        in capsys.readouterr().out
    )
    names = Trace.read(json.loads(saved.read_text())).layouts
    assert names["multiply.tOrP"].endswith("smem_desc o (1,1,(4,2),1):(0,0,(2,1024),0)>") and len(names) > 40


COMPILED = """
import layoutlab, os, re
import layoutlab.kernels.p_handoff as P
from layoutlab.kernels.p_settings import PSettings

real = P.PHandoff.multiply

class Probed(P.PHandoff):
    def multiply(self, pv_mma, sP, sV, tOtO):
        layoutlab.probe("my sP", sP.layout)
        return real(self, pv_mma, sP, sV, tOtO)

settings = PSettings.parse({"store": "composition"})
without = P.compile_kernel(settings).artifacts.PTX
P.PHandoff = Probed
with layoutlab.trace() as t:
    within = P.compile_kernel(settings).artifacts.PTX
names = [re.sub(r"\\bkernel_\\w+|\\w*(PHandoff|Probed)\\w*", "K", ptx) for ptx in (without, within)]  # with addresses
changed = [lines for lines in zip(*(ptx.splitlines() for ptx in names)) if lines[0] != lines[1]]
assert len(without) > 1000 and not changed and len(names[0]) == len(names[1]), changed[:3]
assert t["my sP"] == "((128,16),1,(4,2),1):((64,1),0,(16,8192),0)", t["my sP"]
assert [row.verdict for row in t.rows() if "sP" in row.buffer] == ["proved"]
print("the same", flush=True)
os._exit(0)
"""


def test_tracing_changes_nothing_and_probes_are_kept(tmp_path: Path) -> None:
    script = tmp_path / "compiled.py"
    script.write_text(COMPILED)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL")} | {"CUTE_DSL_ARCH": "sm_100a"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert done.stdout.endswith("the same\n"), done.stderr[-2000:]


def test_as_a_module(tmp_path: Path) -> None:
    """`python -m layoutlab.trace --options -- script.py arguments`, and a script that compiles nothing."""
    script = tmp_path / "prints.py"
    script.write_text("import sys\nprint('given', sys.argv[1:])\n")
    words = ["-m", "layoutlab.trace", "--allow", "unsupported", "--", str(script), "--seqlen", "3"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 3 and "0 proved, 0 refuted" in done.stdout
    assert "given ['--seqlen', '3']" in done.stderr  # standard output is for the answer


def test_a_probe_without_a_trace_does_nothing() -> None:
    probe("sP", "(4,2):(1,4)")


def test_types_are_read_as_tensors() -> None:
    text = tensor_text('!cute.memref<bf16, smem, align<1024>, S<3,4,3>, "((128,16),1):((64,1),0)">')
    assert text == "tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o ((128,16),1):((64,1),0)>"


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(tmp_path / "none.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
    (tmp_path / "x.py").write_text("def f(): raise ValueError('so')\n")
    assert main(["trace", f"{tmp_path / 'x.py'}:g"]) == 2 and "has no callable g" in capsys.readouterr().err
    assert main(["trace", f"{tmp_path / 'x.py'}:f"]) == 3 and "ended with ValueError" in capsys.readouterr().out


WHOLE, HALF, NARROW = "((8,16),8):((128,1),16)", "((8,16),4):((128,1),16)", "((8,16),4):((64,1),16)"
TILER, SAME_HALF = "(16:1, 64:1)", "((8,16),(2,2)):((128,1),(16,32))"


def access(
    role: str,
    layout: str,
    *,
    name: str = "s",
    offset: int = 0,
    kind: str = "copy",
    swizzle: str = "S<3,4,3>",
    tv: str = "",
):  # type: ignore[no-untyped-def]
    """An access as a recording would hold it."""
    from layoutlab.tracing import Access

    inner = f", {swizzle}" if swizzle else ""
    narrow = layout == SLICE
    return Access(
        role=role, kind=kind, call="partition_D" if role == "writes" else "partition_S", space="smem",
        tensor=f"tensor<ptr<bf16, smem, align<1024>{inner}> o {layout}>", tensor_name=name, by_name="c", result="",
        root=0, root_text="", offset_bits=offset, via=(), why="", view="",
        texts={"tv": tv or (NARROW if narrow else WHOLE), "tiler": "(16:1, 32:1)" if narrow else TILER},
        function="f", place="f.py:1",
    )  # fmt: skip


ROW, COLUMN, SLICE = "(64,64):(64,1)", "(64,64):(1,64)", "(64,32):(64,1)"


@pytest.mark.parametrize(
    ("accesses", "verdicts"),
    [
        ([access("writes", ROW), access("reads", ROW)], ["proved"]),
        ([access("writes", ROW), access("reads", ROW, swizzle="")], ["refuted"]),
        ([access("writes", ROW), access("reads", ROW, swizzle="S<2,4,3>")], ["refuted"]),
        ([access("writes", ROW), access("reads", ROW, offset=1024 * 8)], ["refuted"]),
        ([access("writes", ROW), access("reads", "(64,64):(72,1)")], ["refuted"]),
        # far away from each other: not one tile
        ([access("writes", ROW), access("reads", ROW, offset=8192 * 8)], ["unsupported", "unsupported"]),
        # the same bytes as its transpose: nobody is accused, and nothing proved, but where a name says that it is meant
        ([access("writes", ROW), access("reads", COLUMN)], ["unsupported"]),
        ([access("writes", ROW, name="v"), access("reads", COLUMN, name="vt")], ["proved"]),
        ([access("writes", ROW, name="v"), access("reads", COLUMN, name="o")], ["unsupported"]),
        # other extents
        ([access("writes", ROW), access("reads", "(32,64):(64,1)")], ["unsupported", "unsupported"]),
        # the memory is used again, with another swizzle, by a pair that agrees
        (
            [access("writes", ROW), access("reads", ROW), access("writes", ROW, name="o", swizzle=""),
             access("reads", ROW, name="o", swizzle="")],
            ["proved", "proved"],
        ),
        # q agrees with o's reader by chance; o's own writer does not
        (
            [access("writes", ROW, name="q"), access("reads", ROW, name="q"),
             access("writes", ROW, name="o", swizzle="S<2,4,3>"), access("reads", ROW, name="o", kind="copy ")],
            ["proved", "refuted"],
        ),
        # q's own reader disagrees with it; that o's reader, of the same memory, agrees is chance
        (
            [access("writes", ROW, name="q"), access("reads", ROW, name="q", swizzle="S<2,4,3>"),
             access("reads", ROW, name="o", kind="copy ")],
            ["refuted", "proved"],
        ),
        ([access("reads", ROW)], ["unsupported"]),
        # a copy that fills half of a tile; two of them, which leave out the same half
        ([access("writes", ROW, tv=HALF), access("reads", ROW)], ["refuted"]),
        ([access("writes", ROW, tv=HALF), access("writes", ROW, tv=SAME_HALF, name="t"), access("reads", ROW)],
         ["refuted", "refuted"]),
        ([access("writes", ROW, tv=HALF), access("writes", ROW, tv=SAME_HALF, name="t"), access("reads", ROW),
          access("writes", "(64,?):(?,1)")], ["unsupported", "unsupported", "unsupported"]),
        # two slices that fill a tile together; one of the wrong swizzle; one twice
        ([access("writes", SLICE), access("writes", SLICE, offset=32 * 16), access("reads", ROW)], ["proved"]),
        ([access("writes", SLICE), access("writes", SLICE, offset=32 * 16, swizzle=""), access("reads", ROW)],
         ["refuted"]),
        ([access("writes", SLICE), access("writes", SLICE, offset=32 * 16, tv="((8,16),2):((64,1),16)"),
          access("reads", ROW)],
         ["unsupported"]),
        ([access("writes", "(64,?):(?,1)"), access("reads", ROW)], ["unsupported", "unsupported"]),
    ],
)  # fmt: skip
def test_who_belongs_to_whom(accesses, verdicts: list[str]) -> None:  # type: ignore[no-untyped-def]
    assert [row.verdict for row in judge(Trace("t", list(accesses)))] == verdicts


LOAD = {"registers": "((32,4),(32,1)):((128,1),(4,0))", "tiler": "((128,32):(32,1), 1:0, 1:0)"}
STORE = {"registers": "((32,4),(32,1)):((4,1),(128,0))", "tiler": "((4,32):(32,1), 32:1)"}
S, P, NARROW_S = "f32 ((128,128),1,1):((65536,1),0,0)", "f32 (128,64):(65536,1)", "f32 (128,32):(65536,1)"
OPERAND, SPREAD = "bf16 ((128,16),1,(4,2)):((131072,1),0,(16,64))", "f32 (128,64):(65536,2)"


def tm(kind: str, tensor: str, column: int, atom: str = "", why: str = "", **texts: str):  # type: ignore[no-untyped-def]
    """An access to Tensor Memory as a recording holds it: an accumulator, a load, a store, operand A."""
    from layoutlab.tracing import Access

    role, call = {"D": ("writes", "gemm"), "A": ("reads", "gemm"), "ld": ("reads", "partition_S"),
                  "st": ("writes", "partition_D")}[kind]  # fmt: skip
    text = "tensor<ptr<{}, tmem, align<16>> o {}>".format(*tensor.split(" ", 1))
    shape, _, repeat = atom.partition(".x")
    op = f"tcgen05 {kind.title()}{shape} Copy Operation\n  number of repetitions = {repeat}"
    return Access(
        role=role, kind=f"mma {kind}" if kind in "AD" else "copy", call=call, space="tmem", tensor=text,
        tensor_name="t", by_name="c", result="", root=0, root_text="", offset_bits=32 * column, via=(), why=why,
        view=text, texts={"op": op, **(LOAD if kind == "ld" else STORE if kind == "st" else {}), **texts},
        function="f", place="f.py:1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("accesses", "verdict", "said"),
    [
        ([tm("D", S, 0), tm("ld", S, 0, "32x32b.x32")], "proved", "tcgen05.mma's accumulator"),
        # a load of some of its columns, and one that takes others too
        ([tm("D", S, 0), tm("ld", NARROW_S, 64, "32x32b.x32", **STORE)], "proved", ""),
        ([tm("D", S, 0), tm("ld", NARROW_S, 112, "32x32b.x32", **STORE)], "unsupported", "nothing that was seen"),
        # the copy's registers are another atom's
        ([tm("D", S, 0), tm("ld", S, 0, "16x256b.x8")], "refuted", "placed: D (m=0, n=2)"),
        ([tm("st", NARROW_S, 64, "32x32b.x32"), tm("ld", NARROW_S, 64, "32x32b.x32", **STORE)], "proved", ""),
        ([tm("st", NARROW_S, 64, "32x32b.x32"), tm("ld", NARROW_S, 64, "16x256b.x4", **STORE)], "refuted", ""),
        ([tm("st", P, 32, "32x32b.x32"), tm("A", OPERAND, 32)], "proved", "operand A"),
        ([tm("st", P, 32, "32x32b.x32"), tm("A", OPERAND, 48)], "refuted", "an offset"),
        ([tm("st", P, 32, "32x32b.x32"), tm("A", OPERAND, 48, why="at run time")], "unsupported", "an offset"),
        ([tm("st", SPREAD, 32, "32x32b.x32"), tm("A", OPERAND, 32)], "unsupported", "do not lie side by side"),
    ],
)  # fmt: skip
def test_tensor_memory_is_judged(accesses, verdict: str, said: str) -> None:  # type: ignore[no-untyped-def]
    rows = judge(Trace("t", list(accesses)))
    assert {row.verdict for row in rows} == {verdict} and said in rows[0].why
