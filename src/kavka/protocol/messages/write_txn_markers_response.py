"""WriteTxnMarkersResponse: response, API key 27, versions 0-2, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class WritableTxnMarkerTopicResult(Struct):
    name: str = string("0+", default="")
    partitions: list[WritableTxnMarkerPartitionResult] = array(
        WritableTxnMarkerPartitionResult, "0+", default_factory=list
    )


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64("0+", default=0)
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+", default_factory=list)


class WriteTxnMarkersResponse(Message, kind="response", versions="0-2", flexible="1+", api_key=27):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+", default_factory=list)
