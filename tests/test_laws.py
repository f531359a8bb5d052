"""Every operation's law on generated valid operands, and small sizes exhausted."""

from __future__ import annotations

from itertools import product as every
from math import prod

import laws
import pytest
import strategies as some
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import layoutlab as ll
from layoutlab import ComposedLayout, Layout, LayoutError

EXAMPLES = settings(max_examples=100, deadline=None)


@given(some.composable())
@EXAMPLES
def test_composition_of_valid_operands(pair: tuple[Layout, Layout]) -> None:
    a, b = pair
    assert laws.composition(a, b, ll.composition(a, b)) is None


@given(some.layouts(), some.layouts(max_size=60))
@EXAMPLES
def test_composition_exists_or_is_refused(a: Layout, b: Layout) -> None:
    try:
        result = ll.composition(a, b)
    except LayoutError as refusal:
        assert "is no layout" in str(refusal)
        assert not composition_exists(a, b)
    else:
        assert laws.composition(a, b, result) is None


@given(some.composable(), st.integers(0, 40), some.swizzles())
@EXAMPLES
def test_composition_of_a_swizzled_layout(pair: tuple[Layout, Layout], offset: int, swizzle: ll.Swizzle) -> None:
    a, b = pair
    assume(all(d >= 0 for _, d in a.leaves()))
    tile = ComposedLayout(swizzle, offset, a)
    result = ll.composition(tile, b)
    assert [result(i) for i in range(b.size())] == [tile.extended(b(i)) for i in range(b.size())]


