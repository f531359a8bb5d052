"""Both sides of the attention kernel's handoffs, read off a run: who holds which element, puts it where, and who reads.

The compiled kernel runs in the replay machine, which remembers who wrote each byte and what each unit read. TMA's
elements are told apart by where they lie in global memory, O's by their values: V[0, n] = n + 1, and one key is seen,
so O[m, n] is n + 1, P's by the values that `attention_observe` gives them, whose subject is P in Tensor Memory. Nothing
here knows a layout of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.kernels.attention_config import EPILOGUE_COLUMNS, ROWS, AttentionConfig
from layoutlab.kernels.attention_host import arguments, check, compile_attention
from layoutlab.kernels.attention_observe import SCALE, TOLERANCE, TYPES, mma_reads, p_inputs, p_owner
from layoutlab.ptx.memory import AccessError
from layoutlab.ptx.provenance import Provenance, Read
from layoutlab.replay import replay

Array = NDArray[Any]

BYTE = 8
LANE_BITS = 512 * 32
CORRECTION = 128
"""The first thread of the correction warps."""
UNSEEN = -2000.0
"""A key's product with every query, by which its P is 0."""
NEAR = 1e-3
"""Of a rescaled value: well over the error of the factor, under a quarter of the step from 255 to 256."""


def observe(handoff: str, settings: dict[str, Any], **options: Any) -> dict[str, Any]:
    """What a run of one configuration shows of a handoff, as JSON values.

    An element is its number, first coordinate times second extent plus second coordinate; a place is a bit of its
    memory, of Tensor Memory lane * 16384 + bit of the lane.

    * `stopped`: the sentence with which the machine refused to go on, and then nothing else; None if the run ended.
    * `threads`: how many hold elements: threads, or boxes of TMA.
    * `owner`: [t * values + v] the element in value v of holder t.
    * `wrote`: [t * values + v] the place at which it put that element; -1 where at none.
    * `reads`: [element] the place at which the reader took it.
    * `by_writer`: [element] whether the place read was last written by the handoff's writer.
    * `widths`: the bytes that the writer stores at a time; None where it is no thread.
    * `others`: [first, last] columns that are not the tile's; None where the memory has none.
    """
    try:
        return {
            "stopped": None,
            "widths": None,
            "others": None,
            **SIDES[handoff](AttentionConfig(**settings), **options),
        }
    except AccessError as error:
        return {"stopped": str(error)}


def run(config: AttentionConfig, q: Array, k: Array, v: Array, o: Array, scale: float = 1.0) -> Provenance:
    """The record of a run."""
    packed = arguments(check(config, q, k, v, o), scale=scale)
    record = replay(compile_attention(config, lse=False), *packed, buffers=[q, k, v, o], provenance=True).provenance
    assert record is not None
    return record


# -- Q, K and V: from global memory by TMA to shared memory, read by descriptor ---------------------------------------


def loaded(config: AttentionConfig, operand: str, slot: int = 0) -> dict[str, Any]:
    """Q's tile, or the tile of K or V that the slot holds."""
    dtype, kv, head_dim = TYPES[config.dtype], config.kv_tile, config.head_dim
    q, o = (np.zeros((1, ROWS, 1, head_dim), dtype) for _ in range(2))
    k, v = (np.zeros((1, kv * (slot + 1), 1, head_dim), dtype) for _ in range(2))
    record = run(config, q, k, v, o)
    tensor = {"q": q, "k": k, "v": v}[operand]
    rows = ROWS if operand == "q" else kv
    boxes = [load for load in record.reads_of("tma.load") if _inside(load, tensor)]
    start = min(int(box.location.min()) for box in boxes)
    mine = [(at, box) for box in boxes if (at := _rows_of(box, tensor, head_dim) - slot * rows).min() >= 0]
    mine.sort(key=lambda pair: pair[1].elsewhere.min() - tensor.ctypes.data)
    number = [_numbers(operand, row, _columns_of(box, tensor, head_dim), rows, head_dim) for row, box in mine]
    qk, pv = mma_reads(record, config)
    of_tile = [one["B" if operand != "q" else "A"] for one in (pv if operand == "v" else qk)]
    steps = (kv if operand == "v" else head_dim) // 16
    reads = of_tile[slot * steps : (slot + 1) * steps]
    return {
        "threads": len(mine),
        "owner": np.concatenate([x.ravel() for x in number]).tolist(),
        "wrote": np.concatenate([BYTE * (box.location.ravel() - start) for _, box in mine]).tolist(),
        "reads": (BYTE * (_along_k(reads) - start)).ravel().tolist(),
        "by_writer": _written_by(record, reads, "cp.async.bulk.tensor").ravel().tolist(),
    }


