"""Pieces: what was derived, as code to paste into a kernel of CuTe DSL, with the remarks that it is printed under.

Each piece is one function, or two, of which everything but the arguments is written out; a form that another fits
better is still printed, since it is what a kernel may already have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layoutlab.algebra import composition
from layoutlab.derive.boxes import Box, refuse_gaps
from layoutlab.derive.code import function, identifier, layout_code, tuple_code
from layoutlab.derive.tensor_memory import TmemStore
from layoutlab.derive.threads import Matrices, Needed, Vector
from layoutlab.errors import LayoutError
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.strided import modes_layout
from layoutlab.handoff.writer import Owner
from layoutlab.layout import Layout, make_identity_layout
from layoutlab.swizzle import ComposedLayout

TYPES = {8: "f8E4M3FN", 16: "bf16", 32: "f32", 64: "f64"}
"""A type of each width, by which the model of tiled copies is asked."""
COLUMN_0 = "tmem points to column 0, as a pointer to 32-bit words;"
"""What the functions of Tensor Memory take."""
WALKED_THREADS = (0, 1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 96, 127, 128, 255)


@dataclass(frozen=True)
class Piece:
    """One form: its code, its remarks, the handoff that has it for its writer or reader, and its facts as JSON."""

    form: str
    doc: tuple[str, ...]
    code: str
    handoff: Handoff
    facts: Mapping[str, Any]
    imports: tuple[str, ...] = ()
    """What its code needs beside `code.HEAD`."""


CPASYNC, TCGEN05 = "from cutlass.cute.nvgpu import cpasync", "from cutlass.cute.nvgpu import tcgen05"
LDMATRIX = "from cutlass.cute.nvgpu.warp import LdMatrix8x8x16bOp"
STMATRIX = "from cutlass.cute.nvgpu.warp import StMatrix8x8x16bOp"


def copy_piece(need: Needed, vector: Vector, h: Handoff) -> Piece:
    """The tiled copy: an atom of the vector's width, over (T,V) -> offset."""
    name, data = identifier(need.owner.tile.name), plain_layout(need.storage)
    offsets = need.offsets(vector.order)
    check_copy(need, offsets, data, "universal", vector.bits)
    count = len(vector.counts) // max(1, need.owner.places.axes["t"] // 32)
    free = "no bank conflicts" if vector.free else f"{vector.least} would be the least"
    doc = [
        f"A tiled copy, make_cotiled_copy over the layout without its swizzle: {count} stores of {vector.bits} bits a",
        f"thread, {_each(vector.counts)} each for a warp ({free}), {vector.wavefronts} in all.",
        *_order_words(vector.order),
        *_argument_words(need.owner, need.storage),
    ]
    body = [
        *buffer_lines(need.storage, f"r{name}"),
        f"atom_layout_tv = {layout_code(offsets)}",
        f"atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), r{name}.element_type, "
        f"num_bits_per_copy={vector.bits})",
        *_copied(name, vector.order),
    ]
    facts = {
        "atom_layout_tv": str(offsets),
        "data_layout": str(data),
        "bits": vector.bits,
        "stores": count,
        "conflict_free": vector.free,
        "wavefronts": vector.wavefronts,
        "order": None if vector.order is None else str(vector.order),
    }
    code = function(f"store_{name}_by_copy", arguments(name), doc, body)
    return Piece("cotiled_copy", tuple(doc), code, h, facts)


def coordinate_piece(need: Needed, h: Handoff) -> Piece:
    """A loop over a thread's values, each assigned at its coordinate."""
    tile = need.owner.tile
    name, values = identifier(tile.name), need.owner.places.axes["v"]
    doc = [
        "By coordinates: each value is assigned at the coordinate of the tile that its thread holds.",
        f"owner goes (T,V) -> {_flat_words(need)}.",
        *_argument_words(need.owner, need.storage),
    ]
    body = [
        *buffer_lines(need.storage, f"r{name}"),
        f"owner = {layout_code(need.flat)}",
        *_assigned(need, name),
    ]
    facts = {"owner": str(need.flat), "layout": str(need.storage.layout), "bits": need.bits, "stores": values}
    code = function(f"store_{name}_by_coordinate", arguments(name), doc, body)
    return Piece("coordinate", tuple(doc), code, h, facts)


def _assigned(need: Needed, name: str) -> list[str]:
    """The loop, over coordinates where those of threads and values are a layout, else over the tile's flat ones."""
    shape, loop = need.owner.tile.shape, f"for v in cutlass.range_constexpr({need.owner.places.axes['v']}):"
    try:
        composition(make_identity_layout(shape), need.flat)
    except LayoutError:
        return [loop, f"    s{name}[owner((tidx, v))] = r{name}[v]  # a flat coordinate"]
    coordinates = f"cute.composition(cute.make_identity_tensor({tuple_code(shape)}), owner)"
    return [f"tCc{name} = {coordinates}", loop, f"    s{name}[tCc{name}[tidx, v]] = r{name}[v]"]


