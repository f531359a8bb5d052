"""The SM100 attention kernel, replayed from its own PTX, against float64 on the same 16-bit inputs."""

import ctypes
import doctest
import importlib
import json
import math
import re
from typing import get_args, get_type_hints

import ml_dtypes
import numpy as np
import pytest
from host_driver import CUresult, HostDriver
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutlab.device import LaunchFailed, runner
from layoutlab.errors import LayoutError
from layoutlab.handoff import verify
from layoutlab.kernels import attention_device, attention_reference, attention_run
from layoutlab.kernels.attention_config import SHARED_BYTES, TMEM_COLUMNS, AttentionConfig
from layoutlab.kernels.attention_device import Unavailable, architecture
from layoutlab.kernels.attention_handoffs import attention_handoffs
from layoutlab.kernels.attention_host import Operand, arguments, check, compile_attention, dense, operand
from layoutlab.kernels.attention_reference import errors, reference
from layoutlab.kernels.attention_run import Replay, random_inputs, range_warnings, run_attention
from layoutlab.ptx.parse import PtxError

HEAD_DIMS = (64, 128, 256)


def replayed(config, batch=1, seq_q=128, seq_kv=128, heads=1, kv_heads=1, magnitude=1.0, seed=0, **options):
    """One run on random inputs."""
    inputs = random_inputs(batch, seq_q, seq_kv, heads, kv_heads, config.head_dim, seed, magnitude)
    return run_attention(config, *inputs, seed=seed, **options)


def bits(outcome):
    """O and the statistics of a run as bytes, for equality bit by bit."""
    return outcome.o.tobytes(), outcome.lse.tobytes(), outcome.row_max.tobytes()


# -- right results ----------------------------------------------------------------------------------------------------

QUICK = [
    # head_dim, dtype, p, causal, batch, seq_q, seq_kv, heads, kv_heads
    (64, "bf16", "tmem", False, 1, 128, 128, 1, 1),
    (64, "f16", "smem", True, 2, 300, 300, 2, 1),
    (128, "bf16", "smem", True, 1, 129, 257, 1, 1),
    (128, "f16", "tmem", False, 1, 127, 129, 2, 2),
    (256, "bf16", "tmem", False, 1, 1, 1, 1, 1),
    (256, "f16", "smem", True, 1, 130, 200, 1, 1),
    (256, "bf16", "tmem", True, 1, 129, 127, 4, 2),
    (64, "bf16", "tmem", True, 1, 1, 300, 3, 1),
]
LENGTHS = [(1, 1), (1, 127), (127, 1), (127, 129), (128, 256), (129, 127), (129, 129), (257, 384), (300, 1000)]


@pytest.mark.parametrize("head_dim, dtype, p, causal, batch, seq_q, seq_kv, heads, kv_heads", QUICK)
def test_close_to_float64(head_dim, dtype, p, causal, batch, seq_q, seq_kv, heads, kv_heads):
    config = AttentionConfig(head_dim=head_dim, dtype=dtype, p=p, causal=causal)
    outcome = replayed(config, batch, seq_q, seq_kv, heads, kv_heads)
    assert outcome.good, str(outcome)
    assert outcome.warnings == []
    assert outcome.instructions > 0


@pytest.mark.slow
@pytest.mark.parametrize("seq_q, seq_kv", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("p", ["tmem", "smem"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_length(head_dim, dtype, p, causal, seq_q, seq_kv):
    config = AttentionConfig(head_dim=head_dim, dtype=dtype, p=p, causal=causal)
    outcome = replayed(config, 1, seq_q, seq_kv, 2, 1, seed=seq_q + seq_kv)
    assert outcome.good, str(outcome)
    assert outcome.warnings == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_shapes(seed):
    rng = np.random.default_rng(seed)
    kv_heads, group = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    config = AttentionConfig(
        head_dim=int(rng.choice(HEAD_DIMS)),
        dtype=str(rng.choice(["bf16", "f16"])),
        p=str(rng.choice(["tmem", "smem"])),
        causal=bool(rng.integers(2)),
        rescale_threshold=float(rng.choice([0.0, 8.0])),
    )
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 400)), int(rng.integers(0, 700)), kv_heads * group, kv_heads)
    outcome = replayed(config, *shape, seed=seed, schedule=str(rng.choice(["eager", "lazy", "random"])), ctas=3)
    assert outcome.good, f"{config} {shape}: {outcome}"


