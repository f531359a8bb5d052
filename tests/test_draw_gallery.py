"""The gallery: each picture is what its command writes, and no text in it overlaps another or leaves its cell.

The geometry is Chromium's: what it measures for each text that it has laid out.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from layoutlab.catalogue import named
from layoutlab.cli import main
from layoutlab.draw import draw, picture_of, rendered
from layoutlab.draw.picture import Arrow
from tests.browser import opened

ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "diagrams"
COMMANDS = re.findall(r"^layoutlab (draw .*)$", (GALLERY / "README.md").read_text(), re.MULTILINE)


def name_of(command: str) -> str:
    return Path(shlex.split(command)[-1]).name


def drawn(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Runs a command with its output in a folder; a graph has its source and its rendering."""
    from layoutlab.draw import graph

    program = graph.pure_program()
    assert program, "graphviz-pure is a dependency: pip install graphviz-pure"
    monkeypatch.setattr(graph, "dot_program", lambda: program)  # a system's dot draws the same graph with other bytes
    monkeypatch.chdir(ROOT)
    output = folder / name_of(command)
    assert main([*shlex.split(command)[:-1], str(output)]) == 0
    return [output, output.with_suffix(".svg")] if output.suffix == ".gv" else [output]


def test_the_gallery_has_its_commands() -> None:
    assert len(COMMANDS) > 15
    assert len({name_of(c) for c in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=name_of)
def test_a_picture_is_what_its_command_writes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for made in drawn(command, tmp_path, monkeypatch):
        golden = GALLERY / made.name
        if request.config.getoption("--update-diagrams"):
            shutil.copy(made, golden)
        assert golden.exists(), f"{golden} is missing; --update-diagrams writes it"
        assert made.read_text() == golden.read_text(), f"{golden} is not what the command writes; --update-diagrams?"


def test_every_picture_is_shown_and_every_file_has_a_command() -> None:
    text = (GALLERY / "README.md").read_text()
    written = {name_of(c) for c in COMMANDS} | {Path(name_of(c)).stem + ".svg" for c in COMMANDS if c.endswith(".gv")}
    there = {p.name for p in GALLERY.iterdir() if p.suffix in (".svg", ".html", ".txt", ".tex", ".gv")}
    assert there == written
    assert {name for name in written if name.endswith((".svg", ".html"))} <= set(re.findall(r"\]\(([^)]+)\)", text))


# What Chromium measures: [text, left, top, right, bottom, cell] of each text, repeated rows included; `cell` is the
# rectangle of the cell that a label is in.
MEASURE = """
const found = [];
const add = (text, box, dx, dy, cell) =>
  found.push([text, box.x + dx, box.y + dy, box.x + box.width + dx, box.y + box.height + dy, cell]);
const cellOf = (x, y, size) => {
  const [w, h] = size, col = Math.floor(x / w), row = Math.floor(y / h);
  return [col * w, row * h, (col + 1) * w, (row + 1) * h];
};
const inPanel = new Set();
for (const panel of document.querySelectorAll("g[data-cell]")) {
  const size = panel.dataset.cell.split(" ").map(Number);
  const at = panel.transform.baseVal.consolidate().matrix;
  const label = (text, dx, dy) => {
    const box = text.getBBox();
    const cell = cellOf(box.x + dx + box.width / 2, box.y + dy + box.height / 2, size);
    add(text.textContent, box, at.e + dx, at.f + dy, [cell[0] + at.e, cell[1] + at.f, cell[2] + at.e, cell[3] + at.f]);
    inPanel.add(text);
  };
  for (const row of panel.querySelectorAll("g > g[id]")) {
    const m = row.parentElement.transform.baseVal.consolidate().matrix;
    for (const text of row.children) label(text, m.e, m.f);
  }
  for (const use of panel.querySelectorAll("use"))
    for (const text of document.querySelector(use.getAttribute("href")).children)
      label(text, use.x.baseVal.value, use.y.baseVal.value);
}
for (const text of document.querySelectorAll("text")) if (!inPanel.has(text)) {
  const box = text.getBBox();
  const m = document.documentElement.getScreenCTM().inverse().multiply(text.getScreenCTM());
  add(text.textContent, box, m.e, m.f, null);
}
const size = document.documentElement.viewBox.baseVal;
// Arrows and the frames of their cells: [half of the line's width, the points that it goes through].
const lines = [];
for (const path of document.querySelectorAll("path.a"))
  lines.push([parseFloat(getComputedStyle(path).strokeWidth) / 2,
    path.getAttribute("d").slice(1).split("L").map((p) => p.split(" ").map(Number)), true]);
for (const rect of document.querySelectorAll("rect.f")) {
  const { x, y, width, height } = rect.getBBox();
  lines.push([parseFloat(getComputedStyle(rect).strokeWidth) / 2,
    [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]], false]);
}
const head = document.querySelector("marker");
return [found, [size.x, size.y, size.x + size.width, size.y + size.height], lines,
  head ? [head.markerWidth.baseVal.value, head.markerHeight.baseVal.value / 2] : [0, 0]];
"""

SLACK = 0.6  # px: a letter's box is a little larger than its ink


def faults(browser: Any, path: Path) -> tuple[int, list[str]]:
    """How many texts there are, and which of them overlap, leave their cell or leave the sheet."""
    texts, sheet, lines, head = opened(browser, path).execute_script(MEASURE)
    bad = [
        f"an arrow covers {text!r}" for box in strokes(lines, head) for text, *where, _ in texts if overlap(box, where)
    ]
    bad += [f"an arrow leaves the sheet: {box}" for box in strokes(lines, head) if not inside(box, sheet)]
    for text, *box, cell in texts:
        for where, limits in (("its cell", cell), ("the sheet", sheet)):
            if limits and not inside(box, limits):
                bad.append(f"{text!r} leaves {where}: {box} in {limits}")
    squares: dict[tuple[int, int], list[Any]] = {}
    for entry in texts:
        left, top, right, bottom = entry[1:5]
        for x in range(int(left // 64), int(right // 64) + 1):
            for y in range(int(top // 64), int(bottom // 64) + 1):
                squares.setdefault((x, y), []).append(entry)
    for near in squares.values():
        for i, a in enumerate(near):
            bad += [f"{a[0]!r} overlaps {b[0]!r}" for b in near[i + 1 :] if overlap(a[1:5], b[1:5])]
    return len(texts), bad


def strokes(lines: list[Any], head: list[float]) -> list[list[float]]:
    """What the lines cover, a rectangle for each of their straight parts and one for each arrow's head."""
    boxes = []
    for half, points, pointed in lines:
        for (x1, y1), (x2, y2) in pairwise(points):
            assert x1 == x2 or y1 == y2, "a line goes askew"
            boxes.append([min(x1, x2) - half, min(y1, y2) - half, max(x1, x2) + half, max(y1, y2) + half])
        if pointed:
            (x1, y1), (x2, y2) = points[-2:]
            long, wide = head
            dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
            x, y = x2 - dx * long, y2 - dy * long
            side_x, side_y = wide * (dx == 0), wide * (dy == 0)
            boxes.append([min(x, x2) - side_x, min(y, y2) - side_y, max(x, x2) + side_x, max(y, y2) + side_y])
    return boxes


def inside(box: list[float], limits: list[float]) -> bool:
    return (
        box[0] >= limits[0] - SLACK and box[1] >= limits[1] - SLACK
        and box[2] <= limits[2] + SLACK and box[3] <= limits[3] + SLACK
    )  # fmt: skip


def overlap(a: list[float], b: list[float]) -> bool:
    wide, tall = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return wide > SLACK and tall > SLACK


SVGS = sorted(p.name for p in GALLERY.glob("*.svg"))


@pytest.mark.parametrize("name", SVGS)
def test_no_text_overlaps_or_leaves_its_cell(browser: Any, name: str) -> None:
    count, bad = faults(browser, GALLERY / name)
    assert count > 5
    assert bad == []


@pytest.mark.parametrize(
    ("what", "choice"),
    [
        ("1:0", {"title": "(((4,8,4),(2,2,2,16)):((256,1,32),(128,8,16,1024))," * 4}),
        ("(4,3):(1000000,100)", {}),
        ("(3,200):(200,1)", {"bits": 8}),
        ("(2,40):(40,1)", {"bits": 4}),
        ("tcgen05.mma.cta_group::2.m128n32", {"rows": (60, 70)}),
        ("tcgen05.ld.16x32bx2.x4", {}),
        ("stmatrix.m16n8.x2.trans", {}),
    ],
)
def test_other_pictures_keep_their_text_in_place(browser: Any, tmp_path: Path, what: str, choice: Any) -> None:
    path = tmp_path / "other.svg"
    draw(what, path, **choice)
    count, bad = faults(browser, path)
    assert count > 5
    assert bad == []


WRONG = [
    ("sP", {"write_swizzle": "none"}, {"rows": (0, 4), "cols": (0, 32)}),
    ("sP", {"write_swizzle": "elements"}, {"rows": (0, 16), "cols": (0, 16)}),
    ("sP", {"k_order": "021"}, {"rows": (0, 3)}),
    ("sP", {"write_swizzle": "none"}, {"rows": (1, 2), "cols": (0, 9), "panels": ("memory",)}),
    ("sP", {"write_swizzle": "none"}, {"rows": (1, 3), "panels": ("memory", "reader")}),
    ("sP", {"store": "composition_raw"}, {"rows": (0, 4)}),
    ("sP90", {"write_swizzle": "none"}, {"rows": (0, 8)}),
    ("sV", {"tma_swizzle": "64"}, {"cols": (0, 16)}),
    ("tP", {"p_offset": 8, "read_offset": 0}, {"rows": (0, 4), "cols": (0, 16)}),
    ("tP", {"p_offset": 8, "read_offset": 0}, {"rows": (0, 40), "cols": (0, 8)}),
    ("epilogue", {"store_as": "16x256b.x2"}, {"rows": (0, 8), "cols": (0, 32)}),
    ("rs_reuse", {"dtype": "e4m3"}, {"rows": (0, 16)}),
]


@pytest.mark.parametrize(("name", "settings", "choice"), WRONG)
def test_arrows_cover_no_text(browser: Any, tmp_path: Path, name: str, settings: Any, choice: Any) -> None:
    path = tmp_path / "wrong.svg"
    draw(named(name)(**settings), path, **choice)
    assert 'class="a' in path.read_text()
    count, bad = faults(browser, path)
    assert count > 5
    assert bad == []


@pytest.mark.parametrize("text", ["(4,8):(8,1)", "(12,12):(12,1)"])
def test_arrows_between_any_two_cells_cover_no_text(browser: Any, tmp_path: Path, text: str) -> None:
    picture = picture_of(text)
    cells = picture.panels[0].cells
    for number, (start, end) in enumerate(
        [(0, 1), (1, 0), (0, 9), (9, 0), (0, 31), (31, 0), (3, 27), (27, 3), (8, 16)]
    ):
        path = tmp_path / f"{number}.svg"
        path.write_text(rendered(replace(picture, arrows=(Arrow("tile", start, "tile", end, "a way"),)), "svg"))
        assert max(start, end) < len(cells)
        assert faults(browser, path)[1] == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sp_refuted.svg", ("{font:8px", "{font:11px")),
        ("ldmatrix.svg", ("{font:8px", "{font:11px")),
        ("sp_swizzled.svg", (">k8<", ">k88888<")),
        ("sp_refuted.svg", ('class="a" d="', 'class="a" d="M35 219L675 219"/><path class="a" d="')),
        ("sp_refuted.svg", (".a{stroke:#960000;stroke-width:2;", ".a{stroke:#960000;stroke-width:9;")),
        ("tmem_load_16x256b.svg", ("tcgen05.ld.16x256b.x1</text>", f"{'tcgen05.ld.' * 20}</text>")),
    ],
)
def test_a_planted_overlap_is_seen(browser: Any, tmp_path: Path, name: str, change: tuple[str, str]) -> None:
    text = (GALLERY / name).read_text()
    assert change[0] in text
    planted = tmp_path / name
    planted.write_text(text.replace(*change))
    assert faults(browser, planted)[1]


def test_a_missing_golden_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    monkeypatch.setitem(globals(), "GALLERY", tmp_path)

    class Request:
        config = type("Config", (), {"getoption": staticmethod(lambda name: False)})

    with pytest.raises(AssertionError, match="is missing"):
        (tmp_path / "out").mkdir()
        test_a_picture_is_what_its_command_writes(COMMANDS[1], tmp_path / "out", monkeypatch, Request)  # type: ignore[arg-type]
