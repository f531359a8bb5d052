"""What the algebra owes beside its laws: by which method two layouts are equal, what a guard sees, what is answered at
once, and what composes with a swizzle.
"""

from __future__ import annotations

from typing import Any

import pytest
import strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutlab as ll
from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle
from layoutlab.algebra import as_digits, compose, divides, inverses

EXAMPLES = settings(max_examples=150, deadline=None)


# -- equality ---------------------------------------------------------------------------------------------------------


def test_equality_names_its_method() -> None:
    rows = Layout((96, 160), (160, 1))
    nested = Layout(((32, 3), 160), ((160, 5120), 1))
    assert ll.compare(rows, nested) == ll.algebra.Comparison(True, "runs", None, None, 15360)
    a, b = (ComposedLayout(Swizzle(3, 3, 3), 0, x) for x in (rows, nested))
    assert ll.compare(a, b).equal and ll.compare(a, b).method in ("digits", "enumeration")
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    assert ll.compare(tile, tile).method == "digits"
    carried = ComposedLayout(Swizzle(3, 3, 3), 8, Layout((8, 64), (64, 1)))
    verdict = ll.compare(carried, ComposedLayout(Swizzle(3, 3, 3), 8, Layout((8, (8, 8)), (64, (1, 8)))))
    assert verdict.equal and verdict.method == "enumeration"
    assert ll.compare(carried, tile).first == 0


def test_a_large_swizzled_pair_is_compared_at_once_and_an_undecidable_one_refused() -> None:
    def pair(offset: int) -> tuple[ComposedLayout, ComposedLayout]:
        shapes = Layout((1 << 15, 1 << 15), (1 << 15, 1)), Layout((1 << 15, (256, 128)), (1 << 15, (1, 256)))
        return ComposedLayout(Swizzle(3, 4, 3), offset, shapes[0]), ComposedLayout(Swizzle(3, 4, 3), offset, shapes[1])

    assert ll.compare(*pair(0)).method == "digits" and ll.functionally_equal(*pair(0))
    with pytest.raises(LayoutError, match="is undecided: no table of digits holds both, and 1073741824 indices"):
        ll.functionally_equal(*pair(16))


def test_coordinate_tensors_are_compared_with_their_offset() -> None:
    identity = ll.make_identity_layout((4, 8))
    assert ll.functionally_equal(ComposedLayout(None, (0, 0), identity), identity)
    moved = ComposedLayout(None, (0, 2), identity)
    assert ll.compare(moved, identity).first == 0 and moved(1, 1) == (1, 3)
    assert not ll.functionally_equal(Layout((4, 8), (ll.Basis(1, (0,)), ll.Basis(1, (2,)))), identity)


@given(some.swizzled())
@EXAMPLES
def test_tables_of_digits_are_the_layout(a: ComposedLayout) -> None:
    try:
        m = as_digits(a)
    except LayoutError as refusal:
        assert "carr" in str(refusal)
        return
    assert [m(i=i)["()"] for i in range(a.size())] == [a(i) for i in range(a.size())]


# -- swizzles through the operations ----------------------------------------------------------------------------------


@given(some.swizzled(), st.data())
@EXAMPLES
def test_what_changes_coordinates_leaves_the_swizzle(a: ComposedLayout, data: st.DataObject) -> None:
    values = [a(i) for i in range(a.size())]
    for b in (ll.coalesce(a), ll.flatten(a), ll.group_modes(a, 0), ll.append_ones(a), ll.prepend_ones(a)):
        assert [b(i) for i in range(b.size())] == values
    tile = data.draw(st.sampled_from([d for d in range(1, a.size() + 1) if a.size() % d == 0]))
    try:
        divided = ll.logical_divide(a, tile)
    except LayoutError:
        return
    assert [divided(i) for i in range(divided.size())] == values
    assert divided.inner == a.inner and divided.offset == a.offset


