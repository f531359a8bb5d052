# ruff: noqa: E501  (lines of PTX)
"""The machine's frame: parsing, divergence, barriers, memory checks, asynchronous work and its reports."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_programs import HEADER, kernel, lanes

from layoutlab.ptx.isa.absent import NOT_EMULATED
from layoutlab.ptx.machine import Deadlock
from layoutlab.ptx.parse import PtxError, parse_module
from layoutlab.ptx.registry import declared
from layoutlab.ptx.run import run

SCHEDULES = ["eager", "lazy", "random"]
DYNAMIC = ".extern .shared .align 1024 .b8 smem[];\n"


def shared_kernel(params, body):
    return kernel(params, body).replace(".entry", DYNAMIC + ".entry", 1)


def out_words(body, count=32, block=32, grid=1, shared=2048, **options):
    """Run a body that leaves a word for each thread in %r9, and return the words with the report."""
    store = "  ld.param.u64 %rd9, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
    store += "  mad.lo.s32 %r0, %r1, %r2, %r0; mad.wide.u32 %rd9, %r0, 4, %rd9; st.global.u32 [%rd9], %r9;"
    out = np.zeros(block * grid, np.uint32)
    text = shared_kernel([("out", "u64")], body + store)
    report = run(text, out, block=(block, 1, 1), grid=(grid, 1, 1), shared_bytes=shared, **options)
    return out, report


# -- the parser and the decoder -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  frobnicate.b32 %r1, %r2;", "line 7: unknown opcode 'frobnicate.b32'"),
        ("  add.wrong.s32 %r1, %r2, %r3;", "line 7: 'add.wrong.s32' has qualifiers that are not declared"),
        ("  add.s32.s32 %r1, %r2, %r3;", "not declared"),
        ("  ld.global.evil.b32 %r1, [%rd1];", "not declared"),
        ("  add.s32 %r1, %r2;", "line 7: add.s32 with 2 operands"),
        ("  add.s32 %r1, %r2, %rd1;", "line 7: register %rd1 is .b64 where .b32 is meant"),
        ("  bra NOWHERE;", "line 7: branch to unknown label"),
        ("  mov.b32 %r1, %nosuch;", "unknown register %nosuch"),
        ("  mov.b32 %r1, nosuch;", "unknown name 'nosuch'"),
        ("  .blob 3;", "unknown directive"),
        ("  call.uni (%r1), helper, (%r2);", "device functions are not emulated yet"),
    ],
)
def test_the_unknown_stops_with_its_line(body, message):
    with pytest.raises(PtxError, match=message.replace("(", r"\(")):
        run(kernel([], body, "  .reg .b64 %rd9; .reg .b32 %r9;\n"))


@pytest.mark.parametrize(
    "opcode",
    [
        "tcgen05.mma.sp.cta_group::1.kind::f16", "tcgen05.mma.ws.cta_group::1.kind::f16",
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X", "tcgen05.cp.cta_group::1.128x256b",
        "tcgen05.shift.cta_group::1.down", "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "wmma.load.a.sync.aligned.m16n16k16.row.f16",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes",
        "barrier.cta.red.popc.aligned.u32", "bar.red.and.pred",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32",
        "red.async.relaxed.cluster.global.add.u32", "multimem.ld_reduce.global.add.f32", "alloca.u64",
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
        "tensormap.replace.tile.global_address.global.b1024.b64", "tex.2d.v4.f32.f32", "vadd.s32.s32.s32",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32",
    ],
)  # fmt: skip
def test_what_is_not_emulated_says_so(opcode):
    """Each names its line, the opcode and what is missing."""
    with pytest.raises(PtxError, match=rf"^PTX line 7: {re.escape(opcode)}: .* is not emulated yet$"):
        run(kernel([], f"  {opcode} %r1, %r2;"))


def test_every_absent_instruction_is_tested():
    (mark,) = test_what_is_not_emulated_says_so.pytestmark
    reached = {pattern for pattern in NOT_EMULATED for opcode in mark.args[1] if re.match(pattern, opcode)}
    assert reached == set(NOT_EMULATED)


def test_scopes_have_their_own_labels_and_registers():
    body = "  mov.u32 %r9, 0;\n"
    for _ in range(2):
        body += "  { .reg .pred P; .reg .b32 n; mov.u32 n, 0;\n  AGAIN: add.u32 n, n, 1; setp.lt.u32 P, n, 5;\n"
        body += "  @P bra AGAIN; @!P bra.uni DONE; add.u32 %r9, %r9, 100;\n  DONE: add.u32 %r9, %r9, n; }\n"
    assert (out_words(body)[0] == 10).all()


def test_numbers_and_source_lines():
    text = HEADER + '.file 1 "kernel.py"\n.entry k(.param .u64 o)\n{ .reg .b32 %r<3>; .reg .b64 %rd<2>;\n'
    text += ".loc 1 42 3\n  mov.b32 %r1, 0f3F800000; mov.b32 %r2, 0x10; add.s32 %r2, %r2, -017;\n"
    text += ".loc 1 43 1\n  ld.param.u64 %rd1, [o]; st.global.v2.b32 [%rd1], {%r1, %r2};\n  ld.global.b32 %r1, [%rd1+4096]; ret; }"
    out = np.zeros(32, np.uint32)
    with pytest.raises(PtxError, match="PTX line 11"):
        run(text, out)
    assert out[:2].tolist() == [0x3F800000, 1]
    instructions = parse_module(text).entries["k"].instructions
    assert instructions[0].source == ("kernel.py", 42) and "kernel.py:43" in instructions[-2].where


def test_every_declaration_is_reachable():
    forms = declared()
    assert len(forms) > 120
    assert all(specs for specs in forms.values())


# -- divergence ---------------------------------------------------------------------------------------------------------


def test_each_lane_takes_its_own_path():
    """A Collatz walk: every lane loops its own number of times, with a branch inside."""
    body = "  mov.u32 %r3, %tid.x; add.u32 %r3, %r3, 1; mov.u32 %r9, 0;\n"
    body += "LOOP: setp.eq.u32 %p1, %r3, 1; @%p1 bra END; and.b32 %r4, %r3, 1; setp.ne.u32 %p2, %r4, 0;\n"
    body += "  @%p2 bra ODD; shr.u32 %r3, %r3, 1; bra NEXT;\nODD: mad.lo.u32 %r3, %r3, 3, 1;\n"
    body += "NEXT: add.u32 %r9, %r9, 1; bra LOOP;\nEND: bar.sync 0;\n"

    def steps(n):
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    for schedule in ("eager", "random"):
        got, _ = out_words(body, block=96, grid=3, schedule=schedule)
        assert got.tolist() == [steps(t + 1) for t in range(96)] * 3


def test_lanes_meet_again_before_a_shuffle():
    body = "  mov.u32 %r3, %tid.x; and.b32 %r4, %r3, 1; setp.eq.u32 %p1, %r4, 0; mov.u32 %r5, 0;\n"
    body += "  @%p1 bra EVEN;\nSPIN: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r3; @%p2 bra SPIN; bra JOIN;\n"
    body += "EVEN: mov.u32 %r5, 1000;\nJOIN: shfl.sync.idx.b32 %r9, %r5, 2, 31, -1;\n"
    assert (out_words(body)[0] == 1000).all()


def test_a_shuffle_that_lanes_never_reach_is_a_deadlock():
    body = "  mov.u32 %r3, %tid.x; setp.lt.u32 %p1, %r3, 4; @%p1 bra A; shfl.sync.idx.b32 %r9, %r3, 0, 31, -1; bra B;\n"
    body += "A: shfl.sync.idx.b32 %r9, %r3, 1, 31, -1;\nB:\n"
    with pytest.raises(Deadlock, match="the other lanes of its warp"):
        out_words(body)


def test_branch_tables():
    body = "  mov.u32 %r3, %tid.x; and.b32 %r3, %r3, 3;\n  TABLE: .branchtargets A, B, C, A;\n  brx.idx %r3, TABLE;\n"
    body += "A: mov.u32 %r9, 10; bra E;\nB: mov.u32 %r9, 20; bra E;\nC: mov.u32 %r9, 30;\nE: bar.warp.sync -1;\n"
    assert out_words(body)[0].tolist() == [10, 20, 30, 10] * 8


def test_warps_in_blocks_that_are_no_multiple_of_32():
    got, report = out_words("  mov.u32 %r9, %laneid; bar.sync 0;\n", block=50, grid=2)
    assert got.tolist() == ([*range(32), *range(18)]) * 2
    assert report.instructions == 4 * report.instructions // 4


# -- warp instructions --------------------------------------------------------------------------------------------------


def shuffle_reference(values, mode, amount, control):
    """ISA 9.7.9.6, thread by thread."""
    clamp, segment = control & 31, control >> 8 & 31
    out, valid = [], []
    for lane in range(32):
        highest, lowest = (lane & segment) | (clamp & ~segment & 31), lane & segment
        if mode == "up":
            j, ok = lane - amount, lane - amount >= highest
        elif mode == "down":
            j, ok = lane + amount, lane + amount <= highest
        elif mode == "bfly":
            j, ok = lane ^ amount, (lane ^ amount) <= highest
        else:
            j = lowest | (amount & ~segment & 31)
            ok = j <= highest
        out.append(values[j] if ok else values[lane])
        valid.append(ok)
    return out, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 8, 2])
def test_shuffle(mode, width):
    rng = np.random.default_rng(width)
    control = (32 - width) << 8 | (0 if mode == "up" else 31)
    for amount in (0, 1, 3, 17, 31):
        values = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
        text = f"{{ .reg .pred q; shfl.sync.{mode}.b32 d|q, a0, {amount}, {control}, -1; @!q xor.b32 d, d, 1; }}"
        want, valid = shuffle_reference(values.tolist(), mode, amount, control)
        got = lanes(text, [values], np.uint32)
        assert got.tolist() == [w ^ (not ok) for w, ok in zip(want, valid, strict=True)]


def test_votes_and_reductions():
    rng = np.random.default_rng(3)
    a = rng.integers(0, 6, 32).astype(np.uint32)
    ballot = sum(int(x > 2) << i for i, x in enumerate(a))
    text = "{ .reg .pred q; setp.gt.u32 q, a0, 2; vote.sync.ballot.b32 d, q, -1; }"
    assert (lanes(text, [a], np.uint32) == ballot).all()
    assert (lanes("redux.sync.add.u32 d, a0, -1;", [a], np.uint32) == a.sum()).all()
    signs = (a.astype(np.int32) - 3).view(np.uint32)
    assert (lanes("redux.sync.min.s32 d, a0, -1;", [signs], np.int32) == signs.view(np.int32).min()).all()
    match = [sum(int(y == x) << i for i, y in enumerate(a)) for x in a]
    assert lanes("match.any.sync.b32 d, a0, -1;", [a], np.uint32).tolist() == match
    every = "{ .reg .pred q, r; setp.lt.u32 q, a0, 6; vote.sync.all.pred r, q, -1; selp.u32 d, 1, 0, r; }"
    assert (lanes(every, [a], np.uint32) == 1).all()


def test_one_lane_is_elected():
    body = "  mov.u32 %r9, 0; elect.sync %r3|%p1, -1; @%p1 mov.u32 %r9, 1;\n"
    got, _ = out_words(body, block=64)
    assert got[:32].sum() == 1 and got[32:].sum() == 1


# -- barriers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warps_exchange_through_shared_memory(schedule):
    body = (
        "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3; bar.sync 0;\n"
    )
    body += "  xor.b32 %r6, %r3, 127; mad.lo.u32 %r6, %r6, 4, %r4; ld.shared.u32 %r9, [%r6];\n"
    got, report = out_words(body, block=128, grid=3, schedule=schedule)
    assert got.tolist() == list(range(127, -1, -1)) * 3
    assert report.warnings == []


def test_a_forgotten_barrier_is_seen():
    """Warp 0 reads what warp 3 has yet to write: never-written bytes, reported with the reader."""
    body = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; setp.lt.u32 %p1, %r3, 96; @%p1 bra READ;\n"
    body += "  bar.sync 1, 128; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3;\n  bra END;\n"
    body += "READ: mad.lo.u32 %r5, %r3, 4, %r4; ld.shared.u32 %r9, [%r5+128]; bar.arrive 1, 128;\nEND:\n"
    _, report = out_words(body, block=128)
    assert [w.kind for w in report.warnings] == ["unwritten shared"]
    assert "PTX line 11: ld.shared.u32: CTA 0 thread 0 reads shared byte 1152, never written" in str(report.warnings[0])


def test_named_barriers_release_producer_and_consumer():
    body = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; mov.u32 %r9, 7; setp.ge.u32 %p1, %r3, 32; @%p1 bra CONSUME;\n"
    body += "  mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3; bar.arrive 3, 64; bra END;\n"
    body += "CONSUME: bar.sync 3, 64; mad.lo.u32 %r5, %r3, 4, %r4; ld.shared.u32 %r9, [%r5-128];\nEND:\n"
    got, report = out_words(body, block=64)
    assert got.tolist() == [7] * 32 + list(range(32)) and not report.warnings


def test_a_barrier_that_nobody_completes():
    body = "  mov.u32 %r3, %tid.x; setp.lt.u32 %p1, %r3, 32; @%p1 bra END; bar.sync 5, 96;\nEND:\n"
    with pytest.raises(Deadlock, match=r"CTA 0 warp 1 at PTX line 8 .*barrier 5, 32 of 96 threads arrived"):
        out_words(body, block=64)


def test_too_many_arrivals():
    body = "  mov.u32 %r3, %tid.x; setp.ge.u32 %p1, %r3, 16; @%p1 bra ALL; barrier.arrive 2, 32;\nALL: barrier.arrive 2, 32;\n"
    with pytest.raises(PtxError, match="48 threads arrive at barrier 2 of 32"):
        out_words(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "bar.arrive 2, 96; bar.arrive 2, 32;",
            "barrier 2 of 32 threads, at which 32 have arrived who take it for one of 96",
        ),
        ("bar.sync 2, 0;", "bar.sync for 0 threads: a multiple of 32 that is not 0 is wanted"),
        ("bar.sync 2, 48;", "bar.sync for 48 threads"),
        (
            "setp.eq.u32 %p1, %r0, 0; vote.sync.ballot.b32 %r9, %p1, 0xffff;",
            "thread 16, lane 16, which its own member mask 0x0000ffff leaves out",
        ),
    ],
)
def test_barriers_and_masks_that_contradict_themselves(body, message):
    with pytest.raises(PtxError, match=message):
        out_words(f"  mov.u32 %r0, %tid.x; {body}\n")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("alive", [32, 16])
def test_a_barrier_of_all_waits_for_those_that_live(alive, schedule):
    """The others exit while the first wait (an H200 lets these go on)."""
    body = f"  mov.u32 %r3, %tid.x; setp.ge.u32 %p1, %r3, {alive}; mov.u32 %r4, 0; @%p1 bra LATE; barrier.sync 0; mov.u32 %r9, 7; bra END;\n"
    body += "LATE: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 100; @%p2 bra LATE; ret;\nEND:\n"
    got, _ = out_words(body, block=64, schedule=schedule)
    assert got.tolist() == [7] * alive + [0] * (64 - alive)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("vote.sync.ballot.b32 %r9, %p1, %r4;", [0xAAAA, 0xAAAA, 0xAAAA0000, 0xAAAA0000]),
        ("redux.sync.add.u32 %r9, %r3, %r4;", [120, 120, 376, 376]),
        ("match.any.sync.b32 %r9, %r5, %r4;", [0x5555, 0xAAAA, 0x55550000, 0xAAAA0000]),
        ("match.all.sync.b32 %r9|%p2, %r6, %r4;", [0xFFFF, 0xFFFF, 0xFFFF0000, 0xFFFF0000]),
        ("elect.sync %r9|%p2, %r4;", [0, 0, 16, 16]),
        ("vote.sync.any.pred %p2, %p0, %r4; selp.b32 %r9, 1, 0, %p2;", [1, 1, 0, 0]),
    ],
)
def test_lanes_of_different_masks_do_not_see_each_other(text, want):
    """Two halves of a warp at one instruction, each naming itself (values of an H200 but for match.all)."""
    body = "  mov.u32 %r3, %tid.x; setp.lt.u32 %p0, %r3, 16; selp.b32 %r4, 0x0000ffff, 0xffff0000, %p0;\n"
    body += "  and.b32 %r5, %r3, 1; setp.eq.u32 %p1, %r5, 1; shr.u32 %r6, %r3, 4;\n"
    got, report = out_words(f"{body}  {text}\n")
    assert got[[0, 1, 16, 17]].tolist() == want and not report.warnings


@pytest.mark.parametrize(("mask", "guard"), [("-1", "@!%p1 ret;"), ("0xffff", "@!%p1 bra END;")])
def test_a_shuffle_from_a_lane_that_is_not_there(mask, guard):
    body = f"  mov.u32 %r3, %tid.x; mov.u32 %r9, 0; setp.lt.u32 %p1, %r3, 16; {guard} shfl.sync.bfly.b32 %r9, %r3, 16, 31, {mask};\nEND:\n"
    _, report = out_words(body)
    assert [w.kind for w in report.warnings] == ["shuffle from nobody"]
    assert "CTA 0 thread 0 reads from lane 16, which does not execute it" in str(report.warnings[0])
    _, report = out_words(body.replace("%r3, 16, 31", "%r3, 8, 31"))
    assert not report.warnings


@pytest.mark.parametrize(("text", "kinds"), [
    ("atom.shared.add.u32 %r9, [%r4], 1;", ["unwritten shared"]), ("red.shared.max.u32 [%r4], 1;", ["unwritten shared"]),
    ("atom.shared.exch.b32 %r9, [%r4], 1;", []), ("st.shared.u32 [%r4], %r3; atom.shared.add.u32 %r9, [%r4], 1;", []),
])  # fmt: skip
def test_an_atomic_reads_what_it_changes(text, kinds):
    _, report = out_words(f"  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; mov.u32 %r9, 0; {text}\n")
    assert [w.kind for w in report.warnings] == kinds


# -- mbarriers ----------------------------------------------------------------------------------------------------------

INIT = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; setp.ne.u32 %p1, %r3, 0; mov.u32 %r9, 0;\n"


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ("[%r4], [%rd1+4], 16;", "CTA 0 thread 0 at 0x[0-9a-f]+, which 16 does not divide"),
        ("[%r4], [%rd1], 16, %r5;", "of 16 bytes from 20: at most as many"),
        ("[%r4], [%rd1], 5;", "of 5 bytes: 4, 8 or 16 are copied"),
    ],
)
def test_copies_that_cp_async_does_not_make(copy, message):
    body = f"  ld.param.u64 %rd1, [out]; mov.u32 %r4, smem; mov.u32 %r5, 20; cp.async.ca.shared.global {copy}\n"
    with pytest.raises(PtxError, match=message):
        out_words(body)


def test_numbers_by_value():
    out = np.zeros(1, np.float32)
    text = kernel(
        [("x", "f32"), ("out", "u64")], "  ld.param.f32 %f1, [x]; ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %f1;"
    )
    run(text, 1.5, out)
    assert out[0] == 1.5
    out.flags.writeable = False
    for arguments, message in [
        ((None, out), "x is given None"),
        (("2", out), "x is given '2'"),
        ((1.5, out), "out is given a read-only array"),
    ]:
        with pytest.raises(PtxError, match=message):
            run(text, *arguments)
    with pytest.raises(PtxError, match="-8 bytes of shared memory"):
        run(kernel([], ""), shared_bytes=-8)


@pytest.mark.parametrize(("store", "byte"), [
    ("st.shared.u32 [%r4+4], %r3;", 1028), ("@!%p1 st.shared.v2.b64 [%r4], {%rd1, %rd1};", 1024), ("st.shared.u64 [%r4+8], %rd1;", 0),
    ("@!%p1 cp.async.cg.shared.global [%r4], [%rd1], 16; cp.async.wait_all;", 1024),
    ("bar.sync 0; @!%p1 mbarrier.inval.shared.b64 [%r4]; bar.sync 0; st.shared.u32 [%r4+4], %r3;", 0),
])  # fmt: skip
def test_a_store_over_a_live_mbarrier(store, byte):
    """Reported once, with the byte; beside it and after mbarrier.inval it is none."""
    body = INIT + f"  ld.param.u64 %rd1, [out]; @!%p1 mbarrier.init.shared.b64 [%r4], 1; bar.sync 0;\n  {store}\n"
    _, report = out_words(body)
    assert [w.kind for w in report.warnings] == ["mbarrier overwritten"] * (byte > 0)
    assert not byte or f"to shared byte {byte} of CTA 0, in the mbarrier of PTX line 9" in str(report.warnings[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_phases_of_an_mbarrier(schedule):
    """64 arrivals, three times over; each phase must complete before the next is waited for."""
    body = INIT + "  @%p1 bra GO; mbarrier.init.shared.b64 [%r4], 64;\nGO: bar.sync 0; mov.u32 %r5, 0;\n"
    body += "AGAIN: mbarrier.arrive.shared.b64 %rd1, [%r4]; and.b32 %r6, %r5, 1;\n"
    body += "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], %r6; @!%p2 bra WAIT; add.u32 %r9, %r9, 1;\n"
    body += "  add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 3; @%p3 bra AGAIN;\n"
    got, _ = out_words(body, block=64, grid=2, schedule=schedule)
    assert (got == 3).all()


def test_a_fresh_mbarrier_passes_parity_one():
    body = INIT + "  @%p1 bra END; mbarrier.init.shared.b64 [%r4], 1;\n"
    body += "  mbarrier.test_wait.parity.shared.b64 %p2, [%r4], 1; selp.u32 %r9, 1, 0, %p2;\n"
    body += (
        "  mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; selp.u32 %r5, 10, 0, %p2; add.u32 %r9, %r9, %r5;\nEND:\n"
    )
    assert out_words(body)[0][0] == 1


def test_expected_bytes_hold_the_phase_open():
    body = (
        INIT
        + "  @%p1 bra END; mbarrier.init.shared.b64 [%r4], 1; mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r4], 128;\n"
    )
    body += "  mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; selp.u32 %r9, 1, 0, %p2;\n"
    body += "  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], 128;\n"
    body += (
        "  mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; selp.u32 %r5, 10, 0, %p2; add.u32 %r9, %r9, %r5;\nEND:\n"
    )
    assert out_words(body)[0][0] == 10


def test_a_wait_that_nobody_ends_says_so():
    body = (
        INIT
        + "  @%p1 bra GO; mbarrier.init.shared.b64 [%r4], 65;\nGO: bar.sync 0; mbarrier.arrive.shared.b64 %rd1, [%r4];\n"
    )
    body += "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra WAIT;\n"
    with pytest.raises(Deadlock) as caught:
        out_words(body, block=64)
    assert "1 of 65 arrivals" in str(caught.value) and "CTA 0 warp 0, CTA 0 warp 1" in str(caught.value)


def test_an_mbarrier_is_initialised_once():
    """By one thread; and again only after an mbarrier.inval."""
    head = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; setp.ne.u32 %p1, %r3, 0;\n"
    init, inval = "mbarrier.init.shared.b64 [%r4], 1;", "mbarrier.inval.shared.b64 [%r4];"
    end = "\nEND: mov.u32 %r9, 0;\n"
    assert not out_words(head + f"  @%p1 bra END;\n  {init} {inval} {init}" + end)[1].warnings
    for body in (f"  {init}", f"  @%p1 bra END;\n  {init} {init}"):
        (warning,) = out_words(head + body + end)[1].warnings
        assert "mbarrier.init of shared byte 1024 of CTA 0, where the mbarrier of PTX line" in str(warning)


def test_registers_that_nothing_writes():
    (warning,) = out_words("  add.u32 %r9, %r5, 1;\n")[1].warnings
    assert "add.u32 reads %r5, which no instruction writes" in str(warning)
    (warning,) = out_words("  mov.u32 %r9, 1; @%p3 mov.u32 %r9, 2;\n")[1].warnings
    assert "reads %p3" in str(warning)


@pytest.mark.parametrize("used", ["%r6", "%r7"])
def test_an_undefined_half_is_read_where_it_is_used(used):
    """Compilers pack a value beside an undefined register and unpack both: that alone reads nothing."""
    body = "  mov.u32 %r4, 1; mov.b64 %rd3, {%r4, %r5}; mov.b64 {%r6, %r7}, %rd3;\n"
    warnings = out_words(f"{body}  add.u32 %r9, {used}, 1;\n")[1].warnings
    assert [str(w).split(": ")[1] for w in warnings] == (
        ["mov.b64 reads %r5, which no instruction writes"] if used == "%r7" else []
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  mbarrier.arrive.shared.b64 %rd1, [%r4+8];\n", "where no mbarrier was initialised"),
        ("  mbarrier.init.shared.b64 [%r4+4], 1;\n", "which 8 does not divide"),
        ("  mbarrier.init.shared.b64 [%r4+8], 0;\n", "with count 0"),
        ("  mbarrier.init.shared.b64 [%r4+2048], 1;\n", "touches shared bytes"),
        (
            "  mbarrier.init.shared.b64 [%r4], 2; mbarrier.arrive.shared.b64 %rd1, [%r4], 3;\n",
            "more arrivals than its count",
        ),
    ],
)
def test_misuse_of_mbarriers(body, message):
    with pytest.raises(PtxError, match=message):
        out_words("  mov.u32 %r4, smem;\n" + body)


# -- memory -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            "ld.global.b32 %r9, [%rd1+128]",
            r"CTA 0 thread 0 touches 4 bytes at global address .* byte 128 of out \(128 bytes\)",
        ),
        ("ld.global.b32 %r9, [%rd1-4]", "byte -4 of out"),
        ("ld.global.b32 %r9, [%rd1+2]", "which 4 does not divide"),
        ("st.global.v4.b32 [%rd1+8], {%r9, %r9, %r9, %r9}", "which 16 does not divide"),
        ("st.shared.b32 [%r4+2048], %r9", "touches shared bytes 3072 to 3075 of 3072"),
        ("ld.shared.b64 %rd2, [%r4+4]", "which 8 does not divide"),
        ("ld.shared.b32 %r9, [100000]", "touches shared bytes"),
        ("ld.param.b32 %r9, [out+64]", "leaves .param memory"),
    ],
)
def test_accesses_outside(access, message):
    body = f"  mov.u32 %r9, 0; mov.u32 %r4, smem; ld.param.u64 %rd1, [out];\n  {access};\n"
    with pytest.raises(PtxError, match=f"line 9: .*{message}"):
        out_words(body)


def test_null_pointers_hit_nothing():
    with pytest.raises(PtxError, match="global address 0x0"):
        out_words("  mov.u64 %rd1, 0; ld.global.b32 %r9, [%rd1];\n")


def test_generic_addresses_reach_every_space():
    body = "  .local .align 8 .b8 depot[16];\n  mov.u32 %r4, smem; cvt.u64.u32 %rd1, %r4; cvta.shared.u64 %rd1, %rd1;\n"
    body += "  mov.u64 %rd2, depot; cvta.local.u64 %rd2, %rd2; mov.u32 %r5, %tid.x; st.u32 [%rd2], %r5;\n"
    body += "  mad.wide.u32 %rd3, %r5, 4, %rd1; st.u32 [%rd3], 5; ld.shared.u32 %r6, [%r4];\n"
    body += (
        "  ld.local.u32 %r7, [depot]; add.u32 %r9, %r6, %r7; cvta.to.shared.u64 %rd4, %rd1; cvt.u32.u64 %r8, %rd4;\n"
    )
    body += "  sub.u32 %r8, %r8, %r4; add.u32 %r9, %r9, %r8;\n"
    assert out_words(body)[0].tolist() == [t + 5 for t in range(32)]


def test_narrow_loads_extend():
    source = np.array([0x80, 0x7F, 0xFF, 0x01] * 8, np.uint8)
    for kind, dtype in (("u8", np.uint8), ("s8", np.int8)):
        body = "  ld.param.u64 %rd1, [src]; mov.u32 %r1, %tid.x; cvt.u64.u32 %rd2, %r1; add.s64 %rd1, %rd1, %rd2;\n"
        body += f"  ld.global.{kind} %r2, [%rd1]; ld.param.u64 %rd3, [out]; mad.wide.u32 %rd3, %r1, 4, %rd3;\n"
        out = np.zeros(32, np.int32)
        run(kernel([("src", "u64"), ("out", "u64")], body + "  st.global.b32 [%rd3], %r2;"), source, out)
        assert out.tolist() == source.view(dtype).tolist()


def test_constants_of_the_module():
    text = kernel([("out", "u64")], "  mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 3; mov.u64 %rd1, table; cvta.const.u64 %rd1, %rd1;\n"
                  "  mad.wide.u32 %rd1, %r1, 4, %rd1; ld.u32 %r2, [%rd1]; ld.const.u32 %r3, [table+4]; add.u32 %r2, %r2, %r3;\n"
                  "  ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd2; st.global.u32 [%rd2], %r2;")  # fmt: skip
    out = np.zeros(32, np.uint32)
    run(text.replace(".entry", ".const .align 4 .u32 table[4] = {5, 6, 7, 8};\n.entry", 1), out)
    assert out.tolist() == [11, 12, 13, 14] * 8


def test_atomics_see_each_other():
    total, order = np.zeros(2, np.uint32), np.zeros(64, np.uint32)
    body = "  ld.param.u64 %rd1, [total]; ld.param.u64 %rd2, [order]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd2;\n"
    body += "  atom.global.add.u32 %r2, [%rd1], 1; st.global.u32 [%rd2], %r2; red.global.max.u32 [%rd1+4], %r1;\n"
    run(kernel([("total", "u64"), ("order", "u64")], body), total, order, block=(64, 1, 1))
    assert total.tolist() == [64, 63] and sorted(order.tolist()) == list(range(64))


def test_compare_and_swap_and_float_atomics():
    cell, sum_ = np.array([0], np.uint32), np.zeros(4, np.float32)
    body = "  ld.param.u64 %rd1, [c]; ld.param.u64 %rd2, [s]; mov.u32 %r1, %laneid; add.u32 %r2, %r1, 1;\n"
    body += "  atom.global.cas.b32 %r3, [%rd1], %r1, %r2; red.global.add.v4.f32 [%rd2], {0f3F800000, 0f40000000, 0f3F800000, 0f00000000};\n"
    run(kernel([("c", "u64"), ("s", "u64")], body), cell, sum_)
    assert cell[0] == 32 and sum_.tolist() == [32.0, 64.0, 32.0, 0.0]


# -- asynchronous copies ------------------------------------------------------------------------------------------------

COPY = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; mad.lo.u32 %r5, %r3, 16, %r4; ld.param.u64 %rd1, [src];\n"
COPY += "  mad.wide.u32 %rd1, %r3, 16, %rd1; cp.async.cg.shared.global [%r5], [%rd1], 16; cp.async.commit_group;\n"


def copied(wait, schedule):
    body = COPY + wait + "  ld.shared.u32 %r9, [%r5]; ld.param.u64 %rd2, [out]; mad.wide.u32 %rd2, %r3, 4, %rd2;\n"
    source, out = np.arange(128, dtype=np.uint32), np.zeros(32, np.uint32)
    text = shared_kernel([("src", "u64"), ("out", "u64")], body + "  st.global.u32 [%rd2], %r9;")
    report = run(text, source, out, shared_bytes=512, schedule=schedule)
    return out, report


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_waiting_for_a_copy(schedule):
    got, report = copied("  cp.async.wait_group 0;\n", schedule)
    assert (got == np.arange(0, 128, 4)).all() and not report.warnings


def test_a_forgotten_wait_reads_poison_when_copies_are_late():
    assert (copied("", "eager")[0] == np.arange(0, 128, 4)).all()
    got, report = copied("", "lazy")
    assert (got == 0xFFFFFFFF).all() and report.warnings[0].kind == "unwritten shared"
    assert (copied("  cp.async.wait_group 1;\n", "lazy")[0] == 0xFFFFFFFF).all()


def bulk_store(wait, schedule):
    """Shared bytes are stored in bulk and then overwritten: the wait must come between."""
    body = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3;\n"
    body += "  setp.ne.u32 %p1, %r3, 0; bar.warp.sync -1; @%p1 bra JOIN; ld.param.u64 %rd1, [dst];\n"
    body += "  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 128; cp.async.bulk.commit_group;\n" + wait
    body += "JOIN: bar.warp.sync -1; st.shared.u32 [%r5], 99;"
    out = np.zeros(32, np.uint32)
    run(shared_kernel([("dst", "u64")], body), out, shared_bytes=512, schedule=schedule)
    return out.tolist()


def test_source_of_a_bulk_store_must_be_awaited():
    for schedule in SCHEDULES:
        assert bulk_store("  cp.async.bulk.wait_group.read 0;\n", schedule) == list(range(32))
    assert bulk_store("", "eager") == list(range(32))
    assert bulk_store("", "lazy") == [99] * 32


def test_random_schedules_repeat_with_their_seed():
    runs = [copied("  cp.async.wait_group 0;\n", "random")[1].instructions for _ in range(2)]
    assert runs[0] == runs[1]
    with pytest.raises(PtxError, match="schedule 'sometimes' is none of"):
        copied("", "sometimes")


# -- notes and reports --------------------------------------------------------------------------------------------------


def test_printf_is_noted_and_an_assertion_stops():
    declared = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
    body = (
        "  { .param .b64 p0; .param .b64 p1; .param .b32 r0; call.uni (r0), vprintf, (p0, p1); }\n  mov.u32 %r9, 3;\n"
    )
    text = kernel([("out", "u64")], body + "  ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r9;")
    out = np.zeros(32, np.uint32)
    report = run(text.replace(".entry", declared + ".entry", 1), out)
    assert out[0] == 3 and "printf is passed over" in str(report.warnings[0])
    with pytest.raises(PtxError, match="trap in CTA 0 thread 31"):
        out_words("  mov.u32 %r9, %tid.x; setp.eq.u32 %p1, %r9, 31; @%p1 trap;\n")


def test_the_report_counts_warp_instructions():
    _, report = out_words("  mov.u32 %r9, 0;\n", block=64, grid=5)
    assert report.instructions == 9 * 2 * 5  # eight to store the word, one to make it, ret
    assert "warp-instructions" in str(report)


def test_an_endless_loop_ends_at_the_limit():
    with pytest.raises(PtxError, match="no end after"):
        out_words("  mov.u32 %r9, 0;\nAGAIN: add.u32 %r9, %r9, 1; bra AGAIN;\n", limit=20_000)


def test_blocks_must_have_the_required_threads():
    text = kernel([], "  bar.sync 0;").replace(")\n{", ")\n.reqntid 64, 1, 1\n{")
    run(text, block=(64, 1, 1))
    with pytest.raises(PtxError, match="requires blocks of"):
        run(text, block=(32, 1, 1))


# -- proxy fences -------------------------------------------------------------------------------------------------------


def fenced(before, after):
    """128 bytes are stored by threads and then in bulk by thread 0, with a fence on either side of the barrier."""
    body = "  mov.u32 %r3, %tid.x; mov.u32 %r4, smem; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3;\n"
    body += f"  {before} bar.sync 0; setp.ne.u32 %p1, %r3, 0; @%p1 bra END; ld.param.u64 %rd1, [dst]; {after}\n"
    body += "  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 128; cp.async.bulk.commit_group;\n"
    body += "  cp.async.bulk.wait_group 0;\nEND:"
    out = np.zeros(32, np.uint32)
    report = run(shared_kernel([("dst", "u64")], body), out, shared_bytes=512)
    assert (out == np.arange(32)).all()
    return [str(w) for w in report.warnings]


def test_a_forgotten_proxy_fence_is_named():
    fence = "fence.proxy.async.shared::cta;"
    assert fenced(fence, "") == [] and fenced("", fence) == []
    (warning,) = fenced("", "")
    assert "reads shared byte 1024, which thread 3 stored without a fence.proxy.async since" in warning
