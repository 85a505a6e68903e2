"""Fetches that wait: for records, for enough of them, no longer than they said, and not for what will never come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import DeleteTopicsRequest, FetchRequest
from kavka.protocol.messages.delete_topics_request import DeleteTopicState
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic
from tests.kit.broker_client import BrokerClient, batch, read_records
from tests.kit.kavka_process import KavkaProcess

VERSION = 12
RECORD = bytes(batch(bytes(100)))
AT_ONCE_S = 15.0
"""At once, on a busy machine; whatever waits here waits for three times as long if nothing ends it."""
LONG_MS = 45_000


class Waiting(NamedTuple):
    """A connection to fetch on, one to change things with, and a topic of three partitions."""

    reader: BrokerClient
    writer: BrokerClient
    topic: str

    def request(self, *partitions: int, wait_ms: int = LONG_MS, min_bytes: int = 1, max_bytes: int = 1 << 20) -> Any:
        wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in partitions]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.topic, partitions=wanted)],
        )

    def send(self, *partitions: int, **limits: int) -> None:
        self.reader.send(self.request(*partitions, **limits), VERSION)
        # Answered behind the fetch if the fetch were answered: what follows finds it waiting.
        self.writer.topics(self.topic)

    def receive(self) -> dict[int, Any]:
        answer = self.reader.receive(self.request(0), VERSION)
        return {found.partition_index: found for topic in answer.responses for found in topic.partitions}

    def produce(self, partition: int) -> None:
        assert self.writer.produce(self.topic, RECORD, partition=partition).error_code == 0


@pytest.fixture
def waiting(kavka_broker: KavkaProcess) -> Iterator[Waiting]:
    with BrokerClient(kavka_broker.port) as reader, BrokerClient(kavka_broker.port) as writer:
        yield Waiting(reader, writer, writer.create_topic(partitions=3))


def test_a_record_ends_the_wait_at_once(waiting: Waiting) -> None:
    waiting.send(0, 1, 2)
    began = time.monotonic()
    waiting.produce(1)
    found = waiting.receive()
    assert time.monotonic() - began < AT_ONCE_S
    assert [offset for offset, _value in read_records(found[1].records)] == [0]


def test_the_wait_ends_when_all_partitions_together_have_enough(waiting: Waiting) -> None:
    waiting.send(0, 1, 2, min_bytes=3 * len(RECORD))
    began = time.monotonic()
    for partition in range(3):
        waiting.produce(partition)
    found = waiting.receive()
    assert time.monotonic() - began < AT_ONCE_S
    assert [len(bytes(found[partition].records)) for partition in range(3)] == [len(RECORD)] * 3


def test_too_little_is_given_when_the_time_is_up(waiting: Waiting) -> None:
    waiting.produce(2)
    began = time.monotonic()
    waiting.send(0, 2, min_bytes=1 << 20, wait_ms=300)
    found = waiting.receive()
    assert 0.25 < time.monotonic() - began < 0.3 + AT_ONCE_S
    assert len(bytes(found[2].records)) == len(RECORD)


def test_nobody_waits_for_more_than_the_answer_may_carry(waiting: Waiting) -> None:
    """Two batches are there, one fits: more will never come of waiting."""
    waiting.produce(0)
    waiting.produce(1)
    began = time.monotonic()
    waiting.send(0, 1, min_bytes=len(RECORD) + 20, max_bytes=len(RECORD) + 20)
    found = waiting.receive()
    assert time.monotonic() - began < AT_ONCE_S
    assert [len(bytes(found[partition].records)) for partition in (0, 1)] == [len(RECORD), 0]
    waiting.send(0, 1, min_bytes=1 << 30, max_bytes=len(RECORD))
    assert waiting.receive()[0].error_code == 0
    assert time.monotonic() - began < AT_ONCE_S


def test_a_partition_that_is_not_there_is_told_at_once(waiting: Waiting) -> None:
    began = time.monotonic()
    waiting.send(0, 77)
    assert ErrorCode(waiting.receive()[77].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert time.monotonic() - began < AT_ONCE_S


def test_a_deleted_topic_ends_the_wait(waiting: Waiting) -> None:
    waiting.send(0, 1)
    began = time.monotonic()
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=waiting.topic)], timeout_ms=30_000)
    assert waiting.writer.ask(delete, 6).responses[0].error_code == 0
    found = waiting.receive()
    assert time.monotonic() - began < AT_ONCE_S
    assert ErrorCode(found[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_that_is_none_is_told_so(waiting: Waiting) -> None:
    waiting.produce(0)
    for replica_id in (1, 5):
        for leader_epoch, code in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            request = waiting.request(0)
            request.replica_id = replica_id
            request.topics[0].partitions[0].current_leader_epoch = leader_epoch
            found = waiting.reader.ask(request, VERSION).responses[0].partitions[0]
            assert ErrorCode(found.error_code) is code
            assert not bytes(found.records or b"")
