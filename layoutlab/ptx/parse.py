"""parse: PTX text to a program of instructions, each with its line.

The parser knows the shape of the language (scopes, declarations, operands); which opcodes and qualifiers exist is
declared in `layoutlab.ptx.isa`, and whatever neither of them knows stops with the number of its PTX line.
PTX ISA 9.x, chapters 4 (syntax), 5 (state spaces) and 11 (directives).
"""

from __future__ import annotations

import contextlib
import gc
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

REGISTER_BYTES = {"pred": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16}
_CANONICAL = {
    "u16": "b16", "s16": "b16", "f16": "b16", "b8": "b16", "u8": "b16", "s8": "b16", "f16x2": "b32",
    "u32": "b32", "s32": "b32", "f32": "b32", "u64": "b64", "s64": "b64", "f64": "b64",
}  # fmt: skip
TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


class PtxError(Exception):
    """What the machine cannot parse, decode or run, with the PTX line where it stands."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"PTX line {line}: {message}")
        self.line = line


@dataclass(frozen=True)
class Reg:
    name: str


@dataclass(frozen=True)
class Imm:
    """An integer literal, or the bits of a floating-point one with its width in `float_bits`."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Sym:
    """A variable, parameter, function or label."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Vec:
    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`d|p`: a value and a predicate written by one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Mem:
    """`[base+offset]`, or a tensor address `[base, {c0, c1}]` with its coordinates (and further vectors)."""

    base: Reg | Sym | Imm
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Not:
    """`!p`: a negated predicate operand."""

    reg: Reg


@dataclass(frozen=True)
class Discard:
    """`_`: a destination that is not wanted."""


Operand = Reg | Imm | Sym | Vec | Pair | Mem | Not | Discard


@dataclass(frozen=True)
class Instruction:
    opcode: str
    operands: tuple[Operand, ...]
    line: int
    guard: Reg | None = None
    guard_negated: bool = False
    source: tuple[str, int] | None = None
    text: str = ""

    @property
    def where(self) -> str:
        """The PTX line, and the source line where the PTX names one."""
        place = f"PTX line {self.line}"
        return place if self.source is None else f"{place} ({self.source[0]}:{self.source[1]})"


@dataclass(frozen=True)
class Variable:
    """A parameter or a variable of a state space; sizes in bytes, 0 for an extern array of unknown size."""

    name: str
    size: int
    align: int
    space: str
    initial: bytes | None = None


@dataclass(eq=False)
class Function:
    name: str
    params: tuple[Variable, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    required_threads: tuple[int, int, int] | None = None
    required_cluster: tuple[int, int, int] | None = None
    register_vectors: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(eq=False)
class Module:
    version: str = ""
    target: str = ""
    entries: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    text: str = ""


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Hundreds of thousands of small objects and no cycles among them: the garbage collector would only walk them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@lru_cache(maxsize=16)
def parse_module(text: str) -> Module:
    """Parse a PTX module.

    >>> m = parse_module('''.version 8.8
    ... .target sm_100a
    ... .address_size 64
    ... .visible .entry k(.param .u32 n) { .reg .b32 %r<2>; ld.param.u32 %r1, [n]; ret; }''')
    >>> m.entries["k"].instructions[0].opcode
    'ld.param.u32'

    Raises `PtxError` with the line of the first statement it does not know.
    """
    with no_collection():
        return _Parser(text).module()


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_WORD = re.compile(r"[%$._A-Za-z0-9]+")
_LABEL = re.compile(r"([$_A-Za-z][$_A-Za-z0-9]*)\s*:(?!:)")
_DECLARATION = re.compile(r"((?:\.[A-Za-z_0-9:]+\s+|\.align\s+\d+\s+)+)([%$_A-Za-z][$_A-Za-z0-9%]*)\s*(.*)", re.S)


class _Parser:
    def __init__(self, text: str) -> None:
        self.original = text
        self.text = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        self.pos = 0
        self.result = Module(text=text)
        self._line_pos = 0
        self._line = 1

    def module(self) -> Module:
        while self._skip_space():
            self._module_statement()
        return self.result

    # -- scanning -----------------------------------------------------------------------------------------------

    def _skip_space(self) -> bool:
        text, n = self.text, len(self.text)
        while self.pos < n and text[self.pos].isspace():
            self.pos += 1
        return self.pos < n

    def line(self, pos: int | None = None) -> int:
        pos = self.pos if pos is None else pos
        if pos < self._line_pos:
            self._line_pos, self._line = 0, 1
        self._line += self.text.count("\n", self._line_pos, pos)
        self._line_pos = pos
        return self._line

    def _until(self, stop: str) -> str:
        end = self.text.find(stop, self.pos)
        if end < 0:
            raise PtxError(f"a statement without its {stop!r}", self.line())
        found, self.pos = self.text[self.pos : end], end + len(stop)
        return found

    def _rest_of_line(self) -> str:
        end = self.text.find("\n", self.pos)
        end = len(self.text) if end < 0 else end
        found, self.pos = self.text[self.pos : end], end
        return found

    # -- module level -------------------------------------------------------------------------------------------

    def _module_statement(self) -> None:
        start = self.pos
        match = _WORD.match(self.text, self.pos)
        word = match.group() if match else self.text[self.pos]
        if word in (".version", ".target", ".address_size"):
            value = self._rest_of_line().split(None, 1)[1].strip()
            if word == ".version":
                self.result.version = value
            elif word == ".target":
                self.result.target = value
            elif value != "64":
                raise PtxError(f"address size {value}: the machine has 64-bit addresses", self.line(start))
        elif word == ".file":
            self._file(self._rest_of_line())
        elif word == ".section":
            self._until("}")
        elif word in (".visible", ".weak", ".extern", ".entry", ".func", ".global", ".const", ".shared"):
            self._linked(start)
        else:
            raise PtxError(f"unknown module statement {word!r}", self.line(start))

    def _file(self, statement: str) -> None:
        match = re.match(r'\.file\s+(\d+)\s+"([^"]*)"', statement)
        if match:
            self.result.files[int(match.group(1))] = match.group(2)

    def _linked(self, start: int) -> None:
        """`.visible .entry name(...) {...}`, a `.func` or a variable of the module."""
        head = re.compile(r"((?:\.(?:visible|weak|extern|common)\s+)*)\.(entry|func)\b").match(self.text, self.pos)
        if head is None:
            variable = self._variable(self._until(";"), self.line(start))
            self.result.variables[variable.name] = variable
            return
        self.pos = head.end()
        if head.group(2) == "func":
            self._function_declaration(start)
        else:
            self._entry()

    def _function_declaration(self, start: int) -> None:
        """External functions (vprintf) are declared without a body; the call names them."""
        semicolon, brace = self.text.find(";", self.pos), self.text.find("{", self.pos)
        if brace >= 0 and brace < semicolon:
            raise PtxError("a .func with a body: device functions are not emulated yet", self.line(start))
        self._until(";")

    def _entry(self) -> None:
        self._skip_space()
        match = _WORD.match(self.text, self.pos)
        if match is None:
            raise PtxError("an entry without a name", self.line())
        function = Function(match.group())
        self.pos = match.end()
        self._skip_space()
        if self.text[self.pos] == "(":
            self.pos += 1
            declared = self._until(")")
            parts = [p for p in declared.split(",") if p.strip()]
            function.params = tuple(self._variable(p.strip(), self.line()) for p in parts)
        self._entry_directives(function)
        _Body(self, function).parse()
        self.result.entries[function.name] = function

    def _entry_directives(self, function: Function) -> None:
        while self._skip_space() and self.text[self.pos] != "{":
            match = re.compile(r"\.(\w+)\s*([\d ,]*)").match(self.text, self.pos)
            if match is None or match.group(1) not in (
                "reqntid", "maxntid", "minnctapersm", "maxnreg", "reqnctapercluster", "explicitcluster",
                "maxclusterrank", "blocksareclusters", "noreturn",
            ):  # fmt: skip
                raise PtxError(f"unknown entry directive {self._rest_of_line()!r}", self.line())
            self.pos = match.end()
            if match.group(1) in ("reqntid", "reqnctapercluster"):
                sizes = [int(x) for x in match.group(2).split(",")] + [1, 1]
                required = (sizes[0], sizes[1], sizes[2])
                if match.group(1) == "reqntid":
                    function.required_threads = required
                else:
                    function.required_cluster = required
        self.pos += 1

    def _variable(self, statement: str, line: int) -> Variable:
        match = _DECLARATION.match(statement.strip())
        if match is None:
            raise PtxError(f"unknown declaration {statement.strip()!r}", line)
        attributes, name, rest = match.groups()
        align_match = re.search(r"\.align\s+(\d+)", attributes)
        words = re.findall(r"\.(\w+)", re.sub(r"\.align\s+\d+", "", attributes))
        space = next((w for w in words if w in ("param", "shared", "global", "const", "local")), "")
        kind = next((w for w in words if w in TYPE_BYTES), None)
        unknown = set(words) - {space, kind, "visible", "weak", "extern", "common", "ptr", "v2", "v4"}
        if kind is None or unknown:
            raise PtxError(f"unknown declaration {statement.strip()!r}", line)
        width = TYPE_BYTES[kind] * (4 if "v4" in words else 2 if "v2" in words else 1)
        body, _, initial = rest.partition("=")
        size = width
        for extent in re.findall(r"\[\s*(\d*)\s*\]", body):
            size *= int(extent or 0)
        align = int(align_match.group(1)) if align_match else width
        data = _initial_bytes(initial, TYPE_BYTES[kind], size, line) if initial.strip() else None
        return Variable(name, size, align, space, data)


def _initial_bytes(text: str, width: int, size: int, line: int) -> bytes:
    numbers = [parse_number(x.strip(), line) for x in text.strip().strip("{}").split(",") if x.strip()]
    data = b"".join((n.value & ((1 << 8 * width) - 1)).to_bytes(width, "little") for n in numbers)
    return data.ljust(size, b"\0")


class _Body:
    """A function's statements; names declared in an inner scope are made unique."""

    def __init__(self, parser: _Parser, function: Function) -> None:
        self.parser = parser
        self.function = function
        self.scopes: list[dict[str, str]] = [{}]
        self.count = 0
        self.source: tuple[str, int] | None = None
        # Labels and forward branches are resolved when their scope closes, so operands keep names until then.
        self.pending: list[list[int]] = [[]]

    def parse(self) -> None:
        parser = self.parser
        while True:
            if not parser._skip_space():
                raise PtxError("the function's closing brace is missing", parser.line())
            char = parser.text[parser.pos]
            if char == "{":
                parser.pos += 1
                self.scopes.append({})
                self.pending.append([])
            elif char == "}":
                parser.pos += 1
                self._close_scope()
                if not self.scopes:
                    return
            elif char == ";":
                parser.pos += 1
            else:
                self._statement()

    def _close_scope(self) -> None:
        scope, mine = self.scopes.pop(), self.pending.pop()
        if not scope:
            if self.pending:
                self.pending[-1].extend(mine)
            return
        for index in mine:
            self.function.instructions[index] = _renamed_labels(self.function.instructions[index], scope)
        if self.pending:
            self.pending[-1].extend(mine)

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _declare(self, name: str, depth_name: bool = True) -> str:
        if len(self.scopes) == 1:
            return name
        self.count += 1
        unique = f"{name}@{self.count}"
        self.scopes[-1][name] = unique
        return unique

    def _statement(self) -> None:
        parser = self.parser
        start = parser.pos
        line = parser.line(start)
        label = _LABEL.match(parser.text, start)
        if label is not None:
            parser.pos = label.end()
            self._label(label.group(1))
        elif parser.text.startswith((".loc ", ".loc\t"), start):
            self._loc(parser._rest_of_line())
        elif parser.text.startswith((".file ", ".file\t"), start):
            parser._file(parser._rest_of_line())
        elif parser.text[start] == ".":
            self._directive(parser._until(";").strip(), line)
        else:
            self._instruction(parser._until(";").strip(), line)

    def _label(self, name: str) -> None:
        parser = self.parser
        unique = self._declare(name)
        parser._skip_space()
        if parser.text.startswith(".branchtargets", parser.pos):
            targets = parser._until(";").split(None, 1)[1]
            self.function.branch_tables[unique] = tuple(t.strip() for t in targets.split(","))
        else:
            self.function.labels[unique] = len(self.function.instructions)

    def _loc(self, statement: str) -> None:
        match = re.match(r"\.loc\s+(\d+)\s+(\d+)", statement)
        if match:
            file = self.parser.result.files.get(int(match.group(1)), match.group(1))
            self.source = (file, int(match.group(2)))

    def _directive(self, statement: str, line: int) -> None:
        if statement.startswith(".reg"):
            self._registers(statement, line)
        elif statement.startswith((".shared", ".local", ".param", ".global", ".const")):
            variable = self.parser._variable(statement, line)
            name = self._declare(variable.name)
            self.function.variables[name] = Variable(
                name, variable.size, variable.align, variable.space, variable.initial
            )
        elif not statement.startswith((".pragma", ".loc")):
            raise PtxError(f"unknown directive {statement!r}", line)

    def _registers(self, statement: str, line: int) -> None:
        match = re.match(r"\.reg\s+(?:\.v([24])\s+)?\.(\w+)\s+(.*)", statement, re.S)
        if match is None:
            raise PtxError(f"unknown register declaration {statement!r}", line)
        kind = _CANONICAL.get(match.group(2), match.group(2))
        if kind not in REGISTER_BYTES:
            raise PtxError(f"unknown register type .{match.group(2)}", line)
        for name in match.group(3).split(","):
            span = re.match(r"\s*([%$_A-Za-z][\w$%]*)\s*(?:<(\d+)>)?\s*$", name)
            if span is None:
                raise PtxError(f"unknown register declaration {statement!r}", line)
            names = (
                [span.group(1)] if span.group(2) is None else [f"{span.group(1)}{i}" for i in range(int(span.group(2)))]
            )
            for each in names:
                unique = self._declare(each)
                if match.group(1) is None:
                    self.function.registers[unique] = kind
                    continue
                parts = tuple(f"{unique}.{axis}" for axis in "xyzw"[: int(match.group(1))])
                self.function.register_vectors[unique] = parts
                self.function.registers.update(dict.fromkeys(parts, kind))

    def _instruction(self, statement: str, line: int) -> None:
        text = " ".join(statement.split())
        guard, negated = None, False
        match = re.match(r"@(!?)([%$_A-Za-z][\w$%]*)\s+(.*)", text)
        if match:
            negated, guard = match.group(1) == "!", Reg(self._resolve(match.group(2)))
            text = match.group(3)
        opcode, _, rest = text.partition(" ")
        operands = tuple(self._operand(part, line) for part in split_operands(rest, line))
        self.pending[-1].append(len(self.function.instructions))
        self.function.instructions.append(
            Instruction(opcode, operands, line, guard, negated, self.source, " ".join(statement.split()))
        )

    def _operand(self, text: str, line: int) -> Operand:
        if text == "_":
            return Discard()
        if text[0] == "{":
            return Vec(tuple(self._operand(p, line) for p in split_operands(text[1:-1], line)))
        if text[0] == "(":
            return Vec(tuple(self._operand(p, line) for p in split_operands(text[1:-1], line)))
        if text[0] == "[":
            return self._memory(text[1:-1].strip(), line)
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first.strip(), line), self._operand(second.strip(), line))
        if text[0] == "!":
            inner = self._operand(text[1:].strip(), line)
            if not isinstance(inner, Reg):
                raise PtxError(f"! before {text[1:]!r}, which is no register", line)
            return Not(inner)
        if text[0].isdigit() or text[0] in "-+~":
            return parse_number(text, line)
        return self._name(text, line)

    def _name(self, text: str, line: int) -> Reg | Sym | Vec:
        base, offset = _split_offset(text, line)
        unique = self._resolve(base)
        if unique in self.function.register_vectors:
            return Vec(tuple(Reg(part) for part in self.function.register_vectors[unique]))
        vector, dot, axis = base.rpartition(".")
        if dot and self._resolve(vector) in self.function.register_vectors:
            unique = f"{self._resolve(vector)}.{axis}"
        if unique in self.function.registers or (unique[0] == "%" and offset == 0):
            if unique not in self.function.registers and not is_special_register(unique):
                raise PtxError(f"unknown register {unique}", line)
            return Reg(unique)
        return Sym(unique, offset)

    def _memory(self, text: str, line: int) -> Mem:
        parts = split_operands(text, line)
        base_text, offset = _split_offset(parts[0], line)
        base: Reg | Sym | Imm
        if base_text[0].isdigit() or base_text[0] == "-":
            base = parse_number(base_text, line)
        else:
            named = self._name(base_text, line)
            if isinstance(named, Vec):
                raise PtxError(f"a vector of registers as the address {base_text!r}", line)
            base = named
        return Mem(base, offset, tuple(self._operand(p, line) for p in parts[1:]))


