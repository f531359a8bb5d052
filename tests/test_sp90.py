"""sP90, P handed over on SM90: the model against CuTe DSL's trace of the kernel, and every setting's verdict."""

from __future__ import annotations

import doctest
import itertools
import re

import pytest

import layoutlab as ll
from layoutlab.catalogue import named, sp90
from layoutlab.cost import store_accesses
from layoutlab.errors import LayoutError
from layoutlab.handoff import Tile, verify, wgmma_a, wgmma_c
from layoutlab.handoff.operand import SmemOperand

sP90 = named("sP90")
ROUTES = ("coordinate", "composition", "tiled_copy", "stmatrix")


def traced(**values):
    """What the kernel's layouts are while CuTe DSL compiles it: text, and the coordinates of the watched threads."""
    import cutlass.cute as cute

    from layoutlab.kernels.p_handoff_sm90 import compile_kernel
    from layoutlab.kernels.p_settings_sm90 import PSettings90

    seen = {}

    def note(**named):
        for name, thing in named.items():
            if isinstance(thing, list):
                seen[name] = [[tuple(map(int, t[v])) for v in range(cute.size(t))] for t in thing]
            else:
                seen[name] = str(thing)

    compile_kernel(PSettings90(**values), note)
    return seen


@pytest.mark.parametrize(
    "values",
    [
        {"store": "tiled_copy"},
        {"store": "stmatrix", "kv": 256, "dtype": "f16"},
        {"store": "composition", "dtype": "e4m3", "kv": 64},
        {"store": "composition_raw"},
    ],
    ids=str,
)
def test_the_model_is_the_trace(values):
    """Owner, storage and the copy's places, for the threads that the kernel notes."""
    from layoutlab.kernels.p_handoff_sm90 import WATCHED_THREADS

    seen, model = traced(**values), sP90(**values)
    owner, compared = model.writer.owner.places, 0
    accesses = store_accesses(model.writer, "stmatrix.x4" if values["store"] == "stmatrix" else "store")
    for thread, coordinates in zip(WATCHED_THREADS, seen["tScS_threads"], strict=True):
        for v, (m, k) in enumerate(coordinates):
            assert owner.at(t=thread, v=v) == {"m": m, "k": k}
            compared += 1
    assert compared == 5 * model.tile.size // 256
    for thread, coordinates in zip(WATCHED_THREADS, seen["tRS_cP"], strict=True):
        places = [model.writer.storage.places.at(m=m, k=k)["bit"] for m, k in coordinates]
        if values["store"] == "stmatrix":  # a thread's destination is the row of a matrix that it points to
            mine = range(thread // 32 * len(places) // 8, (thread // 32 + 1) * len(places) // 8)
            rows = [8 * accesses[i].addresses[thread % 32] for i in mine]
            assert rows == places[::8]
        else:
            assert [model.writer.write.at(t=thread, v=v)["bit"] for v in range(len(places))] == places
    printed = ll.parse(re.sub(r"^S<.*?> o 0 o ", "", seen["sP_layout"]))
    operand = SmemOperand(128, model.tile.shape[1], model.tile.bits)
    assert seen["sP_layout"].startswith(str(operand.swizzle).split("[")[0])
    flat = ll.Layout(model.tile.shape)
    assert all(printed(i) == operand.matrix()(i) for i in range(0, flat.size(), 37))


def test_every_right_combination_is_proved():
    proved = 0
    for store, dtype, kv in itertools.product(ROUTES, ("bf16", "f16", "e4m3", "e5m2"), (64, 128, 256)):
        if store == "stmatrix" and dtype in ("e4m3", "e5m2"):
            with pytest.raises(LayoutError, match="two 16-bit neighbours"):
                sP90(store=store, dtype=dtype)
            continue
        for base in (0, 16, 528):
            assert verify(sP90(store=store, dtype=dtype, kv=kv, base=base)).proved
            proved += 1
    assert proved == 126


@pytest.mark.parametrize(
    "values, said",
    [
        ({"store": "composition_raw"}, "T0 V1 (m=0, k=1) writes byte 144; the wgmma reads that element at byte 2"),
        ({"write_swizzle": "none"}, "T4 V0 (m=1, k=0) writes byte 128; the wgmma reads that element at byte 144"),
        ({"write_swizzle": "elements"}, "T0 V2 (m=8, k=0) writes byte 1152; the wgmma reads that element at byte 1024"),
        ({"write_swizzle": "relative", "base": 512}, "T0 V0 (m=0, k=0) writes byte 512"),
        ({"k_order": "021"}, "T0 V8 (m=0, k=16) writes byte 16384; the wgmma reads that element at byte 32"),
    ],
    ids=str,
)
def test_planted_faults_are_refuted(values, said):
    """These five are what an H200 showed too: tests/test_device_records.py."""
    witness = verify(sP90(**values))["placed"].witness
    assert witness is not None and said in witness.message


def test_relative_offsets_at_an_aligned_base_and_elements_of_a_byte_are_right():
    assert verify(sP90(write_swizzle="relative", base=1024)).proved
    assert verify(sP90(write_swizzle="elements", dtype="e4m3")).proved


def test_wgmma_rules():
    tile = Tile("P", m=96, k=64, bits=16)
    desc = SmemOperand(96, 64, 16).descriptor()
    rules = wgmma_a(desc, tile, starts_bytes=SmemOperand(96, 64, 16).starts_bytes).rules()
    (fault,) = [rule.fault for rule in rules if rule.fault]
    assert "has 96 rows, and a wgmma takes 64" in fault
    with pytest.raises(LayoutError, match="no whole number of warpgroups' 64"):
        wgmma_c("bf16").over(tile)
    with pytest.raises(LayoutError, match="8-bit operands K-major only"):
        wgmma_a(desc, Tile("P", m=64, k=64, bits=8), starts_bytes=[0, 32], major="MN")


def test_the_template_verifies(tmp_path):
    from layoutlab.catalogue.files import handoffs_of, load
    from layoutlab.handoff.template import template

    file = tmp_path / "mine.py"
    file.write_text(template(sP90(store="stmatrix")))
    (function,) = handoffs_of(load(file)).values()
    assert verify(function()).proved


def test_examples():
    import layoutlab.device
    from layoutlab.device import bundle, runner
    from layoutlab.handoff import reader, writer
    from layoutlab.kernels import p_settings_sm90

    tried = 0
    for module in (sp90, bundle, runner, layoutlab.device, reader, writer, p_settings_sm90):
        result = doctest.testmod(module)
        assert result.failed == 0
        tried += result.attempted
    assert tried > 12
