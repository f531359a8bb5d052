"""The report of a verdict: the maps and where each came from, a line for each claim, the cost, the verdict last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.places import Places
from layoutlab.handoff.storage import HARDWARE_PERIOD_BYTES, Smem
from layoutlab.handoff.verdict import Claim, Verdict
from layoutlab.handoff.writer import Writer

NOT_CHECKED = "ordering (proxy fences, mbarriers, tcgen05 waits)"
WARP = 32
WAVEFRONT_BYTES = 128
COUNTED = 1 << 16
"""Addresses that a report counts at most, over all threads and their stores."""


def report(verdict: Verdict) -> str:
    """All of it as text, for people."""
    h: Handoff = verdict.handoff
    lines = [str(h), *([f"  {h.doc.splitlines()[0]}"] if h.doc else []), "", *_maps(h), ""]
    explained = ("placed", "covered", "exclusive", "inside", "legal")
    first = next((c for c in explained if verdict[c].verdict == "refuted"), None)
    for claim in verdict.claims:
        lines += _claim_lines(claim)
        if claim.name == first:
            said = [*verdict.explanation, *(_sets(verdict) or _elsewhere(verdict))]
            lines += [f"    {sentence}" for sentence in said]
    lines += [f"  remark     {remark}" for remark in remarks(verdict)]
    lines += ["", f"  cost       {cost_line(h.writer)}", f"  not checked: {NOT_CHECKED}", "", last_line(verdict)]
    return "\n".join(lines)


def _sets(verdict: Verdict) -> list[str]:
    """The settings that make it right, as the command takes them."""
    if not verdict.sets:
        return []
    from layoutlab.handoff.sets import spoken

    said = any(line.startswith(("what would be right", "any of these")) for line in verdict.explanation)
    which = "of this handoff's settings" if said else "what would be right"
    return [f"{which}: {spoken(verdict.sets)}"]


def _elsewhere(verdict: Verdict) -> list[str]:
    """Where to look for what is right, if no change of one side was found to be."""
    h: Handoff = verdict.handoff
    cured = any(line.startswith(("what would be right", "any of these")) for line in verdict.explanation)
    if cured or verdict["placed"].verdict != "refuted" or "desc" not in h.reader.given:
        return []
    if not isinstance(h.writer.storage, Smem):
        return []
    return ["no change of one side alone was found: `layoutlab derive --free storage` searches the buffer's layout too"]


def remarks(verdict: Verdict) -> list[str]:
    """What is right here and would not be one setting further."""
    storage = verdict.handoff.writer.storage
    if not isinstance(storage, Smem) or storage.swizzles != "offsets" or verdict["placed"].verdict != "proved":
        return []
    period = min(storage.repeat_bytes, HARDWARE_PERIOD_BYTES)
    if period == 1:
        return []
    bites = "at others it is not what hardware reads"
    return [f"the writer swizzles offsets from its base: right at bases that {period} divides; {bites}"]


def _maps(h: Handoff) -> list[str]:
    return [f"  {name:<8} {text}" for name, text in map_rows(h)]


def map_rows(h: Handoff) -> list[tuple[str, str]]:
    """The maps of a handoff by name: tile, owner, storage, write and read, each with where it came from."""
    threads, values = h.writer.owner.places.axes["t"], h.writer.owner.places.axes["v"]
    flat, weight = list[str](), 1
    for axis, extent in h.tile.extents.items():
        flat.append(axis if weight == 1 else f"{weight} {axis}")
        weight *= extent
    counted = f"(T{threads},V{values})" if h.writer.owner.threaded else f"({threads},{values})"
    rows = [
        ("tile", str(h.tile), ""),
        ("owner", f"{h.writer.owner}   {counted} -> {' + '.join(flat)}", h.writer.owner.source),
        ("storage", f"{h.writer.storage.name} = {h.writer.storage.spoken()}", ""),
        ("write", h.writer.spoken(), h.writer.source),
        ("read", h.reader.text, h.reader.source),
    ]
    return [(name, text + (f"   [{source}]" if source else "")) for name, text, source in rows]


def _claim_lines(claim: Claim) -> list[str]:
    count = f"{claim.checked} rules" if claim.method == "rules" else f"{claim.checked} elements"
    computed = f", {claim.evaluated} points computed" if claim.evaluated else ""
    method = "" if claim.method == "rules" else f"{claim.method}, "
    why = f" ({claim.why})" if claim.why and claim.method != "rules" else ""
    lines = [f"  {claim.name:<10} {claim.verdict:<9} {method}{count}{computed}{why}"]
    if claim.witness:
        lines.append(f"    {claim.witness.message}")
    if claim.method == "rules" and claim.verdict == "refuted" and claim.why:
        lines.append(f"    {claim.why}")
    return lines


def last_line(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    took = f"{verdict.seconds * 1e3:.2f} ms"
    if verdict.proved:
        zeros = verdict.handoff.writer.zeros
        filled = f"; {zeros} of them are zeros from outside of the tensor" if zeros else ""
        return f"proved in {took}: every element of {verdict.handoff.tile.name} lands where it is read{filled}"
    names = ", ".join(c.name for c in verdict.claims if c.verdict == verdict.verdict)
    return f"{verdict.verdict} in {took}: {names}"


def cost_line(writer: Writer) -> str:
    """What the route's stores cost a warp, by the instruction that it emits, and the widest that could replace it.

    >>> from layoutlab.handoff import Tile, smem, store
    >>> P = Tile("P", m=128, k=64, bits=16)
    >>> cost_line(store("(128,64):(1,128)", smem("S<3,4,3> o 0 o (128,64):(64,1)", over=P), bits=128))
    '8 stores of 128 bits a thread, 4 wavefronts each for a warp (the least for 128 bits)'
    """
    if writer.rows is not None:
        from layoutlab.handoff.accesses import stored_matrices

        group = stored_matrices(writer)
        counts = [access.swizzled(group.swizzle) for access in group.of_warp(0)]
        free = "conflict-free" if max(counts) == int(group.op[-1]) else f"{group.op[-1]} is the least"
        return f"{len(counts)} {writer.unit} a warp, {_each(counts)} wavefronts each ({free})"
    if writer.unit:
        return f"no loads or stores of threads to count: {writer.unit}"
    if writer.space != "smem":
        return f"{writer.bits}-bit stores to Tensor Memory have no bank conflicts to count"
    threads, values = writer.write.axes["t"], writer.write.axes["v"]
    if threads * values * writer.tile.bits > COUNTED * writer.bits:
        return f"{writer.bits}-bit stores: not counted, {threads} threads of {values} values are too many"
    try:
        each, counts = _all_wavefronts(writer, writer.bits)
        text = _cost(writer.bits, each, counts)
        widest = widest_store(writer)
        if widest <= writer.bits:
            return text
        each, counts = _all_wavefronts(writer, widest)
    except LayoutError as error:
        return f"{writer.bits}-bit stores: not counted, {error}"
    return f"{text}; {widest}-bit: {each}, {_each(counts)} each ({_least(widest, counts)})"


def _cost(bits: int, stores: int, counts: list[int]) -> str:
    wavefronts = "wavefront" if _each(counts) == "1" else "wavefronts"
    each = f"{_each(counts)} {wavefronts} each for a warp ({_least(bits, counts)})"
    return f"{stores} stores of {bits} bits a thread, {each}"


def _all_wavefronts(writer: Writer, bits: int) -> tuple[int, list[int]]:
    """The stores of a thread, and the wavefronts of all warps' stores; a warp that is not full is left out."""
    warps = [store_wavefronts(writer, bits, warp) for warp in range(max(1, writer.write.axes["t"] // WARP))]
    return len(warps[0]), [count for warp in warps for count in warp]


def _each(counts: list[int]) -> str:
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _least(bits: int, counts: list[int]) -> str:
    least = max(1, WARP * bits // 8 // WAVEFRONT_BYTES)
    free = f"the least for {bits} bits" if least > 1 else "conflict-free"
    return free if max(counts) == least else f"{least} is the least for {bits} bits"


def widest_store(writer: Writer) -> int:
    """The most bits, up to 128, that a store may move: values that lie together at an aligned place in all threads."""
    widths = [bits for bits in (128, 64, 32, 16, 8) if bits > writer.bits]
    return next((bits for bits in widths if replace(writer, bits=bits).vector_rule().fault is None), writer.bits)


def store_wavefronts(writer: Writer, store_bits: int | None = None, warp: int = 0) -> list[int]:
    """The wavefronts of each store instruction of one warp, by default the first, in the order of its values."""
    from layoutlab.cost import wavefronts

    bits = store_bits or writer.bits
    count = bits // writer.tile.bits
    if bits % 8 or not count or writer.write.axes["t"] < WARP:
        raise LayoutError(f"a warp of 32 threads stores whole bytes, not {bits} bits each")
    if writer.write.axes["v"] < count:
        raise LayoutError(f"a thread has {writer.write.axes['v']} values, and a store moves {count}")
    found, bit = list[int](), bits_of(writer.write)
    for v in range(0, writer.write.axes["v"] - count + 1, count):
        starts = [bit(t, v) // 8 for t in range(WARP * warp, WARP * (warp + 1))]
        found.append(wavefronts(starts, bits // 8, "store"))
    return found


def bits_of(write: Places) -> Callable[[int, int], int]:
    """(t, v) -> bit, with each axis walked once where the function before its swizzle is a sum over the two.

    >>> from layoutlab.handoff import Tile, smem, store
    >>> P = Tile("P", m=128, k=64, bits=16)
    >>> write = store("(128,64):(1,128)", smem("S<3,4,3> o 0 o (128,64):(64,1)", over=P), bits=128).write
    >>> bits_of(write)(1, 8), write.at(t=1, v=8)
    (1024, {'bit': 1024})
    """
    plain, swizzle = (write.before, write.swizzle) if write.before and write.swizzle else (write, None)
    try:
        apart = all(len(term) <= 1 for term in plain.table.rows["bit"])
    except LayoutError:
        apart = False
    if not apart:
        return lambda t, v: int(write.at(t=t, v=v)["bit"])
    by_thread = [int(plain.at(t=t, v=0)["bit"]) for t in range(write.axes["t"])]
    by_value = [int(plain.at(t=0, v=v)["bit"]) - by_thread[0] for v in range(write.axes["v"])]
    if swizzle is None:
        return lambda t, v: by_thread[t] + by_value[v]
    return lambda t, v: int(swizzle(by_thread[t] + by_value[v])) + write.plus


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The model's part of the JSON report."""
    return {
        "handoff": verdict.handoff.name,
        "params": dict(verdict.handoff.params),
        "verdict": verdict.verdict,
        "claims": [claim.json() for claim in verdict.claims],
        "explanation": list(verdict.explanation),
        "cures": [dict(cure) for cure in verdict.sets],
        "seconds": verdict.seconds,
    }