def ordered_factors(n: int) -> list[tuple[int, ...]]:
    return [()] if n == 1 else [(d, *rest) for d in range(2, n + 1) if n % d == 0 for rest in ordered_factors(n // d)]


def is_layout(f: list[int]) -> bool:
    """Whether a function on 0..n-1 is a layout, by trying every shape of n elements."""
    for shape in ordered_factors(len(f)):
        weights = [prod(shape[:k]) for k in range(len(shape))]
        if all(f[i] == sum(i // w % s * f[w] for w, s in zip(weights, shape, strict=True)) for i in range(len(f))):
            return True
    return False


def composition_exists(a: Layout, b: Layout) -> bool:
    """By brute force: whether A o B is a sum of layouts over the leaves of B."""
    leaves = [s for s, _ in b.leaves()]
    weights = [prod(leaves[:k]) for k in range(len(leaves))]
    f = [a.extended(b(i)) for i in range(b.size())]
    parts = [[f[w * c] for c in range(s)] for w, s in zip(weights, leaves, strict=True)]
    return all(map(is_layout, parts)) and all(
        f[i] == sum(part[i // w % s] for part, w, s in zip(parts, weights, leaves, strict=True)) for i in range(len(f))
    )


def small_layouts(sizes: int, rank: int, strides: tuple[int, ...]) -> list[Layout]:
    return [
        Layout(shape, stride)
        for r in range(1, rank + 1)
        for shape in every(range(1, sizes + 1), repeat=r)
        if prod(shape) <= sizes and (r == 1 or 1 not in shape)
        for stride in every(strides, repeat=r)
    ]


def test_small_compositions_exhausted() -> None:
    """All of (size <= 8, rank <= 3) o (size <= 6, rank <= 2): a result with its law, or no layout by brute force."""
    tested = found = 0
    for a in small_layouts(8, 3, (0, 1, 2, 3, 4)):
        for b in small_layouts(6, 2, (0, 1, 2, 3)):
            tested += 1
            try:
                result = ll.composition(a, b)
            except LayoutError:
                assert not composition_exists(a, b), (a, b)
            else:
                found += 1
                assert laws.composition(a, b, result) is None
    assert tested > 10_000 and 0.3 < found / tested < 0.99


@given(some.layouts())
@EXAMPLES
def test_coalesce(a: Layout) -> None:
    assert laws.coalesce(a, ll.coalesce(a)) is None


@given(some.layouts())
@EXAMPLES
def test_coalesce_by_mode(a: Layout) -> None:
    if a.depth():
        by_mode = ll.coalesce(a, (1,) * a.rank())
        assert by_mode.rank() == a.rank()
        assert all(laws.coalesce(mine, theirs) is None for mine, theirs in zip(a, by_mode, strict=True))
        assert laws.same_function(a, by_mode) is None


@given(some.layouts())
@EXAMPLES
def test_flatten_and_group_keep_the_function(a: Layout) -> None:
    flat = ll.flatten(a)
    assert laws.same_function(a, flat) is None and flat.depth() <= 1
    assert laws.same_function(a, ll.group_modes(flat, 0)) is None


@given(some.injective(), st.integers(1, 400))
@EXAMPLES
def test_complement(a: Layout, target: int) -> None:
    assert laws.complement(a, target, ll.complement(a, target)) is None


def test_small_complements_exhausted() -> None:
    """A complement with its law, or overlap in the layout, or none by brute force: its copies fill no 0, 1, 2, ..."""
    tested = refused = 0
    for a in small_layouts(12, 3, (0, 1, 2, 3, 4, 6, 8)):
        tested += 1
        try:
            result = ll.complement(a, 12)
        except LayoutError:
            refused += 1
            assert not laws.has_complement(a), a
        else:
            assert laws.complement(a, 12, result) is None
    assert tested > 2_000 and refused > 100


@given(some.composable(), st.booleans())
@EXAMPLES
def test_logical_divide(pair: tuple[Layout, Layout], swap: bool) -> None:
    a, tile = pair
    assume(len({tile(i) for i in range(tile.size())}) == tile.size())
    try:
        result = ll.logical_divide(a, tile)
    except LayoutError as refusal:  # the tile fits, the rest between the tiles may not
        rest = ll.complement(tile, a.size())
        assert "is no layout" in str(refusal)
        assert not composition_exists(laws.without_ones(a), ll.make_layout(tile, rest))
    else:
        assert laws.logical_divide(a, tile, result) is None
        rest = ll.complement(tile, a.size())
        both = [
            laws.at(laws.without_ones(a), tile(t) + rest(r)) for r in range(rest.size()) for t in range(tile.size())
        ]
        assert [result(i) for i in range(result.size())] == both


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=3), st.data())
@EXAMPLES
def test_divides_by_mode(modes: list[tuple[int, int]], data: st.DataObject) -> None:
    """Tiles of any extent on modes of any extent: the tile (t...) of the rest (r...) is element t + tile * r."""
    shape, tile = tuple(s * t for s, t in modes), tuple(t for _, t in modes)
    a = Layout(shape, tuple(data.draw(some.STRIDES) for _ in shape))
    zipped, tiled, flat = ll.zipped_divide(a, tile), ll.tiled_divide(a, tile), ll.flat_divide(a, tile)
    for at in data.draw(st.lists(st.tuples(*(st.integers(0, s - 1) for s in shape)), min_size=20, max_size=20)):
        t = tuple(c % e for c, e in zip(at, tile, strict=True))
        r = tuple(c // e for c, e in zip(at, tile, strict=True))
        assert a(at) == zipped(t, r) == tiled(t, *r) == flat(*t, *r)


@given(some.injective(60), some.injective(20))
@EXAMPLES
def test_logical_product(a: Layout, times: Layout) -> None:
    try:
        result = ll.logical_product(a, times)
    except LayoutError as refusal:  # the places for copies are there, but not in the tiler's order
        assert "is no layout" in str(refusal)
        assert not composition_exists(ll.complement(a, a.size() * times.cosize()), times)
    else:
        assert laws.product_of(a, times, result) is None


@given(some.bijective(40), some.injective(12))
@EXAMPLES
def test_products_regroup_the_logical_one(a: Layout, times: Layout) -> None:
    rank = max(a.rank(), times.rank())
    blocks, places = ll.append_ones(a, rank), ll.append_ones(times, rank)
    logical = ll.logical_product(blocks, places)
    zipped, tiled, flat = (f(blocks, places) for f in (ll.zipped_product, ll.tiled_product, ll.flat_product))
    blocked, raked = ll.blocked_product(a, times), ll.raked_product(a, times)
    assert laws.blocked_product(a, times, blocked) is None and laws.raked_product(a, times, raked) is None
    for i in range(0, a.size(), 3):
        for j in range(0, times.size(), 2):
            inner, outer = ll.idx2crd(i, blocks.shape), ll.idx2crd(j, places.shape)
            value = logical((inner, outer))
            assert value == zipped((i, j)) == tiled((i, *outer)) == flat((*inner, *outer))
            assert value == blocked(tuple(zip(inner, outer, strict=True)))
            rows = zip(inner, outer, blocks, places, strict=True)
            assert value == raked(tuple(flat_index(o, n, there, here) for n, o, here, there in rows))


def flat_index(fast: object, slow: object, first: Layout, second: Layout) -> int:
    return ll.crd2idx(fast, first.shape) + first.size() * ll.crd2idx(slow, second.shape)


@given(some.bijective())
@EXAMPLES
def test_right_inverse_of_a_permutation_is_whole(a: Layout) -> None:
    result = ll.right_inverse(a)
    assert result.size() == a.size() and laws.right_inverse(a, result) is None


@given(some.layouts())
@EXAMPLES
def test_right_inverse(a: Layout) -> None:
    assert laws.right_inverse(a, ll.right_inverse(a)) is None


@given(some.injective())
@EXAMPLES
def test_left_inverse(a: Layout) -> None:
    assert laws.left_inverse(a, ll.left_inverse(a)) is None


@given(some.layouts())
@EXAMPLES
def test_left_inverse_of_anything(a: Layout) -> None:
    try:
        assert laws.left_inverse(a, ll.left_inverse(a)) is None
    except LayoutError:
        pass
    else:
        assert len(set(laws.values(a))) == a.size()


@given(some.layouts(), some.layouts())
@EXAMPLES
def test_max_common_layout(a: Layout, b: Layout) -> None:
    assert laws.max_common_layout(a, b, ll.max_common_layout(a, b)) is None
    assert ll.max_common_layout(a, a).size() == ll.right_inverse(a).size()


@given(some.layouts(), st.sampled_from([4, 6, 8, 16, 24, 32]), st.sampled_from([4, 6, 8, 16, 32]))
@EXAMPLES
def test_recast(a: Layout, new: int, old: int) -> None:
    try:
        result = ll.recast_layout(new, old, a)
    except LayoutError as refusal:
        assert "is no layout of" in str(refusal)
    else:
        assert laws.recast_layout(new, old, a, result) is None


@given(some.injective(), st.sampled_from([(16, 8), (32, 8), (64, 16), (8, 16), (4, 16), (6, 8), (24, 8)]))
@EXAMPLES
def test_recast_there_and_back(a: Layout, widths: tuple[int, int]) -> None:
    new, old = widths
    try:
        there = ll.recast_layout(new, old, a)
    except LayoutError:
        return
    try:
        back = ll.recast_layout(old, new, there)
    except LayoutError:
        return
    assert laws.recast_layout(old, new, there, back) is None


@given(some.swizzled(), st.sampled_from([8, 16, 32, 64]), st.sampled_from([8, 16, 32]))
@EXAMPLES
def test_recast_of_swizzled_layouts(a: ComposedLayout, new: int, old: int) -> None:
    try:
        result = ll.recast_layout(new, old, a)
    except LayoutError:
        return
    assert laws.recast_layout(new, old, a, result) is None


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3), st.lists(st.integers(1, 4), min_size=3, max_size=3), st.data()
)
@EXAMPLES
def test_tile_to_shape(atom_shape: list[int], times: list[int], data: st.DataObject) -> None:
    atom = ll.make_ordered_layout(tuple(atom_shape), tuple(data.draw(st.permutations(range(len(atom_shape))))))
    target = tuple(s * t for s, t in zip(atom_shape, times, strict=False))
    order = tuple(data.draw(st.permutations(range(len(target)))))
    result = ll.tile_to_shape(atom, target, order)
    assert laws.tile_to_shape(atom, target, order, result) is None
    first = min(range(len(target)), key=lambda m: (times[m] == 1, order[m]))
    for c in every(*map(range, target)):
        inside, tile = (
            [x % s for x, s in zip(c, atom_shape, strict=False)],
            [x // s for x, s in zip(c, atom_shape, strict=False)],
        )
        place = ll.make_ordered_layout(tuple(times[: len(target)]), order)(*tile)
        assert result(*c) == atom(*inside) + atom.size() * place
    assert times[first] == 1 or result(*(atom_shape[m] if m == first else 0 for m in range(len(target)))) == atom.size()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
@EXAMPLES
def test_make_ordered_layout(shape: list[int], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    result = ll.make_ordered_layout(tuple(shape), order)
    assert sorted(laws.values(result)) == list(range(prod(shape)))
    moving = [(order[i], d) for i, (s, d) in enumerate(result.leaves()) if s != 1]
    assert [d for _, d in sorted(moving)] == sorted(d for _, d in moving)


@given(some.layouts(), st.data())
@EXAMPLES
def test_slices_are_the_layout_at_the_coordinate(a: Layout, data: st.DataObject) -> None:
    def coordinate(shape: object) -> object:
        if data.draw(st.integers(0, 2)) == 0:
            return None
        if isinstance(shape, tuple) and data.draw(st.booleans()):
            return tuple(map(coordinate, shape))
        return data.draw(st.integers(0, ll.size(shape) - 1))

    at = coordinate(a.shape)
    kept, offset = ll.slice_and_offset(at, a)
    open_shape = ll.slice_(a.shape, at)
    for i in range(kept.size()):
        filled = list(ll.idx2crd(i, open_shape)) if isinstance(open_shape, tuple) else [i]
        assert offset + kept(i) == a(fill(at, filled) if at is not None else i)


def fill(at: object, values: list[object]) -> object:
    if isinstance(at, tuple):
        return tuple(fill(entry, values) for entry in at)
    return values.pop(0) if at is None else at


@given(some.layouts(), some.layouts())
@EXAMPLES
def test_functionally_equal_is_equality_of_values(a: Layout, b: Layout) -> None:
    if a.size() != b.size():
        with pytest.raises(LayoutError, match="different indices"):
            ll.functionally_equal(a, b)
        return
    verdict = ll.compare(a, b)
    assert verdict.equal == (laws.values(a) == laws.values(b))
    if not verdict.equal:
        wrong = [i for i in range(a.size()) if a(i) != b(i)]
        assert verdict.first == wrong[0] and verdict.values == (a(wrong[0]), b(wrong[0]))
    assert ll.functionally_equal(a, ll.coalesce(a))


@given(some.swizzled(), some.swizzled(), st.booleans())
@EXAMPLES
def test_functionally_equal_of_swizzled_layouts(a: ComposedLayout, b: ComposedLayout, close: bool) -> None:
    b = ComposedLayout(b.inner, a.offset, ll.flatten(a.outer)) if close else b
    assume(a.size() == b.size())
    verdict = ll.compare(a, b)
    wrong = [i for i in range(a.size()) if a(i) != b(i)]
    assert verdict.equal == (not wrong)
    assert verdict.first == (wrong[0] if wrong else None)


@given(some.layouts())
@EXAMPLES
def test_filters(a: Layout) -> None:
    zeros = ll.filter_zeros(a)
    assert ll.congruent(zeros.shape, a.shape)
    assert set(laws.values(zeros)) == set(laws.values(a)) == set(laws.values(ll.filter(a)))
    assert all(d != 0 for s, d in ll.filter(a).leaves() if s != 1)
