"""DescribeTopicPartitionsResponse: response, API key 75, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int16, int32, string, struct, uuid


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16("0+", default=0)
    partition_index: int = int32("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32", "0+", default_factory=list)
    isr_nodes: list[int] = array("int32", "0+", default_factory=list)
    eligible_leader_replicas: list[int] | None = array("int32", "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", "0+", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32", "0+", default_factory=list, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16("0+", default=0)
    name: str | None = string("0+", nullable="0+", default="")
    topic_id: UUID = uuid("0+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean("0+", default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition, "0+", default_factory=list
    )
    topic_authorized_operations: int = int32("0+", default=-2147483648)


class Cursor(Struct):
    topic_name: str = string("0+", default="")
    partition_index: int = int32("0+", default=0)


class DescribeTopicPartitionsResponse(Message, kind="response", versions="0", flexible="0+", api_key=75):
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic, "0+", default_factory=list
    )
    next_cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)
