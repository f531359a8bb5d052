"""Runs the sP90 bundles on a CUDA device, and has Nsight Compute count the wavefronts of their stores.

    python3 sp90_on_device.py FOLDER OUT

FOLDER holds bundles (make_sp90_bundles.py) and runner.py. Needs cuda-python, ncu and nvidia-smi; writes OUT/results.tar
(a zip for each bundle), OUT/counts.json and OUT/run.json. A bundle whose launch fails takes its process with it: the
others are run by a new one.
"""

from __future__ import annotations

import collections
import csv
import io
import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

METRICS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
# Launches of one kernel count some dozens of wavefronts more or less than each other: 1000 stores make that little.
ROUNDS = (101, 101, 101, 1101, 1101, 1101)
SASS_STORE = re.compile(r"\b(STS(?:M)?(?:\.[\w.]+)?) \[")
COUNT_SECONDS = 200


def run_all(folder: Path, bundles: list[Path], results: Path) -> dict[str, str]:
    """Runs the bundles; returns what failed, and why."""
    failed: dict[str, str] = {}
    left = list(bundles)
    while left:
        command = [sys.executable, folder / "runner.py", *left, "--out", results]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        left = [bundle for bundle in left if not (results / f"{bundle.name}.zip").is_file()]
        if done.returncode == 0:
            break
        print(done.stderr[-500:], flush=True)
        if done.returncode != 1 or not left:
            return {**failed, "runner": done.stderr}
        failed[left.pop(0).name] = done.stderr
        if len(failed) > 20:
            break
    return failed


def counts(folder: Path, bundles: list[Path]) -> dict[str, object]:
    """The counters of each bundle's launches with 101 and 1101 stores, and the stores in its machine code."""
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(METRICS), "--csv"]
    run = [sys.executable, folder / "runner.py", *bundles, "--only", *map(str, ROUNDS)]
    done = subprocess.run([*command, *run], capture_output=True, text=True, timeout=COUNT_SECONDS)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    launched = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("launched ")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    order = list(dict.fromkeys(row["ID"] for row in rows))
    if len(order) != len(launched) or done.returncode:
        return {"error": (done.stdout[-2000:] + done.stderr[-2000:])}
    found: dict[str, dict[str, dict[str, list[int]]]] = {}
    for row in rows:
        name, rounds = launched[order.index(row["ID"])]
        value = int(float(row["Metric Value"].replace(",", "")))
        found.setdefault(name, {}).setdefault(row["Metric Name"], {}).setdefault(rounds, []).append(value)
    sass = {bundle.name: stores(bundle / "kernel.cubin") for bundle in bundles}
    return {"command": " ".join(map(str, command)), "counts": found, "sass": sass}


def stores(cubin: Path) -> list[dict[str, int]]:
    """How many stores to shared memory of each kind a cubin has between one barrier and the next."""
    done = subprocess.run(["cuobjdump", "--dump-sass", cubin], capture_output=True, text=True)
    parts = re.split(r"\bBAR\.SYNC", done.stdout)
    return [dict(collections.Counter(SASS_STORE.findall(part))) for part in parts]


def main(folder: Path, out: Path) -> None:
    started = time.time()
    results = Path("/tmp/sp90_results")
    bundles = sorted(path.parent for path in folder.glob("*/launch.json"))
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(smi, capture_output=True, text=True).stdout.strip()
    failed = run_all(folder, bundles, results)
    with tarfile.open(out / "results.tar", "w") as archive:
        for path in sorted(results.glob("*.zip")):
            archive.add(path, path.name)
    ran = time.time() - started
    print(f"{len(list(results.glob('*.zip')))} of {len(bundles)} ran, {len(failed)} failed, {ran:.0f} s", flush=True)
    record = {"device": device, "date": time.strftime("%Y-%m-%d"), "python": sys.version, "failed": failed}
    (out / "run.json").write_text(json.dumps(record, indent=1))
    right = [b for b in bundles if "head_dim-64" in b.name and "registers" not in b.name]
    right += [b for b in bundles if "write_swizzle" in b.name and "bf16" in b.name]
    counted = counts(folder, right)
    (out / "counts.json").write_text(json.dumps(counted, indent=1))
    print(f"{len(right)} counted: {counted.get('error', 'ok')}, {time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