def stmatrix_piece(need: Needed, found: Matrices, h: Handoff) -> Piece:
    """The tiled copy of stmatrix."""
    name, data = identifier(need.owner.tile.name), plain_layout(need.storage)
    offsets = need.offsets(found.order)
    if need.bits != 16:
        raise LayoutError(f"CuTe DSL's stmatrix of 8 x 8 matrices takes 16-bit elements, not {need.bits}-bit ones")
    trans = ".trans" if found.trans else ""
    check_copy(need, offsets, data, f"stmatrix.x{found.count}{trans}", 0)
    doc = [
        f"{found.name} (SM90 and on): {len(found.counts)} of them in all warps, {_each(found.counts)} each, "
        f"{found.wavefronts} wavefronts in all.",
        *_order_words(found.order),
        *_argument_words(need.owner, need.storage),
    ]
    body = [
        *buffer_lines(need.storage, f"r{name}"),
        f"atom_layout_tv = {layout_code(offsets)}",
        f"atom = cute.make_copy_atom(StMatrix8x8x16bOp({found.trans}, {found.count}), r{name}.element_type)",
        *_copied(name, found.order),
    ]
    facts = {
        "atom_layout_tv": str(offsets),
        "data_layout": str(data),
        "instruction": found.name,
        "rows": str(found.writer.given["rows"]),
        "wavefronts": found.wavefronts,
        "order": None if found.order is None else str(found.order),
    }
    code = function(f"store_{name}_by_stmatrix", arguments(name), doc, body)
    return Piece("stmatrix", tuple(doc), code, h, facts, (STMATRIX,))


def tmem_piece(found: Sequence[TmemStore], h: Handoff) -> Piece:
    """The tcgen05.st, over the columns that the reader reads."""
    store, tile = found[0], h.tile
    name, atom, column = identifier(tile.name), found[0].atom, h.writer.storage.cells.start // 32
    rows, columns = tile.shape[0], len(h.writer.storage.cells) // 32
    others = ", ".join(f"{s.atom.shape}.x{s.atom.repeat}" for s in found[1:6])
    doc = [
        f"{atom}, {store.instructions} of them a warp, to columns {column} to {column + columns - 1}.",
        *([f"These do as well: {others}."] if others else []),
        *_order_words(store.order),
        *_argument_words(h.writer.owner),
    ]
    lanes = "(16, 4)" if rows == 64 else str(rows)
    step = "(65536, 2097152)" if rows == 64 else "65536"
    words = f"r{name}.iterator" if tile.bits == 32 else f"cute.recast_ptr(r{name}.iterator, dtype=cutlass.Float32)"
    registers = (
        [f"words = {words}"]
        if store.order is None
        else [
            f"values = cute.make_layout({h.writer.owner.places.axes['v']})",
            f"ordered = cute.make_rmem_tensor(values, r{name}.element_type)",
            f"held = cute.make_tensor(r{name}.iterator, {layout_code(store.order)})",
            "for v in cutlass.range_constexpr(cute.size(ordered)):",
            "    ordered[v] = held[v]",
            f"words = {words.replace(f'r{name}', 'ordered')}",
        ]
    )
    accumulator = f"(({lanes}, {columns}), 1, 1)"
    body = [
        f"t{name} = cute.make_tensor(tmem + {column}, "
        f"cute.make_layout({accumulator}, stride=(({step}, 1), 0, 0)))  # lanes and 32-bit columns",
        f"atom = cute.make_copy_atom(tcgen05.{_op(atom.shape)}(tcgen05.Repetition.x{atom.repeat}), cutlass.Float32)",
        f"thread_store = tcgen05.make_tmem_copy(atom, t{name}).get_slice(tidx)",
        f"tTMEM_STt{name} = thread_store.partition_D(t{name})",
        f"tTMEM_STc{name} = thread_store.partition_S(cute.make_identity_tensor({accumulator}))",
        *registers,
        f"tTMEM_STr{name} = cute.make_tensor(words, cute.make_layout(tTMEM_STc{name}.shape))",
        f"cute.copy(atom, tTMEM_STr{name}, tTMEM_STt{name})",
        "cute.arch.fence_view_async_tmem_store()",
    ]
    facts = {
        "instruction": str(atom),
        "instructions": store.instructions,
        "column": column,
        "order": None if store.order is None else str(store.order),
        "others": [str(s.atom) for s in found[1:]],
    }
    arguments = f"r{name}: cute.Tensor, tmem: cute.Pointer, tidx: cutlass.Int32"
    doc_ = [*doc, f"{COLUMN_0} rows are lanes of the threads' own warps."]
    code = function(f"store_{name}_to_tmem", arguments, doc_, body)
    return Piece("tmem_copy", tuple(doc), code, h, facts, (TCGEN05,))


