"""The grammar of what CuTe prints: integers, tuples, layouts, swizzles, compositions, pointers, tensors.

    number    8  _8  -8  ?  ?{i64 div=8}  N  4*N+8  Int32(?)
    entry     number  number@mode@mode  _  (entry, ...)  entry:entry
    swizzle   S<3,4,3>  S<3,4,3>[8b]  Sw<3,4,3>  SW_3_4_3  Swizzle(3,4,3)
    pointer   ptr<bf16, smem, align<1024>, S<3,4,3>>  smem_ptr[16b](0x7f..)  Sw<3,4,3>_smem_ptr[16b](0x7f..)
              raw_ptr(0x7f..: f32, generic, align<4>)  0x7f..@gmem
    value     part o part o ...    tensor<value>    tensor(value, data=...)    !cute.layout<"value">
    part      entry  [16b]entry  swizzle  pointer  Layout<Shape<_8,_64>,Stride<_64,_1>>

Each form comes from one printer: DSL, C++ or pycute. They do not clash, so they are read by one grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, Int
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym
from layoutlab.text.cpp_types import opens_type, read_type
from layoutlab.text.records import Opaque, Pointer, Tensor, Values
from layoutlab.text.scanner import MAX_DEPTH, Scanner

_MAX_DIGITS = 40
_MAX_FACTORS = 64

_NUMBER = r"_?-?[0-9]+(?![A-Za-z_])"
_PLAIN_ENTRY = r"_?-?[0-9]{1,18}(?=[,)])"  # most entries of most texts: one match instead of six
_UNKNOWN = r"\?([A-Za-z0-9_]*)(?:\{\s*(?:i\d+\s*)?(?:div\s*=\s*([0-9]{1,18})\s*)?\})?"
_RUNTIME = r"(?:Int|Uint)\d+\(\s*\?\s*\)"
_NAME = r"[A-Za-z][A-Za-z0-9_]*(?![A-Za-z0-9_]*\()"
_SWIZZLE = r"(?:Swizzle|Sw|S)(?=<)|SW(?=_)|Swizzle(?=\()"
_CPP_POINTER = r"(?:([gsrt]mem)_(?:ptr)?|smem_sparse<[0-9]+>_ptr|ptr)\[\s*([0-9]{1,9})\s*b\s*\]"
_ITERATOR = r"[A-Za-z_][A-Za-z0-9_:]*Iterator(?![A-Za-z0-9_])|(?:OpResult|BlockArgument|counting_iter)(?=\()"
_ADDRESS = r"0x[0-9a-fA-F]{1,16}"
_PLACED = rf"{_ADDRESS}@(?:generic|[gsrt]mem|dsmem)(?![A-Za-z0-9_])"


def bits_of(dtype: str) -> int | None:
    """The width of an element type by its name; None where the name does not say it.

    >>> bits_of("bf16"), bits_of("f8E4M3FN"), bits_of("tf32"), bits_of("i1"), bits_of("half")
    (16, 8, 32, 1, None)
    """
    found = re.fullmatch(r"[a-z]+([0-9]{1,4})(?:[A-Z][A-Z0-9]*)?b?", dtype)
    return int(found[1]) if found else None


# -- entries ----------------------------------------------------------------------------------------------------------


def read_entry(s: Scanner) -> Any:
    """An integer, a symbol, a basis, None for `_`, a tuple of entries, or `shape:stride` as a Layout."""
    if found := s.match(_PLAIN_ENTRY):
        return int(found[0].lstrip("_"))
    start = s.skip()
    shape = read_term(s)
    if not s.take(":"):
        return shape
    return layout_of(s, start, shape, read_term(s))


def layout_of(s: Scanner, start: int, shape: Any, stride: Any) -> Layout:
    """The layout, or the reason why there is none together with the place."""
    for part in (shape, stride):
        _numbers_only(s, start, part)
    try:
        return Layout(shape, stride)
    except LayoutError as e:
        raise s.refused(e, start) from None


def _numbers_only(s: Scanner, start: int, part: Any) -> None:
    if isinstance(part, tuple):
        for entry in part:
            _numbers_only(s, start, entry)
    elif part is None or isinstance(part, Layout):
        what = "'_'" if part is None else f"the layout {part}"
        raise s.refused(f"{what} stands where a shape or a stride has a number", start)


def read_term(s: Scanner) -> Any:
    """A number, a basis, None for `_`, or a tuple of entries."""
    if s.at("("):
        return read_tuple(s, read_entry)
    if s.match(r"_(?![A-Za-z0-9_-])|None(?![A-Za-z0-9_])"):
        return None
    value = read_number(s)
    path: list[int] = []
    while s.take("@"):
        at = s.match(r"_?[0-9]{1,3}(?![0-9A-Za-z_])")
        if at is None or len(path) == MAX_DEPTH:
            s.fail("the number of a mode, below 1000, after '@'" if at is None else f"at most {MAX_DEPTH} '@'")
        path.append(int(at[0].lstrip("_")))
    return Basis(value, tuple(reversed(path))) if path else value


def read_tuple(s: Scanner, read: Callable[[Scanner], Any]) -> tuple[Any, ...]:
    """A tuple in brackets of whatever `read` reads; Python's printers put a comma before the bracket that closes it."""
    s.expect("(")
    s.deeper()
    entries: list[Any] = []
    while not s.take(")"):
        entries.append(read(s))
        if not s.take(",") and not s.at(")"):
            s.fail("',' or ')'")
    s.depth -= 1
    return tuple(entries)


