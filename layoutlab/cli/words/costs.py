"""What shared-memory instructions cost, in words and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from layoutlab.cost import LANES, Access, Op, Phase, phases, suggest_swizzle, widest_vector
from layoutlab.errors import LayoutError
from layoutlab.handoff.accesses import NO_SWIZZLE, Group, accesses_of
from layoutlab.handoff.places import strided_places
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle

if TYPE_CHECKING:
    from layoutlab.cost import Vector
    from layoutlab.handoff.core import Handoff

WAVEFRONT_BYTES = 128
MOST = 16
"""Bytes that a load or store of one lane moves at most."""


@dataclass(frozen=True)
class Counted:
    """One kind of instruction: the wavefronts of each, for each warp."""

    group: Group
    counts: tuple[tuple[int, ...], ...]  # [warp][instruction]
    worst: tuple[int, int, Phase]  # warp, instruction, its fullest phase

    @property
    def least(self) -> int:
        """Wavefronts without any conflict, all lanes at different places."""
        matrices = self.group.op.rpartition(".x")[2]
        return int(matrices) if matrices.isdigit() else max(1, LANES * self.group.width // WAVEFRONT_BYTES)


@dataclass(frozen=True)
class Suggested:
    """The best swizzle of byte addresses, in bytes and in elements, and what it saves."""

    swizzle: Swizzle
    elements: str
    before: int  # without any swizzle
    now: int
    after: int
    among: str


@dataclass(frozen=True)
class Cost:
    """All that is counted of one target."""

    title: str
    bits: int
    counted: tuple[Counted, ...]
    widest: Vector | None
    widest_counts: Counted | None
    suggested: Suggested | None
    remark: str = ""


def cost_of_handoff(h: Handoff, bits: int | None, suggest: bool) -> Cost:
    """The stores of its writer and the ldmatrix of its reader."""
    groups = accesses_of(h, bits)
    if not groups:
        who = h.writer.unit or f"stores to {h.writer.space}"
        return Cost(str(h), h.tile.bits, (), None, None, None, f"no shared-memory instruction of threads: {who}")
    widest, counted = None, None
    stores = next((g for g in groups if g.op == "store"), None)
    if stores is not None:
        widest = widest_vector(_table(accesses_of(h, h.tile.bits)[0]), h.tile.bits)
        if widest.bytes > stores.width:
            counted = _counted(next(g for g in accesses_of(h, 8 * widest.bytes) if g.op == "store"))
    fixed = h.reader.rows is None
    found = _suggested(groups, h.tile.bits, h.reader.who if fixed else "") if suggest else None
    return Cost(str(h), h.tile.bits, tuple(map(_counted, groups)), widest, counted, found)


def cost_of_expressions(
    asked: Sequence[tuple[str, str]],
    bits: int,
    width: int | None,
    swizzle_unit: Literal["elements", "bytes"],
    suggest: bool,
) -> Cost:
    """The accesses of (thread, value) layouts of one buffer, each with its operation."""
    made = [_of_expression(text, bits, width, op, swizzle_unit) for op, text in asked]  # type: ignore[arg-type]
    groups, widest, counted, units, values = (tuple(part) for part in zip(*made, strict=True))
    found = _suggested(list(groups), bits, "") if suggest else None
    title = f"{'; '.join(values)}, {bits}-bit"
    vector, vectors = (widest[0], counted[0]) if len(made) == 1 else (None, None)
    return Cost(title, bits, tuple(map(_counted, groups)), vector, vectors, found, next(filter(None, units), ""))


def _of_expression(
    text: str, bits: int, width: int | None, op: Op, swizzle_unit: Literal["elements", "bytes"]
) -> tuple[Group, Vector | None, Counted | None, str, str]:
    from layoutlab.text.expression import value_of

    value = value_of(text)
    if not isinstance(value, (Layout, ComposedLayout)):
        raise LayoutError(f"{text} is no layout and no handoff: (thread, value) -> element offset is needed")
    outer, swizzle, offset = _parts(value, bits, swizzle_unit)
    size = width or (16 if op not in ("load", "store") else max(1, bits // 8))
    if bits % 8 or 8 * size % bits:
        raise LayoutError(f"{size} bytes a lane are no whole number of {bits}-bit elements")
    group = _group(outer, bits, size, op, swizzle, offset)
    one = _group(outer, bits, bits // 8, op, swizzle, offset) if op in ("load", "store") else None
    widest = widest_vector(_table(one), bits) if one else None
    counted = None
    if widest and widest.bytes > size:
        counted = _counted(_group(outer, bits, widest.bytes, op, swizzle, offset))
    unit = f"its swizzle counts {swizzle_unit}" if isinstance(value, ComposedLayout) and _unitless(value) else ""
    return group, widest, counted, unit, str(value)


def _unitless(value: ComposedLayout) -> bool:
    return isinstance(value.inner, Swizzle) and value.inner.unit_bits is None


def _parts(value: Layout | ComposedLayout, bits: int, unit: str) -> tuple[Layout, Swizzle, int]:
    """Outer layout, swizzle in bytes, offset in elements."""
    if isinstance(value, Layout):
        return value, NO_SWIZZLE, 0
    if not isinstance(value.offset, int) or not isinstance(value.inner, (Swizzle, type(None))):
        raise LayoutError(f"{value}: a swizzle over a layout is needed")
    swizzle = value.inner or NO_SWIZZLE
    if swizzle.unit_bits is None:
        swizzle = Swizzle(swizzle.bits, swizzle.base, swizzle.shift, 8 if unit == "bytes" else bits)
    return value.outer, swizzle.counted_in(8), value.offset


def _group(outer: Layout, bits: int, width: int, op: Op, swizzle: Swizzle, offset: int) -> Group:
    if outer.rank() != 2 or outer.symbolic() or outer.coordinate_valued():
        raise LayoutError(f"{outer} has {outer.rank()} modes: (thread, value) -> element offset has two, of numbers")
    modes = {axis: [(e, s * bits) for e, s in part.leaves()] for axis, part in zip(("t", "v"), outer, strict=True)}
    at = strided_places(modes, "bit").moved(offset * bits)
    step, threads, values = 8 * width // bits, at.axes["t"], at.axes["v"]
    served = LANES if op in ("load", "store") else 8 * int(op[-1])
    if values % step or threads % served:
        raise LayoutError(
            f"{threads} threads of {values} values: {op} takes {served} threads, {step} a thread at a time"
        )
    return Group(op, op, width, threads // served, values // step, at, step, swizzle, served)


def _counted(group: Group) -> Counted:
    counts, worst = list[tuple[int, ...]](), None
    for warp in range(group.warps):
        row = list[int]()
        for i, access in enumerate(group.of_warp(warp)):
            found = phases(_swizzled(access, group.swizzle), access.width, access.op)
            row.append(sum(phase.wavefronts for phase in found))
            full = max(found, key=lambda phase: phase.wavefronts)
            if worst is None or full.wavefronts > worst[2].wavefronts:
                worst = (warp, i, full)
        counts.append(tuple(row))
    assert worst is not None, "a group has instructions"
    return Counted(group, tuple(counts), worst)


def _swizzled(access: Access, swizzle: Swizzle) -> list[int | None]:
    return [None if a is None else swizzle(a) for a in access.addresses]


def _table(group: Group) -> list[list[int]]:
    """Byte address of each thread's values, after the swizzle."""
    warps = [group.of_warp(warp) for warp in range(group.warps)]
    return [
        [group.swizzle(a) for access in warp if (a := access.addresses[lane]) is not None]
        for warp in warps
        for lane in range(LANES)
    ]


