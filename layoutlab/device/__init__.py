"""The device: kernels, compiled without one, run on a CUDA device through cuda-python.

>>> from layoutlab.device import Device, Unavailable
>>> try:
...     capability = Device().capability
... except Unavailable as reason:
...     capability = None          # an absent device is said, never counted

`Device` launches a cubin with the parameters that `layoutlab.cutedsl.capture` wrote down; `make_bundle` writes all of
that to a folder, which `runner` runs on a machine that has the device, Python and cuda-python, and nothing else.
"""

from __future__ import annotations

from layoutlab.device.runner import Device, LaunchFailed, Unavailable

__all__ = ["Device", "LaunchFailed", "Unavailable"]
