"""The SM90 P handoff kernel as a launch bundle: tagged and random inputs, from which an answer can be read off.

In the tagged cases every element of P carries a digit of its own number (`layoutlab.crosscheck.tags`), and V is a
window of the identity: O then shows, digit by digit, which element the tensor core took for each A[m, k], and the image
of sP which element lies in each place. The random cases show that the product is P V with full operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cutlass
import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck.tags import digit, numeric, passes
from layoutlab.device.bundle import Call, Tensor, make_bundle
from layoutlab.kernels.p_handoff_sm90 import compile_kernel, pointers
from layoutlab.kernels.p_settings import ROWS, PSettings
from layoutlab.kernels.p_settings_sm90 import PSettings90

Array = NDArray[Any]

CAPABILITY = (9, 0)
SEEDS = (1, 2)
ROUNDS = (1, 2001)  # the difference is the time of 2000 stores
TIMED_RUNS = 7


def make_p_bundle(settings: PSettings90, folder: Path) -> dict[str, Any]:
    """Compiles a variant and writes its bundle; returns its launch.json."""
    inputs, cases = cases_of(settings)
    timing = {"scalar": "rounds", "values": list(ROUNDS), "repeat": TIMED_RUNS}
    made = {
        "handoff": "sP90",
        "settings": {name: getattr(settings, name) for name in settings.__dataclass_fields__},
        "dsl_version": cutlass.__version__,
    }
    return make_bundle(
        call_of(settings), folder, capability=CAPABILITY, inputs=inputs, cases=cases, timing=timing, made=made
    )


def make(settings: dict[str, Any], folder: str) -> None:
    """The bundle of settings given by name: what a worker process is asked for."""
    make_p_bundle(PSettings90.parse(settings), Path(folder))


def call_of(settings: PSettings90) -> Call:
    """How the compiled kernel is called, by tensor addresses."""
    bits = 8 * settings.element_bytes
    image = settings.buffer_bytes
    tensors = {
        "S": Tensor(ROWS * settings.kv * 4, "in", "f32", (ROWS, settings.kv)),
        "V": Tensor(settings.kv * settings.head_dim * bits // 8, "in", settings.dtype, settings.v_shape),
        "O": Tensor(ROWS * settings.head_dim * 4, "out", "f32", (ROWS, settings.head_dim)),
        "image": Tensor(image, "out", "u8", (image,), fill=0),
    }

    def arguments(addresses: Mapping[str, int], scalars: Mapping[str, int]) -> tuple[Any, ...]:
        return (*pointers(settings, *(addresses[name] for name in tensors)), scalars["rounds"])

    return Call(compile_kernel(settings), tensors, {"rounds": 1}, arguments)


def cases_of(settings: PSettings90 | PSettings) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The input files by name, and the cases that use them; V in the shape that the settings say."""
    count, files, cases = ROWS * settings.kv, dict[str, bytes](), list[dict[str, Any]]()
    number = np.arange(count).reshape(ROWS, settings.kv)
    for index in range(passes(count, settings.dtype)):
        files[f"inputs/S.tag{index}.bin"] = digit(number, index, settings.dtype).astype(np.float32).tobytes()
    for first in range(0, settings.kv, settings.head_dim):
        files[f"inputs/V.from{first}.bin"] = v_bytes(settings, window(settings.kv, settings.head_dim, first))
        for index in range(passes(count, settings.dtype)):
            held = {"S": f"inputs/S.tag{index}.bin", "V": f"inputs/V.from{first}.bin"}
            cases.append({"name": f"tag{index}.from{first}", "digit": index, "first": first, "inputs": held})
    for seed in SEEDS:
        values = uniform(seed, count + settings.kv * settings.head_dim)
        files[f"inputs/S.random{seed}.bin"] = values[:count].tobytes()
        files[f"inputs/V.random{seed}.bin"] = v_bytes(settings, values[count:].reshape(settings.kv, settings.head_dim))
        held = {"S": f"inputs/S.random{seed}.bin", "V": f"inputs/V.random{seed}.bin"}
        cases.append({"name": f"random{seed}", "seed": seed, "inputs": held})
    return files, cases


def window(kv: int, head_dim: int, first: int) -> Array:
    """The (kv, head_dim) matrix that takes columns `first` on of what it multiplies."""
    return np.eye(kv, dtype=np.float32)[:, first : first + head_dim] if head_dim < kv else np.eye(kv, head_dim)


def uniform(seed: int, count: int) -> Array:
    """float32 numbers from -1 to 1, the same for a seed on every machine and in every version of numpy."""
    raw = np.random.PCG64(seed).random_raw(count)
    return ((raw >> np.uint64(40)).astype(np.float64) / 2**23 - 1).astype(np.float32)


def v_bytes(settings: PSettings90 | PSettings, v: Array) -> bytes:
    """V (kv, head_dim) as the kernel takes it."""
    stored = v.reshape(settings.v_shape) if settings.v_by_rows else v.T
    return np.ascontiguousarray(stored).astype(numeric(settings.dtype)).tobytes()
