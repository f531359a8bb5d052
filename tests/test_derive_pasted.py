"""What `derive` prints, pasted: executed in CuTe DSL, compiled, replayed, and held against the reader's map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pasted import loaded_image, module_of, shared_image, tensor_image

from layoutlab.catalogue import CATALOGUE
from layoutlab.derive import Derived, derive
from layoutlab.derive.report import report
from layoutlab.handoff import Handoff
from layoutlab.handoff.storage import Smem


def owned_tags(h: Handoff) -> tuple[Any, Any]:
    """[t, v] -> the element's number, and each coordinate; numbers wrap in narrow types, the pattern does not repeat."""
    axes = h.writer.owner.places.axes
    t, v = np.meshgrid(np.arange(axes["t"]), np.arange(axes["v"]), indexing="ij")
    where = h.writer.owner.places.at(t=t, v=v)
    return numbered(h, where), where


def numbered(h: Handoff, where: dict[str, Any], by: int = 0) -> Any:
    """An element's number, of which narrow types hold a part: `by` says which."""
    total, weight = 0, 1
    for axis, extent in h.tile.extents.items():
        total, weight = total + where[axis] * weight, weight * extent
    return total >> 7 * by & 0x7F if h.tile.bits == 8 else total & 0x7FFF if h.tile.bits == 16 else total


def parts(h: Handoff) -> range:
    """Narrow types hold an element's number in two parts."""
    return range(2) if h.tile.bits == 8 else range(1)


def all_coordinates(h: Handoff) -> dict[str, Any]:
    grids = np.meshgrid(*(np.arange(e) for e in h.tile.extents.values()), indexing="ij")
    return dict(zip(h.tile.extents, grids, strict=True))


def misplaced(h: Handoff, store: Any) -> tuple[int, set[str]]:
    """How many elements do not lie where the reader reads them, after the pasted store ran; and what stored them."""
    every, found, opcodes = all_coordinates(h), 0, set[str]()
    _, where = owned_tags(h)
    at = h.reader.read.at(**every)["bit"] // h.tile.bits
    base = int(at.min()) * h.tile.bits // 8
    storage = h.writer.storage
    assert isinstance(storage, Smem)
    start = storage.base_bytes
    for part in parts(h):
        tags = numbered(h, where, part)
        image, used = shared_image(store, tags, h.tile.bits, storage.bytes + 1024, start)
        found += int((image[at] != numbered(h, every, part)).sum())
        opcodes |= used
    assert base >= start
    return found, opcodes


SHARED: list[tuple[str, dict[str, Any]]] = [
    *[("sP", {"kv": kv, "load": load}) for kv in (64, 128, 256) for load in ("x16", "x32")],
    *[("sP", {"dtype": dtype, "kv": kv}) for dtype in ("f16", "e4m3") for kv in (64, 128)],
    ("sP", {"base": 16}),
    ("sP", {"base": 4224, "kv": 64}),
    ("sP90", {}),
    ("sP90", {"dtype": "e4m3", "kv": 64}),
    ("epilogue", {"n": 96}),
    ("epilogue", {"n": 128, "load": "16x256b.x4"}),
    ("epilogue", {"n": 64, "load": "16x256b.x2", "dtype": "f32"}),
    ("ldsm", {"operand": "A"}),
    ("ldsm", {"operand": "B", "k": 32}),
    ("ldsm", {"operand": "B_trans"}),
]


def derived(name: str, settings: dict[str, Any], tmp_path: Path) -> tuple[Derived, Any]:
    found = derive(CATALOGUE[name](**settings))
    assert found.verdict == "derived", found.refusals
    return found, module_of(report(found), tmp_path)


@pytest.mark.parametrize(("name", "settings"), SHARED, ids=str)
def test_pasted_stores_put_every_element_where_it_is_read(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found, pasted = derived(name, settings, tmp_path)
    assert len(found.pieces) >= 2
    for piece in found.pieces:
        kind = {"cotiled_copy": "copy"}.get(piece.form, piece.form)
        wrong, opcodes = misplaced(piece.handoff, getattr(pasted, f"store_{found.handoff.tile.name}_by_{kind}"))
        assert wrong == 0, (piece.form, wrong)
        if piece.form == "stmatrix":
            assert any(
                op.startswith(f"stmatrix.sync.aligned.m8n8.{piece.facts['instruction'][9:11]}") for op in opcodes
            )
        if piece.form == "cotiled_copy" and piece.facts["bits"] == 128:
            assert "st.shared.v4.b32" in opcodes


TENSOR: list[tuple[str, dict[str, Any]]] = [
    ("tP", {}),
    ("tP", {"kv": 64, "dtype": "e4m3", "p_offset": 16, "read_offset": 16}),
    ("tP", {"load": "16x256b.x4"}),
    ("tP", {"load": "32x32b.x16", "slot": 1}),
    ("oRescale", {"head_dim": 64}),
    ("oRescale", {"load": "16x64b.x16", "factors": "row", "head_dim": 64}),
]


@pytest.mark.parametrize(("name", "settings"), TENSOR, ids=str)
def test_pasted_stores_to_tensor_memory(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found, pasted = derived(name, settings, tmp_path)
    h, every = found.handoff, all_coordinates(found.handoff)
    read = h.reader.read.at(**every)
    for part in parts(h):
        _, where = owned_tags(h)
        image = tensor_image(getattr(pasted, f"store_{h.tile.name}_to_tmem"), numbered(h, where, part), h.tile.bits)
        assert np.array_equal(image[read["lane"], read["bit"] // h.tile.bits], numbered(h, every, part))


LOADED: list[tuple[str, dict[str, Any]]] = [
    *[("sQ", {"head_dim": d, "dtype": dtype}) for d in (64, 128) for dtype in ("bf16", "e4m3")],
    ("sK", {"kv": 64, "head_dim": 256}),
    ("sV", {"head_dim": 128, "kv": 64}),
    ("sV", {"head_dim": 64, "dtype": "e4m3"}),
]


@pytest.mark.parametrize(("name", "settings"), LOADED, ids=str)
def test_pasted_loads_by_tma(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found, pasted = derived(name, settings, tmp_path)
    (piece,), h = found.pieces, found.handoff
    every = all_coordinates(h)
    at = h.reader.read.at(**every)["bit"] // h.tile.bits
    inner = list(h.tile.extents).index(next(iter(piece.facts["box"])))
    for part in parts(h):
        tags = numbered(h, every, part)
        image, tensor_map = loaded_image(
            pasted, h.tile.name, tags, inner, h.tile.bits, h.tile.size * h.tile.bits // 8, 0
        )
        assert np.array_equal(image[at], tags)
    assert tensor_map is not None
