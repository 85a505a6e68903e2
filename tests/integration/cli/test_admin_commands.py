"""kavka log-dirs, records and features, against kavka and against Apache Kafka: the same words, the same answers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess

Run = Callable[..., subprocess.CompletedProcess[bytes]]


class Place(NamedTuple):
    """A broker with two log directories, and its id."""

    bootstrap: str
    broker_id: int
    directories: tuple[str, str]
    is_kavka: bool


@pytest.fixture(params=["kavka", pytest.param("apache", marks=pytest.mark.kafka)], scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    path = tmp_path_factory.mktemp("admin")
    directories = (str(path / "first"), str(path / "second"))
    settings = {"log.dirs": ",".join(directories)}
    if request.param == "kavka":
        with KavkaProcess(path / "data", settings=settings) as broker:
            yield Place(broker.bootstrap, 1, directories, is_kavka=True)
        return
    try:
        kafka = ApacheKafka(path / "zk", settings=settings, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield Place(kafka.bootstrap, 1, directories, is_kavka=False)


@pytest.fixture
def run(place: Place) -> Run:
    def run_command(*words: str, given: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        result = run_alone(*words, given=given, KAVKA_BOOTSTRAP=place.bootstrap)
        assert result.returncode == status, result.stderr.decode()
        return result

    return run_command


@pytest.fixture
def topic(run: Run) -> Iterator[str]:
    name = f"admin-{time.time_ns()}"
    run("topics", "create", name, "-p", "1")
    run("produce", name, given=b"".join(b"%d\n" % number for number in range(50)))
    yield name
    run("topics", "delete", name, "--yes", "--if-exists")


def answer(result: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(result.stdout)


def where(run: Run, topic: str) -> list[tuple[str, bool]]:
    """The directories that the topic's replica is in, and whether it is on its way there."""
    return [
        (directory["directory"], replica["is_future"])
        for directory in answer(run("log-dirs", topic, "--json"))
        for replica in directory["replicas"]
    ]


def test_log_directories_are_listed_with_what_is_in_them(run: Run, place: Place, topic: str) -> None:
    listed = answer(run("log-dirs", "--json"))
    assert [directory["directory"] for directory in listed] == list(place.directories)
    assert all(directory["error"] is None and directory["total_bytes"] > 0 for directory in listed)
    lines = run("log-dirs").stdout.decode().splitlines()
    assert lines[0].split("\t")[:3] == ["BROKER", "DIRECTORY", "REPLICAS"]
    assert len(lines) == 3
    assert f"{topic}-0" in run("log-dirs", topic, "--broker", str(place.broker_id)).stdout.decode()


def test_a_topic_that_there_is_not_is_no_empty_table(run: Run) -> None:
    refused = run("log-dirs", "no-such-topic", status=1)
    assert refused.stdout == b""
    assert b"there is no topic no-such-topic" in refused.stderr
    assert b"kavka topics list" in refused.stderr


def test_a_replica_moves_to_the_other_directory_with_all_its_records(run: Run, place: Place, topic: str) -> None:
    ((source, _),) = where(run, topic)
    target = next(directory for directory in place.directories if directory != source)
    before = run("consume", topic, "-e").stdout
    move = ("log-dirs", "--move", f"{topic}-0", "--broker", str(place.broker_id), "--to")
    run(*move, target)
    deadline = time.monotonic() + 90
    while where(run, topic) != [(target, False)]:
        assert time.monotonic() < deadline, where(run, topic)
    assert run("consume", topic, "-e").stdout == before
    assert (Path(target) / f"{topic}-0").is_dir()
    run("produce", topic, given=b"behind\n")
    assert run("consume", topic, "-e").stdout == before + b"behind\n"
    refused = run(*move, "/nowhere", status=1)
    assert b"the broker has no such log directory" in refused.stderr


def test_the_oldest_records_are_deleted(run: Run, topic: str) -> None:
    deleted = answer(run("records", "delete", topic, "--before", "20", "--yes", "--json"))
    assert deleted == [{"topic": topic, "partition": 0, "log_start": 20}]
    assert run("consume", topic, "-e").stdout.split()[0] == b"20"
    assert run("records", "delete", topic, "--all", "-y", "-p", "0").stdout.split()[-2:] == [
        f"{topic}-0".encode(),
        b"50",
    ]
    assert run("consume", topic, "-e").stdout == b""


def test_what_is_not_meant_is_not_deleted(run: Run, topic: str) -> None:
    assert b"--yes" in run("records", "delete", topic, "--all", status=2).stderr
    assert b"--before" in run("records", "delete", topic, "--yes", status=2).stderr
    beyond = run("records", "delete", topic, "--before", "51", "--yes", status=1)
    assert b"the offset is beyond the end of the log" in beyond.stderr


def test_features_are_shown_and_changed(run: Run, place: Place) -> None:
    found = answer(run("features", "describe", "--json"))
    if not place.is_kavka:
        assert found["features"] == []
        refused = run("features", "upgrade", "transaction.version=1", status=1)
        assert b"transaction.version" in refused.stderr
        return

    def levels() -> dict[str, int]:
        listed = answer(run("features", "describe", "--json"))["features"]
        return {each["feature"]: each["level"] for each in listed}

    assert levels() == {"group.version": 1, "share.version": 2, "streams.version": 1, "transaction.version": 2}
    run("features", "downgrade", "transaction.version=1", "--dry-run")
    assert levels()["transaction.version"] == 2
    run("features", "downgrade", "transaction.version=1", "group.version=0")
    assert levels() == {"group.version": 0, "share.version": 2, "streams.version": 1, "transaction.version": 1}
    later = answer(run("features", "describe", "--json"))
    assert later["epoch"] > found["epoch"]
    refused = run("features", "upgrade", "transaction.version=2", "group.version=0", status=1)
    assert b"nothing was changed" in refused.stderr
    assert levels()["transaction.version"] == 1
    run("features", "upgrade", "transaction.version=2", "group.version=1")
    assert levels() == {"group.version": 1, "share.version": 2, "streams.version": 1, "transaction.version": 2}
    assert b"3" in run("features", "upgrade", "transaction.version=3", status=1).stderr


def test_levels_of_loggers_are_shown_and_changed(run: Run, place: Place) -> None:
    of = ("--broker-logger", str(place.broker_id))

    def levels() -> dict[str, str]:
        found = json.loads(run("configs", "describe", *of, "--json").stdout)
        return {entry["name"]: entry["value"] for entry in found}

    before = levels()
    one = min(name for name in before if name != "root")
    assert b"no setting" not in run("configs", "set", *of, f"{one}=ERROR").stderr, "a logger is none"
    assert levels()[one] == "ERROR"
    assert b"no setting" not in run("configs", "unset", *of, one).stderr
    assert levels()[one] == before[one]
    refused = run("configs", "set", *of, "no.such.logger=INFO", status=1).stderr.decode()
    assert "no.such.logger" in refused
    assert "Next: `kavka configs describe --broker-logger ID` shows all" in refused
    assert "root" in run("configs", "unset", *of, "root", status=1).stderr.decode()
    assert (
        "a broker is named by its number"
        in run("configs", "set", "--broker-logger", "x", "a=b", status=2).stderr.decode()
    )
