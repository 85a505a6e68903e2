"""confluent-kafka (librdkafka): what it sends is read back, what it asks is answered as Kafka answers."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.conformance.clients.client_samples import BASE_TIMESTAMP_MS, CODECS, TIMESTAMP_STEP_MS, Sample, samples
from tests.conformance.clients.waiting import TIMEOUT_S, wait_until

MakeTopic = Callable[..., str]
Fresh = Callable[[str], str]


def producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 50} | dotted(settings))


def consumer(bootstrap: str, **settings: Any) -> Any:
    """A consumer that leaves its group when the with block ends."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
    }
    return closing(Consumer(config | dotted(settings)))


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def send(client: Producer, topic: str, records: list[Sample], partition: int = 0) -> list[int]:
    """Sends the records and returns the offsets the broker gave, in order of sending."""
    offsets: dict[int, int] = {}
    errors: list[KafkaError] = []

    def keep(index: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets[index] = message.offset()

        return delivered

    for index, record in enumerate(records):
        client.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
            partition=partition,
            on_delivery=keep(index),
        )
    assert client.flush(TIMEOUT_S) == 0
    assert errors == []
    return [offsets[index] for index in range(len(records))]


def receive(client: Consumer, count: int) -> list[Message]:
    """The next `count` messages; an error or a delay of TIMEOUT_S fails the test."""
    messages: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages) < count:
        for message in client.consume(count - len(messages), timeout=0.5):
            assert message.error() is None, message.error()
            messages.append(message)
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages in {TIMEOUT_S} s"
    return messages


def as_sample(message: Message) -> Sample:
    return Sample(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])


def delivery_error(client: Producer, topic: str, **record: Any) -> KafkaError | None:
    """What the delivery report of one record says."""
    reports: list[KafkaError | None] = []
    client.produce(topic, on_delivery=lambda error, _message: reports.append(error), **record)
    client.flush(TIMEOUT_S)
    assert len(reports) == 1
    return reports[0]


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent(bootstrap: str, make_topic: MakeTopic, codec: str, idempotent: bool) -> None:
    topic, sent = make_topic(), samples()
    sender = producer(bootstrap, compression_type=codec, enable_idempotence=idempotent)
    assert send(sender, topic, sent) == list(range(len(sent)))
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = receive(client, len(sent))
    assert [as_sample(message) for message in messages] == sent
    assert [message.offset() for message in messages] == list(range(len(sent)))
    assert {message.timestamp()[0] for message in messages} == {TIMESTAMP_CREATE_TIME}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_records(bootstrap: str, make_topic: MakeTopic, acks: str) -> None:
    topic, sent = make_topic(), samples(8)
    sender = producer(bootstrap, acks=acks)
    sender.list_topics(topic, timeout=TIMEOUT_S)
    if acks == "0":
        # A leader may be published before it serves, and without acknowledgement nobody would know: ask it first.
        with consumer(bootstrap) as client:
            client.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    offsets = send(sender, topic, sent)
    if acks != "0":
        assert offsets == list(range(8))
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [as_sample(message) for message in receive(client, 8)] == sent


def test_a_client_says_nothing_at_its_default_level(bootstrap: str, make_topic: MakeTopic) -> None:
    """librdkafka has a line for everybody who is told of APIs for clients' metrics, wanted or not."""
    lines: list[logging.LogRecord] = []
    logger = logging.Logger("librdkafka", logging.DEBUG)
    logger.addFilter(lambda record: bool(lines.append(record)))  # type: ignore[func-returns-value]
    topic = make_topic()
    settings = {"bootstrap.servers": bootstrap, "statistics.interval.ms": 100}
    statistics: list[str] = []
    writing = Producer(settings | {"stats_cb": statistics.append}, logger=logger)
    writing.produce(topic, b"value")
    assert writing.flush(TIMEOUT_S) == 0
    seen = len(statistics)
    # It asks for its subscription within a second of its first connection.
    wait_until(lambda: writing.poll(0.1) >= 0 and len(statistics) >= seen + 20)
    assert [record.getMessage() for record in lines] == []


