"""A user's own handoff file: the public API, settings, cases, errors, and the command on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import numpy as np
import pytest

import layoutlab as ll
from layoutlab.catalogue import sP
from layoutlab.catalogue.files import find
from layoutlab.handoff.template import template
from layoutlab.swizzle import ComposedLayout, Swizzle

MY_LAYOUTS = '''
"""my_layouts.py      $ layoutlab verify my_layouts.py --set kv=64"""
from typing import Literal
import layoutlab as ll

@ll.handoff
def p_tile(kv: Literal[64, 128] = 128, swizzle: Literal["S<3,4,3> o 0 o ", ""] = "S<3,4,3> o 0 o "):
    """Softmax warps write P; the PV MMA reads it as operand A."""
    P = ll.Tile("P", m=128, k=kv, bits=16)
    owner = ll.tcgen05_ld("32x32b.x32").over(P)                      # (T128,V) -> (m,k)
    sP = ll.smem(f"{swizzle}((128,16),1,(4,{kv // 64})):((64,1),0,(16,8192))", over=P, align_bytes=1024)
    desc = ll.SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
    starts = [k % 4 * 32 + k // 4 * 16384 for k in range(kv // 16)]
    return ll.Handoff(P, writer=ll.store(owner, sP, bits=16), reader=ll.umma_a(desc, P, starts_bytes=starts))
'''


@pytest.fixture
def my_layouts(tmp_path: Path) -> Path:
    file = tmp_path / "my_layouts.py"
    file.write_text(MY_LAYOUTS)
    return file


def layoutlab(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    """The command's exit status and output."""
    env = {**os.environ, "PYTHONPATH": str(Path(ll.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "layoutlab", *arguments], cwd=cwd, env=env, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done.returncode, done.stdout, done.stderr


# -- the example of the design, as it stands there --------------------------------------------------------------------


def test_declared(my_layouts: Path) -> None:
    (p_tile,) = find(str(my_layouts))
    cases = p_tile.cases()
    assert [str(case) for case in cases] == [
        "kv=64,swizzle=S<3,4,3> o 0 o ",
        "kv=64,swizzle=",
        "kv=128,swizzle=S<3,4,3> o 0 o ",
        "kv=128,swizzle=",
    ]
    for case in cases:
        assert ll.verify(case).proved == (case.params["swizzle"] != "")


def test_forgotten_swizzle(my_layouts: Path) -> None:
    (p_tile,) = find(f"{my_layouts}:p_tile")
    with pytest.raises(ll.Refuted, match=r"T1 V0.*byte 128.*byte 144"):
        ll.assert_placed(p_tile(swizzle=""))


def test_the_command_verifies_a_file(my_layouts: Path) -> None:
    status, out, _ = layoutlab("verify", "my_layouts.py", "--set", "kv=64", cwd=my_layouts.parent)
    assert status == 0 and out.startswith("p_tile kv=64") and "\nproved in " in out
    assert out.splitlines()[-1] == "trace: none: no kernel is known that hands p_tile over"
    status, out, _ = layoutlab("verify", "my_layouts.py:p_tile", "--set", "swizzle=", cwd=my_layouts.parent)
    assert status == 1 and "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144" in out


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_json(my_layouts: Path) -> None:
    status, out, _ = layoutlab(
        "verify", "my_layouts.py", "--set", "swizzle=", "--json", "--no-trace", cwd=my_layouts.parent
    )
    found = json.loads(out)
    assert status == 1
    keys = "schema version dsl_version handoff params verdict claims explanation cures seconds trace trace_seconds"
    assert found.keys() == set(keys.split())
    assert (found["schema"], found["handoff"], found["verdict"], found["trace"]) == (1, "p_tile", "refuted", None)
    assert found["params"] == {"kv": 128, "swizzle": ""}
    assert found["cures"] == [{"swizzle": "S<3,4,3> o 0 o "}] and "S<3,4,3>" in found["explanation"][-1]
    assert [claim["name"] for claim in found["claims"]] == ["covered", "placed", "exclusive", "inside", "legal"]
    placed = found["claims"][1]
    assert placed == {
        "name": "placed",
        "verdict": "refuted",
        "method": "normal form",
        "checked": 16384,
        "evaluated": 0,
        "witness": {
            "thread": 1,
            "value": 0,
            "coordinate": {"m": 1, "k": 0},
            "wrote": {"space": "smem", "byte": 128},
            "reads": {"space": "smem", "byte": 144},
            "message": "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144",
        },
    }
    assert 0 < found["seconds"] < 1


# -- settings, slots --------------------------------------------------------------------------------------------------


class Printed:
    """A live DSL object, of which only the text is read."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    "layout",
    [
        "S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))",
        "S<3,4,3> o 0 o ((128,16),1,(4,2),1):((64,1),0,(16,8192),0)",
        "S<3,4,3> o 0 o (128,(64,2)):(64,(1,8192))",
        "Sw<3,4,3> o smem_ptr[16b](unset) o (_128,(_64,_2)):(_64,(_1,_8192))",
        "tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o ((128,16),1,(4,2),1):((64,1),0,(16,8192),0)>",
        ComposedLayout(Swizzle(3, 4, 3), 0, ll.Layout((128, (64, 2)), (64, (1, 8192)))),
        ComposedLayout(Swizzle(3, 3, 3, unit_bits=16), 0, ll.Layout((128, (64, 2)), (64, (1, 8192)))),
        Printed("S<3,4,3> o 0 o ((128,16),1,(4,2),1):((64,1),0,(16,8192),0)"),
    ],
    ids=str,
)
def test_a_storage_in_every_notation(layout: Any) -> None:
    h = sP()
    writer = ll.store(h.writer.owner, ll.smem(layout, over=h.tile, align_bytes=1024), bits=16)
    assert ll.verify(ll.Handoff(h.tile, writer=writer, reader=h.reader)).proved


@pytest.mark.parametrize(
    "owner", ["(128,128):(1,128)", "((32,4),(32,4)):((1@0,32@0),(1@1,32@1))", Printed("(128,128):(1,128)")]
)
def test_an_owner_in_every_notation(owner: Any) -> None:
    h = sP()
    verdict = ll.verify(ll.Handoff(h.tile, writer=ll.store(owner, h.writer.storage, bits=16), reader=h.reader))
    assert verdict.proved and verdict.handoff.writer.owner.source == "declared"


PRINTED = Path(__file__).parent / "data" / "printed"


@pytest.mark.parametrize(
    ("copy", "wrong"),
    [
        ("tiled_copy_store_d", []),
        ("tiled_copy_cotiled", []),
        ("tiled_copy_store_c", ["covered", "placed", "exclusive"]),
    ],
)
def test_a_printed_tiled_copy_says_where_a_store_goes(copy: str, wrong: list[str]) -> None:
    h, text = sP(), (PRINTED / f"{copy}.txt").read_text()
    writer = ll.store(h.writer.owner, h.writer.storage, bits=16, through=Printed(text))
    verdict = ll.verify(ll.Handoff(h.tile, writer=writer, reader=h.reader))
    assert [claim.name for claim in verdict.claims if claim.verdict == "refuted"] == wrong
    if wrong:  # the setting of sP and what CuTe DSL prints are one fault
        other = ll.verify(sP(store="tiled_copy_c", head_dim=128))
        assert [c.witness for c in verdict.claims] == [c.witness for c in other.claims]


def test_a_tiled_copy_of_another_tile_is_refused() -> None:
    h = sP(kv=64)
    text = (PRINTED / "tiled_copy_cotiled.txt").read_text()
    with pytest.raises(ll.LayoutError, match="the copy moves a tile of 128 x 128, which leaves P"):
        ll.store(h.writer.owner, h.writer.storage, bits=16, through=text)


def test_a_bare_layout_as_reader_is_declared() -> None:
    h = sP()
    made = ll.Handoff(h.tile, writer=h.writer, reader="S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))")
    assert ll.verify(made).proved
    assert made.reader.source == "declared, not derived from a descriptor"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda P: ll.smem("(128,32):(32,1)", over=P), "sP: (128,32):(32,1) has 4096 elements in modes of (128, 32)"),
        (lambda P: ll.smem("(128,64,3):(64,1,8192)", over=P), "(slice one stage first)"),
        (lambda P: ll.smem("(128,64:(64,1)", over=P), "sP: shape 64 and stride (64,1) are nested differently"),
        (lambda P: ll.smem("(128,?):(64,1)", over=P), "is no layout of known integer strides"),
        (lambda P: ll.smem("S<3,0,3> o 0 o (128,64):(64,1)", over=P), "which cuts elements of P"),
        (lambda P: ll.smem("(128,64):(64,1)", over=P, swizzle_unit="bits"), 'swizzle_unit is "bytes" or "elements"'),
        (lambda P: ll.owned("(128,64,2):(1,128,0)", P), "is no (thread, value) layout of two modes"),
        (lambda P: ll.tcgen05_ld("32x32b.x3"), "x3: the repetitions are a power of two"),
        (lambda P: ll.Tile("P", m=0, bits=16), "tile P has m=0: a positive integer is needed"),
        (
            lambda P: ll.umma_a(ll.SmemDescriptor(0, 0, 1024, 128), P, starts_bytes=[0, 32]),
            "64 of them need 4 starts; 2 were given",
        ),
    ],
)
def test_a_wrong_part_is_refused_with_the_reason(make: Any, message: str) -> None:
    with pytest.raises(ll.LayoutError) as error:
        make(ll.Tile("P", m=128, k=64, bits=16))
    assert message in str(error.value)


def test_a_function_is_called_with_its_settings() -> None:
    @ll.handoff
    def q(k: Literal[64, 128] = 64, base: int = 0, name: str = "Q", wide: bool = False) -> ll.Handoff:
        Q = ll.Tile(name, m=128, k=k, bits=32 if wide else 16)
        s = ll.smem(f"(128,{k}):({k},1)", over=Q, base_bytes=base)
        return ll.Handoff(Q, writer=ll.store(f"(128,{k}):(1,128)", s, bits=Q.bits), reader=ll.declared(s, Q))

    assert q().params == {"k": 64, "base": 0, "name": "Q", "wide": False}
    assert q(k="128", base="0x10", wide="true").params == {"k": 128, "base": 16, "name": "Q", "wide": True}
    assert q(128).params["k"] == 128
    assert len(q.cases()) == 2
    for wrong in ({"k": 96}, {"k": True}, {"base": 1.5}, {"nam": "R"}, {"wide": "maybe"}):
        with pytest.raises(ll.LayoutError):
            q(**wrong)


def test_a_setting_without_values_is_refused() -> None:
    with pytest.raises(
        ll.LayoutError, match=r"the setting k is annotated .*Literal, int, str, bool or float say values"
    ):

        @ll.handoff
        def q(k: list[int]) -> ll.Handoff: ...


# -- the command's errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "bad.py, line 1: ZeroDivisionError: division by zero"),
        ("def f(:", "bad.py, line 1: SyntaxError"),
        ("import sys\n\nsys.exit(3)", "bad.py, line 3: SystemExit: 3"),
        ("x = 1", "bad.py declares no handoff: put @layoutlab.handoff over a function that returns a Handoff"),
        (
            "import layoutlab as ll\n@ll.handoff\ndef q():\n    P = ll.Tile('P', m=8, k=8, bits=16)\n"
            "    ll.smem('(8,4):(4,1)', over=P)",
            "bad.py, line 5: sP: (8,4):(4,1) has 32 elements in modes of (8, 4), not those of P (m=8, k=8), 16-bit",
        ),
        (
            "import layoutlab as ll\n@ll.handoff\ndef q():\n    return {}['kv']",
            "bad.py, line 4: KeyError: 'kv'",
        ),
        ("import layoutlab as ll\n@ll.handoff\ndef q():\n    return 3", "q returned int, not a Handoff"),
    ],
)
def test_a_file_that_raises_gets_a_sentence(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(source)
    status, out, err = layoutlab("verify", "bad.py", cwd=tmp_path)
    assert status == 2 and out == ""
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sp"], "no handoff is called sp; did you mean sP?"),
        (["none.py"], "there is no file none.py"),
        (["my_layouts.py:q_tile"], "my_layouts.py has no handoff q_tile; did you mean p_tile?"),
        (["sP", "--set", "kv"], "--set kv: a setting is KEY=VALUE"),
        (["sP", "--set", "kv=64", "--set", "kv=128"], "kv is set twice"),
        (["sP", "--set", "kw=64"], "sP has no setting kw; did you mean kv?"),
        (["sP", "--set", "k_order=021", "--set", "kv=64"], "there is no k2"),
    ],
)
def test_a_wrong_command_gets_a_sentence(arguments: list[str], message: str, my_layouts: Path) -> None:
    status, out, err = layoutlab("verify", *arguments, cwd=my_layouts.parent)
    assert status == 2 and out == ""
    assert message in err and err.count("\n") == 1


def test_alone_the_command_lists_names_and_settings(tmp_path: Path) -> None:
    status, out, _ = layoutlab("verify", cwd=tmp_path)
    assert status == 0 and "sP   Softmax threads" in out
    assert "    kv=64|128|256 (default 128)" in out


def test_several_handoffs_of_a_file_are_all_verified(my_layouts: Path) -> None:
    second = MY_LAYOUTS.split("@ll.handoff")[1].replace("p_tile", "q_tile").replace('] = "S<3,4,3> o 0 o "', '] = ""')
    my_layouts.write_text(MY_LAYOUTS + "\n@ll.handoff" + second)
    status, out, _ = layoutlab("verify", "my_layouts.py", "--json", cwd=my_layouts.parent)
    assert status == 1
    assert [(h["handoff"], h["verdict"]) for h in json.loads(out)] == [("p_tile", "proved"), ("q_tile", "refuted")]


# -- template ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kv": 64, "dtype": "e4m3", "load": "x16"},
        {"store": "composition", "base": 512},
        {"store": "tiled_copy_d"},
        {"store": "tiled_copy_c"},
        {"store": "composition_raw"},
        {"write_swizzle": "elements"},
        {"write_swizzle": "relative", "base": 512},
        {"first_warp": 1},
    ],
    ids=str,
)
def test_a_template_says_what_the_handoff_says(settings: dict[str, Any], tmp_path: Path) -> None:
    original = sP(**settings)
    file = tmp_path / "edit_me.py"
    file.write_text(template(original))
    (function,) = find(str(file))
    mine, theirs = ll.verify(function()), ll.verify(original)
    assert [(c.name, c.verdict, c.witness) for c in mine.claims] == [
        (c.name, c.verdict, c.witness) for c in theirs.claims
    ]
    assert mine.explanation == theirs.explanation


def test_the_command_prints_a_template_that_verifies(tmp_path: Path) -> None:
    status, out, _ = layoutlab("verify", "--template", "sP", "--set", "kv=64", cwd=tmp_path)
    assert status == 0
    (tmp_path / "mine.py").write_text(out)
    status, out, _ = layoutlab("verify", "mine.py", cwd=tmp_path)
    assert status == 0 and "8192 elements" in out


# -- start-up ---------------------------------------------------------------------------------------------------------


def test_a_proof_loads_nothing_heavy(tmp_path: Path) -> None:
    code = dedent("""
        import sys, layoutlab
        from layoutlab.catalogue import sP
        from layoutlab.handoff.report import report
        assert layoutlab.verify(sP()).proved
        print(report(layoutlab.verify(sP(write_swizzle="none"))))
        heavy = [m for m in ("numpy", "sympy", "cutlass", "matplotlib", "graphviz") if m in sys.modules]
        assert not heavy, heavy
    """)
    env = {**os.environ, "PYTHONPATH": str(Path(ll.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- Tensor Memory ----------------------------------------------------------------------------------------------------


def p_in_tmem(column: int = 32, read: int = 32, rows: int = 128, first_warp: int = 0, **options: Any) -> ll.Handoff:
    """P over S in Tensor Memory: each softmax thread stores its row, the MMA takes it as operand A."""
    P = ll.Tile("P", m=rows, k=128, bits=16)
    owner = ll.tcgen05_ld("32x32b.x32").over(P, first_warp=first_warp)
    writer = ll.store(owner, ll.tmem(over=P, column=column), bits=32)
    return ll.Handoff(P, writer=writer, reader=ll.umma_a_tmem(P, column=read), **options)


def test_p_through_tensor_memory() -> None:
    verdict = ll.verify(p_in_tmem())
    assert verdict.proved and sum(claim.evaluated for claim in verdict.claims) == 0
    t, v = np.meshgrid(np.arange(128), np.arange(128), indexing="ij")
    places = verdict.handoff.writer.write.at(t=t, v=v)
    assert (places["lane"] == t).all() and (places["bit"] == 32 * 32 + 16 * v).all()


def test_a_forgotten_offset_in_tensor_memory_reads_another_buffer() -> None:
    verdict = ll.verify(p_in_tmem(read=0, around={"S": range(0, 128)}))
    assert [c.name for c in verdict.claims if c.verdict == "refuted"] == ["covered", "placed"]
    witness = verdict["placed"].witness
    assert witness.message == (
        "T0 V0 (m=0, k=0) writes lane 0 column 32; the MMA reads that element at lane 0 column 0"
    )
    assert witness.wrote.json() == {"space": "tmem", "lane": 0, "column": 32, "half": 0}
    assert verdict.explanation == (
        "an offset: everything is written 32 columns too high",
        "the MMA reads columns 0 to 31: these are S's columns, not P's (32 to 95)",
        "any of these cures it: the MMA reads from column 32 on, not 0; P is written from column 0 on, not 32",
    )


def test_the_halves_of_a_column_are_told_apart() -> None:
    h = p_in_tmem()
    assert str(h.reader.location({"lane": 3, "bit": 32 * 40 + 16})) == "lane 3 column 40 bit 16"
    assert h.reader.location({"lane": 3, "bit": 32 * 40 + 16}).json()["half"] == 1


def test_warps_keep_to_their_lanes_in_tensor_memory() -> None:
    verdict = ll.verify(p_in_tmem(first_warp=1))
    assert [c.name for c in verdict.claims if c.verdict == "refuted"] == ["legal"]
    assert "T32 V0 of warp 1 stores to TMEM lane 0, but the warp may touch lanes 32 to 63 only" in verdict["legal"].why
    assert ll.verify(p_in_tmem(first_warp=4)).proved


def test_a_live_accumulator_is_left_alone() -> None:
    assert ll.verify(p_in_tmem(live={"O": range(128, 256)})).proved
    claim = ll.verify(p_in_tmem(column=96, read=96, live={"O": range(128, 256)}))["inside"]
    assert claim.witness.message == (
        "T0 V64 (m=0, k=64) writes lane 0 column 128: columns 128 to 255 hold O, still live"
    )


def test_tensor_memory_has_512_columns() -> None:
    claim = ll.verify(p_in_tmem(column=480, read=480))["legal"]
    assert claim.witness.message == "tP takes columns 480 to 543, there are 512"


def test_a_row_of_64_lies_in_half_the_lanes_of_each_warp() -> None:
    P = ll.Tile("P", m=64, k=64, bits=16)
    lanes = [ll.tmem(over=P).places.at(m=m, k=0)["lane"] for m in (0, 15, 16, 63)]
    assert lanes == [0, 15, 32, 111]
    assert [ll.umma_a_tmem(P).read.at(m=m, k=0)["lane"] for m in (0, 15, 16, 63)] == lanes
    assert ll.tmem(over=P).places.table == ll.umma_a_tmem(P).read.table


def test_a_scattered_register_is_illegal() -> None:
    P = ll.Tile("P", m=128, k=64, bits=16)
    odd_first = "(128,(2,32)):(1,(4096,128))"  # a register's halves 32 elements apart
    verdict = ll.verify(ll.Handoff(P, writer=ll.store(odd_first, ll.tmem(over=P), bits=32), reader=ll.umma_a_tmem(P)))
    assert verdict["legal"].witness.message == (
        "a 32-bit store of T0 would move V0 to V1 together, "
        "but V0 belongs at lane 0 column 0 and V1 at lane 0 column 16"
    )
