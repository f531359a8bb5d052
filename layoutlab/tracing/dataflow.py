"""Dataflow: which register of which load an element that a thread stores was computed from, read off the PTX.

A store's registers are followed back through what computed them. Element-wise arithmetic has the element itself
nearest: p = ex2(s * scale - max) is one step further from every other s, through max, than from its own. So the element
is the one load register that the shortest way leads to; where two are equally near, nothing is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from layoutlab.ptx.parse import Function, Instruction, Operand, Pair, Reg, Vec

LOADS = ("tcgen05.ld", "ld.global")
_OTHER_THREADS = ("shfl", "redux", "atom", "ld.", "ldmatrix", "mma", "wgmma")
"""What gives a register a value that is no function of this thread's registers."""
_FURTHEST = 48
_MOST = 4000

Part = tuple[str, tuple[int, ...]]  # a register and a piece of it: which half, of that which half, and so on


@dataclass(frozen=True)
class Source:
    """A load's PTX line, the number of its register, and the half of that."""

    line: int
    register: int
    half: int | None


class Dataflow:
    """One function's registers, each with what computes it."""

    def __init__(self, function: Function) -> None:
        self.instructions = {i.line: i for i in function.instructions}
        self._found: dict[Part, Source | None] = {}

    @cached_property
    def _definitions(self) -> dict[str, list[tuple[Instruction, int]]]:
        """register -> the instructions that write it, and its number among their results."""
        found: dict[str, list[tuple[Instruction, int]]] = defaultdict(list)
        for instruction in self.instructions.values():
            if not instruction.operands or instruction.opcode.startswith(("st", "tcgen05.st", "stmatrix", "red")):
                continue
            for number, name in enumerate(_names(instruction.operands[0])):
                found[name].append((instruction, number))
        return found

    def sources(self, line: int, element_bytes: int) -> list[Source | None] | None:
        """The source of each element that a store puts down, in order; None where it stores other things."""
        instruction = self.instructions.get(line)
        if instruction is None or not instruction.operands:
            return None
        registers = _names(instruction.operands[-1])
        size = {"b8": 1, "u8": 1, "b16": 2, "u16": 2, "b32": 4, "u32": 4, "f32": 4, "b64": 8, "u64": 8, "f64": 8}.get(
            instruction.opcode.rsplit(".", 1)[-1]
        )
        if not registers or size is None or size < element_bytes:
            return None
        halves = size // element_bytes
        if halves == 1:
            return [self.source((name, ())) for name in registers]
        if halves == 2:
            return [self.source((name, (half,))) for name in registers for half in (0, 1)]
        return None

    def source(self, part: Part) -> Source | None:
        """The load register that a register's value was computed from, element by element."""
        if part not in self._found:
            self._found[part] = self._nearest(part)
        return self._found[part]

    def _nearest(self, part: Part) -> Source | None:
        seen, level = {part}, [part]
        for _ in range(_FURTHEST):
            loads, following = set[Source](), list[Part]()
            for name, piece in level:
                for instruction, number in self._definitions.get(name, []):
                    if instruction.opcode.startswith(LOADS):
                        loads.add(Source(instruction.line, number, piece[0] if piece else None))
                        continue
                    for step in _computed_from(instruction, number, piece):
                        if step not in seen:
                            seen.add(step)
                            following.append(step)
            if loads:
                return next(iter(loads)) if len(loads) == 1 else None
            if not following or len(seen) > _MOST:
                return None
            level = following
        return None


def _computed_from(instruction: Instruction, number: int, piece: tuple[int, ...]) -> Iterator[Part]:
    """The pieces of registers that one result of an instruction, or a piece of it, is made of."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode.startswith(_OTHER_THREADS):
        return
    if opcode.startswith("mov") and len(operands) == 2:
        target, origin = operands
        names = _names(origin)
        if isinstance(target, Vec):  # apart
            yield from ((name, (number, *piece)) for name in names)
        elif isinstance(origin, Vec) and piece and len(names) == 2:  # together
            yield names[piece[0]], piece[1:]
        else:
            yield from ((name, piece if not isinstance(origin, Vec) else ()) for name in names)
        return
    sources = [name for operand in operands[1:] for name in _names(operand)]
    if opcode.startswith("cvt") and "x2." in opcode and len(sources) == 2 and piece:
        yield sources[1 - piece[0]], piece[1:]  # the first source is the upper half
        return
    packed = piece and any(kind in opcode for kind in ("f32x2", "f16x2", "bf16x2"))
    yield from ((name, piece if packed else ()) for name in sources)


def _names(operand: Operand) -> list[str]:
    if isinstance(operand, Reg):
        return [operand.name]
    if isinstance(operand, Vec):
        return [name for item in operand.items for name in _names(item)]
    if isinstance(operand, Pair):
        return _names(operand.first)
    return []
