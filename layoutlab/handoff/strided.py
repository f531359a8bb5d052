"""Strided forms: a map of places as steps along each axis from a base, under a swizzle of addresses.

    location = swizzle(base + sum of steps along each axis)

The steps are read off the map's own values, axis by axis, and held against all of them. A map is asked for its places
alone, not for what it was made of: so a descriptor's map, a box's and that of ldmatrix's lanes are taken apart alike.

>>> from layoutlab.handoff import SmemDescriptor, Tile, umma_a
>>> P = Tile("P", m=128, k=128, bits=16)
>>> desc = SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
>>> reader = umma_a(desc, P, starts_bytes=[k % 4 * 32 + k // 4 * 16384 for k in range(8)])
>>> found = strided_form(reader.read)
>>> print(found.swizzle, found.modes)
S<3,7,3>[1b] {'m': [(128, 1024)], 'k': [(64, 16), (2, 131072)]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layoutlab.atoms.descriptors import SwizzleMode, pattern_of
from layoutlab.atoms.operand import as_modes
from layoutlab.errors import LayoutError
from layoutlab.handoff.difference import form
from layoutlab.handoff.places import Modes, Places
from layoutlab.int_tuple import IntTuple
from layoutlab.layout import Layout
from layoutlab.swizzle import Swizzle

MODES: tuple[SwizzleMode, ...] = (128, 64, 32, "128_32b")
SHOWN = 8
"""Places that are listed of those that no strides are."""
WALKED = 1 << 22
"""Places that a form is held against at most; beyond, the proof of what is made of it has to do."""


@dataclass(frozen=True)
class Strided:
    """`modes` gives each axis its (extent, step in bits), fastest first; `shift` is added after the swizzle."""

    modes: Mapping[str, Modes]
    base: int
    swizzle: Swizzle | None
    shift: int = 0

    def steps(self, axis: str) -> list[tuple[int, int]]:
        """(extent, step) of one axis, parts of one element left out."""
        return [(extent, step) for extent, step in self.modes[axis] if extent > 1]


def strided_form(places: Places) -> Strided:
    """The steps, base and swizzle of a map to bits of a memory; raises LayoutError with the reason where it has none.

    The swizzle is the hardware's where one of its is enough, and else any that xors neighbouring bits.
    """
    if places.outputs != ("bit",):
        raise LayoutError(f"places of {', '.join(places.outputs)} are no addresses of one memory")
    reason = ""
    for swizzle, shift in _swizzles(places):
        try:
            return _under(places, swizzle, shift)
        except LayoutError as error:
            reason = reason or str(error)
    raise LayoutError(f"the places are no steps along {' and '.join(places.axes)} under any swizzle: {reason}")


def _swizzles(places: Places) -> Iterator[tuple[Swizzle | None, int]]:
    """What the map may be swizzled by, the likeliest first, with what is added after it."""
    if places.before is not None:
        yield places.swizzle, places.plus
    yield None, 0
    for mode in MODES:
        yield hardware(mode), 0
    try:
        pattern = sorted(form(places.table).pattern)
    except LayoutError:
        return
    shifts = {high - low for low, high in pattern}
    if len(shifts) == 1 and [low for low, _ in pattern] == list(range(pattern[0][0], pattern[0][0] + len(pattern))):
        yield Swizzle(len(pattern), pattern[0][0], shifts.pop(), unit_bits=1), 0


def hardware(mode: SwizzleMode) -> Swizzle | None:
    """A mode of descriptors and boxes as a swizzle that counts bits; None where it moves nothing."""
    pattern = pattern_of(mode)
    return Swizzle(pattern.bits, pattern.low + 3, 7 - pattern.low, unit_bits=1) if pattern.bits else None


def mode_of(swizzle: Swizzle | None) -> SwizzleMode | None:
    """The hardware's mode that a swizzle of bits is; None where it is none of them."""
    if swizzle is None or not swizzle.bits:
        return 0
    return next((mode for mode in MODES if hardware(mode) == swizzle), None)


def _under(places: Places, swizzle: Swizzle | None, shift: int) -> Strided:
    def linear(**index: Any) -> Any:  # an xor by bits that it leaves alone undoes itself
        bit = places.at(**index)["bit"] - shift
        return swizzle(bit) if swizzle else bit

    zero = dict.fromkeys(places.axes, 0)
    base, modes = int(linear(**zero)), dict[str, Modes]()
    for axis, extent in places.axes.items():
        modes[axis] = _steps_along(axis, [int(linear(**{**zero, axis: i})) - base for i in range(extent)])
    _hold_against(places, linear, base, modes)
    return Strided(modes, base, swizzle, shift)


def _steps_along(axis: str, apart: Sequence[int]) -> Modes:
    try:
        return as_modes(apart) or [(1, 0)]
    except LayoutError:
        unit = "bits" if any(bit % 8 for bit in apart) else "bytes"
        shown = ", ".join(str(bit if unit == "bits" else bit // 8) for bit in apart[:SHOWN])
        raise LayoutError(
            f"along {axis} they lie {shown}{', ...' if len(apart) > SHOWN else ''} {unit} from the first one, which is "
            f"no sum of strides"
        ) from None


def _hold_against(places: Places, linear: Any, base: int, modes: Mapping[str, Modes]) -> None:
    """Refuses steps that do not add up to the map's places."""
    if places.size > WALKED:
        return
    import numpy as np

    grids = np.meshgrid(*(np.arange(extent) for extent in places.axes.values()), indexing="ij")
    index = dict(zip(places.axes, grids, strict=True))
    total = base + sum(along(modes[axis], index[axis]) for axis in places.axes)
    wrong = np.argwhere(np.asarray(linear(**index)) != total)
    if wrong.size:
        at = ", ".join(f"{axis}={i}" for axis, i in zip(places.axes, wrong[0], strict=True))
        raise LayoutError(f"({at}) lies elsewhere than the steps along each axis add up to")


def along(modes: Modes, index: Any) -> Any:
    """What an index adds, part by part."""
    total, weight = index * 0, 1
    for extent, step in modes:
        total, weight = total + index // weight % extent * step, weight * extent
    return total


def in_elements(modes: Sequence[tuple[int, int]], bits: int, what: str) -> list[tuple[int, int]]:
    """Steps of bits as steps of elements; refuses those that are no whole number of them."""
    if odd := next((step for _, step in modes if step % bits), None):
        raise LayoutError(f"{what} steps by {odd} bits, no whole number of elements of {bits} bits")
    return [(extent, step // bits) for extent, step in modes]


def modes_layout(*axes: Sequence[tuple[int, int]]) -> Layout:
    """A layout with one mode for each axis, from its (extent, stride) parts; an axis of one part is not nested.

    >>> modes_layout([(128, 64)], [(64, 1), (2, 8192)])
    (128,(64,2)):(64,(1,8192))
    """
    shapes, strides = list[IntTuple](), list[IntTuple]()
    for axis in axes:
        parts = [part for part in axis if part[0] > 1] or [(1, 0)]
        shapes.append(parts[0][0] if len(parts) == 1 else tuple(e for e, _ in parts))
        strides.append(parts[0][1] if len(parts) == 1 else tuple(s for _, s in parts))
    return Layout(tuple(shapes), tuple(strides))
