"""Staging: a shared memory atom repeated until it holds the operand of a tiled MMA.

>>> from layoutlab.layout import Layout
>>> from layoutlab.swizzle import ComposedLayout, Swizzle
>>> atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
>>> tile_to_mma_shape(atom, ((128, 16), 1, 8))
S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))

Source: CUTLASS include/cute/atom/mma_traits_sm100.hpp (UMMA::tile_to_mma_shape).
"""

from __future__ import annotations

from typing import Any

from layoutlab.algebra import coalesce, tile_to_shape, tiled_divide
from layoutlab.algebra.structure import L, on_outer
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import IntTuple, modes, product, rank, to_text


def tile_to_mma_shape(atom: L, mma_tile_shape: tuple[Any, ...], order: IntTuple | None = None) -> L:
    """The layout of an operand, ((M of one instruction, K of one), more of M, more of K, stages...).

    >>> from layoutlab.layout import Layout
    >>> tile_to_mma_shape(Layout((8, 8), (8, 1)), ((16, 8), 2, 1), (1, 0))
    ((16,8),2,1):((8,1),128,0)
    >>> tile_to_mma_shape(Layout((8, 64), (64, 1)), ((96, 16), 1, 6))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: atom (8,64):(64,1) does not tile shape (96,96): its mode 1 has 64 coordinates, \
which do not divide 96

    mma_tile_shape is `partition_shape_A` or `_B`; order says which mode is filled first, by default the first.
    """
    if rank(mma_tile_shape) < 3 or rank(mma_tile_shape[0]) != 2:
        raise LayoutError(f"{to_text(mma_tile_shape)} is no operand's shape, ((M, K), more of M, more of K, ...)")
    inside: tuple[IntTuple, ...] = modes(mma_tile_shape[0])
    shape: list[Any] = [product(pair) for pair in zip(inside, mma_tile_shape[1:3], strict=True)]
    shape += mma_tile_shape[3:]
    whole = tile_to_shape(atom, tuple(shape), tuple(range(len(shape))) if order is None else order)
    tiled = coalesce(whole, (1,) * len(shape))
    return on_outer(tiled, lambda outer: tiled_divide(outer, tuple(map(product, inside))))
