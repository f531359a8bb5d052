"""Cures of place: another base, another column, another buffer's neighbourhood.

>>> from layoutlab.catalogue import tP
>>> from layoutlab.handoff import verify
>>> print(verify(tP(read_offset=0)).explanation[-1])
what would be right: the MMA reads from column 32 on, not 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.boxes import tma_load, tma_store
from layoutlab.handoff.candidate import Candidate, attempt
from layoutlab.handoff.claims import Question
from layoutlab.handoff.matrices import ldmatrix
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.storage import Gmem, Smem, Tmem
from layoutlab.handoff.writer import Writer

ALIGNMENTS = (16, 128, 1024)
"""What stores, boxes and swizzles ask of a base, in bytes."""


def moved(q: Question) -> Iterator[Candidate]:
    """Everything that only moves one of the sides, or both together."""
    yield from _bases(q)
    yield from _alignments(q)
    yield from _columns(q)
    yield from _out_of_the_way(q)


# -- shared memory ----------------------------------------------------------------------------------------------------


def _bases(q: Question) -> Iterator[Candidate]:
    """A base that is a multiple of what the sides ask for, the next lower one and the next higher."""
    storage = q.writer.storage
    if not isinstance(storage, Smem) or isinstance(storage, Gmem) or "storage" not in q.writer.given:
        return
    base = storage.base_bytes
    for repeat in dict.fromkeys((*ALIGNMENTS, storage.repeat_bytes)):
        if base % repeat == 0:
            continue
        low, high = base // repeat * repeat, (base // repeat + 1) * repeat
        text = f"a base aligned to {repeat} bytes ({low} or {high})"
        first, second = (attempt(_rebased, q, storage, to, text) for to in (low, high))
        if first and second:
            yield replace(first, twins=(second,), kind="base")
        elif first:
            yield replace(first, changes=(f"a base of {low} bytes, not {base}",), kind="base")


def _rebased(q: Question, storage: Smem, base: int, text: str) -> Candidate:
    """Writer and reader with the buffer somewhere else."""
    other, by = replace(storage, base_bytes=base), base - storage.base_bytes
    return Candidate((text,), writer=_written_to(q.writer, other, by), reader=_read_from(q.reader, other, by))


def _written_to(writer: Writer, storage: Smem, by: int) -> Writer:
    starts = writer.given.get("starts_bytes")
    options = {"starts_bytes": [start + by for start in starts]} if writer.make is tma_load and starts else {}
    return writer.again(storage=storage, **options)


def _read_from(reader: Reader, storage: Smem, by: int) -> Reader:
    """The same reader of a buffer that lies `by` bytes further on."""
    given = reader.given
    if "desc" in given:
        return reader.again(desc=replace(given["desc"], start=given["desc"].start + by))
    if reader.make is ldmatrix:
        return reader.again(storage=replace(given["storage"], base_bytes=given["storage"].base_bytes + by))
    if reader.make is tma_store:
        starts, place = given["starts_bytes"], given["storage"]
        return reader.again(
            storage=replace(place, base_bytes=place.base_bytes + by) if isinstance(place, Smem) else place,
            starts_bytes=[start + by for start in starts] if starts is not None else None,
        )
    raise LayoutError(f"{reader.text} is not known to move")


def _alignments(q: Question) -> Iterator[Candidate]:
    """A buffer of a stricter alignment than the one that it is declared with."""
    storage = q.writer.storage
    if not isinstance(storage, Smem) or isinstance(storage, Gmem) or "storage" not in q.writer.given:
        return
    for align in (128, 256, 512, 1024):
        if storage.align_bytes % align == 0:
            continue
        other = attempt(q.writer.again, storage=replace(storage, align_bytes=align))
        text = f"{storage.name} aligned to {align} bytes, not {storage.align_bytes}: align_bytes={align}"
        reader = q.reader
        if isinstance(reader.given.get("storage"), Smem):
            reader = attempt(reader.again, storage=replace(reader.given["storage"], align_bytes=align)) or reader
        if other:
            yield Candidate((text,), writer=other, reader=reader, kind="alignment")


# -- columns of Tensor Memory -----------------------------------------------------------------------------------------


def _columns(q: Question) -> Iterator[Candidate]:
    """The reader from the writer's first column on, and the writer from the reader's."""
    storage = q.writer.storage
    if not isinstance(storage, Tmem) or "column" not in q.reader.given:
        return
    wrote, reads = storage.column, int(q.reader.given["column"])
    if wrote == reads:
        return
    if other := attempt(q.reader.again, column=wrote):
        yield Candidate((f"{q.reader.who} reads from column {wrote} on, not {reads}",), reader=other)
    if writer := attempt(q.writer.again, storage=replace(storage, column=reads)):
        yield Candidate((f"{q.tile.name} is written from column {reads} on, not {wrote}",), writer=writer)


def _out_of_the_way(q: Question) -> Iterator[Candidate]:
    """Both sides behind a live buffer that the writer hits, or before it."""
    storage = q.writer.storage
    if isinstance(storage, Tmem) and "column" in q.reader.given and "storage" in q.writer.given:
        own = range(storage.cells.start // 32, storage.cells.stop // 32)
        for name, live in _hit(q, own):
            for column in (live.stop, live.start - len(own)):
                if column in (storage.column, q.reader.given["column"]):
                    continue  # only one side is moved
                both = attempt(_at_column, q, storage, column, name)
                if both:
                    yield both
    if isinstance(storage, Smem) and not isinstance(storage, Gmem) and "storage" in q.writer.given:
        for name, live in _hit(q, range(storage.cells.start // 8, storage.cells.stop // 8)):
            for base in (-(-live.stop // 1024) * 1024, (live.start - storage.bytes) // 1024 * 1024):
                text = f"{storage.name} from byte {base} on, clear of {name}, not {storage.base_bytes}"
                if base >= 0 and (one := attempt(_rebased, q, storage, base, text)):
                    yield one


def _hit(q: Question, own: range) -> list[tuple[str, range]]:
    return [(name, r) for name, r in q.live.items() if r.start < own.stop and own.start < r.stop]


def _at_column(q: Question, storage: Tmem, column: int, name: str) -> Candidate:
    text = f"{q.tile.name} written and read from column {column} on, clear of {name}, not {storage.column}"
    options: dict[str, Any] = {"column": column}
    return Candidate(
        (text,), writer=q.writer.again(storage=replace(storage, column=column)), reader=q.reader.again(**options)
    )
