"""memory: ld, st, atom and red on every state space (PTX ISA 9.7.9).

An access becomes an index into the space's words of its width, checked for alignment and bounds over all executing
lanes at once; a lane that leaves its space stops the run with thread, address and line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.formats import decode, encode
from layoutlab.ptx.isa.integer import bits_of_type
from layoutlab.ptx.memory import (
    CONST_BASE,
    LOCAL_BASE,
    PARAM_BASE,
    SHARED_BASE,
    WINDOW_MASK,
    WORD_TYPES,
    AccessError,
)
from layoutlab.ptx.parse import Discard, Instruction, Mem, Operand, Reg, Sym, Vec
from layoutlab.ptx.registry import Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op

AddressOf = Callable[[Frame], Array]


def address(d: Decoder, operand: Operand, space: str) -> AddressOf:
    """A function that gives each thread's address, as the executing lanes' int64 values.

    A variable's name gives the address in its own space; with generic addressing its generic address.
    """
    mem = d.memory(operand)
    base: Any = mem.base
    if isinstance(base, Sym):
        found, start = d.address_of(base)
        if space == "generic":
            start = d.generic_address(base)
        elif found != space and not (space == "global" and found == "const"):
            raise d.fail(f"{base.name} stands in .{found}, addressed as .{space}")
        elif found == "const":
            start = d.generic_address(base)
        in_window = found == "shared" and d.clustered
        slot, view = d.own_window("b64", start) if in_window else d.constant("b64", start), "s64"
    elif isinstance(base, Reg):
        bits = d.bits_of(base)
        slot, view = d.slot(base, bits), "s64" if bits == 64 else "u32"
        if bits not in (32, 64):
            raise d.fail(f"an address in register {base.name} of {bits} bits")
    else:
        slot, view = d.constant("b64", base.value & ((1 << 64) - 1)), "s64"
    offset = mem.offset

    def value(f: Frame) -> Array:
        raw = f.select(getattr(f, view)[slot])
        if view == "u32":
            raw = raw.astype(np.int64)
        return raw + offset if offset else raw

    return value


def thread_list(f: Frame) -> Array:
    """The thread numbers of the executing lanes, in the order of `Frame.select`."""
    return f.select(f.thread)


def span(at: Array) -> tuple[int, int]:
    """The least and greatest address."""
    if at.size == 1:
        only = int(at.flat[0])
        return only, only
    return int(at.min()), int(at.max())


def _offender(f: Frame, bad: Array) -> str:
    """Names the first executing lane for which something is wrong."""
    at = int(np.flatnonzero(bad.ravel())[0])
    return f"CTA {int(f.select(f.cta).ravel()[at])} thread {int(f.select(f.thread).ravel()[at])}"


def check_alignment(f: Frame, at: Array, size: int, ins: Instruction) -> None:
    if size > 1 and (int(at.flat[0]) if at.size == 1 else int(np.bitwise_or.reduce(at, axis=None))) & (size - 1):
        bad = (at & (size - 1)) != 0
        value = int(at.ravel()[np.flatnonzero(bad.ravel())[0]])
        raise AccessError(f"{ins.opcode}: {_offender(f, bad)} at {value:#x}, which {size} does not divide", ins.line)


class Space:
    """One state space: the words of a width, and each thread's index into them."""

    def words(self, f: Frame, width: int, at: Array) -> Array:
        raise NotImplementedError

    def index(self, f: Frame, at: Array, width: int, count: int, ins: Instruction) -> Array:
        """The word index of each address, after checking that `count` words of `width` bytes lie inside."""
        raise NotImplementedError

    def loaded(self, f: Frame, index: Array, width: int, count: int, ins: Instruction) -> None:
        """Called when words were read."""

    def stored(self, f: Frame, index: Array, width: int, values: list[Array], ins: Instruction) -> None:
        """Called when words were written, with what each thread wrote."""


