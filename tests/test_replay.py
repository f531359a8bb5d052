# ruff: noqa: E501  (lines of PTX)
"""The real P handoff kernel, compiled by CuTe DSL without a GPU and run on the CPU."""

from __future__ import annotations

import ctypes
import io
import tempfile
from functools import cache
from types import SimpleNamespace

import cutlass.cute as cute
import joblib
import ml_dtypes
import numpy as np
import pytest
import replayed_kernels
from cutlass.cute.runtime import from_dlpack

from layoutlab.cutedsl.capture import capture, capture_packed, elf_symbols
from layoutlab.errors import LayoutError
from layoutlab.kernels.p_handoff import compile_kernel, pointers
from layoutlab.kernels.p_settings import PSettings
from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parallel import run_in_processes
from layoutlab.ptx.parse import PtxError, parse_module
from layoutlab.ptx.progress import Bar
from layoutlab.ptx.state import Geometry
from layoutlab.replay import replay, tensor_extent

DTYPES = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@cache
def compiled(settings):
    return compile_kernel(settings)


def aligned(shape, dtype):
    """An array whose first byte is a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def operands(settings, seed=5):
    rng = np.random.default_rng(seed)
    dtype = DTYPES[settings.dtype]
    s, v = aligned((128, settings.kv), np.float32), aligned((settings.kv, settings.head_dim), dtype)
    s[:], v[:] = rng.integers(-3, 4, s.shape), rng.integers(-3, 4, v.shape).astype(dtype)
    return s, v, aligned((128, settings.head_dim), np.float32)


def run(settings, **options):
    s, v, o = operands(settings)
    where = pointers(settings, s.ctypes.data, v.ctypes.data, o.ctypes.data)
    report = replay(compiled(settings), *where, buffers=[s, v, o], **options)
    return o, s @ v.astype(np.float32), report


RIGHT = [
    PSettings(), PSettings(store="composition"), PSettings(store="tiled_copy_d", dtype="e4m3"),
    PSettings(store="tiled_copy_d", base=512, load="x64"), PSettings(dtype="e5m2", kv=64, head_dim=256, load="x16"),
    PSettings(dtype="f16", kv=256, store="composition"),
]  # fmt: skip
WRONG = [PSettings(write_swizzle="none"), PSettings(k_order="021"), PSettings(store="composition_raw")]


@pytest.mark.parametrize("settings", RIGHT, ids=str)
def test_right_settings_give_the_product(settings):
    got, want, report = run(settings)
    assert np.array_equal(got, want)
    assert report.warnings == [] and report.instructions > 1000


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_planted_faults_give_another(settings):
    got, want, _ = run(settings)
    assert np.count_nonzero(got != want) > got.size // 2


def test_the_wrong_warps_stop_at_tensor_memory():
    with pytest.raises(PtxError, match="warp 1 of CTA 0 touches TMEM lanes 0 to 31; it owns 32 to 63"):
        run(PSettings(first_warp=1))


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_every_schedule_agrees(schedule):
    for seed in range(3):
        got, want, report = run(PSettings(store="tiled_copy_d"), schedule=schedule, seed=seed)
        assert np.array_equal(got, want) and report.warnings == []


# -- provenance ---------------------------------------------------------------------------------------------------------


def test_who_wrote_what_the_tensor_core_reads():
    """Element (m, k) of A was written by thread m, and its bytes hold P[m, k]."""
    settings = PSettings(store="tiled_copy_d", kv=64)
    s, _, _ = operands(settings)
    record = run(settings, provenance=True)[2].provenance
    reads = record.reads_of("A")
    assert [r.location.shape for r in reads] == [(128, 16)] * 4
    shared = record.snapshots[0].shared
    checked = 0
    for step, read in enumerate(reads):
        assert (read.writers[..., 1] == np.arange(128)[:, None]).all()
        lines = {record.events[event - 1][1].opcode for event in np.unique(read.writers[..., 0])}
        assert all(line.startswith("st.shared") for line in lines)
        bits = shared[read.location].astype(np.uint16) | shared[read.location + 1].astype(np.uint16) << 8
        assert np.array_equal(bits.view(ml_dtypes.bfloat16).astype(np.float32), s[:, 16 * step : 16 * step + 16])
        checked += bits.size
    assert checked == 128 * 64


def test_the_writer_of_a_byte():
    record = run(PSettings(store="tiled_copy_d", kv=64), provenance=True)[2].provenance
    read = record.reads_of("A")[0]
    byte = int(read.location[5, 3])
    writer = record.shared_writer(0, byte)
    assert writer.thread == 5 and writer.opcode.startswith("st.shared") and writer.cta == 0
    stores = record.stores_to("shared", "st.shared")
    assert any(
        s.thread[i] == 5 and s.address[i] <= byte < s.address[i] + s.width for s in stores for i in range(len(s.thread))
    )
    assert record.shared_writer(0, 0) is None


def test_a_store_keeps_what_each_thread_wrote():
    """Under tiled_copy_c all threads store to the same bytes, and only the last one's are left there."""
    settings = PSettings(store="tiled_copy_c", kv=64)
    s, _, _ = operands(settings)
    record = run(settings, provenance=True)[2].provenance
    first = record.reads_of("A")[0].time
    stores = [
        x for x in record.stores_to("shared", "st.shared") if x.time < first and len(set(x.address.tolist())) == 1
    ]
    rows = sum(np.array_equal(x.data.copy().view(ml_dtypes.bfloat16).astype(np.float32)[np.argsort(x.thread)], s[:, v : v + 1])
               for v, x in enumerate(stores[-64:]))  # fmt: skip
    assert rows == 64


