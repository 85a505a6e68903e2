"""DeleteRecordsRequest: request, API key 21, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32("0+", default=0)
    offset: int = int64("0+", default=0)


class DeleteRecordsTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+", default_factory=list)


class DeleteRecordsRequest(Message, kind="request", versions="0-2", flexible="2+", api_key=21):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+", default_factory=list)
    timeout_ms: int = int32("0+", default=0)
