"""The attention kernel is right however slow one role is: none runs so far ahead that a wait of another is missed."""

import pytest

from layoutlab.kernels.attention_config import AttentionConfig
from layoutlab.kernels.attention_run import random_inputs, run_attention
from layoutlab.ptx.machine import Scheduler
from tests import test_attention_waits as waits

ROLES = {"softmax": range(4), "correction": range(4, 8), "mma": range(8, 9), "load": range(9, 10)}
SHAPES = [
    # seq_q, seq_kv, causal: more than one Q tile for the one CTA
    (129, 257, False),  # three steps a tile: while the tile before is stored, the softmax warps get to the third
    (385, 1, False),  # one step a tile: the row sums of four tiles follow each other closest
    (385, 385, True),  # one step, two, three, four
    (257, 129, True),  # one step, one, two; the first tile's rows see no key
]


@pytest.fixture
def slow(monkeypatch):
    """Makes one role slow: its warps go on only when neither another warp nor started work can."""
    ran = set()

    def choose(role):
        def pick(scheduler):
            wave = scheduler.wave
            while True:
                ready = [f for f in scheduler.fragments if f.blocked_at != wave.version]
                others = [f for f in ready if not set(wave.row_warp[f.low : f.high, 0].tolist()) <= set(ROLES[role])]
                if others or not wave.asynchronous.step():
                    break
                wave.version += 1
            if ready and not others:
                ran.add(role)
            return scheduler.rng.choice(others or ready) if ready else None

        monkeypatch.setattr(Scheduler, "_pick", pick)
        return ran

    return choose


@pytest.mark.parametrize("seq_q, seq_kv, causal", SHAPES)
@pytest.mark.parametrize("p", ["tmem", "smem"])
@pytest.mark.parametrize("role", ROLES)
def test_any_role_may_be_slow(slow, role, p, seq_q, seq_kv, causal):
    ran = slow(role)
    config = AttentionConfig(head_dim=64, p=p, causal=causal)
    outcome = run_attention(config, *random_inputs(1, seq_q, seq_kv, 1, 1, 64), schedule="random", ctas=1)
    assert outcome.good, str(outcome)
    assert outcome.warnings == []
    assert ran == {role}


SLOW_AND_DROPPED = [
    # the slow role, and the wait without which others run ahead of it
    ("mma", "tmem", ("main", "qk_done", 1)),  # load: K's slot is free
    ("mma", "tmem", ("main", "pv_done", 0)),  # load: V's slot is free
    ("mma", "smem", ("softmax", "pv_done", 0)),  # sP is free
    ("softmax", "tmem", ("main", "p_full", 0)),  # MMA: P is written
    ("softmax", "tmem", ("correction", "scale_full", 0)),
]


@pytest.mark.parametrize("role, p, dropped", SLOW_AND_DROPPED)
def test_without_its_wait_a_slow_role_is_overrun(slow, monkeypatch, role, p, dropped):
    config = AttentionConfig(head_dim=64, p=p)
    compiled, seen = waits.compiled_without(monkeypatch, config, dropped)
    assert dropped in seen
    slow(role)
    assert not waits.right(compiled, config, waits.rising_inputs(), "random", 0)
