"""Instruction tables: where each instruction reads or writes every element of its tile.

    descriptors    shared-memory matrix descriptors: fields, words, the bytes that they read
    operand        the map of an operand read by descriptors; the descriptors of a layout
    idesc          tcgen05.mma's instruction descriptors
    tmem           tcgen05.ld and tcgen05.st; which warp reaches which lanes
    datapath       where tcgen05.mma keeps D and takes A in Tensor Memory; columns
    tmem_buffers   which buffers share columns
    scales         block scale factors and tcgen05.cp
    mma            register fragments of mma.sync and wgmma
    matrix         ldmatrix and stmatrix
    tma            tensor maps, boxes, coordinates; cp.async

Every row of a table cites its source; `layoutlab.witnesses` says what each was held against.
"""
