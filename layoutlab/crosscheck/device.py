"""The device as a witness: whether this machine has one that runs the kernel, and why not."""

from __future__ import annotations

from layoutlab.crosscheck.testimony import Testimony
from layoutlab.device import Device, Unavailable
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict

CAPABILITY = (10, 0)
"""sm_100a code, as its letter says, runs on devices of this compute capability alone."""


def missing() -> str | None:
    """Why no SM100 device can be asked here."""
    absent = capability_missing(CAPABILITY, "sm_100a")
    return absent or "there is an SM100 device, and this version of layoutlab does not ask it"


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


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """No device is asked yet."""
    raise LayoutError(missing() or "no device was asked")
