"""Descriptor words in words: a shared-memory matrix descriptor, an instruction descriptor of tcgen05.mma."""

from __future__ import annotations

from typing import get_args

from layoutlab.atoms.descriptors import Arch, SmemDescriptor
from layoutlab.atoms.idesc import InstructionDescriptor, Kind
from layoutlab.errors import LayoutError


def number(text: str) -> int:
    """A word, hexadecimal, binary or decimal; a negative one as compilers print a 64-bit constant.

    >>> hex(number("0x4000404000000040")), hex(number("-1"))
    ('0x4000404000000040', '0xffffffffffffffff')
    """
    try:
        value = int(text.replace("_", ""), 0)
    except ValueError:
        raise LayoutError(f"{text!r} is no number: a descriptor is written 0x4000404000000040, say") from None
    return value + (1 << 64) if -(1 << 63) <= value < 0 else value


def descriptor(text: str, arch: str | None, kind: str | None) -> list[str]:
    """The lines for `explain desc`: what a word is as a matrix descriptor, and one of 32 bits as an instruction's too.

    >>> print(*descriptor("0x8200490", None, None)[:6:5], sep="\\n")
    0x8200490 as a matrix descriptor of sm_90
    0x8200490 as an instruction descriptor, by the instruction's .kind

    An architecture asks for the one, a kind for the other.
    """
    if kind:
        return instruction_descriptor(text, kind)
    if arch or not 0 <= number(text) < 1 << 32:
        return matrix_descriptor(text, arch)
    found, refusals = list[str](), list[str]()
    for read in (matrix_descriptor, instruction_descriptor):
        try:
            found += read(text, None)
        except LayoutError as error:
            refusals.append(str(error))
    if not found:
        raise LayoutError("; ".join(refusals))
    return found


def matrix_descriptor(text: str, arch: str | None) -> list[str]:
    """What a word is as a matrix descriptor; without an architecture, of each one that has such a word.

    >>> print(*matrix_descriptor("0x4000404000000040", None)[:2], sep="\\n")
    0x4000404000000040 as a matrix descriptor of sm_100
      start byte 1024 (field 64)
    """
    word = number(text)
    lines, refusals = list[str](), list[LayoutError]()
    for one in (arch,) if arch else reversed(get_args(Arch)):
        try:
            words = SmemDescriptor.decode(word, one).words()  # type: ignore[arg-type]
        except LayoutError as error:
            refusals.append(error)
            continue
        lines += [f"{word:#x} as a matrix descriptor of {one}", *(f"  {line}" for line in words)]
    if not lines:
        raise LayoutError("; ".join(map(str, refusals)))
    return lines


def instruction_descriptor(text: str, kind: str | None) -> list[str]:
    """The lines for `explain idesc`; the kind stands in the instruction, so without it, each one that has such a word.

    >>> print(*instruction_descriptor("0x8200490", "f16"), sep="\\n")
    0x8200490 as an instruction descriptor
      kind f16: M 128, N 128
      A bf16, K-major; B bf16, K-major; D f32
      K 16
    """
    word = number(text)
    found, refusals = list[list[str]](), list[LayoutError]()
    for one in (kind,) if kind else get_args(Kind):
        try:
            found.append(InstructionDescriptor.decode(word, one).words())
        except LayoutError as error:
            refusals.append(error)
    if not found:
        raise LayoutError(str(refusals[0]) if kind else f"no kind has this word: {'; '.join(map(str, refusals))}")
    several = ", by the instruction's .kind" if len(found) > 1 else ""
    lines = [f"{word:#x} as an instruction descriptor{several}"]
    for words in found:
        lines += [f"  {line}" for line in words]
    return lines