def _inside(box: Read, tensor: Array) -> bool:
    """Whether a box comes from this tensor."""
    assert box.elsewhere is not None
    return bool(tensor.ctypes.data <= box.elsewhere.max() < tensor.ctypes.data + tensor.nbytes)


def _rows_of(box: Read, tensor: Array, head_dim: int) -> Array:
    assert box.elsewhere is not None
    return (box.elsewhere - tensor.ctypes.data) // tensor.itemsize // head_dim


def _columns_of(box: Read, tensor: Array, head_dim: int) -> Array:
    assert box.elsewhere is not None
    return (box.elsewhere - tensor.ctypes.data) // tensor.itemsize % head_dim


def _numbers(operand: str, row: Array, column: Array, rows: int, head_dim: int) -> Array:
    """The elements' numbers: Q and K are (row, column), V is (column, row)."""
    return column * rows + row if operand == "v" else row * head_dim + column


def _along_k(reads: list[Read]) -> Array:
    """One map of the steps' maps, k growing."""
    return np.concatenate([read.location.reshape(len(read.location), -1) for read in reads], axis=1)


def _written_by(record: Provenance, reads: list[Read], opcode: str) -> Array:
    """For each element whether the last who wrote it was such an instruction."""
    events = np.concatenate([read.writers[..., 0].reshape(len(read.location), -1) for read in reads], axis=1)
    return np.isin(events, _events(record, opcode))


def _events(record: Provenance, opcode: str) -> list[int]:
    return [number for number, (_, ins) in enumerate(record.events, 1) if ins.opcode.startswith(opcode)]


# -- O: rescaled in Tensor Memory -------------------------------------------------------------------------------------


