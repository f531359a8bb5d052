"""Text: layouts, swizzles, tensors, copies and MMAs read as CuTe DSL, C++ and pycute print them, and printed so.

>>> parse("((128,16),1,(4,2)):((64,1),0,(16,8192))").size()
16384
>>> parse("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")
S<3,4,3>[8b] o 0 o [16b](8,64):(64,1)
>>> parse("tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>").iterator.align_bytes
1024
"""

from __future__ import annotations

from typing import Any

from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout
from layoutlab.text.blocks import read_block, title_of
from layoutlab.text.grammar import bits_of, read_value
from layoutlab.text.records import CopyAtom, MmaAtom, Opaque, Pointer, Record, Tensor, TiledCopy, TiledMma, Values
from layoutlab.text.scanner import Scanner
from layoutlab.text.styles import to_text

__all__ = [
    "CopyAtom",
    "MmaAtom",
    "Opaque",
    "Pointer",
    "Record",
    "Tensor",
    "TiledCopy",
    "TiledMma",
    "Values",
    "as_layout",
    "bits_of",
    "parse",
    "parse_layout",
    "to_text",
]


def parse(text: str) -> Any:
    """What a kernel printed, as the value it is: Layout, ComposedLayout, Swizzle, integers and tuples, or a record.

    >>> parse("(?,0) o ((32,1),4):((1@1,0),32@1)").outer.shape, parse("(4*N,?{i64 div=8})")
    (((32, 1), 4), (4*N, 8*?))
    >>> parse("(8,64;:(64,1)")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: expected ',' or ')' at column 6, found ';'
      (8,64;:(64,1)
           ^

    Units: a swizzle on a pointer counts bytes, as does C++'s `Sw<3,4,3> o smem_ptr[16b](unset) o ...`; one that is
    printed beside a layout alone has no unit in the text and gets none. `?{div=8}` is read as 8 times an unknown, its
    width is not kept; `_` alone is None; a tuple of layouts, which prints a tiler, is a tuple. `parse(str(x)) == x`.
    Raises LayoutError: what was expected, at which column, with the line and a caret under it.
    Source: the printers of CuTe DSL 4.8, of CuTe C++ (`print`), of pycute (`str` and `repr`).
    """
    s = Scanner(text)
    if s.at_end():
        s.fail("a layout, such as (8,64):(64,1)")
    if s.peek(r"<[\w.]+ object at 0x"):
        raise s.refused(
            "this is how Python shows an object without a text of its own: print(object) shows the layout", s.pos
        )
    first_line = text[s.pos :].split("\n", 1)[0]
    if title_of(first_line):
        return read_block(s)
    value = read_value(s)
    if not s.at_end():
        s.fail("the end of the text" if not isinstance(value, (int, tuple)) else "':' and the strides, or the end")
    return value


def parse_layout(text: str) -> Layout | ComposedLayout:
    """The layout that a text holds: a layout, a composed layout, or a printed tensor's with its swizzle.

    >>> parse_layout("tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>")(1, 0)
    72
    >>> parse_layout("(8,64)")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: expected a layout, shape:stride, at column 1; this is the tuple (8,64)
      (8,64)
      ^
    """
    return as_layout(parse(text), text)


def as_layout(value: Any, text: str) -> Layout | ComposedLayout:
    """The layout of a value that `text` spelled; the error points into the text."""
    if isinstance(value, Tensor):
        return value.swizzled_layout()
    if isinstance(value, (Layout, ComposedLayout)):
        return value
    kind = "tuple" if isinstance(value, tuple) else "number" if isinstance(value, int) else type(value).__name__
    s = Scanner(text)
    shown = to_text(value).split("\n", 1)[0]
    raise s.refused(f"expected a layout, shape:stride, at column {s.skip() + 1}; this is the {kind} {shown}", s.skip())
