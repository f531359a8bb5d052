"""Stand-ins for a device: what CuTe DSL asks of one while it compiles, answered on a machine that has none."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from layoutlab.errors import LayoutError

MULTIPROCESSORS = 132
"""What a kernel is told where there is no device to ask."""

_ON_CPU, _ON_CUDA = 1, 2  # DLPack's device types
_TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Where in a DLPack capsule the tensor stands; its device type is 8 bytes further."""

# Prototypes of this module's own: those of ctypes.pythonapi are everybody's to change.
_NAME_OF = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_POINTER_OF = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def stand_in_for_a_device() -> None:
    """Answers the DSL's questions about the device, and lets CPU tensors count as a device's, where there is none.

    Raises LayoutError where the DSL is not installed.
    """
    try:
        from cutlass.cute import runtime
        from cutlass.utils import HardwareInfo
    except ModuleNotFoundError:
        raise LayoutError("CuTe DSL is not installed here (pip install nvidia-cutlass-dsl): nothing to trace") from None
    if os.path.exists("/dev/nvidiactl"):
        return
    answers: dict[str, Callable[..., int]] = {
        "get_max_active_clusters": lambda self, cluster_size=1, *a, **k: MULTIPROCESSORS // max(cluster_size, 1),
        "get_device_multiprocessor_count": lambda self, *a, **k: MULTIPROCESSORS,
        "get_l2_cache_size_in_bytes": lambda self, *a, **k: 50 << 20,
    }
    HardwareInfo.__init__ = lambda self, *a, **k: None
    for name, answer in answers.items():
        if hasattr(HardwareInfo, name):
            setattr(HardwareInfo, name, answer)
    tensor, load = runtime._Tensor, runtime._Tensor.load_dltensor

    def loaded(self: Any) -> None:
        if self._dltensor_wrapper is None:
            as_on_a_device(self._dlpack_data)
        load(self)

    tensor.load_dltensor = loaded


def as_on_a_device(capsule: Any) -> None:
    """Lets a DLPack capsule of a CPU tensor say that it lies on a CUDA device: so it is compiled as global memory."""
    if type(capsule).__name__ != "PyCapsule":
        return
    name = _NAME_OF(capsule)
    if name not in _TENSOR_AT:
        return  # used already, or a form that is not known
    at = _POINTER_OF(capsule, name)
    device = ctypes.c_int32.from_address(at + _TENSOR_AT[name] + 8)
    if device.value == _ON_CPU:
        device.value = _ON_CUDA
