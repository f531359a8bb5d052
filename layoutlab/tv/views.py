"""Descriptor views: an operand in shared memory as the matrix descriptors that read it, one for each instruction.

>>> from layoutlab.swizzle import Swizzle
>>> sA = ComposedLayout(Swizzle(3, 4, 3), 0, Layout(((128, 16), 1, (4, 2), 3), ((64, 1), 0, (16, 8192), 16384)))
>>> descriptor_view(sA, element_bits=16)
(1,1,(4,2),3):(0,0,(2,1024),2048)

The view counts the 16-byte units of a descriptor's start field: two for each K step inside of the swizzle's atom. CuTe
DSL makes one of any layout; here it has to be canonical.

Source: CUTLASS include/cute/arch/mma_sm100_desc.hpp, mma_sm90_desc.hpp (DescriptorIterator).
"""

from __future__ import annotations

from typing import Any

from layoutlab.atoms.descriptors import CORE_BYTES
from layoutlab.atoms.operand import Operand, descriptor_of
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import map_leaves
from layoutlab.layout import Layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle
from layoutlab.text.records import Tensor
from layoutlab.tv.division import Partitioned, outer_of

UNIT_BITS = 8 * CORE_BYTES


def descriptor_view(part: Partitioned, element_bits: int) -> Layout:
    """(1, rest of rows, rest of K, ...) -> 16-byte units from the first instruction's descriptor on.

    >>> descriptor_view(Layout(((128, 16), 1, 8), ((512, 1), 0, 16)), element_bits=16)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: (128,16):(512,1) is K-major with rows 1024 bytes apart and no swizzle: no ...

    part is an operand as an MMA partitions it, ((rows, k), rest of rows, rest of K, ...), in elements of that width.
    Raises LayoutError where no descriptor reads an instruction's part, or a step is no whole number of units.
    """
    operand_of(part, element_bits)
    rest = list(outer_of(part))[1:]
    return make_layout(Layout(1, 0), *(_in_units(mode, element_bits) for mode in rest))


def operand_of(part: Partitioned, element_bits: int) -> Operand:
    """The descriptor of the first instruction's part.

    >>> operand_of(Layout(((8, 8), (8, 2)), ((8, 64), (1, 512))), element_bits=16).descriptor.lbo
    1024
    """
    outer = outer_of(part)
    one = outer if outer.rank() == 2 else outer[0]
    if one.rank() != 2:
        raise LayoutError(f"{outer} is no operand: ((rows, k), rest of rows, rest of K, ...), as an MMA partitions it")
    inner, offset = behind(part)
    if not isinstance(offset, int) or offset * element_bits % UNIT_BITS:
        raise LayoutError(f"{part} begins {offset} elements in: descriptors begin at multiples of {CORE_BYTES} bytes")
    return descriptor_of(one if inner is None else ComposedLayout(inner, 0, one, element_bits), element_bits)


def behind(part: Partitioned) -> tuple[Swizzle | None, Any]:
    """The swizzle and the offset behind the layout of the coordinates."""
    if isinstance(part, Tensor):
        part = part.swizzled_layout()
    if not isinstance(part, ComposedLayout):
        return None, 0
    if part.inner is not None and not isinstance(part.inner, Swizzle):
        raise LayoutError(f"{part}: an operand in shared memory is a swizzle over a layout")
    return part.inner, part.offset


def _in_units(mode: Layout, element_bits: int) -> Layout:
    def units(stride: Any) -> Any:
        if not isinstance(stride, int) or stride * element_bits % UNIT_BITS:
            raise LayoutError(
                f"{mode} steps by {stride} elements of {element_bits} bits: descriptors begin at multiples of "
                f"{CORE_BYTES} bytes"
            )
        return stride * element_bits // UNIT_BITS

    return Layout(mode.shape, map_leaves(units, mode.stride))
