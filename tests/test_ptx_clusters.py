# ruff: noqa: E501  (lines of PTX)
"""Clusters of CTAs: windows, barriers, multicast and the tensor cores of a pair, against the ISA and an H200."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import test_ptx_tcgen05 as tensor
from cluster_programs import PROGRAMS, SYNC, source, stated, text
from ptx_programs import kernel

from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.report import Deadlock
from layoutlab.ptx.run import run

RECORD = json.loads((Path(__file__).parent / "data" / "ptx_clusters_h200.json").read_text())


def replayed(name, body=None, **options):
    out = source()
    report = run(text(name, body), out, grid=(4, 1, 1), cluster=(2, 1, 1), shared_bytes=1024, **options)
    return out[:128].reshape(4, 32), report


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, schedule):
    got, report = replayed(name, schedule=schedule, seed=3)
    assert np.array_equal(got, np.broadcast_to(stated()[name], got.shape)) and not report.warnings


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_silicon(name):
    """What an H200 wrote."""
    assert replayed(name)[0].tolist() == RECORD["programs"][name]


def test_clusters_stay_whole_among_waves_and_processes():
    for options in ({"wave_ctas": 2}, {"wave_ctas": 3}, {"wave_ctas": 1}):
        assert np.array_equal(replayed("load", **options)[0], np.broadcast_to(stated()["load"], (4, 32)))
    with pytest.raises(PtxError, match="CTAs 1 to 2 are no whole clusters of 2"):
        replayed("load", ctas=(1, 3))


def refused(body, message, **options):
    with pytest.raises(PtxError, match=message):
        replayed("load", body, **options)


def test_a_peer_that_did_not_wait_is_seen():
    """Without the first barrier the peer's words may not be there yet."""
    body = "st.shared.b32 [%r6], %r11;\nld.shared::cluster.b32 %r19, [%r7];\n" + SYNC
    found = [replayed("load", body, schedule="random", seed=seed)[1].warnings for seed in range(6)]
    assert any("never written" in str(w) for warnings in found for w in warnings)


def test_the_memory_of_a_cta_that_has_exited():
    body = "setp.eq.u32 %p1, %r1, 1; @%p1 bra E;\nW: nanosleep.u32 9; ld.shared::cluster.b32 %r19, [%r7]; bra W;\nE:\n"
    refused(body, "rank 1 of the cluster, which has exited")


def test_the_wrong_window():
    refused("st.shared.b32 [%r7], %r11;\n", "another CTA's shared memory, which wants .shared::cluster")
    refused("mbarrier.init.shared::cta.b64 [%r10], 1;\n", "another CTA's shared memory")
    refused("mov.u32 %r12, 5; mapa.shared::cluster.u32 %r13, %r6, %r12; ld.shared::cluster.b32 %r19, [%r13];\n",
            "is no shared address of a cluster of 2 CTAs")  # fmt: skip
    refused("ld.shared::cluster.b32 %r19, [%r7+8192];\n", "touches shared bytes 9216")


def test_barriers_of_the_cluster():
    refused("barrier.cluster.wait;\n", "have not arrived")
    refused("barrier.cluster.arrive; barrier.cluster.arrive;\n", "arrive again")
    body = "setp.eq.u32 %p1, %r1, 1;\n@%p1 bra E;\n" + SYNC + "E: bra.uni F;\nF:\n"
    assert replayed("load", body)[1].instructions  # threads that have exited are not waited for
    stuck = "setp.eq.u32 %p1, %r1, 1;\n@%p1 bra E;\n" + SYNC + "E: bar.sync 0, 64;\n"
    with pytest.raises(Deadlock, match="the cluster barrier, 32 of 64 threads arrived"):
        replayed("load", stuck)


def test_multicast_masks():
    right = PROGRAMS["multicast"]
    refused(right.replace("%rs0, 3;", "%rs0, 0;"), "to mask 0x0 of a cluster of 2")
    refused(right.replace("%rs0, 3;", "%rs0, 5;"), "to mask 0x5 of a cluster of 2")
    with pytest.raises(Deadlock, match=r"128 bytes pending"):
        replayed("multicast", right.replace("%rs0, 3;", "%rs0, 1;"))


