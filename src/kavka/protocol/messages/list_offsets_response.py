"""ListOffsetsResponse: response, API key 2, versions 0-11, flexible from 6.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 1-11.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    old_style_offsets: list[int] = array("int64", "0", default_factory=list)
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string("0+", default="")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+", default_factory=list)


class ListOffsetsResponse(Message, kind="response", versions="0-11", flexible="6+", api_key=2):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+", default_factory=list)
