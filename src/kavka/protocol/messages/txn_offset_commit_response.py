"""TxnOffsetCommitResponse: response, API key 28, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[TxnOffsetCommitResponsePartition] = array(
        TxnOffsetCommitResponsePartition, "0+", default_factory=list
    )


class TxnOffsetCommitResponse(Message, kind="response", versions="0-5", flexible="3+", api_key=28):
    throttle_time_ms: int = int32("0+", default=0)
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+", default_factory=list)
