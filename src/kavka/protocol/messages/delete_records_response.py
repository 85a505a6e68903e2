"""DeleteRecordsResponse: response, API key 21, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32("0+", default=0)
    low_watermark: int = int64("0+", default=0)
    error_code: int = int16("0+", default=0)


class DeleteRecordsTopicResult(Struct):
    name: str = string("0+", default="")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+", default_factory=list)


class DeleteRecordsResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=21):
    throttle_time_ms: int = int32("0+", default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+", default_factory=list)
