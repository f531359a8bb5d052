"""Cures: the least change of one side that makes a refuted handoff right, each verified before it is offered.

>>> from layoutlab.catalogue import sV
>>> from layoutlab.handoff import verify
>>> print(*verify(sV(read_major="K")).explanation[1:])
what would be right: the writer is MN-major and is read K-major: set the MMA's major to MN

Candidates come from the maps: the descriptor fields that the writer's own places ask for, in either major and by every
swizzle; lanes that point elsewhere; the reader's swizzle for the writer; the store that is a load's pair. What proves
with the fewest changes is said, and nothing where none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from layoutlab.algebra import composition
from layoutlab.atoms.descriptors import Major, SmemDescriptor, SwizzleMode, pattern_of
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.handoff.boxes import tma_load, tma_store
from layoutlab.handoff.claims import Question, decide
from layoutlab.handoff.fields import fields_of
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.matrices import ldmatrix, stmatrix
from layoutlab.handoff.reader import Reader, listed
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.tensor_memory import tcgen05_ld, tmem_store
from layoutlab.handoff.verdict import Claim
from layoutlab.handoff.writer import Writer, owned, store
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import Swizzle

SWIZZLES: tuple[SwizzleMode, ...] = (0, 32, 64, 128)
T = TypeVar("T")
Changes = tuple[str, ...]

SHOWN = 3
"""Cures of equally few changes that are said."""


@dataclass(frozen=True)
class Candidate:
    """What would be changed, in words, one for each change; and the side that it makes."""

    changes: Changes
    writer: Writer | None = None
    reader: Reader | None = None
    twins: tuple[Candidate, ...] = ()
    """Others that the same words promise, which have to prove too."""

    def applied(self, q: Question) -> Question:
        """The handoff with the change."""
        return replace(q, writer=self.writer or q.writer, reader=self.reader or q.reader)


def cures(q: Question, claims: Sequence[Claim]) -> list[str]:
    """The cures with the fewest claims left refuted and the fewest changes, as one sentence; nothing where none is."""
    proving = list[tuple[tuple[int, int], str]]()
    for candidate in _candidates(q):
        left = [_left_by(each.applied(q), claims) for each in (candidate, *candidate.twins)]
        if None not in left:
            proving.append(((max(n for n in left if n is not None), len(candidate.changes)), _spoken(candidate)))
    if not proving:
        return []
    least = min(rank for rank, _ in proving)
    said = list(dict.fromkeys(text for rank, text in proving if rank == least))
    return [f"{'what would be right' if len(said) == 1 else 'any of these cures it'}: {'; '.join(said[:SHOWN])}"]


def _spoken(candidate: Candidate) -> str:
    return " and ".join(candidate.changes)


def _left_by(changed: Question, before: Sequence[Claim]) -> int | None:
    """How many claims a change leaves refuted; None where it is no cure, which a few elements may tell."""
    return _left(decide(changed), before) if _samples_agree(changed) else None


def _left(after: Sequence[Claim], before: Sequence[Claim]) -> int | None:
    """How many claims stay refuted, for reasons that were there before; None where the change is no cure."""
    known = {claim.name: claim for claim in before}
    open_claims = [claim for claim in after if claim.verdict != "proved"]
    for claim in open_claims:
        old = known[claim.name]
        same = claim.witness and old.witness and claim.witness.message == old.witness.message
        if claim.name in ("placed", "covered") or not same:
            return None
    return len(open_claims)


def _samples_agree(q: Question) -> bool:
    """Whether a few elements are written where they are read: each bit of thread and value by itself, and the last."""
    if q.owner.axes != q.write.axes:
        return False
    zero, last = dict.fromkeys(q.owner.axes, 0), {axis: extent - 1 for axis, extent in q.owner.axes.items()}
    single = [{**zero, axis: 1 << i} for axis, extent in q.owner.axes.items() for i in range((extent - 1).bit_length())]
    for index in (zero, *single, last):
        if not q.inside_tile(**index):
            continue
        here, there = q.write.at(**index), q.reader.read.at(**q.coordinate(index))
        if any(int(here[out]) != int(there[out]) for out in q.write.outputs):
            return False
    return True


def _candidates(q: Question) -> Iterator[Candidate]:
    for found in (_bases, _stores, _base_offsets, _descriptors, _matrices, _tma, _paired_stores, _paired_loads):
        yield from found(q)


def _made(make: Callable[..., T], *arguments: Any, **options: Any) -> T | None:
    """What can be made; None where it is refused."""
    try:
        return make(*arguments, **options)
    except LayoutError:
        return None


# -- bases ------------------------------------------------------------------------------------------------------------


def _bases(q: Question) -> Iterator[Candidate]:
    """A base that is a multiple of the writer's pattern, the next lower one and the next higher."""
    storage = q.writer.storage
    if not isinstance(storage, Smem) or "storage" not in q.writer.given or "desc" not in q.reader.given:
        return
    base, repeat = storage.base_bytes, storage.repeat_bytes
    if base % repeat == 0:
        return
    low, high = base // repeat * repeat, (base // repeat + 1) * repeat
    text = f"a base aligned to {repeat} bytes ({low} or {high})"
    first, second = (_made(_rebased, q, storage, to, text) for to in (low, high))
    if first and second:
        yield replace(first, twins=(second,))


