"""Running the attention kernel, by replay on the CPU or on a device, and judging what it gives."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutlab.errors import LayoutError
from layoutlab.kernels.attention_config import ROWS, AttentionConfig
from layoutlab.kernels.attention_device import Device
from layoutlab.kernels.attention_host import DEFAULT_CTAS, Operand, Problem, arguments, check, compile_attention
from layoutlab.kernels.attention_reference import Errors, errors, reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutlab.ptx.report import Report


F16_MAX = 65504.0


@dataclass(frozen=True)
class Outcome:
    """What a run gave: results, their distance from float64, and what the run took."""

    config: AttentionConfig
    o: NDArray[Any]
    lse: NDArray[Any]
    row_max: NDArray[Any]
    errors: Errors
    compile_seconds: float
    instructions: int | None  # None on a device, which does not count them
    seconds: float
    warnings: list[str]

    @property
    def good(self) -> bool:
        """Whether the result is within the limits of the kernel's type."""
        return self.errors.within(self.config.dtype)

    def __str__(self) -> str:
        lse = "none" if self.errors.lse_error is None else f"{self.errors.lse_error:.2e}"
        ran = "" if self.instructions is None else f", {self.instructions} warp-instructions"
        verdict = f"{'within' if self.good else 'OUT OF'} the limits of {self.config.dtype}"
        lines = [
            f"{verdict}: cosine {self.errors.cosine:.7f}, relative error {self.errors.relative_error:.2e}, "
            f"LSE error {lse}",
            f"largest difference: {self.errors.where}",
            f"compiled in {self.compile_seconds:.1f} s, ran in {self.seconds:.2f} s{ran}",
        ]
        return "\n".join(lines + [f"warning: {warning}" for warning in self.warnings])


class Replay:
    """The CPU, which runs the kernel's own PTX instruction by instruction."""

    architecture = "sm_100a"

    def __init__(self, schedule: str = "eager", seed: int = 0) -> None:
        self.schedule = schedule
        self.seed = seed

    def run(self, compiled: Any, problem: Problem, scale: float | None, ctas: int) -> dict[str, Any]:
        """Replays the launch on the problem's own memory."""
        report = replay_launch(
            compiled, arguments(problem, scale, ctas), problem.operands.values(), self.schedule, self.seed
        )
        warnings = [str(warning) for warning in report.warnings]
        return {"instructions": report.instructions, "seconds": report.seconds, "warnings": warnings}


def replay_launch(
    compiled: Any, packed: tuple[Any, ...], operands: Iterable[Operand], schedule: str = "eager", seed: int = 0
) -> Report:
    """Replays the launch that these arguments make; it may touch the memory of these operands alone."""
    import numpy as np

    from layoutlab.replay import replay

    buffers = [np.ctypeslib.as_array((ctypes.c_uint8 * x.bytes).from_address(x.address)) for x in operands if x.bytes]
    return replay(compiled, *packed, schedule=schedule, seed=seed, buffers=buffers)


