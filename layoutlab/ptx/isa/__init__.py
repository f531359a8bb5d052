"""isa: every instruction that the machine knows, one declaration each, by subject.

Importing the package declares them all in `registry`. Semantics are written from the PTX ISA manual (version 9.x);
section numbers stand beside what is easy to get wrong.
"""

from layoutlab.ptx.isa import (
    absent,
    control,
    convert,
    copy,
    floating,
    integer,
    matrix,
    mbarrier,
    memory,
    tcgen05,
    tensor,
    warp,
    wgmma,
)

__all__ = [
    "absent", "control", "convert", "copy", "floating", "integer", "matrix", "mbarrier", "memory", "tcgen05", "tensor",
    "warp", "wgmma",
]  # fmt: skip
