"""Transactional producers of three families, and Kafka's own tool for transactions and its reader of their log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonTopicPartition

from tests.apache_kafka import PeerMissing, installed, run_tool
from tests.conformance.clients.waiting import TIMEOUT_S, wait_until

MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]
VALUES = [b"%d" % number for number in range(4)]
KEPT = VALUES[::2]


def values(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[bytes]:
    """All that a reader sees of partition 0, up to the end as it is for it now."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "fetch.wait.max.ms": 50,
    }
    found: list[bytes] = []
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "the reader hangs"
            error = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)


def transactional(bootstrap: str, name: str, **settings: Any) -> Producer:
    config = {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0} | settings
    producer = Producer(config)
    producer.init_transactions(TIMEOUT_S)
    return producer


def test_librdkafka_commits_and_aborts(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic = make_topic()
    producer = transactional(bootstrap, fresh("tx"))
    for number, value in enumerate(VALUES):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(TIMEOUT_S)
        assert values(bootstrap, topic) == VALUES[:number:2], "nothing of it is visible while it is open"
        producer.abort_transaction(TIMEOUT_S) if number % 2 else producer.commit_transaction(TIMEOUT_S)
        wait_until(lambda number=number: values(bootstrap, topic) == VALUES[: number + 1 : 2])
    assert values(bootstrap, topic, isolation="read_uncommitted") == VALUES


def test_librdkafka_sends_offsets_in_a_transaction(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic, output, group = make_topic(), make_topic(), fresh("group")
    producer = transactional(bootstrap, fresh("tx"))
    config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    with closing(Consumer(config)) as consumer:
        place = TopicPartition(topic, 0)
        for offset, commit in ((5, False), (7, True), (9, False)):
            producer.begin_transaction()
            producer.produce(output, b"out", partition=0)
            wanted = [TopicPartition(topic, 0, offset)]
            producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S) if commit else producer.abort_transaction(TIMEOUT_S)
            (found,) = consumer.committed([place], TIMEOUT_S)
            assert found.offset == (-1001 if offset == 5 else 7)


def test_librdkafka_is_fenced(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic, name = make_topic(), fresh("tx")
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie's", partition=0)
    zombie.flush(TIMEOUT_S)
    heir = transactional(bootstrap, name)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()
    assert fenced.value.args[0].code() == KafkaError._FENCED
    heir.begin_transaction()
    heir.produce(topic, b"heir's", partition=0)
    heir.commit_transaction(TIMEOUT_S)
    wait_until(lambda: values(bootstrap, topic) == [b"heir's"])


def test_librdkafka_gives_up_what_it_could_not_begin(
    bootstrap: str, make_topic: MakeTopic, fresh: Fresh, admin: AdminClient, request: pytest.FixtureRequest
) -> None:
    """Its partition is refused, for the topic is gone; Apache Kafka takes the abort for one of what was committed."""
    topic, gone = make_topic(), make_topic()
    producer = transactional(bootstrap, fresh("tx"), **{"topic.metadata.refresh.interval.ms": -1})
    producer.begin_transaction()
    producer.produce(topic, b"kept", partition=0)
    producer.produce(gone, b"deleted", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: values(bootstrap, topic) == [b"kept"])
    (deleted,) = admin.delete_topics([gone]).values()
    deleted.result(TIMEOUT_S)
    wait_until(lambda: gone not in admin.list_topics(timeout=TIMEOUT_S).topics)
    producer.begin_transaction()
    producer.produce(gone, b"refused", partition=0)
    assert producer.flush(1), "it is not delivered, however often it is asked to be added"
    if "kavka" not in request.node.callspec.id:
        with pytest.raises(KafkaException) as ended:
            producer.abort_transaction(TIMEOUT_S)
        assert ended.value.args[0].fatal()
        return
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"more", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: values(bootstrap, topic) == [b"kept", b"more"])


def test_librdkafka_aborts_right_after_a_commit(
    bootstrap: str, make_topic: MakeTopic, fresh: Fresh, request: pytest.FixtureRequest
) -> None:
    """The markers of many partitions are still on their way when the next transaction begins, and is given up."""
    if "kavka" not in request.node.callspec.id:
        pytest.skip("Apache Kafka ends the producer, now and then: INVALID_TXN_STATE")
    topic = make_topic(12)
    producer = transactional(bootstrap, fresh("tx"))
    for number in range(30):
        producer.begin_transaction()
        for partition in range(12):
            producer.produce(topic, b"kept", partition=partition)
        producer.commit_transaction(TIMEOUT_S)
        producer.begin_transaction()
        for partition in range(number % 3):
            producer.produce(topic, b"given up", partition=partition)
        producer.poll(0.001 * (number % 5))
        producer.abort_transaction(TIMEOUT_S)
    wait_until(lambda: values(bootstrap, topic) == [b"kept"] * 30)


def test_librdkafkas_time_out_is_refused_where_it_is_too_long(bootstrap: str, fresh: Fresh) -> None:
    with pytest.raises(KafkaException) as refused:
        transactional(bootstrap, fresh("tx"), **{"transaction.timeout.ms": 1_000_000})
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_kafka_python_commits_aborts_and_sends_offsets(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic, group = make_topic(), fresh("group")
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=fresh("tx"))
    producer.init_transactions()
    for number, value in enumerate(VALUES):
        producer.begin_transaction()
        producer.send(topic, value, partition=0)
        offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(number, "", -1)}
        producer.send_offsets_to_transaction(offsets, group)
        producer.flush()
        producer.abort_transaction() if number % 2 else producer.commit_transaction()
    producer.close()
    wait_until(lambda: values(bootstrap, topic) == KEPT)
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        assert consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)[0].offset == 2


