"""Makes the bundles of every variant, on a machine with CuTe DSL: python make_sp90_bundles.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

from sp90_variants import all_variants, folder_name

from layoutlab.kernels.p_bundle_sm90 import make_p_bundle
from layoutlab.kernels.p_settings_sm90 import PSettings90


def main(target: Path) -> None:
    for values in all_variants():
        make_p_bundle(PSettings90.parse(values), target / folder_name(values))
        print(folder_name(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
