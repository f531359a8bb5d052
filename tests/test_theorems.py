"""Theorems against enumeration: every instance that one covers is right; outside of its conditions it says nothing."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from layoutlab import (
    Handoff,
    LayoutError,
    MultipleOf,
    SmemDescriptor,
    Sym,
    Tile,
    declared,
    handoff,
    prove,
    smem,
    store,
    tcgen05_ld,
    tma_load,
    tmem,
    umma_a,
    umma_d,
    umma_out,
    verify,
)
from layoutlab.catalogue import CATALOGUE
from layoutlab.cli import main
from layoutlab.formula import read_definitions
from layoutlab.symbol import Condition, assuming, span
from layoutlab.theorems import Theorem
from layoutlab.theorems.family import Family, Residue
from layoutlab.theorems.report import as_json, report

PROVED: list[tuple[str, dict[str, str]]] = [
    ("sP", {}),
    ("sP", {"store": "composition"}),
    ("sP", {"store": "tiled_copy_d"}),
    ("sP", {"dtype": "e4m3"}),
    ("sP", {"dtype": "e5m2", "store": "tiled_copy_d", "load": "x64"}),
    ("sP", {"write_swizzle": "relative", "base": "1024*"}),
    ("sP", {"dtype": "e4m3", "write_swizzle": "elements", "base": "1024*"}),
    ("sP90", {}),
    ("sP90", {"store": "stmatrix"}),
    ("sP90", {"store": "composition", "dtype": "e4m3"}),
    ("sP90", {"store": "tiled_copy"}),
    ("tP", {}),
    ("tP", {"slot": "1", "dtype": "e4m3"}),
    ("sQ", {}),
    ("sQ", {"dtype": "e4m3"}),
    ("sK", {}),
    ("sK", {"dtype": "e5m2"}),
    ("sV", {}),
    ("sV", {"dtype": "e4m3"}),
    ("oRescale", {}),
    ("epilogue", {}),
    ("epilogue", {"dtype": "f32"}),
    ("epilogue", {"route": "stmatrix", "load": "16x256b.x4"}),
    ("rs_reuse", {}),
    ("rs_reuse", {"instruction": "mma.sync"}),
    ("ldsm", {"operand": "B_trans"}),
    ("store", {}),
]

REFUTED: list[tuple[str, dict[str, str], str, str]] = [
    ("sP", {"write_swizzle": "none"}, "m=128, kv=64, stage=0, base=0", "T1 V0.*byte 128.*byte 144"),
    ("sP", {"write_swizzle": "elements"}, "m=128, kv=64, stage=0, base=0", "T1 V0.*byte 128.*byte 144"),
    ("sP", {"k_order": "021"}, "m=128, kv=128, stage=0, base=0", "T0 V16"),
    ("sP", {"store": "composition_raw"}, "m=128, kv=64, stage=0, base=0", "T0 V1.*byte 144.*byte 2"),
    ("sP", {"store": "tiled_copy_c"}, "m=128, kv=64, stage=0, base=0", "T0 V1"),
    ("sP", {"first_warp": "1"}, "m=128, kv=64, stage=0, base=0", "may touch lanes"),
    ("sP", {"write_swizzle": "relative", "base": "512*"}, "m=128, kv=64, stage=0, base=512", "writes"),
    ("sP90", {"write_swizzle": "none"}, "m=64, kv=64, stage=0, base=0", "byte 128.*byte 144"),
    ("tP", {"read_unit": "elements"}, "p_offset=2, kv=64, head_dim=8", "column"),
    ("tP", {"load": "16x256b.x4"}, "p_offset=0, kv=64, head_dim=8", "lane"),
    ("sQ", {"tma_swizzle": "none"}, "head_dim=64, base=0", "byte 128.*byte 144"),
    ("sK", {"k_step": "always_32_bytes"}, "kv=8, head_dim=128, slot=0, base=0", "byte 1024.*byte 144"),
    ("sV", {"descriptor": "units"}, "kv=32, head_dim=64, slot=0, base=0", ""),
    ("oRescale", {"load": "16x256b.x4"}, "head_dim=64, column=0", ""),
    ("epilogue", {"first_warp": "1"}, "n=32", "may touch lanes"),
    ("rs_reuse", {"dtype": "e4m3"}, "kv=32", "T0 V2"),
    ("ldsm", {"operand": "B_trans", "trans": "wrong"}, "k=32", ""),
]

THEOREMS = {(name, *chosen.items()): prove(CATALOGUE[name], chosen) for name, chosen in PROVED}
SEED, ELEMENTS = 9, 1 << 17


def theorem_of(name: str, chosen: dict[str, str]) -> Theorem:
    return THEOREMS[(name, *chosen.items())]


def made(theorem: Theorem, settings: dict[str, int]) -> Handoff:
    return CATALOGUE[theorem.name].general(**theorem.fixed, **settings)


def drawn(theorem: Theorem, rng: random.Random, most: int) -> dict[str, int]:
    """Settings of the theorem's domain, up to so many units above the least."""
    return {
        name: m.first + m.unit * rng.choice([0, rng.randrange(most), rng.randrange(most)])
        for name, m in theorem.domain.items()
    }


