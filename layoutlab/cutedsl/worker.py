"""The worker: a process that runs functions which import CuTe DSL, so that a crash of the DSL is one job's loss.

It reads one JSON job a line from standard input, `{"call": "package.module:function", "arguments": {...}}`, and answers
one JSON line on standard output: `{"result": ...}`, `{"refused": sentence}` when layoutlab itself said no,
`{"missing": sentence}` when a module is not installed, or `{"error": sentence}`. What a job prints goes to standard
error.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from typing import Any, TextIO

from layoutlab.errors import LayoutError, install_hint

ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """The answer to one job.

    >>> run_job({"call": "math:isqrt", "arguments": {}})["error"]
    'TypeError: math.isqrt() takes exactly one argument (0 given)'
    """
    module, _, function = job["call"].partition(":")
    try:
        return {"result": getattr(importlib.import_module(module), function)(**job["arguments"])}
    except LayoutError as error:
        return {"refused": str(error)}
    except ModuleNotFoundError as error:
        return {"missing": install_hint(error.name) if error.name else str(error)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the DSL ends some refusals in SystemExit
        return {"error": f"{type(error).__name__}: {first_sentence(str(error))}"}


def first_sentence(text: str) -> str:
    """The first line of an error text, without colours.

    >>> first_sentence("\\x1b[91merror:\\x1b[0m no such op\\n  --> file.py:3")
    'error: no such op'
    """
    lines = [line.strip() for line in ANSI_COLOUR.sub("", text).splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"


def serve(jobs: TextIO, answers: TextIO) -> None:
    """Answers jobs until their stream ends."""
    for line in jobs:
        answers.write(json.dumps(run_job(json.loads(line))) + "\n")
        answers.flush()


def main() -> None:
    """Serves standard input; standard output is kept for answers alone."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
