"""TMA boxes and cp.async against what an H200 copied, the driver's own refusals, and the public cases."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest

import layoutlab.atoms.tma as module
from layoutlab.atoms.descriptors import SmemDescriptor, pattern_of
from layoutlab.atoms.operand import operand_map
from layoutlab.atoms.tma import TensorMap, cp_async_bytes
from layoutlab.errors import LayoutError
from layoutlab.witnesses import hold
from tests.silicon import head, records


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted >= 10 and result.failed == 0


def described(facts):
    names = {"dims": "dims", "box": "box", "element_strides": "steps"}
    lists = {ours: tuple(facts[theirs]) for ours, theirs in names.items()}
    return TensorMap(
        **lists, strides_bytes=tuple(facts["pitch"][1:]), element_bits=8 * facts["width"], swizzle=facts["swizzle"]
    )


def expected(tensor_map, facts, arrays, *, chunks=True):
    """The array that the copy changed, by the model."""
    start = head()["smem_base"] + facts["offset"]
    moved = tensor_map.copied(facts["coords"], start, store=chunks and bool(facts["store"]))
    shared, inside = moved.shared - head()["smem_base"], moved.inside
    if facts["store"]:
        inside = inside & (moved.tensor < len(arrays["tensor"]))  # bytes past the tensor were not recorded
    out = (arrays["tensor"] if facts["store"] else arrays["image"]).copy()
    for byte in range(facts["width"]):
        if facts["store"]:
            out[moved.tensor[inside] + byte] = arrays["image"][shared[inside] + byte]
        else:
            out[shared[inside] + byte] = arrays["tensor"][moved.tensor[inside] + byte]
            out[shared[~inside] + byte] = 0
    return out


def test_every_copy_on_silicon():
    seen = {"load": 0, "store": 0, "illegal": 0}
    for name, facts, arrays in records("tma"):
        tensor_map = described(facts)
        if facts["outcome"] == "illegal instruction":
            with pytest.raises(LayoutError, match=r"multiples of 16 bytes|no negative coordinate"):
                tensor_map.check_coordinates(facts["coords"], store=bool(facts["store"]))
            seen["illegal"] += 1
            continue
        assert facts["outcome"] == "done"
        assert np.array_equal(expected(tensor_map, facts, arrays), arrays["stored" if facts["store"] else "loaded"]), (
            name
        )
        seen["store" if facts["store"] else "load"] += 1
    hold("TMA boxes", "H200", sum(seen.values()))
    assert min(seen.values()) > 20


@pytest.mark.parametrize("fault", ["dense rows", "no swizzle", "stores by the element"])
def test_silicon_tells_a_wrong_rule(fault, monkeypatch):
    if fault == "dense rows":
        monkeypatch.setattr(TensorMap, "row_pitch", property(lambda self: self.row_bytes))
    if fault == "no swizzle":
        plain = {mode: replace(pattern_of(mode), bits=0) for mode in (0, 32, 64, 128)}
        monkeypatch.setattr(module, "pattern_of", plain.get)
    wrong = 0
    for _, facts, arrays in records("tma"):
        if facts["outcome"] == "done":
            right = arrays["stored" if facts["store"] else "loaded"]
            chunks = fault != "stores by the element"
            wrong += not np.array_equal(expected(described(facts), facts, arrays, chunks=chunks), right)
    assert wrong >= 4


def test_the_driver_agrees_on_what_is_refused():
    """One rule broken at a time: cuTensorMapEncodeTiled's status is 0 exactly where TensorMap is made."""
    seen = {True: 0, False: 0}
    for name, facts, _ in records("driver"):
        case = {**facts, "pitch": [facts["width"], *facts["pitch"]]}
        accepted = facts["status"] == 0
        if facts["steps"] == [2, 1]:
            accepted = False  # the driver takes it and does not read it; we say so
        try:
            made = TensorMap(
                tuple(case["dims"]), tuple(case["pitch"][1:]), tuple(case["box"]), 8 * case["width"], case["swizzle"],
                tuple(case["steps"]), base=case["shift"],
            )  # fmt: skip
        except LayoutError:
            made = None
        assert (made is not None) == accepted, name
        seen[accepted] += 1
    hold("TMA, what the driver refuses", "H200", sum(seen.values()))
    assert min(seen.values()) >= 12