def _op(shape: str) -> str:
    return f"St{shape}Op"


def mma_piece(h: Handoff) -> Piece:
    """The tensor core's accumulator: its first column is all that there is to choose."""
    name, column = identifier(h.tile.name), h.writer.storage.cells.start // 32
    doc = (
        f"The MMA's accumulator D begins at column {column} of Tensor Memory, where the reader takes it from.",
        f"{COLUMN_0} accumulator is the MMA's fragment C.",
    )
    body = ["return cute.make_tensor(tmem + " + f"{column}, accumulator.layout)"]
    code = function(f"t{name}_of", "tmem: cute.Pointer, accumulator: cute.Tensor", doc, body)
    return Piece("mma", doc, code, h, {"column": column})


def tma_piece(storage: Smem, found: Box, h: Handoff) -> Piece:
    """The layout by which `make_tiled_tma_atom` makes these boxes, and the copy that fills the buffer."""
    tile = h.tile
    refuse_gaps(found, tile)
    name, data = identifier(tile.name), plain_layout(storage)
    swizzle = storage.layout.inner if isinstance(storage.layout, ComposedLayout) else None
    composed = f"cute.make_composed_layout({swizzle_code(swizzle)}, 0, {layout_code(data)})"
    sizes = " x ".join(f"{axis} {extent}" for axis, extent in found.box.items())
    mode = f"swizzle of {found.swizzle} bytes" if found.swizzle else "no swizzle"
    starts = ", ".join(str(start - storage.base_bytes) for start in found.starts_bytes[:6])
    more = ", ..." if len(found.starts_bytes) > 6 else ""
    doc = (
        f"TMA: boxes of {sizes} ({mode}), which start at byte {starts}{more} of s{name}.",
        f"m{name} is the tensor in global memory with the modes ({','.join(tile.extents)}), "
        f"{next(iter(found.box))} contiguous.",
    )
    make = function(
        f"make_load_of_{name}",
        f"m{name}: cute.Tensor",
        doc,
        [
            f"s{name}_layout = {composed}",
            "op = cpasync.CopyBulkTensorTileG2SOp()",
            f"return cpasync.make_tiled_tma_atom(op, m{name}, s{name}_layout, {tuple_code(tile.shape)})",
        ],
    )
    pointer = f"cute.recast_ptr(start, {swizzle_code(swizzle)}, element_type)"
    fetch = function(
        f"load_{name}",
        f"load: cute.CopyAtom, tma_m{name}: cute.Tensor, start: cute.Pointer, full: cute.Pointer, "
        "element_type: cutlass.Constexpr",
        ("By one warp; `full` is an mbarrier of one arrival.",),
        [
            f"s{name}_layout = {layout_code(data)}",
            f"s{name} = cute.make_tensor({pointer}, s{name}_layout)",
            f"g{name} = cute.zipped_divide(tma_m{name}, {tuple_code(tile.shape)})[None, 0]",
            f"part = cute.group_modes(s{name}, 0, {len(tile.extents)})",
            f"t{name}s{name}, t{name}g{name} = cpasync.tma_partition(load, 0, cute.make_layout(1), part, g{name})",
            "with cute.arch.elect_one():",
            f"    cute.arch.mbarrier_arrive_and_expect_tx(full, {tile.size * tile.bits // 8})",
            f"cute.copy(load, t{name}g{name}, t{name}s{name}, tma_bar_ptr=full)",
        ],
    )
    facts = {
        "box": dict(found.box),
        "swizzle": found.swizzle,
        "starts_bytes": list(found.starts_bytes),
        "layout": str(storage.layout),
    }
    return Piece("tma_load", doc, f"{make}\n\n{fetch}", h, facts, (CPASYNC,))


# -- small pieces of code ---------------------------------------------------------------------------------------------


def arguments(name: str) -> str:
    """What a store takes: the thread's registers, the first byte of the buffer, and the thread, from 0 on."""
    return f"r{name}: cute.Tensor, start: cute.Pointer, tidx: cutlass.Int32"


def plain_layout(storage: Smem) -> Layout:
    """The buffer's layout in elements, without the swizzle."""
    tile = storage.tile
    axes = [[(e, s) for e, s in storage.modes[axis] if e > 1] for axis in tile.extents]
    return modes_layout(*axes)


