"""AlterPartitionReassignmentsResponse: response, API key 45, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int16, int32, string


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")


class ReassignableTopicResponse(Struct):
    name: str = string("0+", default="")
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+", default_factory=list)


class AlterPartitionReassignmentsResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=45):
    throttle_time_ms: int = int32("0+", default=0)
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+", default_factory=list)
