"""Pasted code in small kernels: the very text that `layoutlab derive` prints, compiled and replayed.

A kernel hands each thread its values, which are tags, lets the pasted function store them, and shows the memory that it
left. Nothing here knows a layout: where a tag was found is held against the reader's map by the tests.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.nvgpu import tcgen05
from cutlass.cute.runtime import make_ptr
from cutlass.memory import SmemAllocator

from layoutlab.cutedsl.capture import capture
from layoutlab.replay import replay

TAGS = {8: np.uint8, 16: np.uint16, 32: np.uint32}
DTYPES = {8: cutlass.Float8E4M3FN, 16: cutlass.BFloat16, 32: cutlass.Float32}
EMPTY = 0xFFFFFFFF
COUNT = iter(range(1 << 20))


def module_of(text: str, folder: Path) -> ModuleType:
    """The printed text as a module."""
    name = f"pasted_{next(COUNT)}"
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def aligned(count: int, kind: Any) -> Any:
    size = count * np.dtype(kind).itemsize
    buffer = np.zeros(size + 1024, np.uint8)
    start = -buffer.ctypes.data % 1024
    return buffer[start : start + size].view(kind)


def pointer(array: Any, kind: Any) -> Any:
    address = array if isinstance(array, int) else array.ctypes.data
    return make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=16)


def compiled(kernel: Any, *args: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return cute.compile(kernel, *args, options=f"--gpu-arch=sm_100a --keep-ptx --dump-dir={folder}")


@dataclass
class Shared:
    """Threads hold `values` tags each and store them by the pasted function to `base` of a buffer of shared memory."""

    store: Any
    threads: int
    values: int
    words: int
    base: int
    dtype: Any

    @cute.jit
    def __call__(self, pR: cute.Pointer, pImage: cute.Pointer):
        mR = cute.make_tensor(pR, cute.make_layout((self.threads, self.values), stride=(self.values, 1)))
        mImage = cute.make_tensor(pImage, cute.make_layout(self.words))
        self.kernel(mR, mImage).launch(grid=(1, 1, 1), block=(self.threads, 1, 1))

    @cute.kernel
    def kernel(self, mR: cute.Tensor, mImage: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        buffer = SmemAllocator().allocate(4 * self.words, 1024)
        sImage = cute.make_tensor(cute.recast_ptr(buffer, dtype=cutlass.Uint32), mImage.layout)
        for i in range(tidx, self.words, self.threads, unroll=1):
            sImage[i] = cutlass.Uint32(EMPTY)
        cute.arch.sync_threads()
        rP = cute.make_rmem_tensor(cute.make_layout(self.values), self.dtype)
        for v in cutlass.range_constexpr(self.values):
            rP[v] = mR[tidx, v]
        self.store(rP, buffer + self.base, tidx)
        cute.arch.sync_threads()
        for i in range(tidx, self.words, self.threads, unroll=1):
            mImage[i] = sImage[i]


def shared_image(store: Any, tags: Any, bits: int, size: int, base: int) -> tuple[Any, set[str]]:
    """The buffer's bytes after the store, as tags, and the PTX instructions that stored to shared memory."""
    threads, values = tags.shape
    words = -(-(size + base) // 4)
    held, image = aligned(tags.size, TAGS[bits]), aligned(words, np.uint32)
    held[:] = tags.reshape(-1)
    kernel = Shared(store, threads, values, words, base, DTYPES[bits])
    made = compiled(kernel, pointer(0, DTYPES[bits]), pointer(0, cutlass.Uint32))
    replay(made, pointer(held, DTYPES[bits]), pointer(image, cutlass.Uint32), buffers=[held, image])
    opcodes = set(re.findall(r"st\.shared\.\S+|stmatrix\.\S+", made.artifacts.PTX))
    return image.view(TAGS[bits]), opcodes


@dataclass
class Tensor:
    """Threads store words to Tensor Memory by the pasted function; 32x32b loads show each lane's columns."""

    store: Any
    values: int
    columns: int
    dtype: Any

    @cute.jit
    def __call__(self, pR: cute.Pointer, pImage: cute.Pointer):
        mR = cute.make_tensor(pR, cute.make_layout((128, self.values), stride=(self.values, 1)))
        mImage = cute.make_tensor(
            pImage, cute.make_layout(((128, self.columns), 1, 1), stride=((self.columns, 1), 0, 0))
        )
        self.kernel(mR, mImage).launch(grid=(1, 1, 1), block=(128, 1, 1))

    @cute.kernel
    def kernel(self, mR: cute.Tensor, mImage: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        holder = SmemAllocator().allocate(cutlass.Int32, 8)
        if warp == 0:
            cute.arch.alloc_tmem(512, holder)
        cute.arch.sync_threads()
        tmem = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, holder)
        rP = cute.make_rmem_tensor(cute.make_layout(self.values), self.dtype)
        for v in cutlass.range_constexpr(self.values):
            rP[v] = mR[tidx, v]
        self.store(rP, tmem, tidx)
        cute.arch.sync_threads()
        tAll = cute.make_tensor(tmem, cute.make_layout(((128, self.columns), 1, 1), stride=((65536, 1), 0, 0)))
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32)
        thread_load = tcgen05.make_tmem_copy(atom, tAll).get_slice(tidx)
        tLDt, tLDg = thread_load.partition_S(tAll), thread_load.partition_D(mImage)
        for i in cutlass.range_constexpr(cute.size(tLDt, mode=[1])):
            words = cute.make_rmem_tensor(tLDg[None, i, None, None].shape, cutlass.Float32)
            cute.copy(atom, tLDt[None, i, None, None], words)
            cute.arch.fence_view_async_tmem_load()
            cute.autovec_copy(words, tLDg[None, i, None, None])
        cute.arch.sync_threads()
        if warp == 0:
            cute.arch.relinquish_tmem_alloc_permit()
            cute.arch.dealloc_tmem(tmem, 512)


