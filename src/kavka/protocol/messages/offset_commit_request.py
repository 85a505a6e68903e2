"""OffsetCommitRequest: request, API key 8, versions 0-10, flexible from 8.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 2-10.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+", default=0)
    committed_offset: int = int64("0+", default=0)
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+", default="")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9", default="", ignorable=True)
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+", default_factory=list)


class OffsetCommitRequest(Message, kind="request", versions="0-10", flexible="8+", api_key=8):
    group_id: str = string("0+", default="")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", default="", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+", default_factory=list)