def test_tensor_memory_has_writers_too():
    record = run(PSettings(kv=64), provenance=True)[2].provenance
    loads = record.reads_of("tmem.load")
    first = loads[0]
    assert first.location.shape == (32, 32, 3) and first.location[3, 7].tolist() == [
        3,
        int(first.location[0, 0, 1]) + 7,
        0,
    ]
    writer = record.tmem_writer(0, 3, int(first.location[3, 7, 1]))
    assert writer is not None and writer.opcode.startswith(("tcgen05.st", "tcgen05.mma"))
    assert record.reads_of("D")[0].space == "tmem"


# -- capture ------------------------------------------------------------------------------------------------------------


def test_capture_writes_down_the_launch():
    settings = PSettings()
    launch = capture(compiled(settings), *pointers(settings, 4096, 8192, 12288)).launches[0]
    assert (launch.grid, launch.block, launch.cluster) == ((1, 1, 1), (128, 1, 1), (1, 1, 1))
    assert launch.shared_bytes > 128 * 128 * 2 and launch.tensor_maps == {}
    addresses = [int.from_bytes(p[:8], "little") for p in launch.params if len(p) >= 8]
    assert {4096, 8192, 12288} <= set(addresses)


def test_without_its_ptx_it_says_how_to_keep_it():
    class Bare:
        artifacts = None

    with pytest.raises(LayoutError, match="CUTE_DSL_KEEP=ptx"):
        capture(Bare())


def test_only_elf_objects_are_read():
    with pytest.raises(LayoutError, match="ELF"):
        elf_symbols(b"MZ" + bytes(64))


def test_tensor_extents():
    array = np.zeros((4, 8), np.float32)
    assert tensor_extent(array) == (array.ctypes.data, 128)
    assert tensor_extent(array[1:3, ::2]) == (array.ctypes.data + 32, 32 + 28)
    assert tensor_extent(3) is None and tensor_extent(ctypes.c_int(3)) is None


def test_a_pointer_to_nowhere_is_named():
    settings = PSettings()
    s, v, o = operands(settings)
    where = pointers(settings, s.ctypes.data, v.ctypes.data, o.ctypes.data)
    with pytest.raises(PtxError, match=r"ld\.global.*touches .* bytes at global address"):
        replay(compiled(settings), *where, buffers=[s, o])


# -- arguments that the host code would take for others ------------------------------------------------------------------


@cache
def doubled():
    """A compiled function that writes its first tensor, 128 float32, doubled to its second."""
    x, y = (from_dlpack(each) for each in replayed_kernels.arrays())
    options = f"--gpu-arch=sm_100a --keep-ptx --dump-dir={tempfile.mkdtemp()}"
    return cute.compile(replayed_kernels.doubled, x, y, options=options)