def _renamed_labels(instruction: Instruction, scope: dict[str, str]) -> Instruction:
    """A branch may name a label that its scope declares further down."""
    if not any(isinstance(o, Sym) and o.name in scope for o in instruction.operands):
        return instruction
    operands = tuple(
        Sym(scope[o.name], o.offset) if isinstance(o, Sym) and o.name in scope else o for o in instruction.operands
    )
    return Instruction(
        instruction.opcode, operands, instruction.line, instruction.guard, instruction.guard_negated,
        instruction.source, instruction.text,
    )  # fmt: skip


def _split_offset(text: str, line: int) -> tuple[str, int]:
    match = re.match(r"^([%$_.A-Za-z0-9]+)\s*([+-])\s*(-?\w+)$", text)
    if match is None:
        return text.strip(), 0
    value = parse_number(match.group(3), line).value
    return match.group(1), -value if match.group(2) == "-" else value


def split_operands(text: str, line: int) -> list[str]:
    """Split at the commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    if depth:
        raise PtxError(f"unbalanced brackets in {text!r}", line)
    last = text[start:].strip()
    if last:
        parts.append(last)
    if "" in parts:
        raise PtxError(f"an empty operand in {text!r}", line)
    return parts


def parse_number(text: str, line: int) -> Imm:
    """An integer or floating-point literal; `0f3F800000` and `0d...` give the bits.

    >>> parse_number("0f3F800000", 1)
    Imm(value=1065353216, float_bits=32)
    """
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return Imm(int(text[2:], 16), 32)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return Imm(int(text[2:], 16), 64)
    if re.fullmatch(r"[-+]?\d+\.\d*(?:[eE][-+]?\d+)?", text):
        return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    body = text[:-1] if text.endswith("U") else text
    sign = -1 if body.startswith("-") else 1
    digits = body.lstrip("+-")
    try:
        if re.fullmatch(r"0[0-7]+", digits):
            return Imm(sign * int(digits, 8))
        return Imm(sign * int(digits, 0))
    except ValueError:
        raise PtxError(f"unknown number {text!r}", line) from None


_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|cluster_n?ctaid|nclusterid|clusterid)\.[xyz]$|%(?:laneid|warpid|nwarpid|smid|nsmid|gridid"
    r"|lanemask_(?:eq|lt|le|gt|ge)|clock|clock_hi|clock64|globaltimer|globaltimer_lo|globaltimer_hi"
    r"|dynamic_smem_size|total_smem_size|cluster_ctarank|cluster_nctarank)$"
)


def is_special_register(name: str) -> bool:
    """Whether the machine knows this special register (PTX ISA chapter 10)."""
    return _SPECIAL.match(name) is not None
