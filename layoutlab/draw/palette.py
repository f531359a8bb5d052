"""Palettes: fills that people with any colour vision tell apart, and greys for print.

Every fill is light enough for black text (a contrast of 7 to 1 and more). Colours repeat after the last one, so colour
alone never carries a fact: the labels in the cells do.

>>> PALETTES["safe"].fill(0) == PALETTES["safe"].fill(8)
True
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutlab.errors import LayoutError


@dataclass(frozen=True)
class Palette:
    """Fills, and how a wrong element, an arrow and the lines are drawn."""

    name: str
    fills: tuple[str, ...]
    wrong: str
    line: str = "#8a8a8a"
    heavy: str = "#333"

    def fill(self, kind: int) -> str:
        """The fill of the `kind`-th class."""
        return self.fills[kind % len(self.fills)]


# Tints of Okabe and Ito's eight, moved apart in lightness; the tests simulate three kinds of colour vision over them.
_SAFE = ("#8fc9f2", "#f8c471", "#f6f1a1", "#79c9a4", "#b7b4f5", "#f3f3f3", "#e79f9f", "#bcbcbc")
_MONO = ("#ffffff", "#dcdcdc", "#b8b8b8", "#f0f0f0", "#cacaca", "#a6a6a6")

PALETTES = {p.name: p for p in (Palette("safe", _SAFE, wrong="#c00000"), Palette("mono", _MONO, wrong="#000000"))}


def palette(name: str) -> Palette:
    """The palette of that name.

    >>> palette("rainbow")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: there is no palette rainbow: safe, mono
    """
    if name not in PALETTES:
        raise LayoutError(f"there is no palette {name}: {', '.join(PALETTES)}")
    return PALETTES[name]
