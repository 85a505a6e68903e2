"""Scenarios of what brokers ask the keeper of share groups' states (KIP-932). Apache Kafka 3.9 has none of them.

Epochs of states that exist are part of the answers: nobody leads these share-partitions for a group.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import delete_share_group_state_request as deleting
from kavka.protocol.messages import initialize_share_group_state_request as initializing
from kavka.protocol.messages import read_share_group_state_request as reading
from kavka.protocol.messages import read_share_group_state_summary_request as summarizing
from kavka.protocol.messages import write_share_group_state_request as writing
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
SHARE_KEY = 2
UNKNOWN_ID = uuid.UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)
Batch = tuple[int, int, int, int]


class Keeper:
    """Asks of states of one group in a topic of two partitions, once their keeper is there."""

    def __init__(self, session: WireSession, version: int) -> None:
        self.session, self.version = session, version
        self.group = session.name("states")
        self.topic = session.topic_id(session.topic(partitions=2))
        text = base64.urlsafe_b64encode(self.topic.bytes).decode().rstrip("=")
        for partition in range(2):
            key = f"{self.group}:{text}:{partition}"
            session.until(lambda key=key: self._is_found(key))  # type: ignore[misc]  # mypy: a lambda's default
            session.until(lambda partition=partition: self._is_loaded(partition))  # type: ignore[misc]

    def _is_found(self, key: str) -> bool:
        request = m.FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key])
        return not self.session.connection.ask(request, 6).coordinators[0].error_code

    def _is_loaded(self, partition: int) -> bool:
        answer = self.session.connection.ask(summary(self.group, self.topic, partition), 0)
        return not answer.results[0].partitions[0].error_code

    def made(self, partition: int = 0, *, epoch: int = 1, start: int = 0) -> None:
        request = initialize(self.group, self.topic, partition, epoch, start)
        answer = self.session.connection.ask(request, 0)
        assert answer.results[0].partitions[0].error_code == 0, answer

    def wrote(self, *batches: Batch, leader: int = 3, start: int = 0, complete: int = 0) -> None:
        request = write(self.group, self.topic, 0, 1, leader, start, batches, complete)
        answer = self.session.connection.ask(request, 1)
        assert answer.results[0].partitions[0].error_code == 0, answer

    def record(self, step: str, request: Any) -> None:
        self.session.record(step, request, self.version)

    def state(self, step: str, leader: int = -1) -> None:
        self.session.record(step, read(self.group, self.topic, 0, leader), 0)

    def summary(self, step: str) -> None:
        self.session.record(step, summary(self.group, self.topic, 0), 1)


def numbered(number: int, coordinator: int | None = None) -> dict[str, int]:
    """The order of requests of a broker of kavka, in tagged fields that Apache Kafka does not know. Below 0: none."""
    if number < 0:
        return {}
    epochs = {} if coordinator is None else {"kavka_coordinator_epoch": coordinator}
    return {"kavka_number": number, "kavka_broker_epoch": 90, **epochs}


def initialize(group: str, topic: uuid.UUID, partition: int, epoch: int, start: int, number: int = -1) -> Any:
    data = initializing.PartitionData(
        partition=partition, state_epoch=epoch, start_offset=start, **numbered(number, coordinator=5)
    )
    topics = [initializing.InitializeStateData(topic_id=topic, partitions=[data])]
    return m.InitializeShareGroupStateRequest(group_id=group, topics=topics)


def read(group: str, topic: uuid.UUID, partition: int, leader: int) -> Any:
    data = reading.PartitionData(partition=partition, leader_epoch=leader)
    return m.ReadShareGroupStateRequest(
        group_id=group, topics=[reading.ReadStateData(topic_id=topic, partitions=[data])]
    )


def write(
    group: str,
    topic: uuid.UUID,
    partition: int,
    epoch: int,
    leader: int,
    start: int,
    batches: Sequence[Batch] = (),
    complete: int = 0,
    number: int = -1,
) -> Any:
    listed = [
        writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]
    data = writing.PartitionData(
        partition=partition,
        state_epoch=epoch,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=complete,
        state_batches=listed,
        **numbered(number),
    )
    return m.WriteShareGroupStateRequest(
        group_id=group, topics=[writing.WriteStateData(topic_id=topic, partitions=[data])]
    )


def delete(group: str, topic: uuid.UUID, partition: int, number: int = -1) -> Any:
    data = deleting.PartitionData(partition=partition, **numbered(number, coordinator=5))
    return m.DeleteShareGroupStateRequest(
        group_id=group, topics=[deleting.DeleteStateData(topic_id=topic, partitions=[data])]
    )


def summary(group: str, topic: uuid.UUID, partition: int, leader: int = -1) -> Any:
    data = summarizing.PartitionData(partition=partition, leader_epoch=leader)
    topics = [summarizing.ReadStateSummaryData(topic_id=topic, partitions=[data])]
    return m.ReadShareGroupStateSummaryRequest(group_id=group, topics=topics)


@scenario(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def initialize_share_group_state(session: WireSession, version: int) -> None:
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    empty = initializing.InitializeStateData(topic_id=topic, partitions=[])
    keeper.record("no topics", m.InitializeShareGroupStateRequest(group_id=group, topics=[]))
    keeper.record("no partitions", m.InitializeShareGroupStateRequest(group_id=group, topics=[empty]))
    keeper.record("no group", initialize("", topic, 0, 1, 0))
    keeper.record("blank group", initialize(" ", topic, 0, 1, 0))
    keeper.record("partition below 0", initialize(group, topic, -1, 1, 0))
    keeper.record("partition that is not there", initialize(group, topic, 7, 1, 0))
    keeper.record("unknown topic", initialize(group, UNKNOWN_ID, 0, 1, 0))
    keeper.record("start not known", initialize(group, topic, 0, 1, -1))
    keeper.state("start not known, read")
    keeper.summary("start not known, summary")
    keeper.record("again", initialize(group, topic, 0, 1, -1))
    keeper.record("higher epoch", initialize(group, topic, 0, 4, 12))
    keeper.state("higher epoch, read")
    keeper.summary("higher epoch, summary")
    keeper.record("lower epoch", initialize(group, topic, 0, 3, 5))
    keeper.record("no epoch", initialize(group, topic, 0, -1, 5))
    keeper.record("two partitions", _two(group, topic))
    keeper.state("two partitions, read")


def _two(group: str, topic: uuid.UUID) -> Any:
    parts = [initializing.PartitionData(partition=number, state_epoch=5, start_offset=number) for number in (0, 1, 2)]
    topics = [initializing.InitializeStateData(topic_id=topic, partitions=parts)]
    return m.InitializeShareGroupStateRequest(group_id=group, topics=topics)


@scenario(ApiKey.READ_SHARE_GROUP_STATE)
def read_share_group_state(session: WireSession, version: int) -> None:
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    empty = reading.ReadStateData(topic_id=topic, partitions=[])
    keeper.record("no topics", m.ReadShareGroupStateRequest(group_id=group, topics=[]))
    keeper.record("no partitions", m.ReadShareGroupStateRequest(group_id=group, topics=[empty]))
    keeper.record("no group", read("", topic, 0, 0))
    keeper.record("partition below 0", read(group, topic, -1, 0))
    keeper.record("partition that is not there", read(group, topic, 7, 0))
    keeper.record("unknown topic", read(group, UNKNOWN_ID, 0, 0))
    keeper.record("never made", read(group, topic, 0, 0))
    keeper.made()
    keeper.record("made", read(group, topic, 0, -1))
    keeper.record("by a leader", read(group, topic, 0, 3))
    keeper.record("by its successor", read(group, topic, 0, 5))
    keeper.record("by an older one", read(group, topic, 0, 4))
    keeper.record("by nobody", read(group, topic, 0, -1))
    keeper.summary("summary")
    keeper.wrote((0, 4, ACKNOWLEDGED, 1), (5, 6, AVAILABLE, 2), (8, 8, ARCHIVED, 5), leader=5)
    keeper.record("written to", read(group, topic, 0, 5))


@scenario(ApiKey.WRITE_SHARE_GROUP_STATE)
def write_share_group_state(session: WireSession, version: int) -> None:
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    done: list[Batch] = [(0, 4, ACKNOWLEDGED, 1)]
    empty = writing.WriteStateData(topic_id=topic, partitions=[])
    keeper.record("no topics", m.WriteShareGroupStateRequest(group_id=group, topics=[]))
    keeper.record("no partitions", m.WriteShareGroupStateRequest(group_id=group, topics=[empty]))
    keeper.record("no group", write("", topic, 0, 1, 3, 0, done))
    keeper.record("partition below 0", write(group, topic, -1, 1, 3, 0, done))
    keeper.record("partition that is not there", write(group, topic, 7, 1, 3, 0, done))
    keeper.record("unknown topic", write(group, UNKNOWN_ID, 0, 1, 3, 0, done))
    keeper.record("never made", write(group, topic, 0, 1, 3, 0, done))
    keeper.made(epoch=2, start=-1)
    keeper.state("read by a leader", leader=3)
    keeper.record("older leader", write(group, topic, 0, 2, 2, 0, done))
    keeper.record("older state", write(group, topic, 0, 1, 3, 0, done))
    keeper.record("both older", write(group, topic, 0, 1, 2, 0, done))
    keeper.state("nothing changed")
    keeper.record("in order", write(group, topic, 0, 2, 3, 0, [(0, 4, AVAILABLE, 1), (5, 6, ACKNOWLEDGED, 1)], 2))
    keeper.state("in order, read")
    keeper.summary("in order, summary")
    keeper.record("part of it", write(group, topic, 0, 2, 3, -1, [(2, 3, ARCHIVED, 2)], 4))
    keeper.state("part of it, read")
    keeper.summary("part of it, summary")
    keeper.record("start moved", write(group, topic, 0, 2, 3, 4, [(4, 4, ACKNOWLEDGED, 2)], 3))
    keeper.state("start moved, read")
    keeper.record("the same again", write(group, topic, 0, 2, 3, 4, [(4, 4, ACKNOWLEDGED, 2)], 3))
    keeper.state("the same again, read")
    keeper.record("overlapping", write(group, topic, 0, 2, 3, 7, [(7, 12, AVAILABLE, 1), (9, 10, ACKNOWLEDGED, 2)], 2))
    keeper.state("overlapping, read")
    keeper.record("newer leader", write(group, topic, 0, 2, 8, 7, [], 2))
    keeper.record("newer state", write(group, topic, 0, 9, 8, 7, [], 2))
    keeper.record("no epochs", write(group, topic, 0, -1, -1, 8, [], 2))
    keeper.state("no epochs, read")


@scenario(ApiKey.WRITE_SHARE_GROUP_STATE, min_version=1)
def write_share_group_state_late(session: WireSession, version: int) -> None:
    """Numbered writes that come after a later one, before anybody has read the state, or of another state epoch."""
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    released: list[Batch] = [(0, 1, AVAILABLE, 1)]
    keeper.made()
    keeper.record("before anybody has read", write(group, topic, 0, 1, 3, 2, number=1))
    keeper.state("before anybody has read, read", leader=3)
    keeper.record("in time", write(group, topic, 0, 1, 3, 4, number=3))
    keeper.record("late", write(group, topic, 0, 1, 3, 0, released, number=2))
    keeper.state("late, read")
    keeper.record("of a later state", write(group, topic, 0, 2, 3, 9, number=5))
    keeper.state("of a later state, read")
    session.record("deleted", delete(group, topic, 0), 0)
    keeper.made()
    keeper.record("of the state before", write(group, topic, 0, 1, 3, 9, number=6))
    keeper.state("of the state before, read", leader=3)


@scenario(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def initialize_share_group_state_late(session: WireSession, version: int) -> None:
    """A request that is sent again, and arrives when the group has begun, or goes on from a position that was set."""
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    keeper.made(start=-1)
    keeper.state("made", leader=3)
    keeper.wrote((5, 6, ACKNOWLEDGED, 1), start=4)
    keeper.record("without a start again", initialize(group, topic, 0, 1, -1))
    keeper.state("without a start again, read")
    keeper.record("set", initialize(group, topic, 0, 2, 7, number=1))
    keeper.state("set, read", leader=3)
    request = write(group, topic, 0, 2, 3, 9, [(10, 10, ACKNOWLEDGED, 1)])
    assert session.connection.ask(request, 1).results[0].partitions[0].error_code == 0
    keeper.record("set again", initialize(group, topic, 0, 2, 7, number=1))
    keeper.state("set again, read")
    keeper.record("set again by who does not number its requests", initialize(group, topic, 0, 2, 7))
    keeper.state("set again by who does not number its requests, read")


@scenario(ApiKey.DELETE_SHARE_GROUP_STATE)
def delete_share_group_state(session: WireSession, version: int) -> None:
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    empty = deleting.DeleteStateData(topic_id=topic, partitions=[])
    keeper.record("no topics", m.DeleteShareGroupStateRequest(group_id=group, topics=[]))
    keeper.record("no partitions", m.DeleteShareGroupStateRequest(group_id=group, topics=[empty]))
    keeper.record("no group", delete("", topic, 0))
    keeper.record("partition below 0", delete(group, topic, -1))
    keeper.record("partition that is not there", delete(group, topic, 7))
    keeper.record("unknown topic", delete(group, UNKNOWN_ID, 0))
    keeper.record("never made", delete(group, topic, 0))
    keeper.made(epoch=3)
    keeper.record("made", delete(group, topic, 0))
    keeper.state("gone")
    keeper.summary("gone, summary")
    keeper.made(epoch=1)  # A lower epoch than before: nothing is remembered of a state that was deleted.
    keeper.state("made anew")


@scenario(ApiKey.DELETE_SHARE_GROUP_STATE)
def delete_share_group_state_late(session: WireSession, version: int) -> None:
    """A deletion that is sent again, and arrives when a group of the same name has a state made."""
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    keeper.made(epoch=3, start=7)
    keeper.record("deleted", delete(group, topic, 0, number=1))
    session.record("made late", initialize(group, topic, 0, 3, 7, number=0), 0)
    keeper.state("made late, read")
    session.record("made anew", initialize(group, topic, 0, 4, -1, number=2), 0)
    keeper.state("made anew, read")
    keeper.record("late", delete(group, topic, 0, number=1))
    keeper.state("late, read")


@scenario(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
def read_share_group_state_summary(session: WireSession, version: int) -> None:
    keeper = Keeper(session, version)
    group, topic = keeper.group, keeper.topic
    empty = summarizing.ReadStateSummaryData(topic_id=topic, partitions=[])
    keeper.record("no topics", m.ReadShareGroupStateSummaryRequest(group_id=group, topics=[]))
    keeper.record("no partitions", m.ReadShareGroupStateSummaryRequest(group_id=group, topics=[empty]))
    keeper.record("no group", summary("", topic, 0))
    keeper.record("partition below 0", summary(group, topic, -1))
    keeper.record("partition that is not there", summary(group, topic, 7))
    keeper.record("unknown topic", summary(group, UNKNOWN_ID, 0))
    keeper.record("never made", summary(group, topic, 0))
    keeper.made(start=-1)
    keeper.record("made", summary(group, topic, 0))
    keeper.wrote((0, 4, ACKNOWLEDGED, 1), start=0, complete=5)
    keeper.record("written to", summary(group, topic, 0))
    keeper.record("for a leader", summary(group, topic, 0, 3))
    keeper.record("for an older leader", summary(group, topic, 0, 1))