def rescaled(config: AttentionConfig) -> dict[str, Any]:
    """O between two KV tiles: the first key of each is seen, and the second's product is the greater."""
    dtype, kv, head_dim = TYPES[config.dtype], config.kv_tile, config.head_dim
    q, o = (np.zeros((1, ROWS, 1, head_dim), dtype) for _ in range(2))
    k, v = (np.zeros((1, 2 * kv, 1, head_dim), dtype) for _ in range(2))
    q[0, :, 0, 0] = 1 + np.arange(ROWS) / 128
    k[0, :, 0, 0] = UNSEEN
    k[0, [0, kv], 0, 0] = 0, 1
    v[0, 0, 0, :] = 1 + np.arange(head_dim)
    record = run(config, q, k, v, o)
    _, pv = mma_reads(record, config)
    before, after = pv[kv // 16 - 1]["D"], pv[kv // 16]["D"]
    place = after.location[..., 0] * LANE_BITS + after.location[..., 1] * 32
    owner = _held(record, before, after.time)
    factor = np.exp(-q[0, :, 0, 0].astype(np.float64))
    value = (1 + owner % head_dim) * factor[owner // head_dim]
    stores = [s for s in record.stores_to("tmem") if before.time < s.time < after.time and s.thread[0] >= CORRECTION]
    first, last = int(after.location[..., 1].min()), int(after.location[..., 1].max())
    by_writer = np.isin(after.writers[..., 0], _events(record, "tcgen05.st")) & (after.writers[..., 1] >= CORRECTION)
    return {
        "threads": ROWS,
        "owner": owner.ravel().tolist(),
        "wrote": _words(stores, value).ravel().tolist(),
        "reads": place.ravel().tolist(),
        "by_writer": by_writer.ravel().tolist(),
        "others": [[a, b] for a, b in ((0, first - 1), (last + 1, 511)) if a <= b],
    }


def _held(record: Provenance, written: Read, until: int | None = None) -> Array:
    """(t, v) -> element: what the correction threads' loads take from where the MMA put O, after `written`."""
    m, n = np.indices(written.location.shape[:2])
    element = np.full((128, 512), -1)
    element[written.location[..., 0], written.location[..., 1]] = m * written.location.shape[1] + n
    rows = [list[int]() for _ in range(ROWS)]
    for load in record.reads_of("tmem.load"):
        if load.thread >= CORRECTION and load.time > written.time and (until is None or load.time < until):
            for i, held in enumerate(element[load.location[..., 0], load.location[..., 1]]):
                rows[load.thread - CORRECTION + i] += held.tolist()
    return np.array(rows)


def _words(stores: list[Any], value: Array) -> Array:
    """(t, v) -> the place of the one word of the thread's that holds the value; -1 where there is none or several."""
    thread = np.concatenate([s.thread for s in stores]) - CORRECTION
    address = np.concatenate([s.address for s in stores])
    data = np.concatenate([s.data for s in stores]).view(np.float32).ravel().astype(np.float64)
    place = address // 512 * LANE_BITS + address % 512 * 32
    found = np.full(value.shape, -1)
    for t in range(ROWS):
        mine = thread == t
        near = np.abs(data[mine][None, :] - value[t][:, None]) < NEAR * value[t][:, None]
        found[t] = np.where(near.sum(axis=1) == 1, place[mine][near.argmax(axis=1)], -1) if mine.any() else -1
    return found


# -- P: from the softmax threads' registers to shared memory, read by descriptor ---------------------------------------


def passed(config: AttentionConfig) -> dict[str, Any]:
    """P of the first KV tile through shared memory."""
    kv, kind = config.kv_tile, np.dtype(TYPES[config.dtype])
    q, k, wanted = p_inputs(config, 0)
    record = run(config, q, k, np.ones_like(k), np.zeros_like(q), SCALE)
    qk, pv = mma_reads(record, config)
    owner = p_owner(record, qk[0]["D"], kv)
    reads = [one["A"] for one in pv[: kv // 16]]
    place = _along_k(reads)
    start = int(place.min())
    wrote, widths = np.full(owner.shape, -1), set[int]()
    for s in record.stores_to("shared"):
        mine = (s.thread < ROWS) & (s.address >= start) & (s.address < start + ROWS * kv * kind.itemsize)
        for thread, address, data in zip(s.thread[mine], s.address[mine], s.data[mine], strict=True):
            value = np.ascontiguousarray(data).view(kind).astype(np.float64)
            expected = wanted.ravel()[owner[thread]]
            near = np.abs(value[:, None] - expected[None, :]) < TOLERANCE * expected[None, :]
            at = np.where(near.sum(axis=1) == 1, near.argmax(axis=1), -1)
            known = at >= 0
            wrote[thread, at[known]] = BYTE * (address - start + kind.itemsize * np.flatnonzero(known))
            widths.add(s.width)
    return {
        "threads": ROWS,
        "owner": owner.ravel().tolist(),
        "wrote": wrote.ravel().tolist(),
        "reads": (BYTE * (place - start)).ravel().tolist(),
        "by_writer": _written_by(record, reads, "st.shared").ravel().tolist(),
        "widths": sorted(widths),
    }


# -- O: from Tensor Memory to shared memory, and to global memory -----------------------------------------------------


def _stored_run(config: AttentionConfig, rows: int, heads: int) -> tuple[Provenance, Array, Array]:
    """A run in which O[m, n] of the first head is n + 1: the record, O, and the first head's (t, v) -> element."""
    dtype, head_dim = TYPES[config.dtype], config.head_dim
    q, o = (np.zeros((1, rows, heads, head_dim), dtype) for _ in range(2))
    k, v = (np.zeros((1, 1, heads, head_dim), dtype) for _ in range(2))
    v[0, 0, 0, :] = 1 + np.arange(head_dim)
    record = run(config, q, k, v, o)
    record.reads[:] = [read for read in record.reads if read.cta == 0]  # the first head's tile is the first CTA's
    _, pv = mma_reads(record, config)
    return record, o, _held(record, pv[-1]["D"])


def _shared_stores(record: Provenance, config: AttentionConfig) -> list[dict[str, Array]]:
    """By sub-tile the elements that correction threads stored: `thread`, `byte`, `column` of O, `width` in bytes."""
    kind = np.dtype(TYPES[config.dtype])
    parts, count = [list[dict[str, Array]]() for _ in range(config.subtiles)], np.zeros(ROWS, int)
    for s in record.stores_to("shared"):
        keep = (s.cta == 0) & (s.thread >= CORRECTION) & (s.thread < CORRECTION + ROWS)
        if not keep.any():
            continue
        many = s.width // kind.itemsize
        thread, value = s.thread[keep] - CORRECTION, s.data[keep].copy().view(kind).astype(np.float64)
        subtile = set((count[thread] // EPILOGUE_COLUMNS).tolist())
        count[thread] += many
        parts[subtile.pop()].append({
            "thread": np.repeat(thread, many),
            "byte": (s.address[keep][:, None] + kind.itemsize * np.arange(many)).ravel(),
            "column": value.ravel().astype(np.int64) - 1,
            "width": np.full(value.size, s.width),
        })  # fmt: skip
    return [{name: np.concatenate([part[name] for part in found]) for name in found[0]} for found in parts]


def epilogue(config: AttentionConfig) -> dict[str, Any]:
    """O by sub-tiles from the correction threads' registers to shared memory; TMA reads it. Each has a buffer."""
    record, o, owner = _stored_run(config, ROWS, 1)
    head_dim, size = config.head_dim, ROWS * EPILOGUE_COLUMNS * 2
    stores, boxes = _shared_stores(record, config), record.reads_of("tma.store")
    starts = [int(box.location.min()) for box in boxes]
    wrote, reads, by_writer = np.full(owner.shape, -1), *(np.full(ROWS * head_dim, -1) for _ in range(2))
    value_of = np.full((ROWS, head_dim), -1)  # a thread's value that is of this column
    np.put_along_axis(value_of, owner % head_dim, np.broadcast_to(np.arange(head_dim), owner.shape), axis=1)
    for i, (part, box, start) in enumerate(zip(stores, boxes, starts, strict=True)):
        wrote[part["thread"], value_of[part["thread"], part["column"]]] = BYTE * (part["byte"] - start + i * size)
        element = _rows_of(box, o, head_dim) * head_dim + _columns_of(box, o, head_dim)
        reads[element.ravel()] = BYTE * (box.location.ravel() - start + i * size)
        mine = box.writers[..., 1] >= CORRECTION
        by_writer[element.ravel()] = (mine & np.isin(box.writers[..., 0], _events(record, "st.shared"))).ravel()
    return {
        "threads": ROWS,
        "owner": owner.ravel().tolist(),
        "wrote": wrote.ravel().tolist(),
        "reads": reads.tolist(),
        "by_writer": (by_writer == 1).tolist(),
        "widths": sorted({int(width) for part in stores for width in part["width"]}),
    }


def stored(config: AttentionConfig, rows: int = ROWS, heads: int = 1) -> dict[str, Any]:
    """O from shared memory to the first head of the caller's tensor, (batch, seq, heads, head_dim)."""
    record, o, owner = _stored_run(config, rows, heads)
    head_dim = config.head_dim
    row_of = owner[:, 0] // head_dim  # of each thread
    held, wrote = list[Array](), list[Array]()
    for part, box in zip(_shared_stores(record, config), record.reads_of("tma.store"), strict=True):
        element = np.full(int(max(part["byte"].max(), box.location.max())) + 1, -1)
        element[part["byte"]] = row_of[part["thread"]] * head_dim + part["column"]
        assert box.elsewhere is not None
        inside = box.elsewhere >= 0
        held.append(element[box.location[inside]])
        wrote.append(BYTE * (box.elsewhere[inside] - o.ctypes.data))
    m, n = np.indices((rows, head_dim))
    reads = BYTE * (m * o.strides[1] + n * o.strides[3])
    return {
        "threads": len(held),
        "owner": np.concatenate(held).tolist(),
        "wrote": np.concatenate(wrote).tolist(),
        "reads": reads.ravel().tolist(),
        "by_writer": np.isin(reads, np.concatenate(wrote)).ravel().tolist(),
    }


SIDES: dict[str, Callable[..., dict[str, Any]]] = {
    "loaded": loaded,
    "passed": passed,
    "rescaled": rescaled,
    "epilogue": epilogue,
    "stored": stored,
}
