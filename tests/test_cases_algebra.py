"""Public questions and bug reports about layouts, each with the answer re-derived by enumeration, and its neighbours.

The name of a case is the repository and number where it was asked.
"""

from __future__ import annotations

from collections import Counter

import laws
import numpy as np
import pytest

import layoutlab as ll
from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, Sym


def swizzled(bits: int, base: int, shift: int, outer: Layout, unit: int | None = None) -> ComposedLayout:
    return ComposedLayout(Swizzle(bits, base, shift, unit), 0, outer)


# -- composition ------------------------------------------------------------------------------------------------------


def test_cutlass_3177_a_leaf_that_stops_being_linear() -> None:
    a, b = Layout((4, 6, 8), (2, 3, 5)), Layout(6, 3)
    assert [a(b(i)) for i in range(6)] == [0, 6, 7, 8, 9, 15]
    with pytest.raises(LayoutError) as refusal:
        ll.composition(a, b)
    assert str(refusal.value) == (
        "(4,6,8):(2,3,5) o 6:3 is no layout: its values 0,6,7,8,9,15 leave the first stride after 2 steps, "
        "and 2 does not divide 3 (in the part 3:6)"
    )


@pytest.mark.parametrize(
    ("b", "result"),
    [(Layout(2, 3), "2:6"), (Layout(6, 2), "(2,3):(4,3)"), (Layout(6, 4), "6:3"), (Layout(3, 8), "3:6")],
)
def test_cutlass_3177_neighbours(b: Layout, result: str) -> None:
    a = Layout((4, 6, 8), (2, 3, 5))
    assert str(ll.composition(a, b)) == result
    assert laws.composition(a, b, ll.composition(a, b)) is None
    with pytest.raises(LayoutError, match="0,6,7,8 do not add up: together 2:3 and 2:6 carry past the extent 4"):
        ll.composition(a, Layout(4, 3))


def test_cutlass_1353_a_layout_that_coalesces_first() -> None:
    assert str(ll.composition(Layout((2, 3), (1, 2)), Layout((2, 3), (3, 1)))) == "(2,3):(3,1)"
    assert str(ll.composition(Layout((2, 3), (10, 20)), Layout((2, 3), (3, 1)))) == "(2,3):(30,10)"
    with pytest.raises(LayoutError, match="do not add up: together 3:1 and 2:3 carry past the extent 4"):
        ll.composition(Layout((4, 3), (1, 5)), Layout((3, 2), (1, 3)))


def test_cutlass_2657_rows_that_wrap() -> None:
    a, b = Layout((2, 3), (4, 1)), Layout((3, 4), (3, 1))
    assert [a.extended(b(i)) for i in range(12)] == [0, 5, 3, 4, 2, 7, 1, 6, 4, 5, 3, 8]
    with pytest.raises(
        LayoutError, match=r"0,5,3,4,2,7,1,6,\.\.\. leave the first stride after 2 steps, and 2 does not"
    ):
        ll.composition(a, b)
    assert str(ll.composition(Layout((6, 2), (8, 3)), Layout((4, 3), (3, 1)))) == "((2,2),3):((24,3),8)"


def test_cutlass_1906_leaves_that_pass_a_mode() -> None:
    assert str(ll.composition(Layout((8, 6), (6, 1)), Layout((8, 3, 2), (1, 8, 24)))) == "(8,3,2):(6,1,3)"
    assert str(ll.composition(Layout((8, 6), (6, 1)), Layout((8, 6), (1, 8)))) == "(8,6):(6,1)"
    assert str(ll.composition(Layout((8, 6), (6, 1)), Layout((3, 16), (16, 1)))) == "(3,(8,2)):(2,(6,1))"


def test_values_inside_of_the_layout_that_the_dsl_gets_wrong() -> None:
    a, b = Layout((2, 4, 3), (1, 5, 0)), Layout(4, 6)
    assert [a(b(i)) for i in range(4)] == [0, 15, 10, 5]
    with pytest.raises(LayoutError, match="0,15,10,5 do not add up"):
        ll.composition(a, b)