def test_offsets_go_on_where_the_last_batch_ended(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    sender = producer(bootstrap)
    assert send(sender, topic, samples(5), partition=1) == [0, 1, 2, 3, 4]
    assert send(sender, topic, samples(3), partition=1) == [5, 6, 7]
    assert send(sender, topic, samples(2), partition=2) == [0, 1]
    with consumer(bootstrap) as client:
        marks = [client.get_watermark_offsets(TopicPartition(topic, p), timeout=TIMEOUT_S) for p in range(3)]
    assert marks == [(0, 0), (0, 8), (0, 2)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_reading_may_start_in_the_middle_of_a_batch(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    topic, sent = make_topic(), samples()
    send(producer(bootstrap, compression_type=codec), topic, sent)
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, 17)])
        messages = receive(client, len(sent) - 17)
    assert [message.offset() for message in messages] == list(range(17, len(sent)))
    assert [as_sample(message) for message in messages] == sent[17:]


def test_a_topic_may_keep_the_time_of_appending(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before_ms = time.time() * 1000
    send(producer(bootstrap), topic, samples(3))
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        for message in receive(client, 3):
            kind, timestamp_ms = message.timestamp()
            assert kind == TIMESTAMP_LOG_APPEND_TIME
            assert before_ms - 1000 <= timestamp_ms <= time.time() * 1000 + 1000


def test_offsets_are_found_by_timestamp(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), samples()
    send(producer(bootstrap), topic, sent)

    def offset_at(client: Consumer, timestamp_ms: int) -> int:
        (found,) = client.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=TIMEOUT_S)
        return int(found.offset)

    with consumer(bootstrap) as client:
        assert offset_at(client, BASE_TIMESTAMP_MS - 1) == 0
        assert offset_at(client, BASE_TIMESTAMP_MS + 12 * TIMESTAMP_STEP_MS) == 12
        assert offset_at(client, BASE_TIMESTAMP_MS + 12 * TIMESTAMP_STEP_MS + 1) == 13
        assert offset_at(client, BASE_TIMESTAMP_MS + 1000 * TIMESTAMP_STEP_MS) == OFFSET_END


def test_special_timestamps_name_the_ends_of_the_log(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), samples(10)
    sent[6] = Sample(b"late", b"late", (), BASE_TIMESTAMP_MS + 3_600_000)
    send(producer(bootstrap), topic, sent)

    def listed(spec: OffsetSpec) -> tuple[int, int]:
        (future,) = admin.list_offsets(
            {TopicPartition(topic, 0): spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED
        ).values()
        result = future.result(timeout=TIMEOUT_S)
        return result.offset, result.timestamp

    assert listed(OffsetSpec.earliest()) == (0, -1)
    assert listed(OffsetSpec.latest()) == (10, -1)
    assert listed(OffsetSpec.max_timestamp()) == (6, BASE_TIMESTAMP_MS + 3_600_000)
    assert listed(OffsetSpec.for_timestamp(BASE_TIMESTAMP_MS + 4_000)) == (4, BASE_TIMESTAMP_MS + 4_000)


def test_a_consumer_at_the_end_gets_what_comes_next(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sender = producer(bootstrap)
    send(sender, topic, samples(4))
    with consumer(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, 4)])
        assert client.consume(1, timeout=0.3) == []
        send(sender, topic, samples(2))
        assert [message.offset() for message in receive(client, 2)] == [4, 5]