def test_aiokafka_commits_aborts_and_reads_what_is_committed(
    bootstrap: str, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, name = make_topic(), fresh("tx")

    async def main() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        for number, value in enumerate(VALUES):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, value, partition=0)
            await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in KEPT]
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(main(), 4 * TIMEOUT_S)) == KEPT


# -- Kafka's own tools


def open_transaction(bootstrap: str, topic: str, name: str) -> Producer:
    """A producer with a record in a transaction that is open, longer than a tool on a JVM takes to start."""
    producer = transactional(bootstrap, name, **{"transaction.timeout.ms": 600_000})
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(TIMEOUT_S)
    return producer


@pytest.fixture(params=["zk", "kraft"], ids=["tools-3.9", "tools-4.3"])
def tool(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Runs a tool of Kafka 3.9 or 4.3; returns what it printed."""
    try:
        installed(request.param)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    return lambda name, *arguments: run_tool(request.param, name, *arguments)


@pytest.mark.thorough
def test_kafka_transactions(bootstrap: str, make_topic: MakeTopic, fresh: Fresh, tool: Callable[..., str]) -> None:
    topic, name = make_topic(), fresh("tx")
    here = ("--bootstrap-server", bootstrap)
    producer = open_transaction(bootstrap, topic, name)
    listed = row(tool("transactions", *here, "list"), name)
    described = row(tool("transactions", *here, "describe", "--transactional-id", name), name)
    assert (listed[-1], described[4], described[-1]) == ("Ongoing", "Ongoing", f"{topic}-0")
    place = ("--topic", topic, "--partition", "0")
    producer_id = listed[2]
    producers = tool("transactions", *here, "describe-producers", *place)
    assert row(producers, producer_id)[-1] == "0"
    assert producer_id not in tool("transactions", *here, "find-hanging", *place).split()
    tool("transactions", *here, "abort", *place, "--start-offset", "0")
    assert row(tool("transactions", *here, "describe-producers", *place), producer_id)[-1] == "None"
    assert values(bootstrap, topic) == []
    producer.purge()


def row(printed: str, word: str) -> list[str]:
    """The words of the one line that has `word`."""
    (found,) = [line.split() for line in printed.splitlines() if word in line.split()]
    return found


@pytest.mark.thorough
def test_kafkas_dump_log_reads_the_state_of_transactions(tmp_path: Path, tool: Callable[..., str]) -> None:
    from tests.kit.kavka_process import KavkaProcess

    settings = {"transaction.state.log.num.partitions": "1"}
    with KavkaProcess(tmp_path / "data", settings=settings) as broker:
        administrator = AdminClient({"bootstrap.servers": broker.bootstrap})
        administrator.create_topics([NewTopic("orders", 1, 1)])["orders"].result(TIMEOUT_S)
        open_transaction(broker.bootstrap, "orders", "tx").commit_transaction(TIMEOUT_S)
        wait_until(lambda: values(broker.bootstrap, "orders") == [b"open"])
    (log,) = tmp_path.glob("data/**/__transaction_state-0/*.log")
    printed = tool("dump-log", "--transaction-log-decoder", "--files", str(log))
    assert "isvalid: false" not in printed
    assert states(printed) == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


def states(printed: str) -> list[str]:
    """The states of the records that the tool decoded, of 3.9's words or 4.x's JSON."""
    names = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]
    found = []
    for line in printed.splitlines():
        if "payload:" not in line:
            continue
        payload = line.partition("payload: ")[2]
        if payload.startswith("{"):
            found.append(names[json.loads(payload)["data"]["transactionStatus"]])
        else:
            found.append(payload.partition("state=")[2].partition(",")[0])
    return found
