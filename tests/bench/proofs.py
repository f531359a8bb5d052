"""How long a proof takes, beside peers in the same run: `python tests/bench/proofs.py`.

First the five claims of sP, as `layoutlab verify` reports their time, in a fresh process (import left out) and warm.
Then, at every size: are these two swizzled tiles, stated in elements and in bytes, the same function, and is it
a bijection? layoutlab compares two tables of digits; pycute and tensor-layouts have no normal form, so that a user
walks all elements or calls `is_bijective`. Their loops are cut off at sizes that would take minutes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pycute
import tensor_layouts
from tensor_layouts.analysis import is_bijective

from layoutlab.digits import Map, strided

PYCUTE_LIMIT = 1 << 20
TENSOR_LAYOUTS_LIMIT = 1 << 16


def median_seconds(call: Callable[[], object], at_least: float = 0.05) -> float:
    """The median of as many runs as fit into a short while, and of one run at least."""
    seconds, stop = [], time.perf_counter() + at_least
    while not seconds or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2]


def atom(columns: int) -> tuple[int, int]:
    """(columns of the widest swizzle atom that divides the tile, the swizzle's bits): SW128, or SW64."""
    return (64, 3) if columns % 64 == 0 else (32, 2)


def in_elements(rows: int, columns: int) -> Map:
    """(m,k) -> bit: the K-major swizzled tile as a layout of 16-bit elements, the swizzle counting bits."""
    width, bits = atom(columns)
    tile = strided("bit", 16, m=[(rows, width)], k=[(width, 1), (columns // width, width * rows)])
    return tile.swizzled("bit", bits, 7, 3)


def in_bytes(rows: int, columns: int) -> Map:
    """(m,k) -> bit: the same tile as the descriptor's rule states it, in bytes."""
    width, bits = atom(columns)
    tile = strided(
        "byte", m=[(8, 2 * width), (rows // 8, 16 * width)], k=[(width, 2), (columns // width, 2 * width * rows)]
    )
    return tile.swizzled("byte", bits, 4, 3).times("byte", 8, "bit")


def prove(rows: int, columns: int) -> None:
    ours, theirs = in_elements(rows, columns), in_bytes(rows, columns)
    assert ours == theirs
    assert ours.collision() is None


def walk_with_pycute(rows: int, columns: int) -> None:
    width, bits = atom(columns)
    layout = pycute.Layout((rows, (width, columns // width)), (width, (1, width * rows)))
    swizzle = pycute.Swizzle(bits, 3, 3)
    size = rows * columns
    assert len({swizzle(layout(i)) for i in range(size)}) == size


def ask_tensor_layouts(rows: int, columns: int) -> None:
    width, bits = atom(columns)
    layout = tensor_layouts.Layout((rows, (width, columns // width)), (width, (1, width * rows)))
    assert is_bijective(tensor_layouts.compose(tensor_layouts.Swizzle(bits, 3, 3), layout))


def tiles() -> list[tuple[int, int]]:
    powers = [(1 << (bits + 1) // 2, 1 << bits // 2) for bits in range(12, 31, 2)]
    return sorted([*powers, (96, 160), (96, 320)], key=lambda t: t[0] * t[1])


def row(rows: int, columns: int) -> str:
    size = rows * columns
    ours = median_seconds(lambda: prove(rows, columns))
    cells = [f"{rows}x{columns}", f"{size:,}", f"{ours * 1e3:.3f} ms"]
    for limit, call in ((PYCUTE_LIMIT, walk_with_pycute), (TENSOR_LAYOUTS_LIMIT, ask_tensor_layouts)):
        if size > limit:
            cells += ["not run", "-"]
            continue
        seconds = median_seconds(lambda call=call: call(rows, columns))
        cells += [f"{seconds * 1e3:.1f} ms", f"{seconds / ours:,.0f}x"]
    return "| " + " | ".join(cells) + " |"


SP_KINDS = [
    "",
    "store='composition'",
    "store='tiled_copy_d', dtype='e4m3'",
    "kv=256, head_dim=256",
    "write_swizzle='none'",
]


def sp_row(settings: str) -> str:
    """All claims of one sP: the first time in a process, and the median of many."""
    code = f"from layoutlab.catalogue import sP; from layoutlab.handoff import verify; v = verify(sP({settings}))"
    script = f"{code}; print(v.seconds, sorted(verify(sP({settings})).seconds for _ in range(50))[25], v.verdict)"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    return f"| sP({settings}) | {float(printed[0]) * 1e3:.2f} ms | {float(printed[1]) * 1e3:.2f} ms | {printed[2]} |"


def main() -> None:
    print("| handoff | first proof in a process | median | verdict |\n|---|---|---|---|")
    for settings in SP_KINDS:
        print(sp_row(settings), flush=True)
    print()
    print("| tile | elements | layoutlab | pycute, walked | ratio | tensor-layouts is_bijective | ratio |")
    print("|---|---|---|---|---|---|---|")
    for rows, columns in tiles():
        print(row(rows, columns), flush=True)


if __name__ == "__main__":
    main()
