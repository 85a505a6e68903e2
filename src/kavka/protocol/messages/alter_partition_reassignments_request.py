"""AlterPartitionReassignmentsRequest: request, API key 45, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int32, string


class ReassignablePartition(Struct):
    partition_index: int = int32("0+", default=0)
    replicas: list[int] | None = array("int32", "0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+", default_factory=list)


class AlterPartitionReassignmentsRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=45):
    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+", default_factory=list)
