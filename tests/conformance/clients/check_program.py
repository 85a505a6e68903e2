"""CheckProgram: a client of another language that runs a list of checks and prints a line of JSON for each.

It decides nothing about the checks: their names are listed in the tests (so that none can go missing unseen), the
checks themselves stand in the program. A missing toolchain is a skip with the sentence of the set-up script.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
# How the set-up scripts say that a toolchain is missing.
TOOLCHAIN_MISSING = 3
SET_UP_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 200.0


def set_up(script: str, *arguments: str) -> str:
    """Runs tools/<script>, returns what it printed; skips the test where the toolchain is missing."""
    result = subprocess.run(
        [PROJECT / "tools" / script, *arguments],
        capture_output=True,
        text=True,
        timeout=SET_UP_TIMEOUT_S,
        check=False,
    )
    if result.returncode == TOOLCHAIN_MISSING:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def run_checks(
    command: Sequence[str], *, directory: Path | None = None, within_s: float = RUN_TIMEOUT_S
) -> dict[str, str]:
    """Runs the program and returns for each check what went wrong: an empty string if nothing did."""
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            output, errors = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    checks = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert checks, f"the program ended with {process.returncode} before its first check: {errors[-2000:]}"
    return {check["check"]: "" if check["ok"] else check["detail"] or "failed" for check in checks}
