"""OffsetForLeaderEpochRequest: request, API key 23, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 2-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, string


class OffsetForLeaderPartition(Struct):
    partition: int = int32("0+", default=0)
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32("0+", default=0)


class OffsetForLeaderTopic(Struct):
    topic: str = string("0+", default="")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+", default_factory=list)


class OffsetForLeaderEpochRequest(Message, kind="request", versions="0-4", flexible="4+", api_key=23):
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+", default_factory=list)
