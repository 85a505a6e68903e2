"""AlterReplicaLogDirsResponse: response, API key 34, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[AlterReplicaLogDirPartitionResult] = array(
        AlterReplicaLogDirPartitionResult, "0+", default_factory=list
    )


class AlterReplicaLogDirsResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=34):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+", default_factory=list)
