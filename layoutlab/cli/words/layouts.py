"""Layouts and swizzles in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layoutlab.algebra import compare
from layoutlab.cli.words.report import Report, counted, first_few, listed
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, flatten, modes, product, to_text, unflatten
from layoutlab.layout import Layout
from layoutlab.survey import LIMIT, Undecided, coordinate, injective, number, span, vector
from layoutlab.swizzle import ComposedLayout, Swizzle

_LETTERS = "ijklmnpqrstuvw"

HARDWARE_SWIZZLES = {(3, 4, 3): 128, (2, 4, 3): 64, (1, 4, 3): 32}
"""Bits, base and shift, counted in bytes, of the shared memory swizzles that TMA and the tensor cores know."""


def index_names(shape: Any) -> Any:
    """A name for each leaf, nested as the shape: `i`, `j` for modes, `k0`, `k1` inside a nested one.

    >>> index_names(((128, 16), 1, (4, 2)))
    (('i0', 'i1'), 'j', ('k0', 'k1'))
    """
    named = []
    for n, mode in enumerate(modes(shape)):
        letter = _LETTERS[n] if len(modes(shape)) <= len(_LETTERS) else f"c{n}_"
        leaves = len(flatten(mode))
        names = [letter] if not isinstance(mode, tuple) else [f"{letter}{i}" for i in range(leaves)]
        named.append(unflatten(names, mode))
    return tuple(named) if isinstance(shape, tuple) else named[0]


def formula(layout: Layout, names: Any = None, offset: Any = 0) -> str:
    """The location as a sum, or the coordinate as a tuple of sums; modes of one element are left out.

    >>> formula(Layout(((128, 16), 1, (4, 2)), ((64, 1), 0, (16, 8192))))
    '64 i0 + i1 + 16 k0 + 8192 k1'
    """
    chosen = flatten(index_names(layout.shape) if names is None else names)
    terms = [(name, d) for name, (s, d) in zip(chosen, layout.leaves(), strict=True) if s != 1 and d != 0]
    if not layout.coordinate_valued() and not isinstance(offset, tuple):
        return _sum(terms, offset)
    return _coordinate_formula([(name, d.path, d.value) for name, d in terms if isinstance(d, Basis)], offset)


def _coordinate_formula(terms: list[tuple[str, tuple[int, ...], Any]], offset: Any) -> str:
    """The terms of one coordinate; those that move an entry inside of it are its entries' terms."""
    here = [(name, d) for name, path, d in terms if not path]
    entries = max([path[0] + 1 for _, path, _ in terms if path], default=0)
    if isinstance(offset, tuple):
        entries = max(entries, len(offset))
    if not entries:
        return _sum(here, offset)
    parts = []
    for i in range(entries):
        below = [(name, path[1:], d) for name, path, d in terms if path and path[0] == i]
        # A number added to a tuple of one is added to its entry, as the layout itself adds them.
        mine = [(name, (), d) for name, d in here] if entries == 1 else []
        inner = offset[i] if isinstance(offset, tuple) and i < len(offset) else 0
        parts.append(_coordinate_formula(mine + below, inner))
    return f"({', '.join(parts)})"


def _sum(terms: list[tuple[str, Any]], offset: Any) -> str:
    parts = [name if d == 1 else f"-{name}" if d == -1 else f"{_factor(d)} {name}" for name, d in terms]
    parts += [str(offset)] if offset != 0 else []
    return " + ".join(parts).replace("+ -", "- ") or "0"


def _factor(d: Any) -> str:
    text = str(d)
    return f"({text})" if "+" in text or "-" in text[1:] else text


# -- layouts ----------------------------------------------------------------------------------------------------------


def describe_layout(layout: Layout) -> Report:
    """A layout: its function, size, reach, order and vectors."""
    to = "coordinates of another tensor" if layout.coordinate_valued() else "locations"
    report = Report(f"{layout} is a layout, shape:stride: a function from coordinates to {to}")
    report.extend(layout_lines(layout))
    if layout.rank() == 2 and not layout.symbolic():
        threads, values = (number(m.size()) for m in layout)
        report.add(
            "as (T,V)", f"if it says which thread holds what: {counted(threads, 'thread')} of {values} values each"
        )
    return report


