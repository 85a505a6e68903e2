"""How a broker begins and ends: refusals in one clear sentence, signals at any time, and nothing acknowledged lost."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import CreateTopicsRequest, DeleteTopicsRequest, JoinGroupRequest
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.delete_topics_request import DeleteTopicState
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.join_group_request import JoinGroupRequestProtocol
from tests.kit.broker_client import (
    BrokerClient,
    Closed,
    SteadyClient,
    batch,
    fetch_of,
    first_unacknowledged,
    produce_of,
)
from tests.kit.kavka_process import KavkaProcess

REFUSED = 1
CLEAN_MARK = ".kafka_cleanshutdown"


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., KavkaProcess]]:
    """launch(data_dir=..., port=..., settings=...): a broker that is started and not waited for."""
    launched: list[KavkaProcess] = []

    def start(**options: Any) -> KavkaProcess:
        broker = KavkaProcess(**options, from_nothing=True, log_file=tmp_path / f"launched-{len(launched)}.log")
        launched.append(broker)
        broker.launch()
        return broker

    yield start
    for broker in launched:
        broker.kill()


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


# -- refusals


@pytest.mark.setting("kavka.zookeeper.data.dir")
@pytest.mark.parametrize("shared", ["everything", "only the log directory"])
def test_a_second_broker_on_the_same_directory_is_refused_and_harms_nothing(
    shared: str, tmp_path: Path, start_kavka: Any, launch: Any, connect: Any
) -> None:
    first = start_kavka()
    topic = connect(first.port).create_topic()
    with SteadyClient(first.port):
        settings = {"kavka.zookeeper.data.dir": str(tmp_path / "zookeeper")} if shared != "everything" else {}
        second = launch(data_dir=first.data_dir, settings=settings)
        assert second.wait_until_ended() == REFUSED
        assert "another broker uses this directory" in second.log_tail()
        assert "choose another directory with --data" in second.log_tail()
        assert "Traceback" not in second.log_tail()
        assert connect(first.port).produce(topic, bytes(batch(b"kept"))).error_code == 0
        late_topic = connect(first.port).create_topic()
    first.restart()
    assert connect(first.port).values(topic) == [b"kept"]
    assert connect(first.port).values(late_topic) == []


def test_a_port_in_use_is_said_before_anything_is_touched(tmp_path: Path, launch: Any) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = launch(data_dir=data, port=taken.getsockname()[1])
        assert broker.wait_until_ended() == REFUSED
    assert str(broker.port) in broker.log_tail()
    assert f"port {broker.port} is taken: process {os.getpid()} " in broker.log_tail()
    assert "--port" in broker.log_tail()
    assert files_of(data) == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x00\xff\xfe garbage", "meta.properties"),
        (b"version=7\nbroker.id=1\n", "version"),
        (b"version=0\nbroker.id=one\n", "broker.id"),
        (b"version=0\nbroker.id=5\n", "broker.id is 5, expected 1"),
        (b"version=0\nbroker.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n", "cluster.id is AAAAAAAAAAAAAAAAAAAAAA, exp"),
    ],
    ids=["garbage", "unknown version", "no number", "of another broker", "of another cluster"],
)
def test_meta_properties_that_do_not_fit_are_refused_and_kept(
    content: bytes, words: str, start_kavka: Any, launch: Any, connect: Any
) -> None:
    broker = start_kavka()
    topic = connect(broker.port).create_topic()
    assert connect(broker.port).produce(topic, bytes(batch(b"kept"))).error_code == 0
    broker.stop()
    path = broker.data_dir / "logs" / "meta.properties"
    right = path.read_bytes()
    path.write_bytes(content)
    before = files_of(broker.data_dir / "logs")

    # Named, for without a number the broker would take the one that it finds there.
    refused = launch(data_dir=broker.data_dir, settings={"broker.id": "1"})
    ended = refused.wait_until_ended()
    assert ended == REFUSED, refused.log_tail()
    assert words in refused.log_tail()
    assert str(path) in refused.log_tail()
    assert "Traceback" not in refused.log_tail()
    assert files_of(broker.data_dir / "logs") == before

    path.write_bytes(right)
    broker.start()
    assert connect(broker.port).values(topic) == [b"kept"]


# -- signals


class Load:
    """Threads that write to a topic as fast as they are answered, until the broker goes away."""

    def __init__(self, port: int, topic: str, threads: int = 3) -> None:
        self.acknowledged: list[bytes] = []
        self._topic = topic
        self._threads = [threading.Thread(target=self._run, args=(port, index)) for index in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, port: int, index: int) -> None:
        number = 0
        with BrokerClient(port) as client:
            while True:
                values = [b"%d:%d" % (index, number + position) for position in range(3)]
                requests = [produce_of(self._topic, bytes(batch(value)), acks=-1) for value in values]
                try:
                    for request in requests:
                        client.send(request, 9)
                    for request, value in zip(requests, values, strict=True):
                        answer = client.receive(request, 9).responses[0].partition_responses[0]
                        assert answer.error_code == 0
                        self.acknowledged.append(value)
                except Closed:
                    return
                number += len(values)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def test_sigterm_under_load_keeps_what_was_acknowledged_and_marks_the_logs_clean(
    start_kavka: Any, connect: Any
) -> None:
    broker = start_kavka()
    topic = connect(broker.port).create_topic()
    for _round in range(2):
        load = Load(broker.port, topic)
        wait_for(lambda load=load: len(load.acknowledged) > 500)
        assert broker.stop() == 0
        load.join()
        assert (broker.data_dir / "logs" / CLEAN_MARK).exists()
        broker.start()
        assert "log recovered" not in broker.log_tail(lines=12)
        assert first_unacknowledged(load.acknowledged, connect(broker.port).values(topic)) is None


def test_waiting_requests_do_not_hold_up_the_end(start_kavka: Any, connect: Any) -> None:
    broker = start_kavka()
    client = connect(broker.port)
    topic = client.create_topic()
    assert client.ask(FindCoordinatorRequest(key="group", key_type=0), 3).error_code == 0
    polling = connect(broker.port)
    polling.send(fetch_of(topic, 0, wait_ms=60_000), 12)
    joining = [connect(broker.port) for _ in range(2)]
    join = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    # The first member gets its generation; the second then waits for the first to come back.
    assert joining[0].ask(join, 3).error_code == 0
    joining[1].send(join, 3)
    idle = connect(broker.port)
    assert idle.topics(topic)
    began = time.monotonic()
    assert broker.stop() == 0
    assert time.monotonic() - began < 30
    assert polling.receive(fetch_of(topic, 0), 12).responses[0].partitions[0].error_code == 0
    assert ErrorCode(joining[1].receive(join, 3).error_code) is ErrorCode.NOT_COORDINATOR
    assert idle.is_closed_by_broker()


@pytest.mark.parametrize("stopped", ["cleanly", "by kill -9"])
def test_sigterm_during_the_start_ends_it_and_the_next_start_has_everything(
    stopped: str, start_kavka: Any, connect: Any
) -> None:
    broker = start_kavka()
    client = connect(broker.port)
    topic = client.create_topic(partitions=200)
    for partition in range(200):
        assert client.produce(topic, bytes(batch(b"%d" % partition)), partition=partition).error_code == 0
    if stopped == "cleanly":
        broker.stop()
    else:
        broker.kill()
    for delay_s in (0.05, 0.15, 0.25, 0.35, 0.5):
        broker.launch()
        time.sleep(delay_s)
        # Killed by the signal itself (before there is a handler), ended in the middle, or just started and stopped.
        assert broker.stop() in (-signal.SIGTERM, 128 + signal.SIGTERM, 0), broker.log_tail()
        assert "Traceback" not in broker.log_tail()
    broker.start()
    client = connect(broker.port)
    assert [client.values(topic, partition=partition) for partition in range(200)] == [
        [b"%d" % partition] for partition in range(200)
    ]


# -- kill -9 in the middle of a change


def kill_in_the_middle(broker: KavkaProcess, request: Any, version: int, delay_s: float) -> None:
    """Sends the request and kills the broker `delay_s` later, answered or not."""
    with BrokerClient(broker.port) as client:
        client.send(request, version)
        time.sleep(delay_s)
        broker.kill()


PARTITIONS = 60


@pytest.mark.parametrize("seed", range(6))
def test_kill_9_during_a_creation_leaves_the_topic_whole_or_not_at_all(
    seed: int, start_kavka: Any, connect: Any
) -> None:
    broker = start_kavka()
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="created", num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=10_000
    )
    kill_in_the_middle(broker, request, 5, random.Random(seed).uniform(0, 0.02))
    broker.start()
    client = connect(broker.port)
    found = client.topics("created")["created"]
    if found.error_code:
        assert ErrorCode(found.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        client.create_topic("created", partitions=PARTITIONS)
    else:
        assert client.try_to_create_topic("created") == ErrorCode.TOPIC_ALREADY_EXISTS
    found = client.topics("created")["created"]
    assert [partition.leader_id for partition in found.partitions] == [1] * PARTITIONS
    for partition in range(PARTITIONS):
        assert client.produce("created", bytes(batch(b"%d" % partition)), partition=partition).base_offset == 0
    broker.restart()
    client = connect(broker.port)
    assert all(client.values("created", partition=partition) == [b"%d" % partition] for partition in range(PARTITIONS))


@pytest.mark.parametrize("seed", range(6))
def test_kill_9_during_a_deletion_leaves_the_topic_whole_or_not_at_all(
    seed: int, start_kavka: Any, connect: Any
) -> None:
    broker = start_kavka()
    client = connect(broker.port)
    client.create_topic("deleted", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        assert client.produce("deleted", bytes(batch(b"old")), partition=partition).error_code == 0
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="deleted")], timeout_ms=10_000)
    kill_in_the_middle(broker, request, 6, random.Random(seed).uniform(0, 0.02))
    broker.start()
    client = connect(broker.port)
    if client.topics("deleted")["deleted"].error_code == 0:
        assert all(client.values("deleted", partition=partition) == [b"old"] for partition in range(PARTITIONS))
        return
    # A topic of the same name is another topic, whatever a crash left of the first on the disk.
    client.create_topic("deleted", partitions=PARTITIONS)
    assert all(client.values("deleted", partition=partition) == [] for partition in range(PARTITIONS))
    assert client.produce("deleted", bytes(batch(b"new"))).base_offset == 0
    broker.restart()
    assert connect(broker.port).values("deleted") == [b"new"]


def test_a_log_of_a_former_topic_of_the_name_is_set_aside(start_kavka: Any, connect: Any) -> None:
    broker = start_kavka()
    client = connect(broker.port)
    client.create_topic("orders")
    assert client.produce("orders", bytes(batch(b"old"))).error_code == 0
    logs = broker.data_dir / "logs"
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=10_000), 6)
    broker.kill()
    # As if the kill had come before the directory was renamed.
    (renamed,) = logs.glob("orders-0.*-delete")
    renamed.rename(logs / "orders-0")
    broker.start()
    client = connect(broker.port)
    assert ErrorCode(client.topics("orders")["orders"].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic("orders")
    assert client.values("orders") == []
    assert client.produce("orders", bytes(batch(b"new"))).base_offset == 0
    assert [path.name.endswith("-stray") for path in logs.glob("orders-0.*")] == [True]
    assert "log set aside" in broker.log_tail()
    broker.restart()
    assert connect(broker.port).values("orders") == [b"new"]


def test_an_output_that_nobody_can_write_to_is_no_reason_not_to_serve(tmp_path: Path, connect: Any) -> None:
    broker = KavkaProcess(tmp_path / "data", log_file=Path("/dev/full"))
    with broker:
        client = connect(broker.port)
        topic = client.create_topic()
        # Each of these is a line in the log.
        client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
        connect(broker.port).send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert client.produce(client.create_topic(), bytes(batch(b"served"))).error_code == 0
        assert broker.stop() == 0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.005)
