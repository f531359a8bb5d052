"""A buffer that serves several handoffs, as text that can be pasted and as JSON."""

from __future__ import annotations

from typing import Any

from layoutlab.derive.code import HEAD, apart
from layoutlab.derive.core import Derived, derive
from layoutlab.derive.free import Freed
from layoutlab.derive.pieces import Piece
from layoutlab.derive.report import remark

OTHERS = 4
"""Buffers that serve as well, or at more cost, that are listed."""


def report(found: Freed) -> str:
    """The buffer of least cost with both sides' code; what else serves; what blocks the others."""
    lines = [f"# {h}" for h in found.asked]
    lines += remark("One buffer of shared memory for all that write and read it.")
    if not found.served:
        lines += ["#", *_blocked(found), "#", *remark(_none(found))]
        return "\n".join(lines)
    first = found.served[0]
    lines += ["#", *remark(f"{first.name}: {first.wavefronts} wavefronts in all", "  ")]
    lines += remark(first.layout, "    ")
    lines += [line for name, count in first.parts for line in remark(f"{name}: {count}", "    ")]
    for other in found.served[1 : 1 + OTHERS]:
        lines += remark(f"{other.name}: {other.wavefronts} wavefronts in all", "  ")
    lines += [*_blocked(found), "#", *remark("Proved for each handoff: covered, placed, exclusive, inside, legal."), ""]
    pieces = _pieces(found)
    lines += [*HEAD, *dict.fromkeys(line for piece in pieces for line in piece.imports)]
    users = dict[str, list[str]]()
    for piece in pieces:
        users.setdefault(piece.code.rstrip("\n"), []).append(piece.handoff.name)
    for code, names in users.items():
        of = remark(f"Of {' and '.join(dict.fromkeys(names))}:") if len(found.asked) > 1 else []
        lines += ["", "", *of, code]
    return "\n".join(lines)


def _blocked(found: Freed) -> list[str]:
    return [line for name, why in found.blocked.items() for line in remark(f"not {name}: {why}" if name else why, "  ")]


def _none(found: Freed) -> str:
    if found.verdict == "unsupported":
        return "unsupported: no buffer is searched for these handoffs"
    return "none: no buffer serves all of them"


def _sides(found: Freed) -> list[Derived]:
    """Each handoff's writer and reader over the buffer of least cost."""
    served = found.served[0].handoffs
    return [derive(h, side) for h in served for side in ("writer", "reader")]


def _pieces(found: Freed) -> list[Piece]:
    """The code of both sides; functions of one name that differ are called after their handoff as well."""
    taken, pieces = dict[str, str](), list[Piece]()
    for derived in _sides(found):
        forms = derived.pieces if derived.side == "writer" else derived.pieces[:1]
        for piece in forms:
            code = apart(piece.code, derived.handoff.name, taken)
            pieces.append(Piece(piece.form, piece.doc, code, piece.handoff, piece.facts, piece.imports))
    return pieces


def as_json(found: Freed) -> dict[str, Any]:
    """All of it as JSON."""
    return {
        "handoffs": [{"handoff": h.name, "params": dict(h.params)} for h in found.asked],
        "verdict": found.verdict,
        "served": [
            {"buffer": s.name, "layout": s.layout, "wavefronts": s.wavefronts, "accesses": dict(s.parts)}
            for s in found.served
        ],
        "blocked": dict(found.blocked),
        "forms": [
            {"handoff": p.handoff.name, "form": p.form, "code": p.code, "imports": [*HEAD, *p.imports], **p.facts}
            for p in (_pieces(found) if found.served else [])
        ],
    }
