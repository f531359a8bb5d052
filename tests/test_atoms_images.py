"""Shared-memory images that compiled CuTe DSL kernels wrote on an H200, against swizzled layouts and descriptors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.witnesses import hold

DATA = Path(__file__).parent / "data"
RECORDS = json.loads((DATA / "smem_images_h200.json").read_text())["records"]


@pytest.fixture(scope="module")
def arrays():
    with np.load(DATA / "smem_images_h200.npz") as stored:
        return dict(stored)


def written_at(facts, swizzle):
    """[row, column] -> element of the raw image."""
    rows, columns = facts["rows"], facts["columns"]
    tile = ComposedLayout(swizzle, 0, Layout((rows, columns), (columns, 1)), element_bits=facts["bits"])
    r, c = np.indices((rows, columns))
    return tile(r + rows * c)


@pytest.mark.parametrize("name", RECORDS)
def test_swizzled_layouts_on_silicon(name, arrays):
    facts, source, image = RECORDS[name], arrays[f"{name}/source"], arrays[f"{name}/image"].ravel()
    at = written_at(facts, Swizzle(facts["swizzle"], 4, 3, unit_bits=8))
    assert np.array_equal(image[at], source)
    assert not np.array_equal(source, np.full_like(source, 0x7E))
    if facts["swizzle"]:  # the same digits counted in wider units are another function
        other = written_at(facts, Swizzle(facts["swizzle"], 4, 3, unit_bits=max(facts["bits"], 16)))
        assert not np.array_equal(image[other], source)


@pytest.mark.parametrize("name", RECORDS)
def test_descriptors_read_those_images(name, arrays):
    """Element (m, k) is where the K-major descriptor of the same swizzle reads it."""
    facts, source = RECORDS[name], arrays[f"{name}/source"]
    width = facts["columns"] * facts["bits"] // 8
    desc = SmemDescriptor(0, 0, 8 * width, 0 if width == 16 else width)
    if width == 16:
        desc = SmemDescriptor(0, 0, 128, 0)
    per_step = min(facts["columns"], 256 // facts["bits"])
    steps = [desc.stepped(32 * i) for i in range(facts["columns"] // per_step)]
    read = np.concatenate([d.addresses(facts["rows"], per_step, facts["bits"]) for d in steps], axis=1)
    image = arrays[f"{name}/image"].ravel()
    assert np.array_equal(image[read * 8 // facts["bits"]], source)


def test_every_way_and_width_is_recorded():
    ways = {(name.split(".")[0], f["bits"], f["swizzle"]) for name, f in RECORDS.items()}
    hold("swizzled shared memory, written", "H200", len(RECORDS))
    assert ways == {("threads", w, b) for w in (8, 16, 32) for b in range(4)} | {("stmatrix", 16, b) for b in (1, 2, 3)}
