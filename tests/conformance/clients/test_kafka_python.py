"""kafka-python 3: the newest versions of the protocol (Produce and Fetch with topic ids), idempotent by default."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import AlterConfigOp, ConfigFilterType, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.codec import has_lz4, has_snappy, has_zstd
from kafka.structs import OffsetAndMetadata

from tests.conformance.clients.client_samples import BASE_TIMESTAMP_MS, CODECS, TIMESTAMP_STEP_MS, Sample, samples
from tests.conformance.clients.waiting import TIMEOUT_S, wait_until

MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]


HAS_CODEC = {"none": True, "gzip": True, "snappy": has_snappy(), "lz4": has_lz4(), "zstd": has_zstd()}


@pytest.fixture
def administrator(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


def producer(bootstrap: str, **settings: Any) -> Any:
    return closing(KafkaProducer(**({"bootstrap_servers": bootstrap, "linger_ms": 20} | settings)))


def consumer(bootstrap: str, *topics: str, **settings: Any) -> Any:
    config: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "fetch_max_wait_ms": 50,
    }
    return closing(KafkaConsumer(*topics, **(config | settings)))


def send(client: KafkaProducer, topic: str, records: list[Sample]) -> list[int]:
    """Sends the records to partition 0 and returns the offsets that the broker gave."""
    waiting = [
        client.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=0,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    client.flush(timeout=TIMEOUT_S)
    return [future.get(timeout=TIMEOUT_S).offset for future in waiting]


def receive(client: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records in {TIMEOUT_S} s"
        for batch in client.poll(timeout_ms=500, max_records=count - len(records)).values():
            records.extend(batch)
    return records


def sendable(count: int = 40) -> list[Sample]:
    """The samples without null headers, which kafka-python does not send."""
    return [replace(one, headers=tuple(h for h in one.headers if h[1] is not None)) for one in samples(count)]


def as_sample(record: Any) -> Sample:
    return Sample(record.key, record.value, tuple(record.headers), record.timestamp)


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent(bootstrap: str, make_topic: MakeTopic, codec: str, idempotent: bool) -> None:
    if not HAS_CODEC[codec]:
        pytest.skip(f"kafka-python needs the package of its extra [{codec}] for {codec}")
    topic, sent = make_topic(), sendable()
    compression = None if codec == "none" else codec
    with producer(bootstrap, compression_type=compression, enable_idempotence=idempotent) as sender:
        assert send(sender, topic, sent) == list(range(len(sent)))
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0)])
        client.seek_to_beginning()
        records = receive(client, len(sent))
    assert [as_sample(record) for record in records] == sent
    assert [record.offset for record in records] == list(range(len(sent)))
    assert {record.timestamp_type for record in records} == {0}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_stores_the_records(bootstrap: str, make_topic: MakeTopic, acks: Any) -> None:
    topic = make_topic()
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0)])
        # Also tells that the new leader serves: without acknowledgement nobody else would.
        assert client.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
        client.seek_to_beginning()
        with producer(bootstrap, acks=acks, enable_idempotence=False) as sender:
            for number in range(5):
                sender.send(topic, value=b"%d" % number, partition=0)
            sender.flush(timeout=TIMEOUT_S)
        assert [record.value for record in receive(client, 5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_reading_may_start_in_the_middle_of_a_batch(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), sendable()
    with producer(bootstrap, compression_type="gzip") as sender:
        send(sender, topic, sent)
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0)])
        client.seek(TopicPartition(topic, 0), 17)
        records = receive(client, len(sent) - 17)
    assert [record.offset for record in records] == list(range(17, len(sent)))
    assert [as_sample(record) for record in records] == sent[17:]


def test_offsets_are_found_by_timestamp(bootstrap: str, administrator: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), sendable(20)
    partition = TopicPartition(topic, 0)
    sent[6] = Sample(b"late", b"late", (), BASE_TIMESTAMP_MS + 3_600_000)
    with producer(bootstrap) as sender:
        send(sender, topic, sent)
    with consumer(bootstrap) as client:
        client.assign([partition])
        assert client.beginning_offsets([partition]) == {partition: 0}
        assert client.end_offsets([partition]) == {partition: 20}
        at_4 = BASE_TIMESTAMP_MS + 4 * TIMESTAMP_STEP_MS
        found = client.offsets_for_times({partition: at_4})[partition]
        assert (found.offset, found.timestamp) == (4, at_4)
        assert client.offsets_for_times({partition: at_4 * 2}) == {partition: None}
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, 20), (OffsetSpec.MAX_TIMESTAMP, 6)):
        assert administrator.list_partition_offsets({partition: spec})[partition].offset == offset


def test_a_group_resumes_at_its_committed_offset(
    bootstrap: str, administrator: KafkaAdminClient, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group, sent = make_topic(), fresh("group"), sendable(12)
    partition = TopicPartition(topic, 0)
    with producer(bootstrap) as sender:
        send(sender, topic, sent)
    with consumer(bootstrap, topic, group_id=group, auto_offset_reset="earliest") as first:
        assert [record.offset for record in receive(first, 5)] == [0, 1, 2, 3, 4]
        first.commit({partition: OffsetAndMetadata(5, "half-way ü", 0)})
        assert administrator.describe_groups([group])[group]["group_state"] == "Stable"
    with consumer(bootstrap, topic, group_id=group) as second:
        assert second.committed(partition, metadata=True)[:2] == (5, "half-way ü")
        assert [record.offset for record in receive(second, 7)] == list(range(5, 12))
    offsets = administrator.list_group_offsets([group])[group]
    assert offsets[partition][:2] == (5, "half-way ü")
    assert group in [listed["group_id"] for listed in administrator.list_groups()]
    assert administrator.delete_groups([group])


def test_topics_are_administered(bootstrap: str, administrator: KafkaAdminClient, fresh: Fresh) -> None:
    name = fresh("topic")
    request = {name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "123456"}}}
    administrator.create_topics(request, wait_for_metadata=True)
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        administrator.create_topics(request)
    with pytest.raises(kafka_errors.InvalidTopicError):
        administrator.create_topics({"a/b": {"num_partitions": 1, "replication_factor": 1}})
    (described,) = administrator.describe_topics([name])
    assert (described["name"], len(described["partitions"])) == (name, 2)
    administrator.create_partitions({name: 4})
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        administrator.create_partitions({name: 1})
    if 75 in administrator.api_versions():  # DescribeTopicPartitions: 3.9 with ZooKeeper has it not
        (by_partitions,) = administrator.describe_topic_partitions([name])["topics"]
        assert len(by_partitions["partitions"]) == 4

    with producer(bootstrap) as sender:
        send(sender, name, sendable(6))
    partition = TopicPartition(name, 0)
    assert administrator.delete_records({partition: 4})[partition]["low_watermark"] == 4

    administrator.delete_topics([name])
    wait_until(lambda: name not in administrator.list_topics())
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        administrator.delete_topics([fresh("nowhere")])


def test_configs_are_described_and_altered(administrator: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=123456)

    def described(configs: ConfigFilterType) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        answer = administrator.describe_configs([resource], include_synonyms=True, config_filter=configs)
        return dict(answer["topic"][topic])

    assert list(described(ConfigFilterType.MODIFIED)) == ["retention.ms"]
    everything = described(ConfigFilterType.ALL)
    assert everything["retention.ms"]["value"] == "123456"
    assert [synonym["name"] for synonym in everything["retention.ms"]["synonyms"]] == ["retention.ms"]
    assert [synonym["name"] for synonym in everything["segment.bytes"]["synonyms"]] == ["log.segment.bytes"]
    assert everything["segment.bytes"]["value"] == "1073741824"
    changes = {"retention.ms": (AlterConfigOp.DELETE, None), "cleanup.policy": (AlterConfigOp.APPEND, "compact")}
    administrator.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])
    wait_until(lambda: list(described(ConfigFilterType.MODIFIED)) == ["cleanup.policy"])
    assert described(ConfigFilterType.MODIFIED)["cleanup.policy"]["value"] == "delete,compact"


def test_log_directories_are_described(
    bootstrap: str, replication_factor: int, administrator: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    with producer(bootstrap) as sender:
        send(sender, topic, sendable(6))
    directories = [
        directory for broker in administrator.describe_log_dirs({topic: [0, 1]}) for directory in broker["log_dirs"]
    ]
    assert len(directories) == replication_factor
    directory = max(directories, key=lambda one: one["topics"][0]["partitions"][0]["partition_size"])
    assert directory["error_code"] == 0
    assert directory["total_bytes"] > directory["usable_bytes"] > 0
    (described,) = directory["topics"]
    sizes = {entry["partition_index"]: entry["partition_size"] for entry in described["partitions"]}
    assert described["name"] == topic
    assert sizes[0] > 0
    assert sizes[1] == 0


def test_the_cluster_describes_itself(bootstrap: str, administrator: KafkaAdminClient) -> None:
    cluster = administrator.describe_cluster()
    found = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
    assert sorted(found) == sorted(bootstrap.split(","))
    assert len(cluster["cluster_id"]) == 22


def test_a_consumer_outside_the_log_is_told_so(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with producer(bootstrap) as sender:
        send(sender, topic, sendable(3))
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0)])
        client.seek(TopicPartition(topic, 0), 1000)
        with pytest.raises(kafka_errors.OffsetOutOfRangeError):
            receive(client, 1)


def test_a_record_over_max_message_bytes_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1000)
    # An idempotent producer of this library gives up for good after the first refusal.
    with producer(bootstrap, enable_idempotence=False) as sender:
        with pytest.raises(kafka_errors.MessageSizeTooLargeError):
            sender.send(topic, b"x" * 2000).get(timeout=TIMEOUT_S)
        assert sender.send(topic, b"x" * 100).get(timeout=TIMEOUT_S).offset == 0


def test_a_topic_is_created_when_a_producer_asks_for_it(bootstrap: str, fresh: Fresh) -> None:
    with producer(bootstrap) as sender:
        assert sender.send(fresh("auto"), b"first").get(timeout=TIMEOUT_S).offset == 0
