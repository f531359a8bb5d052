"""tP held against a replay of the attention kernel: agreement on right and wrong settings, and on nothing tampered."""

from __future__ import annotations

from typing import Any

import pytest

import layoutlab as ll
from layoutlab.catalogue import tP
from layoutlab.crosscheck import crosscheck, sides
from layoutlab.crosscheck.tmem_p import kernel_settings
from layoutlab.kernels.attention_observe import observe


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return observe(kernel_settings(tP().params), 0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"head_dim": 256, "kv": 64, "dtype": "f16", "slot": 1}, "proved"),
        ({"p_offset": 64, "read_offset": 64}, "proved"),
        ({"read_offset": 0}, "refuted"),
        ({"read_unit": "elements", "slot": 1}, "refuted"),
    ],
    ids=str,
)
def test_the_kernel_says_the_same(settings: dict[str, Any], said: str) -> None:
    found = crosscheck(tP(**settings), on=["replay"])
    assert (found.verdict, found.claim) == ("agree", said), str(found)
    assert found.exit_status == (0 if said == "proved" else 1)


def test_the_run_gives_the_models_first_counterexample() -> None:
    found = crosscheck(tP(read_offset=0), on=["replay"])
    (replay,) = [w for w in found.witnesses if w.name == "replay"]
    assert "T0 V0 (m=0, k=0) writes lane 0 column 32; the MMA reads that element at lane 0 column 0" in replay.why


def test_what_the_run_shows(seen: dict[str, Any]) -> None:
    """Each of 16384 elements at one place of its own, and read there."""
    assert seen["stopped"] is None and sorted(seen["owner"]) == list(range(128 * 128))
    assert len(set(seen["wrote"])) == 128 * 128 and min(seen["wrote"]) >= 0 and all(seen["by_writer"])
    assert [seen["reads"][element] for element in seen["owner"]] == seen["wrote"]
    assert sides.testimony(tP(), ll.verify(tP()), seen).agrees


@pytest.mark.parametrize(
    ("name", "at", "value", "difference"),
    [
        ("owner", 5, 6, "T0 V5 holds element 5 by the model, 6 in the run"),
        ("wrote", 130, 0, "T1 V2 writes place 17440 by the model, 0 in the run"),
        ("wrote", 7, -1, "T0 V7 writes place 1136 by the model, -1 in the run"),
        ("reads", 3, 0, "is read at place 1072 by the model, 0 in the run"),
        ("by_writer", 9, False, "covered is proved by the model, refuted"),
    ],
)
def test_a_tampered_run_disagrees(seen: dict[str, Any], name: str, at: int, value: Any, difference: str) -> None:
    changed = list(seen[name])
    changed[at] = value
    found = sides.testimony(tP(), ll.verify(tP()), {**seen, name: changed})
    assert found.agrees is False and difference in found.why


def test_another_accumulator_there_disagrees(seen: dict[str, Any]) -> None:
    found = sides.testimony(tP(), ll.verify(tP()), {**seen, "others": [[40, 41]]})
    assert found.agrees is False and "inside is proved by the model, refuted (T0 V16 (m=0, k=16)" in found.why


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kv": 64}, "has kv=128 at head_dim=64, not 64"),
        ({"first_warp": 1}, "has first_warp=0"),
        ({"store": "16x128b.x4"}, "stores bf16 or f16 by 32x32b.x32"),
        ({"dtype": "e4m3"}, "not e4m3"),
        ({"read_offset": 16}, "reads at its offset, 32, or by one of its faults, not at 16"),
        ({"p_offset": 0, "read_offset": 0}, "keeps no row statistics in S's columns"),
    ],
)
def test_settings_that_the_kernel_does_not_have(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ll.LayoutError, match="attention kernel") as refused:
        kernel_settings(tP(**settings).params)
    assert message in str(refused.value)
    found = crosscheck(tP(**settings), on=["replay"])
    assert found.verdict == "incomplete" and message in str(found)
