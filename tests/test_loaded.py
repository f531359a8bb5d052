"""sQ, sK, sV: TMA boxes against descriptors of both majors; plain loops, TensorMap and CuTe DSL as other sources."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

import layoutlab as ll
from layoutlab.atoms.tma import TensorMap
from layoutlab.catalogue import named
from layoutlab.handoff.operand import SmemOperand
from layoutlab.witnesses import hold
from tests.oracles import dsl

NAMES = ("sQ", "sK", "sV")
MAJOR = {"sQ": "K", "sK": "K", "sV": "MN"}
BITS = {"bf16": 16, "e4m3": 8}


def refuted(verdict: ll.Verdict) -> list[str]:
    return [claim.name for claim in verdict.claims if claim.verdict != "proved"]


def expected_byte(name: str, bits: int, rows: int, ks: int, row: int, k: int) -> int:
    """Where the element belongs: 128 (or 64) bytes of the contiguous direction, line after line, block after block,
    each 16 bytes moved by the low bits of the line's number."""
    inner, line, lines = (k, row, rows) if MAJOR[name] == "K" else (row, k, ks)
    width = 128 if (ks if MAJOR[name] == "K" else rows) * bits // 8 % 128 == 0 else 64
    block, inside = divmod(inner * bits // 8, width)
    byte = block * lines * width + line * width + inside
    chunk, spread = byte // 16 % 8, byte // 128 % 8
    return byte - chunk * 16 + (chunk ^ spread & width // 16 - 1) * 16


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_every_element_by_enumeration(name: str, dtype: str, head_dim: int) -> None:
    options = {} if name == "sQ" else {"kv": 64}
    h = named(name)(head_dim=head_dim, dtype=dtype, **options)
    verdict = ll.verify(h)
    assert verdict.proved and verdict.checked == h.tile.size
    assert sum(claim.evaluated for claim in verdict.claims) == 0
    rows, ks = h.tile.shape
    expected = np.array(
        [[expected_byte(name, BITS[dtype], rows, ks, row, k) for k in range(ks)] for row in range(rows)]
    )
    row, k = np.indices((rows, ks))
    axes = dict(zip(h.tile.extents, (row, k), strict=True))
    assert (h.reader.read.at(**axes)["bit"] == 8 * expected).all()
    t, v = np.indices(tuple(h.writer.owner.places.axes.values()))
    at = h.writer.owner.places.at(t=t, v=v)
    assert (h.writer.write.at(t=t, v=v)["bit"] == 8 * expected[tuple(at[a] for a in h.tile.extents)]).all()


def test_boxes_are_those_of_a_tensor_map() -> None:
    """Each box as TensorMap, held against an H200, copies it: the same elements to the same bytes."""
    seen = 0
    for name, head_dim in product(NAMES, (64, 128, 256)):
        h = named(name)(head_dim=head_dim)
        rows, ks = h.tile.shape
        operand = SmemOperand(rows, ks, 16, MAJOR[name])  # type: ignore[arg-type]
        inner, lines = (ks, rows) if MAJOR[name] == "K" else (rows, ks)
        tensor = TensorMap((inner, lines), (2 * inner,), operand.box, 16, operand.swizzle_bytes)
        boxes, elements = h.writer.owner.places.axes.values()
        for box in range(boxes):
            v = np.arange(elements)
            at = h.writer.owner.places.at(t=box, v=v)
            row, k = (at[a] for a in h.tile.extents)
            moved = tensor.copied((box * operand.box[0], 0), box * elements * 2)
            assert (moved.shared * 8 == h.writer.write.at(t=box, v=v)["bit"]).all()
            along, line = (k, row) if MAJOR[name] == "K" else (row, k)
            assert (moved.tensor == 2 * (line * inner + along)).all()
            seen += 1
    assert seen == 3 * (1 + 2 + 4)


def test_dsl_makes_the_same_layouts_and_stages() -> None:
    seen = Counter[str]()
    for fact in dsl.facts("operands", "sm_100a"):
        if fact["kind"] != "operand":
            continue
        name, outer = fact["name"], dsl.layout(fact["outer"])
        options = {"head_dim": fact["head_dim"], "dtype": {16: "bf16", 8: "e4m3"}[fact["bits"]]}
        for slot in range(1 if name == "sQ" else 2):
            h = named(name)(**options, **({} if name == "sQ" else {"kv": fact["kv"], "slot": slot}))
            storage = h.writer.storage
            assert storage.layout.inner == ll.parse(fact["swizzle"]), fact
            one = ll.make_layout(outer[0], outer[1], outer[2])
            assert ll.functionally_equal(storage.layout.outer, one), fact
            assert storage.base_bytes * 8 == (slot * outer[3].stride if slot else 0) * fact["bits"]
            seen[name] += 1
    assert seen == {"sQ": 12, "sK": 24, "sV": 24}
    hold("operands that TMA loads", "CuTe DSL", seen.total())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("option", "claims", "words"),
    [
        ({"tma_swizzle": "none"}, ["placed"], "a swizzle: the reader xors bits 4, 5, 6 of the byte address with 7, 8"),
        ({"tma_swizzle": "64"}, ["covered", "placed", "exclusive", "legal"], "the box is 128 bytes and the swizzle is"),
        ({"box": "row"}, ["covered", "placed", "exclusive", "legal"], "a row of the box is 256 bytes and the swizzle"),
        ({"descriptor": "units"}, ["placed"], "a stride: "),
        ({"k_step": "always_32_bytes"}, ["placed"], "a stride: k is written as"),
    ],
)
def test_planted_faults(name: str, option: dict[str, Any], claims: list[str], words: str) -> None:
    verdict = ll.verify(named(name)(**option))
    assert refuted(verdict) == claims
    assert words in str(verdict), str(verdict)
    witness = verdict["placed"].witness
    assert witness and witness.thread is None and witness.value is None and witness.message.startswith("box ")


@pytest.mark.parametrize("name", NAMES)
def test_the_first_wrong_element_is_the_enumerations(name: str) -> None:
    """TMA without a swizzle: boxes, lines and elements in TMA's own order, element by element."""
    h = named(name)(tma_swizzle="none")
    rows, ks = h.tile.shape
    boxes, elements = h.writer.owner.places.axes.values()
    for box, element in product(range(boxes), range(elements)):
        line, inside = divmod(element, 64)
        row, k = (line, 64 * box + inside) if MAJOR[name] == "K" else (64 * box + inside, line)
        wrote, wanted = 2 * (box * elements + element), expected_byte(name, 16, rows, ks, row, k)
        if wrote != wanted:
            break
    witness = ll.verify(h)["placed"].witness
    assert witness and witness.message == (
        f"box {box} element {element} ({', '.join(f'{a}={x}' for a, x in zip(h.tile.extents, (row, k), strict=True))})"
        f" writes byte {wrote}; the MMA reads that element at byte {wanted}"
    )


def test_strides_exchanged_and_the_wrong_major() -> None:
    verdict = ll.verify(named("sV")(descriptor="swapped"))
    assert refuted(verdict) == ["placed"] and verdict.explanation[0].startswith("an order: n is written as (64,2)")
    verdict = ll.verify(named("sV")(read_major="K"))
    assert refuted(verdict) == ["placed"]
    assert verdict["placed"].witness.message == (
        "box 0 element 1 (n=1, k=0) writes byte 2; the MMA reads that element at byte 144"
    )
    assert refuted(ll.verify(named("sQ")(descriptor="swapped"))) == ["placed"]


def test_a_base_off_128_bytes_is_illegal_for_tma_alone() -> None:
    """Both sides swizzle absolute addresses, so the elements still meet; TMA does not take the address."""
    verdict = ll.verify(named("sK")(base=64))
    assert refuted(verdict) == ["legal"]
    assert verdict["legal"].witness.message == "a box starts at byte 64 of shared memory, which 128 does not divide"
    assert ll.verify(named("sK")(base=128)).proved


def test_out_of_bounds_is_zeros_and_counts_as_written() -> None:
    verdict = ll.verify(named("sK")(seq=100))
    assert verdict.proved and "n=100 to 127 lies outside of the tensor: zeros" in str(verdict)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ({"k": 64}, "has an extent for each of m, k"),
        ({"k": 64, "m": 128, "x": 1}, "has an extent for each of m, k"),
        ({"k": 0, "m": 128}, "has an extent for each of m, k"),
    ],
)
def test_boxes_of_other_coordinates_are_refused(box: dict[str, int], message: str) -> None:
    Q = ll.Tile("Q", m=128, k=64, bits=16)
    with pytest.raises(ll.LayoutError, match=message):
        ll.tma_load(ll.smem("(128,64):(64,1)", over=Q), box=box)