def read_number(s: Scanner) -> Int:
    """An integer or a polynomial of unknowns: `8`, `_8`, `?`, `4*N`, `8+4*N`."""
    start = s.skip()
    total: Int = 0
    sign = -1 if s.match(r"-(?![0-9])") else 1
    for count in range(_MAX_FACTORS + 1):
        total = total + sign * _product(s)
        if count == _MAX_FACTORS:
            raise s.refused(f"a number of more than {_MAX_FACTORS} terms", start)
        found = s.match(r"[+-]")
        if found is None:
            return total
        sign = 1 if found[0] == "+" else -1
    raise AssertionError("unreachable")


def _product(s: Scanner) -> Int:
    start = s.skip()
    value = _factor(s)
    for _ in range(_MAX_FACTORS):
        if not s.take("*"):
            return value
        value = value * _factor(s)
    raise s.refused(f"a number of more than {_MAX_FACTORS} factors", start)


def _factor(s: Scanner) -> Int:
    start = s.skip()
    if found := s.match(_NUMBER):
        if len(found[0]) > _MAX_DIGITS:
            raise s.refused(f"a number of {len(found[0])} digits; at most {_MAX_DIGITS} are read", start)
        return int(found[0].lstrip("_"))
    if found := s.match(_UNKNOWN):
        return int(found[2] or 1) * Sym(f"?{found[1]}")
    if s.match(_RUNTIME):
        return Sym("?")
    if found := s.match(_NAME):
        return Sym(found[0])
    s.fail("a number, a name, '?' or '('")


# -- swizzles and pointers --------------------------------------------------------------------------------------------


def read_swizzle(s: Scanner) -> Swizzle | None:
    """A swizzle in any of its forms; None where none comes next."""
    start = s.skip()
    if not s.match(_SWIZZLE):
        return None
    if s.take("_"):
        found = s.match(r"([0-9]{1,3})_([0-9]{1,3})_(-?[0-9]{1,3})(?![0-9])")
        numbers = [int(n) for n in found.groups()] if found else s.fail("three numbers, SW_bits_base_shift")
    else:
        closing = ">" if s.take("<") else ")" if s.take("(") else ""
        numbers = [_plain_number(s, "bits")]
        for name in ("base", "shift"):
            s.expect(",", f" and the {name}: a swizzle is S<bits,base,shift>")
            numbers.append(_plain_number(s, name))
        s.expect(closing, ": a swizzle is S<bits,base,shift>")
    unit = s.match(r"\[\s*([0-9]{1,9})\s*b\s*\]")
    try:
        return Swizzle(numbers[0], numbers[1], numbers[2], int(unit[1]) if unit else None)
    except LayoutError as e:
        raise s.refused(e, start) from None


def _plain_number(s: Scanner, name: str) -> int:
    found = s.match(r"-?[0-9]{1,3}(?![0-9])")
    return int(found[0]) if found else s.fail(f"the swizzle's {name}, a number")


def read_pointer(s: Scanner) -> Pointer | None:
    """A pointer of the DSL's or of C++'s form without its swizzle prefix; None where none comes next."""
    if s.match(r"ptr(?=\s*<)"):
        return _dsl_pointer(s)
    if s.match(r"raw_ptr(?=\s*\()"):
        return _raw_pointer(s)
    found = s.match(_CPP_POINTER)
    if found is None:
        return None
    space = found[1] or ("smem" if found[0].startswith("smem_sparse") else None)
    return Pointer(None, int(found[2]), space, address=s.balanced() if s.at("(") else None)


def _dsl_pointer(s: Scanner, closing: bool = True) -> Pointer:
    s.expect("<")
    pointer = _pointer_fields(s)
    if closing:
        s.expect(">")
    return pointer


