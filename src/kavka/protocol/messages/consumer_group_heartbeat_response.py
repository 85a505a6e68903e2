"""ConsumerGroupHeartbeatResponse: response, API key 68, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", default_factory=list)


class ConsumerGroupHeartbeatResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=68):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+", default=0)
    heartbeat_interval_ms: int = int32("0+", default=0)
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)
