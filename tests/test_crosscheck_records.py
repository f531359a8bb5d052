"""`layoutlab crosscheck` of sP90 and rs_reuse, as it ran whole on an H200, held against the model."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from layoutlab.catalogue import named
from layoutlab.cli import main
from layoutlab.crosscheck.core import crosscheck
from layoutlab.crosscheck.sp90 import kernel_settings
from layoutlab.errors import LayoutError
from layoutlab.handoff import verify
from layoutlab.witnesses import hold

DATA = Path(__file__).parent / "data"
RECORD = json.loads((DATA / "sp90_crosscheck_h200.json").read_text())
ANSWERS = RECORD["answers"]
STORES = ("coordinate", "composition", "tiled_copy", "stmatrix")


def model_of(answer):
    return verify(named(answer["handoff"])(**answer["params"]))


def disagreement(answer, model):
    """Where the silicon's answer is not the model's; None where they agree."""
    said = (answer["claim"], answer["exit"])
    if said != (model.verdict, {"proved": 0, "refuted": 1}[model.verdict]):
        return f"the device said {said}"
    placed = model["placed"]
    if (
        placed.verdict == "refuted"
        and f"shows the counterexample of verify: {first(placed.witness)}" not in answer["device"]
    ):
        return f"{placed.witness.message} is not what the device showed"
    return None


def first(witness):
    """How a device names a counterexample: by the thread, the value and the coordinate."""
    where = ", ".join(f"{axis}={index}" for axis, index in witness.coordinate.items())
    return f"T{witness.thread} V{witness.value} ({where})"


def test_every_command_said_on_silicon_what_the_model_says():
    assert len(ANSWERS) == 230
    for answer in ANSWERS:
        assert answer["verdict"] == "agree"
        assert answer["replay_verdict"] == answer["device_verdict"] == answer["claim"]
        assert disagreement(answer, model_of(answer)) is None, answer
    assert {answer["claim"] for answer in ANSWERS} == {"proved", "refuted"}
    hold("crosscheck of sP90 and rs_reuse, whole", "H200", len(ANSWERS))


def test_every_route_type_and_size_was_asked():
    right = {(a["params"]["store"], a["params"]["dtype"], a["params"]["kv"], a["params"]["head_dim"])
             for a in ANSWERS if a["handoff"] == "sP90"}  # fmt: skip
    sizes = (64, 128, 256)
    wide = set(itertools.product(STORES[:3], ("bf16", "f16", "e4m3", "e5m2"), sizes, sizes))
    assert wide | set(itertools.product(("stmatrix",), ("bf16", "f16"), sizes, sizes)) <= right
    reused = {(a["params"]["dtype"], a["params"]["kv"]) for a in ANSWERS if a["handoff"] == "rs_reuse"}
    assert reused == set(itertools.product(("bf16", "f16", "e4m3", "e5m2"), sizes))


@pytest.mark.parametrize("change", [{"write_swizzle": "none"}, {"store": "composition_raw"}], ids=str)
def test_the_record_tells_a_wrong_model(change):
    answer = next(a for a in ANSWERS if a["params"].get("store") == "composition" and a["claim"] == "proved")
    other = {**answer, "params": {**answer["params"], **change}}
    assert disagreement(other, model_of(other)) is not None


def test_the_record_tells_another_counterexample():
    answer = next(a for a in ANSWERS if a["params"].get("write_swizzle") == "none")
    moved = {**answer, "device": answer["device"].replace("verify: T4 V0", "verify: T5 V0")}
    assert moved["device"] != answer["device"]
    assert "not what the device showed" in disagreement(moved, model_of(moved))


# -- rs_reuse by replay ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, claim, status", [("f16", "proved", 0), ("e5m2", "refuted", 1)])
def test_rs_reuse_is_replayed(dtype, claim, status, capsys):
    assert main(["crosscheck", "rs_reuse", "--on", "replay", "--set", f"dtype={dtype}", "--json"]) == status
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["claim"]) == ("agree", claim)
    if claim == "refuted":
        (why,) = [w["why"] for w in answer["witnesses"] if w["name"] == "replay"]
        assert "T0 V2 (m=8, k=0); the tensor core takes (m=0, k=8)" in why


def test_what_the_kernel_does_not_have_is_said():
    with pytest.raises(LayoutError, match=r"reuses registers by wgmma, and not by mma\.sync: set instruction=wgmma"):
        kernel_settings(named("rs_reuse")(instruction="mma.sync"))
    found = crosscheck(named("rs_reuse")(kv=96), on=["replay"])
    assert found.exit_status == 3 and "kv=96 is not one of 64, 128, 256" in str(found)


# -- launch attributes -------------------------------------------------------------------------------------------------

LAUNCHED = json.loads((DATA / "launch_attributes_h200.json").read_text())["launched"]


def test_launch_attributes_reached_the_device():
    """Clusters of 2 and 4 formed, and a cooperative launch was held to what is resident at once."""
    for size in (2, 4):
        assert LAUNCHED[f"cluster {size}, 8 CTAs"] == [[size, cta % size] for cta in range(8)]
    alone = [[1, 0]] * 8
    assert [LAUNCHED[f"{name}, 8 CTAs"] for name in ("none", "cooperative", "serialization")] == [alone] * 3
    assert "COOPERATIVE_LAUNCH_TOO_LARGE" in LAUNCHED["cooperative, too many CTAs"]
    assert LAUNCHED["none, as many CTAs"] == [[1, 0]]
