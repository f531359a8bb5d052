"""`layoutlab diff` of files: goldens, traces of two versions of a kernel, handoffs, what a kernel printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.guard import Subject, changes, subject_of
from layoutlab.guard.change import Change, renotated


def is_file(text: str) -> bool:
    """Whether an argument names a file, FILE.py:NAME included."""
    path = text.partition(".py:")[0] + ".py" if ".py:" in text else text
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a text that no file could be called
        return False


def run(args: Any) -> int:
    """Compares and prints: 0 the same functions, 1 others."""
    a, b = subject(args.a), subject(args.b)
    found, other = changes(a, b), renotated(a, b)
    verdict = "different" if found else "same"
    if args.json:
        from layoutlab.cli import stamp

        told = [
            {"name": c.name, "kind": c.kind, "first": c.first, "moved": c.moved, "of": c.of or None, "index": c.at}
            for c in found
        ]
        notations = [{"name": name, "a": old, "b": new} for name, old, new in other if not _changed(found, name)]
        print(json.dumps(stamp() | {"verdict": verdict, "changes": told, "renotated": notations}, indent=2))
        return int(bool(found))
    print(f"A  {args.a}: {_told(a)}\nB  {args.b}: {_told(b)}")
    for change in found:
        print(change)
    for name, old, new in other:
        if not _changed(found, name):
            print(f"{name}: the same function in another notation: A has {old}, B has {new}")
    print(verdict)
    return int(bool(found))


def _changed(found: list[Change], name: str) -> bool:
    return any(change.name == name for change in found)


def _told(s: Subject) -> str:
    parts = len(s.functions) + len(s.texts)
    return f"{s.kind} of {parts} parts" if parts != 1 else s.kind


def subject(text: str) -> Subject:
    """What an argument stands for: a file's content, or a text as `layoutlab diff` takes it."""
    if not is_file(text):
        from layoutlab.cli.diff import read

        return subject_of(read(text))
    if ".py" in text:
        return _handoffs(text)
    content = Path(text).read_text(encoding="utf-8")
    if content.lstrip().startswith("{"):
        return _trace(text, content)
    from layoutlab.guard.golden import is_golden, read_golden

    if is_golden(content):
        return read_golden(content, text).subject
    try:
        return subject_of(content.strip())
    except LayoutError as error:
        raise LayoutError(f"{text} is no golden, no trace, and no text of one layout: {error}") from error


def _trace(name: str, content: str) -> Subject:
    from layoutlab.tracing import Trace

    try:
        return subject_of(Trace.read(json.loads(content)))
    except json.JSONDecodeError as error:
        raise LayoutError(f"{name} is no JSON: {error}") from None


def _handoffs(target: str) -> Subject:
    from layoutlab.catalogue.files import find, made

    functions = find(target)
    if len(functions) == 1:
        return subject_of(made(functions[0], functions[0]))
    return subject_of({f.__name__: made(f, f) for f in functions})
