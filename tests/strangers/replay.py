"""Replays kernels that nobody here wrote, from packages on the index, and holds them against torch.

    pip install torch einops triton apache-tvm-ffi torch-c-dlpack-ext
    pip install --no-deps flash-attn-4==4.0.0b36 quack-kernels==0.6.5
    python tests/strangers/replay.py sm_100a [--only WORD] [--schedule lazy] [--record]
    python tests/strangers/replay.py sm_90a --record

`--record` puts the results into tests/data/strangers_replayed.json, against which the README is checked; `--check` says
which results are no longer those.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import flash_attention
import quack_replay
import stand_in

RECORD = Path(__file__).parent.parent / "data" / "strangers_replayed.json"
PACKAGES = ("flash-attn-4", "quack-kernels", "nvidia-cutlass-dsl", "torch", "numpy")


def run_case(what: str, run: Any, reports: list[Any], repeat: int) -> dict[str, Any]:
    """One case: its error, the warnings of its launches, and how long they took; the fastest of some further runs."""
    least = float("inf")
    with contextlib.redirect_stdout(sys.stderr):
        for _ in range(repeat):
            reports.clear()
            before = len(stand_in.CPU_SECONDS)
            error, allowed = run()
            least = min(least, sum(stand_in.CPU_SECONDS[before:]))
    warnings = [str(w) for r in reports for w in r.warnings]
    instructions, seconds = sum(r.instructions for r in reports), sum(r.seconds for r in reports)
    good = error <= allowed and not warnings and bool(reports)
    print(f"{'ok  ' if good else 'FAIL'} {what}: error {error:.1e} of {allowed:.0e} allowed; "
          f"{instructions} warp-instructions in {seconds:.2f} s"
          + (f", {least:.4f} CPU s at least" if repeat > 1 else ""), flush=True)  # fmt: skip
    for warning in warnings[:5]:
        print(f"     {warning}")
    return {"case": what, "error": error, "allowed": allowed, "warnings": warnings, "instructions": instructions}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", choices=("sm_100a", "sm_90a"))
    parser.add_argument("--only", default="")
    parser.add_argument("--schedule", default="eager", choices=("eager", "lazy", "random"))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--repeat", type=int, default=1, help="run each case so often and say the least CPU seconds")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.record and (options.only or options.schedule != "eager"):
        parser.error("a record holds every case, run eagerly")
    stand_in.choose(options.architecture)
    stand_in.answer_for_the_device(options.architecture)
    reports: list[Any] = []
    stand_in.replay_instead(reports, options.schedule)
    found = [
        run_case(what, run, reports, options.repeat)
        for module in (flash_attention, quack_replay)
        for what, run in module.cases(options.architecture)
        if options.only in what
    ]
    if options.record:
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        record[options.architecture] = {
            "date": datetime.date.today().isoformat(),
            "command": f"python tests/strangers/replay.py {options.architecture} --record",
            "versions": {name: version(name) for name in PACKAGES}, "cases": found,
        }  # fmt: skip
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    if options.check:
        before = {c["case"]: c for c in json.loads(RECORD.read_text())[options.architecture]["cases"]}
        changed = [c["case"] for c in found if before.get(c["case"]) != c]
        print("\n".join(f"changed: {case}" for case in changed) or f"all {len(found)} as recorded")
        return len(changed)
    return sum(not (c["error"] <= c["allowed"] and not c["warnings"] and c["instructions"]) for c in found)


if __name__ == "__main__":
    sys.exit(main())
