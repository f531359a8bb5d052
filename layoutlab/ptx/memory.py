"""memory: the address spaces of the machine, each bounded, aligned and, on chip, poisoned until written.

Shared memory and TMEM start as 0xFF bytes (a NaN in every floating-point type). Beside each byte of shared memory and
each word of TMEM stands a flag that says whether it was ever written; a read of one that was not is reported, not
refused, because padding may be loaded and dropped. PTX ISA chapter 5; the first KiB of a shared window belongs to the
system, so that no variable has address 0.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.ptx.parse import PtxError

Array = NDArray[Any]

SHARED_RESERVED_BYTES = 1024
SHARED_WINDOW_BYTES = 233472  # 228 KiB: the shared memory of an SM, of which a CTA may use 227
TMEM_LANES, TMEM_COLUMNS = 128, 512
POISON = 0xFF
# Generic addresses: where each window stands. Global addresses are the host's own, below 2^48.
SHARED_BASE = 1 << 56
LOCAL_BASE = 1 << 57
PARAM_BASE = 1 << 58
CONST_BASE = 1 << 59
WINDOW_MASK = (1 << 40) - 1
CLUSTER_SHIFT = 24  # in a cluster the window of the CTA of rank r starts at r << 24, as on silicon

WORD_TYPES: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class AccessError(PtxError):
    """An access outside its space, or at an address that its width does not divide."""


@dataclass
class Buffer:
    """A registered piece of host memory that the kernel may touch as global memory."""

    name: str
    base: int
    size: int
    words: dict[int, Array]
    first: int

    @property
    def end(self) -> int:
        return self.base + self.size


class GlobalMemory:
    """The buffers that were passed to the kernel; an access that leaves them all is an error."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.recent: dict[int, Buffer] = {}  # by instruction, the buffer that it touched last
        self._keep: list[object] = []

    def register(self, name: str, base: int, size: int, keep: object = None) -> None:
        """Make `size` bytes of host memory at `base` reachable; overlapping registrations are merged by their hull."""
        self._keep.append(keep)
        if size <= 0:
            return
        for other in self.buffers:
            if base < other.end and other.base < base + size:
                low, high = min(base, other.base), max(base + size, other.end)
                self.buffers.remove(other)
                self.register(other.name if other.size >= size else name, low, high - low)  # it may reach a third
                return
        self._add(name, base, size)

    def _add(self, name: str, base: int, size: int) -> None:
        # Views start at a multiple of 16 so that every word width can index them; bounds use base and size.
        first = base & ~15
        total = (base + size - first + 15) & ~15
        self.register_image(name, base, size, np.ctypeslib.as_array((ctypes.c_uint8 * total).from_address(first)))

    def register_image(self, name: str, base: int, size: int, raw: Array) -> None:
        """Let an array stand for the memory from `base` rounded down to 16 bytes, as the kernel's addresses see it."""
        first = base & ~15
        words = {width: raw.view(kind) for width, kind in WORD_TYPES.items()}
        self.buffers.append(Buffer(name, base, size, words, first))

    def find(self, low: int, high: int) -> Buffer | None:
        """The buffer that holds the bytes [low, high), if one does."""
        for buffer in self.buffers:
            if buffer.base <= low and high <= buffer.end:
                return buffer
        return None

    def describe(self, address: int) -> str:
        """Where an address stands relative to the nearest buffer."""
        if not self.buffers:
            return f"global address {address:#x}; no buffer is registered"
        nearest = min(self.buffers, key=lambda b: max(b.base - address, address - b.end, 0))
        return (
            f"global address {address:#x}, which is byte {address - nearest.base} of {nearest.name} "
            f"({nearest.size} bytes)"
        )

    def read(self, address: int, size: int) -> Array:
        """The bytes [address, address + size) as a view."""
        buffer = self.find(address, address + size)
        if buffer is None:
            raise AccessError(f"a read of {size} bytes at {self.describe(address)}")
        start = address - buffer.first
        return buffer.words[1][start : start + size]


