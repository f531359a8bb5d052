"""Tensor maps of float32 and tf32: what a TMA load makes of each word, as an H200 does."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from tf32_program import TEXT, words

from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.run import run
from layoutlab.ptx.tma import TensorMap, decode_tensor_map, encode_tensor_map

RECORD = json.loads((Path(__file__).parent / "data" / "tma_tf32_h200.json").read_text())


def tensor_map(element, buffer):
    return TensorMap(buffer.ctypes.data, element, 4, (64,), (4,), (64,), 0, element_strides=(1,))


def arrived(element):
    raw = np.zeros(64 + 16, np.uint32)
    given = raw[-raw.ctypes.data // 4 % 16 :][:64]
    given[:], out = words(), np.zeros(64, np.uint32)
    text = TEXT.replace(".param .u64 out", ".param .u64 out, .param .u64 source")
    run(text, encode_tensor_map(tensor_map(element, given)), out, given, block=(64, 1, 1), shared_bytes=1024)
    return out


@pytest.mark.parametrize("element", RECORD["arrived"])
def test_a_load_rounds_as_silicon_does(element):
    assert arrived(element).tolist() == RECORD["arrived"][element]
    assert words().tolist() == RECORD["given"]


def test_a_tf32_map_keeps_ten_bits():
    """Of normal numbers it is the nearest float of 10 fraction bits, ties to even."""
    got, given = arrived("tf32"), words()
    normal = (given >> 23 & 0xFF != 0) & (given >> 23 & 0xFF < 254)
    x = given[normal].view(np.float32).astype(np.float64)
    step = 2.0 ** (np.floor(np.log2(np.abs(x))) - 10)
    assert np.array_equal(got[normal].view(np.float32), np.rint(x / step) * step)


@pytest.mark.parametrize("element", RECORD["map_word"])
def test_maps_are_the_drivers(element):
    """The driver's own bits give the type back, and ours are the driver's."""
    buffer = np.zeros(64, np.uint32)
    ours = encode_tensor_map(tensor_map(element, buffer))
    theirs = bytes.fromhex(RECORD["map_word"][element])
    assert struct.unpack("<I", ours[8:12]) == struct.unpack("<I", theirs[:4])
    assert decode_tensor_map(ours[:8] + theirs + ours[16:]).element == element


def test_a_store_through_a_tf32_map_is_refused():
    buffer = np.zeros(64, np.uint32)
    load = next(line for line in TEXT.splitlines() if line.startswith("cp.async"))
    text = TEXT.replace(load, "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {0}], [%r2];")
    with pytest.raises(PtxError, match=r"line 10: .* a store through a tensor map of tf32 is not emulated yet"):
        run(text, encode_tensor_map(tensor_map("tf32", buffer)), buffer, block=(64, 1, 1), shared_bytes=1024)
