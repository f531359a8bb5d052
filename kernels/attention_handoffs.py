"""Who hands what to whom in the attention kernel: every tile, its writer, where it lies, its reader.

    layoutlab verify kernels/attention_handoffs.py --set head_dim=64

    sQ, sK, sV   TMA writes shared memory, the MMAs read it by descriptor: A and B K-major, V MN-major
    tS           the QK MMA writes its accumulator, softmax thread m takes row m
    tP or sP     softmax thread m writes row m of P, to S's columns or to shared memory; the PV MMA reads operand A
    oRescale     correction thread m takes row m of O and puts it back; the PV MMA accumulates onto it
    tO           the PV MMA writes its accumulator, correction thread m takes row m for the epilogue
    epilogue     correction thread m writes row m of O to sO, by sub-tiles; TMA reads it
    store        TMA writes O to global memory

Each is a function of the kernel's settings; `attention_handoffs(config)` gives those of one configuration. Nothing here
imports CuTe DSL: the maps are the instructions', the numbers are the configuration's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from layoutlab import catalogue
from layoutlab.atoms.datapath import columns_of, pointer_step
from layoutlab.handoff import (
    Handoff,
    Tile,
    handoff,
    tcgen05_ld,
    tmem,
    tmem_store,
    umma_a_tmem,
    umma_out,
)
from layoutlab.kernels.attention_config import EPILOGUE_COLUMNS, ROWS, SLOTS, AttentionConfig, DType, Route

Mistake = Callable[[AttentionConfig, "Slot"], dict[str, Handoff]]
HeadDim = Literal[64, 128, 256]
Slot = Literal[0, 1]
PFault = Literal["none", "p_offset_forgotten", "p_offset_in_columns"]

BITS = 16
CORRECTION_WARP = 4
ATOM = "32x32b.x32"
"""Both the softmax warps' and the correction warps' load and store."""

STORES = {"vector": "tiled_copy_d", "coordinate": "coordinate", "composition": "composition"}
"""The kernel's routes of P to shared memory by the catalogue's names."""


@handoff
def sQ(head_dim: HeadDim = 128, dtype: DType = "bf16", base: int = 0) -> Handoff:
    """TMA loads 128 queries; the QK MMA reads them as operand A."""
    return catalogue.sQ(head_dim=head_dim, dtype=dtype, base=base)


@handoff
def sK(head_dim: HeadDim = 128, dtype: DType = "bf16", slot: Slot = 0, base: int = 0) -> Handoff:
    """TMA loads a tile of keys; the QK MMA reads it as operand B, K-major."""
    config = AttentionConfig(head_dim=head_dim, dtype=dtype)
    return catalogue.sK(kv=config.kv_tile, head_dim=head_dim, dtype=dtype, slot=slot, base=base)


@handoff
def sV(head_dim: HeadDim = 128, dtype: DType = "bf16", slot: Slot = 0, base: int = 0) -> Handoff:
    """TMA loads a tile of values; the PV MMA reads it as operand B, MN-major."""
    config = AttentionConfig(head_dim=head_dim, dtype=dtype)
    return catalogue.sV(kv=config.kv_tile, head_dim=head_dim, dtype=dtype, slot=slot, base=base)


@handoff
def tS(head_dim: HeadDim = 128, slot: Slot = 0) -> Handoff:
    """The QK MMA writes S; softmax thread m takes row m."""
    kv = AttentionConfig(head_dim=head_dim).kv_tile
    S = Tile("S", m=ROWS, n=kv, bits=32)
    return Handoff(
        S,
        writer=umma_out(tmem(over=S, column=slot * kv)),
        reader=tcgen05_ld(ATOM).takes(S, column=slot * kv),
        live={f"S{1 - slot}": range((1 - slot) * kv, (2 - slot) * kv), "O": range(SLOTS * kv, SLOTS * kv + head_dim)},
    )


@handoff
def tP(head_dim: HeadDim = 128, slot: Slot = 0, tmem_p0_offset: int = 32, fault: PFault = "none") -> Handoff:
    """Softmax thread m writes row m of P into S's columns; the PV MMA reads it as operand A."""
    config = AttentionConfig(head_dim=head_dim, p="tmem", tmem_p0_offset=tmem_p0_offset, fault=fault)
    P = Tile("P", m=ROWS, k=config.kv_tile, bits=BITS)
    first = slot * config.kv_tile
    step = {  # elements of P, as the operand's pointer counts
        "none": pointer_step(tmem_p0_offset, BITS),
        "p_offset_forgotten": 0,
        "p_offset_in_columns": tmem_p0_offset,
    }[fault]
    buffers = config.tmem_buffers()
    return Handoff(
        P,
        writer=tmem_store(tcgen05_ld(ATOM).over(P), tmem(over=P, column=first + tmem_p0_offset), ATOM),
        reader=umma_a_tmem(P, column=first + columns_of(step, BITS)),
        live=buffers.ranges(f"S{slot}", *(f"P{i}" for i in range(SLOTS))),
        around={f"S{slot}": range(first, first + config.kv_tile)},
    )


@handoff
def sP(head_dim: HeadDim = 128, dtype: DType = "bf16", route: Route = "vector", base: int = 0) -> Handoff:
    """Softmax thread m writes row m of P to shared memory; the PV MMA reads it as operand A."""
    kv = AttentionConfig(head_dim=head_dim, dtype=dtype, p="smem", route=route).kv_tile
    return catalogue.sP(store=STORES[route], kv=kv, head_dim=head_dim, dtype=dtype, load="x32", base=base)


