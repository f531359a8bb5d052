"""Runs launch bundles on a CUDA device: a script that needs Python 3.11 and cuda-python, and nothing of layoutlab.

    python run.py                       the bundle that the script lies in
    python run.py DIR DIR ... --out OUT several bundles, OUT/NAME.zip for each one's results

A bundle (`layoutlab bundle`) is a folder: `launch.json`, the cubin, and the bytes of the inputs. `launch.json` holds
the bytes of every kernel parameter as a launch on another machine would have had them, and says which words of them are
addresses of which tensor, inside tensor maps too; those are replaced by the addresses here. The results are the bytes
of every output in every case, and `run.json`: device, driver, date, times.

Exit status: 0 all ran, 1 a launch failed, 3 there is no device that can run them.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import io
import json
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

try:
    from layoutlab.errors import LayoutError as Refusal
except ImportError:  # beside a bundle, on a machine without layoutlab

    class Refusal(Exception):  # type: ignore[no-redef]
        """What cannot be done, in one sentence."""


SCHEMA = 1
PARTS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("cubin", "ptx", "kernel"), (str,)),
    **dict.fromkeys(("capability", "grid", "block", "cluster", "parameters", "addresses", "scalars", "cases"), (list,)),
    **dict.fromkeys(("attributes", "tensors", "made"), (dict,)),
    "shared_bytes": (int,),
    "timing": (dict, type(None)),
}
"""What launch.json holds beside its schema, and as what."""
RESULTS = "results.zip"
PARAMETER_ALIGNMENT = 64  # of a tensor map
COOPERATIVE, CLUSTER, SERIALIZATION = 2, 4, 6  # CUlaunchAttributeID
NO_DEVICE, FAILED = 3, 1


class Unavailable(Refusal):
    """What was asked to run a kernel is not there."""


class LaunchFailed(Refusal):
    """The device was there, and did not do what it was asked to."""


def cuda_driver() -> Any:
    """cuda-python's driver module."""
    try:
        from cuda.bindings import driver
    except ImportError as e:
        raise Unavailable("running on a device needs cuda-python: pip install cuda-python") from e
    return driver


class Device:
    """The first CUDA device; refused with a sentence where the package, the driver or the device is missing.

    `capability` is (major, minor). Memory is counted in bytes, addresses are numbers.
    """

    def __init__(self, driver: Any = None) -> None:
        self.driver = cuda_driver() if driver is None else driver
        try:
            self.call("cuInit", 0)
            self.device = self.call("cuDeviceGet", 0)
        except (Refusal, RuntimeError) as e:  # cuda-python raises RuntimeError where it finds no driver
            raise Unavailable(f"there is no CUDA device here: {e}") from e
        self.capability = (self._capability("MAJOR"), self._capability("MINOR"))

    def _capability(self, part: str) -> int:
        attribute = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}")
        return int(self.call("cuDeviceGetAttribute", attribute, self.device))

    def open(self) -> None:
        """Makes the device the current one."""
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", self.device))

    def described(self) -> dict[str, Any]:
        """Name, capability and the driver's CUDA version."""
        name = self.call("cuDeviceGetName", 256, self.device)
        text = name if isinstance(name, str) else bytes(name).split(b"\0")[0].decode()
        version = int(self.call("cuDriverGetVersion"))
        return {"device": text.rstrip("\0"), "capability": list(self.capability), "driver_cuda": version}

    def call(self, name: str, *args: Any) -> Any:
        """A driver call's result, its error as a sentence."""
        status, *values = getattr(self.driver, name)(*args)
        if int(status):
            raise LaunchFailed(f"{name} failed with {status.name}")
        return values[0] if values else None

    # -- memory --------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes."""
        return int(self.call("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Gives memory back."""
        self.call("cuMemFree", address)

    def put(self, address: int, data: bytes) -> None:
        """Copies bytes to the device."""
        if data:
            held = ctypes.create_string_buffer(data, len(data))
            self.call("cuMemcpyHtoD", address, ctypes.addressof(held), len(data))

    def get(self, address: int, size: int) -> bytes:
        """Copies bytes from the device."""
        held = ctypes.create_string_buffer(max(size, 1))
        self.call("cuMemcpyDtoH", ctypes.addressof(held), address, size)
        return held.raw[:size]

    # -- kernels -------------------------------------------------------------------------------------------------

    def load(self, cubin: bytes, kernel: str, shared_bytes: int) -> Any:
        """A kernel of a cubin, allowed its dynamic shared memory."""
        module = self.call("cuModuleLoadData", cubin)
        function = self.call("cuModuleGetFunction", module, kernel.encode())
        attribute = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.call("cuFuncSetAttribute", function, attribute, shared_bytes)
        return function

    def launch(self, function: Any, described: dict[str, Any], params: list[bytes]) -> None:
        """Starts a kernel on the default stream: `described` has grid, block, shared_bytes and attributes."""
        held = [_aligned(data) for data in params]
        pointers = (ctypes.c_void_p * len(held))(*(address for _, address in held))
        config = self.driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = described["grid"]
        config.blockDimX, config.blockDimY, config.blockDimZ = described["block"]
        config.sharedMemBytes = described["shared_bytes"]
        attributes = [self._attribute(int(kind), bytes.fromhex(v)) for kind, v in described["attributes"].items()]
        config.attrs, config.numAttrs = attributes, len(attributes)
        self.call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers), 0)

    def _attribute(self, kind: int, value: bytes) -> Any:
        attribute = self.driver.CUlaunchAttribute()
        attribute.id = self.driver.CUlaunchAttributeID(kind)
        number = int.from_bytes(value[:4], "little")
        if kind == COOPERATIVE:
            attribute.value.cooperative = number
        elif kind == CLUSTER:
            dims = attribute.value.clusterDim
            dims.x, dims.y, dims.z = (int.from_bytes(value[i : i + 4], "little") for i in (0, 4, 8))
        elif kind == SERIALIZATION:
            attribute.value.programmaticStreamSerializationAllowed = number
        else:
            known = f"{COOPERATIVE} (cooperative), {CLUSTER} (cluster) and {SERIALIZATION} (serialisation)"
            raise LaunchFailed(f"the launch has the attribute {kind}, and this script knows {known} alone")
        return attribute

    def wait(self) -> None:
        """Waits for all that was started; an error of a kernel comes out here."""
        self.call("cuCtxSynchronize")

    def seconds(self, start: Any) -> float:
        """How long what `start()` launches takes on the device."""
        first, last = self.call("cuEventCreate", 0), self.call("cuEventCreate", 0)
        self.call("cuEventRecord", first, 0)
        start()
        self.call("cuEventRecord", last, 0)
        self.call("cuEventSynchronize", last)
        elapsed = float(self.call("cuEventElapsedTime", first, last)) / 1e3
        for event in (first, last):
            self.call("cuEventDestroy", event)
        return elapsed


