"""LeaderQuestions: what a follower asks its leader beside Fetch, as messages, and what the answers say.

Decides how questions about many partitions become one request. Must not know connections, or what is done with the
answers. An answer that leaves a partition out counts as UNKNOWN_TOPIC_OR_PARTITION for it.

Source: Kafka's RemoteLeaderEndPoint, 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.errors import ErrorCode
from kavka.model import NO_EPOCH, NO_OFFSET, BrokerId, Offset, TopicPartition
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse
from kavka.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kavka.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kavka.replication.decide.fetch_state import FetchState
from kavka.replication.decide.partition_results import EpochEndOffset

LATEST: Final = -1
EARLIEST: Final = -2
"""ListOffsets' timestamps for the ends of a log; a replica gets the log end, not the high watermark."""
FIRST_WITH_REPLICA_ID: Final = 3
"""The first version of OffsetForLeaderEpoch that says who asks."""


class EpochAnswer(NamedTuple):
    """Where the leader's largest epoch not above the one asked for ends; `error` is a protocol code, 0 for none."""

    state: FetchState
    error: int
    end: EpochEndOffset


class OffsetAnswer(NamedTuple):
    """An end of the leader's log; `error` is a protocol code, 0 for none."""

    state: FetchState
    error: int
    offset: Offset


def epoch_question(broker_id: BrokerId, states: Iterable[FetchState]) -> OffsetForLeaderEpochRequest:
    """Where the last epoch of each ends at the leader."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for state in states:
        name, index = state.topic_partition
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=index, current_leader_epoch=state.leader_epoch, leader_epoch=state.last_fetched_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=broker_id, topics=list(topics.values()))


def epoch_answers(asked: Sequence[FetchState], answer: OffsetForLeaderEpochResponse) -> list[EpochAnswer]:
    """One for each that was asked about."""
    told = {
        TopicPartition(topic.topic, end.partition): (end.error_code, EpochEndOffset(end.leader_epoch, end.end_offset))
        for topic in answer.topics
        for end in topic.partitions
    }
    nothing = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), EpochEndOffset(NO_EPOCH, NO_OFFSET))
    return [EpochAnswer(state, *told.get(state.topic_partition, nothing)) for state in asked]


def offset_question(broker_id: BrokerId, states: Iterable[FetchState], timestamp: int) -> ListOffsetsRequest:
    """Where the leader's log of each ends (LATEST) or begins (EARLIEST)."""
    topics: dict[str, ListOffsetsTopic] = {}
    for state in states:
        name, index = state.topic_partition
        topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=index, current_leader_epoch=state.leader_epoch, timestamp=timestamp)
        )
    return ListOffsetsRequest(replica_id=broker_id, topics=list(topics.values()))


def offset_answers(asked: Sequence[FetchState], answer: ListOffsetsResponse) -> list[OffsetAnswer]:
    """One for each that was asked about."""
    told = {
        TopicPartition(topic.name, data.partition_index): (data.error_code, data.offset)
        for topic in answer.topics
        for data in topic.partitions
    }
    answers = []
    for state in asked:
        error, offset = told.get(state.topic_partition, (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), NO_OFFSET))
        if not error and offset < 0:
            error = int(ErrorCode.OFFSET_NOT_AVAILABLE)
        answers.append(OffsetAnswer(state, error, offset))
    return answers
