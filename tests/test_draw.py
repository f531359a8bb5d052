"""Drawings say what the maps say: labels are read back from SVG, HTML and text, and held against other sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tensor_layouts
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutlab as ll
from layoutlab.catalogue import CATALOGUE, named
from layoutlab.cli import main
from layoutlab.draw import Choice, draw, picture_of, rendered
from layoutlab.draw.palette import PALETTES
from layoutlab.draw.picture import NOTHING
from layoutlab.draw.subjects import instruction
from layoutlab.kernels.attention_config import AttentionConfig
from layoutlab.kernels.attention_handoffs import attention_handoffs
from layoutlab.text import parse

PRINTED = Path(__file__).parent / "data" / "printed"


# -- reading a drawing back -------------------------------------------------------------------------------------------


def read_svg(svg: str, panel: str = "tile") -> dict[tuple[int, int], list[str]]:
    """(row, column) -> the lines of the cell's label, from the SVG alone."""
    start = re.search(rf'<g id="\w+-{panel}" data-cell="(\d+) (\d+)"', svg)
    assert start, f"no panel {panel}"
    width, height = int(start[1]), int(start[2])
    body = svg[start.end() : svg.find("\n</g>\n", start.end())]
    series: dict[str, list[tuple[float, float, str]]] = {}
    placed: list[tuple[float, float, str]] = []
    one = re.compile(
        r'<g transform="translate\(([\d.]+) ([\d.]+)\)"><g id="([\w-]+)"[^>]*>(.*?)</g></g>'
        r'|<use href="#([\w-]+)" ([xy])="([\d.]+)"/>'
    )
    for m in one.finditer(body):
        if m[3]:
            found = re.findall(r'<text ([xy])="([\d.]+)">([^<]*)</text>', m[4])
            series[m[3]] = [(float(at) * (a == "x"), float(at) * (a == "y"), text) for a, at, text in found]
            placed.append((float(m[1]), float(m[2]), m[3]))
        else:
            placed.append((float(m[7]) * (m[6] == "x"), float(m[7]) * (m[6] == "y"), m[5]))
    found_at = sorted((y + dy, x + dx, text) for x, y, name in placed for dx, dy, text in series[name])
    cells: dict[tuple[int, int], list[str]] = {}
    for y, x, text in found_at:
        cells.setdefault((int(y // height), int(x // width)), []).append(text)
    return cells


def read_html(html: str) -> dict[str, Any]:
    """The page's data, its columns and cells unpacked."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])
    types = {"b": np.uint8, "h": np.uint16, "i": np.int32}

    def unpacked(packed: list[str]) -> np.ndarray:
        return np.frombuffer(b64decode(packed[1]), types[packed[0]]).astype(int)

    data["columns"] = {name: unpacked(packed) for name, packed in data["columns"].items()}
    for panel in data["panels"]:
        panel["cells"] = unpacked(panel["cells"]).reshape(panel["rows"], panel["cols"]) - 1
    return data


# -- ownership --------------------------------------------------------------------------------------------------------

OWNERS = [
    ("((32,4),32):((1,32),128)", (128, 32)),
    ("((4,8,4),(2,2,2,4)):((256,1,32),(128,8,16,1024))", (128, 32)),
    ("((8,16),8):((128,1),16)", (16, 64)),
    ("(96,5):(5,1)", (24, 20)),
]


@pytest.mark.parametrize(("text", "tile"), OWNERS)
def test_each_cell_of_an_ownership_grid_is_its_owner(text: str, tile: tuple[int, int]) -> None:
    cells = read_svg(draw(text, format="svg", tile=tile))
    shape, stride = (eval(part) for part in text.split(":"))
    owner = tensor_layouts.Layout(shape, stride)
    threads, values = (tensor_layouts.size(tensor_layouts.mode(owner, i)) for i in (0, 1))
    assert len(cells) == threads * values
    for t in range(threads):
        for v in range(values):
            at = owner(t + threads * v)
            assert cells[at % tile[0], at // tile[0]] == [f"T{t}", f"V{v}"]


LEAVES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), min_size=1, max_size=3)


@given(rows=LEAVES, cols=LEAVES)
@settings(max_examples=60, deadline=None)
def test_each_cell_of_a_layout_is_its_location(rows: Any, cols: Any) -> None:
    shape, stride = (tuple(tuple(leaf[i] for leaf in part) for part in (rows, cols)) for i in (0, 1))
    cells = read_svg(draw(ll.Layout(shape, stride), format="svg"))
    other = tensor_layouts.Layout(shape, stride)
    tall, wide = int(np.prod(shape[0])), int(np.prod(shape[1]))
    if tall == 1 or wide == 1:  # one mode alone is drawn as a row of its own parts
        assert sorted(int(c[0]) for c in cells.values()) == sorted(other(i) for i in range(tall * wide))
    else:
        assert cells == {(i, j): [str(other(i + tall * j))] for i in range(tall) for j in range(wide)}


def test_a_coordinate_layout_shows_coordinates() -> None:
    cells = read_svg(draw(ll.make_identity_layout((3, 4)), format="svg"))
    assert cells == {(i, j): [f"{i},{j}"] for i in range(3) for j in range(4)}


def test_several_owners_are_said() -> None:
    picture = picture_of("((2,2),2):((0,1),2)", Choice(tile=(2, 2)))
    assert picture.notes == ("4 elements have several owners, up to 2; the first is shown",)
    assert (
        picture.panels[0].more == {0: [2], 1: [3], 2: [6], 3: [7]}
        or sum(map(len, picture.panels[0].more.values())) == 4
    )


# -- a handoff --------------------------------------------------------------------------------------------------------


def swizzled(byte: int) -> int:
    return byte ^ (byte >> 7 & 7) << 4


def canonical(m: int, k: int) -> int:
    """Where the MMA reads P[m, k] of 128 x 128 16-bit elements: 128-byte rows, two halves of K, by the ISA."""
    return swizzled(m % 8 * 128 + m // 8 * 1024 + k % 64 * 2 + k // 64 * 16384)


@pytest.fixture(scope="module")
def forgotten() -> str:
    return draw(named("sP")(write_swizzle="none"), format="svg")


def test_the_three_panels_of_a_handoff(forgotten: str) -> None:
    tile, memory, reader = (read_svg(forgotten, panel) for panel in ("tile", "memory", "reader"))
    assert len(tile) == len(memory) == len(reader) == 128 * 128
    for m in range(128):
        for k in range(128):
            assert tile[m, k] == [f"T{m}", f"V{k}"]
            assert reader[m, k] == [str(canonical(m, k))]
            byte = m * 128 + k % 64 * 2 + k // 64 * 16384
            assert memory[byte // 128, byte % 128 // 2] == [f"m{m}", f"k{k}"]


def test_the_swizzle_is_seen_in_memory() -> None:
    memory = read_svg(draw(named("sP")(), format="svg"), "memory")
    for m in range(128):
        for k in range(128):
            byte = canonical(m, k)
            assert memory[byte // 128, byte % 128 // 2] == [f"m{m}", f"k{k}"]


def test_wrong_elements_are_those_that_the_verdict_counts() -> None:
    verdict = ll.verify(named("sP")(write_swizzle="none"))
    picture = picture_of(verdict)
    expected = [[canonical(m, k) != m * 128 + k % 64 * 2 + k // 64 * 16384 for k in range(128)] for m in range(128)]
    assert np.reshape(picture.items["wrong"], (128, 128)).tolist() == np.array(expected).astype(int).tolist()
    assert f"{sum(picture.items['wrong'])} of 16384" in verdict["placed"].why
    assert sum(picture_of(named("sP")()).items["wrong"]) == 0


def test_the_arrow_is_the_first_counterexample() -> None:
    verdict = ll.verify(named("sP")(write_swizzle="none"))
    picture = picture_of(verdict)
    bold = [a for a in picture.arrows if not a.thin]
    assert [a.text for a in bold] == [verdict["placed"].witness.message]
    (arrow,) = bold
    assert (arrow.from_cell, arrow.to_cell) == (128 // 2, 144 // 2)
    assert "byte 128" in arrow.text and "byte 144" in arrow.text
    first = next(i for i, wrong in enumerate(picture.items["wrong"]) if wrong)
    assert (picture.items["thread"][first], picture.items["value"][first]) == (1, 0)
    assert picture_of(named("sP")()).arrows == ()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sV", {"descriptor": "swapped"}), ("sV", {"tma_swizzle": "64"}), ("sK", {"box": "row"}),
        ("sQ", {"k_step": "always_32_bytes"}), ("sP", {"store": "tiled_copy_c"}), ("epilogue", {"tma_swizzle": "none"}),
        ("oRescale", {"store_column": 288}), ("oRescale", {"load": "16x256b.x4"}), ("rs_reuse", {"dtype": "e4m3"}),
        ("tP", {"p_offset": 8, "read_offset": 0}), ("sP90", {"write_swizzle": "elements"}),
    ],
)  # fmt: skip
def test_every_misplacement_has_its_arrow(name: str, settings: dict[str, Any]) -> None:
    verdict = ll.verify(named(name)(**settings))
    picture = picture_of(verdict)
    witness = verdict["placed"].witness
    arrow = next(a for a in picture.arrows if not a.thin)
    assert arrow.text == witness.message
    item = picture.panel("memory").cells[arrow.from_cell]
    here = [item, *picture.panel("memory").more.get(arrow.from_cell, [])]
    assert any(all(picture.items[a][i] == x for a, x in witness.coordinate.items()) for i in here)
    assert len(picture.arrows) == 3


def rectangles(svg: str) -> tuple[list[Any], list[Any]]:
    """From the SVG alone: the boxes of the cells' labels, and those of arrows and frames."""
    letter, up, down = 0.602 * 8, 7.5, 2.0  # px of a letter of 8 px: its advance, above and below the line
    texts, strokes = [], []
    series: dict[str, list[tuple[str, float, str]]] = {}
    for m in re.finditer(
        r'<g id="\w+-(\w+)" data-cell="[^"]*" transform="translate\((\d+) (\d+)\)">(.*?)\n</g>', svg, re.S
    ):
        x0, y0 = int(m[2]), int(m[3])
        placed = [
            (n, float(x), float(y)) for x, y, n in re.findall(r'translate\(([\d.]+) ([\d.]+)\)"><g id="([^"]+)"', m[4])
        ]
        placed += [
            (n, float(at) * (a == "x"), float(at) * (a == "y"))
            for n, a, at in re.findall(r'<use href="#([^"]+)" ([xy])="([\d.]+)"/>', m[4])
        ]
        for name, body in re.findall(r'<g id="([^"]+)"[^>]*>(.*?)</g></g>', m[4]):
            series[name] = [
                (a, float(at), text) for a, at, text in re.findall(r'<text ([xy])="([\d.]+)">([^<]*)<', body)
            ]
        for name, dx, dy in placed:
            for a, at, text in series[name]:
                x, y, half = x0 + dx + at * (a == "x"), y0 + dy + at * (a == "y"), len(text) * letter / 2
                texts.append((x - half, y - up, x + half, y + down, text))
    for thin, d in re.findall(r'<path class="a( n)?" d="M([^"]+)"', svg):
        points = [tuple(map(float, p.split())) for p in d.split("L")]
        half = 0.5 if thin else 1
        for (x1, y1), (x2, y2) in pairwise(points):
            strokes.append((min(x1, x2) - half, min(y1, y2) - half, max(x1, x2) + half, max(y1, y2) + half))
    return texts, strokes


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sP", {"write_swizzle": "none"}), ("sP", {"k_order": "021"}), ("sV", {"descriptor": "swapped"}),
        ("sK", {"box": "row"}), ("tP", {"p_offset": 8, "read_offset": 0}), ("rs_reuse", {"dtype": "e4m3"}),
        ("sP90", {"write_swizzle": "none"}), ("epilogue", {"tma_swizzle": "none"}), ("oRescale", {"store_column": 288}),
    ],
)  # fmt: skip
def test_no_label_of_a_whole_handoff_is_under_an_arrow(name: str, settings: dict[str, Any]) -> None:
    texts, strokes = rectangles(draw(named(name)(**settings), format="svg"))
    assert len(texts) > 20_000 and len(strokes) >= 3

    def covered(down: float) -> list[str]:
        moved = [(x1, y1 + down, x2, y2 + down) for x1, y1, x2, y2 in strokes]
        return [t[4] for t in texts for s in moved if s[0] < t[2] and t[0] < s[2] and s[1] < t[3] and t[1] < s[3]]

    assert covered(0) == []
    assert covered(7)  # a line that is not between the cells is seen


def test_elements_that_nobody_writes_are_in_the_readers_panel_alone() -> None:
    P = ll.Tile("P", m=8, k=8, bits=16)
    half = ll.Handoff(P, writer=ll.store("(8,4):(1,8)", ll.smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(8,1)")
    svg = draw(half, format="svg")
    assert len(read_svg(svg, "tile")) == 32 and len(read_svg(svg, "reader")) == 64
    assert picture_of(half).items["wrong"] == [0] * 32 + [1] * 32
    assert "covered refuted" in svg


def test_a_handoff_through_tensor_memory() -> None:
    P = ll.Tile("P", m=64, k=32, bits=16)
    writer = ll.store("(64,32):(1,64)", ll.tmem(over=P, column=16), bits=32)
    right, wrong = (ll.Handoff(P, writer=writer, reader=ll.umma_a_tmem(P, column=column)) for column in (16, 0))
    svg = draw(right, format="svg")
    memory, reader = read_svg(svg, "memory"), read_svg(svg, "reader")
    assert len(memory) == 64 * 32
    for m in range(64):
        for k in range(32):
            lane = m % 16 + 32 * (m // 16)
            shown = m + m // 16  # one empty row stands for the lanes between
            assert memory[shown, k] == [f"m{m}", f"k{k}"]
            assert reader[m, k] == [f"L{lane}", f"C{16 + k // 2}"]
    assert picture_of(right).arrows == ()
    picture = picture_of(wrong)
    bold = next(a for a in picture.arrows if not a.thin)
    assert sum(picture.items["wrong"]) == 64 * 32
    assert (bold.from_cell, bold.to_cell) == (32, 0)  # column 16, two elements each, to column 0


def test_spaces_that_do_not_meet_are_refused() -> None:
    P = ll.Tile("P", m=64, k=32, bits=16)
    writer = ll.store("(64,32):(1,64)", ll.smem("(64,32):(32,1)", over=P), bits=16)
    with pytest.raises(ll.LayoutError, match="written in smem, read in tmem"):
        draw(ll.Handoff(P, writer=writer, reader=ll.umma_a_tmem(P)), format="svg")


def test_tma_writes_boxes() -> None:
    picture = picture_of(named("sV")())
    assert picture.panels[0].title == "written: tile V, by TMA, each cell its box and element"
    assert "warp" not in picture.items and "instruction" not in picture.items
    cells = read_svg(rendered(picture, "svg"))
    for n in range(128):
        for k in range(128):  # boxes of 64 n x 128 k, n contiguous
            assert cells[n, k] == [f"B{n // 64}", f"E{n % 64 + 64 * k}"]
    memory = read_svg(rendered(picture, "svg"), "memory")
    for n in range(128):
        for k in range(128):
            byte = swizzled(n // 64 * 16384 + k * 128 + n % 64 * 2)
            assert memory[byte // 128, byte % 128 // 2] == [f"n{n}", f"k{k}"]
    heavy = picture.panel("reader")
    assert heavy.row_axis.heavy[:3] == heavy.col_axis.heavy[:3] == (0, 8, 16)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_handoff_of_the_catalogue_is_drawn(name: str) -> None:
    picture = picture_of(named(name)())
    assert [panel.name for panel in picture.panels] == ["tile", "memory", "reader"]
    assert sum(picture.items["wrong"]) == 0 and ": proved" in picture.title
    assert len(rendered(picture, "svg")) < 1_000_000 and len(rendered(picture, "html")) < 1_500_000
    assert rendered(picture, "txt")


@pytest.mark.parametrize("route", ["composition", "tiled_copy_d", "tiled_copy_c", "composition_raw"])
def test_every_route_is_drawn(route: str) -> None:
    h = named("sP")(store=route)
    assert (sum(picture_of(h).items["wrong"]) == 0) == ll.verify(h).proved


@pytest.mark.parametrize("dtype", ["e4m3", "bf16"])
def test_banks_are_as_wide_as_four_bytes(dtype: str) -> None:
    panel = picture_of(named("sP")(dtype=dtype)).panel("memory")
    assert [b.text for b in panel.col_axis.bands] == [str(i) for i in range(32)]
    assert {b.count for b in panel.col_axis.bands} == {4 if dtype == "e4m3" else 2}
    assert panel.cols * (8 if dtype == "e4m3" else 16) == 128 * 8


def test_conflicts_are_counted_as_the_cost_model_counts() -> None:
    from layoutlab.cost import wavefronts

    def shown(h: Any, only: str) -> list[int]:
        panel = picture_of(h, Choice(only=only, count_banks=True)).panel("memory")
        return [int(b.text) for b in panel.col_axis.foot]

    scalar = shown(named("sP")(), "thread<32 value=0")
    assert max(scalar) == wavefronts([canonical(t, 0) for t in range(32)], 2, "store") == 4
    wide = shown(named("sP")(store="composition"), "thread<8 value<8")
    assert set(wide) == {1}


def test_registers_have_a_row_for_each_thread() -> None:
    """Accumulators kept as operand A: m16n8k16's fragment is T 4 (m % 8) + k / 2 % 4, two k to a register (PTX ISA)."""
    svg = draw(named("rs_reuse")(instruction="mma.sync", kv=32), format="svg")
    memory, reader = read_svg(svg, "memory"), read_svg(svg, "reader")
    assert len(memory) == len(reader) == 16 * 32
    for m in range(16):
        for k in range(32):
            thread = 4 * (m % 8) + k // 2 % 4
            register = m // 8 + 2 * (k // 8)
            assert reader[m, k] == [f"T{thread}", f"R{register}"]
            assert memory[thread, 2 * register + k % 2] == [f"m{m}", f"k{k}"]
    picture = picture_of(named("rs_reuse")(dtype="e4m3"))
    arrow = next(a for a in picture.arrows if not a.thin)
    assert (arrow.from_cell, arrow.to_cell) == (2, 4)  # T0 register 0 bit 16 to T0 register 1
    assert "byte" not in picture.items and "bank" not in picture.items


def test_the_tensor_cores_accumulator_goes_to_a_threads_register() -> None:
    picture = picture_of(attention_handoffs(AttentionConfig())["tO"])
    assert picture.panels[0].title == "written: tile O, by the MMA, each cell its row and column of D"
    cells = read_svg(rendered(picture, "svg"))
    assert cells[5, 17] == ["r5", "c17"]
    item = picture.panels[0].cells[5 * 128 + 17]
    assert (picture.items["to_thread"][item], picture.items["to_value"][item]) == (128 + 5, 17)
    assert (picture.items["lane"][item], picture.items["column"][item]) == (5, 256 + 17)


def test_global_memory_has_sectors_and_no_banks() -> None:
    panel = picture_of(attention_handoffs(AttentionConfig())["store"]).panel("memory")
    assert panel.title.startswith("global memory") and [b.text for b in panel.col_axis.bands] == ["0", "1", "2", "3"]
    with pytest.raises(ll.LayoutError, match="there is no bank here"):
        picture_of(attention_handoffs(AttentionConfig())["store"], Choice(colour="bank"))


@pytest.mark.parametrize("axes", [("thread", "value"), ("byte", "bank"), ("lane", "column"), ("wrong", "m")])
def test_coordinates_may_be_called_anything(axes: tuple[str, str]) -> None:
    P = ll.Tile("P", **dict.fromkeys(axes, 8), bits=16)
    made = ll.Handoff(P, writer=ll.store("(8,8):(1,8)", ll.smem("(8,8):(8,1)", over=P), bits=16), reader="(8,8):(1,8)")
    svg = draw(made, format="svg")
    tile, reader = read_svg(svg), read_svg(svg, "reader")
    for i in range(8):
        for j in range(8):
            assert tile[i, j] == [f"T{i}", f"V{j}"] and reader[i, j] == [str(2 * (i + 8 * j))]
    assert sum(picture_of(made).items["wrong"]) == 56
    assert read_html(draw(made, format="html"))["columns"]["thread"].tolist() == [t for t in range(8) for _ in range(8)]


# -- instructions and copies ------------------------------------------------------------------------------------------


def test_a_tmem_load_is_drawn_as_its_table_says() -> None:
    cells = read_svg(draw("tcgen05.ld.16x256b.x2", format="svg"), "memory")
    assert len(cells) == 16 * 16
    for t in range(32):
        for r in range(2):
            for q in range(4):  # ISA: register 4r + q of thread t
                assert cells[t // 4 + 8 * (q // 2), 8 * r + 2 * (t % 4) + q % 2] == [f"T{t}", f"R{4 * r + q}"]


def test_ldmatrix_shows_addresses_and_registers() -> None:
    svg = draw("ldmatrix.x4", format="svg")
    given, held = read_svg(svg, "address"), read_svg(svg, "tile")
    for i in range(4):
        for row in range(8):
            for col in range(8):
                assert given[row, 8 * i + col] == [f"T{8 * i + row}"]
                assert held[row, 8 * i + col] == [f"T{4 * row + col // 2}", f"V{2 * i + col % 2}"]


def test_datapaths_show_lanes_and_columns() -> None:
    cells = read_svg(draw("tcgen05.mma.m64n8", format="svg"), "tile")
    assert all(cells[m, n] == [f"L{m % 16 + 32 * (m // 16)}", f"C{n}"] for m in range(64) for n in range(8))
    two = draw("tcgen05.mma.cta_group::2.m128n16", format="svg")
    for cta in (0, 1):
        tmem = read_svg(two, f"memory{cta}")
        for r in range(64):
            for c in range(16):
                assert tmem[r + 64 * (c // 8), c % 8] == [f"m{r + 64 * cta}", f"n{c}"]


def test_a_fragment_in_tensor_memory() -> None:
    cells = read_svg(draw((PRINTED / "tmem_accumulator.txt").read_text(), format="svg", rows=(0, 4), cols=(0, 4)))
    assert cells == {(i, j): [f"L{i}", f"C{j}"] for i in range(4) for j in range(4)}


def tiled_mmas() -> list[dict[str, Any]]:
    """What CuTe DSL says of some tiled MMAs, in a process of its own."""
    environment = {**os.environ, "CUTE_DSL_ARCH": "sm_100a", "CUTE_DSL_DRYRUN": "1"}
    script = Path(__file__).parent / "oracles" / "dsl_tiled_mma.py"
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_tiled_mmas_are_drawn_as_the_dsl_has_them() -> None:
    found = tiled_mmas()
    assert len(found) == 9
    for facts in found:
        items = picture_of(facts["printed"]).items
        m, n, k = facts["tile"]
        for number, (letter, tile, axes) in enumerate((("A", (m, k), "mk"), ("B", (n, k), "nk"), ("C", (m, n), "mn"))):
            owner = parse(facts[letter])
            threads, values = owner[0].size(), owner[1].size()
            expected = {
                (t, v, at % tile[0], at // tile[0])
                for t in range(threads) for v in range(values) for at in [owner(t, v)]
            }  # fmt: skip
            rows = zip(items["operand"], items["thread"], items["value"], items[axes[0]], items[axes[1]], strict=True)
            assert {(t, v, x, y) for o, t, v, x, y in rows if o == number} == expected, (facts["printed"], letter)


def test_a_tiled_copy_over_a_nested_accumulator_shows_rows_and_columns() -> None:
    cells = read_svg(draw((PRINTED / "tiled_copy_store_d.txt").read_text(), format="svg"))
    assert cells == {(m, n): [f"T{m}", f"V{n}"] for m in range(128) for n in range(32)}


def test_both_sides_of_a_tiled_copy_are_drawn() -> None:
    svg = draw((PRINTED / "tiled_copy_tmem_load.txt").read_text(), format="svg")
    source, destination = read_svg(svg, "source"), read_svg(svg, "destination")
    assert destination == {(m, n): [f"T{m}", f"V{n}"] for m in range(128) for n in range(32)}
    assert {cell[0] for (m, _), cell in source.items() if m // 32 == 1} == {"T32"}  # a warp reads its lanes as one


def test_a_copy_atom_shows_both_sides_of_its_instruction() -> None:
    svg = draw((PRINTED / "copy_atom_tmem_load.txt").read_text(), format="svg")
    assert read_svg(svg, "destination") == {(t, v): [f"T{t}", f"V{v}"] for t in range(32) for v in range(32)}
    assert {cell[0] for cell in read_svg(svg, "source").values()} == {"T0"}  # one of the 32 that ask together


@pytest.mark.parametrize("path", sorted(PRINTED.glob("*.txt")), ids=lambda p: p.stem)
def test_whatever_a_kernel_prints_is_drawn_or_refused(path: Path) -> None:
    try:
        svg = draw(path.read_text(), format="svg")
    except ll.LayoutError as e:
        assert any(words in str(e) for words in ("says no locations", "give the symbols numbers", "give them numbers"))
    else:
        assert svg.endswith("</svg>\n")


# -- formats ----------------------------------------------------------------------------------------------------------


def test_the_page_holds_the_same_table() -> None:
    picture = picture_of(named("sP")(write_swizzle="elements"))
    data = read_html(rendered(picture, "html"))
    assert data["count"] == 16384
    for name, values in picture.items.items():
        assert data["columns"][name].tolist() == list(values), name
    for panel, drawn in zip(picture.panels, data["panels"], strict=True):
        assert drawn["cells"].ravel().tolist() == panel.cells


def test_a_page_cannot_be_broken_by_a_title() -> None:
    html = draw("4:1", format="html", title="</script><b>&\"'")
    assert html.count("<script") == 2 and html.count("</script>") == 2
    assert "<b>" not in html
    assert "<b>" not in draw("4:1", format="svg", title="<b>&\"'")


@pytest.mark.parametrize("format", ["svg", "html", "tex", "txt"])
def test_no_title_makes_a_file_that_cannot_be_read(format: str) -> None:
    text = draw("(4,2):(1,4)", format=format, title="bell\x07 nul\x00 half\ud800 <b> & \"quoted\" 'so'")
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff]", text)
    assert text.encode() and "\ufffd" in text
    if format == "svg":
        assert "quoted" in ElementTree.fromstring(text).findtext("{http://www.w3.org/2000/svg}title")


def test_a_page_counts_as_far_as_it_can_exactly() -> None:
    data = json.loads(
        re.search(r'id="data">(.*?)</script>', draw("(2,2):(10000000000,1)", format="html"), re.DOTALL)[1]
    )
    kind, packed = data["columns"]["location"]
    assert kind == "d" and np.frombuffer(b64decode(packed), "<f8").tolist() == [0, 10000000000, 1, 10000000001]
    with pytest.raises(ll.LayoutError, match=r"more than a page counts exactly \(2\^53\)"):
        draw("(2,2):(100000000000000000000,1)", format="html")


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_text_is_as_wide_as_it_may_be(width: int) -> None:
    for what in (named("sP")(write_swizzle="none"), "S<3,3,3> o 0 o (8,64):(64,1)", "ldmatrix.x4"):
        lines = draw(what, format="txt", width=width).splitlines()
        assert max(map(len, lines)) <= width
    assert max(map(len, draw("(8,64):(64,1)", format="txt", width=width).splitlines())) > width * 0.8


def test_text_says_what_the_grid_says() -> None:
    lines = draw("(4,6):(1,4)", format="txt").splitlines()
    grid = [[int(word) for word in line.split()] for line in lines[-4:]]
    assert grid == [[m, *(m + 4 * k for k in range(6))] for m in range(4)]


def test_text_marks_wrong_elements_and_says_the_counterexample() -> None:
    text = draw(named("sP")(write_swizzle="none"), format="txt", rows=(0, 2), cols=(0, 8), width=100)
    assert "!T1 V0" in text and "!T0" not in text
    assert "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144" in text


def test_tikz_is_balanced_and_complete() -> None:
    tex = draw(named("sP")(write_swizzle="none"), format="tex", rows=(0, 4), cols=(0, 16), title="a_b & {c} 100% \\x")
    assert tex.count(r"\begin{") == tex.count(r"\end{") == 2
    bare = tex.replace("\\\\", "").replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert r"a\_b \& \{c\} 100\% \textbackslash{}x" in tex
    assert len(re.findall(r"\\node at", tex)) == 3 * 64
    assert len(re.findall(r"\\draw\[-\{Stealth[^}]*\},thick", tex)) == 1
    assert tex.count("-- cycle;") == 3 * 48  # three of four rows are wrong


def test_tikz_refuses_more_than_tex_holds() -> None:
    with pytest.raises(ll.LayoutError, match="more than TeX holds"):
        draw(named("sP")(), format="tex")


# -- size: what the benchmarks measure, held loosely here ------------------------------------------------------


def permuted(side: int) -> ll.Layout:
    """A worst case for merging: neighbours in a row have different owners and different warps."""
    return (
        ll.Layout((side, side), (1, side))
        if side % 2
        else ll.Layout(((2, side // 2), side), ((side // 2 * side, 1), side // 2))
    )


@pytest.mark.parametrize(
    "owner", ["(128,128):(1,128)", "(128,128):(128,1)", "((4,8,4),(2,2,2,16)):((256,1,32),(128,8,16,1024))"]
)
def test_a_large_ownership_grid_is_small(owner: str) -> None:
    assert len(draw(owner, format="svg", tile=(128, 128))) < 1_000_000


def test_a_grid_without_any_order_is_still_under_the_limit() -> None:
    from layoutlab.draw.picture import Axis, Panel, Picture

    rng = np.random.default_rng(0)
    cells = rng.permutation(128 * 128).tolist()
    items = {"thread": [i // 128 for i in range(128 * 128)], "value": [i % 128 for i in range(128 * 128)]}
    lines = ((("T", "thread"),), (("V", "value"),))
    labels = [str(i) for i in range(128)]
    panel = Panel("tile", "random", 128, 128, cells, lines, Axis("m", labels), Axis("k", labels))
    picture = Picture("random", items, [panel], "thread")
    assert len(rendered(picture, "svg")) < 1_000_000
    assert read_svg(rendered(picture, "svg")) == {
        (i // 128, i % 128): [f"T{item // 128}", f"V{item % 128}"] for i, item in enumerate(cells)
    }
    assert len(rendered(picture, "html")) < 1_500_000


# -- choices ----------------------------------------------------------------------------------------------------------


def test_windows_and_conditions() -> None:
    h = named("sP")()
    part = picture_of(h, Choice(rows=(8, 16), cols=(64, 128), only="value%2=0 thread!=9"))
    assert set(part.items["m"]) == set(range(8, 16)) - {9} and set(part.items["k"]) == set(range(64, 128, 2))
    assert part.panel("tile").row_axis.labels[0] == "8"
    gaps = picture_of(h, Choice(only="m%64=0")).panel("memory").row_axis.labels
    assert gaps == ["0", "⋮", "8192", "⋮", "16384", "⋮", "24576"]


def test_heavy_lines_stay_at_core_matrices_in_any_window() -> None:
    reader = picture_of(named("sP")(), Choice(rows=(4, 20), cols=(12, 40))).panel("reader")
    assert [reader.row_axis.labels[i] for i in reader.row_axis.heavy] == ["8", "16"]
    assert [reader.col_axis.labels[i] for i in reader.col_axis.heavy if i < 28] == ["16", "24", "32"]
    assert [(b.start, b.count, b.text) for b in reader.col_axis.bands] == [
        (0, 4, "step 0"), (4, 16, "step 1"), (20, 8, "step 2"),
    ]  # fmt: skip


def test_a_legend_names_what_nobody_has() -> None:
    P = ll.Tile("P", m=8, k=8, bits=16)
    writer = ll.store("(8,4):(1,8)", ll.smem("(8,8):(8,1)", over=P), bits=16)
    svg = draw(ll.Handoff(P, writer=writer, reader="(8,8):(8,1)"), format="svg", colour="warp")
    assert re.findall(r'class="c"[^>]*>(none|0|colour: warp)<', svg) == ["colour: warp", "none", "0"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"colour": "lane"}, "there is no lane here: this picture knows thread"),
        ({"colour": "k // 0"}, "'k // 0' is no column of this picture"),
        ({"only": "value<0"}, "nothing is left to draw: value<0 keeps no element"),
        ({"only": "value"}, "'value' is no condition"),
        ({"rows": (500, 600)}, "nothing is left to draw: these rows and columns keep no element"),
        ({"rows": (8, 8)}, "rows=(8, 8): from a number up to a larger one"),
        ({"bits": 8}, "bits is of a bare layout: sP is a handoff"),
        ({"tile": (4, 4)}, "tile is of a bare layout: sP is a handoff"),
        ({"labels": "name"}, "labels='name': a memory's cells say their owner or their coordinate"),
        ({"panels": ("tile", "gmem")}, "there is no panel gmem: tile, memory, reader"),
        ({"palette": "rainbow"}, "there is no palette rainbow"),
        ({"format": "png"}, "there is no format png"),
    ],
)
def test_refusals(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(ll.LayoutError, match=re.escape(message)):
        draw(named("sP")(), **{"format": "svg", **choice})


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("(1024,1024):(1,1024)", "more than the 262144 that can be drawn"),
        ("(65536,65536):(1,65536)", "more than the 262144 that can be drawn"),
        ("(4,?):(1,4)", "has symbols"),
        ("ldmatrix.x3", "1, 2 or 4 matrices, not 3"),
        ("mma.sync.m1n1k1", "names no MMA"),
        ("(4,2", "(4,2"),
    ],
)
def test_what_cannot_be_drawn_is_refused(what: str, message: str) -> None:
    with pytest.raises(ll.LayoutError, match=re.escape(message)):
        draw(what, format="svg")


def test_memory_before_the_first_byte_is_refused() -> None:
    draw("(4,2):(1,-4)", format="svg")
    with pytest.raises(ll.LayoutError, match="has the location -4"):
        draw("(4,2):(1,-4)", format="svg", bits=16)


@pytest.mark.parametrize("bits", [0, -3, 7, 1000])
def test_widths_that_no_element_has_are_refused(bits: int) -> None:
    with pytest.raises(ll.LayoutError, match=f"bits={bits} is no element's width"):
        draw("(4,2):(1,4)", format="svg", bits=bits)


@pytest.mark.parametrize("bits", [4, 6, 8, 16, 32, 64])
def test_elements_of_every_width_lie_where_their_first_bit_does(bits: int) -> None:
    panel = picture_of("(4,40):(40,1)", Choice(bits=bits)).panel("memory")
    unit = 1024 // panel.cols
    assert unit in (bits, 2)
    for i in range(160):
        assert panel.cells[i * bits // unit] == i % 40 * 4 + i // 40
    assert [b.text for b in panel.col_axis.bands] == [str(b) for b in range(0, 32, max(bits // 32, 1))]


def test_the_arrow_of_a_narrow_element_starts_at_its_half_byte() -> None:
    P = ll.Tile("P", m=8, k=64, bits=4)
    writer = ll.store("(8,64):(1,8)", ll.smem("(8,64):(64,1)", over=P), bits=4)
    picture = picture_of(ll.Handoff(P, writer=writer, reader="(8,64):(1,8)"))
    arrow = next(a for a in picture.arrows if not a.thin)
    assert (arrow.from_cell, arrow.to_cell) == (1, 8)


# -- palettes: seen with four kinds of colour vision ------------------------------------------------------------------

# Linear RGB as it is seen (Machado, Oliveira and Fernandes 2009, severity 1).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    f = np.where(
        xyz / [0.9505, 1, 1.089] > 0.008856,
        np.cbrt(xyz / [0.9505, 1, 1.089]),
        7.787 * xyz / [0.9505, 1, 1.089] + 16 / 116,
    )
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_apart(fills: tuple[str, ...], vision: str) -> float:
    seen = [lab(np.array(VISION[vision]) @ linear(fill)) for fill in fills]
    return min(float(np.linalg.norm(a - b)) for i, a in enumerate(seen) for b in seen[i + 1 :])


@pytest.mark.parametrize("vision", VISION)
def test_fills_are_told_apart(vision: str) -> None:
    assert least_apart(PALETTES["safe"].fills, vision) >= 19.5
    assert least_apart(PALETTES["mono"].fills, vision) >= 8


def test_the_check_sees_colours_that_some_cannot_tell_apart() -> None:
    for vision, pair in {"deuteranopia": ("#e0a0a0", "#b8b890"), "tritanopia": ("#a0d0a0", "#a0c8d8")}.items():
        assert least_apart(pair, "normal") > 19.5 > least_apart(pair, vision)


@pytest.mark.parametrize("name", PALETTES)
def test_black_text_is_read_on_every_fill(name: str) -> None:
    for fill in PALETTES[name].fills:
        luminance = float(linear(fill) @ [0.2126, 0.7152, 0.0722])
        assert (luminance + 0.05) / 0.05 >= 7
        mark = float(linear(f"{PALETTES[name].wrong}") @ [0.2126, 0.7152, 0.0722])
        assert (luminance + 0.05) / (mark + 0.05) >= 3
        assert name == "safe" or len({fill[1:3], fill[3:5], fill[5:7]}) == 1


# -- the command and notebooks ----------------------------------------------------------------------------------------


def test_the_command_writes_what_the_suffix_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    starts = {"svg": "<svg", "html": "<!DOCTYPE html>", "txt": "sP", "tex": r"\documentclass"}
    for suffix, start in starts.items():
        path = tmp_path / f"sP.{suffix}"
        assert main(["draw", "sP", "--rows", "0:4", "--cols", "0:8", "-o", str(path)]) == 0
        assert path.read_text().startswith(start)
    assert capsys.readouterr().out == ""
    assert main(["draw", "(2,3):(3,1)", "-o", str(tmp_path / "CAPITALS.SVG")]) == 0
    assert (tmp_path / "CAPITALS.SVG").read_text().startswith("<svg")
    assert main(["draw", "(2,3):(3,1)"]) == 0
    assert capsys.readouterr().out.endswith("  1  3  4  5\n")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["sP", "-o", "x.bmp"], 2, "the suffix .bmp names no format: svg, html, txt, tex, gv, dot"),
        (["sX"], 2, "sX"),
        (["sP", "--set", "kv=65"], 2, "kv=65"),
        (["(4,2):(1,4)", "--set", "kv=64"], 2, "--set is for handoffs"),
        (["(4,2):(1,4)", "--tile", "4by2"], 2, "rows x columns"),
        (
            ["((4,8),(2,2)):((32,1),(16,8))", "--tile", "15x8"],
            2,
            "thread 3 holds as value 3 the coordinate (0,8), outside of a tile of 15x8",
        ),
        (["(4,2):(1,4)", "--width", "0"], 2, "--width 0: a number of characters"),
        (["no_such.py"], 2, "there is no file no_such.py"),
        (["sP", "sP"], 2, "several make a graph"),
        (["sP", "--rows", "8:0"], 2, "8:0"),
        (["sP", "--element", ""], 2, "'' names no element"),
        (["sP", "--element", "P[999,0]"], 2, "m ends at 127"),
        (["sP", "--rows", "0:4", "-o", "x.gv"], 2, "--rows chooses of a tile's grid, and this draws a graph"),
        (["sP", "--count-banks", "--element", "P[0,0]"], 2, "--count-banks chooses of a tile's grid"),
        (["attention", "--rows", "0:4", "-o", "x.svg"], 2, "-o FILE.gv draws their graph"),
        (["sP", "--format", "svg", "-o", "/dev/full"], 2, "cannot write /dev/full: No space left on device"),
        (["nope"], 2, "no handoff, kernel, file or layout is called nope"),
        (["sPP"], 2, "is called sPP, did you mean sP?"),
        (["(4,2):(1,4)", "-o", "/nonexistent/x.svg"], 2, "cannot write /nonexistent/x.svg: No such file or directory"),
    ],
)
def test_the_command_refuses_in_a_sentence(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["draw", *arguments]) == status
    out, err = capsys.readouterr()
    assert message in err and "Traceback" not in err and out == ""


def test_the_file_that_was_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "drawn.svg"
    assert main(["draw", "(4,2):(1,4)", "-o", str(path)]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"wrote {path}\n") and path.exists()


def test_a_users_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import layoutlab as ll\nowner = ll.Layout((4, 2), (2, 1))\n"
        "@ll.handoff\ndef rows(k: int = 64):\n"
        '    Q = ll.Tile("Q", m=8, k=k, bits=16)\n    sQ = ll.smem(f"(8,{k}):({k},1)", over=Q)\n'
        '    return ll.Handoff(Q, writer=ll.store(f"(8,{k}):(1,8)", sQ, bits=16), reader=f"(8,{k}):({k},1)")\n'
    )
    assert main(["draw", str(file), "--set", "k=8"]) == 0
    assert "rows k=8: proved" in capsys.readouterr().out
    assert main(["draw", f"{file}:owner", "--tile", "4x2"]) == 0
    assert "T0 V0" in capsys.readouterr().out


PAIR = ll.Tile("P", m=8, k=8, bits=16)
SMALL = ll.Handoff(
    PAIR, writer=ll.store("(8,8):(1,8)", ll.smem("(8,8):(8,1)", over=PAIR), bits=16), reader="(8,8):(8,1)"
)


@pytest.mark.parametrize(
    "thing",
    [
        ll.Layout((4, 2)), ll.parse("S<3,3,3> o 0 o (8,64):(64,1)"), ll.Swizzle(3, 3, 3), SMALL, ll.verify(SMALL),
        named("ldsm"), named("ldsm").cases()[0], SMALL.writer.owner, instruction("ldmatrix.x4"),
        instruction("tcgen05.ld.32x32b.x8"), instruction("mma.sync.m16n8k16.f32.bf16"),
        instruction("tcgen05.mma.m64n16"), AttentionConfig().tmem_buffers(),
        *(ll.parse((PRINTED / f"{printed}.txt").read_text())
          for printed in ("tiled_copy", "tiled_mma_sm80", "copy_atom", "smem_tensor_stage")),
    ],
    ids=lambda thing: type(thing).__name__,
)  # fmt: skip
def test_objects_draw_themselves_in_notebooks(thing: Any) -> None:
    assert thing._repr_svg_().startswith("<svg")


def test_a_notebook_shows_the_corner_of_what_is_large() -> None:
    svg = named("sP")(kv=64)._repr_svg_()
    assert set(read_svg(svg)) == {(m, k) for m in range(16) for k in range(32)}
    assert "the first 16 rows and 32 columns" in svg and len(svg) < 100_000
    assert ll.parse("(4,?):(1,4)")._repr_svg_() is None
    assert ll.Layout((1024, 1024))._repr_svg_() is None


def test_an_owner_counts_its_threads_from_the_first_of_the_block() -> None:
    owner = attention_handoffs(AttentionConfig())["oRescale"].writer.owner
    cells = read_svg(draw(owner, format="svg", rows=(0, 4), cols=(0, 4)))
    assert cells == {(m, n): [f"T{128 + m}", f"V{n}"] for m in range(4) for n in range(4)}


def test_a_notebook_costs_nothing_until_it_draws() -> None:
    code = "import sys, layoutlab; print([m for m in sys.modules if m.startswith('layoutlab.draw')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_two_pictures_in_one_page_do_not_meet() -> None:
    names = [set(re.findall(r'id="([^"]+)"', draw(text, format="svg"))) for text in ("(4,8):(8,1)", "(4,8):(1,4)")]
    assert names[0] and names[1] and not names[0] & names[1]
    style = re.search(r"<style>(.*?)</style>", draw("(4,8):(8,1)", format="svg"))[1]
    assert all(rule.startswith(".ll") for rule in style.split("}") if rule)


def test_empty_cells_are_empty() -> None:
    picture = picture_of("(4,2):(1,16)", Choice(bits=16))
    memory = picture.panel("memory")
    assert sum(item != NOTHING for item in memory.cells) == 8 and memory.rows == 1
