# ruff: noqa: E501  (lines of PTX)
"""Registers touched before the wait of the instruction that gives them: each missing wait is named, no right program is."""

from __future__ import annotations

import numpy as np
import pytest
import test_ptx_tcgen05 as tensor
from ptx_programs import kernel

from layoutlab.ptx.run import run

ACC = "{%f1, %f2, %f3, %f4}"
OTHER = "{%f5, %f6, %f7, %f8}"
START = """  mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r4, 0x3c003c00;
  st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4}; st.shared.v4.b32 [%r3+2048], {%r4, %r4, %r4, %r4};
  fence.proxy.async.shared::cta; bar.sync 0; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd1, %r5;
  or.b64 %rd1, %rd1, 0x0000001000080000; setp.ne.u32 %p1, 0, 0; setp.eq.u32 %p2, 0, 0; wgmma.fence.sync.aligned;
"""
END = """  ld.param.u64 %rd2, [out]; mad.wide.u32 %rd2, %r1, 4, %rd2; add.f32 %f9, {a}, {b}; st.global.f32 [%rd2], %f9;
"""
COMMIT, WAIT = "  wgmma.commit_group.sync.aligned;\n", "  wgmma.wait_group.sync.aligned {};\n"


def mma(registers, accumulate="%p1"):
    return f"  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers}, %rd1, %rd1, {accumulate}, 1, 1, 0, 0;\n"


def warnings_of(body, a="%f1", b="%f2", schedule="eager"):
    """The warnings, and that 16 products of ones were added either way."""
    out = np.zeros(128, np.float32)
    text = kernel([("out", "u64")], START + body + END.format(a=a, b=b))
    text = text.replace(".entry", ".extern .shared .align 1024 .b8 smem[];\n.entry", 1)
    report = run(text, out, block=(128, 1, 1), shared_bytes=4096, schedule=schedule)
    return [str(w) for w in report.warnings], out


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_accumulators_want_their_wait(schedule):
    found, out = warnings_of(mma(ACC) + COMMIT + WAIT.format(0), schedule=schedule)
    assert found == [] and (out == 32).all()
    for body in (mma(ACC), mma(ACC) + COMMIT, mma(ACC) + WAIT.format(0), mma(ACC) + COMMIT + WAIT.format(1)):
        (warning,), out = warnings_of(body, schedule=schedule)
        assert "add.f32 touches %f1, which wgmma.mma_async" in warning and (out == 32).all()
        assert warning.endswith("gives: no wgmma.wait_group since") and "of PTX line 12" in warning


def test_groups_complete_in_order():
    body = mma(ACC) + COMMIT + mma(OTHER) + COMMIT + WAIT.format(1)
    assert warnings_of(body)[0] == []
    assert "touches %f5" in warnings_of(body, "%f1", "%f5")[0][0]
    assert warnings_of(body + WAIT.format(0), "%f1", "%f5")[0] == []


def test_the_next_mma_may_take_the_accumulators():
    found, out = warnings_of(mma(ACC) + mma(ACC, "%p2") + COMMIT + WAIT.format(0))
    assert found == [] and (out == 64).all()


def test_copies_are_still_in_flight():
    """A compiler moves registers about between an mma and its wait; that alone is no access."""
    move = "  mov.b32 %f5, %f1; mov.b64 %rd3, {%f1, %f2}; mov.b64 {%f6, %f7}, %rd3;\n"
    assert warnings_of(mma(ACC) + COMMIT + move + WAIT.format(0), "%f5", "%f7")[0] == []
    for copy in ("%f5", "%f7"):
        assert f"touches {copy}" in warnings_of(mma(ACC) + COMMIT + move, copy, copy)[0][0]
    fresh = move + "  mov.f32 %f5, 0f3F800000; mov.f32 %f8, %f5;\n"
    assert warnings_of(mma(ACC) + COMMIT + fresh, "%f5", "%f8")[0] == []


def test_accesses_under_a_guard():
    touch = "  @%p2 add.f32 %f8, %f1, %f1;\n"
    assert "touches %f1" in warnings_of(mma(ACC) + COMMIT + touch + WAIT.format(0))[0][0]
    assert warnings_of(mma(ACC) + COMMIT + touch.replace("%p2", "%p1") + WAIT.format(0))[0] == []
    skipped = "  @%p2 bra OVER;\n  add.f32 %f8, %f1, %f1;\nOVER:\n"
    assert warnings_of(mma(ACC) + COMMIT + skipped + WAIT.format(0))[0] == []
    assert "touches %f1" in warnings_of(mma(ACC) + COMMIT + skipped.replace("%p2", "%p1") + WAIT.format(0))[0][0]


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_loads_from_tensor_memory_want_their_wait(schedule):
    def found(wait, options=frozenset(["strict tcgen05.ld"])):
        body = tensor.lane_base() + "  mov.b32 %r20, 7; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r14], {%r20};\n"
        body += "  tcgen05.wait::st.sync.aligned;\n  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r14];\n" + wait
        body += "  ld.param.u64 %rd9, [out]; mad.wide.u32 %rd9, %r1, 4, %rd9; st.global.b32 [%rd9], %r21;\n"
        out = np.zeros(128, np.uint32)
        report = run(tensor.program(body), np.zeros(tensor.IMAGE, np.uint8), 0, 0, out, block=(128, 1, 1),
                     shared_bytes=tensor.IMAGE + 64, schedule=schedule, options=options)  # fmt: skip
        assert (out == 7).all()
        return [str(w) for w in report.warnings]

    assert found("  tcgen05.wait::ld.sync.aligned;\n") == []
    assert found("", frozenset()) == []
    (warning,) = found("")
    assert "st.global.b32 touches %r21, which tcgen05.ld" in warning and "no tcgen05.wait::ld since" in warning
