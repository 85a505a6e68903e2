"""ShareGroupTargetAssignmentMemberValue: coordinator's value, record type 13, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, uuid


class TopicPartition(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)


class ShareGroupTargetAssignmentMemberValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=13):
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+", default_factory=list)
