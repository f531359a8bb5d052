# ruff: noqa: E501  (lines of PTX)
"""Small PTX programs: what a test states of an instruction, wrapped into a kernel."""

from __future__ import annotations

import re

import numpy as np

from layoutlab.ptx.run import run

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def kernel(params, body, registers="", name="k"):
    """A module with one entry; every %r, %rd, %rs, %p, %f-like register that the body names is declared."""
    kinds = {"r": "b32", "rd": "b64", "rs": "b16", "p": "pred", "f": "f32"}
    used = {(m.group(1), int(m.group(2))) for m in re.finditer(r"%(rd|rs|r|p|f)(\d+)\b", body)}
    declared = "".join(
        f"  .reg .{kind} %{prefix}<{1 + max(n for p, n in used if p == prefix)}>;"
        for prefix, kind in kinds.items()
        if any(p == prefix for p, _ in used)
    )
    declared = (declared + registers).replace("\n", " ") + "\n"  # one line, so that the body starts at line 7
    listed = ", ".join(f".param .{kind} {param}" for param, kind in params)
    return f"{HEADER}.entry {name}({listed})\n{{\n{declared}{body}\n  ret;\n}}\n"


def lanes(operation, sources, result, bits=32):
    """Apply `operation`, written on a0, a1, ... and d, to arrays, one element a thread; returns the array of d.

    `sources` are arrays of up to 32 elements; `result` is the dtype of d. Registers have the arrays' widths, or `bits`.
    """
    count = len(sources[0])
    total = -(-count // 32) * 32
    arrays = [np.concatenate([s, np.zeros(total - count, s.dtype)]) for s in map(np.ascontiguousarray, sources)]
    out = np.zeros(total, result)
    body = "  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.s32 %r0, %r1, 32, %r0;\n"
    registers = ""
    for i, array in enumerate(arrays):
        width = array.dtype.itemsize
        held = max(2, width)
        registers += f"  .reg .b{held * 8} a{i};\n"
        body += f"  ld.param.u64 %rd0, [p{i}]; mad.wide.u32 %rd0, %r0, {width}, %rd0; ld.global.b{width * 8} a{i}, [%rd0];\n"
    width = out.dtype.itemsize
    registers += f"  .reg .b{max(2, width) * 8} d;\n"
    body += f"  {operation}\n  ld.param.u64 %rd0, [out]; mad.wide.u32 %rd0, %r0, {width}, %rd0;\n"
    body += f"  st.global.b{width * 8} [%rd0], d;"
    params = [(f"p{i}", "u64") for i in range(len(arrays))] + [("out", "u64")]
    run(kernel(params, body, registers), *arrays, out, grid=(total // 32, 1, 1))
    return out[:count]
