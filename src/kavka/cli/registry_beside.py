"""RegistryBeside: the schema registry that `kavka up --schema-registry` starts beside its brokers, in its own process.

Decides how it is started, and that it ends with the brokers, however they end. Must not import typer or rich, nor the
registry (kavka/cli/main.py says why): a start without one pays nothing for it.

    I1  It is started after the brokers have said that they are ready.
    I2  It holds the reading end of a pipe to this process: whatever ends this process ends the registry, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.cli.start import Start

STOP_S = 4.0


class RegistryBeside:
    """At most one registry process."""

    def __init__(self, plan: Start) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, bootstraps: Sequence[str]) -> None:
        """Starts it for the brokers at these addresses, where one is wanted."""
        plan = self._plan
        if not plan.schema_registry:
            return
        words = [sys.executable, "-m", "kavka.cli.main", "schema-registry", "--beside", "--log-level", "warning"]
        words += ["--bootstrap", ",".join(bootstraps)]
        if plan.secure:
            security = os.path.join(plan.data, "security")
            words += ["--client-config", os.path.join(security, "admin.properties")]
            words += ["--admin-password", os.path.join(security, "admin.password")]
            words += ["--tls", os.path.join(security, "console.pem")]
        if plan.as_json:
            words.append("--json")
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE)
        except OSError as problem:
            print(f"The schema registry cannot be started: {problem.strerror}", file=sys.stderr)

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
