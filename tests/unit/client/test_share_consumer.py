"""The share consumer beside a broker that answers what the test says: gaps, failures, ends of sessions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Any, ClassVar
from uuid import UUID

import pytest

from kavka.client.cluster import Cluster
from kavka.client.settings import ClientSettings, ShareConsumerSettings
from kavka.client.share_consumer import ShareConsumer
from kavka.client.share_session import AcknowledgeType
from kavka.errors import ConnectionFailed, CorruptRecords, ErrorCode, ProtocolViolation, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import MetadataResponse
from kavka.protocol.messages import share_acknowledge_response as acknowledged
from kavka.protocol.messages import share_fetch_response as fetched
from kavka.protocol.messages import share_group_heartbeat_response as beaten
from kavka.records.builder import BatchBuilder
from tests.unit.client.fake_cluster import DROP, FakeCluster

SETTINGS = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, request_timeout_ms=1_000, api_timeout_ms=1_500, topic_propagation_ms=200
)
GROUP = ShareConsumerSettings(group_id="workers", fetch_max_wait_ms=10)
TOPIC_ID = UUID(int=7)
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def batch(base: int, *values: str) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(1_000, None, value.encode())
    return bytes(builder.build(base_offset=base))


class FakeShareGroup(FakeCluster):
    """One group with one topic. `deliveries`: (records, acquired) that the next fetches bring, of partition 0."""

    def __init__(self) -> None:
        super().__init__(1)
        self.add_topic("t", 1)
        self.deliveries: deque[tuple[bytes, list[tuple[int, int, int]]]] = deque()
        self.said: list[tuple[int, int, list[int]]] = []
        """What was acknowledged, in order."""
        self.expected_epoch = 0
        self.partition_error = ErrorCode.NONE

    def _metadata(self, node: int, request: Any, version: int) -> MetadataResponse:
        answer = super()._metadata(node, request, version)
        for topic in answer.topics:
            topic.topic_id = TOPIC_ID
        return answer

    def _heartbeat(self, node: int, request: Any, version: int) -> beaten.ShareGroupHeartbeatResponse:
        given = beaten.Assignment(topic_partitions=[beaten.TopicPartitions(topic_id=TOPIC_ID, partitions=[0])])
        return beaten.ShareGroupHeartbeatResponse(
            member_epoch=request.member_epoch + 1, heartbeat_interval_ms=20, assignment=given
        )

    def _next(self, request: Any) -> ErrorCode:
        """Whether the request's epoch is the one that is due, as a broker checks it."""
        epoch = request.share_session_epoch
        if epoch == 0:
            self.expected_epoch = 0
        if epoch != self.expected_epoch and epoch != -1:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        self.expected_epoch += 1
        for topic in request.topics:
            for partition in topic.partitions:
                batches = getattr(partition, "acknowledgement_batches", [])
                assert not (batches and epoch == 0), "nothing is acknowledged in a session that only begins"
                self.said += [(b.first_offset, b.last_offset, list(b.acknowledge_types)) for b in batches]
        return ErrorCode.NONE

    def _share_fetch(self, node: int, request: Any, version: int) -> fetched.ShareFetchResponse:
        code = self._next(request)
        if code:
            return fetched.ShareFetchResponse(error_code=code)
        data = fetched.PartitionData(partition_index=0, acknowledge_error_code=self.partition_error)
        if self.deliveries:
            data.records, acquired = self.deliveries.popleft()
            data.acquired_records = [
                fetched.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in acquired
            ]
        topic = fetched.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return fetched.ShareFetchResponse(acquisition_lock_timeout_ms=30_000, responses=[topic])

    def _share_acknowledge(self, node: int, request: Any, version: int) -> acknowledged.ShareAcknowledgeResponse:
        code = self._next(request)
        if code:
            return acknowledged.ShareAcknowledgeResponse(error_code=code)
        data = acknowledged.PartitionData(partition_index=0, error_code=self.partition_error)
        topic = acknowledged.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return acknowledged.ShareAcknowledgeResponse(responses=[topic] if request.topics else [])

    _answers: ClassVar[dict[ApiKey, Any]] = {
        **FakeCluster._answers,
        ApiKey.METADATA: _metadata,
        ApiKey.SHARE_GROUP_HEARTBEAT: _heartbeat,
        ApiKey.SHARE_FETCH: _share_fetch,
        ApiKey.SHARE_ACKNOWLEDGE: _share_acknowledge,
    }


