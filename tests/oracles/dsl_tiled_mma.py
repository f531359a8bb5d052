"""Prints what CuTe DSL says of tiled MMAs, one JSON object a line; run in a process of its own, no GPU needed."""

import json

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warp

ATOMS = ((2, 2, 1), (4, 1, 1), (1, 2, 1))


def tiled(op, atoms, permutation):
    return cute.make_tiled_mma(op, atoms) if permutation is None else cute.make_tiled_mma(op, atoms, permutation)


@cute.jit
def main():
    op = warp.MmaF16BF16Op(cutlass.BFloat16, cutlass.Float32, (16, 8, 16))
    for m, n, k in ATOMS:
        permutations = (
            None,
            (16 * m, 16 * n, 16 * k),
            (16 * m, cute.make_layout((8, n, 2), stride=(1, 16, 8)), 16 * k),
        )
        for permutation in permutations:
            made = cute.make_layout((m, n, k))
            mma = tiled(op, made, permutation)
            layouts = {letter: str(getattr(mma, f"tv_layout_{letter}_tiled")) for letter in "ABC"}
            tile = [cute.size(mma.get_tile_size(i)) for i in range(3)]
            print(json.dumps({"printed": str(mma), "tile": tile, **layouts}))


main()
