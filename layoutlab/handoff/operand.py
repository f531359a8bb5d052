"""An MMA operand's shared-memory layout, as CuTe's `make_smem_layout_a` builds it, and its descriptors.

>>> a = SmemOperand(rows=128, k=128, bits=16)
>>> print(a.swizzle_bytes, a.layout, a.matrix())
128 ((128,16),1,(4,2)):((64,1),0,(16,8192)) (128,(16,(4,2))):(64,(1,(16,8192)))
>>> a.starts_bytes
(0, 32, 64, 96, 16384, 16416, 16448, 16480)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.atoms.operand import K_BYTES
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.swizzle import Swizzle


@dataclass(frozen=True)
class SmemOperand:
    """A K-major operand of `rows` x `k` elements in the widest swizzle atom whose row divides the tile's.

    Atoms of 8 rows are stacked along the rows first, then along k. Where a row holds several atoms, k has three parts:
    k0 inside an instruction, k1 inside the atom, k2 the atom. Source: PTX ISA, tcgen05 canonical layouts (K-major);
    CUTLASS `sm100_smem_selector` for the choice of the atom.
    """

    rows: int
    k: int
    bits: int

    def __post_init__(self) -> None:
        if self.rows % 8 or self.k * self.bits % (8 * K_BYTES) or 8 * K_BYTES % self.bits:
            raise LayoutError(
                f"an operand of {self.rows} x {self.k} {self.bits}-bit elements "
                f"is not made of 8 rows and {K_BYTES} bytes of K"
            )

    @property
    def swizzle_bytes(self) -> Literal[32, 64, 128]:
        """The width of the atom's row."""
        row = self.k * self.bits // 8
        return 128 if row % 128 == 0 else 64 if row % 64 == 0 else 32

    @property
    def swizzle(self) -> Swizzle:
        """The atom's swizzle, as CuTe prints it beside a pointer: of byte addresses."""
        return Swizzle(self.swizzle_bytes.bit_length() - 5, 4, 3)

    @property
    def k_parts(self) -> tuple[int, int, int]:
        """Extents of k0, k1, k2."""
        k0, atom = 8 * K_BYTES // self.bits, 8 * self.swizzle_bytes // self.bits
        return k0, atom // k0, self.k // atom

    @property
    def layout(self) -> Layout:
        """((rows,k0),1,(k1,k2)) -> element, before the swizzle; a k2 of one atom is left out, as CuTe leaves it out."""
        k0, k1, k2 = self.k_parts
        atom = k0 * k1
        rest, stride = ((k1, k2), (k0, self.rows * atom)) if k2 > 1 else (k1, k0)
        return Layout(((self.rows, k0), 1, rest), ((atom, 1), 0, stride))

    def matrix(self, order: str = "012") -> Layout:
        """The same buffer as (m, k): k taken apart as k0, k1, k2, or, wrongly, with k2 before k1 ("021")."""
        k0, k1, k2 = self.k_parts
        atom = k0 * k1
        if k2 == 1:
            if order != "012":
                raise LayoutError(
                    f"k_order={order} needs a k of three parts, and {self.k} elements of {self.bits} bits lie in one "
                    f"swizzle atom of {self.swizzle_bytes} bytes: there is no k2"
                )
            return Layout((self.rows, (k0, k1)), (atom, (1, k0)))
        if order == "021":
            return Layout((self.rows, (k0, (k2, k1))), (atom, (1, (self.rows * atom, k0))))
        return Layout((self.rows, (k0, (k1, k2))), (atom, (1, (k0, self.rows * atom))))

    def descriptor(self, start: int = 0) -> SmemDescriptor:
        """The descriptor of the first K step: 8 rows of the atom lie `sbo` bytes before the next 8."""
        return SmemDescriptor(start=start, lbo=0, sbo=8 * self.swizzle_bytes, swizzle=self.swizzle_bytes)

    @property
    def starts_bytes(self) -> tuple[int, ...]:
        """How much further each K step starts: 32 bytes inside an atom, a whole column of atoms at the next."""
        _, k1, k2 = self.k_parts
        return tuple(j * K_BYTES + i * self.rows * self.swizzle_bytes for i in range(k2) for j in range(k1))
