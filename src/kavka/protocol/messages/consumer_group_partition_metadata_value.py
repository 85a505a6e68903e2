"""ConsumerGroupPartitionMetadataValue: coordinator's value, record type 4, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, string, uuid


class PartitionMetadata(Struct):
    partition: int = int32("0+", default=0)
    racks: list[str] = array("string", "0+", default_factory=list)


class TopicMetadata(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    topic_name: str = string("0+", default="")
    num_partitions: int = int32("0+", default=0)
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+", default_factory=list)


class ConsumerGroupPartitionMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=4):
    topics: list[TopicMetadata] = array(TopicMetadata, "0+", default_factory=list)
