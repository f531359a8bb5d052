"""Pointers and tensors in words: which memory, how aligned, how many bytes."""

from __future__ import annotations

from layoutlab.cli.words.layouts import describe_composed, layout_lines, swizzle_lines
from layoutlab.cli.words.report import Report, counted
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import product, to_text
from layoutlab.layout import Layout
from layoutlab.survey import number, numeric, span
from layoutlab.swizzle import ComposedLayout
from layoutlab.text import Opaque, Pointer, Tensor, Values, bits_of

SPACES = {
    "gmem": "global memory",
    "smem": "shared memory",
    "dsmem": "another block's shared memory",
    "rmem": "registers",
    "tmem": "tensor memory (TMEM)",
    "generic": "any memory (generic)",
    None: "memory of unknown kind",
}

LANE_WORDS = 1 << 16
"""A TMEM address holds the lane in its upper 16 bits and the 32-bit column in its lower ones."""


def describe_pointer(pointer: Pointer) -> Report:
    """A pointer alone."""
    report = Report(f"{pointer} is a pointer to {_elements(pointer)} in {SPACES[pointer.space]}")
    report.extend(pointer_lines(pointer))
    return report


def pointer_lines(pointer: Pointer) -> Report:
    """What a pointer says about memory, alignment and swizzle."""
    report = Report("")
    report.add("memory", f"{SPACES[pointer.space]}, {_elements(pointer)}")
    if pointer.align_bytes is not None and pointer.space != "tmem":
        report.add(
            "alignment", f"the address is a multiple of {counted(pointer.align_bytes, 'byte')}: {_widest(pointer)}"
        )
    if pointer.swizzle is not None and pointer.swizzle.bits:
        report.extend(swizzle_lines(pointer.swizzle, pointer.bits))
        _add_base(report, pointer)
    return report


def _elements(pointer: Pointer) -> str:
    size = f"{pointer.bits // 8} bytes" if pointer.bits % 8 == 0 and pointer.bits > 8 else counted(pointer.bits, "bit")
    return f"elements of {f'{pointer.dtype}, ' if pointer.dtype else ''}{size}"


def _widest(pointer: Pointer) -> str:
    width = min(16, (pointer.align_bytes or 1) & -(pointer.align_bytes or 1))
    return f"accesses of up to {counted(width, 'byte')} are aligned at the start"


def _add_base(report: Report, pointer: Pointer) -> None:
    swizzle, align = pointer.swizzle, pointer.align_bytes
    assert swizzle is not None
    period = 1 << (swizzle.base + swizzle.bits + abs(swizzle.shift))
    report.add(
        "addresses", "the swizzle sits on the pointer: it acts on byte addresses, after the layout has been added"
    )
    if align is None:
        report.add(
            "",
            f"it acts on offsets in the same way if the base is a multiple of {period} bytes, which is not in the text",
        )
    elif align % period == 0:
        report.add(
            "", f"the base is a multiple of {period}, the swizzle's period, so offsets may be swizzled just as well"
        )
    else:
        report.add(
            "",
            f"the base is a multiple of {align} only, the swizzle's period is {period}: swizzled offsets need not be swizzled addresses",
        )


def describe_tensor(tensor: Tensor) -> Report:
    """A printed tensor."""
    if isinstance(tensor.iterator, Opaque):
        return _describe_opaque(tensor, tensor.iterator)
    pointer = tensor.iterator
    report = Report(f"{tensor} is a tensor in {SPACES[pointer.space]}: a pointer and the layout of what it points to")
    report.extend(pointer_lines(pointer))
    if isinstance(tensor.layout, ComposedLayout):
        report.extend(describe_composed(tensor.layout))
        if pointer.swizzle is None:
            report.add(
                "elements",
                f"the swizzle sits in the layout, beside {pointer.bits}-bit elements: it acts on offsets in elements",
            )
        return report
    if pointer.space == "tmem":
        report.extend(_tmem_lines(pointer, tensor.layout))
        return report
    report.extend(layout_lines(tensor.layout, unit=" elements after the pointer"))
    _add_bytes(report, pointer, tensor.layout)
    if pointer.swizzle is not None and pointer.swizzle.bits:
        _replace_vectors(report, tensor)
    return report


