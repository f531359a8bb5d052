# ruff: noqa: E501  (lines of PTX)
"""Tensor memory and the SM100 tensor core, against the ISA's tables restated here and numpy products.

The operands are placed by the canonical layouts as the ISA prints them, shape by shape, and the registers are checked
against the layouts in CUTLASS's copy traits; neither is how the machine computes them.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from ptx_programs import kernel

from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.run import run

IMAGE = 65536
A_AT, B_AT = 0, 32768
SWIZZLE_CODE = {0: 0, 32: 6, 64: 4, 128: 2, "128 of 32": 1}
KINDS = {  # element type: kind, bytes, code of the instruction descriptor, dtype
    "f16": ("f16", 2, 0, np.float16), "bf16": ("f16", 2, 1, ml_dtypes.bfloat16), "tf32": ("tf32", 4, 2, np.float32),
    "e4m3": ("f8f6f4", 1, 0, ml_dtypes.float8_e4m3fn), "e5m2": ("f8f6f4", 1, 1, ml_dtypes.float8_e5m2),
    "s8": ("i8", 1, 1, np.int8), "u8": ("i8", 1, 0, np.uint8),
}  # fmt: skip


def evaluate(shape, stride, index):
    """A nested shape:stride at a flat index of each top-level mode, first digit fastest."""
    if isinstance(shape, int):
        return index * stride
    total = 0
    for s, d in zip(shape, stride, strict=True):
        size = s if isinstance(s, int) else int(np.prod(s))
        total += evaluate(s, d, index % size)
        index //= size
    return total


def canonical(mn, k, major, swizzle, element, leading, stride):
    """The byte of element (mn, k) by the ISA's canonical layouts (9.7.16.5), in elements; T = 16 bytes of them."""
    t = 16 // element
    lbo, sbo = leading // element, stride // element
    far = 1 << 20  # the open-ended last digit
    if major == "K":
        width = {0: 1, 32: 2, 64: 4, 128: 8}[swizzle]
        if swizzle == 0:
            at = evaluate((8, far), (t, sbo), mn) + evaluate((t, far), (1, lbo), k)
        else:
            at = evaluate((8, far), (width * t, sbo), mn) + k
    elif swizzle == 0:
        at = evaluate((t, far), (1, sbo), mn) + evaluate((8, far), (t, lbo), k)
    elif swizzle == "128 of 32":
        at = evaluate((8 * t, far), (1, lbo), mn) + evaluate((4, far), (8 * t, sbo), k)
    else:
        width = {32: 2, 64: 4, 128: 8}[swizzle]
        at = evaluate((width * t, far), (1, lbo), mn) + evaluate((8, far), (width * t, sbo), k)
    return at * element


def swizzled(byte, swizzle):
    """The absolute byte address after the swizzle, bit by bit."""
    pairs = {0: (), 32: ((4, 7),), 64: ((4, 7), (5, 8)), 128: ((4, 7), (5, 8), (6, 9)), "128 of 32": ((5, 7), (6, 8))}
    source = byte
    for low, high in pairs[swizzle]:
        byte ^= (source >> high & 1) << low
    return byte


