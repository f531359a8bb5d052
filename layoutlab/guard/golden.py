"""Goldens: a subject as a small file beside its test, written so that a person can read it and a diff shows what moved.

>>> from layoutlab.guard.subject import subject_of
>>> golden = Golden("pair", subject_of("(4,2):(2,1)"))
>>> print(golden.text())
layoutlab golden 1: pair
kind      layout
holds     injective
<BLANKLINE>
[layout]
notation  (4,2):(2,1)
shape     4 2
digest    6ed66ea5923321f7
axes  i 2^3
at    = i[4] + 2 i[1] + 4 i[2]
<BLANKLINE>
>>> read_golden(golden.text(), "pair.txt").subject.functions[0].at(i=3)
{'at': 6}
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from layoutlab.errors import LayoutError
from layoutlab.guard.function import Function, read
from layoutlab.guard.subject import Subject

VERSION = 1
FOLDER = "goldens"
SUFFIX = ".txt"


@dataclass(frozen=True, eq=False)
class Golden:
    """A subject under the name that its test gives it."""

    name: str
    subject: Subject

    def text(self) -> str:
        """The file's text; `holds` are the invariants that held when it was recorded."""
        s = self.subject
        lines = [f"layoutlab golden {VERSION}: {self.name}", f"kind      {s.kind}"]
        lines += [f"about     {s.about}"] if s.about else []
        lines.append(f"holds     {', '.join(name for name, fault in s.invariants.items() if not fault) or 'nothing'}")
        for f in s.functions:
            lines += ["", f"[{f.name}]", f"notation  {_one_line(f.notation)}"]
            lines += [f"unit      {f.unit}"] if f.unit else []
            lines += [f"shape     {' '.join(map(str, f.shape))}"] if f.shape else []
            lines += [f"digest    {f.digest}", f.text()]
        if s.texts:
            lines += ["", "[texts]", *(f"{name} = {json.dumps(text)}" for name, text in s.texts.items())]
        return "\n".join([*lines, ""])

    def write(self, path: Path) -> None:
        """Writes the file whole, also where several processes write the same one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as file:
            file.write(self.text())
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def path_of(folder: Path, name: str) -> Path:
    """The file of a name: letters that file systems refuse become `_`.

    >>> path_of(Path("goldens"), "p tile/64").name
    'p_tile_64.txt'
    """
    if not name.strip():
        raise LayoutError("a golden needs a name")
    return folder / (re.sub(r"[^\w.=+-]", "_", name) + SUFFIX)


def load(path: Path) -> Golden:
    """The golden of a file."""
    return read_golden(path.read_text(encoding="utf-8"), str(path))


def is_golden(text: str) -> bool:
    """Whether a text is a golden's."""
    return text.startswith("layoutlab golden ")


def read_golden(text: str, where: str) -> Golden:
    """The golden that a text is; refuses one that is damaged: a function that does not have its digest."""
    head, *sections = re.split(r"^\[(.+)\]\n", text, flags=re.M)
    first = re.match(r"layoutlab golden (\d+): (.+)\n", head)
    if first is None:
        raise LayoutError(f"{where} is no golden: its first line says so")
    if int(first[1]) != VERSION:
        raise LayoutError(f"{where} is a golden of version {first[1]}, and this layoutlab reads version {VERSION}")
    fields = _fields(head)
    functions, texts = list[Function](), dict[str, str]()
    for name, body in zip(sections[::2], sections[1::2], strict=True):
        if name == "texts":
            texts = {
                key: json.loads(value) for key, _, value in (line.partition(" = ") for line in body.split("\n") if line)
            }
        else:
            functions.append(_function(name, body, where))
    holds = {} if fields.get("holds") == "nothing" else dict.fromkeys(fields.get("holds", "").split(", "), "")
    return Golden(first[2], Subject(fields.get("kind", ""), functions, texts, holds, fields.get("about", "")))


_FIELD = re.compile(r"(notation|unit|shape|digest|kind|about|holds)\s+(.*)")


def _fields(text: str) -> dict[str, str]:
    return {m[1]: m[2] for m in map(_FIELD.fullmatch, text.split("\n")) if m}


def _function(name: str, body: str, where: str) -> Function:
    lines = [line for line in body.strip().split("\n") if line]
    fields = _fields("\n".join(lines))
    table = "\n".join(line for line in lines if not _FIELD.fullmatch(line))
    try:
        shape = tuple(map(int, fields.get("shape", "").split()))
        f = read(name, fields["notation"], table, fields.get("unit", ""), shape)
    except (KeyError, ValueError) as error:
        raise LayoutError(f"{where}: [{name}] is damaged: {error}") from None
    except LayoutError as error:
        raise LayoutError(f"{where}: [{name}] is damaged: {error}") from None
    if f.digest != fields.get("digest"):
        raise LayoutError(
            f"{where}: [{name}] is damaged: its table has the digest {f.digest}, not {fields.get('digest')}; "
            "goldens are written by --layout-update, not by hand"
        )
    return f
