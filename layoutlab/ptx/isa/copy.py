"""copy: asynchronous copies without a tensor map: cp.async and cp.async.bulk (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from layoutlab.ptx.decode import Decoder
from layoutlab.ptx.isa.mbarrier import groups, shared_address
from layoutlab.ptx.isa.memory import AddressOf, address, check_alignment
from layoutlab.ptx.memory import WINDOW_MASK, AccessError
from layoutlab.ptx.parse import Imm, Instruction, PtxError, Reg
from layoutlab.ptx.registry import Qualifiers, instruction
from layoutlab.ptx.state import Array, Frame, Op, Wave


def _queue(f: Frame, position: int) -> tuple[str, int]:
    """The queue of the executing lane at a position of `Frame.select`: its groups are the thread's own."""
    cta, thread = f.select(f.cta).ravel()[position], f.select(f.thread).ravel()[position]
    return ("thread", int(cta) * 4096 + int(thread))


@instruction(
    "cp.async .cache:ca|cg .shared .global .L2::cache_hint? .prefetch:L2::64B|L2::128B|L2::256B?",
    "cp.async .cache:ca|cg .shared::cta .global .L2::cache_hint? .prefetch:L2::64B|L2::128B|L2::256B?",
)
def _cp_async(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Each thread copies 4, 8 or 16 bytes; beyond a smaller source size, or when the source is ignored, zeros."""
    target, source = shared_address_unchecked(d, ins), address(d, ins.operands[1], "global")
    size = ins.operands[2]
    if not isinstance(size, Imm) or size.value not in (4, 8, 16):
        raise d.fail(f"{ins.opcode} of {size.value if isinstance(size, Imm) else size} bytes: 4, 8 or 16 are copied")
    count = size.value
    actual, ignore = -1, -1
    has_actual = has_ignore = False
    if len(ins.operands) > 3:
        fourth = ins.operands[3]
        if isinstance(fourth, Reg) and d.register(fourth)[0] == "pred":
            ignore, has_ignore = d.predicate(fourth), True
        elif not ("L2::cache_hint" in q and len(ins.operands) == 4):
            actual, has_actual = d.slot(fourth, 32), True

    def run(f: Frame) -> None:
        at, start = f.wave.locate_own(f.select(f.cta), target(f), ins.opcode).ravel(), source(f).ravel()
        wanted = np.full(at.shape, count, np.int64)
        if has_actual:
            wanted = f.select(f.u32[actual]).ravel().astype(np.int64)
        elif has_ignore:
            wanted = np.where(f.select(f.p[ignore]).ravel(), 0, count)
        threads, cta, slots = (f.select(x).ravel() for x in (f.thread, f.cta, f.slot))
        wave = f.wave
        check_spans(wave, at, count, ins)
        if (wanted > count).any():
            raise PtxError(f"{ins.opcode} of {count} bytes from {int(wanted.max())}: at most as many", ins.line)
        check_alignment(f, np.where(wanted > 0, start, 0), count, ins)

        def copy_lanes(lanes: Any) -> None:
            _copy_threads(
                wave, ins, at[lanes], start[lanes], wanted[lanes], cta[lanes], threads[lanes], slots[lanes], count
            )

        if wave.asynchronous.eager:
            copy_lanes(slice(None))
            return
        for i in range(len(at)):
            wave.asynchronous.submit(_queue(f, i), lambda i=i: copy_lanes(slice(i, i + 1)), ins)  # type: ignore[misc]

    return run


def shared_address_unchecked(d: Decoder, ins: Instruction) -> AddressOf:
    return address(d, ins.operands[0], "shared")


def check_spans(wave: Wave, at: Array, size: int, ins: Instruction) -> None:
    if (at % size).any():
        raise AccessError(f"{ins.opcode}: a shared address that {size} does not divide", ins.line)
    wave.shared.check_span(int(at.min()), int(at.max()) + size, ins.opcode)


def _copy_threads(
    wave: Wave,
    ins: Instruction,
    at: Array,
    start: Array,
    wanted: Array,
    cta: Array,
    threads: Array,
    slots: Array,
    count: int,
) -> None:
    memory = wave.services.memory
    flat = at + cta * wave.shared.stride
    data = np.zeros((len(at), count), np.uint8)
    used = np.flatnonzero(wanted > 0)
    if len(used):
        low, high = int(start[used].min()), int((start[used] + wanted[used]).max())
        buffer = memory.find(low, high)
        if buffer is not None and (wanted[used] == count).all():
            data[used] = buffer.words[1][(start[used] - buffer.first)[:, None] + np.arange(count)]
        else:
            for i in used.tolist():
                data[i, : wanted[i]] = memory.read(int(start[i]), int(wanted[i]))
    spread = flat[:, None] + np.arange(count)
    wave.shared.bytes[spread] = data
    wave.shared.written[spread] = 1
    wave.note_stores(flat, slots)
    wave.asynchronous.note_stores(flat, count, ins)
    if wave.services.provenance is not None:
        wave.services.provenance.shared_store(ins, flat, threads, data, np.where(wanted > 0, start, -1))


@instruction("cp.async.commit_group", "cp.async.bulk.commit_group")
def _commit(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    bulk = "bulk" in ins.opcode

    def run(f: Frame) -> None:
        units = f.wave.asynchronous
        if units.eager:
            return
        for i in range(f.select(f.thread).size):
            units.commit_group(_bulk_queue(f, i) if bulk else _queue(f, i))

    return run


@instruction("cp.async.wait_group", "cp.async.wait_all", "cp.async.bulk.wait_group .read?")
def _wait(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Complete all but the latest n groups. Waiting for the reads alone completes them whole, as the hardware may."""
    bulk, everything = "bulk" in ins.opcode, "wait_all" in ins.opcode
    allowed = 0
    if ins.operands:
        first = ins.operands[0]
        if not isinstance(first, Imm):
            raise d.fail(f"{ins.opcode} for a number in a register")
        allowed = first.value

    def run(f: Frame) -> None:
        units = f.wave.asynchronous
        if units.eager:
            return
        for i in range(f.select(f.thread).size):
            key = _bulk_queue(f, i) if bulk else _queue(f, i)
            if everything:
                units.drain(key)
            else:
                units.wait_group(key, allowed)

    return run


def _bulk_queue(f: Frame, position: int) -> tuple[str, int]:
    return ("bulk", _queue(f, position)[1])


@instruction("cp.async.mbarrier.arrive .noinc? .space:shared|shared::cta? .b64")
def _arrive(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Arrive when the thread's earlier cp.async are complete; without .noinc the pending count grows by one first."""
    where = shared_address(d, ins.operands[0], ins, q.get("space", ""))

    def run(f: Frame) -> None:
        at = where(f)
        units = f.wave.asynchronous
        cta = f.select(f.cta).ravel()
        if "noinc" not in q:
            for c, each, _, chosen in groups(f, at):
                units.mbarrier(c, each, ins).pending += at.size if chosen is None else len(chosen)
        for i, each in enumerate(f.wave.locate_own(f.select(f.cta), at, ins.opcode).ravel().tolist()):
            barrier = units.mbarrier(int(cta[i]), each, ins)
            units.submit(_queue(f, i), lambda b=barrier: units.arrive(b, 1, ins), ins)  # type: ignore[misc]

    return run


# -- bulk copies of bytes ----------------------------------------------------------------------------------------------

_REDUCE_TYPES = "f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64"


Place = tuple[int, int]  # CTA, address in its window


@instruction(
    "cp.async.bulk .to:shared::cluster|shared::cta .global .mbarrier::complete_tx::bytes .multicast::cluster? "
    ".L2::cache_hint?",
    "cp.async.bulk .to:shared::cluster .shared::cta .mbarrier::complete_tx::bytes",
)
def _bulk_load(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target = address(d, ins.operands[0], "shared")
    inside = "global" not in ins.opcode
    source = address(d, ins.operands[1], "shared" if inside else "global")
    size = d.slot(ins.operands[2], 32)
    barrier_at = address(d, ins.operands[3], "shared")
    spread = destinations(d, ins, q, 4)

    def run(f: Frame) -> None:
        units, wave = f.wave.asynchronous, f.wave
        starts = wave.locate_own(f.select(f.cta), source(f), ins.opcode) if inside else source(f)
        sizes = f.select(f.u32[size]).ravel().tolist()
        for places, start, cta, n in zip(
            spread(f, target(f), barrier_at(f)), starts.ravel().tolist(), f.select(f.cta).ravel().tolist(), sizes,
            strict=True,
        ):  # fmt: skip
            for (owner, at), (signalled, bar) in places:
                _check_bulk(at, start, n, ins)
                wave.shared.check_span(at, at + n, ins.opcode)
                barrier = units.mbarrier(signalled, bar, ins)

                def work(
                    at: int = at, start: int = start, cta: int = cta, owner: int = owner, n: int = n,
                    barrier: Any = barrier,
                ) -> None:  # fmt: skip
                    data = wave.shared.window(cta)[start : start + n] if inside else wave.services.memory.read(start, n)
                    store_shared(wave, ins, owner, at, data)
                    units.complete(barrier, n, ins)

                units.submit(("load", units.issued), work, ins)

    return run


def destinations(
    d: Decoder, ins: Instruction, q: Qualifiers, mask_at: int
) -> Callable[[Frame, Array, Array], list[list[tuple[Place, Place]]]]:
    """For each executing lane where a load goes: (CTA, address) of the data and of the mbarrier that it signals.

    A multicast goes to the same addresses in every CTA of the mask. The mbarrier stands in the CTA of the data; with
    cta_group::2 it may stand in that CTA's pair instead, as the parity of its own rank says (PTX ISA 9.7.9.27).
    """
    mask = d.slot(ins.operands[mask_at], 16) if "multicast::cluster" in q else None
    pairs, remote = q.get("group") == "cta_group::2", q.get("to") == "shared::cluster"

    def places(f: Frame, target: Array, barrier: Array) -> list[list[tuple[Place, Place]]]:
        wave, ctas = f.wave, f.select(f.cta).ravel().tolist()
        lists = zip(ctas, target.ravel().tolist(), (barrier & WINDOW_MASK).ravel().tolist(), strict=True)
        if pairs and wave.cluster_ctas % 2:
            raise PtxError(f"{ins.opcode} in a cluster of {wave.cluster_ctas} CTAs, which are no pairs", ins.line)
        if mask is None:
            return [[_one_place(wave, cta, at, bar)] for cta, at, bar in lists]
        masks = f.select(f.u16[mask]).ravel().tolist()
        return [_every_place(wave, cta, at, bar, chosen) for (cta, at, bar), chosen in zip(lists, masks, strict=True)]

    def _one_place(wave: Wave, cta: int, at: int, bar: int) -> tuple[Place, Place]:
        data, signal = wave.locate(cta, at, ins.opcode), wave.locate(cta, bar, ins.opcode)
        if data[0] != cta and not remote:
            raise PtxError(f"{ins.opcode}: its destination lies in another CTA of the cluster", ins.line)
        if signal[0] != data[0] and not (pairs and signal[0] ^ 1 == data[0]):
            raise PtxError(
                f"{ins.opcode}: the mbarrier of CTA {signal[0]} for data of CTA {data[0]}: both must be of one CTA"
                f"{' or pair' if pairs else ', or of one pair with .cta_group::2'}", ins.line,
            )  # fmt: skip
        return data, signal

    def _every_place(wave: Wave, cta: int, at: int, bar: int, chosen: int) -> list[tuple[Place, Place]]:
        members = cluster_members(wave, cta, chosen, ins)
        (_, at), (signal, bar) = wave.locate(cta, at, ins.opcode), wave.locate(cta, bar, ins.opcode)
        return [((each, at), ((each & ~1) | (signal & 1) if pairs else each, bar)) for each in members]

    return places


def cluster_members(wave: Wave, cta: int, chosen: int, ins: Instruction) -> list[int]:
    """The CTAs of a CTA's cluster whose bits a multicast mask sets."""
    size = wave.cluster_ctas
    if chosen == 0 or chosen >> size:
        raise PtxError(f"{ins.opcode} to mask {chosen:#x} of a cluster of {size} CTAs", ins.line)
    return [cta - cta % size + rank for rank in range(size) if chosen >> rank & 1]


@instruction(
    "st.async .weak? .shared::cluster .mbarrier::complete_tx::bytes .vector:v2|v4? "
    ".type:b32|b64|u32|u64|s32|s64|f32|f64"
)
def _st_async(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    """Each lane's registers to another CTA's shared memory, whose mbarrier counts their bytes."""
    target, barrier_at = address(d, ins.operands[0], "shared"), address(d, ins.operands[2], "shared")
    bits = int(q["type"][1:])
    slots = d.vector(ins.operands[1], bits)
    if len(slots) != int(q.get("vector", "v1")[1:]):
        raise d.fail(f"{ins.opcode} from {len(slots)} registers")
    size = bits // 8 * len(slots)

    def run(f: Frame) -> None:
        units, wave = f.wave.asynchronous, f.wave
        registers = f.u32 if bits == 32 else f.u64
        data = np.stack([f.select(registers[s]).ravel() for s in slots], axis=1).view(np.uint8)
        lists = [x.ravel().tolist() for x in (f.select(f.cta), target(f), barrier_at(f))]
        for i, (cta, at, bar) in enumerate(zip(*lists, strict=True)):
            (owner, local), signal = wave.locate(cta, at, ins.opcode), wave.locate(cta, bar, ins.opcode)
            if owner != signal[0]:
                raise PtxError(f"{ins.opcode}: data for CTA {owner} with the mbarrier of CTA {signal[0]}", ins.line)
            if local % size:
                raise AccessError(f"{ins.opcode}: shared byte {local}, which {size} does not divide", ins.line)
            wave.shared.check_span(local, local + size, ins.opcode)
            barrier = units.mbarrier(*signal, ins)

            def work(owner: int = owner, at: int = local, data: Array = data[i], barrier: Any = barrier) -> None:
                store_shared(wave, ins, owner, at, data)
                units.complete(barrier, size, ins)

            units.submit(("load", units.issued), work, ins)

    return run


def _check_bulk(at: int, start: int, n: int, ins: Instruction) -> None:
    if at % 16 or start % 16 or n % 16:
        raise AccessError(f"{ins.opcode}: addresses {at:#x}, {start:#x} and size {n} must be multiples of 16", ins.line)


def store_shared(wave: Wave, ins: Instruction, cta: int, at: int, data: Array) -> None:
    """Bytes that an asynchronous unit writes to shared memory."""
    wave.shared.window(cta)[at : at + len(data)] = data
    wave.shared.window_flags(cta)[at : at + len(data)] = 1
    start = cta * wave.shared.stride + at
    wave.shared.stored_at[start >> 4 : -(-(start + len(data)) >> 4)] = 0
    wave.asynchronous.note_stores(np.arange(start, start + len(data), 16), min(len(data), 16), ins)
    if wave.services.provenance is not None:
        wave.services.provenance.shared_fill(ins, np.arange(start, start + len(data)))


def note_unfenced(wave: Wave, ins: Instruction, cta: int, chunks: Array, issuer: int, what: str) -> None:
    """Report shared bytes, given by 16-byte chunks of the window, that a thread stored without a proxy fence since."""
    flat = chunks + cta * (wave.shared.stride >> 4)
    missing = wave.unfenced(flat, issuer)
    if np.count_nonzero(missing):
        first = flat.ravel()[np.flatnonzero(missing.ravel())[0]]
        thread = int(wave.thread.reshape(-1)[wave.shared.stored_by[first]])
        byte = int(first) * 16 % wave.shared.stride
        wave.services.findings.add(
            "no proxy fence", ins,
            f"{what} of CTA {cta} reads shared byte {byte}, which thread {thread} stored without a "
            "fence.proxy.async since",
        )  # fmt: skip


def note_unwritten(wave: Wave, ins: Instruction, cta: int, at: Array, what: str) -> None:
    """Report the first of these shared bytes (flags given as an index array) that nobody wrote."""
    fresh = wave.shared.window_flags(cta)[at] == 0
    if fresh.any():
        first = int(at.ravel()[np.flatnonzero(fresh.ravel())[0]])
        wave.services.findings.add(
            "unwritten shared", ins, f"{what} of CTA {cta} reads shared byte {first}, never written "
            f"({int(fresh.sum())} of {at.size} bytes)",
        )  # fmt: skip


@instruction(
    "cp.async.bulk.global.shared::cta.bulk_group .L2::cache_hint?",
    f"cp.reduce.async.bulk.global.shared::cta.bulk_group .L2::cache_hint? .op:add|min|max|inc|dec|and|or|xor .noftz? "
    f".type:{_REDUCE_TYPES}",
)
def _bulk_store(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    target, source = address(d, ins.operands[0], "global"), address(d, ins.operands[1], "shared")
    size = d.slot(ins.operands[2], 32)
    op, kind = q.get("op", ""), q.get("type", "")

    def run(f: Frame) -> None:
        units, wave = f.wave.asynchronous, f.wave
        starts = wave.locate_own(f.select(f.cta), source(f), ins.opcode)
        lists = [x.ravel().tolist() for x in (target(f), starts, f.select(f.cta))]
        issuers = f.select(f.slot).ravel().tolist()
        sizes = f.select(f.u32[size]).ravel().tolist()
        for i, (at, start, cta, n) in enumerate(zip(*lists, sizes, strict=True)):
            _check_bulk(at, start, n, ins)
            wave.shared.check_span(start, start + n, ins.opcode)

            def work(at: int = at, start: int = start, cta: int = cta, n: int = n, issuer: int = issuers[i]) -> None:
                note_unfenced(wave, ins, cta, np.arange(start >> 4, (start + n) >> 4), issuer, ins.opcode)
                note_unwritten(wave, ins, cta, np.arange(start, start + n), ins.opcode)
                record = wave.services.provenance
                if record is not None:
                    taken = np.arange(start, start + n)
                    thread = int(wave.thread.reshape(-1)[issuer])
                    record.read("bulk.store", "shared", cta, thread, ins, taken, record.shared_writers(cta, taken))
                data = wave.shared.window(cta)[start : start + n]
                out = wave.services.memory.read(at, n)
                out[...] = reduce_bytes(op, kind, out, data) if op else data

            units.submit(_bulk_queue(f, i), work, ins)

    return run


def reduce_bytes(op: str, kind: str, old: Array, new: Array) -> Array:
    """Element-wise `old op new` of byte arrays holding elements of a type."""
    from layoutlab.ptx.formats import decode, encode

    functions: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
                                 "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
    if op not in functions:
        raise PtxError(f"bulk reduction .{op} is not emulated yet")
    if kind in ("f16", "bf16"):
        left, right = (decode(kind, np.ascontiguousarray(x).view(np.uint16)).astype(np.float64) for x in (old, new))
        return encode(kind, functions[op](left, right)).view(np.uint8)
    dtype = {"f32": np.float32, "f64": np.float64, "b32": np.uint32, "b64": np.uint64, "u32": np.uint32,
             "s32": np.int32, "u64": np.uint64, "s64": np.int64}[kind]  # fmt: skip
    left, right = (np.ascontiguousarray(x).view(dtype) for x in (old, new))
    return np.ascontiguousarray(functions[op](left, right)).view(np.uint8)


@instruction("cp.async.bulk.prefetch.L2.global .L2::cache_hint?")
def _prefetch(d: Decoder, ins: Instruction, q: Qualifiers) -> Op:
    return lambda f: None
