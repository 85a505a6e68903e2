"""Scenarios of topic ids (KIP-516) in every request that has them: an id beside a name, none, zero, unknown, twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    delete_topics_request,
    fetch_request,
    metadata_request,
    offset_commit_request,
    offset_fetch_request,
    produce_request,
)
from kavka.protocol.schema import ZERO_UUID
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession, batch

UNKNOWN_ID = UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)


# ---- Metadata -----------------------------------------------------------------------------------------------------


def metadata(*wanted: tuple[str | None, UUID], **more: Any) -> Any:
    topics = [metadata_request.MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in wanted]
    return m.MetadataRequest(topics=topics, **more)


@scenario(ApiKey.METADATA, min_version=10)
def metadata_by_topic_id(session: WireSession, version: int) -> None:
    """Java's admin client sends the empty name beside the id."""
    topic, other = session.topic(), session.topic("other", partitions=2)
    topic_id, other_id = session.topic_id(topic), session.topic_id(other)

    def ask(step: str, *wanted: tuple[str | None, UUID], **more: Any) -> None:
        session.record(step, metadata(*wanted, **more), version)

    ask("null name", (None, topic_id))
    ask("empty name", ("", topic_id))
    ask("its own name", (topic, topic_id))
    ask("another topic's name", (other, topic_id))
    ask("unknown id", ("", UNKNOWN_ID))
    ask("a name beside an unknown id", (topic, UNKNOWN_ID))
    ask("two ids", ("", topic_id), ("", other_id))
    ask("an id twice", ("", topic_id), ("", topic_id))
    ask("an id twice, with and without a name", (topic, topic_id), ("", topic_id))
    ask("an unknown id twice", ("", UNKNOWN_ID), (None, UNKNOWN_ID))
    ask("a known and an unknown id", ("", topic_id), ("", UNKNOWN_ID))
    ask("an id beside another topic's name alone", ("", topic_id), (other, ZERO_UUID))
    ask("an unknown id beside another topic's name alone", ("", UNKNOWN_ID), (other, ZERO_UUID))
    ask("an id beside an unknown name alone", ("", topic_id), (session.name("unknown"), ZERO_UUID))
    ask("operations", ("", topic_id), include_topic_authorized_operations=True)
    ask("operations beside an unknown id", ("", UNKNOWN_ID), include_topic_authorized_operations=True)
    missing = session.name("missing")
    ask("an id beside a name to be created", (missing, topic_id), allow_auto_topic_creation=True)
    ask("that name is not created", (missing, ZERO_UUID), allow_auto_topic_creation=False)


@scenario(ApiKey.METADATA, min_version=10)
def metadata_by_zero_id(session: WireSession, version: int) -> None:
    topic = session.topic()

    def ask(step: str, *wanted: tuple[str | None, UUID], **more: Any) -> None:
        session.record(step, metadata(*wanted, allow_auto_topic_creation=False, **more), version)

    ask("a name", (topic, ZERO_UUID))
    ask("the empty name", ("", ZERO_UUID))
    ask("no name", (None, ZERO_UUID))
    ask("no name beside a name", (None, ZERO_UUID), (topic, ZERO_UUID))
    ask("no name beside an unknown id", (None, ZERO_UUID), (None, UNKNOWN_ID))


# ---- DeleteTopics -------------------------------------------------------------------------------------------------


def delete(*wanted: tuple[str | None, UUID]) -> Any:
    states = [delete_topics_request.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in wanted]
    return m.DeleteTopicsRequest(topics=states, timeout_ms=15_000)


@scenario(ApiKey.DELETE_TOPICS, min_version=6)
def delete_topics_by_id(session: WireSession, version: int) -> None:
    one, two, three, four = (session.topic(name) for name in ("one", "two", "three", "four"))
    ids = {name: session.topic_id(name) for name in (one, two, three, four)}

    def ask(step: str, *wanted: tuple[str | None, UUID]) -> None:
        session.record(step, delete(*wanted), version)

    ask("name and id", (one, ids[one]))
    ask("empty name and id", ("", ids[one]))
    ask("another's name and id", (two, ids[one]))
    ask("no name, no id", (None, ZERO_UUID))
    ask("empty name, no id", ("", ZERO_UUID))
    ask("unknown id", (None, UNKNOWN_ID))
    ask("unknown id twice", (None, UNKNOWN_ID), (None, UNKNOWN_ID))
    ask("an unknown id beside a known one", (None, UNKNOWN_ID), (None, ids[two]))
    ask("an id twice", (None, ids[three]), (None, ids[three]))
    ask("by name and by id", (four, ZERO_UUID), (None, ids[four]))


# ---- Produce ------------------------------------------------------------------------------------------------------


