"""`layoutlab trace FILE.py[:callable]`: a kernel's layouts by name, who hands what to whom, and is it right?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace, _SubParsersAction
from pathlib import Path
from typing import Any

from layoutlab.errors import LayoutError

_EPILOG = """\
The file runs in a process of its own, as a script or by one of its callables, and every kernel that it compiles with
CuTe DSL is watched; no GPU is needed. By default a compile stops after tracing (--compile goes on to the end), so what
the script does with the compiled kernel may fail: that is reported, and what was traced is judged.

With --replay, each kernel that the file calls (or else compiles from tensors that have memory) runs in the replay
machine on the file's own CPU tensors, and the table comes from that run: who wrote each byte that was read, and where
each operand's elements came from, whatever pointer arithmetic led there. A byte that nobody wrote is refuted, and so
is a writer that depends on how late started work is done or on which warp goes first (one other order of the warps is
tried). A kernel that has no end is stopped after 50 million instructions of a warp. It needs the extra `replay`. Keep
the problem small: a CPU runs some hundred thousand instructions a second.

examples:
  layoutlab trace my_kernel.py:compile_it --set head_dim=64 -o handoffs.svg
  layoutlab trace bench.py --allow unsupported -- --seqlen 1024
  layoutlab trace my_kernel.py --replay
  layoutlab trace my_kernel.py --save now.json; layoutlab diff before.json now.json

exit status: 0 all proved, 1 one refuted, 2 usage or internal error, 3 one undecided or unsupported, something not
recorded, nothing traced, or a script that ended badly under --replay
"""


UNSEEN_BY_A_RUN = "ordering (proxy fences, further orders of the warps)"
UNSEEN_BY_A_TRACE = (
    "ordering (barriers, proxy fences, waits); that all of each partition is copied, and that nothing else is stored "
    "over it (--replay sees both)"
)


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Adds the command's parser."""
    import argparse

    parser = subparsers.add_parser(
        "trace",
        description="Traces the CuTe DSL kernels that a file compiles, and judges each handoff that is seen.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="FILE.py[:callable]|TRACE.json")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="the script's arguments, after --")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a keyword of the callable")
    parser.add_argument("--arch", default="sm_100a", help="CUTE_DSL_ARCH, where the shell does not set it")
    parser.add_argument(
        "--compile", action="store_true", help="compile to the end, not only until the layouts are known"
    )
    parser.add_argument(
        "--replay", action="store_true", help="run what the file calls, and take the table from the run"
    )
    parser.add_argument("--allow", choices=["unsupported"], help="what is unsupported does not fail")
    parser.add_argument("--names", action="store_true", help="list every layout that was recorded, by name")
    parser.add_argument("--save", metavar="FILE.json", help="write the trace, for `diff` or to judge it again")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the diagram: .svg, .gv or .dot")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")


def run(args: Namespace) -> int:
    """Traces, judges, prints."""
    from layoutlab.tracing.judge import counts, table

    trace, ended = _obtained(args)
    rows = trace.rows()
    found = counts(rows)
    if args.save:
        Path(args.save).write_text(trace.text(), encoding="utf-8")
    if args.output:
        _draw(rows, trace, Path(args.output))
    if args.json:
        import json

        from layoutlab.cli import stamp

        told = [
            {"buffer": r.buffer, "writer": r.writer, "reader": r.reader, "verdict": r.verdict, "why": r.why or None,
             "cost": r.cost or None, "places": list(r.places)}
            for r in rows
        ]  # fmt: skip
        names = trace.layouts if args.names else None
        answer = {"source": trace.source, "rows": told, "counts": found, "ended": ended or None, "names": names}
        print(json.dumps(stamp() | answer | {"failures": trace.failures}, indent=2))
    else:
        if args.names:
            print("\n".join(f"{name} = {text}" for name, text in trace.layouts.items()) + "\n")
        print(table(rows))
        for failure in trace.failures:
            print(f"not recorded: {failure}")
        if ended:
            print(f"note: {ended}")
        if rows:
            print(f"not checked: {UNSEEN_BY_A_RUN if trace.replayed else UNSEEN_BY_A_TRACE}")
        else:
            print(_nothing(args.target, trace))
        print(", ".join(f"{n} {name}" for name, n in found.items()))
    return _status(found, args.allow, whole=not trace.failures and not (ended and trace.replayed is not None))


def _nothing(target: str, trace: Any) -> str:
    """Why there is no row."""
    if trace.layouts and trace.replayed is not None:
        return "nothing was run: no kernel was called with arrays, or the file ended before"
    if trace.layouts:
        return "no handoff was seen: no partition of a buffer in shared or Tensor Memory"
    how = "" if ".py:" in target or target.endswith(".json") else f", or name what does: {target}:CALLABLE"
    return f"nothing was traced: {target} compiled no CuTe DSL kernel; call what compiles one{how}"


def _status(found: Any, allow: str | None, whole: bool) -> int:
    """`whole`: all was recorded, and a script whose kernels ran came to its end."""
    if found["refuted"]:
        return 1
    judged = whole and not found["unsupported"]
    if found["undecided"] or not (judged or allow == "unsupported") or not sum(found.values()):
        return 3
    return 0


def _obtained(args: Namespace) -> tuple[Any, str]:
    """The trace of a file, made in a process of its own, or read back."""
    import json

    from layoutlab.tracing.record import Trace

    if args.target.endswith(".json"):
        return Trace.read(json.loads(Path(args.target).read_text(encoding="utf-8"))), ""
    settings = list(args.set)
    for text in settings:
        if "=" not in text:
            raise LayoutError(f"--set {text}: a setting is KEY=VALUE")
    if settings and ".py:" not in args.target:
        raise LayoutError("--set gives keywords to a callable: FILE.py:callable")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trace.json"
        command = [
            sys.executable,
            "-P",  # the caller's folder may have a file named like a module of Python's own
            "-m",
            "layoutlab.tracing.run",
            args.target,
            str(out),
            *(["--replay"] if args.replay else []),
            *settings,
            "--",
            *args.arguments,
        ]
        environment = {"CUTE_DSL_ARCH": args.arch, **os.environ}
        environment["CUTE_DSL_DRYRUN"] = "0" if args.compile or args.replay else "1"
        if args.replay:
            environment |= {"CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": folder, "CUTE_DSL_LINEINFO": "1"}
        environment["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
        done = subprocess.run(command, env=environment, stdout=2)  # standard output is for the answer
        if not out.exists():
            raise LayoutError(f"{args.target}: the process that traced it died with status {done.returncode}")
        answer = json.loads(out.read_text())
    if "refused" in answer:
        raise LayoutError(answer["refused"])
    return Trace.read(answer["trace"]), answer["ended"]


def _draw(rows: Any, trace: Any, path: Path) -> None:
    from layoutlab.draw.graph import graph_of, render

    verdicts = [row.handoff for row in rows if row.handoff is not None]
    if not verdicts:
        raise LayoutError("no handoff could be built, so there is nothing to draw")
    source = graph_of(verdicts, trace.source)
    path.write_text(source if path.suffix in (".gv", ".dot") else render(source, path.suffix[1:]), encoding="utf-8")
