"""ShareGroupCurrentMemberAssignmentValue: coordinator's value, record type 14, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int32, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)


class ShareGroupCurrentMemberAssignmentValue(
    Message, kind="coordinator-value", versions="0", flexible="0+", api_key=14
):
    member_epoch: int = int32("0+", default=0)
    previous_member_epoch: int = int32("0+", default=0)
    state: int = int8("0+", default=0)
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", default_factory=list)
