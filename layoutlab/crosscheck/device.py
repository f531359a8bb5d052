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
    try:
        capability = Device().capability
    except Unavailable as reason:
        return str(reason)
    if capability != CAPABILITY:
        major, minor = capability
        return f"the kernel is sm_100a code, and the device here has compute capability {major}.{minor}"
    return "there is an SM100 device, and this version of layoutlab does not ask it"


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """No device is asked yet."""
    raise LayoutError(missing() or "no device was asked")
