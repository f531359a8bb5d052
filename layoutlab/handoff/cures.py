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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from layoutlab.algebra import composition
from layoutlab.atoms.descriptors import Major, SmemDescriptor, SwizzleMode, pattern_of
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.errors import LayoutError
from layoutlab.handoff.boxes import tma_load, tma_store
from layoutlab.handoff.candidate import Candidate, Changes, attempt
from layoutlab.handoff.claims import Question, decide
from layoutlab.handoff.cure_parts import laid_out_as_read, remade
from layoutlab.handoff.cure_places import moved
from layoutlab.handoff.fields import fields_of
from layoutlab.handoff.inverse import inverse
from layoutlab.handoff.matrices import ldmatrix, stmatrix
from layoutlab.handoff.reader import listed
from layoutlab.handoff.storage import Smem
from layoutlab.handoff.tensor_memory import tcgen05_ld, tmem_store
from layoutlab.handoff.verdict import Claim
from layoutlab.handoff.writer import Writer, owned, store
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import Swizzle

SWIZZLES: tuple[SwizzleMode, ...] = (0, 32, 64, 128)

SHOWN = 3
"""Cures of equally few changes that are said."""


@dataclass(frozen=True)
class Cure:
    """A change that was verified: what it is, and the names of the claims that it leaves refuted as they were."""

    candidate: Candidate
    leaves: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Claims that are left, and changes."""
        return len(self.leaves), len(self.candidate.changes)

    def __str__(self) -> str:
        text = " and ".join(self.candidate.changes)
        return text + (f", which leaves {' and '.join(self.leaves)} refuted" if self.leaves else "")


def cures(q: Question, claims: Sequence[Claim]) -> list[str]:
    """The cures with the fewest claims left refuted and the fewest changes, as one sentence; nothing where none is."""
    said = list(dict.fromkeys(map(str, least_cures(q, claims))))
    if not said:
        return []
    return [f"{'what would be right' if len(said) == 1 else 'any of these cures it'}: {'; '.join(said[:SHOWN])}"]


def least_cures(q: Question, claims: Sequence[Claim]) -> list[Cure]:
    """Every cure of the least rank; where one leaves claims refuted that another change cures, the two together."""
    proving = _proving(q, claims, _candidates(q)) or _proving(q, claims, _until_refused(laid_out_as_read(q)))
    if not proving:
        return []
    least = min(cure.rank for cure in proving)
    best = _first_of_each_kind(cure for cure in proving if cure.rank == least)
    if not least[0]:
        return best
    return [both for cure in best if (both := _completed(q, cure))] or best


def _proving(q: Question, claims: Sequence[Claim], candidates: Iterable[Candidate]) -> list[Cure]:
    found = list[Cure]()
    for candidate in candidates:
        left = [_left_by(each.applied(q), claims) for each in (candidate, *candidate.twins)]
        if None not in left:
            found.append(Cure(candidate, max((names for names in left if names is not None), key=len)))
    return found


def _first_of_each_kind(found: Iterable[Cure]) -> list[Cure]:
    kept, kinds = list[Cure](), set[str]()
    for cure in found:
        if (kind := cure.candidate.kind) not in kinds:
            kept.append(cure)
        kinds |= {kind} - {""}
    return kept


def _completed(q: Question, cure: Cure) -> Cure | None:
    """The cure and one of what it leaves, where that proves all."""
    changed = cure.candidate.applied(q)
    claims = decide(changed)
    for more in _proving(changed, claims, _candidates(changed)):
        if not more.leaves and not more.candidate.twins and not cure.candidate.twins:
            done = more.candidate.applied(changed)
            return Cure(Candidate((*cure.candidate.changes, *more.candidate.changes), done.writer, done.reader), ())
    return None


def _left_by(changed: Question, before: Sequence[Claim]) -> tuple[str, ...] | None:
    """The claims that a change leaves refuted; None where it is no cure, which a few elements may tell."""
    return _left(decide(changed), before) if _samples_agree(changed) else None


def _left(after: Sequence[Claim], before: Sequence[Claim]) -> tuple[str, ...] | None:
    """The claims that stay refuted, for reasons that were there before; None where the change is no cure."""
    known = {claim.name: claim for claim in before}
    open_claims = [claim for claim in after if claim.verdict != "proved"]
    for claim in open_claims:
        old = known[claim.name]
        same = claim.witness and old.witness and claim.witness.message == old.witness.message
        if claim.name in ("placed", "covered") or not same:
            return None
    if len(open_claims) >= sum(claim.verdict != "proved" for claim in before):
        return None
    return tuple(claim.name for claim in open_claims)


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
    for found in (moved, remade, _stores, _base_offsets, _descriptors, _matrices, _tma, _paired_stores, _paired_loads):
        yield from _until_refused(found(q))


def _until_refused(found: Iterator[Candidate]) -> Iterator[Candidate]:
    """What comes before a part that cannot be made: a report is never lost to a cure that was not found."""
    with suppress(LayoutError):
        yield from found


# -- base offsets ------------------------------------------------------------------------------------------------------


def _base_offsets(q: Question) -> Iterator[Candidate]:
    """Another base offset of the reader's descriptor."""
    if "desc" not in q.reader.given:
        return
    desc = q.reader.given["desc"]
    for offset in range(8):
        if offset != desc.base_offset and (other := attempt(q.reader.again, desc=replace(desc, base_offset=offset))):
            seen = " (seen on SM90 silicon, not yet on SM100)" if offset else ""
            named = f"(base >> 7) & 7 = {offset}" if desc.start >> 7 & 7 == offset else str(offset)
            yield Candidate((f"a descriptor base offset of {named}, not {desc.base_offset}{seen}",), reader=other)


