"""Who wrote what each unit of the attention kernel reads: as a replay of its PTX remembers it, as it is declared."""

import re
from typing import get_args, get_type_hints

import ml_dtypes
import numpy as np
import pytest

import layoutlab as ll
from layoutlab.draw.journey import stops_of
from layoutlab.kernels.attention_config import EPILOGUE_COLUMNS, ROWS, SLOTS, AttentionConfig
from layoutlab.kernels.attention_handoffs import attention_handoffs
from layoutlab.kernels.attention_host import arguments, check, compile_attention
from layoutlab.kernels.attention_run import random_inputs
from layoutlab.kernels.attention_way import attention_way
from layoutlab.replay import replay

CORRECTION = 128  # the first thread of the correction warps
TMA_LOAD = "cp.async.bulk.tensor.4d.shared::cta.global"
CONFIGS = [
    AttentionConfig(head_dim=64),
    AttentionConfig(head_dim=256),
    *(AttentionConfig(head_dim=128, p="smem", route=route) for route in ("vector", "coordinate", "composition")),
]


def replayed(config, seq_q=128, seq_kv=384):
    """A run over several KV tiles whose row maxima grow, so that O is rescaled: its record and its inputs."""
    q, k, v = random_inputs(1, seq_q, seq_kv, 1, 1, config.head_dim)
    k *= np.linspace(0.5, 2.0, seq_kv, dtype=np.float32)[:, None, None]
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in (q, k, v))
    o = np.zeros_like(q)
    problem = check(config, q, k, v, o)
    packed = arguments(problem)
    report = replay(compile_attention(config, lse=False), *packed, buffers=[q, k, v, o], provenance=True)
    return report.provenance, (q, k, v)


def provenance(config, seq_kv):
    return replayed(config, seq_kv=seq_kv)[0]


def writers(record, read):
    """For each coordinate of a read: the opcode that wrote it, and the thread (-1: an asynchronous unit)."""
    events, threads = read.writers[..., 0], read.writers[..., 1]
    assert (events > 0).all(), "something was read that nobody wrote"
    opcodes = np.array([instruction.opcode for _, instruction in record.events], dtype=object)
    return opcodes[events - 1], threads


def all_by(opcodes, prefix):
    return all(opcode.startswith(prefix) for opcode in np.unique(opcodes.astype(str)))


def mma_reads(record, config):
    """The operands of the QK and of the PV MMAs: two lists of (A, B)."""
    found = {"qk": [], "pv": []}
    for a, b, d in zip(*(record.reads_of(operand) for operand in "ABD"), strict=True):
        assert a.line == b.line == d.line
        columns = d.location[..., 1]
        writes_o = columns.min() >= SLOTS * config.kv_tile
        assert writes_o or columns.max() < SLOTS * config.kv_tile
        found["pv" if writes_o else "qk"].append((a, b))
    return found["qk"], found["pv"]


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda c: f"{c.head_dim}-{c.p}-{c.route}")
def whole_run(request):
    return request.param, *replayed(request.param)


@pytest.fixture(scope="module")
def run(whole_run):
    return whole_run[:2]


def test_q_k_and_v_are_what_tma_loaded(run):
    config, record = run
    qk, pv = mma_reads(record, config)
    tiles = 384 // config.kv_tile
    assert len(qk) == tiles * config.head_dim // 16 and len(pv) == tiles * config.kv_tile // 16
    for read in [operand for pair in qk for operand in pair] + [v for _, v in pv]:
        opcodes, threads = writers(record, read)
        assert all_by(opcodes, TMA_LOAD) and (threads == -1).all()
        assert len(np.unique(read.location)) == read.location.size


def test_row_m_of_p_is_written_by_thread_m(run):
    config, record = run
    _, pv = mma_reads(record, config)
    store = "tcgen05.st" if config.p == "tmem" else "st.shared"
    for p, _ in pv:
        opcodes, threads = writers(record, p)
        assert all_by(opcodes, store)
        assert (threads == np.arange(ROWS)[:, None]).all()
        assert p.location.shape[:2] == (ROWS, 16)


