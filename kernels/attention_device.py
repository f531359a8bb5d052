"""Running the attention kernel on an SM100 device through cuda-python, with a replay's operands and checks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.kernels.attention_host import Operand, Problem, arguments

ARCHITECTURES = {(10, 0): "sm_100a", (10, 3): "sm_103a"}
"""Compute capability -> what the kernel is compiled for. Its tcgen05 instructions exist on no other."""


class Unavailable(LayoutError):
    """What was asked to run the kernel is not there."""


def architecture(capability: tuple[int, int]) -> str:
    """What to compile for on a device of this compute capability; refused where the kernel cannot run.

    >>> architecture((10, 3))
    'sm_103a'
    >>> architecture((9, 0))
    Traceback (most recent call last):
    layoutlab.kernels.attention_device.Unavailable: the device has compute capability 9.0, and this kernel runs on \
10.0 and 10.3 alone
    """
    if capability not in ARCHITECTURES:
        known = " and ".join(f"{major}.{minor}" for major, minor in ARCHITECTURES)
        raise Unavailable(
            f"the device has compute capability {capability[0]}.{capability[1]}, and this kernel runs on {known} alone"
        )
    return ARCHITECTURES[capability]


def cuda_driver() -> Any:
    """cuda-python's driver module."""
    try:
        from cuda.bindings import driver
    except ImportError as e:
        raise Unavailable("running on a device needs cuda-python: pip install cuda-python") from e
    return driver


def launch(compiled: Any, packed: tuple[Any, ...]) -> None:
    """Starts the compiled kernel on the current device."""
    compiled(*packed)


class Device:
    """The first CUDA device; refused with a sentence where the driver, the device or its capability is missing."""

    def __init__(self) -> None:
        self.driver = cuda_driver()
        try:
            self._call("cuInit", 0)
            self.device = self._call("cuDeviceGet", 0)
        except (Unavailable, RuntimeError) as e:
            raise Unavailable(f"there is no CUDA device here: {e}") from e
        self.architecture = architecture((self._capability("MAJOR"), self._capability("MINOR")))
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self.device))

    def _capability(self, part: str) -> int:
        attribute = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}")
        return int(self._call("cuDeviceGetAttribute", attribute, self.device))

    def run(self, compiled: Any, problem: Problem, scale: float | None, ctas: int) -> dict[str, Any]:
        """Runs twice, the first time to load the code; results come back into the problem's own arrays."""
        with self._copied(problem) as there:
            packed = arguments(there, scale, ctas)
            launch(compiled, packed)
            self._call("cuCtxSynchronize")
            started = time.perf_counter()
            launch(compiled, packed)
            self._call("cuCtxSynchronize")
            seconds = time.perf_counter() - started
        return {"instructions": None, "seconds": seconds, "warnings": []}

    @contextmanager
    def _copied(self, problem: Problem) -> Iterator[Problem]:
        """The problem with its operands on the device; what the kernel writes is copied back at the end."""
        held: dict[str, Operand] = {}
        try:
            for name, x in problem.operands.items():
                address = int(self._call("cuMemAlloc", max(x.bytes, 1)))
                held[name] = replace(x, address=address)
                if x.bytes:
                    self._call("cuMemcpyHtoD", address, x.address, x.bytes)
            yield replace(problem, **held)
            for name in ("o", "lse", "row_max"):
                if name in held:
                    x = problem.operands[name]
                    self._call("cuMemcpyDtoH", x.address, held[name].address, x.bytes)
        finally:
            for x in held.values():
                self._call("cuMemFree", x.address)

    def _call(self, name: str, *args: Any) -> Any:
        """A driver call, its error as a sentence."""
        status, *values = getattr(self.driver, name)(*args)
        if int(status):
            raise Unavailable(f"{name} failed with {status.name}")
        return values[0] if values else None
