"""Registers: whether what a thread keeps is what an MMA's fragment wants of it, and in which order.

>>> from layoutlab.catalogue import rs_reuse
>>> registers_piece(rs_reuse()).facts["order"] is None
True
>>> registers_piece(rs_reuse(dtype="e4m3"))
Traceback (most recent call last):
layoutlab.errors.LayoutError: T0 V0 (m=0, k=0) is asked of T0, and T0 V4 (m=0, k=8) of T2: threads have to exchange \
values first (shuffles), or B's rows to be permuted alike
"""

from __future__ import annotations

from dataclasses import replace

from layoutlab.algebra import composition
from layoutlab.atoms.operand import as_modes
from layoutlab.derive.code import function, identifier, layout_code
from layoutlab.derive.pieces import Piece
from layoutlab.errors import LayoutError
from layoutlab.handoff.claims import Question
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.registers import keep
from layoutlab.handoff.strided import modes_layout
from layoutlab.handoff.writer import owned
from layoutlab.layout import make_layout


def registers_piece(h: Handoff) -> Piece:
    """The order in which a thread's values are the fragment; raises LayoutError where other threads hold them."""
    q, name = Question(h.tile, h.writer, h.reader, h.live, h.around), identifier(h.tile.name)
    axes, bits = q.owner.axes, h.tile.bits
    order = [-1] * axes["v"]
    for t in range(axes["t"]):
        for v in range(axes["v"]):
            at = q.wanted.at(t=t, v=v)
            place = int(at["bit"]) // bits
            if int(at["thread"]) != t:
                right = next((w for w in range(v) if int(q.wanted.at(t=t, v=w)["thread"]) == t), None)
                mine = f"{q.name({'t': t, 'v': right})} is asked of T{t}, and " if right is not None else ""
                raise LayoutError(
                    f"{mine}{q.name({'t': t, 'v': v})} of T{int(at['thread'])}: threads have to exchange values first "
                    f"(shuffles), or B's rows to be permuted alike"
                )
            if order[place] not in (-1, v):
                raise LayoutError(f"{q.name({'t': t, 'v': v})} has another place in T{t} than in the threads before")
            order[place] = v
    held = modes_layout(as_modes(order))[0]
    same = order == list(range(len(order)))
    layout = h.writer.owner.layout
    owner = h.writer.owner if same else owned(make_layout(layout[0], composition(layout[1], held)), h.tile)
    owner = replace(owner, first_thread=h.writer.owner.first_thread)
    doc = (
        "The accumulator's registers are the fragment as they are."
        if same
        else f"A thread holds its fragment's values in the order {held}, place -> value as held.",
    )
    body = [f"return cute.make_tensor(r{name}.iterator, {layout_code(held)})"]
    code = function(f"fragment_of_{name}", f"r{name}: cute.Tensor", doc, body)
    new = Handoff(h.tile, writer=keep(owner), reader=h.reader, live=h.live, around=h.around)
    return Piece("registers", doc, code, new, {"order": None if same else str(held)})
