"""Kernels that tests/test_exchange.py traces and runs: a tile goes from thread to thread through shared memory.

Each fault is one line of the kernel.
"""

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import from_dlpack

N = 32
THREADS = 64


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor, fault: cutlass.Constexpr):
    tid, _, _ = cute.arch.thread_idx()
    at = cute.recast_ptr(cutlass.utils.SmemAllocator().allocate(N * N * 4, 1024), dtype=cutlass.Float32)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32)
    one = cute.make_layout((1, 1))
    by_rows = cute.make_tiled_copy_tv(atom, cute.make_layout((16, 4), stride=(4, 1)), one).get_slice(tid)
    by_columns = cute.make_tiled_copy_tv(atom, cute.make_layout((16, 4), stride=(1, 16)), one).get_slice(tid)
    s_in = cute.make_tensor(at, cute.make_layout((N, N), stride=(N, 1)))
    if cutlass.const_expr(fault == "turned"):
        back = cute.make_tensor(at, cute.make_layout((N, N), stride=(1, N)))
    elif cutlass.const_expr(fault == "turned by name"):
        s_in_t = cute.make_tensor(at, cute.make_layout((N, N), stride=(1, N)))
    else:
        back = s_in
    held = cute.make_fragment_like(by_rows.partition_S(x))
    cute.copy(atom, by_rows.partition_S(x), held)
    if cutlass.const_expr(fault == "raises"):
        cute.copy(atom, held, by_rows.partition_D(s_in))
        got = by_rows.partition_S(s_in)
        raise ValueError("planted")
    if cutlass.const_expr(fault == "owner"):
        cute.copy(atom, held, by_columns.partition_D(s_in))
    else:
        cute.copy(atom, held, by_rows.partition_D(s_in))
    if cutlass.const_expr(fault != "barrier"):
        cute.arch.barrier()
    if cutlass.const_expr(fault == "turned by name"):
        read = by_columns.partition_S(s_in_t)
    else:
        read = by_columns.partition_S(back)
    got = cute.make_fragment_like(read)
    cute.copy(atom, read, got)
    cute.copy(atom, got, by_columns.partition_D(y))


@cute.jit
def launched(x: cute.Tensor, y: cute.Tensor, fault: cutlass.Constexpr):
    kernel(x, y, fault).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


def run(fault: str = "", checks: bool = False):
    x, y = np.arange(N * N, dtype=np.float32).reshape(N, N), np.zeros((N, N), np.float32)
    compiled = cute.compile(launched, from_dlpack(x, 16), from_dlpack(y, 16), fault)
    compiled(from_dlpack(x, 16), from_dlpack(y, 16))
    assert not checks or (y == x.T).all(), "no transpose"
