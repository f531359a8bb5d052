"""Derive: the writer that a reader and an owner need, as code for CuTe DSL, each form verified before it is offered.

>>> from layoutlab.catalogue import sP
>>> found = derive(sP(write_swizzle="none"))                      # what the present writer does does not matter
>>> found.verdict, [piece.form for piece in found.pieces], found.pieces[0].facts["bits"]
('derived', ['cotiled_copy', 'coordinate'], 128)
>>> print(found.refusals["stmatrix"].split(";")[0])
stmatrix wants T1's values 4 bytes behind T0's, in one row of 16 bytes, and the reader has them 128 bytes on
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from layoutlab.derive.boxes import boxes_over
from layoutlab.derive.pieces import Piece
from layoutlab.derive.threads import best, matrices, needed, vectors
from layoutlab.errors import LayoutError
from layoutlab.handoff.boxes import tma_load
from layoutlab.handoff.buffer import storage_of
from layoutlab.handoff.core import Case, Handoff, verify
from layoutlab.handoff.writer import Writer

Verdict = Literal["derived", "none", "unsupported"]
EXIT_STATUS: dict[Verdict, int] = {"derived": 0, "none": 1, "unsupported": 3}


@dataclass(frozen=True)
class Derived:
    """What was derived for one side of a handoff: the forms that verify, and why the other ones are none."""

    handoff: Handoff
    side: Literal["writer", "reader"]
    verdict: Verdict
    pieces: tuple[Piece, ...]
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_status(self) -> int:
        """0 derived, 1 there is none, 3 this kind is not derived."""
        return EXIT_STATUS[self.verdict]


class Unsupported(LayoutError):
    """A kind of writer or reader that nothing is derived for."""


def derive(h: Handoff | Case, side: Literal["writer", "reader"] = "writer") -> Derived:
    """The writer that the reader needs for this owner; or, `side="reader"`, the reader that reads what is written.

    The handoff's own writer (or reader) is not looked at beyond its kind: threads, TMA or the tensor core; each form is
    given to `verify` with the other side and comes out only if all claims are proved. Raises LayoutError for what is
    no handoff.
    """
    made = h.make() if isinstance(h, Case) else h
    if not isinstance(made, Handoff):
        raise LayoutError(f"derive takes a handoff, not {type(made).__name__}; call the function with its settings")
    if side not in ("writer", "reader"):
        raise LayoutError(f'derive gives the "writer" or the "reader", not {side!r}')
    if side == "reader":
        from layoutlab.derive.readers import reader_forms as forms
    else:
        forms = writer_forms
    pieces, refusals = list[Piece](), dict[str, str]()
    try:
        for form, make in forms(made).items():
            try:
                piece = make()
                refused = unproved(piece.handoff)
                if refused:
                    refusals[form] = refused
                else:
                    pieces.append(piece)
            except Unsupported:
                raise
            except LayoutError as error:
                refusals[form] = str(error)
    except Unsupported as error:
        return Derived(made, side, "unsupported", (), {"": str(error)})
    except LayoutError as error:  # the other side itself: no form has a chance
        refusals[""] = str(error)
    return Derived(made, side, "derived" if pieces else "none", tuple(pieces), refusals)


def unproved(h: Handoff) -> str:
    """Why a handoff is not proved; nothing where it is."""
    verdict = verify(h)
    if verdict.proved:
        return ""
    claim = next(c for c in verdict.claims if c.verdict != "proved")
    return f"{claim.name} is {claim.verdict}: {claim.witness.message if claim.witness else claim.why}"


def with_writer(h: Handoff, writer: Writer) -> Handoff:
    """The handoff by another writer."""
    return Handoff(h.tile, writer=writer, reader=h.reader, live=h.live, around=h.around)


Forms = dict[str, Callable[[], Piece]]


def writer_forms(h: Handoff) -> Forms:
    """How each form of the writer is made, by its name; raises Unsupported for kinds of which there is none."""
    if h.reader.space != h.writer.space:
        raise Unsupported(f"the writer writes {h.writer.space}, the reader reads {h.reader.space}")
    if h.reader.space == "tmem":
        return _to_tmem(h)
    if h.reader.space == "rmem":
        return {"registers": lambda: _in_registers(h)}
    if h.reader.space != "smem":
        raise Unsupported(f"{h.reader.who} reads {h.reader.space}: writers of shared and Tensor Memory are derived")
    if h.writer.unit == "TMA":
        return {"tma_load": lambda: _by_tma(h)}
    if not h.writer.owner.threaded:
        raise Unsupported(f"{h.writer.spoken()} has no threads: its writer is that unit's own")
    return _to_smem(h)


def _to_smem(h: Handoff) -> Forms:
    from layoutlab.derive.pieces import coordinate_piece, copy_piece, stmatrix_piece

    need = needed(h.writer.owner, h.reader)  # none at all without it: its reason is the answer

    def copy() -> Piece:
        vector = best(vectors(need))
        return copy_piece(need, vector, with_writer(h, vector.writer))

    def coordinate() -> Piece:
        from layoutlab.handoff.writer import store

        writer = store(need.owner, need.storage, bits=need.bits)
        return coordinate_piece(need, with_writer(h, writer))

    def turned() -> Piece:
        found = matrices(need)
        return stmatrix_piece(need, found, with_writer(h, found.writer))

    return {"cotiled_copy": copy, "coordinate": coordinate, "stmatrix": turned}


def _to_tmem(h: Handoff) -> Forms:
    from layoutlab.derive.pieces import mma_piece, tmem_piece
    from layoutlab.derive.tensor_memory import column_of, tmem_stores
    from layoutlab.handoff.storage import tmem
    from layoutlab.handoff.tensor_memory import umma_out

    if h.writer.unit:  # the tensor core's accumulator: only its first column is free
        return {"mma": lambda: mma_piece(with_writer(h, umma_out(tmem(over=h.tile, column=column_of(h.reader)))))}

    def store() -> Piece:
        found = tmem_stores(h.writer.owner, h.reader)
        return tmem_piece(found, with_writer(h, found[0].writer))

    return {"tmem_copy": store}


def _by_tma(h: Handoff) -> Piece:
    from layoutlab.derive.pieces import tma_piece

    storage = storage_of(h.reader)
    found = boxes_over(storage, next(iter(h.writer.given["box"])))
    writer = tma_load(
        storage,
        box=found.box,
        swizzle=found.swizzle,
        starts_bytes=found.starts_bytes,
        tensor=h.writer.given.get("tensor"),
    )
    return tma_piece(storage, found, with_writer(h, writer))


def _in_registers(h: Handoff) -> Piece:
    from layoutlab.derive.registers import registers_piece

    return registers_piece(h)
