"""`layoutlab bundle`: a compiled kernel, its launch and its inputs as a folder that a machine with a device can run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from pathlib import Path

from layoutlab.cli import COMMANDS
from layoutlab.cli.verify import settings_of

_EPILOG = """\
The device's machine needs Python 3.11, cuda-python, and nothing of layoutlab:

  layoutlab bundle sP90 --set store=stmatrix -o b     here, without a GPU
  python b/run.py                                     there: writes b/results.zip
  layoutlab check-bundle b                            here: 0 same, 1 differs, 3 could not judge
"""


def add(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "bundle",
        help=COMMANDS["bundle"],
        description="Compiles a kernel without a GPU and writes its cubin, its launch and its inputs to a folder.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kernel",
        choices=["sP90", "rs_reuse"],
        help="sP90: the P handoff on SM90 (Hopper); rs_reuse: the same kernel, P going from registers to the MMA",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument("-o", dest="folder", type=Path, required=True, metavar="DIR", help="the folder to write")


def run(args: Namespace) -> int:
    """Runs the command."""
    from layoutlab.catalogue import named
    from layoutlab.crosscheck.sp90 import kernel_settings
    from layoutlab.kernels.p_bundle_sm90 import make_p_bundle
    from layoutlab.kernels.p_settings_sm90 import PSettings90

    settings = dict(settings_of(args.set))
    if args.kernel == "rs_reuse":
        settings = kernel_settings(named("rs_reuse")(**settings))
    launch = make_p_bundle(PSettings90.parse(settings), args.folder)
    words = ", ".join(f"{w['tensor']} in parameter {w['parameter']}" for w in launch["addresses"])
    print(f"{args.folder}: {len(launch['cases'])} cases of {launch['kernel']}; addresses: {words}")
    print(f"on a device of compute capability 9.0: python {args.folder}/run.py")
    return 0
