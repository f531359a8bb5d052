"""Running somebody's file so that its compiles are traced, on a machine that needs no GPU."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.tracing.record import Trace
from layoutlab.tracing.stand_in import stand_in_for_a_device


@dataclass(frozen=True)
class Run:
    """What a run recorded, and the sentence that it ended with where it did not come to its end."""

    trace: Trace
    ended: str = ""


def traced(
    target: str, arguments: Sequence[str] = (), settings: Mapping[str, str] | None = None, replay: bool = False
) -> Run:
    """Runs FILE.py, as a script with arguments, or FILE.py:callable, with settings as its keyword arguments.

    With `replay` the kernels that it calls run in the machine, and the trace has the table of what they did.
    """
    from layoutlab.tracing import trace

    path, _, name = target.partition(".py:") if ".py:" in target else (target, "", "")
    file = Path(f"{path}.py" if name else path)
    if not file.is_file():
        raise LayoutError(f"there is no file {file}")
    stand_in_for_a_device()
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    with trace(target) as found:
        if not replay:
            return Run(found, _run(file, name, settings or {}, found.failures))
        with _replaying(found):
            return Run(found, _run(file, name, settings or {}, found.failures))


def _run(file: Path, name: str, settings: Mapping[str, str], failures: list[str]) -> str:
    """How the file's run ended, where that was not well; a kernel that was not traced to its end is a failure."""
    try:
        if name:
            _called(runpy.run_path(str(file), run_name="layoutlab_traced"), name, file, settings)
        else:
            runpy.run_path(str(file), run_name="__main__")
    except SystemExit as error:
        return "" if not error.code else f"the script ended with exit status {error.code}"
    except LayoutError:
        raise
    except Exception as error:
        said = _plain(str(error))
        if any(frame.f_code.co_name == "generate_original_ir" for frame, _ in walk_tb(error.__traceback__)):
            failures.append("what comes after the error, which ended the compile of a kernel")
        return f"the script ended with {type(error).__name__}{_where(error, file)}{f': {said}' if said else ''}"
    return ""


def _where(error: Exception, file: Path) -> str:
    """The file's last line that an error went through."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame.lineno for frame in frames if Path(frame.filename).resolve() == file.resolve()]
    return f" at {file.name}:{mine[-1]}" if mine else ""


def _plain(text: str) -> str:
    """What an error says, without colours and in one line: its first two lines that say something."""
    import re

    lines = [" ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split()) for line in text.splitlines()]
    return "; ".join([line for line in lines if line][:2])


@contextmanager
def _replaying(found: Trace) -> Iterator[None]:
    """Fills the trace's table of replayed kernels from the calls that are made inside."""
    from layoutlab.tracing.calls import Calls, Ran, intercepted
    from layoutlab.tracing.judge import Row, judge
    from layoutlab.tracing.replayed import rows_of
    from layoutlab.tracing.table import told

    table = found.replayed = list[dict[str, Any]]()

    def on_launch(ran: Ran) -> None:
        mine = found.part(*ran.traced)
        table.extend(row for row in told(rows_of(ran, mine, judge(mine))) if row not in table)

    calls = Calls(on_launch, lambda: len(found.accesses))
    with intercepted(calls):
        yield
        calls.run_what_was_not_called()
    table += told(Row("-", "-", "-", "unsupported", f"not run: {why}") for why in dict.fromkeys(calls.refused))


def _called(module: Mapping[str, Any], name: str, file: Path, settings: Mapping[str, str]) -> None:
    function: Callable[..., Any] | None = module.get(name)
    if not callable(function):
        raise LayoutError(f"{file} has no callable {name}")
    function(**{key: _value(text) for key, text in settings.items()})


def _value(text: str) -> Any:
    """A number or a word, as a command line gives it."""
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main(argv: Sequence[str]) -> None:
    """FILE OUT [--replay] [key=value ...] [-- arguments]: runs the file and writes its trace as JSON."""
    import json

    mine, theirs = (
        (list(argv), list[str]())
        if "--" not in argv
        else (list(argv[: argv.index("--")]), list(argv[argv.index("--") + 1 :]))
    )
    replay = "--replay" in mine
    target, out, *pairs = [word for word in mine if word != "--replay"]
    settings = dict(pair.split("=", 1) for pair in pairs)
    try:
        run = traced(target, theirs, settings, replay)
        answer: dict[str, Any] = {"trace": run.trace.json(), "ended": run.ended}
    except LayoutError as error:
        answer = {"refused": str(error)}
    Path(out).write_text(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # the DSL may crash when its module of an unfinished compile is taken down


if __name__ == "__main__":
    main(sys.argv[1:])
