"""The claims against walking everything, over random handoffs, right ones and broken ones."""

from __future__ import annotations

from math import prod

import brute
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import layoutlab.arbiter as arbiter
from layoutlab import ComposedLayout, Handoff, Layout, Swizzle, Tile, declared, owned, smem, store, verify
from layoutlab.handoff.verdict import Claim

FACTORS = (2, 2, 2, 3, 4, 5)


def factors(draw: st.DrawFn, most: int) -> list[int]:
    """A few extents whose product is no more than `most`."""
    found: list[int] = []
    while prod(found) * 2 <= most and len(found) < 5:
        fits = [f for f in FACTORS if prod(found) * f <= most]
        found.append(draw(st.sampled_from(fits)))
        if draw(st.booleans()) and draw(st.booleans()):
            break
    return found


def strides_of(extents: list[int], order: list[int]) -> list[int]:
    """Compact strides with the modes stored in this order, fastest first."""
    strides, step = [0] * len(extents), 1
    for i in order:
        strides[i] = step
        step *= extents[i]
    return strides


@st.composite
def broken(draw: st.DrawFn, strides: list[int]) -> list[int]:
    """The strides, or now and then one of them changed."""
    if not strides or draw(st.integers(0, 2)):
        return strides
    new = list(strides)
    i = draw(st.integers(0, len(new) - 1))
    new[i] = draw(st.sampled_from([0, 1, new[i] * 2, new[i] + 1, new[i] * 3]))
    return new


@st.composite
def storages(draw: st.DrawFn, m: list[int], k: list[int]) -> Layout | ComposedLayout:
    extents = [*m, *k]
    strides = draw(broken(strides_of(extents, draw(st.permutations(range(len(extents)))))))
    shape = (tuple(m) or 1, tuple(k) or 1)
    stride = (tuple(strides[: len(m)]) or 0, tuple(strides[len(m) :]) or 0)
    outer = Layout(shape, stride)
    if draw(st.booleans()):
        return outer
    return ComposedLayout(Swizzle(draw(st.integers(1, 2)), draw(st.integers(2, 3)), draw(st.integers(2, 3))), 0, outer)


@st.composite
def handoffs(draw: st.DrawFn) -> tuple[Handoff, np.ndarray]:
    """A handoff of a small tile, and the reader's bit of every coordinate."""
    m, k = factors(draw, 16), factors(draw, 16)
    bits = draw(st.sampled_from([8, 16, 32]))
    P = Tile("P", m=prod(m), k=prod(k), bits=bits)
    extents = [*m, *k]
    owner_strides = draw(broken(strides_of(extents, list(range(len(extents))))))  # flat coordinate of each part
    order = draw(st.permutations(range(len(extents))))
    cut = draw(st.integers(0, len(extents)))
    threads, values = order[:cut], order[cut:]
    shape = tuple(tuple(extents[i] for i in part) or 1 for part in (threads, values))
    stride = tuple(tuple(owner_strides[i] for i in part) or 0 for part in (threads, values))
    written = draw(storages(m, k))
    read = written if draw(st.booleans()) else draw(storages(m, k))
    base = draw(st.sampled_from([0, 16, 64, 80, 128]))
    read_base = base if draw(st.integers(0, 3)) else base + 16
    how = draw(st.sampled_from(["addresses", "addresses", "offsets"]))
    unit = draw(st.sampled_from(["bytes", "elements"]))
    options = {"over": P, "align_bytes": 1024, "swizzle_unit": unit}
    writer = store(owned(Layout(shape, stride), P), smem(written, base_bytes=base, swizzles=how, **options), bits=bits)
    reading = smem(read, base_bytes=read_base, **options)
    h = Handoff(P, writer=writer, reader=declared(reading, P))
    other = Handoff(P, writer=store(owned(Layout(P.shape, (1, P.shape[0])), P), reading, bits=bits), reader=h.reader)
    flat = np.arange(P.size)
    table = brute.stored(other, flat).reshape(P.shape[1], P.shape[0]).T
    return h, table


def index(claim: Claim) -> tuple[int, int] | None:
    return (claim.witness.thread, claim.witness.value) if claim.witness else None


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(handoffs())
def test_every_claim_says_what_walking_says(case: tuple[Handoff, np.ndarray]) -> None:
    h, read = case
    verdict, walk = verify(h), brute.walk(h, read)
    claims = {claim.name: claim for claim in verdict.claims}
    assert all(claim.verdict in ("proved", "refuted") for claim in verdict.claims)
    assert index(claims["placed"]) == walk.placed()
    assert index(claims["exclusive"]) == walk.exclusive()
    lost = claims["covered"].witness
    assert (tuple(lost.coordinate.values()) if lost else None) == walk.covered()
    if walk.inside.all():
        assert claims["inside"].verdict == "proved"
    else:
        assert index(claims["inside"]) == divmod(int((~walk.inside).argmax()), walk.values)
    if "misplaced" in claims["placed"].why:
        assert int(claims["placed"].why.split()[0]) == walk.misplaced()
    assert claims["placed"].checked == h.writer.owner.places.size
    assert (claims["placed"].evaluated == 0) == (claims["placed"].method == "normal form")


def test_both_methods_answer_over_the_random_handoffs() -> None:
    methods, verdicts = set(), set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(handoffs())
    def collect(case: tuple[Handoff, np.ndarray]) -> None:
        for claim in verify(case[0]).claims:
            methods.add((claim.name, claim.method))
            verdicts.add((claim.name, claim.verdict))

    collect()
    for name in ("covered", "placed", "exclusive", "inside"):
        assert {(name, "normal form"), (name, "enumeration")} <= methods
        assert {(name, "proved"), (name, "refuted")} <= verdicts


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
        "T127 V62 (m=127, k=62) writes byte 16380, which is Q's: bytes 16380 to 32767 are still live"
    )


def test_a_narrower_owner_does_not_cover() -> None:
    P = Tile("P", m=128, k=96, bits=16)
    s = smem("(128,96):(96,1)", over=P)
    claim = verify(Handoff(P, writer=store("(128,64):(1,128)", s, bits=16), reader="(128,96):(96,1)"))["covered"]
    assert claim.verdict == "refuted"
    assert claim.witness.message == "(m=0, k=64) is read at byte 128, and no thread holds that element"


def test_a_load_wider_than_the_tile_leaves_it() -> None:
    from layoutlab import tcgen05_ld

    P = Tile("P", m=128, k=48, bits=16)
    s = smem("(128,48):(48,1)", over=P)
    verdict = verify(Handoff(P, writer=store(tcgen05_ld("32x32b.x32").over(P), s, bits=16), reader="(128,48):(48,1)"))
    assert verdict["inside"].witness.message == "T0 V48 (m=0, k=48) lies outside of the tile: k ends at 47"
    assert verdict["legal"].witness.message == (
        "tcgen05.ld.32x32b.x32 takes 32 columns at a time, and 32 does not divide 48: it would touch 64 columns; "
        "x16 divides them, in 3 steps"
    )
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
