"""oRescale: correction threads multiply O in Tensor Memory when a row's maximum grew (SM100 attention).

    O in TMEM -> tcgen05.ld -> registers, times the row's factor -> tcgen05.st -> O, same place -> the MMA adds to it

Every element has to come back to where it was taken from: so the load and the store must be a pair. A thread multiplies
by one factor, its row's, so it must hold one row: 32x32b gives it that, the shapes of 16 lanes give it several.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from layoutlab.catalogue.sp import ROWS
from layoutlab.handoff import Handoff, MultipleOf, Owner, Tile, handoff, tcgen05_ld, tmem, tmem_store, umma_d
from layoutlab.handoff.rule import Rule
from layoutlab.symbol import span

Atom = Literal[
    "32x32b.x8", "32x32b.x16", "32x32b.x32", "32x32b.x64", "16x64b.x16", "16x128b.x8", "16x256b.x4", "16x256b.x8"
]


@handoff
def oRescale(
    head_dim: Literal[64, 128, 256] = 128,
    column: int = 256,
    load: Atom = "32x32b.x32",
    store: Atom = "32x32b.x32",
    store_column: int = 256,
    factors: Literal["thread", "row"] = "thread",
    first_warp: Literal[0, 1, 4] = 4,
) -> Handoff:
    """Correction warps take O out of Tensor Memory, scale it and put it back; the next MMA accumulates onto it."""
    return _handed(head_dim, column, load, store, store_column, factors, first_warp)


@oRescale.in_general
def _any_size(
    head_dim: Annotated[int, MultipleOf(64)] = 128,
    column: Annotated[int, MultipleOf(1, least=0)] = 256,
    load: Atom = "32x32b.x32",
    store: Atom = "32x32b.x32",
    factors: Literal["thread", "row"] = "thread",
    first_warp: Literal[0, 1, 4] = 4,
) -> Handoff:
    """O of any head_dim in any columns."""
    return _handed(head_dim, column, load, store, column, factors, first_warp)


def _handed(
    head_dim: int, column: int, load: str, store: str, store_column: int, factors: str, first_warp: int
) -> Handoff:
    """O in its columns, and where it is put back."""
    O = Tile("O", m=ROWS, n=head_dim, bits=32)  # noqa: E741
    owner = tcgen05_ld(load).over(O, first_warp=first_warp)
    if factors == "thread":
        owner = _one_row(owner)
    writer = tmem_store(owner, tmem(over=O, column=store_column), store)
    live = {"what lies before O": span(0, column), "what lies behind O": span(column + head_dim, 512)}
    return Handoff(O, writer=writer, reader=umma_d(O, column=column), live=live)


def _one_row(owner: Owner) -> Owner:
    """The same owner, with the rule that each thread's values lie in one row."""

    def rules() -> list[Rule]:
        one = all(d[0] != "v" for term in owner.places.table.rows["m"] for d in term)
        values = () if one else range(owner.places.axes["v"])
        several = next((v for v in values if owner.places.at(t=0, v=v)["m"]), None)
        fault = None
        if several is not None:
            where = owner.places.at(t=0, v=several)
            fault = (
                f"T{owner.first_thread} multiplies by the factor of its row, m=0, and its V{several} is of row "
                f"m={where['m']}: take 32x32b, or a factor for each row"
            )
        return [*owner.rules(), Rule("a thread holds one row, whose factor it has", fault)]

    return replace(owner, rules=rules)
