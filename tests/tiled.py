"""Expressions of tiled copies and MMAs, evaluated with layoutlab and with CuTe DSL: the same text for both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import layoutlab
import layoutlab.tv
from layoutlab import ComposedLayout, Layout, LayoutError, Swizzle, make_identity_layout
from layoutlab.atoms.mma import mma_sync, wgmma
from layoutlab.int_tuple import map_leaves

SCRIPT = Path(__file__).parent / "oracles" / "dsl_tiled.py"


@dataclass(frozen=True)
class Answer:
    """What was printed, or why nothing was."""

    text: str | None
    refused: str | None = None


class Worker:
    """The DSL in a process that is started again when a call kills it."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.process: subprocess.Popen[str] | None = None
        self.errors = Path(tempfile.mkdtemp()) / "stderr"

    def ask(self, expression: str) -> Answer:
        if self.process is None:
            with self.errors.open("w") as errors:
                self.process = subprocess.Popen(
                    [sys.executable, SCRIPT, self.arch],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(expression) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        for line in self.process.stdout:
            if line.startswith("reply "):
                reply = json.loads(line.removeprefix("reply "))
                assert "NameError" not in reply.get("refused", ""), reply
                return Answer(reply.get("text"), reply.get("refused"))
        self.process.wait()
        self.process = None
        error = self.errors.read_text()
        if "ModuleNotFoundError" in error or "ImportError" in error:
            raise ImportError(f"CuTe DSL is not here to be asked: {error[-500:]}")
        return Answer(None, f"the process died: {error[-200:]}")


WORKERS = {arch: Worker(arch) for arch in ("sm_90a", "sm_100a")}

OURS = {
    **vars(layoutlab),
    **vars(layoutlab.tv),
    "L": Layout,
    "S": lambda bits, base, shift, offset, outer: ComposedLayout(Swizzle(bits, base, shift), offset, outer),
    "T": lambda layout, bits=None: layout,
    "SM": lambda layout, bits: layout,
    "TM": lambda layout, bits: layout,
    "R": lambda shape: Layout(shape),
    "I": lambda shape: ComposedLayout(None, map_leaves(lambda _: 0, shape), make_identity_layout(shape)),
    "mma_sync": mma_sync,
    "wgmma": wgmma,
}


def fragment(mma: Any, operand: str, shape: Any, bits: int = 32) -> Layout:
    make = getattr(mma, f"make_fragment_{operand}")
    return make(shape, bits) if operand == "C" else make(shape)


OURS["fragment"] = fragment
OURS["fragment_of"] = lambda mma, operand, part: getattr(mma, f"make_fragment_{operand}")(part)


def ours(expression: str) -> Answer:
    """What layoutlab prints."""
    try:
        return Answer(shown(eval(expression, dict(OURS))))
    except LayoutError as error:
        return Answer(None, str(error))


def shown(value: Any) -> str:
    return layoutlab.text.records.tiler_text(value)


@cache
def theirs(expression: str, arch: str = "sm_100a") -> Answer:
    """What the DSL prints, without the pointer of a tensor."""
    answer = WORKERS[arch].ask(expression)
    return answer if answer.text is None else Answer(stripped(answer.text))


def agreeing(expressions, refusals=(), arch="sm_100a"):
    """How many expressions give the DSL's text; the only others are refused by both, or by us for one of these."""
    same = 0
    for expression in expressions:
        mine, other = ours(expression), theirs(expression, arch)
        if mine.text is None:
            known = other.text is None or any(re.search(why, mine.refused) for why in refusals)
            assert known, f"{expression}\n  {mine.refused}\n  {other.text}"
        else:
            assert mine.text == other.text, expression
            same += 1
    return same


def stripped(text: str) -> str:
    """A tensor's text without its pointer; a tuple's without blanks.

    >>> stripped("tensor<ptr<f32, smem, align<4>> o S<4,0,6> o 65 o (8,2):(8,512)>"), stripped("tensor<5 o 8:1>")
    ('S<4,0,6> o 65 o (8,2):(8,512)', '5 o 8:1')
    """
    if found := re.fullmatch(r"tensor<(?:ptr<(?:[^<>]|<[^<>]*>)*> o )?(.*)>", text, re.S):
        text = found[1]
    return text.replace(", ", ",") if "\n" not in text else text
