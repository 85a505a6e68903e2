"""AssignReplicasToDirsResponse: response, API key 73, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, uuid


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class TopicData(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class DirectoryData(Struct):
    id: UUID = uuid("0+", default=ZERO_UUID)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)


class AssignReplicasToDirsResponse(Message, kind="response", versions="0", flexible="0+", api_key=73):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    directories: list[DirectoryData] = array(DirectoryData, "0+", default_factory=list)
