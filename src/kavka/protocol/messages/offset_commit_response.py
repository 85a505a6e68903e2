"""OffsetCommitResponse: response, API key 8, versions 0-10, flexible from 8.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 2-10.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, uuid


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9", default="", ignorable=True)
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+", default_factory=list)


class OffsetCommitResponse(Message, kind="response", versions="0-10", flexible="8+", api_key=8):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+", default_factory=list)
