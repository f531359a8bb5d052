"""Worker processes: a job that crashes, hangs, prints or raises is one job's loss, with a sentence."""

import pytest

from layoutlab.cutedsl.cache import cache_folder, digest, load, source_digest, store
from layoutlab.cutedsl.jobs import Job, run_jobs
from layoutlab.cutedsl.ptx_text import mma_descriptors, shared_stores
from layoutlab.errors import LayoutError


def test_a_crash_loses_one_job_and_the_next_gets_a_new_process():
    answers = list(run_jobs([Job("os:getpid", {}), Job("os:abort", {}), Job("os:getpid", {})]))
    assert [answer.kind for answer in answers] == ["result", "crashed", "result"]
    assert answers[1].reason.startswith("the process died with signal 6")
    assert answers[0].result != answers[2].result


def test_jobs_share_a_process_until_it_dies():
    first, second = run_jobs([Job("os:getpid", {})] * 2)
    assert first.result == second.result


def test_a_job_that_hangs_is_ended():
    (answer, after) = run_jobs([Job("signal:pause", {}), Job("os:getpid", {})], timeout_seconds=1)
    assert (answer.kind, answer.reason, after.kind) == ("timeout", "no answer within 1 s", "result")


def test_what_a_job_prints_is_not_its_answer():
    (answer,) = run_jobs([Job("this:no_such_name", {})])  # importing `this` prints a page
    assert answer.kind == "error"
    assert "no_such_name" in answer.reason


def test_a_missing_module_is_named():
    (answer,) = run_jobs([Job("no_such_module:f", {})])
    assert (answer.kind, answer.reason) == ("missing", "No module named 'no_such_module'")


def test_an_exit_is_an_error_and_not_the_end_of_the_worker():
    answers = list(run_jobs([Job("sys:exit", {}), Job("os:getpid", {})]))
    assert [answer.kind for answer in answers] == ["error", "result"]


def test_the_dsl_variables_of_the_caller_do_not_reach_a_job(monkeypatch):
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    ask = [Job("os:getenv", {"key": "CUTE_DSL_ARCH"})]
    assert [answer.result for answer in run_jobs(ask)] == [None]
    assert [answer.result for answer in run_jobs(ask, {"CUTE_DSL_ARCH": "sm_100a"})] == ["sm_100a"]


def test_the_cache_returns_what_was_stored_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    key = digest("kind", {"a": 1})
    assert load(key) is None
    store(key, {"text": "S<3,4,3>"})
    assert load(key) == {"text": "S<3,4,3>"}
    assert load(digest("kind", {"a": 2})) is None
    assert cache_folder() == tmp_path / "layoutlab"
    assert [path.name for path in cache_folder().iterdir()] == [f"{key}.json"]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    store("key", 1)
    assert load("key") is None


def test_the_source_digest_changes_with_any_source(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = source_digest([tmp_path])
    assert source_digest([tmp_path]) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert source_digest([tmp_path]) != before


def test_descriptors_made_in_another_way_are_refused():
    with pytest.raises(LayoutError, match="line 2: the descriptor %rd1 is not a start address plus a constant"):
        mma_descriptors(
            "or.b64 %rd5, %rd2, 4611756662049472512;\ntcgen05.mma.cta_group::1.kind::f16 [%r7], %rd1, %rd5, %r9, %p6;"
        )


def test_stores_between_instructions_that_are_not_there_are_refused():
    with pytest.raises(LayoutError, match=r"the PTX has no instruction that begins with bar\.sync"):
        shared_stores("ret;", "bar.sync", "ret")
