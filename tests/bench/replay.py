"""How fast the replay machine is: `python tests/bench/replay.py [--quick]`.

The kernel is the attention kernel, launch capture included. A throw-away trial in plain Python had made 100 to 220
thousand warp-instructions a second on such a machine: 0.14 s for another attention kernel's CTA of 256 query rows with
256 keys at head dim 128, 1.1 s with 2048. (`tests/strangers/replay.py sm_100a --only "256 x" --repeat 9` times
flash-attn-4's CTA of that size.) CPU seconds are of this process, so that a busy machine counts less; memory
is the growth of the highest resident size from before the first run.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from layoutlab.kernels.attention_config import AttentionConfig
from layoutlab.kernels.attention_host import arguments, check, compile_attention
from layoutlab.kernels.attention_run import random_inputs, replay_launch

RUNS = 7
TRIAL = {(256, 256, 1): 0.14, (256, 2048, 1): 1.1}  # seconds, of a CTA of as many rows and keys


def resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, run: Callable[[], Any], runs: int, trial: float | None) -> None:
    """The best of some runs after one that compiles and decodes, and how many times the trial's speed that is."""
    before = resident_mb()
    run()
    best, instructions = float("inf"), 0
    for _ in range(runs):
        start = time.process_time()
        instructions = run()
        best = min(best, time.process_time() - start)
    rate = instructions / best / 1000
    faster = "" if trial is None else f"  {trial / best:.1f} times the trial's {trial} s"
    print(f"{name:48s} {instructions:9d} {best:8.3f} s {rate:8.0f} k/s {resident_mb() - before:7.0f} MB{faster}")


def attention(rows: int, keys: int, heads: int, head_dim: int = 128, **settings: Any) -> Callable[[], int]:
    """One launch of the attention kernel, compiled once; a call replays it and gives its warp-instructions."""
    config = AttentionConfig(head_dim=head_dim, **settings)
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in random_inputs(1, rows, keys, heads, 1, head_dim))
    lse, row_max = (np.zeros((1, heads, rows), np.float32) for _ in range(2))
    problem = check(config, q, k, v, np.zeros_like(q), lse, row_max)
    compiled = compile_attention(config, lse=True, row_max=True)

    def run() -> int:
        return replay_launch(compiled, arguments(problem), problem.operands.values()).instructions

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest case, once")
    quick = parser.parse_args().quick
    print(f"numpy {np.__version__}\n{'case':48s} {'warp-ins.':>9s} {'CPU':>10s} {'rate':>12s} {'memory':>10s}")
    cases = [(128, 128, 1), (128, 256, 1), (128, 2048, 1), (256, 256, 1), (256, 2048, 1), (256, 1024, 4)]
    for rows, keys, heads in cases[:1] if quick else cases:
        measure(
            f"attention, {rows} rows x {heads} heads, {keys} keys",
            attention(rows, keys, heads),
            1 if quick else RUNS,
            TRIAL.get((rows, keys, heads)),
        )


if __name__ == "__main__":
    main()
