"""`layoutlab bundle`: a compiled kernel, its launch and its inputs as a folder that a machine with a device can run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from pathlib import Path
from typing import Any

from layoutlab.cli import COMMANDS
from layoutlab.cli.verify import settings_of
from layoutlab.errors import LayoutError

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
        choices=["sP90", "rs_reuse", "sP"],
        help="the P handoff: sP90 on SM90 (Hopper), rs_reuse there from registers, sP on SM100 (Blackwell)",
    )
    parser.add_argument(
        "--capability", choices=["9.0", "10.0", "10.3"], help="the device's; default: 9.0, and 10.0 for sP"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    parser.add_argument("-o", dest="folder", type=Path, required=True, metavar="DIR", help="the folder to write")


def run(args: Namespace) -> int:
    """Runs the command."""
    try:
        launch = MAKERS[args.kernel](dict(settings_of(args.set)), args.folder, args.capability)
    except OSError as e:
        raise LayoutError(f"{args.folder} cannot be written: {e.strerror}") from e
    words = ", ".join(f"{w['tensor']} in parameter {w['parameter']}" for w in launch["addresses"])
    print(f"{args.folder}: {len(launch['cases'])} cases of {launch['kernel']}; addresses: {words}")
    major, minor = launch["capability"]
    print(f"on a device of compute capability {major}.{minor}: python {args.folder}/run.py")
    return 0


def _sp90(settings: dict[str, Any], folder: Path, capability: str | None) -> dict[str, Any]:
    from layoutlab.kernels.p_bundle_sm90 import make_p_bundle
    from layoutlab.kernels.p_settings_sm90 import PSettings90

    if capability not in (None, "9.0"):
        raise LayoutError(f"sP90 is sm_90a code, which a device of compute capability {capability} does not run: sP is")
    launch: dict[str, Any] = make_p_bundle(PSettings90.parse(settings), folder)
    return launch


def _sp(settings: dict[str, Any], folder: Path, capability: str | None) -> dict[str, Any]:
    from layoutlab.kernels.p_bundle import make_p_bundle
    from layoutlab.kernels.p_settings import PSettings

    major, minor = (int(part) for part in (capability or "10.0").split("."))
    launch: dict[str, Any] = make_p_bundle(PSettings.parse(settings), folder, (major, minor))
    return launch


def _rs_reuse(settings: dict[str, Any], folder: Path, capability: str | None) -> dict[str, Any]:
    from layoutlab.catalogue import named
    from layoutlab.crosscheck.sp90 import kernel_settings

    return _sp90(kernel_settings(named("rs_reuse")(**settings)), folder, capability)


MAKERS = {"sP90": _sp90, "rs_reuse": _rs_reuse, "sP": _sp}
