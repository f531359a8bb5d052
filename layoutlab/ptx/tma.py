"""tma: the 128-byte tensor map, decoded, and the boxes that it moves.

The map's form is opaque in the documentation; the field positions are read off maps that CuTe DSL assembles in host
code. Dimension 0 is the fastest. All sizes and strides are in bytes here except the box and the extents, which are in
elements.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

# Field [7,11) of word 2, by what CuTe DSL and the driver write for each element type: name, bytes.
ELEMENT_TYPES = {
    0: ("u8", 1), 1: ("u16", 2), 2: ("u32", 4), 3: ("s32", 4), 4: ("u64", 8), 5: ("s64", 8), 6: ("f16", 2),
    7: ("f32", 4), 8: ("f32_ftz", 4), 9: ("f64", 8), 10: ("bf16", 2),
}  # fmt: skip
ROUNDED = {"f32": "tf32", "f32_ftz": "tf32_ftz"}  # with bit 16 set, as the driver and CuTe DSL do for tf32
SWIZZLE_BYTES = (0, 32, 64, 128)
# Field [19,21): CuTe DSL sets 1 for the 128-byte swizzle of 32-byte atoms.
SWIZZLE_ATOMS = (16, 32)


@dataclass(frozen=True)
class TensorMap:
    """A decoded tensor map: where the tensor is, its extents and strides, the box and how it lies in shared memory."""

    address: int
    element: str
    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]  # bytes, of dimensions 0, 1, ...; the first is the element's size
    box: tuple[int, ...]
    swizzle: int
    interleave: int = 0
    nan_fill: bool = False
    element_strides: tuple[int, ...] = ()
    swizzle_atom: int = 16  # bytes that the swizzle moves together

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that a box moves in each dimension: every step-th one of its extent."""
        steps = self.element_strides or (1,) * len(self.box)
        return tuple(-(-b // s) for b, s in zip(self.box, steps, strict=True))

    @property
    def box_bytes(self) -> int:
        total = self.element_bytes
        for count in self.counts:
            total *= count
        return total


def encode_tensor_map(tensor: TensorMap) -> bytes:
    """The 128 bytes of a tensor map, as `decode_tensor_map` reads them.

    >>> m = TensorMap(1 << 20, "f16", 2, (64, 32), (2, 128), (64, 8), 128, element_strides=(1, 1))
    >>> decode_tensor_map(encode_tensor_map(m)) == m
    True
    """
    kind = next(code for code, (name, _) in ELEMENT_TYPES.items() if tensor.element in (name, ROUNDED.get(name)))
    rank = len(tensor.extents)
    words = [0] * 16
    low = (rank - 1) << 4 | kind << 7 | tensor.interleave << 11 | SWIZZLE_BYTES.index(tensor.swizzle) << 13
    low |= (
        int(tensor.element in ROUNDED.values()) << 16
        | int(tensor.nan_fill) << 15
        | SWIZZLE_ATOMS.index(tensor.swizzle_atom) << 19
    )
    strides = [s // 16 for s in tensor.strides[1:]] + [0] * (5 - rank)
    words[0] = tensor.address
    words[1] = low | (strides[0] & 0xFFFFFFFF) << 32
    words[2] = (strides[1] & 0xFFFFFFFF) | (strides[2] & 0xFFFFFFFF) << 32
    words[3] = (strides[3] & 0xFFFFFFFF) | sum(((s >> 32) & 15) << (32 + 4 * i) for i, s in enumerate(strides))
    extents, boxes, steps = ([*v, *[1] * (5 - rank)] for v in (tensor.extents, tensor.box, tensor.element_strides))
    words[4] = (extents[0] - 1) | (extents[1] - 1) << 32
    words[5] = (extents[2] - 1) | (extents[3] - 1) << 32
    words[6] = (extents[4] - 1) | sum((s - 1) << (32 + 3 * i) for i, s in enumerate(steps)) | (boxes[0] - 1) << 56
    words[7] = sum((b - 1) << (8 * i) for i, b in enumerate(boxes[1:]))
    return struct.pack("<16Q", *words)


def decode_tensor_map(data: bytes) -> TensorMap | None:
    """Decode a tensor map; None when the 128 bytes cannot be one."""
    words = struct.unpack("<16Q", data)
    low, high = words[1] & 0xFFFFFFFF, words[1] >> 32
    rank = ((low >> 4) & 7) + 1
    kind = (low >> 7) & 15
    atom = (low >> 19) & 3
    if rank > 5 or kind not in ELEMENT_TYPES or words[0] == 0 or words[0] >> 57 or atom >= len(SWIZZLE_ATOMS):
        return None
    name, size = ELEMENT_TYPES[kind]
    if low >> 16 & 1:
        name = ROUNDED.get(name, name)
    low_bits = (high, words[2] & 0xFFFFFFFF, words[2] >> 32, words[3] & 0xFFFFFFFF)
    upper = words[3] >> 32
    strides = [size] + [16 * (bits | ((upper >> (4 * i)) & 15) << 32) for i, bits in enumerate(low_bits)]
    extents = [
        (words[4] & 0xFFFFFFFF) + 1, (words[4] >> 32) + 1, (words[5] & 0xFFFFFFFF) + 1, (words[5] >> 32) + 1,
        (words[6] & 0xFFFFFFFF) + 1,
    ]  # fmt: skip
    traversal = tuple(((words[6] >> (32 + 3 * i)) & 7) + 1 for i in range(5))
    box = [(words[6] >> 56) + 1] + [((words[7] >> (8 * i)) & 255) + 1 for i in range(4)]
    return TensorMap(
        words[0], name, size, tuple(extents[:rank]), tuple(strides[:rank]), tuple(box[:rank]),
        SWIZZLE_BYTES[(low >> 13) & 3], (low >> 11) & 3, bool((low >> 15) & 1), traversal[:rank], SWIZZLE_ATOMS[atom],
    )  # fmt: skip
