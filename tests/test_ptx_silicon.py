# ruff: noqa: E501  (lines of PTX)
"""The machine against an H200: every recorded instruction, the same registers, bytes and descriptors in, the same out."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import kernel
from silicon import records

from layoutlab.ptx.isa.tcgen05 import MatrixDescriptor, element_bytes_at, operand_chunks
from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.run import run
from layoutlab.ptx.tma import TensorMap, encode_tensor_map

BASE = 1024  # where dynamic shared memory starts, on the device as in the machine
DESCRIPTOR_CODES = {0: 0, 32: 6, 64: 4, 128: 2}


def names(count, first=0, prefix="%r"):
    return "{" + ", ".join(f"{prefix}{first + i}" for i in range(count)) + "}"


def rows(threads, pointer, width, body=""):
    """%rd1 = the parameter + thread * width."""
    return f"  ld.param.u64 %rd1, [{pointer}]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, {width}, %rd1;\n"


def load_registers(pointer, count, first):
    lines = rows(32, pointer, 4 * count)
    return lines + "".join(f"  ld.global.b32 %r{first + i}, [%rd1+{4 * i}];\n" for i in range(count))


def store_registers(pointer, count, first):
    lines = rows(32, pointer, 4 * count)
    return lines + "".join(f"  st.global.b32 [%rd1+{4 * i}], %r{first + i};\n" for i in range(count))


def copy_image(words, threads, to_shared):
    """Every thread copies words t, t + threads, ... between the image and shared memory."""
    body = "  mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [image]; mad.wide.u32 %rd1, %r0, 4, %rd1;\n"
    body += "  mov.u32 %r2, smem; mad.lo.s32 %r2, %r0, 4, %r2; mov.u32 %r3, 0;\n"
    label = "IN" if to_shared else "OUT"
    body += f"{label}:\n"
    if to_shared:
        body += "  ld.global.b32 %r4, [%rd1]; st.shared.b32 [%r2], %r4;\n"
    else:
        body += "  ld.shared.b32 %r4, [%r2]; st.global.b32 [%rd1], %r4;\n"
    body += f"  add.s64 %rd1, %rd1, {4 * threads}; add.s32 %r2, %r2, {4 * threads}; add.s32 %r3, %r3, {threads};\n"
    return body + f"  setp.lt.u32 %p1, %r3, {words}; @%p1 bra {label};\n  bar.sync 0;\n"


def shared_kernel(params, body):
    text = kernel(params, body)
    return text.replace(".entry", ".extern .shared .align 1024 .b8 smem[];\n.entry", 1)


# -- mma.sync -----------------------------------------------------------------------------------------------------------

EMULATED = {"f16", "bf16", "tf32", "s8", "e4m3", "e5m2"}
MMA = [r for r in records("mma") if r[1]["ab"] in EMULATED and r[1]["m"] == 16]


def mma_result(facts, arrays):
    m, n, k, ab, cd = (facts[x] for x in ("m", "n", "k", "ab", "cd"))
    counts = [arrays[x].shape[1] for x in "ABC"]
    at = np.cumsum([10, *counts])
    body = "".join(load_registers(x, count, start) for x, count, start in zip("ABC", counts, at, strict=False))
    operands = ", ".join(names(count, start) for count, start in zip(counts, at, strict=False))
    body += f"  mma.sync.aligned.m{m}n{n}k{k}.row.col.{cd}.{ab}.{ab}.{cd} {names(counts[2], 60)}, {operands};\n"
    body += store_registers("D", counts[2], 60)
    out = np.zeros_like(arrays["C"]).view(np.uint32)
    given = [np.ascontiguousarray(arrays[x]).view(np.uint32) for x in "ABC"]
    run(kernel([(x, "u64") for x in "ABCD"], body), *given, out)
    return out


@pytest.mark.parametrize(("name", "facts", "arrays"), MMA, ids=[r[0] for r in MMA])
def test_mma(name, facts, arrays):
    assert (mma_result(facts, arrays) == np.ascontiguousarray(arrays["D"]).view(np.uint32)).all()


def test_every_emulated_mma_has_a_record():
    assert len(MMA) >= 13


# -- ldmatrix and stmatrix ----------------------------------------------------------------------------------------------

MATRICES = records("ldmatrix") + records("stmatrix")


def matrix_result(name, facts, arrays):
    x, load = facts["x"], name.startswith("ld")
    suffix = f"x{x}{'.trans' if facts['trans'] else ''}.shared.b16"
    body = copy_image(1024, 32, True) + load_registers("R", x, 10) + rows(32, "address", 4)
    body += "  ld.global.b32 %r5, [%rd1]; mov.u32 %r6, smem; add.u32 %r5, %r5, %r6;\n"
    if load:
        body += f"  ldmatrix.sync.aligned.m8n8.{suffix} {names(x, 10)}, [%r5];\n"
    else:
        body += f"  stmatrix.sync.aligned.m8n8.{suffix} [%r5], {names(x, 10)};\n"
    body += "  bar.sync 0;\n" + copy_image(1024, 32, False) + store_registers("R", x, 10)
    image, registers = arrays["image"].copy(), arrays["registers"].copy()
    text = shared_kernel([(p, "u64") for p in ("image", "address", "R")], body)
    run(text, image, arrays["address"].copy(), registers, shared_bytes=4096)
    return registers if load else image


@pytest.mark.parametrize(("name", "facts", "arrays"), MATRICES, ids=[r[0] for r in MATRICES])
def test_matrices(name, facts, arrays):
    assert (matrix_result(name, facts, arrays) == arrays["loaded" if name.startswith("ld") else "stored"]).all()


# -- wgmma --------------------------------------------------------------------------------------------------------------

WGMMA = records("wgmma")


def wgmma_result(facts, arrays):
    n, k, ab, cd, rs = (facts[x] for x in ("n", "k", "ab", "cd", "rs"))
    count = n // (4 if cd == "f16" else 2)
    flags = "" if cd == "s32" else ", 1, 1"
    if ab in ("f16", "bf16"):
        flags += f", {facts['mn_b']}" if rs else f", {facts['mn_a']}, {facts['mn_b']}"
    body = copy_image(8192, 128, True)
    body += load_registers("A", 4, 10) if rs else ""
    body += "  ld.param.u64 %rd2, [da]; ld.param.u64 %rd3, [db]; mov.u32 %r5, smem; shr.u32 %r5, %r5, 4;\n"
    body += "  cvt.u64.u32 %rd4, %r5; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4; setp.ne.b32 %p2, 0, 0;\n"
    body += "  fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;\n"
    a = names(4, 10) if rs else "%rd2"
    d = names(count, 20)
    body += f"  wgmma.mma_async.sync.aligned.m64n{n}k{k}.{cd}.{ab}.{ab} {d}, {a}, %rd3, %p2{flags};\n"
    body += "  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" + store_registers("D", count, 20)
    out = np.zeros((128, count), np.uint32)
    registers = arrays.get("A", np.zeros((128, 4), np.uint32)).copy()
    image = np.ascontiguousarray(arrays["image"]).view(np.uint32).copy()
    text = shared_kernel([(p, "u64") for p in ("image", "A", "da", "db", "D")], body).replace("sm_100a", "sm_90a")
    run(text, image, registers, facts["a"]["word"], facts["b"]["word"], out, block=(128, 1, 1), shared_bytes=32768)
    return out


def as_numbers(words, kind):
    if kind == "f16":
        return np.ascontiguousarray(words).view(np.float16).astype(np.float64)
    return np.ascontiguousarray(words).view({"f32": np.float32, "s32": np.int32}[kind]).astype(np.float64)


@pytest.mark.parametrize(("name", "facts", "arrays"), WGMMA, ids=[r[0] for r in WGMMA])
def test_wgmma(name, facts, arrays):
    ours, theirs = (as_numbers(x, facts["cd"]) for x in (wgmma_result(facts, arrays), arrays["D"]))
    assert (ours == theirs).all()  # the records hold small integers, so every sum is exact


# -- matrix descriptors -------------------------------------------------------------------------------------------------


def descriptor_records():
    import json
    from pathlib import Path

    data = Path(__file__).parent / "data"
    configs = json.loads((data / "wgmma_descriptors_h200.json").read_text())["configs"]
    with np.load(data / "wgmma_descriptors_h200.npz") as stored:
        return list(zip(configs, stored["element"], strict=True))


def descriptor_faults():
    """How many descriptors read another element anywhere than the device did."""
    wrong = 0
    for config, element in descriptor_records():
        code = DESCRIPTOR_CODES[config["swizzle"]]
        fields = (config["offset"], config["lbo"], config["sbo"], config["base_offset"], code)
        chunks = operand_chunks(MatrixDescriptor(*fields), 64, 32, 2, bool(config["mn_major"]))
        ours = element_bytes_at(chunks, 64, 16, 2, bool(config["mn_major"])) // 2
        wrong += bool((ours != element).any())
    return wrong


def test_descriptors():
    assert len(descriptor_records()) > 100
    assert descriptor_faults() == 0


# -- TMA ----------------------------------------------------------------------------------------------------------------

TMA = [(n, f, a) for n, f, a in records("tma") if not f["status"]]


def tma_result(facts, arrays):
    """The image after a load, or the tensor's bytes after a store."""
    rank, store = len(facts["dims"]), facts["store"]
    tensor = np.zeros(len(arrays["tensor"]) + 64, np.uint8)
    start = -tensor.ctypes.data % 64
    tensor = tensor[start : start + len(arrays["tensor"])]
    tensor[:] = arrays["tensor"]
    element = {1: "u8", 2: "u16", 4: "u32"}[facts["width"]]
    pitch = tuple(facts["pitch"])
    described = TensorMap(
        tensor.ctypes.data, element, facts["width"], tuple(facts["dims"]), pitch, tuple(facts["box"]),
        facts["swizzle"], element_strides=tuple(facts["steps"]),
    )  # fmt: skip
    place = ", ".join(str(c) for c in facts["coords"])
    map_at = "  mov.u64 %rd5, map; cvta.param.u64 %rd5, %rd5; mov.u32 %r8, smem; mov.u32 %r9, smem;\n"
    body = copy_image(4096, 32, True) + map_at + f"  add.u32 %r8, %r8, {facts['offset']}; add.u32 %r9, %r9, 16384;\n"
    body += "  setp.ne.u32 %p2, %r0, 0; @%p2 bra DONE;\n  mbarrier.init.shared::cta.b64 [%r9], 1;\n"
    if store:
        body += f"  cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd5, {{{place}}}], [%r8];\n"
        body += "  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
    else:
        body += f"  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], {described.box_bytes};\n"
        body += f"  cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
        body += f" [%r8], [%rd5, {{{place}}}], [%r9];\n"
        body += "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], 0; @!%p3 bra WAIT;\n"
    body += "DONE:\n  bar.sync 0;\n" + copy_image(4096, 32, False)
    image = np.ascontiguousarray(arrays["image"]).view(np.uint32).copy()
    text = shared_kernel([("map", "align 64 .b8"), ("buffer", "u64"), ("image", "u64")], body)
    text = text.replace(".b8 map", ".b8 map[128]")
    run(text, encode_tensor_map(described), tensor, image, shared_bytes=16448)
    return tensor if store else image.view(np.uint8)


