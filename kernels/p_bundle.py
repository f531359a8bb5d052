"""The SM100 P handoff kernel as a launch bundle: the tagged and random inputs of the SM90 one (`p_bundle_sm90`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cutlass

from layoutlab.device.bundle import Call, Tensor, make_bundle
from layoutlab.kernels.attention_device import architecture
from layoutlab.kernels.p_bundle_sm90 import cases_of
from layoutlab.kernels.p_handoff import compile_kernel, pointers
from layoutlab.kernels.p_settings import ROWS, PSettings


def make_p_bundle(settings: PSettings, folder: Path, capability: tuple[int, int] = (10, 0)) -> dict[str, Any]:
    """Compiles a variant for a device of this compute capability and writes its bundle; returns its launch.json."""
    inputs, cases = cases_of(settings)
    made = {"handoff": "sP", "settings": asdict(settings), "dsl_version": cutlass.__version__}
    call = call_of(settings, architecture(capability))
    return make_bundle(call, folder, capability=capability, inputs=inputs, cases=cases, timing=None, made=made)


def make(settings: dict[str, Any], folder: str, capability: list[int]) -> None:
    """The bundle of settings given by name: what a worker process is asked for."""
    major, minor = capability
    make_p_bundle(PSettings.parse(settings), Path(folder), (major, minor))


def call_of(settings: PSettings, arch: str) -> Call:
    """How the compiled kernel is called, by tensor addresses."""
    image = settings.buffer_bytes
    tensors = {
        "S": Tensor(ROWS * settings.kv * 4, "in", "f32", (ROWS, settings.kv)),
        "V": Tensor(settings.kv * settings.head_dim * settings.element_bytes, "in", settings.dtype, settings.v_shape),
        "O": Tensor(ROWS * settings.head_dim * 4, "out", "f32", (ROWS, settings.head_dim)),
        "image": Tensor(image, "out", "u8", (image,), fill=0),
    }

    def arguments(addresses: Mapping[str, int], scalars: Mapping[str, int]) -> tuple[Any, ...]:
        return pointers(settings, *(addresses[name] for name in tensors))

    return Call(compile_kernel(settings, arch=arch, image=True), tensors, {}, arguments)
