"""Tiled MMAs: one MMA instruction dealt out over threads and over the tile of a block.

>>> from layoutlab.atoms.mma import mma_sync
>>> from layoutlab.tv.instructions import mma_atom
>>> mma = make_tiled_mma(mma_atom(mma_sync(16, 8, 16, "f16", "f32")), (2, 2, 1), (32, 32, 16))
>>> print(str(mma).partition("MMA Atom")[0].rstrip())
Tiled MMA
  Thr Layout VMNK: (32,2,2,1):(1,32,64,0)
  Permutation MNK: (32:1,32:1,16:1)
>>> mma.get_slice(5).partition_C(Layout((64, 64)))
129 o ((2,2),2,4):((64,8),32,1024)

`thr` is (V, M, N, K) -> thread: V the threads of one instruction, M, N, K the instructions beside each other. A
permutation cuts each mode of the tensors first, in its own order; `_` leaves a mode alone.

Source: CUTLASS include/cute/atom/mma_atom.hpp (TiledMMA, ThrMMA, make_tiled_mma, partition_shape_*).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from layoutlab.algebra import append_ones, composition, logical_divide, right_inverse, tiled_product, zipped_divide
from layoutlab.atoms.descriptors import Major, SwizzleMode
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import IntTuple, product
from layoutlab.layout import Layout, make_layout
from layoutlab.survey import number
from layoutlab.swizzle import ComposedLayout
from layoutlab.text import records
from layoutlab.text.records import Tiler
from layoutlab.tv.copy import CopyAtom, TiledCopy, sized_tiler
from layoutlab.tv.division import Partitioned, check_divides, outer_of, thread_part
from layoutlab.tv.views import descriptor_view, operand_of

Operand = Literal["A", "B", "C"]

_MODES: dict[str, tuple[int, int]] = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}
"""Which of M, N, K are an operand's two modes."""


@dataclass(frozen=True)
class Fields:
    """What an instruction has to be told of an operand in shared memory: its major and its swizzle."""

    major: Major
    swizzle: SwizzleMode


@dataclass(frozen=True, repr=False)
class MmaAtom(records.MmaAtom):
    """One MMA instruction; prints as CuTe DSL does."""

    def layout(self, operand: Operand) -> Layout:
        """(thread, value) -> flat index of an operand's tile."""
        return {"A": self.a, "B": self.b, "C": self.c}[operand]

    def fragment(self, operand: Operand, part: Any, bits: int) -> Layout:
        """The registers of a part of an operand, one after the other; or the descriptors of one in shared memory."""
        side = self.layout(operand)[0]
        if side.size() != 1 and all(stride == 0 for _, stride in side.leaves()):
            found = self.descriptors(operand, part)
            if found.swizzle == "128_32b" or (found.major == "MN" and self.operand_bits != 16):
                raise LayoutError(
                    f"wgmma reads {self.operand_bits}-bit operands K-major and 16-bit ones both ways, with swizzles of "
                    f"0, 32, 64 and 128 bytes: not {found.major}-major with {found.swizzle}"
                )
            return descriptor_view(part, self.operand_bits)
        if isinstance(part, (Layout, ComposedLayout, records.Tensor)):
            raise LayoutError(f"{operand} is in registers: its fragment is made of a shape, that of {part}")
        return Layout(part)

    @property
    def operand_bits(self) -> int:
        """The width of A's and B's elements: an instruction takes 32 bytes of K."""
        return 256 // number(product(self.shape_mnk[2]))  # type: ignore[index]

    def descriptors(self, operand: Operand, part: Any) -> Fields:
        """The descriptor of an operand's first instruction; refuses parts that are no instruction's of this MMA."""
        if not isinstance(part, (Layout, ComposedLayout, records.Tensor)):
            raise LayoutError(
                f"{operand} is read from shared memory by descriptors and has no registers: a layout of shared memory, "
                "as the MMA partitions it, has a view of descriptors"
            )
        outer = outer_of(part)
        have, need = outer[0].size(), self.layout(operand)[1].size()
        if have != need:
            raise LayoutError(f"{outer} has {have} elements for an instruction, and {operand} of this MMA has {need}")
        found = operand_of(part, self.operand_bits)
        return Fields(found.major, found.descriptor.swizzle)

    def record(self) -> records.MmaAtom:
        """What a reader of the printed text knows."""
        return records.MmaAtom(self.thr, self.shape_mnk, self.a, self.b, self.c)


