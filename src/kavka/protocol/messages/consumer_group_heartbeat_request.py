"""ConsumerGroupHeartbeatRequest: request, API key 68, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "0+", default_factory=list)


class ConsumerGroupHeartbeatRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=68):
    group_id: str = string("0+", default="")
    member_id: str = string("0+", default="")
    member_epoch: int = int32("0+", default=0)
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array("string", "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)
