"""Pointers: which allocation a tensor lies in and at which bit of it, read off the operations that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from layoutlab.errors import LayoutError

_THROUGH = ("cute.get_iter", "cute.make_view", "cute.recast_iter", "cute.slice", "cute.group_modes")
_DEEPEST = 200


@dataclass(frozen=True)
class Place:
    """The allocation (`root` numbers it), the bit of it where the tensor starts, and the view that it was made as.

    `via` names the operations between the view and the tensor that move its start by what is known at run time only;
    `why` says why the start is not known; `whole` is the tensor of which an MMA's partition is a part; `sliced_bits` is
    how far into the view the tensor starts by slices at coordinates that are known.
    """

    root: int
    text: str
    offset_bits: int | None
    via: tuple[str, ...] = ()
    view: str = ""
    why: str = ""
    whole: str = ""
    sliced_bits: int = 0


@dataclass
class Pointers:
    """All allocations that were met, in order."""

    roots: list[Any] = field(default_factory=list)
    chain: list[Any] = field(default_factory=list)
    """The values that the last tensor was made through, from itself to its allocation: what its names may stand for."""

    def place_of(self, tensor: Any) -> Place:
        """Where a tensor of the DSL lies."""
        value, offset, sliced, via, view, why, whole = _raw(tensor), 0, 0, list[str](), "", "", ""
        self.chain = []
        for _ in range(_DEEPEST):
            self.chain.append(value)
            owner = value.owner
            operation = getattr(owner, "operation", owner)
            name = getattr(operation, "name", "")
            if not name:  # an argument of a block
                outer = _outside(value, owner)
                if outer is None:
                    return Place(self._number(value), "an argument", offset, tuple(via), view, why, whole, sliced)
                value = _raw(outer)
                continue
            if name == "cute.make_view" and not view:
                view = tensor_text(str(value.type))
            if name == "cute.slice":
                sliced += _sliced_bits(operation)
            if name == "cute.add_offset":
                step = _step_bits(operation)
                if step is None:
                    why = why or "its address has a part that is known at run time only"
                    via.append("a dynamic offset")
                offset += step or 0
            elif name not in _THROUGH and not view:
                via.append(name.removeprefix("cute."))
            carrier = _carrier(operation, value)
            if carrier is None:
                text = str(operation).split("\n")[0]
                return Place(self._number(value), _told(name, text), offset, tuple(via), view, why, whole, sliced)
            if name == "cute.tiled.mma.partition" and not whole:
                whole = tensor_text(str(carrier.type))
            value = carrier
        raise LayoutError("a pointer's origin is more than 200 operations away")

    def _number(self, value: Any) -> int:
        for i, known in enumerate(self.roots):
            if same(known, value):
                return i
        self.roots.append(value)
        return len(self.roots) - 1


def raw_value(thing: Any) -> Any:
    """The compiler's value behind one of the DSL's objects; None where there is none."""
    value = _raw(thing)
    return value if hasattr(value, "owner") else None


def same(a: Any, b: Any) -> bool:
    """Whether two are one value of the compiler. `==` on the DSL's vectors would compute a comparison instead."""
    from cutlass._mlir import ir

    return bool(ir.Value.__eq__(a, b)) if isinstance(a, ir.Value) and isinstance(b, ir.Value) else a is b


def _raw(thing: Any) -> Any:
    """The compiler's value behind the DSL's object."""
    while not hasattr(thing, "owner") and hasattr(thing, "value"):
        thing = thing.value
    return thing


def _carrier(operation: Any, result: Any) -> Any | None:
    """The operand that the pointer came from; None for an operation that makes one."""
    if operation.name.endswith(("alloca", "get_dyn_smem", "alloc_smem")):
        return None
    if operation.name in ("scf.if", "scf.for", "scf.while"):
        return _from_region(operation, result)
    for operand in operation.operands:
        value = _raw(operand)
        kind = str(getattr(value, "type", ""))
        if kind.startswith(("!cute.memref", "!cute.ptr")):
            return value
    return None


