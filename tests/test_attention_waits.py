"""Waits of the attention kernel are needed: without one, some schedule of the replay gives a wrong result or stops."""

import ml_dtypes
import numpy as np
import pytest

from layoutlab.kernels import attention, attention_correction, attention_softmax, attention_tiles
from layoutlab.kernels.attention_config import AttentionConfig
from layoutlab.kernels.attention_host import check, compile_attention
from layoutlab.kernels.attention_reference import errors, reference
from layoutlab.kernels.attention_run import Replay, random_inputs
from layoutlab.ptx.parse import PtxError

MODULES = {"main": attention, "softmax": attention_softmax, "correction": attention_correction}
SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(4))]

NEEDED = [
    # where, for what, which of its waits for it there, in the order of the source
    ("tmem", "main", "qk_done", 1),  # load: K's slot is free
    ("tmem", "main", "pv_done", 0),  # load: V's slot is free
    ("tmem", "main", "k_full", 0),
    ("tmem", "softmax", "qk_done", 0),
    ("smem", "softmax", "pv_done", 0),  # sP is free
    ("tmem", "correction", "scale_full", 0),
    ("tmem", "correction", "pv_done", 0),  # O is complete up to the step before
    ("tmem", "correction", "pv_done", 1),  # O is complete
]


class Waits:
    """Stands between the kernel's sources and `wait_slot`: counts the waits by place and drops one."""

    def __init__(self, monkeypatch, dropped=None):
        self.dropped, self.seen, self.barriers = dropped, [], None
        monkeypatch.setattr(attention, "make_barriers", self.make_barriers)
        for place, module in MODULES.items():
            monkeypatch.setattr(module, "wait_slot", self.waiting(place))

    def make_barriers(self, smem):
        self.barriers = attention_tiles.make_barriers(smem)
        return self.barriers

    def waiting(self, place):
        def wait_slot(barrier, step):
            name = next(n for n, pointer in vars(self.barriers).items() if pointer is barrier)
            earlier = sum(1 for seen in self.seen if seen[:2] == (place, name))
            self.seen.append((place, name, earlier))
            if self.seen[-1] != self.dropped:
                attention_tiles.wait_slot(barrier, step)

        return wait_slot


def rising_inputs():
    """Two Q tiles for one CTA and four KV tiles, whose row maxima grow, so that O is rescaled."""
    q, k, v = random_inputs(1, 256, 512, 1, 1, 64, seed=1)
    k = k * np.linspace(0.5, 2.0, 512, dtype=np.float32)[:, None, None]
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in (q, k, v))
    return q, k, v, reference(q, k, v, 0.125)


@pytest.fixture(scope="module")
def inputs():
    return rising_inputs()


def right(compiled, config, inputs, schedule, seed):
    """Whether a run of one CTA gives the right result."""
    q, k, v, (o_ref, lse_ref) = inputs
    o, lse = np.zeros_like(q), np.zeros(lse_ref.shape, np.float32)
    try:
        ran = Replay(schedule, seed).run(compiled, check(config, q, k, v, o, lse), None, 1)
    except PtxError:  # a deadlock, or memory that is not there
        return False
    return errors(o, o_ref, lse, lse_ref).within("bf16") and not ran["warnings"]


def compiled_without(monkeypatch, config, dropped):
    waits = Waits(monkeypatch, dropped)
    compiled = compile_attention.__wrapped__(config)
    return compiled, waits.seen


@pytest.mark.slow
@pytest.mark.parametrize("p", ["tmem", "smem"])
def test_with_all_waits_every_schedule_is_right(monkeypatch, inputs, p):
    config = AttentionConfig(head_dim=64, p=p)
    compiled, seen = compiled_without(monkeypatch, config, None)
    assert {(p, *wait) for wait in seen} >= {wait for wait in NEEDED if wait[0] == p}
    assert all(right(compiled, config, inputs, *schedule) for schedule in SCHEDULES)


@pytest.mark.slow
@pytest.mark.parametrize("p, place, barrier, number", NEEDED)
def test_a_dropped_wait_is_seen(monkeypatch, inputs, p, place, barrier, number):
    config = AttentionConfig(head_dim=64, p=p)
    compiled, seen = compiled_without(monkeypatch, config, (place, barrier, number))
    assert (place, barrier, number) in seen
    assert not all(right(compiled, config, inputs, *schedule) for schedule in SCHEDULES)
