"""Shared-memory cost: how many wavefronts the data pipe needs for one instruction of one warp.

Shared memory has 32 banks of 4 bytes; a wavefront delivers at most one 4-byte word from each. An access is served in
phases of at most 128 bytes' worth of lanes, and a phase takes as many wavefronts as the fullest bank has different words.

>>> wavefronts([128 * lane for lane in range(32)], width=4, op="store")        # one bank for all 32 lanes
32
>>> wavefronts([4 * lane for lane in range(32)], width=4, op="load")
1

Held against Nsight Compute's counter l1tex__data_pipe_lsu_wavefronts_mem_shared.sum on an H200
(tests/data/wavefronts_*.json).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from layoutlab.errors import LayoutError

BANKS = 32
WORD = 4  # bytes of a bank
LANES = 32
ROW = 16  # bytes of a matrix row that ldmatrix and stmatrix move

Op = Literal[
    "load", "store", "ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "stmatrix.x1", "stmatrix.x2", "stmatrix.x4"
]  # fmt: skip


def wavefronts(addresses: Sequence[int], width: int, op: Op) -> int:
    """Wavefronts of one warp-level access to shared memory.

    >>> wavefronts([16 * lane for lane in range(32)], width=16, op="store")      # 512 bytes: at least 4
    4
    >>> wavefronts([128 * lane for lane in range(32)], width=16, op="ldmatrix.x4")
    32

    addresses is one byte address a lane, 32 in all; width is the bytes a lane moves: 1, 2, 4, 8 or 16, and 16 for
    ldmatrix and stmatrix, of whose rows x1 reads the first 8 lanes' addresses, x2 16 and x4 all. Raises LayoutError for
    another op or width and for an address that the width does not divide.
    """
    lanes = [int(a) for a in addresses]
    _refuse_illegal(lanes, width, op)
    if op not in ("load", "store"):
        matrices = int(op[-1])
        return sum(_phase(lanes[8 * i : 8 * i + 8], ROW) for i in range(matrices))
    size = min(LANES, LANES * WORD // width)  # lanes whose data fill one wavefront
    return sum(_phase(group, width) for group in _phases(lanes, size, op))


def _phase(lanes: Iterable[int], width: int) -> int:
    """The most different words that one bank must deliver."""
    words = {word for a in lanes for word in range(a // WORD, (a + width - 1) // WORD + 1)}
    return max(Counter(word % BANKS for word in words).values())


def _phases(lanes: list[int], size: int, op: Op) -> list[list[int]]:
    return [lanes[i : i + size] for i in range(0, LANES, size)]


def _refuse_illegal(lanes: list[int], width: int, op: str) -> None:
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
        if address < 0 or address % width:
            raise LayoutError(f"lane {lane} has address {address}: not a multiple of the {width} bytes it moves")