def test_carries_that_cancel() -> None:
    a = Layout(
        (4, 3, 1 << 40), (1, 0, 4)
    )  # 6 = (2,1,0) moves two digits, and each carry takes back what the other adds
    assert [a(6 * i) for i in range(6)] == [0, 2, 4, 6, 8, 10]
    assert str(ll.composition(a, Layout(1 << 40, 6))) == "1099511627776:2"
    wide = Layout((1 << 30, 3, 1 << 20), (1, 0, 1 << 30))
    with pytest.raises(LayoutError, match="is not known: carries cancel for more than 65536 steps"):
        ll.composition(wide, Layout(1 << 20, 3 << 29))
    assert str(ll.composition(wide, Layout(1 << 10, 3 << 29))) == "1024:536870912"


def test_coordinates_and_modes() -> None:
    identity = ll.make_identity_layout((4, 8))
    assert str(ll.composition(identity, Layout((2, 4), (2, 4)))) == "(2,4):(2@0,1@1)"
    rows = Layout((4, 8), (8, 1))
    transposed = Layout((8, 4), (ll.Basis(1, (1,)), ll.Basis(1, (0,))))
    assert str(ll.composition(rows, transposed)) == "(8,4):(1,8)"
    with pytest.raises(LayoutError, match="move 2 coordinates at once for each step of 5"):
        ll.composition(identity, Layout((2, 4), (5, 4)))
    with pytest.raises(LayoutError, match=r"layout \(4,8\):\(8,1\) has no mode 2"):
        ll.composition(rows, Layout(2, ll.Basis(1, (2,))))
    with pytest.raises(LayoutError, match="gives numbers and coordinates of one mode"):
        ll.composition(rows, Layout((2, 2), (1, ll.Basis(1, (0,)))))


def test_unknown_extents_and_strides() -> None:
    n, unknown = Sym("N"), Sym()
    dynamic = Layout((unknown, unknown), (unknown, 1))
    assert str(ll.composition(dynamic, (128, 64))) == "(128,64):(?,1)"
    assert str(ll.composition(Layout((4, 2 * n), (1, 4)), Layout(8, 2))) == "8:2"
    assert str(ll.logical_divide(Layout(128 * n), 128)) == "(128,N):(1,128)"
    assert str(ll.zipped_divide(dynamic, (128, 64))) == "((128,64),(?,?)):((?,1),(128*?,64))"
    with pytest.raises(LayoutError, match="a step of 1 may or may not cross the extent N"):
        ll.composition(Layout((n, 4), (1, 100)), Layout(8))
    with pytest.raises(LayoutError, match=r"prints \?"):
        ll.functionally_equal(dynamic, dynamic)
    assert ll.functionally_equal(Layout((n, 4)), Layout(4 * n))
    assert not ll.functionally_equal(Layout((n, 4), (4, 1)), Layout(4 * n))


def test_huge_sizes_answer_at_once() -> None:
    big = Layout((1 << 40, 3), (3, 1))
    assert str(ll.composition(big, Layout((1 << 20, 2), (1 << 20, 1)))) == "(1048576,2):(3145728,3)"
    assert str(ll.complement(Layout(3, 1 << 40), 1 << 50)) == "(1099511627776,342):(1,3298534883328)"
    assert ll.functionally_equal(ll.flatten(big), big)
    assert ll.compare(big, Layout(3 << 40)).first == 1
    with pytest.raises(LayoutError, match="leave the first stride after 3 steps"):
        ll.composition(Layout((3, 1 << 40), (1, 1 << 30)), Layout(1 << 41))


# -- complement, divides, products, inverses --------------------------------------------------------------------------


