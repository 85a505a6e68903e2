"""RegistryBeside: the schema registry that `kavka up --schema-registry` starts beside its brokers, in its own process.

Decides how it is started. Must not import typer or rich, nor the registry (kavka/cli/main.py says why): a start without
one pays nothing for it.

    I1  It is started after the brokers have said that they are ready, and ends with them (`process_beside`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.cli.run.process_beside import ProcessBeside, login_words

if TYPE_CHECKING:
    from kavka.cli.run.start import Start


class RegistryBeside:
    """At most one registry process."""

    def __init__(self, plan: Start) -> None:
        self._plan = plan
        self._process = ProcessBeside("schema registry")

    def start(self, bootstraps: Sequence[str]) -> None:
        """Starts it for the brokers at these addresses, where one is wanted."""
        plan = self._plan
        if not plan.schema_registry:
            return
        words = ["schema-registry", "--beside", "--log-level", "warning", "--bootstrap", ",".join(bootstraps)]
        words += login_words(plan, "--admin-password")
        if plan.as_json:
            words.append("--json")
        self._process.start(words)

    def stop(self) -> None:
        """Ends it, and waits for that a little."""
        self._process.stop()
