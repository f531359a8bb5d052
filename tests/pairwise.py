"""Pairwise covers: few combinations in which every two values of different settings meet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
TRIES = 60


def pairs_of(row: Row) -> Iterator[frozenset[tuple[str, Any]]]:
    return (frozenset(pair) for pair in itertools.combinations(row.items(), 2))


def possible_pairs(axes: Mapping[str, Sequence[Any]], valid: Callable[[Row], bool]) -> set[frozenset[tuple[str, Any]]]:
    """Every pair that some valid combination holds, by walking all of them."""
    rows = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return {pair for row in rows if valid(row) for pair in pairs_of(row)}


def cover(axes: Mapping[str, Sequence[Any]], valid: Callable[[Row], bool]) -> list[Row]:
    """Valid combinations that hold every possible pair, greedily: of some random ones with a lost pair, the best."""
    rng = random.Random(0)
    lost, rows = possible_pairs(axes, valid), list[Row]()
    while lost:
        wanted = dict(min(lost, key=lambda pair: sorted((name, str(value)) for name, value in pair)))
        tries = []
        while len(tries) < TRIES:
            row = {name: wanted.get(name, rng.choice(values)) for name, values in axes.items()}
            if valid(row):
                tries.append(row)
        best = max(tries, key=lambda row: sum(pair in lost for pair in pairs_of(row)))
        lost -= set(pairs_of(best))
        rows.append(best)
    return rows
