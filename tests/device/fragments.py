# ruff: noqa: E501  (lines of CUDA)
"""Records what SM90 instructions do to raw registers and raw shared memory; run on a CUDA device.

    python3 tests/device/fragments.py OUTDIR [--compile-only]      writes OUTDIR/fragments.npz and .json

Inputs are random and drawn register by register or byte by byte: no thread-value map is used here, so the records can be
held against any. Outputs are poisoned before each run. What is recorded:

    mma/*       mma.sync: A, B, C registers of 32 lanes in, D registers out
    ldmatrix/*  a shared-memory image and 32 row addresses in, registers out
    stmatrix/*  registers and 32 row addresses in, the shared-memory image out
    wgmma/*     A registers of 128 threads or a descriptor, a B descriptor, an image in; D registers out
    tma/*       a tensor, a box, coordinates in; the shared-memory image or the tensor out
    cp_async/*  source bytes and sizes in; the shared-memory image out
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np

KINDS = {  # element type: bits, encoding of small integers
    "f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "s4": 4, "b1": 1, "e4m3": 8, "e5m2": 8, "f64": 64,
}  # fmt: skip

# (shape m, n, k, A/B type, C/D type, A registers, B registers, C registers)
MMA = [
    (16, 8, 8, "f16", "f32", 2, 1, 4), (16, 8, 16, "f16", "f32", 4, 2, 4),
    (16, 8, 8, "f16", "f16", 2, 1, 2), (16, 8, 16, "f16", "f16", 4, 2, 2),
    (16, 8, 8, "bf16", "f32", 2, 1, 4), (16, 8, 16, "bf16", "f32", 4, 2, 4),
    (16, 8, 4, "tf32", "f32", 2, 1, 4), (16, 8, 8, "tf32", "f32", 4, 2, 4),
    (8, 8, 16, "s8", "s32", 1, 1, 2), (16, 8, 16, "s8", "s32", 2, 1, 4), (16, 8, 32, "s8", "s32", 4, 2, 4),
    (8, 8, 32, "s4", "s32", 1, 1, 2), (16, 8, 32, "s4", "s32", 2, 1, 4), (16, 8, 64, "s4", "s32", 4, 2, 4),
    (8, 8, 128, "b1", "s32", 1, 1, 2), (16, 8, 128, "b1", "s32", 2, 1, 4), (16, 8, 256, "b1", "s32", 4, 2, 4),
    (16, 8, 32, "e4m3", "f32", 4, 2, 4), (16, 8, 32, "e5m2", "f32", 4, 2, 4), (16, 8, 32, "e4m3", "f16", 4, 2, 2), (16, 8, 32, "e5m2", "f16", 4, 2, 2),
    (8, 8, 4, "f64", "f64", 1, 1, 2), (16, 8, 4, "f64", "f64", 2, 1, 4),
    (16, 8, 8, "f64", "f64", 4, 2, 4), (16, 8, 16, "f64", "f64", 8, 4, 4),
]  # fmt: skip

# (n, k, A/B type, D type, A from registers, A is MN-major, B is MN-major)
WGMMA = [
    *((n, 16, "f16", "f32", rs, 0, 0) for n in (8, 24, 64, 256) for rs in (0, 1)),
    *((n, 16, "bf16", "f32", 1, 0, 0) for n in (16, 40, 96, 128, 192)),
    *((n, 16, "f16", "f16", rs, 0, 0) for n in (8, 64) for rs in (0, 1)),
    *((64, 16, t, "f32", 0, ta, tb) for t in ("f16", "bf16") for ta in (0, 1) for tb in (0, 1)),
    *((64, 16, "bf16", "f32", 1, 0, tb) for tb in (0, 1)),
    *((32, 8, "tf32", "f32", rs, 0, 0) for rs in (0, 1)),
    *((32, 32, t, d, rs, 0, 0) for t, d in (("e4m3", "f32"), ("e5m2", "f16"), ("s8", "s32")) for rs in (0, 1)),
]  # fmt: skip
IMAGE = 32768  # bytes of shared memory in a wgmma record: A in the first half, B in the second


def regs(start: int, count: int) -> str:
    return "{" + ",".join(f"%{start + i}" for i in range(count)) + "}"


def mma_kernel(i: int, row: tuple) -> str:
    m, n, k, ab, cd, a, b, c = row
    word, constraint = ("double", "d") if ab == "f64" else ("uint32_t", "r")
    op = ".and.popc" if ab == "b1" else ""
    name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{cd}.{ab}.{ab}.{cd}{op}"
    if ab == "f64" and m == 16:
        name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.f64.f64.f64.f64"
    outs = ", ".join(f'"={constraint}"(d[{j}])' for j in range(c))
    if cd in ("f32", "f64"):
        outs = ", ".join(f'"={"f" if cd == "f32" else "d"}"(d[{j}])' for j in range(c))
    acc = {"f32": "float", "f64": "double"}.get(cd, "uint32_t")
    acc_constraint = {"f32": "f", "f64": "d"}.get(cd, "r")
    ins = [f'"{constraint}"(A[t*{a}+{j}])' for j in range(a)] + [f'"{constraint}"(B[t*{b}+{j}])' for j in range(b)]
    ins += [f'"{acc_constraint}"(C[t*{c}+{j}])' for j in range(c)]
    text = f"{name} {regs(0, c)}, {regs(c, a)}, {regs(c + a, b)}, {regs(c + a + b, c)};"
    return f"""
