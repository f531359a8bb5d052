"""capture: what a compiled CuTe DSL function would launch, learned without a driver.

`compiled.dump_to_object` yields the host half of a compile as an x86-64 object file. Loaded into an LLVM engine with
every CUDA entry point bound to a Python callback, it runs the real host code (tensor maps are assembled, grids are
computed) and hands each launch to `cudaLaunchKernelEx`, which here only writes it down.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from layoutlab.errors import LayoutError, install_hint
from layoutlab.ptx.parse import Function, Module, parse_module
from layoutlab.ptx.tma import TensorMap, decode_tensor_map

PREFIX = "captured"
# Answers of the CUDA attribute queries that host code makes before it sets a kernel's shared memory size.
MAX_SHARED_OPTIN_BYTES = 232448  # cudaDevAttrMaxSharedMemoryPerBlockOptin on sm_90 and sm_100
ATTRIBUTE_SHARED_OPTIN = 97
ATTRIBUTE_SM_COUNT = 16
LAUNCH_ATTRIBUTE_BYTES = 72
ATTRIBUTE_CLUSTER = 4


@dataclass(frozen=True)
class Launch:
    """One kernel launch: the function, its geometry and the bytes of every parameter."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    params: tuple[bytes, ...]
    attributes: dict[int, bytes] = field(default_factory=dict)

    @property
    def tensor_maps(self) -> dict[int, TensorMap]:
        """The parameters that are tensor maps, decoded, by parameter number."""
        maps = {}
        for number, data in enumerate(self.params):
            if len(data) == 128:
                decoded = decode_tensor_map(data)
                if decoded is not None:
                    maps[number] = decoded
        return maps


@dataclass(frozen=True)
class Captured:
    """The parsed PTX of a compile and the launches that one call of it makes, in order."""

    module: Module
    launches: tuple[Launch, ...]


def ptx_of(compiled: Any) -> str:
    """The PTX text that a compile kept; a compile that kept none is refused with the way to keep it."""
    text = getattr(getattr(compiled, "artifacts", None), "PTX", None)
    if not text:
        raise LayoutError(
            "this compiled function did not keep its PTX: set CUTE_DSL_KEEP=ptx (and CUTE_DSL_DUMP_DIR to an existing "
            "folder) before importing cutlass, or compile with cute.compile[cute.KeepPTX()]"
        )
    return str(text)


def capture(compiled: Any, *args: Any, **kwargs: Any) -> Captured:
    """Run the host code of a compiled function with these arguments and write down its launches.

    The arguments are those that calling `compiled` would take; their memory is neither read nor written here. Raises
    `LayoutError` when the PTX was not kept or when the host code reports an error.
    """
    ptx_of(compiled)  # what is missing is said before anything is packed
    # The second part owns the memory that the packed pointers lead to: it must live until the call has returned.
    try:
        packed, owners = compiled.generate_execution_args(*args, **kwargs)
    except Exception as error:
        raise LayoutError(f"the compiled function does not take these arguments: {error}") from error
    captured = capture_packed(compiled, packed)
    del owners
    return captured


def capture_packed(compiled: Any, packed: list[Any]) -> Captured:
    """`capture` with arguments that are packed already, as `compiled.generate_execution_args` packs them."""
    module = parse_module(ptx_of(compiled))
    recorder = _Recorder(module)
    _run_host_code(compiled, packed, recorder)
    if not recorder.launches:
        raise LayoutError("the host code returned without a launch: nothing to replay")
    return Captured(module, tuple(recorder.launches))


