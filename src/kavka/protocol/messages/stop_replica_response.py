"""StopReplicaResponse: response, API key 5, versions 0-4, flexible from 2.

Apache Kafka 3.9.2: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class StopReplicaPartitionError(Struct):
    topic_name: str = string("0+", default="")
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class StopReplicaResponse(Message, kind="response", versions="0-4", flexible="2+", api_key=5):
    error_code: int = int16("0+", default=0)
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+", default_factory=list)