def strides(major, swizzle, element, rows):
    """A leading and a stride byte offset under which no two elements meet."""
    if major == "K":
        if swizzle == 0:
            return 16 * rows * 1, 128  # two columns of chunks, each all the rows
        return 16, 8 * int(swizzle)
    if swizzle == 0:
        depth = 32 // element
        return 128, 128 * max(1, depth // 8)
    if swizzle == "128 of 32":
        return 512 * (32 // element // 4), 512
    return int(swizzle) * (32 // element), int(swizzle) * 8


def place(image, values, start, major, swizzle, element, fields):
    rows, depth = values.shape
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(rows, depth, element)
    for mn, k in itertools.product(range(rows), range(depth)):
        byte = swizzled(1024 + start + canonical(mn, k, major, swizzle, element, *fields), swizzle) - 1024
        image[byte : byte + element] = raw[mn, k]


def descriptor(start, swizzle, fields):
    leading, stride = fields
    return (start >> 4) | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | SWIZZLE_CODE[swizzle] << 61


def instruction(kind, m, n, a_major, b_major, accumulator, negate=(0, 0)):
    code = KINDS[kind][2]
    d = {"f16": 0, "f32": 1, "s32": 2}[accumulator]
    word = d << 4 | code << 7 | code << 10 | negate[0] << 13 | negate[1] << 14
    return word | (a_major == "MN") << 15 | (b_major == "MN") << 16 | n >> 3 << 17 | m >> 4 << 24


PROLOGUE = """  mov.u32 %r1, %tid.x; mov.u32 %r2, smem; ld.param.u64 %rd1, [image]; mad.wide.u32 %rd1, %r1, 16, %rd1;
  mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r4, 0;
COPY: ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd1]; st.shared.v4.b32 [%r3], {%r5, %r6, %r7, %r8};
  add.s64 %rd1, %rd1, 2048; add.u32 %r3, %r3, 2048; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 32; @%p1 bra COPY;
  fence.proxy.async.shared::cta; add.u32 %r9, %r2, 65536; add.u32 %r10, %r2, 65544;
  setp.ne.u32 %p3, %r1, 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra READY; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 512;
  @%p3 bra READY; mbarrier.init.shared.b64 [%r10], 1;
READY: bar.sync 0; ld.shared.b32 %r11, [%r9]; shr.u32 %r12, %r2, 4; cvt.u64.u32 %rd2, %r12;
"""
COMMIT = """  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10];
DONE: bar.warp.sync -1;
WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r10], 0; @!%p4 bra WAIT;
"""


def lane_base():
    return "  shr.u32 %r13, %r1, 5; and.b32 %r13, %r13, 3; shl.b32 %r13, %r13, 21; add.u32 %r14, %r11, %r13;\n"


def read_columns(columns, first=0):
    """Each thread writes its lane of `columns` TMEM columns to out[thread]."""
    body = (
        lane_base()
        + f"  mad.wide.u32 %rd8, %r1, {4 * columns}, 0; ld.param.u64 %rd9, [out]; add.s64 %rd8, %rd8, %rd9;\n"
    )
    for start in range(0, columns, 16):
        names = ", ".join(f"%r{20 + i}" for i in range(16))
        body += f"  add.u32 %r15, %r14, {first + start}; tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{names}}}, [%r15];\n"
        body += "  tcgen05.wait::ld.sync.aligned;\n"
        body += "".join(f"  st.global.b32 [%rd8+{4 * (start + i)}], %r{20 + i};\n" for i in range(16))
    return body


def program(body, free=True):
    body += "\n  bar.sync 0; @%p2 bra FREED; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 512;\nFREED:" * free
    text = kernel([("image", "u64"), ("a", "u64"), ("b", "u64"), ("out", "u64")], PROLOGUE + body)
    return text.replace(".entry", ".extern .shared .align 1024 .b8 smem[];\n.entry", 1)


def multiply(kind, m, n, a_major, b_major, a_swizzle, b_swizzle, accumulator="f32", *, twice=False, seed=0, negate=(0, 0),
             schedule="eager", disable=None, scale=None):  # fmt: skip
    """D of one or two MMAs through the machine, with the product that numpy gives."""
    mma_kind, element, _, dtype = KINDS[kind]
    rng = np.random.default_rng(seed)
    depth = 32 // element
    low = 0 if kind == "u8" else -4
    a, b = (rng.integers(low, 5, (rows, depth)).astype(dtype) for rows in (m, n))
    image = np.full(IMAGE, 0x7B, np.uint8)
    fields = [
        strides(major, sw, element, rows) for major, sw, rows in ((a_major, a_swizzle, m), (b_major, b_swizzle, n))
    ]
    place(image, a, A_AT, a_major, a_swizzle, element, fields[0])
    place(image, b, B_AT, b_major, b_swizzle, element, fields[1])
    word = instruction(kind, m, n, a_major, b_major, accumulator, negate)
    mask = "" if disable is None else ", {" + ", ".join(str(x) for x in disable) + "}"
    tail = "" if scale is None else f", {scale}"
    mma = f"  tcgen05.mma.cta_group::1.kind::{mma_kind} [%r11], %rd4, %rd5, {word}"
    body = "  ld.param.u64 %rd4, [a]; ld.param.u64 %rd5, [b]; add.s64 %rd4, %rd4, %rd2; add.s64 %rd5, %rd5, %rd2;\n"
    body += "  setp.ne.u32 %p5, 0, 0; setp.eq.u32 %p6, 0, 0; @%p3 bra DONE;\n" + mma + f"{mask}, %p5;\n"
    body += (mma + f", %p6{tail};\n") * twice + COMMIT + read_columns(max(n, 16))
    out = np.zeros((128, max(n, 16)), np.uint32)
    run(program(body), image, descriptor(A_AT, a_swizzle, fields[0]), descriptor(B_AT, b_swizzle, fields[1]), out,
        block=(128, 1, 1), shared_bytes=IMAGE + 64, schedule=schedule)  # fmt: skip
    product = a.astype(np.float64) @ b.astype(np.float64).T
    return out[:, :n], product


def rows_of(out, m, accumulator):
    """The accumulator by rows: for M = 64, row 16 j + i stands in lane 32 j + i (ISA 9.7.16.10.5)."""
    lanes = np.ascontiguousarray(out) if m == 128 else np.concatenate([out[32 * j : 32 * j + 16] for j in range(4)])
    if accumulator == "f16":
        return (lanes & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)
    return lanes.view({"f32": np.float32, "s32": np.int32}[accumulator]).astype(np.float64)


MAJORS = [("K", "K"), ("K", "MN"), ("MN", "K"), ("MN", "MN")]
CASES = [
    *[("f16", m, n, *majors, sw, sw, "f32") for m, n in ((128, 64), (64, 32)) for majors in MAJORS for sw in (0, 32, 64, 128)],
    *[("bf16", 128, 256, "K", "MN", 128, 64, "f32"), ("f16", 128, 16, "K", "K", 128, 0, "f16"),
      ("f16", 64, 8, "MN", "K", 64, 32, "f16")],
    *[("tf32", 128, 64, *majors, sw, sw, "f32") for majors in (("K", "K"), ("MN", "MN")) for sw in (0, 64, 128)],
    *[("tf32", 128, 64, "MN", "MN", "128 of 32", "128 of 32", "f32"), ("f16", 128, 64, "MN", "MN", "128 of 32", 128, "f32")],
    *[("e4m3", 128, 32, *majors, sw, sw, "f32") for majors in MAJORS for sw in (0, 128)],
    *[("e5m2", 64, 64, "K", "MN", 64, 32, "f16"), ("s8", 128, 32, "K", "K", 128, 128, "s32"),
      ("u8", 64, 32, "K", "K", 32, 0, "s32")],
]  # fmt: skip


def wrong_products(cases=CASES):
    """The cases in which the machine's accumulator differs from the product."""
    found = []
    for case in cases:
        out, product = multiply(*case)
        if not np.array_equal(rows_of(out, case[1], case[-1]), product):
            found.append(case)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda c: " ".join(map(str, c)))
def test_products(case):
    out, product = multiply(*case)
    assert np.array_equal(rows_of(out, case[1], case[-1]), product)


def test_accumulation_and_its_scale():
    case = ("f16", 128, 32, "K", "K", 128, 128, "f32")
    out, product = multiply(*case, twice=True)
    assert np.array_equal(rows_of(out, 128, "f32"), 2 * product)
    out, product = multiply(*case, twice=True, scale=2)
    assert np.array_equal(rows_of(out, 128, "f32"), product + product / 4)


def test_negated_operands():
    case = ("f16", 128, 32, "K", "K", 64, 128, "f32")
    for negate, sign in (((1, 0), -1), ((0, 1), -1), ((1, 1), 1)):
        out, product = multiply(*case, negate=negate)
        assert np.array_equal(rows_of(out, 128, "f32"), sign * product)


def test_disabled_lanes_keep_what_they_held():
    mask = [0x0000FFFF, 0, 0xFFFFFFFF, 1]
    out, product = multiply("f16", 128, 32, "K", "K", 128, 128, disable=mask)
    off = np.array([mask[lane // 32] >> lane % 32 & 1 for lane in range(128)], bool)
    assert (out[off] == 0xFFFFFFFF).all()
    assert np.array_equal(out.view(np.float32)[~off], product[~off])


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_products_under_every_schedule(schedule):
    out, product = multiply("bf16", 128, 64, "K", "K", 128, 128, schedule=schedule)
    assert np.array_equal(rows_of(out, 128, "f32"), product)


def test_reading_the_accumulator_before_the_commit_is_seen():
    body = "  ld.param.u64 %rd4, [a]; ld.param.u64 %rd5, [b]; add.s64 %rd4, %rd4, %rd2; add.s64 %rd5, %rd5, %rd2;\n"
    word = instruction("f16", 128, 32, "K", "K", "f32")
    body += (
        f"  setp.ne.u32 %p5, 0, 0; @%p3 bra GO; tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd4, %rd5, {word}, %p5;\n"
    )
    body += "GO: bar.sync 0;\n" + read_columns(32)
    out, image = np.zeros((128, 32), np.uint32), np.zeros(IMAGE, np.uint8)
    fields = [descriptor(at, 128, (16, 1024)) for at in (A_AT, B_AT)]
    arguments = dict(block=(128, 1, 1), shared_bytes=IMAGE + 64)
    assert not run(program(body), image, *fields, out, schedule="eager", **arguments).warnings
    report = run(program(body, free=False), image, *fields, out, schedule="lazy", **arguments)
    assert {w.kind for w in report.warnings} == {"unwritten tmem", "tmem not freed"} and (out == 0xFFFFFFFF).all()
    with pytest.raises(PtxError, match="column 0, which is not allocated"):
        run(program(body), image, *fields, out, schedule="lazy", **arguments)


def test_memory_that_is_never_freed_is_named():
    image, out = np.zeros(IMAGE, np.uint8), np.zeros(128, np.uint32)
    arguments = dict(block=(128, 1, 1), shared_bytes=IMAGE + 64)
    assert not run(program(""), image, 0, 0, out, **arguments).warnings
    (warning,) = run(program("", free=False), image, 0, 0, out, **arguments).warnings
    assert "tcgen05.alloc" not in str(warning) and "TMEM from column 0 of CTA 0 is never deallocated" in str(warning)


# -- A from TMEM --------------------------------------------------------------------------------------------------------


def multiply_from_tmem(kind, m, n, seed=3):
    """A is stored word by word with tcgen05.st, as a kernel would write P; B comes from shared memory."""
    mma_kind, element, _, dtype = KINDS[kind]
    depth, words = 32 // element, 8
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, (rows, depth)).astype(dtype) for rows in (m, n))
    image = np.full(IMAGE, 0x7B, np.uint8)
    fields = strides("K", 128, element, n)
    place(image, b, B_AT, "K", 128, element, fields)
    table = np.zeros((128, words), np.uint32)
    lanes = np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16
    table[lanes] = np.ascontiguousarray(a).view(np.uint32)  # little-endian: element 0 is the low part of word 0
    image[: table.nbytes] = table.view(np.uint8).ravel()
    names = ", ".join(f"%r{30 + i}" for i in range(words))
    body = lane_base() + "  mad.lo.u32 %r16, %r1, 32, %r2;\n"
    body += "".join(f"  ld.shared.b32 %r{30 + i}, [%r16+{4 * i}];\n" for i in range(words))
    body += f"  add.u32 %r17, %r14, 256; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r17], {{{names}}};\n"
    body += "  tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    body += "  ld.param.u64 %rd5, [b]; add.s64 %rd5, %rd5, %rd2; setp.ne.u32 %p5, 0, 0; add.u32 %r18, %r11, 256; @%p3 bra DONE;\n"
    word = instruction(kind, m, n, "K", "K", "f32")
    body += (
        f"  tcgen05.mma.cta_group::1.kind::{mma_kind} [%r11], [%r18], %rd5, {word}, %p5;\n" + COMMIT + read_columns(n)
    )
    out = np.zeros((128, n), np.uint32)
    run(program(body), image, 0, descriptor(B_AT, 128, fields), out, block=(128, 1, 1), shared_bytes=IMAGE + 64)
    return rows_of(out, m, "f32"), a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize(("kind", "m"), [("bf16", 128), ("f16", 64), ("tf32", 128), ("e4m3", 128), ("e5m2", 64)])
def test_a_from_tensor_memory(kind, m):
    got, want = multiply_from_tmem(kind, m, 32)
    assert np.array_equal(got, want)


# -- tcgen05.ld and st --------------------------------------------------------------------------------------------------

# (thread shape:stride, value shape:stride, bits of a row), in bits: the layouts of CUTLASS's SM100_TMEM_LOAD traits.
TRAITS = {
    ("32x32b", 1): (((32,), (32,)), ((32,), (1,)), 32),
    ("32x32b", 2): (((32,), (64,)), ((64,), (1,)), 64),
    ("16x64b", 1): (((2, 2, 8), (512, 32, 64)), ((32,), (1,)), 64),
    ("16x64b", 2): (((2, 2, 8), (1024, 32, 128)), ((32, 2), (1, 64)), 128),
    ("16x128b", 1): (((4, 8), (32, 128)), ((32, 2), (1, 1024)), 128),
    ("16x128b", 2): (((4, 8), (32, 256)), ((32, 2, 2), (1, 2048, 128)), 256),
    ("16x256b", 1): (((4, 8), (64, 256)), ((64, 2), (1, 2048)), 256),
    ("16x256b", 2): (((4, 8), (64, 512)), ((64, 2, 2), (1, 4096, 256)), 512),
    ("16x32bx2", 1): (((16, 2), (64, 32)), ((32,), (1,)), 64),
    ("16x32bx2", 2): (((16, 2), (128, 64)), ((64,), (1,)), 128),
}
LOADS = [(shape, repeat, packed) for shape, repeat in TRAITS for packed in (False, True)]


def expected_tags(shape, repeat, packed, warp):
    """What each (thread, register) must hold when TMEM word (lane, column) holds lane * 512 + column."""
    (t_shape, t_stride), (v_shape, v_stride), row_bits = TRAITS[shape, repeat]
    registers = int(np.prod(v_shape)) // 32
    want = np.zeros((32, registers), np.uint32)
    for thread, register in itertools.product(range(32), range(registers)):
        bit = evaluate(t_shape, t_stride, thread) + evaluate(v_shape, v_stride, 32 * register)
        lane, column = 32 * warp + bit // row_bits, bit % row_bits // 32
        if packed:  # two neighbouring words, the low half of each
            low, high = ((lane * 512 + 2 * column + i) & 0xFFFF for i in (0, 1))
            want[thread, register] = high << 16 | low
        else:
            want[thread, register] = lane * 512 + column
    return want


def loaded_tags(shape, repeat, packed, store=False):
    """Registers of warp 2 after a load of a tagged TMEM; or, with store, TMEM tagged through st and read by lanes."""
    registers = expected_tags(shape, repeat, packed, 2).shape[1]
    names = ", ".join(f"%r{40 + i}" for i in range(registers))
    split = f", {2 * repeat if packed else repeat}" if shape == "16x32bx2" else ""
    tags = ", ".join(f"%r{60 + i}" for i in range(32))
    body = lane_base() + "  and.b32 %r16, %r1, 127; shl.b32 %r16, %r16, 9;\n"
    body += "".join(f"  add.u32 %r{60 + i}, %r16, {i};\n" for i in range(32))
    plain = f"  tcgen05.st.sync.aligned.32x32b.x32.b32 [%r14], {{{tags}}}; tcgen05.wait::st.sync.aligned; bar.sync 0;\n"
    body += "  mad.wide.u32 %rd8, %r1, 128, 0; ld.param.u64 %rd9, [out]; add.s64 %rd8, %rd8, %rd9;\n"
    half = ".pack::16b" if packed else ""
    if not store:
        body += plain + f"  tcgen05.ld.sync.aligned.{shape}.x{repeat}{half}.b32 {{{names}}}, [%r14]{split};\n"
        body += "".join(f"  st.global.b32 [%rd8+{4 * i}], %r{40 + i};\n" for i in range(registers))
    else:
        half = ".unpack::16b" if packed else ""
        body += "".join(f"  add.u32 %r{40 + i}, %r1, {1000 * i};\n" for i in range(registers)) + plain
        body += f"  tcgen05.st.sync.aligned.{shape}.x{repeat}{half}.b32 [%r14]{split}, {{{names}}}; tcgen05.wait::st.sync.aligned;\n"
        body += f"  tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{tags}}}, [%r14];\n"
        body += "".join(f"  st.global.b32 [%rd8+{4 * i}], %r{60 + i};\n" for i in range(32))
    out = np.zeros((128, 32), np.uint32)
    run(program(body), np.zeros(IMAGE, np.uint8), 0, 0, out, block=(128, 1, 1), shared_bytes=IMAGE + 64)
    return out[64:96]


@pytest.mark.parametrize(("shape", "repeat", "packed"), LOADS)
def test_loads(shape, repeat, packed):
    want = expected_tags(shape, repeat, packed, 2)
    assert np.array_equal(loaded_tags(shape, repeat, packed)[:, : want.shape[1]], want)


@pytest.mark.parametrize(("shape", "repeat", "packed"), LOADS)
def test_stores(shape, repeat, packed):
    tags = expected_tags(shape, repeat, packed, 2)
    want = (64 + np.arange(32))[:, None] * 512 + np.arange(32)
    for thread, register in itertools.product(range(32), range(tags.shape[1])):
        value = 64 + thread + 1000 * register
        tag = int(tags[thread, register])
        if packed:
            low, high = tag & 0xFFFF, tag >> 16
            lane, columns = low // 512 % 128, (low % 512, high % 512)
            want[lane - 64, columns[0]], want[lane - 64, columns[1]] = value & 0xFFFF, value >> 16
        else:
            want[tag // 512 - 64, tag % 512] = value
    assert np.array_equal(loaded_tags(shape, repeat, packed, store=True), want)


def tmem_body(text):
    return program(lane_base() + text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r11];", "warp 1 of CTA 0 touches TMEM lanes 0 to 31; it owns 32 to 63"),
        ("  add.u32 %r14, %r14, 512; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r14];", "touches TMEM columns 512 to 512"),
        ("  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r40}, [%r14];", "into 1 registers instead of 2"),
        ("  setp.lt.u32 %p5, %r1, 32; @%p5 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 64;\n  bar.sync 0;"
         "  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r14];", "column 0, which is not allocated"),
        ("  @!%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 32, 512;", "which no alloc returned"),
        ("  tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd2, %rd2, 0, %p2;", "bits 46-48, not 1"),
        ("  tcgen05.mma.cta_group::2.kind::f16 [%r11], %rd2, %rd2, 0, %p2;", "in a cluster of 1 CTAs, which are no pairs"),
    ],
)  # fmt: skip
def test_misuse(text, message):
    text = text.replace(", 0, %p2;", f", {instruction('f16', 128, 32, 'K', 'K', 'f32')}, %p2;")
    with pytest.raises(PtxError, match=message):
        run(
            tmem_body(text),
            np.zeros(IMAGE, np.uint8),
            0,
            0,
            np.zeros(128, np.uint32),
            block=(128, 1, 1),
            shared_bytes=IMAGE + 64,
        )