def test_thread_m_of_the_correction_warps_takes_row_m_of_o(run):
    config, record = run
    loads = [r for r in record.reads_of("tmem.load") if r.location[..., 1].min() >= SLOTS * config.kv_tile]
    for load in loads:
        opcodes, _ = writers(record, load)
        assert all_by(opcodes, "tcgen05.mma")
        assert load.thread >= CORRECTION
        assert (load.location[..., 0] == load.thread - CORRECTION + np.arange(32)[:, None]).all()
    epilogue = 4 * config.subtiles
    assert len(loads) > epilogue  # some warps rescaled
    assert (len(loads) - epilogue) % (config.head_dim // 32) == 0  # and each of them all of O's columns


def test_row_m_of_the_result_is_stored_by_one_thread(run):
    config, record = run
    stores = record.reads_of("tma.store")
    for read in stores:
        opcodes, threads = writers(record, read)
        assert all_by(opcodes, "st.shared")
        assert (threads.reshape(ROWS, -1) == CORRECTION + np.arange(ROWS)[:, None]).all()
    assert len({read.line for read in stores}) == config.subtiles


@pytest.mark.parametrize("fault", ["p_offset_forgotten", "p_offset_in_columns"])
def test_a_wrong_p_offset_reads_words_of_the_tensor_core(fault):
    config = AttentionConfig(head_dim=64, fault=fault)
    record = provenance(config, seq_kv=128)
    _, pv = mma_reads(record, config)
    foreign = [read for read, _ in pv if (read.writers[..., 1] != np.arange(ROWS)[:, None]).any()]
    assert len(foreign) == {"p_offset_forgotten": 4, "p_offset_in_columns": 2}[fault]  # of eight K steps of 8 columns
    opcodes, threads = writers(record, foreign[0])
    assert all_by(opcodes[threads == -1], "tcgen05.mma")


# -- what is declared beside the kernel, against the record -----------------------------------------------------------


@pytest.mark.parametrize("slot", range(SLOTS))
@pytest.mark.parametrize("p", ["tmem", "smem"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_every_declared_handoff_is_proved(head_dim, p, slot):
    made = attention_handoffs(AttentionConfig(head_dim=head_dim, p=p), slot)
    p_name = {"tmem": "tP", "smem": "sP"}[p]
    assert list(made) == ["sQ", "sK", "sV", "tS", p_name, "oRescale", "tO", "epilogue", "store"]
    for h in made.values():
        verdict = ll.verify(h)
        assert verdict.proved and verdict.checked == h.tile.size, str(verdict)


def read_by(h):
    """Where the declared reader takes each element of its tile from: the outputs, by coordinate."""
    where = dict(zip(h.tile.extents, np.indices(h.tile.shape), strict=True))
    return h.reader.read.at(**where)


def in_steps(reads, count):
    """The locations of `count` K steps after each other, as one operand."""
    return [np.concatenate([r.location for r in reads[i : i + count]], axis=1) for i in range(0, len(reads), count)]


def the_one(difference):
    values = np.unique(difference)
    assert values.size == 1, f"{values.size} different distances"
    return int(values[0])


def bases(found, config, name):
    """Where the buffer of each tile starts, were it declared at 0: one distance for the tile's every element."""
    declared = [read_by(attention_handoffs(config, slot)[name])["bit"] // 8 for slot in range(SLOTS)]
    return {the_one(addresses - declared[i % SLOTS]) for i, addresses in enumerate(found)}


def test_shared_operands_are_read_where_it_is_declared(run):
    config, record = run
    qk, pv = mma_reads(record, config)
    operands = {
        "sQ": in_steps([a for a, _ in qk], config.head_dim // 16),
        "sK": in_steps([b for _, b in qk], config.head_dim // 16),
        "sV": in_steps([b for _, b in pv], config.kv_tile // 16),
    }
    if config.p == "smem":
        operands["sP"] = in_steps([a for a, _ in pv], config.kv_tile // 16)
    for name, found in operands.items():
        assert len(found) == 384 // config.kv_tile
        (base,) = bases(found, config, name)  # the same for both slots: the stage is declared
        assert base % 1024 == 0 and base > 0


def test_p_in_tensor_memory_is_read_and_written_where_it_is_declared(run):
    config, record = run
    if config.p != "tmem":
        config = AttentionConfig(head_dim=64)
        record = provenance(config, seq_kv=256)
    _, pv = mma_reads(record, config)
    for i, found in enumerate(in_steps([a for a, _ in pv], config.kv_tile // 16)):
        h = attention_handoffs(config, i % SLOTS)["tP"]
        declared = read_by(h)
        assert (found[..., 0] == declared["lane"]).all()
        assert (32 * found[..., 1] + found[..., 2] == declared["bit"]).all()
        t, v = np.indices((ROWS, config.kv_tile))
        wrote = h.writer.write.at(t=t, v=v)
        steps = [a for a, _ in pv][i * config.kv_tile // 16 : (i + 1) * config.kv_tile // 16]
        thread_at = {}
        for step in steps:
            places = zip(step.location.reshape(-1, 3).tolist(), step.writers[..., 1].ravel().tolist(), strict=True)
            thread_at |= {(lane, 32 * column + bit): thread for (lane, column, bit), thread in places}
        for lane, bit, thread in zip(*(x.ravel().tolist() for x in (wrote["lane"], wrote["bit"], t)), strict=True):
            assert thread_at[lane, bit] == thread


def test_tma_put_each_element_where_it_is_declared(whole_run):
    """The last tiles of Q, K and V lie in shared memory still: at the declared writer's places are the inputs' bits."""
    config, record, (q, k, v) = whole_run
    qk, pv = mma_reads(record, config)
    shared = record.snapshots[0].shared
    steps = config.head_dim // 16, config.kv_tile // 16
    operands = {
        "sQ": (q, in_steps([a for a, _ in qk], steps[0])),
        "sK": (k, in_steps([b for _, b in qk], steps[0])),
        "sV": (v, in_steps([b for _, b in pv], steps[1])),
    }
    tiles = 384 // config.kv_tile
    for name, (tensor, found) in operands.items():
        (base,) = bases(found, config, name)
        for tile in (tiles - 2, tiles - 1) if name != "sQ" else (0,):
            h = attention_handoffs(config, tile % SLOTS)[name]
            boxes, elements = (np.arange(n) for n in h.writer.owner.places.axes.values())
            t, e = np.meshgrid(boxes, elements, indexing="ij")
            byte, at = h.writer.write.at(t=t, v=e)["bit"] // 8 + base, h.writer.owner.places.at(t=t, v=e)
            bits = shared[byte].astype(np.uint16) | shared[byte + 1].astype(np.uint16) << 8
            row, column = (at["k"], at["n"]) if name == "sV" else (at.get("m", at.get("n")), at["k"])
            expected = tensor.view(np.uint16)[0, row + tile * config.kv_tile * (name != "sQ"), 0, column]
            assert (bits == expected).all() and bits.size == h.tile.size


@pytest.mark.parametrize("column", [0, 17, 63])
def test_an_elements_way_names_the_bytes_that_the_kernel_moved(whole_run, column):
    """At the byte of shared memory that the way tells lies what the tensor has at the byte of global memory."""
    config, record, (q, k, v) = whole_run
    qk, pv = mma_reads(record, config)
    steps = config.head_dim // 16, config.kv_tile // 16
    settings = {"head_dim": str(config.head_dim), "p": config.p, "route": config.route, "kv_seq": "384"}
    elements = {
        "sQ": (q, ("Q", (101, column)), in_steps([a for a, _ in qk], steps[0])),
        "sK": (k, ("K", (300, column)), in_steps([b for _, b in qk], steps[0])),
        "sV": (v, ("V", (column, 300)), in_steps([b for _, b in pv], steps[1])),
    }
    for name, (tensor, element, found) in elements.items():
        way = attention_way(element, settings)
        stop = next(stop for leg, stop in zip(way.legs, stops_of(way.legs, way.fixed), strict=True) if leg.name == name)
        (place,) = stop.places
        there, here = (int(re.search(r"byte (\d+)", text)[1]) for text in (place.source, place.written))
        (base,) = bases(found, config, name)
        shared = record.snapshots[0].shared[base + here : base + here + 2].tobytes()
        assert shared == tensor.tobytes()[there : there + 2]


def test_s_is_taken_where_it_is_declared(run):
    config, record = run
    loads = [r for r in record.reads_of("tmem.load") if r.location[..., 1].max() < SLOTS * config.kv_tile]
    assert len(loads) == 4 * 384 // 32
    for load in loads:
        slot, v = divmod(int(load.location[0, 0, 1]), config.kv_tile)
        h = attention_handoffs(config, slot)["tS"]
        t, r = np.indices(load.location.shape[:2])
        declared = h.reader.read.at(m=load.thread + t, n=v + r)
        assert (load.location[..., 0] == declared["lane"]).all() and (load.location[..., 2] == 0).all()
        assert (32 * load.location[..., 1] == declared["bit"]).all()


def test_o_is_put_back_where_it_is_declared(run):
    """Rescaled words are the correction threads' when the next MMA adds to them: word (m, n) is thread m's."""
    config, record = run
    h = attention_handoffs(config)["oRescale"]
    t, v = np.indices((ROWS, config.head_dim))
    wrote = h.writer.write.at(t=t, v=v)
    writer = np.full((128, 512), -2)
    writer[wrote["lane"], wrote["bit"] // 32] = t + CORRECTION
    assert h.writer.owner.first_thread == CORRECTION
    rescaled = 0
    for d in record.reads_of("D"):
        threads = d.writers[..., 1]
        mine = threads >= 0
        rescaled += int(mine.sum())
        if d.location[..., 1].min() >= SLOTS * config.kv_tile:
            assert (writer[d.location[..., 0], d.location[..., 1]][mine] == threads[mine]).all()
            declared = read_by(h)
            assert (declared["lane"] == d.location[..., 0]).all()
            assert (declared["bit"] == 32 * d.location[..., 1]).all()
    assert rescaled >= ROWS * config.head_dim


def test_o_is_taken_where_it_is_declared(run):
    """Sub-tile after sub-tile, by threads that take its columns in order; the rescaling takes fewer at a time."""
    config, record = run
    h = attention_handoffs(config)["tO"]
    first = SLOTS * config.kv_tile
    loads = [r for r in record.reads_of("tmem.load") if r.location[..., 1].min() >= first]
    whole = [load for load in loads if load.location.shape[1] == EPILOGUE_COLUMNS]
    assert len(whole) == 4 * config.subtiles
    for load in whole:
        t, r = np.indices(load.location.shape[:2])
        declared = h.reader.read.at(m=load.thread - CORRECTION + t, n=int(load.location[0, 0, 1]) - first + r)
        assert (load.location[..., 0] == declared["lane"]).all() and (load.location[..., 2] == 0).all()
        assert (32 * load.location[..., 1] == declared["bit"]).all()
    assert h.reader.owner.first_thread == CORRECTION


def test_o_leaves_by_the_declared_sub_tiles(run):
    config, record = run
    h = attention_handoffs(config)["epilogue"]
    declared = read_by(h)["bit"] // 8
    stage_bytes = ROWS * EPILOGUE_COLUMNS * 2
    starts, reads = [], record.reads_of("tma.store")
    assert len(reads) == config.subtiles
    for i, read in enumerate(reads):
        columns = slice(EPILOGUE_COLUMNS * i, EPILOGUE_COLUMNS * (i + 1))
        starts.append(the_one(read.location.reshape(ROWS, -1) - (declared[:, columns] - i * stage_bytes)))
    stages = config.epilogue_stages
    assert starts == [starts[0] + i % stages * stage_bytes for i in range(config.subtiles)]
    t, v = np.indices((ROWS, config.head_dim))
    assert (h.writer.owner.places.at(t=t, v=v)["m"] == t).all() and h.writer.owner.first_thread == CORRECTION


@pytest.mark.parametrize("fault", ["p_offset_forgotten", "p_offset_in_columns"])
def test_a_planted_fault_is_refuted_and_read_as_declared(fault):
    config = AttentionConfig(head_dim=64, fault=fault)
    h = attention_handoffs(config)["tP"]
    verdict = ll.verify(h)
    assert verdict.verdict == "refuted" and "these are S0's columns, not P's (32 to 95)" in str(verdict)
    _, pv = mma_reads(provenance(config, seq_kv=128), config)
    (found,) = in_steps([a for a, _ in pv], config.kv_tile // 16)
    assert (found[..., 0] == read_by(h)["lane"]).all()
    assert (32 * found[..., 1] + found[..., 2] == read_by(h)["bit"]).all()


FAULTS = [
    fault for fault in get_args(get_type_hints(AttentionConfig)["fault"]) if fault not in ("none", "early_release")
]
ABOUT = {"q": "sQ", "k": "sK", "v": "sV", "p": "tP", "rescale": "oRescale", "epilogue": "epilogue"}


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_makes_its_own_handoff_wrong_and_no_other(fault, head_dim):
    try:
        config = AttentionConfig(head_dim=head_dim, fault=fault)
    except ll.LayoutError as refused:
        assert (fault, head_dim) in {("q_steps", 64), ("k_steps", 64), ("rescale_shifted", 256)}
        assert f"fault={fault}" in str(refused)
        return
    wrong = [name for name, h in attention_handoffs(config, 1).items() if ll.verify(h).verdict != "proved"]
    own = {"o_unswizzled": "epilogue", "o_heads_first": "store"}.get(fault) or ABOUT[fault.split("_")[0]]
    assert wrong == [own]
