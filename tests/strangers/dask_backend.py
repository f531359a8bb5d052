"""Spreads the CTAs of a replay over a dask cluster of two workers, by joblib's own backend for it.

pip install distributed
python tests/strangers/dask_backend.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import joblib
import numpy as np
from distributed import Client, LocalCluster, __version__

sys.path.insert(0, str(Path(__file__).parent.parent))


def main() -> int:
    from test_replay import squares

    alone, one, _ = squares(1)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        spread, report, done = squares(2)
    good = np.array_equal(alone, spread) and report.instructions == one.instructions and done[-1] == 24
    print(f"{'ok  ' if good else 'FAIL'} dask {__version__}: 24 CTAs in {len(done)} pieces")
    return not good


if __name__ == "__main__":
    sys.exit(main())
