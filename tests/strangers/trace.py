"""Traces the kernels of the strangers' table, and edited copies of them, and writes down what came out.

    python3 -m venv /tmp/strangers && /tmp/strangers/bin/pip install -r tests/strangers/requirements.txt
    /tmp/strangers/bin/pip install --no-deps flash-attn-4==4.0.0b36 quack-kernels==0.6.5
    /tmp/strangers/bin/pip install -e .
    /tmp/strangers/bin/python tests/strangers/trace.py            # all; or only the names that contain an argument

It needs torch (the CPU build does), so it is no part of the ordinary tests: they hold README.md's table against what
this wrote to tests/data/strangers_traced.json (tests/test_strangers_traced.py).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORD = HERE.parent / "data" / "strangers_traced.json"
PACKAGES = ("flash-attn-4", "quack-kernels", "nvidia-cutlass-dsl", "torch")
FLASH, QUACK = "flash_attn_fwd.py", "quack_kernels.py"
ARCHES = ("sm_80", "sm_90a", "sm_100a", "sm_120")


@dataclass(frozen=True)
class Case:
    """A kernel of the table, compiled for an architecture."""

    kernel: str
    arch: str
    target: str
    settings: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        sets = [word for setting in self.settings for word in ("--set", setting)]
        return ["trace", f"tests/strangers/{self.target}", "--arch", self.arch, *sets]


CASES = [
    *(Case(f"flash-attn-4 {way}, head dim {dim}", arch, f"{FLASH}:{way}", (f"head_dim={dim}",))
      for way in ("forward", "backward") for dim in (128, 64) for arch in ARCHES),
    *(Case(f"quack {name.replace('_', '-')}", arch, f"{QUACK}:{name}")
      for name in ("gemm", "softmax", "rmsnorm", "cross_entropy") for arch in ARCHES),
]  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """A change planted in a copy of a package: where, what, and the buffer that has to be refuted."""

    what: str
    file: str
    before: str
    after: str
    case: Case
    buffer: str


_FORWARD100 = Case("flash-attn-4 forward, head dim 128", "sm_100a", f"{FLASH}:forward", ("head_dim=128",))
_FORWARD90 = Case("flash-attn-4 forward, head dim 128", "sm_90a", f"{FLASH}:forward", ("head_dim=128",))
_FORWARD80 = Case("flash-attn-4 forward, head dim 64", "sm_80", f"{FLASH}:forward", ("head_dim=64",))
_GEMM100 = Case("quack gemm", "sm_100a", f"{QUACK}:gemm")
_GEMM90 = Case("quack gemm", "sm_90a", f"{QUACK}:gemm")
EDITS = [
    Edit("operand A of quack's GEMM, another swizzle", "quack/gemm_sm100.py",
         "sA_mma = storage.sA.get_tensor(a_smem_layout.outer, swizzle=a_smem_layout.inner)",
         "sA_mma = storage.sA.get_tensor(a_smem_layout.outer, swizzle=cute.make_swizzle(2, 4, 3))", _GEMM100, "sA_mma"),
    Edit("operand B of quack's GEMM, 128 bytes further", "quack/sm90_utils.py",
         "tCrB = thr_mma.make_fragment_B(thr_mma.partition_B(sB))",
         "tCrB = thr_mma.make_fragment_B(thr_mma.partition_B(cute.make_tensor(sB.iterator + 64, sB.layout)))",
         _GEMM90, "sB"),
    Edit("D of quack's GEMM, another swizzle", "quack/gemm_sm100.py",
         "sD = storage.sD.get_tensor(epi_smem_layout.outer, swizzle=epi_smem_layout.inner)",
         "sD = storage.sD.get_tensor(epi_smem_layout.outer, swizzle=cute.make_swizzle(1, 4, 3))", _GEMM100, "sD"),
    Edit("D of quack's GEMM, another tiled copy than the accumulator's", "quack/gemm_sm100.py",
         "make_tiled_copy_D(copy_atom_r2s, tiled_copy_t2r)",
         "make_tiled_copy_tv(copy_atom_r2s, cute.make_layout(((4, 32), 1), stride=((32, 1), 0)), "
         "cute.make_layout((1, 32)))", _GEMM100, "sD"),
    Edit("K of the SM100 attention, 128 bytes further", "flash_attn/cute/flash_fwd_sm100.py",
         "tSrK = tiled_mma_qk.make_fragment_B(sK)",
         "tSrK = tiled_mma_qk.make_fragment_B(cute.make_tensor(sK.iterator + 64, sK.layout))", _FORWARD100, "sK"),
    Edit("Q of the SM100 attention, a narrower tile", "flash_attn/cute/flash_fwd_sm100.py",
         "tSrQ = tiled_mma_qk.make_fragment_A(sQ)",
         "tSrQ = tiled_mma_qk.make_fragment_A(cute.make_tensor(sQ.iterator, cute.make_layout(sQ.shape, "
         "stride=((32, 1), 0, (16, 4096), 8192))))", _FORWARD100, "sQ"),
    Edit("Q of the SM90 attention, another swizzle", "flash_attn/cute/flash_fwd_sm90.py",
         "sQ = storage.sQ.get_tensor(sQ_layout.outer, swizzle=sQ_layout.inner)",
         "sQ = storage.sQ.get_tensor(sQ_layout.outer, swizzle=cute.make_swizzle(2, 4, 3))", _FORWARD90, "sQ"),
    Edit("K of the SM80 attention, read 16 bytes further", "flash_attn/cute/flash_fwd.py",
         "tSsK = smem_thr_copy_K.partition_S(sK)",
         "tSsK = smem_thr_copy_K.partition_S(cute.make_tensor(sK.iterator + 8, sK.layout))", _FORWARD80, "sK"),
]  # fmt: skip


def traced(arguments: list[str], first_on_path: str = "") -> dict[str, Any]:
    """What `layoutlab ARGUMENTS --json` answers."""
    path = os.pathsep.join(filter(None, [first_on_path, str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "layoutlab", *arguments, "--json"], cwd=HERE.parent.parent, capture_output=True,
        text=True, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    if not done.stdout:
        return {"counts": {}, "rows": [], "ended": done.stderr.strip().splitlines()[-1:]}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def of_case(case: Case) -> dict[str, Any]:
    """A case's counts, and what was not proved."""
    answer = traced(case.arguments)
    rest = [
        {key: row[key] for key in ("buffer", "writer", "reader", "verdict", "why")}
        for row in answer["rows"] if row["verdict"] != "proved"
    ]  # fmt: skip
    return {
        "kernel": case.kernel, "arch": case.arch, "command": " ".join(["layoutlab", *case.arguments]),
        "counts": answer["counts"], "ended": answer["ended"], "not proved": rest,
    }  # fmt: skip


