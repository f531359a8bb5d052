"""A process that evaluates layout expressions with CuTe DSL: JSON lines in, JSON lines out.

It is a process of its own because some calls abort it, and a file because the DSL traces only functions that have one.
"""

import json
import os
import sys

os.environ.update(CUTE_DSL_ARCH="sm_100a", CUTE_DSL_DRYRUN="1")

import cutlass.cute as cute


def layout(shape, stride=None):
    return cute.make_layout(shape) if stride is None else cute.make_layout(shape, stride=stride)


def swizzled(bits, base, shift, offset, outer):
    return cute.make_composed_layout(cute.make_swizzle(bits, base, shift), offset, outer)


NAMES = {
    **{name: getattr(cute, name) for name in dir(cute) if not name.startswith("_")},
    "L": layout,
    "S": swizzled,
    "B": lambda value, *path: cute.E(list(path)) * value,
}
job = {"expression": "", "answer": ""}


def evaluate():
    job["answer"] = str(eval(job["expression"], dict(NAMES)))


@cute.jit
def traced():
    evaluate()


for line in sys.stdin:
    job["expression"] = json.loads(line)
    try:
        traced()
        reply = {"text": job["answer"]}
    except Exception as error:
        reply = {"refused": " ".join(str(error).split())[-300:]}
    print("reply " + json.dumps(reply), flush=True)
