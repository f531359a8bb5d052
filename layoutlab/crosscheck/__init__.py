"""The witnesses held against each other: what the model says, and what the real kernel's trace, replay and run say.

    model    maps computed from the ISA's rules (layoutlab.handoff)
    trace    the layouts that CuTe DSL computes while it compiles the kernel
    replay   the kernel's own PTX, run instruction by instruction on the CPU
    device   the kernel on silicon

`crosscheck(handoff, on=("trace", "replay"))` asks them.
"""

from __future__ import annotations

from layoutlab.crosscheck.core import PROVIDERS, WITNESSES, Crosscheck, crosscheck
from layoutlab.crosscheck.testimony import Provider, Source, Testimony

__all__ = ["PROVIDERS", "WITNESSES", "Crosscheck", "Provider", "Source", "Testimony", "crosscheck"]
