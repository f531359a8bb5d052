"""The check of one subject against its golden, and what is said when it is another function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.guard.change import Change, changes, renotated
from layoutlab.guard.golden import Golden, load, path_of
from layoutlab.guard.subject import Subject, subject_of
from layoutlab.handoff.verdict import Refuted

OF_A_NEW_HANDOFF = ("covered", "placed", "injective", "inside")
"""What a handoff has to be before a golden is made of it."""


@dataclass
class Guard:
    """Goldens in one folder: `remarks` collects what passed and is worth saying, `used` the files that were checked."""

    folder: Path
    update: bool = False
    used: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def check(self, name: str, what: Any, *, invariants: Iterable[str] | None = None) -> None:
        """Raises Refuted unless `what` is the function that the golden `name` keeps, and its invariants hold.

        `what` is a layout, a thread-value map, a tiled copy, an MMA, a handoff, a trace, a dict of those, the text that
        a kernel printed, or a live CuTe DSL object. Another notation of the same function passes with a remark.
        `invariants` names those to hold (injective; of a handoff also covered, placed, inside, legal); by default
        those that held when the golden was recorded, and for a new handoff all but legal.
        """
        __tracebackhide__ = True  # pytest ends the traceback at the test's own line
        subject = subject_of(what)
        path = path_of(self.folder, name)
        self.used.append(path.name)
        golden = load(path) if path.exists() else None
        if golden is not None and golden.name != name:
            raise LayoutError(f"{path} is the golden of {golden.name!r}: {name!r} needs a name with other letters")
        broken = _broken(subject, _required(subject, golden, invariants))
        picture = path.with_suffix(".change.svg")
        if golden is None:
            self._new(name, subject, path, broken)
            return
        found = changes(golden.subject, subject)
        if golden.subject.kind != subject.kind:
            said = f"it was a {golden.subject.kind}, it is a {subject.kind}"
            found.insert(0, Change(name, "another kind of thing", said, None, 0))
        if broken or (found and not self.update):
            raise Refuted(_refusal(name, path, golden.subject, subject, found, broken, picture, self.update))
        picture.unlink(missing_ok=True)
        if self.update and Golden(name, subject).text() != golden.text():
            Golden(name, subject).write(path)
            told = [str(change) for change in found] or ["the same function in another notation"]
            self.remarks.append("\n".join([f"{name}: golden rewritten: {path}", *(f"  {line}" for line in told)]))
            return
        for part, old, new in renotated(golden.subject, subject):
            label = name if part in (name, subject.kind) else f"{name} {part}"
            self.remarks.append(f"{label}: the same function in another notation: was {old}, is {new}")

    def _new(self, name: str, subject: Subject, path: Path, broken: Mapping[str, str]) -> None:
        __tracebackhide__ = True
        if broken:
            faults = "".join(f"\n  {rule} does not hold: {fault}" for rule, fault in broken.items())
            raise Refuted(f"{name} makes no golden:{faults}")
        if not self.update:
            raise Refuted(f"{name} has no golden {path}: run pytest with --layout-update to record it")
        Golden(name, subject).write(path)
        self.remarks.append(f"{name}: golden written: {path}")


def _required(subject: Subject, golden: Golden | None, asked: Iterable[str] | None) -> list[str]:
    if asked is not None:
        names = list(asked)
        for name in names:
            if name not in subject.invariants:
                there = ", ".join(subject.invariants) or "none"
                raise LayoutError(f"a {subject.kind} has no invariant {name!r} (there are: {there})")
        return names
    if golden is not None:
        return [name for name in golden.subject.invariants if name in subject.invariants]
    return [name for name in OF_A_NEW_HANDOFF if name in subject.invariants] if subject.kind == "handoff" else []


def _broken(subject: Subject, names: Iterable[str]) -> dict[str, str]:
    return {name: subject.invariants[name] for name in names if subject.invariants[name]}


def _refusal(
    name: str,
    path: Path,
    old: Subject,
    new: Subject,
    found: list[Change],
    broken: Mapping[str, str],
    picture: Path,
    update: bool,
) -> str:
    lines = [f"{name} is not the function that its golden keeps ({path})" if found else f"{name} broke an invariant"]
    notations = ({f.name: f.notation for f in s.functions} for s in (old, new))
    was, now = notations
    for change in found:
        lines.append(f"  {change}")
        if was.get(change.name) != now.get(change.name):
            lines += [f"    was {was.get(change.name, 'nothing')}", f"    is  {now.get(change.name, 'nothing')}"]
    for rule, fault in broken.items():
        kept = " (enforced while updating too; give invariants=(...) without it to drop it)" if update else ""
        lines.append(f"  {rule} no longer holds: {fault}{kept}")
    shown = next((change for change in found if change.at is not None), None)
    if shown is not None and _drawn(shown, picture):
        lines.append(f"  before and after: {picture}")
    if found and not update:
        lines.append("  if this is meant, run pytest with --layout-update")
    return "\n".join(lines)


def _drawn(change: Change, picture: Path) -> bool:
    from layoutlab.guard.picture import write_picture

    try:
        return write_picture(change, picture)
    except OSError:  # a read-only checkout: the sentences are there all the same
        return False
