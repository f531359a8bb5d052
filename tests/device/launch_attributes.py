"""Launches a small kernel with each launch attribute that the runner knows: python3 launch_attributes.py OUT.json

Each CTA writes the size of its cluster and its rank in it. A cooperative launch must be refused where its CTAs cannot
all be resident, which the same grid without the attribute must not be.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

from layoutlab.device import Device, LaunchFailed

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry ranks(.param .u64 out)
{
    .reg .u32 %r<6>;
    .reg .u64 %rd<4>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %cluster_nctaid.x;
    mov.u32 %r2, %cluster_ctarank;
    mul.wide.u32 %rd1, %r0, 8;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r1;
    st.global.u32 [%rd2+4], %r2;
    ret;
}
\0"""

COOPERATIVE, CLUSTER, SERIALIZATION = "2", "4", "6"
ONE = (1).to_bytes(4, "little").hex()


def launched(device: Device, grid: int, attributes: dict[str, str]) -> list[tuple[int, int]] | str:
    """(cluster size, rank) of each CTA; the refusal where there is one."""
    function = device.load(PTX, "ranks", 0)
    address = device.allocate(8 * grid)
    device.put(address, bytes(8 * grid))
    described = {"grid": [grid, 1, 1], "block": [1024, 1, 1], "shared_bytes": 0, "attributes": attributes}
    try:
        device.launch(function, described, [address.to_bytes(8, "little")])
        device.wait()
        return list(struct.iter_unpack("<II", device.get(address, 8 * grid)))
    except LaunchFailed as refusal:
        return str(refusal)
    finally:
        device.free(address)


def main(out: Path) -> None:
    device = Device()
    device.open()
    clusters = {f"cluster {n}": {CLUSTER: struct.pack("<III", n, 1, 1).hex()} for n in (2, 4)}
    cases = {"none": {}, **clusters, "cooperative": {COOPERATIVE: ONE}, "serialization": {SERIALIZATION: ONE}}
    found = {f"{name}, 8 CTAs": launched(device, 8, attributes) for name, attributes in cases.items()}
    crowd = 65536
    found["cooperative, too many CTAs"] = launched(device, crowd, {COOPERATIVE: ONE})
    plain = launched(device, crowd, {})
    found["none, as many CTAs"] = plain if isinstance(plain, str) else sorted(set(plain))
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name = subprocess.run(smi, capture_output=True, text=True).stdout.strip()
    command = "python3 tests/device/launch_attributes.py OUT.json"
    record = {"device": name, "date": time.strftime("%Y-%m-%d"), "command": command, "launched": found}
    out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(found)[:1500], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