def run(scenario: Callable[[FakeShareGroup, ShareConsumer], Awaitable[None]]) -> FakeShareGroup:
    fake = FakeShareGroup()

    async def main() -> None:
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            consumer = ShareConsumer(cluster, GROUP)
            await consumer.subscribe(["t"])
            await scenario(fake, consumer)
            await consumer.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    return fake


def test_only_what_was_acquired_is_returned_and_the_rest_of_its_ranges_are_gaps() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a", "b", "c") + batch(6, "g"), [(1, 4, 1), (6, 6, 3)]))
        records = await consumer.poll()
        assert [(each.offset, each.value, each.delivery_count) for each in records] == [
            (1, b"b", 1),
            (2, b"c", 1),
            (6, b"g", 3),
        ]
        for record in records:
            consumer.acknowledge(record, ACCEPT if record.offset < 6 else RELEASE)
        assert await consumer.commit() == []
        assert fake.said == [(1, 2, [1]), (3, 4, [0]), (6, 6, [2])]
        with pytest.raises(RequestError, match="does not hold the record at offset 2"):
            consumer.acknowledge(records[1])

    run(scenario)


def test_a_broker_that_lies_about_how_much_was_acquired_costs_no_memory() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a"), [(0, 2**40, 1), (2**50, 0, 1)]))
        with pytest.raises(
            ProtocolViolation, match="t-0: the broker says that 1,099,511,627,777 records were acquired"
        ):
            await consumer.poll()
        assert consumer.held == 0
        fake.deliveries.append((batch(0, "a"), [(0, 0, 1)]))
        assert [record.offset for record in await consumer.poll()] == [0]

    run(scenario)


def test_an_acknowledgement_that_is_refused_is_told_once() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a", "b"), [(0, 1, 1)]))
        for record in await consumer.poll():
            consumer.acknowledge(record)
        fake.partition_error = ErrorCode.INVALID_RECORD_STATE
        (lost,) = await consumer.commit()
        assert (lost.partition, lost.first, lost.last, lost.kind) == (TopicPartition("t", 0), 0, 1, ACCEPT)
        assert isinstance(lost.failure, RequestError)
        assert lost.failure.code is ErrorCode.INVALID_RECORD_STATE
        assert await consumer.commit() == []

    run(scenario)


def test_a_renewal_that_is_refused_ends_the_hold() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a"), [(0, 0, 1)]))
        (record,) = await consumer.poll()
        await consumer.renew()
        assert (consumer.held, consumer.lost()) == (1, [])
        fake.partition_error = ErrorCode.INVALID_RECORD_STATE
        await consumer.renew()
        assert (consumer.held, [each.kind for each in consumer.lost()]) == (0, [RENEW])
        fake.partition_error = ErrorCode.NONE
        with pytest.raises(RequestError):
            consumer.acknowledge(record)

    run(scenario)


def test_a_connection_that_breaks_ends_the_session_and_what_it_held() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a", "b"), [(0, 1, 1)]))
        records = await consumer.poll()
        consumer.acknowledge(records[0])
        fake.faults[ApiKey.SHARE_ACKNOWLEDGE].append(lambda *_: DROP)
        (lost,) = await consumer.commit()
        assert (lost.first, lost.last) == (0, 0)
        assert isinstance(lost.failure, ConnectionFailed)
        with pytest.raises(RequestError):
            consumer.acknowledge(records[1])
        fake.deliveries.append((batch(0, "a", "b"), [(0, 1, 2)]))
        again = await consumer.poll()
        assert [each.delivery_count for each in again] == [2, 2]

    fake = run(scenario)
    epochs = [each.share_session_epoch for each in fake.asked(ApiKey.SHARE_FETCH)]
    assert epochs[:2] == [0, 1] or epochs.count(0) == 2, epochs