def test_a_group_resumes_at_its_committed_offset(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic, group, sent = make_topic(), fresh("group"), samples(12)
    send(producer(bootstrap), topic, sent)
    with consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as first:
        first.subscribe([topic])
        assert [message.offset() for message in receive(first, 5)] == [0, 1, 2, 3, 4]
        (committed,) = first.commit(
            offsets=[TopicPartition(topic, 0, 5, metadata="half-way ü", leader_epoch=0)], asynchronous=False
        )
        assert committed.error is None
    with consumer(bootstrap, group_id=group) as second:
        (found,) = second.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
        assert (found.offset, found.metadata) == (5, "half-way ü")
        second.subscribe([topic])
        assert [message.offset() for message in receive(second, 7)] == list(range(5, 12))


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_static_member_that_is_restarted_disturbs_nobody(
    bootstrap: str, make_topic: MakeTopic, fresh: Fresh, assignor: str
) -> None:
    """Its subscription says what it had last, and since which generation; the group stays in its own."""
    topic = make_topic(4)
    shared = {"group_id": fresh("group"), "partition_assignment_strategy": assignor, "auto_offset_reset": "earliest"}

    def assigned(*members: Consumer) -> bool:
        for member in members:
            member.poll(0.05)
        return all(len(member.assignment()) == 2 for member in members) and len(set(map(generation, members))) == 1

    with consumer(bootstrap, group_instance_id="a", **shared) as other:
        other.subscribe([topic])
        with consumer(bootstrap, group_instance_id="b", **shared) as first:
            first.subscribe([topic])
            wait_until(lambda: assigned(other, first))
            before, had = generation(other), first.assignment()
        with consumer(bootstrap, group_instance_id="b", **shared) as second:
            second.subscribe([topic])
            wait_until(lambda: assigned(other, second))
            assert (generation(other), second.assignment()) == (before, had)


def generation(member: Consumer) -> int:
    """As it stands in the metadata that a transactional producer is given: a mark of seven bytes, then 32 bits."""
    return int.from_bytes(member.consumer_group_metadata()[7:11], sys.byteorder)


def test_a_group_without_commits_has_no_offset(bootstrap: str, make_topic: MakeTopic, fresh: Fresh) -> None:
    topic = make_topic()
    with consumer(bootstrap, group_id=fresh("group")) as client:
        (found,) = client.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
    assert found.offset < 0
    assert found.error is None


def test_groups_are_listed_described_and_deleted(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, fresh: Fresh
) -> None:
    topic, group = make_topic(), fresh("group")
    send(producer(bootstrap), topic, samples(1))
    with consumer(bootstrap, group_id=group, auto_offset_reset="earliest", client_id="reader-1") as client:
        client.subscribe([topic])
        receive(client, 1)
        client.commit(asynchronous=False)
        listed = {g.group_id: g for g in admin.list_consumer_groups().result(TIMEOUT_S).valid}
        assert listed[group].state.name == "STABLE"
        described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assert described.partition_assignor == "range"
        (member,) = described.members
        assert member.client_id == "reader-1"
        assert member.assignment.topic_partitions == [TopicPartition(topic, 0)]
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as gone:
        admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert gone.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_topics_are_created_described_and_deleted(admin: AdminClient, fresh: Fresh, replication_factor: int) -> None:
    name = fresh("topic")
    request = NewTopic(name, 3, replication_factor, config={"cleanup.policy": "compact", "segment.bytes": "2000000"})
    admin.create_topics([request])[name].result(TIMEOUT_S)

    metadata = admin.list_topics(timeout=TIMEOUT_S)
    assert sorted(metadata.topics[name].partitions) == [0, 1, 2]
    described = admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S)
    assert described.is_internal is False
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert {p.leader.id for p in described.partitions} == set(metadata.brokers)
    assert [sorted(r.id for r in p.isr) for p in described.partitions] == [sorted(metadata.brokers)] * 3
    assert [p.isr[0].id for p in described.partitions] == [p.leader.id for p in described.partitions]

    with pytest.raises(KafkaException) as exists:
        admin.create_topics([request])[name].result(TIMEOUT_S)
    assert exists.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS

    admin.delete_topics([name])[name].result(TIMEOUT_S)
    wait_until(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics)
    with pytest.raises(KafkaException) as unknown:
        admin.delete_topics([name])[name].result(TIMEOUT_S)
    assert unknown.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_validate_only_creates_nothing(admin: AdminClient, fresh: Fresh) -> None:
    name = fresh("topic")
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(TIMEOUT_S)
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        pytest.param(NewTopic("no spaces", 1, 1), KafkaError.TOPIC_EXCEPTION, id="illegal character"),
        pytest.param(NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION, id="two dots"),
        pytest.param(NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION, id="250 characters"),
        pytest.param(NewTopic("replicas", 1, 9), KafkaError.INVALID_REPLICATION_FACTOR, id="too many replicas"),
        pytest.param(
            NewTopic("config", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG, id="unknown setting"
        ),
        pytest.param(
            NewTopic("value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG, id="malformed value"
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused(admin: AdminClient, topic: NewTopic, code: int) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[topic.topic].result(TIMEOUT_S)
    assert refused.value.args[0].code() == code


def test_partitions_are_added_and_never_taken_away(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    wait_until(lambda: len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 5)
    for count in (5, 3):
        with pytest.raises(KafkaException) as refused:
            admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT_S)
        assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_topic_configs_are_described_and_altered(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=123456)

    def described() -> dict[str, ConfigEntry]:
        (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return dict(future.result(TIMEOUT_S))

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    configs = described()
    assert configs["retention.ms"].value == "123456"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["retention.ms"].is_default is False
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["segment.bytes"].is_default is True
    assert configs["cleanup.policy"].value == "delete"
    assert configs["compression.type"].value == "producer"
    assert len(configs) >= 25

    alter("max.message.bytes", "2048", AlterConfigOpType.SET)
    wait_until(lambda: described()["max.message.bytes"].value == "2048")
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    wait_until(lambda: described()["cleanup.policy"].value == "delete,compact")
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    wait_until(lambda: described()["cleanup.policy"].value == "compact")
    alter("retention.ms", None, AlterConfigOpType.DELETE)
    wait_until(lambda: described()["retention.ms"].value == "604800000")
    for name, value in (("retention.ms", "soon"), ("no.such.setting", "1")):
        with pytest.raises(KafkaException) as refused:
            alter(name, value, AlterConfigOpType.SET)
        assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_legacy_alter_configs_replaces_all_settings(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=123456)
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "777000"})
    with pytest.deprecated_call():
        admin.alter_configs([resource])[resource].result(TIMEOUT_S)

    def now() -> tuple[str | None, str | None]:
        (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        configs = future.result(TIMEOUT_S)
        return configs["retention.ms"].value, configs["segment.ms"].value

    wait_until(lambda: now() == ("604800000", "777000"))


def test_broker_configs_are_described(admin: AdminClient) -> None:
    broker_id, *_ = admin.list_topics(timeout=TIMEOUT_S).brokers
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker_id))]).values()
    configs = future.result(TIMEOUT_S)
    assert configs["log.segment.bytes"].value == "1073741824"
    assert configs["log.segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["num.io.threads"].value == "8"
    assert configs["listeners"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert configs["listeners"].is_read_only is False
    assert configs["log.dirs"].is_read_only is True
    assert configs["auto.create.topics.enable"].value == "true"
    assert len(configs) > 100


def test_configs_of_an_unknown_topic_are_refused(admin: AdminClient, fresh: Fresh) -> None:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, fresh("nowhere"))]).values()
    with pytest.raises(KafkaException) as refused:
        future.result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_records_are_deleted_from_the_front(bootstrap: str, admin: AdminClient, make_topic: MakeTopic) -> None:
    topic, sent = make_topic(), samples(20)
    send(producer(bootstrap), topic, sent)
    (future,) = admin.delete_records([TopicPartition(topic, 0, 7)]).values()
    assert future.result(TIMEOUT_S).low_watermark == 7
    with consumer(bootstrap) as client:
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S) == (7, 20)
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = receive(client, 13)
    assert [message.offset() for message in messages] == list(range(7, 20))
    (beyond,) = admin.delete_records([TopicPartition(topic, 0, 21)]).values()
    with pytest.raises(KafkaException) as refused:
        beyond.result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    (everything,) = admin.delete_records([TopicPartition(topic, 0, OFFSET_END)]).values()
    assert everything.result(TIMEOUT_S).low_watermark == 20


