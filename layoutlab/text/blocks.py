"""Blocks of several lines: tiled copies, tiled MMAs and their atoms, as CuTe DSL and C++ print them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.text.grammar import read_value
from layoutlab.text.records import CopyAtom, MmaAtom, TiledCopy, TiledMma
from layoutlab.text.scanner import Scanner

_TITLES = {
    "tiledcopy": "Tiled Copy",
    "copyatom": "Copy Atom",
    "tiledmma": "Tiled MMA",
    "mmaatom": "MMA Atom",
    "thrcopy": "ThrCopy",
    "thrmma": "ThrMMA",
}

_FIELDS = {
    "tiler": ("Tiler MN",),
    "tv": ("TV Layout tiled", "TiledLayout_TV"),
    "thr": ("ThrID",),
    "src": ("TV Layout Src", "ValLayoutSrc"),
    "dst": ("TV Layout Dst", "ValLayoutDst"),
    "ref": ("TV Layout Ref", "ValLayoutRef"),
    "value_type": ("Value type",),
    "thr_vmnk": ("Thr Layout VMNK",),
    "permutation": ("Permutation MNK",),
    "shape_mnk": ("Shape MNK",),
    "a": ("TV Layout A", "LayoutA_TV"),
    "b": ("TV Layout B", "LayoutB_TV"),
    "c": ("TV Layout C", "LayoutC_TV"),
    "thread": ("ThrIdx", "Thr VMNK"),
}
"""The names that the DSL and C++ print for each field; case, blanks and underscores do not count."""


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "").replace("_", "")


_NAMES = {_plain(name): field for field, names in _FIELDS.items() for name in names}


def title_of(line: str) -> str | None:
    """The kind of block that a line opens; None where it opens none.

    >>> title_of("Tiled Copy"), title_of("  Copy_Atom"), title_of("(8,4):(4,1)")
    ('tiledcopy', 'copyatom', None)
    """
    plain = _plain(line)
    return plain if plain in _TITLES else None


def is_field(line: str) -> bool:
    """Whether a line is a field of a block, 'name: value'."""
    name, colon, _ = line.partition(":")
    return bool(colon) and _plain(name) in _NAMES


def read_block(s: Scanner) -> CopyAtom | TiledCopy | MmaAtom | TiledMma:
    """The block that starts here, with the atom that belongs to it."""
    sections: dict[str, dict[str, _Field]] = {}
    section: dict[str, _Field] | None = None
    while not s.at_end():
        start = s.pos
        stop = s.text.find("\n", start, s.end)
        stop = s.end if stop < 0 else stop
        line = s.text[start:stop]
        if title := title_of(line):
            section = sections.setdefault(title, {})
        elif section is None or ":" not in line:
            s.fail("a line 'name: value' or the title of a block")
        else:
            name, colon, _ = line.partition(":")
            field = _NAMES.get(_plain(name))
            if field is None:
                raise s.refused(f"'{name.strip()}' is no line of a printed copy or MMA", start)
            section[field] = _Field(s.text, start, start + len(name) + len(colon), stop)
        s.pos = stop
    return _built(s, sections)


class _Field:
    def __init__(self, text: str, start: int, pos: int, stop: int) -> None:
        self.start = start
        self._scanner = Scanner(text, pos, stop)

    def text(self) -> str:
        return self._scanner.text[self._scanner.skip() : self._scanner.end].strip()

    def value(self) -> Any:
        value = read_value(self._scanner)
        if not self._scanner.at_end():
            self._scanner.fail("the end of the line")
        return value

    def layout(self) -> Layout:
        at = self._scanner.skip()
        value = self.value()
        if not isinstance(value, Layout):
            raise self._scanner.refused("a layout, shape:stride, stands here in a printed copy or MMA", at)
        return value


def _built(s: Scanner, sections: Mapping[str, Mapping[str, _Field]]) -> CopyAtom | TiledCopy | MmaAtom | TiledMma:
    def part(title: str) -> Callable[[str], _Field]:
        def get(name: str) -> _Field:
            if title not in sections or name not in sections[title]:
                line, block = _FIELDS[name][0], _TITLES[title]
                raise LayoutError(f"the printed text has no line '{line}' under '{block}': was all of it pasted?")
            return sections[title][name]

        return get

    if "tiledcopy" in sections or "thrcopy" in sections:
        get = part("tiledcopy")
        return TiledCopy(get("tiler").value(), get("tv").layout(), _copy_atom(part("copyatom"), sections))
    if "copyatom" in sections:
        return _copy_atom(part("copyatom"), sections)
    if "tiledmma" in sections or "thrmma" in sections:
        get = part("tiledmma")
        return TiledMma(get("thr_vmnk").layout(), get("permutation").value(), _mma_atom(part("mmaatom")))
    return _mma_atom(part("mmaatom"))


def _copy_atom(get: Callable[[str], _Field], sections: Mapping[str, Mapping[str, _Field]]) -> CopyAtom:
    thr, src, dst = get("thr").layout(), get("src").layout(), get("dst").layout()
    ref = get("ref").layout() if "ref" in sections["copyatom"] else None
    return CopyAtom(thr, src, dst, ref, get("value_type").text())


def _mma_atom(get: Callable[[str], _Field]) -> MmaAtom:
    a, b, c = (get(name).layout() for name in "abc")
    return MmaAtom(get("thr").layout(), get("shape_mnk").value(), a, b, c)