def swizzle_code(swizzle: Any, lower: int = 0) -> str:
    """The expression that makes a swizzle, of bytes; `lower` bits finer units."""
    if swizzle is None:
        return "cute.make_swizzle(0, 4, 3)"
    return f"cute.make_swizzle({swizzle.bits}, {swizzle.base - lower}, {swizzle.shift})"


def buffer_lines(storage: Smem, like: str) -> list[str]:
    """The tensor of the buffer, its swizzle on the pointer, or between pointer and layout where it is of offsets."""
    name = f"s{identifier(storage.tile.name)}"
    layout = f"{name}_layout"
    swizzle = storage.layout.inner if isinstance(storage.layout, ComposedLayout) else None
    first = f"{layout} = {layout_code(plain_layout(storage))}"
    plain = f"cute.recast_ptr(start, dtype={like}.element_type)"
    if swizzle is None:
        return [first, f"{name} = cute.make_tensor({plain}, {layout})"]
    if storage.swizzles == "offsets":
        lower = storage.tile.bits.bit_length() - 4  # the same bits, counted in elements
        composed = f"cute.make_composed_layout({swizzle_code(swizzle, lower)}, 0, {layout})"
        return [first, f"{name} = cute.make_tensor({plain}, {composed})"]
    pointer = f"cute.recast_ptr(start, {swizzle_code(swizzle)}, {like}.element_type)"
    return [first, f"{name} = cute.make_tensor({pointer}, {layout})"]


def _copied(name: str, order: Layout | None) -> list[str]:
    """The copy of registers, in their order, to the thread's part of the buffer."""
    lines = [
        f"tiled_store = cute.make_cotiled_copy(atom, atom_layout_tv, s{name}_layout)",
        f"tRS_s{name} = tiled_store.get_slice(tidx).partition_D(s{name})",
    ]
    if order is None:
        lines.append(f"tRS_r{name} = cute.make_tensor(r{name}.iterator, cute.make_layout(tRS_s{name}.shape))")
    else:
        lines += [
            f"tRS_r{name} = cute.make_rmem_tensor(cute.make_layout(tRS_s{name}.shape), r{name}.element_type)",
            f"held = cute.make_tensor(r{name}.iterator, {layout_code(order)})",
            "for v in cutlass.range_constexpr(cute.size(held)):",
            f"    tRS_r{name}[v] = held[v]",
        ]
    return [*lines, f"cute.copy(tiled_store, tRS_r{name}, tRS_s{name})"]


def _order_words(order: Layout | None) -> list[str]:
    if order is None:
        return []
    return [f"Values are taken in the order {order}, place -> value as held: registers change names, nothing moves."]


def _argument_words(owner: Owner, storage: Smem | None = None) -> list[str]:
    """What the caller passes for `start` and `tidx`, where that is not the buffer at 0 and the block's own number."""
    first, base = owner.first_thread, storage.base_bytes if storage else 0
    thread = [f"tidx is the thread's number in the block less {first}, the first that holds the tile."] if first else []
    return thread + ([f"start points to byte {base} of shared memory, a swizzle is of such addresses."] if base else [])


def _flat_words(need: Needed) -> str:
    parts, weight = list[str](), 1
    for axis, extent in need.owner.tile.extents.items():
        parts.append(axis if weight == 1 else f"{weight} {axis}")
        weight *= extent
    return " + ".join(parts)


def _each(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low} wavefront{'s' if low > 1 else ''}" if low == high else f"{low} to {high} wavefronts"


def check_copy(need: Needed, offsets: Layout, data: Layout, op: str, bits: int) -> None:
    """Refuses a tiled copy that the model of CuTe's partitions other than asked for."""
    import numpy as np

    from layoutlab.tv import make_copy_atom, make_cotiled_copy

    kind = TYPES.get(need.bits)
    if kind is None:
        raise LayoutError(f"CuTe DSL stores elements of 8, 16, 32 and 64 bits, not of {need.bits}")
    copy = make_cotiled_copy(make_copy_atom(op, kind, bits), offsets, data)
    threads, values = (need.owner.places.axes[axis] for axis in ("t", "v"))
    if op != "universal":
        return  # the lanes' addresses are the instruction's, which the claims are about
    for t in (t for t in WALKED_THREADS if t < threads):
        part = coalesce_values(copy.get_slice(t).partition_D(data))
        mine = np.asarray([part(v) for v in range(values)])
        if not np.array_equal(mine, np.asarray([offsets(t, v) for v in range(values)])):
            raise LayoutError(f"make_cotiled_copy gives T{t} other places than {offsets} over {data}")


def coalesce_values(part: ComposedLayout) -> Any:
    """A thread's part as a function of its value's number."""
    assert isinstance(part.offset, int)
    return lambda v: part.offset + part.outer(v)
