"""Tracing any CuTe DSL kernel: what its layouts are by name, who hands what to whom, and whether they agree.

    with layoutlab.trace() as t:
        cute.compile(my_kernel, ...)
    print(t.table())            # buffer, writer, reader, verdict, cost
    t["sP"]                     # what the name held, as the DSL prints it
    layout_guard.check("my_kernel", t)

Inside of a kernel, `layoutlab.probe("name", thing)` writes a thing down under a name of your own; it runs while the
kernel compiles, so it costs nothing at run time, and outside of a trace it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.tracing.record import Access, Trace

__all__ = ["Access", "Trace", "probe", "trace"]

_open: list[Trace] = []


@contextmanager
def trace(source: str = "") -> Iterator[Trace]:
    """Records every kernel that CuTe DSL compiles inside of the block, on any machine and for any architecture.

    Raises LayoutError where the DSL is not installed. Tracing wraps the DSL's public functions and takes them back at
    the end; it does not change what is compiled.
    """
    try:
        import cutlass.cute  # noqa: F401
    except ModuleNotFoundError:
        raise LayoutError("CuTe DSL is not installed here (pip install nvidia-cutlass-dsl): nothing to trace") from None
    from layoutlab.tracing.recorder import recording

    found = Trace(source)
    _open.append(found)
    try:
        with recording(found):
            yield found
    finally:
        _open.remove(found)


def probe(name: str, thing: Any) -> None:
    """Writes a layout, tensor, copy or MMA of a kernel down under a name, for the traces that are open.

    >>> probe("sP", "(4,2):(1,4)")                          # no trace is open: nothing happens
    """
    if not _open:
        return
    text = str(thing)
    frame = sys._getframe(1)
    for found in _open:
        found.note(frame.f_code.co_qualname.replace(".<locals>", ""), name, text)
