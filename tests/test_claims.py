"""The claims against walking everything, over random handoffs, right ones and broken ones."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from random import Random

import brute
import numpy as np
import pytest

import layoutlab.arbiter as arbiter
from layoutlab import ComposedLayout, Handoff, Layout, Swizzle, Tile, Verdict, declared, owned, smem, store, verify
from layoutlab.handoff.verdict import Claim

FACTORS = (2, 2, 2, 3, 4, 5)
CASES = 3000


def factors(rng: Random, most: int) -> list[int]:
    """A few extents whose product is no more than `most`."""
    found: list[int] = []
    while prod(found) * 2 <= most and rng.random() < 0.9:
        found.append(rng.choice([f for f in FACTORS if prod(found) * f <= most]))
    return found


def compact(rng: Random, extents: list[int]) -> list[int]:
    """Compact strides, the modes stored in any order."""
    strides, step = [0] * len(extents), 1
    for i in rng.sample(range(len(extents)), len(extents)):
        strides[i], step = step, step * extents[i]
    return strides


def broken(rng: Random, strides: list[int]) -> list[int]:
    """The strides, or now and then one of them changed."""
    if not strides or rng.random() < 0.7:
        return strides
    new, i = list(strides), rng.randrange(len(strides))
    new[i] = rng.choice([0, 1, new[i] * 2, new[i] + 1, new[i] * 3])
    return new


def layout(parts: list[tuple[list[int], list[int]]]) -> Layout:
    """One mode for each (extents, strides)."""
    return Layout(tuple(tuple(e) or 1 for e, _ in parts), tuple(tuple(s) or 0 for _, s in parts))


def storage(rng: Random, m: list[int], k: list[int]) -> Layout | ComposedLayout:
    strides = broken(rng, compact(rng, [*m, *k]))
    outer = layout([(m, strides[: len(m)]), (k, strides[len(m) :])])
    if rng.random() < 0.5:
        return outer
    return ComposedLayout(Swizzle(rng.randint(1, 2), rng.randint(2, 3), rng.randint(2, 3)), 0, outer)


def handoff_of(seed: int) -> tuple[Handoff, np.ndarray]:
    """A random handoff of a small tile, and the reader's bit of every coordinate."""
    rng = Random(seed)
    m, k = factors(rng, 16), factors(rng, 16)
    P = Tile("P", m=prod(m), k=prod(k), bits=rng.choice([8, 16, 32]))
    extents = [*m, *k]
    flat = broken(rng, [prod(extents[:i]) for i in range(len(extents))])  # what each part adds to the flat coordinate
    order, cut = rng.sample(range(len(extents)), len(extents)), rng.randint(0, len(extents))
    owner = layout([([extents[i] for i in part], [flat[i] for i in part]) for part in (order[:cut], order[cut:])])
    written = storage(rng, m, k)
    read = written if rng.random() < 0.5 else storage(rng, m, k)
    base = rng.choice([0, 16, 64, 80, 128])
    read_base = base if rng.random() < 0.8 else base + 16
    how = rng.choice(["addresses", "addresses", "offsets"])
    options = {"over": P, "align_bytes": 1024, "swizzle_unit": rng.choice(["bytes", "elements"])}
    writer = store(owned(owner, P), smem(written, base_bytes=base, swizzles=how, **options), bits=P.bits)
    reading = smem(read, base_bytes=read_base, **options)
    h = Handoff(P, writer=writer, reader=declared(reading, P))
    rows = store(owned(Layout(P.shape), P), reading, bits=P.bits)
    places = brute.stored(Handoff(P, writer=rows, reader=h.reader), np.arange(P.size))
    return h, places.reshape(P.shape[1], P.shape[0]).T


def index(claim: Claim) -> tuple[int, int] | None:
    return (claim.witness.thread, claim.witness.value) if claim.witness else None


def agrees_with_walking(seed: int) -> Verdict:
    h, read = handoff_of(seed)
    verdict, walk = verify(h), brute.walk(h, read)
    assert all(claim.verdict in ("proved", "refuted") for claim in verdict.claims)
    assert index(verdict["placed"]) == walk.placed()
    assert index(verdict["exclusive"]) == walk.exclusive()
    lost = verdict["covered"].witness
    assert (tuple(lost.coordinate.values()) if lost else None) == walk.covered()
    outside = None if walk.inside.all() else divmod(int((~walk.inside).argmax()), walk.values)
    assert index(verdict["inside"]) == outside
    if "misplaced" in verdict["placed"].why:
        assert int(verdict["placed"].why.split()[0]) == walk.misplaced()
    for claim in verdict.claims[:4]:
        sizes = {"covered": h.tile.size, "placed": int(walk.inside.sum())}
        assert claim.checked == sizes.get(claim.name, h.writer.owner.places.size)
        counted = claim.name == "placed" and claim.verdict == "refuted"  # how many are misplaced may need counting
        assert (claim.evaluated == 0) == (claim.method == "normal form") or (counted and claim.evaluated > 0)
    return verdict


