"""OffsetDeleteResponse: response, API key 47, version 0, never flexible.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class OffsetDeleteResponseTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+", default_factory=list)


class OffsetDeleteResponse(Message, kind="response", versions="0", api_key=47):
    error_code: int = int16("0+", default=0)
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+", default_factory=list)
