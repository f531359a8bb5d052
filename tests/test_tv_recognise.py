"""Recognition: every instruction of the tables is known by its printed atom, and by no other's."""

from __future__ import annotations

import doctest
from itertools import product

import pytest

import layoutlab.tv.recognise
from layoutlab import LayoutError, parse
from layoutlab.atoms.mma import mma_atoms, wgmma
from layoutlab.tv import as_copy_atom, make_copy_atom, mma_atom, tcgen05_mma
from layoutlab.tv.recognise import copy_atom_of, copy_instructions, mma_instructions

MATRICES = [f"{way}matrix.m8n8.x{x}{t}" for way in ("ld", "st") for x in (1, 2, 4) for t in ("", ".trans")]
BYTES = [
    f"{i}.x{x}.trans" for i, most in (("ldmatrix.m16n16", 2), ("stmatrix.m16n8", 4)) for x in (1, 2, 4) if x <= most
]
SHAPES = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}
COPIES = ["128x256b", "128x128b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23"]


def named():
    """(name, type) of each copy instruction."""
    yield from product(MATRICES, ("f16", "i8"))
    yield from ((name, "i8") for name in BYTES)
    for (way, packing), (shape, most) in product((("ld", ".pack::16b"), ("st", ".unpack::16b")), SHAPES.items()):
        for repeat in (1, 4, most):
            yield f"tcgen05.{way}.{shape}.x{repeat}", "f32"
            yield f"tcgen05.{way}.{shape}.x{repeat}{packing}", "f16"
    yield from ((f"tcgen05.cp.{group}{shape}", "i8") for group in ("", "cta_group::2.") for shape in COPIES)


def test_doctests():
    result = doctest.testmod(layoutlab.tv.recognise)
    assert result.attempted >= 6 and result.failed == 0


def test_each_copy_is_known_by_its_print():
    """And by no other instruction's: only half a lane's 32x32b forms, which are the same map, share a name."""
    seen = 0
    for name, kind in named():
        try:
            atom = make_copy_atom(name, kind)
        except LayoutError:  # .trans of 8-bit types: see test_tv
            assert ".trans" in name and kind == "i8", name
            continue
        found = copy_instructions(parse(str(atom)))
        assert name in found, (name, found)
        assert len(found) == 1 or all(other.startswith(name.split(".x")[0][:11]) for other in found), found
        known = copy_atom_of(atom.record())
        assert known is not None and known.ref == atom.ref == as_copy_atom(atom.record()).ref, name
        seen += 1
    assert seen > 80


def test_each_matrix_instruction_is_known_by_its_print():
    for row in (*mma_atoms(), *(wgmma(n, "bf16", "f32", source) for n in (8, 96) for source in ("smem", "registers"))):
        assert any(name.startswith(str(row)) for name in mma_instructions(parse(str(mma_atom(row))))), str(row)
    for m, n, bits, group in ((64, 32, 16, 1), (128, 256, 8, 1), (256, 64, 32, 2)):
        assert mma_instructions(parse(str(tcgen05_mma(m, n, bits, group)))) == (
            f"tcgen05.mma.cta_group::{group} of {bits}-bit elements",
        )


@pytest.mark.parametrize("change", [("(2,(1,64))", "(2,(64,1))"), ("(8,1)", "(1,32)")])
def test_another_map_is_not_known(change):
    text = str(make_copy_atom("ldmatrix.m8n8.x4", "f16"))
    assert change[0] in text
    assert copy_instructions(parse(text.replace(*change))) == ()


def test_an_unknown_atom_of_two_sides_is_refused():
    """Which side a TV layout is of would be a guess; stmatrix.x1 was once guessed wrong."""
    text = str(make_copy_atom("ldmatrix.m8n8.x4", "f16")).replace("(8,1)", "(1,32)")
    with pytest.raises(LayoutError, match="the text does not say for which side"):
        as_copy_atom(parse(text))
    one = as_copy_atom(parse(str(make_copy_atom("universal", "f16", 64))))
    assert one.ref == one.src == one.dst