def layout_lines(layout: Layout, offset: Any = 0, unit: str = "", function: Any = None) -> Report:
    """The lines of a layout, also inside of a larger thing.

    `unit` names what its locations count, `function` is what gives the examples, where that is not the layout itself.
    """
    report = Report("")
    names = index_names(layout.shape)
    sizes = [to_text(product(m)) for m in modes(layout.shape)]
    total = f"{counted(len(sizes), 'mode')} of {listed(sizes)}: " if len(sizes) > 1 else ""
    below = f"{to_text(names)} below {to_text(layout.shape)}"
    report.add("coordinates", f"{below}; {total}{counted(layout.size(), 'coordinate')} in all")
    where = "lands on" if layout.coordinate_valued() else "location"
    report.add(where, f"{formula(layout, names, offset)}{unit}")
    if layout.symbolic():
        report.add("unknown", "? and names are known at run time only: what would need their values is left out")
    elif not layout.coordinate_valued() and not isinstance(offset, tuple):
        _add_examples(report, layout, function or (lambda i: layout(i) + offset))
        _add_reach(report, layout, offset)
        _add_order(report, layout, flatten(names))
    return report


def _add_examples(report: Report, layout: Layout, function: Any) -> None:
    size = number(layout.size())
    if size > 1:
        values = first_few([function(i) for i in range(min(9, size))], 8)
        report.add("counting", f"the flat indices 0, 1, 2, ... (first mode fastest) lie at {values}")


def _add_reach(report: Report, layout: Layout, offset: Any) -> None:
    if not isinstance(offset, int):
        return
    low, high = span(layout)
    reach = f"{low + offset} to {high + offset}" if low or offset else f"0 to {high} (cosize {high + 1})"
    try:
        collision = injective(layout)
    except Undecided:
        if layout.size() > high - low + 1:
            report.add("reaches", f"{reach}; not injective: there are more coordinates than locations")
            return
        report.add("reaches", f"{reach}; whether a location is taken twice was not decided: steps overlap, and {LIMIT}")
        report.add("", "elements are enumerated at most")
        return
    if collision is not None:
        first, second = (to_text(coordinate(layout, i)) for i in collision)
        there = layout(collision[0]) + offset
        report.add("reaches", f"{reach}; not injective: {first} and {second} both lie at {there}")
    elif layout.size() == high - low + 1:
        report.add("reaches", f"{reach}, each location exactly once: injective and without gaps (compact)")
    else:
        taken = f"{layout.size()} of {high - low + 1} locations are taken"
        report.add("reaches", f"{reach}, none twice (injective), with gaps: {taken}")


def _add_order(report: Report, layout: Layout, names: Sequence[str]) -> None:
    leaves = list(zip(names, layout.leaves(), strict=True))
    steps = sorted((abs(d), name, s, d) for name, (s, d) in leaves if s > 1 and d != 0)
    still = [name for name, (s, d) in leaves if s > 1 and d == 0]
    if steps:
        parts = [f"{name} ({counted(s, 'step')} of {d})" for _, name, s, d in steps]
        report.add("order", f"fastest in memory first: {', then '.join(parts)}")
    if still:
        verb = "does" if len(still) == 1 else "do"
        report.add("broadcast", f"{listed(still)} {verb} not move the location (stride 0)")
    add_vector(report, layout, names)


def add_vector(report: Report, x: Layout | ComposedLayout, names: Sequence[str], bits: int | None = None) -> None:
    """The line about the widest aligned run; `bits` is the width of an element, where it is known."""
    found = vector(x)
    if found.elements == 1:
        report.add("vectors", "no run of elements along a mode is contiguous and aligned: accesses of one element")
        return
    along = listed([names[i] for i in found.along], "then")
    run = f"{found.elements} elements along {along} lie side by side, aligned to their number where the base is"
    wide = "" if bits is None else f": accesses of up to {max(1, min(128, found.elements * bits) // 8)} bytes"
    report.add("vectors", f"{run}{wide}")


