"""Printed proofs: the formulas give every place that enumeration gives, LaTeX is well formed, z3 agrees with both."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from layoutlab import Handoff, LayoutError, MultipleOf, Swizzle, Tile, declared, handoff, prove, smem, store, verify
from layoutlab.catalogue import CATALOGUE
from layoutlab.cli import main
from layoutlab.formula import latex, polynomial, read_definitions, swizzle_text
from layoutlab.symbol import Sym
from layoutlab.theorems import Proof, proof_of
from layoutlab.theorems.report import report
from layoutlab.theorems.z3_check import answer, ask, stated

UNIT = {"byte": 8, "column": 32, "bit": 1}

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in CATALOGUE),
    *(("sP", {"store": s}) for s in ("composition", "tiled_copy_d", "tiled_copy_c", "composition_raw")),
    *(("sP", {"write_swizzle": w, "base": b}) for w in ("none", "elements", "relative") for b in (0, 512, 1024)),
    ("sP", {"k_order": "021"}),
    ("sP", {"kv": 64, "dtype": "e4m3", "base": 48}),
    ("sP", {"store": "tiled_copy_c", "head_dim": 256, "write_swizzle": "relative"}),
    ("sP90", {"store": "stmatrix"}),
    ("sP90", {"store": "tiled_copy", "dtype": "e4m3"}),
    ("tP", {"slot": 1, "dtype": "e4m3"}),
    ("tP", {"read_unit": "elements"}),
    ("sQ", {"seq": 100}),
    ("sV", {"read_major": "K"}),
    ("sV", {"dtype": "e4m3", "slot": 1}),
    ("sK", {"tma_swizzle": "64"}),
    ("oRescale", {"load": "16x256b.x4"}),
    ("epilogue", {"route": "stmatrix", "load": "16x256b.x4"}),
    ("epilogue", {"n": 96, "dtype": "f32"}),
    ("ldsm", {"operand": "B"}),
    ("ldsm", {"operand": "B_trans", "swizzle": "none"}),
    ("rs_reuse", {"dtype": "e4m3"}),
    ("rs_reuse", {"instruction": "mma.sync"}),
]


def handoff_of(name: str, chosen: dict[str, Any]) -> Handoff:
    return CATALOGUE[name](**chosen)


def printed(proof: Proof, side: str, out: str) -> tuple[str, int]:
    """The name of an output's definition, and how many of the output's own units one of its is."""
    for line in proof.definitions:
        if line.name in (side, f"{side}_{out}") or (out == "bit" and line.name.removeprefix(f"{side}_") in UNIT):
            return line.name, UNIT[line.note.split()[0]] if out == "bit" else 1
    raise AssertionError(f"no {side} of {out}")


def enumerated(h: Handoff, proof: Proof) -> int:
    """How many (t, v) the printed formulas were computed for; every one of them is as enumeration has it."""
    found = read_definitions(proof.text)
    t, v = (np.arange(h.writer.owner.places.axes[a], dtype=np.int64) for a in "tv")
    index = {"t": t[:, None], "v": v[None, :]}
    where = h.writer.owner.places.at(**index)
    for axis, expected in where.items():
        assert (found(axis, **index) == expected).all()
    shape = (len(t), len(v))
    for out, expected in h.writer.write.at(**index).items():
        name, unit = printed(proof, "write", out)
        assert (np.broadcast_to(found(name, **index) * unit, shape) == expected).all()
    inside = {axis: np.minimum(w, h.tile.extents[axis] - 1) for axis, w in where.items()}
    for out, expected in h.reader.read.at(**inside).items():
        name, unit = printed(proof, "read", out)
        assert (np.broadcast_to(found(name, **inside) * unit, shape) == np.broadcast_to(expected, shape)).all()
    return int(t.size * v.size)


@pytest.mark.parametrize(("name", "chosen"), SETTINGS, ids=str)
def test_the_formulas_give_every_place(name: str, chosen: dict[str, Any]) -> None:
    h = handoff_of(name, chosen)
    proof = proof_of(h)
    assert enumerated(h, proof) == h.writer.owner.places.size
    placed = verify(h)["placed"].verdict
    assert proof.equal == (placed == "proved") or proof.why
    assert ("differs" in proof.text) == (placed == "refuted") or proof.why


def test_a_wrong_formula_is_seen() -> None:
    h = handoff_of("sP", {})
    proof = proof_of(h)
    write = next(line for line in proof.definitions if line.name == "write")
    wrong = replace(
        proof, definitions=(*(d for d in proof.definitions if d is not write), replace(write, body=write.body + " + 2"))
    )
    with pytest.raises(AssertionError):
        enumerated(h, wrong)


def test_the_proof_of_sp_is_short() -> None:
    assert (
        proof_of(handoff_of("sP", {})).text
        == """\
