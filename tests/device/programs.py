"""Runs the PTX programs of the machine's own tests on a CUDA device and records what comes out.

    python tests/device/programs.py collect FILE         here: the programs and inputs of the tests, to FILE
    python3 tests/device/programs.py run FILE OUT        on an SM90 device: the same, with outputs, to OUT
    python tests/device/programs.py store OUT FOLDER     here: to tests/data, as ptx_programs_h200.npz and .json

What SM90's assembler does not take (SM100's packed float32, for one) is recorded as refused. Only the driver is used
there.
"""

from __future__ import annotations

import ctypes
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ARITHMETIC_ALL = "test_ptx_arithmetic"
MACHINE = [
    "test_scopes_have_their_own_labels_and_registers", "test_each_lane_takes_its_own_path",
    "test_lanes_meet_again_before_a_shuffle", "test_branch_tables", "test_shuffle", "test_votes_and_reductions",
    "test_warps_exchange_through_shared_memory", "test_named_barriers_release_producer_and_consumer",
    "test_phases_of_an_mbarrier", "test_a_fresh_mbarrier_passes_parity_one", "test_expected_bytes_hold_the_phase_open",
    "test_generic_addresses_reach_every_space", "test_narrow_loads_extend", "test_constants_of_the_module",
    "test_compare_and_swap_and_float_atomics", "test_waiting_for_a_copy",
    "test_warps_in_blocks_that_are_no_multiple_of_32",
]  # fmt: skip


def collect(path: Path) -> None:
    """Run the tests with a `run` that also writes down what it is given."""
    root = Path(__file__).parent.parent
    sys.path.insert(0, str(root))
    import ptx_programs

    real, found = ptx_programs.run, {}

    def noting(text: str, *args: Any, **options: Any) -> Any:
        inputs = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        geometry = {k: options[k] for k in ("grid", "block", "shared_bytes") if k in options}
        report = real(text, *args, **options)
        found.setdefault(text, (inputs, geometry))
        return report

    ptx_programs.run = noting
    import pytest
    import test_ptx_machine

    test_ptx_machine.run = noting
    chosen = [str(root / "test_ptx_arithmetic.py")]
    chosen += [f"{root / 'test_ptx_machine.py'}::{name}" for name in MACHINE]
    import test_ptx_arithmetic

    test_ptx_arithmetic.run = noting
    status = pytest.main(["-q", "-p", "no:cacheprovider", *chosen])
    assert status == 0, status
    programs = [(text, inputs, geometry) for text, (inputs, geometry) in found.items()]
    path.write_bytes(pickle.dumps(programs))
    print(f"{len(programs)} programs")


class Driver:
    """The few driver calls that a launch needs."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.cuda.cuInit(0))
        self.check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device))
        self.check(self.cuda.cuCtxSetCurrent(self.context))

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}")

    def run(self, text: str, inputs: list[Any], geometry: dict[str, Any]) -> list[np.ndarray] | str:
        """The arrays after a launch, or why the text does not assemble."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(5, 6)  # the error log, its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 4096)
        image = text.replace("sm_100a", "sm_90a").encode() + b"\0"
        if self.cuda.cuModuleLoadDataEx(ctypes.byref(module), image, 2, options, values):
            return log.value.decode()[:300]
        name = text.split(".entry ")[1].split("(")[0].encode()
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
        arguments, kept = [], []
        for value in inputs:
            if isinstance(value, np.ndarray):
                pointer = ctypes.c_uint64()
                self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(value.nbytes)))
                raw = np.ascontiguousarray(value)
                self.check(
                    self.cuda.cuMemcpyHtoD_v2(pointer, raw.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(raw.nbytes))
                )
                arguments.append(pointer)
                kept.append((pointer, raw.copy()))
            else:
                arguments.append(ctypes.c_uint64(int(value)))
        packed = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
        grid, block = geometry.get("grid", (1, 1, 1)), geometry.get("block", (32, 1, 1))
        self.check(
            self.cuda.cuLaunchKernel(function, *grid, *block, geometry.get("shared_bytes", 0), None, packed, None)
        )
        self.check(self.cuda.cuCtxSynchronize())
        for pointer, out in kept:
            self.check(
                self.cuda.cuMemcpyDtoH_v2(out.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(out.nbytes))
            )
        self.check(self.cuda.cuModuleUnload(module))
        return [out for _, out in kept]


def run(path: Path, out: Path) -> None:
    driver, results = Driver(), []
    for number, (text, inputs, geometry) in enumerate(pickle.loads(path.read_bytes())):
        try:
            outputs: Any = driver.run(text, inputs, geometry)
        except RuntimeError as error:
            print(f"program {number}: {error}\n{text}")
            raise
        results.append((text, inputs, geometry, outputs))
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    out.write_bytes(pickle.dumps((device, results)))
    refused = sum(isinstance(r[3], str) for r in results)
    print(f"{device}: {len(results)} programs, {refused} refused by the assembler")
    for text, _, _, reason in results:
        if isinstance(reason, str):
            print(reason.splitlines()[:1], [line for line in text.splitlines() if " d, " in line or "  d" in line][:1])


def store(path: Path, folder: Path) -> None:
    device, results = pickle.loads(path.read_bytes())
    arrays: dict[str, np.ndarray] = {}
    programs = []
    for text, inputs, geometry, outputs in results:
        if isinstance(outputs, str):
            continue
        name = str(len(programs))
        programs.append({"text": text, "geometry": geometry, "arguments": []})
        given = iter(outputs)
        for i, value in enumerate(inputs):
            if isinstance(value, np.ndarray):
                arrays[f"{name}/{i}/in"] = value.view(np.uint8) if value.dtype.kind == "V" else value
                arrays[f"{name}/{i}/out"] = next(given)
                programs[-1]["arguments"].append(None)
            else:
                programs[-1]["arguments"].append(int(value))
    arrays = {k: np.ascontiguousarray(v).view(np.uint8) for k, v in arrays.items()}
    np.savez_compressed(folder / "ptx_programs_h200.npz", **arrays)
    head = {
        "device": device,
        "what": "PTX programs of the tests run on the device; arrays as bytes",
        "programs": programs,
    }
    (folder / "ptx_programs_h200.json").write_text(json.dumps(head, indent=0))
    print(f"{len(programs)} programs stored")


if __name__ == "__main__":
    {"collect": collect, "run": run, "store": store}[sys.argv[1]](*map(Path, sys.argv[2:]))
