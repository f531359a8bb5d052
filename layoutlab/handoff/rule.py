"""Rule: one thing that the hardware asks of a handoff, and whether it is so."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """What is asked, and the fault where it is not so: a sentence in the user's numbers, or None.

    >>> Rule("a descriptor starts at a multiple of 16 bytes", None).fault is None
    True
    """

    asked: str
    fault: str | None
