"""decode: a parsed function to blocks of ready-to-run operations.

Registers get slots in banks by width, constants get slots behind them, so an operation only indexes. A short forward
branch over plain code becomes that code under a mask, which keeps blocks long and warps together.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from layoutlab.ptx.in_flight import Tracked, registers
from layoutlab.ptx.memory import CONST_BASE, LOCAL_BASE, PARAM_BASE, SHARED_BASE, SHARED_RESERVED_BYTES
from layoutlab.ptx.parse import (
    Discard,
    Function,
    Imm,
    Instruction,
    Mem,
    Module,
    Not,
    Operand,
    PtxError,
    Reg,
    Sym,
    Variable,
    Vec,
    is_special_register,
)
from layoutlab.ptx.registry import Decoded, lookup
from layoutlab.ptx.state import Frame, Op, RegisterPlan

BANK_BITS = {"b16": 16, "b32": 32, "b64": 64}
REGION_LIMIT = 400  # longest forward branch, in operations, that becomes a mask
_WIDE_SPECIAL = ("%clock64", "%globaltimer", "%gridid")


@dataclass
class Node:
    """One decoded instruction, or a branch, on its way into a block."""

    instruction: Instruction
    decoded: Decoded | None = None
    checked: Op | None = None  # the operation with its check of registers in flight, where it needs one
    branch: str | None = None
    exits: bool = False
    table: tuple[str, ...] = ()
    table_slot: int = -1
    guard: int = -1
    negated: bool = False
    weight: int = 1
    labels: list[str] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        d = self.decoded
        return d is not None and d.gate is None and d.sync is None


@dataclass
class Block:
    """Straight-line operations, then at most one branch. A gate or a convergence demand stands first."""

    number: int
    line: int
    instruction: Instruction
    sync: str | int | None = None
    gate: Any = None
    ops: list[Op] = field(default_factory=list)
    checked: list[Op] = field(default_factory=list)  # the same with their checks of registers in flight, or empty
    weight: int = 0
    target: int = -1
    guard: int = -1
    negated: bool = False
    exits: bool = False
    table: tuple[int, ...] = ()
    table_slot: int = -1


@dataclass(frozen=True)
class Program:
    """A function ready to run."""

    function: Function
    blocks: list[Block]
    plan: RegisterPlan
    special: dict[str, int]
    shared_static_bytes: int
    local_bytes: int
    param_offsets: tuple[int, ...]
    param_total: int
    constant_bytes: bytes
    never_written: tuple[tuple[Instruction, str], ...] = ()  # registers that are read alone, with their first reader


class Decoder:
    """Turns operands into slots and addresses for the instruction handlers."""

    def __init__(self, module: Module, function: Function, clustered: bool = False) -> None:
        self.module = module
        self.function = function
        self.clustered = clustered  # the address of a shared variable then depends on the CTA
        self.counts = {"pred": 0, "b16": 0, "b32": 0, "b64": 0}
        self.slots: dict[str, tuple[str, int]] = {}
        self.special: dict[str, int] = {}
        self.constants: dict[str, dict[int, int]] = {"pred": {}, "b16": {}, "b32": {}, "b64": {}}
        self.line = 0
        self.tracked = Tracked(function)
        for name, bank in function.registers.items():
            if bank in self.counts:
                self.slots[name] = (bank, self._new(bank))
        for instruction in function.instructions:
            for operand in instruction.operands:
                self._note_special(operand)
        self.symbols, self.sizes = self._place_variables()

    def _new(self, bank: str) -> int:
        self.counts[bank] += 1
        return self.counts[bank] - 1

    def _note_special(self, operand: Operand) -> None:
        if isinstance(operand, Reg) and operand.name not in self.slots and is_special_register(operand.name):
            bank = "b64" if operand.name in _WIDE_SPECIAL else "b32"
            self.special[operand.name] = self._new(bank)
            self.slots[operand.name] = (bank, self.special[operand.name])

    def own_window(self, bank: str, address: int) -> int:
        """The slot of a shared address that each thread finds in its own CTA's window of the cluster."""
        name = f"shared {bank} {address}"
        if name not in self.special:
            self.special[name] = self._new(bank)
        return self.special[name]

    def temporary(self, bank: str) -> int:
        """A slot that no PTX register has."""
        self.counts[bank] += 1
        return self.counts[bank] - 1

    # -- variables ----------------------------------------------------------------------------------------------

    def _place_variables(self) -> tuple[dict[str, tuple[str, int]], dict[str, int]]:
        """An (address space, address) for each variable, and the bytes that each space needs."""
        sizes = {"shared": 0, "local": 0, "param": 0, "const": 16}
        placed: dict[str, tuple[str, int]] = {}
        declared = [*self.module.variables.values(), *self.function.params, *self.function.variables.values()]
        # An extern array is the dynamic shared memory, which stands behind the static variables.
        declared.sort(key=lambda v: v.space == "shared" and v.size == 0)
        self.constant_image = bytearray(16)
        for variable in declared:
            space = "const" if variable.space in ("const", "global") else variable.space
            start = -(-sizes[space] // max(variable.align, 1)) * max(variable.align, 1)
            sizes[space] = start + variable.size
            placed[variable.name] = (space, start)
            if space == "const":
                self._fill_constant(variable, start)
        return placed, sizes

    def _fill_constant(self, variable: Variable, start: int) -> None:
        data = variable.initial or bytes(variable.size)
        self.constant_image.extend(bytes(start + len(data) - len(self.constant_image)))
        self.constant_image[start : start + len(data)] = data

    def address_of(self, symbol: Sym) -> tuple[str, int]:
        """The state space and address of a variable, plus the symbol's offset."""
        if symbol.name not in self.symbols:
            raise PtxError(f"unknown name {symbol.name!r}", self.line)
        space, start = self.symbols[symbol.name]
        base = SHARED_RESERVED_BYTES if space == "shared" else 0
        return space, start + base + symbol.offset

    def generic_address(self, symbol: Sym) -> int:
        space, address = self.address_of(symbol)
        base = {"shared": SHARED_BASE, "local": LOCAL_BASE, "param": PARAM_BASE, "const": CONST_BASE}[space]
        return base + address

    # -- operands -----------------------------------------------------------------------------------------------

    def fail(self, message: str) -> PtxError:
        return PtxError(message, self.line)

    def constant(self, bank: str, bits: int) -> int:
        """The slot of a constant, counted from the end of the frame's list so that registers may still be added."""
        table = self.constants[bank]
        if bits not in table:
            table[bits] = -1 - len(table)
        return table[bits]

    def slot(self, operand: Operand, bits: int) -> int:
        """The slot of a source of `bits` bits: a register of that width, or a constant."""
        bank = f"b{bits}"
        if isinstance(operand, Reg):
            found, index = self.register(operand)
            if found != bank:
                raise self.fail(f"register {operand.name} is .{found} where .{bank} is meant")
            return index
        if isinstance(operand, Imm):
            return self.constant(bank, self._immediate(operand, bits))
        if isinstance(operand, Sym):
            space, address = self.address_of(operand)
            if space == "shared" and self.clustered:
                return self.own_window(bank, address)
            value = address if bits == 32 or space in ("shared", "local", "param") else self.generic_address(operand)
            return self.constant(bank, value)
        raise self.fail(f"operand {operand} where a value of {bits} bits is meant")

    def _immediate(self, operand: Imm, bits: int) -> int:
        if operand.float_bits == 64 and bits == 32:
            value = struct.unpack("<d", struct.pack("<Q", operand.value))[0]
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        if operand.float_bits and operand.float_bits != bits:
            raise self.fail(f"a {operand.float_bits}-bit literal where {bits} bits are meant")
        return operand.value & ((1 << bits) - 1)

    def register(self, operand: Reg) -> tuple[str, int]:
        if operand.name not in self.slots:
            raise self.fail(f"register {operand.name} is not declared or of a type not emulated yet")
        return self.slots[operand.name]

    def bits_of(self, operand: Operand) -> int:
        """The width of a register operand; 0 for anything else."""
        if isinstance(operand, Reg):
            return BANK_BITS.get(self.register(operand)[0], 0)
        return 0

    def destination(self, operand: Operand, bits: int) -> int:
        """The slot of a destination; `_` gets a slot of its own that nobody reads."""
        if isinstance(operand, Discard):
            return self.temporary(f"b{bits}" if bits > 1 else "pred")
        if not isinstance(operand, Reg):
            raise self.fail(f"destination {operand} is no register")
        return self.predicate(operand) if bits == 1 else self.slot(operand, bits)

    def predicate(self, operand: Operand) -> int:
        """The slot of a predicate source or destination."""
        if isinstance(operand, Imm):
            return self.constant("pred", int(operand.value != 0))
        if isinstance(operand, Discard):
            return self.temporary("pred")
        if not isinstance(operand, Reg) or self.register(operand)[0] != "pred":
            raise self.fail(f"operand {operand} where a predicate is meant")
        return self.register(operand)[1]

    def signed_predicate(self, operand: Operand) -> tuple[int, bool]:
        """A predicate source and whether `!` negates it."""
        if isinstance(operand, Not):
            return self.predicate(operand.reg), True
        return self.predicate(operand), False

    def vector(self, operand: Operand, bits: int, destination: bool = False) -> list[int]:
        """The slots of `{a, b, ...}` or of a single operand."""
        items = operand.items if isinstance(operand, Vec) else (operand,)
        return [self.destination(i, bits) if destination else self.slot(i, bits) for i in items]

    def expect(self, ins: Instruction, *counts: int) -> None:
        """Stop unless the instruction has one of these numbers of operands."""
        if len(ins.operands) not in counts:
            raise self.fail(f"{ins.opcode} with {len(ins.operands)} operands")

    def memory(self, operand: Operand) -> Mem:
        if not isinstance(operand, Mem):
            raise self.fail(f"operand {operand} where an address is meant")
        return operand

    # -- program ------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        nodes = self._nodes()
        nodes = _mask_forward_branches(nodes)
        blocks = self._blocks(nodes)
        total, offsets = 0, []
        for variable in self.function.params:
            offsets.append(self.symbols[variable.name][1])
            total = offsets[-1] + variable.size
        constants = {b: tuple(t) for b, t in self.constants.items()}
        plan = RegisterPlan(dict(self.counts), constants, len(self.tracked.names))
        return Program(
            self.function, blocks, plan, self.special, self.sizes["shared"], self.sizes["local"], tuple(offsets),
            max(total, self.sizes["param"]), bytes(self.constant_image), never_written(self.function),
        )  # fmt: skip

    def _nodes(self) -> list[Node]:
        at: dict[int, list[str]] = {}
        for label, index in self.function.labels.items():
            at.setdefault(index, []).append(label)
        nodes = []
        for index, ins in enumerate(self.function.instructions):
            self.line = ins.line
            node = self._node(ins)
            node.labels = at.get(index, [])
            before = node.decoded.before if node.decoded is not None else None
            if before is not None:  # an arrival, then the gate that waits for the others
                assert node.decoded is not None
                nodes.append(Node(ins, Decoded(before, sync=node.decoded.sync), labels=node.labels))
                node = Node(ins, Decoded(gate=node.decoded.gate), weight=0)
            nodes.append(node)
        end = Instruction("ret", (), nodes[-1].instruction.line if nodes else 0)
        nodes.append(Node(end, exits=True, labels=at.get(len(self.function.instructions), [])))
        return nodes

    def _node(self, ins: Instruction) -> Node:
        guard, negated = (self.predicate(ins.guard), ins.guard_negated) if ins.guard else (-1, False)
        if ins.opcode in ("bra", "bra.uni"):
            label = ins.operands[0]
            if not isinstance(label, Sym) or label.name not in self.function.labels:
                raise self.fail(f"branch to unknown label {label}")
            return Node(ins, branch=label.name, guard=guard, negated=negated)
        if ins.opcode in ("ret", "exit", "ret.uni"):
            return Node(ins, exits=True, guard=guard, negated=negated)
        if ins.opcode in ("brx.idx", "brx.idx.uni"):
            index, table = ins.operands
            if not isinstance(table, Sym) or table.name not in self.function.branch_tables:
                raise self.fail(f"branch table {table} is unknown")
            return Node(ins, table=self.function.branch_tables[table.name], table_slot=self.slot(index, 32))
        try:
            handler, qualifiers = lookup(ins)
            result = handler(self, ins, qualifiers)
        except PtxError as error:
            if error.line is None:
                raise self.fail(str(error)) from error
            raise
        decoded = result if isinstance(result, Decoded) else Decoded(op=result)
        checked = None
        if decoded.op is not None and self.tracked.names:
            decoded = replace(decoded, op=self.tracked.marking(ins, decoded.op))
            assert decoded.op is not None
            checked = self.tracked.checked(ins, decoded.op)
        if guard >= 0:
            decoded = self._guarded(ins, decoded, guard, negated)
            checked = None if checked is None else masked_region(guard, negated, [checked], 1)
        return Node(ins, decoded, checked)

    def _guarded(self, ins: Instruction, decoded: Decoded, guard: int, negated: bool) -> Decoded:
        if decoded.gate is not None:
            raise self.fail(f"{ins.opcode} under a guard is not emulated yet")
        assert decoded.op is not None
        # A guarded .sync instruction demands convergence of the lanes that execute it; they hold the same guard.
        return Decoded(op=masked_region(guard, negated, [decoded.op], 1), sync=None)

    def _blocks(self, nodes: list[Node]) -> list[Block]:
        starts = self._block_starts(nodes)
        number = {index: i for i, index in enumerate(starts)}
        labels = {label: index for index, node in enumerate(nodes) for label in node.labels}
        blocks = []
        for i, start in enumerate(starts):
            end = starts[i + 1] if i + 1 < len(starts) else len(nodes)
            block = Block(i, nodes[start].instruction.line, nodes[start].instruction)
            for node in nodes[start:end]:
                self._append(block, node, labels, number)
            if any(node.checked is not None for node in nodes[start:end]):
                kept = [(n.checked, n.decoded.op) for n in nodes[start:end] if n.decoded is not None]
                block.checked = [checked or op for checked, op in kept if op is not None]
            blocks.append(block)
        return blocks

    def _block_starts(self, nodes: list[Node]) -> list[int]:
        used = {n.branch for n in nodes if n.branch} | {t for n in nodes for t in n.table}
        starts = {0}
        for index, node in enumerate(nodes):
            if used.intersection(node.labels) or (node.decoded is not None and not node.plain):
                starts.add(index)
            if node.branch or node.exits or node.table or (node.decoded is not None and node.decoded.gate is not None):
                starts.add(index + 1)
        starts.discard(len(nodes))
        return sorted(starts)

    def _append(self, block: Block, node: Node, labels: dict[str, int], number: dict[int, int]) -> None:
        block.weight += node.weight
        if node.decoded is not None:
            block.sync = node.decoded.sync if node.decoded.sync is not None else block.sync
            block.gate = node.decoded.gate or block.gate
            if node.decoded.op is not None:
                block.ops.append(node.decoded.op)
            return
        block.guard, block.negated, block.exits = node.guard, node.negated, node.exits
        if node.branch:
            block.target = number[labels[node.branch]]
        if node.table:
            block.table = tuple(number[labels[t]] for t in node.table)
            block.table_slot = node.table_slot


def never_written(function: Function) -> tuple[tuple[Instruction, str], ...]:
    """The registers that some instruction reads and none writes; every instruction's results stand first.

    Compilers pack a value beside an undefined one and unpack both: where nothing reads what the undefined one became,
    nothing was read.
    """
    written = {name for i in function.instructions for name in _results(i)}
    readers: dict[str, list[Instruction]] = {}
    for ins in function.instructions:
        read = [name for operand in ins.operands[bool(_results(ins)) :] for name in registers(operand)]
        for name in [*read, *([ins.guard.name] if ins.guard else [])]:
            if name in function.registers:
                readers.setdefault(name, []).append(ins)
    lost = {name: found for name, found in readers.items() if name not in written}
    return tuple((found[0], name) for name, found in lost.items() if not all(_idle(i, name, readers) for i in found))


def _idle(ins: Instruction, name: str, readers: dict[str, list[Instruction]]) -> bool:
    """Whether an instruction only packs a register into another one, and nothing reads that part of it."""
    if not ins.opcode.startswith("mov.b") or len(ins.operands) != 2 or ins.guard:
        return False
    packed, parts = ins.operands
    if not isinstance(packed, Reg) or not isinstance(parts, Vec):
        return False
    at = [i for i, item in enumerate(parts.items) if name in registers(item)]
    for unpack in readers.get(packed.name, []):
        into = unpack.operands[0]
        if unpack.opcode != ins.opcode or not isinstance(into, Vec) or len(into.items) != len(parts.items):
            return False
        if any(readers.get(part) for i in at for part in registers(into.items[i])):
            return False
    return True


def _results(ins: Instruction) -> list[str]:
    if not ins.operands or isinstance(ins.operands[0], Mem):
        return []
    return list(registers(ins.operands[0]))


def _mask_forward_branches(nodes: list[Node]) -> list[Node]:
    """Turn `@p bra L; plain code; L:` into that code under a mask, innermost first."""
    references: dict[str, int] = {}
    for node in nodes:
        for label in ([node.branch] if node.branch else []) + list(node.table):
            references[label] = references.get(label, 0) + 1
    index = len(nodes) - 1
    while index >= 0:
        node = nodes[index]
        if node.branch and node.guard >= 0:
            end = _region_end(nodes, index, references)
            if end is not None:
                body = nodes[index + 1 : end]
                ops = [b.decoded.op for b in body if b.decoded is not None and b.decoded.op is not None]
                region = masked_region(node.guard, not node.negated, ops, sum(b.weight for b in body))
                merged = Node(node.instruction, Decoded(op=region), labels=node.labels)
                if any(b.checked is not None for b in body):
                    kept = [b.checked or b.decoded.op for b in body if b.decoded is not None]
                    merged.checked = masked_region(
                        node.guard, not node.negated, [op for op in kept if op is not None],
                        sum(b.weight for b in body),
                    )  # fmt: skip
                references[node.branch] -= 1
                nodes[index:end] = [merged]
        index -= 1
    return nodes


def _region_end(nodes: list[Node], index: int, references: dict[str, int]) -> int | None:
    """Where the branch's label stands, if only plain code lies before it and nothing else jumps in between."""
    label = nodes[index].branch
    for end in range(index + 1, min(index + REGION_LIMIT, len(nodes))):
        if label in nodes[end].labels:
            return end
        if not nodes[end].plain or any(references.get(other, 0) for other in nodes[end].labels):
            return None
    return None


def masked_region(guard: int, negated: bool, ops: list[Op], weight: int) -> Op:
    """Operations that run in the lanes where the guard holds."""
    count_nonzero, logical_not = np.count_nonzero, np.logical_not

    def run(f: Frame) -> None:
        chosen = f.p[guard]
        if negated:
            chosen = logical_not(chosen)
        outer = f.mask
        if outer is not True:
            chosen = chosen & outer
        active = int(count_nonzero(chosen))
        if active == 0:
            return
        if chosen.size != f.rows * 32:
            chosen = np.broadcast_to(chosen, f.shape)
            active = f.rows * 32
        rows = min(active, f.rows)
        if 1 < active < f.rows * 32:
            rows = int(chosen.any(axis=1).sum())
        f.wave.instructions += weight * rows
        if active < f.rows * 32:
            f.mask = chosen
        try:
            for op in ops:
                op(f)
        finally:
            f.mask = outer

    return run


@lru_cache(maxsize=16)
def decode(module: Module, function: Function, clustered: bool = False) -> Program:
    """Decode a function of a module, for clusters of several CTAs or of one.

    The program holds no state of a run, so it is kept for the next one.
    """
    import layoutlab.ptx.isa  # noqa: F401  (importing the package declares every opcode)

    return Decoder(module, function, clustered).program()
