"""SPTrace: what CuTe DSL itself computed for sP while it compiled the P handoff kernel, as text with its origin.

The trace is a witness beside the model, so it holds no opinion of its own: every entry is what the DSL printed (or, for
descriptors, what stands in the kernel's PTX), and `provenance` says which object of the kernel it was.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layoutlab.cutedsl.cache import digest, load, source_digest, store
from layoutlab.cutedsl.jobs import DSL_PACKAGE, Answer, Job, dsl_version, run_jobs
from layoutlab.errors import LayoutError

KERNELS = "layoutlab.kernels"
CALL = f"{KERNELS}.p_trace:trace"
READ_VERSION = "4.8.1"
"""The version of the DSL whose texts the reader of traces was written against."""


PARTS = {"dsl_version", "storage", "owner", "writer", "reader", "provenance"}


class TraceUnavailable(LayoutError):
    """There is no trace, and the sentence says why: no DSL, one that cannot be read, or one that crashed."""


@dataclass(frozen=True)
class SPTrace:
    """The layouts of one variant of the P handoff kernel, as JSON values; `provenance["part.entry"]` says what each is.

    * `storage`: `layout` (element units under a swizzle that counts bytes), `tensor`, `element_bits`, `buffer`,
      `base_bytes`.
    * `owner`: `tv` (T,V) over `tiler` (three layouts; the first divides m + 128 k, the others are 1:0), `coordinates`
      with a dynamic row, `threads` {row: the same with the row's number}, `tmem`, `copy`, `first_thread`.
    * `writer`: `route`, `tensor`; for the coordinate route `stored`, for each value the coordinate [k0, 0, [k1, k2],
      stage]; for the others `matrix` (m,k) -> location, `tiler`, `tv`, `threads` {row: its (m,k) coordinates}, and
      where the route has them `partition`, `registers`, `p_coord` and `offsets`; with `ptx=True` also
      `emitted`, {width of the shared-memory store: how many a thread does}.
    * `reader`: `fragment` (steps of the descriptor, in 16-byte units), `mma`, `accumulator`, and with `ptx=True`
      `descriptors`: for each MMA the hexadecimal constant that is added to the encoded start address.
    """

    settings: Mapping[str, Any]
    dsl_version: str
    storage: Mapping[str, Any]
    owner: Mapping[str, Any]
    writer: Mapping[str, Any]
    reader: Mapping[str, Any]
    provenance: Mapping[str, str]
    cached: bool = False
    seconds: float = 0.0


def trace_sP(settings: Mapping[str, Any], ptx: bool = False, use_cache: bool = True) -> SPTrace:
    """The trace of one variant, e.g. `trace_sP({"store": "composition", "kv": 64}).storage["layout"]`.

    `settings` are those of `layoutlab.kernels.p_settings.PSettings`; what is left out has its default. A setting that
    the kernel refuses raises LayoutError, a trace that cannot be had TraceUnavailable. `ptx=True` compiles as well (up
    to a few seconds) and so reads the descriptors and the emitted stores.
    """
    (found,) = trace_many([settings], ptx, use_cache)
    if isinstance(found, LayoutError):
        raise found
    return found


def trace_many(
    variants: Iterable[Mapping[str, Any]], ptx: bool = False, use_cache: bool = True
) -> Iterator[SPTrace | LayoutError]:
    """The traces of many variants from one worker process, each the trace or the error that `trace_sP` would raise."""
    version = dsl_version()
    variants = [dict(settings) for settings in variants]
    if version is None:
        for _ in variants:
            yield TraceUnavailable(f"CuTe DSL is not installed here (pip install {DSL_PACKAGE}), so nothing was traced")
        return
    source = source_digest(_source_folders())
    keys = [digest("sP", source, version, ptx, settings) for settings in variants]
    kept = [_kept(key) if use_cache else None for key in keys]
    missing = [settings for settings, value in zip(variants, kept, strict=True) if value is None]
    environment = {} if ptx else {"CUTE_DSL_DRYRUN": "1"}
    answers = run_jobs((Job(CALL, {"settings": settings, "ptx": ptx}) for settings in missing), environment)
    for settings, key, value in zip(variants, keys, kept, strict=True):
        if value is not None:
            yield SPTrace(settings, **value, cached=True)
            continue
        started = time.perf_counter()
        answer = next(answers)
        if answer.kind != "result":
            yield _error(answer, version)
            continue
        store(key, answer.result)
        yield SPTrace(settings, **answer.result, seconds=time.perf_counter() - started)


def _kept(key: str) -> dict[str, Any] | None:
    """The parts of a trace from the cache; None if they are not there, or not whole."""
    value = load(key)
    return value if isinstance(value, dict) and value.keys() == PARTS else None


def _source_folders() -> list[str]:
    """The folders whose sources decide what a trace says."""
    spec = importlib.util.find_spec(KERNELS)
    if spec is None or not spec.submodule_search_locations:
        raise TraceUnavailable(f"{KERNELS} is not installed beside layoutlab, so there is no kernel to trace")
    return [*spec.submodule_search_locations, str(Path(__file__).parent)]


def _error(answer: Answer, version: str) -> LayoutError:
    """The error that an answer without a result stands for."""
    if answer.kind == "refused":
        return LayoutError(answer.reason)
    what = f"CuTe DSL {version} did not trace the P handoff kernel ({answer.reason})"
    if version != READ_VERSION:
        what += f"; the kernel was written for {READ_VERSION}"
    return TraceUnavailable(what)
