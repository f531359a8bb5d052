"""Complement, divides and products: tiles cut out of a layout, and layouts repeated.

Each is one composition over the layout that a complement completes:

>>> tile, data = Layout(4, 2), Layout((4, 2, 3), (2, 1, 8))
>>> complement(tile, 24)  # the starts of the tiles
(2,3):(1,8)
>>> logical_divide(data, tile)  # composition(data, (tile, complement(tile, 24)))
((2,2),(2,3)):((4,1),(2,8))
>>> logical_product(Layout(4), Layout(2))  # (block, composition(complement(block, 8), 2))
(4,2):(1,4)

`logical_` keeps two modes, the tile and the rest (by mode of the tiler where that is a tuple); `zipped_`, `tiled_` and
`flat_` only regroup them: ((tile), (rest)), ((tile), rest...), (tile..., rest...).
"""

from __future__ import annotations

from typing import Any

from layoutlab.algebra.compose import Tiler, by_mode, composition_of_layouts
from layoutlab.algebra.structure import (
    AnyLayout,
    L,
    append_ones,
    coalesce,
    filter,
    layout_of,
    make_ordered_layout,
    of_runs,
    on_outer,
    slice_and_offset,
)
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, Coord, IntTuple, ceil_div, modes, product, to_text
from layoutlab.int_tuple import flatten as leaves_of
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout
from layoutlab.symbol import Sym

# -- complement -------------------------------------------------------------------------------------------------------


def complement(layout: Layout, cotarget: IntTuple | Layout = 1) -> Layout:
    """The ordered layout of the places where copies of `layout` fill 0..size(cotarget)-1 without overlap.

    >>> complement(Layout((2, 2), (1, 6)), 24)
    (3,2):(2,12)
    >>> complement(Layout((4, 2), (1, 2)), 12)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: (4,2):(1,2) has no complement: its stride 2 is no multiple of the 4 locations that \
the mode below fills

    Each location k is layout(c) + complement(c*) for exactly one c and c*, past the cotarget where that is no multiple.
    Repeated locations (stride 0) count once. Refuses negative strides, and coordinates for values.
    """
    target = product(cotarget.shape if isinstance(cotarget, Layout) else cotarget)
    found: list[tuple[Any, Any]] = []
    filled: Any = 1
    for extent, stride in _by_stride(layout):
        if isinstance(stride, Basis):
            raise LayoutError(f"{layout} has no complement: its values are coordinates; take its modes one by one")
        if isinstance(stride, int) and stride < 0:
            raise LayoutError(f"{layout} has no complement: the stride {stride} goes down")
        try:
            gap = stride // filled if stride % filled == 0 else None
        except LayoutError as why:
            raise LayoutError(f"the complement of {layout} is not known: {why}") from None
        if not gap:
            raise LayoutError(
                f"{layout} has no complement: its stride {stride} is no multiple of the {filled} locations that "
                "the mode below fills"
            )
        found.append((gap, filled))
        filled = stride * extent
    found.append((_rounded_up(target, filled), filled))
    result = coalesce(of_runs(found))
    _check_complement(layout, result)
    return result


def _check_complement(layout: Layout, result: Layout) -> None:
    """Together the two count 0, 1, 2, ... once each: in the order of their strides they are one run of stride 1."""
    leaves = [*filter(layout).leaves(), *result.leaves()]
    if all(isinstance(x, int) for leaf in leaves for x in leaf):
        together = coalesce(of_runs(sorted((leaf for leaf in leaves if leaf[0] != 1), key=lambda leaf: leaf[1])))
        if together.stride not in (1, 0) or together.depth():
            raise LayoutError(f"the complement of {layout} was computed as {result}: a fault of layoutlab")


def _rounded_up(count: Any, by: Any) -> Any:
    """The quotient rounded up; an unknown where it depends on an unknown."""
    try:
        return ceil_div(count, by)
    except LayoutError:
        return Sym()


