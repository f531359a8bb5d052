# ruff: noqa: E501  (lines of PTX)
"""Clusters of CTAs: windows, barriers, multicast and the tensor cores of a pair, against the ISA and an H200."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cluster_programs import PROGRAMS, SYNC, source, stated, text

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
