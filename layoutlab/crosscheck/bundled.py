"""check_bundle: what a device made of a launch bundle of a P handoff, held against the model and the replay.

Three accounts of one launch: the model's (the maps of sP90 or sP alone), the replay's (the bundle's PTX on the CPU),
and the device's. Of each it is asked which element lies in each place of sP's image, which the tensor core took for
each A[m, k], and what O is for random operands. From the device's own answers comes its counterexample: the first
value, in counting order, whose element the tensor core did not get.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutlab.catalogue import named
from layoutlab.crosscheck.sp90_model import Account, Variant
from layoutlab.crosscheck.sp_model import Variant100
from layoutlab.crosscheck.tags import FOREIGN, RADIX, UNWRITTEN, numbers, numeric
from layoutlab.device.replayed import Results, replay_bundle
from layoutlab.device.runner import RESULTS, cubin_digest, description
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, Location, Tile, verify
from layoutlab.handoff.verdict import Witness
from layoutlab.ptx.parse import PtxError

Array = NDArray[Any]

TOLERANCE = {"bf16": 1e-5, "f16": 1e-5, "e4m3": 1e-2, "e5m2": 1e-2}
"""Of O in the random cases, as a share of the largest element: wgmma adds 8-bit products with 13 bits or so."""


MODELS: dict[str, type[Variant]] = {"sP90": Variant, "sP": Variant100}
"""The model of a bundle's variant, by the handoff that its launch.json names."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle's description, its variant, and what results of it show."""

    folder: Path

    @cached_property
    def launch(self) -> dict[str, Any]:
        """launch.json."""
        found = description(self.folder)
        if found["made"].get("handoff") not in list(MODELS):
            raise LayoutError(f"{self.folder} is no bundle of {' or '.join(MODELS)}: there is no model to judge it by")
        if not any("digit" in case for case in found["cases"]):
            raise LayoutError(f"{self.folder} has no tagged cases, and others do not show where an element lies")
        return found

    @cached_property
    def variant(self) -> Variant:
        """The kernel's variant."""
        return MODELS[self.launch["made"]["handoff"]](self.settings)

    @property
    def handoff(self) -> Handoff:
        """The handoff of the catalogue that the variant is."""
        return handoff_of(self.settings, self.launch["made"]["handoff"])

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings."""
        settings: dict[str, Any] = self.launch["made"]["settings"]
        return settings

    @property
    def tile(self) -> Tile:
        """P."""
        return self.variant.tile

    @property
    def owner(self) -> Array:
        """(t, v) -> element, by the model."""
        return self.variant.owner

    @property
    def model(self) -> Account:
        """The model's account."""
        return self.variant.model

    def account(self, results: Results) -> Account:
        """What results of the tagged cases show."""
        dtype = self.settings["dtype"]
        tagged = [case for case in self.launch["cases"] if "digit" in case]
        images, seen = dict[int, Array](), dict[int, Array]()
        for case in tagged:
            out = results[case["name"]]
            image = np.frombuffer(out["image"], numeric(dtype)).astype(np.float64)
            images.setdefault(case["digit"], image)  # `judge` holds each case's own against the model
            columns = seen.setdefault(case["digit"], np.full(self.tile.shape, np.nan))
            first, width = case["first"], self.launch["tensors"]["O"]["shape"][1]
            width = min(width, self.tile.shape[1])
            columns[:, first : first + width] = self.product(out)[:, :width]
        order = sorted(images)
        return Account(spelled([images[i] for i in order], dtype), spelled([seen[i] for i in order], dtype))

    def product(self, out: Mapping[str, bytes]) -> Array:
        """O."""
        return np.frombuffer(out["O"], np.float32).reshape(self.launch["tensors"]["O"]["shape"])

    def expected_product(self, case: Mapping[str, Any]) -> Array:
        """O of a case, by the model."""
        return self.variant.expected_product(*(self._input(case, name) for name in "SV"))

    def expected_image(self, case: Mapping[str, Any]) -> bytes:
        """The image of a case, by the model."""
        return self.variant.expected_image(self._input(case, "S"))

    def _input(self, case: Mapping[str, Any], name: str) -> bytes:
        path: str = case["inputs"][name]
        return (self.folder / path).read_bytes()


