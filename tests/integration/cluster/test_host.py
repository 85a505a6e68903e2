"""`kavka host`: brokers out of one file, killed and restarted one by one under a producer with acks=all."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from kavka.runtime.host_control import ask
from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.ports import free_port
from tests.kit.server_process import begin

READY_S = 60


@contextmanager
def serving(directory: Path, *words: str) -> Iterator[dict[str, Any]]:
    """A command of kavka that serves, with what it said when it was ready, and its pid as `pid`."""
    log = directory / f"{words[0]}.log"
    with log.open("wb") as output:
        process = begin([str(PROGRAM), *words, "--json", "--log-level", "warning"], output, dies_with_parent=True)
    try:
        yield {**eventually(lambda: ready_line(log), f"{words[0]} is ready"), "pid": process.pid, "log": log}
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(READY_S)


def ready_line(log: Path) -> dict[str, Any] | None:
    lines = [line for line in log.read_text().splitlines() if line.startswith('{"event": "ready"')]
    return json.loads(lines[0]) if lines else None


def eventually(probe: Callable[[], Any], what: str, timeout_s: float = READY_S) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := probe()):
        assert time.monotonic() < deadline, f"{what}: not in {timeout_s} s"
        time.sleep(0.05)
    return found


def run(*words: str) -> str:
    ended = run_alone(*words)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def host_file(directory: Path, zookeeper: str, **settings: str) -> Path:
    texts = {
        "broker.id": "1",
        "zookeeper.connect": zookeeper,
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port(following=[1])}",
        "log.dirs": str(directory / "data"),
        "kavka.metrics.port": str(free_port(following=[1, 2])),
        "default.replication.factor": "2",
        "offsets.topic.replication.factor": "2",
        # Whoever leaves last has nobody to hand over to, and shall not wait for it.
        "controlled.shutdown.retry.backoff.ms": "100",
        **{name.replace("_", "."): text for name, text in settings.items()},
    }
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in texts.items()))
    return file


class Writer(threading.Thread):
    """Writes with acks=all until it is told to end, and remembers what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.acknowledged: set[bytes] = set()
        self.failed: list[str] = []
        self.ends = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        )

    def run(self) -> None:
        number = 0
        while not self.ends.is_set():
            self._producer.produce("orders", b"%d" % number, on_delivery=self._on_delivery)
            number += 1
            self._producer.poll(0.01)
        assert self._producer.flush(READY_S) == 0

    def _on_delivery(self, error: object, message: Message) -> None:
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.add(value)
        else:
            self.failed.append(str(error))


def read_all(bootstrap: str, count: int) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found: set[bytes] = set()
    deadline = time.monotonic() + READY_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            found.add(value)
    consumer.close()
    return found


def status(file: Path) -> dict[int, Mapping[str, Any]]:
    shown = json.loads(run_alone("host", str(file), "--status", "--json").stdout)
    return {broker["broker"]: broker for broker in shown["brokers"]}


