"""The P handoff kernel compiled to PTX for sm_100a: what it must contain, and what each route emits."""

import re

import pytest

from layoutlab.cutedsl.trace import trace_sP

BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}
ROUTES = ("coordinate", "composition", "tiled_copy_d", "tiled_copy_c", "composition_raw")


def compiled_ptx(**settings):
    from layoutlab.kernels.p_handoff import compile_kernel
    from layoutlab.kernels.p_settings import PSettings

    return compile_kernel(PSettings(**settings)).artifacts.PTX


def positions(ptx, *marks):
    """The line of each instruction's first occurrence, in the order asked."""
    lines = [line.strip() for line in ptx.splitlines()]
    return [next(number for number, line in enumerate(lines) if line.startswith(mark)) for mark in marks]


@pytest.mark.parametrize(
    ("settings", "load", "kind", "mmas"),
    [
        ({}, "x32", "f16", 8),
        ({"load": "x64", "kv": 256, "head_dim": 256}, "x64", "f16", 16),
        ({"dtype": "e4m3", "load": "x16"}, "x16", "f8f6f4", 4),
        ({"dtype": "e5m2", "kv": 64, "store": "tiled_copy_d"}, "x32", "f8f6f4", 2),
    ],
)
def test_the_hand_over_stands_in_the_ptx_in_its_order(settings, load, kind, mmas):
    ptx = compiled_ptx(**settings)
    order = positions(
        ptx,
        "tcgen05.alloc",
        f"tcgen05.st.sync.aligned.32x32b.{load}.b32",
        "tcgen05.wait::st",
        f"tcgen05.ld.sync.aligned.32x32b.{load}.b32",
        "fence.proxy.async.shared::cta",
        f"tcgen05.mma.cta_group::1.kind::{kind}",
        "tcgen05.commit",
        "mbarrier.try_wait",
        "tcgen05.fence::after_thread_sync",
        "st.global.v4.b32",
        "tcgen05.dealloc",
    )
    assert order == sorted(order)
    assert ptx.count("tcgen05.mma.") == mmas
    assert ".target sm_100a" in ptx


@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
@pytest.mark.parametrize("store", ROUTES)
def test_each_route_stores_every_value_once(store, dtype):
    emitted = trace_sP({"store": store, "dtype": dtype}, ptx=True, use_cache=False).writer["emitted"]
    width = 2 if dtype == "bf16" else 1
    total = 0
    for kind, count in emitted.items():
        vector, _, element = kind.rpartition(".")
        total += count * BYTES[element] * int(vector[1:] or 1 if vector else 1)
    assert total == 128 * width  # a thread's row of P
    widest = "v4.b32" if store in ("composition", "tiled_copy_d") else f"b{8 * width}"
    assert list(emitted) == [widest]


def test_with_first_warp_1_warp_1_addresses_the_tmem_lanes_of_warp_0():
    ptx = compiled_ptx(first_warp=1)
    assert ".reqntid 160, 1, 1" in ptx
    tid = re.search(r"mov\.u32\s+(%r\d+), %tid\.x;", ptx)[1]
    row = re.search(rf"add\.s32\s+(%r\d+), {tid}, -32;", ptx)[1]
    lanes = re.search(rf"shl\.b32\s+%r\d+, {row}, 16;\s+and\.b32\s+(%r\d+), ", ptx)[1]
    address = re.search(rf"add\.s32\s+(%r\d+), %r\d+, {lanes};", ptx)[1]
    assert f"tcgen05.st.sync.aligned.32x32b.x32.b32 [{address}]" in re.sub(r"\s+", " ", ptx)


def test_the_base_moves_sp_in_shared_memory_and_keeps_its_descriptor():
    plain, moved = (trace_sP({"base": base, "store": "composition"}, ptx=True) for base in (0, 512))
    assert plain.reader["descriptors"] == moved.reader["descriptors"]
    assert (plain.storage["base_bytes"], moved.storage["base_bytes"]) == (0, 512)
    assert "align<1024>" in plain.storage["tensor"]
    assert "align<512>" in moved.storage["tensor"]
