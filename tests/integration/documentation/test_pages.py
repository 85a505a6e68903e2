"""Whoever follows README.md and docs/ word by word gets what they say: every block of code is run, in order.

A page says in an invisible comment what is not run, and why; how many blocks and lines that may be is bounded here.
Needs namespaces for network and processes, since the pages name ports and kill brokers by name.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from kavka.cli.app import run
from tests.apache_kafka import PeerMissing
from tests.apache_kafka.release import installed
from tests.integration.documentation.page import ELSEWHERE, PROJECT, TAKES_MINUTES, blocks, commands, kind_of
from tests.integration.documentation.reader import follow

PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
WITH_APACHE_KAFKA = {"moving.md": "zk", "beside-kafka.md": "kraft"}
"""Pages whose reader has Apache Kafka beside kavka, and which."""
PATIENCE_S, LONG_PATIENCE_S = 280, 3_600

MOST_NOT_RUN = {
    "another machine": 32,
    "a target": 11,
    "installs": 12,
    "a fragment": 8,
    "an incident": 23,
    TAKES_MINUTES: 29,
    ELSEWHERE: 32,
}
"""Blocks and lines for each reason. A page that needs more of them raises its number here, where a reviewer sees it."""

NAMES_A_COMMAND = re.compile(r"(?<!`)`(kavka [^`]+)`(?!`)")


def test_no_more_is_left_out_than_has_a_reason() -> None:
    count = Counter(
        kind_of(reason)
        for page in PAGES
        for block in blocks(page)
        for reason in [*([block.not_run] if block.not_run else []), *block.lines_not_run.values()]
    )
    assert {reason: number for reason, number in count.items() if number > MOST_NOT_RUN[reason]} == {}


def test_what_another_test_runs_is_run_there() -> None:
    for page in PAGES:
        for block in blocks(page):
            if block.not_run is not None and block.not_run.startswith(ELSEWHERE):
                assert page.name in (PROJECT / block.not_run.removeprefix(ELSEWHERE)).read_text()


@pytest.mark.timeout(PATIENCE_S + 20)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page.name not in WITH_APACHE_KAFKA], ids=lambda page: page.name
)
def test_a_page_does_what_it_says(page: Path, room: None) -> None:
    reader = follow(page, patience_s=PATIENCE_S)
    assert reader.returncode == 0, reader.stdout + reader.stderr


@pytest.mark.kafka
@pytest.mark.timeout(LONG_PATIENCE_S + 20)
@pytest.mark.parametrize(("page", "mode"), WITH_APACHE_KAFKA.items())
def test_a_page_about_a_cluster_of_apache_kafka_does_what_it_says(page: str, mode: str, room: None) -> None:
    """Three brokers of it at a time, and its ZooKeeper: 900 MB."""
    try:
        installed(mode)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    reader = follow(PROJECT / "docs" / page, "--patiently", "--with-kafka", mode, patience_s=LONG_PATIENCE_S)
    assert reader.returncode == 0, reader.stdout + reader.stderr


@pytest.mark.thorough
@pytest.mark.timeout(LONG_PATIENCE_S + 20)
@pytest.mark.parametrize(
    "page",
    [
        "docs/first-cluster.md",
        "docs/simulator.md",
        "docs/lag-policy.md",
        "docs/lakehouse.md",
        "docs/pipelines.md",
        "docs/spark.md",
    ],
)
def test_what_takes_minutes_does_what_it_says(page: str, room: None) -> None:
    reader = follow(PROJECT / page, "--patiently", patience_s=LONG_PATIENCE_S)
    assert reader.returncode == 0, reader.stdout + reader.stderr


# Commands within sentences and tables, and those that are not run


def named_commands() -> list[str]:
    found = []
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        found += [f"{page.name}: {command}" for command in NAMES_A_COMMAND.findall(prose)]
        found += [
            f"{page.name}: {command}"
            for block in blocks(page)
            if block.language == "sh"
            for number, command in commands(block.lines)
            if (block.not_run or number in block.lines_not_run) and command.startswith("kavka ")
        ]
    return found


def test_every_command_that_is_named_is_one(capfd: pytest.CaptureFixture[str]) -> None:
    """Typed with `--help` behind it, so that nothing is done: an unknown command or option is refused before that."""
    named = named_commands()
    assert len(named) > 80
    wrong = []
    for each in named:
        words = shlex.split(each.partition(": kavka ")[2], comments=True)
        shell = next((at for at, word in enumerate(words) if word in (">", "|", "&&", ";")), len(words))
        if run([*words[:shell], "--help"]) != 0:
            wrong.append(f"{each}: {capfd.readouterr().err}")
    assert wrong == []


def test_an_option_that_is_none_is_found() -> None:
    assert run(["topics", "list", "--al", "--help"]) != 0
    assert run(["topic", "--help"]) != 0
