"""What a slot of a handoff takes: a layoutlab object, a string as CuTe prints it, or a live CuTe DSL object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout

if TYPE_CHECKING:
    from layoutlab.text import TiledCopy


def read_layout(value: Any, what: str) -> Layout | ComposedLayout:
    """The layout that a slot was given; a live DSL object is read by what it prints.

    >>> read_layout("(_8,_64):(_64,_1)", "sP")
    (8,64):(64,1)
    """
    if isinstance(value, (Layout, ComposedLayout)):
        return value
    from layoutlab.text import parse_layout  # strings are met in few runs, and it takes a while to load

    try:
        return parse_layout(str(value))
    except LayoutError as error:
        raise LayoutError(f"{what}: {error}") from error


def is_copy(value: Any) -> bool:
    """Whether a slot was given a tiled copy, printed or live, be it whole or not."""
    return not isinstance(value, (Layout, ComposedLayout)) and str(value).lstrip().startswith("Tiled Copy")


def read_copy(value: Any) -> TiledCopy | None:
    """The tiled copy that a slot was given, printed or live; None where it is something else."""
    if not is_copy(value):
        return None
    from layoutlab.text import TiledCopy, parse

    copy = parse(str(value))
    return copy if isinstance(copy, TiledCopy) else None