class _Recorder:
    """The CUDA runtime as the host code sees it: handles are numbers, launches are written down."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.kernel_names: dict[int, str] = {}
        self.launches: list[Launch] = []
        self.error: Exception | None = None

    def kernel_of_library(self, kernel: int, _library: int, name: int) -> int:
        handle = len(self.kernel_names) + 1
        self.kernel_names[handle] = ctypes.string_at(name).decode()
        ctypes.c_uint64.from_address(kernel).value = handle
        return 0

    def get_device(self, device: int) -> int:
        ctypes.c_int32.from_address(device).value = 0
        return 0

    def get_attribute(self, value: int, attribute: int) -> int:
        known = {ATTRIBUTE_SHARED_OPTIN: MAX_SHARED_OPTIN_BYTES, ATTRIBUTE_SM_COUNT: 1}
        ctypes.c_int32.from_address(value).value = known.get(attribute & 0xFFFFFFFF, 0)
        return 0

    def kernel_get_attribute(self, value: int) -> int:
        ctypes.c_int32.from_address(value).value = 0
        return 0

    def launch(self, config: int, kernel: int, args: int) -> int:
        try:
            self.launches.append(self._read_launch(config, kernel, args))
        except Exception as error:  # an exception cannot pass through the host code's frames
            self.error = self.error or error
            return 1
        return 0

    def _read_launch(self, config: int, kernel: int, args: int) -> Launch:
        raw = ctypes.string_at(config, 56)
        grid, block = struct.unpack_from("<3I", raw, 0), struct.unpack_from("<3I", raw, 12)
        shared, _stream, attributes_at, count = struct.unpack_from("<QQQI", raw, 24)
        attributes = {}
        for i in range(count):
            entry = ctypes.string_at(attributes_at + LAUNCH_ATTRIBUTE_BYTES * i, LAUNCH_ATTRIBUTE_BYTES)
            attributes[struct.unpack_from("<I", entry)[0]] = entry[8:]
        cluster = struct.unpack_from("<3I", attributes[ATTRIBUTE_CLUSTER]) if ATTRIBUTE_CLUSTER in attributes else ()
        function = self._function(kernel)
        pointers = (ctypes.c_uint64 * len(function.params)).from_address(args) if function.params else ()
        params = tuple(ctypes.string_at(p, v.size) for p, v in zip(pointers, function.params, strict=True))
        return Launch(function.name, grid, block, cluster or (1, 1, 1), shared, params, attributes)

    def _function(self, kernel: int) -> Function:
        entries = self.module.entries
        name = self.kernel_names.get(kernel)
        if name is None and len(entries) == 1:
            return next(iter(entries.values()))
        if name is None or name not in entries:
            raise LayoutError(f"the host code launches {name or 'an unknown kernel'}, which the PTX does not hold")
        return entries[name]


_INT, _PTR = ctypes.c_int, ctypes.c_uint64


def _callbacks(recorder: _Recorder) -> dict[str, Any]:
    """The runtime entry points whose arguments matter, by symbol; every other one answers 0."""

    def bind(function: Callable[..., int], *types: Any) -> Any:
        return ctypes.CFUNCTYPE(_INT, *types)(function)

    return {
        "_cudaLibraryGetKernel": bind(recorder.kernel_of_library, _PTR, _PTR, _PTR),
        "_cudaGetDevice": bind(recorder.get_device, _PTR),
        "_cudaDeviceGetAttribute": bind(recorder.get_attribute, _PTR, _PTR),
        "_cuKernelGetAttribute": bind(recorder.kernel_get_attribute, _PTR),
        "_cudaLaunchKernelEx": bind(recorder.launch, _PTR, _PTR, _PTR),
        "_cudaLaunchKernelExC": bind(recorder.launch, _PTR, _PTR, _PTR),
    }


def _run_host_code(compiled: Any, packed: list[Any], recorder: _Recorder) -> None:
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise LayoutError(install_hint("llvmlite")) from error
    image = _object_of(compiled)
    symbols = elf_symbols(image)
    callbacks = _callbacks(recorder)
    answer_zero = ctypes.CFUNCTYPE(_INT)(lambda: 0)
    for name in symbols.undefined:
        if name.startswith(("_cuda", "_cu")):
            llvm.add_symbol(name, ctypes.cast(callbacks.get(name, answer_zero), ctypes.c_void_p).value)
    engine = _engine(llvm)
    engine.add_object_file(llvm.ObjectFileRef.from_data(image))
    engine.finalize_object()
    load = f"_mlir_{PREFIX}_cuda_load"
    if load in symbols.defined:
        library = ctypes.c_uint64(1)
        _call(engine.get_function_address(load), [ctypes.pointer(ctypes.c_uint64(ctypes.addressof(library)))])
    entry = next((s for s in symbols.defined if s.startswith(f"_mlir_{PREFIX}__mlir_ciface_")), None)
    if entry is None:
        raise LayoutError("the compiled object holds no host entry point: it was not compiled as a @cute.jit function")
    status = _call(engine.get_function_address(entry), packed)
    if recorder.error is not None:
        raise recorder.error
    if status:
        raise LayoutError(f"the host code stopped with CUDA error {status} before its launch")


_OBJECTS: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


def _object_of(compiled: Any) -> bytes:
    """The host code as an object file, kept as long as the compiled function lives."""
    try:
        if compiled not in _OBJECTS:
            _OBJECTS[compiled] = _dumped(compiled)
        return _OBJECTS[compiled]
    except TypeError:  # not to be referred to weakly
        return _dumped(compiled)


def _dumped(compiled: Any) -> bytes:
    try:
        return bytes(compiled.dump_to_object(PREFIX))
    except Exception as error:
        raise LayoutError(
            "this compiled function gives no object file of its host code, as CuTe DSL's do that are compiled for "
            "another architecture than its own: set CUTE_DSL_ARCH to that of the compile (CUTE_DSL_ARCH=sm_90a) before "
            "importing cutlass"
        ) from error


def _call(address: int, packed: list[Any]) -> int:
    """Call a packed-argument function: an array of argument pointers, the last for the int32 result."""
    status = ctypes.c_int32(0)
    pointers = [ctypes.cast(p, ctypes.c_void_p).value or 0 if not isinstance(p, int) else p for p in packed]
    array = (ctypes.c_uint64 * (len(pointers) + 1))(*pointers, ctypes.addressof(status))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(array))
    return status.value


def _engine(llvm: Any) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


@dataclass(frozen=True)
class ElfSymbols:
    """The named global symbols of an object file, those it defines and those it needs."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


def elf_symbols(image: bytes) -> ElfSymbols:
    """Read the symbol table of a 64-bit little-endian ELF object (ELF-64 object file format, chapter 5)."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise LayoutError(
            "launch capture reads 64-bit little-endian ELF objects: this host's object is of another form"
        )
    table_at = struct.unpack_from("<Q", image, 40)[0]
    entry_size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table_at + entry_size * i) for i in range(count)]
    defined: list[str] = []
    undefined: list[str] = []
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, 24):
            name_at, _info, _other, section = struct.unpack_from("<IBBH", image, at)
            if name_at:
                start = strings + name_at
                name = image[start : image.index(b"\0", start)].decode()
                (undefined if section == 0 else defined).append(name)
    return ElfSymbols(tuple(defined), tuple(undefined))
