"""Block scale factors: from shared memory by tcgen05.cp into Tensor Memory, where tcgen05.mma reads them.

tcgen05.cp copies lines of 16 or 32 bytes, each into one lane, or into lanes of several warps at once:

    128x256b                 128 lines of 32 bytes      line l to lane l
    128x128b                 128 lines of 16 bytes      line l to lane l
    4x256b                   4 lines of 32 bytes        line l to lane 32 l
    64x128b.warpx2::02_13    64 lines of 16 bytes       line l to lanes l and l + 64
    64x128b.warpx2::01_23    64 lines of 16 bytes       line l to lanes l and l + 32, from line 32 on 32 lanes further
    32x128b.warpx4           32 lines of 16 bytes       line l to lanes l, l + 32, l + 64 and l + 96

The MMA wants the scale factor of row r and vector s, one byte, in lane r % 32 of every warp, in byte s % 4 of the
32-bit column r / 32; the next 4 vectors lie behind all rows. So 32x128b.warpx4 needs rows 0, 32, 64 and 96 side by
side in a line, four bytes each, and rows come padded to 128, vectors to 4:

>>> print(scale_layout(128, 4))                          # (row, vector) -> byte of shared memory
((32,4),4):((16,4),1)
>>> check_scales(Layout((128, 4), (4, 1)))               # stored row after row
Traceback (most recent call last):
layoutlab.errors.LayoutError: line 0 holds rows 0, 1, 2, 3, and the MMA needs 0, 32, 64, 96: 126 of 128 words are wrong

Sources: PTX ISA, "tcgen05.cp", "Scale factor layout"; CUTLASS include/cute/atom/copy_traits_sm100.hpp (SM100_UTCCP_*),
mma_traits_sm100_frag.hpp (tmem_sf_frg), include/cutlass/detail/sm100_blockscaled_layout.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from layoutlab.atoms.descriptors import SmemDescriptor
from layoutlab.digits import Map, beside, strided_over
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 128  # rows of one block of scale factors
VECTORS = 4  # vectors of one block: the bytes of a word
BLOCK_BYTES = ROWS * VECTORS
WARP_ROWS = 32


@dataclass(frozen=True)
class _Shape:
    """Lines by how they go to lanes, (extent, lanes apart), fastest first; copies of each line likewise; bits of a
    line."""

    lines: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, int], ...]
    bits: int
    source: str


_SHAPES: dict[str, _Shape] = {
    "128x256b": _Shape(((128, 1),), (), 256, "SM100_UTCCP_128dp256bit"),
    "128x128b": _Shape(((128, 1),), (), 128, "SM100_UTCCP_128dp128bit"),
    "4x256b": _Shape(((4, 32),), (), 256, "SM100_UTCCP_4dp256bit"),
    "64x128b.warpx2::02_13": _Shape(((64, 1),), ((2, 64),), 128, "SM100_UTCCP_2x64dp128bitlw0213"),
    "64x128b.warpx2::01_23": _Shape(((32, 1), (2, 64)), ((2, 32),), 128, "SM100_UTCCP_2x64dp128bitlw0123"),
    "32x128b.warpx4": _Shape(((32, 1),), ((4, 32),), 128, "SM100_UTCCP_4x32dp128bit"),
}


@dataclass(frozen=True)
class TmemCopy:
    """One tcgen05.cp, from shared memory to Tensor Memory.

    >>> copy = TmemCopy("32x128b.warpx4")
    >>> copy.lines, copy.columns, copy.copies
    (32, 4, 4)
    >>> TmemCopy("32x128b")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: tcgen05.cp has no shape 32x128b: did you mean 32x128b.warpx4?
    """

    shape: str

    def __post_init__(self) -> None:
        if self.shape not in _SHAPES:
            near = [s for s in _SHAPES if s.startswith(self.shape)]
            raise LayoutError(f"tcgen05.cp has no shape {self.shape}: did you mean {' or '.join(near or _SHAPES)}?")

    @property
    def lines(self) -> int:
        """Lines read from shared memory."""
        return _product(_SHAPES[self.shape].lines)

    @property
    def copies(self) -> int:
        """Lanes that each line is written to."""
        return _product(_SHAPES[self.shape].copies)

    @property
    def columns(self) -> int:
        """32-bit columns written."""
        return self.line_bits // 32

    @property
    def line_bits(self) -> int:
        """Bits of one line."""
        return _SHAPES[self.shape].bits

    def line_modes(self) -> tuple[tuple[int, int], ...]:
        """(extent, lanes apart) of the lines, fastest first: how they spread over lanes.

        >>> TmemCopy("64x128b.warpx2::01_23").line_modes()
        ((32, 1), (2, 64))
        """
        return _SHAPES[self.shape].lines

    def copy_modes(self) -> tuple[tuple[int, int], ...]:
        """(extent, lanes apart) of the lanes that one line goes to; nothing where it goes to one.

        >>> TmemCopy("32x128b.warpx4").copy_modes()
        ((4, 32),)
        """
        return _SHAPES[self.shape].copies

    @property
    def source(self) -> str:
        """The CUTLASS struct that says the same."""
        return _SHAPES[self.shape].source

    def lane_map(self) -> Map:
        """(line, copy, bit) -> (lane, bit): lane and bit of the lane from the address on.

        >>> TmemCopy("64x128b.warpx2::01_23").lane_map()(line=33, copy=1, bit=8)
        {'lane': 97, 'bit': 8}
        """
        row = _SHAPES[self.shape]
        axes = {"line": list(row.lines), "copy": list(row.copies), "bit": [(row.bits, 0)]}
        along = {"line": [(self.lines, 0)], "copy": [(self.copies, 0)], "bit": [(row.bits, 1)]}
        return beside(strided_over(axes, "lane"), strided_over(along, "bit"))

    def read_bytes(self, desc: SmemDescriptor) -> NDArray[np.int64]:
        """[line, byte] -> byte of shared memory, read by a K-major descriptor.

        >>> lines = TmemCopy("32x128b.warpx4").read_bytes(SmemDescriptor(start=0, lbo=0, sbo=128, swizzle=0))
        >>> lines[:2, :2].tolist(), int(lines[8, 0])
        ([[0, 1], [16, 17]], 128)
        """
        return desc.addresses(self.lines, _SHAPES[self.shape].bits // 8, 8)


def _product(modes: tuple[tuple[int, int], ...]) -> int:
    found = 1
    for extent, _ in modes:
        found *= extent
    return found


def scale_map(rows: int, vectors: int) -> Map:
    """(row, vector, warp) -> (lane, byte): where tcgen05.mma reads the scale factors of A, or of B for its N.

    >>> scale_map(128, 8)(row=70, vector=5, warp=3)
    {'lane': 102, 'byte': 25}

    byte counts along the lane from the scale factors' address; warp counts the four copies. rows is a multiple of 32,
    vectors of 4.
    """
    if rows % WARP_ROWS or vectors % VECTORS or not rows or not vectors:
        raise LayoutError(f"{rows} rows and {vectors} vectors: scale factors come in 32 rows and 4 vectors")
    groups = rows // WARP_ROWS
    lane = {"row": [(WARP_ROWS, 1), (groups, 0)], "vector": [(vectors, 0)], "warp": [(4, WARP_ROWS)]}
    behind = (vectors // VECTORS, VECTORS * groups)
    byte = {"row": [(WARP_ROWS, 0), (groups, VECTORS)], "vector": [(VECTORS, 1), behind], "warp": [(4, 0)]}
    return beside(strided_over(lane, "lane"), strided_over(byte, "byte"))


def padded(rows: int, vectors: int) -> tuple[int, int]:
    """Rows and vectors for which shared memory has to have room.

    >>> padded(96, 6)
    (128, 8)
    """
    return -(-rows // ROWS) * ROWS, -(-vectors // VECTORS) * VECTORS


def scale_layout(rows: int, vectors: int) -> Layout:
    """(row, vector) -> byte of shared or global memory: blocks of 512 bytes, vectors first, then rows.

    >>> print(scale_layout(256, 8))
    (((32,4),2),(4,2)):(((16,4),1024),(1,512))

    Rows are padded to 128 and vectors to 4, so the layout is that of `padded(rows, vectors)`.
    """
    rows, vectors = padded(rows, vectors)
    blocks_down, blocks_along = rows // ROWS, vectors // VECTORS
    row_shape, row_stride = (32, 4), (16, 4)
    if blocks_down == blocks_along == 1:
        return Layout((row_shape, VECTORS), (row_stride, 1))
    if blocks_down == 1:
        return Layout((row_shape, (VECTORS, blocks_along)), (row_stride, (1, BLOCK_BYTES)))
    down = (row_stride, BLOCK_BYTES * blocks_along)
    return Layout(((row_shape, blocks_down), (VECTORS, blocks_along)), (down, (1, BLOCK_BYTES)))


def check_scales(stored: Layout) -> int:
    """How many words 32x128b.warpx4 brings to where the MMA reads them; refuses a block of which any goes elsewhere.

    >>> check_scales(scale_layout(128, 4))
    128

    stored is (128 rows, 4 vectors) -> byte, from the block's first byte.
    """
    import numpy as np

    if (stored[0].size(), stored[1].size()) != (ROWS, VECTORS):
        raise LayoutError(f"{stored} is no block of {ROWS} rows and {VECTORS} vectors")
    row, vector = np.indices((ROWS, VECTORS))
    wanted = scale_map(ROWS, VECTORS)(row=row, vector=vector, warp=0)
    line_of = TmemCopy("32x128b.warpx4").read_bytes(SmemDescriptor(start=0, lbo=0, sbo=128, swizzle=0))
    brought = line_of[wanted["lane"], wanted["byte"]]  # the byte of shared memory that is read for (row, vector)
    stored_at = stored(row + ROWS * vector)
    right = (brought == stored_at).all(axis=1)
    if right.all():
        return ROWS
    line, needs = _first_wrong_line(brought, stored_at, right)
    holds = [_row_at(stored_at, byte) for byte in (16 * line, 16 * line + 4, 16 * line + 8, 16 * line + 12)]
    raise LayoutError(
        f"line {line} holds rows {', '.join(holds)}, and the MMA needs {', '.join(needs)}: "
        f"{int((~right).sum())} of {ROWS} words are wrong"
    )


def _first_wrong_line(
    brought: NDArray[np.int64], stored_at: NDArray[np.int64], right: NDArray[np.bool_]
) -> tuple[int, list[str]]:
    line = min(int(brought[row, 0]) // 16 for row in range(ROWS) if not right[row])
    return line, [str(line + WARP_ROWS * word) for word in range(4)]


def _row_at(stored_at: NDArray[np.int64], byte: int) -> str:
    """The row whose first scale factor is stored at this byte."""
    rows = (stored_at[:, 0] == byte).nonzero()[0]
    return str(int(rows[0])) if rows.size else "none"


_PER_INSTRUCTION = {("mxf8f6f4", 32): 1, ("mxf4", 32): 2, ("mxf4nvf4", 32): 2, ("mxf4nvf4", 16): 4}


def scales_per_instruction(kind: str, vector: int) -> int:
    """Scale factors of a row that one instruction reads: its K over the elements that share one.

    >>> scales_per_instruction("mxf4nvf4", 16), scales_per_instruction("mxf8f6f4", 32)
    (4, 1)

    vector is the number of elements of one scale factor, 16 or 32. With fewer than 4, the scale factor id of the
    instruction descriptor chooses the byte of the word.
    """
    if (kind, vector) not in _PER_INSTRUCTION:
        known = ", ".join(f"{k} of {v}" for k, v in _PER_INSTRUCTION)
        raise LayoutError(f"there are no {kind} vectors of {vector}: there are {known}")
    return _PER_INSTRUCTION[kind, vector]


def scale_ids(kind: str, vector: int) -> tuple[int, ...]:
    """The scale factor ids that such an instruction may have: the bytes of a word where its factors can begin.

    >>> scale_ids("mxf8f6f4", 32), scale_ids("mxf4", 32), scale_ids("mxf4nvf4", 16)
    ((0, 1, 2, 3), (0, 2), (0,))
    """
    return tuple(range(0, VECTORS, scales_per_instruction(kind, vector)))
