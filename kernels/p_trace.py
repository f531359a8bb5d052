"""What a compile of the P handoff kernel says about its layouts: text as CuTe DSL prints it, and where each came from.

`trace` runs in a worker process (layoutlab.cutedsl.worker). Under CUTE_DSL_DRYRUN=1 it stops after tracing; with
`ptx=True` (and no dry run) it compiles, and the descriptors that the MMAs are issued with are read off the PTX.
"""

from __future__ import annotations

from typing import Any

import cutlass

from layoutlab.cutedsl.ptx_text import mma_descriptors, shared_stores
from layoutlab.kernels.p_handoff import WATCHED_THREADS, compile_kernel
from layoutlab.kernels.p_settings import PSettings

PROVENANCE = {
    "storage.layout": "sm100.make_smem_layout_a(pv_mma, (128, head_dim, kv), dtype, 1)",
    "storage.tensor": "sP, which pv_mma.make_fragment_A reads",
    "storage.element_bits": "dtype.width",
    "storage.buffer": "p_buffer, the pointer to the allocation that holds sP",
    "storage.base_bytes": "the setting base: where sP starts in that buffer",
    "owner.tv": "tmem_load.layout_dst_tv_tiled, tmem_load = tcgen05.make_tmem_copy(Ld32x32bOp, tStS)",
    "owner.tiler": "tmem_load.tiler_mn, in the accumulator's profile ((M,N),1,1)",
    "owner.copy": "tmem_load",
    "owner.coordinates": "tTMEM_LOADcS = tmem_load.get_slice(row).partition_D(tScS), row being dynamic",
    "owner.threads": "the same for rows that are numbers",
    "owner.tmem": "tTMEM_LOADtS = tmem_load.get_slice(row).partition_S(tStS)",
    "owner.first_thread": "the thread whose row is 0",
    "writer.tensor": "sP_write, the tensor that the store goes through",
    "writer.stored": "for each value of a thread, the coordinate (k0, 0, (k1,k2), stage) assigned, m being the row",
    "writer.matrix": "sP_write seen as (m, k), the parts of k in the writer's order",
    "writer.route": "the setting store",
    "writer.copy": "tiled_store",
    "writer.tiler": "tiled_store.tiler_mn",
    "writer.tv": "tiled_store.layout_dst_tv_tiled",
    "writer.partition": "tRS_sP = tiled_store.get_slice(row).partition_D(sP_matrix)",
    "writer.registers": "tRS_rP, the registers in the order of tRS_sP",
    "writer.threads": "tiled_store.get_slice(row).partition_D(identity (m, k)) for rows that are numbers",
    "writer.p_coord": "the owner map (T,V) -> m + 128 k that the route is made from",
    "writer.offsets": "composition(sP_matrix, p_coord)",
    "writer.emitted": "a thread's stores to shared memory in the kernel's PTX, after V's and before the proxy fence",
    "reader.fragment": "tOrP.layout, tOrP = pv_mma.make_fragment_A(sP): steps of the descriptor in 16-byte units",
    "reader.mma": "pv_mma",
    "reader.accumulator": "tOtO",
    "reader.descriptors": "the constants added to (start >> 4) & 0x3fff in the kernel's PTX, one for each MMA",
}


def trace(settings: dict[str, Any], ptx: bool = False) -> dict[str, Any]:
    """The layouts of one variant as JSON: storage, owner, writer, reader, provenance, and the DSL's version."""
    chosen = PSettings.parse(settings)
    seen: dict[str, Any] = {}

    def note(**named: object) -> None:
        seen.update({name: printed(thing) for name, thing in named.items()})  # they cannot be printed after the compile

    compiled = compile_kernel(chosen, note)
    found = {
        "storage": storage(chosen, seen),
        "owner": owner(chosen, seen),
        "writer": writer(chosen, seen),
        "reader": {"fragment": seen["tOrP_layout"], "mma": seen["pv_mma"], "accumulator": seen["tOtO"]},
    }
    if ptx:
        text = compiled.artifacts.PTX
        found["reader"]["descriptors"] = [hex(mma.a_constant) for mma in mma_descriptors(text)]
        found["writer"]["emitted"] = shared_stores(text, "tcgen05.wait::st", "fence.proxy.async")
    named = {f"{part}.{name}" for part, values in found.items() for name in values}
    return {
        "dsl_version": cutlass.__version__,
        **found,
        "provenance": {name: text for name, text in PROVENANCE.items() if name in named},
    }


def printed(thing: object) -> Any:
    """A thing as the DSL prints it; lists and coordinates entry by entry, numbers as numbers."""
    if isinstance(thing, (list, tuple)):
        return [printed(entry) for entry in thing]
    return thing if isinstance(thing, int) else str(thing)


def storage(settings: PSettings, seen: dict[str, Any]) -> dict[str, Any]:
    """Where sP lies and how its layout is swizzled."""
    return {
        "layout": seen["sP_layout"],
        "tensor": seen["sP"],
        "element_bits": seen["element_bits"],
        "buffer": seen["p_buffer"],
        "base_bytes": settings.base,
    }


def owner(settings: PSettings, seen: dict[str, Any]) -> dict[str, Any]:
    """Which elements a thread holds after the TMEM load."""
    return {
        "tv": seen["tmem_load_tv"],
        "tiler": seen["tmem_load_tiler"],
        "copy": seen["tmem_load"],
        "coordinates": seen["tTMEM_LOADcS"],
        "threads": by_thread(seen["tTMEM_LOADcS_threads"]),
        "tmem": seen["tTMEM_LOADtS"],
        "first_thread": 32 * settings.first_warp,
    }


def writer(settings: PSettings, seen: dict[str, Any]) -> dict[str, Any]:
    """Where the route puts them."""
    found = {"route": settings.store, "tensor": seen["sP_write"]}
    if settings.store == "coordinate":
        return {**found, "stored": seen["stored"]}
    found |= {
        "matrix": seen["sP_matrix"],
        "copy": seen["tiled_store"],
        "tiler": seen["tiled_store_tiler"],
        "tv": seen["tiled_store_tv"],
        "threads": by_thread(seen["tRS_cP"]),
    }
    optional = {"partition": "tRS_sP", "registers": "tRS_rP", "p_coord": "p_coord", "offsets": "offsets"}
    return found | {name: seen[noted] for name, noted in optional.items() if noted in seen}


def by_thread(printed_partitions: list[str]) -> dict[str, str]:
    """The partitions of the watched rows, by row."""
    return {str(row): text for row, text in zip(WATCHED_THREADS, printed_partitions, strict=True)}
