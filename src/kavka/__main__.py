"""`python -m kavka`: the program `kavka` where its directory is not on the PATH."""

from __future__ import annotations

import sys

from kavka.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
