"""Kernel mutation: one PTX statement of the P handoff kernel dropped or altered at a time; who notices?

    python tests/bench/mutate.py [--count 400] [--seed 1] [--record]

A mutant is caught by the parser or decoder, by a check of the machine (bounds, lanes, barriers, deadlock), by a warning
(bytes that nobody wrote, registers touched before their wait), by a wrong result, or under a late schedule only. A
survivor gave the right result under every schedule; each is sorted by why:

    equivalent   the mutant computes the same: bits that are zero anyway, work that 32 lanes may repeat
    dead         its result is never read
    timing       an order that some device would need; the machine's memory is consistent at once
    missed       none of these: the machine should have seen it

`--record` writes tests/data/mutants.json, which the tests hold against the kernel.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from layoutlab.cutedsl.capture import capture
from layoutlab.kernels.p_handoff import compile_kernel, pointers
from layoutlab.kernels.p_settings import PSettings
from layoutlab.ptx.in_flight import STRICT_LOADS
from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import PtxError, parse_module
from layoutlab.ptx.report import Deadlock
from layoutlab.ptx.state import Geometry

STATEMENT = re.compile(r"^\s+(?:@!?%?\w+\s+)?[a-z][\w.:]*\s.*;$|^\s+[a-z][\w.:]*;$")
RECORD = Path(__file__).parent.parent / "data" / "mutants.json"
RUNS = (("eager", 0), ("lazy", 0), ("random", 0), ("random", 1), ("random", 2))  # schedule, seed
# (statement, what was done, kind, why), the first that matches
WHY = [
    (r"^ret;", "dropped", "equivalent", "a function's end returns"),
    (r"^fence\.mbarrier_init", "dropped", "equivalent", "it orders for other CTAs of a cluster; this one has one CTA"),
    (r"^tcgen05\.fence", "dropped", "timing", "it orders the tensor core's work and a barrier"),
    (r"^fence\.proxy|^bar\.sync|wait", "dropped", "timing", "it orders memory"),
    (r"^and\.b32.*, (112|1984|16320);", r"became .*[135];", "equivalent", "the operand's lowest bits are zero"),
    (r"^add\.s32.*16384;", r"became .*16385;", "equivalent", "the next statements drop the lowest four bits"),
    (r"^xor\.b32", r"became or\.b32", "equivalent", "the bits that are exchanged are zero in the other operand here"),
    (r"^mov\.b32.*135333008;", r"became .*135333009;", "equivalent", "the sparsity selector of a dense product"),
    (r"^setp\.ne\.b32.*, 0;", r"became .*, 1;", "equivalent", "another warp allocates and initialises"),
    (r"^add\.s32.*%r8, 32;", r"became .*33;", "equivalent", "a tile's own place, which one register gives both sides"),
    (r"^@%p\d+ bra", r"became @!%p", "equivalent", "31 lanes issue in place of one: the product does not accumulate, "
     "and 31 arrivals leave the parity that one does"),
    (r"relinquish_alloc_permit", "dropped", "equivalent", "nothing else allocates"),
]  # fmt: skip
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

    def result(self, text: str, schedule: str, seed: int = 0) -> tuple[np.ndarray, list[Any]]:
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
            seed=seed,
            options=frozenset([STRICT_LOADS]),
            limit=100_000,
        )
        return self.o.copy(), report.warnings

    def outcome(self, text: str) -> str:
        for schedule, seed in RUNS:
            late = "" if schedule == "eager" else f", {schedule} schedule only"
            try:
                got, warnings = self.result(text, schedule, seed)
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


def reason(statement: str, what: str, text: str) -> tuple[str, str]:
    """The kind of a survivor and why it survives."""
    for pattern, change, kind, why in WHY:
        if re.search(pattern, statement) and re.search(change, what):
            return kind, why
    target = re.search(r"\s(%\w+)", re.sub(r"@!?%\w+", "", statement))
    if target and len(re.findall(re.escape(target.group(1)) + r"\b", text)) <= 1:
        return "dead", "nothing reads its result"
    return "missed", ""


def subject() -> Subject:
    """The kernel that is mutated."""
    return Subject(PSettings(store="tiled_copy_d", kv=64))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    kernel = subject()
    assert kernel.outcome(kernel.text) == "survived"
    lines = kernel.text.split("\n")
    outcomes, survivors = [], []
    for number, what, text in mutants(kernel.text, random.Random(options.seed))[: options.count]:
        outcomes.append(kernel.outcome(text))
        if outcomes[-1] == "survived":
            statement = lines[number - 1].strip()
            kind, why = reason(statement, what, kernel.text)
            survivors.append({"line": number, "statement": statement, "what": what, "kind": kind, "why": why})
    tally = collections.Counter(outcomes)
    for name, count in tally.most_common():
        print(f"{count:5d}  {name}")
    for x in sorted(survivors, key=lambda x: (x["kind"], x["line"])):
        print(f"{x['kind']:12s} line {x['line']}: {x['statement'][:70]}  {x['what']}: {x['why']}")
    if options.record:
        record = {
            "date": datetime.date.today().isoformat(), "command": "python tests/bench/mutate.py --record",
            "seed": options.seed, "tally": dict(tally.most_common()), "outcomes": outcomes, "survivors": survivors,
        }  # fmt: skip
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return sum(x["kind"] == "missed" for x in survivors)


if __name__ == "__main__":
    sys.exit(main())
