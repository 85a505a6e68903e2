"""AlterShareGroupOffsetsRequest: request, API key 91, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, int64, string


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition, "0+", default_factory=list
    )


class AlterShareGroupOffsetsRequest(Message, kind="request", versions="0", flexible="0+", api_key=91):
    group_id: str = string("0+", default="")
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(
        AlterShareGroupOffsetsRequestTopic, "0+", default_factory=list
    )
