"""Readers: the descriptor fields, boxes or rows by which a reader finds what a writer has written.

>>> from layoutlab.catalogue import sV
>>> from layoutlab.derive.core import derive
>>> found = derive(sV(read_major="K"), side="reader")
>>> facts = found.pieces[0].facts
>>> facts["major"], facts["descriptor"]["lbo"], facts["words"]["sm_100"][0]
('MN', 16384, '0x4000404004000000')
"""

from __future__ import annotations

from collections.abc import Callable

from layoutlab.atoms.descriptors import Arch, Major, SmemDescriptor, SwizzleMode
from layoutlab.atoms.operand import k_per_instruction
from layoutlab.derive.boxes import boxes_over, refuse_gaps
from layoutlab.derive.code import function, identifier, layout_code, tuple_code
from layoutlab.derive.core import Forms, Unsupported
from layoutlab.derive.pieces import (
    COLUMN_0,
    CPASYNC,
    LDMATRIX,
    Piece,
    arguments,
    buffer_lines,
    check_copy,
    plain_layout,
    swizzle_code,
)
from layoutlab.derive.threads import needed
from layoutlab.errors import LayoutError
from layoutlab.handoff.boxes import tma_store
from layoutlab.handoff.buffer import storage_of
from layoutlab.handoff.core import Handoff
from layoutlab.handoff.fields import fields_of
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.matrices import ldmatrix
from layoutlab.handoff.places import Places
from layoutlab.handoff.reader import Reader, umma_a, umma_a_tmem, umma_b, umma_d, wgmma_a
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.strided import hardware, in_elements, modes_layout, strided_form
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout

MODES: tuple[SwizzleMode, ...] = (128, 64, 32, 0, "128_32b")
ARCHES: tuple[Arch, ...] = ("sm_90", "sm_100")


def reader_forms(h: Handoff) -> Forms:
    """How the reader of this kind is made from what is written; raises Unsupported for kinds that have no fields."""
    if h.reader.space != h.writer.space:
        raise Unsupported(f"the writer writes {h.writer.space}, the reader reads {h.reader.space}")
    if h.reader.make in (umma_a, umma_b, wgmma_a):
        return _descriptors(h)
    if h.reader.make is tma_store:
        return {"tma_store": lambda: _boxes(h)}
    if h.reader.make is ldmatrix:
        return {
            "ldmatrix": lambda: _rows(h, bool(h.reader.given["trans"])),
            "ldmatrix, turned": lambda: _rows(h, not h.reader.given["trans"]),
        }
    if h.reader.space == "tmem":
        return {"column": lambda: _column(h)}
    raise Unsupported(f"{h.reader.text}: {h.reader.source}, a reader without fields that could be derived")


def written(h: Handoff) -> Places:
    """Coordinates -> where their owner writes them."""
    return h.writer.write.after(inverse(h.writer.owner.places))


def with_reader(h: Handoff, reader: Reader) -> Handoff:
    """The handoff to another reader."""
    return Handoff(h.tile, writer=h.writer, reader=reader, live=h.live, around=h.around)


# -- descriptors ------------------------------------------------------------------------------------------------------


def _descriptors(h: Handoff) -> Forms:
    """A form for each swizzle and major that the tile can be read by."""
    places = written(h)
    form = strided_form(places)
    majors: list[Major] = ["K"] if h.reader.make is wgmma_a and h.tile.bits != 16 else ["K", "MN"]
    likely = sorted(MODES, key=lambda mode: hardware(mode) != form.swizzle)
    base_offset = form.shift // 1024 % 8

    def made(mode: SwizzleMode, major: Major) -> Callable[[], Piece]:
        return lambda: _descriptor(h, places, mode, major, base_offset)

    return {f"{major}-major, {_named(mode)}": made(mode, major) for mode in likely for major in majors}


def _named(mode: SwizzleMode) -> str:
    return f"swizzle {mode}" if mode else "no swizzle"


def _descriptor(h: Handoff, places: Places, mode: SwizzleMode, major: Major, base_offset: int) -> Piece:
    reader, unread = descriptor_reader(h, places, mode, major, base_offset)
    return _descriptor_piece(with_reader(h, reader), places, unread)


def descriptor_reader(
    h: Handoff, places: Places, mode: SwizzleMode, major: Major, base_offset: int
) -> tuple[Reader, list[str]]:
    """The reader by the only descriptor that can be right for elements at these places, and the fields it has unread.

    It may well be wrong for elements that were not probed: a proof has to tell.
    """
    swizzle, moved = hardware(mode), base_offset * 128
    row, k = h.tile.extents

    def linear(r: int, j: int) -> int:
        bit = int(places.at(**{row: r, k: j})["bit"]) - moved * 8
        return (swizzle(bit) if swizzle else bit) // 8 + moved

    first, lbo, sbo, starts = fields_of(linear, h.tile, mode, major)
    desc = SmemDescriptor(first, lbo or 0, sbo or 0, mode, base_offset if mode else 0)
    further = tuple(start - first for start in starts)
    assert h.reader.make is not None
    unread = [name for name, value in (("lbo", lbo), ("sbo", sbo)) if value is None]
    return h.reader.make(desc, h.tile, starts_bytes=further, major=major), unread


