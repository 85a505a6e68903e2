"""VoteRequest: request, API key 52, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int32, int64, string, uuid


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    replica_epoch: int = int32("0+", default=0)
    replica_id: int = int32("0+", default=0)
    replica_directory_id: UUID = uuid("1+", default=ZERO_UUID, ignorable=True)
    voter_directory_id: UUID = uuid("1+", default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int = int32("0+", default=0)
    last_offset: int = int64("0+", default=0)
    pre_vote: bool = boolean("2+", default=False)


class TopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class VoteRequest(Message, kind="request", versions="0-2", flexible="0+", api_key=52):
    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