def test_cutlass_1511_and_1466() -> None:
    a = Layout((4, 2, 3), (2, 1, 8))
    assert str(ll.logical_divide(a, Layout(4, 2))) == "((2,2),(2,3)):((4,1),(2,8))"
    assert str(ll.complement(Layout((2, 2), (1, 6)), 24)) == "(3,2):(2,12)"
    assert str(ll.complement(Layout((2, 2), (1, 6)), 12)) == "3:2"
    assert str(ll.complement(Layout((2, 2), (1, 6)), 25)) == "(3,3):(2,12)"
    with pytest.raises(LayoutError, match="its stride 5 is no multiple of the 2 locations"):
        ll.complement(Layout((2, 2), (1, 5)), 24)


def test_over_covering_divides_are_legal() -> None:
    assert str(ll.logical_divide(Layout(10), 4)) == "(4,3):(1,4)"
    assert str(ll.zipped_divide(Layout((10, 7), (7, 1)), (4, 3))) == "((4,3),(3,3)):((7,1),(28,3))"


@pytest.mark.parametrize(
    ("a", "printed"),
    [
        (Layout(4, 2), "(2,4):(0,1)"),
        (Layout((4, 2), (1, 16)), "(16,2):(1,4)"),
        (Layout(((2, 2), (2, 2)), ((1, 4), (8, 32))), "(4,8,2):(1,2,8)"),
        (Layout((3, 5), (5, 1)), "(5,3):(3,1)"),
    ],
)
def test_cutlass_3485_left_inverses_are_right_on_the_image(a: Layout, printed: str) -> None:
    assert str(ll.left_inverse(a)) == printed
    assert laws.left_inverse(a, ll.left_inverse(a)) is None


def test_cutlass_1355() -> None:
    a = Layout((2, 4, 6), (4, 1, 8))
    assert str(ll.right_inverse(a)) == "(4,2,6):(2,1,8)"
    assert laws.right_inverse(a, ll.right_inverse(a)) is None
    assert str(ll.right_inverse(Layout((2, 3, 5), (15, 5, 1)))) == "(5,3,2):(6,2,1)"


def test_cutlass_3478_a_product_is_no_division() -> None:
    assert str(ll.logical_product(Layout(4), 2)) == "(4,2):(1,4)"
    assert str(ll.logical_product(Layout(6), 5)) == "(6,5):(1,6)"
    assert str(ll.logical_product(Layout(4, 2), Layout(4))) == "(4,(2,2)):(2,(1,8))"
    with pytest.raises(LayoutError, match="0,1,8 leave the first stride after 2 steps, and 2 does not divide 3"):
        ll.logical_product(Layout(4, 2), Layout(3))


def test_inverses_of_swizzled_layouts() -> None:
    tile = swizzled(3, 3, 3, Layout((8, 64), (64, 1)))
    right, left = ll.right_inverse(tile), ll.left_inverse(tile)
    assert [tile(right(i)) for i in range(512)] == list(range(512))
    assert [left(tile(i)) for i in range(512)] == list(range(512))
    with pytest.raises(LayoutError, match="for a swizzle with offset 0 only"):
        ll.right_inverse(ComposedLayout(Swizzle(3, 3, 3), 8, Layout((8, 64), (64, 1))))


# -- units and recast -------------------------------------------------------------------------------------------------


def test_cutlass_2634_a_swizzle_counts_something() -> None:
    outer = Layout((32, 8), (1, 32))
    assert swizzled(3, 4, 3, outer)(0, 1) == 32
    in_bytes = ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, outer, element_bits=32)
    assert in_bytes(0, 1) == 36
    assert str(Swizzle(3, 4, 3, unit_bits=8).counted_in(32)) == "S<3,2,3>[32b]"
    with pytest.raises(LayoutError, match="elements of unknown width"):
        swizzled(3, 4, 3, outer, unit=8)(0, 1)


@pytest.mark.parametrize(("bits", "base"), [(8, 4), (16, 3), (32, 2), (64, 1), (128, 0)])
def test_cutlass_634_bytes_seen_as_elements(bits: int, base: int) -> None:
    outer = Layout((8, 1024), (1024, 1))
    result = ll.recast_layout(bits, 8, swizzled(3, 4, 3, outer))
    assert result.inner == Swizzle(3, base, 3)
    assert laws.recast_layout(bits, 8, swizzled(3, 4, 3, outer), result) is None


