# ruff: noqa: E501  (lines of PTX)
"""PTX programs of clusters of two CTAs: each CTA of four writes 32 words, one a lane; behind them stand 32 source words."""

from __future__ import annotations

import numpy as np

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.entry k(.param .u64 out) .reqnctapercluster 2, 1, 1
{
.reg .b32 %r<20>; .reg .b64 %rd<6>; .reg .pred %p<4>; .reg .b16 %rs<2>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; ld.param.u64 %rd1, [out];
mad.lo.u32 %r3, %r2, 32, %r0; mad.wide.u32 %rd0, %r3, 4, %rd1; mov.u32 %r4, smem; xor.b32 %r5, %r1, 1;
mad.lo.u32 %r6, %r0, 4, %r4; mapa.shared::cluster.u32 %r7, %r6, %r5; mapa.shared::cluster.u32 %r8, %r4, %r5;
add.u32 %r9, %r4, 512; add.u32 %r10, %r8, 512; mad.lo.u32 %r11, %r1, 1000, %r0; setp.ne.u32 %p0, %r0, 0;
"""
TAIL = "st.global.b32 [%rd0], %r19;\nret;\n}\n"
SYNC = "barrier.cluster.arrive; barrier.cluster.wait;\n"
INIT = (
    "@%p0 bra I; mbarrier.init.shared::cta.b64 [%r9], {count}; fence.mbarrier_init.release.cluster;\nI: bar.warp.sync -1;\n"
    + SYNC
)
WAIT = "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r9], 0; @!%p1 bra W;\n"
EXPECT = "@%p0 bra X; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], {size};\nX: bar.warp.sync -1;\n" + SYNC

PROGRAMS = {
    "registers": "mov.u32 %r12, %clusterid.x; mov.u32 %r13, %cluster_ctaid.x; mov.u32 %r14, %cluster_nctarank; mov.u32 %r15, %nclusterid.x;\n"
    "shl.b32 %r12, %r12, 8; shl.b32 %r13, %r13, 16; shl.b32 %r14, %r14, 24; shl.b32 %r15, %r15, 28; or.b32 %r19, %r1, %r12; or.b32 %r19, %r19, %r13; or.b32 %r19, %r19, %r14; or.b32 %r19, %r19, %r15;\n",
    "addresses": "shr.u32 %r12, %r4, 24; shr.u32 %r13, %r8, 24; shl.b32 %r13, %r13, 8; mapa.shared::cluster.u32 %r14, %r4, %r1; sub.u32 %r14, %r14, %r4; shl.b32 %r14, %r14, 16;\n"
    "getctarank.shared::cluster.u32 %r15, %r8; shl.b32 %r15, %r15, 24; or.b32 %r19, %r12, %r13; or.b32 %r19, %r19, %r14; or.b32 %r19, %r19, %r15;\n",
    "load": "st.shared.b32 [%r6], %r11;\n" + SYNC + "ld.shared::cluster.b32 %r19, [%r7];\n" + SYNC,
    "generic load": "st.shared.b32 [%r6], %r11;\n" + SYNC
    + "cvt.u64.u32 %rd2, %r6; cvta.shared.u64 %rd2, %rd2; mapa.u64 %rd3, %rd2, %r5; ld.b32 %r19, [%rd3];\n" + SYNC,
    "store": "st.shared.b32 [%r6], %r0;\n" + SYNC + "st.shared::cluster.b32 [%r7], %r11; atom.shared::cluster.add.u32 %r12, [%r7], 5;\n" + SYNC + "ld.shared.b32 %r19, [%r6];\n",
    "arrive": INIT.format(count=32) + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];\n" + WAIT + "add.u32 %r19, %r11, 7;\n" + SYNC,
    "send": INIT.format(count=1) + EXPECT.format(size=256)
    + "mad.lo.u32 %r12, %r0, 8, %r8; add.u32 %r13, %r11, 100;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r12], {%r11, %r13}, [%r10];\n" + WAIT
    + "mad.lo.u32 %r12, %r0, 8, %r4; ld.shared.v2.b32 {%r13, %r14}, [%r12]; shl.b32 %r14, %r14, 16; or.b32 %r19, %r13, %r14;\n" + SYNC,
    "bulk": "st.shared.b32 [%r6+128], %r11; fence.proxy.async.shared::cta; bar.warp.sync -1;\n" + INIT.format(count=1) + EXPECT.format(size=128)
    + "add.u32 %r12, %r4, 128; @%p0 bra S; cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r12], 128, [%r10];\nS: bar.warp.sync -1;\n" + WAIT
    + "ld.shared.b32 %r19, [%r6];\n" + SYNC,
    "multicast": INIT.format(count=1) + EXPECT.format(size=128)
    + "setp.ne.u32 %p2, %r3, 32; setp.ne.u32 %p3, %r3, 64; and.pred %p2, %p2, %p3; add.u64 %rd2, %rd1, 512; mov.u16 %rs0, 3; @%p2 bra S;\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4], [%rd2], 128, [%r9], %rs0;\nS: bar.warp.sync -1;\n" + WAIT
    + "ld.shared.b32 %r19, [%r6]; add.u32 %r19, %r19, %r1;\n" + SYNC,
}  # fmt: skip


def text(name, body=None):
    return HEAD + (PROGRAMS[name] if body is None else body) + TAIL


def source():
    """The 128 words that are written, and the 32 that a program may copy from."""
    return np.arange(1000, 1160, dtype=np.uint32)


def stated():
    """What the PTX ISA makes each program write, (CTA, lane)."""
    cta, lane = np.arange(4, dtype=np.uint32)[:, None], np.arange(32, dtype=np.uint32)[None, :]
    rank, peer = cta % 2, 1 - cta % 2
    mine, theirs = rank * 1000 + lane, peer * 1000 + lane
    return {
        "registers": rank | cta // 2 << 8 | rank << 16 | 2 << 24 | 2 << 28,
        "addresses": rank | peer << 8 | peer << 24,
        "load": theirs, "generic load": theirs, "store": theirs + 5, "arrive": mine + 7,
        "send": theirs | (theirs + 100) << 16, "bulk": theirs, "multicast": 1128 + lane + rank,
    }  # fmt: skip