def _descriptor_piece(h: Handoff, places: Places, unread: list[str]) -> Piece:
    given = h.reader.given
    desc, starts, major = given["desc"], given["starts_bytes"], given["major"]
    name = identifier(h.tile.name)
    words: dict[str, list[str]] = {}
    for arch in ARCHES if desc.swizzle != "128_32b" else ARCHES[1:]:
        words[arch] = [f"{desc.stepped(step).encode(arch):#018x}" for step in starts]
    doc = [
        f"{major}-major: start {desc.start}, lbo {desc.lbo}, sbo {desc.sbo} (fields {desc.lbo >> 4}, {desc.sbo >> 4}), "
        f"swizzle {desc.swizzle} B, base offset {desc.base_offset}"
        + (f"; {' and '.join(unread)} not read" if unread else ""),
        f"K steps start {', '.join(map(str, starts))} bytes further on",
        *(f"{arch}: {', '.join(shown)}" for arch, shown in words.items()),
    ]
    fragment = f"make_fragment_{'B' if h.reader.make is umma_b else 'A'}"
    if desc.base_offset:
        said = [*doc, f"{fragment} writes no base offset: these words have to be set by hand."]
        code = "\n".join(f"# {line}" for line in said) + "\n"
    else:
        said = [*doc, f"The tensor of which {fragment} makes these descriptors."]
        code = function(f"s{name}_operand", "start: cute.Pointer, element_type", said, _operand(h, places))
    facts = {
        "descriptor": {f: getattr(desc, f) for f in ("start", "lbo", "sbo", "swizzle", "base_offset")},
        "fields": {"start": desc.start >> 4, "lbo": desc.lbo >> 4, "sbo": desc.sbo >> 4},
        "major": major,
        "starts_bytes": list(starts),
        "words": words,
    }
    return Piece("descriptor", tuple(doc), code, h, facts)


