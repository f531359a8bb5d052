"""store: TMA writes a tile of O to global memory, where the caller reads it (SM100 attention).

    sO -> TMA boxes of 64 columns -> O, (batch, seq, heads, head_dim) in memory: row m of one head is `heads` rows on

`order=heads` is the kernel that takes O for (batch, heads, seq, head_dim).
"""

from __future__ import annotations

from typing import Annotated, Literal

from layoutlab.catalogue.sp import BITS, ROWS
from layoutlab.errors import LayoutError
from layoutlab.handoff import Handoff, MultipleOf, Tile, declared, gmem, handoff, tma_write

COLUMNS = 64
"""Of a box: 128 bytes of a row."""


@handoff
def store(
    head_dim: Literal[64, 128, 256] = 128,
    heads: int = 2,
    rows: int = ROWS,
    dtype: Literal["bf16", "f16"] = "bf16",
    order: Literal["seq", "heads"] = "seq",
    base: int = 0,
) -> Handoff:
    """TMA writes a tile of O, (batch, seq, heads, head_dim) in memory; the caller reads it there. `rows` are inside."""
    if not 1 <= rows <= ROWS or heads < 1:
        raise LayoutError(f"{rows} rows of {heads} heads: a tile has 1 to {ROWS} rows, and there is a head at least")
    return _handed(rows, head_dim, heads, dtype, order, base)


@store.in_general
def _any_size(
    head_dim: Annotated[int, MultipleOf(64)] = 128,
    heads: Annotated[int, MultipleOf(1)] = 2,
    dtype: Literal["bf16", "f16"] = "bf16",
    order: Literal["seq", "heads"] = "seq",
    base: Annotated[int, MultipleOf(16, least=0)] = 0,
) -> Handoff:
    """Whole tiles of any head_dim, of any number of heads."""
    return _handed(ROWS, head_dim, heads, dtype, order, base)


def _handed(rows: int, head_dim: int, heads: int, dtype: str, order: str, base: int) -> Handoff:
    """O where the kernel writes it, and where the caller reads it."""
    O = Tile("O", m=rows, n=head_dim, bits=BITS[dtype])  # noqa: E741
    of_caller = gmem(f"({rows},{head_dim}):({heads * head_dim},1)", over=O, base_bytes=base)
    of_kernel = gmem(f"({rows},{head_dim}):({head_dim},1)", over=O, base_bytes=base) if order == "heads" else of_caller
    return Handoff(O, writer=tma_write(of_kernel, box={"n": COLUMNS, "m": ROWS}), reader=declared(of_caller, O))
