"""What a slot of a handoff takes: a layoutlab object, a string as CuTe prints it, or a live CuTe DSL object."""

from __future__ import annotations

import re
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle


def read_layout(value: Any, what: str) -> Layout | ComposedLayout:
    """The layout that a slot was given; a live DSL object is read by what it prints."""
    if isinstance(value, (Layout, ComposedLayout)):
        return value
    text = str(value)
    try:
        return _parse(text)
    except LayoutError as error:
        raise LayoutError(f"{what}: {error}") from error


def _parse(text: str) -> Layout | ComposedLayout:
    m = re.fullmatch(r"S<(\d+),(\d+),(\d+)>\s*o\s*0\s*o\s*(.*)", text.strip())
    if m:
        layout = _parse(m[4])
        assert isinstance(layout, Layout)
        return ComposedLayout(Swizzle(int(m[1]), int(m[2]), int(m[3])), 0, layout)
    shape, _, stride = text.partition(":")
    if not re.fullmatch(r"[\d(),\s]+", text.replace(":", "")) or not stride:
        raise LayoutError(f"{text!r} is no layout")
    return Layout(eval(shape), eval(stride))