def _by_stride(layout: Layout) -> list[tuple[Any, Any]]:
    """The runs of a layout by ascending stride, symbols last by what divides what."""
    runs = [leaf for leaf in filter(layout).leaves() if leaf[0] != 1]
    numbers = [leaf for leaf in runs if isinstance(leaf[1], int)]
    others = [leaf for leaf in runs if not isinstance(leaf[1], int)]
    if len(others) > 1:
        raise LayoutError(f"the order of the strides {', '.join(str(d) for _, d in others)} of {layout} is not known")
    return sorted(numbers, key=lambda leaf: (leaf[1], leaf[0])) + others


# -- divides ----------------------------------------------------------------------------------------------------------


def logical_divide(layout: L, tiler: Tiler) -> L:
    """The layout as (tile, rest): composition(layout, (tiler, complement(tiler, size(layout)))).

    >>> logical_divide(Layout(24), Layout(4, 2))
    (4,(2,3)):(2,(1,8))
    >>> logical_divide(Layout((4, 8)), (2, 4))  # by mode: ((2 of mode 0, rest), (4 of mode 1, rest))
    ((2,2),(4,2)):((1,2),(4,16))
    >>> logical_divide(Layout(10), 4)  # 3 tiles of 4 cover 10: the last one reaches past the end
    (4,3):(1,4)
    """
    return on_outer(layout, lambda outer: by_mode(_divided, outer, tiler))


def _divided(layout: Layout, tile: Layout) -> Layout:
    whole = coalesce(layout) if layout.size() != 1 else of_runs(layout.leaves()[-1:])
    return composition_of_layouts(whole, make_layout(tile, complement(tile, whole.shape)))


def zipped_divide(layout: L, tiler: Tiler) -> L:
    """The layout as ((tile modes), (rest modes)).

    >>> zipped_divide(Layout((4, 8, 3)), (2, 4))
    ((2,4),(2,2,3)):((1,4),(2,16,32))
    """
    return on_outer(layout, lambda outer: _zipped(by_mode(_divided, outer, tiler), tiler))


def tiled_divide(layout: L, tiler: Tiler) -> L:
    """The layout as ((tile modes), rest modes...).

    >>> tiled_divide(Layout((4, 8, 3)), (2, 4))
    ((2,4),2,2,3):((1,4),2,16,32)
    """

    def tiled(outer: Layout) -> Layout:
        tile, rest = zipped_divide(outer, tiler)
        return make_layout(tile, *rest)

    return on_outer(layout, tiled)


def flat_divide(layout: L, tiler: Tiler) -> L:
    """The layout as (tile modes..., rest modes...).

    >>> flat_divide(Layout((4, 8, 3)), (2, 4))
    (2,4,2,2,3):(1,4,2,16,32)
    """

    def flat(outer: Layout) -> Layout:
        tile, rest = zipped_divide(outer, tiler)
        return make_layout(*tile, *rest)

    return on_outer(layout, flat)


def local_tile(layout: L, tiler: Tiler, coord: Coord, proj: Coord = 1) -> ComposedLayout:
    """One tile of a layout: `zipped_divide` by the tiler, then the rest at `coord`; `_` keeps all tiles of a mode.

    >>> local_tile(Layout((8, 64), (64, 1)), (4, 16), (1, 2))
    288 o (4,16):(64,1)
    >>> local_tile(Layout((8, 64), (64, 1)), (4, 16), (1, None))
    256 o (4,16,4):(64,1,16)

    With `proj`, the modes of tiler and coordinate that stand against None are left out. The result starts at the
    tile's offset, as a tensor's pointer would. Source: CuTe's `local_tile`.
    """
    if isinstance(proj, tuple):
        tiler, coord = _projected(tiler, proj), _projected(coord, proj)
    divided: Any = zipped_divide(layout, tiler)
    tile = divided.shape[0]
    rest = coord
    if isinstance(coord, tuple):
        rest = _completed(coord, divided.shape[1], "coordinate")
    within = tuple(None for _ in tile) if isinstance(tile, tuple) else None
    return _from_offset(divided, (within, rest))


