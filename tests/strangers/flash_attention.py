"""flash-attn-4's forward pass, which nobody here wrote, replayed through the package's own interface against torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

O_ERROR = 8e-3  # of the largest element: P is rounded to bf16 before the second product
LSE_ERROR = 1e-3
Case = tuple[str, Callable[[], tuple[float, float]]]  # what, and a run that gives its error and the error allowed

# (queries, keys, query heads, key heads, head dim, causal)
CASES = [
    (256, 256, 1, 1, 128, False), (256, 2048, 1, 1, 128, False), (200, 333, 2, 2, 64, False),
    (384, 512, 4, 1, 128, True), (300, 300, 2, 2, 64, True),
]  # fmt: skip


def cases(architecture: str) -> Iterator[Case]:
    """Every case; they are the same for both architectures."""
    for queries, keys, heads, kv_heads, head_dim, causal in CASES:
        what = f"{queries} x {keys}, heads {heads}/{kv_heads}, head dim {head_dim}{', causal' if causal else ''}"
        problem = (queries, keys, heads, kv_heads, head_dim, causal)
        yield f"flash-attn-4 forward, {what}", lambda problem=problem: forward(*problem)


def reference(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """O and the log-sum-exp in float64; torch's own attention has no LSE to compare."""
    import torch

    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(scores.shape[-1] - scores.shape[-2])
        scores = scores.masked_fill(~seen, -math.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2), torch.logsumexp(scores, -1)


def forward(queries: int, keys: int, heads: int, kv_heads: int, head_dim: int, causal: bool) -> tuple[float, float]:
    """The error of O, or of the LSE brought to its scale when that is worse."""
    import flash_attn.cute.interface as interface
    import torch

    torch.manual_seed(0)
    q = torch.randn(1, queries, heads, head_dim, dtype=torch.bfloat16)
    k, v = (torch.randn(1, keys, kv_heads, head_dim, dtype=torch.bfloat16) for _ in range(2))
    out, lse, *_ = interface._flash_attn_fwd(q, k, v, causal=causal, return_lse=True)
    want, want_lse = reference(q, k, v, causal)
    error = ((out.double() - want).abs().max() / want.abs().max()).item()
    lse_error = (lse.double() - want_lse).abs().max().item()
    return max(error, lse_error * O_ERROR / LSE_ERROR), O_ERROR
