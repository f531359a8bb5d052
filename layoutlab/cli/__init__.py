"""The command `layoutlab`: `main` picks a command, runs it, and turns whatever fails into one sentence.

Each command is a module of this package with `add(subparsers)`, which adds its parser, and `run(args) -> int`, which
returns the exit status. Only the module of the command that was asked for is imported, so the others cost nothing.

Exit status: 0 proved, same, agree; 1 refuted, different, disagree, refused; 2 usage or internal error; 3 undecided,
unsupported or incomplete.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from errno import ENOSPC
from importlib import import_module
from importlib.util import find_spec

from layoutlab.errors import LayoutError, install_hint

USAGE_ERROR = 2

COMMANDS = {
    "verify": "prove that each element lands where it is read, or name the first that does not",
    "crosscheck": "hold the model against the traced, the replayed and the real kernel",
    "eval": "evaluate an expression of layouts: composition((6,2):(8,2), (4,3):(3,1))",
    "explain": "say in words what a kernel printed: a layout, a tensor, a tiled copy, an MMA",
    "diff": "compare two layouts: the same function, the same places, the first difference",
    "derive": "print the writer that would be right",
    "cost": "count the shared memory wavefronts of an access",
    "draw": "draw who owns what",
    "trace": "compile a kernel without a GPU: its layouts, its handoffs, and whether each is right",
    "sweep": "verify every combination of settings, in parallel",
    "run": "run a compiled kernel on the CPU, instruction by instruction",
    "witnesses": "list who else says so: each fact of the tables and the cases that agree",
    "bundle": "write a compiled kernel as a folder that a machine with a device can run",
    "check-bundle": "judge what a device made of a bundle",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit status; never raises.

    >>> main(["eval", "composition((6,2):(8,2), (4,3):(3,1))"])
    ((2,2),3):((24,2),8)
    0
    """
    arguments, debug = _without_debug(list(sys.argv[1:] if argv is None else argv))
    try:
        return _run(arguments, debug)
    except SystemExit as e:  # argparse: help, version, or a usage error that it has printed
        return e.code if isinstance(e.code, int) else 0
    except BrokenPipeError:
        _close_stdout()
        return USAGE_ERROR
    except KeyboardInterrupt:
        return _failed("interrupted", 130)
    except BaseException as e:  # a user's file may raise what is no Exception
        if debug:
            import traceback

            traceback.print_exc()
        if _unwritten(e):
            _close_stdout()
        return _failed(_sentence(e))


def installed() -> dict[str, str]:
    """The commands that this installation has, with their one line of help."""
    return {name: text for name, text in COMMANDS.items() if find_spec(_module(name)) is not None}


def _module(command: str) -> str:
    """The module of a command: check-bundle is check_bundle.py."""
    return f"{__name__}.{command.replace('-', '_')}"


def version() -> str:
    """The installed version; 'unknown' where the package runs from a folder without being installed."""
    from importlib import metadata

    try:
        return metadata.version("layoutlab")
    except metadata.PackageNotFoundError:
        return "unknown"


def stamp() -> dict[str, int | str | None]:
    """What every JSON answer begins with: its schema, and the versions of layoutlab and of CuTe DSL, None if absent."""
    from importlib import metadata

    try:
        dsl: str | None = metadata.version("nvidia-cutlass-dsl")
    except metadata.PackageNotFoundError:
        dsl = None
    return {"schema": 1, "version": version(), "dsl_version": dsl}


def _run(arguments: list[str], debug: bool) -> int:
    import argparse

    commands = installed()
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    if chosen is not None and chosen not in commands:
        raise LayoutError(f"there is no command {chosen!r}{nearest(chosen, commands)}; layoutlab --help lists them")
    parser = argparse.ArgumentParser(
        prog="layoutlab",
        description="Does every element land where it will be read?",
        epilog="layoutlab COMMAND --help says more. With --debug, an error shows its traceback.",
    )
    shown = f"layoutlab {version()}" if "--version" in arguments else ""
    parser.add_argument("--version", action="version", version=shown, help="print the version and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, text in commands.items():
        if name != chosen:
            subparsers.add_parser(name, help=text)
    module = None if chosen is None else import_module(_module(chosen))
    if module is not None:
        module.add(subparsers)
    args = parser.parse_args(arguments, argparse.Namespace(debug=debug))
    assert module is not None, "argparse insists on a command"
    if sys.stdout is None:
        raise LayoutError("there is no standard output to write the answer to: it is closed")
    status: int = module.run(args)
    sys.stdout.flush()
    return status


def nearest(name: str, known: Sequence[str] | dict[str, str]) -> str:
    """The end of a sentence that suggests the known name most like this one; empty where none is.

    >>> nearest("composion", ["complement", "composition"])
    ', did you mean composition?'
    """
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1)
    return f", did you mean {found[0]}?" if found else ""


def _sentence(e: BaseException) -> str:
    if isinstance(e, LayoutError):
        return str(e)
    if isinstance(e, ModuleNotFoundError) and e.name is not None and not _own(e.name):
        return install_hint(e.name)
    if isinstance(e, MemoryError):
        return f"there is not enough memory here: {e or 'something smaller would fit'}"
    if isinstance(e, OSError) and _unwritten(e):
        return f"the answer cannot be written: {e.strerror}"
    if isinstance(e, OSError) and e.filename is not None:
        return f"cannot read {e.filename}: {e.strerror}"
    frame = e.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = "" if frame is None else f" in {frame.tb_frame.f_code.co_filename}, line {frame.tb_lineno}"
    return f"internal error: {type(e).__name__}: {e}{where}; run it again with --debug for the traceback"


def _own(module: str) -> bool:
    """Whether a module that is missing is layoutlab's, whose absence is a fault; the kernels come with an install."""
    return module.partition(".")[0] == "layoutlab" and module.split(".")[1:2] != ["kernels"]


def _unwritten(e: BaseException) -> bool:
    """Whether it says that a file system has no room, as the answer's does where no file is named."""
    return isinstance(e, OSError) and e.errno == ENOSPC and e.filename is None


def _failed(sentence: str, status: int = USAGE_ERROR) -> int:
    print(f"layoutlab: {sentence}", file=sys.stderr)
    return status


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """The arguments without --debug, which may stand anywhere before `--`, and whether it was there."""
    stop = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [a for a in arguments[:stop] if a != "--debug"]
    return kept + arguments[stop:], len(kept) < stop


def _close_stdout() -> None:
    """Lets the interpreter's last flush go nowhere: whoever read the output has gone."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
