"""How long a theorem takes, beside verifying instances of it one by one: `python tests/bench/theorems.py`.

A theorem is for all sizes at once. The second column is how long the concrete verifier takes for one instance, the
third how many instances the theorem's time would have been enough for, the last what z3 takes to read the report.
"""

from __future__ import annotations

import time
from typing import Any

from layoutlab.catalogue import CATALOGUE
from layoutlab.handoff.core import verify
from layoutlab.theorems import prove
from layoutlab.theorems.report import report
from layoutlab.theorems.z3_check import answer, stated

PROVED: list[tuple[str, dict[str, Any]]] = [
    ("sP", {}),
    ("sP", {"dtype": "e4m3"}),
    ("sP", {"store": "tiled_copy_d"}),
    ("sP90", {"store": "stmatrix"}),
    ("tP", {}),
    ("sQ", {}),
    ("sK", {}),
    ("sV", {}),
    ("oRescale", {}),
    ("epilogue", {}),
    ("rs_reuse", {}),
]


def median_seconds(call: Any, at_least: float = 0.2) -> float:
    """The median of as many runs as fit into a short while."""
    seconds, stop = list[float](), time.perf_counter() + at_least
    while not seconds or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2]


def main() -> None:
    print(f"{'theorem':<34}{'for all':>10}{'one':>10}{'ratio':>8}{'z3':>10}")
    for name, chosen in PROVED:
        function = CATALOGUE[name]
        theorem = prove(function, chosen)
        assert theorem.verdict == "proved"
        every = median_seconds(lambda f=function, c=chosen: prove(f, c))
        one = median_seconds(lambda f=function, c=chosen: verify(f.general(**c)))
        z3 = sum(answer(family).seconds for family in stated(report(theorem)))
        title = f"{name} {' '.join(f'{k}={v}' for k, v in chosen.items())}"
        print(f"{title:<34}{every * 1e3:>7.1f} ms{one * 1e3:>7.2f} ms{every / one:>8.1f}{z3 * 1e3:>7.0f} ms")


if __name__ == "__main__":
    main()