extern "C" __global__ void mma_{i}(const {word}* A, const {word}* B, const {acc}* C, {acc}* D) {{
  int t = threadIdx.x; {acc} d[{c}];
  asm volatile("{text}" : {outs} : {", ".join(ins)});
  for (int j = 0; j < {c}; ++j) D[t*{c}+j] = d[j];
}}"""


def wgmma_kernel(i: int, row: tuple) -> str:
    n, k, ab, cd, rs, ta, tb = row
    count = n // 2 if cd != "f16" else n // 4
    acc, con = {"f32": ("float", "f"), "f16": ("uint32_t", "r"), "s32": ("uint32_t", "r")}[cd]
    operands = (regs(count, 4) if rs else f"%{count}") + f", %{count + (4 if rs else 1)}, 0"
    flags = "" if cd == "s32" else ", 1, 1"
    if ab in ("f16", "bf16"):
        flags += f", {tb}" if rs else f", {ta}, {tb}"
    # scale-d = 0 as an immediate predicate: D = A * B
    text = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{cd}.{ab}.{ab} {regs(0, count)}, {operands.replace(', 0', ', p')}{flags};"
    text = "{.reg .pred p; setp.ne.b32 p, 0, 0; " + text + "}"
    outs = ", ".join(f'"+{con}"(d[{j}])' for j in range(count))
    ins = [f'"r"(A[t*4+{j}])' for j in range(4)] if rs else ['"l"(da)']
    return f"""