class SharedSpace(Space):
    """The windows of the cluster's CTAs; `own` holds each thread to its own."""

    def __init__(self, own: bool) -> None:
        self.own = own

    def words(self, f: Frame, width: int, at: Array) -> Array:
        return np.asarray(f.wave.shared.words[width])

    def index(self, f: Frame, at: Array, width: int, count: int, ins: Instruction) -> Array:
        size = width * count
        check_alignment(f, at, size, ins)
        owner = None
        if f.wave.cluster_ctas > 1:
            cta = f.select(f.cta)
            if self.own:
                at = f.wave.locate_own(cta, at, ins.opcode)
            else:
                owner, at = f.wave.locate_all(cta, at, ins.opcode)
        (low, high), limit = span(at), f.wave.shared.size
        if low < 0 or high + size > limit:
            bad = (at < 0) | (at + size > limit)
            value = int(at.ravel()[np.flatnonzero(bad.ravel())[0]])
            raise AccessError(
                f"{ins.opcode}: {_offender(f, bad)} touches shared bytes {value} to {value + size - 1} of {limit}",
                ins.line,
            )
        if owner is not None:
            at = at + owner * f.wave.shared.stride
        elif f.wave.ctas > 1:
            at = at + f.select(f.shared_offset)
        return at >> (width.bit_length() - 1)

    def loaded(self, f: Frame, index: Array, width: int, count: int, ins: Instruction) -> None:
        flags = f.wave.shared.flags[width]
        whole = _ALL_WRITTEN[width]
        for k in range(count):
            fresh = flags[index + k] != whole
            if np.count_nonzero(fresh):
                at = int((index + k).ravel()[np.flatnonzero(fresh.ravel())[0]]) * width % f.wave.shared.stride
                f.wave.services.findings.add(
                    "unwritten shared",
                    ins,
                    f"{ins.opcode}: {_offender(f, fresh)} reads shared byte {at}, never written",
                )
                break
        record = f.wave.services.provenance
        if record is not None:
            record.shared_load(ins, (index * width).ravel(), thread_list(f).ravel(), width * count)

    def stored(self, f: Frame, index: Array, width: int, values: list[Array], ins: Instruction) -> None:
        flags = f.wave.shared.flags[width]
        whole = _ALL_WRITTEN[width]
        for k in range(len(values)):
            flags[index + k] = whole
        f.wave.note_stores(index * width, f.select(f.slot))
        f.wave.asynchronous.note_stores(index * width, width * len(values), ins)
        record = f.wave.services.provenance
        if record is not None:
            words = [np.broadcast_to(value, index.shape).astype(WORD_TYPES[width]).ravel() for value in values]
            data = np.stack(words, axis=-1).view(np.uint8)
            record.shared_store(ins, (index * width).ravel(), thread_list(f).ravel(), data)


_ALL_WRITTEN: dict[int, Any] = {w: int.from_bytes(b"\x01" * w, "little") for w in WORD_TYPES}


class GlobalSpace(Space):
    """Host memory; the buffer of the instruction's last access is tried first. It is kept with the run's memory, since
    runs in several threads share the program."""

    def _buffer(self, f: Frame, at: Array, size: int, ins: Instruction) -> Any:
        low, high = span(at)
        high += size
        memory = f.wave.services.memory
        last = memory.recent.get(id(self))
        if last is not None and last.base <= low and high <= last.end:
            return last
        found = memory.find(low, high)
        if found is None:
            for value in at.ravel().tolist():
                if memory.find(value, value + size) is None:
                    bad = at == value
                    raise AccessError(
                        f"{ins.opcode}: {_offender(f, bad)} touches {size} bytes at {memory.describe(value)}", ins.line
                    )
        if found is not None:
            memory.recent[id(self)] = found
        return found

    def words(self, f: Frame, width: int, at: Array) -> Array:
        return f.wave.services.memory.recent[id(self)].words[width]

    def index(self, f: Frame, at: Array, width: int, count: int, ins: Instruction) -> Array:
        check_alignment(f, at, width * count, ins)
        buffer = self._buffer(f, at, width * count, ins)
        if buffer is None:
            raise _SeveralBuffers
        return np.asarray((at - buffer.first) >> (width.bit_length() - 1))


