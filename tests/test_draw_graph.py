"""Graphs of handoffs and an element's journey: what is joined, what is said, and that a fresh machine renders them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import layoutlab as ll
from layoutlab.catalogue import named
from layoutlab.cli import main
from layoutlab.draw import graph
from layoutlab.draw.graph import graph_of, pure_program, render
from layoutlab.draw.journey import journey, journey_graph, journey_text, stops_of
from layoutlab.kernels.attention_config import AttentionConfig, Fault
from layoutlab.kernels.attention_handoffs import attention_handoffs
from layoutlab.kernels.attention_way import attention_way


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
    said = ["\n".join(line.strip() for line in edge["label"].split("\n")) for edge in data["edges"]]
    return nodes, [(names[e["tail"]], names[e["head"]], text) for e, text in zip(data["edges"], said, strict=True)]


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
    assert place.written == f"sP byte {byte}, bank {byte // 4 % 32}"
    assert place.right and stop.verdict == "proved" and stop.count == 1


def test_a_wrong_element_says_where_it_is_read() -> None:
    stops = journey([named("sP")(write_swizzle="none")], "P[1,0]")
    assert not stops[0].places[0].right
    text = journey_text(stops, "P[1,0]", width=200)
    assert "sP byte 128, bank 0 → the PV MMA, operand A, step 0, which READS AT sP byte 144, bank 4" in text
    assert "READS AT sP byte 144" in journey_graph(stops, "P[1,0]")


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


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that the command says of an element's way through the attention kernel."""
    settings = [word for setting in arguments[1:] for word in ("--set", setting)]
    assert main(["draw", "attention", "--element", arguments[0], "--width", "400", *settings]) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_an_element_of_o_through_the_attention_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "O[5,17]")
    assert [line for line in lines if line.startswith("tile")] == [
        "tile Q: m = 5, k = 0 to 127",
        "tile K: n = 0 to 127, k = 0 to 127",  # all of K: its n is a key, not a column of O
        "tile S: m = 5, n = 0 to 127",
        "tile P: m = 5, k = 0 to 127",
        "tile V: n = 17, k = 0 to 127",
        "tile O: m = 5, n = 17",
        "tile O: m = 5, n = 17",
        "tile C: m = 5, n = 17",
        "tile O: m = 5, n = 17",
    ]
    text = "\n".join(lines)
    byte = swizzled(5 * 128)  # Q[5, 0] in a K-major operand of 128-byte rows
    assert f"Q[0,5,0,0] in global memory, byte 1280 → TMA load, box 0 element 320 → sQ byte {byte}, bank" in text
    assert "(m=5, n=0) the QK MMA, D → lane 5 column 0 → softmax threads, T5 V0 of warp 0" in text
    assert "T5 V0 of warp 0 → lane 5 column 32 → the PV MMA, operand A, step 0" in text
    assert "the PV MMA, D → lane 5 column 273 → correction threads, T133 V17 of warp 4" in text
    assert f"T133 V17 of warp 4 → sO byte {swizzled(5 * 128 + 34)}, bank" in text
    assert lines[-1].endswith("O[0,5,0,17] in global memory, byte 1314 → the caller")
    assert f"sP byte {swizzled(5 * 128 + 34)}, bank" in "\n".join(told(capsys, "P[5,17]", "p=smem"))


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_a_journey_is_as_wide_as_it_may_be(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "attention", "--element", "O[0,133,2,17]", "--width", str(width),
                 "--set", "seq=300", "--set", "heads=4"]) == 0  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert width * 0.7 < max(map(len, lines)) <= width
    whole = " ".join(" ".join(lines).split())
    assert "(m=5, n=17) the PV MMA, D → lane 5 column 273 → correction threads, T133 V17 of warp 4" in whole


def bytes_of(shape: tuple[int, ...], index: tuple[int, ...]) -> int:
    """Where numpy has an element of a dense array of 16-bit numbers."""
    return int(np.dot(np.empty(shape, np.uint16).strides, index))