def test_d6_box_wider_than_the_swizzle():
    """D6: a box of 48 16-bit elements with SW32, and its neighbours."""
    with pytest.raises(LayoutError, match=r"96 bytes and the swizzle is 32 bytes wide.*16 elements at most.*128 bytes"):
        TensorMap((96, 64), (192,), (48, 8), 16, swizzle=32)
    for swizzle in (32, 64, 128):
        for bits in (8, 16, 32):
            fits = swizzle * 8 // bits
            TensorMap((1024, 64), (4096,), (fits, 8), bits, swizzle=swizzle)
            with pytest.raises(LayoutError, match=r"has to fit|1 to 256"):
                TensorMap((1024, 64), (4096,), (fits + 128 // bits, 8), bits, swizzle=swizzle)


@pytest.mark.parametrize("columns, bits, right", [(100, 16, 208), (25, 32, 112), (65, 8, 80), (36, 16, 80)])
def test_d7_row_stride(columns, bits, right):
    """D7: a global row of 100 half elements, and others whose bytes 16 does not divide."""
    with pytest.raises(LayoutError, match=f"not a multiple of 16 bytes, {right} is the next"):
        TensorMap((columns, 64), (columns * bits // 8,), (16, 8), bits)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_box_is_what_the_descriptor_reads(swizzle, bits):
    """A TMA tile of 64 rows as wide as the swizzle is a canonical K-major operand, at any multiple of 128 bytes."""
    width = swizzle * 8 // bits
    tensor_map = TensorMap((4 * width, 256), (4 * swizzle,), (width, 64), bits, swizzle=swizzle)
    for start in (0, 1024, 128 * 11):
        desc, starts = SmemDescriptor(start, 0, 8 * swizzle, swizzle), range(0, swizzle, 32)
        read = [desc.stepped(s).addresses(64, 256 // bits, bits) for s in starts]
        written = tensor_map.copied((0, 0), start).shared.reshape(64, width)
        assert np.array_equal(written, np.concatenate(read, axis=1))
        if start % 1024 == 0:
            assert tensor_map.box_map(start, ("k", "m")) == operand_map(desc, 64, bits, starts_bytes=list(starts))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("rows, columns", [(128, 128), (64, 256), (128, 64)])
def test_tiles_of_several_boxes_are_operands(rows, columns, bits):
    """K-major: boxes of 128 bytes of K; MN-major: boxes of 128 bytes of rows, K down. Both as descriptors read them."""
    wide = 1024 // bits
    size = 128 * rows
    k_major = TensorMap((columns, rows), (columns * bits // 8,), (wide, rows), bits, swizzle=128)
    starts = [size * i + 32 * j for i in range(max(1, columns // wide)) for j in range(4)]
    if columns % wide == 0:
        written = k_major.box_map(1024, ("k", "m"), boxes=(columns // wide, 1))
        assert written == operand_map(SmemDescriptor(1024, 0, 1024, 128), rows, bits, starts_bytes=starts)
    if rows % wide == 0 and bits != 32:
        size = 128 * columns
        mn_major = TensorMap((rows, columns), (rows * bits // 8,), (wide, columns), bits, swizzle=128)
        written = mn_major.box_map(1024, ("m", "k"), boxes=(rows // wide, 1)).over("m", "k")
        desc, step = SmemDescriptor(1024, size, 1024, 128), 128 * (256 // bits)
        assert written == operand_map(desc, rows, bits, "MN", range(0, size, step))


def test_boxes_need_aligned_steps():
    small = TensorMap((32, 64), (64,), (32, 3))
    assert small.box_map().bounds("bit")[1] == 8 * 192 - 16
    with pytest.raises(LayoutError, match="byte 192 of shared memory: a multiple of 128"):
        small.box_map(boxes=(1, 2))
    assert small.box_map(boxes=(1, 2), step_bytes=256)(c0=0, c1=3) == {"bit": 2048}


def test_chunks_of_32_bytes():
    """The MN-major operand that swizzle "128_32b" is for: rows of 128 bytes of M, one K each."""
    tensor_map = TensorMap((64, 64), (256,), (32, 8), 32, swizzle="128_32b")
    desc = SmemDescriptor(0, 4096, 512, "128_32b")
    written = tensor_map.copied((0, 0)).shared.reshape(8, 32)
    assert np.array_equal(written.T, desc.addresses(32, 8, 32, "MN"))


def test_the_table_is_the_enumeration():
    equal = 0
    for _, facts, _ in records("tma"):
        tensor_map = described(facts)
        try:
            table = tensor_map.box_map(1024 + facts["offset"])
        except LayoutError as error:
            assert "carry" in str(error)
            continue
        index = np.indices(tuple(reversed(tensor_map.counts))).reshape(len(tensor_map.dims), -1)
        bits = table(**{f"c{i}": c for i, c in enumerate(reversed(index))})["bit"]
        moved = tensor_map.copied((0,) * len(tensor_map.dims), 1024 + facts["offset"])
        assert np.array_equal(np.broadcast_to(bits // 8, moved.shared.shape), moved.shared)
        equal += 1
    assert equal >= 60


def test_cp_async_on_silicon():
    seen = 0
    for _, facts, arrays in records("cp_async"):
        width, out = facts["width"], arrays["image"].copy()
        for lane, (size, to) in enumerate(zip(arrays["sizes"], arrays["to"], strict=True)):
            copied, zeros = cp_async_bytes(width, int(size))
            out[to : to + copied] = arrays["source"][lane * width : lane * width + copied]
            out[to + copied : to + copied + zeros] = 0
            seen += 1
        assert np.array_equal(out, arrays["stored"])
    hold("cp.async", "H200", seen)


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: TensorMap((8,) * 6, (16,) * 5, (8,) * 6), "1 to 5"),
        (lambda: TensorMap((64, 8), (), (64, 8)), "strides_bytes has 0 entries"),
        (lambda: TensorMap((64, 8), (128,), (64,)), "box has 1 entries"),
        (lambda: TensorMap((64, 8), (128,), (64, 8), 4), "4-bit elements"),
        (lambda: TensorMap((64, 8), (128,), (64, 8), swizzle=16), "swizzle is 16"),
        (lambda: TensorMap((64, 8), (128,), (64, 8)).box_map(64), "multiple of 128"),
        (lambda: TensorMap((64, 8), (128,), (64, 8)).check_coordinates((0,)), "1 coordinates"),
        (lambda: TensorMap((64, 8), (128,), (64, 8)).check_coordinates((0, -1), store=True), "no negative"),
        (lambda: cp_async_bytes(2), "4, 8 or 16"),
        (lambda: cp_async_bytes(8, 9), "0 to 8"),
    ],
)
def test_refusals(make, why):
    with pytest.raises(LayoutError, match=why):
        make()