def _aligned(data: bytes) -> tuple[Any, int]:
    """A copy of a parameter where a tensor map may lie: what holds it, and its address."""
    held = ctypes.create_string_buffer(len(data) + PARAMETER_ALIGNMENT)
    address = -(-ctypes.addressof(held) // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
    ctypes.memmove(address, data, len(data))
    return held, address


# -- bundles ---------------------------------------------------------------------------------------------------------


def description(folder: Path) -> dict[str, Any]:
    """A bundle's launch.json; refused where there is none, or of another schema, or where a part is missing."""
    try:
        found: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    except (OSError, ValueError) as e:
        raise Refusal(f"{folder} is no launch bundle: launch.json cannot be read ({e})") from e
    if not isinstance(found, dict):
        raise Refusal(f"{folder}/launch.json holds a {type(found).__name__}, and describes no launch")
    if found.get("schema") != SCHEMA:
        raise Refusal(f"{folder}/launch.json has schema {found.get('schema')}, this script reads {SCHEMA}")
    if wrong := [part for part, kinds in PARTS.items() if not isinstance(found.get(part, NotImplemented), kinds)]:
        raise Refusal(f"{folder}/launch.json lacks {', '.join(wrong)}, or has what is none: make the bundle again")
    return found


def relocated(launch: dict[str, Any], addresses: dict[str, int], scalars: dict[str, int] | None = None) -> list[bytes]:
    """The parameters' bytes with the addresses of tensors in their places, and scalars with the values given.

    >>> launch = {"parameters": ["00" * 8, "07000000"],
    ...           "addresses": [{"parameter": 0, "at": 0, "tensor": "S", "plus": 16}],
    ...           "scalars": [{"name": "rounds", "parameter": 1, "at": 0, "bytes": 4}]}
    >>> [x.hex() for x in relocated(launch, {"S": 256}, {"rounds": 3})]
    ['1001000000000000', '03000000']
    """
    params = [bytearray.fromhex(text) for text in launch["parameters"]]
    for word in launch["addresses"]:
        value = addresses[word["tensor"]] + word["plus"]
        params[word["parameter"]][word["at"] : word["at"] + 8] = value.to_bytes(8, "little")
    for scalar in launch["scalars"]:
        if scalars and scalar["name"] in scalars:
            end = scalar["at"] + scalar["bytes"]
            value = scalars[scalar["name"]].to_bytes(scalar["bytes"], "little")
            params[scalar["parameter"]][scalar["at"] : end] = value
    return [bytes(p) for p in params]


def cubin_digest(folder: Path, launch: dict[str, Any]) -> str:
    """The SHA-256 of a bundle's cubin: results say of which they are."""
    return hashlib.sha256((folder / launch["cubin"]).read_bytes()).hexdigest()


class Loaded:
    """A bundle on a device: its kernel loaded, its tensors allocated."""

    def __init__(self, device: Device, folder: Path) -> None:
        self.device, self.folder, self.launch = device, folder, description(folder)
        wanted = tuple(self.launch["capability"])
        if device.capability != wanted:
            have, need = (f"{major}.{minor}" for major, minor in (device.capability, wanted))
            raise Unavailable(f"the device has compute capability {have}, and {folder.name} is made for {need} alone")
        cubin = (folder / self.launch["cubin"]).read_bytes()
        self.function = device.load(cubin, self.launch["kernel"], self.launch["shared_bytes"])
        self.addresses = {name: device.allocate(t["bytes"]) for name, t in self.launch["tensors"].items()}

    def close(self) -> None:
        """Gives the tensors' memory back."""
        for address in self.addresses.values():
            self.device.free(address)

    def fill(self, case: dict[str, Any]) -> None:
        """Brings a case's inputs to the device, and its outputs' poison."""
        for name, tensor in self.launch["tensors"].items():
            if name in case["inputs"]:
                data = (self.folder / case["inputs"][name]).read_bytes()
            else:
                data = bytes([tensor["fill"]]) * tensor["bytes"]
            if len(data) != tensor["bytes"]:
                raise Refusal(
                    f"{self.folder.name}, case {case['name']}: {name} has {len(data)} bytes, not {tensor['bytes']}"
                )
            self.device.put(self.addresses[name], data)

    def start(self, scalars: dict[str, int] | None = None) -> None:
        """Launches the kernel."""
        self.device.launch(self.function, self.launch, relocated(self.launch, self.addresses, scalars))

    def outputs(self) -> dict[str, bytes]:
        """What the kernel wrote."""
        tensors = self.launch["tensors"].items()
        return {n: self.device.get(self.addresses[n], t["bytes"]) for n, t in tensors if t["role"] == "out"}

    def times(self) -> dict[str, Any] | None:
        """Seconds of the launch for each value of the timing's scalar, several of each, in turn."""
        timing = self.launch.get("timing")
        if timing is None:
            return None
        self.fill(self.launch["cases"][0])
        name, values = timing["scalar"], timing["values"]
        seconds: dict[str, list[float]] = {str(value): [] for value in values}
        self.start()
        self.device.wait()
        for _ in range(timing["repeat"]):
            for value in values:
                seconds[str(value)].append(self.device.seconds(lambda value=value: self.start({name: value})))
        return {"scalar": name, "seconds": seconds}


def run_bundle(device: Device, folder: Path, out: Path) -> dict[str, Any]:
    """Runs every case of a bundle, writes the results to the zip file `out`, and returns its run.json."""
    loaded = Loaded(device, folder)
    try:
        results: dict[str, bytes] = {}
        for case in loaded.launch["cases"]:
            loaded.fill(case)
            loaded.start()
            device.wait()
            results |= {f"{case['name']}/{name}.bin": data for name, data in loaded.outputs().items()}
        stamp = {"schema": SCHEMA, "bundle": folder.name, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        run = {**stamp, **device.described(), "command": " ".join(sys.argv[:1]), "times": loaded.times()}
        run["cubin_sha256"] = cubin_digest(folder, loaded.launch)
    finally:
        loaded.close()
    write_results(out, results, run)
    return run


def write_results(out: Path, results: dict[str, bytes], run: dict[str, Any]) -> None:
    """The results as a zip file."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", json.dumps(run, indent=1))
        for name, data in results.items():
            archive.writestr(name, data)
    out.write_bytes(held.getvalue())


def launch_only(device: Device, folder: Path, rounds: list[int]) -> None:
    """Launches a bundle's first case once for each value of its timing's scalar: what a profiler counts."""
    loaded = Loaded(device, folder)
    try:
        loaded.fill(loaded.launch["cases"][0])
        for value in rounds:
            loaded.start({loaded.launch["timing"]["scalar"]: value})
            device.wait()
            print(f"launched {folder.name} {value}", flush=True)
    finally:
        loaded.close()


def main(argv: list[str] | None = None, driver: Any = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs launch bundles on the first CUDA device.")
    parser.add_argument("bundles", nargs="*", type=Path, help="folders; default: the one that this script lies in")
    parser.add_argument("--out", type=Path, help=f"folder for NAME.zip of each bundle; default: {RESULTS} in each")
    parser.add_argument("--only", type=int, nargs="+", metavar="N",
                        help="launch once for each N rounds, and write nothing: for a profiler")  # fmt: skip
    args = parser.parse_args(argv)
    folders = args.bundles or [Path(__file__).resolve().parent]
    try:
        device = Device(driver)
        device.open()
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            out = args.out / f"{folder.name}.zip" if args.out else folder / RESULTS
            try:
                if args.only:
                    launch_only(device, folder, args.only)
                    continue
                run_bundle(device, folder, out)
            except Refusal:
                raise
            except (KeyError, IndexError, TypeError, ValueError) as e:  # launch.json may say anything in its parts
                wrong = f"{type(e).__name__}: {e}"
                raise Refusal(f"{folder}/launch.json describes no launch ({wrong}): make the bundle again") from e
            print(f"{folder.name}: ran on {device.described()['device']}, results in {out}", flush=True)
    except Unavailable as e:
        print(f"not run: {e}", file=sys.stderr)
        return NO_DEVICE
    except Refusal as e:
        print(f"failed: {e}", file=sys.stderr)
        return FAILED
    except OSError as e:
        print(f"failed: {e.filename}: {e.strerror}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
