"""Kernel mutation: one PTX statement of the P handoff kernel dropped or altered at a time; who notices?

    python tests/bench/mutate.py [--count 300] [--seed 1]

A mutant is caught by the parser or decoder, by a check of the machine (bounds, lanes, barriers, deadlock), by a warning
(bytes read that nobody wrote), by a wrong result, or under a late schedule only. A survivor gave the right result under
every schedule; each is listed with its line and sorted by kind:

    hint         the statement only advises (prefetch, relinquish, a fence that nothing here depends on)
    timing       a wait whose absence some device would show; the machine gives tcgen05.ld its registers at once
    dead         its result is never read
    other        look at it: most compute the same values (bits that are zero anyway, work that 32 lanes repeat)
"""

from __future__ import annotations

import argparse
import collections
import random
import re
from typing import Any

import ml_dtypes
import numpy as np

from layoutlab.cutedsl.capture import capture
from layoutlab.kernels.p_handoff import compile_kernel, pointers
from layoutlab.kernels.p_settings import PSettings
from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import PtxError, parse_module
from layoutlab.ptx.report import Deadlock
from layoutlab.ptx.state import Geometry

STATEMENT = re.compile(r"^\s+(?:@!?%?\w+\s+)?[a-z][\w.:]*\s.*;$|^\s+[a-z][\w.:]*;$")
HINT = re.compile(r"prefetch|fence|relinquish|griddepcontrol|setmaxnreg|bar\.warp|dealloc|\bret\b")
TIMING = re.compile(r"wait::ld|bar\.sync")
SWAPS = [
    (r"\badd\.s32\b", "sub.s32"), (r"\bshl\.b32\b", "shr.u32"), (r"\band\.b32\b", "or.b32"),
    (r"\bxor\.b32\b", "or.b32"), (r"setp\.ne\b", "setp.eq"), (r"setp\.lt\b", "setp.ge"),
    (r"setp\.eq\b", "setp.ne"), (r"@%p", "@!%p"), (r"@!%p", "@%p"),
    (r"\+(\d+)\]", r"+16+\1]"), (r", (\d+);$", lambda m: f", {int(m.group(1)) + 1};"), (r"cvt\.rn\b", "cvt.rz"),
]  # fmt: skip


class Subject:
    """The kernel with its inputs; `outcome` runs a text and says who noticed."""

    def __init__(self, settings: PSettings) -> None:
        rng = np.random.default_rng(3)
        self.s = aligned((128, settings.kv), np.float32)
        self.v = aligned((settings.kv, settings.head_dim), ml_dtypes.bfloat16)
        self.o = aligned((128, settings.head_dim), np.float32)
        # Numbers that bf16 must round, so that a change of rounding shows too.
        self.s[:] = rng.standard_normal(self.s.shape)
        self.v[:] = rng.integers(-3, 4, self.v.shape).astype(ml_dtypes.bfloat16)
        compiled = compile_kernel(settings)
        where = pointers(settings, *(x.ctypes.data for x in (self.s, self.v, self.o)))
        self.captured = capture(compiled, *where)
        self.text = self.captured.module.text
        self.right = self.result(self.text, "eager")[0]

    def result(self, text: str, schedule: str) -> tuple[np.ndarray, list[Any]]:
        memory = GlobalMemory()
        for name, x in (("S", self.s), ("V", self.v), ("O", self.o)):
            memory.register(name, x.ctypes.data, x.nbytes, x)
        self.o[:] = np.nan
        module = parse_module(text)
        launch = self.captured.launches[0]
        geometry = Geometry(launch.grid, launch.block, launch.shared_bytes)
        report = run_grid(
            module,
            module.entries[launch.kernel],
            geometry,
            list(launch.params),
            memory,
            schedule=schedule,
            limit=100_000,
        )
        return self.o.copy(), report.warnings

    def outcome(self, text: str) -> str:
        for schedule in ("eager", "lazy", "random"):
            late = "" if schedule == "eager" else f", {schedule} schedule only"
            try:
                got, warnings = self.result(text, schedule)
            except Deadlock:
                return f"deadlock{late}"
            except PtxError as error:
                return ("decoder" if "unknown" in str(error) else "machine check") + late
            if not np.array_equal(got, self.right):
                return f"wrong result{late}"
            if warnings:
                return f"warning{late}"
        return "survived"


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def mutants(text: str, rng: random.Random) -> list[tuple[int, str, str]]:
    """(line, what was done, the mutant's text), in random order."""
    lines = text.split("\n")
    found = []
    for i, line in enumerate(lines):
        if not STATEMENT.match(line):
            continue
        found.append((i, "dropped", [*lines[:i], "", *lines[i + 1 :]]))
        for pattern, replacement in SWAPS:
            changed = re.sub(pattern, replacement, line)
            if changed != line:
                found.append((i, f"became {changed.strip()[:60]}", [*lines[:i], changed, *lines[i + 1 :]]))
    rng.shuffle(found)
    return [(i + 1, what, "\n".join(body)) for i, what, body in found]


def kind_of(line: str, text: str) -> str:
    """Why a mutant of this statement may survive."""
    if HINT.search(line):
        return "hint"
    if TIMING.search(line):
        return "timing"
    target = re.search(r"\s(%\w+)", re.sub(r"@!?%\w+", "", line))
    if target and len(re.findall(re.escape(target.group(1)) + r"\b", text)) <= 1:
        return "dead"
    return "other"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    subject = Subject(PSettings(store="tiled_copy_d", kv=64))
    assert subject.outcome(subject.text) == "survived"
    lines = subject.text.split("\n")
    tally: collections.Counter[str] = collections.Counter()
    survivors = []
    for number, what, text in mutants(subject.text, random.Random(options.seed))[: options.count]:
        found = subject.outcome(text)
        tally[found] += 1
        if found == "survived":
            survivors.append((kind_of(lines[number - 1], subject.text), number, lines[number - 1].strip(), what))
    for name, count in tally.most_common():
        print(f"{count:5d}  {name}")
    for kind, number, line, what in sorted(survivors):
        print(f"{kind:22s} line {number}: {line[:70]}  {what}")


if __name__ == "__main__":
    main()
