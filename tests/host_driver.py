"""HostDriver: a CUDA driver whose device memory is host memory, and whose launches are replays of a bundle's PTX."""

from __future__ import annotations

import ctypes
import enum
import struct

import numpy as np

from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import parse_module
from layoutlab.ptx.state import Geometry


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_LAUNCH_FAILED = 719


class Bag:
    """An object of attributes."""


class HostDriver:
    """What `layoutlab.device.runner` calls, by the names of cuda.bindings.driver.

    `ptx` by cubin is what a launch replays; `failing` is the call that fails, or several, with `error`. `calls` counts
    all calls, `held` is the memory not given back, `shared_bytes` what kernels were allowed of shared memory.
    """

    class CUdevice_attribute:
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 0
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 1

    class CUfunction_attribute:
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    def __init__(self, capability=(9, 0), failing=None, error=CUresult.CUDA_ERROR_NO_DEVICE, ptx=None):
        self.capability, self.failing, self.error, self.ptx = capability, failing, error, ptx or {}
        self.held, self.calls, self.attributes, self.shared_bytes = {}, [], [], []

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            if name in (self.failing if isinstance(self.failing, tuple) else (self.failing,)):
                return (self.error,)
            return CUresult.CUDA_SUCCESS, getattr(type(self), f"do_{name}", lambda *_: 0)(self, *args)

        return call

    def CUlaunchConfig(self):
        return Bag()

    def CUlaunchAttribute(self):
        attribute = Bag()
        attribute.value = Bag()
        attribute.value.clusterDim = Bag()
        return attribute

    def CUlaunchAttributeID(self, kind):
        return kind

    def do_cuDeviceGetAttribute(self, attribute, _device):
        return self.capability[attribute]

    def do_cuDeviceGetName(self, size, _device):
        return b"a replay" + bytes(size - 8)

    def do_cuMemAlloc(self, size):
        memory = np.full(size + 256, 0xFF, np.uint8)
        address = -(-memory.ctypes.data // 256) * 256
        self.held[address] = memory
        return address

    def do_cuMemcpyHtoD(self, to, source, size):
        ctypes.memmove(to, source, size)

    def do_cuMemcpyDtoH(self, to, source, size):
        ctypes.memmove(to, source, size)

    def do_cuMemFree(self, address):
        del self.held[address]

    def do_cuFuncSetAttribute(self, _function, attribute, value):
        assert attribute == self.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.shared_bytes.append(value)

    def do_cuModuleLoadData(self, image):
        return self.ptx[image]

    def do_cuModuleGetFunction(self, ptx, name):
        module = parse_module(ptx)
        return module, module.entries[name.decode()]

    def do_cuEventElapsedTime(self, _first, _last):
        return 1.5

    def do_cuLaunchKernelEx(self, config, function, pointers, _extra):
        module, entry = function
        self.attributes.append(config.attrs)
        addresses = struct.unpack(f"{len(entry.params)}Q", ctypes.string_at(pointers, 8 * len(entry.params)))
        params = [ctypes.string_at(p, v.size) for p, v in zip(addresses, entry.params, strict=True)]
        memory = GlobalMemory()
        for i, (address, array) in enumerate(self.held.items()):
            memory.register(f"tensor {i}", address, array.size - 256, array)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        run_grid(module, entry, Geometry(grid, block, config.sharedMemBytes, (1, 1, 1)), params, memory)
