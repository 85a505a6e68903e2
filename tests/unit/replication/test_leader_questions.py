"""What a follower asks its leader beside Fetch: one request about many partitions, and an answer for each of them."""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kavka.replication.decide.fetch_state import FetchState
from kavka.replication.decide.leader_questions import (
    EARLIEST,
    FIRST_WITH_REPLICA_ID,
    LATEST,
    epoch_answers,
    epoch_question,
    offset_answers,
    offset_question,
)
from tests.unit.replication.fetching_support import NOW_MS, World, batch

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
A_0, A_1, B_0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def followed() -> list[FetchState]:
    """Of two topics, in leader epochs 5, 6 and 7; their last records are of epochs 2, 3 and 4."""
    node, states = World().node(2), []
    for number, topic_partition in enumerate((A_0, B_0, A_1)):
        leader_epoch = 5 + number
        node.apply(topic_partition, LeaderAndIsr(BrokerId(1), leader_epoch, (BrokerId(1),), 0), is_fetched=False)
        partition = node.partition(topic_partition)
        partition.log.append_as_follower(batch(b"v", leader_epoch=2 + number), NOW_MS)
        states.append(FetchState(partition, leader_epoch, truncates_on_fetch=True))
    return states


def test_one_request_asks_where_the_last_epochs_of_all_end_topic_by_topic() -> None:
    request = epoch_question(BrokerId(2), followed())
    assert request.replica_id == 2
    assert FIRST_WITH_REPLICA_ID == 3  # OffsetForLeaderEpochRequest.json: ReplicaId 3+
    assert [
        (topic.topic, [(p.partition, p.current_leader_epoch, p.leader_epoch) for p in topic.partitions])
        for topic in request.topics
    ] == [("a", [(0, 5, 2), (1, 7, 4)]), ("b", [(0, 6, 3)])]


def test_each_that_was_asked_about_has_an_answer_also_where_the_leader_leaves_it_out() -> None:
    states = followed()
    answer = OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic="a",
                partitions=[
                    EpochEndOffset(partition=1, leader_epoch=4, end_offset=9),
                    EpochEndOffset(partition=0, error_code=ErrorCode.FENCED_LEADER_EPOCH),
                ],
            )
        ]
    )
    assert epoch_answers(states, answer) == [
        (states[0], ErrorCode.FENCED_LEADER_EPOCH, (-1, -1)),
        (states[1], UNKNOWN, (-1, -1)),
        (states[2], 0, (4, 9)),
    ]


def test_one_request_asks_where_the_logs_of_all_begin_or_end() -> None:
    assert (LATEST, EARLIEST) == (-1, -2)  # ListOffsetsRequest.LATEST_TIMESTAMP, EARLIEST_TIMESTAMP
    for timestamp in (LATEST, EARLIEST):
        request = offset_question(BrokerId(2), followed(), timestamp)
        assert request.replica_id == 2
        assert [
            (topic.name, [(p.partition_index, p.current_leader_epoch, p.timestamp) for p in topic.partitions])
            for topic in request.topics
        ] == [("a", [(0, 5, timestamp), (1, 7, timestamp)]), ("b", [(0, 6, timestamp)])]


def offsets(*told: tuple[int, ErrorCode, int]) -> ListOffsetsResponse:
    """(partition of `a`, error, offset)"""
    partitions = [
        ListOffsetsPartitionResponse(partition_index=index, error_code=error, offset=offset)
        for index, error, offset in told
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=partitions)])


def test_an_offset_that_the_leader_does_not_say_is_an_error_of_its_partition_alone() -> None:
    states = followed()
    assert offset_answers(states, offsets((0, ErrorCode.NONE, -1), (1, ErrorCode.NONE, 0))) == [
        (states[0], ErrorCode.OFFSET_NOT_AVAILABLE, -1),
        (states[1], UNKNOWN, -1),
        (states[2], 0, 0),
    ]


def test_the_leaders_own_error_counts_whatever_offset_stands_beside_it() -> None:
    states = followed()
    told = offsets((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (1, ErrorCode.FENCED_LEADER_EPOCH, 8))
    assert [answer.error for answer in offset_answers(states, told)] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UNKNOWN,
        ErrorCode.FENCED_LEADER_EPOCH,
    ]
