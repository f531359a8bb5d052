"""Calls: what the compiled kernels of a script do when it calls them, run by the machine in place of a GPU.

While `intercepted` lasts, a call of what `cute.compile` returned, or of a `@cute.jit` function, reads its launch off
the compiled host code and runs the PTX on the script's own CPU tensors, with the writer of every byte remembered. Each
launch runs three times, each time on the same memory: with started work done as late as it may be, with some warps
going ahead of the others, and with started work done at once. Who wrote what is read must be the same in all; a kernel
that forgets a wait or a barrier is told by that.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from types import FrameType
from typing import Any

from layoutlab.cutedsl.capture import Launch, capture_packed
from layoutlab.errors import LayoutError
from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import Module, PtxError
from layoutlab.ptx.report import Report
from layoutlab.ptx.state import Geometry
from layoutlab.replay import register_tensors

_MOST_INSTRUCTIONS = 50_000_000
"""Of the warps that run together: a kernel that takes more has no end, or is too large for a replay."""


@dataclass
class Ran:
    """One launch: `early`, `late` and `apart` are its runs, a sentence where the machine stopped."""

    kernel: str
    module: Module
    launch: Launch
    early: Report | str
    late: Report | str
    apart: Report | str
    traced: tuple[int, int | None] = (0, None)
    """From which access of the trace to which its kernel was traced; None: it is being traced."""


@dataclass
class Calls:
    """`on_launch` is told each launch; what was compiled, what of it was called, and what could not be run."""

    on_launch: Callable[[Ran], None]
    accesses: Callable[[], int] = lambda: 0
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    arguments: list[tuple[Any, ...]] = field(default_factory=list)
    compiled: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    called: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)

    def run(self, compiled: Any, packed: list[Any], given: tuple[Any, ...]) -> int:
        """One call of a compiled function: its launches, in order."""
        memory = GlobalMemory()
        try:
            for number, argument in enumerate(given):
                _register(memory, argument, f"argument {number}")
            _register_variables(memory, sys._getframe(2))
            captured = capture_packed(compiled, packed)
        except (LayoutError, PtxError) as error:
            self.refused.append(str(error))
            return 0
        for launch in captured.launches:
            before = [buffer.words[1].copy() for buffer in memory.buffers]
            late = _one(captured.module, launch, memory, "lazy")
            _put_back(memory, before)
            apart = early = late
            if not isinstance(late, str):
                apart = _one(captured.module, launch, memory, "random")
                _put_back(memory, before)
                early = _one(captured.module, launch, memory, "eager")
            span = self.spans.get(id(compiled)) or (self.starts[-1] if self.starts else 0, None)
            self.on_launch(Ran(launch.kernel, captured.module, launch, early, late, apart, span))
        return 0

    def run_what_was_not_called(self) -> None:
        """Runs what was compiled from tensors with memory and never called, on those tensors."""
        for compiled, args, kwargs in self.compiled:
            if compiled in self.called:
                continue
            given = (*args, *kwargs.values())
            if not any(_holds_memory(a) for a in given):
                self.refused.append(
                    f"{_name(compiled)} was compiled and not called, and what it was compiled from has no memory: call "
                    "it, with CPU tensors"
                )
                continue
            try:
                packed, owners = compiled.generate_execution_args(*_of_run_time(compiled, args, kwargs))
                self.run(compiled, packed, given)
                del owners
            except Exception as error:
                self.refused.append(f"{_name(compiled)}: {type(error).__name__}: {error}".split("\n")[0])


@contextmanager
def intercepted(calls: Calls) -> Iterator[Calls]:
    """Runs in the machine what would be launched on a device."""
    from cutlass.base_dsl.compiler import CompileCallable
    from cutlass.base_dsl.dsl import BaseDSL
    from cutlass.base_dsl.jit_executor import JitCompiledFunction

    real_compile, real_call = BaseDSL.generate_mlir, JitCompiledFunction.__call__
    real_run, real_compile_alone = JitCompiledFunction.run_compiled_program, CompileCallable._compile

    def generate_mlir(self: Any, body: Any, name: Any, attributes: Any, args: Any, kwargs: Any, *rest: Any,
                      **more: Any) -> Any:  # fmt: skip
        calls.arguments.append((*args, *kwargs.values()))
        calls.starts.append(calls.accesses())
        try:
            result = real_compile(self, body, name, attributes, args, kwargs, *rest, **more)
            calls.spans[id(result)] = calls.starts[-1], calls.accesses()
            return result
        finally:
            calls.arguments.pop()
            calls.starts.pop()

    def compile_alone(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        result = real_compile_alone(self, function, *args, **kwargs)
        if isinstance(result, JitCompiledFunction):
            given = {key: value for key, value in kwargs.items() if key not in ("options", "compile_options")}
            calls.compiled.append((result, args, given))
        return result

    def call(self: Any, *args: Any, **kwargs: Any) -> int:
        calls.called.add(self)
        packed, owners = self.generate_execution_args(*args, **kwargs)
        try:
            return calls.run(self, packed, (*args, *kwargs.values()))
        finally:
            del owners

    def run_compiled_program(self: Any, packed: list[Any]) -> int:
        calls.called.add(self)
        return calls.run(self, packed, calls.arguments[-1] if calls.arguments else ())

    BaseDSL.generate_mlir, JitCompiledFunction.__call__ = generate_mlir, call
    JitCompiledFunction.run_compiled_program, CompileCallable._compile = run_compiled_program, compile_alone
    try:
        yield calls
    finally:
        BaseDSL.generate_mlir, JitCompiledFunction.__call__ = real_compile, real_call
        JitCompiledFunction.run_compiled_program, CompileCallable._compile = real_run, real_compile_alone


def _of_run_time(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a compile that the compiled function takes too: all but constants."""
    known = compiled.execution_args
    everything, wanted = known.original_signature, known.signature.parameters
    names = list(everything.parameters)
    bound = everything.bind(*([None] if names[:1] == ["self"] else []), *args, **kwargs)
    bound.apply_defaults()
    return [bound.arguments[name] for name in wanted if name != "self"]