def test_every_claim_says_what_walking_says() -> None:
    seen: Counter[tuple[str, str, str]] = Counter()
    for seed in range(CASES):
        try:
            verdict = agrees_with_walking(seed)
        except AssertionError as error:
            raise AssertionError(f"handoff_of({seed})") from error
        seen.update((claim.name, claim.method, claim.verdict) for claim in verdict.claims)
    for name in ("covered", "placed", "exclusive", "inside"):
        for method, answer in product(("normal form", "enumeration"), ("proved", "refuted")):
            if (name, method, answer) != ("inside", "normal form", "refuted"):  # the first outside is always walked to
                assert seen[name, method, answer] >= 20, (name, method, answer)


def rows(k: int = 64, **options: object) -> Handoff:
    """128 threads store their rows."""
    P = Tile("P", m=128, k=k, bits=16)
    s = smem(f"(128,{k}):({k},1)", over=P, **options)  # type: ignore[arg-type]
    return Handoff(P, writer=store(f"(128,{k}):(1,128)", s, bits=16), reader=f"(128,{k}):({k},1)")


def test_a_question_too_large_for_both_methods_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    P = Tile("P", m=6, k=6, bits=16)
    s = smem("(6,6):(6,1)", over=P)
    diagonal = owned("((2,3),6):((1,2),7)", P)  # carries: m moves on with k
    h = Handoff(P, writer=store(diagonal, s, bits=16), reader="(6,6):(6,1)")
    assert verify(h)["placed"].method == "enumeration"
    monkeypatch.setattr(arbiter, "LIMIT", 35)
    verdict = verify(h)
    assert verdict["placed"].verdict == "undecided" and not verdict.proved
    assert "36 points are more than the 35" in verdict["placed"].why


def test_live_buffers_are_left_alone() -> None:
    h = rows()
    free = Handoff(h.tile, writer=h.writer, reader=h.reader, live={"Q": range(16384, 32768)})
    assert verify(free).proved
    taken = Handoff(h.tile, writer=h.writer, reader=h.reader, live={"Q": range(16380, 32768)})
    claim = verify(taken)["inside"]
    assert claim.verdict == "refuted"
    assert claim.witness.message == (
        "T127 V62 (m=127, k=62) writes byte 16380: bytes 16380 to 32767 hold Q, still live"
    )


def test_a_narrower_owner_does_not_cover() -> None:
    P = Tile("P", m=128, k=96, bits=16)
    s = smem("(128,96):(96,1)", over=P)
    verdict = verify(Handoff(P, writer=store("(128,64):(1,128)", s, bits=16), reader="(128,96):(96,1)"))
    claim = verdict["covered"]
    assert claim.verdict == "refuted"
    assert claim.witness.message == "(m=0, k=64) is read at byte 128, and no thread holds that element"
    assert verdict.explanation == ("a narrower tile: the threads hold k=0 to 63, the tile goes on to 95",)


def test_a_load_wider_than_the_tile_leaves_it() -> None:
    from layoutlab import tcgen05_ld

    P = Tile("P", m=128, k=48, bits=16)
    s = smem("(128,48):(48,1)", over=P)
    verdict = verify(Handoff(P, writer=store(tcgen05_ld("32x32b.x32").over(P), s, bits=16), reader="(128,48):(48,1)"))
    assert verdict["inside"].witness.message == "T0 V48 (m=0, k=48) lies outside of the tile: k ends at 47"
    assert verdict["legal"].witness.message == (
        "tcgen05.ld.32x32b.x32 over 48 columns spans 64: x16 divides them, 3 steps"
    )
    assert verdict.explanation == (
        "a wider tile: the threads hold k=0 to 63, the tile ends at 47",
        "what would be right: load x16 instead of x32 (tcgen05.ld.32x32b)",
    )
    assert (verdict["placed"].verdict, verdict["placed"].checked) == ("proved", 128 * 48)
    fits = verify(Handoff(P, writer=store(tcgen05_ld("32x32b.x16").over(P), s, bits=16), reader="(128,48):(48,1)"))
    assert fits.proved


