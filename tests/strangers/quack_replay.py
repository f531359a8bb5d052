"""quack's kernels, which nobody here wrote, replayed through the package's own functions and held against torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

BF16_ERROR = 4e-3  # of the largest element: one rounding to bf16
Case = tuple[str, Callable[[], tuple[float, float]]]  # what, and a run that gives its error and the error allowed

# (tile M, tile N, cluster M, cluster N); on SM100 a tile of 256 rows and an even cluster M is a pair of CTAs
GEMMS = {
    "sm_90a": [(128, 128, 1, 1), (128, 128, 2, 1), (128, 256, 1, 2)],
    "sm_100a": [(128, 128, 1, 1), (128, 128, 1, 2), (128, 128, 2, 1), (256, 128, 2, 1), (256, 128, 4, 2)],
}
PROBLEM = (384, 512, 192)  # M, N, K: no multiple of every tile


def cases(architecture: str) -> Iterator[Case]:
    """Every case of an architecture."""
    for tile in GEMMS[architecture]:
        yield f"quack GEMM, tile {tile[0]} x {tile[1]}, cluster {tile[2]} x {tile[3]}", lambda tile=tile: gemm(*tile)
    if architecture == "sm_100a":
        yield "quack GEMM of float32 as tf32, tile 128 x 128", gemm_tf32
    if architecture == "sm_90a":
        for columns in (1000, 4096, 65536):  # the longest rows are shared by clusters
            yield f"quack softmax, {columns} columns", lambda n=columns: softmax(n)
            yield f"quack softmax backward, {columns} columns", lambda n=columns: softmax_backward(n)
            yield f"quack rmsnorm, {columns} columns", lambda n=columns: rmsnorm(n)
            yield f"quack cross-entropy, {columns} columns", lambda n=columns: cross_entropy(n)


def relative(got: Any, want: Any) -> float:
    assert not got.isnan().any()
    return float((got.double() - want.double()).abs().max() / want.double().abs().max())


def gemm(tile_m: int, tile_n: int, cluster_m: int, cluster_n: int) -> tuple[float, float]:
    import torch
    from quack.gemm import gemm as launched

    m, n, k = PROBLEM
    torch.manual_seed(0)
    a, b = torch.randn(1, m, k, dtype=torch.bfloat16), torch.randn(1, n, k, dtype=torch.bfloat16)
    d = torch.full((1, m, n), float("nan"), dtype=torch.bfloat16)
    launched(a, b, d, None, None, tile_m, tile_n, cluster_m, cluster_n, persistent=True)
    return relative(d[0], a[0].double() @ b[0].double().T), BF16_ERROR


def gemm_tf32() -> tuple[float, float]:
    """Against the product of operands rounded to tf32, as the tensor map says."""
    import torch
    from quack.gemm import gemm as launched

    def rounded(x: Any) -> Any:
        words = x.view(torch.int32)
        return ((words + 0xFFF + (words >> 13 & 1)) & ~0x1FFF).view(torch.float32).double()

    m, n, k = PROBLEM
    torch.manual_seed(0)
    a, b, d = torch.randn(1, m, k), torch.randn(1, n, k), torch.full((1, m, n), float("nan"))
    launched(a, b, d, None, None, 128, 128, 1, 1, persistent=True)
    return relative(d[0], rounded(a[0]) @ rounded(b[0]).T), 1e-5


def softmax(columns: int, rows: int = 8) -> tuple[float, float]:
    import torch
    from quack.softmax import softmax_fwd

    torch.manual_seed(0)
    x = torch.randn(rows, columns, dtype=torch.bfloat16)
    return relative(softmax_fwd(x), torch.softmax(x.double(), -1)), BF16_ERROR


def softmax_backward(columns: int, rows: int = 8) -> tuple[float, float]:
    import torch
    from quack.softmax import softmax_bwd

    torch.manual_seed(0)
    dy, x = (torch.randn(rows, columns, dtype=torch.bfloat16) for _ in range(2))
    y = torch.softmax(x.float(), -1).to(torch.bfloat16)
    want = y.double() * (dy.double() - (dy.double() * y.double()).sum(-1, keepdim=True))
    return relative(softmax_bwd(dy, y), want), BF16_ERROR


def rmsnorm(columns: int, rows: int = 8) -> tuple[float, float]:
    import torch
    from quack.rmsnorm import rmsnorm_fwd

    torch.manual_seed(0)
    x, weight = torch.randn(rows, columns, dtype=torch.bfloat16), torch.randn(columns, dtype=torch.float32)
    out, _, rstd = rmsnorm_fwd(x, weight, store_rstd=True)
    want_rstd = (x.double().square().mean(-1) + 1e-6).rsqrt()
    want = x.double() * want_rstd[:, None] * weight.double()
    return max(relative(out, want), relative(rstd, want_rstd)), BF16_ERROR


def cross_entropy(columns: int, rows: int = 8) -> tuple[float, float]:
    import torch
    from quack.cross_entropy import cross_entropy_fwd

    torch.manual_seed(0)
    x, target = torch.randn(rows, columns, dtype=torch.bfloat16), torch.randint(0, columns, (rows,))
    loss, lse = cross_entropy_fwd(x, target, return_lse=True)[:2]
    want = torch.nn.functional.cross_entropy(x.double(), target, reduction="none")
    return max(relative(loss, want), relative(lse, torch.logsumexp(x.double(), -1))), 1e-5
