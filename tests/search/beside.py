"""The modules of the tests beside those of the search, for a script that pytest does not start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