def instances(theorem: Theorem, count: int, most: int, covered: bool) -> Iterator[tuple[dict[str, int], Handoff]]:
    """Random instances that the theorem covers, or not, and that enumeration can walk."""
    rng = random.Random(SEED)
    for _ in range(4000):
        settings = drawn(theorem, rng, most)
        if theorem.covers(**settings) is not covered:
            continue
        try:
            h = made(theorem, settings)
        except LayoutError:
            assert not covered, f"{theorem.name} {settings}: covered, and there is no such handoff"
            continue
        if h.tile.size > ELEMENTS:
            continue
        yield settings, h
        count -= 1
        if not count:
            return


def misplaced(h: Handoff) -> int:
    """How many elements numpy finds written elsewhere than they are read, walking all of them."""
    t, v = (np.arange(h.writer.owner.places.axes[a], dtype=np.int64) for a in "tv")
    index = {"t": t[:, None], "v": v[None, :]}
    write, read = h.writer.write.at(**index), h.reader.read.at(**h.writer.owner.places.at(**index))
    wrong = np.zeros((len(t), len(v)), bool)
    for out in write:
        wrong |= write[out] != read[out]
    return int(wrong.sum())


@pytest.mark.parametrize(("name", "chosen"), PROVED, ids=str)
def test_what_a_theorem_covers_is_right(name: str, chosen: dict[str, str]) -> None:
    theorem = theorem_of(name, chosen)
    assert theorem.verdict == "proved", report(theorem)
    tested, bases = 0, set()
    for settings, h in instances(theorem, 14, 6, covered=True):
        assert verify(h).proved, settings
        assert misplaced(h) == 0, settings
        tested += 1
        bases.add(tuple(settings.values()))
    assert tested >= 3 and len(bases) >= 3


def test_hundreds_of_instances_are_tested() -> None:
    tested = sum(1 for t in THEOREMS.values() for _ in instances(t, 14, 6, covered=True))
    assert tested >= 300


@pytest.mark.parametrize(("name", "chosen"), PROVED, ids=str)
def test_just_outside_of_the_conditions_it_says_nothing_and_the_verifier_refuses(
    name: str, chosen: dict[str, str]
) -> None:
    """So the conditions are the weakest: where one fails, the handoff is not right."""
    theorem = theorem_of(name, chosen)
    tested = 0
    for settings in just_outside(theorem):
        assert not theorem.covers(**settings)
        tested += 1
        try:
            h = made(theorem, settings)
        except LayoutError:
            continue  # refused before there is anything to verify: too large for its memory, too many columns
        verdict = verify(h)
        assert not verdict.proved, settings
    assert tested >= 1 or not any(case.conditions for case in theorem.cases)


def just_outside(theorem: Theorem) -> Iterator[dict[str, int]]:
    """For each condition, the smallest number of each setting by which it is broken, the others at their least."""
    for case in theorem.cases:
        for condition in case.conditions:
            for residue in case.family.residues.values():
                numbers = dict(case.family.least)
                for n in range(residue.least, residue.least + 20000):
                    numbers[residue.unknown] = n
                    if not condition.holds(**numbers):
                        settings = case.family.settings(numbers)
                        before = case.family.settings({**numbers, residue.unknown: n - 1})
                        if n > residue.least and all(
                            c.holds(**{**numbers, residue.unknown: n - 1}) for c in case.conditions
                        ):
                            assert theorem.covers(**before)
                        yield settings
                        break


