"""TMA: which bytes of shared memory a tensor copy fills from which elements of a tensor, and what the driver accepts.

A tensor map says how a tensor lies in global memory and how large a box is copied at a time. In shared memory the box
is dense, dimension 0 the fastest, except that with a swizzle a row takes the swizzle's whole width; then address bits
[4, 4+b) are xored with bits [7, 7+b), b = 1, 2, 3 for 32, 64, 128 bytes: the function that matrix descriptors read
with.

>>> half = TensorMap(dims=(96, 64), strides_bytes=(192,), box=(64, 8), element_bits=16, swizzle=128)
>>> half.transaction_bytes, half.box_map()(c0=8, c1=1)         # row 1, second chunk of 16 bytes: 128 + 16, xor 16
(1024, {'bit': 1024})

Out of bounds, a load gives zeros. A store writes whole chunks of 16 bytes: it leaves out a chunk that begins outside
of the tensor, but fills one that begins inside to its end, over whatever lies there between two rows.

Sources: PTX ISA, "Tensors", "cp.async.bulk.tensor"; CUDA driver API, cuTensorMapEncodeTiled. Padding of narrow rows,
the alignment of coordinates and the chunks of a store are as an H200 did them (tests/data/sm90_fragments_h200.json).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from layoutlab.atoms.descriptors import SwizzleMode, pattern_of
from layoutlab.digits import Map, strided_over
from layoutlab.errors import LayoutError
from layoutlab.symbol import at_most

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHUNK = 16  # bytes: the unit of alignment, of swizzling and of a store
SMEM_ALIGN = 128  # bytes


@dataclass(frozen=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled for a tile without interleaving, checked by its rules.

    >>> TensorMap(dims=(100, 64), strides_bytes=(200,), box=(64, 8), element_bits=16)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: the stride of dimension 1 is 200 bytes: not a multiple of 16 bytes, 208 is the next

    dims and box count elements, dimension 0 the fastest; strides_bytes are those of dimensions 1 and on.
    element_strides steps over elements: a box of 8 with a stride of 2 copies 4; dimension 0 has no stride. swizzle
    "128_32b" is SM100's 128 bytes in chunks of 32. Raises LayoutError for what the driver refuses.
    """

    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_bits: int = 16
    swizzle: SwizzleMode = 0
    element_strides: tuple[int, ...] = ()
    base: int = 0

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.dims))
        self._check_ranks()
        self._check_global()
        self._check_box()

    def _check_ranks(self) -> None:
        rank = len(self.dims)
        if not 1 <= rank <= 5:
            raise LayoutError(f"a tensor of {rank} dimensions: TMA has 1 to 5")
        for name, found, right in (
            ("strides_bytes", len(self.strides_bytes), rank - 1),
            ("box", len(self.box), rank),
            ("element_strides", len(self.element_strides), rank),
        ):
            if found != right:
                raise LayoutError(f"{name} has {found} entries: a tensor of {rank} dimensions has {right}")
        if self.element_bits not in (8, 16, 32, 64):
            raise LayoutError(f"{self.element_bits}-bit elements: tensor maps have 8, 16, 32 and 64 bits")
        if self.swizzle not in (0, 32, 64, 128, "128_32b"):
            raise LayoutError(f'swizzle is {self.swizzle!r}: a tensor map has 0, 32, 64, 128 bytes or "128_32b"')

    def _check_global(self) -> None:
        if self.base % CHUNK:
            raise LayoutError(f"the tensor starts at {self.base}: a multiple of 16 bytes is needed")
        for i, dim in enumerate(self.dims):
            if not dim >= 1 or not at_most(dim, 1 << 32, "a tensor's dimension has up to 2^32 elements"):
                raise LayoutError(f"dimension {i} has {dim} elements: 1 to 2^32 are possible")
        for i, stride in enumerate(self.strides_bytes, 1):
            if stride % CHUNK:
                raise LayoutError(
                    f"the stride of dimension {i} is {stride} bytes: not a multiple of 16 bytes, "
                    f"{-(-stride // CHUNK) * CHUNK} is the next"
                )
            if not stride >= 0 or not at_most(stride, (1 << 40) - 1, "a tensor's stride is under 2^40 bytes"):
                raise LayoutError(f"the stride of dimension {i} is {stride} bytes: it has to be under 2^40")

    def _check_box(self) -> None:
        for i, (extent, step) in enumerate(zip(self.box, self.element_strides, strict=True)):
            if not extent >= 1 or not at_most(extent, 256, "a box has up to 256 elements in a dimension"):
                raise LayoutError(f"the box has {extent} elements in dimension {i}: 1 to 256 are possible")
            if not 1 <= step <= 8:
                raise LayoutError(f"the element stride of dimension {i} is {step}: 1 to 8 are possible")
        if self.element_strides[0] != 1:
            raise LayoutError(
                f"the element stride of dimension 0 is {self.element_strides[0]}: it is not read, write 1"
            )
        inner = self.row_bytes
        if inner % CHUNK:
            raise LayoutError(f"a row of the box is {inner} bytes: rows are multiples of 16 bytes")
        width = pattern_of(self.swizzle).width
        if self.swizzle and inner > width:
            raise LayoutError(
                f"a row of the box is {inner} bytes and the swizzle is {width} bytes wide: a row has to fit, so "
                f"{width * 8 // self.element_bits} elements at most" + self._wider(inner)
            )

    def _wider(self, inner: int) -> str:
        wider = next((w for w in (64, 128) if w >= inner), None)
        return f", or a swizzle of {wider} bytes" if wider else ""

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the box, as copied."""
        return self.box[0] * self.element_bits // 8

    @property
    def row_pitch(self) -> int:
        """Bytes from one row of the box to the next in shared memory: the swizzle's width, where there is one."""
        return pattern_of(self.swizzle).width if self.swizzle else self.row_bytes

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that are copied in each dimension.

        >>> TensorMap((64, 64), (128,), (64, 8), element_strides=(1, 3)).counts
        (64, 3)
        """
        return tuple(-(-extent // step) for extent, step in zip(self.box, self.element_strides, strict=True))

    @property
    def transaction_bytes(self) -> int:
        """Bytes that a load takes off the mbarrier: the whole box, zeros out of bounds included, padding not."""
        return prod(self.counts) * self.element_bits // 8

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory from the first to the last row of a box."""
        return self.row_pitch * prod(self.counts[1:])

    def box_map(
        self, smem_start: int = 0, names: Sequence[str] = (), boxes: Sequence[int] = (), step_bytes: int = 0
    ) -> Map:
        """(c0, c1, ...) inside the box -> bit of shared memory, the box being at byte `smem_start`.

        >>> TensorMap((64, 64), (128,), (32, 4), swizzle=64).box_map(1024)(c0=0, c1=3)
        {'bit': 9856}

        A tile of several boxes, `boxes` of them along each dimension, has them `step_bytes` apart (the bytes of one
        box, if not said), those along dimension 0 first: the two halves of a row of 128 16-bit elements,

        >>> TensorMap((128, 64), (256,), (64, 64), swizzle=128).box_map(boxes=(2, 1))(c0=64, c1=0)
        {'bit': 65536}

        Dimension 0 counts fastest; names are those of dimensions 0, 1, ... Raises LayoutError for a start or step that
        is no multiple of 128 bytes, and where the swizzle of an address carries: `copied` holds for those too.
        """
        step = step_bytes or self.shared_bytes
        self._check_start(smem_start)
        self._check_start(step if any(n > 1 for n in boxes) else 0)
        axes: dict[str, list[tuple[int, int]]] = {}
        pitch, apart = self.row_pitch * 8, step * 8
        along = boxes or (1,) * len(self.dims)
        for i, (name, count, number) in enumerate(zip(names or self._names(), self.counts, along, strict=True)):
            axes[name] = [(count, self.element_bits if i == 0 else pitch), (number, apart)]
            pitch, apart = pitch * (count if i else 1), apart * number
        linear = strided_over(dict(reversed(axes.items())), "bit").plus("bit", 8 * smem_start)
        pattern = pattern_of(self.swizzle)
        return linear.swizzled("bit", pattern.bits, pattern.low + 3, 7 - pattern.low)

    def _check_start(self, smem_start: int) -> None:
        if smem_start % SMEM_ALIGN:
            raise LayoutError(f"the box is at byte {smem_start} of shared memory: a multiple of 128 is needed")

    def _names(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.dims))]

    def check_coordinates(self, coordinates: Sequence[int], *, store: bool = False) -> None:
        """Refuses coordinates with which the instruction stops the kernel.

        >>> TensorMap((64, 64), (128,), (32, 8)).check_coordinates((-8, -3))
        >>> TensorMap((64, 64), (128,), (32, 8)).check_coordinates((10, 0))
        Traceback (most recent call last):
        layoutlab.errors.LayoutError: coordinate 0 is 10, 20 bytes: along it boxes start at multiples of 16 bytes

        As an H200 does it: it reports an illegal instruction for an innermost coordinate off 16 bytes, and for a
        store with any negative coordinate.
        """
        if len(coordinates) != len(self.dims):
            raise LayoutError(f"{len(coordinates)} coordinates for a tensor of {len(self.dims)} dimensions")
        at = coordinates[0] * self.element_bits // 8
        if at % CHUNK:
            raise LayoutError(
                f"coordinate 0 is {coordinates[0]}, {at} bytes: along it boxes start at multiples of 16 bytes"
            )
        below = next((i for i, c in enumerate(coordinates) if c < 0), None)
        if store and below is not None:
            raise LayoutError(f"coordinate {below} is {coordinates[below]}: a store takes no negative coordinate")

    def copied(self, coordinates: Sequence[int], smem_start: int = 0, *, store: bool = False) -> Copied:
        """Every element of the box that starts at these coordinates: where it is on both sides.

        >>> moved = TensorMap((24, 4), (48,), (16, 2)).copied((16, 3))
        >>> moved.shared[:9:4].tolist(), moved.tensor[:9:4].tolist(), moved.inside[:9:4].tolist()
        ([0, 8, 16], [176, 184, 192], [True, True, False])

        The elements count dimension 0 fastest. `inside` tells for a load which elements are read and which are zero,
        for a store which are written.
        """
        import numpy as np
        from numpy.typing import NDArray

        self._check_start(smem_start)
        self.check_coordinates(coordinates, store=store)
        flat = np.arange(prod(self.counts), dtype=np.int64)
        index, at = list[NDArray[np.int64]](), flat
        for count in self.counts:
            index.append(at % count)
            at = at // count
        shared: NDArray[np.int64] = smem_start + index[0] * (self.element_bits // 8)
        pitch = self.row_pitch
        for along, count in zip(index[1:], self.counts[1:], strict=True):
            shared, pitch = shared + along * pitch, pitch * count
        pattern = pattern_of(self.swizzle)
        shared ^= (shared >> 7 & (1 << pattern.bits) - 1) << pattern.low
        pitches = (self.element_bits // 8, *self.strides_bytes)
        inside = np.ones(flat.shape, dtype=bool)
        tensor = np.full(flat.shape, self.base, dtype=np.int64)
        for i, (start, step) in enumerate(zip(coordinates, self.element_strides, strict=True)):
            coordinate = start + index[i] * step
            tensor = tensor + coordinate * pitches[i]
            if store and i == 0:  # whole chunks
                unit = CHUNK * 8 // self.element_bits
                coordinate = coordinate // unit * unit
            inside &= (coordinate >= 0) & (coordinate < self.dims[i])
        return Copied(shared, tensor, inside)

    def spilled_bytes(self) -> int:
        """Bytes after the end of each row that a store may overwrite.

        >>> TensorMap((37, 10), (80,), (64, 2)).spilled_bytes(), TensorMap((40, 10), (80,), (64, 2)).spilled_bytes()
        (6, 0)
        """
        return -(self.dims[0] * self.element_bits // 8) % CHUNK


@dataclass(frozen=True, eq=False)
class Copied:
    """One box: byte of shared memory, byte of the tensor, whether the element takes part; one entry an element."""

    shared: NDArray[np.int64]
    tensor: NDArray[np.int64]
    inside: NDArray[np.bool_]


def cp_async_bytes(width: int, size: int | None = None) -> tuple[int, int]:
    """What one cp.async of `width` bytes does: (bytes copied, bytes filled with zeros behind them).

    >>> cp_async_bytes(16), cp_async_bytes(8, size=3)
    ((16, 0), (3, 5))

    size is the instruction's source size; both addresses are multiples of `width`. Source: PTX ISA, "cp.async".
    """
    if width not in (4, 8, 16):
        raise LayoutError(f"cp.async copies 4, 8 or 16 bytes, not {width}")
    copied = width if size is None else size
    if not 0 <= copied <= width:
        raise LayoutError(f"cp.async of {width} bytes has a source size of {copied}: 0 to {width} are possible")
    return copied, width - copied
