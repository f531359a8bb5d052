"""Sets: the least change of a handoff's settings that makes it right, verified, as `--set` has it.

>>> from layoutlab.catalogue import sP, tP
>>> from layoutlab.handoff import verify
>>> setting_cures(verify(sP(write_swizzle="none")))
({'write_swizzle': 'absolute'},)
>>> setting_cures(verify(tP(read_offset=0)))
({'read_offset': 32},)

A setting's value may be any that it lists, its default, another setting's number, or a neighbour that suits memory. The
tile is what the handoff is about, so it stays; and so do settings that are no part of the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from shlex import quote
from typing import Any

from layoutlab.handoff.claims import Question, decide
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.settings import Setting
from layoutlab.handoff.verdict import Verdict

ALIGNMENTS = (8, 16, 32, 128, 1024)
TRIED = 64
"""Handoffs that are made at most: each takes a proof."""


def setting_cures(verdict: Verdict) -> tuple[dict[str, Any], ...]:
    """The changes of settings that prove every claim, of the fewest settings; nothing where none does."""
    h: Handoff = verdict.handoff
    if verdict.proved or h.settings is None or h.settings.function is None:
        return ()
    back = [{name: value} for name, value in _defaults(h).items() if _proves(h, {name: value})]
    if back:
        return tuple(back)
    return tuple(_others(h)) or _several(h)


def _defaults(h: Handoff) -> dict[str, Any]:
    """The settings that are not at their defaults, and those."""
    assert h.settings is not None
    entries = [entry for entry in h.settings.entries if not entry.required]
    return {entry.name: entry.default for entry in entries if h.params[entry.name] != entry.default}


def _others(h: Handoff) -> Iterator[dict[str, Any]]:
    """Of each setting the first value that proves."""
    assert h.settings is not None
    tries = iter(range(TRIED))
    for entry in h.settings.entries:
        for value in _values(entry, h.params):
            if next(tries, None) is None:
                return
            if _proves(h, {entry.name: value}):
                yield {entry.name: value}
                break


def _several(h: Handoff) -> tuple[dict[str, Any], ...]:
    """The fewest settings that have to go back to their defaults together."""
    moved = _defaults(h)
    for count in range(2, min(4, len(moved)) + 1):
        found = [c for names in combinations(moved, count) if _proves(h, c := {n: moved[n] for n in names})]
        if found:
            return tuple(found)
    return ()


def _values(entry: Setting, params: Mapping[str, Any]) -> Iterator[Any]:
    """What a setting may be instead."""
    now = params[entry.name]
    others = list[Any]()
    if entry.choices:
        others += entry.choices
    elif entry.kind is bool:
        others += [True, False]
    elif entry.kind is int:
        others += [v for n, v in params.items() if n != entry.name and isinstance(v, int) and not isinstance(v, bool)]
        for align in ALIGNMENTS:
            others += [now // align * align, (now // align + 1) * align]
    for value in dict.fromkeys(others):
        if value != now:
            yield value


def _proves(h: Handoff, changes: Mapping[str, Any]) -> bool:
    """Whether the function with these settings hands over the same tile, and rightly."""
    assert h.settings is not None and h.settings.function is not None
    try:
        other = h.settings.function(**{**h.params, **changes})
        if not isinstance(other, Handoff) or other.tile != h.tile:
            return False
        question = Question(other.tile, other.writer, other.reader, other.live, other.around)
        return all(claim.verdict == "proved" for claim in decide(question))
    except Exception:  # a user's function may refuse in its own way what was never asked of it
        return False


def spoken(cures: tuple[dict[str, Any], ...]) -> str:
    """--set write_swizzle=absolute; or, where several do, each of them.

    >>> spoken(({"a": 1}, {"b": 2, "c": 3}))
    '--set a=1, or --set b=2 --set c=3'
    """
    return ", or ".join(" ".join(f"--set {quote(f'{n}={v}')}" for n, v in cure.items()) for cure in cures)