def test_nothing_acknowledged_is_lost_when_brokers_are_killed_and_restarted_one_by_one(tmp_path: Path) -> None:
    zookeeper = f"127.0.0.1:{free_port()}"
    with serving(tmp_path, "zookeeper", "--port", zookeeper.rpartition(":")[2], "--data", str(tmp_path / "zookeeper")):
        file = host_file(tmp_path, zookeeper)
        with serving(tmp_path, "host", str(file), "--brokers", "2") as said:
            bootstrap = said["bootstrap"]
            run("topics", "create", "orders", "-p", "4", "-r", "2", "-b", bootstrap)
            writer = Writer(bootstrap)
            writer.start()
            try:
                # Killed, and started again by the host, which says how it had ended.
                os.kill(status(file)[2]["pid"], signal.SIGKILL)
                eventually(lambda: status(file)[2]["restarts"] == 1, "broker 2 was started again")
                eventually(lambda: status(file)[2]["state"] == "serving", "broker 2 serves again")
                # Asked now: a record that still waits for its topic when the broker stops stays in that broker's ring.
                ended = "had ended by signal SIGKILL; that was end 1 in a row"
                eventually(lambda: ended in run("why", "broker", "2", "-b", bootstrap), "kavka why tells of the end")
                # Restarted one by one, with a setting that is new in the file.
                file.write_text(file.read_text() + "num.partitions=7\n")
                before = {broker: each["pid"] for broker, each in status(file).items()}
                restarted = json.loads(run("host", str(file), "--restart", "--json", "-b", bootstrap))["restarted"]
            finally:
                writer.ends.set()
                writer.join(READY_S)
            assert sorted(restarted) == [1, 2]
            after = status(file)
            assert all(after[broker]["pid"] != pid for broker, pid in before.items())
            assert (after[1]["restarts"], after[2]["restarts"]) == (1, 2)
            assert writer.failed == []
            assert len(writer.acknowledged) > 100
            assert read_all(bootstrap, len(writer.acknowledged)) >= writer.acknowledged
            run("topics", "create", "later", "-b", bootstrap)
            assert len(json.loads(run("topics", "describe", "later", "--json", "-b", bootstrap))[0]["partitions"]) == 7
            asked = "The host restarted broker 2, as it was asked to"
            eventually(lambda: asked in run("why", "broker", "2", "-b", bootstrap), "kavka why tells of the restart")
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{metrics_port(file)}/metrics", timeout=READY_S).read()
            for line in (
                b'kavka_host_broker_restarts_total{on_broker="2"} 2\n',
                b'kafka_server_replicamanager_partitioncount{on_broker="1"} ',
            ):
                assert line in metrics
        assert status_fails(file)


def metrics_port(file: Path) -> str:
    return next(
        line.partition("=")[2] for line in file.read_text().splitlines() if line.startswith("kavka.metrics.port")
    )


def status_fails(file: Path) -> bool:
    ended = run_alone("host", str(file), "--status")
    return ended.returncode == 1 and b"no host answers" in ended.stderr


def test_a_partition_without_a_replica_to_spare_is_named_and_nothing_is_restarted(tmp_path: Path) -> None:
    zookeeper = f"127.0.0.1:{free_port()}"
    with serving(tmp_path, "zookeeper", "--port", zookeeper.rpartition(":")[2], "--data", str(tmp_path / "zookeeper")):
        file = host_file(tmp_path, zookeeper, kavka_decisions_topic_enable="false")
        with serving(tmp_path, "host", str(file), "--brokers", "1") as said:
            run("topics", "create", "alone", "-r", "1", "-b", said["bootstrap"])
            refused = run_alone("host", str(file), "--restart", "-b", said["bootstrap"])
            assert refused.returncode == 1
            assert b"alone-0 would be away" in refused.stderr
            assert b"add --accept-unavailable" in refused.stderr
            assert status(file)[1]["restarts"] == 0
            # A second host on the same directories, and a file that is refused, change nothing either.
            second = run_alone("host", str(file), "--brokers", "1")
            assert second.returncode == 1
            assert b"another `kavka host` runs on these log directories" in second.stderr
            accepted = ("host", str(file), "--restart", "--accept-unavailable", "-b", said["bootstrap"])
            text = file.read_text()
            file.write_text(text + "num.partitions=0\n")
            assert run_alone(*accepted).returncode == 1
            control = str(tmp_path / "data" / "kavka-host")
            assert "num.partitions" in ask(control, {"do": "restart", "broker": 1})["problem"]
            file.write_text(text)
            assert "broker 9 is not one of this host" in ask(control, {"do": "restart", "broker": 9})["problem"]
            assert status(file)[1]["restarts"] == 0
            run(*accepted)
            assert status(file)[1]["restarts"] == 1


@pytest.mark.parametrize(
    ("prepare", "words", "said"),
    [
        (
            "broker-7",
            (),
            "log.dirs has directories of brokers that would not run (7), for this host has those from 11 on",
        ),
        ("broker-14", ("--brokers", "2"), "that would not run (14), for this host has 11 to 12"),
        ("meta.properties", (), "holds the logs of one broker"),
    ],
)
def test_directories_of_other_brokers_are_refused(
    tmp_path: Path, prepare: str, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "data" / prepare).mkdir(parents=True)
    file = host_file(tmp_path, "127.0.0.1:1", broker_id="11")
    ended = run_alone("host", str(file), *words)
    assert ended.returncode == 1
    assert said in ended.stderr.decode()