def _operand(h: Handoff, places: Places) -> list[str]:
    """((rows,k0),1,k1): the operand as an MMA partitions it, its swizzle on the pointer."""
    form, bits = strided_form(places), h.tile.bits
    row, k = h.tile.extents
    rows, ks = (in_elements(form.steps(axis), bits, axis) for axis in (row, k))
    inside, rest, left = list[tuple[int, int]](), list[tuple[int, int]](), k_per_instruction(bits)
    for extent, stride in ks:
        take = min(extent, left)
        if extent % take:
            raise LayoutError(f"an instruction's {k_per_instruction(bits)} of K end inside of a run of {extent}")
        inside += [(take, stride)] if take > 1 else []
        rest += [(extent // take, stride * take)] if extent > take else []
        left //= take
    (r,), (k0,), (k1,) = (list(modes_layout(part)) for part in (rows, inside, rest))
    layout = layout_code(Layout(((r.shape, k0.shape), 1, k1.shape), ((r.stride, k0.stride), 0, k1.stride)))
    storage = storage_of(with_reader(h, _as_reader(h, places)).reader)
    swizzle = storage.layout.inner if isinstance(storage.layout, ComposedLayout) else None
    return [f"return cute.make_tensor(cute.recast_ptr(start, {swizzle_code(swizzle)}, element_type), {layout})"]


def _as_reader(h: Handoff, places: Places) -> Reader:
    """What is written, as if it were read there."""
    return Reader(h.tile, places, "the reader", "", "", "", "smem")


def buffer_of(h: Handoff) -> Smem:
    """The buffer that is written, from the places alone."""
    return storage_of(_as_reader(h, written(h)))


# -- boxes, rows, columns ---------------------------------------------------------------------------------------------


def _boxes(h: Handoff) -> Piece:
    storage, name = buffer_of(h), identifier(h.tile.name)
    found = boxes_over(storage, next(iter(h.reader.given["box"])))
    refuse_gaps(found, h.tile)
    tensor = h.reader.given.get("tensor")
    reader = tma_store(storage, box=found.box, swizzle=found.swizzle, starts_bytes=found.starts_bytes, tensor=tensor)
    data = plain_layout(storage)
    swizzle = storage.layout.inner if isinstance(storage.layout, ComposedLayout) else None
    sizes = " x ".join(f"{axis} {extent}" for axis, extent in found.box.items())
    doc = (
        f"TMA store: {len(found.starts_bytes)} boxes of {sizes}, swizzle {found.swizzle} B, from bytes "
        f"{', '.join(map(str, found.starts_bytes))}.",
    )
    make = function(
        f"make_store_of_{name}",
        f"m{name}: cute.Tensor",
        doc,
        [
            f"s{name}_layout = cute.make_composed_layout({swizzle_code(swizzle)}, 0, {layout_code(data)})",
            "op = cpasync.CopyBulkTensorTileS2GOp()",
            f"return cpasync.make_tiled_tma_atom(op, m{name}, s{name}_layout, {tuple_code(h.tile.shape)})",
        ],
    )
    send = function(
        f"send_{name}",
        f"store: cute.CopyAtom, tma_m{name}: cute.Tensor, start: cute.Pointer, element_type: cutlass.Constexpr",
        ("By one warp, behind a fence of the async proxy and a barrier; its bulk group ends before the next use.",),
        [
            f"s{name}_layout = {layout_code(data)}",
            f"pointer = cute.recast_ptr(start, {swizzle_code(swizzle)}, element_type)",
            f"s{name} = cute.make_tensor(pointer, s{name}_layout)",
            f"g{name} = cute.zipped_divide(tma_m{name}, {tuple_code(h.tile.shape)})[None, 0]",
            f"part = cute.group_modes(s{name}, 0, {len(h.tile.extents)})",
            f"t{name}s{name}, t{name}g{name} = cpasync.tma_partition(store, 0, cute.make_layout(1), part, g{name})",
            f"cute.copy(store, t{name}s{name}, t{name}g{name})",
            "cute.arch.cp_async_bulk_commit_group()",
        ],
    )
    facts = {"box": dict(found.box), "swizzle": found.swizzle, "starts_bytes": list(found.starts_bytes)}
    return Piece("tma_store", doc, f"{make}\n\n{send}", with_reader(h, reader), facts, (CPASYNC,))


def _rows(h: Handoff, trans: bool) -> Piece:
    storage, name = buffer_of(h), identifier(h.tile.name)
    reader = h.reader.again(storage=storage, trans=trans)
    turned = ".trans" if trans else ""
    count, new = h.reader.given["count"], with_reader(h, reader)
    need = needed(reader.given["fragment"], reader)
    data, offsets = plain_layout(storage), need.offsets()
    check_copy(need, offsets, data, f"ldmatrix.x{count}{turned}", 0)
    doc = (
        f"ldmatrix.x{count}{turned}: lanes point at rows {reader.given['rows']} of s{name} = {storage.layout};",
        f"a thread's registers are the fragment {need.owner}.",
    )
    body = [
        *buffer_lines(storage, f"r{name}"),
        f"atom_layout_tv = {layout_code(offsets)}",
        f"atom = cute.make_copy_atom(LdMatrix8x8x16bOp({trans}, {count}), r{name}.element_type)",
        f"tiled_load = cute.make_cotiled_copy(atom, atom_layout_tv, s{name}_layout)",
        f"tRS_s{name} = tiled_load.get_slice(tidx).partition_S(s{name})",
        f"tRS_r{name} = cute.make_tensor(r{name}.iterator, cute.make_layout(tRS_s{name}.shape))",
        f"cute.copy(tiled_load, tRS_s{name}, tRS_r{name})",
    ]
    code = function(f"load_{name}_by_ldmatrix", arguments(name), doc, body)
    facts = {"trans": trans, "count": count, "layout": str(storage.layout), "rows": str(reader.given["rows"])}
    return Piece("ldmatrix", doc, code, new, facts, (LDMATRIX,))


def _column(h: Handoff) -> Piece:
    """The first column of the operand or accumulator in Tensor Memory."""
    name, column = identifier(h.tile.name), h.writer.write.table.bounds("bit")[0] // 32
    if "operand A" in h.reader.source:
        reader, what = umma_a_tmem(h.tile, column=column), "operand A"
    elif "accumulator D" in h.reader.source:
        reader, what = umma_d(h.tile, column=column, who=h.reader.who), "accumulator D"
    else:
        raise LayoutError(f"{h.reader.text}: a load takes its registers from where its own instruction has them")
    units = column * 32 // h.tile.bits
    doc = (
        f"{what} from column {column} on: {units} elements of {h.tile.bits} bits from column 0.",
        f"{COLUMN_0} fragment is the MMA's, anywhere.",
    )
    pointer = f"cute.recast_ptr(tmem + {column}, dtype=fragment.element_type)"
    body = [f"return cute.make_tensor({pointer}, fragment.layout)"]
    code = function(f"t{name}_of", "tmem: cute.Pointer, fragment: cute.Tensor", doc, body)
    return Piece("column", doc, code, with_reader(h, reader), {"column": column, "elements": units})
