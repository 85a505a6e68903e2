"""What `kavka up` imports before it says that it is ready: a start pays for each module in time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

KAVKA_MODULES: Final = 237
"""The budget. Modules of Python and of other packages are not in it: their number is another with each version.

Before you raise it: can what is new be a late part (`kavka.broker.late`)?
"""
LATE: Final = (
    "kavka.broker.api.groups",
    "kavka.broker.assembly.group_coordinator",
    "kavka.broker.assembly.transaction_coordinator",
    "kavka.broker.reads.timestamp_lookups",
    "kavka.broker.telemetry.client_telemetry",
    "kavka.broker.upkeep.log_moves",
    "kavka.cli.run.console_beside",
    "kavka.controller.work.controlled_shutdown",
    "kavka.controller.work.feature_updates",
    "kavka.controller.work.topic_admin",
    "kavka.coordinator",
    "kavka.runtime.network.connection_limits_by_host",
    "kavka.runtime.network.processor_thread",
    "kavka.runtime.zookeeper.zookeeper_server",
    "kavka.security.connection_rates",
    "kavka.security.giving_way",
    "kavka.zookeeper.client",
)
PROGRAM: Final = """
import os, signal, sys

class UntilReady:
    def write(self, text):
        if "is ready" in text:
            sys.__stdout__.write("\\n".join(sys.modules))
            os.kill(os.getpid(), signal.SIGTERM)
        return len(text)

    def __getattr__(self, name):
        return getattr(sys.__stdout__, name)

sys.stdout = UntilReady()
from kavka.cli.main import main
sys.exit(main(["up", "--port", "0", "--data", sys.argv[1]]))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    data: Path = tmp_path_factory.mktemp("data")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(data)], capture_output=True, text=True, check=False, timeout=280
    )
    assert ended.returncode in (0, 143), ended.stderr
    return [name for name in ended.stdout.split() if name.partition(".")[0] == "kavka"]


ASKED: Final = """
import asyncio, os, signal, sys, threading

class UntilReady:
    def write(self, text):
        if "ready on" in text:
            threading.Thread(target=ask, args=(text.split("ready on ")[1].split(",")[0],)).start()
        return len(text)

    def __getattr__(self, name):
        return getattr(sys.__stdout__, name)

def ask(address):
    import subprocess
    for words in (["groups", "list"], ["transactions", "list"]):
        subprocess.run([sys.executable, "-m", "kavka.cli.main", *words, "-b", address], check=True, stdout=sys.stderr)
    sys.__stdout__.write("\\n".join(sys.modules))
    os.kill(os.getpid(), signal.SIGTERM)

sys.stdout = UntilReady()
from kavka.cli.main import main
sys.exit(main(["up", "--no-console", "--port", "0", "--data", sys.argv[1]]))
"""


def test_who_lists_groups_and_transactions_where_there_are_none_makes_no_coordinator(tmp_path: Path) -> None:
    """The console asks for both right after a start: it cost each broker 130 modules and 4 MB."""
    ended = subprocess.run(
        [sys.executable, "-c", ASKED, str(tmp_path)], capture_output=True, text=True, check=False, timeout=280
    )

    assert ended.returncode in (0, 143), ended.stderr
    imported = ended.stdout.split()
    assert "kavka.broker.api.groups.list_groups" in imported
    assert "kavka.broker.api.transactions.list_transactions" in imported
    assert "kavka.coordinator.groups.coordinator" not in imported
    assert "kavka.coordinator.transactions.coordinator" not in imported


def test_a_start_keeps_its_budget_of_modules(imported: list[str]) -> None:
    assert 100 < len(imported) <= KAVKA_MODULES, imported


@pytest.mark.parametrize("late", LATE)
def test_a_start_does_not_import_what_comes_with_the_first_use(imported: list[str], late: str) -> None:
    assert [name for name in imported if f"{name}.".startswith(f"{late}.")] == []
