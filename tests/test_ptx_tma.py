# ruff: noqa: E501  (lines of PTX)
"""TMA boxes of every rank at random coordinates, inside, across and outside the tensor, element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ptx_programs import kernel

from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.run import run
from layoutlab.ptx.tma import TensorMap, encode_tensor_map


def moved(tensor, box, place, store=False, steps=None):
    """The box's words after a load, or the tensor after a store of 1, 2, 3, ...; dimension 0 is the last axis."""
    rank = tensor.ndim
    strides = tuple(reversed(tensor.strides))
    where = TensorMap(
        tensor.ctypes.data, "f32", 4, tuple(reversed(tensor.shape)), strides, box, 0,
        element_strides=steps or (1,) * rank,
    )  # fmt: skip
    words = where.box_bytes // 4
    at = ", ".join(map(str, place))
    body = "  mov.u64 %rd5, map; cvta.param.u64 %rd5, %rd5; mov.u32 %r8, smem; ld.param.u64 %rd1, [image]; mov.u32 %r1, %tid.x;\n"
    body += "  setp.ne.u32 %p2, %r1, 0; add.u32 %r9, %r8, 16384; mad.lo.u32 %r2, %r1, 4, %r8; mad.wide.u32 %rd2, %r1, 4, %rd1;\n"
    copy = f"  mov.u32 %r3, %r1;\nC: setp.ge.u32 %p1, %r3, {words}; @%p1 bra D; {{}}\n"
    copy += "  add.u32 %r3, %r3, 32; add.u32 %r2, %r2, 128; add.u64 %rd2, %rd2, 128; bra C;\nD: bar.warp.sync -1;\n"
    if store:
        body += (
            copy.format("ld.global.b32 %r4, [%rd2]; st.shared.b32 [%r2], %r4;")
            + "  fence.proxy.async.shared::cta; bar.warp.sync -1;\n"
        )
        body += f"  @%p2 bra E; cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd5, {{{at}}}], [%r8];\n"
        body += "  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nE:\n"
    else:
        body += f"  @%p2 bra S; mbarrier.init.shared::cta.b64 [%r9], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], {4 * words};\n"
        body += f"  cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd5, {{{at}}}], [%r9];\n"
        body += "S: bar.warp.sync -1;\nW: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], 0; @!%p3 bra W;\n"
        body += copy.format("ld.shared.b32 %r4, [%r2]; st.global.b32 [%rd2], %r4;")
    text = kernel([("map", "align 64 .b8"), ("buffer", "u64"), ("image", "u64")], body).replace(
        ".b8 map", ".b8 map[128]"
    )
    text = text.replace(".entry", ".extern .shared .align 1024 .b8 smem[];\n.entry", 1)
    image = np.arange(1, words + 1, dtype=np.float32) if store else np.full(words, np.nan, np.float32)
    report = run(text, encode_tensor_map(where), tensor, image, shared_bytes=16448)
    assert not report.warnings
    return image


def aligned(shape):
    """A tensor of 1, 2, 3, ... that starts at a multiple of 16 bytes."""
    raw = np.zeros(int(np.prod(shape)) + 8, np.float32)
    start = -raw.ctypes.data % 16 // 4
    x = raw[start : start + int(np.prod(shape))].reshape(shape)
    x.ravel()[:] = np.arange(1, x.size + 1)
    return x


def problem(seed):
    rng = np.random.default_rng(seed)
    rank = 1 + seed % 5
    shape = (*rng.integers(1, 5, rank - 1).tolist(), 4 * int(rng.integers(1, 5)))
    box = (4 * int(rng.integers(1, 5)), *rng.integers(1, 5, rank - 1).tolist())
    place = [4 * int(rng.integers(-2, 4)), *rng.integers(-2, 4, rank - 1).tolist()]
    return rng, shape, box, place


def elements(shape, box, place):
    """(number in the box, index in the tensor or None) of each element, dimension 0 fastest."""
    for number, offsets in enumerate(itertools.product(*(range(n) for n in reversed(box)))):
        index = tuple(p + o for p, o in zip(reversed(place), offsets, strict=True))
        yield number, index if all(0 <= i < n for i, n in zip(index, shape, strict=True)) else None


@pytest.mark.parametrize("seed", range(60))
def test_loads(seed):
    _, shape, box, place = problem(seed)
    tensor = aligned(shape)
    want = [0 if index is None else tensor[index] for _, index in elements(shape, box, place)]
    assert moved(tensor, box, place).tolist() == want


@pytest.mark.parametrize("seed", range(60))
def test_stores(seed):
    _, shape, box, place = problem(seed)
    place = [abs(p) for p in place]  # a store at a negative coordinate is an illegal instruction
    tensor = aligned(shape)
    want = tensor.copy()
    for number, index in elements(shape, box, place):
        if index is not None:
            want[index] = number + 1
    moved(tensor, box, place, store=True)
    assert np.array_equal(tensor, want)


def test_steps_take_every_second_row():
    tensor = aligned((7, 8))
    got = moved(tensor, (8, 5), (0, 1), steps=(1, 2)).reshape(3, 8)
    assert np.array_equal(got, tensor[[1, 3, 5]])


def test_what_a_box_may_not_be():
    tensor = aligned((4, 8))
    for box, place, message in (
        ((3, 2), (0, 0), "a box row of 12 bytes, no multiple of 16"),
        ((4, 2), (1, 0), "coordinate 0 starts at byte 4, no multiple of 16"),
        ((4, 2), (0, 0, 0), "3 coordinates for a tensor map of rank 2"),
    ):
        with pytest.raises(PtxError, match=message):
            moved(tensor, box, place)
    with pytest.raises(PtxError, match=r"negative coordinates \(0, -1\)"):
        moved(tensor, (4, 2), (0, -1), store=True)
