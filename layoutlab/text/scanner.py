"""Scanner: a text, a position in it, and errors that point at the place.

>>> s = Scanner("(8,64)")
>>> s.take("("), s.match(r"[0-9]+").group(), s.take(":")
(True, '8', False)
>>> print(s.expected("':'"))
expected ':' at column 3, found ','
  (8,64)
    ^
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NoReturn

from layoutlab.errors import LayoutError

MAX_DEPTH = 64
"""Brackets nested deeper than this are refused: no layout has so many levels, and a recursion must end somewhere."""

_WINDOW = 72
"""Characters of a long line that an error shows."""

_BLANKS = re.compile(r"\s*")
_OPEN, _CLOSE = "([{", ")]}"


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class Scanner:
    """Reads `text` from `pos` to `end`; blanks between the pieces do not count."""

    def __init__(self, text: str, pos: int = 0, end: int | None = None) -> None:
        self.text = text
        self.end = len(text) if end is None else end
        self.pos = pos
        self.depth = 0

    # -- reading ------------------------------------------------------------------------------------------------------

    def skip(self) -> int:
        """Moves over blanks; returns the position."""
        found = _BLANKS.match(self.text, self.pos, self.end)
        self.pos = found.end() if found else self.pos
        return self.pos

    def at_end(self) -> bool:
        """Whether only blanks are left."""
        return self.skip() >= self.end

    def at(self, literal: str) -> bool:
        """Whether the literal comes next."""
        return self.text.startswith(literal, self.skip(), self.end)

    def take(self, literal: str) -> bool:
        """Moves over the literal if it comes next."""
        found = self.at(literal)
        self.pos += len(literal) if found else 0
        return found

    def match(self, pattern: str) -> re.Match[str] | None:
        """Moves over what the pattern matches here, if it does."""
        found = _compiled(pattern).match(self.text, self.skip(), self.end)
        self.pos = found.end() if found else self.pos
        return found

    def peek(self, pattern: str) -> bool:
        """Whether something that the pattern matches comes next."""
        return _compiled(pattern).match(self.text, self.skip(), self.end) is not None

    def expect(self, literal: str, where: str = "") -> None:
        """Moves over the literal, or fails."""
        if not self.take(literal):
            self.fail(f"'{literal}'{where}")

    def balanced(self) -> str:
        """The text from a '(' to the ')' that closes it, both included, whatever stands between; or fails."""
        start, level, i = self.skip(), 0, self.pos
        while i < self.end:
            char = self.text[i]
            level += (char in _OPEN) - (char in _CLOSE)
            if char == '"':
                closing = self.text.find('"', i + 1, self.end)
                i = closing if closing > 0 else self.end
            i += 1
            if level <= 0:
                break
        if level or i == start:
            self.fail("a ')' that closes this '('" if i > start else "'('")
        self.pos = i
        return self.text[start:i]

    def deeper(self) -> None:
        """Counts one level of nesting; refuses at `MAX_DEPTH`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LayoutError(
                self.pointed(f"nested deeper than {MAX_DEPTH} levels, at {self.place(self.pos)}", self.pos)
            )

    # -- failing ------------------------------------------------------------------------------------------------------

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        """Raises the error of `expected`."""
        raise self.expected(what, at)

    def expected(self, what: str, at: int | None = None) -> LayoutError:
        """The error that `what` was expected here: what, where, what stands there instead, and a caret line."""
        at = self.skip() if at is None else at
        found = f"found {self.text[at]!r}" if at < self.end else "the text ends" if at >= len(self.text) else "it ends"
        return LayoutError(self.pointed(f"expected {what} at {self.place(at)}, {found}", at))

    def refused(self, why: object, at: int) -> LayoutError:
        """The error `why`, about the value that starts at `at`."""
        return LayoutError(self.pointed(shortened(str(why)), at))

    def place(self, at: int) -> str:
        """'column 3', or 'line 2, column 3' in a text of several lines; both count from 1."""
        line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        return f"line {line}, column {column}" if "\n" in self.text.strip("\n") else f"column {column}"

    def pointed(self, sentence: str, at: int) -> str:
        """The sentence, then the line of the text with a caret under position `at`."""
        start = self.text.rfind("\n", 0, at) + 1
        stop = self.text.find("\n", at)
        line = self.text[start : len(self.text) if stop < 0 else stop]
        column = at - start
        if len(line) > _WINDOW:
            cut = max(0, min(column - _WINDOW // 2, len(line) - _WINDOW))
            left, right = "..." if cut else "", "..." if cut + _WINDOW < len(line) else ""
            line, column = left + line[cut : cut + _WINDOW] + right, column - cut + len(left)
        shown = "".join(c if c.isprintable() else " " for c in line)
        return f"{sentence}\n  {shown}\n  {' ' * column}^"


def shortened(text: str, limit: int = 300) -> str:
    """The text with its middle left out where it is long.

    >>> shortened("0123456789" * 5, 20)
    '01234567 ... 3456789'
    """
    if len(text) <= limit:
        return text
    keep = limit - len(" ... ")
    return f"{text[: keep - keep // 2]} ... {text[len(text) - keep // 2 :]}"