class SharedMemory:
    """The shared windows of all CTAs of a wave, one after another, with a written flag for each byte."""

    def __init__(self, ctas: int, used_bytes: int) -> None:
        self.size = SHARED_RESERVED_BYTES + used_bytes
        self.stride = (self.size + 1023) // 1024 * 1024
        self.bytes = np.empty(ctas * self.stride, np.uint8)
        self.written = np.empty(ctas * self.stride, np.uint8)
        # For each 16 bytes: when a thread last stored there, and the row and lane that did (0: never).
        self.stored_at = np.empty(ctas * self.stride // 16, np.int32)
        self.stored_by = np.empty(ctas * self.stride // 16, np.int32)
        # For each 16 bytes: whether an mbarrier lives there.
        self.barriers = np.empty(ctas * self.stride // 16, np.bool_)
        self.words = {width: self.bytes.view(kind) for width, kind in WORD_TYPES.items()}
        self.flags = {width: self.written.view(kind) for width, kind in WORD_TYPES.items()}
        self.ctas = ctas
        self.reset()

    def reset(self) -> None:
        """Poison, and nothing written."""
        self.bytes.fill(POISON)
        for flags in (self.written, self.stored_at, self.stored_by, self.barriers):
            flags.fill(0)

    @property
    def nbytes(self) -> int:
        arrays = (self.bytes, self.written, self.stored_at, self.stored_by, self.barriers)
        return sum(array.nbytes for array in arrays)

    def window(self, cta: int) -> Array:
        """The bytes of one CTA's window, by shared address."""
        return self.bytes[cta * self.stride : (cta + 1) * self.stride]

    def window_flags(self, cta: int) -> Array:
        return self.written[cta * self.stride : (cta + 1) * self.stride]

    def check_span(self, low: int, high: int, what: str) -> None:
        """Refuse the bytes [low, high) unless they lie in the CTA's own shared memory."""
        if low < 0 or high > self.size:
            raise AccessError(f"{what} touches shared bytes {low} to {high - 1} of {self.size}")


class TensorMemory:
    """TMEM: 128 lanes of 512 32-bit columns for each CTA, allocated by columns."""

    def __init__(self, ctas: int) -> None:
        self.words = np.empty((ctas, TMEM_LANES, TMEM_COLUMNS), np.uint32)
        self.written = np.empty((ctas, TMEM_LANES, TMEM_COLUMNS), np.bool_)
        self.owner = np.empty((ctas, TMEM_COLUMNS), np.int32)  # allocation number of each column, 0 when free
        self.reset()

    def reset(self) -> None:
        """Poison, and nothing allocated."""
        self.words.fill(0xFFFFFFFF)
        self.written.fill(False)
        self.owner.fill(0)
        self.count = 0

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.written.nbytes + self.owner.nbytes

    def allocate(self, cta: int, columns: int) -> int | None:
        """The first column of a free, aligned run of columns, or None while there is none."""
        for start in range(0, TMEM_COLUMNS, columns):
            if not self.owner[cta, start : start + columns].any():
                self.count += 1
                self.owner[cta, start : start + columns] = self.count
                self.words[cta, :, start : start + columns] = 0xFFFFFFFF
                self.written[cta, :, start : start + columns] = False
                return start
        return None

    def release(self, cta: int, start: int, columns: int) -> None:
        run = self.owner[cta, start : start + columns]
        if len(run) < columns or not run[0] or (run != run[0]).any():
            raise AccessError(f"tcgen05.dealloc of columns {start} to {start + columns - 1}, which no alloc returned")
        run[:] = 0

    def check(self, cta: int, low: int, high: int, what: str) -> None:
        """Refuse columns [low, high) unless they exist and are allocated."""
        if low < 0 or high > TMEM_COLUMNS:
            raise AccessError(f"{what} touches TMEM columns {low} to {high - 1} of {TMEM_COLUMNS}")
        if not self.owner[cta, low:high].all():
            free = low + int(np.flatnonzero(self.owner[cta, low:high] == 0)[0])
            raise AccessError(f"{what} touches TMEM column {free}, which is not allocated")
