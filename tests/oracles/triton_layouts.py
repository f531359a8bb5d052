"""Prints Triton's layouts of tensor memory and shared memory, one JSON object a line; no GPU needed.

Run in a process of its own: Triton stops the process on some bad input.
"""

import json

import triton.experimental.gluon.language as gl
from triton._C.libtriton import gluon_ir, ir
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    tensor_memory_descriptor_type,
)

CONTEXT = ir.context()
ir.load_dialects(CONTEXT)
BUILDER = gluon_ir.GluonOpBuilder(CONTEXT)
TYPES = {32: gl.float32, 16: gl.float16, 8: gl.int8}


def say(**facts):
    print(json.dumps(facts))


def loads():
    for variant in ("32x32b", "16x64b", "16x128b", "16x256b"):
        for bits in (32, 16):
            for rows in (128, 64):
                n = 8
                while n <= 256:
                    shape = [rows, n]
                    kind = tensor_memory_descriptor_type(TYPES[bits], shape, TensorMemoryLayout((rows, n), 1), shape)
                    try:
                        found = kind.get_reg_layout(4, variant)
                    except ValueError as error:
                        say(kind="refused", variant=variant, bits=bits, shape=shape, why=str(error)[:100])
                    else:
                        say(kind="load", variant=variant, bits=bits, shape=shape, registers=found.reg_bases,
                            lanes=found.lane_bases, warps=found.warp_bases)  # fmt: skip
                    n *= 2


def linear(layout, shape):
    return BUILDER.to_linear_layout(layout._to_ir(BUILDER), shape)


def shared():
    for swizzle in (32, 64, 128):
        for bits in (8, 16, 32):
            for transposed in (False, True):
                for shape in ([64, 128], [128, 64], [256, 32]):
                    if shape[1] * bits < swizzle * 8:
                        continue  # Triton stops the process
                    layout = gl.NVMMASharedLayout(swizzle, bits, 2, transposed)
                    tile = shape[::-1] if transposed else shape
                    found = linear(layout, tile)
                    say(kind="shared", swizzle=swizzle, bits=bits, transposed=transposed, shape=tile,
                        offsets=found.offset_bases)  # fmt: skip


def tensor_memory():
    for rows, n, stride in ((128, 64, 1), (128, 128, 1), (64, 64, 1), (128, 64, 2), (64, 128, 2)):
        for two_ctas in (False, True):
            if two_ctas:
                cga = [[1, 0]]
                layout = TensorMemoryLayout((rows, n), stride, cga, True)
                shape = [2 * rows, n]
            else:
                layout, shape = TensorMemoryLayout((rows, n), stride), [rows, n]
            found = linear(layout, shape)
            say(
                kind="tmem",
                block=[rows, n],
                stride=stride,
                two_ctas=two_ctas,
                shape=shape,
                rows=found.rows,
                cols=found.cols,
            )
    for rows in (32, 64, 128, 256):
        for columns in (4, 8, 16):
            found = linear(TensorMemoryScalesLayout(), [rows, columns])
            say(kind="scales", shape=[rows, columns], rows=found.rows, cols=found.cols)


if __name__ == "__main__":
    loads()
    shared()
    tensor_memory()
