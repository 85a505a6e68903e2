"""ConsoleBeside: the console that `kavka up` starts beside its brokers, in a process of its own.

Decides when there is one, and that it ends with the brokers, however they end. Must not import typer or rich, nor the
console (kavka/cli/main.py says why): it costs the brokers nothing until they serve, and a fork then.

    I1  It is started after the brokers have said that they are ready.
    I2  It holds the reading end of a pipe to this process: whatever ends this process ends the console, too.

There is none where its extra is not installed, with --no-console, where KAVKA_NO_CONSOLE is set, and with --json, whose
readers are programs, unless --console-port asks for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.cli.registry_beside import RegistryBeside
    from kavka.cli.start import Start

NO_CONSOLE_VARIABLE = "KAVKA_NO_CONSOLE"
DIRECTORY = "console"
"""In the brokers' data directory: the console's history, users and jobs."""
STOP_S = 4.0
NICENESS = 5
"""Pages may wait a little where brokers need the processor."""


class ConsoleBeside:
    """At most one console process."""

    def __init__(self, plan: Start) -> None:
        self._plan = plan
        self._registry: RegistryBeside | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, bootstraps: Sequence[str], zookeeper: str | None) -> None:
        """Starts it for the brokers at these addresses, where one is wanted; and the schema registry."""
        plan = self._plan
        if plan.schema_registry:
            from kavka.cli.registry_beside import RegistryBeside  # late: few starts want one

            self._registry = RegistryBeside(plan)
            self._registry.start(bootstraps)
        if not self._is_wanted():
            return
        words = [sys.executable, "-m", "kavka.cli.main", "console", "--beside", "--log-level", "error"]
        words += ["--bootstrap", ",".join(bootstraps), "--data", os.path.join(plan.data, DIRECTORY)]
        if plan.console_port is not None:
            words += ["--port", str(plan.console_port)]
        if plan.secure:
            # Whoever logs in there acts as the cluster's administrator: the console asks for a password, too.
            security = os.path.join(plan.data, "security")
            words += ["--client-config", os.path.join(security, "admin.properties")]
            words += ["--login", "--first-user", os.path.join(security, "admin.password")]
            words += ["--tls", os.path.join(security, "console.pem")]
        if zookeeper is not None:
            words += ["--zookeeper", zookeeper]
        if plan.as_json:
            words.append("--json")
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE)
        except OSError as problem:
            print(f"The console cannot be started: {problem.strerror}", file=sys.stderr)

    def stop(self) -> None:
        """Ends both, and waits for that a little."""
        if self._registry is not None:
            self._registry.stop()
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

    def _is_wanted(self) -> bool:
        plan = self._plan
        if plan.no_console or plan.file is not None:
            return False
        if plan.console_port is not None:
            return True
        return not plan.as_json and not os.environ.get(NO_CONSOLE_VARIABLE) and _is_installed()


def _is_installed() -> bool:
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("starlette", "uvicorn", "jinja2"))
