"""The P handoff kernel traced by CuTe DSL: its texts, evaluated here by a second reader, are right or wrong as planted.

The reader's side comes from the descriptors in the kernel's PTX and the ISA's canonical K-major layout, not from sP's
own layout: otherwise the writer would be compared with itself.
"""

import itertools
import json

import numpy as np
import pytest
from printed_layouts import layout, pointer_swizzle, swizzled, tensor

from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.atoms.tmem import TmemAtom
from layoutlab.catalogue import named
from layoutlab.crosscheck.traced import first_disagreement
from layoutlab.cutedsl import trace as trace_module
from layoutlab.cutedsl.jobs import Answer
from layoutlab.cutedsl.sp_handoff import traced_handoff
from layoutlab.cutedsl.trace import TraceUnavailable, trace_many, trace_sP
from layoutlab.errors import LayoutError

ROWS = 128
ROUTES = ("coordinate", "composition", "tiled_copy_d")
KVS = HEAD_DIMS = (64, 128, 256)
DTYPES = ("bf16", "f16", "e4m3", "e5m2")
LOADS = ("x16", "x32", "x64")


BASES = (16, 48, 128, 512, 1024, 1040)
FAULTS = [
    ({"write_swizzle": "none"}, (1, 0, 128, 144)),
    ({"write_swizzle": "elements"}, (1, 0, 128, 144)),
    ({"write_swizzle": "none", "kv": 64, "dtype": "e4m3"}, (2, 0, 128, 144)),
    ({"k_order": "021"}, (0, 16, 16384, 32)),
    ({"k_order": "021", "kv": 256, "dtype": "e5m2"}, (0, 32, 16384, 32)),
    ({"write_swizzle": "relative", "base": 512}, (0, 0, 512, 576)),
]
"""Each with the first element that goes wrong: thread, value, the byte written, the byte read."""


OPERANDS = [(64, "bf16"), (256, "f16"), (64, "e4m3"), (128, "e5m2"), (256, "e4m3")]


