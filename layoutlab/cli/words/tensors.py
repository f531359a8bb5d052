"""Pointers and tensors in words: which memory, how aligned, how many bytes."""

from __future__ import annotations

from layoutlab.cli.words.layouts import composed_lines, describe_composed, layout_lines, period, swizzle_lines
from layoutlab.cli.words.report import Report, counted, first_few
from layoutlab.int_tuple import product, to_text
from layoutlab.layout import Layout
from layoutlab.survey import number, span
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.text import Opaque, Pointer, Tensor, Values, bits_of

SPACES = {
    "gmem": "global memory",
    "smem": "shared memory",
    "dsmem": "another block's shared memory",
    "rmem": "registers",
    "tmem": "tensor memory (TMEM)",
    "generic": "any memory (generic)",
    None: "a memory that the text does not name",
}

LANE = 1 << 16
"""A TMEM address holds the lane in its upper 16 bits and the 32-bit column in its lower ones."""


def describe_pointer(pointer: Pointer) -> Report:
    """A pointer alone."""
    report = Report(f"{pointer} is a pointer into {SPACES[pointer.space]}")
    report.extend(pointer_lines(pointer))
    return report


def pointer_lines(pointer: Pointer) -> Report:
    """What a pointer says about memory, alignment and swizzle."""
    report = Report("")
    report.add("memory", f"{SPACES[pointer.space]}, {_elements(pointer)}")
    if pointer.align_bytes is not None and pointer.space not in ("tmem", "rmem"):
        width = counted(min(16, pointer.align_bytes & -pointer.align_bytes), "byte")
        known = f"the address is a multiple of {counted(pointer.align_bytes, 'byte')}"
        report.add("alignment", f"{known}: accesses of up to {width} are aligned there")
    if pointer.swizzle is not None and pointer.swizzle.bits:
        report.extend(swizzle_lines(pointer.swizzle, pointer.bits))
        _add_base(report, pointer, pointer.swizzle)
    return report


