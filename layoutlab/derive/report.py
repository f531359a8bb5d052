"""What was derived as text: a module of Python whose remarks say what was proved, and as JSON.

>>> from layoutlab.catalogue import sP
>>> from layoutlab.derive.core import derive
>>> print(report(derive(sP(kv=64))).splitlines()[6])
# Proved for each of them, covered, placed, exclusive, inside and legal: a tiled copy, a store by coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from layoutlab.derive.code import HEAD, apart
from layoutlab.derive.core import Derived
from layoutlab.handoff.report import map_rows

WIDTH = 118
NAMES = {
    "cotiled_copy": "a tiled copy",
    "coordinate": "a store by coordinates",
    "stmatrix": "stmatrix",
    "tmem_copy": "tcgen05.st",
    "tma_load": "TMA",
    "tma_store": "the TMA store",
    "registers": "the registers as they are",
    "mma": "the MMA",
}


def report(found: Derived, taken: dict[str, str] | None = None) -> str:
    """All of it; where there is something to paste, the whole text is a module that can be imported.

    `taken` notes the functions of other reports in the same module, so that none replaces another.
    """
    taken = {} if taken is None else taken
    h = found.handoff
    other = "reader" if found.side == "writer" else "writer"
    lines = [f"# {h}", *remark(f"The {found.side} that the {other} needs, from that and the owner alone.")]
    kept = ("tile", "owner", "read") if found.side == "writer" else ("tile", "owner", "storage", "write")
    rows = [(name, text) for name, text in map_rows(h) if name in kept]
    lines += [f"#   {name:<8} {text}" for name, text in rows]
    if found.pieces:
        more = dict.fromkeys(line for piece in found.pieces for line in piece.imports)
        lines += ["#", *remark(_proved(found)), "", *HEAD, *more]
    for piece in found.pieces:
        lines += ["", "", apart(piece.code, h.name, taken).rstrip("\n")]
    if found.refusals and (found.side == "writer" or not found.pieces):
        lines += ["", ""] if found.pieces else ["#"]
        for form, why in found.refusals.items():
            lines += remark(f"Not {NAMES.get(form, form)}: {why}." if form else f"None is derived: {why}.")
    if not found.pieces:
        lines += ["#", *remark(_none(found))]
    return "\n".join(lines)


def _proved(found: Derived) -> str:
    forms = ", ".join(NAMES.get(piece.form, piece.form) for piece in found.pieces)
    return f"Proved for each of them, covered, placed, exclusive, inside and legal: {forms}."


def _none(found: Derived) -> str:
    if found.verdict == "unsupported":
        return f"unsupported: no {found.side} is derived for this handoff"
    return f"none: no {found.side} of the forms that are derived makes this handoff right"


def remark(text: str, indent: str = "") -> list[str]:
    """A text as remarks of Python, no wider than a line."""
    wrapped = wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return [f"# {indent}{'  ' * (i > 0 and bool(indent))}{line}" for i, line in enumerate(wrapped)]


def as_json(found: Derived) -> dict[str, Any]:
    """All of it as JSON."""
    return {
        "handoff": found.handoff.name,
        "params": dict(found.handoff.params),
        "side": found.side,
        "verdict": found.verdict,
        "forms": [
            {"form": p.form, "remarks": list(p.doc), "imports": [*HEAD, *p.imports], "code": p.code, **p.facts}
            for p in found.pieces
        ],
        "refusals": dict(found.refusals),
    }


def joined(found: Sequence[Derived]) -> str:
    """Several reports below each other, as one module."""
    taken = dict[str, str]()
    return "\n\n\n".join(report(one, taken) for one in found)
