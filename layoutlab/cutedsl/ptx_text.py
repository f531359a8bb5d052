"""What can be read off a kernel's PTX without running it: the constants of MMA descriptors, and emitted stores."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from layoutlab.errors import LayoutError

MMA = re.compile(r"\btcgen05\.mma\.[\w.:]+\s+\[%\w+\],\s*(%\w+|\[%\w+\]),\s*(%\w+),")
SHARED_STORE = re.compile(r"\bst\.shared[\w:]*((?:\.v\d)?\.[bsuf]\d+)\s")
ADDED = re.compile(r"\b(?:or|add)\.[bsu]64\s+(%\w+),\s*(%\w+),\s*(-?\d+);")


@dataclass(frozen=True)
class MmaDescriptors:
    """One tcgen05.mma: what is added to the encoded start address of A (None: A is in TMEM) and of B, 64 bits each."""

    a_constant: int | None
    b_constant: int


def mma_descriptors(ptx: str) -> list[MmaDescriptors]:
    """The constant parts of the descriptors of every tcgen05.mma of a kernel's PTX, in program order.

    >>> text = '''or.b64 %rd5, %rd2, 4611756662049472512;
    ... add.s64 %rd4, %rd1, 4611756662049538050;
    ... tcgen05.mma.cta_group::1.kind::f16 [%r7], %rd4, %rd5, %r9, {%r8, %r8, %r8, %r8}, %p6;'''
    >>> hex(mma_descriptors(text)[0].a_constant)
    '0x4000404000010002'

    A descriptor is `or`ed or added together from the start address, (address >> 4) & 0x3fff, which the kernel computes,
    and a constant that holds everything else and the step along k. PTX whose descriptors are made in another way is
    refused. Source: PTX ISA 9.7.16.4.1, and the PTX that CuTe DSL 4.8.1 emits.
    """
    constants: dict[str, int] = {}
    found = []
    for number, line in enumerate(ptx.splitlines(), 1):
        if added := ADDED.search(line):
            constants[added[1]] = int(added[3]) % 2**64
        if mma := MMA.search(line):
            missing = [name for name in mma.groups() if name not in constants and not name.startswith("[")]
            if missing:
                raise LayoutError(f"line {number}: the descriptor {missing[0]} is not a start address plus a constant")
            found.append(MmaDescriptors(constants.get(mma[1]), constants[mma[2]]))
    return found


def shared_stores(ptx: str, after: str, before: str) -> dict[str, int]:
    """How many shared-memory stores of each width stand between two instructions, e.g. {"v4.b32": 16}.

    >>> shared_stores("st.shared.b16 [%r1], %r2;\\nbar.sync 0;\\nst.shared.v4.b32 [%r1], {};\\nret;", "bar", "ret")
    {'v4.b32': 1}

    `after` and `before` are the beginnings of two instructions, the first of each; a kernel without them is refused.
    """
    lines = [line.strip() for line in ptx.splitlines()]
    ends = []
    for mark in (after, before):
        found = [number for number, line in enumerate(lines) if line.startswith(mark)]
        if not found:
            raise LayoutError(f"the PTX has no instruction that begins with {mark}")
        ends.append(found[0])
    stores = [match[1][1:] for line in lines[ends[0] : ends[1]] if (match := SHARED_STORE.match(line))]
    return dict(Counter(stores))