def _from_region(operation: Any, result: Any) -> Any | None:
    """What a loop or a branch hands out: what went into the loop, or what the first branch yields."""
    position = next((i for i, r in enumerate(operation.results) if same(_raw(r), result)), None)
    if position is None:
        return None
    if operation.name == "scf.for":
        return _raw(operation.operands[3 + position])
    if operation.name == "scf.while":
        return _raw(operation.operands[position])
    last = list(operation.regions[0].blocks[0].operations)[-1]
    return _raw(last.operands[position])


def _outside(argument: Any, block: Any) -> Any | None:
    """What a block's argument stands for at first: the loop's initial value; None for a function's argument."""
    operation = getattr(block.owner, "operation", block.owner)
    number = next((i for i, a in enumerate(block.arguments) if same(_raw(a), argument)), None)
    if number is None:
        return None
    if operation.name == "scf.for" and number:
        return operation.operands[2 + number]
    if operation.name == "scf.while":
        return operation.operands[number] if number < len(operation.operands) else None
    return None


def _step_bits(operation: Any) -> int | None:
    """The bits that an add_offset moves a pointer by; None where that is dynamic."""
    from layoutlab.text import bits_of

    pointer, by = (str(_raw(o).type) for o in list(operation.operands)[:2])
    steps = re.search(r'int_tuple<"(-?\d+)">', by)
    element = re.match(r"!cute\.ptr<(\w+)", pointer)
    if steps is None or element is None:
        return None
    bits = {"i8": 8, "i1": 8}.get(element[1]) or bits_of(element[1])
    return None if bits is None else int(steps[1]) * bits


def _sliced_bits(operation: Any) -> int:
    """The bits from a tensor's start to that of its slice; a coordinate that is known at run time only counts as 0.

    Stages are taken at such coordinates, and one stands for all.
    """
    from layoutlab.text import Pointer, Tensor, parse

    source, coordinate = (str(_raw(o).type) for o in list(operation.operands)[:2])
    said = re.search(r'coord<"(.+)">', coordinate)
    try:
        tensor = parse(tensor_text(source))
    except LayoutError:
        return 0
    if said is None or not isinstance(tensor, Tensor) or not isinstance(tensor.iterator, Pointer):
        return 0
    layout: Any = getattr(tensor.layout, "outer", tensor.layout)
    at = _starts(said[1].replace("?", "0").replace("_", "0"))
    if at is None or layout.symbolic():
        return 0
    return int(layout(at)) * tensor.iterator.bits


def _starts(text: str) -> Any | None:
    """A coordinate as numbers; None where it has attributes."""
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def tensor_text(kind: str) -> str:
    """A tensor's type as the DSL prints the tensor; "" where it is no tensor's.

    >>> tensor_text('!cute.memref<bf16, smem, align<16>, "(8,8):(8,1)">')
    'tensor<ptr<bf16, smem, align<16>> o (8,8):(8,1)>'
    >>> tensor_text('!cute.coord_tensor<"(0,0)", "(8,8):(1@0,1@1)">')
    'tensor<(0,0) o (8,8):(1@0,1@1)>'

    The tensor itself is never asked: its printer would have the compiler make its pointer where it stands, perhaps in a
    branch, and use that elsewhere.
    """
    if m := re.fullmatch(r'!cute\.memref<(.+), "(.+)">', kind):
        return f"tensor<ptr<{m[1]}> o {m[2]}>"
    if m := re.fullmatch(r'!cute\.coord_tensor<"(.+)", "(.+)">', kind):
        return f"tensor<{m[1]} o {m[2]}>"
    if m := re.fullmatch(r'!cute_nvgpu\.smem_desc_view<.+, "(.+)">', kind):
        return f"tensor<smem_desc o {m[1]}>"
    return ""


def _told(name: str, text: str) -> str:
    m = re.search(r'memref<(\w+), (\w+), align<\d+>, "(\d+):1">', text)
    return f"{m[3]} x {m[1]} in {m[2]}" if m else name.removeprefix("cute_nvgpu.").removeprefix("cute.")
