"""Rows of a table as JSON values, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from layoutlab.tracing.judge import Row


def told(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as JSON values."""
    return [
        {"buffer": r.buffer, "writer": r.writer, "reader": r.reader, "verdict": r.verdict, "why": r.why,
         "cost": r.cost, "places": list(r.places)}
        for r in rows
    ]  # fmt: skip


def read_rows(values: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows from JSON values."""
    return [Row(**{**v, "places": tuple(v["places"])}) for v in values]
