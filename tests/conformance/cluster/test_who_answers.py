"""What the leader, a follower and a broker without a replica answer about the same partition."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages import (
    delete_records_request,
    describe_producers_request,
    list_offsets_request,
    offset_for_leader_epoch_request,
)
from kavka.records.builder import BatchBuilder, ProducerStamp
from tests.apache_kafka import PeerMissing, installed, run_tool
from tests.kit.broker_client import BrokerClient, batch, fetch_of, produce_of
from tests.kit.three_brokers import Brokers

LEADER, FOLLOWER, STRANGER = 1, 2, 3
"""The brokers of each test's topic; the third holds no replica of it."""
TIMEOUT_S = 30.0
HOUR_MS = 3_600_000

_numbers = itertools.count()


@pytest.fixture
def topic(brokers: Brokers) -> str:
    """One partition, led by LEADER, with a replica on FOLLOWER and one record."""
    name = f"who-{next(_numbers)}"

    async def make(admin: Admin) -> None:
        assert await admin.create_topics([NewTopic(name, assignments=[(LEADER, FOLLOWER)])]) == {}

    brokers.ask(make)
    for broker in (LEADER, FOLLOWER, STRANGER):
        until(lambda broker=broker: metadata_error(brokers, broker, name) == 0)  # type: ignore[misc]
    until(lambda: produced(brokers, LEADER, name, bytes(batch(b"one"))) == 0)
    return name


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def metadata_error(brokers: Brokers, broker: int, topic: str) -> int:
    with BrokerClient(brokers.port(broker)) as client:
        return int(client.topics(topic)[topic].error_code)


def produced(brokers: Brokers, broker: int, topic: str, records: bytes) -> int:
    with BrokerClient(brokers.port(broker)) as client:
        (answer,) = client.ask(produce_of(topic, records), 9).responses[0].partition_responses
    return int(answer.error_code)


def questions(topic: str, partition: int = 0) -> Mapping[str, tuple[Any, int, Callable[[Any], int]]]:
    """A request, its version and where its answer has the partition's error code."""
    lo, lep, dr, dp = (
        list_offsets_request,
        offset_for_leader_epoch_request,
        delete_records_request,
        describe_producers_request,
    )
    latest = lo.ListOffsetsPartition(partition_index=partition, timestamp=-1)
    epoch = lep.OffsetForLeaderPartition(partition=partition, leader_epoch=0)
    low = dr.DeleteRecordsPartition(partition_index=partition, offset=0)
    return {
        "Produce": (
            produce_of(topic, bytes(batch(b"more")), partition=partition),
            9,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        ),
        "Fetch": (
            fetch_of(topic, 0, partition=partition),
            12,
            lambda answer: answer.responses[0].partitions[0].error_code,
        ),
        "ListOffsets": (
            m.ListOffsetsRequest(topics=[lo.ListOffsetsTopic(name=topic, partitions=[latest])]),
            6,
            lambda answer: answer.topics[0].partitions[0].error_code,
        ),
        "OffsetForLeaderEpoch": (
            m.OffsetForLeaderEpochRequest(topics=[lep.OffsetForLeaderTopic(topic=topic, partitions=[epoch])]),
            4,
            lambda answer: answer.topics[0].partitions[0].error_code,
        ),
        "DeleteRecords": (
            m.DeleteRecordsRequest(topics=[dr.DeleteRecordsTopic(name=topic, partitions=[low])], timeout_ms=10_000),
            2,
            lambda answer: answer.topics[0].partitions[0].error_code,
        ),
        "DescribeProducers": (
            m.DescribeProducersRequest(topics=[dp.TopicRequest(name=topic, partition_indexes=[partition])]),
            0,
            lambda answer: answer.topics[0].partitions[0].error_code,
        ),
    }


def errors(brokers: Brokers, broker: int, topic: str, partition: int = 0) -> dict[str, ErrorCode]:
    """What a broker answers to each question about a partition."""
    found = {}
    with BrokerClient(brokers.port(broker)) as client:
        for name, (request, version, error_of) in questions(topic, partition).items():
            found[name] = ErrorCode(error_of(client.ask(request, version)))
    return found