# -- swizzles ---------------------------------------------------------------------------------------------------------


def describe_swizzle(swizzle: Swizzle) -> Report:
    """A swizzle alone."""
    report = Report(f"{swizzle} is a swizzle: it xors bits of a number with other bits of it")
    report.extend(swizzle_lines(swizzle, None))
    return report


def period(swizzle: Swizzle) -> int:
    """The number of units after which the pattern repeats."""
    return 1 << (swizzle.base + swizzle.bits + abs(swizzle.shift))


def swizzle_lines(swizzle: Swizzle, element_bits: int | None) -> Report:
    """What a swizzle does, and what it counts."""
    report = Report("")
    if not swizzle.bits:
        report.add("swizzle", f"{swizzle} changes nothing")
        return report
    near, far = swizzle.base, swizzle.base + abs(swizzle.shift)
    changed, source = (near, far) if swizzle.shift > 0 else (far, near)
    bits = [listed(range(start, start + swizzle.bits)) for start in (changed, source)]
    kept = f"runs of {1 << near} stay together, the pattern repeats every {period(swizzle)}"
    noun = "bit" if swizzle.bits == 1 else "bits"
    report.add("swizzle", f"{noun} {bits[0]} are xor-ed with {noun} {bits[1]}; {kept}")
    report.extend(_unit_lines(swizzle, element_bits))
    return report


def _unit_lines(swizzle: Swizzle, element_bits: int | None) -> Report:
    report = Report("")
    if swizzle.unit_bits is None:
        as_bytes = Swizzle(swizzle.bits, swizzle.base, swizzle.shift, 8)
        report.add("unit", "the text does not say what the swizzle counts, and that decides where elements land:")
        report.add("", f"if bytes{_hardware(as_bytes)}, it acts as {_forms(as_bytes)}")
        report.add("", f"if elements of the layout, it acts as printed, which is {_byte_forms(swizzle)}")
        return report
    report.add("unit", f"it counts {unit_name(swizzle.unit_bits)}{_hardware(swizzle)}: {_forms(swizzle)}")
    if element_bits is not None and element_bits != swizzle.unit_bits:
        form = _counted_in(swizzle, element_bits)
        report.add("", f"this layout counts elements of {element_bits} bits: on them it is {form}")
    return report


def _plain(swizzle: Swizzle) -> str:
    return f"S<{swizzle.bits},{swizzle.base},{swizzle.shift}>"


def unit_name(bits: int) -> str:
    """What a swizzle with this unit counts."""
    return "bytes" if bits == 8 else f"units of {counted(bits, 'bit')}"


def _hardware(swizzle: Swizzle) -> str:
    width = HARDWARE_SWIZZLES.get((swizzle.bits, swizzle.base, swizzle.shift))
    return f" (the hardware's {width}-byte swizzle)" if width and swizzle.unit_bits == 8 else ""


def _counted_in(swizzle: Swizzle, bits: int) -> str:
    try:
        return _plain(swizzle.counted_in(bits))
    except LayoutError:
        return "no swizzle"


def _forms(swizzle: Swizzle) -> str:
    return listed([f"{_counted_in(swizzle, bits)} on {bits}-bit elements" for bits in (8, 16, 32)])


def _byte_forms(swizzle: Swizzle) -> str:
    bytes_of = {b: Swizzle(swizzle.bits, swizzle.base, swizzle.shift, b).counted_in(8) for b in (16, 32)}
    return listed([f"{_plain(s)} of bytes under {bits}-bit elements" for bits, s in bytes_of.items()])


# -- composed layouts -------------------------------------------------------------------------------------------------


def describe_composed(x: ComposedLayout) -> Report:
    """A swizzled layout, a coordinate tensor, or a layout of a layout."""
    if x.inner is None:
        return _describe_coordinates(x)
    if isinstance(x.inner, Layout):
        return _describe_layout_of_layout(x, x.inner)
    report = Report(f"{x} is a swizzled layout: a layout's location, and then bits of it xor-ed")
    report.extend(composed_lines(x))
    return report