extern "C" __global__ void wgmma_{i}(const uint32_t* A, const uint4* image, uint64_t da, uint64_t db, {acc}* D) {{
  int t = threadIdx.x; {acc} d[{count}];
  for (int j = 0; j < {count}; ++j) d[j] = {acc}(j);
  for (int j = t; j < {IMAGE // 16}; j += 128) reinterpret_cast<uint4*>(smem)[j] = image[j];
  uint64_t base = (uint32_t)__cvta_generic_to_shared(smem) >> 4;
  da += base; db += base;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{text}" : {outs} : {", ".join(ins)}, "l"(db));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int j = 0; j < {count}; ++j) D[t*{count}+j] = d[j];
}}"""


def matrix_kernel(which: str, x: int, trans: str) -> str:
    name = f"{which}_x{x}{'t' if trans else ''}"
    rows = regs(0, x) if which == "ldmatrix" else regs(1, x)
    if which == "ldmatrix":
        outs = ", ".join(f'"=r"(r[{j}])' for j in range(x))
        body = f'asm volatile("ldmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16 {rows}, [%{x}];" : {outs} : "r"(a));'
    else:
        ins = ", ".join(f'"r"(r[{j}])' for j in range(x))
        body = f'asm volatile("stmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16 [%0], {rows};" :: "r"(a), {ins} : "memory");'
    return f"""
extern "C" __global__ void {name}(uint32_t* image, const uint32_t* address, uint32_t* R) {{
  int t = threadIdx.x; uint32_t r[{x}];
  for (int j = t; j < 1024; j += 32) reinterpret_cast<uint32_t*>(smem)[j] = image[j];
  for (int j = 0; j < {x}; ++j) r[j] = R[t*{x}+j];
  __syncwarp();
  uint32_t a = address[t] + (uint32_t)__cvta_generic_to_shared(smem);
  {body}
  __syncwarp();
  for (int j = t; j < 1024; j += 32) image[j] = reinterpret_cast<uint32_t*>(smem)[j];
  for (int j = 0; j < {x}; ++j) R[t*{x}+j] = r[j];
}}"""


TMA = r"""
struct alignas(64) TensorMap { unsigned char bytes[128]; };
#define COORDS4(d) "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
template <int D> __device__ void tma_load(uint32_t dst, const void* map, const int* c, uint32_t bar) {
  if constexpr (D == 1) asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" :: "r"(dst), "l"(map), "r"(c[0]), "r"(bar) : "memory");
  if constexpr (D == 2) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3}], [%4];" :: "r"(dst), "l"(map), "r"(c[0]), "r"(c[1]), "r"(bar) : "memory");
  if constexpr (D == 3) asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3,%4}], [%5];" :: "r"(dst), "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(bar) : "memory");
}
template <int D> __device__ void tma_store(uint32_t src, const void* map, const int* c) {
  if constexpr (D == 1) asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];" :: "l"(map), "r"(c[0]), "r"(src) : "memory");
  if constexpr (D == 2) asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1,%2}], [%3];" :: "l"(map), "r"(c[0]), "r"(c[1]), "r"(src) : "memory");
  if constexpr (D == 3) asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1,%2,%3}], [%4];" :: "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(src) : "memory");
}
template <int D> __device__ void tma_body(const void* map, int store, uint32_t offset, uint32_t tx, const int* c, uint4* image) {
  uint32_t b = (uint32_t)__cvta_generic_to_shared(smem) + 16384, at = (uint32_t)__cvta_generic_to_shared(smem) + offset;
  int t = threadIdx.x;
  for (int j = t; j < 1024; j += 32) reinterpret_cast<uint4*>(smem)[j] = image[j];
  if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncwarp();
  if (t == 0) {
    if (store) {
      tma_store<D>(at, map, c);
      asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    } else {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(tx) : "memory");
      tma_load<D>(at, map, c, b);
      uint32_t done = 0;
      for (int i = 0; i < 3000 && !done; ++i)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(b) : "memory");
      if (!done) reinterpret_cast<uint32_t*>(smem)[4095] = 0xBAD0BAD0u;  // the transaction count was not what was expected
    }
  }
  __syncwarp();
  for (int j = t; j < 1024; j += 32) image[j] = reinterpret_cast<uint4*>(smem)[j];
}
#define TMA_KERNEL(D) extern "C" __global__ void tma_##D(const TensorMap* map, int store, uint32_t offset, \
    uint32_t tx, int c0, int c1, int c2, uint4* image) { int c[3] = {c0, c1, c2}; tma_body<D>(map, store, offset, tx, c, image); }
TMA_KERNEL(1) TMA_KERNEL(2) TMA_KERNEL(3)
extern "C" __global__ void base(uint32_t* out) { *out = (uint32_t)__cvta_generic_to_shared(smem); }
template <int W> __device__ void copy_async(uint32_t dst, const void* src, uint32_t n) {
  if constexpr (W == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst), "l"(src), "r"(n) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(dst), "l"(src), "n"(W), "r"(n) : "memory");
}
#define CP_KERNEL(W) extern "C" __global__ void cp_async_##W(const unsigned char* src, const uint32_t* n, const uint32_t* to, uint4* image) { \
  int t = threadIdx.x; for (int j = t; j < 64; j += 32) reinterpret_cast<uint4*>(smem)[j] = image[j]; __syncwarp(); \
  copy_async<W>((uint32_t)__cvta_generic_to_shared(smem) + to[t], src + W * t, n[t]); \
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory"); __syncwarp(); \
  for (int j = t; j < 64; j += 32) image[j] = reinterpret_cast<uint4*>(smem)[j]; }
