"""OffsetForLeaderEpochResponse: response, API key 23, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 2-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class EpochEndOffset(Struct):
    error_code: int = int16("0+", default=0)
    partition: int = int32("0+", default=0)
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+", default="")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+", default_factory=list)


class OffsetForLeaderEpochResponse(Message, kind="response", versions="0-4", flexible="4+", api_key=23):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+", default_factory=list)
