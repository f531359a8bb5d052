"""A cache of JSON values in the user's cache folder: a trace is read back while nothing it came from has changed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where traces are kept: layoutlab/ in XDG_CACHE_HOME, or in ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "layoutlab"


def digest(*parts: object) -> str:
    """A key from JSON values, the same for the same values.

    >>> digest("a", {"x": 1, "y": 2}) == digest("a", {"y": 2, "x": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def source_digest(folders: Iterable[str | Path]) -> str:
    """A key from the Python sources of some folders."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(Path(folder).glob("*.py")):
            found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def load(key: str) -> Any | None:
    """The value kept under a key; None if there is none or its file is damaged."""
    try:
        return json.loads((cache_folder() / f"{key}.json").read_text())
    except (OSError, ValueError):
        return None


def store(key: str, value: Any) -> None:
    """Keeps a value; where the folder cannot be written nothing is kept, and the next caller computes again."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump(value, file)
        os.replace(file.name, folder / f"{key}.json")  # a reader sees the whole value or none
    except OSError:
        return
