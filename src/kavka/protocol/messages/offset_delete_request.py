"""OffsetDeleteRequest: request, API key 47, version 0, never flexible.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32("0+", default=0)


class OffsetDeleteRequestTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+", default_factory=list)


class OffsetDeleteRequest(Message, kind="request", versions="0", api_key=47):
    group_id: str = string("0+", default="")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+", default_factory=list)