def test_a_vector_store_needs_neighbours() -> None:
    P = Tile("P", m=64, k=64, bits=16)
    row_major, column_major = smem("(64,64):(64,1)", over=P), smem("(64,64):(1,64)", over=P)
    assert verify(Handoff(P, writer=store("(64,64):(1,64)", row_major, bits=128), reader="(64,64):(64,1)")).proved
    claim = verify(Handoff(P, writer=store("(64,64):(1,64)", column_major, bits=128), reader="(64,64):(1,64)"))["legal"]
    assert claim.witness.message == (
        "a 128-bit store of T0 would move V0 to V7 together, but V0 belongs at byte 0 and V1 at byte 128"
    )


def test_offsets_may_be_swizzled_only_where_the_buffer_is_aligned() -> None:
    P = Tile("P", m=8, k=64, bits=16)
    text = "S<3,4,3> o 0 o (8,64):(64,1)"

    def legal(align: int) -> Claim:
        s = smem(text, over=P, align_bytes=align, swizzles="offsets")
        return verify(Handoff(P, writer=store("(8,64):(1,8)", s, bits=16), reader=declared(text, P)))["legal"]

    assert legal(1024).verdict == "proved"
    assert legal(512).witness.message == (
        "the writer swizzles offsets, whose pattern repeats every 1024 bytes, and the buffer is aligned to 512 bytes "
        "only: align it to 1024, or swizzle addresses"
    )


def test_a_reader_that_is_many_to_one_is_named() -> None:
    P = Tile("P", m=128, k=64, bits=16)
    same = "(128,64):(0,1)"
    verdict = verify(Handoff(P, writer=store("(128,64):(1,128)", smem(same, over=P), bits=16), reader=same))
    assert [c.name for c in verdict.claims if c.verdict == "refuted"] == ["exclusive"]
    assert verdict["exclusive"].witness.message == "T0 V0 (m=0, k=0) and T1 V0 (m=1, k=0) both write byte 0"
    assert verdict.explanation == ("the reader takes both elements from one place: its own map is many to one",)


def test_the_same_element_written_twice_is_a_remark() -> None:
    P = Tile("P", m=64, k=64, bits=16)
    s = smem("(64,64):(64,1)", over=P)
    verdict = verify(Handoff(P, writer=store("((64,2),64):((1,0),64)", s, bits=16), reader="(64,64):(64,1)"))
    assert verdict.proved and verdict["exclusive"].why == "each element is written 2 times to the same place"


def test_another_memory_is_unsupported() -> None:
    from dataclasses import replace

    h = rows()
    verdict = verify(Handoff(h.tile, writer=h.writer, reader=replace(h.reader, space="gmem")))
    assert verdict.verdict == "unsupported" and verdict.exit_status == 3
    assert verdict["placed"].why == "the writer writes smem, the reader reads gmem"


@pytest.mark.parametrize("answer", ["undecided", "unsupported"])
def test_only_all_proved_is_success(answer: str) -> None:
    from dataclasses import replace

    verdict = verify(rows())
    first, *others = verdict.claims
    worse = replace(verdict, claims=(replace(first, verdict=answer), *others))
    assert not worse.proved and worse.exit_status == 3


def test_a_swizzled_pair_of_two_to_the_thirty_is_proved_from_the_tables() -> None:
    n = 1 << 15
    P = Tile("P", m=n, k=n, bits=16)
    s = smem(f"S<3,4,3> o 0 o ({n},(64,{n // 64})):(64,(1,{64 * n}))", over=P, align_bytes=1024)
    reader = declared(f"S<3,4,3> o 0 o ((8,{n // 8}),(64,{n // 64})):((64,512),(1,{64 * n}))", P)
    verdicts = [verify(Handoff(P, writer=store(f"({n},{n}):(1,{n})", s, bits=16), reader=reader)) for _ in range(9)]
    assert all(v[name].verdict == "proved" for v in verdicts for name in ("covered", "placed", "exclusive", "inside"))
    assert all(v.checked == 1 << 30 and v["legal"].verdict == "refuted" for v in verdicts)  # no memory is so large
    assert sum(claim.evaluated for claim in verdicts[0].claims) == 0


def test_a_tile_of_no_power_of_two_is_proved_from_the_tables() -> None:
    P = Tile("P", m=96, k=160, bits=16)
    s = smem("S<2,4,3> o 0 o (96,(32,5)):(32,(1,3072))", over=P)
    reader = declared("S<2,4,3> o 0 o ((8,12),(32,5)):((32,256),(1,3072))", P)
    verdict = verify(Handoff(P, writer=store("(96,160):(1,96)", s, bits=16), reader=reader))
    assert verdict.proved and {claim.method for claim in verdict.claims} == {"normal form", "rules"}
