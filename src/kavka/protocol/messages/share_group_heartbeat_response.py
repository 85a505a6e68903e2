"""ShareGroupHeartbeatResponse: response, API key 76, version 1, flexible from 0.

Apache Kafka 4.3.1: 1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "1+", default_factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "1+", default_factory=list)


class ShareGroupHeartbeatResponse(Message, kind="response", versions="1", flexible="0+", api_key=76):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("1+", default=0)
    error_message: str | None = string("1+", nullable="1+", default=None)
    member_id: str | None = string("1+", nullable="1+", default=None)
    member_epoch: int = int32("1+", default=0)
    heartbeat_interval_ms: int = int32("1+", default=0)
    assignment: Assignment | None = struct(Assignment, "1+", nullable="1+", default=None)
