"""Oracles: the same expression evaluated by CuTe DSL, pycute, tensor-layouts and layoutlab.

An expression is text in CuTe DSL's names, `composition(L((4,2),(1,16)), L(8,1))`, L being a layout, S a swizzled one, B
a coordinate stride. An answer is what the oracle prints, or its refusal. An oracle that cannot be imported raises here,
so that the tests fail.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pycute
import tensor_layouts

import layoutlab
from layoutlab import Basis, ComposedLayout, Layout, LayoutError, Swizzle

ORACLES = ("dsl", "pycute", "tensor_layouts")
LACKS = {
    "dsl": {"nullspace"},
    "pycute": {
        "nullspace",
        *("flatten", "filter_zeros", "flat_divide", "flat_product", "blocked_product", "raked_product"),
        *("max_common_layout", "max_common_vector", "tile_to_shape", "make_ordered_layout", "recast_layout"),
    },
    "tensor_layouts": {"flatten", "filter", "filter_zeros", "tile_to_shape", "make_ordered_layout"},
}


@dataclass(frozen=True)
class Answer:
    """The value an oracle gave, or why it gave none; the text is what it printed."""

    value: Any
    refused: str | None = None
    text: str = ""


def expression(operation: str, *args: Any, **named: Any) -> str:
    """The call as text.

    >>> expression("composition", Layout((4, 2), (1, 16)), 8)
    'composition(L((4, 2), (1, 16)), 8)'
    """
    parts = [as_python(a) for a in args] + [f"{name}={as_python(a)}" for name, a in named.items()]
    return f"{operation}({', '.join(parts)})"


def as_python(x: Any) -> str:
    if isinstance(x, Layout):
        return f"L({as_python(x.shape)}, {as_python(x.stride)})"
    if isinstance(x, ComposedLayout):
        assert isinstance(x.inner, Swizzle)
        return f"S({x.inner.bits}, {x.inner.base}, {x.inner.shift}, {x.offset}, {as_python(x.outer)})"
    if isinstance(x, Basis):
        return f"B({x.value}, {', '.join(map(str, x.path))})"
    if isinstance(x, tuple):
        return f"({', '.join(map(as_python, x))}{',' if len(x) == 1 else ''})"
    return repr(x)


# -- the oracles ------------------------------------------------------------------------------------------------------


class DslWorker:
    """The DSL in a process that is started again when a call kills it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.errors = Path(tempfile.mkdtemp()) / "stderr"

    def ask(self, text: str) -> Answer:
        if self.process is None:
            command = [sys.executable, str(Path(__file__).with_name("strangers_worker.py"))]
            with self.errors.open("w") as errors:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
                )
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(text) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        for line in self.process.stdout:
            if line.startswith("reply "):
                reply = json.loads(line.removeprefix("reply "))
                if "refused" in reply:
                    assert "NameError" not in reply["refused"], reply
                    return Answer(None, reply["refused"])
                return Answer(parsed(reply["text"]), text=reply["text"])
        self.process.wait()
        self.process = None
        error = self.errors.read_text()
        if "ModuleNotFoundError" in error or "ImportError" in error:
            raise ImportError(f"CuTe DSL is not here to be asked: {error[-500:]}")
        return Answer(None, f"the process died: {error[-200:]}")


worker = DslWorker()


@cache
def ask(oracle: str, text: str) -> Answer:
    """What an oracle says to an expression; "ours" is layoutlab."""
    if oracle == "dsl":
        return worker.ask(text)
    names = {"ours": OURS, "pycute": PYCUTE, "tensor_layouts": TENSOR_LAYOUTS}[oracle]
    try:
        value = eval(text, dict(names))
    except LayoutError as error:
        return Answer(None, str(error))
    except (NameError, SyntaxError):
        raise
    except Exception as error:
        if oracle == "ours":
            raise
        return Answer(None, f"{type(error).__name__}: {error}")
    return Answer(value if oracle == "ours" else parsed(str(value)), text=str(value))


OURS = {
    **vars(layoutlab),
    "L": Layout,
    "S": lambda bits, base, shift, offset, outer: ComposedLayout(Swizzle(bits, base, shift), offset, outer),
    "B": lambda value, *path: Basis(value, path),
}
PYCUTE = {
    **{name: getattr(pycute, name) for name in dir(pycute) if not name.startswith("_")},
    "L": pycute.Layout,
}
TENSOR_LAYOUTS = {
    **{name: getattr(tensor_layouts, name) for name in dir(tensor_layouts) if not name.startswith("_")},
    "L": tensor_layouts.Layout,
    "S": lambda bits, base, shift, offset, outer: tensor_layouts.ComposedLayout(
        tensor_layouts.Swizzle(bits, base, shift), outer, offset=offset
    ),
    "composition": tensor_layouts.compose,
    "recast_layout": lambda new, old, x: _recast(new, old, x),
}


def _recast(new: int, old: int, x: Any) -> Any:
    if max(new, old) % min(new, old):
        raise ValueError("upcast and downcast take a whole number")
    return tensor_layouts.upcast(x, new // old) if new > old else tensor_layouts.downcast(x, old // new)


# -- what they print --------------------------------------------------------------------------------------------------


def parsed(text: str) -> Any:
    """A printed layout, number or tuple; written for the oracles alone, beside the package's own parser.

    >>> parsed("S<3,3,3> o 0 o ((8,2),64):((64,1@0),1)")
    S<3,3,3> o 0 o ((8,2),64):((64,1@0),1)
    """
    text = text.replace(" ", "")
    if match := re.fullmatch(r"(?:S|Sw)<(-?\d+),(-?\d+),(-?\d+)>o(.*?)o(.*)", text):
        bits, base, shift = (int(match[i]) for i in (1, 2, 3))
        return ComposedLayout(Swizzle(bits, base, shift), _tuple(match[4]), parsed(match[5]))
    shape, colon, stride = text.partition(":")
    try:
        return Layout(_tuple(shape), _tuple(stride)) if colon else _tuple(text)
    except (LayoutError, SyntaxError):
        return text  # an extent of 0 or -1 is no layout at all, and functions nested deeper are read elsewhere


def _tuple(text: str) -> Any:
    def basis(match: re.Match[str]) -> str:
        value, *path = match[0].split("@")
        return f"B({value},{','.join(reversed(path))})"

    return eval(_with_commas(re.sub(r"-?\d+(?:@\d+)+", basis, text)), {"B": lambda value, *path: Basis(value, path)})


def _with_commas(text: str) -> str:
    """Parentheses around one entry are a tuple of one, as CuTe prints it; B(...) is a call."""
    out, calls = list[str](), list[bool]()
    for i, c in enumerate(text):
        if c == "(":
            calls.append(i > 0 and text[i - 1] == "B")
        if c == ")" and not calls.pop() and out[-1] not in "(,":
            out.append(",")
        out.append(c)
    return "".join(out)
