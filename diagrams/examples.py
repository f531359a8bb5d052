"""What the gallery draws that has no name of its own."""

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
