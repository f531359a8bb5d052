"""Who wrote what each unit of the attention kernel reads, as a replay of its PTX remembers it."""

import ml_dtypes
import numpy as np
import pytest

from layoutlab.kernels.attention_config import ROWS, SLOTS, AttentionConfig
from layoutlab.kernels.attention_host import arguments, check, compile_attention
from layoutlab.kernels.attention_run import random_inputs
from layoutlab.replay import replay

CORRECTION = 128  # the first thread of the correction warps
TMA_LOAD = "cp.async.bulk.tensor.4d.shared::cta.global"
CONFIGS = [
    AttentionConfig(head_dim=64),
    AttentionConfig(head_dim=256),
    *(AttentionConfig(head_dim=128, p="smem", route=route) for route in ("vector", "coordinate", "composition")),
]


def provenance(config, seq_q=128, seq_kv=384):
    """The record of a run over several KV tiles whose row maxima grow, so that O is rescaled."""
    q, k, v = random_inputs(1, seq_q, seq_kv, 1, 1, config.head_dim)
    k *= np.linspace(0.5, 2.0, seq_kv, dtype=np.float32)[:, None, None]
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in (q, k, v))
    o = np.zeros_like(q)
    problem = check(config, q, k, v, o)
    packed = arguments(problem)
    report = replay(compile_attention(config, lse=False), *packed, buffers=[q, k, v, o], provenance=True)
    return report.provenance


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
def run(request):
    return request.param, provenance(request.param)


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
