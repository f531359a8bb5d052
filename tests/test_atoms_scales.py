"""Scale factors and tcgen05.cp against CuTe DSL, Triton and the public case."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import layoutlab.atoms.scales as module
from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.atoms.scales import (
    TmemCopy,
    check_scales,
    padded,
    scale_ids,
    scale_layout,
    scale_map,
    scales_per_instruction,
)
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.witnesses import hold
from tests.oracles import dsl
from tests.oracles import triton_facts as triton

LANE = 65536 * 4  # bytes from one lane to the next in a Tensor Memory address of 8-bit elements


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted >= 12 and result.failed == 0


def whole(rows, vectors, warps=1):
    return np.indices((rows, vectors, warps))


def test_dsl_agrees_on_shared_memory():
    """(row, k) -> byte of the DSL's scale factor tensors; each k of a vector has the same one."""
    seen = 0
    for fact in dsl.facts("scales", "sm_100a"):
        assert fact["kind"] == "scales", fact
        rows, vector = fact["rows"], fact["vector"]
        theirs = dsl.layout(fact["whole"])
        ks = theirs[1].size()  # padded to four vectors
        vectors = ks // vector
        mine = scale_layout(rows, vectors)
        r, k = np.indices((rows, ks))
        assert np.array_equal(theirs(r + rows * k), mine(r + rows * (k // vector)))
        # Shared memory: ((rows, k of an instruction), 1, steps, stage), one stage.
        shared = dsl.layout(fact["shared"])
        r, k = np.indices((rows, shared[0][1].size()))
        for step in range(shared[2].size()):
            at = shared[0](r + rows * k) + shared[2](step)
            first = (step * shared[0][1].size()) // vector
            assert np.array_equal(at, mine(r + rows * (first + k // vector)))
        seen += 1
    hold("scale factors in shared memory", "CuTe DSL", seen)


def test_dsl_agrees_on_tensor_memory():
    seen = 0
    for fact in dsl.facts("scales", "sm_100a"):
        rows, vector = fact["rows"], fact["vector"]
        for key in ("tmem_a", "tmem_b"):
            theirs = dsl.layout(fact[key])  # (((row, warp), k), 1, steps)
            lanes, ks, steps = theirs[0][0], theirs[0][1], theirs[2]
            per_step = ks.size() // vector
            vectors = padded(rows, steps.size() * per_step)[1]
            r, v, w = whole(rows, steps.size() * per_step, 4)
            mine = scale_map(rows, vectors)(row=r, vector=v, warp=w)
            at = lanes(r + rows * w) + ks(v % per_step * vector) + steps(v // per_step)
            assert np.array_equal(at, mine["lane"] * LANE + mine["byte"]), fact
            seen += 1
    hold("scale factors in Tensor Memory", "CuTe DSL", seen)


def test_triton_agrees_on_tensor_memory():
    """Triton keeps two groups of 32 rows at least; from 64 rows on it is the same map."""
    seen = 0
    for fact in triton.facts("scales"):
        rows, vectors = fact["shape"]
        lanes, columns = triton.image(fact["rows"]), triton.image(fact["cols"])
        groups = max(rows, 64)
        r, v, w = whole(rows, vectors, 4)
        at = scale_map(groups, vectors)(row=r, vector=v, warp=w)
        found = lanes[at["lane"]] ^ columns[at["byte"]]
        assert (found[..., 0] == r).all() and (found[..., 1] == v).all(), fact
        seen += 1
    hold("scale factors in Tensor Memory", "Triton", seen)


def test_copy_shapes():
    """Every lane gets one line, the lines are those that the name says, and no bit is written twice."""
    expected = {
        "128x256b": (128, 1, 8),
        "128x128b": (128, 1, 4),
        "4x256b": (4, 1, 8),
        "64x128b.warpx2::02_13": (64, 2, 4),
        "64x128b.warpx2::01_23": (64, 2, 4),
        "32x128b.warpx4": (32, 4, 4),
    }
    for name, (lines, copies, columns) in expected.items():
        copy = TmemCopy(name)
        assert (copy.lines, copy.copies, copy.columns) == (lines, copies, columns)
        assert copy.lane_map().collision() is None
        line, twin = np.indices((lines, copies))
        lane = copy.lane_map()(line=line, copy=twin, bit=0)["lane"]
        if name == "4x256b":
            assert lane.ravel().tolist() == [0, 32, 64, 96]
        else:
            assert sorted(lane.ravel().tolist()) == list(range(128))
        if "warpx2" in name:  # 02_13: warps 0 and 2 have one half, 1 and 3 the other
            warps = {tuple(sorted(pair // 32)) for pair in lane}
            assert warps == ({(0, 2), (1, 3)} if "02_13" in name else {(0, 1), (2, 3)})


def test_copies_read_by_descriptor():
    """A swizzled source is read as operand A is; 32-byte lines are two chunks, lbo apart."""
    swizzled = TmemCopy("128x128b").read_bytes(SmemDescriptor(0, 0, 1024, 128))
    assert swizzled[1, 0] == 144 and swizzled[8, 0] == 1024
    two = TmemCopy("128x256b").read_bytes(SmemDescriptor(0, 2048, 128, 0))
    assert two[1, 16] == 2064


def test_d9_row_order():
    """D9: 128 rows of 4-byte scales in row order: line 0 holds rows 0-3, needs 0, 32, 64, 96; 126 words wrong."""
    with pytest.raises(LayoutError, match=r"line 0 holds rows 0, 1, 2, 3, .* needs 0, 32, 64, 96: 126 of 128"):
        check_scales(Layout((128, 4), (4, 1)))
    with pytest.raises(LayoutError, match=r"line 0 holds rows 0, 32, 64, 96.*128 of 128|words are wrong"):
        check_scales(Layout(((32, 4), 4), ((16, 4), 128)))
    assert check_scales(scale_layout(128, 4)) == 128
    with pytest.raises(LayoutError, match="no block"):
        check_scales(Layout((64, 4), (4, 1)))


@pytest.mark.parametrize("rows, vectors", [(128, 4), (100, 3), (256, 8), (129, 17), (384, 12)])
def test_layout_covers_its_padding(rows, vectors):
    layout = scale_layout(rows, vectors)
    size = padded(rows, vectors)[0] * padded(rows, vectors)[1]
    assert sorted(layout(np.arange(size)).tolist()) == list(range(size))


def test_ids():
    for kind, vector, count in (("mxf8f6f4", 32, 1), ("mxf4", 32, 2), ("mxf4nvf4", 16, 4), ("mxf4nvf4", 32, 2)):
        assert scales_per_instruction(kind, vector) == count == 4 // len(scale_ids(kind, vector))
    with pytest.raises(LayoutError, match="no mxf4 vectors of 16"):
        scale_ids("mxf4", 16)
    with pytest.raises(LayoutError, match="32 rows and 4 vectors"):
        scale_map(48, 4)
