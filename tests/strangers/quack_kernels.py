"""Compiles quack's kernels with CuTe DSL on a machine without a GPU, for `layoutlab trace`.

    layoutlab trace tests/strangers/quack_kernels.py:gemm --arch sm_90a

Needs what flash_attn_fwd.py needs.
"""

from __future__ import annotations

import os

ARCH = os.environ.get("CUTE_DSL_ARCH", "sm_90a")
os.environ["QUACK_CACHE_ENABLED"] = "0"
os.environ["QUACK_ARCH"] = ARCH[3:].rstrip("a")

import torch  # noqa: E402
from cutlass import BFloat16, Float32, Int64  # noqa: E402
from flash_attn_fwd import stand_in  # noqa: E402, F401 (answers for the device when it is imported)


def softmax(columns: int = 4096) -> None:
    from quack.softmax import Softmax, SoftmaxBackward

    Softmax.compile(BFloat16, BFloat16, columns)
    SoftmaxBackward.compile(BFloat16, BFloat16, BFloat16, columns)


def rmsnorm(columns: int = 4096) -> None:
    from quack.rmsnorm import _compile_rmsnorm_fwd

    _compile_rmsnorm_fwd(BFloat16, BFloat16, None, Float32, None, None, columns, True, False, False, False)


def cross_entropy(columns: int = 4096) -> None:
    from quack.cross_entropy import CrossEntropy

    CrossEntropy.compile(BFloat16, Int64, None, columns, True, False, None, 1)


def gemm(m: int = 256, n: int = 256, k: int = 256) -> None:
    from quack.gemm import gemm as launched

    a, b = torch.zeros(1, m, k, dtype=torch.bfloat16), torch.zeros(1, n, k, dtype=torch.bfloat16)
    launched(a, b, torch.zeros(1, m, n, dtype=torch.bfloat16), None, None, 128, 128, 1, 1, persistent=True)
