"""Instruction descriptors: the 32-bit word that tells tcgen05.mma its types, majors, shape and scale factors.

    bits      plain kinds (f16, tf32, f8f6f4, i8)      block-scaled kinds (mxf8f6f4, mxf4, mxf4nvf4)
    0-1       sparsity selector                        0
    2         sparse                                   sparse
    3         saturate (i8)                            0
    4-5       type of D                                scale factor id of B
    7-9       type of A                                type of A
    10-12     type of B                                type of B
    13, 14    negate A, B                              negate A, B
    15, 16    A, B is MN-major                         A, B is MN-major
    17-22     N >> 3                                   N >> 3
    23        0                                        type of the scale factors
    24-28     M >> 4                                   M >> 4
    29-31     maximum shift of .ws in 30-31            scale factor id of A in 29-30, K size in 31

>>> word = InstructionDescriptor("f16", 128, 128, a="bf16", b="bf16", d="f32").encode()
>>> hex(word)
'0x8200490'
>>> InstructionDescriptor.decode(word, "f16").a
'bf16'

Sources: PTX ISA, "Instruction descriptor" (which has M >> 7 in 27-28, the same bits for 128 and 256); CUTLASS
include/cute/arch/mma_sm100_desc.hpp (M >> 4 in 24-28).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.descriptors import Major
from layoutlab.errors import LayoutError

Kind = Literal["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]

_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_OPERANDS: dict[str, dict[str, int]] = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": _F8F6F4,
    "i8": {"u8": 0, "s8": 1},
    "mxf8f6f4": _F8F6F4,
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
}
_RESULTS: dict[str, dict[str, int]] = {
    "f16": {"f16": 0, "f32": 1},
    "tf32": {"f32": 1},
    "f8f6f4": {"f16": 0, "f32": 1},
    "i8": {"s32": 2},
}
_SCALES: dict[str, dict[str, int]] = {
    "mxf8f6f4": {"ue8m0": 1},
    "mxf4": {"ue8m0": 1},
    "mxf4nvf4": {"ue4m3": 0, "ue8m0": 1},
}
_MAJORS: dict[Major, int] = {"K": 0, "MN": 1}
_SHIFTS = (0, 8, 16, 32)
_MN_MAJOR_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")


@dataclass(frozen=True)
class InstructionDescriptor:
    """What one tcgen05.mma does.

    >>> InstructionDescriptor("mxf4nvf4", 128, 64, a="e2m1", b="e2m1", scale="ue4m3").words()[1:]
    ['A e2m1, K-major; B e2m1, K-major; D f32', 'scale factors ue4m3, id 0 of A, id 0 of B', 'K 64']

    d is the accumulators' type, f32 in block-scaled kinds; scale the type of the scale factors, in those kinds alone.
    max_shift (0, 8, 16 or 32 columns) is for .ws. k96 chooses K 96 of an mxf4 kind on sm_103. Raises LayoutError for
    what the kind does not have.
    """

    kind: Kind
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    a_major: Major = "K"
    b_major: Major = "K"
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    sparsity_selector: int = 0
    max_shift: int = 0
    scale: str = ""
    a_scale_id: int = 0
    b_scale_id: int = 0
    k96: bool = False

    def __post_init__(self) -> None:
        if self.kind not in _OPERANDS:
            raise LayoutError(f"kind is {self.kind!r}: one of {', '.join(_OPERANDS)}")
        self._one_of("a", self.a, _OPERANDS[self.kind])
        self._one_of("b", self.b, _OPERANDS[self.kind])
        self._one_of("d", self.d, _RESULTS.get(self.kind, {"f32": 1}))
        if self.kind == "f16" and "bf16" in (self.a, self.b) and (self.d == "f16" or self.a != self.b):
            raise LayoutError(f"kind f16 multiplies bf16 by bf16 into f32, not {self.a} by {self.b} into {self.d}")
        for name, kind, major in (("a", self.a, self.a_major), ("b", self.b, self.b_major)):
            self._one_of(f"{name}_major", major, _MAJORS)
            if major == "MN" and (kind not in _MN_MAJOR_TYPES or self.kind in ("mxf4", "mxf4nvf4")):
                raise LayoutError(f"{name} is {kind}, MN-major: kind {self.kind} reads it K-major only")
        self._check_shape()
        self._check_options()

    def _one_of(self, name: str, value: object, allowed: dict[str, int] | dict[Major, int]) -> None:
        if value not in allowed:
            raise LayoutError(f"{name} is {value!r}: kind {self.kind} has {', '.join(allowed)}")

    def _check_shape(self) -> None:
        if self.m not in (32, 64, 128, 256) or (self.scaled and self.m < 128):
            raise LayoutError(
                f"M is {self.m}: kind {self.kind} has {'128 and 256' if self.scaled else '32, 64, 128, 256'}"
            )
        if self.n % 8 or not 8 <= self.n <= 256:
            raise LayoutError(f"N is {self.n}: a multiple of 8 up to 256")

    def _check_options(self) -> None:
        if self.scaled:
            self._one_of("scale", self.scale, _SCALES[self.kind])
        elif self.scale or self.a_scale_id or self.b_scale_id:
            raise LayoutError(f"kind {self.kind} has no scale factors")
        if self.saturate and self.kind != "i8":
            raise LayoutError(f"saturate is for kind i8, not for {self.kind}")
        if self.k96 and self.kind not in ("mxf4", "mxf4nvf4"):
            raise LayoutError(f"K 96 is for kinds mxf4 and mxf4nvf4, not for {self.kind}")
        if self.max_shift not in _SHIFTS or (self.max_shift and self.scaled):
            raise LayoutError(f"max_shift is {self.max_shift}: 0, 8, 16 or 32, and 0 in block-scaled kinds")
        for name in ("sparsity_selector", "a_scale_id", "b_scale_id"):
            if not 0 <= getattr(self, name) < 4:
                raise LayoutError(f"{name} is {getattr(self, name)}: 0 to 3 are possible")
        if self.sparsity_selector and (self.scaled or not self.sparse):
            raise LayoutError("sparsity_selector is for sparse instructions of plain kinds")

    @property
    def scaled(self) -> bool:
        """Whether the kind is block-scaled."""
        return self.kind in _SCALES

    @property
    def k(self) -> int:
        """Elements of K of one instruction.

        >>> InstructionDescriptor("tf32", 64, 8, a="tf32", b="tf32").k
        8
        """
        dense = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(self.kind, 32)
        return 96 if self.k96 else dense * (2 if self.sparse else 1)

    def encode(self) -> int:
        """The 32-bit word."""
        operand = _OPERANDS[self.kind]
        word = self.sparse << 2 | operand[self.a] << 7 | operand[self.b] << 10
        word |= self.negate_a << 13 | self.negate_b << 14 | _MAJORS[self.a_major] << 15 | _MAJORS[self.b_major] << 16
        word |= self.n >> 3 << 17 | self.m >> 4 << 24
        if self.scaled:
            word |= self.b_scale_id << 4 | _SCALES[self.kind][self.scale] << 23
            return word | self.a_scale_id << 29 | self.k96 << 31
        word |= self.sparsity_selector | self.saturate << 3 | _RESULTS[self.kind][self.d] << 4
        return word | _SHIFTS.index(self.max_shift) << 30

    @classmethod
    def decode(cls, word: int, kind: Kind) -> InstructionDescriptor:
        """The fields of a word; the instruction's `.kind` is not in it and has to be said.

        >>> InstructionDescriptor.decode(0x8200490, "f16").n
        128

        Raises LayoutError for a word that this kind does not define.
        """
        if kind not in _OPERANDS:
            raise LayoutError(f"kind is {kind!r}: one of {', '.join(_OPERANDS)}")
        if not 0 <= word < 1 << 32:
            raise LayoutError(f"{word:#x} is not an instruction descriptor: it has 32 bits")
        found = cls(
            kind,
            m=(word >> 24 & 31) << 4,
            n=(word >> 17 & 63) << 3,
            a=_named(_OPERANDS[kind], word >> 7 & 7, "A", kind),
            b=_named(_OPERANDS[kind], word >> 10 & 7, "B", kind),
            a_major="MN" if word >> 15 & 1 else "K",
            b_major="MN" if word >> 16 & 1 else "K",
            negate_a=bool(word >> 13 & 1),
            negate_b=bool(word >> 14 & 1),
            sparse=bool(word >> 2 & 1),
            **_scaled_fields(word, kind) if kind in _SCALES else _plain_fields(word, kind),  # type: ignore[arg-type]
        )
        if found.encode() != word:
            raise LayoutError(f"{word:#x} sets bits {found.encode() ^ word:#x}, which no field of kind {kind} uses")
        return found

    def words(self) -> list[str]:
        """The descriptor in words, a line each."""
        lines = [f"kind {self.kind}: M {self.m}, N {self.n}"]
        operands = (("A", self.negate_a, self.a, self.a_major), ("B", self.negate_b, self.b, self.b_major))
        parts = [f"{name} {'-' if minus else ''}{kind}, {major}-major" for name, minus, kind, major in operands]
        lines.append("; ".join([*parts, f"D {self.d}"]))
        if self.scaled:
            lines.append(f"scale factors {self.scale}, id {self.a_scale_id} of A, id {self.b_scale_id} of B")
        lines.append(f"K {self.k}" + (", sparse" if self.sparse else "") + (", saturating" if self.saturate else ""))
        return lines + ([f"B shifted by up to {self.max_shift} columns"] if self.max_shift else [])


def _named(codes: dict[str, int], code: int, what: str, kind: str) -> str:
    for name, number in codes.items():
        if number == code:
            return name
    known = ", ".join(f"{number} {name}" for name, number in codes.items())
    raise LayoutError(f"the type of {what} is {code}: kind {kind} has {known}")


def _plain_fields(word: int, kind: str) -> dict[str, object]:
    return {
        "d": _named(_RESULTS[kind], word >> 4 & 3, "D", kind),
        "sparsity_selector": word & 3,
        "saturate": bool(word >> 3 & 1),
        "max_shift": _SHIFTS[word >> 30],
    }


def _scaled_fields(word: int, kind: str) -> dict[str, object]:
    return {
        "scale": _named(_SCALES[kind], word >> 23 & 1, "the scale factors", kind),
        "a_scale_id": word >> 29 & 3,
        "b_scale_id": word >> 4 & 3,
        "k96": bool(word >> 31),
    }
