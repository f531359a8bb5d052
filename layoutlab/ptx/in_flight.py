"""in_flight: registers that an asynchronous instruction still owns, and who touches one before its wait.

wgmma gives its accumulators, and tcgen05.ld its registers, only at wgmma.wait_group and tcgen05.wait::ld (PTX ISA
9.7.15.3, 9.7.16.6); to touch one before is undefined. The machine gives the values at once, under every schedule, since
compilers move such registers about between an mma and its wait and a late write would land in the wrong copy. So it
keeps beside each register that may be in flight who owns it in each warp; `mov` carries the mark along, and every other
instruction that touches a marked register is reported.

Of tcgen05.ld this is reported only under the option `strict tcgen05.ld`: NVIDIA's own attention kernel and flash-attn-4
use what they load with no wait between, and the assembler orders it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.ptx.parse import Function, Instruction, Mem, Not, Operand, Pair, Reg, Vec

if TYPE_CHECKING:
    from layoutlab.ptx.report import Findings
    from layoutlab.ptx.state import Frame, Op

Index = NDArray[np.intp]
WGMMA, LOAD = "wgmma.mma_async", "tcgen05.ld"
STRICT_LOADS = "strict tcgen05.ld"
_WAITS = {WGMMA: "wgmma.wait_group", LOAD: "tcgen05.wait::ld"}


def registers(operand: Operand) -> Iterator[str]:
    """The names of the registers in an operand.

    >>> list(registers(Vec((Reg("%r1"), Mem(Reg("%rd2"), 8)))))
    ['%r1', '%rd2']
    """
    if isinstance(operand, Reg):
        yield operand.name
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from registers(item)
    elif isinstance(operand, Pair):
        yield from registers(operand.first)
        yield from registers(operand.second)
    elif isinstance(operand, Mem):
        for item in (operand.base, *operand.coordinates):
            yield from registers(item)
    elif isinstance(operand, Not):
        yield from registers(operand.reg)


def starter(ins: Instruction) -> str | None:
    """Which kind of asynchronous owner an instruction makes of its first operand, if any."""
    return next((kind for kind in (WGMMA, LOAD) if ins.opcode.startswith(f"{kind}.")), None)


class Tracked:
    """The registers of a function that may be in flight, numbered: what the owners give, and its copies by mov."""

    def __init__(self, function: Function) -> None:
        names: dict[str, int] = {}
        moves = [i for i in function.instructions if i.opcode.startswith("mov.") and len(i.operands) == 2]
        for ins in function.instructions:
            if starter(ins) is not None:
                for name in registers(ins.operands[0]):
                    names.setdefault(name, len(names))
        grew = bool(names)
        while grew:
            grew = False
            for ins in moves:
                if any(name in names for name in registers(ins.operands[1])):
                    for name in registers(ins.operands[0]):
                        grew = grew or name not in names
                        names.setdefault(name, len(names))
        self.numbers = names
        self.names = list(names)

    def index(self, operands: Iterable[Operand]) -> Index:
        found = dict.fromkeys(name for o in operands for name in registers(o) if name in self.numbers)
        return np.array([self.numbers[name] for name in found], np.intp)

    def marking(self, ins: Instruction, op: Op) -> Op:
        """An owner's operation, which marks what it gives, or a wait's, which takes marks away; else the operation."""
        kind = starter(ins)
        if kind is not None:
            given = self.index(ins.operands[:1])
            return _then(op, lambda f: f.wave.in_flight.start(f, ins, given, kind == LOAD))
        if ins.opcode.startswith("wgmma.commit_group"):
            return _then(op, lambda f: f.wave.in_flight.commit(f))
        if ins.opcode.startswith("wgmma.wait_group"):
            allowed = int(getattr(ins.operands[0], "value", 0)) if ins.operands else 0
            return _then(op, lambda f: f.wave.in_flight.wait_group(f, allowed))
        if ins.opcode.startswith("tcgen05.wait::ld"):
            return _then(op, lambda f: f.wave.in_flight.wait_loads(f))
        return op

    def checked(self, ins: Instruction, op: Op) -> Op | None:
        """The operation with its check, for use while something is in flight; None when it touches nothing tracked."""
        if ins.opcode.startswith("mov."):
            to, source = self.index(ins.operands[:1]), self.index(ins.operands[1:])
            return None if not len(to) else _then(op, lambda f: f.wave.in_flight.move(f, to, source))
        touched = self.index(ins.operands[1:] if starter(ins) is not None else ins.operands)
        if not len(touched):
            return None

        def run(f: Frame) -> None:
            f.wave.in_flight.check(f, ins, touched, self.names)
            op(f)

        return run


def _then(first: Op, second: Op) -> Op:
    def run(f: Frame) -> None:
        first(f)
        second(f)

    return run


class InFlight:
    """The marks of a wave, [register, row]: 0 for none, n for the n-th owner, -n when it is a tcgen05.ld."""

    def __init__(self, count: int, rows: int) -> None:
        self.marks = np.zeros((count, rows), np.int32)
        self.groups: list[list[int]] = [[] for _ in range(rows)]
        self.owners: list[Instruction] = []
        self.active = False

    def start(self, f: Frame, ins: Instruction, given: Index, is_load: bool) -> None:
        if is_load and STRICT_LOADS not in f.wave.services.options:
            return
        self.owners.append(ins)
        number = len(self.owners)
        self.marks[given[:, None], _rows(f)] = -number if is_load else number
        self.active = True

    def commit(self, f: Frame) -> None:
        for row in _rows(f).tolist():
            self.groups[row].append(len(self.owners))

    def wait_group(self, f: Frame, allowed: int) -> None:
        for row in _rows(f).tolist():
            groups = self.groups[row]
            if len(groups) > allowed:
                last = groups[-1 - allowed]
                column = self.marks[:, row]
                column[(column > 0) & (column <= last)] = 0
                del groups[: len(groups) - allowed]
        self.active = bool(self.marks.any())

    def wait_loads(self, f: Frame) -> None:
        rows = _rows(f)
        marks = self.marks[:, rows]
        self.marks[:, rows] = np.where(marks < 0, 0, marks)
        self.active = bool(self.marks.any())

    def move(self, f: Frame, to: Index, source: Index) -> None:
        rows = _rows(f)
        if len(source) == 0:
            self.marks[to[:, None], rows] = 0
            return
        marks = self.marks[source[:, None], rows]
        carried = marks if len(to) == len(source) == 1 else marks[np.abs(marks).argmax(axis=0), np.arange(len(rows))]
        self.marks[to[:, None], rows] = carried

    def check(self, f: Frame, ins: Instruction, touched: Index, names: list[str]) -> None:
        marks = self.marks[touched[:, None], _rows(f)]
        if not marks.any():
            return
        at, row = (int(x[0]) for x in np.nonzero(marks))
        owner = self.owners[abs(int(marks[at, row])) - 1]
        wait = _WAITS[LOAD if marks[at, row] < 0 else WGMMA]
        findings: Findings = f.wave.services.findings
        findings.add(
            "in flight", ins,
            f"{ins.opcode} touches {names[touched[at]]}, which {owner.opcode} of {owner.where} gives: no {wait} since",
        )  # fmt: skip


def _rows(f: Frame) -> NDArray[Any]:
    """The wave's rows in which some lane executes."""
    if f.mask is True:
        return np.arange(f.low, f.high)
    return np.flatnonzero(f.mask.any(axis=1)) + f.low
