"""OffsetFetchResponse: response, API key 9, versions 0-10, flexible from 6.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 1-10.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, int64, string, uuid


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32("0-7", default=0)
    committed_offset: int = int64("0-7", default=0)
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7", default="")
    error_code: int = int16("0-7", default=0)


class OffsetFetchResponseTopic(Struct):
    name: str = string("0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7", default_factory=list)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32("8+", default=0)
    committed_offset: int = int64("8+", default=0)
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+", default="")
    error_code: int = int16("8+", default=0)


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9", default="", ignorable=True)
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+", default_factory=list)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string("8+", default="")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", default_factory=list)
    error_code: int = int16("8+", default=0)


class OffsetFetchResponse(Message, kind="response", versions="0-10", flexible="6+", api_key=9):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", default_factory=list)
    error_code: int = int16("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default_factory=list)