def spelled(digits: list[Array], dtype: str) -> Array:
    """The numbers of digits, UNWRITTEN where one is NaN, FOREIGN where one is no digit."""
    unwritten = np.any([np.isnan(values) for values in digits], axis=0)
    filled = [np.where(unwritten, 0, values) for values in digits]
    strange = np.any([(x != np.floor(x)) | (x < 0) | (x >= RADIX[dtype]) for x in filled], axis=0)
    found = numbers([np.where(strange, 0, x) for x in filled], dtype)
    return np.where(unwritten, UNWRITTEN, np.where(strange, FOREIGN, found))


def read_results(path: Path) -> tuple[Results, dict[str, Any]]:
    """The results of a run, and its run.json; refused where there are none."""
    try:
        with zipfile.ZipFile(path) as archive:
            run: dict[str, Any] = json.loads(archive.read("run.json"))
            if not isinstance(run, dict) or not run.keys() >= {"device", "cubin_sha256"}:
                raise ValueError("run.json does not say which device ran which cubin")
            results: Results = {}
            for name in archive.namelist():
                case, _, file = name.partition("/")
                if file:
                    results.setdefault(case, {})[file.removesuffix(".bin")] = archive.read(name)
    except (OSError, KeyError, ValueError, RuntimeError, zlib.error, zipfile.BadZipFile) as e:
        raise LayoutError(f"there are no results in {path} ({e}): run the bundle's run.py on a device first") from e
    return results, run


@dataclass(frozen=True)
class Judgement:
    """`same` is whether the device says what the model and the replay say; `lines` are the findings in words.

    `counterexample` is the device's own: {"thread", "value", "coordinate", "wrote", "reads"}; None where the tensor
    core got every element.
    """

    same: bool
    lines: tuple[str, ...]
    counterexample: dict[str, Any] | None
    errors: dict[str, float]

    @property
    def exit_status(self) -> int:
        """0 the same, 1 something differs."""
        return 0 if self.same else 1

    def __str__(self) -> str:
        return "\n".join([*self.lines, "same" if self.same else "differs"])


def check_bundle(folder: Path, results: Path | None = None, *, replay: bool = True) -> Judgement:
    """Judges the results of a bundle (`results.zip` in it) by the model and, unless told not to, by a replay.

    Raises LayoutError where it cannot judge: no results, some of them missing or cut, no model, a bundle with a file
    missing, PTX that does not run, a launch.json that was changed to what describes no launch.
    """
    bundle = Bundle(folder)
    found, run = read_results(results or folder / RESULTS)
    try:
        _check_complete(bundle, found)
        other = run["cubin_sha256"] != cubin_digest(folder, bundle.launch)
        judgement = judge(bundle, found, f"{run['device']}", replay_bundle(folder) if replay else None)
    except LayoutError:
        raise
    except OSError as e:
        raise LayoutError(f"{e.filename} cannot be read ({e.strerror}): the bundle is not whole") from e
    except PtxError as stop:
        raise LayoutError(f"the replay of {bundle.launch['ptx']} stops: {stop}") from stop
    except (KeyError, TypeError, IndexError, ValueError) as e:  # launch.json may say anything inside of its parts
        raise LayoutError(
            f"{folder}/launch.json describes no launch of {bundle.launch['made']['handoff']} "
            f"({type(e).__name__}: {e}): make the bundle again"
        ) from e
    if other:
        said = f"the results are of another cubin than {folder}/{bundle.launch['cubin']}: run this bundle's run.py"
        return replace(judgement, same=False, lines=(said, *judgement.lines))
    return judgement


