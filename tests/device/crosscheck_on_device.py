"""Runs `layoutlab crosscheck` whole on an SM90 device, for every variant of its P handoff, and records the answers.

    python3 crosscheck_on_device.py OUT.json [WORKERS]

Needs layoutlab with its `replay` extra, CuTe DSL, cuda-python and nvidia-smi. Every command is a process of its own,
as a user would start it, and asks the replay and the device.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sp90_variants import all_variants

SECONDS = 300


def commands() -> list[list[str]]:
    """The arguments of each command: sP90 by every route, and rs_reuse where registers become operand A."""
    found = list[list[str]]()
    for variant in all_variants():
        values, name = dict(variant), "sP90"
        if values["store"] == "registers":
            name, values = "rs_reuse", {key: values[key] for key in ("dtype", "kv")}
        settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        arguments = ["crosscheck", name, "--on", "replay,device", "--json", *settings]
        if arguments not in found:
            found.append(arguments)
    return found


def answer(arguments: list[str]) -> dict[str, Any]:
    """What a command answered: its exit status, the verdicts, and what was seen on the device."""
    done = subprocess.run(["layoutlab", *arguments], capture_output=True, text=True, timeout=SECONDS)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return {"command": arguments, "exit": done.returncode, "verdict": None, "stderr": done.stderr[-1000:]}
    heard = {witness["name"]: witness for witness in said["witnesses"]}
    return {
        **{key: said[key] for key in ("handoff", "params", "verdict", "claim", "dsl_version")},
        "exit": done.returncode,
        "device": heard["device"]["why"],
        "replay_verdict": heard["replay"]["verdict"],
        "device_verdict": heard["device"]["verdict"],
    }


def main(out: Path, workers: int) -> None:
    started = time.time()
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(smi, capture_output=True, text=True).stdout.strip()
    with ThreadPoolExecutor(workers) as pool:
        answers = list(pool.map(answer, commands()))
    verdicts: dict[str, int] = {}
    for each in answers:
        said = f"exit {each['exit']}: {each.get('verdict')}, {each.get('claim')}"
        verdicts[said] = verdicts.get(said, 0) + 1
    record = {
        "device": device,
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "command": "python3 tests/device/crosscheck_on_device.py OUT.json",
        "dsl_version": answers[0].pop("dsl_version", None),
    }
    for each in answers[1:]:
        each.pop("dsl_version", None)
    rows = ",\n".join(json.dumps(each) for each in answers)
    out.write_text(f'{json.dumps(record)[:-1]}, "answers": [\n{rows}\n]}}\n')
    print(f"{len(answers)} commands in {time.time() - started:.0f} s: {verdicts}", flush=True)
    strange = [each for each in answers if each.get("verdict") != "agree"]
    print(json.dumps(strange[:3], indent=1)[:4000], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8)
