"""AssignReplicasToDirsRequest: request, API key 73, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, int64, uuid


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)


class TopicData(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class DirectoryData(Struct):
    id: UUID = uuid("0+", default=ZERO_UUID)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)


class AssignReplicasToDirsRequest(Message, kind="request", versions="0", flexible="0+", api_key=73):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    directories: list[DirectoryData] = array(DirectoryData, "0+", default_factory=list)