def test_the_cluster_describes_itself(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert len(cluster.cluster_id) == 22
    assert sorted(f"{node.host}:{node.port}" for node in cluster.nodes) == sorted(bootstrap.split(","))
    assert cluster.controller.id in [node.id for node in cluster.nodes]


def test_a_consumer_outside_the_log_is_told_so(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    send(producer(bootstrap), topic, samples(3))
    with consumer(bootstrap, auto_offset_reset="error") as client:
        client.assign([TopicPartition(topic, 0, 1000)])
        message = client.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    with consumer(bootstrap, auto_offset_reset="earliest") as client:
        client.assign([TopicPartition(topic, 0, 1000)])
        assert [message.offset() for message in receive(client, 3)] == [0, 1, 2]


def test_a_record_over_max_message_bytes_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=1000)
    sender = producer(bootstrap)
    error = delivery_error(sender, topic, value=b"x" * 2000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert delivery_error(sender, topic, value=b"x" * 100) is None


def test_a_record_without_key_is_refused_by_a_compacted_topic(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")
    sender = producer(bootstrap)
    error = delivery_error(sender, topic, value=b"no key")
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    assert delivery_error(sender, topic, key=b"k", value=b"v") is None


def test_the_good_records_of_a_refused_batch_are_not_called_bad(bootstrap: str, make_topic: MakeTopic) -> None:
    """As librdkafka's own test 0011 asks it: one batch to a compacted topic, with every tenth record without a key."""
    topic = make_topic(cleanup_policy="compact")
    sender = producer(bootstrap, linger_ms=2000, retries=0)
    errors: dict[int, int] = {}

    def on_delivery(number: int) -> Callable[[KafkaError | None, Message], None]:
        return lambda error, _message: errors.update({number: error.code() if error is not None else 0})

    for number in range(100):
        key = b"k%d" % number if number % 10 else None
        sender.produce(topic, value=b"v", key=key, on_delivery=on_delivery(number))
    assert sender.flush(TIMEOUT_S) == 0
    # "Failed because other records of its batch are invalid"; the library gives it no name.
    expected = {
        number: KafkaError._INVALID_DIFFERENT_RECORD if number % 10 else KafkaError.INVALID_RECORD
        for number in range(100)
    }
    assert errors == expected


def test_an_unknown_partition_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=1)
    error = delivery_error(producer(bootstrap, topic_metadata_refresh_interval_ms=1000), topic, value=b"x", partition=9)
    assert error is not None
    assert error.code() == KafkaError._UNKNOWN_PARTITION


def test_a_topic_is_created_when_a_producer_asks_for_it(bootstrap: str, admin: AdminClient, fresh: Fresh) -> None:
    name = fresh("auto")
    assert delivery_error(producer(bootstrap), name, value=b"first") is None
    assert len(admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions) == 1


def test_a_consumer_does_not_create_topics_unless_told(bootstrap: str, admin: AdminClient, fresh: Fresh) -> None:
    name = fresh("nowhere")
    with consumer(bootstrap, allow_auto_create_topics=False) as client:
        client.subscribe([name])
        message = client.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_an_illegal_topic_name_is_refused_in_metadata(bootstrap: str) -> None:
    error = delivery_error(producer(bootstrap), "no spaces", value=b"x")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_EXCEPTION
