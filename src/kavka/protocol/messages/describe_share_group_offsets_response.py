"""DescribeShareGroupOffsetsResponse: response, API key 90, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, int64, string, uuid


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string("0+", default="")
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition, "0+", default_factory=list
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = string("0+", default="")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic, "0+", default_factory=list
    )
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=90):
    throttle_time_ms: int = int32("0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup, "0+", default_factory=list
    )
