"""Wavefronts against Nsight Compute's counts on an H200, and the public bank-conflict cases."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutlab
import layoutlab.cost as module
from layoutlab.cost import Access, phases, suggest_swizzle, wavefronts, widest_vector
from layoutlab.errors import LayoutError
from layoutlab.witnesses import hold

DATA = Path(__file__).parent / "data"
ON = (1 << 32) - 1


def measured():
    """(op, width, addresses, count): the earlier records, which name ops st64 or ldm4, and the later ones."""
    for p in json.loads((DATA / "wavefronts_h200.json").read_text())["patterns"]:
        name = {"st": "store", "ld": "load", "stm": "stmatrix.x", "ldm": "ldmatrix.x"}[p["op"].rstrip("0123456789")]
        yield name + (p["op"][3:] if "matrix" in name else ""), p["width"], p["addresses"], p["wavefronts"]
    later = json.loads((DATA / "wavefronts_merging_h200.json").read_text())["patterns"]
    baseline = {count for _, _, active, count, _ in later if not active}
    assert baseline == {1}, "the launch itself counts one wavefront"
    for op, width, active, count, addresses in later:
        yield op, width, [a if active >> lane & 1 else None for lane, a in enumerate(addresses)], count - 1


def test_every_measured_pattern():
    assert layoutlab.wavefronts is wavefronts
    seen = 0
    for op, width, addresses, count in measured():
        assert wavefronts(addresses, width, op) == count, (op, width, addresses)
        seen += 1
    hold("shared-memory wavefronts", "H200", seen)


@pytest.mark.parametrize("fault", ["never", "also lane ^ 4", "in each half", "stores too"])
def test_measurements_tell_a_wrong_merging_rule(fault, monkeypatch):
    """Each of these plausible rules is wrong on some measured pattern."""
    right = module._paired
    rules = {
        "never": lambda lanes, flip: False,
        "also lane ^ 4": lambda lanes, flip: right(lanes, flip) or right(lanes, 4),
        "in each half": lambda lanes, flip: all(
            right(half, 1) or right(half, 2) for half in ([*lanes[:16], *[None] * 16], [*[None] * 16, *lanes[16:]])
        ),
        "stores too": right,
    }
    monkeypatch.setattr(module, "_paired", rules[fault])
    wrong = 0
    for op, width, addresses, count in measured():
        used = "load" if fault == "stores too" and op == "store" else op
        wrong += wavefronts(addresses, width, used) != count
    assert wrong >= 3


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted >= 6 and result.failed == 0


def swizzled(offset: int, bits: int, base: int, shift: int) -> int:
    return offset ^ (offset >> shift & ((1 << bits) - 1) << base)


@pytest.mark.parametrize("bits, ways", [(None, 32), (5, 1), (3, 4), (2, 8)])
def test_k1_fp32_column(bits, ways):
    """K1: 32x32 fp32, row stride 32, column access; S<b,0,5> in elements."""
    offsets = [32 * lane if bits is None else swizzled(32 * lane, bits, 0, 5) for lane in range(32)]
    for op in ("load", "store"):
        assert wavefronts([4 * o for o in offsets], 4, op) == ways


@pytest.mark.parametrize(
    "columns, swizzle, ways",
    [(64, None, 8), (64, (3, 3, 3), 1), (64, (2, 3, 3), 2), (64, (3, 4, 3), 2), (32, None, 4), (32, (2, 3, 3), 1)],
)
def test_k2_half_ldmatrix(columns, swizzle, ways):
    """K2: rows of a half (8,columns):(columns,1) tile, read by ldmatrix; the swizzle counts elements."""
    offsets = [row * columns if swizzle is None else swizzled(row * columns, *swizzle) for row in range(8)]
    assert wavefronts([2 * o for o in offsets] * 4, 16, "ldmatrix.x1") == ways
    assert wavefronts([2 * o for o in offsets] * 4, 16, "stmatrix.x4") == 4 * ways


def test_k3_softmax_rows():
    """K3: each thread owns a row of the 128x128 sP, S<3,4,3> o ((128,16),1,(4,2)):((64,1),0,(16,8192)) on bytes."""
    for k in range(128):
        narrow = [swizzled(2 * (64 * lane + k % 64 + k // 64 * 8192), 3, 4, 3) for lane in range(32)]
        assert wavefronts(narrow, 2, "store") == 4
        if k % 8 == 0:
            assert wavefronts(narrow, 16, "store") == 4  # 512 bytes: no conflict


@given(st.permutations(range(32)), st.sampled_from([1, 2, 4, 8, 16]))
def test_order_within_a_dense_warp_is_free(order, width):
    """A permutation of consecutive stores inside a phase costs nothing."""
    size = min(32, 128 // width)
    lanes = [x for phase in range(0, 32, size) for x in [phase + o % size for o in order[:size]]]
    assert wavefronts([width * lane for lane in lanes], width, "store") <= max(1, width // 4)


@pytest.mark.parametrize(
    "addresses, width, op, why",
    [
        ([0] * 31, 4, "load", "31 addresses"),
        ([0] * 32, 3, "load", "width is 3"),
        ([0] * 32, 8, "ldmatrix.x4", "a row of ldmatrix.x4 is 16"),
        ([2] * 32, 4, "load", "lane 0 has address 2"),
        ([0] * 32, 4, "ldmatrix.x3", "op is 'ldmatrix.x3'"),
        ([-16] * 32, 16, "store", "address -16"),
    ],
)
def test_refusals(addresses, width, op, why):
    with pytest.raises(LayoutError, match=why):
        wavefronts(addresses, width, op)


def test_phases_add_up():
    for op, width, addresses, count in measured():
        found = phases(addresses, width, op)
        assert sum(phase.wavefronts for phase in found) == count
        lanes = [lane for phase in found for lane in phase.lanes]
        assert lanes == list(range(8 * int(op[-1]) if "matrix" in op else 32))
        assert all(word % 32 == phase.bank for phase in found for word in phase.words)


def test_widest_vector_of_the_softmax_rows():
    """128 threads own a row each of the swizzled P: along k 16 bytes are whole, across rows nothing is."""

    def byte(m: int, k: int) -> int:
        return swizzled(2 * (64 * m + k % 64 + k // 64 * 8192), 3, 4, 3)

    along = [[byte(m, k) for k in range(128)] for m in range(128)]
    assert widest_vector(along, 16).bytes == 16 and "moves 16 bytes" in widest_vector(along, 16).why
    assert widest_vector(along, 16, most=8).bytes == 8
    across = [[byte(m, k) for m in range(128)] for k in range(128)]
    found = widest_vector(across, 16)
    assert (found.bytes, found.why) == (2, "T0 V1 is at byte 144, not at byte 2 behind V0")
    assert widest_vector([[0, 2, 4]], 16).why == "T0 has 3 values, no whole number of 2"
    with pytest.raises(LayoutError, match="4-bit elements"):
        widest_vector([[0]], 4)


def test_suggestions_weigh_all_accesses():
    """Rows written 16 bytes a thread and read by ldmatrix: the 128-byte swizzle makes both free."""
    writes = [Access(tuple(128 * lane + 16 * c for lane in range(32)), 16, "store") for c in range(8)]
    reads = [Access(tuple(128 * (lane % 8) + 16 * c for lane in range(32)), 16, "ldmatrix.x1") for c in range(8)]
    found = suggest_swizzle([*writes, *reads])
    assert str(found.swizzle.counted_in(16)) == "S<3,3,3>[16b]"
    assert (found.before, found.after) == (8 * 32 + 8 * 8, 8 * 4 + 8)
    narrow = suggest_swizzle([Access(tuple(64 * lane for lane in range(8)) * 4, 16, "ldmatrix.x1")])
    assert narrow.before == 4 and narrow.after == 1
    column = suggest_swizzle([Access(tuple(128 * lane for lane in range(32)), 4, "load")])
    assert column.after == 1 and column.swizzle.bits == 5 and column.swizzle.counted_in(32).base == 0
    free = suggest_swizzle([Access(tuple(4 * lane for lane in range(32)), 4, "store")])
    assert free.swizzle.bits == 0 and free.after == free.before == 1
    with pytest.raises(LayoutError, match="no accesses"):
        suggest_swizzle([])
