"""How long the command takes to answer, and what it loads: `python tests/bench/startup.py`.

Each command runs as a whole process, beside an empty Python and `import numpy` in the same run. The target is
under 0.3 s for commands that need no CuTe DSL; what they import of the heavy packages is listed.
"""

from __future__ import annotations

import subprocess
import sys
import time

COMMANDS = [
    ["--help"],
    ["eval", "composition((6,2):(8,2), (4,3):(3,1))"],
    ["verify", "sP", "--no-trace"],
    ["verify", "sP", "--no-trace", "--set", "write_swizzle=none"],
]
HEAVY = ("numpy", "sympy", "cutlass", "matplotlib", "graphviz", "llvmlite")
RUNS = 5


def best_seconds(command: list[str]) -> float:
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def loaded(arguments: list[str]) -> str:
    """The heavy packages that a command imports."""
    code = (
        "import sys, contextlib, io\n"
        "from layoutlab.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    main({arguments!r})\n"
        f"print(','.join(m for m in {HEAVY!r} if m in sys.modules) or 'none')"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    floor = best_seconds([sys.executable, "-c", "pass"])
    print("| command | seconds | times an empty Python | heavy imports |")
    print("|---|---|---|---|")
    for code in ("pass", "import numpy"):
        seconds = best_seconds([sys.executable, "-c", code])
        print(f"| python -c '{code}' | {seconds:.3f} | {seconds / floor:.1f} | |")
    for arguments in COMMANDS:
        seconds = best_seconds([sys.executable, "-m", "layoutlab", *arguments])
        print(f"| layoutlab {' '.join(arguments)} | {seconds:.3f} | {seconds / floor:.1f} | {loaded(arguments)} |")


if __name__ == "__main__":
    main()
