"""ListPartitionReassignmentsRequest: request, API key 46, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: str = string("0+", default="")
    partition_indexes: list[int] = array("int32", "0+", default_factory=list)


class ListPartitionReassignmentsRequest(Message, kind="request", versions="0", flexible="0+", api_key=46):
    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )
