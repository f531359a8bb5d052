"""Loads float32 words through a tensor map of each of their four types on a CUDA device and records what arrives.

    python3 tests/device/tf32_maps.py OUT       on an SM90 device; only the driver and numpy are used

OUT is tests/data/tma_tf32_h200.json.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from programs import Driver  # noqa: E402
from tf32_program import TEXT, words  # noqa: E402

TYPES = {"f32": 7, "f32_ftz": 10, "tf32": 11, "tf32_ftz": 12}  # CUtensorMapDataType


def main(out: Path) -> None:
    driver, given = Driver(), words()
    cuda, check = driver.cuda, driver.check
    memory, module, function = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(512)))
    check(cuda.cuModuleLoadData(ctypes.byref(module), TEXT.encode() + b"\0"))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
    arrived, map_word = {}, {}
    for name, kind in TYPES.items():
        raw = np.zeros(192, np.uint8)
        at = -(-raw.ctypes.data // 64) * 64
        sizes = [ctypes.byref(ctypes.c_uint64(64)), ctypes.byref(ctypes.c_uint64(0))]
        box = [ctypes.byref(ctypes.c_uint32(n)) for n in (64, 1)]
        check(cuda.cuTensorMapEncodeTiled(ctypes.c_void_p(at), kind, 1, memory, *sizes, *box, 0, 0, 0, 0))
        source, result = given.copy(), ctypes.c_uint64(memory.value + 256)
        check(cuda.cuMemcpyHtoD_v2(memory, source.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(256)))
        packed = (ctypes.c_void_p * 2)(at, ctypes.addressof(result))
        check(cuda.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 1024, None, packed, None))
        check(cuda.cuCtxSynchronize())
        check(cuda.cuMemcpyDtoH_v2(source.ctypes.data_as(ctypes.c_void_p), result, ctypes.c_size_t(256)))
        arrived[name] = source.tolist()
        map_word[name] = ctypes.string_at(at + 8, 8).hex()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    what = "one TMA load of 64 words through a tensor map of each float32 type"
    record = {"device": device, "what": what, "given": given.tolist(), "arrived": arrived, "map_word": map_word}
    out.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
