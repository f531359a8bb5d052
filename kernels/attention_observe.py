"""What a run of the attention kernel shows of P in Tensor Memory: who put each element where, and what the MMA reads.

The compiled kernel runs in the replay machine on inputs whose P tells its elements apart: S[m, k] = (1 + m / 128) k, so
P[m, k] = e^(scale (1 + m / 128) (k - highest)) falls by at least 3% from one key to the one before, ten times what a
16-bit type rounds. Which row a thread holds is where it loaded S from, and where the QK MMA put that row. Nothing here
knows a layout of P: all is read off the run.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck.tags import FOREIGN
from layoutlab.kernels.attention_config import ROWS, SLOTS, AttentionConfig
from layoutlab.kernels.attention_device import Device
from layoutlab.kernels.attention_host import arguments, check, compile_attention
from layoutlab.ptx.memory import AccessError
from layoutlab.ptx.provenance import Provenance, Read, Snapshot
from layoutlab.replay import replay

Array = NDArray[Any]

SCALE = 0.03
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
BITS = 16
TOLERANCE = 0.012
"""Of an element's value: well over what rounding and the fast exponential do, under half of the step to the next."""


def observe(settings: dict[str, Any], slot: int) -> dict[str, Any]:
    """One configuration's run as JSON values; an element is its number m * kv + k, a place lane * 16384 + bit.

    * `stopped`: the sentence with which the machine refused to go on, and then nothing else; None if the run ended.
    * `threads`: how many there are; `widths`: nothing, a store to Tensor Memory is whole columns.
    * `owner`: [t * kv + v] the element in value v of softmax thread t after its loads of S.
    * `wrote`: [t * kv + v] the place at which thread t put that element; -1 where it is at none, -2 at several.
    * `reads`: [element] the place at which the PV MMA read it.
    * `by_writer`: [element] whether the place read was last written by a tcgen05.st.
    * `others`: [first, last] columns of the other S and of O, as the MMAs used them.
    """
    config = AttentionConfig(**settings)
    kv, dtype = config.kv_tile, TYPES[config.dtype]
    q, k, wanted = p_inputs(config, slot)
    v, o = np.ones_like(k), np.zeros_like(q)
    packed = arguments(check(config, q, k, v, o), scale=SCALE)
    try:
        report = replay(compile_attention(config, lse=False), *packed, buffers=[q, k, v, o], provenance=True)
    except AccessError as error:
        return {"stopped": str(error)}
    record = report.provenance
    steps = kv // 16
    qk, pv = mma_reads(record, config)
    scores = [one["D"] for one in qk][slot * config.head_dim // 16]  # any step of the tile's: all have the same D
    owner = p_owner(record, scores, kv)
    reads = [one["A"] for one in pv][slot * steps : (slot + 1) * steps]
    place = np.concatenate([_places(a.location) for a in reads], axis=1)
    events = np.concatenate([a.writers[..., 0] for a in reads], axis=1)
    stores = [number for number, (_, ins) in enumerate(record.events, 1) if ins.opcode.startswith("tcgen05.st")]
    return {
        "stopped": None,
        "threads": ROWS,
        "widths": None,
        "owner": owner.ravel().tolist(),
        "wrote": _wrote(record.snapshots[0], stores, owner, wanted, dtype).ravel().tolist(),
        "reads": place.ravel().tolist(),
        "by_writer": np.isin(events, stores).ravel().tolist(),
        "others": [[int(d.location[..., 1].min()), int(d.location[..., 1].max())] for d in _others(qk, pv, scores)],
    }


def observe_on_device(settings: dict[str, Any], slot: int) -> dict[str, Any]:
    """What the SM100 device here makes of one configuration: its name as `device`, and `seen`, [element] the element
    that O shows in its place, -2 where it shows none.

    V is one slice of the identity after the other and O is not divided, so that O[m, n] is what the tensor core took
    for P[m, block * head_dim + n].
    """
    device = Device()
    config = AttentionConfig(**settings, normalize=False)
    kv, head_dim = config.kv_tile, config.head_dim
    compiled = compile_attention(config, lse=False, arch=device.architecture)
    q, k, wanted = p_inputs(config, slot)
    taken = np.empty((ROWS, kv))
    for first in range(0, kv, head_dim):
        v, o = np.zeros_like(k), np.zeros_like(q)
        v[0, -kv:, 0, :] = np.eye(kv, head_dim, -first)
        device.run(compiled, check(config, q, k, v, o), SCALE, 1)
        taken[:, first : first + head_dim] = o[0, :, 0, : min(head_dim, kv - first)].astype(np.float64)
    near = np.abs(taken[:, :, None] - wanted[:, None, :]) < TOLERANCE * wanted[:, None, :]
    element = np.arange(ROWS)[:, None] * kv + near.argmax(axis=2)
    seen = np.where(near.sum(axis=2) == 1, element, FOREIGN)
    return {"device": device.described()["device"], "seen": seen.ravel().tolist()}


def p_inputs(config: AttentionConfig, slot: int) -> tuple[Array, Array, Array]:
    """Q, K, and (m, k) -> the P of the slot's tile that they make."""
    kv, dtype = config.kv_tile, TYPES[config.dtype]
    q, k = np.zeros((1, ROWS, 1, config.head_dim), dtype), np.zeros((1, kv * (slot + 1), 1, config.head_dim), dtype)
    q[0, :, 0, 0] = 1 + np.arange(ROWS) / 128
    k[0, -kv:, 0, 0] = np.arange(kv)
    if slot:  # the tile before has the rows' maximum, and below it nothing that this tile's P has
        k[0, :kv, 0, 0] = [kv, *[-kv] * (kv - 1)]
    highest = kv if slot else kv - 1
    return q, k, np.exp(SCALE * (1 + np.arange(ROWS)[:, None] / 128) * (np.arange(kv)[None, :] - highest))


def mma_reads(record: Provenance, config: AttentionConfig) -> tuple[list[dict[str, Read]], list[dict[str, Read]]]:
    """What each QK and each PV instruction read for D, A and B, in the order of time."""
    triples = zip(*(record.reads_of(operand) for operand in "DAB"), strict=True)
    qk, pv = list[dict[str, Read]](), list[dict[str, Read]]()
    for d, a, b in sorted(triples, key=lambda triple: triple[0].time):
        assert d.line == a.line == b.line
        (qk if d.location[..., 1].max() < SLOTS * config.kv_tile else pv).append({"D": d, "A": a, "B": b})
    return qk, pv


def _others(qk: list[dict[str, Read]], pv: list[dict[str, Read]], scores: Read) -> list[Read]:
    """One instruction's D for each accumulator but the scores'."""
    found = {int(one["D"].location[0, 0, 1]): one["D"] for one in [*qk, *pv]}
    return [d for column, d in sorted(found.items()) if column != int(scores.location[0, 0, 1])]


def p_owner(record: Provenance, scores: Read, kv: int) -> Array:
    """(t, v) -> element: what the softmax threads' loads take from where the QK MMA put the scores."""
    element = np.full((128, 512), -1)
    m, n = np.indices(scores.location.shape[:2])
    element[scores.location[..., 0], scores.location[..., 1]] = m * kv + n
    rows = [list[int]() for _ in range(ROWS)]
    first, last = int(scores.location[..., 1].min()), int(scores.location[..., 1].max())
    for load in record.reads_of("tmem.load"):
        if first <= load.location[..., 1].min() and load.location[..., 1].max() <= last:
            for i, held in enumerate(element[load.location[..., 0], load.location[..., 1]]):
                rows[load.thread + i] += held.tolist()
    return np.array([row[-kv:] for row in rows])


def _places(location: Array) -> Array:
    """Lane and bit of the lane as one number."""
    return location[..., 0] * (512 * 32) + location[..., 1] * 32 + location[..., 2]


def _wrote(end: Snapshot, stores: list[int], owner: Array, wanted: Array, dtype: Any) -> Array:
    """(t, v) -> the place of the one half-word of the thread's own that holds the element's value."""
    found = np.full(owner.shape, -1)
    halves = np.ascontiguousarray(end.tmem).view(np.uint16).reshape(128, 1024).view(dtype)
    halves = np.nan_to_num(halves.astype(np.float32), nan=-1.0)
    mine = np.isin(end.tmem_event, stores)
    for t in range(ROWS):
        lanes, columns = np.nonzero(mine & (end.tmem_thread == t))
        place = (lanes[:, None] * (512 * 32) + columns[:, None] * 32 + np.array([0, BITS])).ravel()
        value = halves[lanes[:, None], 2 * columns[:, None] + np.array([0, 1])].ravel()
        expected = wanted.ravel()[owner[t]]
        near = np.abs(value[None, :] - expected[:, None]) < TOLERANCE * expected[:, None]
        count = near.sum(axis=1)
        found[t] = np.where(count == 1, place[near.argmax(axis=1)], np.where(count == 0, -1, -2)) if place.size else -1
    return found
