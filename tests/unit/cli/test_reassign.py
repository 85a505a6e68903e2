"""`kavka reassign` and `kavka elect`: what is refused before anything is sent, and what is throttled."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli import app
from kavka.cli.cluster.replication_throttle import throttled_replicas
from kavka.cli.output import WRONG_USAGE
from kavka.client.admin import Reassignment
from kavka.client.reassignment_plan import compare
from kavka.model import TopicPartition

NOBODY = "127.0.0.1:1"
"""Where no broker is: a command that asks it fails in another way than these tests expect."""


def tp(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["elect"], "give exactly one of --topic and --all"),
        (["elect", "--all", "--topic", "t"], "give exactly one of --topic and --all"),
        (["elect", "--all", "--partition", "1"], "--partition without --topic"),
        (["elect", "--unclean", "--all"], "may lose acknowledged records"),
        (["reassign", "cancel"], "give exactly one of FILE, --topic and --all"),
        (["reassign", "cancel", "--all", "--topic", "t"], "give exactly one of FILE, --topic and --all"),
        (["reassign", "cancel", "--all", "--partition", "1"], "--partition without --topic"),
        (["reassign", "plan", "--brokers", "1,two"], "broker ids are numbers"),
        (["reassign", "plan", "--brokers", ","], "broker ids are numbers"),
    ],
)
def test_a_command_that_is_not_clear_is_refused_with_the_next_step(
    words: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert app.run([*words, "-b", NOBODY]) == WRONG_USAGE
    printed = capfd.readouterr().err
    assert problem in printed
    assert "Next:" in printed


@pytest.mark.parametrize("command", [["execute"], ["status"], ["cancel"]])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "codec can't decode"),
        (b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "at least one"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_before_anybody_is_asked(
    tmp_path: Path,
    command: list[str],
    content: bytes | None,
    problem: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "move.json"
    if content is not None:
        path.write_bytes(content)
    assert app.run(["reassign", *command, str(path), "-b", NOBODY]) == 1
    printed = capfd.readouterr().err
    assert problem in printed
    assert "move.json" in printed


def test_sources_and_copies_are_throttled_and_nothing_else() -> None:
    before = {tp("a-0"): (1, 2), tp("a-1"): (2, 3), tp("b-0"): (1,)}
    after = {tp("a-0"): (3, 2), tp("a-1"): (3, 2), tp("b-0"): (2,)}
    leaders, followers = throttled_replicas(compare(before, after, {}), {})
    assert leaders == {"a": ["0:1", "0:2"], "b": ["0:1"]}
    assert followers == {"a": ["0:3"], "b": ["0:2"]}


def test_moves_that_are_under_way_keep_their_throttle() -> None:
    moving = {
        tp("a-1"): Reassignment((4, 1, 2), (4,), (2,)),
        tp("c-0"): Reassignment((4, 1), (4,), (1,)),
    }
    leaders, followers = throttled_replicas(compare({tp("a-0"): (1,)}, {tp("a-0"): (2,)}, {}), moving)
    assert leaders == {"a": ["0:1", "1:1", "1:2"]}
    assert followers == {"a": ["0:2", "1:4"]}
