"""tcgen05.mma as an atom: the CTAs as its threads, its accumulator and perhaps A in Tensor Memory.

>>> from layoutlab.tv.mma import make_tiled_mma
>>> mma = make_tiled_mma(tcgen05_mma(128, 128, cta_group=2))
>>> mma.make_fragment_C(mma.partition_shape_C((128, 128)))
((64,(64,2)),1,1):((65536,(1,4194304)),0,0)

Sources: PTX ISA, tcgen05 "Data path layout organization"; CUTLASS include/cute/atom/mma_traits_sm100.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from layoutlab.algebra import composition
from layoutlab.atoms.datapath import LANE_COLUMNS, accumulator_layout, operand_copies, operand_layout
from layoutlab.atoms.tmem import WORD_BITS
from layoutlab.errors import LayoutError
from layoutlab.int_tuple import flatten, product, to_text
from layoutlab.layout import Layout, make_layout
from layoutlab.survey import number
from layoutlab.tv.mma import MmaAtom, Operand
from layoutlab.tv.views import descriptor_view

Source = Literal["smem", "tmem"]
"""Where tcgen05.mma takes A from."""


@dataclass(frozen=True, repr=False)
class TmemMmaAtom(MmaAtom):
    """A tcgen05.mma: A's width in bits, the CTAs that share it, and where A comes from; C is in Tensor Memory."""

    bits: int
    cta_group: int
    a_from: Source

    def fragment(self, operand: Operand, part: Any, bits: int) -> Layout:
        """Tensor Memory addresses of a part of C, or of A in Tensor Memory; the descriptors of one in shared memory."""
        m, n, k = flatten(self.shape_mnk)
        if operand == "C":
            base = accumulator_layout(m, n, self.cta_group, bits=bits)
            return _fragment(base, part, bits, halves=(m, self.cta_group, self.a_from) == (64, 1, "smem"))
        if operand == "A" and self.a_from == "tmem":
            base = operand_layout(m, k, self.bits, self.cta_group)
            return _fragment(base, part, self.bits, copies=operand_copies(m, self.cta_group))
        self.descriptors(operand, part)
        return descriptor_view(part, self.bits)


def _fragment(base: Layout, shape: tuple[Any, ...], bits: int, halves: bool = False, copies: int = 1) -> Layout:
    """One instruction's part, and the others in columns behind it; those of 16 lanes a warp first fill both halves."""
    lane = LANE_COLUMNS * WORD_BITS // bits
    if product(shape[0]) * copies != base.size():
        raise LayoutError(f"a part of {to_text(shape)} is none of this MMA's, which has {base.size()} elements in one")
    count, columns = number(product(shape[1:])), _columns(base, lane)
    if halves and count > 1 and count % 2:
        raise LayoutError(
            f"{count} accumulators of 64 rows, two of which share the lanes of each warp: take an even count"
        )
    places = Layout((2, count // 2), (16 * lane, columns)) if halves and count > 1 else Layout(count, columns)
    return make_layout(base, *composition(places, Layout(shape[1:])))


def _columns(base: Layout, lane: int) -> int:
    """Steps along the columns that a layout takes, from its first to behind its last."""
    return number(1 + sum((s - 1) * d for s, d in base.leaves() if d < lane))


def tcgen05_mma(m: int, n: int, bits: int = 16, cta_group: int = 1, a_from: Source = "smem") -> TmemMmaAtom:
    """The atom of tcgen05.mma: one thread of each CTA issues it for all, so its "threads" are the CTAs.

    >>> tcgen05_mma(256, 128, cta_group=2).b
    (2,(64,16)):(64,(1,128))

    bits is the width of A's and B's elements, 16, 32 or 8. Each CTA has half of the rows of A and C, and of B's.
    """
    accumulator_layout(m, n, cta_group)
    if bits not in (8, 16, 32):
        raise LayoutError(f"tcgen05.mma multiplies elements of 8, 16 or 32 bits, not of {bits}")
    k = 256 // bits
    a, b, c = (
        Layout((cta_group, (rows // cta_group, columns)), (rows // cta_group, (1, rows)))
        for rows, columns in ((m, k), (n, k), (m, n))
    )
    thr = Layout(cta_group, 0 if cta_group == 1 else 1)
    return TmemMmaAtom(thr, (m, n, k), a, b, c, bits, cta_group, a_from)
