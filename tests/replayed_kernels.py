"""Kernels that tests/test_replayed.py has traced and run: a copy that waits or does not, called in several ways."""

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor, waits: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    s = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(128), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=128)
    thread = cute.make_tiled_copy_tv(atom, cute.make_layout(32), cute.make_layout(4)).get_slice(tid)
    cute.copy(atom, thread.partition_S(x), thread.partition_D(s))
    cute.arch.cp_async_commit_group()
    if cutlass.const_expr(waits):
        cute.arch.cp_async_wait_group(0)
    cute.arch.barrier()
    for i in cutlass.range_constexpr(4):
        y[tid + 32 * i] = s[127 - tid - 32 * i]


@cute.jit
def launched(x: cute.Tensor, y: cute.Tensor, waits: cutlass.Constexpr):
    kernel(x, y, waits).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.kernel
def doubling(x: cute.Tensor, y: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    y[tid] = x[tid] * 2


@cute.jit
def doubled(x: cute.Tensor, y: cute.Tensor):
    """Of plain loads and stores, which take tensors of the host as they are."""
    doubling(x, y).launch(grid=(1, 1, 1), block=(128, 1, 1))


def arrays():
    return np.arange(128, dtype=np.float32), np.zeros(128, np.float32)


def run(waits: bool = True, called: bool = True):
    x, y = arrays()
    compiled = cute.compile(launched, from_dlpack(x, 16), from_dlpack(y, 16), waits)
    if called:
        compiled(from_dlpack(x, 16), from_dlpack(y, 16))
        assert not waits or (y == x[::-1]).all(), y


def direct():
    x, y = arrays()
    launched(from_dlpack(x, 16), from_dlpack(y, 16), True)
    assert (y == x[::-1]).all(), y


def raises():
    run()
    raise ValueError("so it ended")


def twice():
    run()
    run(waits=False)


def fake():
    from cutlass.cute.runtime import make_fake_compact_tensor

    x, y = (make_fake_compact_tensor(cutlass.Float32, (128,), assumed_align=16) for _ in range(2))
    cute.compile(launched, x, y, True)


def p(**settings):
    """This project's P handoff kernel: each store route and fault of it."""
    import ml_dtypes

    from layoutlab.kernels.p_handoff import compile_kernel, pointers
    from layoutlab.kernels.p_settings import PSettings

    chosen = PSettings.parse({key: str(value) for key, value in settings.items()})
    S = np.zeros((128, chosen.kv), np.float32)
    V = np.zeros((chosen.kv, chosen.head_dim), ml_dtypes.bfloat16)
    O = np.zeros((128, chosen.head_dim), np.float32)  # noqa: E741
    compile_kernel(chosen)(*pointers(chosen, *(x.ctypes.data for x in (S, V, O))))


def outside():
    """A pointer into no array that the script has."""
    compiled = cute.compile(launched_at, pointer(1 << 20))
    compiled(pointer(1 << 40))


def pointer(address):
    return cute.runtime.make_ptr(cutlass.Float32, address, cute.AddressSpace.gmem, assumed_align=16)


@cute.jit
def launched_at(at: cute.Pointer):
    kernel(cute.make_tensor(at, cute.make_layout(128)), cute.make_tensor(at, cute.make_layout(128)), True).launch(
        grid=(1, 1, 1), block=(32, 1, 1)
    )


@cute.kernel
def two_buffers(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, d: cute.Tensor, plain: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    tile, swizzle, memory = cute.make_layout((32, 32), stride=(32, 1)), cute.make_swizzle(2, 4, 3), cutlass.memory
    sA = memory.SmemAllocator().allocate_tensor(cutlass.Float16, tile, 128, swizzle=swizzle)
    sB = memory.SmemAllocator().allocate_tensor(cutlass.Float16, tile, 128, swizzle=swizzle)
    read = cute.make_swizzle(0 if cutlass.const_expr(plain) else 2, 4, 3)
    sB_read = cute.make_tensor(cute.recast_ptr(sB.iterator, read, cutlass.Float16), tile)
    wide = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
    rows = cute.make_tiled_copy_tv(wide, cute.make_layout((32, 4), stride=(4, 1)), cute.make_layout((1, 8)))
    one = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=16)
    columns = cute.make_tiled_copy_tv(one, cute.make_layout((4, 32), stride=(1, 4)), cute.make_layout((8, 1)))
    store, load = rows.get_slice(tid), columns.get_slice(tid)
    cute.copy(rows, store.partition_S(a), store.partition_D(sA))
    cute.copy(rows, store.partition_S(b), store.partition_D(sB))
    cute.arch.sync_threads()
    cute.copy(columns, load.partition_S(sA), load.partition_D(c))
    cute.copy(columns, load.partition_S(sB_read), load.partition_D(d))


@cute.jit
def two_launched(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, d: cute.Tensor, plain: cutlass.Constexpr):
    two_buffers(a, b, c, d, plain).launch(grid=(1, 1, 1), block=(128, 1, 1))


def two(plain: bool = False):
    a, b = (np.arange(n, n + 1024).astype(np.float16).reshape(32, 32) for n in (0, 1024))
    c, d = np.zeros((32, 32), np.float16), np.zeros((32, 32), np.float16)
    two_launched(*(from_dlpack(x, 16) for x in (a, b, c, d)), plain)
    assert (a == c).all() and (b == d).all() != plain