def _check_complete(bundle: Bundle, found: Results) -> None:
    """Refuses results that are not of all cases, or not of all bytes, and inputs that are not of the variant's size."""
    tensors = bundle.launch["tensors"]
    whole = handoff_of(bundle.settings, bundle.launch["made"]["handoff"]).tile.size  # refuses unknown settings
    if int(np.prod(tensors["S"]["shape"])) != whole or tensors["image"]["bytes"] != bundle.variant.image_bytes:
        raise LayoutError(
            f"{bundle.folder}/launch.json has tensors of another size than its settings say: make the bundle again"
        )
    cases = {case["name"] for case in bundle.launch["cases"]}
    if lost := cases - found.keys():
        raise LayoutError(f"the results lack the cases {', '.join(sorted(lost))}")
    for case in sorted(cases):
        for name, tensor in tensors.items():
            if tensor["role"] != "out":
                continue
            if name not in found[case]:
                raise LayoutError(f"the results lack {name} of the case {case}")
            size = len(found[case][name])
            if size != tensor["bytes"]:
                raise LayoutError(f"{name} of the case {case} has {size} bytes in the results, not {tensor['bytes']}")


def judge(bundle: Bundle, found: Results, who: str, replayed: Results | None) -> Judgement:
    """Holds results, and what a replay gave, against the model and each other."""
    lines = list[str]()
    theirs = bundle.account(found)
    differences = _account_differences(bundle, bundle.model, theirs, "the model", who)
    errors = dict[str, float]()
    for case in bundle.launch["cases"]:
        out = found[case["name"]]
        if out["image"] != bundle.expected_image(case):
            differences.append(f"case {case['name']}: the image has other bytes than by the model")
        expected = bundle.expected_product(case)
        error = relative_error(bundle.product(out), expected)
        errors[case["name"]] = error
        limit = TOLERANCE[bundle.settings["dtype"]] if "seed" in case else 0.0
        if not error <= limit:
            differences.append(
                f"case {case['name']}: O is off by {error:.1e} of its largest element, more than {limit:g}"
            )
        if replayed is not None:
            differences += _replay_differences(bundle, case, out, replayed[case["name"]], limit, who)
    lines += differences
    same = not differences
    counterexample = first_lost(bundle, theirs)
    witness = verify(bundle.handoff)["placed"].witness
    if said := _other_counterexample(counterexample, witness, who):
        same = False
        lines.append(said)
    elif counterexample:
        lines.append(f"{who} shows the counterexample of verify: {counterexample['message']}")
    if same:
        by = "the model and the replay" if replayed is not None else "the model"
        lines.append(
            f"the image of {theirs.image.size} places, A of {theirs.seen.size} elements and O of {len(errors)} "
            f"cases on {who} are those of {by}"
        )
    return Judgement(same, tuple(lines), counterexample, errors)


def handoff_of(settings: Mapping[str, Any], name: str = "sP90") -> Handoff:
    """The handoff of the catalogue that a variant is: the named one, or rs_reuse where registers become operand A."""
    if settings["store"] == "registers":
        return named("rs_reuse")(dtype=settings["dtype"], kv=settings["kv"])
    return named(name)(**settings)


def _smem_byte(place: Location | None) -> int | None:
    return place.outputs["bit"] // 8 if place is not None and place.space == "smem" else None


def relative_error(product: Array, expected: Array) -> float:
    """How far O is from what is expected, as a share of the largest element; infinite where one is NaN alone."""
    if not np.array_equal(np.isnan(product), np.isnan(expected)):
        return float("inf")
    known = ~np.isnan(expected)
    if not known.any():
        return 0.0
    largest = np.abs(expected[known]).max()
    return float(np.abs(product[known] - expected[known]).max() / (largest or 1.0))