def local_partition(layout: L, tiler: Layout, index: int, proj: Coord = 1) -> ComposedLayout:
    """What thread `index` has of a layout: of each tile, shaped as the threads, the element at the thread's place.

    >>> local_partition(Layout((8, 64), (64, 1)), Layout((4, 8), (8, 1)), 9)
    65 o (2,8):(256,8)

    `tiler` is a layout of threads, (i,j) -> thread. With `proj`, its modes that stand against None are left out.
    Source: CuTe's `local_partition`.
    """
    shape, stride = tiler.shape, tiler.stride
    if isinstance(proj, tuple):
        shape, stride = _projected(shape, proj), _projected(stride, proj)
    if not all(isinstance(x, int) and (not is_stride or x >= 0) for x, is_stride in _numbers(shape, stride)):
        raise LayoutError(f"local_partition: the threads {tiler} are not of numbers, with strides from 0 on")

    def place(s: Any, d: Any) -> Any:
        if isinstance(s, tuple):
            at: Any = 0
            scale: Any = 1
            for inner_s, inner_d in zip(s, d, strict=True):
                at, scale = at + scale * place(inner_s, inner_d), scale * product(inner_s)
            return at
        return index // d % s if d else 0

    at = tuple(place(s, d) for s, d in zip(modes(shape), modes(stride), strict=True))
    sizes = tuple(product(s) for s in modes(shape))
    flat = not isinstance(shape, tuple)
    divided: Any = zipped_divide(layout, sizes[0] if flat else sizes)
    tile = _completed(at, divided.shape[0], "thread") if isinstance(divided.shape[0], tuple) else at[0]
    rest = divided.shape[1]
    return _from_offset(divided, (tile, tuple(None for _ in rest) if isinstance(rest, tuple) else None))


def _numbers(shape: Any, stride: Any) -> list[tuple[Any, bool]]:
    return [(s, False) for s in leaves_of(shape)] + [(d, True) for d in leaves_of(stride)]


def _projected(x: Any, proj: tuple[Any, ...]) -> tuple[Any, ...]:
    entries = modes(x)
    if len(entries) != len(proj):
        raise LayoutError(f"proj {to_text(proj)} has {len(proj)} entries, and what it chooses from {len(entries)}")
    return tuple(entry for entry, kept in zip(entries, proj, strict=True) if kept is not None)


def _completed(coord: tuple[Any, ...], of: Any, what: str) -> tuple[Any, ...]:
    missing = len(modes(of)) - len(coord)
    if missing < 0:
        raise LayoutError(f"the {what} {to_text(coord)} has {len(coord)} entries, and the tiles {len(modes(of))} modes")
    return (*coord, *[None] * missing)


def _from_offset(divided: AnyLayout, coord: Any) -> ComposedLayout:
    kept, offset = slice_and_offset(coord, divided)
    return kept if isinstance(kept, ComposedLayout) else ComposedLayout(None, offset, kept)


def _zipped(pairs: Layout, tiler: Tiler) -> Layout:
    """((a, b), (c, d), e) as ((a, c), (b, d, e)), in the nesting of the tiler."""
    if not isinstance(tiler, tuple):
        if tiler is None:
            raise LayoutError("a tiler None keeps a mode whole, so there is no tile to put first: say what the tile is")
        return pairs
    parts = list(pairs)
    zipped = [_zipped(part, t) for part, t in zip(parts, tiler, strict=False)]
    return make_layout(layout_of([z[0] for z in zipped]), layout_of([*(z[1] for z in zipped), *parts[len(tiler) :]]))


# -- products ---------------------------------------------------------------------------------------------------------


def logical_product(block: L, tiler: Tiler) -> L:
    """The layout (block, repetitions): `block` at each place that `tiler` says, in units of blocks.

    >>> logical_product(Layout((2, 2), (1, 6)), Layout(6))
    ((2,2),(3,2)):((1,6),(2,12))
    >>> logical_product(Layout((2, 5), (5, 1)), (Layout(3, 5), Layout(4, 6)))  # by mode
    ((2,3),(5,4)):((5,10),(1,30))
    """
    return on_outer(block, lambda outer: by_mode(_multiplied, outer, tiler))


