"""parallel: the CTAs of a launch dealt to processes with joblib.

Each buffer is copied to a file that every process maps, at the address that the kernel knows; then the
files are copied back. CTAs of different processes share global memory but not the order of their accesses: a kernel
whose CTAs wait for each other, or count with atomics, belongs in one process. Which processes they are is
joblib's to say: its own by default, those of a dask or ray cluster inside `joblib.parallel_config(backend=...)`, where
the folder for temporary files must be one that all machines see.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from layoutlab.ptx.machine import run_grid
from layoutlab.ptx.memory import GlobalMemory
from layoutlab.ptx.parse import Function, Module, PtxError, parse_module
from layoutlab.ptx.report import Findings, Report
from layoutlab.ptx.state import Geometry

PIECES_PER_JOB = 4  # smaller pieces even out CTAs of unequal length

Image = tuple[str, int, int, str]  # name, address, size, file


def run_in_processes(
    module: Module,
    function: Function,
    geometry: Geometry,
    params: list[bytes],
    memory: GlobalMemory,
    jobs: int,
    *,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Report:
    """Run a launch in `jobs` processes; options are those of `run_grid`. Raises `PtxError` as that does."""
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise PtxError("running in several processes needs joblib: pip install 'layoutlab[replay]'") from error
    if options.get("provenance"):
        raise PtxError("provenance is recorded in one process: run with jobs=1")
    started = time.perf_counter()
    total = geometry.grid[0] * geometry.grid[1] * geometry.grid[2]
    with tempfile.TemporaryDirectory() as folder:
        images = _write_images(memory, Path(folder))
        size = geometry.cluster_ctas
        pieces = np.array_split(np.arange(total // size), max(1, min(total // size, jobs * PIECES_PER_JOB)))
        bounds = [(int(p[0]) * size, (int(p[-1]) + 1) * size) for p in pieces if len(p)]
        calls = [
            delayed(_run_piece)(module.text, function.name, geometry, params, images, start, stop, options)
            for start, stop in bounds
        ]
        report = Report(function.name, geometry.grid, geometry.block)
        findings, done = Findings(), 0
        for part, (start, stop) in zip(_parallel(Parallel, jobs)(calls), bounds, strict=True):
            report.instructions += part.instructions
            findings.extend(part.warnings)
            done += stop - start
            if progress is not None:
                progress(done)
        _read_images(memory, images)
    report.warnings, report.seconds = findings.all(), time.perf_counter() - started
    return report


def _parallel(maker: Any, jobs: int) -> Any:
    """Results as they come, or all at the end where the backend cannot give them one by one."""
    try:
        return maker(jobs, return_as="generator")
    except ValueError:
        return maker(jobs)


def _write_images(memory: GlobalMemory, folder: Path) -> list[Image]:
    images = []
    for number, buffer in enumerate(memory.buffers):
        path = folder / f"{number}.bytes"
        path.write_bytes(buffer.words[1].tobytes())
        images.append((buffer.name, buffer.base, buffer.size, str(path)))
    return images


def _read_images(memory: GlobalMemory, images: list[Image]) -> None:
    for buffer, (_, _, size, path) in zip(memory.buffers, images, strict=True):
        start = buffer.base - buffer.first
        buffer.words[1][start : start + size] = np.fromfile(path, np.uint8)[start : start + size]


def _run_piece(
    text: str, name: str, geometry: Geometry, params: list[bytes], images: list[Image], start: int, stop: int,
    options: dict[str, Any],
) -> Report:  # fmt: skip
    memory = GlobalMemory()
    for buffer_name, base, size, path in images:
        memory.register_image(buffer_name, base, size, np.memmap(path, np.uint8, "r+"))
    module = parse_module(text)
    return run_grid(module, module.entries[name], geometry, params, memory, ctas=(start, stop), **options)
