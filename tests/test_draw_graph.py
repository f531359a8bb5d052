"""Graphs of handoffs and an element's journey: what is joined, what is said, and that a fresh machine renders them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import layoutlab as ll
from layoutlab.catalogue import named
from layoutlab.cli import main
from layoutlab.draw import graph
from layoutlab.draw.graph import graph_of, pure_program, render
from layoutlab.draw.journey import journey, journey_graph, journey_text


def rows(tile: ll.Tile, *, reader: str | None = None) -> ll.Handoff:
    """A tile written and read row by row."""
    (m, k) = tile.shape
    storage = ll.smem(f"({m},{k}):({k},1)", over=tile, name=f"s{tile.name}")
    return ll.Handoff(
        tile, writer=ll.store(f"({m},{k}):(1,{m})", storage, bits=16), reader=reader or f"({m},{k}):({k},1)"
    )


def parsed(source: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """(name -> label, [(tail, head, label)]) as Graphviz itself reads the source, from its JSON."""
    data = json.loads(render(source, "json", pure_program()))
    names = {node["_gvid"]: node["name"] for node in data["objects"]}
    nodes = {node["name"]: node["label"] for node in data["objects"]}
    return nodes, [(names[edge["tail"]], names[edge["head"]], edge["label"]) for edge in data["edges"]]


def test_a_handoff_is_a_writer_a_buffer_and_a_reader() -> None:
    nodes, edges = parsed(graph_of([named("sP")()]))
    assert len(nodes) == 3 and len(edges) == 2
    (writer, buffer, stored), (again, reader, said) = edges
    assert buffer == again
    assert nodes[writer].split("\n") == ["Softmax threads", "threads T0 to T127"]
    assert "sP in shared memory" in nodes[buffer] and "32768 bytes" in nodes[buffer]
    assert nodes[reader] == "the PV MMA"
    assert stored.split("\n") == ["tcgen05.ld.32x32b.x32, row = lane", "16-bit stores at the owner's coordinates"]
    assert said.split("\n") == ["tcgen05.mma operand A, K-major", "proved"]


def test_a_refuted_handoff_says_its_counterexample() -> None:
    source = graph_of([named("sP")(write_swizzle="none")])
    _, edges = parsed(source)
    said = " ".join(edges[1][2].split())
    where = "T1 V0 (m=1, k=0) writes byte 128; the MMA reads that element at byte 144"
    assert said == f"tcgen05.mma operand A, K-major REFUTED {where}"
    assert "style=bold" in source


def test_handoffs_that_share_a_thread_or_a_buffer_are_joined() -> None:
    P, Q = ll.Tile("P", m=8, k=8, bits=16), ll.Tile("Q", m=8, k=16, bits=16)
    nodes, edges = parsed(graph_of([rows(P), rows(Q), rows(P, reader="(8,8):(1,8)")]))
    buffers = [label for label in nodes.values() if "shared memory" in label]
    assert len(buffers) == 2 and len(edges) == 6
    assert sum("REFUTED" in label for _, _, label in edges) == 1


def test_a_kernels_handoffs_meet_in_its_units() -> None:
    names = ("sQ", "sK", "tP", "sV", "oRescale", "epilogue")
    nodes, edges = parsed(graph_of([named(name)() for name in names]))
    label = {node: text.split("\n")[0] for node, text in nodes.items()}
    flows = {(label[tail], label[head]) for tail, head, _ in edges}
    assert {("sQ in shared memory", "the QK MMA"), ("sK in shared memory", "the QK MMA")} <= flows
    assert {("tP in Tensor Memory", "the PV MMA"), ("sV in shared memory", "the PV MMA")} <= flows
    assert {("Q in global memory", "TMA"), ("TMA", "sQ in shared memory"), ("TMA", "sV in shared memory")} <= flows
    assert ("the TMA store", "C in global memory") in flows
    assert len({node for node, text in label.items() if text == "TMA"}) == 1


def test_names_cannot_break_the_graph() -> None:
    tile = ll.Tile('P" ]; x -> y [label="', m=8, k=8, bits=16)
    nodes, edges = parsed(graph_of([rows(tile)], title='a "title" \\ <b>'))
    assert len(nodes) == 3 and len(edges) == 2


def test_the_command_writes_the_graph_and_its_rendering(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "sP", "-o", str(tmp_path / "sP.gv")]) == 0
    assert (tmp_path / "sP.gv").read_text().startswith("digraph")
    assert "<svg" in (tmp_path / "sP.svg").read_text()
    assert main(["draw", "sP", "--graph", "-o", str(tmp_path / "other.svg")]) == 0
    assert (tmp_path / "other.svg").read_text() == (tmp_path / "sP.svg").read_text()
    assert main(["draw", "sP", "--format", "dot"]) == 0
    assert capsys.readouterr().out == (tmp_path / "sP.gv").read_text()
    assert main(["draw", "sP", "--graph", "-o", str(tmp_path / "sP.html")]) == 2
    assert "gv, dot or svg" in capsys.readouterr().err


def test_a_machine_without_graphviz_renders_by_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert graph.dot_program() == pure_program()
    assert "graphviz-pure" in render(graph_of([named("sP")()]))


def test_the_systems_dot_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "dot"
    script.write_text("#!/bin/sh\nexec /bin/cat\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    source = graph_of([named("sP")()])
    assert render(source).strip() == source.strip()  # this dot copies what it is given


def test_without_any_program_the_graph_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(graph, "pure_program", lambda: None)
    with pytest.raises(ll.LayoutError, match="install Graphviz, or `pip install graphviz-pure`"):
        render("digraph { a }")


def test_a_graph_that_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(ll.LayoutError, match="cannot draw the graph"):
        render("digraph { a -> }", program=pure_program())


# -- journeys ----------------------------------------------------------------------------------------------------------


def swizzled(byte: int) -> int:
    return byte ^ (byte >> 7 & 7) << 4


@pytest.mark.parametrize(("m", "k"), [(0, 0), (5, 17), (127, 127), (64, 63)])
def test_an_element_of_sp(m: int, k: int) -> None:
    (stop,) = journey([named("sP")()], f"P[{m},{k}]")
    (place,) = stop.places
    byte = swizzled(m * 128 + k % 64 * 2 + k // 64 * 16384)
    assert place.owner == f"T{m} V{k} of warp {m // 32}"
    assert place.written == f"byte {byte}, bank {byte // 4 % 32}"
    assert place.right and stop.verdict == "proved" and stop.count == 1


def test_a_wrong_element_says_where_it_is_read() -> None:
    stops = journey([named("sP")(write_swizzle="none")], "P[1,0]")
    assert not stops[0].places[0].right
    text = journey_text(stops, "P[1,0]")
    assert "byte 128, bank 0 → the PV MMA, step 0, which READS AT byte 144, bank 4" in text
    assert "READS AT byte 144" in journey_graph(stops, "P[1,0]")


def test_an_element_passes_through_the_rows_that_it_is_made_of() -> None:
    P, O = ll.Tile("P", m=8, k=16, bits=16), ll.Tile("O", m=8, d=4, bits=16)  # noqa: E741
    V = ll.Tile("V", k=16, d=4, bits=16)
    W = ll.Tile("W", x=8, y=8, bits=16)
    stops = journey([rows(P), rows(V), rows(W), rows(O)], "O[5,3]")
    assert [stop.coordinates for stop in stops] == [
        "tile P: m = 5, k = 0 to 15",
        "tile V: d = 3, k = 0 to 15",
        "tile O: m = 5, d = 3",
    ]
    assert [stop.count for stop in stops] == [16, 16, 1]
    assert [p.coordinate for p in stops[0].places] == ["m=5, k=0", "m=5, k=15"]
    assert "… 14 more" in journey_text(stops, "O[5,3]")


def test_an_element_of_o_through_the_attention_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "attention", "--element", "O[5,17]"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("tile")] == [
        "tile Q: m = 5, k = 0 to 127",
        "tile K: n = 0 to 127, k = 0 to 127",  # all of K: its n is a key, not a column of O
        "tile P: m = 5, k = 0 to 127",
        "tile V: n = 17, k = 0 to 127",
        "tile O: m = 5, n = 17",
        "tile C: m = 5, n = 17",
    ]
    byte = swizzled(5 * 128)  # Q[5, 0] in a K-major operand of 128-byte rows
    assert f"(m=5, k=0) global memory → TMA box 0 element 320 → byte {byte}, bank" in "\n".join(lines)
    assert "T5 V0 of warp 0 → lane 5 column 32 → the PV MMA, step 0" in "\n".join(lines)
    assert lines[-1].endswith("the TMA store → global memory")
    assert main(["draw", "attention", "--set", "p=smem", "--element", "P[5,17]"]) == 0
    assert f"byte {swizzled(5 * 128 + 34)}, bank" in capsys.readouterr().out
    assert main(["draw", "attention", "--set", "p=rmem", "--element", "P[5,17]"]) == 2
    assert "p=rmem is not one of tmem, smem" in capsys.readouterr().err
    assert main(["draw", "attention"]) == 2
    assert "-o FILE.gv draws their graph" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ("P", "names no element"),
        ("O[1,2]", "no handoff here is of a tile O: there are P"),
        ("P[1]", "has 2 coordinates"),
        ("P[128,0]", "m ends at 127"),
    ],
)
def test_journeys_that_there_are_not(element: str, message: str) -> None:
    with pytest.raises(ll.LayoutError, match=message):
        journey([named("sP")()], element)


def test_the_command_tells_a_journey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "sP", "--element", "P[5,17]"]) == 0
    assert "T5 V17 of warp 0 → byte 754, bank 28 → the PV MMA, step 1" in capsys.readouterr().out
    assert main(["draw", "sP", "--element", "P[5,17]", "-o", str(tmp_path / "way.svg")]) == 0
    assert "byte 754" in (tmp_path / "way.svg").read_text()
    assert main(["draw", "sP", "--element", "P[5,17]", "-o", str(tmp_path / "way.html")]) == 2
    assert "txt, gv, dot or svg" in capsys.readouterr().err
