"""What is wrong, in one plain sentence each, from the difference of the write map and the read map."""

from __future__ import annotations

from layoutlab.handoff.claims import Question


def explain(q: Question) -> tuple[str, ...]:
    return ()