for 0 <= t < 128, 0 <= v < 128
m(t, v) = t
k(t, v) = v
write(t, v) = swizzle(128*t + 2*(v % 64) + 16384*(v // 64)) # byte of shared memory
read(m, k)  = swizzle(128*m + 2*(k % 64) + 16384*(k // 64)) # byte of shared memory
swizzle(x)  = x ^ (x >> 3 & 112)
before the swizzle, which is the same on both sides, a step of a digit of (t, v) adds to the byte
  digit     write    read
  t           128     128
  v % 64        2       2
  v // 64   16384   16384
so write(t, v) = read(m(t, v), k(t, v)) for all of them"""
    )


def test_where_no_table_holds_both_sides_the_formulas_stand_alone() -> None:
    proof = proof_of(handoff_of("sP", {"write_swizzle": "relative", "base": 512}))
    assert proof.why and not proof.equal
    assert "write(t, v) = 512 + swizzle(128*t" in proof.text and "read(m, k)  = swizzle(512 + 128*m" in proof.text
    assert "no table of digits holds both sides" in proof.text


@pytest.mark.parametrize("swizzle", [Swizzle(3, 4, 3), Swizzle(2, 0, 3), Swizzle(2, 1, -3), Swizzle(1, 5, 1)], ids=str)
def test_a_swizzle_is_printed_as_what_it_does(swizzle: Swizzle) -> None:
    found = read_definitions(f"swizzle(x) = {swizzle_text(swizzle)}")
    assert [found("swizzle", x=x) for x in range(4096)] == [swizzle(x) for x in range(4096)]


# -- LaTeX ------------------------------------------------------------------------------------------------------------


def well_formed(text: str) -> None:
    """Braces, environments and delimiters in pairs, in order; no command that LaTeX and amsmath do not have."""
    open_ones, pairs = list[str](), {"}": "{", r"\rfloor": r"\lfloor", r"\]": r"\["}
    for token in re.findall(r"\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\[a-zA-Z]+|\\.|[{}]", text.replace("\\\\", "")):
        if token.startswith(r"\begin"):
            open_ones.append(token[6:])
        elif token.startswith(r"\end"):
            assert open_ones.pop() == token[4:], token
        elif token in pairs.values():
            open_ones.append(token)
        elif token in pairs:
            assert open_ones.pop() == pairs[token], token
        else:
            known = {"mathrm", "text", "bmod", "oplus", "gg", "ll", "mathbin", "hline", "&", "_"}
            assert token[1:] in known, token
    assert open_ones == []
    assert not re.search(r"\\mathrm\{[^}]*[^\\}]_", text), "a subscript inside of a name"


@pytest.mark.parametrize(("name", "chosen"), SETTINGS, ids=str)
def test_the_latex_is_well_formed(name: str, chosen: dict[str, Any]) -> None:
    proof = proof_of(handoff_of(name, chosen))
    well_formed(proof.latex())
    assert proof.latex().count("&=") == len(proof.definitions)


@pytest.mark.parametrize("text", ["{a", r"\lfloor a", r"\begin{array} \end{align*}", r"\foo", r"\mathrm{a_b}"])
def test_latex_that_is_not_well_formed_is_seen(text: str) -> None:
    with pytest.raises(AssertionError):
        well_formed(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*(k % 64)", r"2 (k \bmod 64)"),
        ("(k // 16) % 4", r"\lfloor k / 16 \rfloor \bmod 4"),
        ("m // (128*n_m)", r"\lfloor m / (128 n_{m}) \rfloor"),
        ("(a % 2) ^ (b % 2)", r"(a \bmod 2) \oplus (b \bmod 2)"),
        ("a - (b - c)", "a - (b - c)"),
        ("-a*2", "(-a) 2"),
        ("write(t, v) + n_kv", r"\mathrm{write}(t, v) + n_{\mathrm{kv}}"),
        ("2*n_head_dim", r"2 n_{\mathrm{head\_dim}}"),
    ],
)
def test_an_expression_is_typeset_as_it_binds(text: str, expected: str) -> None:
    assert latex(text) == expected


def test_what_is_no_formula_is_refused() -> None:
    with pytest.raises(LayoutError, match="is no formula"):
        latex("2 *")
    with pytest.raises(LayoutError, match="is no part of a formula"):
        latex("[1]")
    with pytest.raises(LayoutError, match="no formula is called f"):
        read_definitions("")("f")
    with pytest.raises(LayoutError, match="has no value"):
        read_definitions("f(x) = x + y")("f", x=1)


def test_polynomials_are_printed_with_the_constant_last() -> None:
    n = Sym("n")
    assert [polynomial(p) for p in (3, n, 2 * n - 16, -n + 4, n * n)] == ["3", "n", "2*n - 16", "-n + 4", "n*n"]


# -- z3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "chosen"), SETTINGS, ids=str)
def test_z3_agrees_about_numbers(name: str, chosen: dict[str, Any]) -> None:
    h = handoff_of(name, chosen)
    text = proof_of(h).text
    placed, found = verify(h)["placed"], ask(text)
    assert found.differs == (placed.verdict == "refuted") and found.answer != "unknown"
    if placed.witness and placed.witness.thread is not None and placed.witness.value is not None:
        at = {"t": placed.witness.thread - h.writer.owner.first_thread, "v": placed.witness.value}
        assert ask(text, **at).differs  # the verifier's counterexample is one of z3's
    if found.differs:
        where = h.writer.owner.places.at(t=found.at["t"], v=found.at["v"])
        assert h.writer.write.at(t=found.at["t"], v=found.at["v"]) != h.reader.read.at(**where)


@pytest.mark.parametrize(
    ("name", "chosen", "answers"),
    [
        ("sP", {}, ["unsat"]),
        ("sP", {"dtype": "e4m3"}, ["unsat", "unsat"]),
        ("sP", {"store": "tiled_copy_d"}, ["unsat"]),
        ("sP", {"write_swizzle": "relative", "base": "1024*"}, ["unsat"]),
        ("sP90", {"store": "stmatrix"}, ["unsat"]),
        ("tP", {}, ["unsat"]),
        ("sQ", {}, ["unsat"]),
        ("sK", {"head_dim": "128"}, ["unsat"]),
        ("sV", {"dtype": "e4m3"}, ["unsat", "unsat"]),
        ("oRescale", {}, ["unsat"]),
        ("epilogue", {"route": "stmatrix", "load": "16x256b.x4"}, ["unsat"]),
        ("rs_reuse", {}, ["unsat"]),
        ("ldsm", {"operand": "B_trans"}, ["unsat"]),
        ("sP", {"write_swizzle": "none"}, ["sat"]),
        ("sP", {"k_order": "021"}, ["sat"]),
        ("tP", {"read_unit": "elements"}, ["sat"]),
        ("sK", {"k_step": "always_32_bytes"}, ["sat"]),
        ("rs_reuse", {"dtype": "e4m3"}, ["sat"]),
    ],
    ids=str,
)
def test_z3_agrees_about_all_values(name: str, chosen: dict[str, str], answers: list[str]) -> None:
    theorem = prove(CATALOGUE[name], chosen)
    found = [answer(one) for one in stated(report(theorem))]
    assert [f.answer for f in found] == answers
    shown = [case for case in theorem.cases if case.proof]
    for case, one, z3_says in zip(shown, stated(report(theorem)), found, strict=True):
        if case.counterexample and not case.of:
            settings, witness = case.counterexample.settings, case.counterexample.witness
            numbers = {
                r.unknown: (settings[n] - r.remainder) // r.unit
                for n, r in case.family.residues.items()
                if r.unknown in one.symbols
            }
            at = {"t": witness.thread, "v": witness.value} if witness.thread is not None else {}
            assert answer(one, **numbers, **at).differs
            assert z3_says.differs


def test_z3_reads_the_text_and_nothing_else() -> None:
    """A report of which one number is changed is another statement, and z3 says so."""
    text = report(prove(CATALOGUE["sP"]))
    assert ask(text).answer == "unsat"
    assert ask(text.replace("+ 128*t +", "+ 256*t +")).differs
    assert ask(text.replace("x >> 3 & 112", "x >> 3 & 48", 1)).answer == "unsat"  # both sides still swizzle alike
    relative = report(prove(CATALOGUE["sP"], {"write_swizzle": "relative", "base": "1024*"}))
    assert ask(relative).answer == "unsat"
    assert ask(relative.replace("base = 1024*n_base", "base = 512*n_base").replace("1024*n_base", "512*n_base")).differs


def test_the_conditions_are_given_to_z3() -> None:
    """What is right only where a condition holds is wrong without it."""
    text = """\
where k
  k = n_k, n_k >= 1
  for 0 <= t < n_k
  m(t, v) = t
  write(t, v) = t
  read(m) = m % 8
  if k <= 8   # eight of them
"""
    assert ask(text).answer == "unsat"
    assert ask(text.replace("k <= 8", "k <= 9")).differs
    assert ask(text.replace("  if k <= 8   # eight of them\n", "")).bounded


@pytest.mark.parametrize(("axis", "named"), [("reader", True), ("rows", True), ("write", False), ("n_k", False)])
def test_coordinates_may_have_any_name_but_those_of_the_formulas(axis: str, named: bool) -> None:
    def of_axis(k: Any = 64) -> Handoff:
        P = Tile("P", bits=16, **{axis: 128, "k": k})
        sP = smem(f"(128,{k}):({k},1)", over=P)
        return Handoff(P, writer=store(f"(128,{k}):(1@0,1@1)", sP, bits=16), reader=declared(sP, P))

    of_axis.__annotations__["k"] = Annotated[int, MultipleOf(64)]
    theorem = prove(handoff(of_axis))
    assert theorem.verdict == "proved"
    if named:
        assert ask(report(theorem)).answer == "unsat"
        assert ask(report(theorem).replace(f"128*n_k*{axis} ", f"64*n_k*{axis} ")).differs
    else:
        assert theorem.cases[0].proof is None
        with pytest.raises(LayoutError, match="has no formulas"):
            ask(report(theorem))


def test_where_nothing_is_stated_z3_does_not_agree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conditions that no symbol meets, or an index of no values, would make any formula right."""
    text = """\
where k
  k = 8*n_k, n_k >= 0
  for 0 <= t < 8
  m(t, v) = t
  write(t, v) = t + 8*n_k
  read(m) = m + 8*n_k
  if k <= 4   # none but 0
"""
    assert ask(text).answer == "unsat"
    assert ask(text.replace("n_k >= 0", "n_k >= 1")).answer == "none"
    assert ask(text.replace("0 <= t < 8", "0 <= t < 0")).answer == "none"
    assert "nothing is stated" in str(ask(text.replace("n_k >= 0", "n_k >= 1")))
    right = proof_of(handoff_of("sP", {}))
    monkeypatch.setattr("layoutlab.cli.proving.proof_of", lambda h: replace(right, ends="0 <= t < 0, 0 <= v < 128"))
    assert main(["verify", "sP", "--no-trace", "--formula", "--check", "z3"]) == 3
    assert not capsys.readouterr().out.rstrip().endswith("agrees")


# -- the command ------------------------------------------------------------------------------------------------------


def test_verify_prints_the_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "sP", "--no-trace", "--formula", "--check", "z3"]) == 0
    out = capsys.readouterr().out
    assert "write(t, v) = swizzle(128*t + 2*(v % 64) + 16384*(v // 64))" in out
    assert "z3: no (t, v) is written elsewhere than it is read" in out and out.rstrip().endswith("agrees")
    assert main(["verify", "sP", "--no-trace", "--formula", "--set", "write_swizzle=none", "--check", "z3"]) == 1
    out = capsys.readouterr().out
    assert "they differ first where T1 V0 (m=1, k=0) writes byte 128" in out and "agrees" in out
    assert main(["verify", "sP", "--no-trace", "--latex"]) == 0
    assert r"\begin{align*}" in capsys.readouterr().out
    assert main(["verify", "sP", "--no-trace", "--formula", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["formulas"]["equal"] is True


def test_a_disagreement_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import layoutlab.cli.proving as proving

    right = proof_of(handoff_of("sP", {}))
    wrong = replace(
        right, definitions=tuple(replace(d, body=d.body.replace("128*m", "64*m")) for d in right.definitions)
    )
    monkeypatch.setattr(proving, "proof_of", lambda h: wrong)
    assert main(["verify", "sP", "--no-trace", "--formula", "--check", "z3"]) == 1
    assert "DISAGREES with the digits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "z3"], "--check z3 is of printed formulas: give --formula or --for-all beside it"),
        (["--for-all", "--latex", "--json"], "--json holds the formulas as LaTeX already"),
    ],
)
def test_flags_that_do_not_go_together(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "sP", "--no-trace", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_z3_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main(["verify", "sP", "--no-trace", "--formula", "--check", "z3"]) == 2
    assert "--check z3 needs z3: pip install 'layoutlab[z3]'" in capsys.readouterr().err


def test_a_file_prints_its_formulas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import layoutlab as ll\n"
        "@ll.handoff\n"
        "def rows():\n"
        "    Q = ll.Tile('Q', m=128, k=64, bits=16)\n"
        "    sQ = ll.smem('(128,64):(64,1)', over=Q)\n"
        "    return ll.Handoff(Q, writer=ll.store('(128,64):(1,128)', sQ, bits=16), reader='(128,64):(64,1)')\n"
    )
    assert main(["verify", str(file), "--formula", "--no-trace"]) == 0
    assert "read(m, k)  = 128*m + 2*k" in capsys.readouterr().out


def carrying(pitch: int = 2048) -> Handoff:
    """An owner that counts k in 4 times 24, and a storage that has it in 32 times 3: no radix refines both."""
    Q = Tile("Q", m=32, k=96, bits=16)
    storage = smem("S<2,4,3> o 0 o (32,(32,3)):(64,(1,2048))", over=Q)
    reader = f"S<2,4,3> o 0 o (32,(32,3)):(64,(1,{pitch}))"
    return Handoff(Q, writer=store("(32,(4,24)):(1@0,(24@1,1@1))", storage, bits=16), reader=reader)


def test_where_no_table_holds_the_store_it_is_printed_as_a_place_of_coordinates() -> None:
    h = carrying()
    proof = proof_of(h)
    assert "write(t, v)    = location(m(t, v), k(t, v))" in proof.text and proof.why
    assert enumerated(h, proof) == 32 * 96
    assert verify(h)["placed"].verdict == "proved" and ask(proof.text).answer == "unsat"
    h = carrying(2080)
    assert verify(h)["placed"].verdict == "refuted" and ask(proof_of(h).text).differs