def _put_back(memory: GlobalMemory, images: list[Any]) -> None:
    for buffer, image in zip(memory.buffers, images, strict=True):
        buffer.words[1][...] = image


def _one(module: Module, launch: Launch, memory: GlobalMemory, schedule: str) -> Report | str:
    geometry = Geometry(launch.grid, launch.block, launch.shared_bytes, launch.cluster)
    if math.prod(launch.grid) == 0:
        return "its grid is empty"
    try:
        return run_grid(
            module, module.entries[launch.kernel], geometry, list(launch.params), memory, schedule=schedule,
            provenance=True, limit=_MOST_INSTRUCTIONS,
        )  # fmt: skip
    except PtxError as error:
        return f"{type(error).__name__}: {error}"


def _register(memory: GlobalMemory, argument: Any, name: str) -> None:
    """The memory of tensors, also of those inside of dataclasses and named tuples."""
    if is_dataclass(argument) and not isinstance(argument, type) and not _is_tensor(argument):
        for entry in fields(argument):
            _register(memory, getattr(argument, entry.name, None), f"{name}.{entry.name}")
        return
    register_tensors(memory, argument, name)


def _register_variables(memory: GlobalMemory, frame: FrameType | None) -> None:
    """The arrays in the variables of the functions that call: an argument may be a bare pointer into one of them."""
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            for thing in value if isinstance(value, (list, tuple)) else [value]:
                if type(thing).__module__.split(".")[0] in ("numpy", "torch", "cutlass") and _is_tensor(thing):
                    with suppress(Exception):  # an array of another device, or one without memory
                        register_tensors(memory, thing, name)
        frame = frame.f_back


def _is_tensor(thing: Any) -> bool:
    return any(hasattr(thing, name) for name in ("data_ptr", "__dlpack__", "__array_interface__"))


def _holds_memory(argument: Any) -> bool:
    memory = GlobalMemory()
    try:
        _register(memory, argument, "")
    except Exception:
        return False
    return bool(memory.buffers)


def _name(compiled: Any) -> str:
    return str(getattr(compiled, "function_name", "a function"))