def _multiplied(block: Layout, tiler: Layout) -> Layout:
    room = block.size() * tiler.cosize()
    return make_layout(block, composition_of_layouts(complement(block, room), tiler))


def zipped_product(block: L, tiler: Tiler) -> L:
    """The product as ((block modes), (repetition modes)).

    >>> zipped_product(Layout((2, 5), (5, 1)), Layout((3, 4)))
    ((2,5),(3,4)):((5,1),(10,30))
    """
    return on_outer(block, lambda outer: _zipped(logical_product(outer, tiler), tiler))


def tiled_product(block: L, tiler: Tiler) -> L:
    """The product as ((block modes), repetition modes...).

    >>> tiled_product(Layout((2, 5), (5, 1)), Layout((3, 4)))
    ((2,5),3,4):((5,1),10,30)
    """

    def tiled(outer: Layout) -> Layout:
        first, rest = zipped_product(outer, tiler)
        return make_layout(first, *rest)

    return on_outer(block, tiled)


def flat_product(block: L, tiler: Tiler) -> L:
    """The product as (block modes..., repetition modes...).

    >>> flat_product(Layout((2, 5), (5, 1)), Layout((3, 4)))
    (2,5,3,4):(5,1,10,30)
    """

    def flat(outer: Layout) -> Layout:
        first, rest = zipped_product(outer, tiler)
        return make_layout(*first, *rest)

    return on_outer(block, flat)


def blocked_product(block: L, tiler: Layout) -> L:
    """The product with mode i of the block beside mode i of the tiler: blocks of neighbours.

    >>> blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4)))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    return on_outer(block, lambda outer: layout_of([make_layout(b, t) for b, t in _mode_pairs(outer, tiler)]))


def raked_product(block: L, tiler: Layout) -> L:
    """The product with mode i of the tiler inside mode i of the block: neighbours belong to different blocks.

    >>> raked_product(Layout((2, 5), (5, 1)), Layout((3, 4)))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    return on_outer(block, lambda outer: layout_of([coalesce(make_layout(t, b)) for b, t in _mode_pairs(outer, tiler)]))


def _mode_pairs(block: Layout, tiler: Layout) -> list[tuple[Layout, Layout]]:
    rank = max(block.rank(), tiler.rank())
    blocks, places = logical_product(append_ones(block, rank), append_ones(tiler, rank))
    return list(zip(blocks, places, strict=True))


def tile_to_shape(atom: L, trg_shape: IntTuple, order: IntTuple) -> L:
    """The atom repeated until it has the shape; `order` says which mode is filled first.

    >>> tile_to_shape(Layout((8, 64), (64, 1)), (128, 128), (0, 1))
    ((8,16),(64,2)):((64,512),(1,8192))
    >>> tile_to_shape(Layout((8, 64), (64, 1)), (100, 128), (0, 1))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: atom (8,64):(64,1) does not tile shape (100,128): its mode 0 has 8 coordinates, \
which do not divide 100

    Refuses a shape that the atom does not divide, where CuTe DSL would round up.
    """

    def tiled(outer: Layout) -> Layout:
        target = modes(trg_shape)
        if outer.rank() > len(target):
            raise LayoutError(f"atom {outer} has more modes than shape {to_text(trg_shape)}")
        padded, times = append_ones(outer, len(target)), list[Any]()
        for mode, (part, entry) in enumerate(zip(padded, target, strict=True)):
            extent, have = product(entry), part.size()
            if extent % have != 0:
                raise LayoutError(
                    f"atom {outer} does not tile shape {to_text(trg_shape)}: its mode {mode} has {have} coordinates, "
                    f"which do not divide {extent}"
                )
            times.append(extent // have)
        return blocked_product(padded, make_ordered_layout(tuple(times), order))

    return on_outer(atom, tiled)
