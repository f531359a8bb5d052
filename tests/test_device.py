"""Bundles: what is in them, what the runner makes of them, how results are judged; each check made to fail."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from host_driver import CUresult, HostDriver

from layoutlab.crosscheck.bundled import Bundle, check_bundle, judge, read_results
from layoutlab.device import Device, LaunchFailed, Unavailable, runner
from layoutlab.device.bundle import address_words, make_bundle
from layoutlab.device.replayed import replay_bundle
from layoutlab.errors import LayoutError


def bundle_of(folder, **values):
    from layoutlab.kernels.p_bundle_sm90 import make_p_bundle
    from layoutlab.kernels.p_settings_sm90 import PSettings90

    make_p_bundle(PSettings90(**values), folder)
    return quick(folder)


def quick(folder):
    """The bundle with fewer stores to time: here they are replayed."""
    launch = json.loads((folder / "launch.json").read_text())
    assert launch["timing"] == {"scalar": "rounds", "values": [1, 2001], "repeat": 7}
    launch["timing"] = {"scalar": "rounds", "values": [1, 3], "repeat": 2}
    (folder / "launch.json").write_text(json.dumps(launch))
    return folder


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """A bundle of a right variant, small."""
    return bundle_of(tmp_path_factory.mktemp("bundles") / "right", kv=64)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """A bundle of a planted fault."""
    return bundle_of(tmp_path_factory.mktemp("bundles") / "wrong", kv=64, write_swizzle="none")


def driver_of(*folders, **options):
    return HostDriver(
        ptx={(f / "kernel.cubin").read_bytes(): (f / "kernel.ptx").read_text() for f in folders}, **options
    )


def ran(folder, tmp_path, **options):
    """The results of the runner, on a driver whose launches are replays."""
    assert runner.main([str(folder), "--out", str(tmp_path)], driver_of(folder, **options)) == 0
    return tmp_path / f"{folder.name}.zip"


# -- what is in a bundle -----------------------------------------------------------------------------------------------


def test_every_tensor_has_its_words(right):
    launch = json.loads((right / "launch.json").read_text())
    held = {(w["parameter"], w["at"]): (w["tensor"], w["plus"]) for w in launch["addresses"]}
    assert held == {(0, 0): ("S", 0), (1, 0): ("V", 0), (2, 0): ("O", 0), (3, 0): ("image", 0)}
    assert [len(p) // 2 for p in launch["parameters"]] == [8, 128, 128, 8, 4]  # S, the maps of V and O, image, rounds
    assert launch["scalars"] == [{"name": "rounds", "parameter": 4, "at": 0, "bytes": 4, "value": 1}]


def test_two_tensors_at_one_offset_are_not_told_apart():
    a, b = (x.to_bytes(8, "little") for x in (4112, 65552))
    with pytest.raises(LayoutError, match="the same offset from several tensors"):
        address_words(a, b, 0, {"S": (4096, 65536, 256), "V": (4096, 65536, 16)})


@pytest.mark.parametrize("a, b", [(4095, 65535), (4096, 65537), (4096 + 257, 65536 + 257)])
def test_an_address_outside_of_every_tensor_is_refused(a, b):
    with pytest.raises(LayoutError, match="from no tensor"):
        address_words(a.to_bytes(8, "little"), b.to_bytes(8, "little"), 0, {"S": (4096, 65536, 256)})


def test_a_folder_of_other_things_is_left_alone(right, tmp_path):
    from layoutlab.kernels.p_bundle_sm90 import call_of
    from layoutlab.kernels.p_settings_sm90 import PSettings90

    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(LayoutError, match="holds something else than a bundle"):
        call = call_of(PSettings90(kv=64))
        make_bundle(call, tmp_path, capability=(9, 0), inputs={}, cases=[], timing=None, made={})
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_a_new_bundle_takes_the_place_of_a_bundle_alone(right, tmp_path, capsys):
    """What lies beside an old bundle is kept, and the old bundle with it; of a bundle alone nothing stays."""
    from layoutlab.cli import main

    old, link, file = tmp_path / "old", tmp_path / "link", tmp_path / "file"
    shutil.copytree(right, old)
    link.symlink_to(old)
    file.write_text("keep me")
    (old / "results.zip").write_text("of the old one")
    (old / "mine.txt").write_text("keep me")
    asked = ["bundle", "sP90", "--set", "kv=64", "-o"]
    assert main([*asked, str(old)]) == 2 and "something else than a bundle (mine.txt)" in capsys.readouterr().err
    assert (old / "mine.txt").exists() and (old / "results.zip").exists()
    (old / "mine.txt").unlink()
    assert main([*asked, str(link)]) == 0
    assert link.is_symlink() and not (old / "results.zip").exists() and (old / "launch.json").exists()
    assert main([*asked, str(file)]) == 2 and "is a file: name a folder" in capsys.readouterr().err
    assert main([*asked, str(file / "in")]) == 2 and "cannot be written" in capsys.readouterr().err


# -- running -----------------------------------------------------------------------------------------------------------


def test_a_run_is_judged_the_same(right, tmp_path):
    judgement = check_bundle(right, ran(right, tmp_path))
    assert judgement.same and judgement.exit_status == 0 and judgement.counterexample is None
    assert "the image of 8192 places, A of 8192 elements and O of 4 cases on a replay" in str(judgement)


def test_a_run_of_a_fault_shows_the_counterexample_of_verify(wrong, tmp_path):
    from layoutlab.catalogue import sP90
    from layoutlab.handoff import verify

    judgement = check_bundle(wrong, ran(wrong, tmp_path))
    assert judgement.same
    witness = verify(sP90(kv=64, write_swizzle="none"))["placed"].witness
    found = judgement.counterexample
    assert (found["thread"], found["value"], found["coordinate"]) == (witness.thread, witness.value, witness.coordinate)
    assert (found["wrote"], found["reads"]) == (witness.wrote.json()["byte"], witness.reads.json()["byte"])


def test_times_and_memory(right, tmp_path):
    driver = driver_of(right)
    assert runner.main([str(right), "--out", str(tmp_path)], driver) == 0
    _, run = read_results(tmp_path / "right.zip")
    assert run["times"] == {"scalar": "rounds", "seconds": {"1": [0.0015] * 2, "3": [0.0015] * 2}}
    assert run["device"] == "a replay" and run["capability"] == [9, 0]
    assert not driver.held


def test_attributes_reach_the_launch(right, tmp_path):
    folder = tmp_path / "with_attributes"
    shutil.copytree(right, folder)
    launch = json.loads((folder / "launch.json").read_text())
    launch["attributes"] = {"4": (b"\x02\0\0\0\x01\0\0\0\x01\0\0\0").hex(), "2": "01000000", "6": "01000000"}
    launch["cases"], launch["timing"] = launch["cases"][:1], None
    (folder / "launch.json").write_text(json.dumps(launch))
    driver = driver_of(folder)
    assert runner.main([str(folder)], driver) == 0
    ((cluster, cooperative, serialization),) = driver.attributes
    assert (cluster.value.clusterDim.x, cluster.value.clusterDim.y) == (2, 1)
    assert cooperative.value.cooperative == 1 and serialization.value.programmaticStreamSerializationAllowed == 1
    launch["attributes"] = {"3": "00000000"}
    (folder / "launch.json").write_text(json.dumps(launch))
    assert runner.main([str(folder)], driver_of(folder)) == 1


@pytest.mark.parametrize(
    "options, status, said",
    [
        ({"failing": "cuInit"}, 3, "not run: there is no CUDA device here: cuInit failed with CUDA_ERROR_NO_DEVICE"),
        ({"capability": (10, 0)}, 3, "the device has compute capability 10.0, and right is made for 9.0 alone"),
        (
            {"failing": "cuCtxSynchronize", "error": CUresult.CUDA_ERROR_LAUNCH_FAILED}, 1,
            "failed: cuCtxSynchronize failed with CUDA_ERROR_LAUNCH_FAILED",
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_and_never_counted(right, tmp_path, capsys, options, status, said):
    assert runner.main([str(right), "--out", str(tmp_path)], driver_of(right, **options)) == status
    assert said in capsys.readouterr().err
    assert not (tmp_path / "right.zip").exists()
    with pytest.raises(LayoutError, match="there are no results"):
        check_bundle(right, tmp_path / "right.zip")


def test_the_runner_needs_nothing_of_layoutlab(right, tmp_path):
    """Its copy in the bundle, alone, without any site package: it says that cuda-python is missing."""
    done = subprocess.run([sys.executable, "-I", "-S", str(right / "run.py")], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr == "not run: running on a device needs cuda-python: pip install cuda-python\n"


def test_a_device_without_a_driver_is_unavailable():
    class NoDriver:
        def cuInit(self, _flags):
            raise RuntimeError("libcuda.so.1 was not found")

    with pytest.raises(Unavailable, match=r"there is no CUDA device here: libcuda.so.1 was not found"):
        Device(NoDriver())
    with pytest.raises(LaunchFailed, match="cuMemAlloc failed with CUDA_ERROR_NO_DEVICE"):
        Device(HostDriver(failing="cuMemAlloc")).allocate(16)


# -- judging: each comparison, made to fail ----------------------------------------------------------------------------


def changed(results, case, name, change):
    """The results with one tensor of one case changed."""
    array = np.frombuffer(results[case][name], np.uint8).copy()
    change(array)
    return {**results, case: {**results[case], name: array.tobytes()}}


@pytest.mark.parametrize(
    "case, name, at, said",
    [
        ("tag0.from0", "image", 144, "byte 144 holds (m=1, k=0) by the model"),
        ("tag0.from0", "O", 4, "A[0, 1] is (m=0, k=1) by the model"),
        ("random1", "image", 0, "case random1: the image has other bytes than by the model"),
        ("random2", "O", 3, "case random2: O is off by"),
    ],
)
def test_one_changed_byte_is_seen(right, case, name, at, said):
    def flip(array):
        array[at] ^= 0x40

    bundle, results = Bundle(right), replay_bundle(right)
    assert judge(bundle, results, "it", results).same
    judgement = judge(bundle, changed(results, case, name, flip), "it", None)
    assert not judgement.same and judgement.exit_status == 1
    assert said in str(judgement)
    assert "than in the replay" in str(judge(bundle, changed(results, case, name, flip), "it", results)) or name == "O"


def test_results_of_another_variant_differ(right, wrong):
    """A device that stored swizzled where the model says it does not, and the other way round."""
    for folder, other in ((right, wrong), (wrong, right)):
        judgement = judge(Bundle(folder), replay_bundle(other), "it", None)
        assert not judgement.same
        assert "verify" in str(judgement)


def test_what_cannot_be_judged_is_refused(right, tmp_path):
    results = ran(right, tmp_path)
    lost = tmp_path / "lost.zip"
    with zipfile.ZipFile(results) as old, zipfile.ZipFile(lost, "w") as new:
        for name in old.namelist():
            if not name.startswith("random2"):
                new.writestr(name, old.read(name))
    with pytest.raises(LayoutError, match="the results lack the cases random2"):
        check_bundle(right, lost)
    (tmp_path / "none.zip").write_text("no zip")
    with pytest.raises(LayoutError, match="there are no results"):
        check_bundle(right, tmp_path / "none.zip")


@pytest.fixture
def damaged(right, tmp_path):
    """A copy of the bundle, its results in it, to be damaged."""
    folder = tmp_path / "damaged"
    shutil.copytree(right, folder)
    ran(right, tmp_path).rename(folder / "results.zip")
    return folder


def rewritten(folder, change):
    """The launch.json with something changed."""
    launch = json.loads((folder / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps(change(launch) or launch))


def rezipped(folder, change):
    """The results with something changed: `change` is given what the zip file holds by name."""
    with zipfile.ZipFile(folder / "results.zip") as old:
        held = {name: old.read(name) for name in old.namelist()}
    change(held)
    with zipfile.ZipFile(folder / "results.zip", "w") as new:
        for name, data in held.items():
            new.writestr(name, data)


DAMAGE = [
    (lambda d: rewritten(d, lambda launch: [1]), "holds a list, and describes no launch"),
    (lambda d: rewritten(d, lambda launch: launch.pop("parameters") and None), "lacks parameters"),
    (lambda d: rewritten(d, lambda launch: launch.update(parameters=["zz"])), "describes no launch of sP90"),
    (lambda d: rewritten(d, lambda launch: launch.update(made={"handoff": ["sP90"]})), "there is no model"),
    (lambda d: rewritten(d, lambda launch: launch["made"].update(settings=5)), "describes no launch of sP90"),
    (lambda d: rewritten(d, lambda launch: launch["made"]["settings"].update(kv=77)), "kv=77 is not one of"),
    (
        lambda d: rewritten(d, lambda launch: launch["made"]["settings"].update(kv=128)),
        "another size than its settings",
    ),
    (lambda d: rewritten(d, lambda launch: launch.update(cases=[])), "has no tagged cases"),
    (lambda d: (d / "kernel.ptx").unlink(), "kernel.ptx cannot be read"),
    (lambda d: (d / "kernel.cubin").unlink(), "kernel.cubin cannot be read"),
    (lambda d: (d / "kernel.ptx").write_text("hello"), "the replay of kernel.ptx stops: PTX line 1"),
    (lambda d: (d / "inputs" / "S.tag0.bin").unlink(), "S.tag0.bin cannot be read"),
    (lambda d: rezipped(d, lambda held: held.pop("tag0.from0/O.bin")), "the results lack O of the case tag0.from0"),
    (lambda d: rezipped(d, lambda held: held.update({"random1/O.bin": b"123"})), "O of the case random1 has 3 bytes"),
    (lambda d: rezipped(d, lambda held: held.update({"run.json": b"{}"})), "does not say which device ran which cubin"),
    (
        lambda d: rezipped(d, lambda held: held.update({"run.json": b"[1]"})),
        "does not say which device ran which cubin",
    ),
]


@pytest.mark.parametrize("damage, said", DAMAGE)
def test_a_damaged_bundle_is_not_judged(damaged, capsys, damage, said):
    from layoutlab.cli import main

    damage(damaged)
    assert main(["check-bundle", str(damaged)]) == 3
    printed = capsys.readouterr()
    assert not printed.out and "could not judge: " in printed.err and said in printed.err


def test_an_image_that_changes_from_run_to_run_differs(damaged):
    """The same S, and another image in a second case: that is a finding, no reason not to judge."""
    launch = json.loads((damaged / "launch.json").read_text())
    again = {**launch["cases"][0], "name": "again"}
    rewritten(damaged, lambda launch: launch["cases"].append(again))
    rezipped(damaged, lambda held: held.update({
        "again/image.bin": held["tag0.from0/image.bin"][:-1] + b"\1", "again/O.bin": held["tag0.from0/O.bin"],
    }))  # fmt: skip
    judgement = check_bundle(damaged)
    assert not judgement.same
    assert "case again: the image has other bytes than by the model" in str(judgement)


def test_results_of_another_cubin_differ(damaged):
    """Whatever the numbers are: they are not this kernel's."""
    assert check_bundle(damaged).same
    with (damaged / "kernel.cubin").open("ab") as cubin:
        cubin.write(b"x")
    judgement = check_bundle(damaged)
    assert judgement.exit_status == 1 and "the results are of another cubin" in str(judgement)


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda d: (d / "kernel.cubin").unlink(), "kernel.cubin: No such file or directory"),
        (lambda d: (d / "inputs" / "S.tag0.bin").unlink(), "S.tag0.bin: No such file or directory"),
        (lambda d: (d / "inputs" / "S.tag0.bin").write_bytes(b"12"), "case tag0.from0: S has 2 bytes, not"),
        (lambda d: rewritten(d, lambda launch: launch.update(parameters=["zz"])), "describes no launch (ValueError"),
        (lambda d: rewritten(d, lambda launch: launch.update(grid=[1])), "describes no launch (ValueError"),
        (lambda d: rewritten(d, lambda launch: launch["addresses"][0].update(tensor="Q")), "no launch (KeyError"),
        (lambda d: rewritten(d, lambda launch: launch.pop("timing") and None), "lacks timing"),
    ],
)  # fmt: skip
def test_a_damaged_bundle_is_not_run(right, damaged, capsys, damage, said):
    damage(damaged)
    assert runner.main([str(damaged)], driver_of(right)) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
