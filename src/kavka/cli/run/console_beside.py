"""ConsoleBeside: the console that `kavka up` starts beside its brokers, in a process of its own.

Decides when there is one. Must not import typer or rich, nor the console (kavka/cli/main.py says why): it costs the
brokers nothing until they serve, and a fork then.

    I1  It is started after the brokers have said that they are ready, and ends with them (`process_beside`).

There is none where its extra is not installed, with --no-console, where KAVKA_NO_CONSOLE is set, and with --json, whose
readers are programs, unless --console-port asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.cli.run.process_beside import ProcessBeside
    from kavka.cli.run.registry_beside import RegistryBeside
    from kavka.cli.run.start import Start

NO_CONSOLE_VARIABLE = "KAVKA_NO_CONSOLE"
DIRECTORY = "console"
"""In the brokers' data directory: the console's history, users and jobs."""
NICENESS = 5
"""Pages may wait a little where brokers need the processor."""


class ConsoleBeside:
    """At most one console process."""

    def __init__(self, plan: Start) -> None:
        self._plan = plan
        self._registry: RegistryBeside | None = None
        self._process: ProcessBeside | None = None

    def start(self, bootstraps: Sequence[str], zookeeper: str | None) -> None:
        """Starts it for the brokers at these addresses, where one is wanted; and the schema registry."""
        plan = self._plan
        if plan.schema_registry:
            from kavka.cli.run.registry_beside import RegistryBeside  # late: few starts want one

            self._registry = RegistryBeside(plan)
            self._registry.start(bootstraps)
        if not self._is_wanted():
            return
        from kavka.cli.run.process_beside import ProcessBeside, login_words  # late: a start pays for it once it serves

        words = ["console", "--beside", "--log-level", "error"]
        words += ["--bootstrap", ",".join(bootstraps), "--data", os.path.join(plan.data, DIRECTORY)]
        if plan.console_port is not None:
            words += ["--port", str(plan.console_port)]
        # Whoever logs in there acts as the cluster's administrator: the console asks for a password, too.
        words += login_words(plan, "--login", "--first-user")
        if zookeeper is not None:
            words += ["--zookeeper", zookeeper]
        if plan.as_json:
            words.append("--json")
        self._process = ProcessBeside("console")
        self._process.start(words)

    def stop(self) -> None:
        """Ends both, and waits for that a little."""
        if self._registry is not None:
            self._registry.stop()
        if self._process is not None:
            self._process.stop()

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
