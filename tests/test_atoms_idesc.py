"""Instruction descriptors against CuTe DSL's own builders."""

from __future__ import annotations

import doctest

import pytest

import layoutlab.atoms.idesc as module
from layoutlab.atoms.idesc import InstructionDescriptor
from layoutlab.errors import LayoutError
from layoutlab.witnesses import hold
from tests.oracles import dsl

TYPES = {
    "Float16": "f16", "BFloat16": "bf16", "Float32": "f32", "Int8": "s8", "Uint8": "u8", "Int32": "s32",
    "Float8E4M3FN": "e4m3", "Float8E5M2": "e5m2",
    "Float4E2M1FN": "e2m1", "Float6E3M2FN": "e3m2", "Float6E2M3FN": "e2m3",
}  # fmt: skip
MAJOR = ("K", "MN")


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted >= 5 and result.failed == 0


def test_dsl_agrees_on_plain_words():
    seen = 0
    for fact in dsl.facts("idescs", "sm_100a"):
        if fact["kind"] != "plain":
            continue
        a, b, d = (TYPES[fact[x]] for x in "abc")
        kind = {"f16": "f16", "bf16": "f16", "s8": "i8"}.get(a, "f8f6f4")
        mine = InstructionDescriptor(
            kind, fact["m"], fact["n"], a, b, d, MAJOR[fact["a_major"]], MAJOR[fact["b_major"]], bool(fact["a_negate"]),
            saturate=bool(fact["saturate"]), max_shift=(0, 8, 16, 32)[fact["max_shift"]],
        )  # fmt: skip
        assert mine.encode() == fact["word"], fact
        assert InstructionDescriptor.decode(fact["word"], kind) == mine
        seen += 1
    assert seen == 6 * 4 * 16


def test_every_word_is_held():
    hold("instruction descriptor", "CuTe DSL", len(dsl.facts("idescs", "sm_100a")))


def test_dsl_agrees_on_block_scaled_words():
    seen = 0
    for fact in dsl.facts("idescs", "sm_100a"):
        if fact["kind"] != "scaled":
            continue
        mine = InstructionDescriptor(
            "mxf8f6f4", fact["m"], fact["n"], TYPES[fact["a"]], TYPES[fact["b"]], negate_b=bool(fact["b_negate"]),
            scale="ue8m0", a_scale_id=fact["a_sf_id"], b_scale_id=fact["b_sf_id"],
        )  # fmt: skip
        assert mine.encode() == fact["word"], fact
        assert InstructionDescriptor.decode(fact["word"], "mxf8f6f4") == mine
        seen += 1
    assert seen == 32


@pytest.mark.parametrize(
    "fields, why",
    [
        (dict(kind="f16", m=128, n=128, a="e4m3", b="e4m3"), "a is 'e4m3': kind f16 has f16, bf16"),
        (dict(kind="f16", m=128, n=128, a="bf16", b="bf16", d="f16"), "bf16 by bf16 into f32"),
        (dict(kind="f16", m=128, n=128, a="f16", b="bf16"), "not f16 by bf16"),
        (dict(kind="tf32", m=128, n=128, a="tf32", b="tf32", d="f16"), "d is 'f16'"),
        (dict(kind="f16", m=96, n=128, a="f16", b="f16"), "M is 96"),
        (dict(kind="f16", m=128, n=260, a="f16", b="f16"), "N is 260"),
        (dict(kind="f8f6f4", m=128, n=64, a="e2m3", b="e4m3", a_major="MN"), "a is e2m3, MN-major"),
        (dict(kind="mxf4", m=64, n=64, a="e2m1", b="e2m1", scale="ue8m0"), "M is 64"),
        (dict(kind="mxf4", m=128, n=64, a="e2m1", b="e2m1", scale="ue4m3"), "scale is 'ue4m3'"),
        (dict(kind="mxf4", m=128, n=64, a="e2m1", b="e2m1"), "scale is ''"),
        (dict(kind="f16", m=128, n=64, a="f16", b="f16", scale="ue8m0"), "no scale factors"),
        (dict(kind="f16", m=128, n=64, a="f16", b="f16", saturate=True), "saturate is for kind i8"),
        (dict(kind="f16", m=128, n=64, a="f16", b="f16", k96=True), "K 96 is for"),
        (dict(kind="f16", m=128, n=64, a="f16", b="f16", max_shift=4), "max_shift is 4"),
        (dict(kind="f16", m=128, n=64, a="f16", b="f16", sparsity_selector=1), "sparse instructions"),
        (dict(kind="f12", m=128, n=64, a="f16", b="f16"), "kind is 'f12'"),
    ],
)
def test_refusals(fields, why):
    with pytest.raises(LayoutError, match=why):
        InstructionDescriptor(**fields)


@pytest.mark.parametrize(
    "word, kind, why",
    [
        (0x8200490 | 7 << 7, "f16", "the type of A is 7: kind f16 has 0 f16, 1 bf16"),
        (0x8200490 | 1 << 23, "f16", "which no field of kind f16"),
        (0x8200490 | 1 << 29, "f16", "M is 128|no field"),
        (1 << 32, "f16", "32 bits"),
        (0x8200490, "f64", "kind is 'f64'"),
        (0x8200490 & ~(3 << 4) | 2 << 4, "f16", "the type of D is 2"),
    ],
)
def test_words_that_a_kind_does_not_define(word, kind, why):
    with pytest.raises(LayoutError, match=why):
        InstructionDescriptor.decode(word, kind)


@pytest.mark.parametrize(
    "kind, a, options, k",
    [("f16", "f16", {}, 16), ("tf32", "tf32", {}, 8), ("f8f6f4", "e2m1", {}, 32), ("i8", "s8", {"d": "s32"}, 32),
     ("mxf4", "e2m1", {"scale": "ue8m0"}, 64), ("mxf4", "e2m1", {"scale": "ue8m0", "k96": True}, 96),
     ("f16", "f16", {"sparse": True}, 32)],
)  # fmt: skip
def test_k_of_an_instruction(kind, a, options, k):
    made = InstructionDescriptor(kind, 128, 64, a, a, **options)
    assert made.k == k and f"K {k}" in made.words()[-1]
    assert InstructionDescriptor.decode(made.encode(), kind) == made