def test_registers_as_operand_a(tmp_path, dtype):
    """An accumulator's registers are operand A's for 16-bit types, and not for 8-bit ones."""
    folder = bundle_of(tmp_path / "registers", store="registers", kv=64, dtype=dtype)
    judgement = judge(Bundle(folder), replay_bundle(folder), "the replay", None)
    assert judgement.same
    assert (judgement.counterexample is None) == (dtype == "bf16")
    if dtype == "e4m3":
        assert "T0 V2 (m=8, k=0); the tensor core takes (m=0, k=8)" in str(judgement)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_the_commands(tmp_path, capsys):
    """bundle, a run, check-bundle: 0; another variant's results: 1; no results, no bundle: 3; no such setting: 2."""
    from layoutlab.cli import main

    folder, other = tmp_path / "b", tmp_path / "other"
    assert main(["bundle", "sP90", "--set", "kv=64", "-o", str(folder)]) == 0
    assert "4 cases of" in capsys.readouterr().out
    assert main(["bundle", "sP90", "--set", "kv=64", "--set", "write_swizzle=none", "-o", str(other)]) == 0
    assert main(["check-bundle", str(folder)]) == 3
    assert "could not judge: there are no results" in capsys.readouterr().err
    ran(quick(folder), tmp_path)
    assert main(["check-bundle", str(folder), "--results", str(tmp_path / "b.zip")]) == 0
    assert capsys.readouterr().out.endswith("those of the model and the replay\nsame\n")
    ran(quick(other), tmp_path)
    assert main(["check-bundle", str(folder), "--results", str(tmp_path / "other.zip"), "--no-replay"]) == 1
    assert capsys.readouterr().out.endswith("differs\n")
    assert main(["check-bundle", str(tmp_path)]) == 3
    assert main(["bundle", "sP90", "--set", "kv=65", "-o", str(folder)]) == 2
    reused = tmp_path / "rs_reuse"
    assert main(["bundle", "rs_reuse", "--set", "kv=64", "--set", "dtype=f16", "-o", str(reused)]) == 0
    assert Bundle(reused).settings["store"] == "registers"
    assert main(["bundle", "rs_reuse", "--set", "instruction=mma.sync", "-o", str(folder)]) == 2
    assert "kv=65 is not one of 64, 128, 256" in capsys.readouterr().err