def _rebased(q: Question, storage: Smem, base: int, text: str) -> Candidate:
    """Writer and reader with the buffer somewhere else."""
    desc = q.reader.given["desc"]
    moved = replace(desc, start=desc.start + base - storage.base_bytes)
    writer = q.writer.again(storage=replace(storage, base_bytes=base))
    return Candidate((text,), writer=writer, reader=q.reader.again(desc=moved))


def _base_offsets(q: Question) -> Iterator[Candidate]:
    """Another base offset of the reader's descriptor."""
    if "desc" not in q.reader.given:
        return
    desc = q.reader.given["desc"]
    for offset in range(8):
        if offset != desc.base_offset and (other := _made(q.reader.again, desc=replace(desc, base_offset=offset))):
            seen = " (seen on SM90 silicon, not yet on SM100)" if offset else ""
            named = f"(base >> 7) & 7 = {offset}" if desc.start >> 7 & 7 == offset else str(offset)
            yield Candidate((f"a descriptor base offset of {named}, not {desc.base_offset}{seen}",), reader=other)


# -- descriptors ------------------------------------------------------------------------------------------------------


def _descriptors(q: Question) -> Iterator[Candidate]:
    """The descriptor that the writer's places ask for, in either major and by every swizzle."""
    if "desc" not in q.reader.given:
        return
    written = _made(_written_bits, q)
    if written is None:
        return
    desc = q.reader.given["desc"]
    majors: tuple[Major, ...] = ("K", "MN") if q.reader.given["major"] == "K" else ("MN", "K")
    for swizzle in dict.fromkeys((desc.swizzle, *SWIZZLES)):
        for way in majors:
            candidate = _made(_derived, q, written, swizzle, way)
            if candidate:
                yield candidate


def _written_bits(q: Question) -> Callable[[int, int], int]:
    """(row, k) -> the bit that its owner writes it to."""
    where, (row, k) = inverse(q.owner), q.tile.extents
    return lambda r, j: int(q.write.at(**where.at(**{row: r, k: j}))["bit"])


def _derived(q: Question, written: Callable[[int, int], int], mode: SwizzleMode, major: Major) -> Candidate | None:
    given = q.reader.given
    old: SmemDescriptor = given["desc"]
    pattern, moved = pattern_of(mode), old.base_offset * 1024
    swizzle = Swizzle(pattern.bits, pattern.low + 3, 7 - pattern.low, unit_bits=1)

    def linear(row: int, k: int) -> int:  # an xor by bits that it leaves alone undoes itself
        return (swizzle(written(row, k) - moved * 8) if pattern.bits else written(row, k) - moved * 8) // 8 + moved

    _, lbo, sbo, absolute = fields_of(linear, q.tile, mode, major)
    swapped = (lbo is None or lbo == old.sbo) and (sbo is None or sbo == old.lbo) and old.lbo != old.sbo
    fields = (old.sbo, old.lbo) if swapped else (old.lbo if lbo is None else lbo, old.sbo if sbo is None else sbo)
    starts = [start - old.start for start in absolute]
    start, starts, moves = _starts(old.start, list(given["starts_bytes"]), starts)
    new = replace(old, start=start, lbo=fields[0], sbo=fields[1], swizzle=mode)
    changes = [*_majors(given["major"], major), *_fields(old, new), *moves]
    reader = q.reader.again(desc=new, major=major, starts_bytes=tuple(starts))
    return Candidate(tuple(changes), reader=reader) if changes else None


