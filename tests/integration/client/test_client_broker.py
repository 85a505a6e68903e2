"""kavka's client against a running broker: what is produced is read back, topics and settings do what they say."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Consumer as PeerConsumer
from confluent_kafka import Producer as PeerProducer

from kavka.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.consumer import Consumer, ConsumerRecord
from kavka.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.records.batch import TimestampType
from kavka.records.compression import Compression
from kavka.runtime.network.network import SocketNetwork

Scenario = Callable[[Cluster, Admin], Awaitable[None]]
Fresh = Callable[[str], str]
FROM_START = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=100)


def run(bootstrap: str, scenario: Scenario) -> None:
    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(bootstrap)) as cluster:
            await scenario(cluster, Admin(cluster))

    asyncio.run(asyncio.wait_for(main(), 280))


async def create(admin: Admin, name: str, partitions: int = 1, **configs: str) -> str:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    assert await admin.create_topics([NewTopic(name, partitions, 1, settings)]) == {}
    return name


async def read_all(cluster: Cluster, topic: str, settings: ConsumerSettings = FROM_START) -> list[ConsumerRecord]:
    """Everything up to the end that the topic has now."""
    async with Consumer(cluster, settings) as consumer:
        await consumer.assign_topic(topic)
        ends = await consumer.end_offsets()
        records: list[ConsumerRecord] = []
        while not consumer.reached(ends):
            records += await consumer.poll(max_records=2_000)
        return records


@pytest.mark.parametrize("compression", list(Compression))
def test_what_is_sent_is_read_back(bootstrap: str, fresh: Fresh, compression: Compression) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("codec"), 3)
        async with Producer(cluster, ProducerSettings(compression=compression, linger_ms=2)) as producer:
            pending = [
                await producer.send(
                    topic,
                    b"v%d" % n * 20,
                    key=b"k%d" % n,
                    headers=[("n", b"%d" % n), ("null", None)],
                    timestamp_ms=n + 1,
                )
                for n in range(1_000)
            ]
            deliveries = [await one for one in pending]
        records = await read_all(cluster, topic)
        assert len(records) == 1_000
        found = {(r.partition, r.offset): r for r in records}
        for n, delivery in enumerate(deliveries):
            record = found[delivery.partition, delivery.offset]
            assert (record.key, record.value) == (b"k%d" % n, b"v%d" % n * 20)
            assert record.headers == (("n", b"%d" % n), ("null", None))
            assert (record.timestamp_ms, record.timestamp_type) == (n + 1, TimestampType.CREATE_TIME)

    run(bootstrap, scenario)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_another_client_reads_what_this_one_wrote_and_the_other_way_round(
    bootstrap: str, fresh: Fresh, codec: str
) -> None:
    values = [b"value %d " % n * 30 for n in range(300)]

    async def scenario(cluster: Cluster, admin: Admin) -> None:
        ours = await create(admin, fresh("ours"))
        async with Producer(cluster, ProducerSettings(compression=Compression.named(codec))) as producer:
            await producer.send_values(ours, values)
        assert await asyncio.to_thread(_peer_reads, bootstrap, ours, len(values)) == values
        theirs = await create(admin, fresh("theirs"))
        await asyncio.to_thread(_peer_writes, bootstrap, theirs, values, codec)
        assert [record.value for record in await read_all(cluster, theirs)] == values

    run(bootstrap, scenario)


def _peer_reads(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = PeerConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    while len(values) < count:
        for message in consumer.consume(count, timeout=10):
            assert message.error() is None, message.error()
            values.append(message.value())
    consumer.close()
    return values


def _peer_writes(bootstrap: str, topic: str, values: list[bytes], codec: str) -> None:
    producer = PeerProducer({"bootstrap.servers": bootstrap, "compression.type": codec})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_kind_of_acknowledgement(bootstrap: str, fresh: Fresh, acks: int) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("acks"))
        await read_all(cluster, topic)  # A leader that is published may not serve yet; acks=0 would not tell.
        async with Producer(cluster, ProducerSettings(acks=acks, linger_ms=0)) as producer:
            offsets = [(await (await producer.send(topic, b"v"))).offset for _ in range(20)]
        assert offsets == ([-1] * 20 if acks == 0 else list(range(20)))
        for _ in range(300):
            if len(await read_all(cluster, topic)) == 20:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the records did not come")

    run(bootstrap, scenario)


def test_records_in_bulk(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("bulk"), 2)
        async with Producer(cluster) as producer:
            batches = await producer.send_values(topic, [b"%06d" % n * 10 for n in range(30_000)], partition=1)
            assert sum([(await batch).record_count for batch in batches]) == 30_000
            await producer.send_records(topic, [(b"k", None, ()), (b"k", b"v", (("h", b"1"),))], partition=0)
        records = await read_all(cluster, topic)
        assert [int((r.value or b"")[:6]) for r in records if r.partition == 1] == list(range(30_000))
        assert [(r.key, r.value, r.headers) for r in records if r.partition == 0] == [
            (b"k", None, ()),
            (b"k", b"v", (("h", b"1"),)),
        ]

    run(bootstrap, scenario)


def test_a_record_over_the_topics_limit_fails_and_the_next_one_passes(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("limit"), max_message_bytes="2000")
        async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
            with pytest.raises(RequestError) as refusal:
                await (await producer.send(topic, b"x" * 3_000))
            assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert (await (await producer.send(topic, b"x" * 1_000))).offset == 0

    run(bootstrap, scenario)


def test_a_compacted_topic_wants_keys(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("compacted"), cleanup_policy="compact")
        async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
            with pytest.raises(RequestError) as refusal:
                await (await producer.send(topic, b"v"))
            assert refusal.value.code is ErrorCode.INVALID_RECORD
            assert (await (await producer.send(topic, b"v", key=b"k"))).offset == 0

    run(bootstrap, scenario)


def test_a_topic_with_log_append_time_stamps_the_records(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("stamped"), message_timestamp_type="LogAppendTime")
        async with Producer(cluster) as producer:
            delivery = await (await producer.send(topic, b"v", timestamp_ms=5))
        (record,) = await read_all(cluster, topic)
        assert record.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert record.timestamp_ms == delivery.timestamp_ms > 1_600_000_000_000

    run(bootstrap, scenario)


def test_offsets_by_time(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("times"))
        partition = TopicPartition(topic, 0)
        base = 1_700_000_000_000
        async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
            for n in (0, 10, 30, 20):
                await (await producer.send(topic, b"v", timestamp_ms=base + n))
        for asked, offset in (
            (EARLIEST, 0),
            (LATEST, 4),
            (MAX_TIMESTAMP, 2),
            (base + 5, 1),
            (base + 30, 2),
            (base + 31, -1),
        ):
            found = await list_offsets(cluster, {partition: asked})
            assert found[partition].offset == offset, asked
        async with Consumer(cluster, FROM_START) as consumer:
            consumer.assign([partition], offsets={partition: 0})
            await consumer.seek_to_timestamp(base + 15)
            assert (await consumer.poll(timeout_ms=60_000))[0].offset == 2

    run(bootstrap, scenario)


def test_topics_are_created_described_grown_and_deleted(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("life"), 2)
        (described,) = await admin.describe_topics([topic])
        assert [p.partition for p in described.partitions] == [0, 1]
        assert topic in {found.name for found in await admin.list_topics()}
        failures = await admin.create_topics(
            [NewTopic(topic, 1, 1), NewTopic("bad/name", 1, 1), NewTopic(fresh("rf"), 1, 99)]
        )
        assert sorted(failure.code.name for failure in failures.values()) == [
            "INVALID_REPLICATION_FACTOR",
            "INVALID_TOPIC_EXCEPTION",
            "TOPIC_ALREADY_EXISTS",
        ]
        dry = fresh("dry")
        assert await admin.create_topics([NewTopic(dry, 1, 1)], validate_only=True) == {}
        with pytest.raises(RequestError):
            await admin.describe_topics([dry])
        assert await admin.create_partitions({topic: 5}) == {}
        assert (await admin.create_partitions({topic: 3}))[topic].code is ErrorCode.INVALID_PARTITIONS
        for _ in range(300):
            if len((await admin.describe_topics([topic]))[0].partitions) == 5:
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError("the partitions did not come")
        failures = await admin.delete_topics([topic, dry])
        assert {name: failure.code for name, failure in failures.items()} == {dry: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    run(bootstrap, scenario)


def test_configurations_are_described_and_changed(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("config"), retention_ms="1000000")
        resource = ConfigResource(ResourceType.TOPIC, topic)

        async def setting(name: str) -> tuple[str | None, ConfigSource]:
            entries = (await admin.describe_configs([resource], include_documentation=True))[resource]
            (entry,) = [entry for entry in entries if entry.name == name]
            assert entry.documentation
            return entry.value, entry.source

        assert await setting("retention.ms") == ("1000000", ConfigSource.TOPIC)
        assert (await setting("cleanup.policy")) == ("delete", ConfigSource.DEFAULT)
        changes = [ConfigChange("retention.ms", "7"), ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)]
        assert await admin.alter_configs({resource: changes}) == {}
        assert (await _eventually(setting, "retention.ms", "7"))[1] is ConfigSource.TOPIC
        assert (await setting("cleanup.policy"))[0] == "delete,compact"
        assert await admin.alter_configs({resource: [ConfigChange("retention.ms", None, ConfigOperation.DELETE)]}) == {}
        await _eventually(setting, "retention.ms", "604800000")
        failures = await admin.alter_configs({resource: [ConfigChange("retention.ms", "soon")]})
        assert failures[resource].code is ErrorCode.INVALID_CONFIG
        broker = ConfigResource(ResourceType.BROKER, str(min(cluster.brokers)))
        entries = (await admin.describe_configs([broker], include_synonyms=True))[broker]
        assert "log.segment.bytes" in {entry.name for entry in entries}
        with pytest.raises(RequestError):
            await admin.describe_configs([ConfigResource(ResourceType.TOPIC, fresh("missing"))])

    run(bootstrap, scenario)


async def _eventually(
    setting: Callable[[str], Awaitable[tuple[str | None, ConfigSource]]], name: str, value: str
) -> tuple[str | None, ConfigSource]:
    """Brokers learn of a change a little after it is answered."""
    for _ in range(300):
        found = await setting(name)
        if found[0] == value:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is {found}, expected {value}")


def test_records_are_deleted_up_to_an_offset(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("deleted"))
        partition = TopicPartition(topic, 0)
        async with Producer(cluster) as producer:
            await producer.send_values(topic, [b"%d" % n for n in range(10)])
        assert await admin.delete_records({partition: 4}) == {partition: 4}
        assert [record.offset for record in await read_all(cluster, topic)] == list(range(4, 10))
        async with Consumer(cluster, FROM_START) as consumer:
            consumer.assign([partition], offsets={partition: 1})
            assert (await consumer.poll(timeout_ms=60_000))[0].offset == 4
        with pytest.raises(RequestError) as refusal:
            await admin.delete_records({partition: 99})
        assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(bootstrap, scenario)


def test_the_cluster_and_its_log_directories_are_described(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic = await create(admin, fresh("dirs"))
        async with Producer(cluster) as producer:
            await producer.send_values(topic, [b"x" * 1_000] * 10)
        described = await admin.describe_cluster()
        assert described.cluster_id == cluster.cluster_id
        assert {broker.node_id for broker in described.brokers} == set(cluster.brokers)
        directories = [d for found in (await admin.describe_log_dirs()).values() for d in found]
        sizes = [r.size_bytes for d in directories for r in d.replicas if r.partition.topic == topic]
        assert len(sizes) == 1
        assert sizes[0] > 10_000
        assert all(d.error is ErrorCode.NONE and 0 < d.usable_bytes <= d.total_bytes for d in directories)

    run(bootstrap, scenario)
