"""`python -m layoutlab.trace -- script.py arguments`: the same as `layoutlab trace script.py -- arguments`."""

from __future__ import annotations

import sys


def main() -> int:
    """Options before `--` are those of `layoutlab trace`; after it come the file and the arguments of the script."""
    from layoutlab.cli import main as command

    arguments = sys.argv[1:]
    if "--" not in arguments:
        return command(["trace", *arguments])
    stop = arguments.index("--")
    options, script = arguments[:stop], arguments[stop + 1 :]
    return command(["trace", *options, *script[:1], "--", *script[1:]])


if __name__ == "__main__":
    raise SystemExit(main())