def test_cutlass_634_bits_inside_of_an_element() -> None:
    for bits, new in ((1, 32), (8, 256)):
        with pytest.raises(LayoutError, match=f"changes bits inside of a {new}-bit unit"):
            ll.recast_layout(new, bits, swizzled(3, 4, 3, Layout((8, 1024), (1024, 1))))


def test_cutlass_3460_six_bits() -> None:
    for bits in (6, 24, 12):
        with pytest.raises(LayoutError, match="are not a power of two apart"):
            ll.recast_layout(bits, 8, swizzled(3, 3, 3, Layout((8, 48), (48, 1))))
    assert str(ll.recast_layout(6, 8, Layout(12))) == "16:1"


def test_dynamic_recast() -> None:
    assert str(ll.recast_layout(32, 16, Layout(16))) == "8:1"
    with pytest.raises(LayoutError, match=r"the stride N is not known to be a multiple of 2"):
        ll.recast_layout(32, 16, Layout(16, Sym("N")))
    with pytest.raises(LayoutError, match="no mode is known to have stride 1"):
        ll.recast_layout(16, 32, Layout(16, Sym("N")))
    assert str(ll.recast_layout(32, 16, Layout((16, Sym("M")), (1, 4 * Sym("N"))))) == "(8,M):(1,2*N)"
    with pytest.raises(LayoutError):
        ll.recast_layout(32, 16, Layout((16, 4), (1, Sym())))


def test_a_swizzle_with_its_unit_stays() -> None:
    tile = ComposedLayout(Swizzle(3, 4, 3, unit_bits=8), 0, Layout((8, 64), (64, 1)), element_bits=16)
    result = ll.recast_layout(8, 16, tile)
    assert result.inner == tile.inner and result.element_bits == 8
    assert laws.bits(result, 8) == laws.bits(tile, 16)
    assert {(m, k): result(m, 2 * k) for m in range(8) for k in range(64)} == {
        (m, k): 2 * tile(m, k) for m in range(8) for k in range(64)
    }


# -- two views of one buffer ------------------------------------------------------------------------------------------


def test_flash_attention_456_a_transposed_view() -> None:
    stored = Layout(((8, 16), (64, 2)), ((64, 512), (1, 8192)))  # V, (n, d)
    by_columns = ll.select(stored, [1, 0])
    assert stored == ll.tile_to_shape(Layout((8, 64), (64, 1)), (128, 128), (0, 1))
    wrong = ll.tile_to_shape(Layout((64, 8), (1, 64)), (128, 128), (0, 1))  # (d, n)
    verdict = ll.compare(wrong, by_columns)
    assert not verdict.equal and verdict.first is not None
    assert ll.idx2crd(verdict.first, (128, 128)) == (64, 0)  # d = 64, n = 0
    d, n = np.divmod(np.arange(128 * 128), 128)
    assert int((wrong(d, n) != stored(n, d)).sum()) == 15360
    for right in (
        ll.tile_to_shape(Layout((64, 128), (1, 64)), (128, 128), (0, 1)),
        ll.tile_to_shape(Layout((64, 8), (1, 64)), (128, 128), (1, 0)),
    ):
        assert ll.functionally_equal(right, by_columns)


def test_cutlass_3160_a_thread_of_a_swizzled_tile() -> None:
    tile = swizzled(4, 0, 6, Layout((64, 16), (1, 64)))
    mine = ll.slice_(ll.zipped_divide(tile, (8, 8)), (ll.idx2crd(9, (8, 8)), None))
    assert str(mine) == "S<4,0,6> o 65 o ((8,2)):((8,512))"
    assert [mine(i) for i in range(3)] == [64, 72, 80]
    assert [mine(8 + i) for i in range(2)] == [584, 576]
    assert [mine(i) for i in range(16)] == [tile(1 + 8 * i, 1 + 8 * j) for j in range(2) for i in range(8)]