@pytest.mark.slow
@pytest.mark.parametrize("magnitude", [0.01, 0.3, 3.0, 10.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_seeds_and_magnitudes(head_dim, dtype, seed, magnitude):
    outcome = replayed(AttentionConfig(head_dim=head_dim, dtype=dtype), 1, 200, 333, seed=seed, magnitude=magnitude)
    assert outcome.good, str(outcome)


def test_rows_that_see_nothing_are_zero_and_minus_infinity():
    config = AttentionConfig(head_dim=64, causal=True)
    outcome = replayed(config, seq_q=200, seq_kv=40)  # rows 0 to 159 see no key
    assert outcome.good, str(outcome)
    assert not outcome.o[:, :160].astype(np.float32).any()
    assert (outcome.lse[:, :, :160] == -np.inf).all()
    assert np.isfinite(outcome.lse[:, :, 160:]).all()
    assert outcome.o[:, 160:].astype(np.float32).all()


def test_without_keys_every_row_is_zero():
    outcome = replayed(AttentionConfig(head_dim=64), seq_q=5, seq_kv=0)
    assert outcome.good, str(outcome)
    assert not outcome.o.astype(np.float32).any()
    assert (outcome.lse == -np.inf).all()


# -- the same bits whatever the route, the schedule and the number of CTAs ---------------------------------------------


def test_where_p_is_handed_over_does_not_change_a_bit():
    ways = [{"p": "tmem"}, {"p": "tmem", "tmem_p0_offset": 64}]
    ways += [{"p": "smem", "route": route} for route in ("vector", "coordinate", "composition")]
    found = {bits(replayed(AttentionConfig(head_dim=64, **way), seq_q=129, seq_kv=300)) for way in ways}
    assert len(found) == 1


@pytest.mark.parametrize("p", ["tmem", "smem"])
def test_schedules_do_not_change_a_bit(p):
    config = AttentionConfig(head_dim=64, p=p)
    schedules = [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)]
    inputs = random_inputs(1, 200, 400, 1, 1, 64)
    found = {bits(run_attention(config, *inputs, schedule=name, seed=seed, ctas=1)) for name, seed in schedules}
    assert len(found) == 1


def test_ctas_share_the_tiles():
    inputs = random_inputs(2, 300, 200, 2, 1, 64)
    outcomes = [run_attention(AttentionConfig(head_dim=64), *inputs, ctas=ctas) for ctas in (1, 5, 148)]
    assert outcomes[0].good, str(outcomes[0])
    assert len({bits(outcome) for outcome in outcomes}) == 1


def test_o_is_rescaled_only_when_a_maximum_moved():
    """The same keys with the row maxima in the first tile or in the last: only the second run rescales."""
    q, k, v = random_inputs(1, 128, 256, 1, 1, 64)
    q = np.abs(q)
    k = -np.abs(k)
    k[:, 5] = 1.0
    config = AttentionConfig(head_dim=64)
    early = run_attention(config, q, k, v)
    late = run_attention(config, q, k[:, ::-1], v[:, ::-1])
    assert early.good and late.good
    loads = 64 // 32  # by each of four warps
    assert late.instructions - early.instructions >= 4 * loads * (32 + 2)  # 32 products, a load and a store
    patient = run_attention(AttentionConfig(head_dim=64, rescale_threshold=8.0), q, k, v)
    assert bits(patient) == bits(early)  # where nothing is rescaled, the threshold changes nothing


# -- split results ----------------------------------------------------------------------------------------------------


def halves(config, seq_kv=300, cut=129, **shape):
    """The runs of the two halves of the keys, and the float64 reference of the whole."""
    q, k, v = random_inputs(1, 150, seq_kv, 2, 1, config.head_dim, seed=7, **shape)
    runs = [run_attention(config, q, k[:, part], v[:, part]) for part in (slice(cut), slice(cut, None))]
    rounded = [x.astype(runs[0].o.dtype) for x in (q, k, v)]
    return runs, reference(*rounded, config.head_dim**-0.5)


def by_row(statistic):
    """(batch, heads, rows) as a factor of O."""
    return statistic.astype(np.float64).transpose(0, 2, 1)[..., None]


@pytest.mark.parametrize("threshold", [0.0, 8.0])
def test_unnormalized_halves_merge(threshold):
    (a, b), (o, _) = halves(AttentionConfig(head_dim=64, normalize=False, rescale_threshold=threshold), magnitude=2.0)
    weighted = sum(np.exp(by_row(x.row_max)) * x.o.astype(np.float64) for x in (a, b))
    merged = weighted / sum(np.exp(by_row(x.lse)) for x in (a, b))
    assert errors(merged, o).within("bf16")


def test_an_unnormalized_f16_o_that_may_overflow_is_warned_of():
    """Equal scores: each row's sum is the number of keys, and O that many times V."""
    q, k, v = random_inputs(1, 8, 100, 1, 1, 64)
    config = AttentionConfig(head_dim=64, dtype="f16", normalize=False)
    fits = run_attention(config, 0 * q, k, np.full_like(v, 600.0))
    assert fits.good and fits.warnings == [] and float(fits.o.max()) == 60000.0
    over = run_attention(config, 0 * q, k, np.full_like(v, 700.0))
    assert not over.good and np.isinf(over.o.astype(np.float32)).all()
    assert over.warnings == range_warnings(config, np.full(v.shape, 700.0)) and "beyond f16 (65504)" in over.warnings[0]
    stale = AttentionConfig(head_dim=64, dtype="f16", normalize=False, rescale_threshold=8.0)
    assert "times 2^8 is" in range_warnings(stale, np.full(v.shape, 600.0))[0]
    for other in ({"dtype": "bf16", "normalize": False}, {"dtype": "f16"}):
        assert range_warnings(AttentionConfig(head_dim=64, **other), np.full(v.shape, 700.0)) == []


def test_normalized_halves_merge_by_lse_alone():
    (a, b), (o, lse) = halves(AttentionConfig(head_dim=64))
    whole = np.logaddexp(a.lse, b.lse)
    merged = sum(np.exp(by_row(x.lse - whole)) * x.o.astype(np.float64) for x in (a, b))
    assert errors(merged, o, whole, lse).within("bf16")


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_the_same_in_parts(monkeypatch, causal):
    """Long sequences are taken some rows at a time; here each row by itself."""
    inputs = random_inputs(2, 9, 7, 4, 2, 64)
    whole = reference(*inputs, 0.125, causal)
    monkeypatch.setattr(attention_reference, "MOST_SCORES", 1)
    for one, other in zip(whole, reference(*inputs, 0.125, causal), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_stale_maximum_is_the_one_reported():
    config = AttentionConfig(head_dim=64, rescale_threshold=8.0)
    inputs = random_inputs(1, 128, 512, 1, 1, 64, seed=3)
    stale = run_attention(config, *inputs)
    fresh = run_attention(AttentionConfig(head_dim=64), *inputs)
    assert stale.good, str(stale)
    assert (stale.row_max <= fresh.row_max).all()
    assert (stale.row_max < fresh.row_max).any()
    assert np.abs(stale.lse - fresh.lse).max() < 1e-3


# -- planted faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["p_offset_forgotten", "p_offset_in_columns"])
def test_a_wrong_p_offset_is_seen(fault):
    outcome = replayed(AttentionConfig(head_dim=64, fault=fault))
    assert not outcome.good
    assert outcome.errors.lse_error < 1e-3  # the fault is in P's hand-over alone


@pytest.mark.slow
@pytest.mark.parametrize("fault", get_args(get_type_hints(AttentionConfig)["fault"])[1:])
def test_every_planted_fault_is_seen_in_the_result(fault):
    """Two heads and two Q tiles of each for one CTA, and keys that make the maxima grow."""
    q, k, v = random_inputs(1, 150, 300, 2, 2, 128)
    k *= np.linspace(0.5, 2.0, 300, dtype=np.float32)[:, None, None]
    assert run_attention(AttentionConfig(), q, k, v, ctas=1).good
    assert not run_attention(AttentionConfig(fault=fault), q, k, v, ctas=1).good


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_an_early_release_is_seen(schedule):
    inputs = random_inputs(1, 256, 128, 1, 1, 128)
    outcome = run_attention(AttentionConfig(fault="early_release"), *inputs, schedule=schedule, ctas=1)
    assert not outcome.good
    assert "column" in outcome.errors.where and outcome.errors.lse_error < 1e-3


@pytest.mark.parametrize("change", [np.nan, 0.05])
def test_the_judgement_can_fail(change):
    o, lse = reference(*random_inputs(1, 20, 20, 1, 1, 64), 0.125)
    assert errors(o, o, lse, lse).within("f16")
    assert not errors(o + np.where(np.arange(64) == 3, change, 0.0), o, lse, lse).within("bf16")
    assert not errors(o, o, lse + np.where(np.arange(20) == 3, change, 0.0), lse).within("bf16")


# -- what is refused, before anything is compiled ---------------------------------------------------------------------


def read_only(array):
    """The array, not to be written."""
    array.flags.writeable = False
    return array


class OnlyDlpack:
    """A tensor that offers nothing but the dlpack protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


REFUSED_CONFIGS = [
    ({"head_dim": 96}, "head_dim=96 is not one of 64, 128, 256"),
    ({"dtype": "e4m3"}, "dtype=e4m3 is not one of bf16, f16"),
    ({"p": "smen"}, "did you mean smem"),
    ({"tmem_p0_offset": 30}, "multiple of 4"),
    ({"tmem_p0_offset": -4}, "multiple of 4 from 0"),
    ({"tmem_p0_offset": 96}, r"at most 64.*P0 = columns \[96, 160\) overlaps S1"),
    ({"head_dim": 256, "tmem_p0_offset": 64}, r"at most 32.*P0 = columns \[64, 96\) overlaps S1"),
    ({"rescale_threshold": 9.0}, "from 0 to 8"),
    ({"rescale_threshold": "8"}, "rescale_threshold='8' is a str, and takes float or int"),
    ({"causal": 1}, "causal=1 is a int, and takes bool"),
    ({"head_dim": 64.0}, "head_dim=64.0 is a float, and takes int"),
    ({"head_dim": 128, "iter_acc_early_release_in_epilogue": 0}, "sub-tile 1 is the last"),
]
GOOD = ((1, 128, 4, 64), (1, 128, 2, 64))
REFUSED_OPERANDS = [
    ({"q": Operand(16, (1, 128, 4, 64), "f16")}, "q is f16, and this kernel takes bf16"),
    ({"k": Operand(24, GOOD[1], "bf16")}, "k starts at 0x18, which is not a multiple of 16 bytes"),
    ({"v": Operand(16, (1, 127, 2, 64), "bf16")}, "k has shape"),
    ({"o": Operand(16, (1, 127, 4, 64), "bf16")}, "o has shape"),
    ({"q": Operand(16, (1, 128, 4, 128), "bf16")}, "head dim 128, and the kernel is configured for 64"),
    ({"q": Operand(16, (128, 4, 64), "bf16")}, "not \\(batch, seq, heads, head_dim\\)"),
    ({"lse": Operand(16, (1, 128, 4), "f32")}, "lse has shape"),
    ({"lse": Operand(16, (1, 4, 128), "bf16")}, "lse is bf16, and this kernel takes f32"),
    ({"q": [1.0]}, "q is a list"),
    ({"q": np.float16(1)}, "q is a float16, not an array"),
    ({"q": np.zeros(GOOD[0], ">f2")}, r"q has its bytes in another order \(>f2\)"),
    ({"q": Operand(0, GOOD[0], "bf16")}, "q starts at 0, where no memory is"),
    ({"o": read_only(np.zeros(GOOD[0], ml_dtypes.bfloat16))}, "o is read-only, and the kernel writes it"),
    ({"lse": read_only(np.zeros((1, 4, 128), np.float32))}, "lse is read-only"),
    ({"q": OnlyDlpack(np.zeros(GOOD[0], np.complex64))}, "q is a OnlyDlpack whose __dlpack__ gives no tensor"),
    (dense((1, 2**31, 4, 64), GOOD[1]), "more rows, keys or tiles than the kernel counts"),
    (dense(GOOD[0], (1, 2**31, 2, 64)), "more rows, keys or tiles than the kernel counts"),
    (dense((2**29, 1, 4, 64), (2**29, 1, 2, 64)), "more rows, keys or tiles than the kernel counts"),
    ({"q": OnlyDlpack(np.zeros((1, 128, 4, 64), np.float16))}, "q is f16, and this kernel takes bf16"),
    ({"q": OnlyDlpack(np.zeros((1, 128, 4, 128), np.float32)[..., ::2])}, "q is not dense: its strides are"),
]


@pytest.mark.parametrize("values, message", REFUSED_CONFIGS)
def test_wrong_configurations_are_refused(values, message):
    with pytest.raises(LayoutError, match=message):
        AttentionConfig(**values)


@pytest.mark.parametrize("changed, message", REFUSED_OPERANDS)
def test_operands_that_do_not_fit_are_refused(changed, message):
    config = AttentionConfig(head_dim=64)
    assert check(config, **dense(*GOOD)).q.shape == GOOD[0]
    with pytest.raises(LayoutError, match=message):
        check(config, **(dense(*GOOD) | changed))


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "head_dim": st.sampled_from([64, 128, 256, 96, "64", True, None]),
            "dtype": st.sampled_from(["bf16", "f16", "f32", None]),
            "p": st.sampled_from(["tmem", "smem", 3]),
            "route": st.sampled_from(["vector", "coordinate", "composition", ""]),
            "causal": st.sampled_from([False, True, 1]),
            "normalize": st.sampled_from([False, True, "no"]),
            "tmem_p0_offset": st.one_of(st.integers(-8, 140), st.sampled_from([32.0, "32", True])),
            "rescale_threshold": st.one_of(st.floats(), st.sampled_from([8, -1, None])),
            "iter_acc_early_release_in_epilogue": st.sampled_from([None, 0, 1, 2, 3, 7, "0"]),
            "fault": st.sampled_from(get_args(get_type_hints(AttentionConfig)["fault"])),
        },
    )
)
def test_settings_are_refused_by_a_sentence_or_every_handoff_is_proved(values):
    """Whatever is asked for: a LayoutError, or a kernel that fits and whose handoffs are right but for its fault."""
    try:
        config = AttentionConfig(**values)
    except LayoutError:
        return
    assert config.shared_bytes <= SHARED_BYTES and config.tmem_columns <= TMEM_COLUMNS
    verdicts = {name: verify(h).verdict for name, h in attention_handoffs(config).items()}
    wrong = [name for name, verdict in verdicts.items() if verdict != "proved"]
    assert len(wrong) == (config.fault not in ("none", "early_release") and displaces(config)), (config, wrong)


def test_no_keys_are_a_dlpack_tensor_too():
    """Its strides say nothing: there is no element that they lead to."""
    assert operand("k", OnlyDlpack(np.zeros((1, 0, 2, 64), np.float16)), "f16").shape == (1, 0, 2, 64)


def displaces(config):
    """Whether the planted fault moves anything: an offset of 0 is 0 in every unit."""
    return not (config.fault.startswith("p_offset") and config.tmem_p0_offset == 0)


def test_more_kv_heads_than_divide_the_heads_are_refused():
    with pytest.raises(LayoutError, match="no multiple of the 3 heads"):
        check(AttentionConfig(head_dim=64), **dense(GOOD[0], (1, 128, 3, 64)))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_no_positive_number_is_refused(scale):
    problem = check(AttentionConfig(head_dim=64), **dense(*GOOD))
    with pytest.raises(LayoutError, match="not a positive number"):
        arguments(problem, scale)


def test_strided_arrays_are_refused():
    with pytest.raises(LayoutError, match="q is not dense"):
        operand("q", np.zeros((1, 128, 4, 128), np.float16)[..., ::2], "f16")


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 1), (12, 0)])
def test_other_devices_are_refused(capability):
    with pytest.raises(Unavailable, match=r"10\.0 and 10\.3 alone"):
        architecture(capability)


# -- running on a device, with a driver that stands in for it --------------------------------------------------------


@pytest.fixture
def stand_in(monkeypatch):
    """Makes a driver whose launches are replays of what was compiled the one that is found."""

    def there(capability=(10, 0), **options):
        driver = HostDriver(capability, **options)

        def compiled(*args, **named):
            found = compile_attention(*args, **named)
            driver.ptx[bytes(found.artifacts.CUBIN)] = found.artifacts.PTX
            return found

        monkeypatch.setattr(runner, "cuda_driver", lambda: driver)
        monkeypatch.setattr(attention_run, "compile_attention", compiled)
        return driver

    return there


@pytest.mark.parametrize("capability, arch", [((10, 0), "sm_100a"), ((10, 3), "sm_103a")])
def test_a_device_runs_the_captured_launch(stand_in, capability, arch):
    driver = stand_in(capability)
    inputs = random_inputs(1, 30, 50, 2, 1, 64)
    outcome = run_attention(AttentionConfig(head_dim=64), *inputs, on="device")
    assert outcome.good, str(outcome)
    assert outcome.instructions is None and outcome.seconds > 0
    assert driver.calls.count("cuLaunchKernelEx") == 2 and not driver.held
    assert driver.calls.count("cuMemcpyHtoD") == 6 and driver.calls.count("cuMemcpyDtoH") == 3
    assert driver.shared_bytes == [AttentionConfig(head_dim=64).shared_bytes]
    assert all(f".target {arch}" in ptx for ptx in driver.ptx.values())
    assert bits(outcome) == bits(run_attention(AttentionConfig(head_dim=64), *inputs))


def spoilt(monkeypatch, change):
    """Changes the parameters of each launch: `change(number, bytes)` of those that are tensor maps."""
    launch = runner.Device.launch

    def other(self, function, described, params):
        maps = [i for i, data in enumerate(params) if len(data) == 128]
        launch(self, function, described, [change(maps.index(i), x) if i in maps else x for i, x in enumerate(params)])

    monkeypatch.setattr(runner.Device, "launch", other)


def moved(data, offset):
    """A tensor map of a tensor that starts elsewhere."""
    address = int.from_bytes(data[:8], "little") + offset
    return address.to_bytes(8, "little") + data[8:]


def test_a_wrong_address_in_a_tensor_map_is_seen(stand_in, monkeypatch):
    driver = stand_in()
    inputs = random_inputs(1, 64, 64, 1, 1, 64)
    spoilt(monkeypatch, lambda number, data: moved(data, 16) if number == 1 else data)  # K, eight elements on
    with pytest.raises(PtxError, match="of its tensor"):
        run_attention(AttentionConfig(head_dim=64), *inputs, on="device")
    assert not driver.held


def test_operands_in_each_others_place_are_seen(stand_in, monkeypatch):
    stand_in()
    prepared = attention_device.Device.prepared

    def exchanged(self, compiled, packed):
        q, k, v, *rest = packed
        return prepared(self, compiled, (q, v, k, *rest))

    monkeypatch.setattr(attention_device.Device, "prepared", exchanged)
    assert not run_attention(AttentionConfig(head_dim=64), *random_inputs(1, 64, 64, 1, 1, 64), on="device").good


@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuFuncSetAttribute", "cuLaunchKernelEx", "cuCtxSynchronize"])
def test_a_driver_that_fails_is_a_sentence(stand_in, call):
    driver = stand_in(failing=call, error=CUresult.CUDA_ERROR_LAUNCH_FAILED)
    with pytest.raises(LaunchFailed, match=f"{call} failed with CUDA_ERROR_LAUNCH_FAILED"):
        run_attention(AttentionConfig(head_dim=64), *random_inputs(1, 1, 1, 1, 1, 64), on="device")
    assert not driver.held


def test_the_command_runs_on_a_device(stand_in, capsys):
    stand_in()
    status, printed = run_command(capsys, "--seq", "20", "--on", "device")
    assert status == 0 and "within the limits" in printed.out and "warp-instructions" not in printed.out
    assert run_command(capsys, "--seq", "20", "--on", "device", "--fault", "p_offset_forgotten")[0] == 1
    stand_in((9, 0))
    status, printed = run_command(capsys, "--seq", "20", "--on", "device")
    assert status == 3 and "compute capability 9.0, and this kernel runs on 10.0 and 10.3 alone" in printed.err


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_it_compiles_for_each_architecture_that_it_runs_on(arch):
    compiled = compile_attention(AttentionConfig(head_dim=64), arch=arch)
    assert f".target {arch}" in compiled.artifacts.PTX


@pytest.mark.parametrize(
    "driver, message",
    [
        (HostDriver((10, 0), failing="cuInit"), "no CUDA device here: cuInit failed with CUDA_ERROR_NO_DEVICE"),
        (HostDriver((9, 0)), r"compute capability 9\.0"),
    ],
)
def test_without_a_fitting_device_nothing_is_compiled(monkeypatch, driver, message):
    monkeypatch.setattr(runner, "cuda_driver", lambda: driver)
    monkeypatch.setattr(attention_run, "compile_attention", None)
    with pytest.raises(Unavailable, match=message):
        run_attention(AttentionConfig(head_dim=64), *random_inputs(1, 1, 1, 1, 1, 64), on="device")


# -- budgets, entry, command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", ["tmem", "smem"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_the_budget_is_what_the_kernel_takes(head_dim, p):
    from layoutlab.cutedsl.capture import capture

    config = AttentionConfig(head_dim=head_dim, p=p)
    problem = check(config, **dense((1, 128, 1, head_dim), (1, 128, 1, head_dim)))
    (launch,) = capture(compile_attention(config, lse=False), *arguments(problem)).launches
    assert launch.shared_bytes == config.shared_bytes <= SHARED_BYTES
    assert config.tmem_columns <= TMEM_COLUMNS
    assert f"= {config.shared_bytes} of {SHARED_BYTES} bytes" in config.budget()


@pytest.mark.parametrize("module", ["config", "device", "host", "reference", "run"])
def test_examples(module):
    results = doctest.testmod(importlib.import_module(f"layoutlab.kernels.attention_{module}"))
    assert results.attempted > 0 and results.failed == 0


class OnlyBf16Dlpack(OnlyDlpack):
    """The same for bf16, which numpy's own dlpack lacks: its bits as uint16, the capsule's type code set to bfloat."""

    def __dlpack__(self, **options):
        capsule = self.array.view(np.uint16).__dlpack__(**options)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 20).value = 4  # DLTensor.dtype.code = kDLBfloat
        return capsule

    def __dlpack_device__(self):
        return self.array.view(np.uint16).__dlpack_device__()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_arrays_dlpack_tensors_and_addresses_are_the_same_problem(dtype):
    config = AttentionConfig(head_dim=64, dtype=dtype)
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    q, k, v = (x.astype(kind) for x in random_inputs(1, 130, 70, 2, 1, 64))
    ways = [
        lambda x: x,
        {"f16": OnlyDlpack, "bf16": OnlyBf16Dlpack}[dtype],
        lambda x: x.view(np.uint16),
        lambda x: Operand(x.ctypes.data, x.shape, dtype),
    ]
    found = set()
    for way in ways:
        o = np.zeros_like(q)
        problem = check(config, way(q), way(k), way(v), way(o))
        Replay().run(compile_attention(config, lse=False), problem, None, 148)
        assert errors(o, reference(q, k, v, 0.125)[0]).within(dtype)
        found.add(o.tobytes())
    assert len(found) == 1


def run_command(capsys, *options):
    from layoutlab.cli import main

    status = main(["run", "attention", "--head-dim", "64", *options])
    return status, capsys.readouterr()


def test_the_command_reports_json(capsys):
    status, printed = run_command(capsys, "--p", "smem", "--seq", "300", "--causal", "--json")
    result = json.loads(printed.out)
    assert status == 0
    assert result["relative_error"] < 4e-3 and result["cosine"] > 0.9999 and result["lse_error"] < 1e-3
    assert result["instructions"] > 0 and result["seconds"] > 0 and result["warnings"] == []
    assert result["where"].startswith("batch 0, row ")
    stamp, asked = {"schema", "version", "dsl_version"}, {"cosine", "relative_error", "lse_error", "where"}
    assert set(result) == stamp | asked | {"instructions", "seconds", "warnings"}
    status, printed = run_command(capsys, "--seq", "9", "--json", "--fault", "p_offset_forgotten")
    assert status == 1 and set(json.loads(printed.out)) - set(result) == {"fault", "unseen"}


def test_the_command_shows_budget_and_verdict(capsys):
    status, printed = run_command(capsys, "--seq", "10", "--fault", "p_offset_forgotten")
    assert status == 1
    assert "OUT OF the limits of bf16" in printed.out
    assert f"of {SHARED_BYTES} bytes" in printed.out


def test_a_planted_fault_that_is_not_seen_is_said(capsys):
    status, printed = run_command(capsys, "--seq", "10", "--head-dim", "128", "--fault", "early_release")
    assert status == 3
    assert "within the limits" in printed.out
    assert "fault early_release was not seen in this run" in printed.out
    assert "1 Q tile (batch x heads x seq / 128) ran on 148 CTAs" in printed.out
    advised = ("--seq", "256", "--ctas", "1", "--head-dim", "128", "--fault", "early_release")
    assert run_command(capsys, *advised)[0] == 1


@pytest.mark.parametrize("fault, values", [
    ("p_offset_forgotten", {"p": "smem"}),
    ("p_offset_in_columns", {"p": "smem"}),
    ("early_release", {"head_dim": 64}),
])  # fmt: skip
def test_a_fault_without_effect_is_refused(fault, values):
    AttentionConfig(fault=fault)
    with pytest.raises(LayoutError, match=f"fault={fault} "):
        AttentionConfig(fault=fault, **values)


def test_the_command_takes_and_gives_files(capsys, tmp_path):
    inputs = random_inputs(1, 20, 30, 2, 1, 64)
    np.savez(tmp_path / "in.npz", **dict(zip("qkv", inputs, strict=True)))
    status, _ = run_command(capsys, "--load", str(tmp_path / "in.npz"), "--save", str(tmp_path / "out.npz"))
    assert status == 0
    out = np.load(tmp_path / "out.npz")
    o, lse = reference(*inputs, 0.125)
    assert out["o"].shape == (1, 20, 2, 64) and out["lse"].shape == (1, 2, 20)
    assert np.abs(out["o"] - o).max() < 0.05 and np.abs(out["lse"] - lse).max() < 0.05


def test_an_unnormalized_result_is_saved_with_its_maxima(capsys, tmp_path):
    status, _ = run_command(capsys, "--seq", "20", "--no-normalize", "--save", str(tmp_path / "out"))
    with np.load(tmp_path / "out") as out:  # the name as it was given
        assert status == 0 and sorted(out.files) == ["lse", "o", "row_max"]
        assert out["row_max"].shape == out["lse"].shape == (1, 1, 20)


def npz(folder, **arrays):
    """A file of q, k and v, of which these are others."""
    good = dict(zip("qkv", random_inputs(1, 20, 30, 2, 1, 64), strict=True))
    np.savez(folder / "in.npz", **(good | arrays))
    return "--load", str(folder / "in.npz")


REFUSED_FILES = [
    ({"q": np.full((1, 2, 1, 64), "a")}, (), "q in .*in.npz is <U1: numbers such as float32 are taken"),
    ({"k": np.zeros((1, 2, 1, 64), np.complex64)}, (), "k in .*in.npz is complex64"),
    ({"q": np.array([None])}, (), "is no .npz file of numbers: write one by numpy.savez"),
    ({"q": np.float32(3)}, (), r"q has shape \(\), not \(batch, seq, heads, head_dim\)"),
    ({"v": np.zeros((1, 5, 1, 64))}, (), "k has shape .* and v .*: they must be equal"),
    ({"q": np.full((1, 20, 2, 64), np.nan)}, (), "q holds NaN, or what is infinite as bf16"),
    ({"q": np.full((1, 20, 2, 64), 1e6)}, ("--dtype", "f16"), "q holds NaN, or what is infinite as f16"),
    ({}, ("--seq", "21"), "--seq 21 is not what .*in.npz has, 20: leave it out"),
    ({}, ("--kv-heads", "2"), "--kv-heads 2 is not what .*in.npz has, 1: leave it out"),
    ({}, ("--head-dim", "128"), "--head-dim 128 is not what .*in.npz has, 64: leave it out"),
    ({}, ("--save", "/nowhere/out.npz"), "--save /nowhere/out.npz cannot be written: no such folder"),
    ({}, ("--save", "."), "--save . cannot be written: it is a folder"),
]


@pytest.mark.parametrize("arrays, options, message", REFUSED_FILES)
def test_files_that_mean_nothing_are_refused(capsys, tmp_path, monkeypatch, arrays, options, message):
    monkeypatch.setattr(attention_run, "compile_attention", None)
    status, printed = run_command(capsys, *npz(tmp_path, **arrays), *options)
    assert status == 2 and re.search(message, printed.err), printed.err


def test_what_no_memory_holds_is_refused(capsys, monkeypatch):
    def full(**_):
        raise MemoryError("Unable to allocate 715. GiB")

    monkeypatch.setattr(attention_run, "random_inputs", full)
    status, printed = run_command(capsys, "--seq", "3000000000")
    assert (status, printed.err) == (2, "layoutlab: there is not enough memory here: Unable to allocate 715. GiB\n")


@pytest.mark.parametrize("written", [b"hello", b""])
def test_what_is_no_npz_file_is_refused(capsys, tmp_path, written):
    (tmp_path / "in.npz").write_bytes(written)
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("in.npz", "one.npy"):
        status, printed = run_command(capsys, "--load", str(tmp_path / name))
        assert status == 2 and "is no .npz file of numbers" in printed.err


def test_the_command_refuses_before_compile(capsys):
    status, printed = run_command(capsys, "--dtype", "e4m3")
    assert status != 0 and "dtype=e4m3 is not one of bf16, f16" in printed.err


@pytest.mark.parametrize(
    "options, message",
    [
        (("--kv-heads", "0"), "leave nothing to compute"),
        (("--seq", "0"), "leave nothing to compute"),
        (("--kv-seq", "-1"), "a size is negative"),
        (("--scale", "-1"), "not a positive number"),
        (("--scale", "1e39"), "scale=1e+39 is no float32, as which the kernel takes it"),
        (("--scale", "1e-50"), "scale=1e-50 is no float32, as which the kernel takes it"),
        (("--ctas", "0"), "ctas=0 is not at least 1"),
        (("--ctas", "100000000000"), "ctas=100000000000 is not at most 2147483647"),
        (("--save", ""), "--save  cannot be written: it is a folder"),
        (("--load", ""), "cannot read"),
        (("--save", "/proc/out.npz"), "--save /proc/out.npz cannot be written: No such file"),
        (("--seed", "-1"), "seed=-1 is negative: 0 or more"),
        (("--iter-acc-early-release-in-epilogue", "1"), "iter_acc_early_release_in_epilogue=1 is not 0"),
        (("--p", "smem", "--fault", "early"), "fault=early is not one of"),
    ],
)
def test_the_command_refuses_sizes_that_mean_nothing(capsys, options, message):
    status, printed = run_command(capsys, *options)
    assert status == 2 and message in printed.err
