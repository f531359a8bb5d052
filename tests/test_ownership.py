"""Ownership: threads that store what other threads loaded, told from the traced load and the store's owner."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import layoutlab as ll
from layoutlab.tracing.ownership import misplaced

D = ll.Tile("D", m=128, n=32, bits=16)
LOAD = {"registers": "((32,4),(32,1)):((4,1),(128,0))", "tiler": "((4,32):(32,1), 32:1)"}  # tcgen05.ld.32x32b.x32


def load(layout):
    return SimpleNamespace(tensor=f"tensor<ptr<f32, tmem, align<16>> o {layout}>", texts=LOAD)


def writer(owner):
    return ll.store(ll.owned(owner, D), ll.smem("(128,32):(32,1)", over=D), bits=16)


TENSORS = pytest.mark.parametrize(
    "tensor",
    [
        "(128,32):(65536,1)",
        "((128,32),1,1):((65536,1),0,0)",
        "(128,32,1,1):(65536,1,0,0)",
        "(128,32,1,4,2):(65536,1,0,32,128)",  # quack's GEMM: four sub-tiles of an epilogue, two stages
    ],
)


@TENSORS
def test_each_thread_stores_what_it_loaded(tensor):
    assert misplaced(load(tensor), writer("(128,32):(1,128)")) == ""


@TENSORS
def test_another_tiled_copy_is_found(tensor):
    said = misplaced(load(tensor), writer("((4,32),32):((32,1),128)"))
    assert said == "T1 stores (m=32, n=0), which T32 loaded from Tensor Memory"


def test_of_tiles_of_other_extents_nothing_is_said():
    assert misplaced(load("(128,64,1,4,2):(65536,1,0,64,256)"), writer("((4,32),32):((32,1),128)")) is None
