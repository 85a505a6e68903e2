"""When `kavka up` has a console beside it, and what is said where the console's extra is not installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.output import Failure
from kavka.cli.run import process_beside
from kavka.cli.run.console import MISSING, Wishes, serve_console
from kavka.cli.run.console_beside import NO_CONSOLE_VARIABLE, ConsoleBeside
from kavka.cli.run.start import Start, settings_of
from kavka.cli.run.start_cluster import settings_of_broker
from kavka.installation import install_command


class Started:
    """Stands for the processes that would be started: their command lines."""

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], **_: Any) -> Started:
        self.commands.append(command)
        return self


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    made = Started()
    monkeypatch.setattr(process_beside.subprocess, "Popen", made)
    monkeypatch.delenv(NO_CONSOLE_VARIABLE, raising=False)
    return made


def commands(started: Started, plan: Start) -> list[str]:
    """What is started for a plan."""
    ConsoleBeside(plan).start(["a:1", "b:2"], "z:3")
    return [" ".join(command[3:]) for command in started.commands]


def test_up_has_a_console_over_its_brokers_in_its_data_directory(started: Started) -> None:
    (command,) = commands(started, Start(data="d", console_port=8100))
    assert command == (
        "console --beside --log-level error --bootstrap a:1,b:2 --data d/console --port 8100 --zookeeper z:3"
    )


@pytest.mark.parametrize("plan", [Start(no_console=True), Start(file="server.properties"), Start(as_json=True)])
def test_there_is_none_where_it_is_not_wanted_or_a_program_reads(started: Started, plan: Start) -> None:
    assert commands(started, plan) == []


def test_the_environment_switches_it_off_but_not_against_the_command_line(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NO_CONSOLE_VARIABLE, "1")
    assert commands(started, Start()) == []
    assert commands(started, Start(console_port=0, as_json=True))[0].endswith("--json")


def without_the_extra(name: str, package: str | None = None) -> object:
    return None if name == "starlette" else importlib.util.find_spec("sys")


def test_without_its_extra_up_has_none_and_says_nothing(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without_the_extra)
    assert commands(started, Start()) == []


def test_without_its_extra_the_command_says_in_one_line_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.cli.run.console.find_spec", without_the_extra)
    with pytest.raises(Failure) as refused:
        serve_console(Wishes(), log_level="info", as_json=False, beside=False)
    assert refused.value.problem == MISSING
    assert refused.value.next_step == install_command("console")


def test_each_broker_has_a_port_of_its_own_for_metrics(tmp_path: Path) -> None:
    plan = Start(data=str(tmp_path), metrics_port=9100)
    assert settings_of(plan).kavka_metrics_port == 9100
    assert [settings_of_broker(plan, number, 3)["kavka.metrics.port"] for number in (1, 2, 3)] == [
        "9100",
        "9101",
        "9102",
    ]
    assert "kavka.metrics.port" not in settings_of_broker(Start(data=str(tmp_path)), 1, 3)


def test_what_starts_before_the_brokers_serve_imports_no_console() -> None:
    import subprocess

    program = (
        "import sys, kavka.cli.run.start, kavka.cli.run.console_beside;"
        "print([n for n in sys.modules if 'console' in n])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['kavka.cli.run.console_beside']"


def test_health_and_top_need_no_extra() -> None:
    import subprocess

    extra = ("starlette", "uvicorn", "jinja2", "multipart", "itsdangerous", "fastavro", "google.protobuf")
    program = (
        "import sys, kavka.cli.cluster.health, kavka.cli.cluster.top;"
        "import kavka.observe.watcher, kavka.observe.health.checks;"
        f"print([name for name in {extra!r} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
