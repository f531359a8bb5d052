"""The README's own examples: its files are written, its commands run, and what it shows is what they print.

A `console` block is commands after `$ ` and what they print; a line of `...` stands for any lines, `...` inside
a line for any text. A comment `<!-- file: NAME -->` before a block makes that block a file of this name. The set-up
line runs in a fresh environment, behind the marker `slow`; the test line is what runs all of this.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Example:
    command: str
    expected: str


def blocks(text: str) -> list[tuple[str, str, str]]:
    """(note, language, body) of each fenced block."""
    return [(m["note"] or "", m["language"], m["body"]) for m in BLOCK.finditer(text)]


def files(text: str) -> dict[str, str]:
    return {note.removeprefix("file: "): body for note, _, body in blocks(text) if note.startswith("file: ")}


def examples(text: str) -> list[Example]:
    found = []
    for note, language, body in blocks(text):
        if language == "console" and note not in ("setup", "tests"):
            for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
                command, _, expected = part.partition("\n")
                found.append(Example(command, expected))
    return found


def agrees(expected: str, printed: str) -> bool:
    """Whether the output is what the README shows, `...` standing for anything."""
    lines = [re.escape(line.rstrip()).replace(r"\.\.\.", ".*") for line in expected.rstrip().split("\n")]
    pattern = "\n".join("(?:.*\n)*?.*" if line == ".*" else line for line in lines)
    tidy = "\n".join(line.rstrip() for line in printed.rstrip().split("\n"))
    return re.fullmatch(pattern, tidy) is not None


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the README's files in it."""
    made = tmp_path_factory.mktemp("readme")
    for name, body in files(README).items():
        (made / name).write_text(body)
    return made


@pytest.mark.parametrize("example", examples(README), ids=lambda e: e.command)
def test_example(example: Example, folder: Path) -> None:
    printed = run(example.command, folder)
    assert agrees(example.expected, printed), f"$ {example.command}\n{printed}"


def test_the_readme_has_examples() -> None:
    assert len(examples(README)) >= 5
    assert files(README)


def test_a_wrong_output_is_seen() -> None:
    assert agrees("a\n...\nd 1 ... 3\n", "a\nb\nc\nd 1 2 3\n")
    assert not agrees("a\n...\nd 1 ... 4\n", "a\nb\nc\nd 1 2 3\n")
    assert not agrees("a\n", "a\nb\n")


@pytest.mark.slow
def test_setup_line_in_a_fresh_environment(tmp_path: Path) -> None:
    (line,) = [body.strip() for note, _, body in blocks(README) if note == "setup"]
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "layoutlab")], check=True)
    result = subprocess.run(line, shell=True, cwd=tmp_path / "layoutlab", capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "\nproved in " in result.stdout
