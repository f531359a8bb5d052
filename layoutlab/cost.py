"""Shared-memory cost: how many wavefronts the data pipe needs for one instruction of one warp.

Shared memory has 32 banks of 4 bytes; a wavefront delivers at most one word from each. An instruction is served in
phases: the whole warp for up to 32 bits a lane, half-warps for 64, quarter-warps for 128, and 8 rows of 16 bytes for
each matrix of ldmatrix and stmatrix. A phase takes as many wavefronts as its fullest bank has different words.

>>> wavefronts([128 * lane for lane in range(32)], width=4, op="store")        # one bank for all 32 lanes
32
>>> wavefronts([16 * lane for lane in range(32)], width=16, op="load")         # 512 bytes, 128 at a time
4

Wide loads have one exception, found by measurement. When each lane has the address of lane ^ 1, or each that of lane
^ 2, all over the warp, then two phases become one:

>>> wavefronts([16 * (lane // 2) for lane in range(32)], width=16, op="load")
2
>>> wavefronts([16 * (lane // 2) for lane in range(32)], width=16, op="store")
4

Equal lanes that are not such neighbours, or neighbours in one half of the warp only, do not merge phases. The rule
holds on all 2241 accesses measured with Nsight Compute on an H200 (tests/data/wavefronts_*.json; the counter is
l1tex__data_pipe_lsu_wavefronts_mem_shared.sum); 1266 of them are wide loads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from layoutlab.errors import LayoutError
from layoutlab.swizzle import Swizzle

if TYPE_CHECKING:
    from layoutlab.handoff import Writer

BANKS = 32
WORD = 4  # bytes of a bank
LANES = 32
ROW = 16  # bytes of a matrix row that ldmatrix and stmatrix move

Op = Literal[
    "load", "store", "ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "stmatrix.x1", "stmatrix.x2", "stmatrix.x4"
]  # fmt: skip


def wavefronts(addresses: Sequence[int | None], width: int, op: Op) -> int:
    """Wavefronts of one warp-level access to shared memory.

    >>> wavefronts([4 * lane for lane in range(32)], width=4, op="load")
    1
    >>> wavefronts([128 * lane for lane in range(32)], width=16, op="ldmatrix.x4")
    32

    addresses is one byte address a lane, 32 in all, None for a lane that is switched off; width is the bytes a lane
    moves: 1, 2, 4, 8 or 16, and 16 for ldmatrix and stmatrix, of whose rows x1 reads the first 8 lanes' addresses, x2
    16 and x4 all. Raises LayoutError for another op or width and for an address that the width does not divide.
    """
    return sum(phase.wavefronts for phase in phases(addresses, width, op))


@dataclass(frozen=True)
class Phase:
    """Lanes that are served together, and what their fullest bank has to deliver: one wavefront a word.

    >>> print(Phase((0, 1), bank=0, words=(0, 32)))
    lanes 0-1: 2 wavefronts, bank 0 has words 0, 32
    """

    lanes: tuple[int, ...]
    bank: int
    words: tuple[int, ...]

    @property
    def wavefronts(self) -> int:
        """How many wavefronts the phase takes; none where all its lanes are off."""
        return len(self.words)

    def __str__(self) -> str:
        each = "1 wavefront" if self.wavefronts == 1 else f"{self.wavefronts} wavefronts"
        words = ", ".join(map(str, self.words[:8])) + (", ..." if self.wavefronts > 8 else "")
        return f"lanes {self.lanes[0]}-{self.lanes[-1]}: {each}, bank {self.bank} has words {words}"


def phases(addresses: Sequence[int | None], width: int, op: Op) -> list[Phase]:
    """The phases of one access, in order; the arguments are those of `wavefronts`.

    >>> for phase in phases([256 * lane for lane in range(32)], width=8, op="store"):
    ...     print(phase)
    lanes 0-15: 16 wavefronts, bank 0 has words 0, 64, 128, 192, 256, 320, 384, 448, ...
    lanes 16-31: 16 wavefronts, bank 0 has words 1024, 1088, 1152, 1216, 1280, 1344, 1408, 1472, ...
    """
    lanes = [None if a is None else int(a) for a in addresses]
    _refuse_illegal(lanes, width, op)
    if op in ("load", "store"):
        size, served = min(LANES, LANES * WORD // width), LANES  # lanes whose data fill one wavefront
        if op == "load" and width > WORD and (_paired(lanes, 1) or _paired(lanes, 2)):
            size *= 2
    else:
        size, served = 8, 8 * int(op[-1])
    return [_phase(tuple(range(i, i + size)), lanes, width) for i in range(0, served, size)]


def _paired(lanes: Sequence[int | None], flip: int) -> bool:
    """Whether every two lanes l and l ^ flip have one address; a lane that is off agrees with any."""
    pairs = ((lanes[lane], lanes[lane ^ flip]) for lane in range(LANES))
    return all(a is None or b is None or a == b for a, b in pairs)


def _phase(served: tuple[int, ...], lanes: Sequence[int | None], width: int) -> Phase:
    active = (a for a in (lanes[lane] for lane in served) if a is not None)
    words = {word for a in active for word in range(a // WORD, (a + width - 1) // WORD + 1)}
    load = Counter(word % BANKS for word in sorted(words))
    bank = load.most_common(1)[0][0] if load else 0
    return Phase(served, bank, tuple(sorted(word for word in words if word % BANKS == bank)))


def _refuse_illegal(lanes: Sequence[int | None], width: int, op: str) -> None:
    ops = ("load", "store", *(f"{m}.x{n}" for m in ("ldmatrix", "stmatrix") for n in (1, 2, 4)))
    if op not in ops:
        raise LayoutError(f"op is {op!r}: one of {', '.join(ops)}")
    if len(lanes) != LANES:
        raise LayoutError(f"{len(lanes)} addresses: a warp has {LANES} lanes, one byte address each")
    if width not in (1, 2, 4, 8, 16):
        raise LayoutError(f"width is {width} bytes: a lane moves 1, 2, 4, 8 or 16")
    if op not in ("load", "store") and width != ROW:
        raise LayoutError(f"width is {width} bytes: a row of {op} is {ROW} bytes")
    for lane, address in enumerate(lanes):
        if address is not None and address < 0:
            raise LayoutError(f"lane {lane} has address {address}: shared memory begins at 0")
        if address is not None and address % width:
            raise LayoutError(f"lane {lane} has address {address}: not a multiple of the {width} bytes it moves")


# -- vectors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vector:
    """The widest access that every thread can make, and why no wider one is legal."""

    bytes: int
    why: str


def widest_vector(addresses: Sequence[Sequence[int]], element_bits: int, most: int = 16) -> Vector:
    """The widest load or store that moves whole runs of each thread's values, from [thread][value] byte addresses.

    >>> widest_vector([[0, 2, 4, 6, 16, 18, 20, 22], [8, 10, 12, 14, 24, 26, 28, 30]], element_bits=16)
    Vector(bytes=8, why='T0 V4 is at byte 16, not at byte 8 behind V3')
    >>> widest_vector([[0, 2, 4, 6], [4, 6, 8, 10]], element_bits=16)
    Vector(bytes=4, why='T1 V0 is at byte 4, which 8 does not divide')

    Values are taken in order; element_bits is 8, 16, 32, 64 or 128; most is what the instruction can move, in bytes.
    """
    size = element_bits // 8
    if element_bits % 8 or size not in (1, 2, 4, 8, 16):
        raise LayoutError(f"{element_bits}-bit elements: a vector is of 8-, 16-, 32-, 64- or 128-bit ones")
    width, why = size, f"an instruction moves {most} bytes"
    while width < most:
        fault = _misfit(addresses, size, 2 * width)
        if fault:
            return Vector(width, fault)
        width *= 2
    return Vector(width, why)


def _misfit(addresses: Sequence[Sequence[int]], size: int, width: int) -> str:
    """Why vectors of `width` bytes are not possible, or nothing."""
    per = width // size
    for t, values in enumerate(addresses):
        if len(values) % per:
            return f"T{t} has {len(values)} values, no whole number of {per}"
        for v in range(0, len(values), per):
            if values[v] % width:
                return f"T{t} V{v} is at byte {values[v]}, which {width} does not divide"
            for i in range(v + 1, v + per):
                if values[i] != values[v] + (i - v) * size:
                    return f"T{t} V{i} is at byte {values[i]}, not at byte {values[v] + (i - v) * size} behind V{i - 1}"
    return ""


# -- swizzles ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """One warp-level access before any swizzle: what `wavefronts` takes."""

    addresses: tuple[int | None, ...]
    width: int
    op: Op

    def swizzled(self, swizzle: Swizzle) -> int:
        """Its wavefronts with every byte address swizzled."""
        return wavefronts([None if a is None else swizzle(a) for a in self.addresses], self.width, self.op)


def store_accesses(writer: Writer, op: Op = "store") -> list[Access]:
    """The warp-level accesses of a writer's store, warp by warp: one for every `writer.bits` of a thread's values.

    >>> from layoutlab.catalogue import sP90
    >>> for route, op in (("coordinate", "store"), ("tiled_copy", "store"), ("stmatrix", "stmatrix.x4")):
    ...     accesses = store_accesses(sP90(store=route).writer, op)
    ...     print(route, len(accesses), sum(wavefronts(a.addresses, a.width, a.op) for a in accesses))
    coordinate 512 512
    tiled_copy 256 256
    stmatrix 64 256

    "stmatrix.x1", ".x2" and ".x4" take one, two or four such pieces of 32 bits as matrices: row r of a matrix is what
    lanes 4r to 4r+3 hold, and matrix j's row r has the address of lane 8j+r (PTX ISA, stmatrix). The addresses are
    those that the writer has, its swizzle applied. A compiler may put neighbouring stores together: then the machine
    code says how wide they are (`dataclasses.replace(writer, bits=...)`). Raises LayoutError for threads that are no
    whole number of warps.
    """
    import numpy as np

    axes = writer.write.axes
    threads, values, piece = axes["t"], axes["v"], writer.bits // writer.tile.bits
    if threads % LANES or (op != "store" and writer.bits != 32):
        what = f"{threads} threads" if threads % LANES else f"{writer.bits} bits at a time"
        raise LayoutError(f"{op} by {what}: a warp has {LANES} threads, and a matrix's row is 32 bits of 4 of them")
    t, v = np.meshgrid(np.arange(threads), np.arange(0, values, piece), indexing="ij")
    at = (np.asarray(writer.write.at(t=t, v=v)["bit"]) // 8).reshape(threads // LANES, LANES, -1)  # warp, lane, piece
    if op == "store":
        rows = [(at[w, :, i], writer.bits // 8) for w in range(len(at)) for i in range(at.shape[2])]
        return [Access(tuple(int(a) for a in lanes), width, op) for lanes, width in rows]
    count = int(op[-1])
    found = []
    for w in range(len(at)):
        for first in range(0, at.shape[2], count):
            starts = [int(at[w, 4 * r, first + j]) for j in range(count) for r in range(8)]
            found.append(Access((*starts, *[None] * (LANES - len(starts))), ROW, op))
    return found


@dataclass(frozen=True)
class Suggestion:
    """The best swizzle for several accesses of one buffer, counted in bytes, with the wavefronts before and after."""

    swizzle: Swizzle
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.swizzle}: {self.after} wavefronts instead of {self.before}"


def suggest_swizzle(accesses: Sequence[Access], max_bits: int = 5) -> Suggestion:
    """The Swizzle<B,M,S> on bytes with the fewest wavefronts over all accesses of a buffer.

    >>> rows = Access(tuple(128 * (lane % 8) for lane in range(32)), 16, "ldmatrix.x1")
    >>> print(suggest_swizzle([rows]))
    S<3,4,3>[8b]: 1 wavefronts instead of 8
    >>> suggest_swizzle([rows]).swizzle.counted_in(16)
    S<3,3,3>[16b]

    Vectors stay whole: M is at least the widest access. Of equals, the hardware's own (S<1,4,3>, S<2,4,3>, S<3,4,3>)
    come first, then fewer bits, then lower ones. `Swizzle.counted_in` gives it in elements.
    """
    if not accesses:
        raise LayoutError("no accesses: a swizzle is suggested for at least one")
    used = [a for access in accesses for a in access.addresses if a is not None]
    top = max(used, default=0).bit_length()
    lowest = max(access.width for access in accesses).bit_length() - 1
    plain = Swizzle(0, 4, 3, unit_bits=8)
    before = sum(access.swizzled(plain) for access in accesses)
    best = (before, (0, 0, 0, 0), plain)
    for bits in range(1, max_bits + 1):
        for base in range(lowest, top):
            for shift in range(bits, max(top - base, bits) + 1):
                swizzle = Swizzle(bits, base, shift, unit_bits=8)
                rank = (0 if (base, shift) == (4, 3) and bits <= 3 else 1, bits, base, shift)
                total = sum(access.swizzled(swizzle) for access in accesses)
                best = min(best, (total, rank, swizzle), key=lambda entry: entry[:2])
    return Suggestion(best[2], before, best[0])
