"""The device as a witness: whether this machine has one that runs the kernel, and why not.

The driver itself is asked, by ctypes: a package that is installed, or a file that lies somewhere, is no device.
"""

from __future__ import annotations

import ctypes

from layoutlab.crosscheck.testimony import Testimony
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Verdict

SM100 = range(100, 110)
"""Compute capabilities, 10 * major + minor, whose tensor cores run tcgen05 as sm_100a code has it."""

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
_DRIVERS = ("libcuda.so.1", "nvcuda.dll")


def missing() -> str | None:
    """Why no SM100 device can be asked here."""
    driver = _driver()
    if driver is None:
        return "no CUDA driver here"
    if status := driver.cuInit(0):
        return f"the CUDA driver does not start (cuInit returned {status})"
    found = _capabilities(driver)
    if not found:
        return "the CUDA driver finds no device"
    if not any(capability in SM100 for capability in found):
        listed = ", ".join(f"sm_{capability}" for capability in found)
        return f"the kernel is sm_100a code, and the devices here are {listed}"
    return "this version of layoutlab runs no kernel on a device"


def ask(model: Handoff, verdict: Verdict) -> Testimony:
    """No device is asked yet."""
    raise LayoutError(missing() or "no device was asked")


def _driver() -> ctypes.CDLL | None:
    for name in _DRIVERS:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _capabilities(driver: ctypes.CDLL) -> list[int]:
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for device in range(count.value):
        major, minor = ctypes.c_int(), ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
        driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
        found.append(10 * major.value + minor.value)
    return found
