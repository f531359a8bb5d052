"""Compiles flash-attn-4's attention kernels with CuTe DSL on a machine without a GPU, for `layoutlab trace`.

    layoutlab trace tests/strangers/flash_attn_fwd.py:forward --arch sm_90a --set head_dim=128

Needs `pip install --no-deps flash-attn-4 quack-kernels einops torch`: tensors are on the CPU and say that they are not.
"""

from __future__ import annotations

import os

ARCH = os.environ.get("CUTE_DSL_ARCH", "sm_100a")
os.environ["FLASH_ATTENTION_ARCH"] = ARCH.rstrip("a")
os.environ["FLASH_ATTENTION_NUM_SMS"] = "4"

import cuda.bindings.driver as cuda  # noqa: E402
import cutlass.cute as cute  # noqa: E402
import torch  # noqa: E402


class Properties:
    multi_processor_count = 4
    L2_cache_size = 50 << 20


class Stream:
    cuda_stream = 0


def stand_in() -> None:
    """Answers what the package asks of a device, and compiles without the export that needs one."""
    capability = (int(ARCH[3:].rstrip("a")[:-1]), int(ARCH[3:].rstrip("a")[-1]))
    torch.cuda.current_device = lambda: 0
    torch.cuda.current_stream = lambda *a, **k: Stream()
    torch.cuda.get_device_capability = lambda *a, **k: capability
    torch.cuda.get_device_properties = lambda *a, **k: Properties()
    torch.Tensor.is_cuda = property(lambda self: True)
    real = cute.compile

    def compile_alone(function, *args, options="", **kwargs):  # type: ignore[no-untyped-def]
        args = [cuda.CUstream(0) if "Stream" in type(a).__name__ else a for a in args]
        real(function, *args, options=options.replace("--enable-tvm-ffi", "").strip(), **kwargs)
        return lambda *a, **k: None

    cute.compile = compile_alone


stand_in()

import flash_attn.cute.interface as interface  # noqa: E402


def tensors(head_dim: int, seqlen: int) -> list[torch.Tensor]:
    return [torch.zeros(1, seqlen, 2, head_dim, dtype=torch.bfloat16) for _ in range(3)]


def forward(head_dim: int = 128, seqlen: int = 256, causal: bool = False) -> None:
    interface._flash_attn_fwd(*tensors(head_dim, seqlen), causal=causal, return_lse=True)


def backward(head_dim: int = 128, seqlen: int = 256, causal: bool = False) -> None:
    q, k, v = tensors(head_dim, seqlen)
    lse = torch.zeros(1, 2, seqlen, dtype=torch.float32)
    interface._flash_attn_bwd(q, k, v, q.clone(), q.clone(), lse, causal=causal)
