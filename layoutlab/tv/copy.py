"""Tiled copies: one copy instruction dealt out over threads and values of a tile.

>>> from layoutlab.tv.instructions import make_copy_atom
>>> atom = make_copy_atom("universal", "f16", num_bits_per_copy=128)
>>> copy = make_tiled_copy_tv(atom, Layout((16, 16)), Layout((8, 1)))
>>> print(copy)
Tiled Copy
  Tiler MN:        (128:1,16:1)
  TV Layout tiled: (256,8):(8,1)
Copy Atom
  ThrID:           1:0
  TV Layout Src:   (1,8):(0,1)
  TV Layout Dst:   (1,8):(0,1)
  Value type:      f16
>>> copy.get_slice(9).partition_S(Layout((128, 32)))
72 o ((8,1),1,2):((1,0),0,2048)

A tiled copy is three maps: the tiler cuts a tile out of each mode of a tensor, `tv` numbers the tile's elements by
(thread, value), and the atom says what each side of the instruction makes of that. `tv` is written for the side whose
(thread, value) order the atom's `ref` has: registers for ldmatrix and stmatrix, Tensor Memory for tcgen05.ld and st.

Source: CUTLASS include/cute/atom/copy_atom.hpp (TiledCopy, ThrCopy, make_tiled_copy, make_cotiled_copy).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

from layoutlab.algebra import (
    coalesce,
    composition,
    filter,
    left_inverse,
    logical_product,
    raked_product,
    right_inverse,
    zipped_divide,
)
from layoutlab.algebra.structure import L, layout_of, on_outer
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import idx2crd, modes, product, to_text
from layoutlab.layout import Layout, make_layout
from layoutlab.survey import Undecided, coverage, number
from layoutlab.swizzle import ComposedLayout
from layoutlab.text import bits_of, records
from layoutlab.text.records import Tiler, tiler_text
from layoutlab.tv.division import Partitioned, divided, outer_of, thread_part, zipped


@dataclass(frozen=True, repr=False)
class CopyAtom(records.CopyAtom):
    """One copy instruction, and the side (`ref`) that the (thread, value) layout of a tiled copy is written for.

    Prints as CuTe DSL does, which leaves `ref` out: `parse(str(atom)) == atom.record()`.
    """

    ref: Layout

    def text(self, width: int) -> str:
        """The block with its names padded to a width."""
        return self.record().text(width)

    def record(self) -> records.CopyAtom:
        """What a reader of the printed text knows."""
        return records.CopyAtom(self.thr, self.src, self.dst, None, self.value_type)

    @property
    def threads(self) -> int:
        """Threads that execute it together."""
        return number(self.ref[0].size())

    @property
    def values(self) -> int:
        """Values of one thread on the side that `ref` is."""
        return number(self.ref[1].size())


@dataclass(frozen=True, repr=False)
class TiledCopy(records.TiledCopy):
    """A copy of a tile by many threads; `tv` is (thread, value) -> flat index of the tile.

    Refuses a `tv` that leaves the tile or leaves some of it out. Prints as CuTe DSL does:
    `parse(str(copy)) == copy.record()`.
    """

    atom: CopyAtom

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_tile(self)

    def record(self) -> records.TiledCopy:
        """What a reader of the printed text knows."""
        return records.TiledCopy(self.tiler, self.tv, self.atom.record())

    @property
    def size(self) -> int:
        """Threads of the copy."""
        return number(self.tv[0].size())

    @property
    def layout_tv_tiled(self) -> Layout:
        """(T, V) -> flat index of the tile, of the side that the atom's `ref` is."""
        return self.tv

    @property
    def layout_src_tv_tiled(self) -> Layout:
        """(T, V) -> flat index of the tile, of the source: which thread reads what.

        >>> from layoutlab.tv.instructions import make_copy_atom
        >>> atom = make_copy_atom("universal", "f32", num_bits_per_copy=64)
        >>> make_tiled_copy_tv(atom, Layout((4, 2)), Layout((1, 2))).layout_src_tv_tiled
        ((4,2),(2,1)):((1,8),(4,0))
        """
        return self._side_tv(self.atom.src)

    @property
    def layout_dst_tv_tiled(self) -> Layout:
        """(T, V) -> flat index of the tile, of the destination: which thread writes what."""
        return self._side_tv(self.atom.dst)

    def get_slice(self, thr_idx: int) -> ThrCopy:
        """The copy as one thread sees it."""
        return ThrCopy(self, thr_idx)

    def retile(self, registers: L) -> L:
        """The registers of another partition, (V, M, N...), in the order in which this copy takes them.

        >>> from layoutlab.tv.instructions import make_copy_atom
        >>> atom = make_copy_atom("universal", "f16", num_bits_per_copy=32)
        >>> copy = make_tiled_copy_tv(atom, Layout((8, 4)), Layout((1, 4)))
        >>> copy.retile(Layout((4, 2, 1)))
        ((2,2),2,1):((1,2),4,0)
        """
        return on_outer(registers, self._retiled)

    def _retiled(self, layout: Layout) -> Layout:
        values = number(layout[0].size())
        shape = tuple(product(m) for m in modes(_shape_of(self.tiler)))
        order = _shaped(right_inverse(self.tv), shape)
        of_value = _quotient(order, self.size * values)  # (m,n) -> which group of V values of its thread
        inside = logical_product(Layout(values), right_inverse(of_value))
        atom_values = zipped_divide(inside, Layout(self.atom.values))  # (atom's values, rest) -> (v,m,n)
        tile = (Layout(values), *(Layout(m.size()) for m in of_value))
        cut = divided(layout, tile, "retiled copy")
        return make_layout(composition(cut.tile, atom_values), *list(cut.rest)[1:])

    def _side_tv(self, side: Layout) -> Layout:
        tile = Layout((_shape_of(self.tiler), 1))
        threads, values = _threads_values(self, side, tile[0])
        return make_layout(threads, values)


