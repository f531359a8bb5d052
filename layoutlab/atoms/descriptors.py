"""Shared-memory matrix descriptors: the 64-bit word by which wgmma and tcgen05.mma find an operand tile.

A descriptor is five numbers (start, leading byte offset, stride byte offset, swizzle, base offset); the *major* mode
and the element width come from the instruction. Together they say at which byte every element of the tile is read:

    linear byte  = canonical layout of the tile, from lbo and sbo
    address      = start + linear byte
    byte read    = address with bits [4, 4+b) ^= ((address >> 7) - base_offset) mod 2^b,  b = 1, 2, 3 for 32, 64, 128 B

The swizzle acts on the absolute address, so a start in the middle of the pattern is legal, and stepping K inside the
128-byte atom is adding bytes to the start.

>>> SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128).addresses(3, 3).tolist()
[[0, 2, 4], [144, 146, 148], [288, 290, 292]]

Sources: PTX ISA, "Shared memory matrix layout" and "Matrix descriptor format" (wgmma, tcgen05); CUTLASS
include/cute/arch/mma_sm100_desc.hpp, include/cute/atom/mma_traits_sm90_gmma.hpp; what an H200's tensor core read for
122 descriptors, odd and random ones included (tests/data/wgmma_descriptors_h200.json).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Literal

from layoutlab.errors import LayoutError
from layoutlab.symbol import Sym, at_most

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Arch = Literal["sm_90", "sm_100"]
Major = Literal["K", "MN"]
SwizzleMode = Literal[0, 32, 64, 128, "128_32b"]

FIELD_LIMIT = 1 << 18  # bytes: 14 bits of 16-byte units
SHARED_LIMIT = (
    233472  # bytes: addresses of shared memory on SM90 and SM100 end here (228 KiB, 1 KiB of it the system's)
)
CORE_BYTES = 16  # a core matrix is 8 rows of 16 bytes
SM100_VERSION = 1  # bits 46-48


@dataclass(frozen=True)
class Pattern:
    """One swizzle mode: bits [low, low+bits) of the address are xored with bits [7, 7+bits)."""

    mode: SwizzleMode
    code: int  # in bits 61-63 on sm_100; sm_90 has the same code in bits 62-63, so only the even ones
    width: int  # bytes of a row of the atom
    bits: int
    low: int
    rows: int  # rows of `width` bytes (K values, when MN-major) before the stride byte offset is due

    @property
    def repeat(self) -> int:
        """Bytes after which the pattern repeats."""
        return 128 << self.bits


# code: CUTLASS mma_sm100_desc.hpp, enum LayoutType; mma_sm90_desc.hpp has code >> 1 in two bits.
_PATTERNS: dict[SwizzleMode, Pattern] = {
    p.mode: p
    for p in (
        Pattern(0, code=0, width=16, bits=0, low=4, rows=8),
        Pattern(32, code=6, width=32, bits=1, low=4, rows=8),
        Pattern(64, code=4, width=64, bits=2, low=4, rows=8),
        Pattern(128, code=2, width=128, bits=3, low=4, rows=8),
        Pattern("128_32b", code=1, width=128, bits=2, low=5, rows=4),
    )
}
_BY_CODE = {p.code: p for p in _PATTERNS.values()}


@dataclass(frozen=True)
class SmemDescriptor:
    """Where an operand tile starts in shared memory and how its core matrices are laid out, in bytes.

    >>> word = SmemDescriptor(start=0x400, lbo=0, sbo=1024, swizzle=128).encode("sm_100")
    >>> hex(word)
    '0x4000404000000040'
    >>> SmemDescriptor.decode(word, "sm_100")
    SmemDescriptor(start=1024, lbo=0, sbo=1024, swizzle=128, base_offset=0)

    start, lbo (leading byte offset) and sbo (stride byte offset) are bytes, multiples of 16 under 2^18; the word
    holds them shifted right by 4. swizzle is the width of the pattern, 0, 32, 64 or 128 bytes, or "128_32b": 128
    bytes in chunks of 32, which sm_100 has for MN-major operands. base_offset is 0 to 7. Raises LayoutError for a
    value no word can hold.
    """

    start: int
    lbo: int
    sbo: int
    swizzle: SwizzleMode
    base_offset: int = 0

    def __post_init__(self) -> None:
        if self.swizzle not in _PATTERNS or isinstance(self.swizzle, bool):
            raise LayoutError(f'swizzle is {self.swizzle!r}: a descriptor has 0, 32, 64, 128 (bytes) or "128_32b"')
        for name in ("start", "lbo", "sbo", "base_offset"):
            value = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, Sym) else index(value))
        for name in ("start", "lbo", "sbo"):
            value = getattr(self, name)
            if value % CORE_BYTES:
                raise LayoutError(
                    f"{name} is {value} bytes: the field holds bytes >> 4, so only multiples of 16; "
                    f"{value // CORE_BYTES * CORE_BYTES} or {(value // CORE_BYTES + 1) * CORE_BYTES} could be encoded"
                )
            if value < 0 or not at_most(
                value, FIELD_LIMIT - CORE_BYTES, f"a descriptor's {name} has 14 bits of 16 bytes"
            ):
                raise LayoutError(f"{name} is {value} bytes: the field has 14 bits of 16-byte units, 0 to 262128 bytes")
        if not 0 <= self.base_offset < 8:
            raise LayoutError(f"base_offset is {self.base_offset}: the field has 3 bits, 0 to 7 (rows of 128 bytes)")

    def encode(self, arch: Arch) -> int:
        """The 64-bit word for this architecture.

        >>> hex(SmemDescriptor(start=0, lbo=16, sbo=1024, swizzle=128).encode("sm_90"))
        '0x4000004000010000'

        Raises LayoutError where the architecture has no such swizzle. Source: CUTLASS mma_sm90_desc.hpp,
        mma_sm100_desc.hpp.
        """
        _known(arch)
        pattern = _PATTERNS[self.swizzle]
        if arch == "sm_90" and pattern.code % 2:
            raise LayoutError(f'swizzle "{self.swizzle}" is sm_100\'s alone: sm_90 has 0, 32, 64 and 128')
        word = self.start >> 4 | self.lbo >> 4 << 16 | self.sbo >> 4 << 32 | self.base_offset << 49 | pattern.code << 61
        return word | SM100_VERSION << 46 if arch == "sm_100" else word

    @classmethod
    def decode(cls, word: int, arch: Arch) -> SmemDescriptor:
        """The fields of a 64-bit word, in bytes.

        >>> SmemDescriptor.decode(0x4000404000010020, "sm_100")
        SmemDescriptor(start=512, lbo=16, sbo=1024, swizzle=128, base_offset=0)

        Raises LayoutError for a word that this architecture does not define: another version, an unknown swizzle
        code, bits outside the fields. Whether the fields suit a tile is `check`'s question.
        """
        _known(arch)
        if not 0 <= word < 1 << 64:
            raise LayoutError(f"{word:#x} is not a matrix descriptor: it has 64 bits")
        version, code = word >> 46 & 7, word >> 61
        if arch == "sm_100" and version != SM100_VERSION:
            raise LayoutError(f"bits 46-48 of {word:#x} are {version:#05b}: an sm_100 descriptor has 0b001 there")
        if arch == "sm_90" and version:
            raise LayoutError(f"bits 46-48 of {word:#x} are {version:#05b}: an sm_90 descriptor has 0 there")
        if word >> 52 & 1:
            raise LayoutError(f"bit 52 of {word:#x} asks for an absolute leading address, which {arch} does not have")
        if code not in _BY_CODE or (arch == "sm_90" and code % 2):
            raise LayoutError(f"bits 61-63 of {word:#x} are {code}: no swizzle of {arch} has that code")
        pattern = _BY_CODE[code]
        found = cls(
            start=(word & 0x3FFF) << 4,
            lbo=(word >> 16 & 0x3FFF) << 4,
            sbo=(word >> 32 & 0x3FFF) << 4,
            swizzle=pattern.mode,
            base_offset=word >> 49 & 7,
        )
        if found.encode(arch) != word:
            raise LayoutError(f"{word:#x} sets bits {found.encode(arch) ^ word:#x}, which no field of {arch} uses")
        return found

    def stepped(self, step_bytes: int) -> SmemDescriptor:
        """The descriptor `step_bytes` further on: how a kernel walks K, inside the swizzle atom too.

        >>> SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128).stepped(32).start
        32
        """
        return replace(self, start=self.start + step_bytes)

    def words(self) -> list[str]:
        """The descriptor in words, a line each, fields beside their bytes.

        >>> for line in SmemDescriptor(start=1024, lbo=16, sbo=1024, swizzle=128).words():
        ...     print(line)
        start byte 1024 (field 64)
        swizzle 128 bytes: address bits [4,7) ^= bits [7,10), from the pattern's start on a multiple of 1024
        K-major: 8 rows of 128 bytes, the next 8 rows 1024 bytes on (sbo, field 64); lbo (field 1) is not read
        MN-major: 128 bytes of M or N, the next 16 bytes on (lbo, field 1); 8 ks, the next 1024 bytes on (sbo, field 64)
        """
        p = _PATTERNS[self.swizzle]
        sbo, lbo = (f"({name}, field {value >> 4})" for name, value in (("sbo", self.sbo), ("lbo", self.lbo)))
        lines = [f"start byte {self.start} (field {self.start >> 4})"]
        if p.bits:
            low, high = p.low, p.low + p.bits
            on = f"from the pattern's start on a multiple of {p.repeat}"
            lines.append(f"swizzle {p.width} bytes: address bits [{low},{high}) ^= bits [7,{7 + p.bits}), {on}")
            if self.swizzle != "128_32b":
                lbo_unread = f"lbo (field {self.lbo >> 4}) is not read"
                lines.append(
                    f"K-major: 8 rows of {p.width} bytes, the next 8 rows {self.sbo} bytes on {sbo}; {lbo_unread}"
                )
            mn = f"MN-major: {p.width} bytes of M or N, the next {self.lbo} bytes on {lbo}"
            lines.append(f"{mn}; {p.rows} ks, the next {self.sbo} bytes on {sbo}")
        else:
            lines.append("no swizzle: cores of 8 times 16 bytes")
            lines.append(
                f"K-major: the next 8 rows {self.sbo} bytes on {sbo}, the next 16 bytes of K {self.lbo} on {lbo}"
            )
            lines.append(
                f"MN-major: the next 16 bytes of M or N {self.sbo} on {sbo}, the next 8 ks {self.lbo} on {lbo}"
            )
        if self.base_offset:
            lines.append(f"the swizzle's rows are counted from {self.base_offset} rows of 128 bytes on (base offset)")
        return lines

    def bit_addresses(
        self, rows: int, ks: int, element_bits: int = 16, major: Major = "K", *, padded: bool = False
    ) -> NDArray[np.int64]:
        """The shared-memory bit at which each element of the tile begins, as [rows, ks].

        >>> desc = SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128)
        >>> desc.bit_addresses(1, 4, element_bits=4).tolist()
        [[0, 4, 8, 12]]
        >>> desc.bit_addresses(1, 17, element_bits=6, padded=True)[0, 14:].tolist()
        [84, 90, 128]

        rows counts M or N, ks counts K. padded is the form that kind::f8f6f4 reads 4- and 6-bit types in: 16
        elements, then nothing until the next 16 bytes. Raises LayoutError for a tile or a type that no instruction
        reads so.
        """
        linear = self.linear_bits(rows, ks, element_bits, major, padded=padded)
        return self._swizzled(_PATTERNS[self.swizzle], linear // 8) * 8 + linear % 8

    def linear_bits(
        self, rows: int, ks: int, element_bits: int = 16, major: Major = "K", *, padded: bool = False
    ) -> NDArray[np.int64]:
        """`bit_addresses` before the swizzle: the canonical layout, from the start on.

        >>> SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128).linear_bits(2, 2).tolist()
        [[0, 16], [1024, 1040]]
        """
        import numpy as np

        chunk = self.elements_a_chunk(element_bits, major, padded=padded)
        if rows < 1 or ks < 1:
            raise LayoutError(f"a tile of {rows} rows and {ks} ks has no elements")
        r, k = np.indices((rows, ks), dtype=np.int64)
        along, across = (k, r) if major == "K" else (r, k)  # along: the contiguous direction
        chunks, bit = along // chunk, along % chunk * element_bits  # 16-byte chunks along, and the bit inside one
        self._refuse_unreadable(major, int(chunks.max()) + 1)
        byte = self.start + self._linear(_PATTERNS[self.swizzle], major, chunks, across) + bit // 8
        return byte * 8 + bit % 8

    def addresses(
        self, rows: int, ks: int, element_bits: int = 16, major: Major = "K", *, padded: bool = False
    ) -> NDArray[np.int64]:
        """The shared-memory byte at which each element of the tile begins, as [rows, ks].

        >>> SmemDescriptor(start=0, lbo=128, sbo=256, swizzle=0).addresses(9, 9)[[0, 1, 8], 8].tolist()
        [128, 144, 384]
        >>> SmemDescriptor(start=0, lbo=4096, sbo=1024, swizzle=128).addresses(65, 2, major="MN")[[0, 8, 64]].tolist()
        [[0, 144], [16, 128], [4096, 4240]]

        Two 4-bit elements share a byte; `bit_addresses` tells them apart and says what the arguments mean.
        """
        return self.bit_addresses(rows, ks, element_bits, major, padded=padded) // 8

    def check(
        self, rows: int, ks: int, element_bits: int = 16, major: Major = "K", *, padded: bool = False
    ) -> NDArray[np.int64]:
        """`bit_addresses`, refused when two elements share a place or the tile leaves shared memory.

        >>> SmemDescriptor(start=0, lbo=0, sbo=64, swizzle=128).check(128, 16)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        layoutlab.errors.LayoutError: row 1 k 8 and row 16 k 8 are both read at byte 128: sbo is 64 bytes; the field ...

        A descriptor may well be read so (its hardware does not mind), but no kernel means it. Raises LayoutError; a
        stride that was shifted twice, or not at all, is named.
        """
        bits = self.bit_addresses(rows, ks, element_bits, major, padded=padded)
        if fault := _fault(bits, element_bits):
            raise LayoutError(f"{fault}: {self._wrong_unit(rows, ks, element_bits, major, padded)}")
        return bits

    def _wrong_unit(self, rows: int, ks: int, element_bits: int, major: Major, padded: bool) -> str:
        """What would be right, if one of the strides is off by the 16 between a field and its bytes."""
        for name in ("sbo", "lbo"):
            value = getattr(self, name)
            for right, words in (
                (value * 16, f"the field holds bytes >> 4, so if {value} is the field, {name} is {value * 16}"),
                (
                    value // 16,
                    f"a field of {value >> 4}; fields are bytes >> 4: for {value >> 4} bytes write {value >> 8}",
                ),
            ):
                if right == 0 or right % CORE_BYTES or right >= FIELD_LIMIT:
                    continue
                other = replace(self, **{name: right})
                if not _fault(other.bit_addresses(rows, ks, element_bits, major, padded=padded), element_bits):
                    return f"{name} is {value} bytes; {words}"
        return f"lbo {self.lbo}, sbo {self.sbo} do not suit {rows} rows, {ks} ks, {major}-major, swizzle {self.swizzle}"

    def elements_a_chunk(self, element_bits: int, major: Major, *, padded: bool = False) -> int:
        """How many elements 16 bytes hold; refuses a type, a major or a swizzle that no instruction reads so.

        >>> SmemDescriptor(start=0, lbo=0, sbo=1024, swizzle=128).elements_a_chunk(16, "K")
        8
        """
        if major not in ("K", "MN"):
            raise LayoutError(f'major is {major!r}: "K" or "MN"')
        if self.swizzle == "128_32b" and major == "K":
            raise LayoutError('swizzle "128_32b" is for MN-major operands: a K-major operand takes 128')
        return _elements_a_chunk(element_bits, padded)

    def _refuse_unreadable(self, major: Major, chunks: int) -> None:
        width = _PATTERNS[self.swizzle].width
        if major == "K" and self.swizzle and chunks * CORE_BYTES > width:
            raise LayoutError(
                f"{chunks * CORE_BYTES} bytes along K leave the {width}-byte swizzle atom, and lbo is not read there: "
                f"the next {width} bytes need a descriptor with their own start"
            )

    def _linear(
        self, p: Pattern, major: Major, chunks: NDArray[np.int64], across: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The canonical layout: bytes from the start to a chunk of 16 bytes, before the swizzle."""
        if self.swizzle == 0:
            # Row groups of 8 advance by sbo and K chunks by lbo; MN-major, the chunk is the row group and the 8 are
            # of K.
            along, down = (self.lbo, self.sbo) if major == "K" else (self.sbo, self.lbo)
            return across % 8 * CORE_BYTES + across // 8 * down + chunks * along
        inside = chunks % (p.width // CORE_BYTES) * CORE_BYTES
        outside = chunks // (p.width // CORE_BYTES) * self.lbo  # 0 when K-major: one atom wide
        return across % p.rows * p.width + across // p.rows * self.sbo + inside + outside

    def _swizzled(self, p: Pattern, address: NDArray[np.int64]) -> NDArray[np.int64]:
        row = (address >> 7) - self.base_offset & (1 << p.bits) - 1
        return address ^ row << p.low


def _fault(bits: NDArray[np.int64], element_bits: int) -> str:
    """Why no kernel means a tile read at these bits, or nothing."""
    import numpy as np

    last = int(bits.max() + element_bits - 1) // 8
    if last >= SHARED_LIMIT:
        return f"the last byte read is {last}, and shared memory ends at {SHARED_LIMIT}"
    flat, ks = bits.ravel(), bits.shape[1]
    order = np.argsort(flat, kind="stable")
    clash = np.flatnonzero(np.diff(flat[order]) < element_bits)
    if not clash.size:
        return ""
    one, two = (divmod(int(order[clash[0] + i]), ks) for i in (0, 1))
    byte = int(flat[order[clash[0] + 1]]) // 8
    return f"row {one[0]} k {one[1]} and row {two[0]} k {two[1]} are both read at byte {byte}"


def pattern_of(mode: SwizzleMode) -> Pattern:
    """The bits that a swizzle mode moves.

    >>> pattern_of(64).bits, pattern_of(64).repeat
    (2, 512)
    """
    return _PATTERNS[mode]


def _known(arch: str) -> None:
    if arch not in ("sm_90", "sm_100"):
        raise LayoutError(f'arch is {arch!r}: matrix descriptors are known for "sm_90" and "sm_100"')


def _elements_a_chunk(element_bits: int, padded: bool) -> int:
    """How many elements 16 bytes hold."""
    if padded and element_bits in (4, 6):
        return 16
    if element_bits == 6:
        raise LayoutError("6-bit elements stand in shared memory only padded, 16 to 16 bytes: pass padded=True")
    if padded or element_bits not in (4, 8, 16, 32):
        kinds = "4, 6 (padded), 8, 16 and 32" if not padded else "4 and 6 when padded"
        raise LayoutError(
            f"no matrix instruction reads {element_bits}-bit elements by descriptor: {kinds} are possible"
        )
    return CORE_BYTES * 8 // element_bits