def test_the_mbarrier_stands_where_the_data_goes():
    refused(PROGRAMS["send"].replace(", [%r10];\nW", ", [%r9];\nW"), r"data for CTA 1 with the mbarrier of CTA 0")
    refused(PROGRAMS["bulk"].replace("128, [%r10]", "128, [%r9]"), "both must be of one CTA")


def test_launches():
    body = "mov.u32 %r19, 0;\n"
    out = source()
    for options, message in (
        ({"grid": (3, 1, 1), "cluster": (2, 1, 1)}, "do not divide"),
        ({"grid": (4, 1, 1)}, "requires clusters of"),
        ({"grid": (0, 1, 1), "cluster": (2, 1, 1)}, "at least 1"),
        ({"grid": (4, 1, 1), "cluster": (2, 1, 1), "block": (2048, 1, 1)}, "at most 1024"),
    ):
        with pytest.raises(PtxError, match=message):
            run(text("load", body), out, **options)
    free = text("load", body).replace(".reqnctapercluster 2, 1, 1", "")
    with pytest.raises(PtxError, match="at most 16"):
        run(free, out, grid=(32, 1, 1), cluster=(32, 1, 1))


# -- the tensor cores of a pair -----------------------------------------------------------------------------------------


def pair_program(body, columns):
    """The single-CTA prologue of the tensor memory tests, for CTA `rank` with the half of the operands that is its own."""
    prologue = tensor.PROLOGUE.replace("cta_group::1", "cta_group::2")
    prologue = prologue.replace("ld.param.u64 %rd1, [image];", "mov.u32 %r16, %cluster_ctarank; ld.param.u64 %rd1, [image];"
                                " mad.wide.u32 %rd1, %r16, 65536, %rd1;")  # fmt: skip
    prologue = prologue.replace("shr.u32 %r12, %r2, 4;", "and.b32 %r12, %r2, 0x3FFFF; shr.u32 %r12, %r12, 4;")
    prologue += "  barrier.cluster.arrive; barrier.cluster.wait; setp.ne.u32 %p7, %r16, 0; or.pred %p3, %p3, %p7;\n"
    commit = "  mov.u16 %rs1, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r10], %rs1;\n"
    commit += "DONE: bar.warp.sync -1;\nWAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r10], 0; @!%p4 bra WAIT;\n"
    read = (
        tensor.read_columns(columns).replace("%r1, ", "%r17, ").replace("shr.u32 %r13, %r17, 5", "shr.u32 %r13, %r1, 5")
    )
    read += "\n  bar.sync 0; @%p2 bra FREED; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r11, 512;\nFREED:"
    read = "  mad.lo.u32 %r17, %r16, 128, %r1;\n" + read
    text = kernel([("image", "u64"), ("a", "u64"), ("b", "u64"), ("out", "u64")], prologue + body + commit + read)
    return text.replace(".entry", ".extern .shared .align 1024 .b8 smem[];\n.entry", 1)