def _suggested(groups: list[Group], bits: int, reader: str) -> Suggested:
    """Over the first warp's instructions of every kind; a reader with swizzles of its own leaves only those."""
    accesses = [access for group in groups for access in group.of_warp(0)]
    now = sum(access.swizzled(group.swizzle) for group in groups for access in group.of_warp(0))
    before = sum(access.swizzled(NO_SWIZZLE) for access in accesses)
    mine = groups[0].swizzle if len({group.swizzle for group in groups}) == 1 else None
    if reader:
        known = [Swizzle(b, 4, 3, unit_bits=8) for b in range(4)]
        after, best = min(((sum(a.swizzled(s) for a in accesses), s) for s in known), key=lambda pair: pair[0])
        among = f"of the swizzles that {reader} can follow"
    else:
        found = suggest_swizzle(accesses)
        best, after, among = found.swizzle, found.after, "of all Swizzle<B,M,S>"
    if mine is not None and after == now:  # what is no better is no reason to change
        best, among = mine, f"the one in use; none has fewer wavefronts, {among}"
    try:
        elements = str(best.counted_in(bits))
    except LayoutError as error:
        elements = f"none of {bits}-bit elements: {error}"
    return Suggested(best, elements, before, now, after, among)


# -- printing ---------------------------------------------------------------------------------------------------------


