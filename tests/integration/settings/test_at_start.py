"""Settings that a broker reads when it starts: topics, groups, transactions, sizes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.messages.list_transactions_request import ListTransactionsRequest
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.integration.settings.running_broker import HOUR_MS, RunningBroker, eventually, now_ms, records
from tests.integration.settings.test_brokers_at_run_time import producer
from tests.kit.broker_client import BrokerClient, Closed

TOPIC = 2
GROUP, TRANSACTION = 0, 1
UNKNOWN_TOPIC, METADATA_TOO_LARGE, INVALID_SESSION_TIMEOUT, INVALID_TRANSACTION_TIMEOUT = 3, 12, 26, 50
TOPIC_DELETION_DISABLED, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED = 73, 79, 81
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
RACK = "cellar"
REQUEST_MAX_BYTES = 1_000_000


@pytest.fixture(scope="module")
def static_settings() -> Mapping[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "false",
        "num.partitions": "3",
        "broker.rack": RACK,
        "fetch.max.bytes": "2048",
        "socket.request.max.bytes": str(REQUEST_MAX_BYTES),
        "max.incremental.fetch.session.cache.slots": "0",
        "log.retention.hours": "1",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "100",
        "log.roll.hours": "2",
        "log.cleaner.enable": "false",
        "log.cleaner.backoff.ms": "100",
        "group.min.session.timeout.ms": "5000",
        "group.max.session.timeout.ms": "10000",
        "group.max.size": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offset.metadata.max.bytes": "5",
        "offsets.topic.num.partitions": "7",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": "2000000",
        "transaction.max.timeout.ms": "60000",
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.segment.bytes": "3000000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "transactional.id.expiration.ms": "3000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    }


def metadata(broker: RunningBroker, topic: str, *, creates: bool = False) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=creates)
    return broker.client.ask(request, 9)


def partitions(broker: RunningBroker, topic: str) -> int:
    return len(metadata(broker, topic).topics[0].partitions)


def topic_value(broker: RunningBroker, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[name])
    (config,) = broker.client.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs
    return None if config.value is None else str(config.value)


def coordinator(broker: RunningBroker, key: str, kind: int = GROUP) -> str:
    request = FindCoordinatorRequest(key=key, key_type=kind)
    eventually("the coordinator", lambda: broker.client.ask(request, 2).error_code == 0)
    return key


# -- topics


@pytest.mark.setting("auto.create.topics.enable")
def test_a_client_that_names_a_topic_makes_none(broker: RunningBroker) -> None:
    (topic,) = metadata(broker, "nobody-made-it", creates=True).topics
    assert topic.error_code == UNKNOWN_TOPIC


@pytest.mark.setting("delete.topic.enable")
def test_topics_are_not_deleted(broker: RunningBroker) -> None:
    topic = broker.topic()
    answer = broker.client.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5_000), 5)
    assert answer.responses[0].error_code == TOPIC_DELETION_DISABLED
    assert broker.error(topic, records(b"v")) == 0


@pytest.mark.setting("num.partitions")
def test_a_topic_that_does_not_say_how_many_partitions_it_has(broker: RunningBroker) -> None:
    name = f"topic-{uuid.uuid4()}"
    wish = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    assert broker.client.ask(CreateTopicsRequest(topics=[wish], timeout_ms=10_000), 5).topics[0].error_code == 0
    eventually("the topic", lambda: partitions(broker, name) == 3)


@pytest.mark.setting("broker.rack")
def test_the_rack_is_told(broker: RunningBroker) -> None:
    assert [each.rack for each in metadata(broker, "any").brokers] == [RACK]


# -- logs


@pytest.mark.setting("log.retention.hours", "log.retention.check.interval.ms", "log.initial.task.delay.ms")
def test_retention_in_hours(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert topic_value(broker, topic, "retention.ms") == str(HOUR_MS)
    assert broker.error(topic, records(b"old", timestamp=now_ms() - 2 * HOUR_MS)) == 0
    eventually("the deletion", lambda: broker.begins_at(topic) == 1)


@pytest.mark.setting("log.roll.hours")
def test_segment_age_in_hours(broker: RunningBroker) -> None:
    topic, began = broker.topic(), now_ms()
    for hours in (0, 1):
        assert broker.error(topic, records(b"v", timestamp=began + hours * HOUR_MS)) == 0
    assert len(broker.files(topic, ".log")) == 1
    assert broker.error(topic, records(b"v", timestamp=began + 3 * HOUR_MS)) == 0
    assert len(broker.files(topic, ".log")) == 2


@pytest.mark.setting("log.cleaner.enable")
def test_nothing_is_compacted(broker: RunningBroker) -> None:
    topic = broker.topic(cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01")
    for number in range(4):
        assert broker.error(topic, records(b"v", timestamp=now_ms() + number * 10)) == 0
    other = broker.topic()
    assert broker.error(other, records(b"old", timestamp=now_ms() - 2 * HOUR_MS)) == 0
    eventually("several looks at the logs", lambda: broker.begins_at(other) == 1)
    assert broker.offsets(topic) == [0, 1, 2, 3]


# -- sizes


@pytest.mark.setting("fetch.max.bytes")
def test_an_answer_holds_no_more_than_it_may(broker: RunningBroker) -> None:
    topics = [broker.topic() for _ in range(3)]
    for topic in topics:
        assert broker.error(topic, records(b"x" * 1_500)) == 0
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted]) for topic in topics],
    )
    answer = broker.client.ask(request, 12)
    assert sum(bool(topic.partitions[0].records) for topic in answer.responses) == 1


@pytest.mark.setting("socket.request.max.bytes")
def test_a_request_over_the_bound_ends_its_connection(broker: RunningBroker) -> None:
    topic = broker.topic(max_message_bytes=str(4 * REQUEST_MAX_BYTES))
    with BrokerClient(broker.port) as other, pytest.raises((Closed, TimeoutError)):
        other.produce(topic, records(b"x" * 2 * REQUEST_MAX_BYTES))
    assert broker.error(topic, records(b"x" * (REQUEST_MAX_BYTES // 2))) == 0


@pytest.mark.setting("max.incremental.fetch.session.cache.slots")
def test_fetch_sessions_are_bounded(broker: RunningBroker) -> None:
    topic = broker.topic()

    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=0,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    assert broker.client.ask(request, 12).session_id == 0  # of a session that was made it would be another number


# -- groups


def join(broker: RunningBroker, group: str, *, member: str = "", session_timeout_ms: int = 6_000) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=6_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return broker.client.ask(request, 5)


@pytest.mark.setting("group.min.session.timeout.ms", "group.max.session.timeout.ms")
def test_session_timeouts_are_bounded(broker: RunningBroker) -> None:
    group = coordinator(broker, f"group-{uuid.uuid4()}")
    assert join(broker, group, session_timeout_ms=4_999).error_code == INVALID_SESSION_TIMEOUT
    assert join(broker, group, session_timeout_ms=10_001).error_code == INVALID_SESSION_TIMEOUT
    assert join(broker, group, session_timeout_ms=10_000).error_code == MEMBER_ID_REQUIRED


@pytest.mark.setting("group.max.size", "group.initial.rebalance.delay.ms")
def test_a_group_has_no_more_members_than_it_may_and_begins_at_once(broker: RunningBroker) -> None:
    for _ in range(10):  # A delay would be there each time; a busy machine is not.
        group = coordinator(broker, f"group-{uuid.uuid4()}")
        member = join(broker, group).member_id
        began = time.monotonic()
        assert join(broker, group, member=member).error_code == 0
        took_s = time.monotonic() - began
        if took_s < 3:  # Kafka's default for more members to come
            break
    assert took_s < 3
    another = join(broker, group)
    if another.error_code == MEMBER_ID_REQUIRED:
        another = join(broker, group, member=another.member_id)
    assert another.error_code == GROUP_MAX_SIZE_REACHED


@pytest.mark.setting("offset.metadata.max.bytes")
def test_what_is_said_with_an_offset_is_bounded(broker: RunningBroker) -> None:
    group, topic = coordinator(broker, f"group-{uuid.uuid4()}"), broker.topic()

    def commit(said: str) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=said)
        wanted = OffsetCommitRequestTopic(name=topic, partitions=[partition])
        answer = broker.client.ask(OffsetCommitRequest(group_id=group, topics=[wanted]), 7)
        return int(answer.topics[0].partitions[0].error_code)

    assert commit("12345") == 0
    assert commit("123456") == METADATA_TOO_LARGE


@pytest.mark.setting("offsets.topic.num.partitions", "offsets.topic.segment.bytes")
def test_the_offsets_topic_is_as_the_settings_say(broker: RunningBroker) -> None:
    coordinator(broker, "any")
    assert partitions(broker, OFFSETS) == 7
    assert topic_value(broker, OFFSETS, "segment.bytes") == "2000000"


# -- transactions


@pytest.mark.setting(
    "transaction.state.log.num.partitions", "transaction.state.log.segment.bytes", "transaction.state.log.min.isr"
)
def test_the_transactions_topic_is_as_the_settings_say(broker: RunningBroker) -> None:
    coordinator(broker, "any", TRANSACTION)
    assert partitions(broker, TRANSACTIONS) == 5
    assert topic_value(broker, TRANSACTIONS, "segment.bytes") == "3000000"
    assert topic_value(broker, TRANSACTIONS, "min.insync.replicas") == "1"


@pytest.mark.setting("transaction.max.timeout.ms")
def test_transactions_last_no_longer_than_they_may(broker: RunningBroker) -> None:
    transactional_id = coordinator(broker, f"transaction-{uuid.uuid4()}", TRANSACTION)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_001)
    assert broker.client.ask(request, 4).error_code == INVALID_TRANSACTION_TIMEOUT


def states(broker: RunningBroker) -> dict[str, str]:
    found = broker.client.ask(ListTransactionsRequest(), 0).transaction_states
    return {each.transactional_id: each.transaction_state for each in found}


@pytest.mark.setting("transaction.abort.timed.out.transaction.cleanup.interval.ms")
def test_a_transaction_that_took_too_long_is_aborted(broker: RunningBroker) -> None:
    topic, name = broker.topic(), coordinator(broker, f"transaction-{uuid.uuid4()}", TRANSACTION)
    given = producer(broker.client, name, timeout_ms=2_000)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    assert broker.client.ask(add, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    assert states(broker)[name] == "Ongoing"
    eventually("the abort", lambda: states(broker).get(name) == "CompleteAbort")


@pytest.mark.setting("transactional.id.expiration.ms", "transaction.remove.expired.transaction.cleanup.interval.ms")
def test_a_transactional_id_that_nobody_used_for_long_is_forgotten(broker: RunningBroker) -> None:
    name = f"transaction-{uuid.uuid4()}"
    producer(broker.client, name)
    assert name in states(broker)
    eventually("the expiration", lambda: name not in states(broker))
