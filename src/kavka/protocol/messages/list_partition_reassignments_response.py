"""ListPartitionReassignmentsResponse: response, API key 46, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32("0+", default=0)
    replicas: list[int] = array("int32", "0+", default_factory=list)
    adding_replicas: list[int] = array("int32", "0+", default_factory=list)
    removing_replicas: list[int] = array("int32", "0+", default_factory=list)


class OngoingTopicReassignment(Struct):
    name: str = string("0+", default="")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+", default_factory=list)


class ListPartitionReassignmentsResponse(Message, kind="response", versions="0", flexible="0+", api_key=46):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+", default_factory=list)