def _starts(start: int, old: list[int], new: list[int]) -> tuple[int, list[int], list[str]]:
    """The descriptor's start, how much further each K step starts, and in words what of it is new."""
    if new == old:
        return start, old, []
    by = {n - o for n, o in zip(new, old, strict=True)}
    if len(by) == 1:
        (off,) = by
        return start + off, old, [f"a descriptor that starts at byte {start + off}, not {start}"]
    return start, new, [f"K steps that start {listed(new)} bytes on, not {listed(old)}"]


def _majors(old: Major, new: Major) -> list[str]:
    if old == new:
        return []
    return [f"the writer is {new}-major and is read {old}-major: set the MMA's major to {new}"]


def _fields(old: SmemDescriptor, new: SmemDescriptor) -> list[str]:
    """What of swizzle, lbo and sbo is new."""
    found = [f"a descriptor of swizzle {new.swizzle} B, not {old.swizzle}"] if new.swizzle != old.swizzle else []
    if (new.lbo, new.sbo) == (old.sbo, old.lbo) != (old.lbo, old.sbo):
        return [*found, f"lbo and sbo are exchanged: lbo={new.lbo}, sbo={new.sbo}"]
    for name in ("lbo", "sbo"):
        was, is_ = getattr(old, name), getattr(new, name)
        if was != is_:
            units = {was * 16: "bytes >> 4 were given", was / 16: "bytes << 4 were given"}.get(is_)
            found.append(f"{name}={is_}, not {was}" + (f": it counts bytes, and {units}" if was and units else ""))
    return found


# -- ldmatrix ---------------------------------------------------------------------------------------------------------


def _matrices(q: Question) -> Iterator[Candidate]:
    """The other turn; two matrices exchanged; lanes that point where the writer's swizzle has their rows."""
    reader, storage = q.reader, q.writer.storage
    if reader.make is not ldmatrix:
        return
    trans, rows = reader.given["trans"], reader.given["rows"]
    if other := _made(reader.again, trans=not trans):
        text = f"ldmatrix {'without' if trans else 'with'} .trans: rows are{' not' if trans else ''} turned on the way"
        yield Candidate((text,), reader=other)
    exchanged = _made(_middle_exchanged, rows.layout) if reader.given["count"] == 4 else None
    if exchanged and (other := _made(reader.again, rows=owned(exchanged, q.tile))):
        text = "matrices 1 and 2 are exchanged: lanes 8 to 15 should point where 16 to 23 do, and these where those do"
        yield Candidate((text,), reader=other)
    pointed = storage if isinstance(storage, Smem) and storage is not reader.given["storage"] else None
    if pointed and (other := _made(reader.again, storage=pointed)):
        yield Candidate((f"lanes that point where the writer has the rows: {pointed}",), reader=other)


def _middle_exchanged(rows: Layout) -> Layout:
    """The rows with the lanes of each warp's second and third matrix in each other's place."""
    threads = rows[0].size()
    warps = threads // 32 if isinstance(threads, int) else 1
    order = Layout((8, 2, 2, warps), (1, 16, 8, 32)) if warps > 1 else Layout((8, 2, 2), (1, 16, 8))
    return make_layout(composition(rows[0], order), rows[1])


# -- stores of threads to shared memory -------------------------------------------------------------------------------


def _stores(q: Question) -> Iterator[Candidate]:
    """Values that go to their owner's coordinates; the reader's swizzle; both."""
    writer = q.writer
    if writer.make not in (store, stmatrix) or not isinstance(writer.storage, Smem):
        return
    for way, options in _ways(writer):
        for swizzled, storage in _swizzled_as_read(q, writer.storage):
            other = _made(writer.again, storage=storage, **options)
            if other and (way or swizzled):
                yield Candidate((*way, *swizzled), writer=other)


