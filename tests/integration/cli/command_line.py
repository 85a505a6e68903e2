"""run_alone: one command line of kavka in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "kavka"


def run_alone(*words: str, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    variables = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **environment}
    return subprocess.run([PROGRAM, *words], input=given, capture_output=True, timeout=60, env=variables, check=False)
