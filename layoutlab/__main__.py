"""`python -m layoutlab`."""

import sys

from layoutlab.cli import main

if __name__ == "__main__":
    sys.exit(main())