def report(cost: Cost) -> str:
    """All of it as text."""
    lines = [cost.title]
    for counted in cost.counted:
        lines += _lines(counted)
    if cost.widest is not None:
        lines.append(f"  widest     {8 * cost.widest.bytes}-bit: {cost.widest.why}")
        if cost.widest_counts is not None:
            lines.append(f"             {_summary(cost.widest_counts)}")
    if cost.suggested is not None:
        s = cost.suggested
        lines.append(f"  suggested  {s.swizzle} in bytes, {s.elements} in elements, {s.among}")
        lines.append(f"             {s.after} wavefronts of warp 0; now {s.now}, without a swizzle {s.before}")
    if cost.remark:
        lines.append(f"  note       {cost.remark}")
    return "\n".join(lines)


def _lines(counted: Counted) -> list[str]:
    warp, instruction, phase = counted.worst
    lines = [f"  {counted.group.name:<10} {_summary(counted)}"]
    if any(count > counted.least for row in counted.counts for count in row):
        which = f"warp {warp}, instruction {instruction}" if counted.group.warps > 1 else f"instruction {instruction}"
        lines.append(f"             the worst phase: {which}, {phase}")
    return lines


def _summary(counted: Counted) -> str:
    group, every = counted.group, [count for row in counted.counts for count in row]
    each = str(every[0]) if min(every) == max(every) else f"{min(every)} to {max(every)}"
    free = "conflict-free" if max(every) <= counted.least else f"{counted.least} is the least"
    warps = f", {sum(every)} in all {group.warps} warps" if group.warps > 1 else f", {sum(every)} in all"
    wavefronts = "wavefront" if each == "1" else "wavefronts"
    instructions = f"{group.instructions} of {8 * group.width} bits a lane"
    return f"{instructions}: {each} {wavefronts} each ({free}){warps}"


def as_json(cost: Cost) -> dict[str, Any]:
    """All of it as JSON; wavefronts by warp and instruction."""
    return {
        "target": cost.title,
        "instructions": [_object(counted) for counted in cost.counted],
        "widest": None if cost.widest is None else {"bits": 8 * cost.widest.bytes, "why": cost.widest.why},
        "widest_instructions": None if cost.widest_counts is None else _object(cost.widest_counts),
        "suggested": None
        if (s := cost.suggested) is None
        else {
            "bytes": str(s.swizzle),
            "elements": s.elements,
            "wavefronts": s.after,
            "now": s.now,
            "without": s.before,
            "among": s.among,
        },
        "note": cost.remark or None,
    }


def _object(counted: Counted) -> dict[str, Any]:
    _, _, phase = counted.worst
    return {
        "op": counted.group.op,
        "width_bytes": counted.group.width,
        "count": counted.group.instructions,
        "warps": counted.group.warps,
        "least": counted.least,
        "wavefronts": [list(row) for row in counted.counts],
        "total": sum(map(sum, counted.counts)),
        "worst_phase": {"lanes": list(phase.lanes), "bank": phase.bank, "words": list(phase.words)},
    }
