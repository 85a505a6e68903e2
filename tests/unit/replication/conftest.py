"""The support of the log's unit tests is used here too: partitions stand on real logs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "log"))
