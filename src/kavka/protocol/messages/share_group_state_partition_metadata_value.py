"""ShareGroupStatePartitionMetadataValue: coordinator's value, record type 15, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, string, uuid


class TopicPartitionsInfo(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    topic_name: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class TopicInfo(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    topic_name: str = string("0+", default="")


class ShareGroupStatePartitionMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=15):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+", default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, "0+", default_factory=list)
    deleting_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)
