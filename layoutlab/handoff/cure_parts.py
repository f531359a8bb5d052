"""Cures of parts: another load, another first warp, stores of another width, rows that are turned, the reader's layout.

>>> from layoutlab.catalogue import epilogue
>>> from layoutlab.handoff import verify
>>> print(*verify(epilogue(load="16x256b.x4")).explanation)
what would be right: stores of 32 bits, not 128
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from layoutlab.atoms.tmem import WARP_LANES
from layoutlab.handoff.buffer import storage_of
from layoutlab.handoff.candidate import Candidate, attempt
from layoutlab.handoff.claims import Question
from layoutlab.handoff.matrices import stmatrix
from layoutlab.handoff.rule import Rule
from layoutlab.handoff.storage import Gmem, Smem
from layoutlab.handoff.tensor_memory import tcgen05_ld
from layoutlab.handoff.writer import STORE_BITS, Owner, store

REPEATS = (128, 64, 32, 16, 8, 4, 2, 1)


def remade(q: Question) -> Iterator[Candidate]:
    """One part of the writer made anew."""
    for found in (_widths, _warps, _loads, _stored_matrices):
        yield from found(q)


def _widths(q: Question) -> Iterator[Candidate]:
    """The widest store below the one asked for that values can be moved by, or the narrowest above."""
    writer = q.writer
    if writer.make is not store or writer.vector_rule().fault is None:
        return
    widths = [w for w in reversed(STORE_BITS) if w < writer.bits] + [w for w in STORE_BITS if w > writer.bits]
    for bits in widths:
        other = attempt(writer.again, bits=bits)
        if other and other.vector_rule().fault is None:
            yield Candidate((f"stores of {bits} bits, not {writer.bits}",), writer=other)
            return


def _warps(q: Question) -> Iterator[Candidate]:
    """Threads whose first warp is a multiple of 4, so that rows are the lanes that warps may touch."""
    owner = q.writer.owner
    warp = owner.first_thread // WARP_LANES
    if owner.load is None or warp % 4 == 0 or "owner" not in q.writer.given:
        return
    low, high = warp // 4 * 4, (warp // 4 + 1) * 4
    made = [attempt(_from_warp, q, owner, first) for first in (low, high)]
    if made[0] and made[1]:
        text = f"threads from warp {low} or {high} on (first_warp={low} or {high}), not {warp}"
        yield replace(made[0], changes=(text,), twins=(made[1],))


def _from_warp(q: Question, owner: Owner, first: int) -> Candidate:
    """The same threads, counted from another warp on."""
    assert owner.load is not None
    held = _with_rules(owner, tcgen05_ld(owner.load).over(owner.tile, first_warp=first))
    return Candidate((f"first_warp={first}",), writer=q.writer.again(owner=held))


def _with_rules(old: Owner, new: Owner) -> Owner:
    """The new owner, under the rules that the old one had beside those of its load."""
    assert old.load is not None
    own = {rule.asked for rule in tcgen05_ld(old.load).over(old.tile).rules()}
    kept: list[Rule] = [rule for rule in old.rules() if rule.asked not in own]
    return replace(new, rules=lambda: [*new.rules(), *kept]) if kept else new


def _loads(q: Question) -> Iterator[Candidate]:
    """The same shape of load by other repetitions: the widest that does."""
    owner = q.writer.owner
    if owner.load is None or q.writer.given.get("owner") is not owner:
        return
    shape, repeat = owner.load.shape, owner.load.repeat
    narrower = [r for r in REPEATS if r < repeat] + [r for r in reversed(REPEATS) if r > repeat]
    for other in narrower:
        load = attempt(tcgen05_ld, f"{shape}.x{other}")
        held = load and attempt(load.over, owner.tile, first_warp=owner.first_thread // WARP_LANES)
        if not held or any(rule.fault for rule in held.rules()):
            continue
        writer = attempt(lambda held=held: q.writer.again(owner=_with_rules(owner, held)))
        if writer:
            yield Candidate((f"load x{other} instead of x{repeat} (tcgen05.ld.{shape})",), writer=writer, kind="load")


def _stored_matrices(q: Question) -> Iterator[Candidate]:
    """stmatrix the other way, or of one matrix at a time."""
    writer = q.writer
    if writer.make is not stmatrix:
        return
    trans = writer.given["trans"]
    if other := attempt(writer.again, trans=not trans):
        text = f"stmatrix {'without' if trans else 'with'} .trans: rows are{' not' if trans else ''} turned on the way"
        yield Candidate((text,), writer=other)


def laid_out_as_read(q: Question) -> Iterator[Candidate]:
    """The writer's buffer with the layout, swizzle and base by which the reader reads: the last resort."""
    writer = q.writer
    if writer.make is not store or not isinstance(writer.storage, Smem) or isinstance(writer.storage, Gmem):
        return
    storage = attempt(storage_of, q.reader)
    if storage is None:
        return
    storage = replace(storage, name=writer.storage.name, align_bytes=max(writer.storage.align_bytes, 16))
    other = attempt(writer.again, storage=storage, through=None, offsets=None)
    if other:
        base = f" from byte {storage.base_bytes} on" if storage.base_bytes != writer.storage.base_bytes else ""
        yield Candidate((f"{storage.name} laid out as it is read: {storage.layout}{base}",), writer=other)
