"""Enumeration: the same answer whatever the chunks, and a limit that is kept."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import layoutlab.arbiter as arbiter


def index_of(axes: dict[str, int], i: int) -> dict[str, int]:
    shape = tuple(axes.values())
    return dict(zip(axes, map(int, np.unravel_index(i, shape)), strict=True))


@pytest.mark.parametrize("chunk", [1, 5, 7, 1 << 18])
def test_indices_are_walked_in_counting_order(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbiter, "CHUNK", chunk)
    axes = {"t": 3, "u": 2, "v": 5}
    walked = [tuple(int(c[a][i]) for a in axes) for c in arbiter.indices(axes) for i in range(len(c["t"]))]
    assert walked == [(t, u, v) for t in range(3) for u in range(2) for v in range(5)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=24, max_size=24), st.sampled_from([1, 2, 3]), st.sampled_from([1, 3, 50]))
def test_first_shared_is_the_first(places: list[int], width: int, window: int) -> None:
    axes, table = {"t": 4, "v": 6}, np.array(places)
    identity = np.arange(24) // 2  # two indices hold each element

    def at(values: Any) -> Any:
        return lambda t, v: values[t * 6 + v]

    holder: dict[int, int] = {}
    expected = None
    for i, place in enumerate(places):
        taken = [holder.setdefault(cell, i) for cell in range(place, place + width)]
        clash = [j for j in taken if identity[j] != identity[i]]
        if clash:
            expected = i
            break
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arbiter, "CHUNK", 5)
        patch.setattr(arbiter, "WINDOW", window * width)
        pair, _ = arbiter.first_shared(axes, at(table), at(identity), width)
    assert (pair and pair[0]) == (None if expected is None else index_of(axes, expected))
    if pair:
        second, first = (p["t"] * 6 + p["v"] for p in pair)
        assert abs(places[second] - places[first]) < width and identity[second] != identity[first]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=12, max_size=12),
    st.lists(st.integers(0, 30), min_size=6, max_size=6),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 50]),
)
def test_first_missing_is_the_first(places: list[int], reads: list[int], width: int, window: int) -> None:
    filled = {p + i for p in places for i in range(width)}
    expected = next((i for i, r in enumerate(reads) if any(r + j not in filled for j in range(width))), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arbiter, "CHUNK", 5)
        patch.setattr(arbiter, "WINDOW", window)
        found, _ = arbiter.first_missing(
            {"m": 6}, lambda m: np.array(reads)[m], {"t": 3, "v": 4}, lambda t, v: np.array(places)[t * 4 + v], width
        )
    assert found == (None if expected is None else {"m": expected})


def test_count_and_first_where() -> None:
    axes = {"t": 100, "v": 100}
    assert arbiter.count_where(axes, lambda t, v: (t + v) % 7 == 0)[0] == sum(
        (t + v) % 7 == 0 for t in range(100) for v in range(100)
    )
    assert arbiter.first_where(axes, lambda t, v: t * v == 99) == ({"t": 1, "v": 99}, 10000)
    assert arbiter.first_where(axes, lambda t, v: t < 0) == (None, 10000)


def test_the_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbiter, "LIMIT", 99)
    with pytest.raises(arbiter.TooLarge, match="100 points are more than the 99"):
        list(arbiter.indices({"t": 100}))
    with pytest.raises(arbiter.TooLarge, match="needs more than 99"):
        arbiter.first_shared({"t": 60}, lambda t: t, lambda t: t, 1)
