"""Change: what sets two versions of a function apart, in the words of the one who has to find the fault.

>>> from layoutlab.guard.function import of_tv
>>> from layoutlab.layout import Layout
>>> old, new = of_tv("tv", Layout((4, 2), (1, 4))), of_tv("tv", Layout((4, 2), (2, 1)))
>>> change = change_of(old, new)
>>> change.kind, change.moved, change.first
('same elements, other owner', 6, 'T0 V1 was 4, is 1')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.guard.function import MOST_VALUES, Function
from layoutlab.guard.subject import Subject, index_of, spoken_index, spoken_value

OTHER_OWNER, OTHER_BYTES = "same bytes, other owner", "same owner, other bytes"
OTHER_ELEMENTS_OWNER = "same elements, other owner"
OTHER_SWIZZLE, OTHER_ORDER, SHRUNK, GROWN = "other swizzle", "other order", "shrunk coverage", "grown coverage"
MOVED, OTHER_PLACES, OTHER_TEXT = "moved by a constant", "other places", "other text"


@dataclass(frozen=True)
class Change:
    """One function that changed: the kind, the first index that moved with both its locations, and how many moved.

    `moved` is None where the indices are too many to count, `at` the place of the first in counting order, None where
    the functions have other indices.
    """

    name: str
    kind: str
    first: str
    moved: int | None
    of: int
    at: int | None = None
    before: Function | None = None
    after: Function | None = None

    def __str__(self) -> str:
        count = "" if self.moved is None or not self.of else f"; {self.moved} of {self.of} moved"
        return f"{self.name}: {self.kind}: {self.first}{count}"


def change_of(old: Function, new: Function) -> Change | None:
    """What changed between two versions of one function; None where they are the same function."""
    if old.axes != new.axes or set(old.outputs) != set(new.outputs):
        return _other_domain(old, new)
    try:
        at = _first(old, new)
    except LayoutError as error:
        return Change(new.name, "not decided", str(error), None, old.size, None, old, new)
    if at is None:
        return None
    moved = None if old.size > MOST_VALUES else int(_moved(old, new).sum())
    first = f"{spoken_index(old, at)} was {_place(old, at)}, is {_place(new, at)}"
    return Change(new.name, _kind(old, new), first, moved, old.size, at, old, new)


def changes(old: Subject, new: Subject) -> list[Change]:
    """Every part that changed, the telling ones first; of a handoff its owner and its bytes are told apart."""
    found = list[Change]()
    before = {f.name: f for f in old.functions}
    after = {f.name: f for f in new.functions}
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            found.append(Change(name, SHRUNK, "it is gone", None, 0, None, before[name], None))
        elif name not in before:
            found.append(Change(name, GROWN, f"it is new: {after[name].notation}", None, 0, None, None, after[name]))
        elif change := change_of(before[name], after[name]):
            found.append(change)
    for name in [*old.texts, *(name for name in new.texts if name not in old.texts)]:
        was, now = old.texts.get(name, "nothing"), new.texts.get(name, "nothing")
        if was != now:
            found.append(Change(name, OTHER_TEXT, f"was {was}, is {now}", None, 0))
    return _of_handoff(before, after, found) if old.kind == new.kind == "handoff" else found


def renotated(old: Subject, new: Subject) -> list[tuple[str, str, str]]:
    """(name, old notation, new notation) of the functions that are written otherwise."""
    before = {f.name: f.notation for f in old.functions}
    return [
        (f.name, before[f.name], f.notation) for f in new.functions if f.name in before and before[f.name] != f.notation
    ]


def _other_domain(old: Function, new: Function) -> Change:
    shown = [", ".join(f"{axis} has {n}" for axis, n in f.axes.items()) for f in (old, new)]
    if set(old.outputs) != set(new.outputs):
        outputs = [", ".join(f.outputs) for f in (old, new)]
        return Change(new.name, OTHER_PLACES, f"it gave {outputs[0]}, it gives {outputs[1]}", None, 0, None, old, new)
    kind = SHRUNK if new.size < old.size else GROWN if new.size > old.size else "other indices"
    return Change(
        new.name, kind, f"{old.size} indices ({shown[0]}) are now {new.size} ({shown[1]})", None, 0, None, old, new
    )


def _first(old: Function, new: Function) -> int | None:
    """The place in counting order of the first index at which the two differ."""
    if (old.swizzle, old.plus) == (new.swizzle, new.plus):
        try:
            index = old.table.first_difference(new.table)
        except LayoutError:
            return _first_value(old, new)
        if index is None or old.swizzle is None:
            return None if index is None else _flat(old, index)
    return _first_value(old, new)


def _first_value(old: Function, new: Function) -> int | None:
    moved = _moved(old, new)
    return int(moved.argmax()) if moved.any() else None


def _moved(old: Function, new: Function) -> Any:
    import numpy as np

    return np.logical_or.reduce([old.values[out] != new.values[out] for out in old.outputs])


def _flat(f: Function, index: dict[str, int]) -> int:
    flat = 0
    for axis, extent in f.axes.items():
        flat = flat * extent + index[axis]
    return flat


def _place(f: Function, flat: int) -> str:
    return spoken_value(f, f.at(**index_of(f, flat)))


# -- kinds ------------------------------------------------------------------------------------------------------------


def _kind(old: Function, new: Function) -> str:
    """What kind of change it is: by the sets of values, by who has them, and by the form of the difference."""
    by_form = _by_form(old, new)
    if by_form in (OTHER_SWIZZLE, MOVED):
        return by_form
    if old.size > MOST_VALUES:
        return by_form or OTHER_PLACES
    was, now = _set(old), _set(new)
    if was == now:
        if list(old.axes) == ["t", "v"]:
            return OTHER_ORDER if _by_thread(old) == _by_thread(new) else OTHER_ELEMENTS_OWNER
        return OTHER_ORDER
    if now < was:
        return SHRUNK
    if was < now:
        return GROWN
    return OTHER_BYTES if "bit" in old.outputs else OTHER_PLACES


def _by_form(old: Function, new: Function) -> str:
    """The kind that the difference of the two tables tells; "" where it tells none."""
    from layoutlab.digits import aligned
    from layoutlab.handoff.difference import explain, form

    kinds = set[str]()
    try:
        now, was = aligned(new.table, old.table)
        for out in old.outputs:
            mine, theirs = form(now, new.swizzle, new.plus, out), form(was, old.swizzle, old.plus, out)
            kinds |= {d.kind for d in explain(mine, theirs)}
    except LayoutError:
        return ""
    (only,) = kinds if len(kinds) == 1 else ("",)
    return {"swizzle": OTHER_SWIZZLE, "offset": MOVED}.get(only, "")


def _rows(f: Function) -> Any:
    import numpy as np

    return np.stack([f.values[out] for out in sorted(f.outputs)], axis=1)


def _set(f: Function) -> set[tuple[int, ...]]:
    return set(map(tuple, _rows(f).tolist()))


def _by_thread(f: Function) -> list[list[list[int]]]:
    rows = _rows(f).reshape(f.axes["t"], f.axes["v"], -1)
    return [sorted(values.tolist()) for values in rows]


def _of_handoff(before: dict[str, Function], after: dict[str, Function], found: Sequence[Change]) -> list[Change]:
    """A handoff's changes: where (thread, value) owns another element of the same bytes, that is one change.

    `owner` says which element (t, v) holds and `write` where it goes. If each element still goes to its byte, then the
    owner changed and the bytes did not; if each (t, v) still holds its element, the bytes did.
    """
    named = {change.name: change for change in found}
    if "owner" in named and "write" in named and _same_bytes(before, after):
        owner = named["owner"]
        told = Change("owner", OTHER_OWNER, owner.first, owner.moved, owner.of, owner.at, owner.before, owner.after)
        return [told, *(change for name, change in named.items() if name not in ("owner", "write"))]
    if (
        "owner" not in named
        and "write" in named
        and named["write"].kind in (OTHER_ORDER, OTHER_ELEMENTS_OWNER, OTHER_PLACES)
    ):
        write = named["write"]
        named["write"] = Change(
            "write", OTHER_BYTES, write.first, write.moved, write.of, write.at, write.before, write.after
        )
    order = {"write": 0, "owner": 1, "read": 2}
    return sorted(named.values(), key=lambda change: order.get(change.name, 3))


def _same_bytes(before: dict[str, Function], after: dict[str, Function]) -> bool:
    """Whether every element goes where it went, whoever writes it."""
    if before["owner"].size > MOST_VALUES or after["owner"].size > MOST_VALUES:
        return False
    pairs = []
    for version in (before, after):
        elements, places = _rows(version["owner"]).tolist(), _rows(version["write"]).tolist()
        pairs.append({(*element, *place) for element, place in zip(elements, places, strict=True)})
    return pairs[0] == pairs[1]
