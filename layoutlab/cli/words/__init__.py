"""Words: what printed layouts, tensors, copies and MMAs are, said in sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutlab.cli.words.copies import describe_copy_atom, describe_tiled_copy
from layoutlab.cli.words.layouts import describe_composed, describe_layout, describe_swizzle
from layoutlab.cli.words.mmas import describe_mma_atom, describe_tiled_mma
from layoutlab.cli.words.report import Report
from layoutlab.cli.words.tensors import describe_pointer, describe_tensor, describe_values
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import Basis, flatten, product
from layoutlab.layout import Layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.symbol import Sym
from layoutlab.text import CopyAtom, MmaAtom, Pointer, Tensor, TiledCopy, TiledMma, Values
from layoutlab.text.records import tiler_text

_DESCRIBE: dict[type, Callable[[Any], Report]] = {
    Layout: describe_layout,
    ComposedLayout: describe_composed,
    Swizzle: describe_swizzle,
    Tensor: describe_tensor,
    Pointer: describe_pointer,
    Values: describe_values,
    CopyAtom: describe_copy_atom,
    TiledCopy: describe_tiled_copy,
    MmaAtom: describe_mma_atom,
    TiledMma: describe_tiled_mma,
}


def describe(x: Any) -> Report:
    """What a parsed value is, line by line."""
    known = _DESCRIBE.get(type(x))
    return known(x) if known is not None else _describe_tuple(x)


PASTED = (
    "paste what a kernel printed: a layout (8,64):(64,1), a swizzled one S<3,4,3> o 0 o (8,64):(64,1), a tensor "
    "tensor<ptr<bf16, smem, align<1024>> o (8,64):(64,1)>, a tiled copy or an MMA"
)


def _describe_tuple(x: Any) -> Report:
    leaves = flatten(x)
    if any(isinstance(leaf, Basis) for leaf in leaves):
        return _describe_strides(x, leaves)
    if isinstance(x, Sym) and not x.anonymous:
        raise LayoutError(f"{x} is a name and no layout; {PASTED}")
    if any(isinstance(leaf, Layout) for leaf in leaves):
        report = Report(f"{tiler_text(x)} is a tiler: mode by mode, which part of a tensor belongs to one tile")
        for mode, entry in enumerate(x):
            part = entry if isinstance(entry, Layout) else None
            what = "the whole mode" if entry is None else f"{part.size() if part else product(entry)} elements"
            order = (
                ""
                if part is None or (part.shape == part.size() and part.stride in (0, 1))
                else f", in the order of {part}"
            )
            report.add(f"mode {mode}", f"{what}{order}")
        return report
    if isinstance(x, tuple):
        report = Report(f"{tiler_text(x)} is a tuple: a shape, or a coordinate where `_` stands for a whole mode")
        if None not in leaves:
            report.add("as a shape", f"{len(x)} modes, {product(x)} coordinates")
        report.add("no strides", "a layout also has strides, as in (8,64):(64,1)")
        return report
    return Report(f"{tiler_text(x)} is a number, not a layout: a layout has a shape and strides, as in 8:1")


def _describe_strides(x: Any, leaves: tuple[Any, ...]) -> Report:
    named = [leaf for leaf in leaves if isinstance(leaf, Basis) and isinstance(leaf.value, Sym)]
    if named and not isinstance(x, tuple):
        raise LayoutError(f"{tiler_text(x)} is a name with a mode and no layout; {PASTED}")
    what = "a tuple of strides" if isinstance(x, tuple) else "a stride"
    report = Report(f"{tiler_text(x)} is {what} of a coordinate layout, not a shape: n@m moves coordinate m by n")
    report.add("no shape", "a layout also has a shape before them, as in (8,64):(1@0,1@1)")
    return report
