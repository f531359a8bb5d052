"""Matrix descriptors against what an H200's tensor core read, CUTLASS's canonical layouts, and the public cases."""

from __future__ import annotations

import doctest
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import layoutlab.atoms.descriptors as module
from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.errors import LayoutError
from layoutlab.witnesses import hold

DATA = Path(__file__).parent / "data"


def records():
    configs = json.loads((DATA / "wgmma_descriptors_h200.json").read_text())["configs"]
    element = np.load(DATA / "wgmma_descriptors_h200.npz")["element"]
    assert len(configs) == len(element) == 122
    return list(zip(configs, element, strict=True))


def described(config) -> SmemDescriptor:
    fields = ("lbo", "sbo", "swizzle", "base_offset")
    return SmemDescriptor(start=config["offset"], **{f: config[f] for f in fields})


def test_doctests():
    result = doctest.testmod(module)
    assert result.attempted > 10 and result.failed == 0


def test_every_silicon_record():
    for config, element in records():
        read = described(config).addresses(64, 16, 16, "MN" if config["mn_major"] else "K")
        assert np.array_equal(read, element.astype(np.int64) * 2), config
    hold("matrix descriptor, addresses read", "H200", len(records()))


@pytest.mark.parametrize("fault", ["no base offset", "swizzle from the start", "lbo for sbo"])
def test_silicon_records_tell_a_wrong_rule(fault):
    """The records are strong enough to see each of these."""
    wrong = 0
    for config, element in records():
        desc = described(config)
        major = "MN" if config["mn_major"] else "K"
        if fault == "no base offset":
            read = SmemDescriptor(desc.start, desc.lbo, desc.sbo, desc.swizzle).addresses(64, 16, 16, major)
        elif fault == "swizzle from the start":
            read = SmemDescriptor(0, desc.lbo, desc.sbo, desc.swizzle, desc.base_offset).addresses(64, 16, 16, major)
            read = read + desc.start
        else:
            read = SmemDescriptor(desc.start, desc.sbo, desc.lbo, desc.swizzle, desc.base_offset).addresses(
                64, 16, 16, major
            )
        wrong += not np.array_equal(read, element.astype(np.int64) * 2)
    assert wrong >= 20