def test_a_leader_answers_everything(brokers: Brokers, topic: str) -> None:
    assert set(errors(brokers, LEADER, topic).values()) == {ErrorCode.NONE}


def test_a_follower_serves_readers_and_tells_of_producers(brokers: Brokers, topic: str) -> None:
    elsewhere = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert errors(brokers, FOLLOWER, topic) == {
        "Produce": elsewhere,
        "Fetch": ErrorCode.NONE,
        "ListOffsets": elsewhere,
        "OffsetForLeaderEpoch": elsewhere,
        "DeleteRecords": elsewhere,
        "DescribeProducers": ErrorCode.NONE,
    }


def test_a_broker_without_a_replica_says_that_the_partition_is_elsewhere(brokers: Brokers, topic: str) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION would be told to applications as if the topic were gone."""
    assert set(errors(brokers, STRANGER, topic).values()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.parametrize("broker", [LEADER, FOLLOWER, STRANGER])
def test_what_nobody_has_is_unknown_to_every_broker(brokers: Brokers, topic: str, broker: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert set(errors(brokers, broker, topic, 7).values()) == {unknown}
    assert set(errors(brokers, broker, f"{topic}-of-nobody").values()) == {unknown}


def test_every_replica_tells_of_the_same_producers(brokers: Brokers, topic: str) -> None:
    request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    with BrokerClient(brokers.port(LEADER)) as client:
        until(lambda: client.ask(request, 4).error_code == 0)
        producer_id = client.ask(request, 4).producer_id
    builder = BatchBuilder()
    for number in range(3):
        builder.append(1_700_000_000_000, None, b"%d" % number)
    assert produced(brokers, LEADER, topic, bytes(builder.build(ProducerStamp(producer_id, 0, 0)))) == 0
    wanted, version, _error = questions(topic)["DescribeProducers"]
    for broker in (LEADER, FOLLOWER):
        with BrokerClient(brokers.port(broker)) as client:
            (producer,) = client.ask(wanted, version).topics[0].partitions[0].active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (producer_id, 0, 2)
        assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, -1)


@pytest.mark.thorough
@pytest.mark.timeout(400)  # seven starts of a JVM, of some seconds each where others work beside it
@pytest.mark.parametrize("release", ["zk", "kraft"], ids=["tools-3.9", "tools-4.3"])
def test_kafka_transactions_finds_what_hangs_on_any_replica(brokers: Brokers, topic: str, release: str) -> None:
    """A batch of a transaction that its coordinator does not know, as brokers before KIP-890 took it."""
    try:
        installed(release)
    except PeerMissing as missing:
        pytest.skip(str(missing))

    def tool(*words: str) -> str:
        try:
            return run_tool(release, "transactions", "--bootstrap-server", brokers.bootstrap, *words)
        except subprocess.CalledProcessError as failed:
            return f"status {failed.returncode}: {failed.stdout}"

    producer_id = 4711 + next(_numbers)
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000) - HOUR_MS, None, b"hangs")
    records = builder.build(ProducerStamp(producer_id, 0, 0, is_transactional=True))
    request = produce_of(topic, bytes(records))
    request.transactional_id = f"hangs-{producer_id}"
    with BrokerClient(brokers.port(LEADER)) as client:
        (answer,) = client.ask(request, 9).responses[0].partition_responses
    assert answer.error_code == 0
    for broker in (LEADER, FOLLOWER):
        printed = tool("find-hanging", "--broker-id", str(broker))
        (row,) = [line.split() for line in printed.splitlines() if str(producer_id) in line.split()]
        assert row[:3] == [topic, "0", str(producer_id)], printed
        printed = tool("describe-producers", "--broker-id", str(broker), "--topic", topic, "--partition", "0")
        assert str(producer_id) in printed, printed
    printed = tool("find-hanging", "--broker-id", str(STRANGER))
    assert str(producer_id) not in printed, printed
    assert "status" not in printed, printed
    assert "status" not in tool(
        "abort", "--topic", topic, "--partition", "0", "--start-offset", str(answer.base_offset)
    )
    assert str(producer_id) not in tool("find-hanging", "--broker-id", str(FOLLOWER))
