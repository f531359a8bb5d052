"""make_bundle: a compiled kernel, its launch and its inputs as a folder that another machine can run.

Which bytes of the launch's parameters are addresses is learned, not assumed: the launch is captured at two sets of
addresses, and each word that differs has to be a tensor's address, plus the same offset, in both. Scalars that a run
may change are found in the same way.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from layoutlab.cutedsl.capture import Launch, capture, ptx_of
from layoutlab.device import runner
from layoutlab.errors import LayoutError

OWN = ("launch.json", "kernel.cubin", "kernel.ptx", "inputs", "run.py", runner.RESULTS)
"""What a bundle's folder holds, its results among it: what a new bundle there takes the place of."""

WORD = 8
MAP_BYTES = 64  # of a tensor map's 128 that mean something (layoutlab.ptx.tma)
# Two sets of addresses, no difference of which is that of another pair; both fit a tensor map's 57 bits.
FIRST_ADDRESS, FIRST_STEP = 0x0000_7A11_0000_0000, 0x0000_0001_1000_0000
OTHER_ADDRESS, OTHER_STEP = 0x0000_1B4D_7000_0000, 0x0000_0003_5000_0000


@dataclass(frozen=True)
class Tensor:
    """A tensor of the launch: its size, and whether the kernel reads it ("in") or writes it ("out").

    An output is filled with bytes `fill` before each run.
    """

    bytes: int
    role: str
    dtype: str
    shape: tuple[int, ...]
    fill: int = 0xFF

    def json(self) -> dict[str, Any]:
        """As launch.json has it."""
        return {
            "bytes": self.bytes,
            "role": self.role,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "fill": self.fill,
        }


@dataclass(frozen=True)
class Call:
    """How a compiled function is called: `arguments(addresses, scalars)` gives what it takes.

    `tensors` are the tensors that it is given by address, `scalars` the numbers with the values of a plain call.
    """

    compiled: Any
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, int]
    arguments: Callable[[Mapping[str, int], Mapping[str, int]], tuple[Any, ...]]

    def captured(self, addresses: Mapping[str, int], scalars: Mapping[str, int]) -> Launch:
        """The one launch of the call at these addresses."""
        launches = capture(self.compiled, *self.arguments(addresses, scalars)).launches
        if len(launches) != 1:
            raise LayoutError(f"the function makes {len(launches)} launches, and a bundle holds one")
        return launches[0]


def described_launch(call: Call) -> dict[str, Any]:
    """The launch as launch.json describes it: geometry, parameters, and what in them is an address or a scalar.

    Raises LayoutError for a byte that changes with the addresses and is none.
    """
    one, two = (
        {name: start + i * step for i, name in enumerate(call.tensors)}
        for start, step in ((FIRST_ADDRESS, FIRST_STEP), (OTHER_ADDRESS, OTHER_STEP))
    )
    first, other = (_without_padding(call.captured(addresses, call.scalars)) for addresses in (one, two))
    _same_geometry(first, other)
    addresses = [
        word
        for number, (a, b) in enumerate(zip(first.params, other.params, strict=True))
        for word in address_words(a, b, number, {n: (one[n], two[n], t.bytes) for n, t in call.tensors.items()})
    ]
    unused = set(call.tensors) - {word["tensor"] for word in addresses}
    if unused:
        raise LayoutError(f"no parameter holds the address of {', '.join(sorted(unused))}")
    return {
        "kernel": first.kernel,
        "grid": list(first.grid),
        "block": list(first.block),
        "cluster": list(first.cluster),
        "shared_bytes": first.shared_bytes,
        "attributes": meaningful(first.attributes),
        "parameters": [p.hex() for p in first.params],
        "addresses": addresses,
        "scalars": [_scalar(call, first, one, name, value) for name, value in call.scalars.items()],
    }


def _without_padding(launch: Launch) -> Launch:
    """The launch with the second half of its tensor maps zero: host code leaves there what its stack held."""
    maps = launch.tensor_maps
    params = (p[:MAP_BYTES] + bytes(len(p) - MAP_BYTES) if i in maps else p for i, p in enumerate(launch.params))
    return replace(launch, params=tuple(params))