def _raw_pointer(s: Scanner) -> Pointer:
    """A pointer as a running kernel prints it, raw_ptr(address: type, space, align<bytes>)."""
    s.expect("(")
    address = s.match(_ADDRESS)
    if address is None:
        s.fail("an address, raw_ptr(0x7f00: f32, gmem, align<16>)")
    s.expect(":")
    pointer = _pointer_fields(s)
    s.expect(")")
    return replace(pointer, address=f"({address[0]})")


def _pointer_fields(s: Scanner) -> Pointer:
    """Type, memory space, alignment and swizzle, with commas between."""
    dtype = s.match(r"[A-Za-z][A-Za-z0-9_]*")
    bits = bits_of(dtype[0]) if dtype else None
    if dtype is None or bits is None:
        s.fail("an element type such as bf16")
    space, align, swizzle = None, None, None
    while s.take(",") and not s.at('"'):
        if found := s.match(r"align\s*<\s*([0-9]{1,18})\s*>"):
            align = int(found[1])
        elif found_swizzle := read_swizzle(s):
            swizzle = counting(found_swizzle, 8)
        elif found := s.match(r"generic|[gsrt]mem|dsmem"):
            space = found[0]
        else:
            s.fail("a memory space, align<bytes> or a swizzle")
    return Pointer(dtype[0], bits, space, align, swizzle)


def counting(swizzle: Swizzle, bits: int) -> Swizzle:
    """The swizzle with the unit that its place gives it, unless it carries its own."""
    return Swizzle(swizzle.bits, swizzle.base, swizzle.shift, swizzle.unit_bits or bits)


# -- compositions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One part of a composition: its value, where it starts, and the width of its elements where `[16b]` says it."""

    value: Any
    start: int
    element_bits: int | None = None


def read_value(s: Scanner) -> Any:
    """Anything of one line: parts joined by ` o `, a printed tensor, or one part alone."""
    if found := s.match(r"!cute\.([a-z_]+)(?=<)"):
        return _mlir_type(s, found[1])
    if s.match(r"[tT]ensor(?=<)"):
        return _in_angles(s, _composed)
    if s.match(r"tensor(?=\()"):
        return _with_data(s)
    if s.match(r"tensor_value(?=<)"):
        return _in_angles(s, _values)
    return _composed(s)


def _in_angles(s: Scanner, read: Callable[[Scanner], Any]) -> Any:
    s.expect("<")
    s.deeper()
    value = read(s)
    s.expect(">")
    s.depth -= 1
    return value


def _with_data(s: Scanner) -> Any:
    """tensor(pointer o layout, data=[...]), as a running kernel prints one; the numbers are passed over."""
    s.expect("(")
    s.deeper()
    value = _composed(s)
    if s.match(r",\s*data\s*="):
        while s.at("["):
            s.balanced()
        s.match(r"(?:\.\.\.|[^()\[\]])*")
    s.expect(")")
    s.depth -= 1
    return value


def _mlir_type(s: Scanner, name: str) -> Any:
    """A type as the compiler's messages print it: !cute.layout<"...">, !cute.memref<bf16, smem, align<16>, "...">."""
    if name == "ptr":
        return _dsl_pointer(s)
    if name == "memref":
        pointer = _dsl_pointer(s, closing=False)
        layout = _quoted(s)
        s.expect(">")
        if not isinstance(layout, (Layout, ComposedLayout)):
            s.fail("a layout in quotes before this")
        return Tensor(pointer, layout)
    return _in_angles(s, _quoted)


def _quoted(s: Scanner) -> Any:
    s.expect('"')
    value = _composed(s)
    s.expect('"')
    return value


def _values(s: Scanner) -> Values:
    found = s.match(r"vector<([0-9]{1,18})x([A-Za-z][A-Za-z0-9]*)>")
    if found is None:
        s.fail("vector<count x type>")
    if not take_o(s):
        s.fail("'o' and the shape")
    return Values(found[2], int(found[1]), read_tuple(s, read_entry) if s.at("(") else read_entry(s))


def take_o(s: Scanner) -> bool:
    """Moves over the `o` of a composition, if it comes next."""
    return s.match(r"o(?![A-Za-z0-9_])") is not None


def _composed(s: Scanner) -> Any:
    parts = [read_part(s)]
    while take_o(s):
        parts.append(read_part(s))
        if len(parts) > 4:
            raise s.refused("more than four parts joined by 'o'", parts[0].start)
    return assembled(s, parts)