class _SeveralBuffers(Exception):
    """The lanes of one access stand in different buffers; they are then served one buffer at a time."""


class FlatSpace(Space):
    """Parameters, constants, or each thread's own local memory."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _bytes(self, f: Frame) -> Array:
        if self.name == "param":
            return f.wave.services.param_bytes
        if self.name == "const":
            return f.wave.services.constant_bytes
        return f.wave.local.reshape(-1)

    def words(self, f: Frame, width: int, at: Array) -> Array:
        data = self._bytes(f)
        return data[: len(data) // width * width].view(WORD_TYPES[width])

    def index(self, f: Frame, at: Array, width: int, count: int, ins: Instruction) -> Array:
        check_alignment(f, at, width * count, ins)
        limit = f.wave.local.shape[2] if self.name == "local" else len(self._bytes(f))
        if int(at.min()) < 0 or int(at.max()) + width * count > limit:
            bad = (at < 0) | (at + width * count > limit)
            raise AccessError(
                f"{ins.opcode}: {_offender(f, bad)} leaves .{self.name} memory of {limit} bytes", ins.line
            )
        if self.name == "local":
            at = at + f.select((f.warp * f.wave.ctas + f.cta) * 32 + np.arange(32)) * limit
        return at >> (width.bit_length() - 1)


def make_space(name: str) -> Space:
    if name.startswith("shared"):
        return SharedSpace(own=name != "shared::cluster")
    return GlobalSpace() if name == "global" else FlatSpace(name)


_GENERIC = (
    ("const", CONST_BASE), ("param", PARAM_BASE), ("local", LOCAL_BASE), ("shared", SHARED_BASE),
)  # fmt: skip


def split_generic(at: Array) -> tuple[str, Array]:
    """The state space that generic addresses point into, and the addresses in it; one space for all lanes."""
    low, top = span(at)
    if top < CONST_BASE and top < SHARED_BASE:
        return "global", at
    for name, base in _GENERIC:
        if top >= base:
            if low < base:
                raise AccessError("the lanes of one generic access stand in different state spaces: not emulated yet")
            return name, at & WINDOW_MASK
    return "global", at


class Access:
    """An access of `count` words of `width` bytes, generic or to a named space."""

    def __init__(self, d: Decoder, ins: Instruction, operand: Operand, space: str, width: int, count: int) -> None:
        self.ins, self.width, self.count = ins, width, count
        self.space = space.split("::")[0] or "generic"
        self.address = address(d, operand, self.space)
        self.spaces = {n: make_space(n) for n in ("global", "local", "param", "const")}
        self.spaces["shared"] = make_space(space if space.startswith("shared") else "shared::cluster")

    def resolve(self, f: Frame) -> tuple[Space, Array]:
        at = self.address(f)
        name = self.space
        if name in ("generic", "const") or (name == "global" and self._in_constants(at)):
            name, at = split_generic(at)
        return self.spaces[name], at

    @staticmethod
    def _in_constants(at: Array) -> bool:
        return bool(at.size) and int(at.flat[0]) >= CONST_BASE

    def load(self, f: Frame) -> list[Array]:
        """Each word of the access, as the executing lanes' values."""
        space, at = self.resolve(f)
        try:
            index = space.index(f, at, self.width, self.count, self.ins)
        except _SeveralBuffers:
            return self._load_by_buffer(f, at)
        record = f.wave.services.provenance
        if record is not None and isinstance(space, GlobalSpace):
            record.global_load(self.ins, f.select(f.cta), thread_list(f), at)
        words = space.words(f, self.width, at)
        space.loaded(f, index, self.width, self.count, self.ins)
        return [words[index + k] if k else words[index] for k in range(self.count)]

    def store(self, f: Frame, values: list[Array]) -> None:
        space, at = self.resolve(f)
        try:
            index = space.index(f, at, self.width, self.count, self.ins)
        except _SeveralBuffers:
            self._store_by_buffer(f, at, values)
            return
        words = space.words(f, self.width, at)
        for k, value in enumerate(values):
            words[index + k if k else index] = value
        space.stored(f, index, self.width, values, self.ins)

    def _load_by_buffer(self, f: Frame, at: Array) -> list[Array]:
        dtype = WORD_TYPES[self.width]
        result = [np.zeros(at.shape, dtype) for _ in range(self.count)]
        for part, buffer in self._parts(f, at):
            index = (at[part] - buffer.first) >> (self.width.bit_length() - 1)
            for k in range(self.count):
                result[k][part] = buffer.words[self.width][index + k]
        return result

    def _store_by_buffer(self, f: Frame, at: Array, values: list[Array]) -> None:
        for part, buffer in self._parts(f, at):
            index = (at[part] - buffer.first) >> (self.width.bit_length() - 1)
            for k, value in enumerate(values):
                buffer.words[self.width][index + k] = value[part] if value.shape == at.shape else value

    def _parts(self, f: Frame, at: Array) -> list[tuple[Array, Any]]:
        size = self.width * self.count
        parts = []
        for buffer in f.wave.services.memory.buffers:
            inside = (at >= buffer.base) & (at + size <= buffer.end)
            if inside.any():
                parts.append((inside, buffer))
        return parts


