# ruff: noqa: E501  (lines of CUDA)
"""Measures shared-memory wavefronts of single warp-level accesses with Nsight Compute; run on a CUDA device.

    python3 tests/device/wavefronts.py OUTDIR        writes OUTDIR/wavefronts.json (about a minute)

Each pattern is one kernel launch of one warp that executes one access: ld/st.shared of 16, 32, 64 or 128 bits, ldmatrix or
stmatrix x1/x2/x4. ncu reads l1tex__data_pipe_lsu_wavefronts_mem_shared.sum for every launch; the same kernel with no lane
active gives the baseline. Patterns are drawn from a seed: nothing in them knows the model that they are to test.
"""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
from datetime import date
from itertools import product
from pathlib import Path

METRIC = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
SPAN = 16384  # bytes of shared memory that addresses lie in
ALL = (1 << 32) - 1

SOURCE = r"""
#include <cstdint>
extern __shared__ __align__(1024) unsigned char smem[];
template <int OP> __device__ void access(uint32_t a, uint32_t* r) {
  if constexpr (OP == 0) asm volatile("{.reg .b16 h; ld.shared.b16 h, [%1]; cvt.u32.u16 %0, h;}" : "=r"(r[0]) : "r"(a));
  if constexpr (OP == 1) asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r[0]) : "r"(a));
  if constexpr (OP == 2) asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
  if constexpr (OP == 3) asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
  if constexpr (OP == 4) asm volatile("{.reg .b16 h; cvt.u16.u32 h, %1; st.shared.b16 [%0], h;}" :: "r"(a), "r"(r[0]) : "memory");
  if constexpr (OP == 5) asm volatile("st.shared.b32 [%0], %1;" :: "r"(a), "r"(r[0]) : "memory");
  if constexpr (OP == 6) asm volatile("st.shared.v2.b32 [%0], {%1,%2};" :: "r"(a), "r"(r[0]), "r"(r[1]) : "memory");
  if constexpr (OP == 7) asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" :: "r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  if constexpr (OP == 8) asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a));
  if constexpr (OP == 9) asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a));
  if constexpr (OP == 10) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
  if constexpr (OP == 11) asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(a), "r"(r[0]) : "memory");
  if constexpr (OP == 12) asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" :: "r"(a), "r"(r[0]), "r"(r[1]) : "memory");
  if constexpr (OP == 13) asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" :: "r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  if constexpr (OP == 14) asm volatile("{.reg .b16 h; ld.shared.u8 h, [%1]; cvt.u32.u16 %0, h;}" : "=r"(r[0]) : "r"(a));
}
template <int OP> __global__ void pattern(const uint32_t* address, uint32_t mask, uint32_t* sink) {
  uint32_t lane = threadIdx.x;
  uint32_t a = address[lane] + (uint32_t)__cvta_generic_to_shared(smem);
  uint32_t r[4] = {lane, lane + 1, lane + 2, lane + 3};
  if (mask >> lane & 1) access<OP>(a, r);
  if (r[0] == 0xdeadbeef) sink[lane] = r[0] + r[1] + r[2] + r[3];
}
using Kernel = void (*)(const uint32_t*, uint32_t, uint32_t*);
#include <cstdio>
int main(int argc, char** argv) {
  Kernel kernels[] = {pattern<0>, pattern<1>, pattern<2>, pattern<3>, pattern<4>, pattern<5>, pattern<6>, pattern<7>,
                      pattern<8>, pattern<9>, pattern<10>, pattern<11>, pattern<12>, pattern<13>, pattern<14>};
  FILE* f = fopen(argv[1], "rb");
  uint32_t record[34], *address, *sink;
  cudaMalloc(&address, 128); cudaMalloc(&sink, 128);
  while (fread(record, 4, 34, f) == 34) {   // op, mask, 32 addresses
    cudaMemcpy(address, record + 2, 128, cudaMemcpyHostToDevice);
    kernels[record[0]]<<<1, 32, 32768>>>(address, record[1], sink);
    if (cudaDeviceSynchronize() != cudaSuccess) { puts(cudaGetErrorString(cudaGetLastError())); return 1; }
  }
}
"""

OPS = [
    *(("load", w) for w in (2, 4, 8, 16)),
    *(("store", w) for w in (2, 4, 8, 16)),
    *((f"ldmatrix.x{n}", 16) for n in (1, 2, 4)),
    *((f"stmatrix.x{n}", 16) for n in (1, 2, 4)),
    ("load", 1),
]


def without(lane: int, bits: tuple[int, ...]) -> int:
    """The lane's number with some of its bits taken out: lanes that differ in these alone are equal."""
    kept = [b for b in range(5) if b not in bits]
    return sum((lane >> b & 1) << i for i, b in enumerate(kept))


