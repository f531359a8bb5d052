"""Jobs for worker processes: what CuTe DSL is asked, and what comes back even when it crashes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

DSL_PACKAGE = "nvidia-cutlass-dsl"
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Job:
    """One call in a worker: `Job("package.module:function", {"name": value})`; arguments and result are JSON values."""

    call: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What came of a job: a result, or why there is none.

    `kind` is "result", "refused" (layoutlab said no), "missing" (a module is not installed), "error" (the job raised),
    "crashed" (the process died) or "timeout"; `reason` is a sentence for all but "result".
    """

    kind: str
    result: Any = None
    reason: str = ""


def dsl_version() -> str | None:
    """The version of CuTe DSL that is installed, without importing it; None if there is none.

    >>> dsl_version() is None or dsl_version()[0].isdigit()
    True
    """
    try:
        return importlib.metadata.version(DSL_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def run_jobs(
    jobs: Iterable[Job], environment: Mapping[str, str] | None = None, timeout_seconds: float = TIMEOUT_SECONDS
) -> Iterator[Answer]:
    """Runs jobs one after another in a worker and yields each answer; after a crash a new worker takes the next job.

    >>> [answer.result for answer in run_jobs([Job("math:gcd", {}), Job("operator:index", {})])]
    [0, None]

    `environment` is added to this process's own, from which CuTe DSL's variables (CUTE_DSL_...) are taken out: they
    must be set before the DSL is imported, and an answer must not depend on what a user's shell happens to hold.
    """
    worker: _Worker | None = None
    try:
        for job in jobs:
            worker = worker or _Worker(environment or {})
            answer = worker.ask(job, timeout_seconds)
            if answer.kind in ("crashed", "timeout"):
                worker.close()
                worker = None
            yield answer
    finally:
        if worker:
            worker.close()


class _Worker:
    """One process that answers jobs in turn."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CUTE_DSL_")}
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "layoutlab.cutedsl.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**clean, **environment},
        )

    def ask(self, job: Job, timeout_seconds: float) -> Answer:
        """The answer to one job."""
        assert self._process.stdin and self._process.stdout
        request = json.dumps({"call": job.call, "arguments": dict(job.arguments)})
        try:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._crashed()
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            if not ready.select(timeout_seconds):
                return Answer("timeout", reason=f"no answer within {timeout_seconds:g} s")
        line = self._process.stdout.readline()
        if not line:
            return self._crashed()
        ((kind, value),) = json.loads(line).items()
        return Answer(kind, result=value) if kind == "result" else Answer(kind, reason=value)

    def _crashed(self) -> Answer:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        last = f": {lines[-1]}" if lines else ""
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return Answer("crashed", reason=f"the process died with {how}{last}")

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin and self._process.stdout
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                stream.close()
            except BrokenPipeError:
                continue
