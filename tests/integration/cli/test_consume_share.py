"""`kavka consume --share`: records as a member of a share group, and what becomes of each; the same against Apache
Kafka 4.3. docs/groups.md shows the commands."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.kit.command_line import run_alone
from tests.kit.share_group import ShareGroup

PEERS = {"kavka": "kavka_broker", "apache 4": "apache_kafka_kraft"}


class Place(ShareGroup):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(int(bootstrap.rpartition(":")[2]))
        self.bootstrap = bootstrap

    def consume(self, *words: str, given: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        command = ("consume", self.name, "--share", self.name, *words)
        result = run_alone(*command, given=given, KAVKA_BOOTSTRAP=self.bootstrap)
        assert result.returncode == status, result.stderr.decode()
        return result

    def lines(self, *words: str, given: bytes = b"") -> list[str]:
        return self.consume(*words, "-f", "%o %d %s\\n", given=given).stdout.decode().splitlines()

    def lag(self) -> Any:
        described = run_alone("groups", "describe", self.name, "--json", KAVKA_BOOTSTRAP=self.bootstrap)
        (found,) = json.loads(described.stdout)
        assert found["members"] == []
        return found["offsets"][0]["lag"]


@pytest.fixture(params=[name if name == "kavka" else pytest.param(name, marks=pytest.mark.kafka) for name in PEERS])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(str(request.getfixturevalue(PEERS[request.param]).bootstrap))


def test_records_are_shown_given_back_taken_and_judged(place: Place) -> None:
    assert place.lines("--ack", "release") == [f"{offset} 1 {offset}" for offset in range(10)]
    assert place.lag() == 10
    assert place.lines("-c", "3") == ["0 2 0", "1 2 1", "2 2 2"]
    assert place.lag() == 7
    answers = b"accept\nj\nrelease\nquit\n"
    assert place.lines("--ack", "ask", given=answers)[:2] == ["3 2 3", "4 2 4"]
    assert place.lag() == 5
    (again,) = place.lines("--ack", "reject", "-c", "1")
    assert again.split()[0] == "5"
    assert int(again.split()[1]) > 2, "it was released"
    rest = [json.loads(line) for line in place.consume("-e", "--json").stdout.splitlines()]
    assert [each["offset"] for each in rest] == [6, 7, 8, 9]
    assert all(each["delivery_count"] >= 2 for each in rest)
    assert place.lag() == 0
    assert place.lines("-e") == []


def test_wrong_answers_and_options_are_refused(kavka_broker: Any) -> None:
    place = Place(kavka_broker.bootstrap)
    assert b"'perhaps' is not an answer" in place.consume("--ack", "ask", given=b"perhaps\n", status=1).stderr
    assert place.lag() == 10
    for words in (("-p", "0"), ("-o", "end"), ("-g", "others"), ("--read-committed",)):
        assert b"--share does not go with" in place.consume(*words, status=2).stderr
    alone = run_alone("consume", place.name, "--ack", "reject", KAVKA_BOOTSTRAP=place.bootstrap)
    assert (alone.returncode, b"add --share GROUP" in alone.stderr) == (2, True)
    alone = run_alone("consume", place.name, "-e", "-f", "%d", KAVKA_BOOTSTRAP=place.bootstrap)
    assert (alone.returncode, b"add --share GROUP" in alone.stderr) == (2, True)


def test_a_new_group_is_told_that_it_begins_at_the_end(kavka_broker: Any) -> None:
    place = Place(kavka_broker.bootstrap)
    command = ("consume", place.name, "--share", f"{place.name}-2", "-e")
    result = run_alone(*command, KAVKA_BOOTSTRAP=place.bootstrap)
    assert (result.returncode, result.stdout) == (0, b"")
    assert b"is new and gets new records only" in result.stderr
    assert b"share.auto.offset.reset=earliest" in result.stderr
