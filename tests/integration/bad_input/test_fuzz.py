"""The fuzzer's own run: 200 damaged requests for each API that is served; `make fuzz` sends 2,000."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(600)
def test_damaged_requests_harm_nobody() -> None:
    requests = os.environ.get("KAVKA_FUZZ_REQUESTS", "100")
    command = [sys.executable, str(ROOT / "tools" / "fuzz_protocol.py"), "--requests", requests]
    run = subprocess.run(command, capture_output=True, text=True, timeout=590)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
