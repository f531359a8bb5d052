"""The gallery: each picture is what its command writes, and no text in it overlaps another or leaves its cell.

The geometry is Chromium's: what it measures for each text that it has laid out.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from layoutlab.cli import main
from layoutlab.draw import draw
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
return [found, [size.x, size.y, size.x + size.width, size.y + size.height]];
"""

SLACK = 0.6  # px: a letter's box is a little larger than its ink


def faults(browser: Any, path: Path) -> tuple[int, list[str]]:
    """How many texts there are, and which of them overlap, leave their cell or leave the sheet."""
    texts, sheet = opened(browser, path).execute_script(MEASURE)
    bad = []
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


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sp_refuted.svg", ("{font:8px", "{font:11px")),
        ("ldmatrix.svg", ("{font:8px", "{font:11px")),
        ("sp_swizzled.svg", (">k8<", ">k88888<")),
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