@pytest.mark.parametrize(
    ("index", "sizes"),
    [
        ((0, 0, 0, 0), (1, 128, 128, 1, 1, 128)),
        ((1, 133, 2, 17), (2, 300, 200, 4, 2, 128)),
        ((0, 299, 3, 255), (1, 300, 77, 6, 3, 256)),
    ],
)
def test_the_bytes_of_global_memory_are_numpys(
    index: tuple[int, ...], sizes: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    batch, seq, kv_seq, heads, kv_heads, head_dim = sizes
    names = ("batch", "seq", "kv_seq", "heads", "kv_heads", "head_dim")
    element = f"O[{','.join(map(str, index))}]"
    text = "\n".join(told(capsys, element, *(f"{n}={x}" for n, x in zip(names, sizes, strict=True))))
    q_shape, k_shape = (batch, seq, heads, head_dim), (batch, kv_seq, kv_heads, head_dim)
    first_q = (*index[:3], 0)
    first_v = (index[0], 0, index[2] * kv_heads // heads, index[3])
    for name, shape, at in (("Q", q_shape, first_q), ("V", k_shape, first_v), ("O", q_shape, index)):
        assert f"{name}[{','.join(map(str, at))}] in global memory, byte {bytes_of(shape, at)}" in text


@pytest.mark.parametrize(
    ("element", "settings", "said"),
    [
        ("O[133,17]", ("seq=300",), "Q tile 1, KV tile 0 of 3 in slot 0, CTA 1"),
        ("O[133,17]", ("seq=300", "kv_tile=1"), "KV tile 1 of 3 in slot 1"),
        ("O[133,17]", ("seq=300", "ctas=1"), "KV tile 0 of 3 in slot 1, CTA 0"),  # after three steps of the first tile
        (
            "S[0,5,3,130]",
            ("seq=256", "heads=4", "kv_heads=2"),
            "(KV head 1), Q tile 0, KV tile 1 of 2 in slot 1",
        ),
        ("K[0,5,1,3]", ("heads=4", "kv_heads=2"), "head 2 (KV head 1)"),
        ("P[5,17]", ("causal=true",), "query 5 sees keys 0 to 5 (causal): P is 0 elsewhere"),
        ("O[5,17]", ("kv_seq=100",), "query 5 sees keys 0 to 99: P is 0 elsewhere"),
        ("O[5,17]", ("kv_seq=100",), "K[0,127,0,127] is beyond K, which ends at 99 there: TMA brings zero"),
        (
            "O[5,200]",
            ("head_dim=256",),
            f"sO byte {swizzled(5 * 128 + 8 * 2)},",
        ),  # its one stage is used again for each sub-tile
        ("O[5,17]", ("fault=p_offset_forgotten",), "which READS AT lane 5 column 0"),
    ],
)
def test_settings_of_the_kernel_say_where_an_element_goes(
    element: str, settings: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in "\n".join(told(capsys, element, *settings))


@pytest.mark.parametrize("fault", [f for f in get_args(Fault) if f not in ("none", "early_release")])
def test_every_planted_fault_of_places_is_refuted_at_its_handoff(fault: str) -> None:
    where = {"q": "sQ", "k": "sK", "v": "sV", "o": "epilogue", "p": "tP", "rescale": "oRescale", "epilogue": "epilogue"}
    name = "store" if fault == "o_heads_first" else where[fault.partition("_")[0]]
    way = attention_way(("O", (1, 133, 1, 17)), {"fault": fault, "seq": "256", "heads": "2", "batch": "2"})
    stops = stops_of(way.legs, way.fixed)
    refuted = [leg.buffer or leg.handoff.writer.storage.name for leg, stop in zip(way.legs, stops, strict=True)
               if stop.verdict == "refuted"]  # fmt: skip
    assert refuted == [{"oRescale": "tO", "epilogue": "sO", "store": "gO"}.get(name, name)]


def test_a_kernel_that_exchanges_heads_and_rows_writes_elsewhere() -> None:
    settings = {"fault": "o_heads_first", "seq": "256", "heads": "2", "batch": "2"}
    way = attention_way(("O", (1, 133, 1, 17)), settings)
    (place,) = stops_of(way.legs, way.fixed)[-1].places
    assert place.written == f"gO in global memory, byte {bytes_of((2, 2, 256, 128), (1, 1, 133, 17))}"
    assert place.read == f"O[1,133,1,17] in global memory, byte {bytes_of((2, 256, 2, 128), (1, 133, 1, 17))}"
    assert not place.right


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--element", "P[5,17]", "--set", "p=rmem"], "attention: p=rmem is not one of 'tmem', 'smem'"),
        ([], "-o FILE.gv draws their graph"),
        (["--element", "O[128,0]"], "O[128,0]: query 128, and O's query ends at 127"),
        (["--element", "K[0,0,2,0]", "--set", "heads=4", "--set", "kv_heads=2"], "K's head ends at 1"),
        (["--element", "W[1,2]"], "has no tile W: there are Q, K, S, P, V, O, C"),
        (["--element", "O[1,2,3]"], "has 2 coordinates (query, column), or 4 (batch, query, head, column)"),
        (["--element", "S[5,200]", "--set", "seq=256", "--set", "causal=true"], "meets the KV tiles 0 to 0, not 1"),
        (["--element", "O[5,5]", "--set", "kv_tile=1"], "meets the KV tiles 0 to 0, not 1"),
        (["--element", "O[5,5]", "--set", "heads=3", "--set", "kv_heads=2"], "no multiple of the 2 heads"),
        (["--element", "O[5,5]", "--set", "head_dim=96"], "head_dim=96 is not one of 64, 128, 256"),
        (["--element", "O[5,5]", "--set", "seq=0"], "leave nothing to compute"),
        (["sP", "-o", "x.gv"], "attention is a whole kernel: it is drawn alone"),
    ],
)
def test_a_kernel_refuses_in_a_sentence(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "attention", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err and out == ""


@pytest.mark.parametrize("settings", [{}, {"head_dim": "64", "p": "smem"}, {"head_dim": "256"}])
def test_the_graph_of_a_kernel_is_its_declared_handoffs(settings: dict[str, str]) -> None:
    way = attention_way(None, settings)
    config = AttentionConfig(int(settings.get("head_dim", 128)), p=settings.get("p", "tmem"))  # type: ignore[arg-type]
    assert {leg.handoff.name for leg in way.legs} == set(attention_handoffs(config))
    nodes, edges = parsed(graph_of(way.legs, way.title))
    label = {node: text.split("\n")[0] for node, text in nodes.items()}
    assert len(set(label.values())) == len(label)  # nothing is there twice
    flows = {(label[tail], label[head]) for tail, head, _ in edges}
    p = "sP in shared memory" if settings.get("p") == "smem" else "tP in Tensor Memory"
    assert flows == {
        ("Q in global memory", "TMA load"), ("K in global memory", "TMA load"), ("V in global memory", "TMA load"),
        ("TMA load", "sQ in shared memory"), ("TMA load", "sK in shared memory"), ("TMA load", "sV in shared memory"),
        ("sQ in shared memory", "the QK MMA"), ("sK in shared memory", "the QK MMA"),
        ("the QK MMA", "tS in Tensor Memory"), ("tS in Tensor Memory", "softmax threads"),
        ("softmax threads", p), (p, "the PV MMA"), ("sV in shared memory", "the PV MMA"),
        ("the PV MMA", "tO in Tensor Memory"), ("tO in Tensor Memory", "correction threads"),
        ("correction threads", "tO in Tensor Memory"), ("tO in Tensor Memory", "the PV MMA"),
        ("correction threads", "sO in shared memory"), ("sO in shared memory", "TMA store"),
        ("TMA store", "O in global memory"), ("O in global memory", "the caller"),
    }  # fmt: skip
    assert sum("proved" in said for _, _, said in edges) == len(way.legs)


def test_a_planted_fault_is_refuted_in_the_kernels_graph() -> None:
    _, edges = parsed(graph_of(attention_way(None, {"fault": "p_offset_forgotten"}).legs))
    assert ["tcgen05.mma operand A" in said for _, _, said in edges if "REFUTED" in said] == [True]


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
    assert main(["draw", "sP", "--element", "P[5,17]", "--width", "200"]) == 0
    assert "T5 V17 of warp 0 → sP byte 754, bank 28 → the PV MMA, operand A, step 1" in capsys.readouterr().out
    assert main(["draw", "sP", "--element", "P[5,17]", "-o", str(tmp_path / "way.svg")]) == 0
    assert "byte 754" in (tmp_path / "way.svg").read_text()
    assert main(["draw", "sP", "--element", "P[5,17]", "-o", str(tmp_path / "way.html")]) == 2
    assert "txt, gv, dot or svg" in capsys.readouterr().err
