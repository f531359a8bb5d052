"""Entering the attention kernel from outside: operands checked, the kernel compiled once, its arguments packed.

    >>> AttentionConfig(head_dim=64, dtype="f16").head_dim
    64
    >>> check(AttentionConfig(head_dim=64), **dense((1, 300, 4, 64), (1, 300, 3, 64)))
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: 4 heads of q are no multiple of the 3 heads of k and v

An operand is a numpy array (bf16 as ml_dtypes.bfloat16, or its bits as uint16), anything with `__dlpack__`, or an
`Operand` made from an address. Nothing is copied and nothing here needs torch.
"""

from __future__ import annotations

import functools
import math
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutlab.errors import LayoutError
from layoutlab.kernels.attention_config import ROWS, AttentionConfig

if TYPE_CHECKING:
    pass

ALIGNMENT = 16
"""Bytes that every operand's address is a multiple of: TMA's global addresses (PTX ISA 5.5)."""

DEFAULT_CTAS = 148
"""CTAs at most, one for each SM of a B200; what is left over, a CTA takes in turn."""

F32_MIN, F32_MAX = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""Normal float32 numbers: the kernel's arithmetic takes what is smaller for zero."""

MAX_INT32 = 2**31 - 1
"""What the kernel counts rows, keys, heads and Q tiles up to."""

NUMPY_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "uint16": "bits16"}
DLPACK_TYPES = {"BFloat16": "bf16", "Float16": "f16", "Float32": "f32"}