_LD_SPACE = ".space:global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const?"
_ORDER = ".order:weak|relaxed|acquire|volatile|mmio|release?"
_SCOPE = ".scope:cta|cluster|gpu|sys?"
_HINTS = (
    ".l1:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate? "
    ".l2:L2::evict_normal|L2::evict_first|L2::evict_last? .L2::cache_hint? .prefetch:L2::64B|L2::128B|L2::256B?"
)
_TYPES = "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64|f16x2|b128"
_VECTOR = ".vector:v2|v4|v8?"


def _shape(q: Qualifiers) -> tuple[str, int, int]:
    """The element type, its bytes, and how many."""
    kind = "b32" if q["type"] == "f16x2" else q["type"]
    count = int(q["vector"][1:]) if "vector" in q else 1
    return kind, bits_of_type(kind) // 8, count


@instruction(
    f"ld {_ORDER} {_SCOPE} {_LD_SPACE} {_HINTS} {_VECTOR} .type:{_TYPES}",
    f"ld {_ORDER} {_SCOPE} {_LD_SPACE} .cop:ca|cg|cs|lu|cv? .nc? {_HINTS} {_VECTOR} .type:{_TYPES}",
    f"ldu .space:global {_VECTOR} .type:{_TYPES}",
)
def _ld(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    kind, width, count = _shape(q)
    d.expect(ins, 2, 3)
    targets = ins.operands[0].items if isinstance(ins.operands[0], Vec) else (ins.operands[0],)
    if len(targets) != count:
        raise d.fail(f"{ins.opcode} into {len(targets)} registers")
    access = Access(d, ins, ins.operands[1], q.get("space", ""), width, count)
    puts = [_extended(d, target, kind) for target in targets]

    def run(f: Frame) -> None:
        for put, value in zip(puts, access.load(f), strict=True):
            if put is not None:
                put(f, value)

    return run


def _extended(d: Decoder, target: Operand, kind: str) -> Callable[[Frame, Array], None] | None:
    """Writes a loaded word to its register, sign- or zero-extended when the register is wider."""
    if isinstance(target, Discard):
        return None
    width = bits_of_type(kind)
    bits = d.bits_of(target)
    slot = d.destination(target, bits)
    if bits == width:
        name = f"u{bits}"

        def put(f: Frame, value: Array) -> None:
            f.scatter(getattr(f, name)[slot], value)

        return put
    if bits < width:
        raise d.fail(f"a load of {width} bits into a register of {bits}")
    signed = kind[0] == "s"
    narrow = np.dtype(f"i{width // 8}") if signed else np.dtype(f"u{width // 8}")
    view = ("s" if signed else "u") + str(bits)

    def put_extended(f: Frame, value: Array) -> None:
        f.scatter(getattr(f, view)[slot], value.view(narrow).astype(np.dtype(f"{'i' if signed else 'u'}{bits // 8}")))

    return put_extended


@instruction(f"st {_ORDER} {_SCOPE} {_LD_SPACE} .cop:wb|cg|cs|wt? {_HINTS} {_VECTOR} .type:{_TYPES}")
def _st(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    _, width, count = _shape(q)
    d.expect(ins, 2, 3)
    source = ins.operands[1]
    items = source.items if isinstance(source, Vec) else (source,)
    if len(items) != count:
        raise d.fail(f"{ins.opcode} from {len(items)} registers")
    access = Access(d, ins, ins.operands[0], q.get("space", ""), width, count)
    gets = [_truncated(d, item, width * 8) for item in items]

    def run(f: Frame) -> None:
        access.store(f, [get(f) for get in gets])

    return run


def _truncated(d: Decoder, item: Operand, width: int) -> Callable[[Frame], Array]:
    """The stored value of each executing lane: a register's low bits."""
    bits = d.bits_of(item) or max(16, width)
    slot = d.slot(item, bits)
    view = f"u{bits}"
    if bits == width:
        return lambda f: f.select(getattr(f, view)[slot])
    if bits < width:
        raise d.fail(f"a store of {width} bits from a register of {bits}")
    dtype = WORD_TYPES[width // 8]
    return lambda f: f.select(getattr(f, view)[slot]).astype(dtype)


# -- atomics -----------------------------------------------------------------------------------------------------------


def _atomic_function(op: str, kind: str) -> Callable[..., Any]:
    """old, operand (, second operand) -> new, on numpy scalars of the type."""
    if kind in ("f16", "bf16", "f16x2", "bf16x2"):
        return _half_atomic(op, kind)
    functions: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b, "min": lambda a, b: min(a, b), "max": lambda a, b: max(a, b),
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "exch": lambda a, b: b,
        "cas": lambda a, b, c: c if a == b else a,
        "inc": lambda a, b: a.dtype.type(0) if a >= b else a + a.dtype.type(1),
        "dec": lambda a, b: b if a == 0 or a > b else a - a.dtype.type(1),
    }  # fmt: skip
    return functions[op]


def _half_atomic(op: str, kind: str) -> Callable[..., Any]:
    name = kind.removesuffix("x2")
    combine: Any = {"add": np.add, "min": np.fmin, "max": np.fmax}[op]
    word = np.uint32 if kind.endswith("x2") else np.uint16

    def function(a: Any, b: Any) -> Any:
        left, right = (decode(name, np.array([x], word).view(np.uint16)).astype(np.float64) for x in (a, b))
        return encode(name, combine(left, right)).view(word)[0]

    return function


_ATOMIC_TYPES = "b16|b32|b64|u32|u64|s32|s64|f32|f64|f16|bf16|f16x2|bf16x2"
_ATOMIC_ORDER = ".order:relaxed|acquire|release|acq_rel?"
_ATOMIC_SPACE = ".space:global|shared|shared::cta|shared::cluster?"
_ATOMIC_OPS = "add|min|max|and|or|xor|exch|cas|inc|dec"


def _atomic_dtype(kind: str) -> Any:
    if kind in ("f32", "f64"):
        return np.dtype(kind.replace("f", "float"))
    bits = 32 if kind.endswith("x2") else bits_of_type(kind)
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")


@instruction(
    f"atom {_ATOMIC_ORDER} {_SCOPE} {_ATOMIC_SPACE} .op:{_ATOMIC_OPS} .noftz? .L2::cache_hint? .type:{_ATOMIC_TYPES}",
    f"red {_ATOMIC_ORDER} {_SCOPE} {_ATOMIC_SPACE} .op:{_ATOMIC_OPS} .noftz? .L2::cache_hint? .type:{_ATOMIC_TYPES}",
    f"red {_ATOMIC_ORDER} {_SCOPE} .space:global .op:add|min|max .noftz? .L2::cache_hint? .vector:v2|v4|v8 "
    f".type:{_ATOMIC_TYPES}",
    f"red {_ATOMIC_ORDER} {_SCOPE} .space:global .vector:v2|v4|v8 .type:f32|f16|bf16|f16x2|bf16x2 .op:add|min|max "
    ".noftz? .L2::cache_hint?",
)
def _atomic(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Lane after lane, in order; a vector form repeats the operation for each element."""
    kind, returns = q["type"], ins.opcode.startswith("atom")
    dtype = _atomic_dtype(kind)
    bits, count = dtype.itemsize * 8, int(q["vector"][1:]) if "vector" in q else 1
    target = d.destination(ins.operands[0], bits) if returns else -1
    mem = ins.operands[1 if returns else 0]
    access = Access(d, ins, mem, q.get("space", ""), dtype.itemsize, count)
    rest = ins.operands[2 if returns else 1 :]
    sources = d.vector(rest[0], bits)
    if q["op"] == "cas":
        sources.append(d.slot(rest[1], bits))
    function = _atomic_function(q["op"], kind)
    pairs = q["op"] == "cas"

    def run(f: Frame) -> None:
        space, at = access.resolve(f)
        flat_at = at.ravel()
        if isinstance(space, SharedSpace) and q["op"] != "exch":
            space.loaded(f, space.index(f, at, dtype.itemsize, count, ins), dtype.itemsize, count, ins)
        old = np.empty(flat_at.shape, dtype)
        view = f"u{bits}"
        operands = [f.select(getattr(f, view)[s]).ravel().view(dtype) for s in sources]
        for i in range(len(flat_at)):
            index = int(space.index(_one(f, i), flat_at[i : i + 1], dtype.itemsize, count, ins)[0])
            words = space.words(f, dtype.itemsize, at).view(dtype)
            if pairs:
                old[i] = words[index]
                words[index] = function(words[index], operands[0][i], operands[1][i])
                continue
            for k, operand in enumerate(operands):
                old[i] = words[index + k]
                words[index + k] = function(words[index + k], operand[i])
        if isinstance(space, SharedSpace):
            final = space.index(f, at, dtype.itemsize, count, ins)
            words = space.words(f, dtype.itemsize, at)
            space.stored(f, final, dtype.itemsize, [words[final + k] for k in range(count)], ins)
        elif isinstance(space, GlobalSpace):
            f.wave.version += 1
        if returns:
            f.scatter(getattr(f, view)[target], old.view(f"u{bits // 8}").reshape(at.shape))

    return run


class _One:
    """A frame cut down to its i-th executing lane, for the index of one atomic."""

    def __init__(self, f: Frame, i: int) -> None:
        self.wave = f.wave
        self._f, self._i = f, i
        self.cta, self.thread, self.shared_offset, self.warp = f.cta, f.thread, f.shared_offset, f.warp

    def select(self, value: Array) -> Array:
        return self._f.select(value).ravel()[self._i : self._i + 1]


def _one(f: Frame, i: int) -> Any:
    return _One(f, i)


@instruction(
    "prefetch .space:global|local? .level:L1|L2", "prefetchu.L1", "prefetch .space:const|param? .tensormap",
    "prefetch.global .level:L2::evict_last|L2::evict_normal", "applypriority.global .level:L2::evict_normal",
    "discard .space:global? .L2",
)  # fmt: skip
def _prefetch(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return lambda f: None


@instruction("createpolicy.fractional .first:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
             ".second:L2::evict_first|L2::evict_unchanged? .b64")  # fmt: skip
def _createpolicy(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """A cache policy is opaque: 0 here, and no instruction looks at it."""
    target = d.destination(ins.operands[0], 64)
    return lambda f: f.put(f.u64[target], np.uint64(0))


@instruction(f"isspacep .space:{'global|shared|shared::cta|shared::cluster|local|const|param'}")
def _isspacep(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    p, a = d.predicate(ins.operands[0]), d.slot(ins.operands[1], 64)
    space = q["space"].split("::")[0]
    bases = dict(_GENERIC)

    def run(f: Frame) -> None:
        at = f.u64[a]
        if space == "global":
            result = at < np.uint64(SHARED_BASE)
        else:
            base = bases[space]
            result = (at >= np.uint64(base)) & (at < np.uint64(2 * base))
        f.put(f.p[p], result)

    return run


__all__ = ["Access", "Mem", "address", "check_alignment", "thread_list"]
