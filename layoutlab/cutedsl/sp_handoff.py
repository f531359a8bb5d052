"""The handoff that a trace of the P handoff kernel describes, in the terms in which a model is written.

`traced_handoff(trace_sP({}))` has the owner, the writer and the reader that CuTe DSL computed, so it can be verified
like any other handoff and its maps compared with the model's. Everything comes from the trace's texts; what they leave
open (how an MMA reads a descriptor) is the ISA's, by `layoutlab.handoff`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from layoutlab.algebra import composition
from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.cutedsl.trace import SPTrace
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Owner, Reader, Smem, Tile, Writer, owned, smem, store, tcgen05_ld, umma_a
from layoutlab.int_tuple import Basis
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.text import parse
from layoutlab.text.records import Tensor

STORE_BITS = {"b8": 8, "b16": 16, "b32": 32, "b64": 64, "v2.b32": 64, "v4.b32": 128, "v2.b64": 128}


def traced_handoff(trace: SPTrace) -> Handoff:
    """The traced owner, writer and reader as a Handoff.

    Raises LayoutError where the texts contradict each other or are none that this reads.
    """
    rows = _size(_layout(trace.owner["tv"])[0])
    elements = _size(_outer(parse(trace.storage["layout"])))
    tile = Tile("P", m=rows, k=elements // rows, bits=trace.storage["element_bits"])
    owner = _owner(trace, tile)
    return Handoff(tile, writer=_writer(trace, tile, owner), reader=_reader(trace, tile))


def _owner(trace: SPTrace, tile: Tile) -> Owner:
    """(T,V) -> m + 128 k after the TMEM load."""
    tv = _thread_value(_owner_threads(trace), trace.owner["threads"], tile, "owner")
    first_thread = trace.owner["first_thread"]
    load = tcgen05_ld(f"32x32b.x{_size(_layout(trace.owner['tv'])[1])}").over(tile, first_warp=first_thread // 32)
    made = owned(tv, tile, first_thread=first_thread)
    return replace(made, source=f"traced: {trace.provenance['owner.coordinates']}", rules=load.rules)


def _writer(trace: SPTrace, tile: Tile, owner: Owner) -> Writer:
    """Where the route puts what a thread holds."""
    if trace.writer["route"] == "coordinate":
        storage = _storage(trace, trace.writer["tensor"], tile)
        operand = _outer(storage.layout)  # ((M,K0),1,(K1,K2),stage)
        sizes = _sizes(operand[0][1]) + _sizes(operand[2])
        ks = [_flat_index(_leaves([k0, rest]), sizes) for k0, _, rest, _ in trace.writer["stored"]]
        through = _joined(_owner_threads(trace), _strided(ks, tile.extents["m"]))
        source = trace.provenance["writer.stored"]
    elif _size(_layout(trace.writer["tv"])[0]) == 1:
        return _claimed(trace, tile, owner)
    else:
        storage = _storage(trace, trace.writer["matrix"], tile)
        through = _thread_value(_copy_threads(trace, tile), trace.writer["threads"], tile, "writer")
        source = trace.provenance["writer.threads"]
    made = store(owner, storage, bits=_store_bits(trace), through=through)
    return replace(made, route=f"{made.route}, traced: {source}")


def _claimed(trace: SPTrace, tile: Tile, owner: Owner) -> Writer:
    """A copy of one thread: each thread stores what it holds at the first places of the partition that it claims.

    The partition itself is asked, because CuTe DSL may have folded the swizzle into it.
    """
    partition, matrix = parse(trace.writer["partition"]), parse(trace.writer["matrix"])
    swizzled = isinstance(partition.layout, ComposedLayout)
    layout = matrix.layout if swizzled else _outer(matrix.layout)
    storage = _storage(trace, str(replace(matrix, layout=layout)), tile)
    first = composition(_outer(partition.layout), Layout(tile.extents["k"]))
    offsets = _joined(Layout(tile.extents["m"], 0), first)
    source = trace.provenance["writer.partition"]
    made = store(owner, storage, bits=_store_bits(trace), offsets=offsets)
    return replace(made, route=f"{made.route}, traced: {source}")


def _reader(trace: SPTrace, tile: Tile) -> Reader:
    """The MMA's reads: by the descriptors in the PTX where the trace has them, else by what they are made from."""
    base = trace.storage["base_bytes"]
    if "descriptors" in trace.reader:
        words = [SmemDescriptor.decode(int(text, 16), "sm_100") for text in trace.reader["descriptors"]]
        desc, starts = words[0].stepped(base), [word.start - words[0].start for word in words]
        source = f"traced: {trace.provenance['reader.descriptors']}"
    else:
        desc, fragment = _descriptor(trace, tile), _layout(trace.reader["fragment"])
        starts = [16 * int(fragment(step)) for step in range(_size(fragment))]
        source = f"traced: {trace.provenance['reader.fragment']}; the descriptor's fields follow from sP's layout"
    return replace(umma_a(desc, tile, starts_bytes=starts), source=source)


def _descriptor(trace: SPTrace, tile: Tile) -> SmemDescriptor:
    """The descriptor of sP's K-major layout: 8 rows of one swizzle span, the next 8 rows one stride further."""
    tensor = parse(trace.storage["tensor"])
    swizzle, row = tensor.iterator.swizzle, tensor.layout[0][0]
    if row.rank() != 1 or not isinstance(swizzle, Swizzle) or swizzle.base != 4 or swizzle.shift != 3:
        raise LayoutError(f"{tensor}: this is no K-major operand of one row stride under a swizzle of 16-byte chunks")
    row_bytes = row.stride * tile.bits // 8
    return SmemDescriptor(start=trace.storage["base_bytes"], lbo=0, sbo=8 * row_bytes, swizzle=16 << swizzle.bits)  # type: ignore[arg-type]


