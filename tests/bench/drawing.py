"""How long an ownership grid takes to draw, and how large it is: `python tests/bench/drawing.py`.

Each square grid is drawn as SVG and as HTML, beside tensor-layouts' SVG of the same (thread, value) layout in the same
run; that one needs matplotlib (`pip install tensor-layouts[viz]`) and is asked up to the size that the first argument
says (64 by default: it takes the better part of a minute for 128). The targets are, after import, 0.3 s and 1 MB for
the SVG of 128 x 128, 1.5 MB for its HTML, and 1 s for 256 x 256.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tensor_layouts
from tensor_layouts.viz import draw_tv_layout

import layoutlab
from layoutlab.draw import draw

SIDES = (32, 64, 128, 256)
RUNS = 5


def owner(side: int) -> tuple[tuple, tuple]:
    """Shape and stride of (T, V) -> m + side n, as an MMA's accumulators are shared out."""
    return ((4, 8, side // 16), (2, 2, side // 8)), ((2 * side, 1, 16), (side, 8, 8 * side))


def best_seconds(call: Callable[[], object], runs: int = RUNS) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measured(call: Callable[[Path], object], path: Path, runs: int = RUNS) -> str:
    seconds = best_seconds(lambda: call(path), runs)
    return f"{seconds:.3f} s, {path.stat().st_size / 1000:,.0f} kB"


def main() -> None:
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    print("| grid | SVG | HTML | tensor-layouts' SVG |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        draw(layoutlab.Layout(4), path / "warm.svg"), draw(layoutlab.Layout(4), path / "warm.html")
        for side in SIDES:
            shape, stride = owner(side)
            ours = layoutlab.Layout(shape, stride)
            theirs = tensor_layouts.Layout(shape, stride)
            tile = (side, side)
            svg = measured(lambda p, o=ours, t=tile: draw(o, p, tile=t), path / "a.svg")
            html = measured(lambda p, o=ours, t=tile: draw(o, p, tile=t), path / "a.html")
            other = "not run"
            if side <= limit:
                other = measured(
                    lambda p, o=theirs, t=tile: draw_tv_layout(o, str(p), grid_shape=t, colorize=True),
                    path / "b.svg",
                    runs=1,
                )
            print(f"| {side} x {side} | {svg} | {html} | {other} |")


if __name__ == "__main__":
    main()