def tensor_image(store: Any, tags: Any, bits: int, columns: int = 512) -> Any:
    """[lane, element of the lane] after the store, as tags."""
    held, image = aligned(tags.size, TAGS[bits]), aligned(128 * columns, np.uint32)
    held[:] = tags.reshape(-1)
    kernel = Tensor(store, tags.shape[1], columns, DTYPES[bits])
    made = compiled(kernel, pointer(0, DTYPES[bits]), pointer(0, cutlass.Float32))
    replay(made, pointer(held, DTYPES[bits]), pointer(image, cutlass.Float32), buffers=[held, image])
    return image.view(TAGS[bits]).reshape(128, -1)


@dataclass
class Loaded:
    """TMA brings a tensor to shared memory by the pasted functions."""

    make_load: Any
    load: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    words: int
    base: int
    dtype: Any

    @cute.jit
    def __call__(self, pX: cute.Pointer, pImage: cute.Pointer):
        mX = cute.make_tensor(pX, cute.make_layout(self.shape, stride=self.stride))
        mImage = cute.make_tensor(pImage, cute.make_layout(self.words))
        load, tma_mX = self.make_load(mX)
        self.kernel(load, tma_mX, mImage).launch(grid=(1, 1, 1), block=(128, 1, 1))

    @cute.kernel
    def kernel(self, load: cute.CopyAtom, tma_mX: cute.Tensor, mImage: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = SmemAllocator()
        buffer = smem.allocate(4 * self.words, 1024)
        full = smem.allocate(cutlass.Int64, 8)
        sImage = cute.make_tensor(cute.recast_ptr(buffer, dtype=cutlass.Uint32), mImage.layout)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        if warp == 0:
            self.load(load, tma_mX, buffer + self.base, full, self.dtype)
        cute.arch.mbarrier_wait(full, 0)
        for i in range(tidx, self.words, 128, unroll=1):
            mImage[i] = sImage[i]


def loaded_image(pasted: ModuleType, name: str, tags: Any, inner: int, bits: int, size: int, base: int) -> Any:
    """The buffer after the load of `tags`, whose axis `inner` is contiguous in global memory; and its tensor map."""
    shape = tags.shape
    order = [i for i in range(tags.ndim) if i != inner] + [inner]
    flat = np.ascontiguousarray(tags.transpose(order))
    stride, weight = [0] * tags.ndim, 1
    for axis in reversed(order):
        stride[axis], weight = weight, weight * shape[axis]
    words = -(-(size + base) // 4)
    source, image = aligned(flat.size, TAGS[bits]), aligned(words, np.uint32)
    source[:] = flat.reshape(-1)
    kernel = Loaded(
        getattr(pasted, f"make_load_of_{name}"), getattr(pasted, f"load_{name}"), shape, tuple(stride), words, base,
        DTYPES[bits],
    )  # fmt: skip
    made = compiled(kernel, pointer(0, DTYPES[bits]), pointer(0, cutlass.Uint32))
    arguments = pointer(source, DTYPES[bits]), pointer(image, cutlass.Uint32)
    (launch,) = capture(made, *arguments).launches
    replay(made, *arguments, buffers=[source, image])
    return image.view(TAGS[bits]), next(iter(launch.tensor_maps.values()))


@dataclass
class Sent:
    """TMA takes shared memory's image to a tensor in global memory by the pasted functions."""

    make_store: Any
    send: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    words: int
    base: int
    dtype: Any

    @cute.jit
    def __call__(self, pX: cute.Pointer, pImage: cute.Pointer):
        mX = cute.make_tensor(pX, cute.make_layout(self.shape, stride=self.stride))
        mImage = cute.make_tensor(pImage, cute.make_layout(self.words))
        store, tma_mX = self.make_store(mX)
        self.kernel(store, tma_mX, mImage).launch(grid=(1, 1, 1), block=(128, 1, 1))

    @cute.kernel
    def kernel(self, store: cute.CopyAtom, tma_mX: cute.Tensor, mImage: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        buffer = SmemAllocator().allocate(4 * self.words, 1024)
        sImage = cute.make_tensor(cute.recast_ptr(buffer, dtype=cutlass.Uint32), mImage.layout)
        for i in range(tidx, self.words, 128, unroll=1):
            sImage[i] = mImage[i]
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()
        if warp == 0:
            self.send(store, tma_mX, buffer + self.base, self.dtype)
            cute.arch.cp_async_bulk_wait_group(0)


def sent_tensor(pasted: ModuleType, name: str, image: Any, shape: Any, inner: int, bits: int, base: int) -> Any:
    """The tensor in global memory, axis `inner` contiguous, after the store of shared memory's `image` of tags."""
    order = [i for i in range(len(shape)) if i != inner] + [inner]
    stride, weight = [0] * len(shape), 1
    for axis in reversed(order):
        stride[axis], weight = weight, weight * shape[axis]
    held, tensor = aligned(-(-image.nbytes // 4), np.uint32), aligned(weight, TAGS[bits])
    held.view(TAGS[bits])[: image.size] = image
    kernel = Sent(
        getattr(pasted, f"make_store_of_{name}"), getattr(pasted, f"send_{name}"), tuple(shape), tuple(stride),
        held.size, base, DTYPES[bits],
    )  # fmt: skip
    made = compiled(kernel, pointer(0, DTYPES[bits]), pointer(0, cutlass.Uint32))
    replay(made, pointer(tensor, DTYPES[bits]), pointer(held, cutlass.Uint32), buffers=[tensor, held])
    found = tensor.reshape([shape[i] for i in order])
    return found.transpose(np.argsort(order))


@dataclass
class Fetched:
    """Threads fill their registers from shared memory's image by the pasted function and show them."""

    load: Any
    threads: int
    values: int
    words: int
    base: int
    dtype: Any

    @cute.jit
    def __call__(self, pR: cute.Pointer, pImage: cute.Pointer):
        mR = cute.make_tensor(pR, cute.make_layout((self.threads, self.values), stride=(self.values, 1)))
        mImage = cute.make_tensor(pImage, cute.make_layout(self.words))
        self.kernel(mR, mImage).launch(grid=(1, 1, 1), block=(self.threads, 1, 1))

    @cute.kernel
    def kernel(self, mR: cute.Tensor, mImage: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        buffer = SmemAllocator().allocate(4 * self.words, 1024)
        sImage = cute.make_tensor(cute.recast_ptr(buffer, dtype=cutlass.Uint32), mImage.layout)
        for i in range(tidx, self.words, self.threads, unroll=1):
            sImage[i] = mImage[i]
        cute.arch.sync_threads()
        rA = cute.make_rmem_tensor(cute.make_layout(self.values), self.dtype)
        self.load(rA, buffer + self.base, tidx)
        for v in cutlass.range_constexpr(self.values):
            mR[tidx, v] = rA[v]


def fetched_registers(load: Any, image: Any, threads: int, values: int, bits: int, base: int) -> tuple[Any, set[str]]:
    """[thread, value] after the load of shared memory's `image` of tags, and the PTX instructions that loaded."""
    held, registers = aligned(-(-image.nbytes // 4), np.uint32), aligned(threads * values, TAGS[bits])
    held.view(TAGS[bits])[: image.size] = image
    kernel = Fetched(load, threads, values, held.size, base, DTYPES[bits])
    made = compiled(kernel, pointer(0, DTYPES[bits]), pointer(0, cutlass.Uint32))
    replay(made, pointer(registers, DTYPES[bits]), pointer(held, cutlass.Uint32), buffers=[registers, held])
    return registers.reshape(threads, values), set(re.findall(r"ldmatrix\.\S+", made.artifacts.PTX))


def compiled_p(settings: Any, store: Any, operand: Any, operand_v: Any) -> Any:
    """The P handoff kernel, its store and its operands' tensors being pasted ones."""
    from layoutlab.kernels import p_handoff

    class Pasted(p_handoff.PHandoff):
        @cute.jit
        def store_by_coordinate(self, rP: cute.Tensor, tTMEM_LOADcS: cute.Tensor, sP_write: cute.Tensor):
            tidx, _, _ = cute.arch.thread_idx()
            store(rP, sP_write.iterator, tidx)

        @cute.jit
        def multiply(self, pv_mma: cute.TiledMma, sP: cute.Tensor, sV: cute.Tensor, tOtO: cute.Tensor):
            tOrP = pv_mma.make_fragment_A(operand(sP.iterator, self.dtype))
            tOrV = pv_mma.make_fragment_B(operand_v(sV.iterator, self.dtype))
            for k in cutlass.range_constexpr(cute.size(tOrP, mode=[2])):
                pv_mma.set(tcgen05.Field.ACCUMULATE, k != 0)
                cute.gemm(pv_mma, tOtO, tOrP[None, None, k], tOrV[None, None, k], tOtO)

    arguments = p_handoff.pointers(settings, 0, 0, 0)
    return compiled(Pasted(settings), *arguments)