def _ways(writer: Writer) -> Iterator[tuple[Changes, dict[str, Any]]]:
    """How else the store may find its places."""
    yield (), {}
    through, offsets = writer.given.get("through"), writer.given.get("offsets")
    if through is not None:
        text = "the store's layout gives element offsets, not coordinates of the tile: make_cotiled_copy takes those"
        yield (text,), {"through": None, "offsets": through}
    if through is not None or offsets is not None:
        loaded = writer.owner.load is not None
        maker = "make_tiled_copy_D makes it from the load" if loaded else "a copy made for its holder has it"
        yield (f"a store by the owner's own layout, as {maker}",), {"through": None, "offsets": None}


def _swizzled_as_read(q: Question, storage: Smem) -> list[tuple[Changes, Smem]]:
    found: list[tuple[Changes, Smem]] = [((), storage)]
    read = q.reader.read
    if read.plus or (read.swizzle, "addresses") == (storage.swizzle, storage.swizzles):
        return found
    text = "a store without a swizzle"
    if read.swizzle == storage.swizzle:
        right = "are right at any 16-byte base" if "desc" in q.reader.given else "the reader swizzles"
        text = f"swizzling absolute addresses, which {right}"
    elif read.swizzle is not None:
        text = f"a store that swizzles byte addresses by {replace(read.swizzle.counted_in(8), unit_bits=None)}"
    return [*found, ((text,), replace(storage, swizzle=read.swizzle, swizzles="addresses"))]


# -- TMA --------------------------------------------------------------------------------------------------------------


def _tma(q: Question) -> Iterator[Candidate]:
    """On either side, another swizzle of the boxes; boxes as wide as the swizzle."""
    if q.writer.make is tma_load:
        for changes, options in _boxes(q, q.writer.given):
            if writer := _made(q.writer.again, **options):
                yield Candidate(changes, writer=writer)
    if q.reader.make is tma_store:
        for changes, options in _boxes(q, q.reader.given):
            if reader := _made(q.reader.again, **options):
                yield Candidate(changes, reader=reader)


def _boxes(q: Question, given: Mapping[str, Any]) -> Iterator[tuple[Changes, dict[str, Any]]]:
    """What would be changed, and the arguments."""
    (inner, extent), *rest = given["box"].items()
    for swizzle in dict.fromkeys((given["swizzle"], *SWIZZLES)):
        same = swizzle == given["swizzle"]
        mode: Changes = () if same else (f"TMA boxes of swizzle {swizzle} B, not {given['swizzle']}",)
        if mode:
            yield mode, {"swizzle": swizzle}
        atom = pattern_of(swizzle).width * 8 // q.tile.bits
        if swizzle and extent != atom:
            narrower = f"boxes of {atom} {inner}, one swizzle's width, not {extent}"
            box = {inner: atom, **dict(rest)}
            yield (*mode, narrower), {"swizzle": swizzle, "box": box, "starts_bytes": None}


# -- Tensor Memory ----------------------------------------------------------------------------------------------------

SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b")
REPEATS = (1, 2, 4, 8, 16, 32, 64, 128)


def _atoms(like: TmemAtom | None, shapes: Sequence[str] = SHAPES) -> Iterator[str]:
    """Every shape with every repetition, first those of the atom that it is to be like."""
    for shape in sorted(shapes, key=lambda s: like is None or s != like.shape):
        for repeat in sorted(REPEATS, key=lambda r: (like is None or r != like.repeat, -r)):
            yield f"{shape}.x{repeat}"


def _paired_stores(q: Question) -> Iterator[Candidate]:
    """The store that takes the registers as the load left them; the first that agrees is enough."""
    if q.writer.make is not tmem_store:
        return
    for name in _atoms(q.writer.given["owner"].load):
        other = _made(q.writer.again, atom=name)
        if other and _samples_agree(replace(q, writer=other)):
            yield Candidate((f"a store by tcgen05.st.{name}, which is the load's pair",), writer=other)
            return


def _paired_loads(q: Question) -> Iterator[Candidate]:
    """A load by 32x32b, whose threads hold a row each, where the store takes its registers."""
    if q.writer.make is not tmem_store or (owner := q.writer.given["owner"]).load is None:
        return
    for name in _atoms(q.writer.given["atom"], ("32x32b",)):
        held = _made(tcgen05_ld(name).over, q.tile, first_warp=owner.first_thread // 32)
        other = _made(q.writer.again, owner=held) if held else None
        if other and _samples_agree(replace(q, writer=other)):
            yield Candidate((f"a load by tcgen05.ld.{name}, which is the store's pair",), writer=other)
            return
