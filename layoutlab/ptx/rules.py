"""rules: where the tensor core, TMA and TMEM find each element, one small function a rule.

These few formulas decide every placement in the machine. They are kept apart so that a test can flip each of them and
see that some other test fails. Sources: PTX ISA 9.7.16 (tcgen05), 5.5 (tensors), CUTLASS `copy_traits_sm100.hpp` and
`mma_traits_sm100.hpp`, and descriptor reads recorded on an H200. Addresses and offsets are in bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Swizzle codes of a matrix descriptor (bits 61-63): the width in bytes of the swizzled row, and the atom's.
DESCRIPTOR_SWIZZLE = {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}
# Swizzle field of a tensor map (bits 13-14 of its low second word).
TENSOR_MAP_SWIZZLE = {0: 0, 1: 32, 2: 64, 3: 128}


def swizzle(address: Any, width: int, base_offset: int = 0) -> Any:
    """The byte address after a 32, 64 or 128-byte swizzle: 16-byte chunk ^= 128-byte row, b = 1, 2, 3 bits.

    >>> [int(swizzle(128 * row, 128)) for row in range(3)]
    [0, 144, 288]
    """
    if width == 0:
        return address
    mask = width // 16 - 1
    row = ((address >> 7) - base_offset) & mask
    return address ^ (row << 4)


def swizzle_32b_atoms(address: Any) -> Any:
    """The 128-byte swizzle of 32-byte atoms: address bits [5,7) ^= [7,9)."""
    return address ^ (((address >> 7) & 3) << 5)


def k_major_offset(row: Array, byte: Array, width: int, leading: int, stride: int) -> Any:
    """Where byte `byte` of the K extent of `row` lies, before swizzling. The leading offset is unused when swizzled."""
    if width:
        return (row % 8) * width + (row // 8) * stride + byte
    return (row % 8) * 16 + (row // 8) * stride + (byte // 16) * leading + byte % 16


def mn_major_offset(byte: Array, k: Array, width: int, leading: int, stride: int, rows_of_atom: int = 8) -> Any:
    """Where byte `byte` of the MN extent at depth `k` lies, before swizzling. Swizzled forms swap the two offsets."""
    if width:
        atom = rows_of_atom
        return byte % width + (byte // width) * leading + (k % atom) * width + (k // atom) * stride
    return byte % 16 + (byte // 16) * stride + (k % 8) * 16 + (k // 8) * leading


def accumulator_lane(row: Any, m: int) -> Any:
    """The TMEM lane of accumulator row `row` for M = 128 or 64, cta_group 1."""
    return row if m == 128 else (row // 16) * 32 + row % 16


def paired_accumulator_place(row: Any, column: Any, n: int) -> tuple[Any, Any]:
    """The (lane, column) of a CTA's 64 accumulator rows of a pair's 128: lanes 64 and up hold the second N / 2."""
    half = column // (n // 2)
    return row + 64 * half, column - half * (n // 2)


def tmem_operand_word(k: Any, bits: int) -> tuple[Any, Any]:
    """The column and first bit of element k of an A row in TMEM: elements fill a word from its low end."""
    per_word = 32 // bits
    return k // per_word, (k % per_word) * bits


def register_place(shape: str, thread: Any, register: Any) -> tuple[Any, Any]:
    """The (lane, column) that a register of a thread stands for in tcgen05.ld and st, from the warp's first lane.

    In 16x32bx2 the upper half of the warp takes the same columns again, behind the instruction's split offset.
    """
    if shape == "32x32b":
        return thread + 0 * register, register + 0 * thread
    if shape == "16x64b":
        return thread // 4 + 8 * (thread % 2) + 0 * register, 2 * register + thread // 2 % 2
    if shape == "16x128b":
        return thread // 4 + 8 * (register % 2), 4 * (register // 2) + thread % 4
    if shape == "16x256b":
        q = register % 4
        return thread // 4 + 8 * (q // 2), 8 * (register // 4) + 2 * (thread % 4) + q % 2
    if shape == "16x32bx2":
        return thread % 16 + 0 * register, register + 0 * thread
    raise KeyError(shape)


REGISTERS_PER_REPEAT = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def first_lane(warp: Any) -> Any:
    """The first of the 32 TMEM lanes that a warp may touch."""
    return 32 * (warp % 4)


def split_columns(thread: Any, split: int) -> Any:
    """What 16x32bx2 adds to the columns: the split offset, in columns of TMEM, for the upper half of the warp."""
    return split * (thread // 16)


def packed_columns(column: Any) -> tuple[Any, Any]:
    """With pack::16b and unpack::16b a register's low and high halves are the low halves of two adjacent words."""
    return 2 * column, 2 * column + 1


def accumulate(old: Array, product: Array, enabled: bool, scale: int) -> Array:
    """D = A B + D 2^-scale, or A B alone when accumulation is off."""
    if not enabled:
        return product
    return product + (old if scale == 0 else np.ldexp(old, -scale))


def box_row_pitch(row_bytes: int, swizzle_width: int) -> int:
    """Bytes from one box row to the next in shared memory: a swizzled row takes its whole span (H200)."""
    return max(row_bytes, swizzle_width)


def stored_row_bytes(inside: int, row_bytes: int) -> int:
    """How many bytes of a row a TMA store writes when `inside` of them lie in the tensor: 16 at a time (H200)."""
    return min(row_bytes, -(-inside // 16) * 16)


def tf32_rounded(words: Array) -> Array:
    """What a TMA load through a tf32 map makes of float32 words: nearest, ties to even, one NaN (H200).

    Subnormal numbers are rounded like all others, by the maps that flush them too.
    """
    nan = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    odd = words >> np.uint32(13) & np.uint32(1)
    rounded = (words + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(nan, np.uint32(0x7FFFE000), rounded)


def transaction_bytes(box_bytes: int, _inside_bytes: int) -> int:
    """What a TMA load subtracts from the mbarrier's pending bytes: the whole box, zero-filled part included."""
    return box_bytes


# mma.sync, wgmma and ldmatrix fragments: (row, column) of each value a thread holds -----------------------------------


def fragment_8x8(thread: Any, value: Any) -> tuple[Any, Any]:
    """An 8x8 matrix of 16-bit elements: thread t holds row t // 4, columns 2 (t % 4) and the next."""
    return thread // 4 + 0 * value, 2 * (thread % 4) + value


def accumulator_fragment(thread: Any, value: Any) -> tuple[Any, Any]:
    """m16nN of accumulators: value v of thread t, row t // 4 + 8 (v // 2 % 2), column 8 (v // 4) + 2 (t % 4) + v%2."""
    return thread // 4 + 8 * (value // 2 % 2), 8 * (value // 4) + 2 * (thread % 4) + value % 2


def a_fragment(thread: Any, value: Any, per_register: int) -> tuple[Any, Any]:
    """A of 16 rows: register r (of 4) covers rows + 8 (r % 2), columns + 4 per_register (r // 2)."""
    register, within = value // per_register, value % per_register
    return thread // 4 + 8 * (register % 2), per_register * (thread % 4) + within + 4 * per_register * (register // 2)


def b_fragment(thread: Any, value: Any, per_register: int) -> tuple[Any, Any]:
    """B of 8 columns: (k, n) of value v; register r covers k + 4 per_register r."""
    register, within = value // per_register, value % per_register
    return per_register * (thread % 4) + within + 4 * per_register * register, thread // 4 + 0 * value
