"""replay_bundle: what a launch bundle's kernel does, run on the CPU instruction by instruction, without CuTe DSL."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from layoutlab.device.runner import description, relocated
from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import parse_module
from layoutlab.ptx.state import Geometry

ALIGNMENT = 256  # of device memory

Results = dict[str, dict[str, bytes]]
"""The bytes of each output, by case and tensor."""


def replay_bundle(folder: Path, cases: Iterable[str] | None = None, schedule: str = "eager", seed: int = 0) -> Results:
    """Runs a bundle's cases (by name; all of them) from its PTX; raises PtxError where the machine stops."""
    launch = description(folder)
    module = parse_module((folder / launch["ptx"]).read_text())
    geometry = Geometry(tuple(launch["grid"]), tuple(launch["block"]), launch["shared_bytes"], tuple(launch["cluster"]))
    wanted = None if cases is None else set(cases)
    results: Results = {}
    for case in launch["cases"]:
        if wanted is not None and case["name"] not in wanted:
            continue
        memory, held = GlobalMemory(), dict[str, Any]()
        for name, tensor in launch["tensors"].items():
            path = case["inputs"].get(name)
            data = (folder / path).read_bytes() if path else bytes([tensor["fill"]]) * tensor["bytes"]
            held[name] = aligned(data)
            memory.register(name, held[name].ctypes.data, len(data), held[name])
        params = relocated(launch, {name: array.ctypes.data for name, array in held.items()})
        run_grid(module, module.entries[launch["kernel"]], geometry, params, memory, schedule=schedule, seed=seed)
        outputs = (name for name, tensor in launch["tensors"].items() if tensor["role"] == "out")
        results[case["name"]] = {name: held[name].tobytes() for name in outputs}
    return results


def aligned(data: bytes) -> Any:
    """A copy of bytes as an array that starts where device memory may."""
    buffer = np.empty(len(data) + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    buffer[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return buffer[start : start + len(data)]
