"""Report: a headline and labelled lines, wrapped for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_WIDTH = 118
_LABEL = 14


@dataclass
class Report:
    """What is said about one thing."""

    headline: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def add(self, label: str, text: str) -> None:
        """Adds a line; an empty label goes on with the one before."""
        self.lines.append((label, text))

    def extend(self, other: Report) -> None:
        """Adds another report's lines, without its headline."""
        self.lines.extend(other.lines)

    def __str__(self) -> str:
        from textwrap import wrap

        shown = wrap(self.headline, _WIDTH, break_long_words=False, break_on_hyphens=False)
        for label, text in self.lines:
            body = wrap(text, _WIDTH - _LABEL - 2, break_long_words=False, break_on_hyphens=False)
            labels = [label, *[""] * (len(body) - 1)]
            shown += [f"  {name:<{_LABEL}}{part}" for name, part in zip(labels, body, strict=True)]
        return "\n".join(shown)


def listed(items: Sequence[object], last: str = "and") -> str:
    """Items joined as in a sentence.

    >>> listed([1, 2, 3]), listed(["a"])
    ('1, 2 and 3', 'a')
    """
    shown = [str(item) for item in items]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}" if shown else "none"


def counted(n: object, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "mode"), counted(3, "mode")
    ('1 mode', '3 modes')
    """
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def first_few(items: Sequence[object], at_most: int) -> str:
    """The first items, and `...` where there are more.

    >>> first_few(range(4), 3)
    '0, 1, 2, ...'
    """
    return ", ".join([*map(str, items[:at_most]), *(["..."] if len(items) > at_most else [])])
