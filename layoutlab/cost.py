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
from typing import Literal

from layoutlab.errors import LayoutError

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
    lanes = [None if a is None else int(a) for a in addresses]
    _refuse_illegal(lanes, width, op)
    if op in ("load", "store"):
        size, served = min(LANES, LANES * WORD // width), LANES  # lanes whose data fill one wavefront
        if op == "load" and width > WORD and (_paired(lanes, 1) or _paired(lanes, 2)):
            size *= 2
    else:
        size, served = 8, 8 * int(op[-1])
    return sum(_phase(lanes[i : i + size], width) for i in range(0, served, size))


def _paired(lanes: Sequence[int | None], flip: int) -> bool:
    """Whether every two lanes l and l ^ flip have one address; a lane that is off agrees with any."""
    pairs = ((lanes[lane], lanes[lane ^ flip]) for lane in range(LANES))
    return all(a is None or b is None or a == b for a, b in pairs)


def _phase(lanes: Sequence[int | None], width: int) -> int:
    """The most different words that one bank must deliver."""
    words = {word for a in lanes if a is not None for word in range(a // WORD, (a + width - 1) // WORD + 1)}
    return max(Counter(word % BANKS for word in words).values(), default=0)


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
        if address is not None and (address < 0 or address % width):
            raise LayoutError(f"lane {lane} has address {address}: not a multiple of the {width} bytes it moves")
