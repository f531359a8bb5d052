"""CuTe DSL as a second source: its facts come from a process of its own, traced without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from layoutlab.layout import Layout

SCRIPT = Path(__file__).with_name("dsl_atoms.py")


@cache
def facts(group: str, arch: str) -> tuple[dict, ...]:
    """All that dsl_atoms.py prints for one group of atoms; fails where the DSL is missing or stops."""
    with tempfile.TemporaryDirectory() as folder:
        # Descriptor words stand in compiled code; layouts are known once the tracing is done.
        asked = (
            {"CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": folder}
            if group == "descriptors"
            else {"CUTE_DSL_DRYRUN": "1"}
        )
        environment = {**os.environ, "CUTE_DSL_ARCH": arch, **asked}
        command = [sys.executable, SCRIPT, group]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return tuple(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def layout(text: str) -> Layout:
    """A static layout as the DSL prints it."""
    shape, stride = (eval(part, {"__builtins__": {}}) for part in text.split(":"))
    return Layout(shape, stride)