def test_starts_that_are_no_sum_are_refused() -> None:
    Q = ll.Tile("Q", m=128, k=256, bits=16)
    with pytest.raises(ll.LayoutError, match="no sum of st"):
        ll.tma_store(Q, box={"k": 64, "m": 128}, swizzle=128, starts_bytes=[0, 16384, 32768, 50000 // 128 * 128])


@pytest.mark.parametrize(
    ("rows", "message"), [(12, "B has a multiple of 8"), (264, "B has a multiple of 8, up to 256")]
)
def test_rows_of_operand_b(rows: int, message: str) -> None:
    B = ll.Tile("B", n=rows, k=16, bits=16)
    desc = ll.SmemDescriptor(start=0, lbo=128, sbo=256, swizzle=0)
    assert message in str([rule.fault for rule in ll.umma_b(desc, B, starts_bytes=[0]).rules()])


@pytest.mark.parametrize(
    ("atom", "order", "right"),
    [("(64,8):(1,64)", (0, 1), False), ("(64,8):(1,64)", (1, 0), True), ("(64,128):(1,64)", (0, 1), True)],
)
def test_two_views_of_one_buffer(atom: str, order: tuple[int, int], right: bool) -> None:
    """V lies as ((8,16),(64,2)):((64,512),(1,8192)); V^T through an atom tiled in the default order is another view."""
    V = ll.Tile("V", n=128, d=128, bits=16)
    sV = ll.smem("S<3,4,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))", over=V, align_bytes=1024)
    view = ll.tile_to_shape(ll.parse(atom), (128, 128), order)
    reader = ll.declared(ll.ComposedLayout(ll.Swizzle(3, 4, 3), 0, ll.make_layout(view[1], view[0])), V)
    verdict = ll.verify(ll.Handoff(V, writer=ll.store("(128,128):(1,128)", sV, bits=16), reader=reader))
    assert verdict.proved == right
    if not right:
        assert verdict["placed"].witness.coordinate == {"n": 0, "d": 64}
        assert "15360 of 16384 elements are misplaced" in verdict["placed"].why


@pytest.mark.parametrize(
    ("bits", "extent", "swizzle", "message"),
    [
        (16, 48, 32, "a row of the box is 96 bytes and the swizzle is 32 bytes wide: a row has to fit"),
        (8, 48, 32, "a row of the box is 48 bytes and the swizzle is 32 bytes wide"),
        (32, 20, 64, "a row of the box is 80 bytes and the swizzle is 64 bytes wide"),
        (16, 60, 0, "a row of the box is 120 bytes: rows are multiples of 16 bytes"),
        (16, 264, 0, "the box has 264 elements in dimension 0: 1 to 256 are possible"),
    ],
)
def test_what_the_driver_refuses_of_a_box(bits: int, extent: int, swizzle: Any, message: str) -> None:
    tile = ll.Tile("Q", m=64, k=extent, bits=bits)
    writer = ll.tma_load(ll.smem(f"(64,{extent}):({extent},1)", over=tile), box={"k": extent, "m": 64}, swizzle=swizzle)
    assert any(message in (rule.fault or "") for rule in writer.rules())


def test_a_stage_beyond_shared_memory_is_refused() -> None:
    with pytest.raises(ll.LayoutError, match="would end at byte 262143, and a block has"):
        named("sK")(kv=256, head_dim=256, slot=1)
