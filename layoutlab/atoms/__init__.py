"""Instruction tables: where each instruction reads or writes every element of its tile.

One module a family: `descriptors` (shared-memory matrix descriptors), `idesc` (tcgen05 instruction descriptors), `tmem`
(tcgen05.ld/st and the datapaths of the accumulator), `mma` (register fragments), `tma` (tensor boxes), `scales` (block
scale factors).
"""
