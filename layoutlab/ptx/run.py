"""run: PTX text on numpy arrays, without a compiler or a driver in between."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import PtxError, Variable, parse_module
from layoutlab.ptx.report import Report
from layoutlab.ptx.state import Geometry


def run(
    text: str,
    *args: Any,
    entry: str | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    cluster: tuple[int, int, int] = (1, 1, 1),
    shared_bytes: int = 0,
    **options: Any,
) -> Report:
    """Run an entry of a PTX module; arrays are passed by pointer and changed in place, numbers by value.

    >>> import numpy as np
    >>> x = np.arange(32, dtype=np.uint32)
    >>> text = '''.version 8.8
    ... .target sm_90a
    ... .address_size 64
    ... .entry double(.param .u64 x) {
    ...   .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ...   ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1;
    ...   ld.global.u32 %r2, [%rd2]; shl.b32 %r2, %r2, 1; st.global.u32 [%rd2], %r2; ret; }'''
    >>> run(text, x).instructions, x[:4].tolist()
    (7, [0, 2, 4, 6])

    `bytes` are passed as they are, which is how a tensor map is given. `shared_bytes` is the dynamic shared memory;
    `options` are those of `machine.run_grid`. Raises `PtxError` with the PTX line.
    """
    module = parse_module(text)
    if entry is None and len(module.entries) != 1:
        raise PtxError(f"the module has entries {', '.join(module.entries)}: name one")
    function = module.entries[entry or next(iter(module.entries))]
    if len(args) != len(function.params):
        raise PtxError(f"{function.name} takes {len(function.params)} parameters, given {len(args)}")
    memory = GlobalMemory()
    params = [_parameter(memory, variable, value) for variable, value in zip(function.params, args, strict=True)]
    return run_grid(module, function, Geometry(grid, block, shared_bytes, cluster), params, memory, **options)


_FLOATS: dict[int, Any] = {2: np.float16, 4: np.float32, 8: np.float64}


def _parameter(memory: GlobalMemory, variable: Variable, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        if not value.flags.writeable:
            raise PtxError(f"parameter {variable.name} is given a read-only array, which a run changes: pass a copy")
        low, high = np.lib.array_utils.byte_bounds(value)
        memory.register(variable.name, low, high - low, value)
        return int(value.ctypes.data).to_bytes(8, "little")
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float) and variable.size in _FLOATS:
        return bytes(_FLOATS[variable.size](value).tobytes())
    if not hasattr(value, "__index__"):
        raise PtxError(
            f"parameter {variable.name} is given {value!r}: an array, a number or bytes are wanted, and floats for "
            "parameters of 2, 4 or 8 bytes"
        )
    return (operator.index(value) & ((1 << 8 * variable.size) - 1)).to_bytes(variable.size, "little")
