"""`layoutlab run attention`: compile the SM100 attention kernel, run it, and hold its result against float64."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

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
    parser.add_argument("--head-dim", type=int, help="64, 128 (default) or 256")
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
    parser.add_argument(
        "--iter-acc-early-release-in-epilogue",
        type=int,
        metavar="SUBTILE",
        help="the sub-tile of the epilogue after whose load O is released; default, and the only one that is right: "
        "the last",
    )
    parser.add_argument("--batch", type=int, help="default: 1")
    parser.add_argument("--heads", type=int, help="default: 1")
    parser.add_argument("--kv-heads", type=int, help="default: as many as heads")
    parser.add_argument("--seq", type=int, help="query rows (default 128)")
    parser.add_argument("--kv-seq", type=int, help="keys; default: as many as --seq")
    parser.add_argument("--scale", type=float, help="default: 1 / sqrt(head_dim)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs and of a random schedule")
    parser.add_argument(
        "--schedule", default="eager", choices=["eager", "lazy", "random"], help="when asynchronous work completes"
    )
    parser.add_argument("--ctas", type=int, help="CTAs at most (default 148, one for each SM of a B200)")
    parser.add_argument("--on", default="replay", choices=["replay", "device"])
    parser.add_argument("--load", metavar="FILE.npz", help="take q, k, v from this file")
    parser.add_argument(
        "--save", metavar="FILE.npz", help="write o and lse to this file, and row_max with --no-normalize"
    )
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

    if args.save is not None:
        _check_save(args.save)
    q, k, v = _loaded(args) if args.load is not None else random_inputs(**_sizes(args), seed=args.seed)
    config = AttentionConfig(
        head_dim=q.shape[-1],
        dtype=args.dtype,
        p=args.p,
        route=args.route,
        causal=args.causal,
        normalize=args.normalize,
        tmem_p0_offset=args.tmem_p0_offset,
        rescale_threshold=args.rescale_threshold,
        iter_acc_early_release_in_epilogue=args.iter_acc_early_release_in_epilogue,
        fault=args.fault,
    )
    options = {} if args.ctas is None else {"ctas": args.ctas}
    if not args.json:
        print(config.budget(), flush=True)
    try:
        outcome = run_attention(
            config, q, k, v, scale=args.scale, on=args.on, schedule=args.schedule, seed=args.seed, **options
        )
    except Unavailable as e:
        print(f"layoutlab: {e}", file=sys.stderr)
        return 3
    if args.save is not None:
        _save(args.save, outcome)
    unseen = _unseen(outcome, q.shape, args.ctas)
    if args.json:
        planted = {"fault": config.fault, "unseen": unseen or None} if config.fault != "none" else {}
        print(json.dumps(_as_json(outcome) | planted))
    else:
        print(f"{outcome}{unseen and chr(10)}{unseen}")
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


def _sizes(args: Any) -> dict[str, int]:
    """The sizes of the inputs, as asked for or by default."""
    asked = {"batch": args.batch, "seq_q": args.seq, "heads": args.heads, "head_dim": args.head_dim}
    found = {"batch": 1, "seq_q": 128, "heads": 1, "head_dim": 128} | {n: x for n, x in asked.items() if x is not None}
    found["seq_kv"] = found["seq_q"] if args.kv_seq is None else args.kv_seq
    found["kv_heads"] = found["heads"] if args.kv_heads is None else args.kv_heads
    return found


def _loaded(args: Any) -> tuple[Any, Any, Any]:
    """The inputs of a file; sizes asked for beside it must be the file's."""
    q, k, v = _load(args.load)
    batch, seq, heads, head_dim = q.shape
    there = {"--batch": batch, "--seq": seq, "--heads": heads, "--head-dim": head_dim}
    there |= {"--kv-seq": k.shape[1], "--kv-heads": k.shape[2]}
    for option, size in there.items():
        asked = getattr(args, option[2:].replace("-", "_"))
        if asked not in (None, size):
            raise LayoutError(f"{option} {asked} is not what {args.load} has, {size}: leave it out")
    return q, k, v


def _load(path: str) -> tuple[Any, Any, Any]:
    """q, k and v of a file, real numbers all of them."""
    import numpy as np

    try:
        stored = np.load(path)
        names = stored.files  # an .npy file holds one array, without a name
        missing = [name for name in ("q", "k", "v") if name not in names]
        found = {} if missing else {name: stored[name] for name in ("q", "k", "v")}
    except (ValueError, AttributeError, EOFError, BadZipFile) as e:
        raise LayoutError(
            f"{path} is no .npz file of numbers: write one by numpy.savez({path!r}, q=q, k=k, v=v)"
        ) from e
    if missing:
        raise LayoutError(f"{path} lacks {', '.join(missing)}: it must hold q, k and v")
    for name, x in found.items():
        if x.dtype.kind not in "fiu":
            raise LayoutError(f"{name} in {path} is {x.dtype}: numbers such as float32 are taken")
        if x.ndim != 4:
            raise LayoutError(f"{name} has shape {x.shape}, not (batch, seq, heads, head_dim)")
    return found["q"], found["k"], found["v"]


def _check_save(path: str) -> None:
    """Refuses, before anything runs, a file that cannot be written."""
    folder = Path(path).resolve().parent
    if not folder.is_dir() or Path(path).is_dir():
        raise LayoutError(
            f"--save {path} cannot be written: {'it is a folder' if folder.is_dir() else 'no such folder'}"
        )


def _save(path: str, outcome: Outcome) -> None:
    import numpy as np

    more = {} if outcome.config.normalize else {"row_max": outcome.row_max}
    try:
        with open(path, "wb") as file:  # given a name, numpy would add .npz to it
            np.savez(file, o=outcome.o.astype(np.float32), lse=outcome.lse, **more)
    except OSError as e:
        raise LayoutError(f"--save {path} cannot be written: {e.strerror}") from e


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
