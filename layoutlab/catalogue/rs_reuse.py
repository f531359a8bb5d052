"""rs_reuse: accumulator registers used again as the next MMA's operand A (attention on SM80 to SM90: O = P V).

    C of S = Q K^T, in registers -> P, converted in place -> the same registers as A of the PV MMA

It is legal where the accumulator's fragment and operand A's have their elements in the same order, as for 16-bit types:

    C, two n apart by 8          T: n by 2, m      V: n by 1, m by 8, n by 8
    A, 16-bit, one K step of 16  T: k by 2, m      V: k by 1, m by 8, k by 8
    A, 8-bit, one K step of 32   T: k by 4, m      V: k by 1, 2, m by 8, k by 16

An fp8 operand wants four neighbours of K in a register where the accumulators have pairs: threads would have to
exchange them first, or V's keys to be permuted in the same way.
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.atoms.mma import mma_sync, wgmma
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, MultipleOf, Tile, from_registers, handoff, keep, owned
from layoutlab.handoff.registers import over_steps

BITS = {"bf16": 16, "f16": 16, "e4m3": 8, "e5m2": 8}


@handoff
def rs_reuse(
    instruction: Literal["wgmma", "mma.sync"] = "wgmma",
    dtype: Literal["bf16", "f16", "e4m3", "e5m2"] = "bf16",
    kv: int = 128,
) -> Handoff:
    """Accumulators of the QK MMA, converted in place, are the PV MMA's operand A."""
    step = 256 // BITS[dtype]
    if kv < step or kv % step or kv > 256:
        raise LayoutError(f"kv={kv}: a K step of {dtype} takes {step}, so a multiple of it up to 256 is needed")
    return _handed(instruction, dtype, kv)


@rs_reuse.in_general
def _any_size(
    instruction: Literal["wgmma", "mma.sync"] = "wgmma",
    dtype: Literal["bf16", "f16", "e4m3", "e5m2"] = "bf16",
    kv: Annotated[int, MultipleOf(32)] = 128,
) -> Handoff:
    """Any number of K steps."""
    return _handed(instruction, dtype, kv)


def _handed(instruction: str, dtype: str, kv: int) -> Handoff:
    """The accumulators' fragment over all of kv, taken for operand A's."""
    bits, rows = BITS[dtype], 64 if instruction == "wgmma" else 16
    step = 256 // bits
    P = Tile("P", m=rows, k=kv, bits=bits)
    if instruction == "wgmma":
        accumulators = wgmma(kv, dtype, "f32").c
        operand = wgmma(8, dtype, "f32", a_from="registers").a
    else:
        accumulators = over_steps(mma_sync(16, 8, step, dtype, "f32").c, rows, P)
        operand = mma_sync(16, 8, step, dtype, "f32").a
    return Handoff(P, writer=keep(owned(accumulators, P)), reader=from_registers(P, operand))