class Exported:
    """What has nothing but the two methods of DLPack, on a device of this type."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


def test_what_only_exports_dlpack_is_taken():
    x, y = aligned((128,), np.float32), aligned((128,), np.float32)
    x[:] = np.arange(128)
    replay(doubled(), Exported(x), y)
    assert np.array_equal(y, 2 * x)


def read_only():
    array = aligned((128,), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("replaced", "options", "message"),
    [
        ({1: None}, {}, r"argument 1, y, is a NoneType where the compiled function takes a tensor"),
        ({0: [1.0, 2.0]}, {}, r"argument 0, x, is a list where the compiled function takes a tensor"),
        ({0: 3}, {}, r"argument 0, x, is a int"),
        ({0: Exported(np.zeros(128), 2)}, {}, "replay runs on CPU tensors, given one of another device"),
        ({1: read_only()}, {}, "argument 1 is a read-only array, and replay runs in place: pass a copy"),
        ({0: np.zeros(128, object)}, {}, "argument 0, ndarray of object, has no form that a kernel takes"),
        ({0: np.zeros(516, np.uint8)[1:513].view(np.float32)}, {}, "does not take these arguments: .*not aligned"),
        ({2: 1}, {}, "takes x, y, replay was given 3"),
        ({}, {"options": ["strict"]}, r"options \['strict'\]: replay knows strict tcgen05.ld, tmem lane 0"),
        ({}, {"jobs": 0}, "jobs=0: a count of at least 1"), ({}, {"wave_ctas": -4}, "wave_ctas=-4: a count"),
        ({}, {"schedule": "slow"}, "'slow' is none of eager, random, lazy"),
    ],
)  # fmt: skip
def test_arguments_that_are_refused(replaced, options, message):
    """Not handed to the host code, which would read memory that is none."""
    arguments = {0: aligned((128,), np.float32), 1: aligned((128,), np.float32)} | replaced
    with pytest.raises((LayoutError, PtxError), match=message):
        replay(doubled(), *arguments.values(), **options)


def test_a_compile_without_an_object_says_how_to_have_one():
    """CuTe DSL 4.8.1 gives none for another architecture than its own."""

    class Compiled:
        artifacts = SimpleNamespace(PTX=SQUARES)

        def dump_to_object(self, prefix):
            raise RuntimeError("Error dumping object file")

    with pytest.raises(LayoutError, match="set CUTE_DSL_ARCH to that of the compile"):
        capture_packed(Compiled(), [])


def test_an_argument_too_few():
    with pytest.raises(LayoutError, match="takes x, y, replay was given 1: missing a required argument: 'y'"):
        replay(doubled(), aligned((128,), np.float32))


# -- several CTAs, several processes ------------------------------------------------------------------------------------

SQUARES = """.version 8.8
.target sm_100a
.address_size 64
.entry squares(.param .u64 x)
{ .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r4, [%rd2]; mul.lo.u32 %r4, %r4, %r4; st.global.u32 [%rd2], %r4; ret; }
"""


def squares(jobs, ctas=24):
    x = aligned((ctas * 64,), np.uint32)
    x[:] = np.arange(x.size)
    module = parse_module(SQUARES)
    memory = GlobalMemory()
    memory.register("x", x.ctypes.data, x.nbytes, x)
    done = []
    where = (
        module,
        module.entries["squares"],
        Geometry((ctas, 1, 1), (64, 1, 1), 0),
        [x.ctypes.data.to_bytes(8, "little")],
    )
    if jobs == 1:
        report = run_grid(*where, memory, progress=done.append, wave_ctas=5)
    else:
        report = run_in_processes(*where, memory, jobs, progress=done.append)
    return x, report, done


def test_processes_share_the_ctas():
    alone, one, _ = squares(1)
    together, two, done = squares(2)
    assert np.array_equal(alone, np.arange(alone.size, dtype=np.uint32) ** 2) and np.array_equal(alone, together)
    assert one.instructions == two.instructions and done[-1] == 24 and done == sorted(done)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_every_backend_of_joblib_shares_them(backend):
    """`tests/strangers/dask_backend.py` does the same on a dask cluster."""
    with joblib.parallel_config(backend=backend):
        x, report, done = squares(2)
    assert np.array_equal(x, np.arange(x.size, dtype=np.uint32) ** 2) and done[-1] == 24 and not report.warnings


def test_progress_counts_ctas():
    assert squares(1)[2] == [5, 10, 15, 20, 24]


def test_provenance_stays_in_one_process():
    with pytest.raises(PtxError, match="one process"):
        run_in_processes(None, None, None, [], None, 2, provenance=True)


def test_the_bar_keeps_quiet_off_a_terminal():
    stream = io.StringIO()
    Bar(10, stream, patience=0.0)(10)
    assert stream.getvalue() == ""
    stream.isatty = lambda: True
    Bar(10, stream, patience=0.0)(10)
    assert "10 of 10 CTAs" in stream.getvalue() and stream.getvalue().endswith("\n")


def test_the_package_offers_replay():
    import layoutlab

    assert callable(layoutlab.replay)
    s, v, o = operands(PSettings(kv=64))
    where = pointers(PSettings(kv=64), s.ctypes.data, v.ctypes.data, o.ctypes.data)
    layoutlab.replay(compiled(PSettings(kv=64)), *where, buffers=[s, v, o])
    assert np.array_equal(o, s @ v.astype(np.float32))
