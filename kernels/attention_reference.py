"""What attention should give, in float64, and how far a result is from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_SCORES = 1 << 24
"""Scores that are held at a time, 128 MiB: the whole matrix of long sequences fits no memory."""


def reference(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], scale: float, causal: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """O and LSE of softmax(Q K^T scale) V in float64.

    >>> import numpy as np
    >>> o, lse = reference(np.zeros((1, 1, 1, 2)), np.zeros((1, 4, 1, 2)), np.arange(8.0).reshape(1, 4, 1, 2), 1.0)
    >>> o.tolist(), bool(np.isclose(lse[0, 0, 0], np.log(4)))
    ([[[[3.0, 4.0]]]], True)

    Q is (batch, seq_q, heads, d), K and V (batch, seq_kv, kv_heads, d) with heads a multiple of kv_heads; O is like Q,
    and LSE (batch, heads, seq_q). A causal row i sees keys up to i + seq_kv - seq_q. A row that sees none has O = 0 and
    LSE = -inf.
    """
    import numpy as np

    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, group, axis=2) for x in (k, v))
    batch, seq_q, heads, _ = q.shape
    keys = np.arange(seq_q) + k.shape[1] - seq_q if causal else np.full(seq_q, k.shape[1])  # the last that is seen
    rows = max(1, MOST_SCORES // max(1, batch * heads * k.shape[1]))
    parts = [_rows(q[:, i : i + rows], k, v, scale, keys[i : i + rows]) for i in range(0, max(seq_q, 1), rows)]
    return np.concatenate([o for o, _ in parts], axis=1), np.concatenate([lse for _, lse in parts], axis=2)


def _rows(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], scale: float, last: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """O and LSE of some rows of Q, each of which sees the keys up to its `last`."""
    import numpy as np

    s = np.einsum("bqhd,bkhd->bhqk", q, k) * scale
    s = np.where(np.arange(k.shape[1])[None, :] <= last[:, None], s, -np.inf)
    row_max = s.max(axis=-1, initial=-np.inf, keepdims=True)
    p = np.exp(s - np.where(np.isinf(row_max), 0.0, row_max))
    row_sum = p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(row_sum) + row_max)[..., 0]
    o = np.einsum("bhqk,bkhd->bqhd", p / np.where(row_sum == 0, 1.0, row_sum), v)
    return o, lse


@dataclass(frozen=True)
class Errors:
    """How far a result is from the reference: cosine and Frobenius error of O, LSE's largest error, O's worst place."""

    cosine: float
    relative_error: float
    lse_error: float | None
    where: str

    def within(self, dtype: str) -> bool:
        """Whether the result is as good as the kernel's type allows."""
        limit = {"bf16": 4e-3, "f16": 1e-3}[dtype]
        lse_good = self.lse_error is None or self.lse_error <= 1e-3
        return self.cosine > 0.9999 and self.relative_error < limit and lse_good


def errors(
    o: NDArray[Any], o_ref: NDArray[Any], lse: NDArray[Any] | None = None, lse_ref: NDArray[Any] | None = None
) -> Errors:
    """The errors of O, and of LSE where it is given; a NaN anywhere makes its error NaN, which is within no limit.

    >>> import numpy as np
    >>> errors(np.array([[[[1.0, 2.0]]]]), np.array([[[[1.0, 2.5]]]])).where
    'batch 0, row 0, head 0, column 1: 2 instead of 2.5'
    """
    import numpy as np

    o, o_ref = np.asarray(o, np.float64), np.asarray(o_ref, np.float64)
    norm, norm_ref = np.linalg.norm(o), np.linalg.norm(o_ref)
    if norm_ref == 0:
        cosine, relative = (1.0, 0.0) if norm == 0 else (0.0, float(norm))
    else:
        with np.errstate(invalid="ignore"):  # what is infinite has no direction: NaN, within no limit
            cosine = float(np.vdot(o, o_ref) / (norm * norm_ref)) if norm else 0.0
        relative = float(np.linalg.norm(o - o_ref) / norm_ref)
    lse_error = None
    if lse is not None and lse_ref is not None:
        same = np.isinf(lse_ref) & (lse == lse_ref)
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0.0, np.abs(np.asarray(lse, np.float64) - lse_ref))
        lse_error = float(difference.max(initial=0.0))
    distance = np.abs(o - o_ref)
    at = np.unravel_index(np.argmax(np.where(np.isnan(distance), np.inf, distance)), o.shape)
    batch, row, head, column = (int(x) for x in at)
    where = f"batch {batch}, row {row}, head {head}, column {column}: {o[at]:.6g} instead of {o_ref[at]:.6g}"
    return Errors(cosine, relative, lse_error, where)