def pair_product(m, n, a_swizzle=128, b_swizzle=128, disable=None, schedule="eager", kind="bf16", twice=False):
    """D of an MMA of two CTAs, [rank, lane, column], and the numpy product; each CTA is given half of A's and of B's rows."""
    mma_kind, element, _, dtype = tensor.KINDS[kind]
    depth = 32 // element
    rng = np.random.default_rng(m + n)
    a, b = (rng.integers(-4, 5, (rows, depth)).astype(dtype) for rows in (m, n))
    images = np.full((2, tensor.IMAGE), 0x7B, np.uint8)
    fields = [tensor.strides("K", sw, element, rows // 2) for sw, rows in ((a_swizzle, m), (b_swizzle, n))]
    for rank in range(2):
        tensor.place(images[rank], np.split(a, 2)[rank], tensor.A_AT, "K", a_swizzle, element, fields[0])
        tensor.place(images[rank], np.split(b, 2)[rank], tensor.B_AT, "K", b_swizzle, element, fields[1])
    word = tensor.instruction(kind, m, n, "K", "K", "f32")
    mask = "" if disable is None else ", {" + ", ".join(str(x) for x in disable) + "}"
    mma = f"  tcgen05.mma.cta_group::2.kind::{mma_kind} [%r11], %rd4, %rd5, {word}{mask}"
    body = "  ld.param.u64 %rd4, [a]; ld.param.u64 %rd5, [b]; add.s64 %rd4, %rd4, %rd2; add.s64 %rd5, %rd5, %rd2;\n"
    body += f"  setp.ne.u32 %p5, 0, 0; setp.eq.u32 %p6, 0, 0; @%p3 bra DONE;\n{mma}, %p5;\n" + f"{mma}, %p6;\n" * twice
    columns = max(n if m == 256 else n // 2, 16)
    out = np.zeros((2, 128, columns), np.uint32)
    report = run(
        pair_program(body, columns), images, tensor.descriptor(tensor.A_AT, a_swizzle, fields[0]),
        tensor.descriptor(tensor.B_AT, b_swizzle, fields[1]), out, grid=(2, 1, 1), cluster=(2, 1, 1), block=(128, 1, 1),
        shared_bytes=tensor.IMAGE + 64, schedule=schedule,
    )  # fmt: skip
    return out, a.astype(np.float64) @ b.astype(np.float64).T, report


def pair_lanes(product, m, n):
    """Where the ISA puts D (9.7.16.10.5): M = 256 splits the rows, M = 128 also folds the columns into the upper lanes."""
    if m == 256:
        return product.reshape(2, 128, n)
    return np.stack([np.concatenate([half[:, : n // 2], half[:, n // 2 :]]) for half in product.reshape(2, 64, n)])


PAIRS = [(256, 64), (128, 64), (256, 256), (128, 256), (128, 32)]


@pytest.mark.parametrize(("m", "n"), PAIRS)
def test_products_of_a_pair(m, n):
    out, product, report = pair_product(m, n)
    want = pair_lanes(product, m, n)
    assert np.array_equal(out.view(np.float32)[..., : want.shape[-1]], want) and not report.warnings


def test_pairs_by_other_swizzles_types_and_schedules():
    for options in ({"a_swizzle": 64, "b_swizzle": 32}, {"kind": "tf32"}, {"kind": "e4m3"}, {"schedule": "lazy"}):
        out, product, report = pair_product(128, 64, **options)
        assert np.array_equal(out.view(np.float32), pair_lanes(product, 128, 64)) and not report.warnings
    out, product, _ = pair_product(256, 32, twice=True)
    assert np.array_equal(out.view(np.float32), 2 * pair_lanes(product, 256, 32))


def test_disabled_lanes_of_a_pair():
    """Eight words: four for the lanes of the even CTA, then four for the odd one."""
    mask = [1, 0, 0, 0, 0xFFFFFFFF, 0, 0, 2]
    out, product, _ = pair_product(256, 32, disable=mask)
    off = np.array([[mask[4 * r + lane // 32] >> lane % 32 & 1 for lane in range(128)] for r in range(2)], bool)
    assert (out[off] == 0xFFFFFFFF).all()
    assert np.array_equal(out.view(np.float32)[~off], pair_lanes(product, 256, 32)[~off])


def test_a_pair_needs_its_cluster_and_its_m():
    word = tensor.instruction("bf16", 64, 64, "K", "K", "f32")
    body = f"  setp.ne.u32 %p5, 0, 0; @%p3 bra DONE; mov.u64 %rd4, {1 << 46};\n"
    body += f"  tcgen05.mma.cta_group::2.kind::f16 [%r11], %rd4, %rd4, {word}, %p5;\n"
    images, out = np.zeros((2, tensor.IMAGE), np.uint8), np.zeros((2, 128, 64), np.uint32)
    where = {"grid": (2, 1, 1), "block": (128, 1, 1), "shared_bytes": tensor.IMAGE + 64}
    with pytest.raises(PtxError, match="M = 64: cta_group::2 has 128 and 256"):
        run(pair_program(body, 64), images, 0, 0, out, cluster=(2, 1, 1), **where)
    with pytest.raises(PtxError, match="in a cluster of 1 CTAs, which are no pairs"):
        run(pair_program(body, 64), images, 0, 0, out, **where)
