# ruff: noqa: E501  (lines of PTX)
"""A PTX program that loads 64 words with one TMA, and the words that show how they are rounded."""

from __future__ import annotations

import numpy as np

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;
mov.u32 %r1, %tid.x; mov.u32 %r2, smem; add.u32 %r3, %r2, 512; mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; setp.ne.u32 %p1, %r1, 0; @%p1 bra W;
mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {0}], [%r3];
W: bar.sync 0;
V: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra V;
mad.lo.u32 %r4, %r1, 4, %r2; ld.shared.b32 %r5, [%r4]; ld.param.u64 %rd2, [out]; mad.wide.u32 %rd2, %r1, 4, %rd2; st.global.b32 [%rd2], %r5; ret;
}
"""


def words():
    """Ties, their neighbours, subnormal numbers, the largest, infinity and NaNs."""
    low = [0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x3001, 0x3FFF, 0x7FFFFF]
    high = [0x3F800000, 0xBF800000, 0, 0x80000000, 0x7F000000]
    special = [0x7F800000, 0x7F800001, 0x7FC00001, 0xFF801FFF]
    return np.array([h | x for h in high for x in low] + special, np.uint32)