def test_a_copy_of_more_threads_than_a_tile() -> None:
    threads, vector = Layout((16, 16)), Layout((8, 1))
    tile = ll.raked_product(threads, vector)
    assert ll.shape(tile) == ((8, 16), 16)
    tv = ll.composition(ll.right_inverse(tile), Layout((256, 8)))
    assert str(tv) == "(256,8):(8,1)"
    steps = ll.zipped_divide(Layout((128, 32)), (128, 16))
    partition = ll.composition(steps, (tv, None))
    assert str(partition) == "((256,8),(1,2)):((8,1),(0,2048))"


# -- banks ------------------------------------------------------------------------------------------------------------


def ways(offsets: list[int], element_bytes: int) -> int:
    """How many different words the fullest of 32 banks holds."""
    words = {o * element_bytes // 4 for o in offsets}
    return max(Counter(w % 32 for w in words).values())


@pytest.mark.parametrize(("swizzle", "expected"), [((0, 0, 5), 32), ((5, 0, 5), 1), ((3, 0, 5), 4), ((2, 0, 5), 8)])
def test_columns_of_a_float_tile(swizzle: tuple[int, int, int], expected: int) -> None:
    tile = swizzled(*swizzle, Layout((32, 32), (32, 1)))
    assert {ways([tile(m, k) for m in range(32)], 4) for k in range(32)} == {expected}


@pytest.mark.parametrize(
    ("width", "swizzle", "expected"),
    [
        (64, (0, 0, 3), 8),
        (64, (3, 3, 3), 1),
        (64, (2, 3, 3), 2),
        (64, (3, 4, 3), 2),
        (32, (0, 0, 3), 4),
        (32, (2, 3, 3), 1),
    ],
)
def test_rows_that_ldmatrix_reads(width: int, swizzle: tuple[int, int, int], expected: int) -> None:
    tile = swizzled(*swizzle, Layout((8, width), (width, 1)))
    found = {ways([tile(m, 8 * c + i) for m in range(8) for i in range(8)], 2) for c in range(width // 8)}
    assert found == {expected}


@pytest.mark.parametrize("base", [0, 3])
def test_refusals_of_malformed_arguments_are_sentences(base: int) -> None:
    a = Layout((4, 8))
    for call, text in (
        (lambda: ll.composition(a, (2, 2, 2)), "tiler (2,2,2) has 3 modes, layout (4,8):(1,4) has 2"),
        (lambda: ll.group_modes(a, 1, 1), "layout (4,8):(1,4) has 2 modes, modes 1 to 1 cannot be grouped"),
        (lambda: ll.slice_(a, (0, 0, None)), "coordinate (0,0,None) does not fit shape (4,8)"),
        (lambda: ll.coalesce(a, (1, 1, 1)), "profile (1,1,1) has more modes than layout (4,8):(1,4)"),
        (lambda: ll.size(a, mode=2), "shape (4,8) has 2 modes, there is no mode 2"),
        (lambda: ll.zipped_divide(a, None), "a tiler None keeps a mode whole"),
        (lambda: ll.composition(a, (0, 4)), "shape 0 has the extent 0: extents are positive integers"),
        (lambda: ll.recast_layout(0, 8, a), "elements of 0 bits: a width is a positive number of bits"),
        (lambda: ll.make_ordered_layout((4, 8), (0, 1, 2)), "order (0,1,2) does not fit shape (4,8)"),
        (lambda: ll.make_ordered_layout((4, 8), (base, base)), "gives two modes of shape (4,8) the same number"),
        (lambda: ll.append(a, a, 1), "layout (4,8):(1,4) has 2 modes already, more than 1"),
        (lambda: ll.functionally_equal(a, Layout(31)), "functions of different indices"),
    ):
        with pytest.raises(LayoutError) as refusal:
            call()
        assert text in str(refusal.value)
