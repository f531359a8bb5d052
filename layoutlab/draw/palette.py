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
    halo: float = 0.4
    """How dense an arrow's shade under the labels is."""

    def fill(self, kind: int) -> str:
        """The fill of the `kind`-th class."""
        return self.fills[kind % len(self.fills)]


# Found by a search: in any of four kinds of colour vision, two of these are at least 20 apart in CIE L*a*b*.
_SAFE = ("#a4e8ff", "#f1d088", "#32a87a", "#87abd4", "#fff6c7", "#ab9b54", "#bcbdbd", "#dbfff2")
_MONO = ("#ffffff", "#c9c9c9", "#e3e3e3", "#959595", "#aeaeae")

PALETTES = {
    p.name: p for p in (Palette("safe", _SAFE, wrong="#960000"), Palette("mono", _MONO, wrong="#000000", halo=0.2))
}


def palette(name: str) -> Palette:
    """The palette of that name.

    >>> palette("rainbow")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: there is no palette rainbow: safe, mono
    """
    if name not in PALETTES:
        raise LayoutError(f"there is no palette {name}: {', '.join(PALETTES)}")
    return PALETTES[name]