# -- descriptors ------------------------------------------------------------------------------------------------------


def _descriptors(q: Question) -> Iterator[Candidate]:
    """The descriptor that the writer's places ask for, in either major and by every swizzle."""
    if "desc" not in q.reader.given:
        return
    written = attempt(_written_bits, q)
    if written is None:
        return
    desc = q.reader.given["desc"]
    majors: tuple[Major, ...] = ("K", "MN") if q.reader.given["major"] == "K" else ("MN", "K")
    for swizzle in dict.fromkeys((desc.swizzle, *SWIZZLES)):
        for way in majors:
            candidate = attempt(_derived, q, written, swizzle, way)
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
    if other := attempt(reader.again, trans=not trans):
        text = f"ldmatrix {'without' if trans else 'with'} .trans: rows are{' not' if trans else ''} turned on the way"
        yield Candidate((text,), reader=other)
    exchanged = attempt(_middle_exchanged, rows.layout) if reader.given["count"] == 4 else None
    if exchanged and (other := attempt(reader.again, rows=owned(exchanged, q.tile))):
        text = "matrices 1 and 2 are exchanged: lanes 8 to 15 should point where 16 to 23 do, and these where those do"
        yield Candidate((text,), reader=other)
    pointed = storage if isinstance(storage, Smem) and storage is not reader.given["storage"] else None
    if pointed and (other := attempt(reader.again, storage=pointed)):
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
            other = attempt(writer.again, storage=storage, **options)
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
        text += _in_elements(read.swizzle, storage)
    return [*found, ((text,), replace(storage, swizzle=read.swizzle, swizzles="addresses"))]


def _in_elements(swizzle: Swizzle, storage: Smem) -> str:
    """What a swizzle is called in elements, where the writer has its numbers but took them to count those."""
    try:
        counted = swizzle.counted_in(storage.tile.bits)
        numbers = storage.swizzle.counted_in(storage.tile.bits) if storage.swizzle else None
    except LayoutError:
        return ""
    in_bytes = swizzle.counted_in(8)
    if numbers is None or (numbers.bits, numbers.base, numbers.shift) != (in_bytes.bits, in_bytes.base, in_bytes.shift):
        return ""
    return f", which is {replace(counted, unit_bits=None)} on these elements"


# -- TMA --------------------------------------------------------------------------------------------------------------


def _tma(q: Question) -> Iterator[Candidate]:
    """On either side, another swizzle of the boxes; boxes as wide as the swizzle."""
    if q.writer.make is tma_load:
        for changes, options in _boxes(q, q.writer.given):
            if writer := attempt(q.writer.again, **options):
                yield Candidate(changes, writer=writer)
    if q.reader.make is tma_store:
        for changes, options in _boxes(q, q.reader.given):
            if reader := attempt(q.reader.again, **options):
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
        other = attempt(q.writer.again, atom=name)
        if other and _samples_agree(replace(q, writer=other)):
            yield Candidate((f"a store by tcgen05.st.{name}, which is the load's pair",), writer=other)
            return


def _paired_loads(q: Question) -> Iterator[Candidate]:
    """A load by 32x32b, whose threads hold a row each, where the store takes its registers."""
    if q.writer.make is not tmem_store or (owner := q.writer.given["owner"]).load is None:
        return
    for name in _atoms(q.writer.given["atom"], ("32x32b",)):
        held = attempt(tcgen05_ld(name).over, q.tile, first_warp=owner.first_thread // 32)
        other = attempt(q.writer.again, owner=held) if held else None
        if other and _samples_agree(replace(q, writer=other)):
            yield Candidate((f"a load by tcgen05.ld.{name}, which is the store's pair",), writer=other)
            return