def _storage(trace: SPTrace, text: str, tile: Tile) -> Smem:
    """sP as the writer addresses it: the pointer's swizzle acts on addresses, the layout's on element offsets."""
    tensor = parse(text)
    if not isinstance(tensor, Tensor):
        raise LayoutError(f"{text} is no tensor in shared memory")
    base, align = trace.storage["base_bytes"], parse(trace.storage["buffer"]).align_bytes
    if isinstance(tensor.layout, ComposedLayout):
        units: dict[str, Any] = {"swizzle_unit": "elements", "swizzles": "offsets"}
        return smem(tensor.layout, over=tile, base_bytes=base, align_bytes=align, **units)
    swizzle = getattr(tensor.iterator, "swizzle", None)
    layout = tensor.layout if swizzle is None else ComposedLayout(swizzle, 0, tensor.layout)
    return smem(layout, over=tile, base_bytes=base, align_bytes=align)


def _copy_threads(trace: SPTrace, tile: Tile) -> Layout:
    """T -> the flat coordinate where a thread's part of the tiled copy begins."""
    threads = _layout(trace.writer["tv"])[0]
    if _size(threads) == 1:
        return Layout(tile.extents["m"], 0)
    tilers = [_layout(text) for text in trace.writer["tiler"]]
    if len(tilers) == 3:  # the accumulator's profile, whose first mode is m + 128 k
        return composition(tilers[0], threads)
    if [tiler.stride for tiler in tilers] != [1, 1] or tilers[0].shape != tile.extents["m"]:
        raise LayoutError(f"the tiled copy's tiler {trace.writer['tiler']} is not the whole rows of {tile}")
    return threads


def _owner_threads(trace: SPTrace) -> Layout:
    """T -> m, of the TMEM load."""
    return composition(_layout(trace.owner["tiler"][0]), _layout(trace.owner["tv"])[0])


def _thread_value(threads: Layout, printed: dict[str, str], tile: Tile, what: str) -> Layout:
    """(T,V) -> flat coordinate: `threads` says where thread t begins, the printed partitions how its values go on.

    The partitions name where some threads begin; one that contradicts `threads` is refused.
    """
    rows = tile.extents["m"]
    for row, text in printed.items():
        m, k = _leaves(parse(text).offset)[:2]
        if threads(int(row)) != m + rows * k:
            raise LayoutError(f"{what}: thread {row} begins at {m, k} as printed, at {threads(int(row))} by its layout")
    return _joined(threads, _flattened(parse(printed["0"]).outer, rows))


def _flattened(values: Layout, rows: int) -> Layout:
    """A layout of coordinate steps (1@0 in m, 1@1 in k) as one of flat steps m + rows k."""
    weights = {0: 1, 1: rows}
    steps = list[tuple[int, Any]]()
    for extent, step in values.leaves():
        if isinstance(step, Basis) and step.path[0] in weights and len(step.path) == 1:
            steps.append((extent, step.value * weights[step.path[0]]))
        elif step == 0 or extent == 1:
            steps.append((extent, 0))
        else:
            raise LayoutError(f"{values} has the stride {step}, which is no step of m or k")
    return _of(steps)


def _strided(ks: list[int], weight: int) -> Layout:
    """A list of indices as a layout with strides times `weight`; refuses a list that is none."""
    steps, count = list[tuple[int, int]](), 1
    while count < len(ks):
        extent = next(e for e in range(2, len(ks) // count + 1) if len(ks) // count % e == 0)
        steps.append((extent, ks[count] - ks[0]))
        count *= extent
    made = _of(steps)
    if ks[0] or [made(i) for i in range(len(ks))] != ks:
        raise LayoutError("the stored coordinates are those of no layout")
    return _of([(extent, step * weight) for extent, step in steps])


def _store_bits(trace: SPTrace) -> int:
    """The width of the store: what the PTX emits where the trace has it, else one element."""
    emitted = trace.writer.get("emitted", {})
    unknown = [name for name in emitted if name not in STORE_BITS]
    if unknown:
        raise LayoutError(f"the PTX stores by st.shared.{unknown[0]}, which is no width that this knows")
    return min((STORE_BITS[name] for name in emitted), default=trace.storage["element_bits"])


def _of(steps: list[tuple[int, Any]]) -> Layout:
    return Layout(tuple(extent for extent, _ in steps), tuple(step for _, step in steps))


def _joined(threads: Layout, values: Layout) -> Layout:
    return Layout((threads.shape, values.shape), (threads.stride, values.stride))


def _layout(text: str) -> Layout:
    found = parse(text)
    if not isinstance(found, Layout):
        raise LayoutError(f"{text} is no plain layout")
    return found


def _outer(layout: Layout | ComposedLayout) -> Layout:
    return layout.outer if isinstance(layout, ComposedLayout) else layout


def _sizes(layout: Layout) -> list[int]:
    return [int(extent) for extent, _ in layout.leaves()]


def _size(layout: Layout) -> int:
    return prod(_sizes(layout))


def _leaves(tree: Any) -> list[int]:
    return [leaf for branch in tree for leaf in _leaves(branch)] if isinstance(tree, (list, tuple)) else [tree]


def _flat_index(coordinate: list[int], sizes: list[int]) -> int:
    """The colexicographic index of a coordinate."""
    index, weight = 0, 1
    for part, size in zip(coordinate, sizes, strict=True):
        index, weight = index + weight * part, weight * size
    return index