@handoff
def oRescale(head_dim: HeadDim = 128) -> Handoff:
    """Correction thread m scales row m of O in Tensor Memory; the PV MMA accumulates onto it."""
    column = SLOTS * AttentionConfig(head_dim=head_dim).kv_tile
    return catalogue.oRescale(
        head_dim=head_dim, column=column, store_column=column, load=ATOM, store=ATOM, first_warp=CORRECTION_WARP
    )


@handoff
def tO(head_dim: HeadDim = 128) -> Handoff:
    """The PV MMA writes O; correction thread m takes row m, a sub-tile at a time."""
    column = SLOTS * AttentionConfig(head_dim=head_dim).kv_tile
    O = Tile("O", m=ROWS, n=head_dim, bits=32)  # noqa: E741
    load = tcgen05_ld(f"32x32b.x{EPILOGUE_COLUMNS}")
    return Handoff(
        O,
        writer=umma_out(tmem(over=O, column=column)),
        reader=load.takes(O, column=column, first_warp=CORRECTION_WARP),
        live={"S": range(0, column)},
    )


@handoff
def epilogue(head_dim: HeadDim = 128, dtype: DType = "bf16") -> Handoff:
    """Correction thread m writes row m of O to sO, 64 columns at a time; TMA reads it."""
    return catalogue.epilogue(n=head_dim, epi_n=EPILOGUE_COLUMNS, dtype=dtype, first_warp=CORRECTION_WARP)


@handoff
def store(head_dim: HeadDim = 128, heads: int = 1, rows: int = ROWS, base: int = 0) -> Handoff:
    """TMA writes a tile of O, (batch, seq, heads, head_dim) in memory; the caller reads it there. `rows` are inside."""
    return catalogue.store(head_dim=head_dim, heads=heads, rows=rows, base=base)


def attention_handoffs(config: AttentionConfig, slot: Slot = 0) -> dict[str, Handoff]:
    """Every handoff of the kernel in this configuration, its planted fault included.

    >>> from layoutlab import verify
    >>> made = attention_handoffs(AttentionConfig(head_dim=64))
    >>> [name for name, h in made.items() if verify(h).proved]
    ['sQ', 'sK', 'sV', 'tS', 'tP', 'oRescale', 'tO', 'epilogue', 'store']

    A fault of time, `early_release`, is none of a handoff's.
    """
    typed = {"head_dim": config.head_dim, "dtype": config.dtype}
    if config.p == "tmem":
        fault = config.fault if config.fault.startswith("p_offset") else "none"
        p = tP(head_dim=config.head_dim, slot=slot, tmem_p0_offset=config.tmem_p0_offset, fault=fault)
    else:
        p = sP(**typed, route=config.route)
    made = [
        sQ(**typed),
        sK(**typed, slot=slot),
        sV(**typed, slot=slot),
        tS(head_dim=config.head_dim, slot=slot),
        p,
        oRescale(head_dim=config.head_dim),
        tO(head_dim=config.head_dim),
        epilogue(**typed),
        store(head_dim=config.head_dim),
    ]
    found = {h.name: h for h in made}
    if config.fault in MISTAKES:
        found |= MISTAKES[config.fault](config, slot)
    return found


def _mistake(name: str, **settings: Any) -> Mistake:
    """One handoff by the catalogue's function, which has its mistakes as settings."""

    def made(config: AttentionConfig, slot: Slot) -> dict[str, Handoff]:
        kv = {} if name == "sQ" else {"kv": config.kv_tile, "slot": slot}
        return {name: catalogue.named(name)(head_dim=config.head_dim, dtype=config.dtype, **kv, **settings)}

    return made


def _rescale(config: AttentionConfig, slot: Slot) -> dict[str, Handoff]:
    column, shifted = SLOTS * config.kv_tile, config.fault == "rescale_shifted"
    put = {"store_column": column + config.head_dim * shifted, "store": ATOM if shifted else "16x64b.x16"}
    return {"oRescale": catalogue.oRescale(head_dim=config.head_dim, column=column, first_warp=CORRECTION_WARP, **put)}


def _epilogue(config: AttentionConfig, slot: Slot) -> dict[str, Handoff]:
    how = {"tma_swizzle": "none"} if config.fault == "o_unswizzled" else {"store_as": "16x256b.x4", "bits": 32}
    typed = {"n": config.head_dim, "epi_n": EPILOGUE_COLUMNS, "dtype": config.dtype, "first_warp": CORRECTION_WARP}
    return {"epilogue": catalogue.epilogue(**typed, **how)}


def _store(config: AttentionConfig, slot: Slot) -> dict[str, Handoff]:
    return {"store": catalogue.store(head_dim=config.head_dim, dtype=config.dtype, order="heads")}


MISTAKES: dict[str, Mistake] = {
    **{f"{name[1].lower()}_unswizzled": _mistake(name, tma_swizzle="none") for name in ("sQ", "sK", "sV")},
    **{f"{name[1].lower()}_steps": _mistake(name, k_step="always_32_bytes") for name in ("sQ", "sK", "sV")},
    "rescale_shifted": _rescale,
    "rescale_unpaired": _rescale,
    "o_unswizzled": _epilogue,
    "epilogue_unpaired": _epilogue,
    "o_heads_first": _store,
}
"""The handoff that each planted fault makes wrong; P's in Tensor Memory is a setting of tP."""
