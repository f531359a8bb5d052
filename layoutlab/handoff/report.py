"""The report of a verdict: the maps and where each came from, a line for each claim, the cost, the verdict last."""

from __future__ import annotations

from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.verdict import Claim, Verdict
from layoutlab.handoff.writer import Writer

NOT_CHECKED = "ordering (proxy fences, mbarriers, tcgen05 waits)"
WARP = 32
WAVEFRONT_BYTES = 128


def report(verdict: Verdict) -> str:
    """All of it as text, for people."""
    h: Handoff = verdict.handoff
    lines = [str(h), *([f"  {h.doc.splitlines()[0]}"] if h.doc else []), "", *_maps(h), ""]
    for claim in verdict.claims:
        lines += _claim_lines(claim, verdict)
    lines += ["", f"  cost       {cost_line(h.writer)}", f"  not checked: {NOT_CHECKED}", "", last_line(verdict)]
    return "\n".join(lines)


def _maps(h: Handoff) -> list[str]:
    threads, values = h.writer.owner.places.axes["t"], h.writer.owner.places.axes["v"]
    flat, weight = list[str](), 1
    for axis, extent in h.tile.extents.items():
        flat.append(axis if weight == 1 else f"{weight} {axis}")
        weight *= extent
    rows = [
        ("tile", str(h.tile), ""),
        ("owner", f"{h.writer.owner}   (T{threads},V{values}) -> {' + '.join(flat)}", h.writer.owner.source),
        ("storage", f"{h.writer.storage.name} = {h.writer.storage.spoken()}", ""),
        ("write", f"{h.writer.bits}-bit stores {h.writer.route}", h.writer.source),
        ("read", h.reader.text, h.reader.source),
    ]
    return [f"  {name:<8} {text}" + (f"   [{source}]" if source else "") for name, text, source in rows]


def _claim_lines(claim: Claim, verdict: Verdict) -> list[str]:
    count = f"{claim.checked} rules" if claim.method == "rules" else f"{claim.checked} elements"
    computed = f", {claim.evaluated} points computed" if claim.evaluated else ""
    method = "" if claim.method == "rules" else f"{claim.method}, "
    why = f" ({claim.why})" if claim.why and claim.method != "rules" else ""
    lines = [f"  {claim.name:<10} {claim.verdict:<9} {method}{count}{computed}{why}"]
    if claim.witness:
        lines.append(f"    {claim.witness.message}")
    if claim.method == "rules" and claim.verdict == "refuted" and claim.why:
        lines.append(f"    {claim.why}")
    if claim.name == "placed" and claim.verdict == "refuted":
        lines += [f"    {sentence}" for sentence in verdict.explanation]
    return lines


def last_line(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    took = f"{verdict.seconds * 1e3:.2f} ms"
    if verdict.proved:
        return f"proved in {took}: every element of {verdict.handoff.tile.name} lands where it is read"
    names = ", ".join(c.name for c in verdict.claims if c.verdict == verdict.verdict)
    return f"{verdict.verdict} in {took}: {names}"


def cost_line(writer: Writer) -> str:
    """What the route's stores cost a warp, by the instruction that it emits."""
    try:
        counts = store_wavefronts(writer)
    except LayoutError as error:
        return f"{writer.bits}-bit stores: not counted, {error}"
    least = max(1, WARP * writer.bits // 8 // WAVEFRONT_BYTES)
    each = str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    clean = "conflict-free" if max(counts) == least else f"{least} is the least"
    wavefronts = "wavefront" if each == "1" else "wavefronts"
    return f"{len(counts)} stores of {writer.bits} bits a thread, {each} {wavefronts} each for a warp ({clean})"


def store_wavefronts(writer: Writer) -> list[int]:
    """The wavefronts of each store instruction of the first warp, in the order of its values."""
    from layoutlab.cost import wavefronts

    count = writer.bits // writer.tile.bits
    if writer.bits % 8 or not count or writer.write.axes["t"] < WARP:
        raise LayoutError(f"a warp of 32 threads stores whole bytes, not {writer.bits} bits each")
    found = []
    for v in range(0, writer.write.axes["v"] - count + 1, count):
        bits = [int(writer.write.at(t=t, v=v)["bit"]) for t in range(WARP)]
        found.append(wavefronts([b // 8 for b in bits], writer.bits // 8, "store"))
    return found


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The model's part of the JSON report."""
    return {
        "handoff": verdict.handoff.name,
        "params": dict(verdict.handoff.params),
        "verdict": verdict.verdict,
        "claims": [claim.json() for claim in verdict.claims],
        "seconds": verdict.seconds,
    }
