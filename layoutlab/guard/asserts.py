"""Assertions about layouts and handoffs, which raise `Refuted` with the first thing wrong, in words.

>>> assert_injective("(4,2):(1,4)")
>>> assert_injective("(4,2):(1,0)")
Traceback (most recent call last):
layoutlab.Refuted: (4,2):(1,0) is not injective: index 0 (0,0) and index 4 (0,1) both give 0
"""

from __future__ import annotations

from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.guard.change import changes
from layoutlab.guard.function import Function
from layoutlab.guard.subject import Subject, not_injective, spoken_index, subject_of
from layoutlab.handoff.verdict import Refuted

WARP = 32


def assert_injective(what: Any) -> None:
    """Raises Refuted where two indices have one place: of a handoff, where one place gets two different elements.

    Takes a layout, a thread-value map, a tiled copy, a handoff, or their text.
    """
    __tracebackhide__ = True
    subject = subject_of(what)
    if "injective" in subject.invariants:
        fault = subject.invariants["injective"]
    elif len(subject.functions) == 1:
        fault = not_injective(subject.functions[0])
    else:
        raise LayoutError(f"a {subject.kind} is no single function that could be injective")
    if fault:
        raise Refuted(f"{_spoken(what)} is not injective: {fault}")


def assert_covers(what: Any, size: Any = None) -> None:
    """Raises Refuted unless every place of 0..size-1 is taken; of a handoff, unless every element is written.

    >>> assert_covers("(4,2):(1,4)", 8)
    >>> assert_covers("(4,2):(1,8)", (4, 4))
    Traceback (most recent call last):
    layoutlab.Refuted: (4,2):(1,8) does not cover 0..15: 8 of 16 places are taken, the first missed is 4

    `size` is a number or a shape; by default the layout's own number of indices. A place outside of the range is
    refused too.
    """
    __tracebackhide__ = True
    import numpy as np

    from layoutlab.int_tuple import product

    subject = subject_of(what)
    if subject.kind == "handoff":
        if subject.invariants["covered"]:
            raise Refuted(f"{_spoken(what)} does not cover its tile: {subject.invariants['covered']}")
        return
    f = _single(subject, what)
    total = f.size if size is None else product(size)
    if not isinstance(total, int):
        raise LayoutError(f"{_spoken(what)}: the size {total} is not known")
    (out,) = f.outputs
    values = f.values[out]
    outside = np.flatnonzero((values < 0) | (values >= total))
    if len(outside):
        at = int(outside[0])
        raise Refuted(f"{_spoken(what)} leaves 0..{total - 1}: {spoken_index(f, at)} gives {int(values[at])}")
    taken = np.zeros(total, dtype=bool)
    taken[values] = True
    if not taken.all():
        missed = int(taken.argmin())
        raise Refuted(
            f"{_spoken(what)} does not cover 0..{total - 1}: {int(taken.sum())} of {total} places are taken, "
            f"the first missed is {missed}"
        )


def assert_same_function(a: Any, b: Any) -> None:
    """Raises Refuted, with the first index that differs, unless two things are the same function.

    >>> assert_same_function("(4,2):(1,4)", "8:1")
    >>> assert_same_function("(8,8):(8,1)", "S<1,0,3> o 0 o (8,8):(8,1)")
    Traceback (most recent call last):
    layoutlab.Refuted: (8,8):(8,1) and S<1,0,3> o 0 o (8,8):(8,1) are different functions
      layout: other swizzle: index 1 (1,0) was 8, is 9; 32 of 64 moved
    """
    __tracebackhide__ = True
    found = changes(subject_of(a), subject_of(b))
    if found:
        lines = "".join(f"\n  {change}" for change in found)
        raise Refuted(f"{_spoken(a)} and {_spoken(b)} are different functions{lines}")


def assert_conflict_free(what: Any, bits: int | None = None) -> None:
    """Raises Refuted unless each store instruction of a handoff's first warp takes the fewest wavefronts possible.

    >>> from layoutlab.handoff import Handoff, Tile, smem, store
    >>> P = Tile("P", m=32, k=32, bits=32)
    >>> def tile(layout):
    ...     return Handoff(P, writer=store("(32,32):(1,32)", smem(layout, over=P), bits=32), reader=layout)
    >>> assert_conflict_free(tile("(32,32):(1,32)"))
    >>> assert_conflict_free(tile("(32,32):(32,1)"))
    Traceback (most recent call last):
    layoutlab.Refuted: P: the store of V0 takes 32 wavefronts, 1 is the least: lanes 0-31: 32 ...

    `bits` is the width of a store, by default the writer's own. stmatrix is counted by its rows of 16 bytes, a matrix a
    wavefront at best. Takes a handoff, its case, its function or its writer.
    """
    __tracebackhide__ = True
    from layoutlab.cost import phases, wavefronts

    writer, name = _writer(what)
    if writer.rows is not None:
        _assert_matrices_conflict_free(writer, name)
        return
    width = bits or writer.bits
    if writer.space != "smem" or width % 8 or writer.write.axes["t"] < WARP:
        raise LayoutError(f"{name}: bank conflicts are counted for stores of whole bytes to shared memory by a warp")
    each = width // writer.tile.bits
    least = max(1, WARP * width // 8 // 128)
    for v in range(0, writer.write.axes["v"] - each + 1, each):
        starts = [int(writer.write.at(t=t, v=v)["bit"]) // 8 for t in range(WARP)]
        found = wavefronts(starts, width // 8, "store")
        if found > least:
            worst = max(phases(starts, width // 8, "store"), key=lambda phase: phase.wavefronts)
            raise Refuted(f"{name}: the store of V{v} takes {found} wavefronts, {least} is the least: {worst}")


def _assert_matrices_conflict_free(writer: Any, name: str) -> None:
    """The same of stmatrix: each matrix's eight rows in different banks."""
    __tracebackhide__ = True
    from layoutlab.cost import phases
    from layoutlab.handoff.accesses import stored_matrices

    group = stored_matrices(writer)
    for number, access in enumerate(group.of_warp(0)):
        least, found = int(access.op[-1]), access.swizzled(group.swizzle)
        if found > least:
            addresses = [None if a is None else group.swizzle(a) for a in access.addresses]
            worst = max(phases(addresses, access.width, access.op), key=lambda phase: phase.wavefronts)
            raise Refuted(f"{name}: {access.op} {number} takes {found} wavefronts, {least} is the least: {worst}")


def assert_vector_width(what: Any, bits: int) -> None:
    """Raises Refuted unless every thread's values lie together, aligned, in vectors of `bits` bits.

    Takes a handoff, its case, its function or its writer; the message names the first value that breaks the vector.
    """
    __tracebackhide__ = True
    from dataclasses import replace

    writer, name = _writer(what)
    fault = replace(writer, bits=bits).vector_rule().fault
    if fault:
        raise Refuted(f"{name}: {fault}")


def _writer(what: Any) -> tuple[Any, str]:
    from layoutlab.guard.subject import handoff_of

    if type(what).__name__ == "Writer":
        return what, what.storage.name
    made = handoff_of(what)
    if made is None:
        raise LayoutError(f"{_spoken(what)} is no handoff, so nothing says what it stores")
    return made.writer, str(made)


def _single(subject: Subject, what: Any) -> Function:
    f = next((f for f in subject.functions if f.name in ("layout", "tv", "map")), None)
    if f is None or len(f.outputs) != 1:
        raise LayoutError(f"{_spoken(what)} is no function with one output")
    return f


def _spoken(what: Any) -> str:
    text = str(what)
    return text if "\n" not in text else " ".join(text.split("\n")[0].split())