def _elements(pointer: Pointer) -> str:
    wide = pointer.bits % 8 == 0
    size = counted(pointer.bits // 8, "byte") if wide else counted(pointer.bits, "bit")
    return f"elements of {f'{pointer.dtype}, ' if pointer.dtype else ''}{size}"


def _add_base(report: Report, pointer: Pointer, swizzle: Swizzle) -> None:
    report.add("addresses", "the swizzle sits on the pointer: it acts on byte addresses, after the layout was added")
    every, align = period(swizzle), pointer.align_bytes
    if align is None:
        report.add("", f"if the base is a multiple of {every} bytes, it acts on offsets from it in the same way")
    elif align % every == 0:
        report.add("", f"the base is a multiple of {every} bytes, its period: it acts on offsets in the same way")
    else:
        report.add(
            "", f"the base is a multiple of {align} bytes only and its period is {every}: swizzling offsets from"
        )
        report.add("", "the base instead of addresses would give other places")


def describe_tensor(tensor: Tensor) -> Report:
    """A printed tensor."""
    if isinstance(tensor.iterator, Opaque):
        return _describe_opaque(tensor, tensor.iterator)
    pointer, layout = tensor.iterator, tensor.layout
    space = SPACES[pointer.space]
    report = Report(f"{tensor} is a tensor in {space}: a pointer, and the layout of the elements from there on")
    report.extend(pointer_lines(pointer))
    if isinstance(layout, ComposedLayout):
        report.extend(_swizzled_offsets(pointer, layout))
    elif pointer.space == "tmem":
        report.extend(_tmem_lines(pointer, layout))
    elif pointer.swizzle is not None and pointer.swizzle.bits and not layout.symbolic():
        swizzled = composed_lines(ComposedLayout(pointer.swizzle, 0, layout, pointer.bits), " elements")
        report.lines += [line for line in swizzled.lines if line not in report.lines]
        _add_bytes(report, pointer, layout)
    else:
        report.extend(layout_lines(layout, unit=" elements after the pointer"))
        _add_bytes(report, pointer, layout)
    return report


def _swizzled_offsets(pointer: Pointer, layout: ComposedLayout) -> Report:
    """A swizzle in the layout of a tensor acts on offsets in elements, whatever the pointer does."""
    if not isinstance(layout.inner, Swizzle) or layout.inner.unit_bits is not None:
        return describe_composed(layout)
    inner = Swizzle(layout.inner.bits, layout.inner.base, layout.inner.shift, pointer.bits)
    report = composed_lines(ComposedLayout(inner, layout.offset, layout.outer, pointer.bits), " elements")
    report.add("offsets", "the swizzle sits in the layout: it acts on offsets from the pointer, counted in elements")
    return report


def _add_bytes(report: Report, pointer: Pointer, layout: Layout) -> None:
    if layout.symbolic() or layout.coordinate_valued():
        return
    low, high = span(layout)
    bits = (high - low + 1) * pointer.bits
    if pointer.space == "rmem":
        report.add("registers", f"{layout.size()} values a thread, {counted(-(-bits // 32), 'register')} of 32 bits")
    else:
        size = counted(bits // 8, "byte") if bits % 8 == 0 else counted(bits, "bit")
        report.add("takes", f"{size}, from its first element to its last")


def _tmem_lines(pointer: Pointer, layout: Layout) -> Report:
    """Lanes and columns of a TMEM tensor, whose strides count elements."""
    report = layout_lines(layout)
    report.lines = [line for line in report.lines if line[0] in ("coordinates", "location", "unknown", "broadcast")]
    lane = LANE * 32 // pointer.bits
    column = "is one 32-bit column" if pointer.bits == 32 else f"is one of {32 // pointer.bits} in a 32-bit column"
    report.add("addresses", f"a step of {lane} is one lane, a step of 1 {column}: the strides count elements")
    if layout.symbolic() or layout.coordinate_valued() or any(d < 0 for _, d in layout.leaves()):
        return report
    lanes = sum((s - 1) * (d // lane) for s, d in layout.leaves()) + 1
    elements = sum((s - 1) * (d % lane) for s, d in layout.leaves()) + 1
    report.add("spans", f"{counted(lanes, 'lane')} and {counted(-(-elements * pointer.bits // 32), 'column')}")
    return report


def _describe_opaque(tensor: Tensor, iterator: Opaque) -> Report:
    layout = tensor.layout
    if iterator.space is not None:
        report = Report(f"{tensor} is a tensor in {SPACES[iterator.space]}: an address, and the layout from there on")
        report.add("elements", "the text does not say of which type: what follows counts elements")
        report.extend(layout_lines(layout) if isinstance(layout, Layout) else describe_composed(layout))
        return report
    if not iterator.descriptors:
        report = Report(f"... o {layout} is a tensor whose iterator is a value of the compiler")
        report.extend(layout_lines(layout) if isinstance(layout, Layout) else describe_composed(layout))
        return report
    report = Report(
        f"... o {layout} is an operand of an MMA: it runs over shared memory descriptors, not over elements"
    )
    report.add("units", "a step is 16 bytes of shared memory, which is added to the descriptor's start address")
    if isinstance(layout, Layout):
        report.extend(layout_lines(layout, unit=" units of 16 bytes"))
        report.lines = [line for line in report.lines if line[0] not in ("vectors", "order", "reaches")]
        if not layout.symbolic():
            starts = first_few([layout(i) * 16 for i in range(min(9, number(layout.size())))], 8)
            report.add("bytes", f"the instructions read from {starts} bytes after the first start address")
    return report


def describe_values(values: Values) -> Report:
    """A register value of CuTe DSL."""
    report = Report(f"{values} is a value in registers: {values.count} elements of {values.dtype} in each thread")
    report.add("shape", f"{to_text(values.shape)}, {product(values.shape)} coordinates, first mode fastest")
    bits = bits_of(values.dtype)
    if bits is not None:
        report.add("registers", f"{counted(-(-values.count * bits // 32), 'register')} of 32 bits")
    return report
