"""How long an ownership grid takes to draw, how large it is, and how it feels: `python -m tests.bench.drawing`.

Each square grid is drawn as SVG and as HTML, beside tensor-layouts' SVG of the same (thread, value) layout in the same
run; that one needs matplotlib (`pip install tensor-layouts[viz]`) and is asked up to the size that the first argument
says (64 by default: it takes the better part of a minute for 128). The targets are, after import, 0.3 s and 1 MB for
the SVG of 128 x 128, 1.5 MB for its HTML, and 1 s for 256 x 256. `unordered` is a grid whose owners have no order at
all, which no layout describes and nothing merges.

Then the files are opened in headless Chromium (tests/browser.py installs it): each SVG until it is on the screen, and
the HTML of 128 x 128 used as a person does, one pointer, filter or search after the other. A figure is the time from
the event to the frame that shows its effect, so 16.7 ms is the least there is at 60 frames a second; beside it the part
of it that the page's own code takes.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import tensor_layouts
from tensor_layouts.viz import draw_tv_layout

import layoutlab
from layoutlab.draw import draw, rendered
from layoutlab.draw.picture import Axis, Panel, Picture
from tests.browser import opened, start

SIDES = (32, 64, 128, 256)
RUNS = 5
PATIENCE = 60  # s


def owner(side: int) -> tuple[tuple, tuple]:
    """Shape and stride of (T, V) -> m + side n, as an MMA's accumulators are shared out."""
    return ((4, 8, side // 16), (2, 2, side // 8)), ((2 * side, 1, 16), (side, 8, 8 * side))


def unordered(side: int) -> Picture:
    """Owners in random order."""
    cells = random.Random(0).sample(range(side * side), side * side)
    items = {"thread": [i // side for i in range(side * side)], "value": [i % side for i in range(side * side)]}
    axes = (Axis(name, [str(i) for i in range(side)]) for name in "mk")
    panel = Panel("tile", "unordered", side, side, cells, ((("T", "thread"),), (("V", "value"),)), *axes)
    return Picture("unordered", items, [panel], "thread")


# Each of `steps` is done, timed until its handler returns and until the frame after it is on the screen: in ms.
TIMED = """
const [steps, done] = arguments, took = [];
const frame = () => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
const shown = () => new Promise((next) => requestAnimationFrame(() => {
  const channel = new MessageChannel();  // its message comes after the frame has been painted
  channel.port1.onmessage = next;
  channel.port2.postMessage(0);
}));
const view = document.getElementById("view-tile");
const act = {
  hover: ([row, col]) => {
    const [x, y] = window.layoutlab.centre("tile", row, col);
    view.dispatchEvent(new MouseEvent("mousemove", { clientX: x, clientY: y, bubbles: true }));
  },
  colour: (value) => {
    const select = document.getElementById("colour");
    select.value = value; select.dispatchEvent(new Event("change"));
  },
  search: (text) => {
    const box = document.getElementById("search");
    box.value = text; box.dispatchEvent(new Event("change"));
  },
  warp: (value) => {
    const select = document.getElementById("warp");
    select.value = value; select.dispatchEvent(new Event("change"));
  },
  scroll: (y) => { view.scrollTop = y; },
};
(async () => {
  await frame();
  for (const [what, value] of steps) {
    const start = performance.now();
    act[what](value);
    const handled = performance.now() - start;
    await shown();
    took.push([handled, performance.now() - start]);
    await frame();
  }
  done(took);
})();
"""

STEPS: dict[str, list[Any]] = {
    "hover, another thread": [[i % 16, 3 * i % 20] for i in range(1, 60)],
    "filter by warp": ["0", "1", "2", "3", ""] * 4,
    "colour by another column": ["value", "m", "k", "thread"] * 4,
    "search by coordinate": [f"{7 * i % 128}, {11 * i % 128}" for i in range(1, 30)],
    "scroll": [37 * i % 2400 for i in range(1, 40)],
}
EVENTS = {"hover, another thread": "hover", "filter by warp": "warp", "colour by another column": "colour",
          "search by coordinate": "search", "scroll": "scroll"}  # fmt: skip


def opened_time(path: Path, runs: int = 3) -> str:
    """From asking for a file until its last frame is painted, in a browser of its own, given up after PATIENCE."""
    from selenium.common.exceptions import WebDriverException
    from urllib3.exceptions import ReadTimeoutError

    if not path.exists():
        return "not run"
    browser, found = started(), []
    try:
        for _ in range(runs):
            browser.get("about:blank")
            begin = time.perf_counter()
            browser.get(path.resolve().as_uri())
            browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done))")
            found.append(time.perf_counter() - begin)
        browser.quit()
    except (WebDriverException, ReadTimeoutError):
        browser.service.process.kill()
        return f"over {PATIENCE} s"
    return f"{min(found):.3f} s"


def started() -> Any:
    """A browser with some patience."""
    browser = start()
    browser.set_script_timeout(PATIENCE)
    browser.set_page_load_timeout(PATIENCE)
    return browser


def felt(browser: Any, page: Path) -> None:
    """The table of what a person does on a page."""
    print("\n| on the page | its own code, median | worst | until shown, median | worst |\n|---|---|---|---|---|")
    opened(browser, page)
    for name, values in STEPS.items():
        steps = [[EVENTS[name], value] for value in values]
        took = browser.execute_async_script(TIMED, steps)
        columns = [[row[i] for row in took] for i in (0, 1)]
        print(f"| {name} | " + " | ".join(f"{f(c):.1f} ms" for c in columns for f in (median, max)) + " |")


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
    print("| grid | SVG | HTML | unordered SVG | tensor-layouts' SVG |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        draw(layoutlab.Layout(4), path / "warm.svg"), draw(layoutlab.Layout(4), path / "warm.html")
        for side in SIDES:
            shape, stride = owner(side)
            ours = layoutlab.Layout(shape, stride)
            theirs = tensor_layouts.Layout(shape, stride)
            tile, any_order = (side, side), unordered(side)
            svg = measured(lambda p, o=ours, t=tile: draw(o, p, tile=t), path / f"{side}.svg")
            html = measured(lambda p, o=ours, t=tile: draw(o, p, tile=t), path / f"{side}.html")
            random_svg = measured(lambda p, o=any_order: p.write_text(rendered(o, "svg")), path / f"any{side}.svg")
            other = "not run"
            if side <= limit:
                other = measured(
                    lambda p, o=theirs, t=tile: draw_tv_layout(o, str(p), grid_shape=t, colorize=True),
                    path / f"theirs{side}.svg",
                    runs=1,
                )
            print(f"| {side} x {side} | {svg} | {html} | {random_svg} | {other} |", flush=True)
        print("\n| opened in Chromium | SVG | HTML | unordered SVG | tensor-layouts' SVG |\n|---|---|---|---|---|")
        for side in SIDES:
            files = [path / name for name in (f"{side}.svg", f"{side}.html", f"any{side}.svg", f"theirs{side}.svg")]
            print(f"| {side} x {side} | {' | '.join(opened_time(f) for f in files)} |", flush=True)
        browser = started()
        try:
            felt(browser, path / "128.html")
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