@dataclass(frozen=True, repr=False)
class TiledMma(records.TiledMma):
    """An MMA by many threads over a tile; prints as CuTe DSL does: `parse(str(mma)) == mma.record()`."""

    atom: MmaAtom

    def record(self) -> records.TiledMma:
        """What a reader of the printed text knows."""
        return records.TiledMma(self.thr, self.permutation, self.atom.record())

    @property
    def size(self) -> int:
        """Threads of the MMA."""
        return number(self.thr.size())

    def get_tile_size(self, mode: int) -> int:
        """The extent of the tile in M (0), N (1) or K (2).

        >>> from layoutlab.tv.umma import tcgen05_mma
        >>> [make_tiled_mma(tcgen05_mma(128, 64)).get_tile_size(i) for i in range(3)]
        [128, 64, 16]
        """
        entry = self.permutation[mode] if isinstance(self.permutation, tuple) else None
        if entry is not None:
            return number(entry.size() if isinstance(entry, Layout) else product(entry))
        return number(product(self._atom_extent(mode))) * number(self.thr[1 + mode].size())

    @property
    def tv_layout_A_tiled(self) -> Layout:
        """(T, V) -> m + M k of the tile: who holds which element of A."""
        return self.tv_layout("A")

    @property
    def tv_layout_B_tiled(self) -> Layout:
        """(T, V) -> n + N k of the tile."""
        return self.tv_layout("B")

    @property
    def tv_layout_C_tiled(self) -> Layout:
        """(T, V) -> m + M n of the tile."""
        return self.tv_layout("C")

    def tv_layout(self, operand: Operand) -> Layout:
        """(T, V) -> flat index of the operand's tile.

        >>> from layoutlab.atoms.mma import mma_sync
        >>> from layoutlab.tv.instructions import mma_atom
        >>> make_tiled_mma(mma_atom(mma_sync(16, 8, 8, "f16", "f32")), (1, 2, 1)).tv_layout("A")
        ((4,8,2),((2,2),(1,1))):((32,1,0),((16,8),(0,0)))
        """
        modes = _MODES[operand]
        threads, values, rest = self._divided(Layout(tuple(self.get_tile_size(m) for m in modes)), operand)
        shared = next(m for m in range(3) if m not in modes)
        # (V, M, N, K) -> (V, (first mode, second mode)): the mode that is not the operand's does not move it
        picked = self._operand_threads(threads, operand, shared)
        by_thread = composition(picked, right_inverse(self.thr))
        return make_layout(by_thread, make_layout(values, rest) if rest.rank() else values)

    def get_slice(self, thr_idx: int) -> ThrMma:
        """The MMA as one thread sees it; for tcgen05.mma, as one CTA of the group does."""
        return ThrMma(self, thr_idx)

    def partition_shape_A(self, shape: IntTuple) -> Any:
        """The shape of one thread's part of A: (V, rest of M, rest of K)."""
        return self._partition_shape(shape, "A")

    def partition_shape_B(self, shape: IntTuple) -> Any:
        """The shape of one thread's part of B: (V, rest of N, rest of K)."""
        return self._partition_shape(shape, "B")

    def partition_shape_C(self, shape: IntTuple) -> Any:
        """The shape of one thread's part of C: (V, rest of M, rest of N).

        >>> from layoutlab.tv.umma import tcgen05_mma
        >>> make_tiled_mma(tcgen05_mma(128, 64)).partition_shape_C((128, 128))
        ((128, 64), 1, 2)
        """
        return self._partition_shape(shape, "C")

    def make_fragment_A(self, part: IntTuple | Partitioned) -> Layout:
        """Where one thread's part of A is held: its registers, or Tensor Memory, for `partition_shape_A`'s shape.

        >>> from layoutlab.swizzle import Swizzle
        >>> from layoutlab.tv.umma import tcgen05_mma
        >>> sA = ComposedLayout(Swizzle(3, 4, 3), 0, Layout(((128, 16), 1, (4, 2)), ((64, 1), 0, (16, 8192))))
        >>> make_tiled_mma(tcgen05_mma(128, 64)).make_fragment_A(sA)
        (1,1,(4,2)):(0,0,(2,1024))

        An A that is read from shared memory takes the layout of that part and has a view of descriptors, in 16-byte
        units (`layoutlab.tv.views`).
        """
        return self.atom.fragment("A", part, 0)

    def make_fragment_B(self, part: IntTuple | Partitioned) -> Layout:
        """Where one thread's part of B is held: its registers, or for a layout of shared memory its descriptors."""
        return self.atom.fragment("B", part, 0)

    def make_fragment_C(self, shape: IntTuple, bits: int = 32) -> Layout:
        """Where one thread's part of C is held: its registers; of tcgen05.mma, addresses of Tensor Memory.

        >>> from layoutlab.tv.umma import tcgen05_mma
        >>> mma = make_tiled_mma(tcgen05_mma(128, 64))
        >>> mma.make_fragment_C(mma.partition_shape_C((256, 64)))
        ((128,64),2,1):((65536,1),64,0)

        Units: elements of a Tensor Memory pointer to `bits` bits, one to a 32-bit column.
        """
        return self.atom.fragment("C", shape, bits)

    def _partition_shape(self, shape: IntTuple, operand: Operand) -> Any:
        values, *rest = self.get_slice(0)._partition(Layout(shape), operand).outer
        return (values.shape, *(product(m.shape) for m in rest))

    def _atom_extent(self, mode: int) -> IntTuple:
        return self.atom.shape_mnk[mode]  # type: ignore[index]

    def _divided(self, layout: Layout, operand: Operand) -> tuple[Layout, Layout, Layout]:
        """(ThrV, (Thr, Thr)) -> location, V -> location, and the rest of both modes (and the further ones)."""
        modes = _MODES[operand]
        tile = tuple(self.permutation[m] if isinstance(self.permutation, tuple) else None for m in modes)
        ordered = logical_divide(layout, tile)
        atom = tuple(Layout(self._atom_extent(m)) for m in modes)
        cut = zipped_divide(ordered, atom)
        tv = composition(cut[0], self.atom.layout(operand))
        counts = tuple(Layout(self.thr[1 + m].size()) for m in modes)
        threads, rest = zipped_divide(cut[1], counts)
        for i, m in enumerate(modes):
            span = number(product(self._atom_extent(m))) * number(self.thr[1 + m].size())
            check_divides(f"MMA's {operand}", i, span, rest[i].size(), layout[i].size())
        return make_layout(tv[0], threads), tv[1], rest

    def _operand_threads(self, threads: Layout, operand: Operand, shared: int) -> Layout:
        parts: list[Layout] = [threads[0]]
        beside = dict(zip(_MODES[operand], threads[1], strict=True))
        for m in range(3):
            parts.append(Layout(self.thr[1 + m].shape, 0) if m == shared else beside[m])
        return make_layout(*parts)


