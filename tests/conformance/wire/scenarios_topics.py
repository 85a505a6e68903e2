"""Scenarios of topics: Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_topic_partitions_request,
    metadata_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession

UNKNOWN_ID = UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)
SHOWN_CONFIGS = ("cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "min.insync.replicas")


# ---- Metadata -----------------------------------------------------------------------------------------------------


def metadata(*names: str, ids: tuple[UUID, ...] = (), **more: Any) -> Any:
    mr = metadata_request
    topics = [mr.MetadataRequestTopic(name=name) for name in names]
    topics += [mr.MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return m.MetadataRequest(topics=topics, **more)


@scenario(ApiKey.METADATA)
def metadata_of_topics(session: WireSession, version: int) -> None:
    topic = session.topic(partitions=3)
    other = session.topic("other")
    session.record("one topic", metadata(topic), version)
    session.record("two topics", metadata(topic, other), version)
    session.record("the same twice", metadata(topic, topic), version)
    everything = metadata() if version == 0 else m.MetadataRequest(topics=None)
    session.record("all topics", everything, version, keep=session.ours)
    if version >= 1:
        session.record("no topics", metadata(), version)
    if version >= 8:
        asked = metadata(topic, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
        session.record("authorised operations", asked, version)
    if version >= 10:
        found = session.topic_id(topic)
        session.record("by id", metadata(ids=(found,)), version)
        session.record("by unknown id", metadata(ids=(UNKNOWN_ID,)), version)


@scenario(ApiKey.METADATA)
def metadata_of_what_is_not_there(session: WireSession, version: int) -> None:
    if version >= 4:
        unknown = metadata(session.name("unknown"), allow_auto_topic_creation=False)
        session.record("unknown topic, no creation", unknown, version)
        session.record("illegal name, no creation", metadata("no spaces", allow_auto_topic_creation=False), version)
    session.record("illegal name", metadata("no spaces"), version)
    session.record("name of 250 characters", metadata("x" * 250), version)
    session.record("empty name", metadata(""), version)
    session.record("two dots", metadata(".."), version)


@scenario(ApiKey.METADATA)
def metadata_creates_topics(session: WireSession, version: int) -> None:
    topic = session.name("auto")
    # LEADER_NOT_AVAILABLE in 3.9, UNKNOWN_TOPIC_OR_PARTITION in 4.x.
    session.record("the first time", metadata(topic), version)
    session.until(lambda: session.connection.ask(metadata(topic), version).topics[0].error_code == 0)
    session.until_it_serves(topic)
    session.record("created", metadata(topic), version)


# ---- CreateTopics -------------------------------------------------------------------------------------------------


def creatable(name: str, partitions: int = 1, replicas: int = 1, configs: Any = (), assignments: Any = None) -> Any:
    ct = create_topics_request
    return ct.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[ct.CreatableTopicConfig(name=key, value=value) for key, value in configs],
        assignments=[
            ct.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
    )


def create(*topics: Any, validate_only: bool = False) -> Any:
    return m.CreateTopicsRequest(topics=list(topics), timeout_ms=15_000, validate_only=validate_only)


def shown(struct: Any) -> bool:
    """Of the configurations that a created topic has, a few stand for all."""
    return type(struct).__name__ != "CreatableTopicConfigs" or struct.name in SHOWN_CONFIGS


@scenario(ApiKey.CREATE_TOPICS)
def create_topics(session: WireSession, version: int) -> None:
    name = session.name

    def ask(step: str, *topics: Any, validate_only: bool = False) -> None:
        session.record(step, create(*topics, validate_only=validate_only), version, keep=shown)

    ask("plain", creatable(name("plain"), 3))
    ask("with configs", creatable(name("configured"), 1, 1, [("retention.ms", "5000"), ("cleanup.policy", "compact")]))
    ask("two at once", creatable(name("one")), creatable(name("two")))
    ask("assigned", creatable(name("assigned"), -1, -1, (), {0: [session.broker_id], 1: [session.broker_id]}))
    ask("only validated", creatable(name("validated"), 2), validate_only=True)
    session.record("validated is not there", metadata(name("validated"), allow_auto_topic_creation=False), 9)
    if version >= 4:
        ask("defaults", creatable(name("defaults"), -1, -1))
    ask("none", *())
    ask("dots and underscores", creatable(name("a.b_c-d")))
    ask("249 characters", creatable((name("long") + "x" * 249)[:249]))


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_without_time(session: WireSession, version: int) -> None:
    """Who does not wait hears that the time is over, and the topic comes."""
    name = session.name("hurried")
    session.record("no time", m.CreateTopicsRequest(topics=[creatable(name)], timeout_ms=0), version, keep=shown)
    validated = m.CreateTopicsRequest(topics=[creatable(session.name("v"))], timeout_ms=0, validate_only=True)
    session.record("no time, only validated", validated, version, keep=shown)


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_refused(session: WireSession, version: int) -> None:
    name, broker = session.name, session.broker_id

    def ask(step: str, *topics: Any, validate_only: bool = False) -> None:
        session.record(step, create(*topics, validate_only=validate_only), version, keep=shown)

    existing = session.topic("existing")
    ask("exists", creatable(existing))
    ask("exists, only validated", creatable(existing), validate_only=True)
    ask("same name twice", creatable(name("twice")), creatable(name("twice")))
    for step, illegal in (("empty", ""), ("dot", "."), ("two dots", ".."), ("slash", "a/b"), ("space", "a b")):
        ask(f"name: {step}", creatable(illegal))
    ask("name: 250 characters", creatable("x" * 250))
    ask("name: not ASCII", creatable("zürich"))
    with_dot = session.topic("col.lision")
    ask("name: collides", creatable(with_dot.replace(".", "_")))
    ask("no partitions", creatable(name("p0"), 0))
    ask("negative partitions", creatable(name("p2"), -2))
    ask("no replicas", creatable(name("r0"), 1, 0))
    ask("too many replicas", creatable(name("r2"), 1, 2))
    ask("negative replicas", creatable(name("r3"), 1, -2))
    ask("assigned and counted", creatable(name("a0"), 1, 1, (), {0: [broker]}))
    ask("replica twice", creatable(name("a1"), -1, -1, (), {0: [broker, broker]}))
    ask("assigned from 1", creatable(name("a2"), -1, -1, (), {1: [broker]}))
    ask("unknown setting", creatable(name("c0"), 1, 1, [("no.such.setting", "1")]))
    ask("malformed value", creatable(name("c1"), 1, 1, [("retention.ms", "soon")]))
    ask("value out of range", creatable(name("c2"), 1, 1, [("segment.bytes", "1")]))
    ask("value not in the list", creatable(name("c3"), 1, 1, [("cleanup.policy", "burn")]))
    ask("null value", creatable(name("c4"), 1, 1, [("retention.ms", None)]))
    ask("good beside bad", creatable(name("good")), creatable("a/b"))


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_that_kafka_keeps_for_itself(session: WireSession, version: int) -> None:
    session.record("cluster metadata", create(creatable("__cluster_metadata")), version)
    session.record("validated", create(creatable("__cluster_metadata"), validate_only=True), version)


# ---- DeleteTopics -------------------------------------------------------------------------------------------------


def delete(*names: str, ids: tuple[UUID, ...] = ()) -> Any:
    dt = delete_topics_request
    states = [dt.DeleteTopicState(name=name) for name in names]
    states += [dt.DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
    return m.DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=15_000)


@scenario(ApiKey.DELETE_TOPICS)
def delete_topics(session: WireSession, version: int) -> None:
    one, two = session.topic("one"), session.topic("two")
    session.record("two", delete(one, two), version)
    answered = lambda: session.connection.ask(metadata(one, two, allow_auto_topic_creation=False), 9)  # noqa: E731
    session.until(lambda: all(topic.error_code == 3 for topic in answered().topics))
    session.record("gone", metadata(one, allow_auto_topic_creation=False), 9)
    session.record("again", delete(one), version)
    session.record("unknown", delete(session.name("unknown")), version)
    session.record("illegal name", delete("no spaces"), version)
    session.record("none", delete(), version)
    three = session.topic("three")
    session.record("twice in one request", delete(three, three), version)
    if version >= 6:
        four = session.topic("four")
        session.record("by id", delete(ids=(session.topic_id(four),)), version)
        session.record("by unknown id", delete(ids=(UNKNOWN_ID,)), version)


@scenario(ApiKey.DELETE_TOPICS, min_version=6)
def delete_topics_of_nothing(session: WireSession, version: int) -> None:
    nothing = delete_topics_request.DeleteTopicState(name=None)
    session.record("neither name nor id", m.DeleteTopicsRequest(topics=[nothing], timeout_ms=15_000), version)
    both = [nothing, delete_topics_request.DeleteTopicState(name=session.name("unknown"))]
    session.record("beside an unknown one", m.DeleteTopicsRequest(topics=both, timeout_ms=15_000), version)


@scenario(ApiKey.DELETE_TOPICS)
def delete_topics_without_time(session: WireSession, version: int) -> None:
    topic = session.topic("hurried")
    names: dict[str, Any] = {"topic_names": [topic]}
    if version >= 6:
        names = {"topics": [delete_topics_request.DeleteTopicState(name=topic)]}
    session.record("no time", m.DeleteTopicsRequest(timeout_ms=0, **names), version)


@scenario(ApiKey.DELETE_TOPICS)
def delete_and_create_again(session: WireSession, version: int) -> None:
    """A name may be used again; what was stored under it is gone."""
    from tests.conformance.wire.wire_session import batch

    topic = session.topic()
    session.produced(topic, batch())
    session.record("deleted", delete(topic), version)
    asked = metadata(topic, allow_auto_topic_creation=False)
    session.until(lambda: session.connection.ask(asked, 9).topics[0].error_code == 3)
    session.topic()
    session.recorded["end offset of the new one"] = session.end_offset(topic)


# ---- CreatePartitions ---------------------------------------------------------------------------------------------


def grow(topic: str, count: int, assignments: list[list[int]] | None = None, *, times: int = 1, **more: Any) -> Any:
    cp = create_partitions_request
    assigned = None if assignments is None else [cp.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    entry = cp.CreatePartitionsTopic(name=topic, count=count, assignments=assigned)
    return m.CreatePartitionsRequest(topics=[entry] * times, timeout_ms=15_000, **more)


@scenario(ApiKey.CREATE_PARTITIONS)
def create_partitions(session: WireSession, version: int) -> None:
    topic, broker = session.topic(partitions=2), session.broker_id
    session.record("only validated", grow(topic, 4, validate_only=True), version)
    session.record("to 3", grow(topic, 3), version)
    session.until_it_serves(topic, 3)
    session.record("described", metadata(topic), 9)
    session.record("to 5, assigned", grow(topic, 5, [[broker], [broker]]), version)
    session.until_it_serves(topic, 5)
    session.record("the same count", grow(topic, 5), version)
    session.record("fewer", grow(topic, 1), version)
    session.record("zero", grow(topic, 0), version)
    session.record("negative", grow(topic, -1), version)
    session.record("too few assignments", grow(topic, 7, [[broker]]), version)
    session.record("too many assignments", grow(topic, 6, [[broker], [broker]]), version)
    session.record("replica twice", grow(topic, 6, [[broker, broker]]), version)
    session.record("unknown broker", grow(topic, 6, [[4711]]), version)
    session.record("assigned to nobody", grow(topic, 6, [[]]), version)
    session.record("unknown topic", grow(session.name("unknown"), 3), version)
    session.record("twice in one request", grow(topic, 6, times=2), version)


# ---- DescribeTopicPartitions --------------------------------------------------------------------------------------


def describe_partitions(*names: str, limit: int = 2000, cursor: Any = None) -> Any:
    topics = [describe_topic_partitions_request.TopicRequest(name=name) for name in names]
    return m.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(session: WireSession, version: int) -> None:
    cursor = describe_topic_partitions_request.Cursor
    first, second = session.topic("a-first", partitions=3), session.topic("b-second", partitions=2)
    session.record("one topic", describe_partitions(first), version)
    session.record("two topics", describe_partitions(second, first), version)
    session.record("unknown topic", describe_partitions(session.name("unknown")), version)
    session.record("illegal name", describe_partitions("no spaces"), version)
    session.record("limit of 2", describe_partitions(first, second, limit=2), version)
    session.record("limit of 3", describe_partitions(first, second, limit=3), version)
    next_page = describe_partitions(first, second, limit=2, cursor=cursor(topic_name=first, partition_index=2))
    session.record("from the cursor", next_page, version)
    beyond = describe_partitions(first, second, cursor=cursor(topic_name=second, partition_index=0))
    session.record("cursor at the second topic", beyond, version)
    odd = describe_partitions(first, cursor=cursor(topic_name=first, partition_index=-1))
    session.record("negative cursor", odd, version)
    session.record("same topic twice", describe_partitions(first, first), version)
