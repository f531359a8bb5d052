"""Compiling a kernel for an architecture that is not this machine's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cutlass.cutlass_dsl import CuTeDSL


@contextmanager
def compiled_for(arch: str) -> Iterator[None]:
    """Makes an architecture the DSL's own while it compiles.

    Without it, the host half of a kernel for another architecture than that of the machine's device (sm_100a where
    there is none) is made for an immediate launch, and `dump_to_object` fails (4.8.1).
    """
    environment = CuTeDSL._get_dsl().envar
    environment.arch = arch
    try:
        yield
    finally:
        del environment.arch  # back to what the environment says