def composed_lines(x: ComposedLayout, unit: str = "") -> Report:
    """The lines of a swizzled layout, also inside of a tensor."""
    report = Report("")
    assert isinstance(x.inner, Swizzle)
    known = x.inner.unit_bits is not None and x.element_bits is not None
    report.extend(layout_lines(x.outer, x.offset, f"{unit}, before the swizzle", x if known else None))
    hidden = ("vectors",) if known or not x.inner.bits else ("vectors", "counting")
    report.lines = [line for line in report.lines if line[0] not in hidden]
    report.extend(swizzle_lines(x.inner, x.element_bits))
    if not x.outer.symbolic():
        if known or not x.inner.bits:
            add_vector(report, x, flatten(index_names(x.shape)), x.element_bits)
        elif x.inner.unit_bits is None and isinstance(x.offset, int) and not x.outer.coordinate_valued():
            _add_both_readings(report, x, x.inner)
        _add_readings(report, x)
    return report


def _add_both_readings(report: Report, x: ComposedLayout, swizzle: Swizzle) -> None:
    """Places and vectors if the swizzle counts elements, and if it counts the bytes of 16-bit ones."""
    in_bytes = ComposedLayout(Swizzle(swizzle.bits, swizzle.base, swizzle.shift, 8), x.offset, x.outer, 16)
    for label, of, reading in (("if elements", "", x), ("if bytes", "of 16-bit elements: ", in_bytes)):
        try:
            values = [reading(i) for i in range(min(9, number(x.size())))]
        except LayoutError as e:
            report.add(label, f"{of}not possible, {e}")
            continue
        report.add(label, f"{of}the flat indices 0, 1, 2, ... lie at {first_few(values, 8)}")
        only = Report("")
        add_vector(only, reading, flatten(index_names(x.shape)))
        report.lines += [("", f"and {text}") for _, text in only.lines]


def _add_readings(report: Report, x: ComposedLayout) -> None:
    """An element that the swizzle moves; without a unit in the text, one on which two readings of it differ."""
    assert isinstance(x.inner, Swizzle)
    if x.inner.unit_bits is not None and x.element_bits is None:
        report.add("for example", "the width of the elements decides where they land: write [16b] before the layout")
    elif x.inner.unit_bits is None:
        in_bytes = ComposedLayout(Swizzle(x.inner.bits, x.inner.base, x.inner.shift, 8), x.offset, x.outer, 16)
        index = first_difference(x, in_bytes)
        if index is not None:
            at, read = to_text(coordinate(x, index)), f"at {in_bytes(index)} if it counts bytes under 16-bit ones"
            report.add("for example", f"{at} lies at {x(index)} if the swizzle counts elements, {read}")
    else:
        plain = ComposedLayout(Swizzle(0, 0, 0), x.offset, x.outer)
        index = first_difference(plain, x)
        if index is not None:
            at = to_text(coordinate(x, index))
            report.add("for example", f"{at}, the first that it moves, lies at {x(index)} and not at {plain(index)}")


def first_difference(a: ComposedLayout, b: ComposedLayout) -> int | None:
    """The first flat index at which the two differ; None where none was found."""
    try:
        return compare(a, b).first
    except LayoutError:
        return None


def _describe_layout_of_layout(x: ComposedLayout, inner: Layout) -> Report:
    report = Report(f"{x} is a layout of a layout: what the right one gives is the coordinate that the left one takes")
    report.add("first", f"{formula(x.outer, offset=x.offset)}, by {x.outer} from {to_text(x.offset)}")
    report.add("then", f"{formula(inner)}, by {inner}")
    return report


def _describe_coordinates(x: ComposedLayout) -> Report:
    report = Report(f"{x} is a coordinate tensor: it holds no data, each entry is a coordinate of another tensor")
    report.extend(layout_lines(x.outer, x.offset))
    start = to_text(x.offset)
    late = ": ? is known at run time only, as is what depends on the thread" if "?" in start else ""
    report.add("starts at", f"{start}{late}")
    report.add("read it", "n@m moves coordinate m by n: 1@1 goes along the second mode of the tensor it was made from")
    return report