@dataclass(frozen=True)
class ThrCopy:
    """One thread's view of a tiled copy."""

    tiled_copy: TiledCopy
    thr_idx: int

    def __post_init__(self) -> None:
        if not 0 <= self.thr_idx < self.tiled_copy.size:
            raise LayoutError(
                f"the copy has threads 0 to {self.tiled_copy.size - 1}, there is no thread {self.thr_idx}"
            )

    def partition_S(self, tensor: Partitioned) -> ComposedLayout:
        """What this thread reads of a tensor: ((atom's values, more), rest of M, rest of N...).

        >>> from layoutlab.tv.instructions import make_copy_atom
        >>> copy = make_tiled_copy_tv(make_copy_atom("universal", "f32"), Layout((8, 8)), Layout((1, 1)))
        >>> from layoutlab.swizzle import Swizzle
        >>> smem = ComposedLayout(Swizzle(4, 0, 6), 0, Layout((64, 16)))
        >>> copy.get_slice(9).partition_S(smem)
        S<4,0,6> o 65 o ((1,1),8,2):((0,0),8,512)

        A swizzle and an offset stay where they are; coordinates come out as coordinates.
        """
        return self._partition(tensor, self.tiled_copy.atom.src)

    def partition_D(self, tensor: Partitioned) -> ComposedLayout:
        """What this thread writes of a tensor."""
        return self._partition(tensor, self.tiled_copy.atom.dst)

    def retile(self, registers: L) -> L:
        """`TiledCopy.retile`: the registers are the same for each thread."""
        return self.tiled_copy.retile(registers)

    def _partition(self, tensor: Partitioned, side: Layout) -> ComposedLayout:
        cut = divided(outer_of(tensor), self.tiled_copy.tiler, "copy")
        try:
            threads, values = _threads_values(self.tiled_copy, side, cut.tile)
        except LayoutError as why:
            part = f"one thread's part of {outer_of(tensor)}{self._hint(tensor, side)}"
            raise LayoutError(f"no layout is {part}: {why}") from None
        return thread_part(tensor, self.thr_idx, threads, values, cut.rest)

    def _hint(self, tensor: Partitioned, side: Layout) -> str:
        """Which mode's runs are too long to be dealt out, and how long ones fit."""
        layout = outer_of(tensor)
        for mode, part in enumerate(layout):
            first, *jumps = (extent for extent, _ in coalesce(part).leaves())
            fitting = number(first) // 2
            while jumps and fitting > 1:
                if self._fits(layout, mode, fitting, side):
                    return (
                        f"; its mode {mode} runs {first} elements{self._atom_of(first)} and jumps, "
                        f"runs of {fitting}{self._atom_of(fitting)} would fit"
                    )
                fitting //= 2
        return ""

    def _atom_of(self, run: Any) -> str:
        """The shared-memory layout atom whose rows are so long."""
        bits = bits_of(self.tiled_copy.atom.value_type)
        width = run * bits // 8 if bits else 0
        return f" (SW{width}'s rows)" if width in (32, 64, 128) else ""

    def _fits(self, layout: Layout, mode: int, run: int, side: Layout) -> bool:
        """Whether the copy deals out a tensor of this shape whose one mode jumps after each run."""
        size, far = number(layout[mode].size()), number(layout.size()) + 1
        jumping = Layout((run, size // run), (far, far * far))
        others = [jumping if i == mode else Layout(part.size(), far**3 * (i + 1)) for i, part in enumerate(layout)]
        try:
            _threads_values(self.tiled_copy, side, divided(make_layout(*others), self.tiled_copy.tiler, "copy").tile)
        except LayoutError:
            return False
        return True


def _threads_values(copy: TiledCopy, side: Layout, tile: Layout) -> tuple[Layout, Layout]:
    """Threads and values of one side of the instruction over a tile."""
    atom = copy.atom
    ref_to_side = composition(right_inverse(atom.ref), side)  # (T,V) of the side -> flat (T,V) of `ref`
    cut = zipped_divide(copy.tv, (atom.threads, atom.values))
    tv = zipped(make_layout(composition(cut[0], ref_to_side), cut[1]))  # ((T, rest), (V, rest)) -> element of the tile
    found = composition(tile, coalesce(tv, (1, (1, 1))))
    return found[0], found[1]


# -- making them ------------------------------------------------------------------------------------------------------


def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """The tile that threads and values side by side make, and its (thread, value) layout.

    >>> make_layout_tv(Layout((4, 3), (3, 1)), Layout((2, 2)))
    ((8, 6), ((3,4),(2,2)):((16,2),(1,8)))

    Each thread has a block of neighbouring elements, the values in the order of `val_layout`.
    """
    together = raked_product(thr_layout, val_layout)
    tv = _shaped(right_inverse(together), (thr_layout.size(), val_layout.size()))
    return tuple(number(m.size()) for m in together), tv


def make_tiled_copy(atom: CopyAtom, layout_tv: Layout, tiler_mn: Tiler) -> TiledCopy:
    """The copy with a (thread, value) layout over a tile: `layout_tv` gives flat tile coordinates, no memory offsets.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> make_tiled_copy(make_copy_atom("universal", "f32"), Layout((32, 4), (4, 1)), (4, 16))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: TV layout (32,4):(4,1) leaves the tile (4:1,16:1) of 64 elements: T16 V0 is given \
number 64. It has to give coordinates of the tile, the first mode fastest; memory offsets belong to make_cotiled_copy
    """
    return TiledCopy(sized_tiler(tiler_mn), layout_tv, atom)


def make_tiled_copy_tv(atom: CopyAtom, thr_layout: Layout, val_layout: Layout) -> TiledCopy:
    """The copy in which threads lie as `thr_layout` says and each moves a block of values, as `val_layout` says."""
    tiler, tv = make_layout_tv(thr_layout, val_layout)
    return make_tiled_copy(atom, tv, tiler)


def make_cotiled_copy(atom: CopyAtom, atom_layout_tv: Layout, data_layout: Layout) -> TiledCopy:
    """The copy whose (thread, value) layout gives memory offsets, in the units of `data_layout`.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> data = Layout((128, (64, 2)), (64, (1, 8192)))
    >>> copy = make_cotiled_copy(make_copy_atom("universal", "bf16"), composition(data, Layout((128, 128))), data)
    >>> copy.get_slice(1).partition_D(data)
    64 o ((1,(64,2)),1,1):((0,(1,8192)),0,0)

    Refuses offsets that the data layout does not have.
    """
    inverse = make_layout(left_inverse(data_layout), Layout(1, 0))
    coords = composition(inverse, atom_layout_tv)  # (T,V) -> flat coordinate of the data
    _check_offsets(atom_layout_tv, coords, data_layout)
    extents = tuple(product(m) for m in modes(data_layout.shape))
    parts = []
    for mode in range(len(extents)):
        units = tuple(int(i == mode) for i in range(len(extents)))
        parts.append(filter(composition(Layout(extents, units), coords)))
    tiler = tuple(parts)
    tile = composition(Layout(extents), tiler)  # flat index of the tile -> flat coordinate of the data
    return TiledCopy(tiler, composition(left_inverse(tile), coords), atom)


def make_tiled_copy_S(atom: CopyAtom, tiled_copy: TiledCopy) -> TiledCopy:
    """A copy by another instruction whose registers are another copy's source."""
    return TiledCopy(tiled_copy.tiler, tiled_copy.layout_src_tv_tiled, atom)


def make_tiled_copy_D(atom: CopyAtom, tiled_copy: TiledCopy) -> TiledCopy:
    """A copy by another instruction whose registers are another copy's destination: what stores what was loaded.

    >>> from layoutlab.tv.instructions import make_copy_atom
    >>> load = make_tiled_copy_tv(make_copy_atom("ldmatrix.m8n8.x4", "f16"), Layout((32, 1)), Layout((1, 8)))
    >>> make_tiled_copy_D(make_copy_atom("universal", "f16"), load).tv == load.layout_dst_tv_tiled
    True
    """
    return TiledCopy(tiled_copy.tiler, tiled_copy.layout_dst_tv_tiled, atom)


# -- what they have to be ---------------------------------------------------------------------------------------------


def _check_tile(copy: TiledCopy) -> None:
    """Refuses a (thread, value) layout that leaves its tile or leaves some of it out."""
    tv, shape = copy.tv, _shape_of(copy.tiler)
    for mode, (what, need) in enumerate((("threads", copy.atom.threads), ("values a thread", copy.atom.values))):
        have = tv[mode].size()
        if isinstance(have, int) and have % need:
            raise LayoutError(
                f"the tile {tiler_text(copy.tiler)} has {have} {what}, and one instruction takes {need}: "
                f"an instruction of {gcd(have, need)}, or a tile of {lcm(have, need) // have} times as many, fits"
            )
    total = product(shape)
    if tv.symbolic() or not isinstance(total, int):
        return
    try:
        found = coverage(tv, total)
    except Undecided:
        return
    threads = copy.size
    if found.outside is not None:
        t, v = found.outside % threads, found.outside // threads
        raise LayoutError(
            f"TV layout {tv} leaves the tile {tiler_text(copy.tiler)} of {total} elements: T{t} V{v} is given number "
            f"{tv(found.outside)}. It has to give coordinates of the tile, the first mode fastest; memory offsets "
            "belong to make_cotiled_copy"
        )
    if found.missed is not None:
        place = idx2crd(found.missed, tuple(product(m) for m in modes(shape)))
        raise LayoutError(
            f"TV layout {tv} leaves out {total - found.taken} of the {total} elements of the tile "
            f"{tiler_text(copy.tiler)}, the first is {to_text(place)}: no thread would move them"
        )


def _check_offsets(offsets: Layout, coords: Layout, data: Layout) -> None:
    """Refuses offsets that the data layout does not go to."""
    there, size = composition(data, coords), number(data.size())
    if coalesce(there) == coalesce(offsets) and number(coords.cosize()) <= size:
        return
    for i in range(number(offsets.size())):
        if coords(i) >= size or there(i) != offsets(i):
            t, v = i % number(offsets[0].size()), i // number(offsets[0].size())
            raise LayoutError(f"T{t} V{v} is given offset {offsets(i)}, which {data} does not have")


def sized_tiler(tiler: Tiler) -> Tiler:
    """The tiler with a layout for each size: as CuTe DSL prints it."""
    if isinstance(tiler, tuple):
        return tuple(map(sized_tiler, tiler))
    return Layout(tiler, 0 if tiler == 1 else 1) if isinstance(tiler, int) else tiler


def _quotient(layout: Layout, unit: int) -> Layout:
    """(m,n) -> layout(m,n) // unit, where each digit of the values lies below or above the unit.

    >>> _quotient(Layout((8, 4), (4, 32)), 64)
    (1,2):(0,1)
    """

    def leaf(shape: int, stride: int) -> Layout:
        below = unit // stride if stride and stride < unit else 1
        if stride and (max(unit, stride) % min(unit, stride) or max(shape, below) % min(shape, below)):
            raise LayoutError(f"values of {unit} cannot be taken together: {layout} steps by {stride}, {shape} times")
        left = shape // below if below < shape else 1
        return Layout(left, max(1, stride // unit) if left > 1 and stride else 0)

    return make_layout(*(coalesce(layout_of([leaf(*pair) for pair in mode.leaves()])) for mode in layout))


def _shape_of(tiler: Tiler) -> Any:
    return tuple(map(_shape_of, tiler)) if isinstance(tiler, tuple) else getattr(tiler, "shape", tiler)


def _shaped(layout: Layout, shape: Any) -> Layout:
    """The same function of flat indices, with this shape."""
    return composition(layout, Layout(shape))