@given(some.swizzles(), some.bijective(), st.integers(0, 7))
@EXAMPLES
def test_a_layout_after_a_swizzle_is_a_swizzle_after_it_or_refused(swizzle: Swizzle, a: Layout, offset: int) -> None:
    inner = ComposedLayout(swizzle, offset if offset < 3 else 0, Layout(max(1, a.size() // 2)))
    try:
        result = ll.composition(a, inner)
    except LayoutError:
        return
    assert [result(i) for i in range(inner.size())] == [a.extended(inner(i)) for i in range(inner.size())]


def test_layouts_after_swizzles_that_move_the_bits() -> None:
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout(512))
    result = ll.composition(Layout((64, 8), (8, 1)), ComposedLayout(Swizzle(3, 0, 6), 0, Layout((64, 8))))
    assert [result(i) for i in range(512)] == [Layout((64, 8), (8, 1))(Swizzle(3, 0, 6)(i)) for i in range(512)]
    assert isinstance(result.inner, Swizzle) and result.inner != Swizzle(3, 0, 6)
    with pytest.raises(LayoutError, match="cannot go through"):
        ll.composition(Layout((4, 2), (3, 1)), ComposedLayout(Swizzle(1, 0, 1), 0, Layout(8)))
    with pytest.raises(LayoutError, match="would have two inner functions"):
        ll.composition(tile, tile)
    with pytest.raises(LayoutError, match=r"leave 0\.\.7, where the outer function is known"):
        ll.composition(Layout(8), ComposedLayout(Swizzle(1, 0, 1), 4, Layout(8)))


# -- guards, each with its planted fault ------------------------------------------------------------------------------


def test_composition_sees_a_wrong_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose.Digits, "stride", lambda self, extent, step: 5)
    with pytest.raises(LayoutError, match="which gives 5 at 1: a fault of layoutlab"):
        ll.composition(Layout(8), Layout(4, 2))


def test_composition_sees_a_forgotten_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose.Digits, "check_sum", lambda self, leaves: None)
    with pytest.raises(LayoutError, match="a fault of layoutlab"):
        ll.composition(Layout((2, 4, 3), (1, 5, 0)), Layout(4, 6))


def test_complement_sees_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    right = divides._by_stride
    monkeypatch.setattr(divides, "_by_stride", lambda layout: right(layout)[:1])
    with pytest.raises(LayoutError, match="a fault of layoutlab"):
        ll.complement(Layout((2, 2), (1, 6)), 24)


@pytest.mark.parametrize(("name", "call"), [("_right", ll.right_inverse), ("_left", ll.left_inverse)])
def test_inverses_see_a_wrong_order(monkeypatch: pytest.MonkeyPatch, name: str, call: Any) -> None:
    monkeypatch.setattr(inverses, name, lambda found: Layout((2, 4)))
    with pytest.raises(LayoutError, match="a fault of layoutlab"):
        call(Layout((4, 2), (2, 1)))


# -- at once ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda n: ll.composition(Layout((n, n), (n, 1)), Layout((n, n // 2), (1, 2 * n))),
        lambda n: ll.composition(Layout((3, n, 5), (1, 7, 11)), Layout(n, 2)),
        lambda n: ll.complement(Layout((4, n), (1, 3 * n)), n * n),
        lambda n: ll.zipped_divide(Layout((n, n), (n, 1)), (128, 96)),
        lambda n: ll.blocked_product(Layout((8, 64), (64, 1)), Layout((n, n))),
        lambda n: ll.tile_to_shape(Layout((8, 64), (64, 1)), (n, n), (1, 0)),
        lambda n: ll.right_inverse(Layout((n, n), (n, 1))),
        lambda n: ll.left_inverse(Layout((n, 3), (3, 1))),
        lambda n: ll.left_inverse(Layout((n, 2), (1, 1))),
        lambda n: ll.max_common_vector(Layout((n, n), (n, 1)), Layout((n, n), (n, 1))),
        lambda n: ll.recast_layout(8, 32, Layout((n, n), (n, 1))),
        lambda n: ll.functionally_equal(Layout((n, n)), Layout((n, n), (n, 1))),
        lambda n: ll.functionally_equal(*[ComposedLayout(Swizzle(3, 3, 3), 1, Layout((n, n)))] * 2),
        lambda n: ll.make_ordered_layout((n, n, n), (2, 0, 1)),
        lambda n: ll.slice_(Layout((n, (n, 4))), (None, (n - 1, None))),
        lambda n: ll.idx2crd(n * n - 1, (n, n)),
    ],
)
def test_sizes_of_two_to_the_eighty_answer_at_once(call: Any) -> None:
    try:  # a walk over so many indices would never end
        call(1 << 40)
    except LayoutError as refusal:
        assert len(str(refusal).split()) > 5


