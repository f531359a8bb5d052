"""Candidate: a change of one side, or of both together, that may make a handoff right, and its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from layoutlab.errors import LayoutError
from layoutlab.handoff.claims import Question
from layoutlab.handoff.reader import Reader
from layoutlab.handoff.writer import Writer

T = TypeVar("T")
Changes = tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """What would be changed, in words, one for each change; and the side that it makes."""

    changes: Changes
    writer: Writer | None = None
    reader: Reader | None = None
    twins: tuple[Candidate, ...] = ()
    """Others that the same words promise, which have to prove too."""
    kind: str = ""
    """Of several that cure and are of one kind the first is enough."""

    def applied(self, q: Question) -> Question:
        """The handoff with the change."""
        return replace(q, writer=self.writer or q.writer, reader=self.reader or q.reader)


def attempt(make: Callable[..., T], *arguments: Any, **options: Any) -> T | None:
    """What can be made; None where it is refused."""
    try:
        return make(*arguments, **options)
    except LayoutError:
        return None
