"""Running the attention kernel on an SM100 device through cuda-python, with a replay's operands and checks.

The launch is captured as a replay captures it, with the operands' addresses on the device: the kernel's cubin, the
bytes of its parameters, tensor maps among them, and its geometry. The driver is given exactly that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import layoutlab.device
from layoutlab.cutedsl.capture import capture
from layoutlab.device import Unavailable
from layoutlab.device.bundle import cubin_of, meaningful
from layoutlab.errors import LayoutError
from layoutlab.kernels.attention_host import Operand, Problem, arguments

ARCHITECTURES = {(10, 0): "sm_100a", (10, 3): "sm_103a"}
"""Compute capability -> what the kernel is compiled for. Its tcgen05 instructions exist on no other."""


def architecture(capability: tuple[int, int]) -> str:
    """What to compile for on a device of this compute capability; refused where the kernel cannot run.

    >>> architecture((10, 3))
    'sm_103a'
    >>> architecture((9, 0))
    Traceback (most recent call last):
    layoutlab.device.runner.Unavailable: the device has compute capability 9.0, and this kernel runs on \
10.0 and 10.3 alone
    """
    if capability not in ARCHITECTURES:
        known = " and ".join(f"{major}.{minor}" for major, minor in ARCHITECTURES)
        raise Unavailable(
            f"the device has compute capability {capability[0]}.{capability[1]}, and this kernel runs on {known} alone"
        )
    return ARCHITECTURES[capability]


class Device(layoutlab.device.Device):
    """The first CUDA device; refused with a sentence where the driver, the device or its capability is missing."""

    def __init__(self, driver: Any = None) -> None:
        super().__init__(driver)
        self.architecture = architecture(self.capability)
        self.open()

    def run(self, compiled: Any, problem: Problem, scale: float | None, ctas: int) -> dict[str, Any]:
        """Runs twice, the first time to load the code; results come back into the problem's own arrays."""
        with self._copied(problem) as there:
            start = self.prepared(compiled, arguments(there, scale, ctas))
            start()
            self.wait()
            started = time.perf_counter()
            start()
            self.wait()
            seconds = time.perf_counter() - started
        return {"instructions": None, "seconds": seconds, "warnings": []}

    def prepared(self, compiled: Any, packed: tuple[Any, ...]) -> Callable[[], None]:
        """The one launch that a call with these arguments makes, loaded: starts it each time it is called."""
        launches = capture(compiled, *packed).launches
        if len(launches) != 1:
            raise LayoutError(f"the function makes {len(launches)} launches, and this runs one")
        (launch,) = launches
        function = self.load(cubin_of(compiled), launch.kernel, launch.shared_bytes)
        described = {
            "grid": launch.grid,
            "block": launch.block,
            "shared_bytes": launch.shared_bytes,
            "attributes": meaningful(launch.attributes),
        }
        return lambda: self.launch(function, described, list(launch.params))

    @contextmanager
    def _copied(self, problem: Problem) -> Iterator[Problem]:
        """The problem with its operands on the device; what the kernel writes is copied back at the end."""
        held: dict[str, Operand] = {}
        try:
            for name, x in problem.operands.items():
                address = self.allocate(x.bytes)
                held[name] = replace(x, address=address)
                if x.bytes:
                    self.call("cuMemcpyHtoD", address, x.address, x.bytes)
            yield replace(problem, **held)
            for name in ("o", "lse", "row_max"):
                if name in held:
                    x = problem.operands[name]
                    self.call("cuMemcpyDtoH", x.address, held[name].address, x.bytes)
        finally:
            for x in held.values():
                self.free(x.address)