# -- tiles and threads ------------------------------------------------------------------------------------------------

IDENTITY_3, IDENTITY_2 = ll.make_identity_layout((128, 64, 32)), ll.make_identity_layout((128, 64))


@pytest.mark.parametrize(
    ("made", "printed"),
    [
        (lambda: ll.local_tile(IDENTITY_3, (32, 16, 8), (1, 2, 3)), "(32,32,24) o (32,16,8):(1@0,1@1,1@2)"),
        (
            lambda: ll.local_tile(IDENTITY_3, (32, 16, 8), (1, None, 2)),
            "(32,0,16) o (32,16,8,4):(1@0,1@1,1@2,16@1)",
        ),
        (lambda: ll.local_tile(IDENTITY_2, (32, 16, 8), (1, 2, 3), (1, 1, None)), "(32,32) o (32,16):(1@0,1@1)"),
        (
            lambda: ll.local_tile(IDENTITY_2, (32, 16, 8), (1, None, None), (1, None, 1)),
            "(32,0) o (32,8,8):(1@0,1@1,8@1)",
        ),
        (
            lambda: ll.local_tile(ll.make_identity_layout(((4, 32), 64)), ((4, 8), 16), ((0, 1), 2)),
            "((0,8),32) o ((4,8),16):((1@0@0,1@1@0),1@1)",
        ),
        (lambda: ll.local_partition(IDENTITY_2, Layout((4, 8), (8, 1)), 9), "(1,1) o (32,8):(4@0,8@1)"),
        (lambda: ll.local_partition(IDENTITY_2, Layout((4, 8)), 9), "(1,2) o (32,8):(4@0,8@1)"),
        (
            lambda: ll.local_partition(IDENTITY_2, Layout((4, 2, 8), (2, 1, 8)), 9, (1, None, 1)),
            "(0,1) o (32,8):(4@0,8@1)",
        ),
        (
            lambda: ll.local_partition(IDENTITY_2, Layout(((2, 2), 8), ((8, 16), 1)), 9),
            "(1,1) o (32,8):(4@0,8@1)",
        ),
    ],
)
def test_local_tiles_and_partitions_of_coordinates_are_those_that_cute_dsl_prints(made: Any, printed: str) -> None:
    assert str(made()) == printed


@given(st.data())
@EXAMPLES
def test_threads_share_a_tile_out_as_their_layout_says(data: st.DataObject) -> None:
    m, n = data.draw(st.sampled_from([2, 4])), data.draw(st.sampled_from([2, 8]))
    threads = Layout((m, n), data.draw(st.sampled_from([(1, m), (n, 1)])))
    tensor = Layout((8, 16), data.draw(st.sampled_from([(1, 8), (16, 1)])))
    for i in range(m):
        for j in range(n):
            own = ll.local_partition(tensor, threads, threads(i, j))
            for a in range(8 // m):
                for b in range(16 // n):
                    assert own(a, b) == tensor(i + m * a, j + n * b)


def test_local_tile_keeps_a_swizzle_and_refuses_a_wrong_rank() -> None:
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    tile = ll.local_tile(swizzled, (4, 16), (1, 2))
    assert all(tile(i, j) == swizzled(4 + i, 32 + j) for i in range(4) for j in range(16))
    with pytest.raises(LayoutError, match="has 3 entries, and the tiles 2 modes"):
        ll.local_tile(Layout((8, 64)), (4, 16), (1, 2, 3))
    with pytest.raises(LayoutError, match=r"proj .* has 3 entries"):
        ll.local_tile(Layout((8, 64)), (4, 16), (1, 2), (1, None, 1))


def test_a_slice_takes_both_orders_and_refuses_a_shape_with_a_slice_in_it() -> None:
    tile = Layout((8, 64), (64, 1))
    assert ll.slice_((None, 3), tile) == ll.slice_(tile, (None, 3)) == Layout((8,), (64,))
    with pytest.raises(LayoutError, match="the second argument is a coordinate"):
        ll.slice_(tile, tile)
    with pytest.raises(LayoutError, match="is no shape"):
        ll.slice_((None, 3), (8, 64))