def canonical(swizzle, major, bits, lbo, sbo, mn, k):
    """CUTLASS's table of canonical layouts, written again from its comments: element offsets, then Swizzle<b,m,s> on
    bytes."""
    t = 128 // bits
    lead, stride = lbo * 8 // bits, sbo * 8 // bits
    w = {0: 1, 32: 2, 64: 4, 128: 8, "128_32b": 8}[swizzle]
    r8 = 4 if swizzle == "128_32b" else 8
    out = np.zeros((mn, k), dtype=np.int64)
    for i, j in product(range(mn), range(k)):
        if major == "K":
            col = j // t * (lead if swizzle == 0 else t) + j % t
            off = i % 8 * w * t + i // 8 * stride + col
        elif swizzle == 0:
            off = i % t + i // t * stride + j % 8 * t + j // 8 * lead
        else:
            off = i % (w * t) + i // (w * t) * lead + j % r8 * w * t + j // r8 * stride
        byte = off * bits // 8
        b, m, s = {0: (0, 4, 3), 32: (1, 4, 3), 64: (2, 4, 3), 128: (3, 4, 3), "128_32b": (2, 5, 2)}[swizzle]
        out[i, j] = byte ^ (byte >> s & ((1 << b) - 1) << m)
    return out


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128, "128_32b"])
def test_canonical_layouts(swizzle, major, bits):
    if (swizzle, major) == ("128_32b", "K"):
        with pytest.raises(LayoutError, match="MN-major"):
            SmemDescriptor(0, 0, 1024, swizzle).addresses(64, 16, bits, major)
        return
    lbo, sbo = 8192, 1024
    desc = SmemDescriptor(0, lbo, sbo, swizzle)
    assert np.array_equal(
        desc.addresses(128, 256 // bits, bits, major), canonical(swizzle, major, bits, lbo, sbo, 128, 256 // bits)
    )


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_words_round_trip(arch):
    rng = np.random.default_rng(5)
    seen = 0
    for swizzle in (0, 32, 64, 128, "128_32b"):
        for _ in range(50):
            start, lbo, sbo = (int(x) * 16 for x in rng.integers(0, 1 << 14, 3))
            desc = SmemDescriptor(start, lbo, sbo, swizzle, int(rng.integers(8)))
            if arch == "sm_90" and swizzle == "128_32b":
                with pytest.raises(LayoutError, match="sm_100's alone"):
                    desc.encode(arch)
                continue
            assert SmemDescriptor.decode(desc.encode(arch), arch) == desc
            seen += 1
    assert seen >= 200


@pytest.mark.parametrize(
    "word, arch, why",
    [
        (0x4000004000000000, "sm_100", "0b001"),
        (0x4000404000000000, "sm_90", "46-48"),
        (0x6000404000000000, "sm_100", "swizzle"),
        (0x2000004000000000, "sm_90", "swizzle"),
        (0x4010404000000000, "sm_100", "absolute"),
        (0x4000404000004000, "sm_100", "no field"),
        (1 << 64, "sm_100", "64 bits"),
        (0, "sm_80", "sm_80"),
    ],
)
def test_words_no_architecture_defines(word, arch, why):
    with pytest.raises(LayoutError, match=why):
        SmemDescriptor.decode(word, arch)


@pytest.mark.parametrize(
    "fields, why",
    [
        (dict(start=8, lbo=0, sbo=1024, swizzle=128), r"start is 8 bytes.*>> 4"),
        (dict(start=0, lbo=0, sbo=1 << 18, swizzle=128), "sbo is 262144"),
        (dict(start=0, lbo=-16, sbo=0, swizzle=128), "lbo is -16"),
        (dict(start=0, lbo=0, sbo=1024, swizzle=96), "swizzle is 96"),
        (dict(start=0, lbo=0, sbo=1024, swizzle=128, base_offset=8), "base_offset is 8"),
    ],
)
def test_fields_no_word_holds(fields, why):
    with pytest.raises(LayoutError, match=why):
        SmemDescriptor(**fields)


def test_d1_k_major_steps():
    """D1: +2 units of 16 bytes inside 64 elements, +1024 units at the next 64; the SBO field is 64, LBO is not read."""
    m, k = np.indices((128, 128))
    byte = 2 * (m * 64 + k % 64 + k // 64 * 8192)  # S<3,4,3> o ((128,16),1,(4,2)):((64,1),0,(16,8192))
    byte ^= byte >> 3 & 0x70
    desc = SmemDescriptor(0, 0, 1024, 128)
    assert desc.encode("sm_100") >> 32 & 0x3FFF == 64
    steps = [i % 4 * 2 + i // 4 * 1024 for i in range(8)]
    read = np.concatenate([desc.stepped(16 * s).addresses(128, 16) for s in steps], axis=1)
    assert np.array_equal(read, byte)
    other_lbo = SmemDescriptor(0, 4096, 1024, 128)
    assert np.array_equal(other_lbo.addresses(128, 16), desc.addresses(128, 16))


def test_d2_field_and_bytes_mixed_up():
    """D2: a field of 1024 (16384 bytes) where 64 is right, and 64 bytes where 1024 is right."""
    desc = SmemDescriptor.decode(0x4000404000000000 & ~(0x3FFF << 32) | 1024 << 32, "sm_100")
    assert desc.sbo == 16384
    with pytest.raises(LayoutError, match=r"last byte.*sbo is 16384 bytes.*field of 1024.*bytes >> 4.*write 64"):
        desc.check(128, 16)
    with pytest.raises(LayoutError, match=r"both read at byte.*sbo is 64 bytes.*bytes >> 4.*sbo is 1024"):
        SmemDescriptor(0, 0, 64, 128).check(128, 16)
    assert SmemDescriptor(0, 0, 1024, 128).check(128, 16).size == 128 * 16


@pytest.mark.parametrize("swizzle, k", [(32, 16), (64, 32), (128, 64), (0, 8)])
def test_d3_atoms(swizzle, k):
    """D3: the K-major 16-bit atoms (8,16):(16,1), (8,32):(32,1), (8,64):(64,1), (8,8):(8,1), before their swizzle."""
    r, c = np.indices((8, k))
    byte = 2 * (r * k + c)
    bits = {0: 0, 32: 1, 64: 2, 128: 3}[swizzle]
    byte ^= (byte >> 7 & (1 << bits) - 1) << 4
    assert np.array_equal(SmemDescriptor(0, 0, 0, swizzle).addresses(8, k), byte)


def test_d5_mn_major_b():
    """D5: (((64,2),16),1,4,2):(((1,4096),64),0,1024,8192), SW128 on bytes: LBO field 512, SBO field 64, K step 128
    units."""
    desc = SmemDescriptor(0, 512 * 16, 64 * 16, 128)
    n, k = np.indices((128, 64))
    byte = 2 * (n % 64 + n // 64 * 4096 + k * 64)
    byte ^= byte >> 3 & 0x70
    read = np.concatenate([desc.stepped(128 * 16 * i).addresses(128, 16, 16, "MN") for i in range(4)], axis=1)
    assert np.array_equal(read, byte)


def test_six_bit_elements_are_padded():
    desc = SmemDescriptor(0, 128, 256, 0)
    bits = desc.bit_addresses(8, 32, 6, padded=True)
    assert np.array_equal(bits[0], [k % 16 * 6 + k // 16 * 1024 for k in range(32)])
    with pytest.raises(LayoutError, match="padded"):
        desc.addresses(8, 32, 6)
    with pytest.raises(LayoutError, match="12-bit"):
        desc.addresses(8, 32, 12)


def test_k_beyond_the_atom():
    with pytest.raises(LayoutError, match="160 bytes along K leave the 128-byte"):
        SmemDescriptor(0, 0, 1024, 128).addresses(8, 80)
