"""The P handoff kernel run instruction by instruction on the CPU: O is P V where the store is right, and only there."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from layoutlab.ptx.memory import AccessError
from layoutlab.replay import replay

DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
ROUTES = ("coordinate", "composition", "tiled_copy_d")


def aligned(shape, dtype):
    """A zeroed array that starts at a multiple of 16 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + 16, np.uint8)
    start = -buffer.ctypes.data % 16
    return buffer[start : start + size].view(dtype).reshape(shape)


def relative_error(**values):
    """How far O is from P V in float64, as a share of the largest element."""
    from layoutlab.kernels.p_handoff import compile_kernel, pointers
    from layoutlab.kernels.p_settings import PSettings

    settings = PSettings(**values)
    dtype = DTYPES[settings.dtype]
    random = np.random.default_rng(settings.kv + settings.head_dim)
    S, V, O = (  # noqa: E741
        aligned((128, settings.kv), np.float32),
        aligned((settings.kv, settings.head_dim), dtype),
        aligned((128, settings.head_dim), np.float32),
    )
    S[:] = random.standard_normal(S.shape)
    V[:] = random.standard_normal(V.shape).astype(dtype)
    arguments = pointers(settings, S.ctypes.data, V.ctypes.data, O.ctypes.data)
    replay(compile_kernel(settings), *arguments, buffers=[S, V.view(np.uint8), O])
    expected = S.astype(dtype).astype(np.float64) @ V.astype(np.float64)
    return np.abs(O - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("store", ROUTES)
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"dtype": "e4m3", "kv": 64, "head_dim": 128},
        {"dtype": "f16", "kv": 256, "head_dim": 256, "load": "x64", "base": 48},
        {"dtype": "e5m2", "load": "x16", "base": 528, "write_swizzle": "absolute"},
    ],
    ids=str,
)
def test_right_stores_give_the_product(store, values):
    assert relative_error(store=store, **values) < 1e-6


@pytest.mark.parametrize(
    "values",
    [
        {"write_swizzle": "none"},
        {"write_swizzle": "elements", "store": "composition"},
        {"write_swizzle": "relative", "base": 512, "store": "tiled_copy_d"},
        {"k_order": "021"},
        {"store": "composition_raw"},
        {"store": "composition_raw", "write_swizzle": "relative"},
        {"store": "tiled_copy_c"},
    ],
    ids=str,
)
def test_planted_faults_spoil_the_product(values):
    assert not relative_error(**values) < 0.1  # NaN, where what was never written is read


def test_relative_offsets_at_an_aligned_base_are_right():
    assert relative_error(write_swizzle="relative", base=1024) < 1e-6


def test_first_warp_1_stops_at_the_lanes_that_warp_1_may_not_touch():
    with pytest.raises(AccessError, match="warp 1 of CTA 0 touches TMEM lanes 0 to 31; it owns 32 to 63"):
        relative_error(first_warp=1)


@pytest.mark.slow
def test_every_right_combination_gives_the_product():
    names = ("store", "kv", "head_dim", "dtype", "load")
    tested = 0
    for values in itertools.product(ROUTES, (64, 128, 256), (64, 128, 256), DTYPES, ("x16", "x32", "x64")):
        assert relative_error(**dict(zip(names, values, strict=True))) < 1e-6, values
        tested += 1
    assert tested == 324