def of_edit(edit: Edit) -> dict[str, Any]:
    """What a trace of the edited copy refutes."""
    package = edit.file.split("/")[0]
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(next(iter(spec.submodule_search_locations)), Path(folder) / package)
        source = Path(folder) / edit.file
        text = source.read_text()
        assert text.count(edit.before) == 1, f"{edit.what}: {text.count(edit.before)} places in {edit.file}"
        source.write_text(text.replace(edit.before, edit.after))
        answer = traced(edit.case.arguments, folder)
    wrong = [f"{r['buffer']}: {r['why']}" for r in answer["rows"] if r["verdict"] == "refuted"]
    return {
        "what": edit.what, "file": edit.file, "before": edit.before, "after": edit.after, "arch": edit.case.arch,
        "kernel": edit.case.kernel, "buffer": edit.buffer, "refuted": wrong, "ended": answer["ended"],
    }  # fmt: skip


def main() -> int:
    """Runs what is asked, and adds it to the record."""
    wanted = sys.argv[1:]
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {"cases": [], "edits": []}
    known["date"] = time.strftime("%Y-%m-%d")
    known["packages"] = {name: importlib.metadata.version(name) for name in PACKAGES}
    for kind, things, run, name in (
        ("cases", CASES, of_case, lambda c: f"{c.kernel} {c.arch}"),
        ("edits", EDITS, of_edit, lambda e: e.what),
    ):
        done = {(e["kernel"], e["arch"], e.get("what")): e for e in known[kind]}
        for thing in things:
            if wanted and not any(word in name(thing) for word in wanted):
                continue
            found = run(thing)
            done[found["kernel"], found["arch"], found.get("what")] = found
            known[kind] = list(done.values())
            RECORD.write_text(json.dumps(known, indent=1) + "\n")
            print(name(thing), found.get("counts") or found.get("refuted"), found["ended"] or "", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
