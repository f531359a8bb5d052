"""Guards: functions as text and back, kinds of change, assertions; against numpy enumeration where that can say."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutlab as ll
from layoutlab.catalogue import sP
from layoutlab.guard import Guard, change_of, changes, subject_of
from layoutlab.guard.function import of_layout, of_tv, read
from layoutlab.guard.golden import Golden, read_golden
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

MODULES = ["", ".asserts", ".change", ".function", ".golden", ".picture", ".subject"]


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"layoutlab.guard{module}"), optionflags=doctest.ELLIPSIS)
    assert found.attempted and not found.failed


# -- a function and its text ------------------------------------------------------------------------------------------

MODES = st.lists(st.tuples(st.integers(1, 6), st.integers(-9, 40)), min_size=1, max_size=4)
SWIZZLES = st.sampled_from([None, Swizzle(3, 3, 3), Swizzle(1, 0, 2), Swizzle(2, 4, 3)])


def by_hand(modes: list[tuple[int, int]], swizzle: Swizzle | None, offset: int) -> np.ndarray:
    """The function, enumerated without layoutlab's tables."""
    values = np.array([offset])
    for extent, stride in modes:
        values = (values[None, :] + np.arange(extent)[:, None] * stride).reshape(-1)
    if swizzle is None:
        return values
    mask = (1 << swizzle.bits) - 1 << swizzle.base
    return values ^ (values >> swizzle.shift & mask)


@settings(max_examples=150, deadline=None)
@given(MODES, SWIZZLES, st.integers(0, 70))
def test_what_is_read_back_is_the_same_function(
    modes: list[tuple[int, int]], swizzle: Swizzle | None, offset: int
) -> None:
    if swizzle is not None:
        modes = [(s, abs(d)) for s, d in modes]
    layout = Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))
    f = of_layout("f", layout if swizzle is None else ComposedLayout(swizzle, offset, layout))
    again = read("f", f.notation, f.text())
    expected = by_hand(modes, swizzle, 0 if swizzle is None else offset)
    assert (f.values["at"] == expected).all() and (again.values["at"] == expected).all()
    assert again.digest == f.digest and change_of(f, again) is None


@settings(max_examples=100, deadline=None)
@given(MODES, MODES, SWIZZLES, SWIZZLES)
def test_a_change_is_found_exactly_where_enumeration_finds_one(a, b, s, t) -> None:  # type: ignore[no-untyped-def]
    a, b = ([(e, abs(d)) for e, d in m] for m in (a, b))
    one, two = by_hand(a, s, 0), by_hand(b, t, 0)
    f, g = (
        of_layout("f", ComposedLayout(z or Swizzle(0, 0, 0), 0, Layout(tuple(e for e, _ in m), tuple(d for _, d in m))))
        for m, z in ((a, s), (b, t))
    )
    found = change_of(f, g)
    if len(one) != len(two):
        assert found is not None and found.at is None
    elif (one == two).all():
        assert found is None and f.digest == g.digest
    else:
        assert found is not None and found.at == int((one != two).argmax()) and found.moved == int((one != two).sum())
        assert f.digest != g.digest


def test_two_versions_over_other_digits_are_told_apart() -> None:
    old = of_layout("f", ComposedLayout(Swizzle(1, 0, 1), 0, Layout((5, 2), (19, 16))))
    new = of_layout("f", ComposedLayout(Swizzle(2, 1, 2), 0, Layout((2, 5), (14, 8))))
    found = change_of(old, new)
    assert found is not None and found.at == 1


def test_a_golden_of_a_handoff_at_a_base_that_no_table_holds() -> None:
    golden = Golden("p", subject_of(sP(base=16)))
    assert "swizzled by" in golden.text() or "bit" in golden.text()
    assert changes(read_golden(golden.text(), "p").subject, golden.subject) == []


@pytest.mark.parametrize(
    "text",
    [
        "Tiled Copy\n  Tiler MN:        ((128,32):(32,1),1:0,1:0)\n  TV Layout tiled: ((32,4),(32,1)):((128,1),(4,0))\n"
        "Copy Atom\n  ThrID:           32:1\n  TV Layout Src:   (32,1024):(0,1)\n"
        "  TV Layout Dst:   (32,32):(32,1)\n  Value type:      f32",
        "tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>",
        "(0,0) o (4,8):(1@0,1@1)",
        "(?,8):(1,?)",
    ],
)
def test_what_a_kernel_prints_is_guarded_and_read_back(text: str) -> None:
    subject = subject_of(text)
    assert changes(read_golden(Golden("x", subject).text(), "x").subject, subject) == []


# -- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("(8,64):(64,1)", "(64,8):(1,64)", "other order"),
        ("S<3,3,3> o 0 o (8,64):(64,1)", "S<2,3,3> o 0 o (8,64):(64,1)", "other swizzle"),
        ("(8,64):(64,1)", "(8,64):(64,0)", "shrunk coverage"),
        ("(8,64):(64,0)", "(8,64):(64,1)", "grown coverage"),
        ("(8,64):(64,1)", "(8,32):(64,1)", "shrunk coverage"),
        ("(8,64):(64,1)", "(8,64):(72,1)", "other places"),
        ("S<0,4,3> o 0 o (8,64):(64,1)", "S<0,4,3> o 7 o (8,64):(64,1)", "moved by a constant"),
    ],
)
def test_kinds_of_change_of_a_layout(old: str, new: str, kind: str) -> None:
    (change,) = changes(subject_of(old), subject_of(new))
    assert change.kind == kind


