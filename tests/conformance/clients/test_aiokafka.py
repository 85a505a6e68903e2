"""aiokafka: old versions of the protocol (Fetch up to 11, Produce up to 8, commits up to 3) in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidTopicError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.structs import OffsetAndMetadata

from tests.conformance.clients.client_samples import BASE_TIMESTAMP_MS, CODECS, TIMESTAMP_STEP_MS, Sample, samples
from tests.conformance.clients.waiting import TIMEOUT_S

MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, TIMEOUT_S))


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """Starts a producer, a consumer or an admin client and ends it again."""
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


def producer(bootstrap: str, **settings: Any) -> Any:
    # Its own default is acks=1: acknowledged before the followers have it, and no reader sees it yet.
    config = {"bootstrap_servers": bootstrap, "linger_ms": 20, "acks": "all"}
    return started(AIOKafkaProducer(**(config | settings)))


def consumer(bootstrap: str, *topics: str, **settings: Any) -> Any:
    config: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "fetch_max_wait_ms": 50,
    }
    return started(AIOKafkaConsumer(*topics, **(config | settings)))


def administrator(bootstrap: str) -> Any:
    return started(AIOKafkaAdminClient(bootstrap_servers=bootstrap))


async def send(client: AIOKafkaProducer, topic: str, records: list[Sample]) -> list[int]:
    """Sends the records to partition 0 and returns the offsets that the broker gave."""
    waiting = [
        await client.send(
            topic,
            value=record.value,
            key=record.key,
            partition=0,
            timestamp_ms=record.timestamp_ms,
            headers=list(record.headers),
        )
        for record in records
    ]
    return [(await future).offset for future in waiting]


async def receive(client: AIOKafkaConsumer, count: int) -> list[ConsumerRecord[bytes, bytes]]:
    return [await client.getone() for _ in range(count)]


def as_sample(record: ConsumerRecord[bytes, bytes]) -> Sample:
    return Sample(record.key, record.value, tuple(record.headers), record.timestamp)


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent(bootstrap: str, make_topic: MakeTopic, codec: str, idempotent: bool) -> None:
    topic, sent = make_topic(), samples()

    async def work() -> None:
        compression = None if codec == "none" else codec
        async with producer(bootstrap, compression_type=compression, enable_idempotence=idempotent) as sender:
            assert await send(sender, topic, sent) == list(range(len(sent)))
        async with consumer(bootstrap) as client:
            client.assign([TopicPartition(topic, 0)])
            await client.seek_to_beginning()
            records = await receive(client, len(sent))
        assert [as_sample(record) for record in records] == sent
        assert [record.offset for record in records] == list(range(len(sent)))
        assert {record.timestamp_type for record in records} == {0}

    run(work())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_stores_the_records(bootstrap: str, make_topic: MakeTopic, acks: Any) -> None:
    topic = make_topic()
    partition = TopicPartition(topic, 0)

    async def work() -> None:
        async with consumer(bootstrap) as client:
            client.assign([partition])
            # Also tells that the new leader serves: without acknowledgement nobody else would.
            assert await client.end_offsets([partition]) == {partition: 0}
            await client.seek_to_beginning()
            async with producer(bootstrap, acks=acks) as sender:
                waiting = [await sender.send(topic, value=b"%d" % n, partition=0) for n in range(5)]
                for future in waiting:
                    await future
            assert [record.value for record in await receive(client, 5)] == [b"0", b"1", b"2", b"3", b"4"]

    run(work())


def test_reading_may_start_in_the_middle_of_a_batch(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), samples()

    async def work() -> None:
        async with producer(bootstrap, compression_type="gzip") as sender:
            await send(sender, topic, sent)
        async with consumer(bootstrap) as client:
            client.assign([TopicPartition(topic, 0)])
            client.seek(TopicPartition(topic, 0), 17)
            records = await receive(client, len(sent) - 17)
        assert [record.offset for record in records] == list(range(17, len(sent)))
        assert [as_sample(record) for record in records] == sent[17:]

    run(work())


def test_offsets_are_found_by_timestamp(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), samples(20)
    partition = TopicPartition(topic, 0)

    async def work() -> None:
        async with producer(bootstrap) as sender:
            await send(sender, topic, sent)
        async with consumer(bootstrap) as client:
            client.assign([partition])
            assert await client.beginning_offsets([partition]) == {partition: 0}
            assert await client.end_offsets([partition]) == {partition: 20}
            at_12 = BASE_TIMESTAMP_MS + 12 * TIMESTAMP_STEP_MS
            found = (await client.offsets_for_times({partition: at_12}))[partition]
            assert (found.offset, found.timestamp) == (12, at_12)
            assert await client.offsets_for_times({partition: at_12 * 2}) == {partition: None}

    run(work())


def test_a_group_resumes_at_its_committed_offset(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic, group, sent = make_topic(), fresh("group"), samples(12)
    partition = TopicPartition(topic, 0)

    async def work() -> None:
        async with producer(bootstrap) as sender:
            await send(sender, topic, sent)
        async with consumer(bootstrap, topic, group_id=group, auto_offset_reset="earliest") as first:
            assert [record.offset for record in await receive(first, 5)] == [0, 1, 2, 3, 4]
            await first.commit({partition: OffsetAndMetadata(5, "half-way ü")})
        async with consumer(bootstrap, topic, group_id=group) as second:
            assert await second.committed(partition) == 5
            assert [record.offset for record in await receive(second, 7)] == list(range(5, 12))
        async with administrator(bootstrap) as admin:
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets == {partition: OffsetAndMetadata(5, "half-way ü")}
            listed = await admin.list_consumer_groups()
            assert (group, "consumer") in [entry[:2] for entry in listed]
            (described,) = await admin.describe_consumer_groups([group])
            assert described.groups[0][1:4] == (group, "Empty", "consumer")

    run(work())


def test_a_consumer_outside_the_log_is_told_so(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()

    async def work() -> None:
        async with producer(bootstrap) as sender:
            await send(sender, topic, samples(3))
        async with consumer(bootstrap) as client:
            client.assign([TopicPartition(topic, 0)])
            client.seek(TopicPartition(topic, 0), 1000)
            with pytest.raises(OffsetOutOfRangeError) as refused:
                await client.getone()
            assert refused.value.args[0] == {TopicPartition(topic, 0): 1000}

    run(work())


def test_a_record_over_max_message_bytes_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1000)

    async def work() -> None:
        async with producer(bootstrap) as sender:
            with pytest.raises(MessageSizeTooLargeError):
                await sender.send_and_wait(topic, b"x" * 2000)
            assert (await sender.send_and_wait(topic, b"x" * 100)).offset == 0

    run(work())


def test_a_topic_is_created_when_a_producer_asks_for_it(bootstrap: str, fresh: Fresh) -> None:
    name = fresh("auto")

    async def work() -> None:
        async with producer(bootstrap) as sender:
            assert (await sender.send_and_wait(name, b"first")).offset == 0

    run(work())


def test_topics_are_administered(bootstrap: str, fresh: Fresh) -> None:
    name = fresh("topic")

    async def work() -> None:
        async with administrator(bootstrap) as admin:
            request = NewTopic(name, 2, 1, topic_configs={"retention.ms": "123456"})
            assert errors(await admin.create_topics([request])) == {name: 0}
            assert errors(await admin.create_topics([request])) == {name: TopicAlreadyExistsError.errno}
            assert errors(await admin.create_topics([NewTopic("a/b", 1, 1)])) == {"a/b": InvalidTopicError.errno}
            assert name in await admin.list_topics()
            (described,) = await admin.describe_topics([name])
            assert (described["error_code"], described["topic"]) == (0, name)
            assert sorted(partition["partition"] for partition in described["partitions"]) == [0, 1]

            grown = await admin.create_partitions({name: NewPartitions(4)})
            assert [entry[:2] for entry in grown.topic_errors] == [(name, 0)]
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            assert (await described_config(admin, resource))["retention.ms"] == "123456"
            altered = await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "654321"})]
            )
            assert altered[0].resources[0][0] == 0

            async with producer(bootstrap) as sender:
                await send(sender, name, samples(6))
            partition = TopicPartition(name, 0)
            assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}

            assert errors(await admin.delete_topics([name])) == {name: 0}
            assert errors(await admin.delete_topics([fresh("nowhere")])).popitem()[1] == (
                UnknownTopicOrPartitionError.errno
            )

    def errors(response: Any) -> dict[str, int]:
        entries = getattr(response, "topic_errors", None) or response.topic_error_codes
        return {entry[0]: entry[1] for entry in entries}

    async def described_config(admin: Any, resource: ConfigResource) -> dict[str, str]:
        (response,) = await admin.describe_configs([resource])
        code, _message, _type, _name, entries = response.resources[0]
        assert for_code(code).errno == 0
        return {entry[0]: entry[1] for entry in entries}

    run(work())


def test_the_cluster_describes_itself(bootstrap: str) -> None:
    async def work() -> None:
        async with administrator(bootstrap) as admin:
            cluster = await admin.describe_cluster()
            found = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
            assert sorted(found) == sorted(bootstrap.split(","))
            assert cluster["controller_id"] in [broker["node_id"] for broker in cluster["brokers"]]

    run(work())
