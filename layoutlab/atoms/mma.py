"""Register fragments: which element of A, B and C each thread of mma.sync or wgmma holds.

One rule makes them all. A 32-bit register holds e = 32 / bits elements that follow each other along K (along N for C,
where two 32-bit accumulators do so in two registers). Four threads side by side cover 4 e of K, eight rows of threads
cover 8 rows; then come the 8 rows below, then the next 4 e of K:

    A  (T32, (e, 2, K/4e)) -> m + M k     threads (4, 8): k by e, m by 1;  values: k by 1, m by 8, k by 4e
    B  (T32, (e, K/4e))    -> n + N k     threads (4, 8): k by e, n by 1;  values: k by 1, k by 4e
    C  (T32, (2, 2))       -> m + M n     threads (4, 8): n by 2, m by 1;  values: n by 1, m by 8

wgmma is four of these below each other, one a warp, and as wide as N says; A may come from registers in the same way.

>>> atom = mma_sync(16, 8, 16, "bf16", "f32")
>>> print(atom.a); print(atom.b); print(atom.c)
((4,8),(2,2,2)):((32,1),(16,8,128))
((4,8),(2,2)):((16,1),(8,64))
((4,8),(2,2)):((32,1),(16,8))
>>> print(wgmma(64, "e4m3", "f32", a_from="registers").a)
((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))

Layouts are (thread, value) -> colexicographic coordinate, counted in elements; value v lies in bits [v b mod 32, ...)
of register v b / 32. Sources: PTX ISA, "Matrix fragments for mma", "Register fragments for wgmma"; CUTLASS
include/cute/atom/mma_traits_sm80.hpp, _sm89, _sm90, _sm90_gmma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutlab.atoms.modes import thread_value
from layoutlab.errors import LayoutError
from layoutlab.layout import Layout
from layoutlab.symbol import at_most

Source = Literal["registers", "smem"]

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f32": 32, "s32": 32,
}  # fmt: skip
"""Width of an element in its register; tf32 is stored in 32 bits."""

_INT8, _INT4, _FP8 = ("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2")

# (A and B type, accumulators, shapes m n k, architecture, CUTLASS header)
_MMA_SYNC: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[int, int, int], ...], str, str], ...] = (
    (("f16",), ("f16", "f32"), ((16, 8, 8), (16, 8, 16)), "sm_80", "mma_traits_sm80.hpp"),
    (("bf16",), ("f32",), ((16, 8, 8), (16, 8, 16)), "sm_80", "mma_traits_sm80.hpp"),
    (("tf32",), ("f32",), ((16, 8, 4), (16, 8, 8)), "sm_80", "mma_traits_sm80.hpp"),
    (_INT8, ("s32",), ((8, 8, 16), (16, 8, 16), (16, 8, 32)), "sm_80", "mma_traits_sm80.hpp"),
    (_INT4, ("s32",), ((8, 8, 32), (16, 8, 32), (16, 8, 64)), "sm_80", "mma_traits_sm80.hpp"),
    (("b1",), ("s32",), ((8, 8, 128), (16, 8, 128), (16, 8, 256)), "sm_80", "mma_traits_sm80.hpp"),
    (("f64",), ("f64",), ((8, 8, 4),), "sm_80", "mma_traits_sm80.hpp"),
    (_FP8, ("f16", "f32"), ((16, 8, 32),), "sm_89", "mma_traits_sm89.hpp"),
    (("f64",), ("f64",), ((16, 8, 4), (16, 8, 8), (16, 8, 16)), "sm_90", "mma_traits_sm90.hpp"),
)

# (A and B type, accumulators, k); N is a multiple of 8 up to 256, for integers of 16 above 32.
_WGMMA: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...] = (
    (("f16",), ("f16", "f32"), 16),
    (("bf16",), ("f32",), 16),
    (("tf32",), ("f32",), 8),
    (_FP8, ("f16", "f32"), 32),
    (_INT8, ("s32",), 32),
    (("b1",), ("s32",), 256),
)


@dataclass(frozen=True)
class MmaAtom:
    """One matrix instruction and its fragments.

    >>> atom = mma_sync(16, 8, 8, "tf32", "f32")
    >>> atom.threads, atom.a.size(), atom.arch
    (32, 128, 'sm_80')

    a, b and c are (thread, value) -> m + M k, n + N k and m + M n. An operand that the instruction reads from shared
    memory has no fragment: its layout gives every thread the whole tile, as CuTe writes it, and where it lies is the
    descriptor's matter. source is the CUTLASS header that says the same.
    """

    instruction: Literal["mma.sync", "wgmma"]
    shape: tuple[int, int, int]
    ab: str
    cd: str
    a: Layout
    b: Layout
    c: Layout
    arch: str
    source: str

    @property
    def threads(self) -> int:
        """Threads that execute it together."""
        return 32 if self.instruction == "mma.sync" else 128

    def __str__(self) -> str:
        m, n, k = self.shape
        return f"{self.instruction}.m{m}n{n}k{k}.{self.cd}.{self.ab}.{self.ab}.{self.cd}"


def mma_sync(m: int, n: int, k: int, ab: str, cd: str) -> MmaAtom:
    """The warp-level instruction mma.sync.m{m}n{n}k{k} of one A and B type.

    >>> mma_sync(16, 8, 4, "bf16", "f32")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: mma.sync.m16n8k4.f32.bf16.bf16.f32: for bf16 there are m16n8k8, m16n8k16 into f32

    Signed and unsigned integers, and the two fp8 types, have the same fragments, also when A's and B's types differ.
    """
    rows = [row for row in _MMA_SYNC if ab in row[0]]
    for _, accumulators, shapes, arch, header in rows:
        if cd in accumulators and (m, n, k) in shapes:
            fragments = (_fragment(m, k, ab, 1), _fragment_b(n, k, ab), _accumulator(m, n, 1))
            return MmaAtom("mma.sync", (m, n, k), ab, cd, *fragments, arch, f"CUTLASS {header}")
    known = ", ".join("m{}n{}k{}".format(*s) for row in rows for s in row[2])
    into = " or ".join(sorted({c for row in rows for c in row[1]}))
    have = f"for {ab} there are {known} into {into}" if rows else f"the types are {', '.join(_types(_MMA_SYNC))}"
    raise LayoutError(f"mma.sync.m{m}n{n}k{k}.{cd}.{ab}.{ab}.{cd}: {have}")


def wgmma(n: int, ab: str, cd: str, a_from: Source = "smem") -> MmaAtom:
    """The warpgroup instruction wgmma.m64n{n} of one A and B type; B always comes from shared memory.

    >>> print(wgmma(16, "f16", "f32").c)
    ((4,8,4),(2,2,2)):((128,1,16),(64,8,512))
    >>> wgmma(40, "s8", "s32")
    Traceback (most recent call last):
    layoutlab.errors.LayoutError: wgmma has no N of 40 for s8: multiples of 8 up to 32, then of 16 up to 256
    """
    row = next((row for row in _WGMMA if ab in row[0]), None)
    if row is None:
        raise LayoutError(f"wgmma has no {ab}: the types are {', '.join(_types(_WGMMA))}")
    if cd not in row[1]:
        raise LayoutError(f"wgmma multiplies {ab} into {' or '.join(row[1])}, not into {cd}")
    whole = ab in (*_INT8, "b1")
    if not n >= 8 or not at_most(n, 256, "wgmma has an N up to 256") or n % 8 or (whole and n > 32 and n % 16):
        rule = "multiples of 8 up to 32, then of 16 up to 256" if whole else "multiples of 8 up to 256"
        raise LayoutError(f"wgmma has no N of {n} for {ab}: {rule}")
    k = row[2]
    a = _fragment(64, k, ab, 4) if a_from == "registers" else Layout((128, (64, k)), (0, (1, 64)))
    b = Layout((128, (n, k)), (0, (1, n)))
    return MmaAtom(
        "wgmma", (64, n, k), ab, cd, a, b, _accumulator(64, n, 4), "sm_90", "CUTLASS mma_traits_sm90_gmma.hpp"
    )


def mma_atoms() -> tuple[MmaAtom, ...]:
    """Every mma.sync of SM80, SM89 and SM90, dense.

    >>> len(mma_atoms()) > 30
    True
    """
    return tuple(
        mma_sync(*shape, ab, cd)
        for types, accumulators, shapes, _, _ in _MMA_SYNC
        for ab in types
        for cd in accumulators
        for shape in shapes
    )


def _types(rows: tuple[tuple[tuple[str, ...], ...], ...] | tuple) -> list[str]:  # type: ignore[type-arg]
    return list(dict.fromkeys(t for row in rows for t in row[0]))


def _fragment(m: int, k: int, kind: str, warps: int) -> Layout:
    """A: (thread, value) -> row + M k."""
    e = max(1, 32 // BITS[kind])
    threads = [(4, e * m), (8, 1), (warps, 16)]
    values = [(e, m), (min(2, m // (8 * warps)), 8), (k // (4 * e), 4 * e * m)]
    return thread_value(threads, values)


def _fragment_b(n: int, k: int, kind: str) -> Layout:
    """B: (thread, value) -> n + N k."""
    e = max(1, 32 // BITS[kind])
    return thread_value([(4, e * n), (8, 1)], [(e, n), (k // (4 * e), 4 * e * n)])


def _accumulator(m: int, n: int, warps: int) -> Layout:
    """C and D: (thread, value) -> m + M n."""
    return thread_value([(4, 2 * m), (8, 1), (warps, 16)], [(2, m), (min(2, m // (8 * warps)), 8), (n // 8, 8 * m)])
