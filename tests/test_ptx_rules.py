# ruff: noqa: E501  (lines of PTX)
"""Is the machine itself right? Each of its rules is flipped, one at a time, and some check must notice.

A kernel that writes and reads by the same wrong rule hides the error, so the checks are those that hold a rule against
silicon, against tables of the ISA, or against numpy. A flip that none of them sees fails here.
"""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest
import test_ptx_clusters as clusters
import test_ptx_silicon as silicon
import test_ptx_tcgen05 as tensor
import test_ptx_tf32 as tf32

import layoutlab.ptx.isa  # noqa: F401
from layoutlab.ptx import rules
from layoutlab.ptx.asynchronous import AsyncUnits, Mbarrier
from layoutlab.ptx.isa import convert, copy, tcgen05
from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.state import Wave


def clear_caches():
    """Forget every map and program that was made under the other rules."""
    for name, module in list(sys.modules.items()):
        if name.startswith("layoutlab.ptx"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


# -- the checks ---------------------------------------------------------------------------------------------------------


def equal(ours, theirs):
    return bool(np.array_equal(np.ascontiguousarray(ours), np.ascontiguousarray(theirs)))


def descriptors_hold():
    return silicon.descriptor_faults() == 0


def mma_holds():
    return all(equal(silicon.mma_result(f, a), np.ascontiguousarray(a["D"]).view(np.uint32)) for _, f, a in silicon.MMA)


def matrices_hold():
    return all(
        equal(silicon.matrix_result(n, f, a), a["loaded" if n.startswith("ld") else "stored"])
        for n, f, a in silicon.MATRICES
    )


def wgmma_holds():
    some = silicon.WGMMA[::5]
    return all(
        equal(silicon.as_numbers(silicon.wgmma_result(f, a), f["cd"]), silicon.as_numbers(a["D"], f["cd"]))
        for _, f, a in some
    )


def tma_holds():
    done = [r for r in silicon.TMA if r[1]["outcome"] == "done"]
    return all(
        equal(silicon.tma_result(f, a), a["stored" if f["store"] else "loaded"].view(np.uint8)) for _, f, a in done
    )


def products_hold():
    cases = [c for c in tensor.CASES if c[0] in ("f16", "tf32") and c[2] <= 64]
    return not tensor.wrong_products(cases[::3] + [c for c in cases if "128 of 32" in c])


def accumulation_holds():
    for scale, factor in ((None, 2), (2, 1.25)):
        out, product = tensor.multiply("f16", 128, 32, "K", "K", 128, 128, twice=True, scale=scale)
        if not equal(out.view(np.float32), factor * product):
            return False
    return True


def tensor_memory_holds():
    return all(
        equal(*tensor.multiply_from_tmem(kind, m, 32)) for kind, m in (("bf16", 128), ("f16", 64), ("e4m3", 128))
    )


def loads_hold():
    for shape, repeat, packed in tensor.LOADS:
        want = tensor.expected_tags(shape, repeat, packed, 2)
        if not equal(tensor.loaded_tags(shape, repeat, packed)[:, : want.shape[1]], want):
            return False
    return True


def waits_hold():
    import test_ptx_machine as machine

    machine.test_phases_of_an_mbarrier("eager")
    machine.test_a_fresh_mbarrier_passes_parity_one()
    machine.test_expected_bytes_hold_the_phase_open()
    return True


def conversions_hold():
    import test_ptx_arithmetic as arithmetic

    arithmetic.test_sixteen_bit_pairs("bf16")
    arithmetic.test_narrow_pairs("e4m3")
    return True


def rounding_holds():
    return all(tf32.arrived(element).tolist() == tf32.RECORD["arrived"][element] for element in ("f32", "tf32"))


def pairs_hold():
    for m in (128, 256):
        out, product, _ = clusters.pair_product(m, 32)
        if not equal(out.view(np.float32)[..., : m * 32 // 256], clusters.pair_lanes(product, m, 32)):
            return False
    return all(
        equal(clusters.replayed(name)[0], np.broadcast_to(clusters.stated()[name], (4, 32)))
        for name in ("multicast", "send", "arrive")
    )


CHECKS = [
    descriptors_hold, mma_holds, matrices_hold, loads_hold, tensor_memory_holds, accumulation_holds, waits_hold,
    conversions_hold, rounding_holds, pairs_hold, tma_holds, products_hold, wgmma_holds,
]  # fmt: skip


def caught_by():
    """The first check that fails; an error that the flipped rule causes counts as caught."""
    for check in CHECKS:
        try:
            if not check():
                return check.__name__
        except (PtxError, AssertionError, IndexError, ValueError, KeyError):
            return check.__name__
    return None


# -- the flips ----------------------------------------------------------------------------------------------------------


def only_shape(shape, change):
    """register_place with one shape's places changed."""
    right = rules.register_place

    def flipped(name, thread, register):
        lane, column = right(name, thread, register)
        return change(lane, column, thread, register) if name == shape else (lane, column)

    return flipped


def swapped_offsets(function):
    def flipped(first, second, width, leading, stride, *rest):
        return function(first, second, width, stride, leading, *rest)

    return flipped


def swizzled_swap(function, when):
    def flipped(first, second, width, leading, stride, *rest):
        if bool(width) == when:
            leading, stride = stride, leading
        return function(first, second, width, leading, stride, *rest)

    return flipped


right = {name: getattr(rules, name) for name in dir(rules) if not name.startswith("_")}
FLIPS = {
    "no swizzle": (rules, "swizzle", lambda address, width, base=0: address),
    "swizzle by the next row bit": (
        rules, "swizzle",
        lambda a, width, base=0: a if width == 0 else a ^ ((((a >> 8) - base) & (width // 16 - 1)) << 4),
    ),
    "swizzle one bit higher": (
        rules, "swizzle",
        lambda a, width, base=0: a if width == 0 else a ^ ((((a >> 7) - base) & (width // 16 - 1)) << 5),
    ),
    "swizzle with all three bits": (
        rules, "swizzle", lambda a, width, base=0: a if width == 0 else a ^ ((((a >> 7) - base) & 7) << 4)
    ),
    "base offset ignored": (rules, "swizzle", lambda a, width, base=0: right["swizzle"](a, width)),
    "base offset added": (rules, "swizzle", lambda a, width, base=0: right["swizzle"](a, width, -base)),
    "32-byte atoms as 16-byte ones": (rules, "swizzle_32b_atoms", lambda a: right["swizzle"](a, 128)),
    "32-byte atoms unswizzled": (rules, "swizzle_32b_atoms", lambda a: a),
    "K-major LBO and SBO swapped": (rules, "k_major_offset", swapped_offsets(rules.k_major_offset)),
    "MN-major LBO and SBO swapped, plain": (rules, "mn_major_offset", swizzled_swap(rules.mn_major_offset, False)),
    "MN-major LBO and SBO swapped, swizzled": (rules, "mn_major_offset", swizzled_swap(rules.mn_major_offset, True)),
    "MN-major atoms of 8 rows throughout": (
        rules, "mn_major_offset", lambda b, k, w, lead, stride, atom=8: right["mn_major_offset"](b, k, w, lead, stride, 8)
    ),
    "descriptor swizzles 64 and 32 swapped": (
        rules, "DESCRIPTOR_SWIZZLE", {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (32, 16), 6: (64, 16)}
    ),
    "tensor map swizzles 64 and 32 swapped": (rules, "TENSOR_MAP_SWIZZLE", {0: 0, 1: 64, 2: 32, 3: 128}),
    "M = 64 in lanes 0 to 63": (rules, "accumulator_lane", lambda row, m: row),
    "M = 64 two rows to a group": (
        rules, "accumulator_lane", lambda row, m: row if m == 128 else (row % 4) * 32 + row // 4
    ),
    "M = 128 rows reversed": (
        rules, "accumulator_lane", lambda row, m: 127 - row if m == 128 else right["accumulator_lane"](row, m)
    ),
    "a pair's columns in order": (
        rules, "paired_accumulator_place", lambda row, column, n: (row + 0 * column, column + 0 * row)
    ),
    "a pair's columns alternate": (
        rules, "paired_accumulator_place", lambda row, column, n: (row + 64 * (column % 2), column // 2 + 0 * row)
    ),
    "multicast to the issuing CTA alone": (copy, "cluster_members", lambda wave, cta, chosen, ins: [cta]),
    "cluster windows all of rank 0": (Wave, "locate", lambda self, cta, at, opcode: (cta, at & 0xFFFFFF)),
    "TMEM halves in the other order": (
        rules, "tmem_operand_word", lambda k, bits: (k // (32 // bits), 32 - bits - (k % (32 // bits)) * bits)
    ),
    "TMEM elements one to a word": (rules, "tmem_operand_word", lambda k, bits: (k, k * 0)),
    "every warp owns lanes 0 to 31": (rules, "first_lane", lambda warp: 0 * warp),
    "warp w owns lanes 32 (3 - w)": (rules, "first_lane", lambda warp: 32 * (3 - warp % 4)),
    "packed halves swapped": (rules, "packed_columns", lambda c: (2 * c + 1, 2 * c)),
    "packed halves far apart": (rules, "packed_columns", lambda c: (c, c + 1)),
    "split offset ignored": (rules, "split_columns", lambda thread, split: 0 * thread),
    "16x64b lanes": (rules, "register_place", only_shape("16x64b", lambda lane, c, t, r: (t // 2 + 0 * r, 2 * r + t % 2))),
    "16x128b halves": (
        rules, "register_place", only_shape("16x128b", lambda lane, c, t, r: (t // 4 + 8 * (r // 2), 4 * (r % 2) + t % 4))
    ),
    "16x256b registers": (
        rules, "register_place",
        only_shape("16x256b", lambda lane, c, t, r: (t // 4 + 8 * (r % 2), 8 * (r // 4) + 2 * (t % 4) + r % 4 // 2)),
    ),
    "32x32b columns": (rules, "register_place", only_shape("32x32b", lambda lane, c, t, r: (lane, c ^ 1))),
    "32x32b lanes": (rules, "register_place", only_shape("32x32b", lambda lane, c, t, r: (31 - lane, c))),
    "16x32bx2 lanes": (rules, "register_place", only_shape("16x32bx2", lambda lane, c, t, r: (t // 2 + 0 * r, c))),
    "accumulate always": (rules, "accumulate", lambda old, new, enabled, scale: new + old),
    "accumulate never": (rules, "accumulate", lambda old, new, enabled, scale: new),
    "accumulate when not asked": (
        rules, "accumulate", lambda old, new, on, scale: right["accumulate"](old, new, not on, scale)
    ),
    "input scale ignored": (rules, "accumulate", lambda old, new, on, scale: right["accumulate"](old, new, on, 0)),
    "input scale multiplies": (rules, "accumulate", lambda old, new, on, scale: right["accumulate"](old, new, on, -scale)),
    "TMA counts only bytes inside": (rules, "transaction_bytes", lambda box, inside: inside),
    "swizzled box rows packed": (rules, "box_row_pitch", lambda row, width: row),
    "tf32 unrounded": (rules, "tf32_rounded", lambda words: words),
    "tf32 truncated": (rules, "tf32_rounded", lambda words: words & np.uint32(0xFFFFE000)),
    "TMA stores exact bytes": (rules, "stored_row_bytes", lambda inside, row: inside),
    "ldmatrix column pairs": (rules, "fragment_8x8", lambda t, v: (t % 8 + 0 * v, 2 * (t // 8) + v)),
    "accumulator fragment rows": (
        rules, "accumulator_fragment", lambda t, v: (t // 4 + 8 * (v % 2), 8 * (v // 4) + 2 * (t % 4) + v // 2 % 2)
    ),
    "A fragment register order": (
        rules, "a_fragment",
        lambda t, v, p: (t // 4 + 8 * (v // p // 2), p * (t % 4) + v % p + 4 * p * (v // p % 2)),
    ),
    "B fragment register order": (rules, "b_fragment", lambda t, v, p: (p * (t % 4) + v % p + p * 4 * (1 - v // p), t // 4 + 0 * v)),
    "B fragment of the other columns": (
        rules, "b_fragment", lambda t, v, p: (p * (t // 8) + v % p + 4 * p * (v // p), t % 8 + 0 * v)
    ),
    "parity of the current phase": (Mbarrier, "passed", lambda self, parity: (self.phase & 1) == (parity & 1)),
    "expect_tx forgotten": (AsyncUnits, "expect", lambda self, barrier, n, ins: None),
    "expect_tx counted twice": (
        AsyncUnits, "expect",
        lambda self, barrier, n, ins: setattr(barrier, "transactions", barrier.transactions + (2 * n if n > 0 else n)),
    ),
    "bf16 pairs swapped": (
        convert, "encode",
        lambda kind, v, mode="rn", sat=False: right_encode(kind, v[..., ::-1] if v.ndim else v, mode, sat),
    ),
    "bf16 truncated": (
        convert, "encode", lambda kind, v, mode="rn", sat=False: right_encode(kind, v, "rz", sat)
    ),
    "fp8 without saturation": (
        convert, "encode", lambda kind, v, mode="rn", sat=False: right_encode(kind, v, mode, False)
    ),
}  # fmt: skip
right_encode = convert.encode


def flipped_descriptor(change):
    """The instruction descriptor with some fields exchanged."""
    decode = tcgen05.instruction_descriptor.__wrapped__

    def flipped(bits, kind, line, pair=False):
        return decode(change(bits), kind, line, pair)

    return flipped


def exchange(bits, i, j):
    a, b = bits >> i & 1, bits >> j & 1
    return bits & ~(1 << i | 1 << j) | a << j | b << i


FLIPS |= {
    "majors of A and B exchanged": (
        tcgen05, "instruction_descriptor", flipped_descriptor(lambda b: exchange(b, 15, 16))
    ),
    "majors inverted": (tcgen05, "instruction_descriptor", flipped_descriptor(lambda b: b ^ (3 << 15))),
    "N in units of 16": (
        tcgen05, "instruction_descriptor", flipped_descriptor(lambda b: b & ~(63 << 17) | (b >> 18 & 31) << 17)
    ),
    "f16 read as bf16": (tcgen05, "instruction_descriptor", flipped_descriptor(lambda b: b ^ (1 << 7 | 1 << 10))),
}  # fmt: skip


def test_nothing_fails_when_nothing_is_flipped():
    clear_caches()
    assert caught_by() is None


@pytest.mark.parametrize("name", FLIPS)
def test_a_flipped_rule_is_caught(name, monkeypatch):
    owner, attribute, value = FLIPS[name]
    monkeypatch.setattr(owner, attribute, value)
    clear_caches()
    try:
        found = caught_by()
    finally:
        monkeypatch.undo()
        clear_caches()
    assert found, f"no check notices: {name}"


def test_there_are_enough_flips():
    """Every rule of the rules module has a flip."""
    functions = {n for n in right if callable(getattr(rules, n)) and getattr(rules, n).__module__ == rules.__name__}
    flipped = {attribute for owner, attribute, _ in FLIPS.values() if owner is rules}
    assert functions - flipped == set()
    assert len(FLIPS) >= 50
