"""`layoutlab run attention`: compile the SM100 attention kernel, run it, and hold its result against float64."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from layoutlab.errors import LayoutError

if TYPE_CHECKING:
    from layoutlab.kernels.attention_run import Outcome

_EPILOG = """\
examples:
  layoutlab run attention --head-dim 64 --p smem --seq 300 --causal
  layoutlab run attention --seq 129 --kv-seq 1000 --heads 8 --kv-heads 2 --dtype f16 --schedule random --seed 3
  layoutlab run attention --load in.npz --save out.npz      q, k, v float32 (batch, seq, heads, head_dim); o, lse
  layoutlab run attention --fault p_offset_forgotten        a planted mistake, and what the check says of it
  layoutlab run attention --fault early_release --seq 256 --ctas 1        this one needs a second Q tile in a CTA

exit status: 0 when the result is within the limits of the kernel's type, 1 when it is not, 2 when the configuration is
refused and for usage and internal errors, 3 when there is no device to run on, or when a planted fault was not seen
"""


def add(subparsers: Any) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "run",
        description="Compiles a kernel, runs it by replay on the CPU or on a device, and prints errors and times.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kernel", choices=["attention"])
    parser.add_argument("--head-dim", type=int, default=128, help="64, 128 (default) or 256")
    parser.add_argument("--dtype", default="bf16", help="bf16 (default) or f16")
    parser.add_argument("--p", default="tmem", help="where P is handed over: tmem (default) or smem")
    parser.add_argument(
        "--route", default="vector", help="how P is stored to smem: vector (default), coordinate, composition"
    )
    parser.add_argument(
        "--tmem-p0-offset", type=int, default=32, help="P's column inside S, with --p tmem (default 32)"
    )
    parser.add_argument("--rescale-threshold", type=float, default=0.0, help="powers of two that a maximum may grow by")
    parser.add_argument("--causal", action="store_true", help="row i sees keys up to i + kv_seq - seq")
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, default=True, help="divide O by the row sums"
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--kv-heads", type=int, help="default: as many as heads")
    parser.add_argument("--seq", type=int, default=128, help="query rows (default 128)")
    parser.add_argument("--kv-seq", type=int, help="keys; default: as many as --seq")
    parser.add_argument("--scale", type=float, help="default: 1 / sqrt(head_dim)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs and of a random schedule")
    parser.add_argument(
        "--schedule", default="eager", choices=["eager", "lazy", "random"], help="when asynchronous work completes"
    )
    parser.add_argument("--ctas", type=int, help="CTAs at most (default 148, one for each SM of a B200)")
    parser.add_argument("--on", default="replay", choices=["replay", "device"])
    parser.add_argument("--load", metavar="FILE.npz", help="take q, k, v from this file")
    parser.add_argument("--save", metavar="FILE.npz", help="write o and lse to this file")
    parser.add_argument(
        "--fault",
        default="none",
        metavar="NAME",
        help="plant a mistake, such as p_offset_forgotten; a wrong name lists them",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: Any) -> int:
    """Runs and prints; 1 when the result is out of its limits."""
    from layoutlab.kernels.attention_config import AttentionConfig
    from layoutlab.kernels.attention_device import Unavailable
    from layoutlab.kernels.attention_run import random_inputs, run_attention

    q, k, v = _load(args.load) if args.load else random_inputs(
        args.batch, args.seq, args.kv_seq if args.kv_seq is not None else args.seq,
        args.heads, args.heads if args.kv_heads is None else args.kv_heads, args.head_dim, args.seed,
    )  # fmt: skip
    config = AttentionConfig(
        head_dim=q.shape[-1],
        dtype=args.dtype,
        p=args.p,
        route=args.route,
        causal=args.causal,
        normalize=args.normalize,
        tmem_p0_offset=args.tmem_p0_offset,
        rescale_threshold=args.rescale_threshold,
        fault=args.fault,
    )
    options = {} if args.ctas is None else {"ctas": args.ctas}
    try:
        outcome = run_attention(
            config, q, k, v, scale=args.scale, on=args.on, schedule=args.schedule, seed=args.seed, **options
        )
    except Unavailable as e:
        print(f"layoutlab: {e}", file=sys.stderr)
        return 3
    if args.save:
        _save(args.save, outcome)
    unseen = _unseen(outcome, q.shape, args.ctas)
    if args.json:
        print(json.dumps(_as_json(outcome) | {"fault": config.fault, "unseen": unseen or None}))
    else:
        print(f"{config.budget()}\n{outcome}{unseen and chr(10)}{unseen}")
    return 3 if unseen else 0 if outcome.good else 1


def _unseen(outcome: Outcome, shape: tuple[int, ...], ctas: int | None) -> str:
    """The sentence for a planted fault with which the result is within its limits; empty where none was planted."""
    from layoutlab.kernels.attention_config import ROWS
    from layoutlab.kernels.attention_host import DEFAULT_CTAS
    from layoutlab.kernels.attention_run import fault_needs

    if outcome.config.fault == "none" or not outcome.good:
        return ""
    batch, rows, heads, _ = shape
    tiles = batch * heads * -(-rows // ROWS)
    needs = fault_needs(outcome.config, tiles, DEFAULT_CTAS if ctas is None else ctas)
    return f"the planted fault {outcome.config.fault} was not seen in this run: the result is right; {needs}"


def _load(path: str) -> tuple[Any, Any, Any]:
    import numpy as np

    with np.load(path) as stored:
        missing = [name for name in ("q", "k", "v") if name not in stored]
        if missing:
            raise LayoutError(f"{path} lacks {', '.join(missing)}: it must hold q, k and v")
        return stored["q"], stored["k"], stored["v"]


def _save(path: str, outcome: Outcome) -> None:
    import numpy as np

    np.savez(path, o=outcome.o.astype(np.float32), lse=outcome.lse)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    from importlib import metadata

    from layoutlab.cli import version

    return {
        "schema": 1,
        "version": version(),
        "dsl_version": metadata.version("nvidia-cutlass-dsl"),
        "cosine": _finite(outcome.errors.cosine),
        "relative_error": _finite(outcome.errors.relative_error),
        "lse_error": _finite(outcome.errors.lse_error),
        "where": outcome.errors.where,
        "instructions": outcome.instructions,
        "seconds": outcome.seconds,
        "warnings": outcome.warnings,
    }


def _finite(value: float | None) -> float | None:
    """A number as JSON has it; NaN and infinity, which JSON has not, as null."""
    import math

    return value if value is not None and math.isfinite(value) else None
