"""replay: run what `cute.compile` returned on CPU tensors, instruction by instruction."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from layoutlab.cutedsl.capture import Launch, capture, ptx_of
from layoutlab.errors import LayoutError
from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parallel import run_in_processes
from layoutlab.ptx.progress import Bar
from layoutlab.ptx.report import Report
from layoutlab.ptx.state import Geometry


def replay(
    compiled: Any,
    *args: Any,
    schedule: str = "eager",
    seed: int = 0,
    provenance: bool = False,
    buffers: Iterable[Any] = (),
    options: Iterable[str] = (),
    wave_ctas: int | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run a compiled CuTe DSL function on CPU tensors, in place, and report instructions, seconds and warnings.

    `args` are what calling `compiled` would take: numpy arrays, torch CPU tensors, whatever has `__dlpack__`, and the
    runtime tensors that `from_dlpack` makes of them. `schedule` times asynchronous work: "eager", "lazy" or "random"
    (from `seed`). `provenance=True` remembers who wrote each byte. `buffers` names further tensors that pointers lead
    to. `jobs` processes share the CTAs; `joblib.parallel_config(backend="dask")` around the call spreads them over a
    cluster whose machines share a folder for temporary files (TMPDIR). `options` are "strict tcgen05.ld", which reports
    registers used between a tcgen05.ld and its wait, as the ISA has it, and "tmem lane 0", which lets every warp
    address its own lanes as lane 0 and up. The compile must have kept its PTX (CUTE_DSL_KEEP=ptx). Raises `LayoutError`
    when the launch cannot be captured and `layoutlab.ptx.parse.PtxError` at the PTX line that the machine does not know
    or that goes wrong.
    """
    _check_arguments(compiled, args)
    options = _checked_options(options, jobs, wave_ctas)
    memory = GlobalMemory()
    for number, argument in enumerate([*args, *buffers]):
        register_tensors(memory, argument, f"argument {number}")
    captured = capture(compiled, *(_as_runtime_tensor(a, f"argument {n}") for n, a in enumerate(args)))
    report: Report | None = None
    for launch in captured.launches:
        function, geometry = captured.module.entries[launch.kernel], _geometry(launch)
        bar = progress or Bar(math.prod(launch.grid))
        settings: dict[str, Any] = {
            "schedule": schedule, "seed": seed, "provenance": provenance, "options": options,
            "wave_ctas": wave_ctas, "progress": bar,
        }  # fmt: skip
        where = (captured.module, function, geometry, list(launch.params), memory)
        one = run_grid(*where, **settings) if jobs == 1 else run_in_processes(*where, jobs, **settings)
        report = one if report is None else report.then(one)
    assert report is not None
    return report


OPTIONS = frozenset({"strict tcgen05.ld", "tmem lane 0"})


def _checked_options(options: Iterable[str], jobs: int, wave_ctas: int | None) -> frozenset[str]:
    """The options as a set, refused when one is unknown; so are counts that are none."""
    chosen = frozenset([options] if isinstance(options, str) else options)
    if unknown := chosen - OPTIONS:
        raise LayoutError(f"options {sorted(unknown)}: replay knows {', '.join(sorted(OPTIONS))}")
    for name, value in (("jobs", jobs), ("wave_ctas", 1 if wave_ctas is None else wave_ctas)):
        if not isinstance(value, int) or (value < 1 and not (name == "jobs" and value < 0)):
            raise LayoutError(f"{name}={value!r}: a count of at least 1 is wanted")
    return chosen


def _check_arguments(compiled: Any, args: tuple[Any, ...]) -> None:
    """Refuse arguments that the host code would take for others: it reads their memory without a look at them."""
    ptx_of(compiled)
    execution = getattr(compiled, "execution_args", None)
    signature = getattr(execution, "signature", None)
    if signature is None:
        return
    try:
        bound = signature.bind(*args).arguments
    except TypeError as error:
        names = ", ".join(signature.parameters) or "no arguments"
        raise LayoutError(f"the compiled function takes {names}, replay was given {len(args)}: {error}") from None
    without = getattr(execution, "_compiled_with_none", [])
    for number, (name, value) in enumerate(bound.items()):
        annotation = signature.parameters[name].annotation
        if (
            getattr(annotation, "__name__", str(annotation)).split(".")[-1] != "Tensor"
            or tensor_extent(value) is not None
        ):
            continue
        if value is not None or (number < len(without) and without[number] is False):
            raise LayoutError(
                f"argument {number}, {name}, is a {type(value).__name__} where the compiled function takes a tensor: "
                "a numpy array, a torch CPU tensor or what has __dlpack__ is wanted"
            )