@pytest.mark.parametrize(("name", "facts", "arrays"), TMA, ids=[r[0] for r in TMA])
def test_tma(name, facts, arrays):
    if facts["outcome"] == "illegal instruction":
        fake = {
            "tensor": np.zeros(facts["pitch"][-1] * facts["dims"][-1], np.uint8),
            "image": np.zeros(16384, np.uint8),
        }
        with pytest.raises(PtxError, match=r"multiple of 16|negative"):
            tma_result(facts, fake)
        return
    expected = arrays["stored" if facts["store"] else "loaded"]
    assert (tma_result(facts, arrays) == expected.view(np.uint8)).all()


# -- cp.async -----------------------------------------------------------------------------------------------------------

CP_ASYNC = records("cp_async")


def cp_async_result(facts, arrays):
    width = facts["width"]
    body = copy_image(256, 32, True) + rows(32, "sizes", 4) + "  ld.global.b32 %r5, [%rd1];\n" + rows(32, "to", 4)
    body += "  ld.global.b32 %r6, [%rd1]; mov.u32 %r7, smem; add.u32 %r6, %r6, %r7;\n" + rows(32, "source", width)
    cache = "cg" if width == 16 else "ca"
    body += f"  cp.async.{cache}.shared.global [%r6], [%rd1], {width}, %r5;\n"
    body += "  cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n" + copy_image(256, 32, False)
    image = np.ascontiguousarray(arrays["image"]).view(np.uint32).copy()
    text = shared_kernel([(p, "u64") for p in ("source", "sizes", "to", "image")], body)
    run(text, arrays["source"].copy(), arrays["sizes"].copy(), arrays["to"].copy(), image, shared_bytes=1024)
    return image.view(np.uint8)


@pytest.mark.parametrize(("name", "facts", "arrays"), CP_ASYNC, ids=[r[0] for r in CP_ASYNC])
def test_cp_async(name, facts, arrays):
    assert (cp_async_result(facts, arrays) == arrays["stored"].view(np.uint8)).all()