def _replace_vectors(report: Report, tensor: Tensor) -> None:
    """The run that the pointer's swizzle leaves together, instead of the plain layout's."""
    report.lines = [line for line in report.lines if line[0] != "vectors"]
    try:
        swizzled = tensor.swizzled_layout()
        assert isinstance(swizzled, ComposedLayout)
        report.lines += [line for line in describe_composed(swizzled).lines if line[0] in ("vectors", "for example")]
    except LayoutError as e:
        report.add("vectors", str(e))


def _add_bytes(report: Report, pointer: Pointer, layout: Layout) -> None:
    if layout.symbolic():
        return
    low, high = span(layout)
    bits = (high - low + 1) * pointer.bits
    size = f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits"
    if pointer.space == "rmem":
        report.add(
            "registers",
            f"{layout.size()} values a thread, {-(-number(layout.cosize()) * pointer.bits // 32)} registers of 32 bits",
        )
    else:
        report.add("takes", f"{size} from its first element to its last")


def _tmem_lines(pointer: Pointer, layout: Layout) -> Report:
    """Lanes and columns of a TMEM tensor: its strides count elements, 65536 columns being one lane."""
    report = Report("")
    report.extend(layout_lines(layout))
    report.lines = [line for line in report.lines if line[0] in ("coordinates", "location", "unknown", "broadcast")]
    lane = LANE_WORDS * 32 // pointer.bits
    report.add("addresses", f"a step of {lane} elements is one lane, and {_per_column(pointer.bits)}")
    if layout.symbolic() or layout.coordinate_valued() or not numeric(layout):
        return report
    lanes, elements = 0, 0
    for extent, stride in layout.leaves():
        lanes += (extent - 1) * (stride // lane)
        elements += (extent - 1) * (stride % lane)
    report.add(
        "spans", f"{counted(lanes + 1, 'lane')} and {counted(-(-(elements + 1) * pointer.bits // 32), 'column')}"
    )
    return report


def _per_column(bits: int) -> str:
    return "a step of 1 is one 32-bit column" if bits == 32 else f"{32 // bits} elements share a 32-bit column"


def _describe_opaque(tensor: Tensor, iterator: Opaque) -> Report:
    if iterator.descriptors:
        shown = f"... o {tensor.layout}"
        report = Report(f"{shown} is an operand of an MMA: a layout of shared memory descriptors, not of elements")
        report.add(
            "units", "a step counts 16-byte units of shared memory: it is added to the descriptor's start address"
        )
    else:
        report = Report(f"... o {tensor.layout} is a tensor whose iterator is a value of the compiler")
    if isinstance(tensor.layout, Layout):
        report.extend(layout_lines(tensor.layout, unit=" units of 16 bytes" if iterator.descriptors else ""))
        report.lines = [line for line in report.lines if line[0] not in ("vectors",)]
        if iterator.descriptors and not tensor.layout.symbolic():
            starts = [tensor.layout(i) * 16 for i in range(min(8, number(tensor.layout.size())))]
            report.add(
                "bytes",
                f"the instructions start {', '.join(map(str, starts))}{', ...' if tensor.layout.size() > 8 else ''} bytes after the first",
            )
    return report


def describe_values(values: Values) -> Report:
    """A register value of CuTe DSL."""
    report = Report(f"{values} is a value in registers: {values.count} elements of {values.dtype} in each thread")
    report.add("shape", f"{to_text(values.shape)}, {product(values.shape)} coordinates, first mode fastest")
    bits = bits_of(values.dtype)
    if bits is not None:
        report.add("registers", counted(-(-values.count * bits // 32), "register") + " of 32 bits")
    return report
