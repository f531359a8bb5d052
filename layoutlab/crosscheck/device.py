"""The device as a witness: whether this machine has one that runs the kernel, and why not."""

from __future__ import annotations

from layoutlab.device import Device, Unavailable

ARCHITECTURES = {(10, 0): "sm_100a", (10, 3): "sm_103a"}
"""What an SM100 kernel is compiled for by a device's compute capability: such code runs on no other."""


def missing_sm100() -> str | None:
    """Why no SM100 device can be asked here."""
    try:
        major, minor = Device().capability
    except Unavailable as reason:
        return _plainly(reason)
    if (major, minor) in ARCHITECTURES:
        return None
    known = " and ".join(f"{a}.{b}" for a, b in ARCHITECTURES)
    return f"the kernel runs on compute capability {known}, and the device here has {major}.{minor}"


def absent() -> str | None:
    """Why there is no device here at all; None where there is one."""
    try:
        Device()
    except Unavailable as reason:
        return _plainly(reason)
    return None


def _plainly(reason: Unavailable) -> str:
    """What is absent, without what a library that looked for the driver says of itself."""
    if isinstance(reason.__cause__, RuntimeError):  # cuda-python's own, where it finds none
        return "there is no CUDA device here: no NVIDIA driver was found"
    return str(reason)


def capability_missing(wanted: tuple[int, int], code: str) -> str | None:
    """Why the device here, if there is one, does not run code for one compute capability alone."""
    try:
        capability = Device().capability
    except Unavailable as reason:
        return _plainly(reason)
    major, minor = capability
    if capability == wanted:
        return None
    return f"the kernel is {code} code, and the device here has compute capability {major}.{minor}"