def first_lost(bundle: Bundle, account: Account) -> dict[str, Any] | None:
    """The first value, in counting order, whose element the tensor core did not get, by an account alone.

    `wrote` is the byte at which the image has the element, `reads` the one at which what the tensor core took lies;
    None where the account does not say.
    """
    element = bundle.owner
    wrong = account.seen.reshape(-1)[element] != element
    if not wrong.any():
        return None
    t, v = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    number, size = int(element[t, v]), bundle.tile.bits // 8
    m, k = divmod(number, bundle.tile.shape[1])
    taken = int(account.seen[m, k])
    wrote, reads = (_byte_of(account.image, x, size) for x in (number, taken))
    what = "what is not P's" if taken == FOREIGN else "NaN" if taken == UNWRITTEN else (
        "(m={}, k={})".format(*divmod(taken, bundle.tile.shape[1])))  # fmt: skip
    places = "" if wrote is None else f", which lies at byte {wrote}"
    from_byte = "" if reads is None else f", from byte {reads}"
    message = f"T{t} V{v} (m={m}, k={k}){places}; the tensor core takes {what}{from_byte}"
    return {"thread": t, "value": v, "coordinate": {"m": m, "k": k}, "wrote": wrote, "reads": reads, "message": message}


def _byte_of(image: Array, number: int, size: int) -> int | None:
    at = np.flatnonzero(image == number) if number >= 0 else np.empty(0)
    return int(at[0]) * size if at.size == 1 else None


def _other_counterexample(found: Mapping[str, Any] | None, witness: Witness | None, who: str) -> str | None:
    """Whether a device's counterexample is another than verify's."""
    if found is None or witness is None:
        if (found is None) == (witness is None):
            return None
        said, shown = witness.message if witness else "placed", found["message"] if found else "everything in place"
        return f"verify says {said}, {who} shows {shown}"
    predicted: dict[str, Any] = {
        "thread": witness.thread,
        "value": witness.value,
        "coordinate": dict(witness.coordinate or {}),
        "wrote": _smem_byte(witness.wrote),
        "reads": _smem_byte(witness.reads),
    }
    seen = {name: found[name] for name in predicted}
    if all((seen[name] is None and name == "reads") or seen[name] == value for name, value in predicted.items()):
        return None
    return f"verify's counterexample is {predicted}, that of {who} is {seen}"


def _account_differences(bundle: Bundle, model: Account, theirs: Account, whose: str, who: str) -> list[str]:
    found, size = list[str](), bundle.tile.bits // 8
    if (at := np.flatnonzero(model.image != theirs.image)).size:
        here, there = (_named(bundle, int(x[at[0]])) for x in (model.image, theirs.image))
        found.append(f"byte {int(at[0]) * size} holds {here} by {whose}, {there} on {who} ({at.size} places differ)")
    if (where := np.argwhere(model.seen != theirs.seen)).size:
        m, k = (int(i) for i in where[0])
        here, there = (_named(bundle, int(x[m, k])) for x in (model.seen, theirs.seen))
        found.append(f"A[{m}, {k}] is {here} by {whose}, {there} on {who} ({len(where)} elements differ)")
    return found


def _replay_differences(
    bundle: Bundle,
    case: Mapping[str, Any],
    out: Mapping[str, bytes],
    replayed: Mapping[str, bytes],
    limit: float,
    who: str,
) -> list[str]:
    found = []
    if out["image"] != replayed["image"]:
        found.append(f"case {case['name']}: the image has other bytes on {who} than in the replay")
    error = relative_error(bundle.product(out), bundle.product(replayed).astype(np.float64))
    if not error <= limit:
        found.append(
            f"case {case['name']}: O is off by {error:.1e} of its largest element between {who} and the replay"
        )
    return found


def _named(bundle: Bundle, number: int) -> str:
    if number == UNWRITTEN:
        return "nothing"
    return "what is not P's" if number == FOREIGN else "(m={}, k={})".format(*divmod(number, bundle.tile.shape[1]))
