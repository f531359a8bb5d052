"""The replay machine: PTX run on the CPU, instruction by instruction, written from the PTX ISA alone.

It imports nothing else of layoutlab, so that its testimony about where a byte went is independent of the model.
"""