@scenario(ApiKey.PRODUCE, min_version=13)
def produce_by_topic_id(session: WireSession, version: int) -> None:
    topic, other = session.topic(partitions=2), session.topic("other")
    topic_id, other_id = session.topic_id(topic), session.topic_id(other)

    def ask(step: str, *wanted: tuple[UUID, Sequence[int]]) -> None:
        data = [
            produce_request.TopicProduceData(
                topic_id=each,
                partition_data=[produce_request.PartitionProduceData(index=i, records=batch()) for i in partitions],
            )
            for each, partitions in wanted
        ]
        session.record(step, m.ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=data), version)

    ask("known", (topic_id, [0]))
    ask("zero", (ZERO_UUID, [0]))
    ask("unknown", (UNKNOWN_ID, [0]))
    ask("unknown partition of a known topic", (topic_id, [7]))
    ask("a known and an unknown id", (topic_id, [0]), (UNKNOWN_ID, [0]))
    ask("two known ids", (topic_id, [0, 1]), (other_id, [0]))
    ask("an id twice, other partitions", (topic_id, [0]), (topic_id, [1]))
    session.recorded["end offsets"] = [
        session.end_offset(topic), session.end_offset(topic, 1), session.end_offset(other)
    ]  # fmt: skip


# ---- Fetch --------------------------------------------------------------------------------------------------------


def fetch(*wanted: tuple[UUID, Sequence[int]], **more: Any) -> Any:
    topics = [
        fetch_request.FetchTopic(
            topic_id=each,
            partitions=[
                fetch_request.FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1 << 20)
                for i in partitions
            ],
        )
        for each, partitions in wanted
    ]
    more.setdefault("session_epoch", -1)
    return m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics, **more)


@scenario(ApiKey.FETCH, min_version=13)
def fetch_by_topic_id(session: WireSession, version: int) -> None:
    topic, other = session.topic(partitions=2), session.topic("other")
    topic_id, other_id = session.topic_id(topic), session.topic_id(other)
    session.produced(topic, batch())

    def ask(step: str, *wanted: tuple[UUID, Sequence[int]], **more: Any) -> Any:
        return session.record(step, fetch(*wanted, **more), version)

    ask("known", (topic_id, [0]))
    ask("zero", (ZERO_UUID, [0]))
    ask("unknown", (UNKNOWN_ID, [0]))
    ask("a known and an unknown id", (topic_id, [0]), (UNKNOWN_ID, [0]))
    ask("an id twice, other partitions", (topic_id, [0]), (topic_id, [1]))
    ask("a partition twice", (topic_id, [0, 0]))
    number = ask("session", (topic_id, [0]), (UNKNOWN_ID, [0]), session_epoch=0).session_id
    ask("session again", session_id=number, session_epoch=1)
    ask("session, one more", (other_id, [0]), session_id=number, session_epoch=2)
    forgotten = [fetch_request.ForgottenTopic(topic_id=UNKNOWN_ID, partitions=[0])]
    ask("session, without the unknown", session_id=number, session_epoch=3, forgotten_topics_data=forgotten)
    by_name = fetch_request.FetchTopic(
        topic=topic, partitions=[fetch_request.FetchPartition(partition=1, partition_max_bytes=1 << 20)]
    )
    request = m.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[by_name], session_id=number, session_epoch=4)
    session.record("a session of ids, asked by name", request, 12)


# ---- committed offsets --------------------------------------------------------------------------------------------


@scenario(ApiKey.OFFSET_COMMIT, min_version=10)
def offset_commit_by_topic_id(session: WireSession, version: int) -> None:
    group, topic, other = session.name("group"), session.topic(), session.topic("other")
    topic_id, other_id = session.topic_id(topic), session.topic_id(other)
    session.coordinator_serves(group)
    oc = offset_commit_request

    def ask(step: str, *wanted: tuple[UUID, int]) -> None:
        topics = [
            oc.OffsetCommitRequestTopic(
                topic_id=each,
                partitions=[oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
            )
            for each, offset in wanted
        ]
        session.record(step, m.OffsetCommitRequest(group_id=group, topics=topics), version)

    ask("known", (topic_id, 3))
    ask("zero", (ZERO_UUID, 3))
    ask("unknown", (UNKNOWN_ID, 3))
    ask("a known and an unknown id", (topic_id, 4), (UNKNOWN_ID, 4))
    ask("two known ids", (topic_id, 5), (other_id, 5))


@scenario(ApiKey.OFFSET_FETCH, min_version=10)
def offset_fetch_by_topic_id(session: WireSession, version: int) -> None:
    group, topic, other = session.name("group"), session.topic(), session.topic("other")
    topic_id, other_id = session.topic_id(topic), session.topic_id(other)
    session.coordinator_serves(group)
    oc, of = offset_commit_request, offset_fetch_request
    partition = oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    committing = m.OffsetCommitRequest(
        group_id=group, topics=[oc.OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    session.record("committed", committing, 8)

    def ask(step: str, *wanted: UUID) -> None:
        topics = [of.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in wanted]
        groups = [of.OffsetFetchRequestGroup(group_id=group, topics=topics)]
        session.record(step, m.OffsetFetchRequest(groups=groups), version)

    ask("known", topic_id)
    ask("zero", ZERO_UUID)
    ask("unknown", UNKNOWN_ID)
    ask("a known and an unknown id", topic_id, UNKNOWN_ID)
    ask("one with and one without a commit", topic_id, other_id)