CP_KERNEL(4) CP_KERNEL(8) CP_KERNEL(16)
"""


def source() -> str:
    parts = ["#include <cstdint>\nextern __shared__ __align__(1024) unsigned char smem[];"]
    parts += [mma_kernel(i, row) for i, row in enumerate(MMA)]
    parts += [wgmma_kernel(i, row) for i, row in enumerate(WGMMA)]
    parts += [
        matrix_kernel(which, x, trans)
        for which in ("ldmatrix", "stmatrix") for x in (1, 2, 4) for trans in ("", ".trans")
    ]  # fmt: skip
    return "\n".join([*parts, TMA])


def compile_cubin(folder: Path) -> Path:
    text, cubin = folder / "fragments.cu", folder / "fragments.cubin"
    text.write_text(source())
    subprocess.run(["nvcc", "-O1", "-std=c++17", "-arch=sm_90a", "-cubin", "-o", cubin, text], check=True)
    return cubin


# -- random registers -------------------------------------------------------------------------------------------------


def encoded(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """`count` small integers in the type's own bits, as bytes (two 4-bit ones, eight 1-bit ones, to a byte)."""
    x = rng.integers(-3, 4, count)
    if kind in ("f16",):
        return x.astype(np.float16).view(np.uint8)
    if kind == "f32":
        return x.astype(np.float32).view(np.uint8)
    if kind == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if kind == "tf32":
        return x.astype(np.float32).view(np.uint8)
    if kind == "f64":
        return x.astype(np.float64).view(np.uint8)
    if kind == "s8":
        return x.astype(np.int8).view(np.uint8)
    if kind == "s32":
        return x.astype(np.int32).view(np.uint8)
    if kind == "s4":
        nibble = (x & 15).astype(np.uint8)
        return nibble[0::2] | nibble[1::2] << 4
    if kind == "b1":
        return rng.integers(0, 256, count // 8).astype(np.uint8)
    if kind == "e4m3":  # 0, 1, 2, 3 and their negatives
        return np.array([0x00, 0x38, 0x40, 0x44], np.uint8)[abs(x)] | np.where(x < 0, 0x80, 0).astype(np.uint8)
    if kind == "e5m2":
        return np.array([0x00, 0x3C, 0x40, 0x42], np.uint8)[abs(x)] | np.where(x < 0, 0x80, 0).astype(np.uint8)
    raise KeyError(kind)


def registers(rng: np.random.Generator, kind: str, threads: int, count: int) -> np.ndarray:
    size = 8 if kind == "f64" else 4
    bits = KINDS.get(kind, 32)
    return (
        encoded(rng, kind, threads * count * size * 8 // bits)
        .view(np.float64 if size == 8 else np.uint32)
        .reshape(threads, count)
    )


# -- running ----------------------------------------------------------------------------------------------------------


class Recorder:
    def __init__(self, cubin: Path) -> None:
        import cupy

        self.cupy, self.module = cupy, cupy.RawModule(path=str(cubin))
        self.arrays: dict[str, np.ndarray] = {}
        self.meta: dict[str, dict] = {}
        self.rng = np.random.default_rng(20261129)

    def launch(self, name: str, threads: int, args: list, shared: int = 0) -> None:
        kernel = self.module.get_function(name)
        if shared > 48000:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((1,), (threads,), tuple(args), shared_mem=shared)
        self.cupy.cuda.runtime.deviceSynchronize()

    def keep(self, name: str, meta: dict, **arrays: np.ndarray) -> None:
        self.meta[name] = meta
        self.arrays.update({f"{name}/{key}": value for key, value in arrays.items()})

    def mma(self) -> None:
        for i, (m, n, k, ab, cd, a, b, c) in enumerate(MMA):
            A, B, C = (registers(self.rng, kind, 32, count) for kind, count in ((ab, a), (ab, b), (cd, c)))
            dev = [self.cupy.asarray(x) for x in (A, B, C)]
            D = self.cupy.asarray(np.full_like(C, 0x7E7E7E7E if C.dtype == np.uint32 else -777.0))
            self.launch(f"mma_{i}", 32, [*dev, D])
            meta = {"m": m, "n": n, "k": k, "ab": ab, "cd": cd}
            self.keep(f"mma/m{m}n{n}k{k}.{cd}.{ab}", meta, A=A, B=B, C=C, D=self.cupy.asnumpy(D))

    def matrices(self) -> None:
        for which in ("ldmatrix", "stmatrix"):
            for x in (1, 2, 4):
                for trans in ("", "t"):
                    image = self.rng.integers(0, 1 << 32, 1024, dtype=np.uint32)
                    address = (self.rng.permutation(256)[:32] * 16).astype(np.uint32)
                    R = self.rng.integers(0, 1 << 32, (32, x), dtype=np.uint32)
                    dev = [self.cupy.asarray(v.copy()) for v in (image, address, R)]
                    self.launch(f"{which}_x{x}{trans}", 32, dev, 4096)
                    out = [self.cupy.asnumpy(v) for v in dev]
                    kept = {"image": image, "address": address, "registers": R}
                    kept |= {"loaded": out[2]} if which == "ldmatrix" else {"stored": out[0]}
                    self.keep(f"{which}/x{x}{trans}", {"x": x, "trans": bool(trans)}, **kept)

    def wgmma(self) -> None:
        for i, (n, k, ab, cd, rs, ta, tb) in enumerate(WGMMA):
            for swizzle in (0, 32, 64, 128):
                image = encoded(self.rng, ab, IMAGE * 8 // KINDS[ab])
                A = registers(self.rng, ab, 128, 4)
                da = self.descriptor(swizzle, ta, 0)
                db = self.descriptor({0: 64, 32: 64, 64: 128, 128: 0}[swizzle], tb, IMAGE // 2, n)
                count = n // 2 if cd != "f16" else n // 4
                D = self.cupy.asarray(np.full((128, count), 0x7E7E7E7E, np.uint32))
                dev = [self.cupy.asarray(A), self.cupy.asarray(image), np.uint64(da["word"]), np.uint64(db["word"]), D]
                self.launch(f"wgmma_{i}", 128, dev, IMAGE)
                name = f"wgmma/n{n}.{cd}.{ab}.{'rs' if rs else 'ss'}.{'mn' if ta else 'k'}{'mn' if tb else 'k'}.sw{swizzle}"
                meta = {"n": n, "k": k, "ab": ab, "cd": cd, "rs": rs, "mn_a": ta, "mn_b": tb, "a": da, "b": db}
                self.keep(name, meta, image=image, D=self.cupy.asnumpy(D), **({"A": A} if rs else {}))
                if rs and swizzle == 64:
                    break

    def descriptor(self, swizzle: int, mn: int, start: int, rows: int = 64) -> dict:
        """Fields in bytes that keep 64 (or n) rows of one instruction inside half an image."""
        width = swizzle or 16
        step = 16 * int(self.rng.integers(0, 4)) if not swizzle else 32 * int(self.rng.integers(0, 2))
        if mn and swizzle:
            lbo, sbo = width * 16, width * 8  # next width bytes of MN; next 8 of K
        elif mn:
            lbo, sbo = 128, 256
        elif swizzle:
            lbo, sbo = 16, width * 8 if rows * width < IMAGE // 2 else 256
        else:
            lbo, sbo = 128, 256
        code = {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]
        word = (start + step) >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | code << 62
        return {"start": start + step, "lbo": lbo, "sbo": sbo, "swizzle": swizzle, "word": word}

    def tma(self, start: int) -> None:
        """Trials from `start` on. An illegal instruction ends the process: `tma_trials` records it and goes on after it."""
        cuda = ctypes.CDLL("libcuda.so.1")
        types = {1: 0, 2: 1, 4: 2}  # uint8, uint16, uint32
        for trial in range(start, TRIALS):
            self.rng = np.random.default_rng([20261129, trial])
            rank = int(self.rng.integers(1, 4))
            width = int(self.rng.choice([1, 2, 4]))
            swizzle = int(self.rng.choice([0, 32, 64, 128])) if rank > 1 else 0
            inner_max = swizzle or 256
            inner = 16 * int(self.rng.integers(1, inner_max // 16 + 1)) // width
            box = [min(inner, 256), *(int(self.rng.integers(1, 9)) for _ in range(rank - 1))]
            steps = [1] * rank
            if rank > 1 and self.rng.random() < 0.25:
                steps[-1] = int(self.rng.integers(2, 4))
            dims = [
                int(self.rng.integers(1, 5)) * 16 // width + int(self.rng.integers(0, 9)),
                *(int(self.rng.integers(3, 12)) for _ in range(rank - 1)),
            ]
            pitch = [width]
            for d in dims[:-1]:
                pitch.append(-(-pitch[-1] * d // 16) * 16)
            size = pitch[-1] * dims[-1]
            unit = 16 // width if self.rng.random() < 0.9 else 1  # inner coordinates in steps of 16 bytes, or of any
            coords = [
                unit * int(self.rng.integers(-2, dims[0] // unit + 2)),
                *(int(self.rng.integers(-4, d + 2)) for d in dims[1:]),
            ]
            store = int(self.rng.random() < 0.4)
            offset = 128 * int(self.rng.integers(0, 9))
            while int(np.prod(box)) * width + offset > 16000:
                box[-1] -= 1
            tensor = self.rng.integers(0, 256, size, dtype=np.uint8)
            image = self.rng.integers(0, 256, 16384, dtype=np.uint8) if store else np.full(16384, 0xC3, np.uint8)
            counts = [-(-b // s) for b, s in zip(box, steps, strict=True)]
            tx = int(np.prod(counts)) * width
            g = self.cupy.asarray(tensor)
            raw = (ctypes.c_ubyte * 256)()
            at = (ctypes.addressof(raw) + 63) // 64 * 64
            array = lambda kind, values: (kind * len(values))(*values)  # noqa: E731
            status = cuda.cuTensorMapEncodeTiled(
                ctypes.c_void_p(at), types[width], rank, ctypes.c_void_p(g.data.ptr),
                array(ctypes.c_uint64, dims), array(ctypes.c_uint64, pitch[1:] or [0]), array(ctypes.c_uint32, box),
                array(ctypes.c_uint32, steps), 0, {0: 0, 32: 1, 64: 2, 128: 3}[swizzle], 0, 0,
            )  # fmt: skip
            meta = {"width": width, "box": box, "steps": steps, "dims": dims, "pitch": pitch, "swizzle": swizzle,
                    "coords": coords, "store": store, "offset": offset, "status": status}  # fmt: skip
            if status:
                self.meta[f"tma/{trial}"] = meta | {"outcome": "refused by the driver"}
                continue
            blob = self.cupy.asarray(np.frombuffer(ctypes.string_at(at, 128), np.uint8).copy())
            dev = self.cupy.asarray(image.copy())
            self.meta[f"tma/{trial}"] = meta | {"outcome": "illegal instruction"}
            self.launch(f"tma_{rank}", 32, [blob, np.int32(store), np.uint32(offset), np.uint32(tx),
                        *(np.int32(c) for c in [*coords, 0, 0][:3]), dev], 16448)  # fmt: skip
            self.keep(f"tma/{trial}", meta | {"outcome": "done"}, tensor=tensor, image=image,
                      **({"stored": self.cupy.asnumpy(g)} if store else {"loaded": self.cupy.asnumpy(dev)}))  # fmt: skip

    def driver_rules(self) -> None:
        """What cuTensorMapEncodeTiled itself accepts: one rule broken at a time."""
        cuda = ctypes.CDLL("libcuda.so.1")
        types = {1: 0, 2: 1, 4: 2}
        array = lambda kind, values: (kind * len(values))(*values)  # noqa: E731
        g = self.cupy.zeros(1 << 20, np.uint8)
        good = {
            "width": 2,
            "dims": [256, 64],
            "pitch": [512],
            "box": [64, 8],
            "steps": [1, 1],
            "swizzle": 128,
            "shift": 0,
        }
        for change in (
            {}, {"pitch": [200 * 2]}, {"pitch": [200]}, {"box": [96, 8]}, {"box": [64, 257]}, {"box": [64, 256]},
            {"box": [0, 8]}, {"swizzle": 32, "box": [48, 8]}, {"swizzle": 32, "box": [16, 8]}, {"box": [4, 8]},
            {"swizzle": 0, "box": [4, 8]}, {"swizzle": 0, "box": [8, 8]}, {"swizzle": 0, "box": [256, 8]}, {"shift": 8},
            {"shift": 16}, {"steps": [1, 9]}, {"steps": [1, 8]}, {"steps": [2, 1]}, {"steps": [0, 1]}, {"dims": [0, 64]},
            {"dims": [1 << 32, 64], "pitch": [1 << 34]}, {"pitch": [1 << 40]}, {"pitch": [(1 << 40) - 16]},
            {"swizzle": 64, "box": [32, 8]}, {"swizzle": 64, "box": [40, 8]}, {"width": 1, "box": [128, 8]},
            {"width": 1, "box": [144, 8]}, {"width": 4, "box": [32, 8]}, {"width": 4, "box": [36, 8]}, {"box": [257, 1], "swizzle": 0},
            {"pitch": [0]}, {"pitch": [256]}, {"box": [12, 8], "swizzle": 0},
        ):  # fmt: skip
            case = good | change
            raw = (ctypes.c_ubyte * 256)()
            at = (ctypes.addressof(raw) + 63) // 64 * 64
            case["status"] = cuda.cuTensorMapEncodeTiled(
                ctypes.c_void_p(at), types[case["width"]], 2, ctypes.c_void_p(g.data.ptr + case["shift"]),
                array(ctypes.c_uint64, case["dims"]), array(ctypes.c_uint64, case["pitch"]), array(ctypes.c_uint32, case["box"]),
                array(ctypes.c_uint32, case["steps"]), 0, {0: 0, 32: 1, 64: 2, 128: 3}[case["swizzle"]], 0, 0,
            )  # fmt: skip
            self.meta[f"driver/{json.dumps(change)}"] = case

    def cp_async(self) -> None:
        for width in (4, 8, 16):
            source = self.rng.integers(0, 256, 32 * width, dtype=np.uint8)
            n = self.rng.integers(0, width + 1, 32).astype(np.uint32)
            to = (self.rng.permutation(1024 // width)[:32] * width).astype(np.uint32)
            image = self.rng.integers(0, 256, 1024, dtype=np.uint8)
            dev = [self.cupy.asarray(v.copy()) for v in (source, n, to, image)]
            self.launch(f"cp_async_{width}", 32, dev, 1024)
            self.keep(
                f"cp_async/{width}",
                {"width": width},
                source=source,
                sizes=n,
                to=to,
                image=image,
                stored=self.cupy.asnumpy(dev[3]),
            )


TRIALS = 140
PARTS = ("mma", "matrices", "wgmma", "cp_async", "driver_rules", "tma")


def tma_trials(cubin: Path, recorder: Recorder) -> None:
    """Runs `Recorder.tma` in processes of their own until every trial has had its turn."""
    start = 0
    while start < TRIALS:
        subprocess.run([sys.executable, __file__, str(cubin.parent), "tma-from", str(start)], capture_output=True)
        meta = json.loads((cubin.parent / "tma.json").read_text())
        recorder.meta |= meta
        recorder.arrays |= np.load(cubin.parent / "tma.npz")
        start = 1 + max(int(name.split("/")[1]) for name in meta)


def tma_from(folder: Path, start: int) -> None:
    recorder = Recorder(folder / "fragments.cubin")
    try:
        recorder.tma(start)
    finally:
        np.savez(folder / "tma.npz", **recorder.arrays)
        (folder / "tma.json").write_text(json.dumps(recorder.meta))


def main(out: Path, parts: list[str]) -> None:
    cubin = compile_cubin(Path("/tmp"))
    if parts == ["--compile-only"]:
        return
    recorder = Recorder(cubin)
    base = recorder.cupy.zeros(1, np.uint32)
    recorder.launch("base", 1, [base], IMAGE)
    smem_base = int(base[0])
    for part in parts or PARTS:
        tma_trials(cubin, recorder) if part == "tma" else getattr(recorder, part)()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    head = {"device": device, "date": date.today().isoformat(), "command": "python3 tests/device/fragments.py OUTDIR"}
    np.savez_compressed(out / "fragments.npz", **recorder.arrays)
    (out / "fragments.json").write_text(json.dumps({**head, "smem_base": smem_base, "records": recorder.meta}))
    print(len(recorder.meta), "records", len(recorder.arrays), "arrays", device)


if __name__ == "__main__":
    if sys.argv[2:3] == ["tma-from"]:
        tma_from(Path(sys.argv[1]), int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