def random_inputs(
    batch: int, seq_q: int, seq_kv: int, heads: int, kv_heads: int, head_dim: int, seed: int = 0, magnitude: float = 1.0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Normally distributed q, k, v as float32, (batch, seq, heads, head_dim)."""
    import numpy as np

    if seed < 0:
        raise LayoutError(f"seed={seed} is negative: 0 or more")
    rng = np.random.default_rng(seed)
    shapes = ((batch, seq_q, heads, head_dim), *[(batch, seq_kv, kv_heads, head_dim)] * 2)
    if min(min(shape) for shape in shapes) < 0:
        raise LayoutError(f"a size is negative: q would be {shapes[0]}, k and v {shapes[1]}")
    q, k, v = (magnitude * rng.standard_normal(shape, np.float32) for shape in shapes)
    return q, k, v


def run_attention(
    config: AttentionConfig,
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    scale: float | None = None,
    on: str = "replay",
    schedule: str = "eager",
    seed: int = 0,
    ctas: int = DEFAULT_CTAS,
) -> Outcome:
    """Rounds q, k, v to the kernel's type, runs it and compares with float64 on the rounded inputs.

    An un-normalised O is compared with the reference times e^(lse - row_max), row_max being what the kernel reports.
    """
    import ml_dtypes
    import numpy as np

    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise LayoutError(f"{name} has shape {x.shape}, not (batch, seq, heads, head_dim)")
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[config.dtype]
    with np.errstate(over="ignore"):  # what does not fit is refused below
        q, k, v = (np.ascontiguousarray(x, dtype=kind) for x in (q, k, v))
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.size and not np.isfinite(x.astype(np.float32)).all():
            raise LayoutError(f"{name} holds NaN, or what is infinite as {config.dtype}: no result could be judged")
    seen = (q.shape[0], q.shape[2], q.shape[1])
    o, lse, row_max = np.zeros_like(q), np.zeros(seen, np.float32), np.zeros(seen, np.float32)
    problem = check(config, q, k, v, o, lse, row_max)
    arguments(problem, scale, ctas)  # a wrong scale is refused before the compile
    runner = Device() if on == "device" else Replay(schedule, seed)
    started = time.perf_counter()
    compiled = compile_attention(config, lse=True, row_max=True, arch=runner.architecture)
    compile_seconds = time.perf_counter() - started
    ran = runner.run(compiled, problem, scale, ctas)
    ran["warnings"] += range_warnings(config, v)
    o_ref, lse_ref = reference(q, k, v, config.head_dim**-0.5 if scale is None else scale, config.causal)
    if not config.normalize:
        o_ref = unnormalized(o_ref, lse_ref, row_max)
    return Outcome(config, o, lse, row_max, errors(o, o_ref, lse, lse_ref), compile_seconds=compile_seconds, **ran)


def range_warnings(config: AttentionConfig, v: NDArray[Any]) -> list[str]:
    """Why an un-normalised O may leave f16's range, if it may: it is as large as its row's sum lets it be.

    >>> import numpy as np
    >>> range_warnings(AttentionConfig(dtype="f16", normalize=False), np.full((1, 1000, 1, 128), 100.0))
    ['O is not divided by the row sums, and 1000 keys times a largest |v| of 100 is 100000, beyond f16 (65504): an \
element that gets there is infinite; take dtype bf16, fewer keys in a part, or normalize']

    A row's sum is at most the number of its keys, times two to the `rescale_threshold` under a stale maximum.
    """
    import numpy as np

    if config.normalize or config.dtype != "f16" or not v.size:
        return []
    largest = float(np.abs(v.astype(np.float64)).max())
    bound = v.shape[1] * largest * 2.0**config.rescale_threshold
    if bound <= F16_MAX:
        return []
    stale = f" times 2^{config.rescale_threshold:g}" if config.rescale_threshold else ""
    return [
        f"O is not divided by the row sums, and {v.shape[1]} keys times a largest |v| of {largest:g}{stale} is "
        f"{bound:g}, beyond f16 ({F16_MAX:g}): an element that gets there is infinite; take dtype bf16, "
        "fewer keys in a part, or normalize"
    ]


def fault_needs(config: AttentionConfig, tiles: int, ctas: int) -> str:
    """What a planted fault needs to be seen, and this run's own numbers.

    >>> fault_needs(AttentionConfig(fault="early_release"), tiles=1, ctas=148)
    'it needs a CTA that goes on to a second Q tile, as another one writes O: 1 Q tile (batch x heads x seq / 128) ran \
on 148 CTAs, so fewer CTAs or more rows, such as --seq 256 --ctas 1'
    """
    if config.fault == "early_release":
        ran = f"{tiles} Q tile{'s' if tiles > 1 else ''} (batch x heads x seq / {ROWS}) ran on {ctas} CTAs"
        return (
            f"it needs a CTA that goes on to a second Q tile, as another one writes O: {ran}, so fewer CTAs or more "
            "rows, such as --seq 256 --ctas 1"
        )
    if config.fault == "o_heads_first":
        return "it needs two heads and two rows at least, which it exchanges: --heads 2"
    if config.fault.startswith("rescale"):
        return "it needs a row whose maximum grows from one KV tile to the next: more keys, such as --kv-seq 512"
    if config.fault.startswith("p_offset"):
        return (
            f"it needs P and S to lie apart in TMEM (tmem_p0_offset={config.tmem_p0_offset}, where 0 moves nothing) "
            "and values of S and P that differ"
        )
    return "it needs elements that differ from those in whose places they are taken"


def unnormalized(o: NDArray[Any], lse: NDArray[Any], row_max: NDArray[Any]) -> NDArray[Any]:
    """O times the row sums that belong to these row maxima: what `normalize=False` should give.

    >>> import numpy as np
    >>> unnormalized(np.ones((1, 2, 1, 1)), np.array([[[2.0, -np.inf]]]), np.array([[[2.0, -np.inf]]])).ravel().tolist()
    [1.0, 0.0]
    """
    import numpy as np

    seen = np.isfinite(lse)
    row_sum = np.where(seen, np.exp(np.where(seen, lse - np.where(seen, row_max, 0.0), 0.0)), 0.0)
    return o * row_sum.transpose(0, 2, 1)[..., None]
