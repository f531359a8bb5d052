"""Records: what a kernel prints besides layouts, as frozen values that print as CuTe DSL prints them.

>>> print(Tensor(Pointer("bf16", 16, "smem", 1024, Swizzle(3, 4, 3, 8)), Layout((8, 64), (64, 1))))
tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import IntTuple, flatten, rank, to_text
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

Tiler: TypeAlias = Any
"""A layout, an integer, None (printed `_`), or a tuple of them: how a copy or an MMA cuts its tile out of a tensor."""


def tiler_text(tiler: Tiler) -> str:
    """As CuTe DSL prints it.

    >>> tiler_text((Layout((128, 32), (32, 1)), None, 16))
    '((128,32):(32,1),_,16)'
    """
    if isinstance(tiler, tuple):
        return f"({','.join(map(tiler_text, tiler))})"
    return "_" if tiler is None else to_text(tiler)


def check_tiler(name: str, tiler: Tiler) -> None:
    """Refuses what is no tiler: layouts of numbers, positive sizes or `_`, one a mode."""
    for entry in tiler if isinstance(tiler, tuple) else (tiler,):
        plain = isinstance(entry, Layout) and not entry.coordinate_valued()
        sizes = not isinstance(entry, (Layout, ComposedLayout, Swizzle)) and flatten(entry)
        if not (entry is None or plain or (sizes and all(isinstance(s, int) and s > 0 for s in sizes))):
            raise LayoutError(f"{name}: {tiler_text(tiler)} is no tiler, whose modes are layouts, sizes or _")


def check_tv(name: str, tv: Layout) -> None:
    """Refuses what is no (thread, value) layout: two modes, whose values number the elements of a tile."""
    if tv.rank() != 2 or not isinstance(tv.shape, tuple):
        raise LayoutError(f"{name}: {tv} is no (thread, value) layout, it has not two modes but {tv.rank()}")
    if tv.coordinate_valued():
        raise LayoutError(f"{name}: {tv} gives coordinates, where a (thread, value) layout numbers elements")


@dataclass(frozen=True, repr=False)
class Pointer:
    """A pointer: its element type and width in bits, memory space, alignment in bytes, and the swizzle of its bytes.

    `dtype` is CuTe DSL's name; C++ prints the width only. `address` is the text of the address, where it was printed.
    """

    dtype: str | None
    bits: int
    space: str | None
    align_bytes: int | None = None
    swizzle: Swizzle | None = None
    address: str | None = None

    def __str__(self) -> str:
        swizzle = "" if self.swizzle is None else f"S<{self.swizzle.bits},{self.swizzle.base},{self.swizzle.shift}>"
        if self.dtype is None:
            space = "" if self.space is None else f"{self.space}_"
            return f"{swizzle and f'Sw{swizzle[1:]}_'}{space}ptr[{self.bits}b]{self.address or ''}"
        align = "" if self.align_bytes is None else f"align<{self.align_bytes}>"
        fields = ", ".join(part for part in (self.dtype, self.space or "", align, swizzle) if part)
        return f"ptr<{fields}>" if self.address is None else f"raw_ptr({self.address[1:-1]}: {fields})"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Opaque:
    """An iterator of which only the printed text is known, such as a descriptor's or a compiler value."""

    text: str

    @property
    def descriptors(self) -> bool:
        """Whether it runs over shared memory descriptors, so that its steps count 16-byte units."""
        return "smem_desc" in self.text or "DescriptorIterator" in self.text

    @property
    def space(self) -> str | None:
        """The memory, where the text is an address and its memory, 0x7f00@gmem."""
        address, _, space = self.text.partition("@")
        return space if address.startswith("0x") and space else None

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Tensor:
    """A pointer and the layout of what it points to, in elements.

    A coordinate tensor is no such record but a `ComposedLayout` without an inner function: `(0,0) o (4,8):(1@0,1@1)`.
    """

    iterator: Pointer | Opaque
    layout: Layout | ComposedLayout

    def swizzled_layout(self) -> Layout | ComposedLayout:
        """The layout with the pointer's swizzle of bytes composed onto it, from a base that the swizzle leaves alone.

        >>> Tensor(Pointer("bf16", 16, "smem", 1024, Swizzle(3, 4, 3, 8)), Layout((8, 64), (64, 1))).swizzled_layout()
        S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)
        """
        if isinstance(self.iterator, Opaque) or self.iterator.swizzle is None:
            return self.layout
        if isinstance(self.layout, ComposedLayout):
            raise LayoutError(f"{self}: two swizzles, the pointer's and the layout's, are no single layout")
        return ComposedLayout(self.iterator.swizzle, 0, self.layout, self.iterator.bits)

    def __str__(self) -> str:
        plain = f"{self.iterator} o {self.layout}"
        return plain if isinstance(self.iterator, Pointer) and self.iterator.dtype is None else f"tensor<{plain}>"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Values:
    """A register value of CuTe DSL, `tensor_value<vector<128xf32> o ((32,1),4)>`: a type and a shape, no addresses."""

    dtype: str
    count: int
    shape: IntTuple

    def __str__(self) -> str:
        return f"tensor_value<vector<{self.count}x{self.dtype}> o {to_text(self.shape)}>"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class CopyAtom:
    """One copy instruction: its threads, and which bits' worth of elements each reads (src) and writes (dst).

    `src` and `dst` are `(thread, value) -> index of the element in the instruction's own order`.
    """

    thr: Layout
    src: Layout
    dst: Layout
    ref: Layout | None
    value_type: str

    def __post_init__(self) -> None:
        for name, tv in (("Src", self.src), ("Dst", self.dst), ("Ref", self.ref)):
            if tv is not None:
                check_tv(f"TV Layout {name}", tv)

    def __str__(self) -> str:
        return self.text(len("TV Layout Src:"))

    def text(self, width: int) -> str:
        """The block with its names padded to a width, which the printer of a tiled copy chooses for both its parts."""
        fields = [("ThrID", self.thr), ("TV Layout Src", self.src), ("TV Layout Dst", self.dst)]
        ref = [] if self.ref is None else [("TV Layout Ref", self.ref)]
        return _block("Copy Atom", [*fields, *ref, ("Value type", self.value_type)], width)

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class TiledCopy:
    """A copy by many threads: `tv` is (thread, value) -> flat index of the tile, `tiler` cuts that from a tensor."""

    tiler: Tiler
    tv: Layout
    atom: CopyAtom

    def __post_init__(self) -> None:
        check_tv("TV Layout tiled", self.tv)
        check_tiler("Tiler MN", self.tiler)

    def __str__(self) -> str:
        fields = [("Tiler MN", self.tiler), ("TV Layout tiled", self.tv)]
        return f"{_block('Tiled Copy', fields)}\n{self.atom.text(_WIDTH)}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class MmaAtom:
    """One MMA instruction: its threads, its (M,N,K), and who owns which element of each operand.

    `a`, `b`, `c` are (thread, value) -> flat index of the (M,K), (N,K) and (M,N) tile.
    """

    thr: Layout
    shape_mnk: IntTuple
    a: Layout
    b: Layout
    c: Layout

    def __post_init__(self) -> None:
        for name, tv in (("A", self.a), ("B", self.b), ("C", self.c)):
            check_tv(f"TV Layout {name}", tv)
        leaves = flatten(self.shape_mnk)
        if rank(self.shape_mnk) != 3 or not all(isinstance(leaf, int) and leaf > 0 for leaf in leaves):
            raise LayoutError(f"Shape MNK: {tiler_text(self.shape_mnk)} is not three sizes, M, N and K")

    def __str__(self) -> str:
        return _block(
            "MMA Atom",
            [
                ("ThrID", self.thr),
                ("Shape MNK", self.shape_mnk),
                ("TV Layout A", self.a),
                ("TV Layout B", self.b),
                ("TV Layout C", self.c),
            ],
        )

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class TiledMma:
    """An MMA repeated over threads and tiles: `thr` is (V,M,N,K) -> thread, `permutation` reorders the tile's modes."""

    thr: Layout
    permutation: Tiler
    atom: MmaAtom

    def __post_init__(self) -> None:
        if self.thr.rank() != 4:
            raise LayoutError(f"Thr Layout VMNK: {self.thr} has not four modes, V, M, N and K, but {self.thr.rank()}")
        check_tiler("Permutation MNK", self.permutation)

    def __str__(self) -> str:
        fields = [("Thr Layout VMNK", self.thr), ("Permutation MNK", self.permutation)]
        return f"{_block('Tiled MMA', fields)}\n{self.atom}"

    __repr__ = __str__


Record: TypeAlias = Pointer | Tensor | Values | CopyAtom | TiledCopy | MmaAtom | TiledMma


_WIDTH = len("TV Layout tiled:")


def _block(title: str, fields: list[tuple[str, Any]], width: int = _WIDTH) -> str:
    shown = [(f"{name}:", value if isinstance(value, str) else tiler_text(value)) for name, value in fields]
    return "\n".join([title, *(f"  {name:<{width}} {value}" for name, value in shown)])