@pytest.mark.parametrize(("name", "chosen"), PROVED, ids=str)
def test_the_printed_formulas_are_what_enumeration_finds(name: str, chosen: dict[str, str]) -> None:
    theorem = theorem_of(name, chosen)
    tested = 0
    for settings, h in instances(theorem, 4, 4, covered=True):
        (case,) = [case for case in theorem.cases if case.covers(settings)]
        assert case.proof and case.proof.equal
        numbers = {r.unknown: (settings[n] - r.remainder) // r.unit for n, r in case.family.residues.items()}
        found = read_definitions(case.proof.text)
        t, v = (np.arange(h.writer.owner.places.axes[a], dtype=np.int64) for a in "tv")
        index = {"t": t[:, None], "v": v[None, :]}
        where = {axis: found(axis, **index, **numbers) for axis in h.tile.extents}
        for axis, expected in h.writer.owner.places.at(**index).items():
            assert (where[axis] == expected).all()
        for side, places, at in (("write", h.writer.write, index), ("read", h.reader.read, where)):
            for out, expected in places.at(**at).items():
                names = [n for n in found.found if n == side or n.startswith(f"{side}_")]
                unit = {"byte": 8, "column": 32, "bit": 1}
                (printed,) = [
                    n
                    for n in names
                    if n == side or n == f"{side}_{out}" or (out == "bit" and n[len(side) + 1 :] in unit)
                ]
                note = next(line.note for line in case.proof.definitions if line.name == printed)
                factor = unit[note.split()[0]] if out == "bit" else 1
                assert (np.broadcast_to(found(printed, **at, **numbers), expected.shape) * factor == expected).all()
                tested += 1
    assert tested >= 4


@pytest.mark.parametrize(("name", "chosen", "where", "message"), REFUTED, ids=str)
def test_a_planted_fault_is_refuted_with_the_smallest_instance(
    name: str, chosen: dict[str, str], where: str, message: str
) -> None:
    theorem = prove(CATALOGUE[name], chosen)
    assert theorem.verdict == "refuted" and theorem.exit_status == 1
    (case,) = [case for case in theorem.cases if case.verdict == "refuted"][:1]
    assert case.counterexample and case.counterexample.values == where
    assert re.search(message, case.counterexample.witness.message)
    settings = dict(case.counterexample.settings)
    assert not verify(made(theorem, settings)).proved
    assert not theorem.covers(**settings)


def test_8_bit_types_have_two_families_of_which_each_has_its_swizzle() -> None:
    cases = prove(CATALOGUE["sP"], {"dtype": "e4m3"}).cases
    found = {(c.family.residues["kv"].unit, c.family.residues["kv"].remainder): c.proof.text for c in cases if c.proof}
    assert set(found) == {(128, 0), (128, 64)}
    assert "x >> 3 & 112" in found[128, 0] and "x >> 3 & 48" in found[128, 64]  # SW128, SW64


def test_offsets_may_be_swizzled_at_bases_that_1024_divides_and_at_no_others() -> None:
    theorem = prove(CATALOGUE["sP"], {"write_swizzle": "relative"})
    assert theorem.verdict == "refuted"
    right = [c for c in theorem.cases if c.verdict == "proved"]
    assert [(c.family.residues["base"].unit, c.family.residues["base"].remainder) for c in right] == [(1024, 0)]
    for base in range(0, 4096, 16):
        covers = theorem.covers(m=128, kv=64, stage=0, base=base)
        assert covers == (base % 1024 == 0)
        assert covers == (misplaced(made(theorem, {"m": 128, "kv": 64, "stage": 0, "base": base})) == 0)


def test_the_conditions_name_the_limits() -> None:
    text = report(prove(CATALOGUE["sP"]))
    assert "if base + 2*kv*m + 2*kv*m*stage <= 233472   # shared memory" in text
    assert "if kv*m <= 65536   # Tensor Memory has 512 columns" in text  # S, of m / 128 accumulators
    assert "a descriptor's start has 14 bits of 16 bytes" in text
    assert "for all m % 128 == 0, kv % 64 == 0, base % 16 == 0" in text


def test_descriptors_end_at_2_to_the_18_bytes() -> None:
    """Where nothing else ends earlier: a reader of a tile of which the writer has no shared memory."""
    with assuming(n=1) as assumed:
        P = Tile("P", m=128, k=64 * Sym("n"), bits=16)
        reader = umma_a(SmemDescriptor(0, 0, 1024, 128), P, starts_bytes="(4,n):(32,16384)")
        assert [rule.fault for rule in reader.rules()] == [None, None, None]
    assert [str(c) for c in assumed.conditions] == ["-16288+16384*n <= 262128"]
    assert [assumed.conditions[0].holds(n=n) for n in (16, 17)] == [True, False]


# -- what is refused --------------------------------------------------------------------------------------------------


def rows(k: Any, bug: str = "") -> Handoff:
    Q = Tile("Q", m=128, k=k, bits=16)
    sQ = smem(f"(128,{k}):({k},1)", over=Q)
    pitch = 64 if bug == "pitch" and k == 64 else k
    return Handoff(Q, writer=store(f"(128,{k}):(1@0,1@1)", sQ, bits=16), reader=f"(128,{k}):({pitch},1)")


@handoff
def plain(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
    return rows(k)


@handoff
def branching(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
    return rows(k, "pitch")


@handoff
def truth(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
    return rows(k if k - 64 else 128)


@handoff
def counting(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
    return rows(k + len(range(k // 64)) * 0)


@handoff
def fixed(k: int = 64) -> Handoff:
    return rows(k)


def test_a_user_function_is_proved_for_all_values() -> None:
    theorem = prove(plain)
    assert theorem.verdict == "proved" and theorem.covers(k=64 * 14) and not theorem.covers(k=64 * 15)
    assert verify(plain(k=64 * 14)).proved and not verify(plain(k=64 * 15)).proved


@pytest.mark.parametrize("function", [branching, truth], ids=lambda f: f.__name__)
def test_code_that_branches_on_a_symbol_is_not_proved(function: Any) -> None:
    theorem = prove(function)
    assert theorem.verdict == "undecided" and theorem.exit_status == 3
    assert "code for all values cannot branch on it" in theorem.cases[0].why
    assert not theorem.covers(k=128)


def caught(k: Any) -> Any:
    try:
        return 128 if k > 64 else k
    except LayoutError:
        return k


# What each makes of k = 64 or of 128 is wrong, and was not asked of a symbol: it compares texts, types and keys.
EVASIONS: dict[str, Callable[[Any], Any]] = {
    "a key": lambda k: {64: 128}.get(k, k),
    "a set": lambda k: 128 if k in {64} else k,
    "a float": lambda k: 128 if k == 64.0 else k,
    "a fraction": lambda k: 128 if k < Fraction(129, 2) else k,
    "its text": lambda k: 128 if str(k) == "64" else k,
    "its type": lambda k: 128 if isinstance(k, int) and k == 64 else k,
    "itself": lambda k: 128 if k is 64 else k,  # noqa: F632
    "an error that is caught": caught,
    "a method": lambda k: 128 if k.bit_length() < 8 else k,
}


@pytest.mark.parametrize("name", EVASIONS)
def test_code_that_tells_symbols_from_numbers_is_not_proved(name: str) -> None:
    def evading(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
        Q = Tile("Q", m=128, k=k, bits=16)
        sQ = smem(f"(128,{k}):({k},1)", over=Q)
        reader = f"(128,{k}):({EVASIONS[name](k)},1)"
        return Handoff(Q, writer=store(f"(128,{k}):(1@0,1@1)", sQ, bits=16), reader=reader)

    evading.__annotations__["k"] = Annotated[int, MultipleOf(64)]
    theorem = prove(handoff(evading))
    assert theorem.verdict == "refuted" and not theorem.covers(k=64) and not theorem.covers(k=128)
    (case,) = theorem.cases
    assert case.counterexample and not verify(evading(**case.counterexample.settings)).proved


def test_code_that_rounds_up_is_proved() -> None:
    def padded(k: Any = 64) -> Handoff:
        return rows((k + 63) // 64 * 64)

    padded.__annotations__["k"] = Annotated[int, MultipleOf(32)]
    theorem = prove(handoff(padded))
    assert [str(case.family) for case in theorem.cases if case.verdict == "proved"] == ["k % 64 == 0", "k % 64 == 32"]
    assert all(verify(padded(k)).proved for k in range(32, 928, 32) if theorem.covers(k=k))
    assert theorem.covers(k=896) and not theorem.covers(k=928)


def test_boxes_of_64_rows_fill_any_number_of_them() -> None:
    def boxed(m: Any = 64) -> Handoff:
        Q = Tile("Q", m=m, k=64, bits=16)
        sQ = smem(f"S<3,4,3> o 0 o ({m},64):(64,1)", over=Q, align_bytes=1024)
        return Handoff(Q, writer=tma_load(sQ, box={"k": 64, "m": 64}, swizzle=128), reader=declared(sQ, Q))

    boxed.__annotations__["m"] = Annotated[int, MultipleOf(64)]
    theorem = prove(handoff(boxed))
    assert theorem.verdict == "proved" and theorem.covers(m=1792) and not theorem.covers(m=1856)
    assert all(verify(boxed(m)).proved and misplaced(boxed(m)) == 0 for m in (64, 128, 192, 1792))


@handoff
def refusing(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
    if isinstance(k, int) and k == 128:
        raise LayoutError("not 128")
    return rows(k)


@handoff
def halved(k: Annotated[int, MultipleOf(64)] = 64) -> Handoff:
    if k % 128:
        raise ValueError(f"{k} is odd")
    return rows(k)


def test_settings_that_the_function_refuses_are_not_covered() -> None:
    theorem = prove(refusing)
    assert theorem.verdict == "undecided" and "k=128, the function makes another handoff" in theorem.cases[0].why
    theorem = prove(halved)
    assert [case.verdict for case in theorem.cases] == ["proved", "unsupported"]
    assert theorem.covers(k=128) and not theorem.covers(k=64)


def test_a_narrowed_setting_keeps_its_least_value() -> None:
    def least(k: Any = 512) -> Handoff:
        return rows(k)

    least.__annotations__["k"] = Annotated[int, MultipleOf(64, least=320)]
    theorem = prove(handoff(least), {"k": "128*"})
    assert theorem.covers(k=384) and not theorem.covers(k=128) and not theorem.covers(k=256)


def test_a_swizzled_element_does_not_reach_a_live_buffer_unseen() -> None:
    """Rows of 144 bytes: the last one ends inside of a span of 128, anywhere in which the swizzle puts its elements."""

    def beside(n: Any = 4, apart: int = 0) -> Handoff:
        Q = Tile("Q", m=n, k=72, bits=16)
        sQ = smem(f"S<3,4,3> o 0 o ({n},72):(72,1)", over=Q, align_bytes=1024)
        live = {"S": span(144 * n + apart, 144 * n + apart + 16)}
        return Handoff(Q, writer=store(f"({n},72):(1@0,1@1)", sQ, bits=16), reader=declared(sQ, Q), live=live)

    beside.__annotations__ |= {"n": Annotated[int, MultipleOf(4)]}
    theorem = prove(handoff(beside))
    assert theorem.verdict == "refuted" and not theorem.covers(n=4)
    assert "still live" in verify(beside(4))["inside"].witness.message  # type: ignore[union-attr]
    theorem = prove(handoff(beside), {"apart": 112})
    assert all(verify(beside(n, 112)).proved for n in range(4, 64, 4) if theorem.covers(n=n, apart=112))


def test_spans_of_an_offset_swizzle_end_in_shared_memory() -> None:
    """Their spans begin at the base: of one that is no multiple of them, the last goes on past the layout's end."""

    def shifted(n: Any = 64, base: Any = 512) -> Handoff:
        Q = Tile("Q", m=4, k=n, bits=64)
        layout = f"S<2,4,3> o 0 o (4,{n}):({n},1)"
        sQ = smem(layout, over=Q, base_bytes=base, swizzles="offsets", swizzle_unit="elements", align_bytes=1024)
        return Handoff(Q, writer=store(f"(4,{n}):(1@0,1@1)", sQ, bits=64), reader=declared(sQ, Q))

    shifted.__annotations__ |= {"n": Annotated[int, MultipleOf(8)], "base": Annotated[int, MultipleOf(256, least=0)]}
    theorem = prove(handoff(shifted))
    assert theorem.verdict == "proved"
    for base in range(0, 2048, 256):
        ends = [n for n in range(7200, 7320, 8) if theorem.covers(n=n, base=base)]
        assert ends and all(verify(shifted(n, base)).proved for n in ends)
        assert not verify(shifted(ends[-1] + 8, base)).proved


def test_accumulators_have_512_columns() -> None:
    theorem = prove(CATALOGUE["epilogue"])
    assert theorem.covers(n=512) and not theorem.covers(n=544)
    legal = verify(made(theorem, {"n": 544}))["legal"]
    assert legal.witness and "takes 544 columns, and Tensor Memory has 512 columns" in legal.witness.message
    owner = tcgen05_ld("32x32b.x32").over(Tile("P", m=512, k=160, bits=16), blocks=4)
    (fault,) = [rule.fault for rule in owner.rules() if rule.fault]
    assert "takes 640 columns in 4 accumulators, and Tensor Memory has 512 columns" in fault


def test_a_block_has_1024_threads() -> None:
    theorem = prove(CATALOGUE["sP90"])  # 64 rows for each 128 of them
    settings = {"kv": 64, "stage": 0, "base": 0}
    assert theorem.covers(m=512, **settings) and not theorem.covers(m=576, **settings)
    legal = verify(made(theorem, {"m": 576, **settings}))["legal"]
    assert legal.witness and "1152 threads hold elements, and a block has up to 1024 threads" in legal.witness.message
    at_the_end = {"first_warp": 1, "m": 1024, **settings}
    assert "1056 threads hold elements" in str(verify(CATALOGUE["sP"].general(**at_the_end))["legal"])


def test_conditions_that_follow_from_another_are_not_needed() -> None:
    (case,) = prove(CATALOGUE["epilogue"]).cases
    assert [case.family.spoken(c) for c in case.conditions] == ["n <= 512"]
    assert "shared memory has 233472 bytes" in [c.why for c in case.implied]


def test_a_buffer_of_symbols_may_be_empty_and_does_not_end_before_it_starts() -> None:
    def beside(k: Any = 64, column: Any = 0) -> Handoff:
        S = Tile("S", m=128, k=k, bits=32)
        live = {"the rest": span(column + k, 256)}
        return Handoff(S, writer=umma_out(tmem(over=S, column=column)), reader=umma_d(S, column=column), live=live)

    beside.__annotations__ |= {"k": Annotated[int, MultipleOf(64)], "column": Annotated[int, MultipleOf(64, least=0)]}
    theorem = prove(handoff(beside))
    assert theorem.verdict == "proved" and theorem.covers(k=64, column=192) and not theorem.covers(k=64, column=256)
    assert verify(beside(64, 192)).proved
    with pytest.raises(LayoutError, match="the rest would start at 320 and end at 256, before it"):
        beside(64, 256)


def test_a_symbol_needs_no_default() -> None:
    def bare(k: Any) -> Handoff:
        return rows(k)

    bare.__annotations__["k"] = Annotated[int, MultipleOf(64)]
    assert prove(handoff(bare)).verdict == "proved"
    with pytest.raises(LayoutError, match="bare needs a value for k"):
        handoff(bare)()


def test_code_that_needs_a_number_is_told_so() -> None:
    theorem = prove(counting)
    assert theorem.verdict == "undecided"
    assert (
        "n_k is a symbol and a number is needed here: where its count makes a list, give a layout"
        in theorem.cases[0].why
    )


def test_a_function_without_symbols_is_unsupported_with_the_reason() -> None:
    theorem = prove(fixed)
    assert theorem.verdict == "unsupported" and theorem.exit_status == 3
    assert "Annotated[int, layoutlab.MultipleOf(64)] declares one" in report(theorem)
    theorem = prove(plain, {"k": 128})
    assert "every setting that could be a symbol has a number" in report(theorem)


def test_ldsm_says_why_rows_of_k_have_no_theorem() -> None:
    theorem = prove(CATALOGUE["ldsm"])
    assert theorem.verdict == "unsupported" and "rows lie k elements apart" in report(theorem)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"kv": "96*"}, "kv=96.: kv is a multiple of 64, so N. needs such an N"),
        ({"kv": "x*"}, "kv=x.: kv is a multiple of 64"),
        ({"kv": "96"}, "sP: kv=96 is not a multiple of 64: 64 would be"),
        ({"base": "8"}, "sP: base=8 is not a multiple of 16, or 0: 0 would be"),
        ({"kw": "64"}, "sP has no setting kw; did you mean kv"),
    ],
    ids=str,
)
def test_settings_that_there_are_not_are_refused(chosen: dict[str, str], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        prove(CATALOGUE["sP"], chosen)


def test_a_proof_that_is_not_sound_would_be_seen() -> None:
    """The check of instances sees a theorem that claims too much: here one without its conditions."""
    theorem = theorem_of("sK", {})
    wide = replace(theorem, cases=tuple(replace(case, conditions=()) for case in theorem.cases))
    settings = {"kv": 264, "head_dim": 64, "slot": 0, "base": 0}
    assert wide.covers(**settings) and not theorem.covers(**settings)
    assert not verify(made(theorem, settings)).proved


# -- handoffs at random -----------------------------------------------------------------------------------------------


def random_handoff(rng: random.Random) -> Any:
    """A function of k and base whose storage, owner and reader are drawn: many are wrong for some sizes, or for all."""
    unit, bits, rows = rng.choice([8, 16, 24, 32, 48, 64]), rng.choice([8, 16, 32]), rng.choice([32, 64, 128])
    swizzle = rng.choice(["", "S<3,4,3> o 0 o ", "S<2,4,3> o 0 o ", "S<1,4,3> o 0 o "])
    reads = rng.choice([swizzle, swizzle, swizzle, ""])
    align, moved = rng.choice([16, 128, 512, 1024]), rng.choice([0, 0, 0, 8, 64])
    how, order, wide = (
        rng.choice(["addresses", "addresses", "offsets"]),
        rng.choice("rcs"),
        rng.choice([bits, bits, 128]),
    )
    places = ["rows", "atoms", "columns", "blocks", "rows of 8"]
    writes = rng.choice(places)
    reading = rng.choice([writes, writes, rng.choice(places)])

    def layout(which: str, k: int) -> str:
        return {
            "rows": f"({rows},{k}):({k},1)",
            "atoms": f"(({rows // 8},8),({unit},{k // unit})):(({8 * unit},{unit}),(1,{rows * unit}))",
            "columns": f"({rows},{k}):(1,{rows})",
            "blocks": f"({rows},({unit},{k // unit})):({unit},(1,{rows * unit}))",
            "rows of 8": f"((8,{rows // 8}),{k}):(({k},{8 * k}),1)",
        }[which]

    def drawn(
        k: Annotated[int, MultipleOf(unit)] = unit, base: Annotated[int, MultipleOf(align, least=0)] = 0
    ) -> Handoff:
        T = Tile("T", m=rows, k=k, bits=bits)
        owner = {
            "r": f"({rows},{k}):(1@0,1@1)",
            "c": f"((8,{rows // 8}),({unit},{k // unit})):((1@0,8@0),(1@1,{unit}@1))",
            "s": f"(({rows},2),({unit // 2},{k // unit})):((1@0,{unit // 2}@1),(1@1,{unit}@1))",
        }[order]
        place = {"over": T, "align_bytes": 1024}
        storage = smem(swizzle + layout(writes, k), base_bytes=base, swizzles=how, **place)
        reader = declared(reads + layout(reading, k), T, base_bytes=base + moved, align_bytes=1024)
        return Handoff(T, writer=store(owner, storage, bits=wide), reader=reader)

    drawn.__annotations__ = {"k": Annotated[int, MultipleOf(unit)], "base": Annotated[int, MultipleOf(align, least=0)]}
    return handoff(drawn)


@pytest.mark.parametrize(
    ("seed", "count", "least"), [(1, 40, 10), pytest.param(2, 400, 100, marks=pytest.mark.slow)], ids=str
)
def test_what_is_proved_of_random_handoffs_is_so(seed: int, count: int, least: int) -> None:
    rng, proved, refuted, tested = random.Random(seed), 0, 0, 0
    for _ in range(count):
        function = random_handoff(rng)
        for case in prove(function).cases:
            proved, refuted = proved + (case.verdict == "proved"), refuted + (case.verdict == "refuted")
            for numbers in case.family.instances(4) if case.verdict == "proved" else ():
                settings = case.family.settings(numbers)
                if not case.covers(settings) or (h := function(**settings)).tile.size > 1 << 14:
                    continue
                assert verify(h).proved and misplaced(h) == 0, settings
                tested += 1
    assert proved >= least and refuted >= least and tested >= 3 * least


# -- families ---------------------------------------------------------------------------------------------------------


def test_halves_make_up_the_whole() -> None:
    whole = Residue("kv", 64, 0, 64)
    parts = [quarter for half in whole.halves() for quarter in half.halves()]
    values = sorted(part.at(n) for part in parts for n in range(part.least, part.least + 5))
    assert values[:16] == [64 * i for i in range(1, 17)]


def test_conditions_are_spoken_in_the_settings() -> None:
    family = Family({"m": Residue("m", 128, 0, 128), "kv": Residue("kv", 128, 64, 64)})
    n_m, n_kv = Sym("n_m"), Sym("n_kv")
    condition = Condition(16384 * n_m * n_kv + 8192 * n_m, 233472, "")
    assert family.spoken(condition) == "kv*m <= 233472"
    for m, kv in ((1, 0), (2, 5), (14, 1)):
        settings = family.settings({"n_m": m, "n_kv": kv})
        assert condition.holds(n_m=m, n_kv=kv) == (settings["kv"] * settings["m"] <= 233472)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_proves_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "sP", "--for-all", "--set", "dtype=e4m3"]) == 0
    out = capsys.readouterr().out
    assert "kv = 128*n_kv + 64, n_kv >= 0" in out and out.splitlines()[-1].startswith("proved in ")
    assert main(["verify", "sP", "--for-all", "--set", "write_swizzle=none"]) == 1
    assert "T1 V0 (m=1, k=0) writes byte 128" in capsys.readouterr().out
    assert main(["verify", "ldsm", "--for-all"]) == 3


def test_its_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "sP", "--for-all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1 and found["verdict"] == "proved" and found["for_all"]["m"]["multiple_of"] == 128
    (family,) = found["families"]
    assert [c["verdict"] for c in family["claims"]] == ["proved"] * 5
    needed = [c["condition"] for c in family["conditions"] if c["needed"]]
    assert needed == ["kv*m <= 65536", "base + 2*kv*m + 2*kv*m*stage <= 233472"]
    assert family["formulas"]["equal"] and "\\lfloor v / 64 \\rfloor" in family["formulas"]["latex"]
    assert main(["verify", "sP", "--for-all", "--json", "--set", "write_swizzle=none"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["families"][0]["counterexample"]["settings"] == {"m": 128, "kv": 64, "stage": 0, "base": 0}
    assert found["families"][0]["counterexample"]["wrote"] == {"space": "smem", "byte": 128}
    assert as_json(prove(CATALOGUE["ldsm"]))["families"][0]["claims"] == []


def test_a_file_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    assert main(["verify", str(file), "--for-all"]) == 0
    assert "if base + 256*kv <= 233472" in capsys.readouterr().out
    assert main(["verify", str(file), "--for-all", "--set", "swizzle="]) == 1
    assert main(["verify", str(file), "--set", "kv=192", "--no-trace"]) == 0
    capsys.readouterr()
    assert main(["verify", str(file), "--set", "kv=100"]) == 2
    assert "p_tile: kv=100 is not a multiple of 64: 64 would be" in capsys.readouterr().err


MINE = '''
from typing import Annotated, Literal

import layoutlab as ll


@ll.handoff
def p_tile(
    kv: Annotated[int, ll.MultipleOf(64)] = 128,
    base: Annotated[int, ll.MultipleOf(1024, least=0)] = 0,
    swizzle: Literal["S<3,4,3> o 0 o ", ""] = "S<3,4,3> o 0 o ",
):
    """Softmax warps write P; the PV MMA reads it as operand A."""
    P = ll.Tile("P", m=128, k=kv, bits=16)
    owner = ll.tcgen05_ld("32x32b.x32").over(P)
    layout = f"{swizzle}((128,16),1,(4,{kv // 64})):((64,1),0,(16,8192))"
    sP = ll.smem(layout, over=P, base_bytes=base, align_bytes=1024)
    desc = ll.SmemDescriptor(start=base, lbo=0, sbo=1024, swizzle=128)
    reader = ll.umma_a(desc, P, starts_bytes=f"(4,{kv // 64}):(32,16384)")
    return ll.Handoff(P, writer=ll.store(owner, sP, bits=16), reader=reader)
'''
