"""Attention kernels that nobody here wrote, run by the machine through their package's own interface, against torch.

    pip install torch einops triton 'apache-tvm-ffi' torch-c-dlpack-ext
    pip install --no-deps flash-attn-4==4.0.0b36 quack-kernels==0.6.5
    python tests/strangers/flash_attention.py [sm_100a|sm_90a]

The package wants a CUDA device at three places: it asks for its properties, checks that its inputs lie on it, and
compiles for a foreign-function interface. Those three are answered here; the kernel, its options and its launch are
its own.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

ARCH = sys.argv[1] if len(sys.argv) > 1 else "sm_100a"
os.environ |= {"CUTE_DSL_ARCH": ARCH, "FLASH_ATTENTION_ARCH": ARCH.rstrip("a"), "FLASH_ATTENTION_NUM_SMS": "4"}

import cuda.bindings.driver as cuda  # noqa: E402
import cutlass.cute as cute  # noqa: E402
import torch  # noqa: E402
from cutlass.utils import HardwareInfo  # noqa: E402

from layoutlab.replay import replay  # noqa: E402

TOLERANCE = 8e-3  # of the largest element: P is rounded to bf16 before the second product
CASES = [  # (queries, keys, query heads, key heads, head dim, causal)
    (256, 256, 1, 1, 128, False), (200, 333, 2, 2, 64, False), (384, 512, 4, 1, 128, True), (300, 300, 2, 2, 64, True),
]  # fmt: skip


def answer_for_the_device() -> None:
    """A device of four multiprocessors, and tensors that say they lie on it."""
    major = int(ARCH.removeprefix("sm_").rstrip("a")) // 10
    facts = SimpleNamespace(multi_processor_count=4, L2_cache_size=50 << 20, major=major, minor=0)
    torch.cuda.current_device = lambda: 0
    torch.cuda.current_stream = lambda *_: SimpleNamespace(cuda_stream=0)
    torch.cuda.get_device_capability = lambda *_: (major, 0)
    torch.cuda.get_device_properties = lambda *_: facts
    torch.Tensor.is_cuda = property(lambda _: True)
    HardwareInfo.__init__ = lambda self, device_id=0: None
    HardwareInfo.get_max_active_clusters = lambda self, *_, **__: 4
    HardwareInfo.get_device_multiprocessor_count = lambda self, *_, **__: 4
    HardwareInfo.get_l2_cache_size_in_bytes = lambda self, *_, **__: 50 << 20


def replay_instead(reports: list[Any]) -> None:
    """Compiled kernels are replayed when they are called, with the arguments that they were compiled for."""
    compile_it = cute.compile

    def compiled_for_replay(function: Any, *arguments: Any, options: str = "", **rest: Any) -> Any:
        given = [cuda.CUstream(0) if "Stream" in type(a).__name__ else a for a in arguments]
        with tempfile.TemporaryDirectory() as folder:
            kept = options.replace("--enable-tvm-ffi", "").strip() + f" --keep-ptx --dump-dir={folder}"
            compiled = compile_it(function, *given, options=kept, **rest)

        def call(*tensors: Any, **_: Any) -> None:
            reports.append(replay(compiled, *given, buffers=[t for t in tensors if isinstance(t, torch.Tensor)]))

        return call

    cute.compile = compiled_for_replay


def reference(q: Any, k: Any, v: Any, causal: bool) -> Any:
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(scores.shape[-1] - scores.shape[-2])
        scores = scores.masked_fill(~seen, -math.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2), torch.logsumexp(scores, -1)


def main() -> int:
    answer_for_the_device()
    reports: list[Any] = []
    replay_instead(reports)
    import flash_attn.cute.interface as interface

    failed = 0
    for queries, keys, heads, kv_heads, head_dim, causal in CASES:
        torch.manual_seed(0)
        q = torch.randn(1, queries, heads, head_dim, dtype=torch.bfloat16)
        k, v = (torch.randn(1, keys, kv_heads, head_dim, dtype=torch.bfloat16) for _ in range(2))
        with contextlib.redirect_stdout(sys.stderr):
            out, lse, *_ = interface._flash_attn_fwd(q, k, v, causal=causal, return_lse=True)
        want, want_lse = reference(q, k, v, causal)
        error = ((out.float() - want).abs().max() / want.abs().max()).item()
        lse_error = (lse - want_lse).abs().max().item()
        good = error < TOLERANCE and lse_error < 1e-3 and not reports[-1].warnings
        failed += not good
        case = f"{queries} x {keys}, heads {heads}/{kv_heads}, dim {head_dim}{', causal' if causal else ''}"
        print(f"{'ok  ' if good else 'FAIL'} {ARCH} {case}: error {error:.1e}, lse {lse_error:.1e}; "
              f"{reports[-1].instructions} warp-instructions in {reports[-1].seconds:.2f} s")  # fmt: skip
        for warning in itertools.islice(reports[-1].warnings, 5):
            print(f"     {warning}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