def test_kinds_of_change_of_a_thread_value_map() -> None:
    old = of_tv("tv", Layout((4, 4), (1, 4)))
    assert change_of(old, of_tv("tv", Layout((4, 4), (4, 1)))).kind == "same elements, other owner"
    assert change_of(old, of_tv("tv", Layout((4, (2, 2)), (1, (8, 4))))).kind == "other order"
    assert change_of(old, of_tv("tv", Layout(((2, 2), 4), ((1, 2), 4)))) is None


def test_other_owners_of_the_same_bytes() -> None:
    """Threads swap halves of a tile: each element still goes to its byte."""
    P = ll.Tile("P", m=64, k=8, bits=16)

    def made(owner: str) -> ll.Handoff:
        sP = ll.smem("(64,8):(8,1)", over=P)
        return ll.Handoff(P, writer=ll.store(owner, sP, bits=16), reader="(64,8):(8,1)")

    (change,) = changes(subject_of(made("(64,8):(1,64)")), subject_of(made("((32,2),8):((2,1),64)")))
    assert change.kind == "same bytes, other owner" and change.first == "T1 V0 was m=1, k=0, is m=2, k=0"
    assert change.moved == 8 * (64 - 2)  # T0 and T63 keep their rows


def test_texts_that_are_no_functions_are_compared_as_texts(tmp_path) -> None:  # type: ignore[no-untyped-def]
    Guard(tmp_path, update=True).check("x", "(?,8):(8,1)")
    Guard(tmp_path).check("x", "(?,8):(8,1)")
    with pytest.raises(ll.Refuted, match=r"other text: was \(\?,8\):\(8,1\), is \(\?,8\):\(1,8\)"):
        Guard(tmp_path).check("x", "(?,8):(1,8)")


def test_one_name_for_two_goldens_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    Guard(tmp_path, update=True).check("a b", "4:1")
    with pytest.raises(ll.LayoutError, match="golden of 'a b'"):
        Guard(tmp_path).check("a/b", "4:1")


def test_an_invariant_that_there_is_not(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ll.LayoutError, match="no invariant 'placed'"):
        Guard(tmp_path, update=True).check("x", "4:1", invariants=["placed"])


# -- assertions -------------------------------------------------------------------------------------------------------


def test_assertions_of_a_right_handoff_pass() -> None:
    right = sP(store="composition")
    ll.assert_placed(right)
    ll.assert_covers(right)
    ll.assert_injective(right)
    ll.assert_conflict_free(right)
    ll.assert_vector_width(right, 128)
    ll.assert_same_function("(4,2):(1,4)", "8:1")


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (lambda: ll.assert_covers(sP(store="tiled_copy_c")), "does not cover its tile: refuted"),
        (lambda: ll.assert_injective("(8,8):(8,0)"), r"index 0 \(0,0\) and index 8 \(0,1\) both give 0"),
        (lambda: ll.assert_covers("(8,8):(8,1)", 65), "64 of 65 places are taken, the first missed is 64"),
        (lambda: ll.assert_covers("(8,8):(9,1)"), r"leaves 0\.\.63: index 15 \(7,1\) gives 64"),
        (lambda: ll.assert_same_function("8:1", "8:2"), "index 1 was 1, is 2; 7 of 8 moved"),
        (lambda: ll.assert_same_function("8:1", "9:1"), r"8 indices \(i has 8\) are now 9"),
        (lambda: ll.assert_conflict_free(sP()), "the store of V0 takes 4 wavefronts, 1 is the least"),
        (lambda: ll.assert_vector_width(sP(store="composition"), 256), "no store moves 256 bits"),
        (lambda: ll.assert_vector_width(sP(k_order="012", store="tiled_copy_c"), 128), "V0 belongs at byte 0 and V1"),
    ],
)
def test_what_an_assertion_says(check, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ll.Refuted, match=said):
        check()


def test_conflicts_are_counted_as_the_device_counted_them() -> None:
    """A column of 32 rows of 128 bytes is one bank: 32 wavefronts; with the 128-byte swizzle 4 (8 banks apart)."""
    P = ll.Tile("P", m=32, k=32, bits=32)
    for swizzle, count in (("", 32), ("S<3,4,3> o 0 o ", 4)):
        s = ll.smem(f"{swizzle}(32,32):(32,1)", over=P)
        h = ll.Handoff(P, writer=ll.store("(32,32):(1,32)", s, bits=32), reader="(32,32):(32,1)")
        with pytest.raises(ll.Refuted, match=f"takes {count} wavefronts, 1 is the least"):
            ll.assert_conflict_free(h)


def test_stmatrix_is_counted_by_its_rows() -> None:
    """An H200 counted 256 wavefronts for the 64 stmatrix.x4 of sP90, four each; rows 128 bytes apart take all banks."""
    from layoutlab.catalogue import sP90
    from layoutlab.handoff import Tile, smem, stmatrix, tcgen05_ld
    from layoutlab.handoff.verdict import Refuted

    ll.assert_conflict_free(sP90(store="stmatrix"))
    C = Tile("C", m=128, n=64, bits=16)
    owner = tcgen05_ld("16x256b.x8").over(C)
    rows = "((16,2,4),(4,2)):((1,1024,32),(2048,16))"
    ll.assert_conflict_free(stmatrix(owner, smem("S<3,4,3> o 0 o (128,64):(64,1)", over=C), rows=rows))
    with pytest.raises(Refuted, match=r"stmatrix\.x4 0 takes 32 wavefronts, 4 is the least"):
        ll.assert_conflict_free(stmatrix(owner, smem("(128,64):(64,1)", over=C), rows=rows))
