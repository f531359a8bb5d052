"""Runs the cluster programs on a CUDA device and records what they write.

    python3 tests/device/clusters.py OUT        on an SM90 device; only the driver and numpy are used

OUT is tests/data/ptx_clusters_h200.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from cluster_programs import PROGRAMS, source, text  # noqa: E402
from programs import Driver  # noqa: E402


def main(out: Path) -> None:
    driver, found = Driver(), {}
    for name in PROGRAMS:
        outputs = driver.run(text(name), [source()], {"grid": (4, 1, 1), "shared_bytes": 1024})
        assert not isinstance(outputs, str), outputs
        found[name] = outputs[0][:128].reshape(4, 32).tolist()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    what = "PTX programs of clusters of two CTAs run on the device: the 32 words of each of four CTAs"
    out.write_text(json.dumps({"device": device, "what": what, "programs": found}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