def unique(variants):
    """The settings that differ, in their order."""
    return list({settings_id(settings): settings for settings in variants}.values())


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """A cache of this run's own, filled from two workers with what the tests below ask for one by one."""
    changes = [{"base": base} for base in BASES] + [fault for fault, _ in FAULTS] + [{"load": load} for load in LOADS]
    asked = [{"store": store, **change} for store in ROUTES for change in changes]
    asked += [{"kv": kv, "dtype": dtype, "base": base} for kv, dtype in OPERANDS for base in (0, 528)]
    asked += [{"kv": kv, "dtype": dtype} for kv in KVS for dtype in DTYPES]
    asked += [{"head_dim": head_dim} for head_dim in HEAD_DIMS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        list(trace_many(unique(asked)))
        list(trace_many(unique(map(fastest, asked)), ptx=True))
        yield


def owned(trace, kv):
    """(thread, value) -> (m, k) from the TMEM load's TV and tiler, held against the coordinates of watched threads."""
    tv, tiler = layout(trace.owner["tv"]), layout(trace.owner["tiler"][0])
    _, relative = tensor(trace.owner["threads"]["0"])
    first = tiler(tv(np.arange(ROWS)))  # tv's first mode is the thread, and its size is 128
    m, k = relative.coordinates(np.arange(relative.size))
    m, k = first[:, None] % ROWS + m, first[:, None] // ROWS + k
    assert relative.size == kv
    for row, text in trace.owner["threads"].items():
        start, _ = tensor(text)
        assert start == f"({m[int(row), 0]},{k[int(row), 0]})"
    return m, k


def written(trace):
    """(thread, value) -> byte address that the route writes, sP's buffer starting at a multiple of 1024."""
    width = trace.storage["element_bits"] // 8
    if trace.writer["route"] == "coordinate":
        iterator, stored = tensor(trace.writer["tensor"])
        (m_size, k0_size), _, k_rest, _ = stored.shape
        sizes = k_rest if isinstance(k_rest, tuple) else (k_rest,)
        index = np.zeros((ROWS, len(trace.writer["stored"])), dtype=int) + np.arange(ROWS)[:, None]
        for value, (k0, _, rest, _) in enumerate(trace.writer["stored"]):
            step, k_index = 1, 0
            for part, size in zip(rest if isinstance(rest, list) else [rest], sizes, strict=True):
                k_index, step = k_index + step * part, step * size
            index[:, value] += m_size * (k0 + k0_size * k_index)
        return address(trace, iterator, stored, index, width)
    iterator, matrix = tensor(trace.writer["matrix"])
    m, k = claimed(trace)
    return address(trace, iterator, matrix, m + ROWS * k, width)


def claimed(trace):
    """(thread, value) -> (m, k) that a tiled copy claims, from its TV and tiler, held against the watched threads."""
    tv = layout(trace.writer["tv"])
    tilers = [layout(text) for text in trace.writer["tiler"]]
    threads = 1 if trace.writer["route"] == "tiled_copy_c" else ROWS
    position = tv(np.arange(threads))
    if len(tilers) == 3:  # in the accumulator's profile the first mode is m + 128 k
        first_m, first_k = tilers[0](position) % ROWS, tilers[0](position) // ROWS
    else:
        rows = tilers[0].size
        first_m, first_k = tilers[0](position % rows), tilers[1](position // rows)
    _, relative = tensor(trace.writer["threads"]["0"])
    m, k = relative.coordinates(np.arange(relative.size))
    m = np.broadcast_to(first_m, ROWS)[:, None] + m
    k = np.broadcast_to(first_k, ROWS)[:, None] + k
    for row, text in trace.writer["threads"].items():
        start, _ = tensor(text)
        numbers = tuple(int(number) for number in start.strip("()").replace("(", "").replace(")", "").split(",")[:2])
        assert numbers == (m[int(row), 0], k[int(row), 0])
    return m, k


def address(trace, iterator, located, index, width):
    """The byte address at an index of a printed tensor: its layout, then its pointer's swizzle on the address."""
    return swizzled(trace.storage["base_bytes"] + located(index) * width, pointer_swizzle(iterator))


def read(trace, descriptors, m, k):
    """Where the MMA reads (m, k): descriptor fields, K-major canonical layout (PTX ISA 9.7.16.3.3, 9.7.16.4.1)."""
    width = trace.storage["element_bits"] // 8
    constants = [int(text, 16) for text in descriptors]
    span_bits = {2: 3, 4: 2, 6: 1}[constants[0] >> 61]  # 128, 64 or 32 bytes
    k_size = 32 // width  # elements of k an instruction reads
    starts = np.array([(constant & 0x3FFF) * 16 for constant in constants])
    stride_bytes = (constants[0] >> 32 & 0x3FFF) * 16
    start = trace.storage["base_bytes"] + starts[k // k_size]
    offset = m % 8 * (16 << span_bits) + m // 8 * stride_bytes + k % k_size * width
    return swizzled(start + offset, (span_bits, 4, 3))


def settings_id(settings):
    return ",".join(f"{name}={value}" for name, value in settings.items())


def case_id(value):
    return settings_id(value) if isinstance(value, dict) else ""


def fastest(settings):
    """The variant with the same descriptors that compiles fastest: route, load and swizzle do not reach the MMA."""
    reaching = ("kv", "dtype", "base", "head_dim")
    return {"store": "composition", **{name: settings[name] for name in reaching if name in settings}}


def descriptors_of(settings):
    """The descriptors in the PTX of a variant."""
    return trace_sP(fastest(settings), ptx=True).reader["descriptors"]


def first_difference(trace, settings):
    """The first (thread, value, wrote, reads) whose element is not written where it is read, or None."""
    m, k = owned(trace, int(settings.get("kv", 128)))
    wrote = written(trace)[:, : m.shape[1]]  # a copy that claims more than a thread holds stores what it holds
    reads = read(trace, descriptors_of(settings), m, k)
    wrong = np.argwhere(wrote != reads)
    if not len(wrong):
        return None
    thread, value = wrong[0]
    return int(thread), int(value), int(wrote[thread, value]), int(reads[thread, value])


def test_every_right_combination_traces_and_is_right():
    names = ("store", "kv", "head_dim", "dtype", "load")
    every = itertools.product(ROUTES, KVS, HEAD_DIMS, DTYPES, LOADS)
    variants = [dict(zip(names, values, strict=True)) for values in every]
    descriptors = {}
    checked = 0
    for settings, trace in zip(variants, trace_many(variants), strict=True):
        assert not isinstance(trace, LayoutError), f"{settings_id(settings)}: {trace}"
        m, k = owned(trace, settings["kv"])
        operand = (settings["kv"], settings["dtype"])
        if operand not in descriptors:
            descriptors[operand] = descriptors_of({"kv": operand[0], "dtype": operand[1]})
        fragment = layout(trace.reader["fragment"])
        constants = [int(text, 16) for text in descriptors[operand]]
        assert [constant - constants[0] for constant in constants] == list(fragment(np.arange(fragment.size)))
        wrote, reads = written(trace), read(trace, descriptors[operand], m, k)
        assert (wrote == reads).all(), settings_id(settings)
        width = trace.storage["element_bits"] // 8
        assert sorted(wrote.flat) == list(range(0, ROWS * settings["kv"] * width, width)), settings_id(settings)
        assert first_disagreement(named("sP")(**settings), traced_handoff(trace)) is None, settings_id(settings)
        checked += 1
    assert checked == 324


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("store", ROUTES)
def test_absolute_addresses_are_right_at_any_base(store, base):
    settings = {"store": store, "base": base}
    assert first_difference(trace_sP(settings), settings) is None


@pytest.mark.parametrize("store", ROUTES)
@pytest.mark.parametrize(
    ("fault", "expected"), FAULTS, ids=lambda value: settings_id(value) if isinstance(value, dict) else ""
)
def test_planted_faults_are_in_the_traced_kernel(store, fault, expected):
    settings = {"store": store, **fault}
    assert first_difference(trace_sP(settings), settings) == expected


def test_element_swizzle_of_bytes_is_no_fault():
    settings = {"write_swizzle": "elements", "dtype": "e4m3"}
    assert first_difference(trace_sP(settings), settings) is None


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_tiled_copy_c_has_one_thread_that_claims_the_whole_tile(head_dim):
    settings = {"store": "tiled_copy_c", "head_dim": head_dim}
    trace = trace_sP(settings)
    m, k = claimed(trace)
    assert (m == m[0]).all() and (k == k[0]).all()
    assert first_difference(trace, settings)[:2] == (0, 1)
    mine = owned(trace, 128)
    wrong = (m[:, :128] != mine[0]) | (k[:, :128] != mine[1])
    assert wrong.sum() == 16383


def test_composition_raw_gives_offsets_where_coordinates_belong():
    settings = {"store": "composition_raw"}
    trace = trace_sP(settings)
    assert "(64,8192)" in trace.writer["partition"]
    assert first_difference(trace, settings)[:2] == (0, 1)


def test_first_warp_moves_the_threads_and_nothing_else():
    plain, shifted = trace_sP({}), trace_sP({"first_warp": 1})
    assert (plain.owner["first_thread"], shifted.owner["first_thread"]) == (0, 32)
    assert first_difference(shifted, {"first_warp": 1}) is None
    assert shifted.owner["threads"] == plain.owner["threads"]


@pytest.mark.parametrize("load", LOADS)
def test_the_traced_owner_is_the_modelled_tcgen05_ld(load):
    m, k = owned(trace_sP({"store": "coordinate", "load": load}), 128)
    words = TmemAtom.parse(f"32x32b.{load}").word_map()
    per_load = int(load[1:])
    thread, value = np.arange(ROWS)[:, None], np.arange(128)
    model = words(t=thread % 32 + 0 * value, r=value % per_load + 0 * thread)
    assert (model["lane"] + thread // 32 * 32 == m).all()
    assert (model["column"] + value // per_load * per_load == k).all()


@pytest.mark.parametrize("base", [0, 528])
@pytest.mark.parametrize(("kv", "dtype"), OPERANDS)
def test_the_traced_descriptors_read_where_the_model_says(kv, dtype, base):
    settings = {"kv": kv, "dtype": dtype, "base": base}
    trace, descriptors = trace_sP(settings), descriptors_of(settings)
    bits = trace.storage["element_bits"]
    width = 256 // bits  # elements of k an instruction reads
    m, k = np.indices((ROWS, kv))
    reads = read(trace, descriptors, m, k)
    for step, text in enumerate(descriptors):
        desc = SmemDescriptor.decode(int(text, 16), "sm_100").stepped(base)
        columns = slice(step * width, (step + 1) * width)
        assert (desc.addresses(ROWS, width, element_bits=bits) == reads[:, columns]).all()
    assert (step + 1) * width == kv


def test_provenance_names_every_entry():
    trace = trace_sP({"store": "composition"}, ptx=True)
    assert trace.reader["descriptors"] and trace.writer["emitted"]
    entries = {f"{part}.{name}" for part in ("storage", "owner", "writer", "reader") for name in getattr(trace, part)}
    assert entries == set(trace.provenance)
    assert trace.dsl_version == "4.8.1"


def test_refused_settings_are_layout_errors():
    for settings, sentence in [
        ({"k_order": "021", "kv": 64}, "k_order=021 needs a k of three parts"),
        ({"base": 8}, "base=8 is not a multiple of 16"),
        ({"stor": "coordinate"}, "stor is not a setting .* did you mean store"),
        ({"kv": "many"}, "takes a whole number"),
    ]:
        with pytest.raises(LayoutError, match=sentence) as raised:
            trace_sP(settings)
        assert not isinstance(raised.value, TraceUnavailable)


def test_a_cached_trace_is_the_trace_and_a_damaged_one_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh, again = trace_sP({}), trace_sP({})
    assert (fresh.cached, again.cached) == (False, True)
    assert (again.storage, again.owner, again.writer, again.reader) == (
        fresh.storage,
        fresh.owner,
        fresh.writer,
        fresh.reader,
    )
    (file,) = (tmp_path / "layoutlab").glob("*.json")
    for damage in ("{", "{}", json.dumps({"storage": 1})):
        file.write_text(damage)
        assert not trace_sP({}).cached
    monkeypatch.setattr(trace_module, "source_digest", lambda folders: "another source")
    assert not trace_sP({}).cached


def test_without_the_dsl_a_sentence_says_so(monkeypatch):
    monkeypatch.setattr(trace_module, "dsl_version", lambda: None)
    with pytest.raises(TraceUnavailable, match=r"CuTe DSL is not installed here \(pip install nvidia-cutlass-dsl\)"):
        trace_sP({})


def test_a_dsl_that_cannot_be_read_is_named_with_its_version(monkeypatch):
    monkeypatch.setattr(trace_module, "dsl_version", lambda: "9.0.0")
    monkeypatch.setattr(trace_module, "CALL", "layoutlab.kernels.p_trace:gone")
    with pytest.raises(TraceUnavailable, match=r"CuTe DSL 9\.0\.0 did not trace .*gone.*was written for 4\.8\.1"):
        trace_sP({})


def test_a_crash_of_the_dsl_is_a_sentence(monkeypatch):
    crashed = Answer("crashed", reason="the process died with signal 6")
    monkeypatch.setattr(trace_module, "run_jobs", lambda jobs, environment: (crashed for _ in jobs))
    with pytest.raises(
        TraceUnavailable, match=r"did not trace the P handoff kernel \(the process died with signal 6\)$"
    ):
        trace_sP({}, use_cache=False)
