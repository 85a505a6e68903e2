"""ProcessBeside: a command of kavka that `kavka up` runs beside its brokers, in a process of its own.

Decides that it ends with the brokers, however they end. Must not import typer or rich (kavka/cli/main.py says why).

    I1  It holds the reading end of a pipe to this process: whatever ends this process ends it, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.cli.run.start import Start

STOP_S = 4.0


class ProcessBeside:
    """At most one process. `what` names it for people."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, words: Sequence[str]) -> None:
        """Runs `kavka WORDS`. Prints why where it cannot: the brokers go on without it."""
        command = [sys.executable, "-m", "kavka.cli.main", *words]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        except OSError as problem:
            print(f"The {self._what} cannot be started: {problem.strerror}", file=sys.stderr)

    def stop(self) -> None:
        """Ends it, and waits for that a little."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def login_words(plan: Start, *asks: str) -> list[str]:
    """How it logs in to a cluster of `kavka up --secure`, and serves TLS; none where the cluster is open. `asks` are
    the options that take the administrator's password, which whoever opens its pages or calls it is asked for."""
    if not plan.secure:
        return []
    security = os.path.join(plan.data, "security")
    return [
        *("--client-config", os.path.join(security, "admin.properties")),
        *(*asks, os.path.join(security, "admin.password")),
        *("--tls", os.path.join(security, "console.pem")),
    ]