def units(rng: random.Random) -> list[list[int]]:
    """Per-lane unit numbers (an address is unit * width): structured, partly equal, random."""
    subsets = [tuple(b for b in range(5) if s >> b & 1) for s in range(32)]
    found = []
    for bits in subsets:  # equal along any set of lane bits: compact, scattered, on one bank
        found.append([without(lane, bits) for lane in range(32)])
        scatter = rng.sample(range(512), 32)
        found.append([scatter[without(lane, bits)] for lane in range(32)])
        found.append([16 * without(lane, bits) for lane in range(32)])
    drops = [(), (0,), (1,), (0, 1)]
    for quarters in product(drops, repeat=4):  # each quarter-warp equal in its own way
        found.append([8 * (lane // 8) + without(lane % 8, quarters[lane // 8]) for lane in range(32)])
    for halves in product([(), (0,), (1,), (2,), (3,), (0, 1), (0, 1, 2, 3)], repeat=2):
        found.append([16 * (lane // 16) + without(lane % 16, halves[lane // 16]) for lane in range(32)])
    for bits, broken in product([(0,), (1,), (0, 1), (0, 1, 2, 3, 4)], (0, 1, 6, 13, 16, 23, 31)):  # one lane off
        found.append([300 if lane == broken else without(lane, bits) for lane in range(32)])
    for size in (2, 2, 2, 4, 4, 8, 16):  # equal lanes, but shuffled
        for _ in range(4):
            order = rng.sample(range(32), 32)
            found.append([order[lane] // size for lane in range(32)])
            scatter = rng.sample(range(512), 32)
            found.append([scatter[order[lane] // size] for lane in range(32)])
    for distinct in (1, 2, 3, 4, 6, 8, 12, 16, 24):
        for span in (32, 512):
            for _ in range(3):
                pool = rng.sample(range(span), distinct)
                found.append([rng.choice(pool) for _ in range(32)])
    for _ in range(12):  # random pairs of neighbours, some broken
        pool = [rng.randrange(64) for _ in range(16)]
        found.append([pool[lane // 2] if rng.random() < 0.9 else rng.randrange(64) for lane in range(32)])
    for _ in range(12):
        found.append([rng.randrange(512) for _ in range(32)])
        found.append([rng.randrange(32) for _ in range(32)])
    found += [[31 - lane for lane in range(32)], [lane ^ 5 for lane in range(32)], [lane * 8 for lane in range(32)]]
    return found


def masks(rng: random.Random) -> list[int]:
    return [
        0xFFFF, 0xFFFF0000, 0x55555555, 0x33333333, 0x0F0F0F0F, 0x00FF00FF, 0xFF, 1, 0x80000001, 0x11111111,
        *(rng.getrandbits(32) | 1 for _ in range(8)),
    ]  # fmt: skip


def patterns(seed: int = 2026) -> list[tuple[int, int, list[int]]]:
    """(op index, active lanes, addresses); first the baselines, with no lane active or no access at all."""
    rng = random.Random(seed)
    found = [(op, 0, [0] * 32) for op in range(len(OPS)) if "matrix" not in OPS[op][0]]
    for op, (name, width) in enumerate(OPS):
        every = units(rng)
        if (name, width) not in (("load", 8), ("load", 16)):
            every = rng.sample(every, 70 if width >= 8 else 35)
        found += [(op, ALL, [u * width % SPAN for u in unit]) for unit in every]
        if "matrix" in name:
            continue
        for mask in masks(rng):  # some lanes inactive
            for unit in rng.sample(every, 3 if (name, width) in (("load", 8), ("load", 16)) else 1):
                found.append((op, mask, [u * width % SPAN for u in unit]))
    return found


def main(out: Path) -> None:
    (out / "wavefronts.cu").write_text(SOURCE)
    program = Path("/tmp/wavefronts")
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-arch=sm_90a", "-o", program, out / "wavefronts.cu"], check=True)
    (out / "wavefronts.cu").unlink()
    every = patterns()
    words = [w for op, mask, addresses in every for w in (op, mask, *addresses)]
    Path("/tmp/patterns").write_bytes(b"".join(w.to_bytes(4, "little") for w in words))
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", METRIC, "--csv"]
    done = subprocess.run([*command, program, "/tmp/patterns"], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or not lines:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    values = [int(float(row["Metric Value"])) for row in csv.DictReader(io.StringIO("\n".join(lines)))]
    assert len(values) == len(every), (len(values), len(every))
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    record = {
        "device": device,
        "date": date.today().isoformat(),
        "command": " ".join(map(str, [*command, "wavefronts", "patterns"])),
        "metric": METRIC,
        "patterns": [
            [*OPS[op], mask, value, addresses] for (op, mask, addresses), value in zip(every, values, strict=True)
        ],
    }
    (out / "wavefronts.json").write_text(json.dumps(record, separators=(",", ":")))
    print(len(values), "patterns", device, "baselines", values[:9])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
