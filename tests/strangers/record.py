"""Traces the kernels of the strangers' table, and edited copies of them, and writes down what came out.

    python3 -m venv /tmp/strangers && /tmp/strangers/bin/pip install -r tests/strangers/requirements.txt
    /tmp/strangers/bin/pip install --no-deps flash-attn-4==4.0.0b36 quack-kernels==0.6.5
    /tmp/strangers/bin/pip install -e .
    /tmp/strangers/bin/python tests/strangers/record.py            # all; or only the names that contain an argument

It needs torch (the CPU build does), so it is no part of the ordinary tests: they hold README.md's table against what
this wrote to tests/data/strangers.json (tests/test_strangers.py).
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
RECORD = HERE.parent / "data" / "strangers.json"
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


EDITS: list[Edit] = []


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
            print(name(thing), found.get("counts") or found.get("refuted"), found["ended"] or "", flush=True)
        known[kind] = list(done.values())
        RECORD.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
