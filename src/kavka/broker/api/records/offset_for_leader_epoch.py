"""OffsetForLeaderEpoch (key 23): where a leader epoch ends in this leader's log, so that a reader finds divergence.

Behaviour   The answer is the largest epoch that is not above the one asked for, with its end offset; (-1, -1) where
            there is none. A request of a follower that asks for nothing has what it waits for on this broker answered
            (FollowerFetches.hasten): Apache Kafka's followers never send one.
Versions    2 current leader epoch (KIP-320); 3 replica id; 4 flexible.
Not supported  Versions 0-1: only brokers older than 2.1 sent them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.records.may_follow import may_follow
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId
from kavka.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kavka.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kavka.replication.decide import divergence

if TYPE_CHECKING:
    from kavka.broker.api.records.ports import RecordsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: RecordsBroker, request: Request, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    if not message.topics and message.replica_id >= 0 and may_follow(broker, request):
        broker.replicas.followers.hasten(BrokerId(message.replica_id))
        if request.meter is not None:
            request.meter.fetched_by_follower()  # It belongs to the fetch: a wait would hold up replication.
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_partition(broker, topic.topic, partition) for partition in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _partition(broker: RecordsBroker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replicas.require_partition(topic, wanted.partition)
        partition.check_leads(wanted.current_leader_epoch)
    except RequestError as refused:
        return EpochEndOffset(error_code=refused.code, partition=wanted.partition)
    end = divergence.end_offset_for_epoch(partition.log, wanted.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=wanted.partition,
        leader_epoch=end.leader_epoch,
        end_offset=end.end_offset,
    )
