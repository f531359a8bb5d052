"""Makes tests/data/sp90_h200.* of what sp90_on_device.py brought back: python record_sp90.py BUNDLES RESULTS DATA

Nothing is judged here: hashes of what the device wrote, the element numbers that its answers spell, its counts and
times.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sp90_variants import all_variants, folder_name, planted_faults

from layoutlab.crosscheck.bundled import Bundle, read_results

COMMAND = "python3 sp90_on_device.py FOLDER OUT"
WRITES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
KEPT = [{"store": "tiled_copy", "dtype": dtype, "kv": 64, "head_dim": 64} for dtype in ("bf16", "f16", "e4m3", "e5m2")]
"""Variants whose O of the first random case is kept whole."""


def kept(values: dict[str, Any]) -> bool:
    """Whether a fault's places are kept whole, not only as hashes: in two types, by two routes."""
    raw, scalar = values["store"] == "composition_raw", values["store"] == "coordinate"
    return values["dtype"] in ("bf16", "e4m3") and (values.get("kv") == 64 if raw else scalar)


def digest(data: bytes) -> str:
    """The beginning of a SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def plain(product: np.ndarray[Any, Any]) -> bytes:
    """O's bytes, every NaN the same one."""
    return np.where(np.isnan(product), np.float32(np.nan), product).astype(np.float32).tobytes()


def record(bundles: Path, results: Path, data: Path) -> None:
    run = json.loads((results / "run.json").read_text())
    counted = json.loads((results / "counts.json").read_text())
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    variants = []
    for values in all_variants():
        name = folder_name(values)
        bundle = Bundle(bundles / name)
        found, stamp = read_results(results / f"{name}.zip")
        tagged = {case["name"] for case in bundle.launch["cases"] if "digit" in case}
        times = {rounds: statistics.median(seconds) for rounds, seconds in stamp["times"]["seconds"].items()}
        one: dict[str, Any] = {
            "settings": bundle.settings,
            "image": {case: digest(out["image"]) for case, out in found.items()},
            "O": {case: digest(plain(bundle.product(out))) for case, out in found.items() if case in tagged},
            "store_ns": round((times["2001"] - times["1"]) / 2000 * 1e9, 2),
        }
        if name in counted["counts"]:
            one["writes"] = counted["counts"][name][WRITES]
            one["sass"] = counted["sass"][name][1]
            one["frame_bytes"] = frame_bytes((bundles / name / "kernel.cubin").read_bytes())
        account = bundle.account(found)
        if values in planted_faults() and kept(values):
            arrays[f"{name}/image"] = account.image.astype(np.int16)
            arrays[f"{name}/seen"] = account.seen.astype(np.int16)
        if values in KEPT:
            arrays[f"{name}/O"] = bundle.product(found["random1"])
        variants.append({"name": name, **one})
    whole = {
        "device": run["device"],
        "date": run["date"],
        "command": COMMAND,
        "counter": WRITES,
        "count_command": counted["command"],
        "dsl_version": bundle.launch["made"]["dsl_version"],
        "variants": variants,
    }
    lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in whole.pop("variants"))
    (data / "sp90_h200.json").write_text(json.dumps(whole)[:-1] + ', "variants": [\n' + lines + "\n]}\n")
    np.savez_compressed(data / "sp90_h200.npz", **arrays)  # type: ignore[arg-type]
    print(len(variants), "variants,", len(arrays), "arrays")


def frame_bytes(cubin: bytes) -> int:
    """The kernel's stack frame: where registers are spilled to (.nv.info, EIATTR_FRAME_SIZE)."""
    table, entries = int.from_bytes(cubin[40:48], "little"), int.from_bytes(cubin[60:62], "little")
    for i in range(entries):
        header = cubin[table + 64 * i : table + 64 * (i + 1)]
        if int.from_bytes(header[4:8], "little") != 0x70000000:  # SHT_CUDA_INFO
            continue
        at = int.from_bytes(header[24:32], "little")
        end = at + int.from_bytes(header[32:40], "little")
        while at < end:
            form, kind, size = cubin[at], cubin[at + 1], int.from_bytes(cubin[at + 2 : at + 4], "little")
            if form == 4 and kind == 0x11:
                return int.from_bytes(cubin[at + 8 : at + 12], "little")
            at += 4 + (size if form == 4 else 0)
    raise ValueError("the cubin says nothing of its frame")


if __name__ == "__main__":
    record(*map(Path, sys.argv[1:4]))
