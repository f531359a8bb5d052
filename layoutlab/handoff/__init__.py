"""Handoffs: a tile, who writes it, where it lies, who reads it, and whether the two agree.

>>> P = Tile("P", m=128, k=128, bits=16)
>>> sP = smem("S<3,4,3> o 0 o ((128,16),1,(4,2)):((64,1),0,(16,8192))", over=P, align_bytes=1024)
>>> desc = SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
>>> reader = umma_a(desc, P, starts_bytes=[k % 4 * 32 + k // 4 * 16384 for k in range(8)])
>>> verify(Handoff(P, writer=store(tcgen05_ld("32x32b.x32").over(P), sP, bits=16), reader=reader)).proved
True
"""

from __future__ import annotations

from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.handoff.boxes import tma_load, tma_store, tma_write
from layoutlab.handoff.core import (
    Case,
    Handoff,
    HandoffFunction,
    assert_inside,
    assert_legal,
    assert_placed,
    assert_proved,
    handoff,
    verify,
)
from layoutlab.handoff.matrices import ldmatrix, stmatrix
from layoutlab.handoff.reader import Reader, declared, umma_a, umma_a_tmem, umma_b, umma_d, wgmma_a
from layoutlab.handoff.registers import Rmem, from_registers, keep
from layoutlab.handoff.settings import MultipleOf
from layoutlab.handoff.storage import Gmem, Smem, Tmem, gmem, smem, tmem
from layoutlab.handoff.tensor_memory import tcgen05_ld, tmem_store, umma_out
from layoutlab.handoff.tile import Tile
from layoutlab.handoff.verdict import Claim, Location, Refuted, Verdict, Witness
from layoutlab.handoff.writer import Owner, Writer, owned, store, wgmma_c

__all__ = [
    "Case",
    "Claim",
    "Gmem",
    "Handoff",
    "HandoffFunction",
    "Location",
    "MultipleOf",
    "Owner",
    "Reader",
    "Refuted",
    "Rmem",
    "Smem",
    "SmemDescriptor",
    "Tile",
    "Tmem",
    "Verdict",
    "Witness",
    "Writer",
    "assert_inside",
    "assert_legal",
    "assert_placed",
    "assert_proved",
    "declared",
    "from_registers",
    "gmem",
    "handoff",
    "keep",
    "ldmatrix",
    "owned",
    "smem",
    "stmatrix",
    "store",
    "tcgen05_ld",
    "tma_load",
    "tma_store",
    "tma_write",
    "tmem",
    "tmem_store",
    "umma_a",
    "umma_a_tmem",
    "umma_b",
    "umma_d",
    "umma_out",
    "verify",
    "wgmma_a",
    "wgmma_c",
]