def test_a_pause_that_ends_while_it_is_looked_at_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes the processor away between two looks at the clock."""

    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a"), [(0, 0, 1)]))
        consumer.acknowledge((await consumer.poll())[0])
        fake.faults[ApiKey.SHARE_ACKNOWLEDGE].append(lambda *_: DROP)
        await consumer.commit()
        fake.deliveries.append((batch(0, "a"), [(0, 0, 2)]))
        loop = asyncio.get_running_loop()
        clock, looks = loop.time, count()
        monkeypatch.setattr(loop, "time", lambda: clock() + (0.01 if next(looks) >= 2 else 0))
        assert [each.delivery_count for each in await consumer.poll(timeout_ms=60_000)] == [2]

    run(scenario)


def test_a_session_that_the_broker_does_not_know_begins_anew() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a"), [(0, 0, 1)]))
        await consumer.poll()
        refusal = fetched.ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        fake.faults[ApiKey.SHARE_FETCH].append(lambda *_: refusal)
        fake.deliveries.append((batch(0, "a"), [(0, 0, 2)]))
        (record,) = await consumer.poll()
        assert record.delivery_count == 2

    fake = run(scenario)
    assert [each.share_session_epoch for each in fake.asked(ApiKey.SHARE_FETCH)].count(0) == 2


def test_a_damaged_batch_is_raised_once_and_released() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        damaged = bytearray(batch(0, "a", "b"))
        damaged[-1] ^= 1
        fake.deliveries.append((bytes(damaged) + batch(2, "c"), [(0, 2, 1)]))
        with pytest.raises(CorruptRecords, match="t-0: the batch at offset 0"):
            await consumer.poll()
        (record,) = await consumer.poll()
        consumer.acknowledge(record)
        await consumer.commit()
        assert fake.said == [(0, 1, [2]), (2, 2, [1])]

    run(scenario)


def test_what_is_held_at_the_end_is_left_to_the_end_of_the_session() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.deliveries.append((batch(0, "a", "b"), [(0, 1, 1)]))
        records = await consumer.poll()
        consumer.acknowledge(records[0])

    fake = run(scenario)
    closing = fake.asked(ApiKey.SHARE_ACKNOWLEDGE)[-1]
    assert closing.share_session_epoch == -1
    assert fake.said == [(0, 0, [1])]
    assert fake.asked(ApiKey.SHARE_GROUP_HEARTBEAT)[-1].member_epoch == -1


def test_a_member_that_is_not_known_any_more_joins_again_with_its_topics() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        refusal = beaten.ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        fake.faults[ApiKey.SHARE_GROUP_HEARTBEAT].append(lambda *_: refusal)
        before = len(fake.asked(ApiKey.SHARE_GROUP_HEARTBEAT))
        while len(fake.asked(ApiKey.SHARE_GROUP_HEARTBEAT)) < before + 3:
            await consumer.poll(timeout_ms=5)
        assert consumer.assignment == [TopicPartition("t", 0)]

    fake = run(scenario)
    joins = [each for each in fake.asked(ApiKey.SHARE_GROUP_HEARTBEAT) if each.member_epoch == 0]
    assert [each.subscribed_topic_names for each in joins] == [["t"], ["t"]]


@pytest.mark.parametrize("failure", [DROP, beaten.ShareGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)])
def test_after_a_heartbeat_that_failed_the_next_one_says_everything_again(failure: object) -> None:
    """The lost answer may have had an assignment: the coordinator tells it again only to who says its topics."""

    def lost(request: Any, version: int) -> object:
        return failure

    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        fake.faults[ApiKey.SHARE_GROUP_HEARTBEAT].append(lost)
        while len(fake.asked(ApiKey.SHARE_GROUP_HEARTBEAT)) < 4:
            await consumer.poll(timeout_ms=5)

    beats = [each for each in run(scenario).asked(ApiKey.SHARE_GROUP_HEARTBEAT) if each.member_epoch >= 0]
    assert [each.subscribed_topic_names for each in beats[:4]] == [["t"], None, ["t"], None]
    assert [each.member_epoch for each in beats[:4]] == [0, 1, 1, 2]


def test_a_membership_that_is_refused_for_good_fails_the_poll() -> None:
    async def scenario(fake: FakeShareGroup, consumer: ShareConsumer) -> None:
        refusal = beaten.ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        fake.faults[ApiKey.SHARE_GROUP_HEARTBEAT].append(lambda *_: refusal)
        with pytest.raises(RequestError, match="GROUP_AUTHORIZATION_FAILED"):
            await consumer.poll(timeout_ms=5_000)

    run(scenario)