def read_part(s: Scanner) -> Part:
    """One part of a composition."""
    start = s.skip()
    if called := s.match(r"(Layout|ComposedLayout)(?=\()"):
        s.deeper()
        value = _python_repr(s, start, called[1])
        s.depth -= 1
        return Part(value, start)
    if opens_type(s):
        return Part(read_type(s), start)
    if (swizzle := read_swizzle(s)) is not None:
        if not s.match(r"_(?=[a-z])"):
            return Part(swizzle, start)
        pointer = read_pointer(s)
        if pointer is None:
            s.fail("a pointer, smem_ptr[16b](address)")
        byte_swizzle = counting(swizzle, 8)
        return Part(Pointer(None, pointer.bits, pointer.space, None, byte_swizzle, pointer.address), start)
    if (pointer := read_pointer(s)) is not None:
        return Part(pointer, start)
    if s.match(r"ArithTuple(?=\()"):
        return Part(read_tuple(s, read_entry), start)
    if found := s.match(_PLACED):
        return Part(Opaque(found[0]), start)
    if found := s.match(_ITERATOR):
        return Part(Opaque(found[0] + (s.balanced() if s.at("(") else "")), start)
    width = s.match(r"\[\s*([0-9]{1,9})\s*b\s*\]")
    return Part(read_entry(s), start, int(width[1]) if width else None)


def _python_repr(s: Scanner, start: int, name: str) -> Layout | ComposedLayout:
    """pycute's repr: Layout(shape,stride), ComposedLayout(inner,offset,outer)."""
    s.expect("(")
    arguments = [read_part(s).value]
    while s.take(","):
        arguments.append(read_part(s).value)
    s.expect(")")
    if name == "Layout" and len(arguments) == 2:
        return layout_of(s, start, *arguments)
    if name == "ComposedLayout" and len(arguments) == 3 and isinstance(arguments[2], Layout):
        return ComposedLayout(*arguments)
    right = "Layout(shape,stride)" if name == "Layout" else "ComposedLayout(inner,offset,outer)"
    raise s.refused(f"{name} with {len(arguments)} arguments; {right} is what pycute prints", start)


def assembled(s: Scanner, parts: list[Part]) -> Any:
    """The value that the parts make together."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        if first.element_bits is not None:
            raise s.refused("a width [..b] belongs to the layout under a swizzle: S<3,4,3>[8b] o 0 o [16b](8,64)", 0)
        return first.value
    if not isinstance(last.value, Layout):
        raise s.refused("the last part of a composition is a layout, shape:stride", last.start)
    if isinstance(first.value, Opaque):
        return Tensor(first.value, assembled(s, parts[1:]))
    if len(parts) == 3 and (tensor := _swizzled_tensor(*parts)) is not None:
        return tensor
    if isinstance(first.value, Pointer):
        inner = assembled(s, parts[1:])
        return Tensor(first.value, inner)
    if len(parts) == 2:
        return _two_parts(s, first, last)
    if len(parts) == 3:
        return _three_parts(s, *parts)
    raise s.refused("a composition has two or three parts: inner o offset o layout", first.start)


def _swizzled_tensor(inner: Part, pointer: Part, outer: Part) -> Tensor | None:
    """Sw<3,4,3> o smem_ptr[16b](0x7f2c) o layout, a tensor with its swizzle before the pointer; None for another thing.

    Where the address is not there or `(unset)`, it is a layout that waits for a pointer.
    """
    swizzle, at, layout = inner.value, pointer.value, outer.value
    if not (isinstance(swizzle, Swizzle) and isinstance(at, Pointer) and isinstance(layout, Layout)):
        return None
    if at.address in (None, "(unset)") or at.swizzle is not None:
        return None
    return Tensor(replace(at, swizzle=counting(swizzle, 8)), layout)


def _two_parts(s: Scanner, first: Part, last: Part) -> ComposedLayout:
    if isinstance(first.value, Swizzle):
        return ComposedLayout(first.value, 0, last.value, last.element_bits)
    if isinstance(first.value, Layout):
        raise s.refused(
            f"two layouts and 'o': composition({first.value}, {last.value}) is their composition", first.start
        )
    if first.value is None:
        raise s.refused("'_' is no offset", first.start)
    return ComposedLayout(None, first.value, last.value, last.element_bits)


def _three_parts(s: Scanner, inner: Part, offset: Part, outer: Part) -> ComposedLayout:
    if not isinstance(inner.value, (Swizzle, Layout)):
        raise s.refused("the first of three parts is a swizzle or a layout", inner.start)
    if isinstance(offset.value, Pointer) and isinstance(inner.value, Swizzle):
        # A layout whose swizzle waits for the pointer: it counts bytes, the layout under it the pointer's elements.
        return ComposedLayout(counting(inner.value, 8), 0, outer.value, offset.value.bits)
    if offset.value is None or isinstance(offset.value, (Swizzle, Layout, Pointer, Opaque)):
        raise s.refused("the second of three parts is an offset, a number or a coordinate", offset.start)
    return ComposedLayout(inner.value, offset.value, outer.value, outer.element_bits)
