"""Runs take over the arrays of the last run of their kernel: nothing of that run may be seen in the next."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from ptx_programs import kernel

from layoutlab.ptx import machine
from layoutlab.ptx.parse import PtxError
from layoutlab.ptx.run import run

BODY = """  mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; ld.param.u32 %r4, [store];
  setp.eq.u32 %p1, %r4, 0; setp.ne.u32 %p2, %r1, 0; add.u32 %r5, %r2, 512; @%p2 bra READY;
  mbarrier.init.shared.b64 [%r5], 3; mbarrier.arrive.shared.b64 _, [%r5];
READY:
  @%p1 bra LOAD;
  st.shared.u32 [%r3], %r1; setp.gt.u32 %p3, %r1, 15; @%p3 bra END;
LOAD:
  ld.shared.u32 %r6, [%r3]; setp.eq.u32 %p4, %r4, 2; @%p4 bra FAIL;
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.u32 [%rd1], %r6; bra END;
FAIL:
  trap;
END:
"""
TEXT = kernel([("store", "u32"), ("out", "u64")], BODY).replace(
    ".entry", ".extern .shared .align 1024 .b8 smem[];\n.entry", 1
)


def once(store, **options):
    out = np.zeros(32, np.uint32)
    report = run(TEXT, store, out, shared_bytes=1024, **options)
    return out, report


def test_memory_is_poisoned_again_and_threads_live_again():
    for _ in range(2):
        out, report = once(1)
        assert (out == np.where(np.arange(32) < 16, np.arange(32), 0)).all() and not report.warnings
        out, report = once(0)
        assert (out == 0xFFFFFFFF).all() and [w.kind for w in report.warnings] == ["unwritten shared"]


def test_a_run_that_stopped_leaves_nothing():
    once(1)
    with pytest.raises(PtxError, match="trap"):
        once(2)
    assert not machine._SPARE
    assert (once(0)[0] == 0xFFFFFFFF).all()


def test_one_small_wave_is_kept_and_lets_go_of_its_run():
    once(1)
    ((program, wave),) = machine._SPARE
    assert program.function.name == "k" and not hasattr(wave, "services") and not hasattr(wave, "asynchronous")
    assert wave.nbytes <= machine.SPARE_BYTES
    run(kernel([], "  mov.u32 %r1, 1;"))
    ((other, _),) = machine._SPARE
    assert other is not program


def test_a_large_wave_is_not_kept(monkeypatch):
    monkeypatch.setattr(machine, "SPARE_BYTES", 1000)
    machine._SPARE.clear()
    once(1)
    assert not machine._SPARE


def test_another_geometry_gets_its_own_arrays():
    once(1)
    out = np.zeros(32, np.uint32)
    report = run(TEXT, 0, out, shared_bytes=2048)
    assert (out == 0xFFFFFFFF).all() and len(report.warnings) == 1


def test_threads_do_not_share_a_wave():
    wrong = []

    def work(store):
        for _ in range(8):
            out, _ = once(store)
            want = np.where(np.arange(32) < 16, np.arange(32), 0) if store else np.full(32, 0xFFFFFFFF)
            wrong.extend([store] * int((out != want).any()))

    threads = [threading.Thread(target=work, args=(store,)) for store in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