def _as_runtime_tensor(argument: Any, name: str) -> Any:
    """What has `__dlpack__` as the runtime tensor that compiled code takes; torch's, and everything else, as it is."""
    known = hasattr(argument, "__c_pointers__") or hasattr(argument, "data_ptr")
    if known or not hasattr(argument, "__dlpack__"):
        return argument
    from cutlass.cute.runtime import from_dlpack

    try:
        return from_dlpack(argument)
    except (BufferError, TypeError, ValueError) as error:
        if isinstance(argument, np.ndarray) and not argument.flags.writeable:
            raise LayoutError(f"{name} is a read-only array, and replay runs in place: pass a copy") from None
        kind = f"{type(argument).__name__} of {getattr(argument, 'dtype', 'unknown type')}"
        raise LayoutError(f"{name}, {kind}, has no form that a kernel takes: {error}") from None


def _geometry(launch: Launch) -> Geometry:
    return Geometry(launch.grid, launch.block, launch.shared_bytes, launch.cluster)


def register_tensors(memory: GlobalMemory, argument: Any, name: str) -> None:
    """Register the memory of every tensor inside an argument; numbers and other values hold none."""
    if isinstance(argument, (list, tuple)):
        for i, item in enumerate(argument):
            register_tensors(memory, item, f"{name}[{i}]")
        return
    if isinstance(argument, dict):
        for key, item in argument.items():
            register_tensors(memory, item, f"{name}[{key!r}]")
        return
    extent = tensor_extent(argument)
    if extent is not None:
        memory.register(name, extent[0], extent[1], argument)


_HOST_DEVICES = (1, 3)  # DLPack's CPU, and the CPU's memory that is pinned for CUDA


def tensor_extent(argument: Any) -> tuple[int, int] | None:
    """The (address, bytes) that a tensor spans; None for what is no tensor. A device tensor is refused."""
    if isinstance(argument, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(argument)
        return low, high - low
    if hasattr(argument, "data_ptr") and hasattr(argument, "element_size"):  # torch
        if getattr(getattr(argument, "device", None), "type", "cpu") != "cpu":
            raise LayoutError(f"replay runs on CPU tensors, given one on {argument.device}")
        span = 1 + sum((n - 1) * s for n, s in zip(argument.shape, argument.stride(), strict=True))
        return int(argument.data_ptr()), span * int(argument.element_size())
    runtime = _runtime_extent(argument)
    if runtime is not None:
        return runtime
    if hasattr(argument, "__dlpack__"):
        if hasattr(argument, "__dlpack_device__") and int(argument.__dlpack_device__()[0]) not in _HOST_DEVICES:
            raise LayoutError("replay runs on CPU tensors, given one of another device: pass a copy on the CPU")
        return tensor_extent(np.from_dlpack(argument))
    return None


def _runtime_extent(argument: Any) -> tuple[int, int] | None:
    """The span of a CuTe DSL runtime tensor (what `from_dlpack` returns)."""
    if not (hasattr(argument, "data_ptr") and hasattr(argument, "element_type") and hasattr(argument, "shape")):
        return None
    pointer = argument.data_ptr
    address = int(pointer() if callable(pointer) else pointer)
    shape, stride = _flat(argument.shape), _flat(argument.stride)
    bits = 1 + sum((int(n) - 1) * int(s) for n, s in zip(shape, stride, strict=True))
    return address, (bits * int(argument.element_type.width) + 7) // 8


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]


class _CallableModule(types.ModuleType):
    """`layoutlab.replay` is the function to its callers, and the module that holds it to the import system."""

    def __call__(self, *args: Any, **options: Any) -> Report:
        return replay(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
