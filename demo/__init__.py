"""The demo: `python -m demo.demo` (or `make demo`)."""

import sys
from pathlib import Path

# The module that runs a broker as a process belongs to the tests, which import it by its bare name.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
