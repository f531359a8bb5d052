"""Stands in for the device that other people's packages want, and replays the kernels that they launch.

A package asks a CUDA device for its properties, wants its tensors to lie there, and compiles for a foreign-function
interface. Those three are answered here; the kernel, its options and its launch are the package's own.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from types import SimpleNamespace
from typing import Any

MULTIPROCESSORS = 4
CPU_SECONDS: list[float] = []  # of each replay, launch capture included


def choose(architecture: str) -> None:
    """Compile for an architecture; to be called before anything imports cutlass or the package."""
    number = architecture.removeprefix("sm_").rstrip("a")
    os.environ |= {
        "CUTE_DSL_ARCH": architecture, "FLASH_ATTENTION_ARCH": architecture.rstrip("a"),
        "FLASH_ATTENTION_NUM_SMS": str(MULTIPROCESSORS), "QUACK_CACHE_ENABLED": "0", "QUACK_ARCH": number,
    }  # fmt: skip


def answer_for_the_device(architecture: str) -> None:
    """A device of four multiprocessors, and tensors that say they lie on it."""
    import torch
    from cutlass.utils import HardwareInfo

    major = int(architecture.removeprefix("sm_").rstrip("a")) // 10
    facts = SimpleNamespace(
        multi_processor_count=MULTIPROCESSORS, L2_cache_size=50 << 20, major=major, minor=0,
        shared_memory_per_block_optin=232448, name="replayed",
    )  # fmt: skip
    torch.cuda.current_device = lambda: 0
    torch.cuda.current_stream = lambda *_: SimpleNamespace(cuda_stream=0)
    torch.cuda.get_device_capability = lambda *_: (major, 0)
    torch.cuda.get_device_properties = lambda *_: facts
    torch.Tensor.is_cuda = property(lambda _: True)
    HardwareInfo.__init__ = lambda self, device_id=0: None
    HardwareInfo.get_max_active_clusters = lambda self, *_, **__: MULTIPROCESSORS
    HardwareInfo.get_device_multiprocessor_count = lambda self, *_, **__: MULTIPROCESSORS
    HardwareInfo.get_l2_cache_size_in_bytes = lambda self, *_, **__: 50 << 20


def replay_instead(reports: list[Any], schedule: str = "eager", seed: int = 0) -> None:
    """Compiled kernels are replayed when they are called; each call adds its report."""
    import cuda.bindings.driver as cuda
    import cutlass.cute as cute

    from layoutlab.replay import replay

    compile_it = cute.compile

    def compiled_for_replay(function: Any, *arguments: Any, options: str = "", **rest: Any) -> Any:
        given = [cuda.CUstream(0) if "Stream" in type(a).__name__ else a for a in arguments]
        with tempfile.TemporaryDirectory() as folder:
            kept = options.replace("--enable-tvm-ffi", "").strip() + f" --keep-ptx --dump-dir={folder}"
            compiled = compile_it(function, *given, options=kept, **rest)

        def call(*values: Any, **_: Any) -> None:
            tensors: list[Any] = []
            packed = _launch_arguments(given, list(values), tensors)
            start = time.process_time()
            reports.append(replay(compiled, *packed, buffers=tensors, schedule=schedule, seed=seed))
            CPU_SECONDS.append(time.process_time() - start)

        return call

    cute.compile = compiled_for_replay


def _launch_arguments(given: list[Any], values: list[Any], tensors: list[Any]) -> list[Any]:
    """What the call passes, in the form of what was compiled for; the stream is not passed."""
    packed = []
    for compiled in given:
        if type(compiled).__name__ == "CUstream":
            packed.append(compiled)
            continue
        packed.append(_packed(compiled, values.pop(0) if values else None, tensors))
    for value in values:
        _packed(None, value, tensors)
    return packed


def _packed(compiled: Any, value: Any, tensors: list[Any]) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        tensors.append(value)
        kind = type(compiled).__name__
        if kind == "_FakeTensor":
            return PackedTensor(value, compiled)
        if kind != "_Tensor":
            return compiled
        from cutlass.cute.runtime import from_dlpack

        return from_dlpack(value.detach(), assumed_align=16).mark_layout_dynamic(leading_dim=value.ndim - 1)
    if isinstance(value, tuple) and hasattr(compiled, "_fields"):
        return type(compiled)(*(_packed(c, v, tensors) for c, v in zip(compiled, value, strict=True)))
    if isinstance(value, (int, float)) and hasattr(type(compiled), "width"):
        return type(compiled)(value)
    return compiled if value is None else value


class PackedTensor:
    """A tensor's pointer, then the extents and strides that the compile left open, as host code takes them."""

    def __init__(self, tensor: Any, fake: Any) -> None:
        fields: list[tuple[str, Any]] = [("pointer", ctypes.c_uint64)]
        values = [tensor.data_ptr()]
        parts = ((fake.shape, tensor.shape), (fake.stride, tensor.stride()))
        for name, (open_part, actual) in zip(("extent", "stride"), parts, strict=True):
            for i, (entry, number) in enumerate(zip(open_part, actual, strict=True)):
                if isinstance(entry, int):
                    assert entry == number or tensor.shape[i] == 1, f"{name} {i}: compiled for {entry}, given {number}"
                    continue
                fields.append((f"{name}{i}", ctypes.c_int64 if entry.width == 64 else ctypes.c_int32))
                values.append(number)
        self.block = type("Block", (ctypes.Structure,), {"_fields_": fields})(*values)

    def __c_pointers__(self) -> list[int]:
        return [ctypes.addressof(self.block)]