@dataclass(frozen=True)
class ThrMma:
    """One thread's view of a tiled MMA."""

    tiled_mma: TiledMma
    thr_idx: int

    def __post_init__(self) -> None:
        if not 0 <= self.thr_idx < self.tiled_mma.size:
            raise LayoutError(f"the MMA has threads 0 to {self.tiled_mma.size - 1}, there is no thread {self.thr_idx}")

    def partition_A(self, tensor: Partitioned) -> ComposedLayout:
        """This thread's part of A: (V, rest of M, rest of K, ...)."""
        return self._partition(tensor, "A")

    def partition_B(self, tensor: Partitioned) -> ComposedLayout:
        """This thread's part of B: (V, rest of N, rest of K, ...)."""
        return self._partition(tensor, "B")

    def partition_C(self, tensor: Partitioned) -> ComposedLayout:
        """This thread's part of C: (V, rest of M, rest of N, ...)."""
        return self._partition(tensor, "C")

    def _partition(self, tensor: Partitioned, operand: Operand) -> ComposedLayout:
        threads, values, rest = self.tiled_mma._divided(outer_of(tensor), operand)
        v, *mnk = self._coordinate()
        at = (v, tuple(mnk[m] for m in _MODES[operand]))
        return thread_part(tensor, at, threads, values, rest)

    def _coordinate(self) -> list[int]:
        """(V, M, N, K) of the thread."""
        return [self.thr_idx // d % s if d else 0 for s, d in _four(self.tiled_mma.thr)]


def _four(thr: Layout) -> list[tuple[int, int]]:
    found = [mode.leaves() for mode in thr]
    if any(len(leaves) != 1 for leaves in found):
        raise LayoutError(f"Thr Layout VMNK {thr} nests its modes: their threads are no numbers")
    return [leaves[0] for leaves in found]


def make_tiled_mma(
    atom: MmaAtom, atom_layout_mnk: Layout | tuple[int, ...] = (1, 1, 1), permutation_mnk: Tiler = (None, None, None)
) -> TiledMma:
    """The MMA with instructions beside each other in M, N and K, on tensors cut by a permutation.

    >>> from layoutlab.tv.umma import tcgen05_mma
    >>> make_tiled_mma(tcgen05_mma(256, 128, cta_group=2)).thr
    (2,1,1,1):(1,0,0,0)
    """
    beside = atom_layout_mnk if isinstance(atom_layout_mnk, Layout) else Layout(atom_layout_mnk)
    thr = tiled_product(atom.thr, append_ones(beside, 3))
    entries = permutation_mnk if isinstance(permutation_mnk, tuple) else (permutation_mnk, None, None)
    return TiledMma(thr, tuple(map(sized_tiler, entries)), atom)


def make_tiled_copy_A(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """The copy of A into the registers of the MMA's threads.

    >>> from layoutlab.atoms.mma import mma_sync
    >>> from layoutlab.tv.instructions import make_copy_atom, mma_atom
    >>> mma = make_tiled_mma(mma_atom(mma_sync(16, 8, 16, "f16", "f32")), (2, 2, 1), (32, 32, 16))
    >>> make_tiled_copy_A(make_copy_atom("ldmatrix.m8n8.x4", "f16"), mma).tiler
    (32:1, 16:1)
    """
    return _operand_copy(atom, tiled_mma, "A")


def make_tiled_copy_B(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """The copy of B into the registers of the MMA's threads."""
    return _operand_copy(atom, tiled_mma, "B")


def make_tiled_copy_C(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """The copy of C from or into the registers of the MMA's threads."""
    return _operand_copy(atom, tiled_mma, "C")


def _operand_copy(atom: CopyAtom, mma: TiledMma, operand: Operand) -> TiledCopy:
    tiler = tuple(mma.get_tile_size(m) for m in _MODES[operand])
    return TiledCopy(sized_tiler(tiler), mma.tv_layout(operand), atom)


def as_tiled_mma(mma: records.TiledMma) -> TiledMma:
    """A printed tiled MMA as one that partitions."""
    if isinstance(mma, TiledMma):
        return mma
    a = mma.atom
    return TiledMma(mma.thr, mma.permutation, MmaAtom(a.thr, a.shape_mnk, a.a, a.b, a.c))
