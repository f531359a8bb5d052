"""Code: layouts and functions as CuTe DSL writes them.

>>> print(layout_code(Layout((128, (64, 2)), (64, (1, 8192)))))
cute.make_layout((128, (64, 2)), stride=(64, (1, 8192)))
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from layoutlab.int_tuple import IntTuple
from layoutlab.layout import Layout

WIDTH = 116
"""Columns of a line of code that is printed inside of a function."""
HEAD = ("import cutlass", "import cutlass.cute as cute")


def layout_code(layout: Layout) -> str:
    """The expression that makes a layout."""
    return f"cute.make_layout({tuple_code(layout.shape)}, stride={tuple_code(layout.stride)})"


def tuple_code(value: IntTuple) -> str:
    """Nested integers as Python writes them."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(tuple_code, value)) + ("," if len(value) == 1 else "") + ")"
    return str(value)


def function(name: str, arguments: str, doc: Sequence[str], body: Sequence[str]) -> str:
    """A function of a kernel, to be pasted into a module: its remarks and its lines."""
    lines = [f"# {line}" for line in doc]
    lines += ["@cute.jit", f"def {name}({arguments}):"]
    return "\n".join([*lines, *(f"    {line}" for line in body)]) + "\n"


def apart(code: str, of: str, taken: dict[str, str]) -> str:
    """The code with its functions called after `of` as well where others of their names, noted in `taken`, differ.

    >>> taken = {}
    >>> [apart(code, "sQ", taken) for code in ("def f(): 1", "def f(): 2", "def f(): 1", "def f(): 3")]
    ['def f(): 1', 'def f_for_sQ(): 2', 'def f(): 1', 'def f_for_sQ_2(): 3']
    """
    made = code
    for name in re.findall(r"^def (\w+)", code, re.MULTILINE):
        other, number = name, 1
        while taken.setdefault(other, code) != code:
            other = f"{name}_for_{identifier(of)}" + (f"_{number}" if number > 1 else "")
            number += 1
        made = re.sub(rf"\b{name}\b", other, made)
    return made


def identifier(name: str) -> str:
    """A tile's name as a part of Python names.

    >>> identifier("P"), identifier("my P"), identifier("2nd")
    ('P', 'my_P', '_2nd')
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{plain}" if plain[0].isdigit() else plain
