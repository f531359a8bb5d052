"""Records shared-memory images that CuTe DSL kernels write through swizzled layouts; built without a GPU, run on one.

    CUTE_DSL_ARCH=sm_90a CUTE_DSL_KEEP=ptx,cubin CUTE_DSL_DUMP_DIR=/tmp python3 tests/device/images.py build FOLDER
    python3 tests/device/images.py run FOLDER OUTDIR          writes OUTDIR/images.npz and .json; needs a CUDA device

Each kernel takes a random tile in global memory, writes it into shared memory through Swizzle<b,4,3> over a row-major
layout, and copies the raw shared memory out. Tiles are written element by element, one row a thread, or by stmatrix
from the accumulator fragment of mma.m16n8k16. Where each element went is the DSL's compiled code's and the device's
doing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np


def build(folder: Path) -> None:
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.nvgpu import warp
    from cutlass.cute.runtime import make_fake_compact_tensor

    folder.mkdir(parents=True, exist_ok=True)
    types = {8: cutlass.Uint8, 16: cutlass.Uint16, 32: cutlass.Uint32}
    case: list = []

    def tensors(dtype, rows: int, columns: int, bits: int):
        pointer = cute.arch.alloc_smem(dtype, rows * columns, alignment=1024)
        outer = cute.make_layout((rows, columns), stride=(columns, 1))
        swizzled = cute.recast_ptr(pointer, cute.make_swizzle(bits, 4, 3), dtype=dtype)
        return cute.make_tensor(swizzled, outer), cute.make_tensor(pointer, outer)

    @cute.kernel
    def by_threads(source, image):
        dtype, bits, rows, columns = case
        t, _, _ = cute.arch.thread_idx()
        tile, raw = tensors(dtype, rows, columns, bits)
        for c in cutlass.range(columns):
            tile[t, c] = source[t, c]
        cute.arch.sync_threads()
        for c in cutlass.range(columns):
            image[t, c] = raw[t, c]

    @cute.kernel
    def by_stmatrix(source, image):
        dtype, bits, rows, columns = case
        t, _, _ = cute.arch.thread_idx()
        tile, raw = tensors(dtype, rows, columns, bits)
        mma = cute.make_tiled_mma(warp.MmaF16BF16Op(dtype, cutlass.Float32, (16, 8, 16)), permutation_mnk=(16, 16, 16))
        mine = mma.get_slice(t)
        fragment = cute.make_rmem_tensor(mma.partition_shape_C((rows, columns)), dtype)
        cute.autovec_copy(mine.partition_C(source), fragment)
        copy = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), dtype), mma)
        part = copy.get_slice(t)
        cute.copy(copy, part.retile(fragment), part.partition_D(tile))
        cute.arch.sync_threads()
        for i in cutlass.range(rows * columns // 32):
            image[i * 32 + t] = raw[i * 32 + t]

    @cute.jit
    def threads_main(source, image):
        by_threads(source, image).launch(grid=(1, 1, 1), block=(64, 1, 1))

    @cute.jit
    def stmatrix_main(source, image):
        by_stmatrix(source, image).launch(grid=(1, 1, 1), block=(32, 1, 1))

    manifest = {}
    jobs = [("threads", threads_main, types[w], w, b, 64) for w in types for b in range(4)]
    jobs += [("stmatrix", stmatrix_main, cutlass.Float16, 16, b, 32) for b in range(1, 4)]
    for how, main, dtype, width, bits, rows in jobs:
        columns = (16 << bits) * 8 // width
        case[:] = [dtype, bits, rows, columns]
        tile = make_fake_compact_tensor(dtype, (rows, columns), stride_order=(1, 0), assumed_align=16)
        compiled = cute.compile(main, tile, tile)
        name = f"{how}.{width}.{bits}"
        (folder / f"{name}.cubin").write_bytes(compiled.artifacts.CUBIN)
        entry = re.search(r"\.entry (\S+)\(", compiled.artifacts.PTX)[1]
        manifest[name] = {"entry": entry, "bits": width, "swizzle": bits, "rows": rows, "columns": columns}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    print(len(manifest), "kernels")


def run(folder: Path, out: Path) -> None:
    import cupy

    rng, arrays = np.random.default_rng(7), {}
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, facts in manifest.items():
        kernel = cupy.RawModule(path=str(folder / f"{name}.cubin")).get_function(facts.pop("entry"))
        kind = np.dtype(f"u{facts['bits'] // 8}")
        source = rng.integers(0, 1 << facts["bits"], (facts["rows"], facts["columns"]), dtype=kind)
        g, image = cupy.asarray(source), cupy.asarray(np.full_like(source, 0x7E))
        kernel((1,), (64 if name.startswith("threads") else 32,), (np.uint64(g.data.ptr), np.uint64(image.data.ptr)))
        cupy.cuda.runtime.deviceSynchronize()
        arrays |= {f"{name}/source": source, f"{name}/image": cupy.asnumpy(image)}
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    head = {
        "device": device,
        "date": date.today().isoformat(),
        "command": "python3 tests/device/images.py run FOLDER OUTDIR",
    }
    np.savez_compressed(out / "images.npz", **arrays)
    (out / "images.json").write_text(json.dumps({**head, "compiler": "nvidia-cutlass-dsl 4.8.1", "records": manifest}))
    print(len(manifest), "images", device)


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build(Path(sys.argv[2]))
    else:
        run(Path(sys.argv[2]), Path(sys.argv[3]))
