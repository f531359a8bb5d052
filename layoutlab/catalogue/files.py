"""Handoffs by what a user types: a name of the catalogue, a file, or one handoff of a file.

    sP                      the catalogue's
    my_layouts.py           every handoff in the file, in the order of the file
    my_layouts.py:p_tile    that one

Whatever a file raises becomes a sentence that names the file and the line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from layoutlab.catalogue import CATALOGUE, named
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import HandoffFunction
from layoutlab.handoff.settings import nearest

T = TypeVar("T")


def find(target: str) -> list[HandoffFunction]:
    """The handoffs that a target names; refuses an unknown one with what there is.

    >>> [function.__name__ for function in find("sP")]
    ['sP']
    >>> find("epilog")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: no handoff is called epilog; did you mean epilogue? There are: sP, ..., FILE.py[:NAME]
    """
    path, _, name = target.partition(".py:") if ".py:" in target else (target, "", "")
    if not target.endswith(".py") and not name and not path.endswith(".py"):
        if target not in CATALOGUE:
            listed = ", ".join(CATALOGUE)
            hint = nearest(target, list(CATALOGUE))
            raise LayoutError(
                f"no handoff is called {target}{hint or '.'} There are: {listed}; or a file, FILE.py[:NAME]"
            )
        return [named(target)]
    file = Path(f"{path}.py" if name else target)
    found = handoffs_of(load(file))
    if not found:
        raise LayoutError(f"{file} declares no handoff: put @layoutlab.handoff over a function that returns a Handoff")
    if not name:
        return list(found.values())
    if name not in found:
        raise LayoutError(f"{file} has no handoff {name}{nearest(name, list(found))} (there are: {', '.join(found)})")
    return [found[name]]


def handoffs_of(module: ModuleType) -> dict[str, HandoffFunction]:
    """The handoffs that a module itself declares, by name, in the order of its source."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, HandoffFunction) and value.function.__module__ == module.__name__
    }


def load(file: Path) -> ModuleType:
    """A file as a module; whatever it raises becomes a sentence that names the file and the line."""
    if not file.is_file():
        raise LayoutError(f"there is no file {file}")
    name = f"layoutlab_file_{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LayoutError(f"{file} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    with blamed_on(file), _beside(file):
        spec.loader.exec_module(module)
    return module


def made(function: HandoffFunction, call: Callable[[], T]) -> T:
    """What a call into a handoff function returns; errors of a user's file name its line."""
    module = sys.modules.get(function.function.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not function.function.__module__.startswith("layoutlab_file_"):
        return call()
    with blamed_on(Path(file)):
        return call()


@contextmanager
def blamed_on(file: Path) -> Iterator[None]:
    """Turns an error into a sentence that names the last line of the file that it passed through."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LayoutError(f"{_place(file, error)}: {_what(error)}") from error


def _place(file: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == file.resolve():
        return f"{file}, line {error.lineno}"
    line, at = None, error.__traceback__
    while at is not None:
        if Path(at.tb_frame.f_code.co_filename).resolve() == file.resolve():
            line = at.tb_lineno
        at = at.tb_next
    return f"{file}, line {line}" if line else str(file)


def _what(error: BaseException) -> str:
    if isinstance(error, LayoutError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@contextmanager
def _beside(file: Path) -> Iterator[None]:
    """Lets a file import its neighbours, as a script may."""
    folder: Any = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
