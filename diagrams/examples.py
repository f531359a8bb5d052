"""What the gallery draws that has no name of its own."""

import layoutlab as ll
from layoutlab.atoms.tmem_buffers import Buffer, TmemBuffers

attention_columns = TmemBuffers(
    (
        Buffer("S0", 0, 128),
        Buffer.typed("P0", 32, elements=128, bits=16, over=("S0",)),
        Buffer("S1", 128, 128),
        Buffer.typed("P1", 160, elements=128, bits=16, over=("S1",)),
        Buffer("O0", 256, 128),
        Buffer("O1", 384, 128),
    )
)
"""S and O of two stages, 128 x 128 each; P, 16 bits wide, over the S that it was made of."""


@ll.handoff
def p_in_tmem(offset: int = 32, read_at: int = 32) -> ll.Handoff:
    """Softmax threads store P in Tensor Memory, over the S that they have read; the PV MMA takes it as operand A."""
    P = ll.Tile("P", m=128, k=64, bits=16)
    return ll.Handoff(
        P, writer=ll.store("(128,64):(1,128)", ll.tmem(over=P, column=offset), bits=32),
        reader=ll.umma_a_tmem(P, column=read_at),
    )  # fmt: skip
