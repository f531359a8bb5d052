"""What a run of the P handoff kernel shows: where every element of P went, and where the tensor core read it.

The compiled kernel runs in the replay machine. S[m, k] holds a digit of the element's number m * kv + k, so P carries
the number through the real code, and V is one head_dim-wide slice of the identity after the other, so that column n of
O shows what the tensor core took for A[m, block * head_dim + n]. Nothing here knows a layout: all is read off the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.crosscheck.tags import FOREIGN, UNWRITTEN, digit, numbers, numeric, passes
from layoutlab.errors import LayoutError
from layoutlab.kernels.p_handoff import compile_kernel, pointers
from layoutlab.kernels.p_settings import ROWS, PSettings
from layoutlab.ptx.memory import AccessError
from layoutlab.ptx.provenance import Provenance, Store
from layoutlab.replay import replay

Array = NDArray[Any]
ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Pass:
    """One run: O, the machine's warnings, and its record of who wrote and read what."""

    O: Array  # noqa: E741
    warnings: list[str]
    record: Provenance


def observe(settings: dict[str, Any]) -> dict[str, Any]:
    """One variant's run as JSON values; an element is its number m * kv + k, an address a byte of the shared window.

    * `stopped`: the sentence with which the machine refused to go on, and then nothing else; None if the run ended.
    * `owner`: [t * kv + v] the element in value v of softmax thread t after the TMEM load.
    * `stores`: `thread`, `byte` and `element` of all that was stored of P, also where it was overwritten.
    * `width_bytes`: the widths of those stores.
    * `overwrites`: [thread, byte] of the first of them that hit what the rest of the kernel wrote; None if none did.
    * `reads`: [element] the byte at which the MMA read it.
    * `image`: `byte` of each place that was written or read, and the `element` that lay there when the MMA read.
    * `seen`: [element] the element that O shows in its place; UNWRITTEN where the row's product is NaN.
    * `warnings` of the machine, and `passes`, the number of runs.
    """
    chosen = PSettings.parse(settings)
    compiled = compile_kernel(chosen)
    count = passes(ROWS * chosen.kv, chosen.dtype)
    blocks = -(-chosen.kv // chosen.head_dim)
    try:
        runs = [[run(chosen, compiled, p, block) for block in range(blocks)] for p in range(count)]
    except AccessError as error:
        return {"stopped": str(error)}
    first = [of_pass[0] for of_pass in runs]
    stores = stores_of_p(first, chosen)
    image = image_of_p(first, chosen, stores)
    return {
        "stopped": None,
        "owner": owner(first, chosen).tolist(),
        "stores": {name: stores[name].tolist() for name in ("thread", "byte", "element")},
        "width_bytes": sorted(set(stores["width"].tolist())),
        "overwrites": overwritten(first[0], stores, chosen.element_bytes),
        "reads": reads_of_a(first[0]).reshape(-1).tolist(),
        "image": {name: values.tolist() for name, values in image.items()},
        "seen": seen_in_o(runs, chosen).reshape(-1).tolist(),
        "warnings": sorted({warning for of_pass in runs for one in of_pass for warning in one.warnings}),
        "passes": count * blocks,
    }


def run(settings: PSettings, compiled: Any, index: int, block: int) -> Pass:
    """The kernel with digit `index` of each element's number in P, and block `block` of the identity in V."""
    kind = numeric(settings.dtype)
    S, V, O = (  # noqa: E741
        aligned((ROWS, settings.kv), np.float32),
        aligned((settings.kv, settings.head_dim), kind),
        aligned((ROWS, settings.head_dim), np.float32),
    )
    S[:] = digit(np.arange(S.size).reshape(S.shape), index, settings.dtype)
    V[:] = np.eye(settings.kv, settings.head_dim, -block * settings.head_dim).astype(kind)
    arguments = pointers(settings, S.ctypes.data, V.ctypes.data, O.ctypes.data)
    report = replay(compiled, *arguments, buffers=[S, V.view(np.uint8), O], provenance=True)
    return Pass(O, [str(warning) for warning in report.warnings], report.provenance)


def aligned(shape: tuple[int, ...], kind: Any) -> Array:
    """A zeroed array that starts at a multiple of 16 bytes."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    buffer = np.zeros(size + ALIGNMENT_BYTES, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT_BYTES
    return buffer[start : start + size].view(kind).reshape(shape)


def mma_time(one: Pass) -> int:
    """When the first MMA read its operand."""
    return int(one.record.reads_of("A")[0].time)


def owner(runs: list[Pass], settings: PSettings) -> Array:
    """[t * kv + v] -> element: what each thread's TMEM loads before the MMA gave it, in their order."""
    held = [_loaded(one, settings) for one in runs]
    found = numbers(held, settings.dtype)
    return found.reshape(-1)


def _loaded(one: Pass, settings: PSettings) -> Array:
    """(t, v) -> the number that a TMEM load before the MMA gave to value v of softmax thread t."""
    snapshot, until = one.record.snapshots[0], mma_time(one)
    values: dict[int, list[Array]] = {}
    for load in one.record.reads_of("tmem.load"):
        if load.time > until:
            continue
        lane, column = load.location[..., 0], load.location[..., 1]
        if not np.array_equal(load.writers[..., 0], snapshot.tmem_event[lane, column]):
            raise LayoutError("S was overwritten in Tensor Memory after a thread loaded it: its tags are lost")
        words = np.ascontiguousarray(snapshot.tmem[lane, column]).view(np.float32)
        for i, row in enumerate(words):
            values.setdefault(load.thread + i, []).append(row)
    return np.stack([np.concatenate(values[thread]) for thread in sorted(values)])


def stores_of_p(runs: list[Pass], settings: PSettings) -> dict[str, Array]:
    """Thread, byte, element and width of each element stored by the instructions whose data change with P's digits."""
    every = [[s for s in one.record.stores_to("shared") if s.time < mma_time(one)] for one in runs]
    for others in every[1:]:
        if [_places(s) for s in others] != [_places(s) for s in every[0]]:
            raise LayoutError("the kernel's stores differ between the passes: where it stores depends on P's values")
    together = list(zip(*every, strict=True))
    lines = {s[0].line for s in together if any(not np.array_equal(s[0].data, other.data) for other in s[1:])}
    parts = [_elements(s, settings) for s in together if s[0].line in lines]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _places(store: Store) -> tuple[int, int, bytes, bytes]:
    return store.line, store.width, store.thread.tobytes(), store.address.tobytes()


def _elements(stores: tuple[Store, ...], settings: PSettings) -> dict[str, Array]:
    """One executed store, as the elements that the passes' data spell."""
    first, size = stores[0], settings.element_bytes
    if first.width % size or (first.address % size).any():
        raise LayoutError(f"PTX line {first.line} stores {first.width} bytes, no whole elements of {size}")
    digits = [s.data.view(numeric(settings.dtype)).astype(np.float64) for s in stores]
    element = numbers(digits, settings.dtype)
    count = first.width // size
    return {
        "thread": np.repeat(first.thread.astype(np.int64), count),
        "byte": (first.address.astype(np.int64)[:, None] + size * np.arange(count)).reshape(-1),
        "element": element.reshape(-1),
        "line": np.full(element.size, first.line),
        "width": np.full(element.size, first.width),
    }


def overwritten(one: Pass, stores: dict[str, Array], size: int) -> list[int] | None:
    """Thread and byte of the first store of P that hits a byte which another instruction wrote; None if none does."""
    lines = set(stores["line"].tolist())
    others = [s for s in one.record.stores_to("shared") if s.line not in lines]
    taken = [(s.address[:, None] + np.arange(s.width)).reshape(-1) for s in others]
    mine = stores["byte"][:, None] + np.arange(size)
    hit = np.isin(mine, np.concatenate(taken)).any(axis=1) if taken else np.zeros(len(mine), bool)
    if not hit.any():
        return None
    at = int(hit.argmax())
    return [int(stores["thread"][at]), int(stores["byte"][at])]


def reads_of_a(one: Pass) -> Array:
    """(m, k) -> the byte at which the MMAs read operand A, their steps one after another along k."""
    return np.concatenate([read.location for read in one.record.reads_of("A")], axis=1).astype(np.int64)


def image_of_p(runs: list[Pass], settings: PSettings, stores: dict[str, Array]) -> dict[str, Array]:
    """The places that P was written to or read from, and what lay there when the MMA read them."""
    places = np.unique(np.concatenate([stores["byte"], reads_of_a(runs[0]).reshape(-1)]))
    cells = places[:, None] + np.arange(settings.element_bytes)
    shots = [one.record.snapshots[0] for one in runs]
    events = shots[0].shared_event[cells]
    lines = set(stores["line"].tolist())
    late = [event for event in np.unique(events) if event and runs[0].record.events[event - 1][0] > mma_time(runs[0])]
    if late:
        raise LayoutError("sP was written to after the MMA had read it: what it read is lost")
    mine = np.array([0, *(ins.line in lines for _, ins in runs[0].record.events)], bool)[events].all(axis=1)
    empty = (events == 0).all(axis=1)
    found = np.full(len(places), FOREIGN, np.int64)
    found[empty] = UNWRITTEN
    kind = numeric(settings.dtype)
    digits = [shot.shared[cells[mine]].copy().view(kind).reshape(-1).astype(np.float64) for shot in shots]
    found[mine] = numbers(digits, settings.dtype)
    return {"byte": places, "element": found}


def seen_in_o(runs: list[list[Pass]], settings: PSettings) -> Array:
    """(m, k) -> the element that O shows as A[m, k]."""
    digits = [np.concatenate([one.O for one in of_pass], axis=1)[:, : settings.kv] for of_pass in runs]
    beyond = [one.O[:, settings.kv :] for of_pass in runs for one in of_pass]
    if any(np.any(rest[~np.isnan(rest)]) for rest in beyond):
        raise LayoutError("O is not zero where V is: the product is not of P and V alone")
    return numbers(digits, settings.dtype)