@dataclass(frozen=True)
class Operand:
    """Where a dense row-major tensor lies, its shape, and its type: "bf16", "f16" or "f32"."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    keep: Any = None  # the owner of the memory

    @property
    def bytes(self) -> int:
        """The memory that it takes."""
        return math.prod(self.shape) * (4 if self.dtype == "f32" else 2)


@dataclass(frozen=True)
class Problem:
    """Operands that fit together."""

    config: AttentionConfig
    q: Operand
    k: Operand
    v: Operand
    o: Operand
    lse: Operand | None
    row_max: Operand | None

    @property
    def operands(self) -> dict[str, Operand]:
        """The operands that there are, by name."""
        named = {name: getattr(self, name) for name in ("q", "k", "v", "o", "lse", "row_max")}
        return {name: operand for name, operand in named.items() if operand is not None}


def operand(name: str, thing: Any, dtype: str) -> Operand:
    """An array, a dlpack tensor or an Operand as an Operand of this type; refused if it isn't one, or isn't dense."""
    import numpy as np

    if isinstance(thing, Operand):
        found = thing
    elif isinstance(thing, np.ndarray):
        if not thing.dtype.isnative:
            raise LayoutError(f"{name} has its bytes in another order ({thing.dtype.str}) than this machine's")
        kind = NUMPY_TYPES.get(thing.dtype.name, thing.dtype.name)
        kind = dtype if kind == "bits16" and dtype != "f32" else kind
        if not thing.flags.c_contiguous:
            raise LayoutError(f"{name} is not dense: make it contiguous, with the last mode fastest")
        found = Operand(thing.ctypes.data, tuple(thing.shape), kind, thing)
    elif hasattr(thing, "__dlpack__"):
        found = _from_dlpack(name, thing)
    else:
        raise LayoutError(f"{name} is a {type(thing).__name__}, not an array, a dlpack tensor or an Operand")
    if found.dtype != dtype:
        raise LayoutError(f"{name} is {found.dtype}, and this kernel takes {dtype} there")
    if found.bytes and found.address <= 0:
        raise LayoutError(f"{name} starts at {found.address}, where no memory is")
    if found.address % ALIGNMENT:
        raise LayoutError(f"{name} starts at {found.address:#x}, which is not a multiple of {ALIGNMENT} bytes")
    return found


def _from_dlpack(name: str, thing: Any) -> Operand:
    from cutlass.cute.runtime import from_dlpack

    try:
        tensor = from_dlpack(thing)
        kind, address = tensor.element_type.__name__, int(tensor.data_ptr)
        shape, strides = (tuple(int(extent) for extent in extents) for extents in (tensor.shape, tensor.stride))
    except (RuntimeError, BufferError, TypeError, ValueError) as e:  # whatever its owner says, or CuTe DSL of its type
        raise LayoutError(f"{name} is a {type(thing).__name__} whose __dlpack__ gives no tensor: {e}") from e
    wanted = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if math.prod(shape) and any(n > 1 and a != b for n, a, b in zip(shape, strides, wanted, strict=True)):
        raise LayoutError(f"{name} is not dense: its strides are {list(strides)}, and {list(wanted)} would be")
    return Operand(address, shape, DLPACK_TYPES.get(kind, kind), (thing, tensor))


def check(config: AttentionConfig, q: Any, k: Any, v: Any, o: Any, lse: Any = None, row_max: Any = None) -> Problem:
    """The operands as one problem, or a refusal that says which of them does not fit and why."""
    import numpy as np

    q, k, v, o = (operand(name, x, config.dtype) for name, x in (("q", q), ("k", k), ("v", v), ("o", o)))
    for name, x in (("q", q), ("k", k), ("v", v), ("o", o)):
        if len(x.shape) != 4:
            raise LayoutError(f"{name} has shape {x.shape}, not (batch, seq, heads, head_dim)")
        if x.shape[3] != config.head_dim:
            raise LayoutError(f"{name} has head dim {x.shape[3]}, and the kernel is configured for {config.head_dim}")
    batch, seq_q, heads, _ = q.shape
    if min(batch, seq_q, heads, k.shape[2]) < 1:
        raise LayoutError(f"q of shape {q.shape} and k of shape {k.shape} leave nothing to compute")
    for name, x in (("o", o), ("lse", lse), ("row_max", row_max)):
        owner = x.keep if isinstance(x, Operand) else x
        if isinstance(owner, np.ndarray) and not owner.flags.writeable:
            raise LayoutError(f"{name} is read-only, and the kernel writes it: give an array that may be written")
    if o.shape != q.shape:
        raise LayoutError(f"o has shape {o.shape}, and q {q.shape}: they must be equal")
    if k.shape != v.shape:
        raise LayoutError(f"k has shape {k.shape}, and v {v.shape}: they must be equal")
    if k.shape[0] != batch:
        raise LayoutError(f"q has {batch} batches, and k and v {k.shape[0]}")
    if heads % k.shape[2]:
        raise LayoutError(f"{heads} heads of q are no multiple of the {k.shape[2]} heads of k and v")
    if max(seq_q, k.shape[1], batch * heads * -(-seq_q // ROWS)) > MAX_INT32 - ROWS:
        raise LayoutError(
            f"q of shape {q.shape} and k of shape {k.shape} have more rows, keys or tiles than the kernel counts: "
            f"up to {MAX_INT32 - ROWS} of each"
        )
    stats: dict[str, Operand | None] = {"lse": None, "row_max": None}
    for name, x in (("lse", lse), ("row_max", row_max)):
        if x is not None:
            stats[name] = found = operand(name, x, "f32")
            if found.shape != (batch, heads, seq_q):
                raise LayoutError(
                    f"{name} has shape {found.shape}, not (batch, heads, seq_q) = {(batch, heads, seq_q)}"
                )
    return Problem(config, q, k, v, o, **stats)


def dense(q_shape: tuple[int, ...], k_shape: tuple[int, ...], dtype: str = "bf16") -> dict[str, Operand]:
    """Operands of these shapes at an address that is never used, for checks before there are arrays."""
    q, k = Operand(ALIGNMENT, q_shape, dtype), Operand(ALIGNMENT, k_shape, dtype)
    return {"q": q, "k": k, "v": k, "o": q}


@functools.cache
def compile_attention(config: AttentionConfig, lse: bool = True, row_max: bool = False, arch: str = "sm_100a") -> Any:
    """The compiled kernel of one configuration; it serves all lengths, batches and heads. Needs no GPU.

    Its PTX and cubin are kept in `compiled.artifacts`. `lse` and `row_max` say which statistics it writes.
    """
    import cutlass.cute as cute

    from layoutlab.kernels.attention import Attention
    from layoutlab.kernels.compiling import compiled_for

    shape = (1, 1, 1, config.head_dim)
    stat = Operand(ALIGNMENT, (1, 1, 1), "f32")
    stats = {"lse": stat if lse else None, "row_max": stat if row_max else None}
    problem = check(config, **dense(shape, shape, config.dtype), **stats)
    with tempfile.TemporaryDirectory() as folder, compiled_for(arch):  # what the DSL keeps, it writes to files too
        options = f"--gpu-arch={arch} --keep-ptx --keep-cubin --dump-dir={folder}"
        return cute.compile(Attention(config), *arguments(problem), options=options)


def arguments(problem: Problem, scale: float | None = None, ctas: int = DEFAULT_CTAS) -> tuple[Any, ...]:
    """The compiled kernel's arguments; `scale` is 1 / sqrt(head_dim) by default."""
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_ptr

    kinds = {"bf16": cutlass.BFloat16, "f16": cutlass.Float16, "f32": cutlass.Float32}

    def pointer(x: Operand | None) -> Any:
        if x is None:
            return None
        return make_ptr(kinds[x.dtype], x.address, cute.AddressSpace.gmem, assumed_align=ALIGNMENT)

    scale = 1.0 / math.sqrt(problem.config.head_dim) if scale is None else scale
    if not (math.isfinite(scale) and scale > 0):
        raise LayoutError(f"scale={scale} is not a positive number: the row maximum is taken before scaling")
    if not F32_MIN <= scale <= F32_MAX:
        raise LayoutError(f"scale={scale} is no float32, as which the kernel takes it: {F32_MIN:.3g} to {F32_MAX:.3g}")
    if not 1 <= ctas <= MAX_INT32:
        raise LayoutError(f"ctas={ctas} is not {'at least 1' if ctas < 1 else f'at most {MAX_INT32}'}")
    batch, seq_q, heads, _ = problem.q.shape
    # Without keys, K and V are no memory; the one row that is loaded and masked is then taken from Q.
    k, v = (problem.k, problem.v) if problem.k.shape[1] else (problem.q, problem.q)
    operands = (problem.q, k, v, problem.o, problem.lse, problem.row_max)
    sizes = (batch, seq_q, problem.k.shape[1], heads, problem.k.shape[2])
    return (
        *(pointer(x) for x in operands),
        *(cutlass.Int32(size) for size in sizes),
        cutlass.Float32(scale),
        cutlass.Int32(ctas),
    )
