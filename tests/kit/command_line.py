"""run_alone: one command line of kavka in a process of its own."""

from __future__ import annotations

import os
import subprocess

from tests.kit.command_server import PROGRAM, run_forked

__all__ = ["PROGRAM", "run_alone"]

TIMEOUT_S = 200


def run_alone(*words: str, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    variables = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **environment}
    return run_forked(words, given=given, environment=variables, timeout_s=TIMEOUT_S)