def address_words(
    a: bytes, b: bytes, parameter: int, tensors: Mapping[str, tuple[int, int, int]]
) -> list[dict[str, Any]]:
    """The words of a parameter that are addresses; `tensors` has, by name, both addresses and the size.

    >>> tensors = {"S": (4096, 65536, 256)}
    >>> address_words((4112).to_bytes(8, "little"), (65552).to_bytes(8, "little"), 0, tensors)
    [{'parameter': 0, 'at': 0, 'tensor': 'S', 'plus': 16}]
    >>> address_words(b"\\x01" * 8, b"\\x02" * 8, 0, tensors)
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: parameter 0, bytes 0 to 7: 0x101010101010101 at one set of addresses and \
0x202020202020202 at another: the same offset from no tensor
    """
    if len(a) != len(b):
        raise LayoutError(f"parameter {parameter} has {len(a)} bytes at one set of addresses and {len(b)} at another")
    found = []
    for at in range(0, len(a), WORD):
        if a[at : at + WORD] == b[at : at + WORD]:
            continue
        here, there = (int.from_bytes(x[at : at + WORD], "little") for x in (a, b))
        fitting = [
            (name, here - one)
            for name, (one, two, size) in tensors.items()
            if here - one == there - two and 0 <= here - one <= size
        ]
        if len(fitting) != 1 or len(a) < at + WORD:
            raise LayoutError(
                f"parameter {parameter}, bytes {at} to {at + WORD - 1}: {here:#x} at one set of addresses and "
                f"{there:#x} at another: the same offset from {'several tensors' if fitting else 'no tensor'}"
            )
        ((name, plus),) = fitting
        found.append({"parameter": parameter, "at": at, "tensor": name, "plus": plus})
    return found


def meaningful(attributes: Mapping[int, bytes]) -> dict[str, str]:
    """Launch attributes without the bytes of their 64 that mean nothing, which host code leaves as they were."""
    sizes = {runner.COOPERATIVE: 4, runner.CLUSTER: 12, runner.SERIALIZATION: 4}
    return {str(kind): value[: sizes.get(kind, len(value))].hex() for kind, value in attributes.items()}


def cubin_of(compiled: Any) -> bytes:
    """The cubin that a compile kept; a compile that kept none is refused with the way to keep it."""
    cubin = getattr(getattr(compiled, "artifacts", None), "CUBIN", None)
    if not cubin:
        raise LayoutError("this compiled function did not keep its cubin: compile with --keep-cubin")
    return bytes(cubin)


def _same_geometry(first: Launch, other: Launch) -> None:
    for name in ("kernel", "grid", "block", "cluster", "shared_bytes", "attributes"):
        a, b = getattr(first, name), getattr(other, name)
        if (meaningful(a) != meaningful(b)) if name == "attributes" else a != b:
            raise LayoutError(f"the launch's {name} changes with the addresses: a bundle cannot describe it")


def _scalar(call: Call, first: Launch, addresses: Mapping[str, int], name: str, value: int) -> dict[str, Any]:
    """Where a scalar lies: the only parameter whose bytes change with it, and its value before and after."""
    changed = value ^ 0x55
    other = _without_padding(call.captured(addresses, {**call.scalars, name: changed}))
    differing = [i for i, (a, b) in enumerate(zip(first.params, other.params, strict=True)) if a != b]
    if len(differing) != 1:
        raise LayoutError(f"the scalar {name} changes the parameters {differing}, not one")
    (number,) = differing
    a, b = first.params[number], other.params[number]
    if (int.from_bytes(a, "little"), int.from_bytes(b, "little")) != (value, changed):
        raise LayoutError(f"the scalar {name} is not parameter {number} as it is: {a.hex()} for {value}")
    return {"name": name, "parameter": number, "at": 0, "bytes": len(a), "value": value}


def _clear(folder: Path) -> None:
    """Removes the bundle that a folder holds; refuses, before anything is removed, what is no bundle's."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise LayoutError(f"{folder} is a file: name a folder")
    if strange := sorted(path.name for path in folder.iterdir() if path.name not in OWN):
        raise LayoutError(f"{folder} holds something else than a bundle ({strange[0]}): name another folder")
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def make_bundle(
    call: Call,
    folder: Path,
    *,
    capability: tuple[int, int],
    inputs: Mapping[str, bytes],
    cases: Sequence[Mapping[str, Any]],
    timing: Mapping[str, Any] | None,
    made: Mapping[str, Any],
) -> dict[str, Any]:
    """Writes a bundle, and returns its launch.json.

    `inputs` are files by name; a case names one for each tensor that the kernel reads: {"name": "random", "inputs":
    {"S": "inputs/S.bin"}}. `timing` is {"scalar", "values", "repeat"}; `made` says what this is, for whoever judges the
    results. Raises LayoutError for a folder that exists and holds anything that is no bundle's, and for what
    `described_launch` refuses.
    """
    cubin = cubin_of(call.compiled)
    launch = described_launch(call)
    _clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {**inputs, "kernel.cubin": cubin, "kernel.ptx": ptx_of(call.compiled).encode()}
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    shutil.copyfile(runner.__file__, folder / "run.py")
    whole = {
        "schema": runner.SCHEMA,
        "capability": list(capability),
        "cubin": "kernel.cubin",
        "ptx": "kernel.ptx",
        **launch,
        "tensors": {name: tensor.json() for name, tensor in call.tensors.items()},
        "cases": [dict(case) for case in cases],
        "timing": None if timing is None else dict(timing),
        "made": dict(made),
    }
    (folder / "launch.json").write_text(json.dumps(whole, indent=1) + "\n")
    return whole
